"""Writes lists and watch events of a cluster into the tables, and what is derived from them.

Every transaction first locks the Cluster's row, so that no change is recorded by two writers.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db.models import F
from django.utils import timezone

from catalogs.sync.cluster_catalogs import record_catalog_sources, record_cluster_catalogs
from installs.models import ClusterOperator, Component, CRDState, Event, Operator
from installs.state.assess import assess, assess_crds, basis, lists_members, update_members
from installs.state.decode import OPERATOR_KINDS, DecodedObject, Key
from installs.state.dependencies import dependency_notes
from installs.state.history import WriteContext
from installs.state.links import csvs_without_operator, link
from installs.state.listing import ABSENT, FAILED, FORBIDDEN, SERVED, ResourceList, Snapshot
from installs.state.resources import BY_NAME, Change, Position
from installs.state.store import (
    Delta,
    StoredRow,
    Table,
    TableInput,
    batched,
    older,
    rows_of,
    store,
    stored_rows,
)
from olmweb import bulk
from olmweb.eventlog.record import record_reachable
from olmweb.kube.fields import Object
from olmweb.models import Cluster, ResourceWatch
from olmweb.runtime.leases import fenced_transaction

EVENT = "Event"
_CLUSTER_CATALOGS = ("ClusterCatalog", "Catalog")  # the kind's present and former name
_CATALOG_SOURCE = "CatalogSource"
CATALOG_KINDS = (*_CLUSTER_CATALOGS, _CATALOG_SOURCE)
_TABLES: tuple[Table, ...] = (Component, Operator, ClusterOperator, CRDState)
# The columns of a Cluster that has answered.
REACHABLE: dict[str, Any] = {
    **dict.fromkeys(("error_code", "error_text", "error_hint"), ""),
    "reachable": True,
    "unreachable_since": None,
}
_STATES = {
    SERVED: ResourceWatch.State.LISTED,
    ABSENT: ResourceWatch.State.ABSENT,
    FORBIDDEN: ResourceWatch.State.FORBIDDEN,
    FAILED: ResourceWatch.State.RETRYING,
}


@dataclass(slots=True)
class WriteResult:
    """Counts of rows written and deleted by kind; `derived` counts rows of no object of their own.

    `changed`: readers of the cluster see a difference, so its revision was incremented.
    """

    written: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    derived: int = 0
    changed: bool = False

    @property
    def total(self) -> int:
        return self.written.total() + self.deleted.total() + self.derived


def table_of(kind: str) -> Table:
    """The table for objects of a kind other than Event."""
    if kind in OPERATOR_KINDS:
        return Operator
    if kind == "ClusterOperator":
        return ClusterOperator
    return CRDState if kind == "CustomResourceDefinition" else Component


@dataclass(slots=True)
class _WriteInput:
    """The input of one transaction. `catalogs`: the complete lists of catalog objects by kind.

    `derive`: columns of operators are derived even if neither operators nor components change,
    because rules or catalogs may have changed.
    """

    tables: dict[Table, TableInput] = field(default_factory=lambda: defaultdict(TableInput))
    stored: dict[Table, dict[Key, StoredRow]] = field(default_factory=dict)
    events: list[DecodedObject] = field(default_factory=list)
    catalogs: dict[str, list[DecodedObject]] = field(default_factory=dict)
    derive: bool = True


def lock(cluster: Cluster) -> Cluster:
    """Locks and returns the Cluster's row: no other writer until the transaction ends.

    Not its key: who commits rows that refer to the cluster, such as actions, waits for no writer.
    """
    return Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)


# -- lists -----------------------------------------------------------------------------------------


def write_snapshot(cluster: Cluster, snapshot: Snapshot) -> WriteResult:
    """Makes the rows equal to the lists, in a fenced transaction, with ResourceWatches and Cluster.

    Rows of resources that could not be read stay. A list deletes only rows that it would have
    listed and that are not newer than the list.
    """
    with fenced_transaction():
        row = lock(cluster)
        now = timezone.now()
        watches = {watch.resource: watch for watch in ResourceWatch.objects.filter(cluster=row)}
        first_read_kinds = _first_read_kinds(BY_NAME, watches)
        incoming = _input_of_lists(row.pk, snapshot, watches)
        context = WriteContext(row.pk, now, first_read_kinds)
        _save_lists(row.pk, snapshot, watches, now)  # first: diagnoses need to know what was read
        written = _write(row, incoming, context, _platform_operators_known(row, snapshot))
        written.changed = _save_cluster(row, snapshot, written, now)
    cluster.refresh_from_db()
    return written


def _first_read_kinds(names: Iterable[str], watches: Mapping[str, ResourceWatch]) -> frozenset[str]:
    """Kinds of these watched resources that have no complete list yet."""
    return frozenset(
        BY_NAME[name].kind
        for name in names
        if name not in watches or watches[name].listed_at is None
    )


def _input_of_lists(
    cluster_id: int, snapshot: Snapshot, watches: Mapping[str, ResourceWatch]
) -> _WriteInput:
    incoming = _WriteInput()
    read = {
        BY_NAME[name]: result for name, result in snapshot.lists.items() if result.authoritative
    }
    kinds: dict[Table, set[str]] = defaultdict(set)
    for watched, result in read.items():
        if watched.kind == EVENT:
            incoming.events += result.objects
        else:
            kinds[table_of(watched.kind)].add(watched.kind)
        if watched.kind in CATALOG_KINDS:
            incoming.catalogs[watched.kind] = list(result.objects)
    for table, wanted in kinds.items():
        stored = stored_rows(table, cluster_id, kinds=wanted)
        incoming.stored[table] = stored
        table_input = incoming.tables[table]
        for watched, result in read.items():
            if watched.kind in wanted:
                watch = watches.get(watched.name)
                table_input.rewound |= _rewound(result, watch, snapshot.began_at)
                table_input.versions |= {obj.key: [obj] for obj in result.objects}
        for key, row in stored.items():
            covering = (  # lists that contain the object if it exists
                result
                for watched, result in read.items()
                if watched.kind == key[0] and watched.owner_kind in ("", row.owner_kind)
            )
            if key not in table_input.versions and (listing := next(covering, None)):
                table_input.deleted[key] = ("", listing.resource_version)
    return incoming


def _rewound(result: ResourceList, watch: ResourceWatch | None, began_at: datetime) -> bool:
    """Whether the list is older than the stored position although it was requested later, which
    happens after a restore of etcd."""
    return (
        watch is not None
        and older(result.resource_version, watch.resource_version)
        and watch.last_event_at is not None
        and watch.last_event_at < began_at
    )


def _save_lists(
    cluster_id: int, snapshot: Snapshot, watches: Mapping[str, ResourceWatch], now: datetime
) -> None:
    rows = []
    for name, result in snapshot.lists.items():
        row = watches.get(name) or ResourceWatch(
            cluster_id=cluster_id, resource=name, kind=BY_NAME[name].kind
        )
        rewound = _rewound(result, row, snapshot.began_at)
        if result.authoritative:
            if rewound or not older(result.resource_version, row.resource_version):
                row.resource_version = result.resource_version
            row.listed_at = row.last_event_at = now
            row.lists += 1
        is_watched = result.state == SERVED and row.state == ResourceWatch.State.WATCHING
        row.state = row.state if is_watched else _STATES[result.state]
        row.error = result.error
        rows.append(row)
    columns = ["resource_version", "state", "error", "listed_at", "last_event_at", "lists"]
    bulk.upsert(ResourceWatch, rows, columns, ["cluster", "resource"])


def _platform_operators_known(cluster: Cluster, snapshot: Snapshot) -> bool:
    """Whether the list of PlatformOperators is complete."""
    result = snapshot.lists.get("PlatformOperator")
    state = (
        result.state if result else cluster.kinds.get("PlatformOperator", {}).get("state", SERVED)
    )
    return state in (SERVED, ABSENT)


def _save_cluster(row: Cluster, snapshot: Snapshot, written: WriteResult, now: datetime) -> bool:
    """Updates the row; returns whether readers see a difference, which increments `revision`."""
    kinds = {**row.kinds, **kind_states(row, snapshot, now)}
    fields: dict[str, Any] = {"kinds": kinds, "server": snapshot.server or row.server}
    fields["version"] = snapshot.version or row.version
    fields["console"] = row.console if snapshot.console is None else snapshot.console
    before = (row.version, row.server, row.console, row.reachable, row.error_code)
    after = (fields["version"], fields["server"], fields["console"], True, "")
    changed = bool(written.total) or before != after or _shown(row.kinds) != _shown(kinds)
    if snapshot.complete:
        fields["synced_at"] = now
    save_reachable(row, now, changed=changed, **fields)
    return changed


def _shown(kinds: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The part of Cluster.kinds that pages show."""
    return {
        kind: [state.get(key) for key in ("state", "version", "error")]
        for kind, state in kinds.items()
    }


