"""The rows of one package, built from its blobs in the spool.

The type PackageColumns has columns of the model Package, and so on; JSON columns hold encoded text.
Keys of other rows are missing: `catalogs.sync.write` puts them first. The types are also sent
between processes (`catalogs.sync.pool`), so this module imports no Django.
"""

import os
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from catalogs.fbc import blob
from catalogs.fbc.blob import ContentProblemRow, as_json
from catalogs.fbc.bundle import BundleGVKRow, ParsedBundle, RelatedImageRow
from catalogs.fbc.package import PackageReader, ParsedChannel
from catalogs.fbc.package_texts import SearchTerms
from catalogs.fbc.positions import Positions
from catalogs.fbc.split import BlobAt, PackageIndex, read_blob
from catalogs.resolve.analysis import upgrade_path
from catalogs.resolve.facts import ResolverBundle
from catalogs.revisions.outline import BundleOutline, Encoded, bundle_outline, encode, outline_of
from catalogs.storage.packs import Packer, PackSink

Files = list[tuple[int, str]]  # offset of each file in a spool, and its name


class PackageColumns(NamedTuple):
    display_name: str
    summary: str
    provider: str
    default_channel: str
    head_bundle: str
    head_version: str
    icon: str | None
    categories: str
    keywords: str
    capability: str
    infrastructure_features: str
    install_modes: str
    deprecated: bool
    deprecation: str
    channel_count: int
    bundle_count: int


class PackageTextRow(NamedTuple):
    description_html: str
    links: str
    maintainers: str


class PackageSearchRow(NamedTuple):
    words: str
    provides: str
    provided_before: str
    repositories: str
    upgrade_path: str


class IconRow(NamedTuple):
    sha256: str
    media_type: str
    data: bytes


class ChannelColumns(NamedTuple):
    name: str
    head: str
    head_version: str
    is_default: bool
    deprecated: bool
    deprecation: str
    entry_count: int


class ChannelEntryRow(NamedTuple):
    ordinal: int
    name: str
    replaces: str
    skips: str
    skip_range: str


class BundleColumns(NamedTuple):
    """The first four fields are followed by those of `ParsedBundle`, in their order."""

    ordinal: int
    blob: str
    deprecated: bool
    deprecation: str
    name: str
    version: str
    release: str
    version_key: str
    image: str
    display_name: str
    install_modes: str
    install_modes_known: bool
    webhooks: int | None
    owned_api_services: int | None
    min_kube_version: str
    max_openshift_version: str
    suggested_namespace: str
    released_at: str
    required_packages: str
    constraint_count: int


class BlobRefRow(NamedTuple):
    schema: str
    name: str
    ordinal: int
    blob: str


class ChannelRows(NamedTuple):
    row: ChannelColumns
    entries: list[ChannelEntryRow]


class BundleRows(NamedTuple):
    row: BundleColumns
    gvks: list[BundleGVKRow]
    images: list[RelatedImageRow]


class PackageRows(msgspec.Struct, array_like=True, tag=True):
    """All rows of one package except its packs, which are stored before. Blobs without an
    olm.package have only refs and problems, and `package` is None."""

    name: str
    refs: list[BlobRefRow]
    problems: list[ContentProblemRow]
    package: PackageColumns | None = None
    text: PackageTextRow | None = None
    search: PackageSearchRow | None = None
    icon: IconRow | None = None
    channels: list[ChannelRows] = []
    bundles: list[BundleRows] = []
    outline: Encoded | None = None


class PackageJob(msgspec.Struct, array_like=True):
    """A package to read: `packed` as in `split.PackageIndex`; `stored` are the positions of the
    blobs that need no packing."""

    name: str
    packed: bytearray
    stored: list[int]


class RowBuilder:
    """Builds the rows of packages of one spool. `files` as in `sources.base.Fetched`."""

    def __init__(self, file: int, files: Sequence[tuple[int, str]] = ()) -> None:
        self._file = file
        self.positions = Positions(self.read, files)

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self._file, length, offset)

    def json_of(self, at: BlobAt) -> tuple[bytes, bytes]:
        """The blob's own bytes, and its JSON."""
        data = self.read(at.offset, at.length)
        return data, data if at.plain else read_blob(data)[1]

    def build(
        self, job: PackageJob, store_pack: PackSink, problems: Sequence[ContentProblemRow] = ()
    ) -> PackageRows:
        """The rows of one package; `problems` precede its own. No content raises.

        `store_pack` receives each pack as soon as it is full.
        """
        return _PackageBuilder(self, job, store_pack).build(problems)


