"""The rows of a catalog's content as a whole: what stands there, locks, sweeping, deletion.

Knows the models; not where a catalog comes from or when it is synced. Everything here runs inside
the caller's transaction.
"""

import hashlib
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class StoredPackage:
    """A package as the last sync left it. `id` is None for blobs without an olm.package."""

    id: int | None
    content_hash: str


def stored_packages(catalog_id: int, salt: bytes) -> dict[str, StoredPackage]:
    """Every package that has rows, by name; "" and names without an olm.package blob included."""
    stored = {
        name: StoredPackage(pk, content_hash)
        for pk, name, content_hash in Package.objects.filter(catalog=catalog_id).values_list(
            "id", "name", "content_hash"
        )
    }
    names = Package.objects.filter(catalog=catalog_id).values("name")
    loose = BlobRef.objects.filter(catalog=catalog_id).exclude(package__in=names)
    hashes: dict[str, hashlib._Hash] = {}
    for package, blob in loose.order_by("package", "ordinal").values_list("package", "blob_id"):
        hashes.setdefault(package, hashlib.sha256(salt)).update(bytes.fromhex(blob))
    stored |= {name: StoredPackage(None, found.hexdigest()) for name, found in hashes.items()}
    return stored


def collect_garbage() -> int:
    """Deletes blobs and icons that nothing refers to any more; returns how many."""
    icon, package = quoted(Icon), quoted(Package)
    unused = f"NOT EXISTS (SELECT 1 FROM {package} r WHERE r.icon_id = {icon}.sha256)"  # noqa: S608
    return collect_blobs() + delete(Icon, unused, ())


def lock_catalog(catalog_id: int, *, delete: bool = False) -> bool:
    """Keeps the catalog from being deleted, or written, until this transaction ends; whether it is
    there. SQLite's transaction holds the only write lock anyway."""
    if connection.vendor == "postgresql":
        # Not FOR UPDATE for a writer of content: a cluster's sync writes the row's other columns.
        how = "UPDATE" if delete else "KEY SHARE"
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT 1 FROM {quoted(Catalog)} WHERE id = %s FOR {how}",  # noqa: S608
                [catalog_id],
            )
            return cursor.fetchone() is not None
    return Catalog.objects.filter(pk=catalog_id).exists()


def delete_catalog(catalog_id: int) -> int:
    """Deletes a catalog with all its rows, in bulk; returns how many. On PostgreSQL it waits for
    the content that is being written now, which it would miss otherwise."""
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
    """Keeps the collector of unreferenced blobs away while this transaction refers to some.

    SQLite's transaction holds the only write lock anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock_shared(hashtext('olmweb blobs'))")


def may_collect() -> bool:
    """Whether no other transaction is writing blobs; holds others off until this one ends."""
    if connection.vendor != "postgresql":
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext('olmweb blobs'))")
        return bool(cursor.fetchone()[0])
