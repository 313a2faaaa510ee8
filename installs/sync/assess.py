"""Puts the diagnosis of changed operators into their rows, and its changes into the history."""

import hashlib
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path

import installs.diagnosis
from installs.diagnosis import Observation, deprecations, diagnose, read_conditions
from installs.models import Component, Operator, Transition
from installs.sync.decode import Key, read_time
from installs.sync.store import BATCH, HEALTH, Moment, transition, upsert

_COLUMNS = (
    "health",
    "finding",
    "facts",
    "reason",
    "message",
    "broken_kind",
    "broken_name",
    "since",
    "deprecated",
)


@cache
def rules_version() -> str:
    """Changes whenever the diagnosis may say something else: a hash of its code and knowledge.

    Part of every operator's digest, so that a new version of OLM Web diagnoses anew.
    """
    package = Path(installs.diagnosis.__file__).parent
    hashed = hashlib.sha256()
    for path in sorted([*package.glob("*.py"), *(package.parent / "knowledge").glob("*.yaml")]):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()


def assess(ids: Collection[int], fresh: Collection[Key], moment: Moment) -> int:
    """Diagnoses the operators with these ids; returns how many rows it wrote.

    `fresh` are those seen for the first time, whose state began before we looked.
    """
    wanted = sorted(ids)
    written = 0
    for start in range(0, len(wanted), BATCH):
        batch = wanted[start : start + BATCH]
        rows = list(Operator.objects.filter(id__in=batch))
        parts: dict[int, list[Component]] = {}
        for part in Component.objects.filter(operator_id__in=batch).order_by("-created_at", "id"):
            parts.setdefault(part.operator_id or 0, []).append(part)
        history: list[Transition] = []
        touched = []
        for row in rows:
            key = (row.kind, row.namespace, row.name)
            before = [getattr(row, name) for name in _COLUMNS]
            history += _diagnose(row, parts.get(row.pk, ()), moment, fresh=key in fresh)
            if before != [getattr(row, name) for name in _COLUMNS]:
                touched.append(row)
        upsert(Operator, touched, _COLUMNS)
        Transition.objects.bulk_create(history, batch_size=BATCH)
        written += len(touched)
    return written


def observation_of(row: Operator | Component) -> Observation:
    """The row as the diagnosis wants it."""
    package = row.package if isinstance(row, Operator) else ""
    return Observation(
        kind=row.kind,
        namespace=row.namespace,
        name=row.name,
        conditions=read_conditions(row.conditions),
        phase="" if isinstance(row, Operator) else row.phase,
        deleting=row.deleting,
        extra={"package": package} if package else {},
    )


def _diagnose(
    row: Operator, parts: Sequence[Component], moment: Moment, *, fresh: bool
) -> list[Transition]:
    found = diagnose(observation_of(row), [observation_of(part) for part in parts])
    reason = found.reason[:1024]
    was_health, was_reason = ("", "") if fresh else (row.health, row.reason)
    broken = next((link for link in found.chain if link.first_broken), None)
    row.health, row.reason, row.message = found.health, reason, found.message
    row.finding = found.finding.id if found.finding else ""
    row.facts = dict(found.finding.facts) if found.finding else {}
    row.broken_kind = broken.kind if broken else ""
    row.broken_name = broken.name if broken else ""
    if row.kind == "ClusterExtension":
        row.deprecated = bool(deprecations(read_conditions(row.conditions)))
    if (was_health, was_reason) == (row.health, reason):
        return []
    row.since = _began(row, reason) or moment.now if fresh else moment.now
    return [
        transition(
            moment,
            (row.kind, row.namespace, row.name),
            row.uid,
            HEALTH,
            from_status=was_health,
            from_reason=was_reason,
            to_status=row.health,
            to_reason=reason,
            message=row.message,
        )
    ]


def _began(row: Operator, reason: str) -> datetime | None:
    """Since when a state that was there before we looked has held, as far as its condition says."""
    times = [
        at
        for condition in row.conditions
        if condition.get("reason") == reason
        and (at := read_time(condition.get("lastTransitionTime")))
    ]
    return max(times, default=None)
