"""Deletes catalogs and unreferenced blobs, and holds the locks that writers and deletions share.

Everything here runs inside the caller's transaction.
"""

from django.db import connection
from django.db.models import Model

from catalogs.models import (
    BlobRef,
    Bundle,
    BundleGVK,
    Catalog,
    CatalogChange,
    CatalogRevision,
    Channel,
    ChannelEntry,
    ContentProblem,
    Icon,
    Package,
    PackageOutline,
    PackageSearch,
    PackageText,
    Prediction,
    PredictionRun,
    RelatedImage,
)
from catalogs.storage.blobs import collect_blobs
from olmweb.bulk import delete, quoted


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
    for a running write of its content, whose rows would remain otherwise."""
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
    steps: tuple[tuple[type[Model], str], ...] = (
        (BundleGVK, f"bundle_id IN {bundles}"),
        (RelatedImage, f"bundle_id IN {bundles}"),
        (ChannelEntry, f"channel_id IN {channels}"),
        (Prediction, f"package_id IN {packages}"),
        (Bundle, f"package_id IN {packages}"),
        (Channel, f"package_id IN {packages}"),
        (PackageText, f"package_id IN {packages}"),
        (PackageSearch, f"package_id IN {packages}"),
        (CatalogChange, f"revision_id IN {revisions}"),
        *(
            (model, "catalog_id = %s")
            for model in (
                *(CatalogRevision, PackageOutline, PredictionRun, BlobRef, ContentProblem),
            )
        ),
        (Package, "catalog_id = %s"),
        (Catalog, "id = %s"),
    )
    return sum(delete(model, where, key) for model, where in steps)


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