def save_reachable(row: Cluster, now: datetime, *, changed: bool, **fields: Any) -> None:
    """Updates what differs in the locked row of a cluster that has answered.

    `row.assessed` may have been set since it was read, so it is always written.
    """
    fields |= REACHABLE | {"checked_at": now}
    differing = {name: value for name, value in fields.items() if getattr(row, name) != value}
    if changed:
        differing["revision"] = F("revision") + 1
    Cluster.objects.filter(pk=row.pk).update(**differing, assessed=row.assessed)
    if row.reachable is False:
        record_reachable(row, now)


def kind_states(cluster: Cluster, snapshot: Snapshot, now: datetime) -> dict[str, dict[str, Any]]:
    """Cluster.kinds of the listed kinds: the worst state of the lists of a kind. A kind that could
    not be read keeps the count and time of its last complete list."""
    ranks = (FORBIDDEN, FAILED, SERVED, ABSENT)
    by_kind: dict[str, list[ResourceList]] = defaultdict(list)
    for name, result in snapshot.lists.items():
        by_kind[BY_NAME[name].kind].append(result)
    states = {}
    for kind, results in by_kind.items():
        worst = min(results, key=lambda result: ranks.index(result.state))
        old = cluster.kinds.get(kind, {})
        is_read = all(result.authoritative for result in results)
        version = next((result.version for result in results if result.version), "")
        count = sum(len(result.objects) for result in results)
        states[kind] = {
            "state": worst.state,
            "version": version or ("" if is_read else old.get("version", "")),
            "objects": count if is_read else old.get("objects", 0),
            "synced_at": now.isoformat() if is_read else old.get("synced_at"),
            "error": worst.error,
        }
    return states


