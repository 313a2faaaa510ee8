"""Converts stored rows to the Observations that the diagnosis takes."""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import msgspec
from django.db.models import Case, QuerySet, TextField, Value, When
from django.db.models.functions import Cast
from django.utils import timezone

from installs.diagnosis.chains import diagnose
from installs.diagnosis.types import Diagnosis, Observation, read_conditions
from installs.models import ClusterInventory, Component, Observed, Operator
from installs.state.decode import Key
from installs.state.resources import WATCHED_RESOURCES
from olmweb.models import Cluster, ResourceWatch

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


@dataclass(frozen=True, slots=True)
class UnreadKind:
    """A kind of which a cluster may have objects that are not stored: its account may not list it,
    its last list or watch failed with `error`, or no list of it has succeeded yet."""

    kind: str
    forbidden: bool
    error: str

    @property
    def permission(self) -> str:
        """The permission that reading it takes, in words."""
        resource = next(row.resource for row in WATCHED_RESOURCES if row.kind == self.kind)
        name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        return f"get, list and watch on {name}"


class WatchedRow(NamedTuple):
    """The columns of a ResourceWatch that tell whether it was read; `listed` is a text, empty if
    it never was."""

    resource: str
    state: str
    error: str
    listed: str


def watched_rows(cluster_id: int) -> QuerySet[ResourceWatch, tuple[str, ...]]:
    """Rows of WatchedRow. All columns are texts, so that a union can add them to other rows."""
    listed = Case(When(listed_at__isnull=True, then=Value("")), default=Value("listed"))
    rows = ResourceWatch.objects.filter(cluster=cluster_id).order_by()
    return rows.values_list("resource", "state", "error", listed)


def read_unread_kinds(cluster_id: int) -> dict[str, UnreadKind]:
    """`unread_kinds` of a cluster; two queries."""
    reachable = Cluster.objects.values_list("reachable", flat=True).get(pk=cluster_id)
    return unread_kinds(map(WatchedRow._make, watched_rows(cluster_id)), reachable=reachable)


def unread_kinds(rows: Iterable[WatchedRow], *, reachable: bool | None) -> dict[str, UnreadKind]:
    """The kinds of a cluster that could not be read completely. Kinds that it does not serve have
    no objects. All kinds of an unreachable cluster are known as of the last sync."""
    watches = {row.resource: row for row in rows}
    state = ResourceWatch.State
    unread: dict[str, UnreadKind] = {}
    for watched in WATCHED_RESOURCES:
        watch = watches.get(watched.name)
        if watch is None:
            unread.setdefault(watched.kind, UnreadKind(watched.kind, forbidden=False, error=""))
            continue
        failed = watch.state == state.RETRYING and reachable
        never_listed = not watch.listed and watch.state != state.ABSENT
        if watch.state == state.FORBIDDEN or failed or never_listed:
            forbidden = watch.state == state.FORBIDDEN
            unread[watched.kind] = UnreadKind(watched.kind, forbidden, watch.error)
    return unread


def diagnose_row(
    operator: Operator, components: Iterable[Component], unread: Container[str] = ()
) -> Diagnosis:
    """Health, cause, chain and notes as of now, from stored rows alone; at most one query. `unread`
    are the kinds of `unread_kinds`."""
    return diagnose(
        observe(operator),
        [observe(component) for component in components],
        now=timezone.now(),
        catalogd=partial(catalogd_of, operator.cluster_id),
        unread=lambda: unread,
    )


def catalogd_of(cluster_id: int) -> dict[str, Any]:
    """The Deployment of catalogd, as installs.facts.inventory read it last; empty if unknown.
    One query."""
    rows = ClusterInventory.objects.filter(cluster=cluster_id)
    return rows.values_list("catalogd", flat=True).first() or {}
