"""The request for a sync, the progress of a running one, and its cancellation.

The writes of the content's transaction are invisible before its end, and SQLite blocks other
writers meanwhile. So the row has the step of a run, and the cache, which web and workers share
(Redis, or one process), the progress. Both also receive a request to cancel.
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
from olmweb.runtime.leases import fenced_transaction
from olmweb.tasks import enqueue

REPORT_INTERVAL = 0.5  # seconds
CACHE_SECONDS = 1800  # that a report stays in the cache
READING, INDEXING, WRITING = "reading", "indexing", "writing"
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Standing:
    """The progress of a run. `done` of `total` are bytes, or packages while it writes; `total` is 0
    when unknown."""

    run: int
    step: str
    done: int
    total: int
    cancelling: bool = False

    @property
    def percent(self) -> int | None:
        return min(100, 100 * self.done // self.total) if self.total else None


class Run:
    """Reports the progress of one attempt; a row is written with the first report."""

    def __init__(self, catalog: Catalog, started_at: datetime, clock: Clock = time.monotonic):
        self.row: SyncRun | None = None
        self._catalog = catalog
        self._started_at = started_at
        self._clock = clock
        self._step = ""
        self._reported_at = clock()
        self._inside = False  # the content's transaction

    def reading(self, done: int, total: int) -> None:
        """A callback for sources. A short read writes no row: the content may be unchanged."""
        if self.row is None and self._clock() - self._reported_at < REPORT_INTERVAL:
            return
        self.report(READING, done, total)

    def indexing(self, done: int, total: int) -> None:
        self.report(INDEXING, done, total)

    def writing(self, done: int, total: int) -> None:
        self.report(WRITING, done, total)

    def enter(self) -> None:
        """Marks the start of the content's transaction in this thread."""
        self.report(WRITING, 0, 0)
        self._inside = True

    def leave(self) -> None:
        self._inside = False

    def report(self, step: str, done: int, total: int) -> None:
        """Raises SourceError, code "cancelled", after a request to cancel."""
        now = self._clock()
        if step == self._step and now - self._reported_at < REPORT_INTERVAL:
            return
        row = self._start()
        self._step, self._reported_at = step, now
        cache.set(_key(row.pk), (step, done, total), CACHE_SECONDS)
        if not self._inside:
            SyncRun.objects.filter(pk=row.pk).update(step=step, done=done, total=total)
        if self._is_cancelled(row.pk):
            raise SourceError(
                f"The sync of {self._catalog} was cancelled.",
                code="cancelled",
                hint="What was read before is still shown; sync it again when you like.",
            )

    def _start(self) -> SyncRun:
        """The row. As this run holds the lease, older running rows are of dead processes."""
        if self.row is None:
            same = {"kind": SyncRun.Kind.CATALOG, "target": str(self._catalog)}
            with fenced_transaction():
                interrupted = SyncRun.objects.filter(
                    outcome=SyncRun.Outcome.RUNNING, **same
                ).update(
                    outcome=SyncRun.Outcome.FAILED,
                    finished_at=timezone.now(),
                    error_code="interrupted",
                    error_text="The process stopped in the middle of this run.",
                    error_hint="Nothing was lost: the run after it started anew.",
                )
                if interrupted:  # else nothing says why a catalog whose worker always dies is stale
                    Catalog.objects.filter(pk=self._catalog.pk).update(
                        error_code="interrupted",
                        error_text="The process stopped in the middle of the last sync.",
                        error_hint="If it happens again, the log of the worker and the events of "
                        "its pod say why, such as a limit of memory.",
                    )
                self.row = SyncRun.objects.create(
                    cluster=self._catalog.cluster, started_at=self._started_at, **same
                )
        return self.row

    def _is_cancelled(self, run: int) -> bool:
        if cache.get(_key(run, "cancel")):
            return True
        if self._inside and connection.vendor == "sqlite":
            return False  # its transactions don't see later writes
        return SyncRun.objects.filter(pk=run, cancel_requested=True).exists()

    def finish(self, outcome: str, counts: dict[str, int], error: SourceError | None) -> None:
        """Writes the outcome to the row, or to a new one if the attempt made no report."""
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
    """The progress of the running syncs of these catalogs, by the catalog's key. One query when
    none is running, two otherwise."""
    runs = SyncRun.objects.filter(kind=SyncRun.Kind.CATALOG, outcome=SyncRun.Outcome.RUNNING)
    running = list(runs.order_by("id"))
    if not running:
        return {}
    by_target = {str(catalog): catalog.pk for catalog in catalogs}
    rows = [row for row in running if row.target in by_target]
    # The row of a killed process remains until the next run, but not its lease.
    names = [f"catalog:{by_target[row.target]}" for row in rows]
    leases = Lease.objects.filter(name__in=names, expires_at__gt=timezone.now())
    held = set(leases.values_list("name", flat=True))
    result = {}
    for row in rows:
        catalog_id = by_target[row.target]
        if f"catalog:{catalog_id}" in held:
            step, done, total = cache.get(_key(row.pk)) or (row.step, row.done, row.total)
            cancelling = row.cancel_requested or bool(cache.get(_key(row.pk, "cancel")))
            result[catalog_id] = Standing(row.pk, step, done, total, cancelling)
    return result


def request_sync(catalog_id: int) -> None:
    """Makes the catalog due now, also when its message to a worker is lost."""
    Catalog.objects.filter(pk=catalog_id).update(sync_requested_at=timezone.now())
    enqueue("catalogs.sync_catalog", catalog_id)


def cancel(catalog: Catalog) -> bool:
    """Requests the running sync of this catalog to stop; False when none is running. It stops
    within about a second and releases its lease."""
    standing = standings([catalog]).get(catalog.pk)
    if standing is None:
        return False
    cache.set(_key(standing.run, "cancel"), True, CACHE_SECONDS)
    if connection.vendor != "sqlite" or standing.step != WRITING:  # else it would wait for the lock
        SyncRun.objects.filter(pk=standing.run, outcome=SyncRun.Outcome.RUNNING).update(
            cancel_requested=True
        )
    return True


def _key(run: int, what: str = "standing") -> str:
    return f"sync-run:{run}:{what}"
