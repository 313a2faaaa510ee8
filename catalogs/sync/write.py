"""Writes the rows of packages: deletes stored rows that differ, inserts missing ones.

Runs inside the caller's transaction. The values of a row are its keys, then the fields of its type
in `catalogs.sync.package_rows`.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec
from django.db import connection
from django.db.models import Model

from catalogs import models
from catalogs.fbc.blob import ContentProblemRow, as_json
from catalogs.fbc.bundle import BundleGVKRow, RelatedImageRow
from catalogs.models import BlobRef, Bundle, Channel, ContentProblem, Package
from catalogs.storage.blobs import PackTables
from catalogs.storage.packs import Pack
from catalogs.sync import package_rows
from catalogs.sync.package_rows import (
    BlobRefRow,
    BundleColumns,
    BundleRows,
    ChannelColumns,
    ChannelEntryRow,
    ChannelRows,
    PackageColumns,
    PackageRows,
)
from olmweb.bulk import Table, among, delete, quoted, reserve_ids

BLOBS_PER_QUERY = 10_000
LONG_BATCH = 100  # rows with texts or pictures of many kB that wait to be written
KEYS_PER_QUERY = 500  # in one IN (...), below every database's limit


@dataclass(frozen=True, slots=True)
class StoredPackage:
    """A package of the last sync. `id` is None for blobs without an olm.package."""

    id: int | None
    content_hash: str


def stored_packages(catalog_id: int, salt: bytes) -> dict[str, StoredPackage]:
    """Every package with rows, by name, including "" and names without an olm.package blob."""
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
    return stored | {name: StoredPackage(None, sha.hexdigest()) for name, sha in hashes.items()}


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Stored rows that need no writing: bundles by (name, ordinal), channels by name."""

    bundles: frozenset[tuple[str, int]] = frozenset()
    channels: frozenset[str] = frozenset()
    refs: frozenset[BlobRefRow] = frozenset()
    problems: bool = False
    text: bool = False
    search: bool = False


