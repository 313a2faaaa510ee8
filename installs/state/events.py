"""Kubernetes Events about objects that we keep; they stay when the cluster forgets them."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from installs.models import ClusterOperator, Component, CRDState, Event, Operator
from installs.state.decode import Kept, Key
from installs.state.store import BATCH, batched, older, rows_of

_TABLES = (Operator, Component, ClusterOperator, CRDState)
_COLUMNS = ("type", "reason", "message", "source", "count", "first_at", "last_at")


def write_events(cluster_id: int, told: Iterable[Kept], now: datetime) -> int:
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
                **{**one.columns, "last_at": one.columns["last_at"] or now},
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
