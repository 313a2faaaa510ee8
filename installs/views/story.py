"""How one object's rows become its chain, its timeline and the steps to take: plain values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from installs.diagnosis import Link, is_command
from installs.models import Component, Operator, Transition

STATE_ICONS = {
    "ok": "check-circle",
    "progressing": "sync",
    "failed": "exclamation-circle",
    "waiting": "in-progress",
    "absent": "circle",
}
STATE_WORDS = {
    "ok": "OK",
    "progressing": "in progress",
    "failed": "failed",
    "waiting": "waiting",
    "absent": "not there yet",
}
WHAT = {
    "PlatformOperator": "what you asked for",
    "ClusterExtension": "what you asked for",
    "BundleDeployment": "applies the bundle's objects",
    "Bundle": "fetches and checks the bundle's content",
    "ClusterObjectSet": "one revision of the objects",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a remedy: a command to copy or a sentence to read."""

    text: str
    command: bool


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One link of the chain as the page shows it; `open` shows its message at once."""

    link: Link
    icon: str
    words: str
    what: str
    created_at: datetime | None
    image: str
    conditions: list[dict[str, str]]
    open: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the timeline. `after` is seconds since the line before it in time."""

    at: datetime
    type: str
    before: str
    after_words: str
    message: str
    took: float | None
    kind: str  # 'health', 'object' or 'condition'


@dataclass(frozen=True, slots=True)
class Span:
    """How long an object was in one health, and whether it still is."""

    health: str
    seconds: float
    current: bool


def steps(remedy: Iterable[str]) -> list[Step]:
    """A remedy's lines, commands told from sentences."""
    return [Step(line, is_command(line)) for line in remedy]


def chain(
    operator: Operator, links: Sequence[Link], components: Sequence[Component]
) -> list[ChainStep]:
    """The chain with ages and conditions of each object; only the first broken link is open."""
    rows: dict[tuple[str, str], Operator | Component] = {(operator.kind, operator.name): operator}
    rows |= {(component.kind, component.name): component for component in components}
    found = []
    for link in links:
        row = rows.get((link.kind, link.name))
        found.append(
            ChainStep(
                link=link,
                icon=STATE_ICONS.get(link.state, "question-circle"),
                words=STATE_WORDS.get(link.state, link.state),
                what=WHAT.get(link.kind, ""),
                created_at=row.created_at if row else None,
                image=row.image if isinstance(row, Component) else "",
                conditions=row.conditions if row else [],
                open=link.first_broken,
            )
        )
    return found


def moments(transitions: Sequence[Transition]) -> list[Moment]:
    """The timeline, newest first as it came in, with the time between neighbours."""
    found = []
    for position, row in enumerate(transitions):
        older = transitions[position + 1] if position + 1 < len(transitions) else None
        kind = {"Health": "health", "Object": "object"}.get(row.type, "condition")
        found.append(
            Moment(
                at=row.at,
                type=row.type,
                before=_state(row.from_status, row.from_reason),
                after_words=_state(row.to_status, row.to_reason),
                message=row.message,
                took=(row.at - older.at).total_seconds() if older else None,
                kind=kind,
            )
        )
    return found


def _state(status: str, reason: str) -> str:
    return f"{status} · {reason}" if status and reason else status or reason


def spans(transitions: Sequence[Transition], operator: Operator) -> list[Span]:
    """Time in each health, oldest first, from the transitions of type Health."""
    changes = [row for row in reversed(transitions) if row.type == "Health"]
    found = []
    for position, row in enumerate(changes):
        last = position + 1 == len(changes)
        end = timezone.now() if last else changes[position + 1].at
        found.append(Span(row.to_status, (end - row.at).total_seconds(), last))
    if not found and operator.since:
        past = (timezone.now() - operator.since).total_seconds()
        found.append(Span(operator.health, past, True))
    return found
