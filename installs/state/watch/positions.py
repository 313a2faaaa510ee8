"""Where the watches of a cluster start, and the rows of ResourceWatch and Cluster with their state.

A watch continues from the position in its row. A full pass (installs.state.full_sync) comes first
if that is impossible: the cluster was never read, serves other kinds than it did, was restored from
a backup, or many watched resources have no position.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from installs.models import Component
from installs.state.decode.workloads import runs
from installs.state.listing import ABSENT, SERVED
from installs.state.resources import (
    WATCHED_RESOURCES,
    WatchedResource,
    resources_of_kinds,
    served_by,
)
from installs.state.watch.backoff import WatchState
from installs.state.write import REACHABLE
from olmweb.eventlog.record import record_reachable
from olmweb.kube.client import Discovery, KubeClient
from olmweb.kube.errors import ConfigError, KubeError, Unauthorized, Unreachable
from olmweb.kube.resources import EVENTS, Served
from olmweb.models import Cluster, ResourceWatch
from olmweb.runtime.leases import fenced_transaction, still_held

# A safety net under the watches: a list repairs whatever events were lost, and decodes again what
# an older version of OLM Web decoded. A few lists per session, so that they never come all at once.
LIST_AGAIN = timedelta(hours=1)
LISTS_AT_ONCE = 3
MANY = 5  # more resources than this without a position are read by a full pass


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """What a session watches. `rows` are the Streams by name of the watched resource."""

    discovery: Discovery
    rows: Mapping[str, ResourceWatch]
    watches: dict[str, WatchState]

    def fits(self, discovery: Discovery) -> bool:
        """Whether the cluster still serves the same watched resources."""
        return served_resources(discovery) == served_resources(self.discovery)

    def highest(self) -> int:
        """The newest position, except that of Events, which may be in a separate etcd."""
        positions = [
            watch.position
            for watch in self.watches.values()
            if watch.watched.resource is not EVENTS
        ]
        return max((int(position) for position in positions if position.isdigit()), default=0)


def served_resources(discovery: Discovery) -> dict[WatchedResource, Served | None]:
    """The served API of each watched resource, None if it is not served. Resources whose discovery
    failed are left out."""
    served: dict[WatchedResource, Served | None] = {}
    for watched in WATCHED_RESOURCES:
        with suppress(KubeError):
            served[watched] = served_by(watched, discovery)
    return served


def stored_discovery(cluster: Cluster) -> Discovery | None:
    """The kinds that the cluster served when its positions were stored. None unless each kind was
    read or absent then and the cluster has answered since.

    They may be out of date, so a session that begins with them looks them up a little later; a
    CRD that changed meanwhile is in the events of its watch.
    """
    if cluster.synced_at is None or cluster.error_code or cluster.unreachable_since is not None:
        return None
    served: dict[str, Served] = {}
    for kind, resource in {watched.kind: watched.resource for watched in WATCHED_RESOURCES}.items():
        stored = cluster.kinds.get(kind, {})
        if stored.get("state") == SERVED and stored.get("version") in resource.versions:
            served[kind] = Served(resource, stored["version"])
        elif stored.get("state") != ABSENT:
            return None
    return Discovery(served, {})


def make_plan(discovery: Discovery, rows: Mapping[str, ResourceWatch]) -> SessionPlan:
    """Continues each served resource from its row; the oldest lists are requested again."""
    watches = {}
    for watched, served in served_resources(discovery).items():
        if served is None:
            continue
        row = rows.get(watched.name)
        watch = WatchState(watched, served)
        if row is not None:
            watch.state, watch.error = watch.saved = row.state, row.error
            if row.listed_at is not None and row.state != ResourceWatch.State.ABSENT:
                watch.position = row.resource_version
        watches[watched.name] = watch
    limit = timezone.now() - LIST_AGAIN
    listed = sorted(
        (row.listed_at, name)
        for name, row in rows.items()
        if row.listed_at is not None and row.listed_at < limit and name in watches
    )
    for _, name in listed[:LISTS_AT_ONCE]:
        watches[name].position = ""
    return SessionPlan(discovery, rows, watches)


def needs_pass(cluster: Cluster, plan: SessionPlan) -> bool:
    """Whether a full pass must come before the watches."""
    if cluster.synced_at is None or _served_kinds_changed(cluster, plan.discovery):
        return True
    return len([name for name in plan.watches if name not in plan.rows]) > MANY


def _served_kinds_changed(cluster: Cluster, discovery: Discovery) -> bool:
    """Whether a kind appeared, vanished or changed its API version since the last pass."""
    served_now = served_resources(discovery)
    for kind, stored in cluster.kinds.items():
        resources = resources_of_kinds((kind,))
        if not all(watched in served_now for watched in resources):
            continue
        served = [offered for watched in resources if (offered := served_now[watched]) is not None]
        if bool(served) == (stored.get("state") == ABSENT):
            return True
        if served and stored.get("version") not in (served[0].version, ""):
            return True
    return False


def was_rewound(client: KubeClient, plan: SessionPlan, highest: int) -> bool:
    """Whether the cluster is older than the stored positions: restored from a backup or recreated.

    A watch from a future resourceVersion gets no events until then, so this is checked first. One
    request if the first resource may be listed. Raises Unreachable, Unauthorized and ConfigError.
    """
    for watch in plan.watches.values():
        if watch.watched.resource is EVENTS:
            continue
        try:
            page = next(client.list_pages(watch.served.resource, watch.served.version, limit=1))
        except (Unreachable, Unauthorized, ConfigError):
            raise
        except KubeError:
            continue  # an error of this resource: try the next one
        return page.resource_version.isdigit() and int(page.resource_version) < highest
    client.version()
    return False


# -- rows ------------------------------------------------------------------------------------------


def watch_rows_of(cluster: Cluster) -> dict[str, ResourceWatch]:
    return {row.resource: row for row in ResourceWatch.objects.filter(cluster=cluster)}


def save_watches(cluster: Cluster, watches: Sequence[WatchState]) -> None:
    """Writes state, error and number of watch requests, in one transaction. At the start of a
    session those of nearly all watches are the same, which is then one statement."""
    names: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for watch in watches:
        names[watch.state, watch.error, watch.watches].append(watch.watched.name)
    with fenced_transaction():
        for (state, error, requests), alike in names.items():
            rows = ResourceWatch.objects.filter(cluster=cluster, resource__in=alike)
            rows.update(state=state, error=error, watches=F("watches") + requests)
    for watch in watches:
        watch.saved, watch.watches = (watch.state, watch.error), 0


def confirm_current(cluster: Cluster, now: datetime) -> None:
    """Sets the times of a cluster that is being watched, without a change."""
    Cluster.objects.filter(still_held(), pk=cluster.pk).update(synced_at=now, checked_at=now)


def mark_reachable(cluster: Cluster) -> bool:
    """Marks the cluster as reachable; returns whether it was not."""
    now = timezone.now()
    unreachable = Cluster.objects.filter(still_held(), pk=cluster.pk).exclude(
        reachable=True, error_code="", unreachable_since=None
    )
    before = unreachable.first()
    if before is None:
        return False
    values = REACHABLE | {"synced_at": now, "checked_at": now, "revision": F("revision") + 1}
    with transaction.atomic():
        if not unreachable.update(**values):
            return False
        if before.reachable is False:
            record_reachable(before, now)
    return True


def pods_are_needed(cluster: Cluster) -> bool:
    """Whether a Deployment of an operator has fewer pods available than it wants, or OLM is not
    connected to a CatalogSource."""
    rows = Component.objects.filter(cluster=cluster, kind__in=("Deployment", "CatalogSource"))
    return not all(map(runs, rows.only("kind", "details")))
