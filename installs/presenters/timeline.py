"""The timeline of an object and of what belongs to it: what we saw change, Events in between."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.utils import timezone

from installs.diagnosis import flaps
from installs.models import Component, Event, Observed, Operator, Transition
from installs.queries.operator_detail import Key, key_of
from installs.queries.operators import FLAPPING
from installs.state.history import HEALTH, OBJECT, PHASE
from installs.state.observation import details_of
from olmweb.templatetags.olmweb import moment

SHOWN = 40  # moments that are open at once; the rest is folded
CLOCKS_DIFFER = timedelta(minutes=1)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the timeline.

    `kind` is health, object, condition or event; `subject` names the object when it is not the
    page's own. `reason` is that of a health. `took` is how many seconds it was in the state before.
    `first`: it was so when we first looked, and may have been before; where the cluster says since
    when, `at` is its time and `seen` ours.
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
    seen: datetime | None = None
    count: int = 1
    first_at: datetime | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """How long an object was in one health, and whether it still is."""

    health: str
    seconds: float
    current: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    """Newest first; `recent` are shown, `older` folded."""

    recent: list[Moment]
    older: list[Moment]


@dataclass(frozen=True, slots=True)
class Told:
    """A state as its object tells it now, and since when it says that it holds."""

    uid: str
    status: str
    reason: str
    since: datetime


def told_by(rows: Iterable[Observed]) -> dict[tuple[Key, str], Told]:
    """(object, type of its history) -> what it tells with a time of its own.

    Conditions, the phase of a ClusterServiceVersion (status.lastTransitionTime moves with it), and
    the health of an operator, whose `since` was read from these.
    """
    found: dict[tuple[Key, str], Told] = {}

    def tell(row: Observed, type_: str, status: object, reason: object, since: object) -> None:
        at = since if isinstance(since, datetime) else moment(since)
        if at is not None and at > LONG_AGO:
            found[key_of(row), type_] = Told(row.uid, str(status), str(reason), at)

    for row in rows:
        for one in row.conditions:
            said = (one.get(name, "") for name in ("status", "reason", "lastTransitionTime"))
            tell(row, str(one.get("type", "")), *said)
        if isinstance(row, Operator):
            tell(row, HEALTH, row.health, row.reason, row.since)
        elif isinstance(row, Component) and row.kind == "ClusterServiceVersion":
            details = details_of(row)
            tell(row, PHASE, row.phase, details.get("reason"), details.get("last_transition"))
    return found


def timeline(
    subject: Key,
    transitions: Sequence[Transition],
    events: Sequence[Event] = (),
    told: Mapping[tuple[Key, str], Told] | None = None,
) -> Timeline:
    """One story of both, newest first. `told` is what the objects say of themselves."""
    changes = _changes(subject, transitions, told or {})
    found = changes + [_event(subject, row) for row in events]
    found.sort(key=lambda moment: moment.at, reverse=True)
    return Timeline(found[:SHOWN], found[SHOWN:])


def _changes(
    subject: Key, transitions: Sequence[Transition], told: Mapping[tuple[Key, str], Told]
) -> list[Moment]:
    """`transitions` are newest first."""
    began: dict[tuple[Key, str], datetime] = {}
    appeared: set[tuple[Key, datetime]] = set()
    last = {((row.kind, row.namespace, row.name), row.type): row for row in reversed(transitions)}
    found = []
    for row in reversed(transitions):
        key = (row.kind, row.namespace, row.name)
        before = began.get((key, row.type))
        began[key, row.type] = row.at
        kind = {HEALTH: "health", OBJECT: "object"}.get(row.type, "condition")
        if kind == "object":
            appeared.add((key, row.at))
        new = kind == "object" or before is not None or (key, row.at) in appeared
        said = told.get((key, row.type)) if row is last[key, row.type] else None
        first, since = _first_sight(row, said, new=new)
        found.append(
            Moment(
                at=since or row.at,
                kind=kind,
                subject=_name(key, subject),
                type=row.type,
                before=row.from_status if kind == "health" else _state(row, "from"),
                after_words=row.to_status if kind == "health" else _state(row, "to"),
                message=row.message,
                reason=row.to_reason if kind == "health" else "",
                took=(row.at - before).total_seconds() if before and kind != "object" else None,
                first=first,
                seen=row.at if since else None,
            )
        )
    return found[::-1]


def _first_sight(row: Transition, told: Told | None, *, new: bool) -> tuple[bool, datetime | None]:
    """Whether it may have been so before we first looked, and since when its object says so.

    The object speaks for the row while it still says the same. `new`: it came while we looked.
    """
    if new or row.from_status or row.from_reason:
        return False, None
    now = (told.status[:20], told.reason[:1024]) if told else ()
    if told is None or (row.to_status, row.to_reason) != now or row.uid not in ("", told.uid):
        return True, None
    earlier = told.since < row.at - CLOCKS_DIFFER
    return earlier, told.since if earlier else None


def _state(row: Transition, end: str) -> str:
    status, reason = getattr(row, f"{end}_status"), getattr(row, f"{end}_reason")
    return f"{status} · {reason}" if status and reason else status or reason


def _event(subject: Key, row: Event) -> Moment:
    return Moment(
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

    A health that it had already when it was first seen began when its conditions say.
    """
    changes = healths_of(operator, transitions)
    found: list[Span] = []
    for position, row in enumerate(changes):
        last = position + 1 == len(changes)
        end = timezone.now() if last else changes[position + 1].at
        seconds = (end - row.at).total_seconds()
        if found and found[-1].health == row.to_status:  # only the reason changed
            seconds += found.pop().seconds
        found.append(Span(row.to_status, seconds, last))
    had_it = len(found) == 1 and found[0].health == operator.health and not changes[0].from_status
    if operator.since and (had_it or not found):
        past = (timezone.now() - operator.since).total_seconds()
        found = [Span(operator.health, max(past, *(span.seconds for span in found), 0.0), True)]
    return found


def shares(found: Sequence[Span]) -> list[tuple[str, float]]:
    """(health, seconds in it) over all of these, the longest first."""
    total: dict[str, float] = {}
    for span in found:
        total[span.health] = total.get(span.health, 0.0) + span.seconds
    return sorted(total.items(), key=lambda item: (-item[1], item[0]))
