"""Celery tasks that sync catalogs and inspect images, each under a lease."""

from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.core.cache import cache
from django.db.models import F, Q
from django.utils import timezone

from catalogs.contents import inspection
from catalogs.models import BundleInspection, Catalog
from catalogs.sources.registry_access import refresh_mirrors
from catalogs.sync import catalog as sync
from catalogs.verdicts import catalog_inspection
from olmweb.models import configured_clusters
from olmweb.runtime import leases, reports
from olmweb.tasks import task

log = structlog.get_logger(__name__)
SYNC_LIMIT = 900  # seconds one catalog may take
QUEUED = 60  # seconds after which a message of a due catalog counts as lost
_QUEUED = "catalog-queued:{}"
FIRST_RETRY = timedelta(seconds=30)


@task(name="catalogs.sync_due_catalogs", time_limit=60, expires=60)
def sync_due_catalogs() -> None:
    """Enqueues every catalog that is due, unless it is queued or a worker syncs it."""
    now = timezone.now()
    busy = leases.held_names("catalog:")
    addressed = ~Q(base_url="") | Q(cluster=None)
    catalogs = Catalog.objects.filter(configured_clusters("cluster__"), addressed)
    for catalog in catalogs.order_by(F("checked_at").asc(nulls_first=True)):
        if not catalog.polled or f"catalog:{catalog.pk}" in busy or not is_due(catalog, now):
            continue
        if cache.add(_QUEUED.format(catalog.pk), True, QUEUED):
            sync_catalog.delay_on_commit(catalog.pk)


def is_due(catalog: Catalog, now: datetime) -> bool:
    """Whether a catalog was never read, has another digest, was not checked for one poll, or a
    person requested a sync after the last check.

    A failed catalog is due after the time for which it has been failing (30 s up to one poll), a
    cancelled one after one poll.
    """
    poll = timedelta(seconds=settings.CATALOG_POLL)
    if catalog.checked_at is None:
        return True
    if catalog.sync_requested_at is not None and catalog.sync_requested_at > catalog.checked_at:
        return True
    waited = now - catalog.checked_at
    if catalog.error_code == "cancelled":
        return waited >= poll
    if catalog.state == Catalog.State.FAILED:
        failing = catalog.checked_at - (catalog.failing_since or catalog.checked_at)
        return waited >= min(max(failing, FIRST_RETRY), max(poll, FIRST_RETRY))
    # Only a request reports the digest of a CatalogSource, that of its pod.
    digest_changed = (
        bool(catalog.resolved_digest) and catalog.resolved_digest != catalog.synced_digest
    )
    return digest_changed or waited >= poll


@task(name="catalogs.sync_catalog", time_limit=SYNC_LIMIT, expires=5 * QUEUED)
def sync_catalog(catalog_id: int, force: bool = False) -> None:
    """Syncs one catalog unless another worker does. Safe to repeat and to interrupt."""
    cache.delete(_QUEUED.format(catalog_id))
    with leases.renewed_lease(f"catalog:{catalog_id}") as held:
        if held is None:
            log.info("catalog is being synced already", catalog_id=catalog_id)
            return
        catalog = Catalog.objects.select_related("cluster").filter(pk=catalog_id).first()
        if catalog is None:
            log.info("catalog is gone", catalog_id=catalog_id)
            return
        if catalog.source_kind == Catalog.SourceKind.IMAGE:
            refresh_mirrors()
        try:
            sync.sync_catalog(catalog, force=force)
        except leases.LeaseLost:
            log.warning("another worker took the catalog over", catalog=str(catalog))


def inspect_bundle(inspection_id: int) -> None:
    """Reads one bundle's image under its lease. Safe to repeat and to interrupt."""
    row = BundleInspection.objects.filter(pk=inspection_id).first()
    if row is None or row.state not in inspection.IN_PROGRESS:
        log.info("nothing to inspect", inspection_id=inspection_id)
        return
    try:
        inspection.run(row)
    except Exception:
        inspection.fail(row)
        raise


reports.register(
    reports.Kind("inspection", inspection.unfinished, inspection.served, inspect_bundle)
)
reports.register(
    reports.Kind(
        catalog_inspection.KIND,
        catalog_inspection.unfinished,
        catalog_inspection.served,
        catalog_inspection.take_turn,
    )
)
