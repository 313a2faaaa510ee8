"""Inspects the bundle images of whole catalogs in the background, in turns of a worker.

Level-triggered: a catalog is due while its inspection is switched on and the run for its revision
is not over. A turn looks at the images that are left, so that a lost turn costs nothing. A new
revision inspects the images that are new, and those that failed for a reason that may pass.
"""

import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db.models import F, Max, Q, QuerySet
from django.utils import timezone

from catalogs.contents.bulk_inspection import (
    BUDGET,
    CANCELLED,
    IN_PROGRESS,
    SILENT,
    WAITING,
    Summary,
    inspect_images,
    next_budget_at,
    reason_of,
)
from catalogs.contents.stored import failed_inspections
from catalogs.models import Catalog, CatalogInspection
from catalogs.sources.base import SourceError
from catalogs.verdicts.settle import images_to_inspect
from olmweb.accounts.roles import AnyUser
from olmweb.runtime.reports import Job, others_wait, run_report

log = structlog.get_logger(__name__)
KIND = "catalog-inspection"
TURN_SECONDS = 60
PATIENCE = 5  # seconds that a turn waits for a registry; then the worker does something else
LOOK_SECONDS = 2.0  # between two looks at whether it was stopped or others wait
PROGRESS_SECONDS = 1.0  # between two writes of the progress
OTHER_WORKER_SECONDS = 30  # until the next look at images that another worker inspects
SETTINGS_SECONDS = 600  # until the next look at a registries.conf that could not be read
SETTINGS = "a readable OLMWEB_REGISTRIES_CONF"
TURN_OVER = "turn"
# States of an inspection, as REST and pages name them.
STATES = ("off", "queued", "running", "waiting", "complete", "stopped")
OFF, QUEUED, RUNNING, PAUSED, DONE, STOPPED = STATES
_PASSING = (*SILENT, CANCELLED, "internal", "interrupted")  # failures that may pass
Rows = CatalogInspection.objects


def is_enabled(catalog: Catalog) -> bool:
    """Whether workers inspect the images of the catalog. Reads its CatalogInspection."""
    row = row_of(catalog)
    return settings.INSPECT_CATALOGS if row is None else row.is_enabled


def row_of(catalog: Catalog) -> CatalogInspection | None:
    """The state of the catalog's inspection, None if it was never switched on."""
    return getattr(catalog, "image_inspection", None)


def state_of(catalog: Catalog) -> str:
    """OFF, QUEUED, RUNNING, PAUSED (until `next_turn_at`), DONE or STOPPED (before its end)."""
    row = row_of(catalog)
    current = row is not None and row.revision == catalog.revision
    if row is not None and current and row.finished_at is not None:
        return DONE
    if not is_enabled(catalog):
        return STOPPED if row is not None and row.started_at is not None else OFF
    if row is None or not current or row.turn_at is None:
        return QUEUED
    if row.next_turn_at is not None and row.next_turn_at > timezone.now():
        return PAUSED
    return RUNNING


def start(catalog: Catalog, user: AnyUser) -> None:
    """Switches the inspection on. What failed before is tried again."""
    row, _ = Rows.get_or_create(catalog=catalog)
    Rows.filter(pk=row.pk).update(
        enabled=True,
        requested_by=user.get_username()[:150],
        revision=None,
        retry_failed=True,
        next_turn_at=None,
        turn_at=None,
    )
    run_report.delay_on_commit()


def stop(catalog: Catalog) -> None:
    """Switches the inspection off; a running turn ends within seconds. What was inspected stays."""
    row, _ = Rows.get_or_create(catalog=catalog)
    Rows.filter(pk=row.pk).update(enabled=False)


def due() -> QuerySet[Catalog]:
    """The catalogs whose inspection is switched on and not over."""
    enabled = Q(image_inspection__enabled=True)
    if settings.INSPECT_CATALOGS:
        enabled |= Q(image_inspection=None) | Q(image_inspection__enabled=None)
    over = Q(image_inspection__revision=F("revision"), image_inspection__finished_at__isnull=False)
    later = Q(image_inspection__next_turn_at__gt=timezone.now())
    catalogs = Catalog.objects.filter(enabled, revision__gt=0).exclude(over).exclude(later)
    return catalogs.select_related("image_inspection")


def unfinished() -> list[Job]:
    """The inspections that wait for a turn or have one."""
    jobs = []
    for catalog in due():
        row = row_of(catalog)
        since = (row and (row.turn_at or row.started_at)) or catalog.changed_at or timezone.now()
        jobs.append(Job(KIND, catalog.pk, row.requested_by if row else "", since))
    return jobs


def served() -> dict[str, datetime]:
    """When the last turn of each person began."""
    rows = Rows.exclude(turn_at=None).order_by()
    return dict(rows.values_list("requested_by").annotate(Max("turn_at")))


