"""Inspection of bundle images: users request it, a worker pulls the image, a row has the state."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.db.models import Max, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from catalogs.contents import stored
from catalogs.contents.objects import Packed, pack
from catalogs.models import Bundle, BundleInspection, BundleManifests
from catalogs.sources.base import ProgressCallback, SourceError, progress_callback
from catalogs.sources.oci.client import Pace
from catalogs.sources.oci.source import BundleSource, RegistryAccess
from catalogs.sources.registry_access import refresh_mirrors, registry_access
from olmweb.accounts.roles import AnyUser, may_inspect
from olmweb.errors import OlmwebError
from olmweb.runtime.reports import ATTEMPTS, Job, run_report

log = structlog.get_logger(__name__)
LIMIT = 300  # seconds
LONGEST_WAIT = 3600  # seconds that a registry may ask to wait
WAITS = 5  # times; then the inspection fails
PROGRESS_INTERVAL = 0.5  # seconds between two writes of the progress
USERNAME_LENGTH = 150  # characters, as the column holds
State = BundleInspection.State
IN_PROGRESS = (State.QUEUED, State.READING)
_NO_ERROR = {"error_code": "", "error_text": "", "error_hint": ""}
_HINTS = {
    "too-large": "Only the layers with manifests are pulled, and those of real bundles are small: "
    "look at how the image is built.",
    "no-manifests": "Check that the catalog names a bundle's image of format registry+v1.",
    "no-csv": "A registry+v1 bundle has exactly one; tell its author.",
    "not-an-image": "Check that the catalog names a bundle's image.",
}
_HINT = "The image is as its author built it: tell the author, or try another version."


def request_inspection(bundle: Bundle, user: AnyUser) -> tuple[BundleInspection, bool]:
    """The inspection of the bundle's image, and whether this call started it. An inspection in
    progress is returned as it is.

    Raises OlmwebError: 403 for a user without the role, 409 for a bundle without an image to pull.
    """
    allowed, why = may_inspect(user)
    if not allowed:
        raise OlmwebError(
            why,
            code="not-allowed",
            status=403,
            hint="Ask an administrator of OLM Web for the role operator.",
        )
    if bundle.webhooks is not None or not bundle.image:
        why = "names no image" if not bundle.image else "has its objects in the catalog already"
        raise OlmwebError(
            f"Bundle {bundle.name} {why}: there is nothing to pull.",
            code="nothing-to-inspect",
            status=409,
        )
    row = start(bundle.image, user.get_username()[:USERNAME_LENGTH])
    if row is None:
        return BundleInspection.objects.get(image=bundle.image), False
    run_report.delay_on_commit()
    return row, True


def start(image: str, username: str) -> BundleInspection | None:
    """Sets the image's inspection to queued; None when one is in progress already."""
    row, created = BundleInspection.objects.get_or_create(
        image=image, defaults={"asked_by": username}
    )
    if created:
        return row
    now = timezone.now()
    stuck = Q(state=State.READING, began__lt=now - timedelta(seconds=LIMIT + 60))
    rows = BundleInspection.objects.annotate(began=Coalesce("started_at", "asked_at"))
    updated = rows.filter(Q(pk=row.pk), ~Q(state__in=IN_PROGRESS) | stuck).update(
        state=State.QUEUED,
        asked_by=username,
        asked_at=now,
        attempts=0,
        next_attempt_at=None,
        waits=0,
        done=0,
        total=0,
        **_NO_ERROR,
    )
    return row if updated else None


def in_progress(row: BundleInspection | None) -> bool:
    """Whether the inspection is queued or running. One that runs for too long counts as lost."""
    if row is None or row.state != State.READING:
        return row is not None and row.state == State.QUEUED
    return timezone.now() - (row.started_at or row.asked_at) < timedelta(seconds=LIMIT + 60)


def access(pace: Pace | None = None) -> RegistryAccess:
    """Registry access for image references from a catalog: a registry without configured
    credentials must have a public address, unless it is a mirror. May read the mirrors of
    clusters. Raises SourceError."""
    refresh_mirrors()
    return registry_access(named_by_others=True, pace=pace)


def unfinished() -> list[Job]:
    """The inspections that wait for a worker or run; not those that wait for their registry."""
    rows = BundleInspection.objects.filter(
        Q(next_attempt_at=None) | Q(next_attempt_at__lte=timezone.now()), state__in=IN_PROGRESS
    )
    values = rows.values_list("pk", "asked_by", "asked_at")
    return [Job("inspection", key, person, at) for key, person, at in values]


def served() -> dict[str, datetime]:
    """When the last inspection of each person began."""
    rows = BundleInspection.objects.exclude(started_at=None).order_by()
    return dict(rows.values_list("asked_by").annotate(Max("started_at")))


