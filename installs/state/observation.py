"""Converts stored rows to the Observations that the diagnosis takes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from installs.diagnosis.chains import diagnose
from installs.diagnosis.types import Diagnosis, Observation, read_conditions
from installs.models import ClusterInventory, Component, Observed, Operator
from installs.state.decode import Key

_decode = msgspec.json.Decoder().decode  # faster than Django's JSONField in a burst of changes


@dataclass(frozen=True, slots=True)
class ComponentRow:
    """The columns of a Component that a diagnosis needs. A sync reads thousands of rows, most of
    whose time would go into model instances."""

    id: int
    kind: str
    namespace: str
    name: str
    phase: str
    deleting: bool
    created_at: datetime | None
    operator_id: int | None
    image: str
    conditions: list[dict[str, Any]]
    details: dict[str, Any]

    @property
    def key(self) -> Key:
        return self.kind, self.namespace, self.name


_COLUMNS = [field.name for field in fields(ComponentRow)]


def component_rows(rows: QuerySet[Component]) -> Iterator[ComponentRow]:
    """Reads these rows, in their order."""
    json = (Cast(name, TextField()) for name in _COLUMNS[-2:])
    for row in rows.values_list(*_COLUMNS[:-2], *json):
        yield ComponentRow(*row[:-2], *map(_decode, row[-2:]))


def observe(row: Observed | ComponentRow) -> Observation:
    """Converts the row of an Operator, Component or other object."""
    extra = {}
    if isinstance(row, Operator):
        names = ("package", "catalog", "catalog_namespace")
        extra = {name: value for name in names if (value := getattr(row, name))}
    return Observation(
        kind=row.kind,
        namespace=row.namespace,
        name=row.name,
        conditions=read_conditions(
            condition for condition in row.conditions if isinstance(condition, dict)
        ),
        phase=row.phase if isinstance(row, Component | ComponentRow) else "",
        deleting=row.deleting,
        extra=extra,
        details=details_of(row),
        created_at=row.created_at,
        since=row.since if isinstance(row, Operator) else None,
    )


def details_of(row: Observed | ComponentRow) -> dict[str, Any]:
    """The decoded fields besides the conditions; empty if the column holds no mapping."""
    return row.details if isinstance(row.details, dict) else {}


def diagnose_row(operator: Operator, components: Iterable[Component]) -> Diagnosis:
    """Health, cause, chain and notes as of now, from stored rows alone; at most one query."""
    return diagnose(
        observe(operator),
        [observe(component) for component in components],
        now=timezone.now(),
        catalogd=partial(catalogd_of, operator.cluster_id),
    )


def catalogd_of(cluster_id: int) -> dict[str, Any]:
    """The Deployment of catalogd, as installs.facts.inventory read it last; empty if unknown.
    One query."""
    rows = ClusterInventory.objects.filter(cluster=cluster_id)
    return rows.values_list("catalogd", flat=True).first() or {}