# -- watch events ----------------------------------------------------------------------------------


def apply_changes(
    cluster: Cluster,
    changes: Sequence[Change],
    positions: Mapping[str, Position],
    *,
    derive: bool = True,
) -> WriteResult:
    """Writes watch events and the positions reached, in a fenced transaction.

    Events may be repeated, late or out of order: versions older than the rows are ignored. The
    work is proportional to the events and the operators that they affect. With `derive`, columns of
    operators are derived even if no operator or component changes, as rules or catalogs may have
    changed.
    """
    with fenced_transaction():
        row = lock(cluster)
        now = timezone.now()
        names = {change.resource for change in changes} | set(positions)
        stored = ResourceWatch.objects.filter(cluster=row, resource__in=names).order_by()
        columns = ("resource", "resource_version", "listed_at", "last_event_at")
        watches = {watch.resource: watch for watch in stored.only(*columns)}
        incoming = _input_of_changes(row.pk, changes, positions, watches)
        incoming.derive = derive
        context = WriteContext(row.pk, now, _first_read_kinds(names, watches))
        written = _write(row, incoming, context, _platform_operators_known(row, Snapshot()))
        _save_positions(row.pk, positions, watches)
        fields = {
            "version": _last_detail(changes, "ClusterVersion", "version") or row.version,
            "console": _last_detail(changes, "Console", "address", row.console),
        }
        differs = not row.reachable or any(
            getattr(row, name) != value for name, value in fields.items()
        )
        written.changed = bool(written.total) or differs
        save_reachable(row, now, changed=written.changed, synced_at=now, **fields)
    return written


def _input_of_changes(
    cluster_id: int,
    changes: Sequence[Change],
    positions: Mapping[str, Position],
    watches: Mapping[str, ResourceWatch],
) -> _WriteInput:
    incoming = _WriteInput()
    by_key: dict[Key, list[Change]] = defaultdict(list)
    for change in changes:
        watch = watches.get(change.resource)
        if watch is not None and older(change.obj.resource_version, watch.resource_version):
            continue  # already covered by the stored position
        if change.obj.kind == EVENT:
            incoming.events += [] if change.deleted else [change.obj]
        else:
            by_key[change.obj.key].append(change)
    keys: dict[Table, set[Key]] = defaultdict(set)
    for key in by_key:
        keys[table_of(key[0])].add(key)
    for table, wanted in keys.items():
        incoming.stored[table] = stored_rows(table, cluster_id, keys=wanted)
        for key in wanted:
            row = incoming.stored[table].get(key)
            owner_kind = row.owner_kind if row else None
            _fold(incoming.tables[table], key, by_key[key], positions, owner_kind)
    return incoming


