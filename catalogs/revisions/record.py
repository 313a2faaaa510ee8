"""Recording a catalog's revisions: outlines and changes of replaced content; deleting old ones.

`Recorder` writes PackageOutline and CatalogChange rows inside the caller's transaction.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from catalogs.fbc.bundle import ParsedBundle
from catalogs.graph import GraphEntry
from catalogs.models import (
    Bundle,
    BundleGVK,
    Catalog,
    CatalogChange,
    CatalogRevision,
    Channel,
    ChannelEntry,
    Package,
    PackageOutline,
    RelatedImage,
)
from catalogs.revisions.compare import PackageChange, compare
from catalogs.revisions.outline import (
    BundleOutline,
    Encoded,
    Outline,
    bundle_outline,
    channel_outline,
    decode,
    encode,
)
from olmweb.bulk import Table

DELETED_AT_ONCE = 1000
CLOSED_AT_ONCE = 500  # names in one IN (...), below every database's limit


class Recorder:
    """Records one replacement. Per package call `before`, then `is_now`; at the end `finish`.

    A catalog's first content is not a change: its outlines are written without changes.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog_id = catalog.pk
        self._revision = catalog.revision + 1
        self._has_changes = catalog.revision > 0
        self._changes: list[PackageChange] = []
        self._open = PackageOutline.objects.filter(catalog=catalog, last=None)
        self._stored = dict(self._open.values_list("package", "content_hash"))
        self._rebuilt: dict[str, Outline] = {}
        self._closed: list[str] = []
        self._added: set[str] = set()
        self._outlines = Table(
            PackageOutline, "catalog", "package", "first", "content_hash", "data", batch=100
        )

    def before(self, name: str, package_id: int | None) -> None:
        """Call before the rows of the package are replaced: they give its outline where a catalog
        was read before outlines were stored."""
        if package_id is not None and name not in self._stored:
            self._rebuilt[name] = outline_of_rows(package_id)

    def is_now(self, name: str, encoded: Encoded | None) -> None:
        """Records the package's new content, None when the package is gone or never was one."""
        if encoded and self._stored.get(name) == encoded.content_hash:
            return
        old = self._rebuilt.pop(name, None)
        if name in self._stored:
            old = decode(self._open.get(package=name).data)
            self._closed.append(name)
        if self._has_changes:
            outline = decode(encoded.data) if encoded else None
            self._changes += compare(name, old, outline, by_blob=True)
        if encoded:
            self._add(name, encoded)

    def finish(self, revision_id: int) -> int:
        """Writes the recorded changes and outlines for the new revision; returns the rows written.

        Unchanged packages without an outline get one from their rows.
        """
        recorded = self._stored.keys() | self._added
        for pk, name in Package.objects.filter(catalog=self._catalog_id).values_list("id", "name"):
            if name not in recorded:
                self._add(name, encode(outline_of_rows(pk)))
        written = 0
        old = self._open.filter(first__lt=self._revision)
        for at in range(0, len(self._closed), CLOSED_AT_ONCE):
            names = self._closed[at : at + CLOSED_AT_ONCE]
            written += old.filter(package__in=names).update(last=self._revision - 1)
        changes = Table(CatalogChange, "revision", "kind", "package", "subject", "before", "after")
        changes.extend([(revision_id, *change) for change in self._changes])
        for table in (self._outlines, changes):
            table.flush()
            written += table.written
        return written

    def _add(self, name: str, encoded: Encoded) -> None:
        self._added.add(name)
        self._outlines.add((self._catalog_id, name, self._revision, *encoded))


def outline_of_rows(package_id: int) -> Outline:
    """The outline of a package from its rows, for catalogs read before outlines were stored; five
    queries. Differs from that of the blobs only where a text was longer than its column."""
    package = Package.objects.only("default_channel", "deprecated").get(pk=package_id)
    channels = list(Channel.objects.filter(package=package_id))
    bundles, deprecated_bundles = _bundles(package_id)
    entries: dict[int, list[GraphEntry]] = defaultdict(list)
    for channel_id, *entry in ChannelEntry.objects.filter(channel__package=package_id).values_list(
        "channel_id", "name", "replaces", "skips", "skip_range"
    ):
        entries[channel_id].append(GraphEntry(*entry))
    return Outline(
        default_channel=package.default_channel,
        channels={
            channel.name: channel_outline(channel.head, entries[channel.pk]) for channel in channels
        },
        bundles=bundles,
        deprecated=package.deprecated,
        deprecated_channels=sorted(channel.name for channel in channels if channel.deprecated),
        deprecated_bundles=deprecated_bundles,
    )


def _bundles(package_id: int) -> tuple[dict[str, BundleOutline], list[str]]:
    """Bundles by name, the first of equal names; and the names of the deprecated ones."""
    gvks: dict[int, list[tuple[str, str, str, bool]]] = defaultdict(list)
    for bundle_id, group, version, kind, required in BundleGVK.objects.filter(
        bundle__package=package_id
    ).values_list("bundle_id", "group", "version", "kind", "required"):
        gvks[bundle_id].append((group, version, kind, required))
    images: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for bundle_id, name, image in RelatedImage.objects.filter(
        bundle__package=package_id
    ).values_list("bundle_id", "name", "image"):
        images[bundle_id].append((name, image))
    outlines: dict[str, BundleOutline] = {}
    deprecated = set()
    own = [name for name in ParsedBundle._fields if name not in ("gvks", "images")]
    rows = Bundle.objects.filter(package=package_id).order_by("name", "ordinal")
    for row in rows.values("id", "blob_id", "deprecated", *own):
        pk, name = row["id"], row["name"]
        facts = {field: row[field] for field in own} | {"gvks": gvks[pk], "images": images[pk]}
        outlines.setdefault(name, bundle_outline(ParsedBundle(**facts), row["blob_id"] or ""))
        if row["deprecated"]:
            deprecated.add(name)
    return outlines, sorted(deprecated)


def prune(limit: datetime) -> dict[str, int]:
    """Deletes revisions superseded before `limit`, with their changes and outlines; counts rows.
    The revision that was current at `limit` stays: later changes are relative to it."""
    deleted = {"revisions": 0, "outlines": 0}
    for catalog in Catalog.objects.filter(revision__gt=1).only("id"):
        revisions = CatalogRevision.objects.filter(catalog=catalog)
        oldest = revisions.filter(created_at__lt=limit).order_by("-number").first()
        if oldest is None:
            continue
        old = revisions.filter(number__lt=oldest.number)
        sum(_delete(CatalogChange.objects.filter(revision__in=old)))
        deleted["revisions"] += sum(_delete(old))
        outlines = PackageOutline.objects.filter(catalog=catalog, last__lt=oldest.number)
        deleted["outlines"] += sum(_delete(outlines))
    return deleted


def _delete(rows: QuerySet[Any]) -> Iterator[int]:
    """Deletes in small transactions: a concurrent writer waits for one at most."""
    manager = rows.model._default_manager
    while ids := list(rows.order_by("pk").values_list("pk", flat=True)[:DELETED_AT_ONCE]):
        manager.filter(pk__in=ids).delete()
        yield len(ids)
