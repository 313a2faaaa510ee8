"""Kubernetes Events about objects that we keep; kept when the cluster forgets them, then pruned."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from installs.models import ClusterOperator, Component, CRDState, Event, Operator
from installs.sync.decode import Kept, Key
from installs.sync.store import BATCH, batched, older, rows_of

_TABLES = (Operator, Component, ClusterOperator, CRDState)
_COLUMNS = ("type", "reason", "message", "source", "count", "first_at", "last_at")
_PRUNE = 5_000


def write_events(cluster_id: int, told: Iterable[Kept]) -> int:
    """Writes the events that are news and about an object of ours; returns how many."""
    newest: dict[str, Kept] = {}
    for one in told:
        known = newest.get(one.uid)
        if known is None or not older(one.resource_version, known.resource_version):
            newest[one.uid] = one
    rows = _news(cluster_id, newest)
    ours = _ours(cluster_id, {_about(one) for one in rows})
    rows = [one for one in rows if _about(one) in ours]
    Event.objects.bulk_create(
        [
            Event(
                cluster_id=cluster_id,
                uid=one.uid,
                resource_version=one.resource_version,
                **one.columns,
            )
            for one in rows
        ],
        batch_size=BATCH,
        update_conflicts=True,
        unique_fields=["cluster", "uid"],
        update_fields=["resource_version", *_COLUMNS],
    )
    return len(rows)


def _news(cluster_id: int, newest: dict[str, Kept]) -> Sequence[Kept]:
    stored: dict[str, str] = {}
    for batch in batched(newest):
        rows = Event.objects.filter(cluster_id=cluster_id, uid__in=batch).order_by()
        stored.update(rows.values_list("uid", "resource_version"))
    return [
        one
        for uid, one in newest.items()
        if uid not in stored
        or (stored[uid] != one.resource_version and not older(one.resource_version, stored[uid]))
    ]


def _about(one: Kept) -> Key:
    return one.columns["kind"], one.columns["namespace"], one.columns["name"]


def _ours(cluster_id: int, keys: set[Key]) -> set[Key]:
    """Those of the keys that any table of ours has."""
    found: set[Key] = set()
    for table in _TABLES:
        rows = table._default_manager.filter(cluster_id=cluster_id)
        found |= {key for key, _ in rows_of(rows, keys - found)}
    return found


def prune_events(limit: datetime) -> int:
    """Deletes events last seen before `limit`, a few thousand at a time; returns how many."""
    total = 0
    while True:
        old = Event.objects.filter(last_at__lt=limit).order_by("last_at")
        ids = list(old.values_list("id", flat=True)[:_PRUNE])
        total += Event.objects.filter(id__in=ids).delete()[0] if ids else 0
        if len(ids) < _PRUNE:
            return total