def take_turn(
    catalog_id: int,
    *,
    seconds: float = TURN_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Inspects images of the catalog for about `seconds`, unless it is not due. Ends early when
    it is stopped, other work of the queue waits, or all registries ask to wait."""
    catalog = due().filter(pk=catalog_id).first()
    if catalog is None:
        return
    row = _begin(catalog)
    images = images_to_inspect(catalog, all_versions=True)
    failed = _failed(row, images)
    turn = _Turn(row, Counter(failed.values()), len(images), clock() + seconds, clock)
    try:
        summary = inspect_images(
            [image for image in images if image not in failed],
            turn.progress,
            stop=turn.stop,
            left_out=row.left_out,
            patience=PATIENCE,
        )
    except SourceError as error:  # of the settings; the run goes on when they are right
        log.warning("catalog not inspected", catalog=str(catalog), error=error.message)
        turn.put_off(SETTINGS)
        return
    turn.finish(summary)


def _begin(catalog: Catalog) -> CatalogInspection:
    """Records the start of the turn, and of a run if the revision has none."""
    now = timezone.now()
    row, _ = Rows.get_or_create(catalog=catalog)
    if row.revision != catalog.revision:
        row = CatalogInspection(
            catalog=catalog,
            enabled=row.enabled,
            requested_by=row.requested_by,
            # A person's request has no revision; then everything is tried again.
            retry_failed=row.retry_failed and row.revision is None,
            revision=catalog.revision,
            started_at=now,
        )
    row.turn_at, row.next_turn_at, row.waiting_for = now, None, []
    fields = {field.name for field in row._meta.concrete_fields} - {"catalog", "enabled"}
    row.save(update_fields=fields)
    return row


def _failed(row: CatalogInspection, images: list[str]) -> dict[str, str]:
    """The reasons of the images that this run does not try (again)."""
    result = {}
    for image, code, finished_at in failed_inspections(images):
        in_this_run = row.started_at is not None and finished_at >= row.started_at
        for_good = code not in _PASSING and not row.retry_failed
        if (in_this_run and code != CANCELLED) or for_good:
            result[image] = reason_of(code)
    return result


class _Turn:
    """Writes the progress of a turn to the row and says when it is over."""

    def __init__(
        self,
        row: CatalogInspection,
        failed: Counter[str],
        wanted: int,
        until: float,
        clock: Callable[[], float],
    ) -> None:
        self._row = row
        self._failed = failed
        self._wanted = wanted
        self._until = until
        self._clock = clock
        self._before = (row.inspected, row.bytes_read, row.requests)
        self._written_at = self._looked_at = clock() - PROGRESS_SECONDS
        self._stopped = ""

    def stop(self) -> str:
        now = self._clock()
        if not self._stopped and now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            if Rows.filter(pk=self._row.pk, enabled=False).exists():
                self._stopped = CANCELLED
            elif now >= self._until or others_wait(KIND):
                self._stopped = TURN_OVER
        return self._stopped

    def progress(self, summary: Summary) -> None:
        now = self._clock()
        if now - self._written_at >= PROGRESS_SECONDS:
            self._written_at = now
            self._write(summary)

    def finish(self, summary: Summary) -> None:
        next_turn_at = finished_at = None
        waiting_for: list[str] = []
        if summary.stopped == BUDGET:
            next_turn_at, waiting_for = next_budget_at(), [BUDGET]
        elif summary.stopped == WAITING:
            seconds = min(summary.waiting.values())
            next_turn_at = timezone.now() + timedelta(seconds=seconds)
            waiting_for = sorted(summary.waiting)
        elif summary.failed[IN_PROGRESS]:  # by another worker: its end counts
            next_turn_at = timezone.now() + timedelta(seconds=OTHER_WORKER_SECONDS)
        elif not summary.stopped:
            finished_at = timezone.now()
        self._write(
            summary,
            next_turn_at=next_turn_at,
            waiting_for=waiting_for,
            finished_at=finished_at,
            left_out=sorted(summary.left_out),
        )
        log.info(
            "catalog inspected",
            catalog=str(self._row.catalog),
            stopped=summary.stopped or "complete",
            inspected=summary.inspected,
            left=summary.left,
            bytes_read=summary.bytes,
        )

    def put_off(self, reason: str) -> None:
        """Ends the turn without a result."""
        again = timezone.now() + timedelta(seconds=SETTINGS_SECONDS)
        Rows.filter(pk=self._row.pk).update(next_turn_at=again, waiting_for=[reason])

    def _write(self, summary: Summary, **values: object) -> None:
        inspected, bytes_read, requests = self._before
        # Of a run that a person began meanwhile anew, the numbers are not.
        rows = Rows.filter(pk=self._row.pk, revision=self._row.revision)
        rows.update(
            wanted=self._wanted,
            inspected=inspected + summary.inspected,
            reused=max(0, summary.reused - inspected),
            failed=dict(self._failed + summary.failed),
            bytes_read=bytes_read + summary.bytes,
            requests=requests + summary.requests,
            **values,
        )
