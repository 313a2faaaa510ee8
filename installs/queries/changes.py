"""Reads behind the recent changes: changes of health, installed and removed operators, and the
number of failing operators by day.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import Any

from django.conf import settings
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Subquery, Value, When
from django.utils import timezone

from installs.models import FAILING, NEEDS_ATTENTION, Action, Health, Operator, Transition
from olmweb.models import Cluster, SyncRun
from olmweb.web.revisions import PerRevision

CHANGES_SHOWN = 12
HOUR, DAY, WEEK = timedelta(hours=1), timedelta(hours=24), timedelta(days=7)
# Of each change, beside its type, statuses and time. Thousands of model instances would take long.
_SHOWN = ("pk", "cluster", "kind", "namespace", "name", "to_reason")
_BY_TIME = itemgetter(3, 4)  # time and id
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
READ_AGAIN = HOUR  # the whole history of a cluster
OVERLAP = timedelta(minutes=2)  # longer than a transaction, whose rows have the time of its start
_BAD = tuple(str(value) for value in NEEDS_ATTENTION)
_FAILING = frozenset(str(value) for value in FAILING)
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
    that came later; both are 0 for several clusters, whose page does not show them. Of the removed
    operators `failing_removed` were failing, and `replaced` of these have a healthy operator of the
    same name on their cluster now.
    """

    directions: tuple[Direction, ...]
    hours: tuple[Hour, ...]
    changes: tuple[Transition, ...]
    first_seen: int = 0
    added: int = 0
    failing_removed: int = 0
    replaced: int = 0

    def day(self, direction: str) -> int:
        return next(item.day for item in self.directions if item.id == direction)

    @property
    def failed(self) -> int:
        return self.day("failed")

    @property
    def recovered(self) -> int:
        return self.day("recovered")

    @property
    def removed(self) -> int:
        return self.day("removed")

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
    """Changes on these clusters in the last 24 hours; two queries if clusters changed, and one if
    failing operators were removed."""
    now = timezone.now()
    histories = _HISTORIES.of(clusters).values()
    rows = [row for history in histories for row in history.latest.values() if row[3] >= now - DAY]
    if len(clusters) > 1:
        rows = [row for row in rows if row[0] == "Object" or row[1]]
    rows.sort(key=_BY_TIME, reverse=True)
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
    ended = {pk for history in histories for pk, (_, turn) in history.turns.items() if turn < 0}
    failing = [
        (cluster, name)
        for kind, _, after, _, pk, cluster, _, _, name, _ in rows
        if kind == "Object" and after == "deleted" and pk in ended
    ]
    healthy: set[tuple[int, str]] = set()
    if failing:
        operators = Operator.objects.filter(
            cluster__in={cluster for cluster, _ in failing},
            name__in={name for _, name in failing},
            health=Health.HEALTHY,
        )
        healthy.update(operators.order_by().values_list("cluster", "name"))
    return Recent(
        directions,
        _hours(counts, now),
        latest,
        first_seen=len(first - later),
        added=len(first & later),
        failing_removed=len(failing),
        replaced=sum(entry in healthy for entry in failing),
    )


def changes_of_week(clusters: Sequence[Cluster]) -> tuple[dict[str, int], tuple[Transition, ...]]:
    """How many operators went each way of DIRECTIONS in the last seven days, and these changes,
    newest first; two queries if clusters changed."""
    start = timezone.now() - WEEK
    stored = (history.latest.values() for history in _HISTORIES.of(clusters).values())
    rows = [row for row in chain.from_iterable(stored) if row[3] >= start]
    rows.sort(key=_BY_TIME, reverse=True)
    changes = [(direction, row) for row in rows if (direction := direction_of(*row[:3]))]
    counts = Counter(direction for direction, _ in changes)
    return {name: counts[name] for name in DIRECTIONS}, _as_transitions(
        clusters, [row for _, row in changes]
    )


def counted(direction: str, count: int) -> str:
    """`1 new failure`, `2 recovered`."""
    words = DIRECTIONS[direction]
    return f"{count} {words[:-1] if (direction, count) == ('failed', 1) else words}"


def _changes() -> QuerySet[Transition]:
    """Those of operators: changes of health, and objects that appeared or were deleted. The
    ClusterServiceVersion of a Subscription is no operator: its health is not recorded."""
    healths = Transition.objects.filter(
        type="Health", **{name: OuterRef(name) for name in _IDENTITY}
    )
    is_operator = ~Q(kind="ClusterServiceVersion") | Exists(healths)
    existence = Q(type="Object", to_status__in=("appeared", "deleted")) & is_operator
    return Transition.objects.filter(Q(type="Health") | existence, kind__in=OPERATOR_KINDS)


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
    failures: Mapping[date, int]


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


