"""Reads behind the recent changes: changes of health, installed and removed operators, and the
number of failing operators by day.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    DateField,
    DateTimeField,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce, TruncDate
from django.utils import timezone

from installs.models import FAILING, NEEDS_ATTENTION, Action, Health, Transition
from olmweb.models import Cluster, SyncRun

CHANGES_SHOWN = 12
HOUR, DAY = timedelta(hours=1), timedelta(hours=24)
ROWS_LIMIT = 5000
# Of each change, beside its type, statuses and time. Thousands of model instances would take long.
_SHOWN = ("pk", "cluster", "kind", "namespace", "name", "to_reason")
_IDENTITY = ("cluster", "kind", "namespace", "name")
OPERATOR_KINDS = ("PlatformOperator", "ClusterExtension", "Subscription", "ClusterServiceVersion")
# Direction -> its words, in the order of the columns.
DIRECTIONS = {
    "failed": "new failures",
    "recovered": "recovered",
    "installed": "installed or upgraded",
    "removed": "removed",
}
BAR_HEIGHT = 40
TREND_DAYS, TREND_HEIGHT = 30, 60
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

    `first_seen` counts operators of the first sync, whose state is no change, and `added` those
    that came later; both are 0 for several clusters, whose page does not show them.
    """

    directions: tuple[Direction, ...]
    hours: tuple[Hour, ...]
    changes: tuple[Transition, ...]
    first_seen: int = 0
    added: int = 0

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
    rows = _changes_since(clusters, now - DAY, first_seen=len(clusters) == 1)
    counts = [dict.fromkeys(DIRECTIONS, 0) for _ in range(24)]
    for kind, before, after, at, *_ in rows:
        if direction := direction_of(kind, before, after):
            past = int((now - at) / HOUR)
            counts[23 - min(23, max(0, past))][direction] += 1
    directions = tuple(
        Direction(name, words, counts[-1][name], sum(hour[name] for hour in counts))
        for name, words in DIRECTIONS.items()
    )
    first = {
        tuple(names) for kind, before, _, _, _, *names, _ in rows if kind == "Health" and not before
    }
    later = {tuple(names) for _, _, after, _, _, *names, _ in rows if after == "appeared"}
    latest = _as_transitions(clusters, rows[:CHANGES_SHOWN])
    return Recent(directions, _hours(counts, now), latest, len(first - later), len(first & later))


def changes_of_week(clusters: Sequence[Cluster]) -> tuple[dict[str, int], tuple[Transition, ...]]:
    """How many operators went each way of DIRECTIONS in the last seven days, and these changes,
    newest first; one query."""
    rows = [
        (direction, row)
        for row in _changes_since(clusters, timezone.now() - 7 * DAY, first_seen=False)
        if (direction := direction_of(*row[:3]))
    ]
    counts = Counter(direction for direction, _ in rows)
    return {name: counts[name] for name in DIRECTIONS}, _as_transitions(
        clusters, [row for _, row in rows]
    )


def _changes_since(
    clusters: Sequence[Cluster], start: datetime, *, first_seen: bool
) -> list[tuple[Any, ...]]:
    """(type, status before, status after, time, and the columns _SHOWN), newest first.

    `first_seen` adds the health at the first observation, which is no change: the first sync of a
    cluster writes one for each operator.
    """
    health = Q(type="Health") if first_seen else Q(type="Health") & ~Q(from_status="")
    news = health | Q(type="Object", to_status__in=("appeared", "deleted"))
    return list(
        Transition.objects.filter(
            news,
            cluster__in=[cluster.pk for cluster in clusters],
            kind__in=OPERATOR_KINDS,
            at__gte=start,
        )
        .order_by("-at", "-pk")
        .values_list("type", "from_status", "to_status", "at", *_SHOWN)[:ROWS_LIMIT]
    )


def _as_transitions(
    clusters: Sequence[Cluster], rows: Iterable[tuple[Any, ...]]
) -> tuple[Transition, ...]:
    by_id = {cluster.pk: cluster for cluster in clusters}
    transitions = []
    for kind, before, after, at, pk, cluster, *names in rows:
        row = Transition(pk, type=kind, from_status=before, to_status=after, at=at)
        row.cluster = by_id[cluster]
        row.kind, row.namespace, row.name, row.to_reason = names
        transitions.append(row)
    return tuple(transitions)


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


# --- failing operators by day ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FailureHistory:
    """Of several clusters together: the latest of their first syncs (None if one is unknown), the
    actions in progress, and of each day the failures that began less those that ended."""

    first_sync: datetime | None
    open_actions: int
    failures: dict[date, int]


@dataclass(frozen=True, slots=True)
class TrendDay:
    """The operators failing at the end of a day; `count` is None if it was not recorded. `y` and
    `height` are those of its bar, in a box of TREND_HEIGHT."""

    day: date
    count: int | None
    x: int
    y: int = TREND_HEIGHT
    height: int = 0


