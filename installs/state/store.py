"""Upserts and deletes the rows of one table from decoded objects, in whatever order they arrive.

Handles the columns that all observed objects share, the order of versions, and the history of
changes; the meaning of the objects is not known here.

Order: resourceVersions of a kind grow, so an older version of an object is ignored, and a deletion
applies only to a row that is not newer. The history records a deletion with uid and
resourceVersion, so that an older event that arrives later does not restore the object.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from operator import or_
from typing import Any, TypeVar

from django.db.models import Q, QuerySet

from installs.models import ClusterOperator as ClusterOperatorRow
from installs.models import Component, CRDState, Operator, Transition
from installs.state.decode import DecodedObject, Key
from installs.state.decode.workloads import carry_pods
from installs.state.history import (
    OBJECT,
    RecordedState,
    WriteContext,
    deletion,
    events_of,
    history_of,
    states_of,
)
from olmweb import bulk
from olmweb.eventlog.record import record

Table = type[Operator] | type[Component] | type[ClusterOperatorRow] | type[CRDState]
BATCH = bulk.INSTANCES
LOOKUP_COLUMNS: dict[type[Any], tuple[str, ...]] = {
    Component: ("owner_kind", "owner_namespace", "owner_name"),
    Operator: ("catalog", "catalog_namespace"),
}
_COMMON = (
    "uid",
    "resource_version",
    "generation",
    "digest",
    "created_at",
    "deleting",
    "conditions",
    "details",
    "observed_at",
)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class StoredRow:
    """The columns of a stored row that decide order. `owner_kind` is set for Components only."""

    id: int
    uid: str
    digest: str
    resource_version: str
    owner_kind: str = ""


@dataclass(frozen=True, slots=True)
class PreviousState:
    """A row before it was changed or deleted. `phase` and `operator_id` are set for Components.

    `lookup` holds the values of the table's LOOKUP_COLUMNS.
    """

    conditions: list[dict[str, Any]]
    details: dict[str, Any]
    lookup: tuple[str, ...] = ()
    phase: str = ""
    operator_id: int | None = None

    def states(self, kind: str) -> dict[str, RecordedState]:
        return states_of(kind, self.conditions, self.phase, self.details)


@dataclass(slots=True)
class TableInput:
    """Objects to write to one table.

    `versions`: key -> versions of the object, oldest first. `deleted`: key -> (uid, resourceVersion
    as of which the object does not exist), empty if unknown. `version_only`: keys whose row must
    take a new resourceVersion even if nothing else changed, because no stored position covers it.
    `rewound`: the cluster was restored from a backup, so its objects count whatever their version.
    """

    versions: dict[Key, list[DecodedObject]] = field(default_factory=dict)
    deleted: dict[Key, tuple[str, str]] = field(default_factory=dict)
    version_only: set[Key] = field(default_factory=set)
    rewound: bool = False

    @property
    def keys(self) -> set[Key]:
        return {*self.versions, *self.deleted}


@dataclass(slots=True)
class Delta:
    """The result of `store`. `new`: objects without a row before, or recreated under their name."""

    ids: dict[Key, int] = field(default_factory=dict)
    changed: dict[Key, DecodedObject] = field(default_factory=dict)
    before: dict[Key, PreviousState] = field(default_factory=dict)
    new: set[Key] = field(default_factory=set)
    deleted: set[Key] = field(default_factory=set)

    @property
    def touched(self) -> set[Key]:
        return {*self.changed, *self.deleted}

    def details_before_and_after(self, key: Key) -> Iterator[Mapping[str, Any]]:
        """The details of an object before and after the change, as far as there are any."""
        if key in self.before:
            yield self.before[key].details
        if key in self.changed:
            yield self.changed[key].details


def older(version: str, other: str) -> bool:
    """Whether the resourceVersion is older than the other; False if that can't be compared."""
    return _is_number(version) and _is_number(other) and int(version) < int(other)


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit()


def batched(values: Iterable[_T], size: int = BATCH) -> Iterator[list[_T]]:
    iterator = iter(values)
    while batch := list(islice(iterator, size)):
        yield batch