class _PackageBuilder:
    def __init__(self, rows: RowBuilder, job: PackageJob, store_pack: PackSink) -> None:
        self._rows = rows
        self._part = PackageIndex(job.packed)
        self._stored = set(job.stored)
        self._reader = PackageReader(job.name)
        self._packer = Packer(store_pack)
        self._packed: set[bytes] = set()
        self._terms = SearchTerms()
        self._refs: list[BlobRefRow] = []
        self._bundles: list[BundleRows] = []
        self._outlines: dict[str, BundleOutline] = {}  # of duplicate names, the first

    def build(self, problems: Sequence[ContentProblemRow]) -> PackageRows:
        reader = self._reader
        self._read_others()
        self._read_bundles()
        channels = reader.finish()
        self._packer.end()
        self._refs.sort(key=lambda ref: ref.ordinal)
        rows = PackageRows(
            reader.name,
            refs=self._refs,
            problems=self._rows.positions.fill([*problems, *reader.problems], self._part),
        )
        # Bundles without an olm.package have no parent row: only blobs and problems are stored.
        if reader.has_package:
            self._fill(rows, channels)
        return rows

    def _read_others(self) -> None:
        for position, at in enumerate(self._part):
            if not at.bundle:
                data = self._rows.read(at.offset, at.length)
                header, json = read_blob(data)
                self._reader.read(header, json, at.offset)
                self._add_blob(position, at, header.schema or "", header.name or "", data)

    def _read_bundles(self) -> None:
        reader, ordinals = self._reader, Counter[str]()
        deprecations = reader.bundle_deprecations
        for position, at in enumerate(self._part):
            if not at.bundle:
                continue
            data, json = self._rows.json_of(at)
            facts = reader.read_bundle(json, at.offset, position)
            name = facts.name if facts else read_blob(data)[0].name or ""
            self._add_blob(position, at, blob.BUNDLE, name, data)
            if facts:
                ordinal = ordinals[name]
                ordinals[name] += 1
                sha256 = at.sha256
                row = _bundle_row(facts, ordinal, sha256, deprecations.get(name))
                self._bundles.append(BundleRows(row, facts.gvks, facts.images))
                self._terms.add(facts)
                if not ordinal:
                    self._outlines[name] = bundle_outline(facts, sha256)

    def _add_blob(self, position: int, at: BlobAt, schema: str, name: str, data: bytes) -> None:
        self._refs.append(BlobRefRow(schema, name, position, at.sha256))
        if position not in self._stored and at.digest not in self._packed:
            self._packed.add(at.digest)
            self._packer.add(at.sha256, data)

    def _fill(self, rows: PackageRows, channels: list[ParsedChannel]) -> None:
        """The rows that only a package with an olm.package blob has."""
        reader = self._reader
        standing = reader.standing(channels)
        texts = reader.texts(self._rows.json_of(self._part[standing[1]])[1] if standing else None)
        head = standing[0] if standing else ""
        if texts.icon:
            rows.icon = IconRow(texts.icon.sha256, texts.icon.media_type, texts.icon.data)
        rows.package = PackageColumns(
            display_name=texts.display_name,
            summary=texts.summary,
            provider=texts.provider,
            default_channel=reader.package.defaultChannel or "",
            head_bundle=head,
            head_version=reader.version_of(head) if head else "",
            icon=texts.icon.sha256 if texts.icon else None,
            categories=as_json(texts.categories),
            keywords=as_json(texts.keywords),
            capability=texts.capability,
            infrastructure_features=as_json(texts.infrastructure_features),
            install_modes=as_json(texts.install_modes),
            deprecated=bool(reader.deprecation),
            deprecation=reader.deprecation,
            channel_count=len(channels),
            bundle_count=reader.bundle_count,
        )
        rows.text = PackageTextRow(
            texts.description_html, as_json(texts.links), as_json(texts.maintainers)
        )
        rows.search = PackageSearchRow(
            words=self._terms.words(reader.name, texts, head),
            provides=as_json(self._terms.provided_by(head)),
            provided_before=as_json(self._terms.provided_only_by_others(head)),
            repositories=as_json(self._terms.repositories()),
            upgrade_path=as_json(_upgrade_path(channels, self._bundles)),
        )
        deprecations = reader.channel_deprecations
        rows.channels = [
            _channel_rows(channel, deprecations.get(channel.name)) for channel in channels
        ]
        rows.bundles = self._bundles
        rows.outline = encode(outline_of(reader, channels, self._outlines))


def _bundle_row(
    bundle: ParsedBundle, ordinal: int, sha256: str, deprecation: str | None
) -> BundleColumns:
    *columns, _gvks, _images = bundle
    values = (as_json(value) if isinstance(value, list) else value for value in columns)
    first = (ordinal, sha256, deprecation is not None, deprecation or "")
    return BundleColumns._make((*first, *values))


def _upgrade_path(
    channels: Sequence[ParsedChannel], bundles: Sequence[BundleRows]
) -> list[str] | None:
    """That of the default channel, as in `PackageSearch`."""
    entries = next((channel.entries for channel in channels if channel.is_default), [])
    return upgrade_path(
        entries, [ResolverBundle(bundle.row.name, bundle.row.version) for bundle in bundles]
    )


def _channel_rows(channel: ParsedChannel, deprecation: str | None) -> ChannelRows:
    row = ChannelColumns(
        name=channel.name,
        head=channel.head,
        head_version=channel.head_version,
        is_default=channel.is_default,
        deprecated=deprecation is not None,
        deprecation=deprecation or "",
        entry_count=len(channel.entries),
    )
    entries = [
        ChannelEntryRow(i, entry.name, entry.replaces, as_json(entry.skips), entry.skip_range)
        for i, entry in enumerate(channel.entries)
    ]
    return ChannelRows(row, entries)