@dataclass(frozen=True, slots=True)
class Trend:
    """Failing operators (failed, degraded or blocked) of the last TREND_DAYS days, oldest first;
    the last day is today, until now."""

    days: tuple[TrendDay, ...]

    @property
    def now(self) -> int:
        return self.days[-1].count or 0

    @property
    def top(self) -> int:
        return max(day.count or 0 for day in self.days)

    @property
    def unknown_days(self) -> int:
        return sum(day.count is None for day in self.days)

    @property
    def unknown_width(self) -> int:
        return self.unknown_days * 10 - 3

    @property
    def since(self) -> date | None:
        """The first recorded day, where days before it are not recorded."""
        return self.days[self.unknown_days].day if 0 < self.unknown_days < TREND_DAYS else None

    @property
    def sentence(self) -> str:
        """`43 failed, degraded or blocked now, 12 more than 7 days ago`."""
        before = self.days[-8].count
        if before is None:
            return f"{self.now} failed, degraded or blocked now"
        change = self.now - before
        compared = f"{abs(change)} {'more' if change > 0 else 'fewer'} than"
        compared = compared if change else "as many as"
        return f"{self.now} failed, degraded or blocked now, {compared} 7 days ago"


def trend(failing: int, history: FailureHistory) -> Trend:
    """The days of the clusters with this history, of which `failing` operators fail now.

    Counts back from now: each change of health, or deletion, that began or ended a failure. A day
    is unknown if one of the clusters was not synced yet, or its first sync is past the retention
    period.
    """
    today = timezone.localdate()
    first = history.first_sync and timezone.localdate(history.first_sync)
    counts: list[int | None] = []
    count = failing
    for past in range(TREND_DAYS):
        day = today - DAY * past
        counts.append(max(0, count) if first is not None and day >= first else None)
        count -= history.failures.get(day, 0)
    counts[0] = failing
    counts.reverse()
    top = max(count or 0 for count in counts) or 1
    return Trend(
        tuple(
            _trend_day(today - DAY * (TREND_DAYS - 1 - index), count, index * 10, top)
            for index, count in enumerate(counts)
        )
    )


def _trend_day(day: date, count: int | None, x: int, top: int) -> TrendDay:
    """A bar that is not zero is never too low to see."""
    height = max(2, round(count * TREND_HEIGHT / top)) if count else 0
    return TrendDay(day, count, x, TREND_HEIGHT - height, height)


def failure_history(clusters: Sequence[Cluster]) -> FailureHistory:
    """One query, with a row for each cluster, and one for each day with a change. Only clusters
    that were synced have failures.

    The history of a deletion has no health: it ends what the last change of health before it says.
    """
    synced = [cluster.pk for cluster in clusters if cluster.synced_at]
    starts: list[datetime | None] = []
    open_actions = 0
    failures: dict[date, int] = {}
    # The rows of a cluster have no day, and its open actions in the place of `began`.
    rows = _of_clusters([cluster.pk for cluster in clusters])
    for pk, first_sync, day, began, ended in rows.union(_failures_by_day(synced), all=True):
        if day is not None:
            failures[day] = began - ended
            continue
        open_actions += began
        if pk in synced:
            starts.append(first_sync)
    known = [start for start in starts if start is not None]
    first = max(known) if known and len(known) == len(starts) else None
    return FailureHistory(first, open_actions, failures)


def _of_clusters(ids: Sequence[int]) -> QuerySet[Any, Any]:
    """(cluster, first sync, no day, open actions, 0)"""
    outcomes = SyncRun.Outcome
    first_sync = (
        SyncRun.objects.filter(
            kind=SyncRun.Kind.CLUSTER,
            target=OuterRef("name"),
            outcome__in=(outcomes.CHANGED, outcomes.UNCHANGED),
        )
        .order_by("started_at")
        .values("started_at")[:1]
    )
    open_actions = (
        Action.objects.filter(cluster=OuterRef("pk"), state__in=Action.OPEN)
        .order_by()
        .values("cluster")
        .annotate(number=Count("pk"))
        .values("number")
    )
    return (
        Cluster.objects.filter(pk__in=ids)
        .order_by()
        .values_list(
            "pk",
            Subquery(first_sync),
            Value(None, DateField()),
            Coalesce(Subquery(open_actions), 0),
            Value(0),
        )
    )


def _failures_by_day(ids: Sequence[int]) -> QuerySet[Any, Any]:
    """(no cluster, no time, day, failures that began, failures that ended)"""
    last_health = (
        Transition.objects.filter(
            type="Health", at__lt=OuterRef("at"), **{name: OuterRef(name) for name in _IDENTITY}
        )
        .order_by("-at", "-pk")
        .values("to_status")[:1]
    )
    health = Q(type="Health") & (Q(from_status__in=FAILING) ^ Q(to_status__in=FAILING))
    deleted = Q(type="Object", to_status="deleted", from_status="present")
    return (
        Transition.objects.filter(
            health | deleted,
            cluster__in=ids,
            kind__in=OPERATOR_KINDS,
            at__gte=timezone.now() - DAY * (TREND_DAYS + 1),
        )
        .order_by()
        .annotate(
            day=TruncDate("at"),
            before=Case(When(type="Object", then=Subquery(last_health)), default=F("from_status")),
        )
        .values("day")
        .annotate(
            began=Count("pk", filter=Q(to_status__in=FAILING)),
            ended=Count("pk", filter=Q(before__in=FAILING)),
        )
        .values_list(
            Value(None, BigIntegerField()), Value(None, DateTimeField()), "day", "began", "ended"
        )
    )
