"""Writes what was told of a cluster into the tables: one path for lists and for changes.

Every transaction first locks the Cluster's row, so that two writers never both record one change.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from installs.models import ClusterOperator, Component, CRDState, Operator
from installs.state.assess import assess, basis
from installs.state.catalogs import CATALOG_KINDS, record_catalogs
from installs.state.crds import assess_crds
from installs.state.decode import Kept, Key
from installs.state.events import write_events
from installs.state.history import Moment
from installs.state.links import OPERATOR_KINDS, link, waiting_csvs
from installs.state.members import is_told, update_members
from installs.state.read import ABSENT, FAILED, FORBIDDEN, SERVED, FeedRead, Snapshot
from installs.state.resources import BY_NAME, FEEDS, Change, Feed, Position
from installs.state.store import Delta, Reading, Table, known_rows, older, store
from olmweb.models import Cluster, Stream

EVENT = "Event"
_TABLES: tuple[Table, ...] = (Component, Operator, ClusterOperator, CRDState)
_STATES = {
    SERVED: Stream.State.LISTED,
    ABSENT: Stream.State.ABSENT,
    FORBIDDEN: Stream.State.FORBIDDEN,
    FAILED: Stream.State.RETRYING,
}


@dataclass(slots=True)
class Written:
    """Rows written and deleted, by kind; `derived` are those that no object stands for.

    `changed`: a reader of the cluster would see a difference, so its revision has grown.
    """

    written: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    derived: int = 0
    changed: bool = False

    def add(self, delta: Delta) -> None:
        self.written += delta.written()
        self.deleted += delta.removed()

    @property
    def total(self) -> int:
        return self.written.total() + self.deleted.total() + self.derived


def table_of(kind: str) -> Table:
    """The table that has the objects of a kind; Events have one of another sort."""
    if kind in OPERATOR_KINDS:
        return Operator
    if kind == "ClusterOperator":
        return ClusterOperator
    return CRDState if kind == "CustomResourceDefinition" else Component


@dataclass(slots=True)
class _Told:
    """What a write has to bring to the tables. `catalogs`: by kind, those that were read whole."""

    readings: dict[Table, Reading] = field(default_factory=lambda: defaultdict(Reading))
    known: dict[Table, dict[Key, Any]] = field(default_factory=dict)
    events: list[Kept] = field(default_factory=list)
    catalogs: dict[str, list[Kept]] = field(default_factory=dict)


def lock(cluster: Cluster) -> Cluster:
    """The Cluster's row as it is now; nobody else writes the cluster until the transaction ends."""
    return Cluster.objects.select_for_update().get(pk=cluster.pk)


# -- lists ----------------------------------------------------------------------------------------


def write_snapshot(cluster: Cluster, snapshot: Snapshot, moment: Moment | None = None) -> Written:
    """Makes our rows equal to what was read, in a transaction of its own, with Streams and Cluster.

    Feeds that could not be read keep their rows; a list deletes only what it would have listed and
    what is not newer than it.
    """
    with transaction.atomic():
        row = lock(cluster)
        now = moment.now if moment else timezone.now()
        streams = {stream.feed: stream for stream in Stream.objects.filter(cluster=row)}
        first = frozenset(
            feed.kind
            for feed in FEEDS
            if feed.name not in streams or streams[feed.name].listed_at is None
        )
        moment = Moment(row.pk, now, first)
        told = _told_by_lists(row.pk, snapshot, streams)
        written = _write(row, told, moment, _comparable(row, snapshot))
        _save_lists(row.pk, snapshot, streams, now)
        written.changed = _save_cluster(row, snapshot, written, now)
    cluster.refresh_from_db()
    return written


