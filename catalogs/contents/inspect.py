"""Inspecting a bundle's image: a person asks, a worker does it once, a row tells how it goes."""

import time
from datetime import timedelta

import structlog
from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from catalogs.contents import stored
from catalogs.contents.objects import pack
from catalogs.models import BundleInspection, BundleManifests
from catalogs.sources.base import SourceError, progress_callback
from catalogs.sources.oci.bundle import BundleSource
from catalogs.sources.oci.source import RegistryAccess

log = structlog.get_logger(__name__)
LIMIT = 300  # seconds
EVERY = 0.5  # between two notes of how far it is
State = BundleInspection.State
_GOING_ON = (State.QUEUED, State.READING)
_HINTS = {
    "too-large": "Only the layers with manifests are pulled, and those of real bundles are small: "
    "look at how the image is built.",
    "no-manifests": "Check that the catalog names a bundle's image of format registry+v1.",
    "no-csv": "A registry+v1 bundle has exactly one; tell its author.",
    "not-an-image": "Check that the catalog names a bundle's image.",
}
_HINT = "The image is as its author built it: tell the author, or try another version."


def ask(image: str, who: str) -> BundleInspection | None:
    """The row of an inspection to be queued now; None when one of this image goes on already."""
    row, made = BundleInspection.objects.get_or_create(image=image, defaults={"asked_by": who})
    if made:
        return row
    now = timezone.now()
    stuck = Q(asked_at__lt=now - timedelta(seconds=LIMIT + 60))
    asked = BundleInspection.objects.filter(Q(pk=row.pk), ~Q(state__in=_GOING_ON) | stuck).update(
        state=State.QUEUED,
        asked_by=who,
        asked_at=now,
        done=0,
        total=0,
        error_code="",
        error_text="",
        error_hint="",
    )
    return row if asked else None


def goes_on(row: BundleInspection | None) -> bool:
    """Whether a worker has it or will have it; one that was asked for long ago is lost."""
    return (
        row is not None
        and row.state in _GOING_ON
        and timezone.now() - row.asked_at < timedelta(seconds=LIMIT + 60)
    )


def access() -> RegistryAccess:
    """Whom a catalog names may be asked with our credentials or at a public address."""
    return RegistryAccess(
        settings.INSECURE_REGISTRIES, settings.REGISTRY_CREDENTIALS, named_by_others=True
    )


def run(row: BundleInspection) -> None:
    """Reads the image and writes how that went. Safe to run twice and half-way: what was stored by
    its digest is not pulled again."""
    _update(row, state=State.READING)
    try:
        found, cost = _read(row)
    except SourceError as error:
        _fail(row, error)
        return
    _update(
        row,
        state=State.READ,
        manifests=found,
        finished_at=timezone.now(),
        requests=cost[0],
        bytes_read=cost[1],
        **{"error_code": "", "error_text": "", "error_hint": ""},
    )
    log.info("bundle inspected", image=row.image, digest=found.digest, bytes_read=cost[1])


def fail(row: BundleInspection) -> None:
    """Says that something of ours broke while the image was read."""
    error = SourceError(
        "The image could not be inspected because something in OLM Web itself failed.",
        code="internal",
        hint="Try again; the worker's log has the details.",
    )
    _fail(row, error)


def _read(row: BundleInspection) -> tuple[BundleManifests, tuple[int, int]]:
    source = BundleSource(row.image, access=access())
    digest = source.resolve()
    known = BundleManifests.objects.filter(pk=digest).defer("data").first() if digest else None
    if known is not None:
        return known, (0 if "@" in row.image else 1, 0)
    with progress_callback(_Heard(row)):
        files = source.fetch()
    packed = pack(source.label, files.manifests, files.metadata, files.folders)
    return stored.save(files.digest, packed), (files.requests, files.bytes_read)


class _Heard:
    """Notes in the row how far the pull is."""

    def __init__(self, row: BundleInspection) -> None:
        self._row = row
        self._noted = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._noted >= EVERY:
            self._noted = now
            _update(self._row, done=done, total=total)


def _fail(row: BundleInspection, error: SourceError) -> None:
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
