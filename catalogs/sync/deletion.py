"""Deletes catalogs and unreferenced blobs, and holds the locks that writers and deletions share.

Everything here but `delete_own_catalog` runs inside the caller's transaction.
"""

from collections.abc import Iterable

from django.db import connection, transaction
from django.db.models import Model

from catalogs import models
from catalogs.models import Bundle, Catalog, CatalogRevision, Channel, Icon, Package
from catalogs.sources.own_catalogs import describe
from catalogs.storage.blobs import collect_blobs
from catalogs.sync.progress import standings
from olmweb.accounts import audit
from olmweb.bulk import delete, quoted
from olmweb.errors import OlmwebError


def collect_garbage() -> int:
    """Deletes unreferenced blobs and icons; returns how many."""
    icon, package = quoted(Icon), quoted(Package)
    unused = f"NOT EXISTS (SELECT 1 FROM {package} r WHERE r.icon_id = {icon}.sha256)"  # noqa: S608
    return collect_blobs() + delete(Icon, unused, ())


def lock_catalog(catalog_id: int, *, delete: bool = False) -> bool:
    """Prevents deletion (with `delete`, also writing) of the catalog until this transaction ends;
    False when it does not exist. SQLite's transaction holds the only write lock anyway."""
    if connection.vendor == "postgresql":
        # Writers of content take no FOR UPDATE: a cluster's sync writes other columns of the row.
        mode = "UPDATE" if delete else "KEY SHARE"
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT 1 FROM {quoted(Catalog)} WHERE id = %s FOR {mode}",  # noqa: S608
                [catalog_id],
            )
            return cursor.fetchone() is not None
    return Catalog.objects.filter(pk=catalog_id).exists()


def delete_catalog(catalog_id: int) -> int:
    """Deletes a catalog with all its rows, in bulk; returns how many. On PostgreSQL it first waits
    for a running write of the content, whose rows would remain otherwise."""
    lock_catalog(catalog_id, delete=True)
    key = (catalog_id,)
    packages = f"(SELECT id FROM {quoted(Package)} WHERE catalog_id = %s)"  # noqa: S608
    bundles, channels, revisions = (
        f"(SELECT id FROM {quoted(model)} WHERE {where})"  # noqa: S608 - our own names
        for model, where in (
            (Bundle, f"package_id IN {packages}"),
            (Channel, f"package_id IN {packages}"),
            (CatalogRevision, "catalog_id = %s"),
        )
    )
    steps: tuple[tuple[str, Iterable[type[Model]]], ...] = (
        (f"bundle_id IN {bundles}", (models.BundleGVK, models.RelatedImage)),
        (f"channel_id IN {channels}", (models.ChannelEntry,)),
        (
            f"package_id IN {packages}",
            (models.Prediction, Bundle, Channel, models.PackageText, models.PackageSearch),
        ),
        (f"revision_id IN {revisions}", (models.CatalogChange,)),
        (
            "catalog_id = %s",
            (
                *(CatalogRevision, models.PackageOutline, models.PredictionRun),
                *(models.BlobRef, models.ContentProblem, Package),
                models.CatalogInspection,
            ),
        ),
    )
    rows = sum(delete(model, where, key) for where, children in steps for model in children)
    # By the ORM: rows of other apps that name the catalog stay, without it.
    return rows + Catalog.objects.filter(pk=catalog_id).delete()[0]


def delete_own_catalog(catalog: Catalog) -> None:
    """Deletes a catalog that a person added, and records it in the audit log.

    Raises OlmwebError (409) while it is being synced, which could take minutes to wait for.
    """
    if standings([catalog]):
        raise OlmwebError(
            f"{catalog} is being synced.",
            code="busy",
            status=409,
            hint="Cancel the sync, or wait for its end; then delete the catalog.",
        )
    with transaction.atomic():
        audit.record(audit.Event.CATALOG_DELETED, **describe(catalog))
        delete_catalog(catalog.pk)


def lock_for_writing() -> None:
    """Blocks the deletion of unreferenced blobs until this transaction ends.

    SQLite's transaction holds the only write lock anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock_shared(hashtext('olmweb blobs'))")


def may_collect() -> bool:
    """Whether no other transaction is writing blobs; blocks others until this one ends."""
    if connection.vendor != "postgresql":
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext('olmweb blobs'))")
        return bool(cursor.fetchone()[0])