def _told_by_lists(cluster_id: int, snapshot: Snapshot, streams: Mapping[str, Stream]) -> _Told:
    told = _Told()
    read = {BY_NAME[name]: one for name, one in snapshot.feeds.items() if one.authoritative}
    kinds: dict[Table, set[str]] = defaultdict(set)
    for feed, one in read.items():
        if feed.kind == EVENT:
            told.events += one.objects
        else:
            kinds[table_of(feed.kind)].add(feed.kind)
        if feed.kind in CATALOG_KINDS:
            told.catalogs[feed.kind] = list(one.objects)
    for table, wanted in kinds.items():
        known = known_rows(table, cluster_id, kinds=wanted)
        told.known[table] = known
        reading = told.readings[table]
        for feed, one in read.items():
            if feed.kind in wanted:
                stream = streams.get(feed.name)
                reading.rewound |= _rewound(one, stream, snapshot.began_at)
                reading.told |= {kept.key: [kept] for kept in one.objects}
        for key, row in known.items():
            feed_of = _feed_of(read, key[0], row.owner_kind)
            if key not in reading.told and feed_of is not None:
                reading.gone[key] = ("", read[feed_of].resource_version)
    return told


def _feed_of(read: Mapping[Feed, FeedRead], kind: str, owner_kind: str) -> Feed | None:
    """The feed, of those that were read, that would have listed such a row."""
    for feed in read:
        if feed.kind == kind and feed.owner_kind in ("", owner_kind):
            return feed
    return None


def _rewound(one: FeedRead, stream: Stream | None, began_at: datetime) -> bool:
    """Whether the list is older than what we have although it was asked for later: etcd was
    restored from a backup."""
    return (
        stream is not None
        and older(one.resource_version, stream.resource_version)
        and stream.heard_at is not None
        and stream.heard_at < began_at
    )


def _save_lists(
    cluster_id: int, snapshot: Snapshot, streams: Mapping[str, Stream], now: datetime
) -> None:
    rows = []
    for name, one in snapshot.feeds.items():
        row = streams.get(name) or Stream(cluster_id=cluster_id, feed=name, kind=BY_NAME[name].kind)
        rewound = _rewound(one, row, snapshot.began_at)
        if one.authoritative:
            if rewound or not older(one.resource_version, row.resource_version):
                row.resource_version = one.resource_version
            row.listed_at = row.heard_at = now
            row.lists += 1
        is_watched = one.state == SERVED and row.state == Stream.State.WATCHING
        row.state = row.state if is_watched else _STATES[one.state]
        row.error = one.error
        rows.append(row)
    _save_streams(rows, ["resource_version", "state", "error", "listed_at", "heard_at", "lists"])


def _save_streams(rows: Sequence[Stream], fields: Sequence[str]) -> None:
    for row in rows:
        row.pk = None
    Stream.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["cluster", "feed"], update_fields=fields
    )


def _comparable(cluster: Cluster, snapshot: Snapshot) -> bool:
    """Whether the PlatformOperators that there are are known."""
    one = snapshot.feeds.get("PlatformOperator")
    state = one.state if one else cluster.kinds.get("PlatformOperator", {}).get("state", SERVED)
    return state in (SERVED, ABSENT)


def _save_cluster(row: Cluster, snapshot: Snapshot, written: Written, now: datetime) -> bool:
    """One UPDATE; returns whether a reader would see a difference, by which `revision` grows."""
    kinds = {**row.kinds, **kind_states(row, snapshot, now)}
    told = ("state", "version", "error")
    seen = {kind: [one.get(key) for key in told] for kind, one in row.kinds.items()}
    shown = {kind: [one.get(key) for key in told] for kind, one in kinds.items()}
    fields: dict[str, Any] = {"kinds": kinds, "server": snapshot.server or row.server}
    fields["version"] = snapshot.version or row.version
    before = (row.version, row.server, row.reachable, row.error_code)
    after = (fields["version"], fields["server"], True, "")
    changed = bool(written.total) or before != after or seen != shown
    if snapshot.complete:
        fields["synced_at"] = now
    save_answer(row, now, changed=changed, **fields)
    return changed


