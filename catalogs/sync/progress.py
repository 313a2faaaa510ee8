"""One run of a sync while it goes on: its row, how far it is, and whether it was asked to stop.

Readers see nothing that the content's transaction writes before its end, and SQLite lets nobody
else write meanwhile. So the row says which step a run is at, and the cache, which the web shares
with its workers (Redis, or one process), how far; a wish to cancel goes both ways as well.
Must not know what is synced.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.core.cache import cache
from django.db import connection
from django.utils import timezone

from catalogs.models import Catalog
from catalogs.sources.base import SourceError
from olmweb.models import Lease, SyncRun

EVERY = 0.5  # seconds between two reports
KEPT = 1800  # seconds that the cache keeps one
READING, INDEXING, WRITING = "reading", "indexing", "writing"
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run stands. `done` of `total` are bytes, or packages when it writes; `total` is 0
    when it isn't known."""

    run: int
    step: str
    done: int
    total: int
    cancelling: bool = False

    @property
    def percent(self) -> int | None:
        return min(100, 100 * self.done // self.total) if self.total else None


class Run:
    """What one attempt tells of itself; a row is written once there is something to tell."""

    def __init__(self, catalog: Catalog, started_at: datetime, clock: Clock = time.monotonic):
        self.row: SyncRun | None = None
        self._catalog = catalog
        self._started_at = started_at
        self._clock = clock
        self._step = ""
        self._told = clock()
        self._inside = False  # the content's transaction

    def reading(self, done: int, total: int) -> None:
        """A listener for sources. A short read leaves no row: it may find nothing new."""
        if self.row is None and self._clock() - self._told < EVERY:
            return
        self.tell(READING, done, total)

    def indexing(self, done: int, total: int) -> None:
        self.tell(INDEXING, done, total)

    def writing(self, done: int, total: int) -> None:
        self.tell(WRITING, done, total)

    def enter(self) -> None:
        """From now on this thread is inside the content's transaction."""
        self.tell(WRITING, 0, 0)
        self._inside = True

    def leave(self) -> None:
        self._inside = False

    def tell(self, step: str, done: int, total: int) -> None:
        """Raises SourceError, code "cancelled", when somebody asked for that."""
        now = self._clock()
        if step == self._step and now - self._told < EVERY:
            return
        row = self._start()
        self._step, self._told = step, now
        cache.set(_key(row.pk), (step, done, total), KEPT)
        if not self._inside:
            SyncRun.objects.filter(pk=row.pk).update(step=step, done=done, total=total)
        if self._is_cancelled(row.pk):
            raise SourceError(
                f"The sync of {self._catalog} was cancelled.",
                code="cancelled",
                hint="What was read before is still shown; sync it again when you like.",
            )

    def _start(self) -> SyncRun:
        """The row. We hold the lease: an older run that still seems to go on is dead."""
        if self.row is None:
            same = {"kind": SyncRun.Kind.CATALOG, "target": str(self._catalog)}
            SyncRun.objects.filter(outcome=SyncRun.Outcome.RUNNING, **same).update(
                outcome=SyncRun.Outcome.FAILED,
                finished_at=timezone.now(),
                error_code="interrupted",
                error_text="The process stopped in the middle of this run.",
                error_hint="Nothing was lost: the run after it started anew.",
            )
            self.row = SyncRun.objects.create(
                cluster=self._catalog.cluster, started_at=self._started_at, **same
            )
        return self.row

    def _is_cancelled(self, run: int) -> bool:
        if cache.get(_key(run, "cancel")):
            return True
        if self._inside and connection.vendor == "sqlite":
            return False  # a transaction there sees what was there at its start
        return SyncRun.objects.filter(pk=run, cancel_asked=True).exists()

    def finish(self, outcome: str, counts: dict[str, int], error: SourceError | None) -> None:
        """Writes how it ended: the row that was there, or one of an attempt that failed at once."""
        row = self.row or SyncRun(
            kind=SyncRun.Kind.CATALOG,
            target=str(self._catalog),
            cluster=self._catalog.cluster,
            started_at=self._started_at,
        )
        row.outcome, row.finished_at, row.counts = outcome, timezone.now(), counts
        row.step, row.done, row.total = "", 0, 0
        if error:
            row.error_code, row.error_text, row.error_hint = error.code, error.message, error.hint
        row.save()
        cache.delete_many([_key(row.pk), _key(row.pk, "cancel")])


def standings(catalogs: Iterable[Catalog]) -> dict[int, Standing]:
    """Where the runs of these catalogs stand, by the catalog's key; one that is not being synced
    is missing. One query when none is, two otherwise."""
    by_target = {str(each): each.pk for each in catalogs}
    running = SyncRun.objects.filter(kind=SyncRun.Kind.CATALOG, outcome=SyncRun.Outcome.RUNNING)
    rows = [row for row in running.order_by("id") if row.target in by_target]
    if not rows:
        return {}
    # The row of a process that was killed stays until the next run; its lease doesn't.
    names = [f"catalog:{by_target[row.target]}" for row in rows]
    leases = Lease.objects.filter(name__in=names, expires_at__gt=timezone.now())
    held = set(leases.values_list("name", flat=True))
    found = {}
    for row in rows:
        catalog = by_target[row.target]
        if f"catalog:{catalog}" in held:
            step, done, total = cache.get(_key(row.pk)) or (row.step, row.done, row.total)
            cancelling = row.cancel_asked or bool(cache.get(_key(row.pk, "cancel")))
            found[catalog] = Standing(row.pk, step, done, total, cancelling)
    return found


def cancel(catalog: Catalog) -> bool:
    """Asks the run of this catalog to stop; False when none goes on. It stops within a second or
    so, and its lease is then free."""
    found = standings([catalog]).get(catalog.pk)
    if found is None:
        return False
    cache.set(_key(found.run, "cancel"), True, KEPT)
    if connection.vendor != "sqlite" or found.step != WRITING:  # else it would wait for the lock
        SyncRun.objects.filter(pk=found.run, outcome=SyncRun.Outcome.RUNNING).update(
            cancel_asked=True
        )
    return True


def _key(run: int, what: str = "standing") -> str:
    return f"sync-run:{run}:{what}"
