"""Reads behind a cluster's page: the state of each watched resource and the missing permissions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, IntegerField, Value
from django.utils import timezone

from installs.models import ClusterOperator, Component, CRDState, Event, Operator
from olmweb.kube.fields import read_time
from olmweb.kube.resources import ALL, Resource
from olmweb.models import Cluster, ResourceWatch

# A watch is opened anew every few minutes and the API server sends bookmarks in between.
SILENT = timedelta(minutes=10)
WORST_FIRST = ("interrupted", "retrying", "forbidden", "watching", "listed", "absent")
_RESOURCES: Mapping[str, Resource] = {resource.kind: resource for resource in ALL}
_OF_KINDS = {"served": "listed", "absent": "absent", "forbidden": "forbidden", "failed": "retrying"}


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """How the reading of one resource stands.

    `state` is one of ResourceWatch.State or `interrupted`: the row says that it is watched, but the
    cluster is not synced or the last event is older than SILENT. `objects` is None for all but
    one resource of a kind, because rows don't name their resource.
    """

    name: str
    kind: str
    state: str
    error: str
    last_event_at: datetime | None
    listed_at: datetime | None
    lists: int
    watches: int
    objects: int | None


@dataclass(frozen=True, slots=True)
class WatchedResources:
    """`rule` is the YAML of the RBAC rules that are missing, empty when none is."""

    resources: tuple[WatchStatus, ...]
    rule: str

    def count(self, *states: str) -> int:
        return sum(1 for resource in self.resources if resource.state in states)

    @property
    def watching(self) -> int:
        return self.count("watching")

    @property
    def absent(self) -> int:
        return self.count("absent")

    @property
    def served(self) -> int:
        return len(self.resources) - self.absent

    @property
    def troubled(self) -> int:
        return self.count("interrupted", "retrying", "forbidden")

    @property
    def lists(self) -> int:
        return sum(resource.lists for resource in self.resources)

    @property
    def watches(self) -> int:
        return sum(resource.watches for resource in self.resources)

    @property
    def last_event_at(self) -> datetime | None:
        times = (resource.last_event_at for resource in self.resources)
        return max(filter(None, times), default=None)


def watched_resources(cluster: Cluster) -> WatchedResources:
    """Every resource of the cluster, troubled ones first; two queries."""
    watches = list(cluster.watches.order_by("kind", "resource"))
    objects = _objects(cluster)
    resources = [_resource(row, objects, cluster.stale) for row in watches]
    streamed = {row.kind for row in watches}
    resources += [
        _unstreamed(kind, status, objects)
        for kind, status in sorted(cluster.kinds.items())
        if kind not in streamed and isinstance(status, dict)
    ]
    resources.sort(
        key=lambda resource: (WORST_FIRST.index(resource.state), resource.kind, resource.name)
    )
    forbidden = dict.fromkeys(
        resource.kind for resource in resources if resource.state == "forbidden"
    )
    return WatchedResources(_count_once(resources), missing_rules(tuple(forbidden)))


def _resource(row: ResourceWatch, objects: Mapping[str, int], cut_off: bool) -> WatchStatus:
    quiet = cut_off or row.last_event_at is None or timezone.now() - row.last_event_at > SILENT
    interrupted = row.state == ResourceWatch.State.WATCHING and quiet
    return WatchStatus(
        name=row.resource,
        kind=row.kind,
        state="interrupted" if interrupted else row.state,
        error=row.error,
        last_event_at=row.last_event_at,
        listed_at=row.listed_at,
        lists=row.lists,
        watches=row.watches,
        objects=objects.get(row.kind, 0),
    )


def _unstreamed(kind: str, status: Mapping[str, str], objects: Mapping[str, int]) -> WatchStatus:
    """A kind of which only the last pass over the cluster is known."""
    return WatchStatus(
        name=kind,
        kind=kind,
        state=_OF_KINDS.get(str(status.get("state", "")), "retrying"),
        error=str(status.get("error") or ""),
        last_event_at=None,
        listed_at=read_time(status.get("synced_at")),
        lists=0,
        watches=0,
        objects=objects.get(kind, 0),
    )


def _count_once(resources: Sequence[WatchStatus]) -> tuple[WatchStatus, ...]:
    first = {resource.kind: resource for resource in reversed(resources)}
    return tuple(
        resource
        if resource is first[resource.kind] and resource.state != "absent"
        else replace(resource, objects=None)
        for resource in resources
    )


def _objects(cluster: Cluster) -> dict[str, int]:
    """Kind -> rows that we keep of it; one query."""
    number = Count("pk", output_field=IntegerField())

    def by_kind(rows: Any) -> Any:
        return rows.filter(cluster=cluster).order_by().values_list("kind").annotate(number=number)

    events = (
        Event.objects.filter(cluster=cluster)
        .order_by()
        .annotate(what=Value("Event"))
        .values_list("what")
        .annotate(number=number)
    )
    tables = [by_kind(table.objects.all()) for table in (Component, ClusterOperator, CRDState)]
    rows = by_kind(Operator.objects.all()).union(*tables, events, all=True)
    counts: dict[str, int] = {}
    for kind, count in rows:  # a CSV without a Subscription stands in two tables
        counts[kind] = max(count, counts.get(kind, 0))
    return counts


def missing_rules(kinds: Sequence[str]) -> str:
    """The rules of a ClusterRole that let OLM Web read these kinds, as YAML; empty for none."""
    groups: dict[str, list[str]] = {}
    for kind in kinds:
        if resource := _RESOURCES.get(kind):
            groups.setdefault(resource.group, []).append(resource.plural)
    lines = []
    for group, plurals in sorted(groups.items()):
        lines += [
            f'- apiGroups: ["{group}"]',
            f"  resources: [{', '.join(sorted(plurals))}]",
            "  verbs: [get, list, watch]",
        ]
    return "\n".join(lines)
