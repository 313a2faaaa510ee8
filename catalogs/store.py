"""The rows of a catalog's content: what stands there, and writing one package's part anew.

Knows the models and the facts of `catalogs.derive`; not where a catalog comes from or when it is
synced. Everything here runs inside the caller's transaction.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from django.db import connection
from django.db.models import Model

from catalogs.blobs import Packer, PackTables, collect_blobs, packs_at_most
from catalogs.bulk import Table, as_json, delete, quoted, reserve_ids
from catalogs.bundles import BundleFacts
from catalogs.derive import ChannelFacts, PackageReader
from catalogs.fbc import Problem
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
    PackageOutline,
    PackageSearch,
    PackageText,
    Prediction,
    PredictionRun,
    RelatedImage,
)
from catalogs.texts import Texts
from catalogs.words import Gatherer

QUERY_KEYS = 500  # keys in one IN (...), below every database's limit

_PACKAGE = (
    *("content_hash", "display_name", "summary", "provider", "default_channel", "head_bundle"),
    *("head_version", "icon", "categories", "keywords", "capability", "infrastructure_features"),
    *("install_modes", "deprecated", "deprecation", "channel_count", "bundle_count"),
)
_BUNDLE = (
    *("name", "version", "release", "version_key", "image", "display_name", "install_modes"),
    *("install_modes_known", "webhooks", "owned_api_services", "min_kube_version"),
    *("max_openshift_version", "suggested_namespace", "released_at", "required_packages"),
    "constraint_count",
)


@dataclass(frozen=True, slots=True)
class StoredPackage:
    """A package as the last sync left it. `id` is None for blobs without an olm.package."""

    id: int | None
    content_hash: str


@dataclass(slots=True)
class Ref:
    """One blob's place, in the package's order."""

    schema: str
    name: str
    sha256: str


@dataclass(slots=True)
class PackageContent:
    """All of one package but its bundles, which are written as they are read."""

    reader: PackageReader
    content_hash: str
    channels: list[ChannelFacts]
    texts: Texts
    head_bundle: str
    refs: list[Ref] = field(default_factory=list)


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
    """Writes packages of one catalog. `reserve` first, `finish` last, `close` always."""

    def __init__(self, catalog_id: int) -> None:
        self.catalog_id = catalog_id
        self.deleted = 0
        self.updated = 0
        self._packages = Table(Package, "id", "catalog", "name", *_PACKAGE)
        self._texts = Table(PackageText, "package", "description_html", "links", "maintainers")
        self._gatherer = Gatherer()
        self._search = Table(
            PackageSearch, "package", "words", "provides", "provided_before", "repositories"
        )
        self._channels = Table(
            Channel,
            *("id", "package", "name", "head", "head_version", "is_default", "deprecated"),
            *("deprecation", "entry_count"),
        )
        self._entries = Table(
            ChannelEntry, "channel", "ordinal", "name", "replaces", "skips", "skip_range"
        )
        self._bundles = Table(
            Bundle, "id", "package", "ordinal", "deprecated", "deprecation", "blob", *_BUNDLE
        )
        self._gvks = Table(BundleGVK, "bundle", "group", "version", "kind", "required")
        self._images = Table(RelatedImage, "bundle", "name", "image")
        self._refs = Table(BlobRef, "catalog", "package", "schema", "name", "ordinal", "blob")
        self._problems = Table(
            ContentProblem,
            *("catalog", "package", "subject", "field", "code", "severity", "message", "offset"),
            *("file", "line", "excerpt"),
        )
        self._icons = Table(Icon, "sha256", "media_type", "data", keyed=True)
        self._packer = Packer()
        self._packs: PackTables
        self._present: set[str] = set()
        self._ids: dict[str, Iterator[int]] = {}

    def reserve(self, most: AtMost, blobs: Iterable[str]) -> None:
        """Takes primary keys for at most so many new rows; learns which `blobs` are stored."""
        self._ids = {
            "package": iter(reserve_ids(Package, most.packages)),
            "channel": iter(reserve_ids(Channel, most.channels)),
            "bundle": iter(reserve_ids(Bundle, most.bundles)),
        }
        self._packs = PackTables(packs_at_most(most.parts, most.size))
        for keys in _chunks(blobs):
            found = Blob.objects.filter(sha256__in=keys).values_list("sha256", flat=True)
            self._present.update(found)

    def new_package_id(self) -> int:
        return next(self._ids["package"])

    def add_blob(self, sha256: str, data: bytes) -> None:
        if sha256 not in self._present:
            self._present.add(sha256)
            self._packer.add(sha256, data)
            self._packs.extend(self._packer.ready())

    def add_bundle(
        self, package_id: int, facts: BundleFacts, ordinal: int, deprecation: str | None, blob: str
    ) -> None:
        """A bundle with its kinds and images. `deprecation` is None when it isn't deprecated."""
        bundle_id = next(self._ids["bundle"])
        self._bundles.add(
            (
                *(bundle_id, package_id, ordinal, deprecation is not None, deprecation or ""),
                *(blob, *facts[:6], as_json(facts.install_modes), *facts[7:14]),
                *(as_json(facts.required_packages), facts.constraint_count),
            )
        )
        self._gatherer.note(facts)
        self._gvks.extend([(bundle_id, *gvk) for gvk in facts.gvks])
        self._images.extend([(bundle_id, *image) for image in facts.images])

    def write_package(self, package_id: int, content: PackageContent, *, new: bool) -> None:
        """The package's own row, texts and channels; its bundles were added before."""
        reader, texts = content.reader, content.texts
        icon = texts.icon
        if icon:
            self._icons.add((icon.sha256, icon.media_type, icon.data))
        head = content.head_bundle
        values = (
            *(content.content_hash, texts.display_name, texts.summary, texts.provider),
            *(reader.package.defaultChannel or "", head, reader.version_of(head) if head else ""),
            *(icon.sha256 if icon else None, as_json(texts.categories), as_json(texts.keywords)),
            *(texts.capability, as_json(texts.infrastructure_features)),
            *(as_json(texts.install_modes), bool(reader.deprecation), reader.deprecation),
            *(len(content.channels), reader.bundle_count),
        )
        if new:
            self._packages.add((package_id, self.catalog_id, reader.name, *values))
        else:
            self.updated += self._packages.update(package_id, _PACKAGE, values)
        self._texts.add(
            (
                *(package_id, texts.description_html),
                *(as_json(texts.links), as_json(texts.maintainers)),
            )
        )
        words, *lists = self._gatherer.take(reader.name, texts, head)
        self._search.add((package_id, words, *map(as_json, lists)))
        for channel in content.channels:
            self._write_channel(package_id, channel, reader.channel_deprecations.get(channel.name))

    def _write_channel(
        self, package_id: int, channel: ChannelFacts, deprecation: str | None
    ) -> None:
        channel_id = next(self._ids["channel"])
        self._channels.add(
            (
                *(channel_id, package_id, channel.name, channel.head, channel.head_version),
                *(channel.is_default, deprecation is not None, deprecation or ""),
                len(channel.entries),
            )
        )
        self._entries.extend(
            [
                (channel_id, i, entry.name, entry.replaces, as_json(entry.skips), entry.skip_range)
                for i, entry in enumerate(channel.entries)
            ]
        )

    def write_refs(self, package: str, refs: Sequence[Ref]) -> None:
        """The places of a package's blobs, which were added before."""
        self._packer.end_pack()
        self._refs.extend(
            [
                (self.catalog_id, package, ref.schema, ref.name, i, ref.sha256)
                for i, ref in enumerate(refs)
            ]
        )

    def write_problems(self, problems: Iterable[Problem]) -> None:
        self._problems.extend(
            [
                (
                    *(self.catalog_id, found.package, found.subject, found.field, found.code),
                    *(found.severity, found.message, found.offset),
                    *(found.file, found.line, found.excerpt),
                )
                for found in problems
            ]
        )

    def clear(self, name: str, package_id: int | None, *, whole: bool) -> None:
        """Deletes what hangs on a package; with `whole` its own row too."""
        own, where = (self.catalog_id, name), "catalog_id = %s AND package = %s"
        self.deleted += delete(BlobRef, where, own) + delete(ContentProblem, where, own)
        if package_id is None:
            return
        key = (package_id,)
        for model, parent, column in (
            (BundleGVK, Bundle, "bundle_id"),
            (RelatedImage, Bundle, "bundle_id"),
            (ChannelEntry, Channel, "channel_id"),
        ):
            self.deleted += delete(model, f"{column} IN {_ids_of(parent)}", key)
        for child in (Prediction, Bundle, Channel, PackageText, PackageSearch):
            self.deleted += delete(child, "package_id = %s", key)
        if whole:
            self.deleted += delete(Package, "id = %s", key)

    def finish(self) -> int:
        """Writes what still waits; returns the rows inserted, updated and deleted."""
        self._packs.extend(self._packer.rest())
        tables = (
            *(self._icons, self._packages, self._texts, self._search, self._channels),
            *(self._entries, self._bundles, self._gvks, self._images, self._refs, self._problems),
        )
        for table in tables:
            table.finish()
        written = self._packs.flush() + sum(table.written for table in tables)
        return self.deleted + self.updated + written

    def close(self) -> None:
        self._packer.close()


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


def _ids_of(parent: type[Model]) -> str:
    return f"(SELECT id FROM {quoted(parent)} WHERE package_id = %s)"  # noqa: S608 - our own names


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


def catalog_problems(catalog_id: int) -> list[Problem]:
    """The stored problems of no package."""
    fields = (
        *("code", "message", "package", "subject", "field", "offset", "file", "line", "excerpt"),
    )
    rows = ContentProblem.objects.filter(catalog=catalog_id, package="").order_by("id")
    return [Problem(*row) for row in rows.values_list(*fields)]


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


def _chunks(keys: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for key in keys:
        batch.append(key)
        if len(batch) == QUERY_KEYS:
            yield batch
            batch = []
    if batch:
        yield batch
