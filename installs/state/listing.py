"""Lists the watched resources of a cluster and decodes their objects. Uses no database.

A resource that can't be listed has its error in its own result; only a cluster that is unreachable
or refuses the credentials raises.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog
from django.utils import timezone

from installs.state.decode import DecodedObject
from installs.state.resources import WATCHED_RESOURCES, WatchedResource, decode, served_by
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
from olmweb.kube.fields import text
from olmweb.kube.resources import CLUSTER_VERSIONS, CONSOLES

log = structlog.get_logger(__name__)

SERVED, ABSENT, FORBIDDEN, FAILED = "served", "absent", "forbidden", "failed"


@dataclass(frozen=True, slots=True)
class ResourceList:
    """The outcome of listing one watched resource; `objects` is complete if `authoritative`.

    `resource_version` is that of the list, from which a watch continues; `version` is the version
    of the API.
    """

    state: str
    version: str = ""
    resource_version: str = ""
    objects: tuple[DecodedObject, ...] = ()
    error: str = ""
    cause: KubeError | None = None

    @property
    def authoritative(self) -> bool:
        """Whether an object that is not in `objects` does not exist."""
        return self.state in (SERVED, ABSENT)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Lists by name of the watched resource. `version` and `server` are those of the cluster, empty
    if not requested. `console` is the address of its OpenShift Console, None if not read."""

    lists: dict[str, ResourceList] = field(default_factory=dict)
    version: str = ""
    server: str = ""
    console: str | None = None
    began_at: datetime = field(default_factory=timezone.now)

    @property
    def complete(self) -> bool:
        """Whether every watched resource was requested."""
        return len(self.lists) == len(WATCHED_RESOURCES)

    def refusal(self) -> KubeError | None:
        """The error if no list at all could be read, else None."""
        errors = [result.cause for result in self.lists.values() if result.cause is not None]
        if any(result.state == SERVED for result in self.lists.values()):
            return None
        return errors[0] if errors else None


def list_resources(
    client: KubeClient,
    resources: Iterable[WatchedResource] = WATCHED_RESOURCES,
    discovery: Discovery | None = None,
) -> Snapshot:
    """Lists these resources with about one request each, after a discovery if none is given.

    Raises Unreachable, Unauthorized and ConfigError, which concern the cluster as a whole, and
    Abandoned. Any other error is part of the result of its resource.
    """
    began = timezone.now()
    discovery = discovery or client.discover()
    lists: dict[str, ResourceList] = {}
    version = console = None
    for watched in resources:
        try:
            result = _list_resource(client, watched, discovery)
        except (Unreachable, Unauthorized, ConfigError, Abandoned):
            raise
        except KubeError as error:
            state = FORBIDDEN if isinstance(error, Forbidden) else FAILED
            result = ResourceList(state, error=error.message, cause=error)
        except Exception as caught:
            fault = internal_error(client, watched, caught)
            result = ResourceList(FAILED, error=fault.message, cause=fault)
        lists[watched.name] = result
        if watched.resource is CLUSTER_VERSIONS:
            version = next((obj.details["version"] for obj in result.objects), "")
        if watched.resource is CONSOLES and result.authoritative:
            console = next((obj.details["address"] for obj in result.objects), "")
    snapshot = Snapshot(lists, "", client.server[:500], console, began)
    if version is None or snapshot.refusal():
        return snapshot
    return replace(snapshot, version=version or text(client.version(), limit=100))


def internal_error(client: KubeClient, watched: WatchedResource, error: Exception) -> Internal:
    """Logs an unexpected exception and returns it as a KubeError with a message for users."""
    log.error("resource not read", cluster=client.name, resource=watched.name, exc_info=error)
    return Internal(
        f"Reading {watched.name} of cluster {client.name} failed inside OLM Web "
        f"({type(error).__name__}).",
        hint="The worker's log has the details; the rows shown are the last that were read.",
    )


def _list_resource(
    client: KubeClient, watched: WatchedResource, discovery: Discovery
) -> ResourceList:
    """Decodes page by page, so that only one page of full objects is in memory."""
    served = served_by(watched, discovery)
    if served is None:
        return ResourceList(ABSENT)
    objects: dict[tuple[str, str, str], DecodedObject] = {}
    resource_version = ""
    pages = client.list_pages(
        served.resource,
        served.version,
        limit=watched.page_size,
        label_selector=watched.label_selector,
        field_selector=watched.field_selector,
        narrow=watched.kind,
    )
    for page in pages:
        if page.restart:
            objects.clear()
        objects.update(
            {decoded.key: decoded for item in page.items if (decoded := decode(watched, item))}
        )
        resource_version = page.resource_version[:100]
    return ResourceList(SERVED, served.version, resource_version, tuple(objects.values()))
