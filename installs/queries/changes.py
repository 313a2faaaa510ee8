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


def direction_of(row: Transition) -> str:
    """The direction of a change of an operator; empty if it is none, as between two bad states.

    A first observation is no change, and after an approval or installation nothing recovers.
    """
    if row.type == "Object":
        return "removed" if row.to_status == "deleted" else ""
    if not row.from_status:
        return ""
    if row.to_status in _BAD:
        is_new = row.from_status not in _BAD or row.from_status == Health.NEEDS_APPROVAL
        return "failed" if is_new and row.to_status != Health.NEEDS_APPROVAL else ""
    if row.to_status != Health.HEALTHY:
        return ""
    if row.from_status in _WORKING:
        return "installed"
    return "recovered" if row.from_status in _BAD else ""


def recent(clusters: Sequence[Cluster]) -> Recent:
    """Changes on these clusters in the last 24 hours; one query."""
    now = timezone.now()
    news = Q(type="Health") | Q(type="Object", to_status__in=("appeared", "deleted"))
    rows = list(
        Transition.objects.select_related("cluster")
        .filter(
            news,
            cluster__in=[cluster.pk for cluster in clusters],
            kind__in=OPERATOR_KINDS,
            at__gte=now - DAY,
        )
        .defer("message")
        .order_by("-at", "-pk")[:ROWS_LIMIT]
    )
    counts = [dict.fromkeys(DIRECTIONS, 0) for _ in range(24)]
    for row in rows:
        if direction := direction_of(row):
            past = int((now - row.at) / HOUR)
            counts[23 - min(23, max(0, past))][direction] += 1
    directions = tuple(
        Direction(name, words, counts[-1][name], sum(hour[name] for hour in counts))
        for name, words in DIRECTIONS.items()
    )
    first_seen = sum(row.type == "Health" and not row.from_status for row in rows)
    return Recent(directions, _hours(counts, now), tuple(rows[:CHANGES_SHOWN]), first_seen)


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
