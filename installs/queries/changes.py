"""Reads behind the recent changes: changes of health, installed and removed operators."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from installs.models import NEEDS_ATTENTION, Health, Transition
from olmweb.models import Cluster

CHANGES_SHOWN = 12
HOUR, DAY = timedelta(hours=1), timedelta(hours=24)
ROWS_LIMIT = 5000
# Of each change, beside its type, statuses and time. Thousands of model instances would take long.
_SHOWN = ("pk", "cluster", "kind", "namespace", "name", "to_reason")
OPERATOR_KINDS = ("PlatformOperator", "ClusterExtension", "Subscription", "ClusterServiceVersion")
# Direction -> its words, in the order of the columns.
DIRECTIONS = {
    "failed": "new failures",
    "recovered": "recovered",
    "installed": "installed or upgraded",
    "removed": "removed",
}
BAR_HEIGHT = 40
_BAD = tuple(str(value) for value in NEEDS_ATTENTION)
_WORKING = (str(Health.INSTALLING), str(Health.UPGRADING), str(Health.NEEDS_APPROVAL))


@dataclass(frozen=True, slots=True)
class Direction:
    """How many operators went this way in the last hour and in the last day."""

    id: str
    words: str
    hour: int
    day: int


@dataclass(frozen=True, slots=True)
class Bar:
    """One part of the bar of an hour; pixels in a box of BAR_HEIGHT."""

    css: str
    y: int
    height: int


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of the last 24, which ends at `until`."""

    until: datetime
    counts: tuple[int, ...]  # in the order of DIRECTIONS
    bars: tuple[Bar, ...]
    x: int

    @property
    def total(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Recent:
    """The changes of the last 24 hours; `hours` are 24, oldest first.

    `first_seen` counts operators observed for the first time, whose state is no change.
    """

    directions: tuple[Direction, ...]
    hours: tuple[Hour, ...]
    changes: tuple[Transition, ...]
    first_seen: int = 0

    def day(self, direction: str) -> int:
        return next(item.day for item in self.directions if item.id == direction)

    @property
    def failed(self) -> int:
        return self.day("failed")

    @property
    def recovered(self) -> int:
        return self.day("recovered")

    @property
    def any(self) -> bool:
        return any(item.day for item in self.directions)


def direction_of(kind: str, before: str, after: str) -> str:
    """The direction of a change of an operator, by the type and the statuses of its Transition;
    empty if it is none, as between two bad states.

    A first observation is no change, and after an approval or installation nothing recovers.
    """
    if kind == "Object":
        return "removed" if after == "deleted" else ""
    if not before:
        return ""
    if after in _BAD:
        is_new = before not in _BAD or before == Health.NEEDS_APPROVAL
        return "failed" if is_new and after != Health.NEEDS_APPROVAL else ""
    if after != Health.HEALTHY:
        return ""
    if before in _WORKING:
        return "installed"
    return "recovered" if before in _BAD else ""


def recent(clusters: Sequence[Cluster]) -> Recent:
    """Changes on these clusters in the last 24 hours; one query."""
    now = timezone.now()
    news = Q(type="Health") | Q(type="Object", to_status__in=("appeared", "deleted"))
    rows = list(
        Transition.objects.filter(
            news,
            cluster__in=[cluster.pk for cluster in clusters],
            kind__in=OPERATOR_KINDS,
            at__gte=now - DAY,
        )
        .order_by("-at", "-pk")
        .values_list("type", "from_status", "to_status", "at", *_SHOWN)[:ROWS_LIMIT]
    )
    counts = [dict.fromkeys(DIRECTIONS, 0) for _ in range(24)]
    for kind, before, after, at, *_ in rows:
        if direction := direction_of(kind, before, after):
            past = int((now - at) / HOUR)
            counts[23 - min(23, max(0, past))][direction] += 1
    directions = tuple(
        Direction(name, words, counts[-1][name], sum(hour[name] for hour in counts))
        for name, words in DIRECTIONS.items()
    )
    first_seen = sum(kind == "Health" and not before for kind, before, *_ in rows)
    by_id = {cluster.pk: cluster for cluster in clusters}
    latest = []
    for kind, before, after, at, pk, cluster, *names in rows[:CHANGES_SHOWN]:
        row = Transition(pk, type=kind, from_status=before, to_status=after, at=at)
        row.cluster = by_id[cluster]
        row.kind, row.namespace, row.name, row.to_reason = names
        latest.append(row)
    return Recent(directions, _hours(counts, now), tuple(latest), first_seen)


def _hours(counts: Sequence[dict[str, int]], now: datetime) -> tuple[Hour, ...]:
    top = max((sum(hour.values()) for hour in counts), default=0) or 1
    return tuple(
        Hour(now - HOUR * (23 - index), tuple(hour.values()), _bars(hour, top), index * 10)
        for index, hour in enumerate(counts)
    )


def _bars(hour: dict[str, int], top: int) -> tuple[Bar, ...]:
    """Stacked from the bottom; a part that is not zero is never too thin to see."""
    bars, floor = [], BAR_HEIGHT
    for name, count in hour.items():
        if count:
            height = max(3, round(count * BAR_HEIGHT / top))
            floor -= height
            bars.append(Bar(name, floor, height))
    return tuple(bars)
