"""The history of observed objects: Transition rows for each change of a condition or phase.

A phase is recorded like a condition, under a type of its own: `Phase` of a ClusterServiceVersion
or InstallPlan, `Connection` of a CatalogSource.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from installs.models import Transition
from installs.state.decode import OPERATOR_KINDS, DecodedObject, Key
from olmweb.eventlog.record import event
from olmweb.eventlog.types import ConditionData, EventType, ExistenceData, HealthData
from olmweb.kube.fields import text
from olmweb.models import ChangeEvent

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
    objects did not just appear. `deletion_notes`: a sentence that is recorded with the deletion of
    an object."""

    cluster_id: int
    now: datetime
    first_read_kinds: frozenset[str] = frozenset()
    deletion_notes: Mapping[Key, str] = field(default_factory=dict)


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
        message=context.deletion_notes.get(key, ""),
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


def events_of(
    context: WriteContext, transitions: Iterable[Transition], findings: Mapping[Key, str]
) -> Iterator[ChangeEvent]:
    """The unsaved events of Transitions. `findings` has the id of the finding of each operator
    whose health changed.

    The first reading of a kind is no news: each operator is `discovered`, with its health, and its
    conditions and other objects have no event.
    """
    for row in transitions:
        key = (row.kind, row.namespace, row.name)
        is_first = row.kind in context.first_read_kinds
        data: HealthData | ExistenceData | ConditionData
        if row.type == HEALTH:
            is_discovered = is_first and not row.from_status
            type_ = EventType.OPERATOR_DISCOVERED if is_discovered else EventType.OPERATOR_HEALTH
            data = HealthData(
                from_health=row.from_status,
                from_reason=row.from_reason,
                health=row.to_status,
                reason=row.to_reason,
                message=row.message,
                finding=findings.get(key, ""),
            )
        elif is_first:
            continue
        elif row.type == OBJECT:
            is_deleted = row.to_status == "deleted"
            if is_deleted and not row.from_status:
                continue  # of an object that never had a row
            type_, data = _existence_type(row.kind, is_deleted=is_deleted), ExistenceData(row.uid)
        else:
            is_operator = row.kind in OPERATOR_KINDS
            type_ = EventType.OPERATOR_CONDITION if is_operator else EventType.OBJECT_CONDITION
            data = ConditionData(
                condition=row.type,
                from_status=row.from_status,
                from_reason=row.from_reason,
                status=row.to_status,
                reason=row.to_reason,
                message=row.message,
            )
        yield event(
            type_,
            row.at,
            data,
            cluster_id=row.cluster_id,
            kind=row.kind,
            namespace=row.namespace,
            name=row.name,
        )


def _existence_type(kind: str, *, is_deleted: bool) -> EventType:
    if kind in OPERATOR_KINDS:
        return EventType.OPERATOR_DELETED if is_deleted else EventType.OPERATOR_APPEARED
    return EventType.OBJECT_DELETED if is_deleted else EventType.OBJECT_APPEARED