def _fold(
    table_input: TableInput,
    key: Key,
    changes: list[Change],
    positions: Mapping[str, Position],
    owner_kind: str | None,
) -> None:
    """Combines the events of one object in the order in which they happened.

    An object that left one selection may have entered another: a deletion counts only if the row
    belongs to the selection it was deleted from.
    """
    if all(_number(change) is not None for change in changes):
        changes = sorted(changes, key=lambda change: (_number(change) or 0, not change.deleted))
    last = changes[-1]
    if last.deleted:
        selected = BY_NAME[last.resource].owner_kind
        if not selected or owner_kind in (None, selected):
            table_input.deleted[key] = (last.obj.uid, last.obj.resource_version)
        return
    table_input.versions[key] = [change.obj for change in changes if not change.deleted]
    position = positions.get(last.resource)
    if position is None or older(position.resource_version, last.obj.resource_version):
        table_input.version_only.add(key)


def _number(change: Change) -> int | None:
    version = change.obj.resource_version
    return int(version) if version.isascii() and version.isdigit() else None


def _save_positions(
    cluster_id: int, positions: Mapping[str, Position], watches: Mapping[str, ResourceWatch]
) -> None:
    known, new = [], []
    for name, position in positions.items():
        row = watches.get(name)
        if row is None:
            row = ResourceWatch(cluster_id=cluster_id, resource=name, kind=BY_NAME[name].kind)
            new.append(row)
        else:
            known.append(row)
        if not older(position.resource_version, row.resource_version):
            row.resource_version = position.resource_version[:100]
        row.last_event_at = position.last_event_at
    bulk.update(ResourceWatch, known, ["resource_version", "last_event_at"])
    bulk.insert(ResourceWatch, new)


def _last_detail(changes: Sequence[Change], kind: str, name: str, default: str = "") -> str:
    """This detail in the last event of the kind, empty for a deleted object; `default` without an
    event."""
    matches = [change for change in changes if change.obj.kind == kind]
    if not matches:
        return default
    return "" if matches[-1].deleted else str(matches[-1].obj.details[name])


# -- both ------------------------------------------------------------------------------------------


def _write(
    cluster: Cluster, incoming: _WriteInput, context: WriteContext, comparable: bool
) -> WriteResult:
    """Writes the tables, then derives. Sets `cluster.assessed`; the caller saves the row."""
    result = WriteResult()
    deltas: dict[Table, Delta] = {}
    if Operator in incoming.tables:
        notes = dependency_notes(cluster.pk, incoming.tables[Operator].deleted)
        context = replace(context, deletion_notes=notes)
    for table in _TABLES:
        if table in incoming.tables:
            table_input = incoming.tables[table]
            deltas[table] = store(table, table_input, incoming.stored.get(table, {}), context)
            result.written.update(kind for kind, _, _ in deltas[table].changed)
            result.deleted.update(kind for kind, _, _ in deltas[table].deleted)
    everything = False
    changed_tables = {table for table, delta in deltas.items() if delta.touched}
    if incoming.derive or changed_tables & {Operator, Component}:
        now_basis = basis(cluster.pk)
        # An object whose kind was not read before was not known; now it may be missing.
        everything = cluster.assessed != now_basis or bool(context.first_read_kinds)
        cluster.assessed = now_basis
        _derive_operators(cluster.pk, deltas, context, result, everything=everything)
    _derive_crds(cluster.pk, deltas, result, everything=everything)
    platform = {key[0] for key in deltas.get(Operator, Delta()).touched}
    has_members = lists_members(deltas.get(ClusterOperator, Delta()))
    if has_members or "PlatformOperator" in platform or everything:
        written, members = update_members(cluster.pk, comparable=comparable)
        result.written["ClusterOperator"] += written
        result.derived += members
    result.derived += record_catalogs(cluster, incoming.catalogs, deltas.get(Component, Delta()))
    result.written[EVENT] += write_events(cluster.pk, incoming.events, context.now)
    result.written = +result.written
    return result


def _derive_operators(
    cluster_id: int,
    deltas: Mapping[Table, Delta],
    context: WriteContext,
    result: WriteResult,
    *,
    everything: bool,
) -> None:
    """Updates links and derived columns: of all rows if `everything`, which is the case after the
    rules or the catalogs have changed."""
    operators, components = deltas.get(Operator, Delta()), deltas.get(Component, Delta())
    unowned = csvs_without_operator(cluster_id)
    if operators.touched or components.touched or unowned or everything:
        links = link(
            cluster_id, operators, components, context.now, unowned=unowned, everything=everything
        )
        result.derived += links.rows
        affected = links.affected
        if everything:
            rows = Operator.objects.filter(cluster_id=cluster_id).order_by()
            affected = set(rows.values_list("id", flat=True))
        result.derived += assess(cluster_id, affected, links.new, context)


