"""One reading of a cluster: what it serves, and every object of the kinds we keep. No database.

One kind that can't be read is that kind's outcome and nobody else's; only a cluster that gives no
answer at all, refuses our credentials, or lets us read nothing raises.
"""

from dataclasses import dataclass, field
from typing import Any

from installs.sync.decode import DECODERS, Kept, text
from olmweb.kube.client import Discovery, KubeClient
from olmweb.kube.errors import ConfigError, Forbidden, KubeError, Unauthorized, Unreachable
from olmweb.kube.resources import ALL, CLUSTER_CATALOGS, CLUSTER_VERSIONS, Served

_KEPT = ("PlatformOperator", "ClusterExtension", "BundleDeployment", "Bundle", "ClusterOperator")
SERVED, ABSENT, FORBIDDEN, FAILED = "served", "absent", "forbidden", "failed"


@dataclass(frozen=True, slots=True)
class KindRead:
    """Outcome of one kind. `objects` is the complete list when `authoritative`, else empty."""

    state: str
    version: str = ""
    objects: tuple[Kept, ...] = ()
    raw: tuple[dict[str, Any], ...] = ()  # of ClusterCatalogs only, which catalogs.sync keeps
    count: int = 0
    error: str = ""

    @property
    def authoritative(self) -> bool:
        """What is not in `objects` does not exist."""
        return self.state in (SERVED, ABSENT)


@dataclass(frozen=True, slots=True)
class Snapshot:
    kinds: dict[str, KindRead] = field(default_factory=dict)
    version: str = ""
    server: str = ""


def read_cluster(client: KubeClient) -> Snapshot:
    """Everything we keep of the cluster, in about one request a kind. Raises KubeError."""
    discovery = client.discover()
    errors: list[KubeError] = list(discovery.failed.values())
    kinds: dict[str, KindRead] = {}
    version = ""
    for resource in ALL[:8]:
        kind = resource.kind
        try:
            objects, found = _read_kind(client, kind, discovery)
        except (Unreachable, Unauthorized, ConfigError):
            raise
        except KubeError as error:
            errors.append(error)
            kinds[kind] = _unread(error)
            continue
        kinds[kind] = found
        if resource is CLUSTER_VERSIONS and objects:
            found_version = DECODERS[kind](objects[0])
            version = found_version.details["version"] if found_version else ""
    if errors and not any(one.state == SERVED for one in kinds.values()):
        raise errors[0]
    return Snapshot(kinds, version or text(client.version(), limit=100), client.server[:500])


def _read_kind(
    client: KubeClient, kind: str, discovery: Discovery
) -> tuple[list[dict[str, Any]], KindRead]:
    """(raw objects of the kinds that have no table of ours, outcome)."""
    if kind in discovery.failed:
        return [], _unread(discovery.failed[kind])
    served = discovery.served.get(kind)
    if served is None:
        return [], KindRead(ABSENT)
    raw, kept, count = _list(client, served)
    return raw, KindRead(
        SERVED,
        version=served.version,
        objects=tuple(kept),
        raw=tuple(raw) if served.resource is CLUSTER_CATALOGS else (),
        count=count,
    )


def _list(client: KubeClient, served: Served) -> tuple[list[dict[str, Any]], list[Kept], int]:
    """Decodes page by page, so that fields we don't keep go with their page."""
    decode = DECODERS.get(served.resource.kind) if served.resource.kind in _KEPT else None
    raw: list[dict[str, Any]] = []
    kept: dict[tuple[str, str, str], Kept] = {}
    for page in client.list_pages(served.resource, served.version):
        if page.restart:
            raw.clear()
            kept.clear()
        if decode is None:
            raw += page.items
        else:
            kept.update({one.key: one for item in page.items if (one := decode(item))})
    return raw, list(kept.values()), len(raw) + len(kept)


def _unread(error: KubeError) -> KindRead:
    state = FORBIDDEN if isinstance(error, Forbidden) else FAILED
    return KindRead(state, error=error.message)
