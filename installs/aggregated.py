"""The ClusterOperator `platform-operators-aggregated`: what its message and conditions mean.

Pure. The message lists each PlatformOperator that is not installed, in random order, and only with
its reason; the causes are in the PlatformOperators themselves.
"""

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

NAME = "platform-operators-aggregated"
_MEMBER = re.compile(
    r'encountered the failing (\S{1,253}) platform operator with reason "([^"]{0,1024})"'
)
_LISTED = 5


class HasStatus(Protocol):
    """What is needed of a condition."""

    @property
    def type(self) -> str: ...

    @property
    def status(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Member:
    """One PlatformOperator that the message names as failing."""

    name: str
    reason: str


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
