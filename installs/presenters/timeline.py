"""The timeline of an object and its components: recorded changes with Events in between."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.utils import timezone

from installs.diagnosis.notes import flaps
from installs.models import Component, Event, Observed, Operator, Transition
from installs.queries.operator_detail import key_of
from installs.queries.operators import FLAPPING
from installs.state.decode import Key
from installs.state.history import HEALTH, OBJECT, PHASE
from installs.state.observation import details_of
from olmweb.templatetags.olmweb import moment

SHOWN = 40  # entries that are open at once; the rest is folded
CLOCKS_DIFFER = timedelta(minutes=1)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One line of the timeline.

    `kind` is health, object, condition or event; `subject` names the object when it is not the
    page's own. `reason` is that of a health. `took` is how many seconds it was in the state before.
    `first`: it was so when we first looked, and may have been before. Where the object reports that
    its current state is older than the observation, `at` is its time and `seen_at` ours.
    For an Event `type` is Normal or Warning, `after_words` its reason, and `first_at` is set when
    it was seen more than once.
    """

    at: datetime
    kind: str
    subject: str
    type: str
    before: str
    after_words: str
    message: str
    reason: str = ""
    took: float | None = None
    first: bool = False
    seen_at: datetime | None = None
    count: int = 1
    first_at: datetime | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """How long an object was in one health since `since`, and whether it still is."""

    health: str
    seconds: float
    current: bool
    since: datetime


@dataclass(frozen=True, slots=True)
class Timeline:
    """Newest first; `recent` are shown, `older` folded."""

    recent: list[TimelineEntry]
    older: list[TimelineEntry]


@dataclass(frozen=True, slots=True)
class ConditionReport:
    """The current state in an object and the time since when it holds by its own account."""

    uid: str
    status: str
    reason: str
    since: datetime


def condition_reports(rows: Iterable[Observed]) -> dict[tuple[Key, str], ConditionReport]:
    """(object, type of its history) -> its state and the time it reports.

    Conditions, the phase of a ClusterServiceVersion (status.lastTransitionTime moves with it), and
    the health of an operator, whose `since` was read from these.
    """
    reports: dict[tuple[Key, str], ConditionReport] = {}

    def tell(row: Observed, type_: str, status: object, reason: object, since: object) -> None:
        at = since if isinstance(since, datetime) else moment(since)
        if at is not None and at > LONG_AGO:
            reports[key_of(row), type_] = ConditionReport(row.uid, str(status), str(reason), at)

    for row in rows:
        for condition in row.conditions:
            texts = (condition.get(name, "") for name in ("status", "reason", "lastTransitionTime"))
            tell(row, str(condition.get("type", "")), *texts)
        if isinstance(row, Operator):
            tell(row, HEALTH, row.health, row.reason, row.since)
        elif isinstance(row, Component) and row.kind == "ClusterServiceVersion":
            details = details_of(row)
            tell(row, PHASE, row.phase, details.get("reason"), details.get("last_transition"))
    return reports


def timeline(
    subject: Key,
    transitions: Sequence[Transition],
    events: Sequence[Event] = (),
    reports: Mapping[tuple[Key, str], ConditionReport] | None = None,
) -> Timeline:
    """Changes and Events in one list, newest first. `reports` are the objects' own states."""
    changes = _changes(subject, transitions, reports or {})
    entries = changes + [_event(subject, row) for row in events]
    entries.sort(key=lambda moment: moment.at, reverse=True)
    return Timeline(entries[:SHOWN], entries[SHOWN:])


def _changes(
    subject: Key,
    transitions: Sequence[Transition],
    reports: Mapping[tuple[Key, str], ConditionReport],
) -> list[TimelineEntry]:
    """`transitions` are newest first."""
    began: dict[tuple[Key, str], datetime] = {}
    appeared: set[tuple[Key, datetime]] = set()
    last = {((row.kind, row.namespace, row.name), row.type): row for row in reversed(transitions)}
    entries = []
    for row in reversed(transitions):
        key = (row.kind, row.namespace, row.name)
        before = began.get((key, row.type))
        kind = {HEALTH: "health", OBJECT: "object"}.get(row.type, "condition")
        if kind == "object":
            appeared.add((key, row.at))
        new = kind == "object" or before is not None or (key, row.at) in appeared
        report = reports.get((key, row.type)) if row is last[key, row.type] else None
        first, since = _first_sight(row, report, before, new=new)
        at = began[key, row.type] = since or row.at
        entries.append(
            TimelineEntry(
                at=at,
                kind=kind,
                subject=_name(key, subject),
                type=row.type,
                before=row.from_status if kind == "health" else _state(row, "from"),
                after_words=row.to_status if kind == "health" else _state(row, "to"),
                message=row.message,
                reason=row.to_reason if kind == "health" else "",
                took=(at - before).total_seconds() if before and kind != "object" else None,
                first=first,
                seen_at=row.at if since else None,
            )
        )
    return entries[::-1]