class Writer:
    """Writes packages of one catalog. Call `reserve` first, `finish` last.

    With `rewrite` no stored row is reused, as another derivation may have made it.
    """

    def __init__(self, catalog_id: int, *, rewrite: bool) -> None:
        self._catalog_id = catalog_id
        self._rewrite = rewrite
        self._deleted = 0
        self._updated = 0
        self._packages = Table(
            Package, "id", "catalog", "name", "content_hash", *PackageColumns._fields
        )
        self._texts = Table(
            models.PackageText, "package", *package_rows.PackageTextRow._fields, batch=LONG_BATCH
        )
        self._search = Table(
            models.PackageSearch,
            "package",
            *package_rows.PackageSearchRow._fields,
            batch=LONG_BATCH,
        )
        self._channels = Table(Channel, "id", "package", *ChannelColumns._fields)
        self._entries = Table(models.ChannelEntry, "channel", *ChannelEntryRow._fields)
        self._bundles = Table(Bundle, "id", "package", *BundleColumns._fields)
        self._gvks = Table(models.BundleGVK, "bundle", *BundleGVKRow._fields)
        self._images = Table(models.RelatedImage, "bundle", *RelatedImageRow._fields)
        self._refs = Table(BlobRef, "catalog", "package", *BlobRefRow._fields)
        self._problems = Table(ContentProblem, "catalog", *ContentProblemRow._fields)
        self._icons = Table(
            models.Icon, *package_rows.IconRow._fields, keyed=True, batch=LONG_BATCH
        )
        self._packs: PackTables
        self._ids: dict[type[Model], Iterator[int]] = {}

    def reserve(
        self, blobs: Iterable[bytes], *, packages: int, channels: int, bundles: int, packs: int
    ) -> set[bytes]:
        """Reserves primary keys for at most so many new rows; returns which `blobs` are stored."""
        counts = {Package: packages, Channel: channels, Bundle: bundles}
        self._ids = {model: iter(reserve_ids(model, count)) for model, count in counts.items()}
        self._packs = PackTables(packs)
        return set(_stored_blobs(blobs))

    def store_pack(self, pack: Pack) -> None:
        self._packs.add(pack)

    def write(self, content_hash: str, rows: PackageRows, before: StoredPackage | None) -> None:
        """Replaces the stored rows of one package with `rows`."""
        package_id = before.id if before else None
        unchanged = Unchanged()
        if before is not None and (self._rewrite or (package_id and not rows.package)):
            self.clear(rows.name, package_id, whole=not rows.package)
        elif before is not None:
            unchanged = self._delete_changed(package_id, rows)
        keys = (self._catalog_id, rows.name)
        self._refs.extend([(*keys, *ref) for ref in rows.refs if ref not in unchanged.refs])
        if not unchanged.problems:
            self._problems.extend([(self._catalog_id, *problem) for problem in rows.problems])
        if rows.package:
            self._write_package(content_hash, rows, rows.package, package_id, unchanged)

    def _write_package(
        self,
        content_hash: str,
        rows: PackageRows,
        package: PackageColumns,
        package_id: int | None,
        unchanged: Unchanged,
    ) -> None:
        if package_id is None:
            package_id = next(self._ids[Package])
            self._packages.add((package_id, self._catalog_id, rows.name, content_hash, *package))
        else:
            columns = ("content_hash", *PackageColumns._fields)
            self._updated += self._packages.update(package_id, columns, (content_hash, *package))
        if rows.icon:
            self._icons.add(rows.icon)
        if rows.text and not unchanged.text:
            self._texts.add((package_id, *rows.text))
        if rows.search and not unchanged.search:
            self._search.add((package_id, *rows.search))
        for channel in rows.channels:
            if channel.row.name not in unchanged.channels:
                channel_id = next(self._ids[Channel])
                self._channels.add((channel_id, package_id, *channel.row))
                self._entries.extend([(channel_id, *entry) for entry in channel.entries])
        for bundle in rows.bundles:
            if (bundle.row.name, bundle.row.ordinal) not in unchanged.bundles:
                bundle_id = next(self._ids[Bundle])
                self._bundles.add((bundle_id, package_id, *bundle.row))
                self._gvks.extend([(bundle_id, *gvk) for gvk in bundle.gvks])
                self._images.extend([(bundle_id, *image) for image in bundle.images])

    def clear(self, name: str, package_id: int | None, *, whole: bool) -> None:
        """Deletes all rows of a package; with `whole` its own row too."""
        keys, where = (self._catalog_id, name), "catalog_id = %s AND package = %s"
        self._deleted += delete(BlobRef, where, keys) + delete(ContentProblem, where, keys)
        if package_id is None:
            return
        key = (package_id,)
        for model, parent, column in (
            (models.BundleGVK, Bundle, "bundle_id"),
            (models.RelatedImage, Bundle, "bundle_id"),
            (models.ChannelEntry, Channel, "channel_id"),
        ):
            self._deleted += delete(model, f"{column} IN {_ids_of(parent)}", key)
        for child in (models.Prediction, Bundle, Channel, models.PackageText, models.PackageSearch):
            self._deleted += delete(child, "package_id = %s", key)
        if whole:
            self._deleted += delete(Package, "id = %s", key)

    def finish(self) -> int:
        """Writes the waiting rows; returns the rows inserted, updated and deleted."""
        tables = (
            *(self._icons, self._packages, self._texts, self._search, self._channels),
            *(self._entries, self._bundles, self._gvks, self._images, self._refs, self._problems),
        )
        for table in tables:
            table.finish()
        written = self._packs.flush() + sum(table.written for table in tables)
        return self._deleted + self._updated + written

    # -- stored rows of the same derivation

    def _delete_changed(self, package_id: int | None, rows: PackageRows) -> Unchanged:
        """Deletes the package's stored rows that differ from `rows`; returns the others.

        At most seven queries, and a few deletions.
        """
        refs = self._unchanged_refs(rows)
        problems = self._unchanged_problems(rows)
        if package_id is None:
            return Unchanged(refs=refs, problems=problems)
        return Unchanged(
            refs=refs,
            problems=problems,
            bundles=self._unchanged_bundles(package_id, rows.bundles),
            channels=self._unchanged_channels(package_id, rows.channels),
            text=self._is_unchanged(models.PackageText, package_id, rows.text),
            search=self._is_unchanged(models.PackageSearch, package_id, rows.search),
        )

    def _unchanged_refs(self, rows: PackageRows) -> frozenset[BlobRefRow]:
        wanted = set(rows.refs)
        stored = BlobRef.objects.filter(catalog=self._catalog_id, package=rows.name).order_by()
        unchanged, changed = set(), []
        for pk, schema, name, ordinal, blob in stored.values_list(
            "id", "schema", "name", "ordinal", "blob_id"
        ):
            if (ref := BlobRefRow(schema, name, ordinal, blob)) in wanted:
                unchanged.add(ref)
            else:
                changed.append(pk)
        self._delete(BlobRef, "id", changed)
        return frozenset(unchanged)

    def _unchanged_problems(self, rows: PackageRows) -> bool:
        stored = ContentProblem.objects.filter(catalog=self._catalog_id, package=rows.name)
        values = stored.order_by("id").values_list(*ContentProblemRow._fields)
        wanted = [self._problems.truncated(problem) for problem in rows.problems]
        if list(values) == wanted:
            return True
        where = "catalog_id = %s AND package = %s"
        self._deleted += delete(ContentProblem, where, (self._catalog_id, rows.name))
        return False

    def _unchanged_bundles(
        self, package_id: int, bundles: Iterable[BundleRows]
    ) -> frozenset[tuple[str, int]]:
        """A bundle's rows derive from its blob and its deprecation only."""
        wanted = {
            (bundle.row.name, bundle.row.ordinal): (
                bundle.row.blob,
                bundle.row.deprecated,
                bundle.row.deprecation,
            )
            for bundle in bundles
        }
        stored = Bundle.objects.filter(package=package_id).order_by()
        unchanged, changed = set(), []
        for pk, name, ordinal, *sources in stored.values_list(
            "id", "name", "ordinal", "blob_id", "deprecated", "deprecation"
        ):
            if wanted.get((name, ordinal)) == tuple(sources):
                unchanged.add((name, ordinal))
            else:
                changed.append(pk)
        for child in (models.BundleGVK, models.RelatedImage, models.Prediction):
            self._delete(child, "bundle_id", changed)
        self._delete(Bundle, "id", changed)
        return frozenset(unchanged)

    def _unchanged_channels(
        self, package_id: int, channels: Iterable[ChannelRows]
    ) -> frozenset[str]:
        entries: dict[int, list[ChannelEntryRow]] = defaultdict(list)
        stored = models.ChannelEntry.objects.filter(channel__package=package_id)
        for channel_id, *values in stored.order_by("channel", "ordinal").values_list(
            "channel_id", *ChannelEntryRow._fields
        ):
            entry = ChannelEntryRow(*values)
            entries[channel_id].append(entry._replace(skips=as_json(entry.skips)))
        wanted = {
            channel.row.name: (
                self._channels.truncated(channel.row),
                [self._entries.truncated(entry) for entry in channel.entries],
            )
            for channel in channels
        }
        unchanged, changed = set(), []
        for pk, *values in Channel.objects.filter(package=package_id).values_list(
            "id", *ChannelColumns._fields
        ):
            row = ChannelColumns(*values)
            if wanted.get(row.name) == (row, entries[pk]):
                unchanged.add(row.name)
            else:
                changed.append(pk)
        self._delete(models.ChannelEntry, "channel_id", changed)
        self._delete(Channel, "id", changed)
        return frozenset(unchanged)

    def _is_unchanged(
        self,
        model: type[models.PackageText | models.PackageSearch],
        package_id: int,
        wanted: package_rows.PackageTextRow | package_rows.PackageSearchRow | None,
    ) -> bool:
        """Compares the one row of the package: a text, then JSON documents, decoded because
        PostgreSQL does not keep the order of keys."""
        if wanted is None:
            return True
        text, *documents = wanted
        stored = model._default_manager.filter(package=package_id)
        values = stored.values_list(*wanted._fields).first()
        if values == (text, *map(msgspec.json.decode, documents)):
            return True
        self._delete(model, "package_id", [package_id])
        return False

    def _delete(self, model: type[Model], column: str, keys: Sequence[int]) -> None:
        for start in range(0, len(keys), KEYS_PER_QUERY):
            batch = keys[start : start + KEYS_PER_QUERY]
            where = f"{column} IN ({', '.join(['%s'] * len(batch))})"
            self._deleted += delete(model, where, batch)


def _ids_of(parent: type[Model]) -> str:
    return f"(SELECT id FROM {quoted(parent)} WHERE package_id = %s)"  # noqa: S608 - our own names


def _stored_blobs(blobs: Iterable[bytes]) -> Iterator[bytes]:
    left = iter(blobs)
    while batch := [digest.hex() for digest in islice(left, BLOBS_PER_QUERY)]:
        with connection.cursor() as cursor:
            where, values = among("sha256", batch)
            cursor.execute(f"SELECT sha256 FROM {quoted(models.Blob)} WHERE {where}", values)  # noqa: S608
            yield from (bytes.fromhex(sha256) for (sha256,) in cursor.fetchall())