def save_answer(row: Cluster, now: datetime, *, changed: bool, **fields: Any) -> None:
    """The cluster has answered: one UPDATE of its row."""
    if changed:
        fields["revision"] = F("revision") + 1
    Cluster.objects.filter(pk=row.pk).update(
        reachable=True,
        error_code="",
        error_text="",
        error_hint="",
        unreachable_since=None,
        checked_at=now,
        assessed=row.assessed,
        **fields,
    )


def kind_states(cluster: Cluster, snapshot: Snapshot, now: datetime) -> dict[str, dict[str, Any]]:
    """Cluster.kinds of what was read: of several feeds of a kind the worst state counts. If it
    could not be read, with count and time of the last reading."""
    ranks = (FORBIDDEN, FAILED, SERVED, ABSENT)
    by_kind: dict[str, list[FeedRead]] = defaultdict(list)
    for name, one in snapshot.feeds.items():
        by_kind[BY_NAME[name].kind].append(one)
    found = {}
    for kind, reads in by_kind.items():
        worst = min(reads, key=lambda one: ranks.index(one.state))
        old = cluster.kinds.get(kind, {})
        is_read = all(one.authoritative for one in reads)
        version = next((one.version for one in reads if one.version), "")
        count = sum(len(one.objects) for one in reads)
        found[kind] = {
            "state": worst.state,
            "version": version or ("" if is_read else old.get("version", "")),
            "objects": count if is_read else old.get("objects", 0),
            "synced_at": now.isoformat() if is_read else old.get("synced_at"),
            "error": worst.error,
        }
    return found


# -- changes --------------------------------------------------------------------------------------


def apply_changes(
    cluster: Cluster, changes: Sequence[Change], positions: Mapping[str, Position]
) -> Written:
    """Writes what watches told, and how far they have come, in one transaction of its own.

    Changes may come twice, late or in another order; what is older than what we have is ignored.
    Work is proportional to the changes and to the operators that they affect.
    """
    now = timezone.now()
    with transaction.atomic():
        row = lock(cluster)
        names = {change.feed for change in changes} | set(positions)
        streams = {
            stream.feed: stream for stream in Stream.objects.filter(cluster=row, feed__in=names)
        }
        first = frozenset(
            BY_NAME[name].kind
            for name in names
            if name not in streams or streams[name].listed_at is None
        )
        told = _told_by_changes(row.pk, changes, positions, streams)
        written = _write(row, told, Moment(row.pk, now, first), _comparable(row, Snapshot()))
        _save_positions(row.pk, positions, streams)
        version = _version_told(changes) or row.version
        seen = (version, True) != (row.version, row.reachable)
        written.changed = bool(written.total) or seen
        save_answer(row, now, changed=written.changed, version=version, synced_at=now)
    return written


def _told_by_changes(
    cluster_id: int,
    changes: Sequence[Change],
    positions: Mapping[str, Position],
    streams: Mapping[str, Stream],
) -> _Told:
    told = _Told()
    by_key: dict[Key, list[Change]] = defaultdict(list)
    for change in changes:
        stream = streams.get(change.feed)
        if stream is not None and older(change.kept.resource_version, stream.resource_version):
            continue  # everything up to there has been told before
        if change.kept.kind == EVENT:
            told.events += [] if change.gone else [change.kept]
        else:
            by_key[change.kept.key].append(change)
    keys: dict[Table, set[Key]] = defaultdict(set)
    for key in by_key:
        keys[table_of(key[0])].add(key)
    for table, wanted in keys.items():
        told.known[table] = known_rows(table, cluster_id, keys=wanted)
        for key in wanted:
            known = told.known[table].get(key)
            owner_kind = known.owner_kind if known else None
            _fold(told.readings[table], key, by_key[key], positions, owner_kind)
    return told


