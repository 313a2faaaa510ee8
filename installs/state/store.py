"""Brings the rows of one table to what was told of their objects, in whatever order it was told.

Knows the columns that all observed objects have, which of two tellings is the newer one, and the
history that changes make; nothing of what the objects mean.

Order: resourceVersions of one kind grow, so an older telling of a name is ignored, and a deletion
takes only a row that is not newer than it. What was deleted stays in the history with its uid and
resourceVersion, so that a late telling of it brings nothing back.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from operator import or_
from typing import Any, TypeVar

from django.db.models import Q, QuerySet

from installs.models import ClusterOperator as ClusterOperatorRow
from installs.models import Component, CRDState, Operator, Transition
from installs.state import bulk
from installs.state.decode import Kept, Key
from installs.state.decode.workloads import carry_pods
from installs.state.history import OBJECT, Moment, State, history_of, states_of, vanished

Table = type[Operator] | type[Component] | type[ClusterOperatorRow] | type[CRDState]
BATCH = bulk.BATCH
PLACES: dict[type[Any], tuple[str, ...]] = {
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
class Known:
    """A stored row, as far as order needs it. `owner_kind` is that of a Component."""

    id: int
    uid: str
    digest: str
    resource_version: str
    owner_kind: str = ""


@dataclass(frozen=True, slots=True)
class Before:
    """What a row said before it was changed or deleted; `phase`, `operator_id`: a Component's.

    `place` has the values of the columns by which others are found, see PLACES.
    """

    conditions: list[dict[str, Any]]
    details: dict[str, Any]
    place: tuple[str, ...] = ()
    phase: str = ""
    operator_id: int | None = None

    def states(self, kind: str) -> dict[str, State]:
        return states_of(kind, self.conditions, self.phase, self.details)


@dataclass(slots=True)
class Reading:
    """What was told of objects of one table.

    `told`: key -> tellings, oldest first. `gone`: key -> (uid, resourceVersion as of which the
    object is not there), empty texts when not known. `mark`: keys whose row must take a
    resourceVersion that moved alone, as no position of their feed vouches for it. `rewound`: the
    cluster went back in time (etcd was restored): what it says counts whatever its version.
    """

    told: dict[Key, list[Kept]] = field(default_factory=dict)
    gone: dict[Key, tuple[str, str]] = field(default_factory=dict)
    mark: set[Key] = field(default_factory=set)
    rewound: bool = False

    @property
    def subjects(self) -> set[Key]:
        return {*self.told, *self.gone}


@dataclass(slots=True)
class Delta:
    """What `store` did. `fresh`: objects not seen before, or others of the same name."""

    ids: dict[Key, int] = field(default_factory=dict)
    changed: dict[Key, Kept] = field(default_factory=dict)
    before: dict[Key, Before] = field(default_factory=dict)
    fresh: set[Key] = field(default_factory=set)
    deleted: set[Key] = field(default_factory=set)

    @property
    def touched(self) -> set[Key]:
        return {*self.changed, *self.deleted}

    def told(self, key: Key) -> Iterator[Mapping[str, Any]]:
        """The details of an object before and after; one of them when it came or went."""
        if key in self.before:
            yield self.before[key].details
        if key in self.changed:
            yield self.changed[key].details

    def written(self) -> Counter[str]:
        return Counter(kind for kind, _, _ in self.changed)

    def removed(self) -> Counter[str]:
        return Counter(kind for kind, _, _ in self.deleted)


def older(one: str, other: str) -> bool:
    """Whether the resourceVersion `one` is known to be older than `other`."""
    return _is_number(one) and _is_number(other) and int(one) < int(other)


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit()


def batched(values: Iterable[_T], size: int = BATCH) -> Iterator[list[_T]]:
    iterator = iter(values)
    while batch := list(islice(iterator, size)):
        yield batch


def among(keys: Collection[Key]) -> Q:
    """Rows that may have one of these keys; the caller compares, as names mix with namespaces."""
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
    """(key, values of `fields`) of the rows that have one of these keys."""
    for batch in batched(sorted(keys)):
        wanted = set(batch)
        found = rows.filter(among(batch)).values_list("kind", "namespace", "name", *fields)
        for kind, namespace, name, *values in found.order_by():
            if (kind, namespace, name) in wanted:
                yield (kind, namespace, name), tuple(values)


def known_rows(
    table: Table, cluster_id: int, *, kinds: Collection[str] = (), keys: Collection[Key] = ()
) -> dict[Key, Known]:
    """The stored rows of these kinds, or those with these keys."""
    rows = table._default_manager.filter(cluster_id=cluster_id)
    fields = ["id", "uid", "digest", "resource_version"]
    fields += ["owner_kind"] if table is Component else []
    if keys:
        return {key: Known(*values) for key, values in rows_of(rows, keys, *fields)}
    if not kinds:
        return {}
    found = rows.filter(kind__in=kinds).values_list("kind", "namespace", "name", *fields)
    return {(row[0], row[1], row[2]): Known(*row[3:]) for row in found.order_by()}


def store(table: Table, reading: Reading, known: Mapping[Key, Known], moment: Moment) -> Delta:
    """Writes what the reading says that the rows don't, in the open transaction.

    `known` has the rows of all keys of the reading that have one.
    """
    delta = Delta(ids={key: known[key].id for key in reading.subjects if key in known})
    buried = _buried(reading, known, moment)
    news = _news(reading, known, buried)
    digests: dict[Key, str] = {}
    marked: list[Kept] = []
    for key, told in news.items():
        old, last = known.get(key), told[-1]
        digest = last.digest()
        if old is None or old.digest != digest:
            digests[key], delta.changed[key] = digest, last
        elif key in reading.mark and old.resource_version != last.resource_version:
            marked.append(last)
        if old is None or old.uid != last.uid:
            delta.fresh.add(key)
    delta.deleted = {
        key
        for key, (_, version) in reading.gone.items()
        if key in known and (reading.rewound or not older(version, known[key].resource_version))
    }
    _remember_before(table, delta, known)
    history = _funerals(reading, delta, known, buried, moment)
    for key in delta.changed:
        uid, before = known[key].uid if key in known else None, delta.before.get(key)
        history += history_of(moment, news[key], uid, before.states(key[0]) if before else {})
    _write(table, delta, digests, moment)
    _mark(table, marked, delta.ids)
    for batch in batched(delta.ids.pop(key) for key in delta.deleted):
        table._default_manager.filter(id__in=batch).delete()
    bulk.insert(Transition, history)
    return delta


def _buried(
    reading: Reading, known: Mapping[Key, Known], moment: Moment
) -> dict[tuple[Key, str], str]:
    """(key, uid) -> resourceVersion of the deletion, of objects of the reading without a row."""
    if reading.rewound:
        return {}
    keys = {key for key in reading.subjects if key not in known and key[0] not in moment.first}
    rows = Transition.objects.filter(cluster_id=moment.cluster_id, type=OBJECT, to_status="deleted")
    found: dict[tuple[Key, str], str] = {}
    for key, (uid, version) in rows_of(rows, keys, "uid", "resource_version"):
        if not older(version, found.get((key, uid), "")):
            found[key, uid] = version
    return found


def _news(
    reading: Reading, known: Mapping[Key, Known], buried: Mapping[tuple[Key, str], str]
) -> dict[Key, list[Kept]]:
    """The tellings that are not older than what we know already."""
    if reading.rewound:
        return reading.told
    # Of any uid: of several that lived within one batch only the last has a deletion of its own.
    last: dict[Key, str] = {}
    for (key, _), version in buried.items():
        if not older(version, last.get(key, "")):
            last[key] = version
    news = {}
    for key, told in reading.told.items():
        old = known.get(key)
        fresh = [
            one
            for one in told
            if not older(
                one.resource_version,
                old.resource_version if old else last.get(key, ""),
            )
        ]
        if fresh:
            news[key] = fresh
    return news


def _remember_before(table: Table, delta: Delta, known: Mapping[Key, Known]) -> None:
    keys = {known[key].id: key for key in (*delta.changed, *delta.deleted) if key in known}
    fields = ["id", "conditions", "details"]
    fields += ["phase", "operator_id"] if table is Component else []
    places = PLACES.get(table, ())
    for batch in batched(keys):
        rows = table._default_manager.filter(id__in=batch).order_by()
        for pk, conditions, details, *values in rows.values_list(*fields, *places):
            rest, place = values[: len(fields) - 3], tuple(values[len(fields) - 3 :])
            delta.before[keys[pk]] = Before(conditions, details, place, *rest)


def _funerals(
    reading: Reading,
    delta: Delta,
    known: Mapping[Key, Known],
    buried: Mapping[tuple[Key, str], str],
    moment: Moment,
) -> list[Transition]:
    """Deletions, those of objects that we never saw among them: a late telling must not revive."""
    history = []
    for key, (uid, version) in reading.gone.items():
        if key in delta.deleted:
            history.append(vanished(moment, key, known[key].uid, version))
        elif key not in known and uid and (key, uid) not in buried:
            history.append(vanished(moment, key, uid, version, seen=False))
    return history


def _write(table: Table, delta: Delta, digests: Mapping[Key, str], moment: Moment) -> None:
    """Kind by kind, as each has columns of its own; others are derived and stay as they are."""
    by_kind: dict[str, list[Kept]] = defaultdict(list)
    for key, one in delta.changed.items():
        by_kind[key[0] if table is Operator else ""].append(one)
    for kept in by_kind.values():
        rows: list[Any] = [
            table(
                cluster_id=moment.cluster_id,
                kind=one.kind,
                namespace=one.namespace,
                name=one.name,
                uid=one.uid,
                resource_version=one.resource_version,
                generation=one.generation,
                digest=digests[one.key],
                created_at=one.created_at,
                deleting=one.deleting,
                conditions=one.conditions,
                details=_details(one, delta.before.get(one.key)),
                observed_at=moment.now,
                **one.columns,
            )
            for one in kept
        ]
        upsert(table, rows, [*_COMMON, *kept[0].columns])
        delta.ids.update({one.key: row.pk for one, row in zip(kept, rows, strict=True)})


def _details(one: Kept, before: Before | None) -> dict[str, Any]:
    return carry_pods(one, before.details) if before and one.kind == "Deployment" else one.details


def _mark(table: Table, marked: Sequence[Kept], ids: Mapping[Key, int]) -> None:
    rows = [table(id=ids[one.key], resource_version=one.resource_version) for one in marked]
    bulk.update(table, rows, ["resource_version"])


def upsert(table: Table, rows: Sequence[Any], columns: Sequence[str]) -> None:
    """Inserts rows, or writes these columns of those that have their identity; sets their ids."""
    identity = ["cluster", "name"]
    if table not in (ClusterOperatorRow, CRDState):
        identity += ["kind", "namespace"]
    bulk.upsert(table, rows, columns, identity)