def _first_sight(
    row: Transition, report: ConditionReport | None, before: datetime | None, *, new: bool
) -> tuple[bool, datetime | None]:
    """Whether the state may be older than our first look, and the object's own time of it, if that
    is earlier than the observation and later than the change `before` it.

    The object's time counts while its state is still the same. `new`: the object came after our
    first look, or its state changed since.
    """
    first = not (new or row.from_status or row.from_reason)
    if not first and before is None:
        return False, None
    now = (report.status[:20], report.reason[:1024]) if report else ()
    if report is None or (row.to_status, row.to_reason) != now or row.uid not in ("", report.uid):
        return first, None
    is_late = report.since < row.at - CLOCKS_DIFFER
    if not is_late or (before is not None and report.since <= before):
        return False, None
    return first, report.since


def _state(row: Transition, end: str) -> str:
    status, reason = getattr(row, f"{end}_status"), getattr(row, f"{end}_reason")
    return f"{status} · {reason}" if status and reason else status or reason


def _event(subject: Key, row: Event) -> TimelineEntry:
    return TimelineEntry(
        at=row.last_at or row.first_at or LONG_AGO,
        kind="event",
        subject=_name((row.kind, row.namespace, row.name), subject),
        type=row.type or "Normal",
        before="",
        after_words=row.reason,
        message=row.message,
        count=row.count,
        first_at=row.first_at if row.count > 1 and row.first_at != row.last_at else None,
        source=row.source,
    )


def _name(key: Key, subject: Key) -> str:
    return "" if key == subject else f"{key[0]} {key[2]}"


def healths_of(operator: Operator, transitions: Sequence[Transition]) -> list[Transition]:
    """The operator's own changes of health, oldest first."""
    own = (operator.kind, operator.namespace, operator.name)
    return [
        row
        for row in reversed(transitions)
        if row.type == "Health" and (row.kind, row.namespace, row.name) == own
    ]


def flapping(healths: Sequence[Transition]) -> int:
    """How often it went from working to not working or back in a day; 0 when that is not worth
    telling."""
    if not healths:
        return 0
    first = healths[0]
    began = (first.at - timedelta(microseconds=1), first.from_status)
    count = flaps([began, *((row.at, row.to_status) for row in healths)], timezone.now())
    return count if count >= FLAPPING else 0


def spans(transitions: Sequence[Transition], operator: Operator) -> list[Span]:
    """Time in each health of the operator itself, oldest first.

    Its conditions say since when it has the current health; a change is recorded when it is
    observed, which may be later.
    """
    changes = healths_of(operator, transitions)
    now = timezone.now()
    starts: list[tuple[str, datetime]] = []
    for row in changes:
        if not starts or starts[-1][0] != row.to_status:  # else only the reason changed
            starts.append((row.to_status, row.at))
    if operator.since and not starts:
        starts = [(operator.health, operator.since)]
    elif operator.since and starts[-1][0] == operator.health:
        # The time of the conditions replaces that of the observation if it is earlier, but not
        # earlier than the health before; the first health may have begun before any observation.
        began = starts[-2][1] if len(starts) > 1 else None
        is_first = began is None and not changes[0].from_status
        if operator.since < starts[-1][1] and (is_first or (began and began <= operator.since)):
            starts[-1] = (operator.health, operator.since)
    ends = [*(at for _, at in starts[1:]), now]
    return [
        Span(health, max((end - at).total_seconds(), 0.0), position == len(starts), at)
        for position, ((health, at), end) in enumerate(zip(starts, ends, strict=True), 1)
    ]


def shares(healths: Sequence[Span]) -> list[tuple[str, float]]:
    """(health, seconds in it) over all of these, the longest first."""
    total: dict[str, float] = {}
    for span in healths:
        total[span.health] = total.get(span.health, 0.0) + span.seconds
    return sorted(total.items(), key=lambda item: (-item[1], item[0]))