def run(row: BundleInspection) -> None:
    """Reads the image and stores the result or the error. An image whose objects are stored by
    digest is not pulled again. Given up after ATTEMPTS, of which the workers died. A registry that
    asks to wait gets its time, up to WAITS times."""
    if row.attempts >= ATTEMPTS:
        error = SourceError(
            f"The inspection ended {ATTEMPTS} times without a result.",
            code="interrupted",
            hint="The workers of the queue reports may lack memory; look at their logs.",
        )
        fail_with(row, error)
        return
    begin(row)
    try:
        pulled = pull(row.image, access(), _is_stored, _ProgressWriter(row))
    except SourceError as error:
        if error.retry_after:
            _wait(row, error)
        else:
            fail_with(row, error)
    else:
        save(row, pulled)


@dataclass(frozen=True, slots=True)
class Pulled:
    """The objects of an image. `packed` is None when those of its digest are stored."""

    digest: str
    packed: Packed | None
    requests: int = 0
    bytes_read: int = 0


def pull(
    image: str,
    registries: RegistryAccess,
    is_stored: Callable[[str], bool],
    progress: ProgressCallback,
) -> Pulled:
    """Pulls the objects of the image unless those of its digest are stored. Raises SourceError.
    Uses no database, so that threads may call it."""
    source = BundleSource(image, access=registries)
    digest = source.resolve()
    requests = 0 if "@" in image else 1
    if digest and is_stored(digest):
        return Pulled(digest, None, requests)
    with progress_callback(progress):
        files = source.fetch()
    packed = pack(source.label, files.manifests, files.metadata, files.folders)
    return Pulled(files.digest, packed, requests + files.requests, files.bytes_read)


def begin(row: BundleInspection) -> None:
    """Records the start of an attempt."""
    _update(
        row,
        state=State.READING,
        started_at=timezone.now(),
        attempts=row.attempts + 1,
        next_attempt_at=None,
    )


def save(row: BundleInspection, pulled: Pulled) -> None:
    """Stores the objects and records the end of the inspection."""
    if pulled.packed is not None:
        stored.save(pulled.digest, pulled.packed)
    _update(
        row,
        waits=0,
        state=State.READ,
        manifests_id=pulled.digest,
        finished_at=timezone.now(),
        requests=pulled.requests,
        bytes_read=pulled.bytes_read,
        **_NO_ERROR,
    )
    log.info(
        "bundle inspected", image=row.image, digest=pulled.digest, bytes_read=pulled.bytes_read
    )


def _is_stored(digest: str) -> bool:
    return BundleManifests.objects.filter(pk=digest).exists()


def fail(row: BundleInspection) -> None:
    """Records that the inspection ended with an unexpected exception."""
    error = SourceError(
        "The image could not be inspected because something in OLM Web itself failed.",
        code="internal",
        hint="Try again; the worker's log has the details.",
    )
    fail_with(row, error)


class _ProgressWriter:
    """Writes the progress of the pull to the row."""

    def __init__(self, row: BundleInspection) -> None:
        self._row = row
        self._written_at = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._written_at >= PROGRESS_INTERVAL:
            self._written_at = now
            _update(self._row, done=done, total=total)


def _wait(row: BundleInspection, error: SourceError) -> None:
    """Puts the inspection off until the time that the registry names. The row waits, no worker."""
    seconds, waits = error.retry_after, row.waits + 1
    if seconds > LONGEST_WAIT:
        error.message += (
            f" It asks to wait {seconds:,.0f} s, longer than the {LONGEST_WAIT:,} s allowed."
        )
        fail_with(row, error)
    elif waits > WAITS:
        error.message += f" It asked to wait {waits} times."
        fail_with(row, error)
    else:
        again = timezone.now() + timedelta(seconds=seconds)
        # attempts: only those count whose workers died.
        _update(row, state=State.QUEUED, next_attempt_at=again, waits=waits, attempts=0)
        log.info("registry asks to wait", image=row.image, seconds=seconds, waits=waits)


def fail_with(row: BundleInspection, error: SourceError) -> None:
    """Records that the inspection failed, and why."""
    hint = error.hint if error.hint and "catalog" not in error.hint else ""
    _update(
        row,
        state=State.FAILED,
        finished_at=timezone.now(),
        requests=error.requests,
        bytes_read=error.bytes_read,
        error_code=error.code[:60],
        error_text=error.message,
        error_hint=_HINTS.get(error.code, hint or _HINT),
    )
    log.warning("bundle not inspected", image=row.image, code=error.code, error=error.message)


def _update(row: BundleInspection, **values: object) -> None:
    BundleInspection.objects.filter(pk=row.pk).update(**values)