def _derive_crds(
    cluster_id: int, deltas: Mapping[Table, Delta], result: WriteResult, *, everything: bool
) -> None:
    crds = deltas.get(CRDState, Delta())
    ids = {crds.ids[key] for key in crds.changed}
    if everything:
        crd_rows = CRDState.objects.filter(cluster_id=cluster_id).order_by()
        ids = set(crd_rows.values_list("id", flat=True))
    result.derived += assess_crds(ids)


# -- Events ----------------------------------------------------------------------------------------

_EVENT_COLUMNS = ("type", "reason", "message", "source", "count", "first_at", "last_at")


def write_events(cluster_id: int, events: Iterable[DecodedObject], now: datetime) -> int:
    """Upserts new and changed events about stored objects; returns their number.

    Rows of Events stay after the cluster has deleted the Events.
    """
    newest: dict[str, DecodedObject] = {}
    for event in events:
        previous = newest.get(event.uid)
        if previous is None or not older(event.resource_version, previous.resource_version):
            newest[event.uid] = event
    rows = _new_events(cluster_id, newest)
    if not rows:
        return 0
    involved = _stored_keys(cluster_id, {_involved_object(event) for event in rows})
    rows = [event for event in rows if _involved_object(event) in involved]
    instances = [
        Event(
            cluster_id=cluster_id,
            uid=event.uid,
            resource_version=event.resource_version,
            **{**event.columns, "last_at": event.columns["last_at"] or now},
        )
        for event in rows
    ]
    bulk.upsert(Event, instances, ["resource_version", *_EVENT_COLUMNS], ["cluster", "uid"])
    return len(rows)


def _new_events(cluster_id: int, newest: dict[str, DecodedObject]) -> Sequence[DecodedObject]:
    stored: dict[str, str] = {}
    for batch in batched(newest):
        rows = Event.objects.filter(cluster_id=cluster_id, uid__in=batch).order_by()
        stored.update(rows.values_list("uid", "resource_version"))
    return [
        event
        for uid, event in newest.items()
        if uid not in stored
        or (
            stored[uid] != event.resource_version and not older(event.resource_version, stored[uid])
        )
    ]


def _involved_object(event: DecodedObject) -> Key:
    return event.columns["kind"], event.columns["namespace"], event.columns["name"]


def _stored_keys(cluster_id: int, keys: set[Key]) -> set[Key]:
    """The keys that have a row in any table."""
    stored: set[Key] = set()
    for table in (Operator, Component, ClusterOperator, CRDState):
        rows = table._default_manager.filter(cluster_id=cluster_id)
        stored |= {key for key, _ in rows_of(rows, keys - stored)}
    return stored


# -- catalogs --------------------------------------------------------------------------------------


def record_catalogs(
    cluster: Cluster, lists: Mapping[str, list[DecodedObject]], components: Delta
) -> int:
    """Passes catalog objects to the app `catalogs`: complete `lists`, else the changes.

    Returns the rows written. ClusterCatalogs come first, so that they get the short name on a
    clash.
    """
    return _record_cluster_catalogs(cluster, lists, components) + _record_sources(
        cluster, lists, components
    )


def _record_cluster_catalogs(
    cluster: Cluster, lists: Mapping[str, list[DecodedObject]], components: Delta
) -> int:
    listed = [lists[kind] for kind in _CLUSTER_CATALOGS if kind in lists]
    catalogs = [obj for objects in listed for obj in objects]
    if len(listed) == len(_CLUSTER_CATALOGS):
        return record_cluster_catalogs(cluster, _objects(catalogs))
    # Both kinds share rows: the list of one kind does not cover objects of the other.
    names = {key[2] for key in components.touched if key[0] in _CLUSTER_CATALOGS}
    names |= {obj.name for obj in catalogs}
    if not names:
        return 0
    changed = [obj for obj in components.changed.values() if obj.kind in _CLUSTER_CATALOGS]
    return record_cluster_catalogs(cluster, _objects(catalogs or changed), only=names)


def _record_sources(
    cluster: Cluster, lists: Mapping[str, list[DecodedObject]], components: Delta
) -> int:
    if _CATALOG_SOURCE in lists:
        return record_catalog_sources(cluster, _objects(lists[_CATALOG_SOURCE]))
    keys = {key[1:] for key in components.touched if key[0] == _CATALOG_SOURCE}
    if not keys:
        return 0
    changed = [obj for obj in components.changed.values() if obj.kind == _CATALOG_SOURCE]
    return record_catalog_sources(cluster, _objects(changed), only=keys)


def _objects(decoded: Iterable[DecodedObject]) -> list[Object]:
    return [obj.source for obj in decoded if obj.source]
