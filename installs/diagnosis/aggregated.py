"""The ClusterOperator `platform-operators-aggregated`: what its message and conditions mean.

Pure. The message lists each PlatformOperator that is not installed, in random order, and only with
its reason; the causes are in the PlatformOperators themselves.
"""

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol

NAME = "platform-operators-aggregated"
_MEMBER = re.compile(
    r'encountered the failing (\S{1,253}) platform operator with reason "([^"]{0,1024})"'
)
_LISTED = 5
# A PlatformOperator whose controller has not spoken yet is listed with this reason.
_SILENT = "InstallPending"
_PENDING = frozenset((_SILENT, "UnpackPending"))
# Clocks differ, and the message follows its members by a moment.
_AT_ONCE = timedelta(seconds=60)


class HasStatus(Protocol):
    """What is needed of a condition."""

    @property
    def type(self) -> str: ...

    @property
    def status(self) -> str: ...


class HasMessage(HasStatus, Protocol):
    """What is needed of a condition whose message and age are read."""

    @property
    def message(self) -> str: ...

    @property
    def last_transition_time(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Member:
    """One PlatformOperator that the message names as failing."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Itself:
    """What a PlatformOperator says itself. `cause` is our words for it, empty when there are none;
    `since` is when we saw its reason begin, because its own time moves only with the status."""

    name: str
    installed: bool
    reason: str = ""
    cause: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class MemberCause:
    """Members with one cause; `names` in alphabetical order."""

    cause: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the aggregated ClusterOperator means, in sentences; empty where there is none to say.

    `newer` tells whether the message or the PlatformOperators are the later word where they
    differ, and `gap` by how much; `remarks` say what its conditions do not mean.
    """

    causes: tuple[MemberCause, ...]
    blocks: str
    leaves: str
    disagreement: str
    newer: Literal["", "message", "objects"]
    gap: timedelta | None
    age: str
    remarks: tuple[str, ...]


def explain_aggregated(
    conditions: Iterable[HasMessage], members: Sequence[Member], operators: Iterable[Itself]
) -> Explanation:
    """Which members fail and why, what that blocks, and whether the message is out of date.

    `operators` are all PlatformOperators of the cluster. The causes are theirs: the message knows
    only their reasons, in random order.
    """
    conditions = tuple(conditions)
    known = {one.name: one for one in operators}
    blocks, leaves = explain_impact(conditions)
    newer, gap = _which_is_newer(_written_at(conditions), _differing(members, known))
    failing = {one.name for one in known.values() if not one.installed}
    return Explanation(
        causes=_by_cause(members, known),
        blocks=blocks,
        leaves=leaves,
        disagreement=disagreement(members, failing),
        newer=newer,
        gap=gap,
        age=_age(newer, gap),
        remarks=_remarks(conditions, members),
    )


def _by_cause(members: Sequence[Member], known: dict[str, Itself]) -> tuple[MemberCause, ...]:
    groups: dict[str, list[str]] = {}
    for member in members:
        one = known.get(member.name)
        cause = (one.cause or one.reason if one else "") or member.reason
        groups.setdefault(cause, []).append(member.name)
    found = [MemberCause(cause, tuple(sorted(names))) for cause, names in groups.items()]
    return tuple(sorted(found, key=lambda one: (-len(one.names), one.cause)))


def _differing(members: Sequence[Member], known: dict[str, Itself]) -> list[Itself]:
    """The PlatformOperators of which the message says something else than they do."""
    told = {member.name: member.reason for member in members}
    return [
        one
        for one in known.values()
        if told.get(one.name) != (None if one.installed else one.reason or _SILENT)
    ]


def _written_at(conditions: Sequence[HasMessage]) -> datetime | None:
    """When the message was written: its controller stamps every condition at every change."""
    times = [one.last_transition_time for one in conditions if one.type == "Available"]
    try:
        found = datetime.fromisoformat(times[0]) if times else None
    except ValueError:
        return None
    return found.replace(tzinfo=found.tzinfo or UTC) if found else None


def _which_is_newer(
    written: datetime | None, differing: Sequence[Itself]
) -> tuple[Literal["", "message", "objects"], timedelta | None]:
    changes = [one.since for one in differing if one.since is not None]
    if written is None or not changes:
        return "", None
    gap = max(changes) - written
    if abs(gap) <= _AT_ONCE:
        return "", None
    return ("objects", gap) if gap > timedelta(0) else ("message", -gap)


def _age(newer: str, gap: timedelta | None) -> str:
    if gap is None:
        return ""
    long = _long(gap)
    if newer == "objects":
        return (
            f"The PlatformOperators changed {long} after the message was written, so it is "
            "out of date: its controller is late or stopped."
        )
    return (
        f"The message was written {long} after the PlatformOperators last changed here, so it is "
        "the later word: the next sync shows what they say now."
    )


def _remarks(conditions: Sequence[HasStatus], members: Sequence[Member]) -> tuple[str, ...]:
    status = {one.type: one.status for one in conditions}
    found: list[str] = []
    if status.get("Available") == "False" and status.get("Progressing") == "True":
        found.append(
            "Progressing=True does not say that work goes on, and Degraded is never True here: "
            "while any platform operator is not installed, this cluster operator says the same."
        )
    waiting = sorted(one.name for one in members if one.reason in _PENDING)
    if waiting:
        verb = "waits" if len(waiting) == 1 else "wait"
        found.append(f"{_names(waiting)} only {verb}; the message counts that as failing too.")
    return tuple(found)


def _long(gap: timedelta) -> str:
    """Whole days, hours or minutes; a gap is longer than a minute."""
    minutes = int(gap.total_seconds() // 60)
    size, word = next(
        one for one in ((1440, "day"), (60, "hour"), (1, "minute")) if minutes >= one[0]
    )
    count = minutes // size
    return f"{count} {word}{'s' if count > 1 else ''}"


def parse_members(message: str) -> tuple[Member, ...]:
    """The members of the message, sorted by name; a list has brackets, a single item none."""
    found = {name: Member(name, reason) for name, reason in _MEMBER.findall(message)}
    return tuple(found[name] for name in sorted(found))


def disagreement(members: Sequence[Member], failing: Set[str]) -> str:
    """A sentence when the message and the PlatformOperators differ, else empty.

    `failing` are the names of those whose Installed condition is not True.
    """
    told = {member.name for member in members}
    parts: list[str] = []
    if extra := sorted(told - failing):
        parts.append(
            f"its message names {_names(extra)}, installed according to the PlatformOperators"
        )
    if missing := sorted(failing - told):
        parts.append(f"its message leaves out {_names(missing)}, not installed according to them")
    if not parts:
        return ""
    return (
        "This ClusterOperator and the PlatformOperators disagree: "
        + "; ".join(parts)
        + ". It is rewritten on every reconcile, so its controller may be late or stopped."
    )


def explain_impact(conditions: Iterable[HasStatus]) -> tuple[str, str]:
    """Two sentences: what the conditions block, and what they do not.

    Rules of the cluster version operator: an installation needs Available=True; the end of an
    update needs Available=True and Degraded not True; only Upgradeable=False stops the start of an
    update to the next minor version.
    """
    status = {one.type: one.status for one in conditions}
    unavailable = status.get("Available") != "True"
    degraded = status.get("Degraded") == "True"
    held = status.get("Upgradeable") == "False"
    blocked: list[str] = []
    free: list[str] = []
    (blocked if unavailable else free).append("the completion of a cluster installation")
    (blocked if unavailable or degraded else free).append("the completion of a running update")
    (blocked if held else free).append("the start of an update to the next minor version")
    return (
        f"It blocks {_listing(blocked)}." if blocked else "It blocks nothing.",
        f"It does not block {_listing(free)}." if free else "There is nothing that it leaves free.",
    )


def _listing(items: Sequence[str]) -> str:
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def _names(names: Sequence[str]) -> str:
    rest = len(names) - _LISTED
    shown = ", ".join(names[:_LISTED])
    return f"{shown} and {rest} more" if rest > 0 else shown
