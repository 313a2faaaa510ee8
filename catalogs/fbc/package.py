"""Reads the blobs of one package: facts for lists and pages, and the faults that opm reports.

Pure. Increment DERIVATION when anything derived here changes, so that the next sync rewrites every
package.
"""

from dataclasses import dataclass

from catalogs import graph
from catalogs.fbc import blob, csvs
from catalogs.fbc.bundle import (
    BundleFacts,
    Gathered,
    RelatedImageRow,
    bundle_facts,
    gather,
    order_key,
)
from catalogs.fbc.lint import BundleSummary, EntryFacts, PackageFaults
from catalogs.fbc.package_texts import Texts, read_texts

DERIVATION = 2


@dataclass(frozen=True, slots=True)
class ChannelFacts:
    name: str
    head: str
    head_version: str
    is_default: bool
    entries: list[EntryFacts]


class PackageReader(PackageFaults):
    """Reads one package: first every blob but bundles, then the bundles, then `finish`.

    Problems are appended to `problems`; no content raises. Bundles are not held in memory, only
    their summaries.
    """

    # -- every schema but olm.bundle

    def read(self, header: blob.Header, json: bytes, offset: int) -> None:
        """Takes a package, channel, deprecations or unknown blob."""
        self._check_header(header, offset)
        try:
            if header.schema == blob.PACKAGE:
                self._read_package(json, offset)
            elif header.schema == blob.CHANNEL:
                self._read_channel(json, offset)
            elif header.schema == blob.DEPRECATIONS:
                self._read_deprecations(json, offset)
        except blob.DECODE_ERRORS as error:
            self._problem("unreadable", f"the blob can't be read: {error}", offset=offset)

    def _read_package(self, json: bytes, offset: int) -> None:
        if not self.name:
            self._problem("no-package-name", "config contains package with no name", offset=offset)
            return
        if self.known:
            self._problem("duplicate-package", f'duplicate package "{self.name}"', offset=offset)
            return
        self.known = True
        self.package, faults = blob.decode(json, blob.PackageIn)
        self._offsets[""] = offset
        self._faults(faults, "", offset, prefix="parse package: ")
        self._check_package_blob(offset)

    def _read_channel(self, json: bytes, offset: int) -> None:
        channel, faults = blob.decode(json, blob.ChannelIn)
        name = channel.name or ""
        self._faults(faults, name, offset, prefix="parse channel: ")
        if not name:
            self._problem(
                "no-channel-name",
                f'package "{self.name}" contains channel with no name',
                offset=offset,
            )
            return
        if name in self.channels:
            self._problem(
                "duplicate-channel",
                f'package "{self.name}" has duplicate channel "{name}"',
                name,
                offset=offset,
            )
            return
        self._offsets[name] = offset
        entries: dict[str, EntryFacts] = {}
        for i, item in enumerate(channel.entries or ()):
            entry = item or blob.EntryIn()
            key = entry.name or ""
            if key in entries:
                self._problem(
                    "duplicate-entry",
                    f'invalid package "{self.name}", channel "{name}": duplicate entry "{key}"',
                    name,
                    f"entries[{i}].name",
                    offset=offset,
                )
                continue
            skips = [skip or "" for skip in entry.skips or ()]
            entries[key] = EntryFacts(key, entry.replaces or "", skips, entry.skipRange or "")
            self._check_entry(entries[key], i, name, offset)
        self.channels[name] = list(entries.values())
        self._listed.update(entries)

    def _read_deprecations(self, json: bytes, offset: int) -> None:
        self._deprecations += 1
        if self._deprecations > 1:
            self._problem(
                "duplicate-deprecations",
                f'expected a maximum of one deprecation per package: "{self.name}"',
                offset=offset,
            )
            return
        self._deprecations_at = offset
        deprecations, faults = blob.decode(json, blob.DeprecationsIn)
        self._faults(faults, "", offset, prefix="parse deprecation: ")
        for i, item in enumerate(deprecations.entries or ()):
            entry = item or blob.DeprecationIn()
            reference = entry.reference or blob.ReferenceIn()
            self._deprecate(i, reference.schema or "", reference.name or "", entry.message or "")

    # -- olm.bundle

    def read_bundle(self, json: bytes, offset: int, position: int) -> BundleFacts | None:
        """Facts of one bundle blob, `position` in the package's index; None when it is unusable.

        A bundle with a duplicate name is returned too: the format doesn't keep names unique.
        """
        name = ""
        try:
            bundle, faults = blob.decode(json, blob.BundleIn)
            name = bundle.name or ""
            properties = blob.properties_of(bundle)
            gathered = gather(properties)
            csv = csvs.read_csv(properties)
        except blob.DECODE_ERRORS as error:
            self._problem(
                "unreadable",
                f'parse properties for bundle "{name}": {error}',
                name,
                "properties",
                offset=offset,
            )
            return None
        self._check_bundle_blob(bundle, faults, gathered, csv, offset)
        images = [
            RelatedImageRow(related.name or "", related.image or "")
            if related
            else RelatedImageRow("", "")
            for related in bundle.relatedImages or ()
        ]
        image = bundle.image or ""
        version, release, key = self._version(name, gathered, csv, offset)
        self._check_images(name, image, images, offset)
        if name in self._bundles:
            self._problem(
                "duplicate-bundle",
                f'package "{self.name}" has duplicate bundle "{name}"',
                name,
                offset=offset,
            )
        else:
            content = bool(image) or gathered.objects > 0
            label = self._label(gathered)
            self._bundles[name] = BundleSummary(version, label, key, content, position, offset)
        self._count += 1
        return bundle_facts(name, version, release, key, image, images, gathered, csv)

    def _version(
        self, name: str, gathered: Gathered, csv: csvs.Csv | None, offset: int
    ) -> tuple[str, str, str]:
        """(version, release, key that sorts); the first olm.package property counts.

        A build of a bundle that substitutes another is its release (operator-registry,
        declcfg.Bundle.VersionRelease).
        """
        if not self._check_version(name, gathered, offset):
            return "", "", ""
        package = gathered.packages[0]
        version, release = package.version or "", package.release or ""
        number, _, build = version.partition("+")
        annotations = csv.facts.annotations if csv else None
        if build and not release and annotations and annotations.substitutesFor:
            version, release = number, build
        return version, release, order_key(version, release)

    # -- the package as a whole

    def finish(self) -> list[ChannelFacts]:
        """The channels with their heads; call after every blob was read."""
        default = self.package.defaultChannel or ""
        channels = []
        for name, entries in self.channels.items():
            nodes = [
                graph.GraphEntry(entry.name, entry.replaces, tuple(entry.skips), entry.skip_range)
                for entry in entries
            ]
            heads = graph.heads(nodes)
            head = heads[0] if len(heads) == 1 else ""
            bundle = self._bundles.get(head)
            version = bundle.version if bundle else ""
            channels.append(ChannelFacts(name, head, version, name == default, entries))
            self._check_channel(name, entries, nodes)
        self._check_whole(default)
        return channels

    def standing(self, channels: list[ChannelFacts]) -> tuple[str, int] | None:
        """The bundle that represents the package in lists, and its position in the index.

        The default channel's head; of several or no heads the newest entry; without a usable
        default channel the newest bundle. None when the package has no bundle.
        """
        for channel in channels:
            if channel.is_default:
                names = [channel.head] if channel.head else [e.name for e in channel.entries]
                candidates = [name for name in names if name in self._bundles]
                if candidates:
                    best = max(candidates, key=lambda name: self._bundles[name].key)
                    return best, self._bundles[best].position
        if not self._bundles:
            return None
        best = max(self._bundles, key=lambda name: self._bundles[name].key)
        return best, self._bundles[best].position

    def version_of(self, bundle: str) -> str:
        return self._bundles[bundle].version

    @property
    def bundle_count(self) -> int:
        return self._count

    def texts(self, bundle: bytes | None) -> Texts:
        """Long texts and icon, from the JSON of the bundle that represents the package."""
        csv = None
        try:
            if bundle is not None:
                csv = csvs.read_csv(blob.properties_of(blob.decode(bundle, blob.BundleIn)[0]))
            return read_texts(self.package, csv, self.icon)
        except blob.DECODE_ERRORS:
            return read_texts(self.package, None, self.icon)
