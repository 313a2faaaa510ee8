"""Writes events in the transaction of what they record, and numbers them after it is committed.

A number that a transaction takes while it runs says nothing about the order of commits: a reader
that has read number 6 would miss number 5 of a transaction that is committed later. So an event has
no `position` until its transaction is committed. `publish` then numbers all committed events, one
publisher at a time: the positions of a later publication are greater, and a reader sees them in
the order of their numbers. Events of one object keep their order, because their writers wait for
each other's locks and take primary keys after that.

Writers publish as soon as they have committed, or leave it to a thread of their process that is
publishing. If a process ends in between, the next publication or a task of beat numbers its events.
"""

import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.db import connection, transaction
from django.db.models import Max

from olmweb.bulk import insert, quoted
from olmweb.eventlog.types import DATA_TYPES, EventData, EventType, FailureData, RecoveryData
from olmweb.models import ChangeEvent, Cluster, EventCounter

MESSAGE_LIMIT = 1000  # characters of each text of the data
BATCH = 5000  # events that are numbered in one transaction
PRUNED_AT_ONCE = 1000


def event(
    type_: EventType,
    at: datetime,
    data: EventData,
    *,
    cluster_id: int | None,
    kind: str,
    name: str,
    namespace: str = "",
    catalog: str = "",
) -> ChangeEvent:
    """An unsaved event. `catalog` is `cluster/catalog`. Long texts of the data are cut."""
    if not isinstance(data, DATA_TYPES[type_]):
        raise TypeError(f"{type_} has the data {DATA_TYPES[type_].__name__}.")
    values: dict[str, Any] = msgspec.to_builtins(data)
    return ChangeEvent(
        type=str(type_),
        at=at,
        cluster_id=cluster_id,
        kind=kind,
        namespace=namespace,
        name=name,
        catalog=catalog,
        data={
            key: value[:MESSAGE_LIMIT] if isinstance(value, str) else value
            for key, value in values.items()
        },
    )


def record(events: Iterable[ChangeEvent]) -> int:
    """Saves the events in the open transaction, published when it is committed; returns their
    number."""
    rows = list(events)
    if rows:
        insert(ChangeEvent, rows)
        transaction.on_commit(publish_soon, robust=True)
    return len(rows)


def record_unreachable(cluster: Cluster, at: datetime) -> None:
    """`cluster` has the error, and could be reached before."""
    data = FailureData(cluster.error_code, cluster.error_text, cluster.error_hint)
    record([_of_cluster(EventType.CLUSTER_UNREACHABLE, cluster, at, data)])


def record_reachable(cluster: Cluster, at: datetime) -> None:
    """`cluster` is the row as it was while it could not be reached."""
    since = cluster.unreachable_since
    data = RecoveryData(as_text(since) if since else None)
    record([_of_cluster(EventType.CLUSTER_REACHABLE, cluster, at, data)])


def _of_cluster(
    type_: EventType, cluster: Cluster, at: datetime, data: FailureData | RecoveryData
) -> ChangeEvent:
    return event(type_, at, data, cluster_id=cluster.pk, kind="Cluster", name=cluster.name)


def as_text(moment: datetime) -> str:
    """An aware time of the data of an event, in UTC with `Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


class _Publication:
    """One thread of this process publishes at a time, and once more for those that committed
    meanwhile, so that they need not wait for the lock of the counter."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = self._wanted = False

    def request(self) -> None:
        with self._lock:
            self._wanted = True
            if self._running:
                return
            self._running = True
        try:
            while self._is_wanted():
                publish()
        except BaseException:
            with self._lock:
                self._running = False
            raise

    def _is_wanted(self) -> bool:
        with self._lock:
            self._running, self._wanted = self._wanted, False
            return self._running


publish_soon = _Publication().request


def publish() -> int:
    """Numbers the committed events in the order of their primary keys; returns their number.

    Must not be called in a transaction that holds other locks.
    """
    published = 0
    while _is_any_unpublished():
        with transaction.atomic():
            # The lock comes first: what an earlier publisher numbered is visible after it.
            count = _number(_locked_counter().position)
            if count:
                _advance(count)
        published += count
        if count < BATCH:
            break
    return published


def _is_any_unpublished() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {quoted(ChangeEvent)} WHERE position IS NULL LIMIT 1")  # noqa: S608
        return cursor.fetchone() is not None


def _advance(count: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {quoted(EventCounter)} SET position = position + %s WHERE id = %s",  # noqa: S608
            [count, EventCounter.ONLY],
        )


def _locked_counter() -> EventCounter:
    rows = EventCounter.objects.select_for_update()
    counter = rows.filter(pk=EventCounter.ONLY).first()
    if counter is None:
        EventCounter.objects.bulk_create(
            [EventCounter(pk=EventCounter.ONLY)], ignore_conflicts=True
        )
        counter = rows.get(pk=EventCounter.ONLY)
    return counter


def _number(last: int) -> int:
    table = quoted(ChangeEvent)
    waiting = (
        f"SELECT id, row_number() OVER (ORDER BY id) AS number FROM {table}"  # noqa: S608
        f" WHERE position IS NULL ORDER BY id LIMIT {BATCH}"
    )
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} SET position = %s + waiting.number"  # noqa: S608 - our own names
            f" FROM ({waiting}) AS waiting WHERE {table}.id = waiting.id",
            [last],
        )
        return int(cursor.rowcount)


def prune(limit: datetime) -> int:
    """Deletes the published events before the first one that is not older than `limit`, so that
    the rest of the log has no gap; returns their number."""
    published = ChangeEvent.objects.exclude(position=None)
    first = published.filter(at__gte=limit).order_by("position").values_list("position").first()
    old = published.filter(position__lt=first[0]) if first else published
    last = old.aggregate(last=Max("position"))["last"]
    if last is None:
        return 0
    # A reader must learn that it comes too late before the rows are missing.
    with transaction.atomic():
        counter = _locked_counter()
        counter.pruned = max(counter.pruned, last)
        counter.save(update_fields=["pruned"])
    deleted = 0
    while ids := list(old.order_by("position").values_list("pk", flat=True)[:PRUNED_AT_ONCE]):
        deleted += ChangeEvent.objects.filter(pk__in=ids).delete()[0]
    return deleted