def among(keys: Collection[Key]) -> Q:
    """Rows that may have one of these keys. Callers compare keys, as namespaces and names mix."""
    by_kind: dict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for kind, namespace, name in keys:
        by_kind[kind][0].add(namespace)
        by_kind[kind][1].add(name)
    return reduce(
        or_,
        (
            Q(kind=kind, namespace__in=namespaces, name__in=names)
            for kind, (namespaces, names) in by_kind.items()
        ),
    )


def rows_of(
    rows: QuerySet[Any, Any], keys: Iterable[Key], *fields: str
) -> Iterator[tuple[Key, tuple[Any, ...]]]:
    """Yields (key, values of `fields`) of the rows with one of these keys."""
    for batch in batched(sorted(keys)):
        wanted = set(batch)
        matches = rows.filter(among(batch)).values_list("kind", "namespace", "name", *fields)
        for kind, namespace, name, *values in matches.order_by():
            if (kind, namespace, name) in wanted:
                yield (kind, namespace, name), tuple(values)


def stored_rows(
    table: Table, cluster_id: int, *, kinds: Collection[str] = (), keys: Collection[Key] = ()
) -> dict[Key, StoredRow]:
    """The stored rows with these keys, or else of these kinds."""
    rows = table._default_manager.filter(cluster_id=cluster_id)
    fields = ["id", "uid", "digest", "resource_version"]
    fields += ["owner_kind"] if table is Component else []
    if keys:
        return {key: StoredRow(*values) for key, values in rows_of(rows, keys, *fields)}
    if not kinds:
        return {}
    values = rows.filter(kind__in=kinds).values_list("kind", "namespace", "name", *fields)
    return {(row[0], row[1], row[2]): StoredRow(*row[3:]) for row in values.order_by()}


def store(
    table: Table, table_input: TableInput, stored: Mapping[Key, StoredRow], context: WriteContext
) -> Delta:
    """Writes the differences between input and rows, in the open transaction.

    `stored` has the rows of all keys of the input, as far as they exist.
    """
    delta = Delta(ids={key: stored[key].id for key in table_input.keys if key in stored})
    recorded_deletions = _recorded_deletions(table_input, stored, context)
    current = _current_versions(table_input, stored, recorded_deletions)
    digests: dict[Key, str] = {}
    version_only: list[DecodedObject] = []
    for key, versions in current.items():
        old, last = stored.get(key), versions[-1]
        digest = last.digest()
        if old is None or old.digest != digest:
            digests[key], delta.changed[key] = digest, last
        elif key in table_input.version_only and old.resource_version != last.resource_version:
            version_only.append(last)
        if old is None or old.uid != last.uid:
            delta.new.add(key)
    delta.deleted = {
        key
        for key, (_, version) in table_input.deleted.items()
        if key in stored
        and (table_input.rewound or not older(version, stored[key].resource_version))
    }
    _load_previous(table, delta, stored)
    history = _deletion_history(table_input, delta, stored, recorded_deletions, context)
    for key in delta.changed:
        uid, before = stored[key].uid if key in stored else None, delta.before.get(key)
        history += history_of(context, current[key], uid, before.states(key[0]) if before else {})
    _write(table, delta, digests, context)
    newer = [table(id=delta.ids[o.key], resource_version=o.resource_version) for o in version_only]
    bulk.update(table, newer, ["resource_version"])
    for batch in batched(delta.ids.pop(key) for key in delta.deleted):
        table._default_manager.filter(id__in=batch).delete()
    bulk.insert(Transition, history)
    record(events_of(context, history, {}))
    return delta


def _recorded_deletions(
    table_input: TableInput, stored: Mapping[Key, StoredRow], context: WriteContext
) -> dict[tuple[Key, str], str]:
    """(key, uid) -> resourceVersion of the deletion, for objects of the input without a row."""
    if table_input.rewound:
        return {}
    keys = {
        key
        for key in table_input.keys
        if key not in stored and key[0] not in context.first_read_kinds
    }
    rows = Transition.objects.filter(
        cluster_id=context.cluster_id, type=OBJECT, to_status="deleted"
    )
    deleted: dict[tuple[Key, str], str] = {}
    for key, (uid, version) in rows_of(rows, keys, "uid", "resource_version"):
        if not older(version, deleted.get((key, uid), "")):
            deleted[key, uid] = version
    return deleted


