"""The history that changes of observed objects make: rows of Transition, none of them twice.

Beside its conditions an object may say its state in a phase; each of those has a type here, as if
it were a condition: `Phase` of a ClusterServiceVersion or InstallPlan, `Connection` of a
CatalogSource.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from installs.models import Transition
from installs.state.decode import Kept, Key, text

OBJECT, HEALTH, PHASE, CONNECTION = "Object", "Health", "Phase", "Connection"
_PHASED = frozenset(("ClusterServiceVersion", "InstallPlan"))
_LIMITS = {
    "from_status": 20,
    "to_status": 20,
    "from_reason": 1024,
    "to_reason": 1024,
    "resource_version": 64,
}

State = tuple[str, str, str]  # status, reason, message


@dataclass(frozen=True, slots=True)
class Moment:
    """When and how is written: `first` kinds were never read before, so nothing `appeared`."""

    cluster_id: int
    now: datetime
    first: frozenset[str] = frozenset()


def states_of(
    kind: str, conditions: Iterable[Mapping[str, Any]], phase: str, details: Mapping[str, Any]
) -> dict[str, State]:
    """Type -> what it says: the conditions, and what stands for one."""
    found = {
        str(one["type"]): (
            str(one.get("status", "")),
            str(one.get("reason", "")),
            str(one.get("message", "")),
        )
        for one in conditions
    }
    told = text(details, "reason"), text(details, "message")
    if kind in _PHASED and phase:
        found[PHASE] = (phase, *told)
    if kind == "CatalogSource" and (state := text(details, "state")):
        found[CONNECTION] = (state, *told)
    return found


def states_of_kept(one: Kept) -> dict[str, State]:
    return states_of(one.kind, one.conditions, str(one.columns.get("phase", "")), one.details)


def transition(moment: Moment, key: Key, uid: str, type_: str, **fields: str) -> Transition:
    """A row of the history, its texts cut to their columns."""
    kind, namespace, name = key
    return Transition(
        cluster_id=moment.cluster_id,
        kind=kind,
        namespace=namespace,
        name=name,
        uid=uid,
        type=type_[:316],
        at=moment.now,
        **{field: value[: _LIMITS.get(field)] for field, value in fields.items()},
    )


def vanished(moment: Moment, key: Key, uid: str, version: str, *, seen: bool = True) -> Transition:
    """An object is gone as of the resourceVersion `version`; `seen`: there was a row of it."""
    return transition(
        moment,
        key,
        uid,
        OBJECT,
        from_status="present" if seen else "",
        to_status="deleted",
        resource_version=version,
    )


def appeared(moment: Moment, one: Kept) -> Iterable[Transition]:
    if one.kind not in moment.first:
        yield transition(moment, one.key, one.uid, OBJECT, to_status="appeared")


def changes_between(
    moment: Moment, one: Kept, old: Mapping[str, State], new: Mapping[str, State]
) -> Iterable[Transition]:
    """A row for each type whose status or reason differs, came or went."""
    nothing = ("", "", "")
    for type_ in [*new, *(type_ for type_ in old if type_ not in new)]:
        was, is_ = old.get(type_, nothing), new.get(type_, nothing)
        if was[:2] != is_[:2]:
            yield transition(
                moment,
                one.key,
                one.uid,
                type_,
                from_status=was[0],
                from_reason=was[1],
                to_status=is_[0],
                to_reason=is_[1],
                message=is_[2],
            )


def history_of(
    moment: Moment, tellings: Sequence[Kept], uid: str | None, old: Mapping[str, State]
) -> Iterable[Transition]:
    """What happened from the stored row (`uid` None when there was none) to the last telling."""
    for one in tellings:
        if uid != one.uid:
            if uid is not None:
                yield vanished(moment, one.key, uid, "")
            yield from appeared(moment, one)
            old = {}
        new = states_of_kept(one)
        yield from changes_between(moment, one, old, new)
        uid, old = one.uid, new
