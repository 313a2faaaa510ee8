"""The history of observed objects: Transition rows for each change of a condition or phase.

A phase is recorded like a condition, under a type of its own: `Phase` of a ClusterServiceVersion
or InstallPlan, `Connection` of a CatalogSource.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from installs.models import Transition
from installs.state.decode import DecodedObject, Key
from olmweb.kube.fields import text

OBJECT, HEALTH, PHASE, CONNECTION = "Object", "Health", "Phase", "Connection"
_PHASED = frozenset(("ClusterServiceVersion", "InstallPlan"))
_LIMITS = {
    "from_status": 20,
    "to_status": 20,
    "from_reason": 1024,
    "to_reason": 1024,
    "resource_version": 64,
}


class RecordedState(NamedTuple):
    """A condition, or the phase of an object; empty texts if it has none."""

    status: str = ""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class WriteContext:
    """What one transaction writes for. `first_read_kinds` are read for the first time, so their
    objects did not just appear."""

    cluster_id: int
    now: datetime
    first_read_kinds: frozenset[str] = frozenset()


def states_of(
    kind: str, conditions: Iterable[Mapping[str, Any]], phase: str, details: Mapping[str, Any]
) -> dict[str, RecordedState]:
    """Condition type -> state, including the phase."""
    names = RecordedState._fields
    states = {
        str(condition["type"]): RecordedState(*(str(condition.get(name, "")) for name in names))
        for condition in conditions
    }
    reason, message = text(details, "reason"), text(details, "message")
    if kind in _PHASED and phase:
        states[PHASE] = RecordedState(phase, reason, message)
    if kind == "CatalogSource" and (status := text(details, "state")):
        states[CONNECTION] = RecordedState(status, reason, message)
    return states


def transition(context: WriteContext, key: Key, uid: str, type_: str, **fields: str) -> Transition:
    """An unsaved Transition, its texts cut to the size of their columns."""
    kind, namespace, name = key
    return Transition(
        cluster_id=context.cluster_id,
        kind=kind,
        namespace=namespace,
        name=name,
        uid=uid,
        type=type_[:316],
        at=context.now,
        **{field: value[: _LIMITS.get(field)] for field, value in fields.items()},
    )


def deletion(
    context: WriteContext, key: Key, uid: str, version: str, *, was_stored: bool = True
) -> Transition:
    """The object does not exist as of this resourceVersion; `was_stored`: it had a row."""
    return transition(
        context,
        key,
        uid,
        OBJECT,
        from_status="present" if was_stored else "",
        to_status="deleted",
        resource_version=version,
    )


def history_of(
    context: WriteContext,
    versions: Sequence[DecodedObject],
    uid: str | None,
    old: Mapping[str, RecordedState],
) -> Iterable[Transition]:
    """The Transitions from the stored row (`uid` is None without a row) through all versions.

    One for each condition type whose status or reason changed, appeared or vanished.
    """
    absent = RecordedState()
    for obj in versions:
        if uid != obj.uid:
            if uid is not None:
                yield deletion(context, obj.key, uid, "")
            if obj.kind not in context.first_read_kinds:
                yield transition(context, obj.key, obj.uid, OBJECT, to_status="appeared")
            old = {}
        phase = str(obj.columns.get("phase", ""))
        new = states_of(obj.kind, obj.conditions, phase, obj.details)
        for type_ in dict.fromkeys((*new, *old)):
            before, after = old.get(type_, absent), new.get(type_, absent)
            if before[:2] != after[:2]:  # the message alone is no change
                yield transition(
                    context,
                    obj.key,
                    obj.uid,
                    type_,
                    from_status=before.status,
                    from_reason=before.reason,
                    to_status=after.status,
                    to_reason=after.reason,
                    message=after.message,
                )
        uid, old = obj.uid, new
