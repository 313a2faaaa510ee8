"""Writing the rows of a catalog's packages: what is missing, what another content left is deleted.

Knows the models and the rows that `catalogs.rows` makes; not how they are made, nor when a catalog
is synced. Everything here runs inside the caller's transaction.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from django.db import connection
from django.db.models import Model

from catalogs.models import (
    Blob,
    BlobRef,
    Bundle,
    BundleGVK,
    Channel,
    ChannelEntry,
    ContentProblem,
    Icon,
    Package,
    PackageSearch,
    PackageText,
    Prediction,
    RelatedImage,
)
from catalogs.storage.blobs import PackTables
from catalogs.storage.packs import Pack, packs_at_most
from catalogs.sync.existing import Fits, Kept, keep
from catalogs.sync.row_types import (
    BUNDLE,
    CHANNEL,
    ENTRY,
    PACKAGE,
    PROBLEM,
    REF,
    SEARCH,
    TEXT,
    BundleRows,
    ChannelRows,
    PackageRows,
    Row,
)
from catalogs.sync.store import StoredPackage
from olmweb.bulk import Table, among, delete, quoted, reserve_ids

BLOBS_AT_ONCE = 10_000  # that are looked for in one query
LONG_AT_ONCE = 100  # rows with texts or pictures of many kB that wait to be written


@dataclass(frozen=True, slots=True)
class AtMost:
    """How much of each a writer may have to write; `parts` are packages, known or not, and `size`
    the bytes of their blobs."""

    packages: int
    channels: int
    bundles: int
    parts: int
    size: int


class Writer:
    """Writes packages of one catalog. `reserve` first, `finish` last.

    `afresh`: other rules may have derived what stands there, so nothing of it stays.
    """

    def __init__(self, catalog_id: int, *, afresh: bool) -> None:
        self._catalog_id = catalog_id
        self._afresh = afresh
        self._deleted = 0
        self._updated = 0
        self._packages = Table(Package, "id", "catalog", "name", *PACKAGE)
        self._texts = Table(PackageText, "package", *TEXT, batch=LONG_AT_ONCE)
        self._search = Table(PackageSearch, "package", *SEARCH, batch=LONG_AT_ONCE)
        self._channels = Table(Channel, *CHANNEL, "id", "package")
        self._entries = Table(ChannelEntry, *ENTRY, "channel")
        self._bundles = Table(
            Bundle, "id", "package", "ordinal", "deprecated", "deprecation", "blob", *BUNDLE
        )
        self._gvks = Table(BundleGVK, "bundle", "group", "version", "kind", "required")
        self._images = Table(RelatedImage, "bundle", "name", "image")
        self._refs = Table(BlobRef, "catalog", "package", *REF)
        self._problems = Table(ContentProblem, *PROBLEM, "catalog", "package")
        self._icons = Table(Icon, "sha256", "media_type", "data", keyed=True, batch=LONG_AT_ONCE)
        self._fits = Fits(self._channels.fitted, self._entries.fitted, self._problems.fitted)
        self._packs: PackTables
        self._ids: dict[type[Model], Iterator[int]] = {}

    def reserve(self, most: AtMost, blobs: Iterable[bytes]) -> set[bytes]:
        """Takes primary keys for at most so many new rows; returns which `blobs` are stored."""
        counts = {Package: most.packages, Channel: most.channels, Bundle: most.bundles}
        self._ids = {model: iter(reserve_ids(model, count)) for model, count in counts.items()}
        self._packs = PackTables(packs_at_most(most.parts, most.size))
        return set(_stored_of(blobs))

    def keep_pack(self, pack: Pack) -> None:
        self._packs.add(pack)

    def write(self, content_hash: str, rows: PackageRows, before: StoredPackage | None) -> None:
        """Makes the rows of one package these."""
        package_id = before.id if before else None
        kept = Kept()
        if before is not None and (self._afresh or (package_id and not rows.known)):
            self.clear(rows.name, package_id, whole=not rows.known)
        elif before is not None:
            kept = keep(self._catalog_id, package_id, rows, self._fits)
            self._deleted += kept.deleted
        own = (self._catalog_id, rows.name)
        self._refs.extend([(*own, *ref) for ref in rows.refs if tuple(ref) not in kept.refs])
        if not kept.problems:
            self.write_problems(rows.name, rows.problems)
        if rows.known:
            self._write_known(content_hash, rows, package_id, kept)

    def _write_known(
        self, content_hash: str, rows: PackageRows, package_id: int | None, kept: Kept
    ) -> None:
        values = (content_hash, *rows.package)
        if package_id is None:
            package_id = next(self._ids[Package])
            self._packages.add((package_id, self._catalog_id, rows.name, *values))
        else:
            self._updated += self._packages.update(package_id, PACKAGE, values)
        if rows.icon is not None:
            self._icons.add(rows.icon)
        if not kept.text:
            self._texts.add((package_id, *rows.text))
        if not kept.search:
            self._search.add((package_id, *rows.search))
        for channel in rows.channels:
            if channel.values[0] not in kept.channels:
                self._write_channel(package_id, channel)
        for bundle in rows.bundles:
            if (bundle.name, bundle.ordinal) not in kept.bundles:
                self._write_bundle(package_id, bundle)

    def _write_channel(self, package_id: int, channel: ChannelRows) -> None:
        channel_id = next(self._ids[Channel])
        self._channels.add((*channel.values, channel_id, package_id))
        self._entries.extend([(*entry, channel_id) for entry in channel.entries])

    def _write_bundle(self, package_id: int, bundle: BundleRows) -> None:
        bundle_id, told = next(self._ids[Bundle]), bundle.deprecation
        self._bundles.add(
            (
                *(bundle_id, package_id, bundle.ordinal, told is not None, told or ""),
                *(bundle.blob, *bundle.values),
            )
        )
        self._gvks.extend([(bundle_id, *gvk) for gvk in bundle.gvks])
        self._images.extend([(bundle_id, *image) for image in bundle.images])

    def write_problems(self, package: str, problems: Iterable[Row]) -> None:
        self._problems.extend([(*row, self._catalog_id, package) for row in problems])

    def clear(self, name: str, package_id: int | None, *, whole: bool) -> None:
        """Deletes what hangs on a package; with `whole` its own row too."""
        own, where = (self._catalog_id, name), "catalog_id = %s AND package = %s"
        self._deleted += delete(BlobRef, where, own) + delete(ContentProblem, where, own)
        if package_id is None:
            return
        key = (package_id,)
        for model, parent, column in (
            (BundleGVK, Bundle, "bundle_id"),
            (RelatedImage, Bundle, "bundle_id"),
            (ChannelEntry, Channel, "channel_id"),
        ):
            self._deleted += delete(model, f"{column} IN {_ids_of(parent)}", key)
        for child in (Prediction, Bundle, Channel, PackageText, PackageSearch):
            self._deleted += delete(child, "package_id = %s", key)
        if whole:
            self._deleted += delete(Package, "id = %s", key)

    def finish(self) -> int:
        """Writes what still waits; returns the rows inserted, updated and deleted."""
        tables = (
            *(self._icons, self._packages, self._texts, self._search, self._channels),
            *(self._entries, self._bundles, self._gvks, self._images, self._refs, self._problems),
        )
        for table in tables:
            table.finish()
        written = self._packs.flush() + sum(table.written for table in tables)
        return self._deleted + self._updated + written


def _ids_of(parent: type[Model]) -> str:
    return f"(SELECT id FROM {quoted(parent)} WHERE package_id = %s)"  # noqa: S608 - our own names


def _stored_of(blobs: Iterable[bytes]) -> Iterator[bytes]:
    left = iter(blobs)
    while some := [digest.hex() for digest in islice(left, BLOBS_AT_ONCE)]:
        with connection.cursor() as cursor:
            where, values = among("sha256", some)
            cursor.execute(f"SELECT sha256 FROM {quoted(Blob)} WHERE {where}", values)  # noqa: S608
            yield from (bytes.fromhex(found) for (found,) in cursor.fetchall())