def _current_versions(
    table_input: TableInput,
    stored: Mapping[Key, StoredRow],
    recorded_deletions: Mapping[tuple[Key, str], str],
) -> dict[Key, list[DecodedObject]]:
    """The versions that are not older than the row or its recorded deletion."""
    if table_input.rewound:
        return table_input.versions
    # Of any uid: of objects recreated within one batch only the last has a recorded deletion.
    last: dict[Key, str] = {}
    for (key, _), version in recorded_deletions.items():
        if not older(version, last.get(key, "")):
            last[key] = version
    current = {}
    for key, versions in table_input.versions.items():
        limit = stored[key].resource_version if key in stored else last.get(key, "")
        if not_older := [obj for obj in versions if not older(obj.resource_version, limit)]:
            current[key] = not_older
    return current


def _load_previous(table: Table, delta: Delta, stored: Mapping[Key, StoredRow]) -> None:
    keys = {stored[key].id: key for key in (*delta.changed, *delta.deleted) if key in stored}
    fields = ["id", "conditions", "details"]
    fields += ["phase", "operator_id"] if table is Component else []
    lookup_columns = LOOKUP_COLUMNS.get(table, ())
    for batch in batched(keys):
        rows = table._default_manager.filter(id__in=batch).order_by()
        for pk, conditions, details, *values in rows.values_list(*fields, *lookup_columns):
            rest, lookup = values[: len(fields) - 3], tuple(values[len(fields) - 3 :])
            delta.before[keys[pk]] = PreviousState(conditions, details, lookup, *rest)


def _deletion_history(
    table_input: TableInput,
    delta: Delta,
    stored: Mapping[Key, StoredRow],
    recorded_deletions: Mapping[tuple[Key, str], str],
    context: WriteContext,
) -> list[Transition]:
    """History rows of deletions, also of objects that never had a row: an older event that arrives
    later must not create them."""
    history = []
    for key, (uid, version) in table_input.deleted.items():
        if key in delta.deleted:
            history.append(deletion(context, key, stored[key].uid, version))
        elif key not in stored and uid and (key, uid) not in recorded_deletions:
            history.append(deletion(context, key, uid, version, was_stored=False))
    return history


def _write(table: Table, delta: Delta, digests: Mapping[Key, str], context: WriteContext) -> None:
    """Upserts by kind, as each kind decodes other columns; derived columns stay as they are."""
    by_kind: dict[str, list[DecodedObject]] = defaultdict(list)
    for key, obj in delta.changed.items():
        by_kind[key[0] if table is Operator else ""].append(obj)
    for group in by_kind.values():
        rows: list[Any] = [
            table(
                cluster_id=context.cluster_id,
                kind=obj.kind,
                namespace=obj.namespace,
                name=obj.name,
                uid=obj.uid,
                resource_version=obj.resource_version,
                generation=obj.generation,
                digest=digests[obj.key],
                created_at=obj.created_at,
                deleting=obj.deleting,
                conditions=obj.conditions,
                details=carry_pods(obj, delta.before[obj.key].details)
                if obj.key in delta.before
                else obj.details,
                observed_at=context.now,
                **obj.columns,
            )
            for obj in group
        ]
        upsert(table, rows, [*_COMMON, *group[0].columns])
        delta.ids.update({obj.key: row.pk for obj, row in zip(group, rows, strict=True)})


def upsert(table: Table, rows: Sequence[Any], columns: Sequence[str]) -> None:
    """Inserts rows, or updates these columns of the existing ones; sets their ids."""
    identity = ["cluster", "name"]
    if table not in (ClusterOperatorRow, CRDState):
        identity += ["kind", "namespace"]
    bulk.upsert(table, rows, columns, identity)
