"""Making the rows of one package from its blobs, which are read from the spool again.

Pure: knows what `catalogs.fbc.package` reads and the shapes of rows, not the database.
"""

import os
from collections import Counter
from collections.abc import Sequence

from catalogs.fbc import blob
from catalogs.fbc.blob import Problem
from catalogs.fbc.bundle import BundleFacts
from catalogs.fbc.json_text import as_json
from catalogs.fbc.package import ChannelFacts, PackageReader
from catalogs.fbc.positions import Places
from catalogs.fbc.split import BlobAt, PackageIndex, read_blob
from catalogs.fbc.words import Gatherer
from catalogs.revisions.outline import BundleOutline, bundle_outline, encode, outline_of
from catalogs.storage.packs import Keep, Packer
from catalogs.sync.row_types import Asked, BundleRows, ChannelRows, PackageRows, Row


class Maker:
    """Makes the rows of packages of one spool. `files` as `sources.base.Fetched` has them."""

    def __init__(self, file: int, files: Sequence[tuple[int, str]] = ()) -> None:
        self._file = file
        self._places = Places(self.read, files)

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self._file, length, offset)

    def json_of(self, at: BlobAt) -> tuple[bytes, bytes]:
        """The blob's own bytes, and the JSON to read it from."""
        data = self.read(at.offset, at.length)
        return data, data if at.plain else read_blob(data)[1]

    def problem_rows(self, problems: Sequence[Problem], part: PackageIndex) -> list[Row]:
        """The problems with their places, as rows."""
        return [
            [
                *(each.subject, each.field, each.code, each.severity, each.message, each.offset),
                *(each.file, each.line, each.excerpt),
            ]
            for each in self._places.fill(problems, part)
        ]

    def make(self, asked: Asked, keep: Keep, problems: Sequence[Problem] = ()) -> PackageRows:
        """The rows of one package, `problems` before those found in it; no content raises.

        `keep` gets its packs, each as soon as it is full.
        """
        return _Package(self, asked, keep).rows(problems)


class _Package:
    def __init__(self, maker: Maker, asked: Asked, keep: Keep) -> None:
        self._maker = maker
        self._part = PackageIndex(asked.packed)
        self._stored = set(asked.stored)
        self._reader = PackageReader(asked.name)
        self._packer = Packer(keep)
        self._packed: set[bytes] = set()
        self._gatherer = Gatherer()
        self._refs: list[Row] = []
        self._bundles: list[BundleRows] = []
        self._outlines: dict[str, BundleOutline] = {}  # the first's of a name that comes twice

    def rows(self, problems: Sequence[Problem]) -> PackageRows:
        reader = self._reader
        self._read_others()
        self._read_bundles()
        channels = reader.finish()
        self._packer.end()
        self._refs.sort(key=lambda ref: ref[2])
        rows = PackageRows(
            reader.name,
            refs=self._refs,
            problems=self._maker.problem_rows([*problems, *reader.problems], self._part),
        )
        # Bundles without an olm.package have nothing to hang on; their blobs and faults are kept.
        if reader.known:
            self._fill(rows, channels)
        return rows

    def _read_others(self) -> None:
        for position, at in enumerate(self._part):
            if not at.bundle:
                data = self._maker.read(at.offset, at.length)
                header, json = read_blob(data)
                self._reader.read(header, json, at.offset)
                self._keep(position, at, header.schema or "", header.name or "", data)

    def _read_bundles(self) -> None:
        reader, ordinals = self._reader, Counter[str]()
        deprecations = reader.bundle_deprecations
        for position, at in enumerate(self._part):
            if not at.bundle:
                continue
            data, json = self._maker.json_of(at)
            facts = reader.read_bundle(json, at.offset, position)
            name = facts.name if facts else read_blob(data)[0].name or ""
            self._keep(position, at, blob.BUNDLE, name, data)
            if facts:
                ordinal = ordinals[name]
                ordinals[name] += 1
                sha256 = at.sha256
                self._bundles.append(_bundle_rows(facts, ordinal, sha256, deprecations.get(name)))
                self._gatherer.note(facts)
                if not ordinal:
                    self._outlines[name] = bundle_outline(facts, sha256)

    def _keep(self, position: int, at: BlobAt, schema: str, name: str, data: bytes) -> None:
        self._refs.append([schema, name, position, at.sha256])
        if position not in self._stored and at.digest not in self._packed:
            self._packed.add(at.digest)
            self._packer.add(at.sha256, data)

    def _fill(self, rows: PackageRows, channels: list[ChannelFacts]) -> None:
        """What a package has that is one."""
        reader = self._reader
        standing = reader.standing(channels)
        texts = reader.texts(self._maker.json_of(self._part[standing[1]])[1] if standing else None)
        head = standing[0] if standing else ""
        icon = texts.icon
        rows.known = True
        rows.icon = (icon.sha256, icon.media_type, icon.data) if icon else None
        rows.package = [
            *(texts.display_name, texts.summary, texts.provider),
            *(reader.package.defaultChannel or "", head, reader.version_of(head) if head else ""),
            *(icon.sha256 if icon else None, as_json(texts.categories), as_json(texts.keywords)),
            *(texts.capability, as_json(texts.infrastructure_features)),
            *(as_json(texts.install_modes), bool(reader.deprecation), reader.deprecation),
            *(len(channels), reader.bundle_count),
        ]
        rows.text = [texts.description_html, as_json(texts.links), as_json(texts.maintainers)]
        words, *lists = self._gatherer.take(reader.name, texts, head)
        rows.search = [words, *map(as_json, lists)]
        deprecations = reader.channel_deprecations
        rows.channels = [_channel_rows(each, deprecations.get(each.name)) for each in channels]
        rows.bundles = self._bundles
        rows.outline = encode(outline_of(reader, channels, self._outlines))


def _bundle_rows(
    facts: BundleFacts, ordinal: int, sha256: str, deprecation: str | None
) -> BundleRows:
    values = [*facts[:6], as_json(facts.install_modes), *facts[7:14]]
    values += (as_json(facts.required_packages), facts.constraint_count)
    return BundleRows(facts.name, ordinal, sha256, deprecation, values, facts.gvks, facts.images)


def _channel_rows(channel: ChannelFacts, deprecation: str | None) -> ChannelRows:
    return ChannelRows(
        [
            *(channel.name, channel.head, channel.head_version, channel.is_default),
            *(deprecation is not None, deprecation or "", len(channel.entries)),
        ],
        [
            [i, entry.name, entry.replaces, as_json(entry.skips), entry.skip_range]
            for i, entry in enumerate(channel.entries)
        ],
    )
