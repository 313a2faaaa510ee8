"""A stored row as the diagnosis reads it. The one place that knows both."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from installs.diagnosis import Diagnosis, Observation, diagnose, read_conditions
from installs.models import Component, Observed, Operator

_decode = msgspec.json.Decoder().decode  # of Django's own decoding there is too much in a burst


@dataclass(frozen=True, slots=True)
class Part:
    """What of a Component's row a diagnosis needs: a sync reads thousands, and instances of the
    model would take most of its time."""

    id: int
    kind: str
    namespace: str
    name: str
    conditions: list[dict[str, Any]]
    details: dict[str, Any]
    phase: str
    deleting: bool
    created_at: datetime | None
    operator_id: int | None
    image: str


_PLAIN = ("id", "kind", "namespace", "name", "phase", "deleting", "created_at", "operator_id")


def parts_of(rows: QuerySet[Component]) -> Iterator[Part]:
    """These rows as Parts, in their order."""
    conditions, details = (Cast(name, TextField()) for name in ("conditions", "details"))
    found = rows.values_list(*_PLAIN, "image", conditions, details)
    for pk, kind, namespace, name, phase, deleting, created, operator, image, *told in found:
        yield Part(
            id=pk,
            kind=kind,
            namespace=namespace,
            name=name,
            conditions=_decode(told[0]),
            details=_decode(told[1]),
            phase=phase,
            deleting=deleting,
            created_at=created,
            operator_id=operator,
            image=image,
        )


def observe(row: Observed | Part) -> Observation:
    """The row of an Operator, Component or other object as an Observation."""
    extra = {}
    if isinstance(row, Operator):
        told = {
            "package": row.package,
            "catalog": row.catalog,
            "catalog_namespace": row.catalog_namespace,
        }
        extra = {name: value for name, value in told.items() if value}
    return Observation(
        kind=row.kind,
        namespace=row.namespace,
        name=row.name,
        conditions=read_conditions(one for one in row.conditions if isinstance(one, dict)),
        phase=row.phase if isinstance(row, Component | Part) else "",
        deleting=row.deleting,
        extra=extra,
        details=details_of(row),
        created_at=row.created_at,
        since=row.since if isinstance(row, Operator) else None,
    )


def details_of(row: Observed | Part) -> dict[str, Any]:
    """What the sync kept of it beside conditions; empty when that is no mapping."""
    return row.details if isinstance(row.details, dict) else {}


def diagnose_row(operator: Operator, components: Iterable[Component]) -> Diagnosis:
    """Health, cause, chain and notes as of now, from the rows alone; it asks nobody."""
    return diagnose(
        observe(operator), [observe(component) for component in components], now=timezone.now()
    )