@dataclass(frozen=True, slots=True)
class _ClusterHistory:
    """Of one cluster: its first sync; when failures of its operators began (1) or ended (-1) in the
    last TREND_DAYS days; and the changes of the last day, with the health at a first observation,
    and those in one of DIRECTIONS of the last week: (type, status before, status after, time, and
    the columns _SHOWN). Both by id of the Transition. `whole_at`: when all of it was read;
    `read_at`: when the newest of it was."""

    first_sync: datetime | None
    whole_at: datetime
    read_at: datetime
    turns: Mapping[int, tuple[datetime, int]] = field(default_factory=dict)
    latest: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)
    by_zone: dict[tzinfo, Counter[date]] = field(default_factory=dict)

    def by_day(self) -> Counter[date]:
        """The failures that began less those that ended, by day of the reader's time zone."""
        zone = timezone.get_current_timezone()
        days = self.by_zone.get(zone)
        if days is None:
            days = Counter()
            for at, turn in self.turns.values():
                days[at.astimezone(zone).date()] += turn
            self.by_zone[zone] = days
        return days


def failure_history(clusters: Sequence[Cluster]) -> FailureHistory:
    """One query, and two more if clusters changed. Only clusters that were synced have failures."""
    ids = [cluster.pk for cluster in clusters]
    histories = _HISTORIES.of(cluster for cluster in clusters if cluster.synced_at)
    first_syncs = {pk: history.first_sync for pk, history in histories.items()}
    # The run of a first sync is stored behind the rows of the cluster, without a new revision.
    if missing := [pk for pk, first_sync in first_syncs.items() if first_sync is None]:
        first_syncs |= _first_syncs(missing)
    failures: Counter[date] = Counter()
    for history in histories.values():
        failures.update(history.by_day())
    retained = timezone.now() - timedelta(days=settings.RETENTION_DAYS)
    known = [at for at in first_syncs.values() if at is not None and at >= retained]
    return FailureHistory(
        first_sync=max(known) if known and len(known) == len(first_syncs) else None,
        open_actions=Action.objects.filter(cluster__in=ids, state__in=Action.OPEN).count(),
        failures=failures,
    )


def _first_syncs(ids: Collection[int]) -> dict[int, datetime | None]:
    """One query."""
    outcomes = SyncRun.Outcome
    syncs = SyncRun.objects.filter(
        kind=SyncRun.Kind.CLUSTER,
        target=OuterRef("name"),
        outcome__in=(outcomes.CHANGED, outcomes.UNCHANGED),
    ).order_by("started_at")
    rows = Cluster.objects.filter(pk__in=ids).order_by()
    return dict(rows.values_list("pk", Subquery(syncs.values("started_at")[:1])))


def _read_histories(ids: Collection[int]) -> dict[int, _ClusterHistory]:
    """Two queries at most. If all of the clusters were read within READ_AGAIN, only what was
    written since then: those of a busy fleet change every second, with thousands of transitions.

    Until the next whole read, a ClusterServiceVersion that becomes an operator long after it
    appeared counts as first seen.
    """
    now = timezone.now()
    stored = {
        pk: history
        for pk in ids
        if (history := _HISTORIES.stored(pk)) and now - history.whole_at < READ_AGAIN
    }
    start = now - DAY * (TREND_DAYS + 1)
    if len(stored) == len(ids):
        start = min(history.read_at for history in stored.values()) - OVERLAP
    else:
        stored = {}  # one condition for all of them: the index of times serves it
    turns: dict[int, dict[int, tuple[datetime, int]]] = defaultdict(dict)
    latest: dict[int, dict[int, tuple[Any, ...]]] = defaultdict(dict)
    for before, *change in _turns().filter(cluster__in=ids, at__gte=start):
        _, _, after, at, pk, cluster, *_ = change
        if turn := (after in _FAILING) - (before in _FAILING):
            turns[cluster][pk] = at, turn
        if at >= now - DAY or (at >= now - WEEK and direction_of(*change[:3])):
            latest[cluster][pk] = tuple(change)
    first_syncs = {pk: history.first_sync for pk, history in stored.items()}
    if unknown := [pk for pk in ids if first_syncs.get(pk) is None]:
        first_syncs |= _first_syncs(unknown)
    histories = {}
    for pk, first_sync in first_syncs.items():
        earlier = stored.get(pk) or _ClusterHistory(first_sync, whole_at=now, read_at=now)
        histories[pk] = _ClusterHistory(
            first_sync,
            whole_at=earlier.whole_at,
            read_at=now,
            turns={**earlier.turns, **turns[pk]},
            latest={**earlier.latest, **latest[pk]},
            by_zone=earlier.by_zone if turns[pk].keys() <= earlier.turns.keys() else {},
        )
    return histories


_HISTORIES = PerRevision(_read_histories)


@cache
def _turns() -> QuerySet[Any, Any]:
    """(health before, and the columns of `latest`) of every change. That of a deletion has no
    health: the operator had that of the last change of health before it. Every overview reads those
    of a few clusters: building this takes longer than reading."""
    last_health = (
        Transition.objects.filter(
            type="Health", at__lt=OuterRef("at"), **{name: OuterRef(name) for name in _IDENTITY}
        )
        .order_by("-at", "-pk")
        .values("to_status")[:1]
    )
    deleted = When(type="Object", to_status="deleted", from_status="present", then=last_health)
    health = When(type="Health", then=F("from_status"))
    return (
        _changes()
        .order_by()
        .annotate(before=Case(deleted, health, default=Value("")))
        .values_list("before", "type", "from_status", "to_status", "at", *_SHOWN)
    )
