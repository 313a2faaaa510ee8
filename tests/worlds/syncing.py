"""Catalogs read from files, and every row of one catalog, for the tests of syncing."""

from pathlib import Path

from catalogs.models import (
    Blob,
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
    PackageText,
    RelatedImage,
)
from tests.worlds.fbc import jsonl

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TABLES = (
    *(Package, PackageText, Channel, ChannelEntry, Bundle, BundleGVK, RelatedImage, Blob, BlobRef),
    *(ContentProblem, Icon, CatalogRevision, CatalogChange),
)


def make(folder, blobs, name="demo") -> Catalog:
    """A catalog read from a file that holds these blobs (or bytes)."""
    path = folder / f"{name}.jsonl"
    catalog, _ = Catalog.objects.get_or_create(
        cluster=None, slug=name, name=name, source_kind="File", source=str(path)
    )
    rewrite(catalog, blobs)
    return catalog


def rewrite(catalog: Catalog, blobs) -> None:
    Path(catalog.source).write_bytes(blobs if isinstance(blobs, bytes) else jsonl(blobs))


def snapshot(catalog: Catalog, *, besides: str = "no such") -> dict[str, list[dict]]:
    """Every row of the catalog's content (of all packages but `besides`), primary keys included."""
    own = {
        Package: Package.objects.filter(catalog=catalog).exclude(name=besides),
        BlobRef: BlobRef.objects.filter(catalog=catalog).exclude(package=besides),
        ContentProblem: ContentProblem.objects.filter(catalog=catalog).exclude(package=besides),
    }
    packages = own[Package].values("id")
    own |= {
        PackageText: PackageText.objects.filter(package__in=packages),
        Channel: Channel.objects.filter(package__in=packages),
        ChannelEntry: ChannelEntry.objects.filter(channel__package__in=packages),
        Bundle: Bundle.objects.filter(package__in=packages),
        BundleGVK: BundleGVK.objects.filter(bundle__package__in=packages),
        RelatedImage: RelatedImage.objects.filter(bundle__package__in=packages),
    }
    return {
        model.__name__: sorted(rows.values(), key=lambda row: str(row))
        for model, rows in own.items()
    }
