"""One reading of a cluster: what it serves, and every object of the feeds we keep. No database.

One feed that can't be read is that feed's outcome and nobody else's; only a cluster that gives no
answer at all or refuses our credentials raises.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from django.utils import timezone

from installs.state.decode import Kept, text
from installs.state.resources import FEEDS, Feed, decode, served_by
from olmweb.kube.client import Discovery, KubeClient
from olmweb.kube.errors import (
    Abandoned,
    ConfigError,
    Forbidden,
    Internal,
    KubeError,
    Unauthorized,
    Unreachable,
)
from olmweb.kube.resources import CLUSTER_VERSIONS, Served

log = structlog.get_logger(__name__)

SERVED, ABSENT, FORBIDDEN, FAILED = "served", "absent", "forbidden", "failed"


@dataclass(frozen=True, slots=True)
class FeedRead:
    """Outcome of one feed. `objects` is the complete list when `authoritative`, else empty.

    `resource_version` is the list's: a watch goes on from there. `version` is that of the API.
    """

    state: str
    version: str = ""
    resource_version: str = ""
    objects: tuple[Kept, ...] = ()
    error: str = ""
    cause: KubeError | None = None

    @property
    def authoritative(self) -> bool:
        """What is not in `objects` does not exist."""
        return self.state in (SERVED, ABSENT)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What some feeds held. `version` and `server` are the cluster's, empty when not asked for."""

    feeds: dict[str, FeedRead] = field(default_factory=dict)
    version: str = ""
    server: str = ""
    began_at: datetime = field(default_factory=timezone.now)

    @property
    def complete(self) -> bool:
        """Whether every feed was asked for."""
        return len(self.feeds) == len(FEEDS)

    def refusal(self) -> KubeError | None:
        """Why nothing at all could be read of what was asked for; None when anything could."""
        errors = [one.cause for one in self.feeds.values() if one.cause is not None]
        if any(one.state == SERVED for one in self.feeds.values()):
            return None
        return errors[0] if errors else None


def read_feeds(
    client: KubeClient, feeds: Iterable[Feed] = FEEDS, discovery: Discovery | None = None
) -> Snapshot:
    """Everything we keep of these feeds, in about one request each; asks what is served if need be.

    Raises Unreachable, Unauthorized and ConfigError, which concern the cluster as a whole, and
    Abandoned; any other KubeError, or a fault of ours, is the outcome of its feed.
    """
    began = timezone.now()
    discovery = discovery or client.discover()
    found: dict[str, FeedRead] = {}
    version = None
    for feed in feeds:
        try:
            one = _read_feed(client, feed, discovery)
        except (Unreachable, Unauthorized, ConfigError):
            raise
        except KubeError as error:
            state = FORBIDDEN if isinstance(error, Forbidden) else FAILED
            one = FeedRead(state, error=error.message, cause=error)
        except Abandoned:
            raise
        except Exception as caught:
            fault = our_fault(client, feed, caught)
            one = FeedRead(FAILED, error=fault.message, cause=fault)
        found[feed.name] = one
        if feed.resource is CLUSTER_VERSIONS:
            version = next((kept.details["version"] for kept in one.objects), "")
    snapshot = Snapshot(found, server=client.server[:500], began_at=began)
    if version is None or snapshot.refusal():
        return snapshot
    version = version or text(client.version(), limit=100)
    return Snapshot(found, version, client.server[:500], began)


def our_fault(client: KubeClient, feed: Feed, error: Exception) -> Internal:
    """Logs what went wrong inside OLM Web while it read this feed; returns it as a sentence."""
    log.error("feed not read", cluster=client.name, feed=feed.name, exc_info=error)
    return Internal(
        f"Reading {feed.name} of cluster {client.name} failed inside OLM Web "
        f"({type(error).__name__}).",
        hint="The worker's log has the details; the rows shown are the last that were read.",
    )


def _read_feed(client: KubeClient, feed: Feed, discovery: Discovery) -> FeedRead:
    served = served_by(feed, discovery)
    if served is None:
        return FeedRead(ABSENT)
    objects, resource_version = _list(client, feed, served)
    return FeedRead(SERVED, served.version, resource_version, objects)


def _list(client: KubeClient, feed: Feed, served: Served) -> tuple[tuple[Kept, ...], str]:
    """Decodes page by page, so that fields we don't keep go with their page."""
    found: dict[tuple[str, str, str], Kept] = {}
    resource_version = ""
    pages = client.list_pages(
        served.resource,
        served.version,
        limit=feed.page,
        label_selector=feed.label_selector,
        field_selector=feed.field_selector,
        narrow=feed.kind,
    )
    for page in pages:
        if page.restart:
            found.clear()
        found.update({one.key: one for item in page.items if (one := decode(feed, item))})
        resource_version = page.resource_version[:100]
    return tuple(found.values()), resource_version