def _fold(
    reading: Reading,
    key: Key,
    changes: list[Change],
    positions: Mapping[str, Position],
    owner_kind: str | None,
) -> None:
    """Several changes of one object, in the order in which they happened, to what they amount to.

    An object that left the selection of one feed may have come into another's: a deletion counts
    only for a row that its feed would have listed.
    """
    if all(_number(change) is not None for change in changes):
        changes = sorted(changes, key=lambda change: (_number(change) or 0, not change.gone))
    last = changes[-1]
    if last.gone:
        selected = BY_NAME[last.feed].owner_kind
        if not selected or owner_kind in (None, selected):
            reading.gone[key] = (last.kept.uid, last.kept.resource_version)
        return
    reading.told[key] = [change.kept for change in changes if not change.gone]
    position = positions.get(last.feed)
    if position is None or older(position.resource_version, last.kept.resource_version):
        reading.mark.add(key)


def _number(change: Change) -> int | None:
    version = change.kept.resource_version
    return int(version) if version.isascii() and version.isdigit() else None


def _save_positions(
    cluster_id: int, positions: Mapping[str, Position], streams: Mapping[str, Stream]
) -> None:
    rows = []
    for name, position in positions.items():
        row = streams.get(name) or Stream(cluster_id=cluster_id, feed=name, kind=BY_NAME[name].kind)
        if not older(position.resource_version, row.resource_version):
            row.resource_version = position.resource_version[:100]
        row.heard_at = position.heard_at
        rows.append(row)
    _save_streams(rows, ["resource_version", "heard_at"])


def _version_told(changes: Sequence[Change]) -> str:
    """What ClusterVersion says the cluster's version is, when it is among the changes."""
    told = [one.kept for one in changes if one.kept.kind == "ClusterVersion" and not one.gone]
    return str(told[-1].details["version"]) if told else ""


# -- both -----------------------------------------------------------------------------------------


def _write(cluster: Cluster, told: _Told, moment: Moment, comparable: bool) -> Written:
    """Tables, then what follows from them. `cluster.assessed` is set; the caller saves it."""
    result = Written()
    deltas: dict[Table, Delta] = {}
    for table in _TABLES:
        if table in told.readings:
            reading = told.readings[table]
            deltas[table] = store(table, reading, told.known.get(table, {}), moment)
            result.add(deltas[table])
    now_basis = basis(cluster.pk)
    everything = cluster.assessed != now_basis
    cluster.assessed = now_basis
    _derive(cluster.pk, deltas, moment, result, everything=everything)
    platform = {key[0] for key in deltas.get(Operator, Delta()).touched}
    told_of = is_told(deltas.get(ClusterOperator, Delta()))
    if told_of or "PlatformOperator" in platform or everything:
        written, members = update_members(cluster.pk, comparable=comparable)
        result.written["ClusterOperator"] += written
        result.derived += members
    result.derived += record_catalogs(cluster, told.catalogs, deltas.get(Component, Delta()))
    result.written[EVENT] += write_events(cluster.pk, told.events, moment.now)
    result.written = +result.written
    return result


def _derive(
    cluster_id: int,
    deltas: Mapping[Table, Delta],
    moment: Moment,
    result: Written,
    *,
    everything: bool,
) -> None:
    """Links, diagnosis, and CRDs; of everything when rules or catalogs are others than before."""
    operators, parts = deltas.get(Operator, Delta()), deltas.get(Component, Delta())
    waiting = waiting_csvs(cluster_id)
    if operators.touched or parts.touched or waiting or everything:
        links = link(
            cluster_id, operators, parts, moment.now, waiting=waiting, everything=everything
        )
        result.derived += links.rows
        affected = links.affected
        if everything:
            rows = Operator.objects.filter(cluster_id=cluster_id).order_by()
            affected = set(rows.values_list("id", flat=True))
        result.derived += assess(cluster_id, affected, links.fresh, moment)
    crds = deltas.get(CRDState, Delta())
    ids = {crds.ids[key] for key in crds.changed}
    if everything:
        rows_of_crds = CRDState.objects.filter(cluster_id=cluster_id).order_by()
        ids = set(rows_of_crds.values_list("id", flat=True))
    result.derived += assess_crds(ids)
