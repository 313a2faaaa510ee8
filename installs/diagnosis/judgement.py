"""What was made of one object, and how one condition or a list of them is judged."""

from collections.abc import Sequence
from dataclasses import dataclass

from installs.diagnosis.states import BROKEN, PHASE, Class, class_of
from installs.diagnosis.types import Condition, Link, Observation

APPROVAL = "RequiresApproval"  # waits for a person, and nothing is wrong
_LINK_STATE = {
    Class.HEALTHY: "ok",
    Class.INFORMATION: "ok",
    Class.PROGRESSING: "progressing",
    Class.ABSENT: "waiting",
    Class.UNKNOWN: "waiting",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """The class of one object and the condition that decides it."""

    state: Class
    reason: str = ""
    message: str = ""


def link_of(one: Observation, verdict: Judgement, *, first_broken: bool = False) -> Link:
    """The object as a link of a chain."""
    state = _LINK_STATE.get(verdict.state, "failed")
    if verdict.reason == APPROVAL:
        state = "waiting"
    return Link(
        one.kind, one.namespace, one.name, state, verdict.reason, verdict.message, first_broken
    )


def condition_of(one: Observation, type_: str) -> Condition | None:
    """The condition of that type, None when the object has none."""
    return next((condition for condition in one.conditions if condition.type == type_), None)


def judge_type(one: Observation, type_: str) -> Judgement:
    """The class of one condition."""
    condition = condition_of(one, type_)
    if condition is None:
        return Judgement(Class.ABSENT)
    state = class_of(one.kind, type_, condition.status, condition.reason)
    return Judgement(state, condition.reason, condition.message)


def judge_phase(one: Observation, *, reason: str) -> Judgement:
    """The class of the object's phase; its reason is the phase where it has none of its own."""
    return Judgement(class_of(one.kind, PHASE, one.phase, reason), reason or one.phase)


def worst(judged: Sequence[Judgement]) -> Judgement:
    """The first that is broken, else unknown, else progressing; else the first that is there."""
    groups: tuple[frozenset[Class], ...] = (
        BROKEN,
        frozenset((Class.UNKNOWN,)),
        frozenset((Class.PROGRESSING,)),
        frozenset((Class.HEALTHY, Class.INFORMATION)),
    )
    for group in groups:
        for verdict in judged:
            if verdict.state in group:
                return verdict
    return Judgement(Class.ABSENT)
