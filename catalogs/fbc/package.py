"""Reads the blobs of one package: facts for lists and pages, and the faults that opm reports.

Pure. Increment DERIVATION when anything derived here changes, so that the next sync rewrites every
package.
"""

from typing import NamedTuple

from catalogs import graph
from catalogs.fbc import blob
from catalogs.fbc.bundle import (
    BundleProperties,
    Csv,
    CsvAnnotations,
    CsvFacts,
    ParsedBundle,
    RelatedImageRow,
    order_key,
    read_csv,
    read_properties,
    supported,
)
from catalogs.fbc.lint import BundleSummary, PackageFaults
from catalogs.fbc.package_texts import Texts, read_texts

DERIVATION = 4


class ParsedChannel(NamedTuple):
    name: str
    head: str  # "" when there is not exactly one
    head_version: str
    is_default: bool
    entries: list[graph.GraphEntry]


class PackageReader(PackageFaults):
    """Reads one package: first every blob but bundles, then the bundles, then `finish`.

    Problems are appended to `problems`; no content raises. Only summaries of bundles stay in
    memory.
    """

    # -- every schema but olm.bundle

    def read(self, header: blob.Header, json: bytes, offset: int) -> None:
        """Reads a package, channel, deprecations or unknown blob."""
        self._offset = offset
        self._check_keys(header, "")
        try:
            if header.schema == blob.PACKAGE:
                self._read_package(json)
            elif header.schema == blob.CHANNEL:
                self._read_channel(json)
            elif header.schema == blob.DEPRECATIONS:
                self._read_deprecations(json)
        except blob.DECODE_ERRORS as error:
            self._problem("unreadable", f"the blob can't be read: {error}")

    def _read_package(self, json: bytes) -> None:
        if not self.name:
            self._problem("no-package-name", "config contains package with no name")
            return
        if self.has_package:
            self._problem("duplicate-package", f'duplicate package "{self.name}"')
            return
        self.has_package = True
        self.package, faults = blob.decode(json, blob.PackageIn)
        self._offsets[""] = self._offset
        self._faults(faults, "", prefix="parse package: ")
        self._check_package_blob()

    def _read_channel(self, json: bytes) -> None:
        channel, faults = blob.decode(json, blob.ChannelIn)
        name = channel.name or ""
        self._faults(faults, name, prefix="parse channel: ")
        if not name:
            self._problem(
                "no-channel-name",
                f'package "{self.name}" contains channel with no name',
            )
            return
        if name in self.channels:
            self._problem(
                "duplicate-channel",
                f'package "{self.name}" has duplicate channel "{name}"',
                name,
            )
            return
        self._offsets[name] = self._offset
        entries: dict[str, graph.GraphEntry] = {}
        for i, item in enumerate(channel.entries or ()):
            entry = item or blob.EntryIn()
            key = entry.name or ""
            if key in entries:
                self._problem(
                    "duplicate-entry",
                    f'invalid package "{self.name}", channel "{name}": duplicate entry "{key}"',
                    name,
                    f"entries[{i}].name",
                )
                continue
            skips = tuple(skip or "" for skip in entry.skips or ())
            entries[key] = graph.GraphEntry(key, entry.replaces or "", skips, entry.skipRange or "")
            self._check_entry(entries[key], i, name)
        self.channels[name] = list(entries.values())
        self._listed.update(entries)

    def _read_deprecations(self, json: bytes) -> None:
        self._deprecations += 1
        if self._deprecations > 1:
            self._problem(
                "duplicate-deprecations",
                f'expected a maximum of one deprecation per package: "{self.name}"',
            )
            return
        self._deprecations_at = self._offset
        deprecations, faults = blob.decode(json, blob.DeprecationsIn)
        self._faults(faults, "", prefix="parse deprecation: ")
        for i, item in enumerate(deprecations.entries or ()):
            entry = item or blob.DeprecationIn()
            reference = entry.reference or blob.ReferenceIn()
            self._deprecate(i, reference.schema or "", reference.name or "", entry.message or "")

    # -- olm.bundle

    def read_bundle(self, json: bytes, offset: int, position: int) -> ParsedBundle | None:
        """Facts of one bundle blob, `position` in the package's index; None when it is unusable.

        A bundle with a duplicate name is returned too: the format doesn't keep names unique.
        """
        self._offset = offset
        name = ""
        try:
            bundle, faults = blob.decode(json, blob.BundleIn)
            name = bundle.name or ""
            properties = blob.properties_of(bundle)
            gathered = read_properties(properties)
            csv = read_csv(properties)
        except blob.DECODE_ERRORS as error:
            self._problem(
                "unreadable",
                f'parse properties for bundle "{name}": {error}',
                name,
                "properties",
            )
            return None
        self._check_bundle_blob(bundle, faults, gathered, csv)
        images = [
            RelatedImageRow((related and related.name) or "", (related and related.image) or "")
            for related in bundle.relatedImages or ()
        ]
        image = bundle.image or ""
        version, release, key = self._version(name, gathered, csv)
        self._check_images(name, image, images)
        if name in self._bundles:
            self._problem(
                "duplicate-bundle",
                f'package "{self.name}" has duplicate bundle "{name}"',
                name,
            )
        else:
            content = bool(image) or gathered.objects > 0
            label = self._label(gathered)
            self._bundles[name] = BundleSummary(version, label, key, content, position, offset)
        self._count += 1
        facts = csv.facts if csv else CsvFacts()
        annotations = facts.annotations or CsvAnnotations()
        services = facts.apiServiceDefinitions
        return ParsedBundle(
            name=name,
            version=version,
            release=release,
            version_key=key,
            image=image,
            display_name=facts.displayName or "",
            install_modes=supported(facts.installModes),
            install_modes_known=facts.installModes is not None,
            webhooks=csv.webhooks if csv else None,
            owned_api_services=len((services and services.owned) or ()) if csv else None,
            min_kube_version=facts.minKubeVersion or "",
            max_openshift_version=gathered.max_openshift,
            suggested_namespace=annotations.suggestedNamespace or "",
            released_at=annotations.createdAt or "",
            required_packages=gathered.required,
            constraint_count=gathered.constraints,
            gvks=gathered.gvks,
            images=images,
        )

    def _version(
        self, name: str, gathered: BundleProperties, csv: Csv | None
    ) -> tuple[str, str, str]:
        """(version, release, sort key), of the first olm.package property.

        A build of a bundle that substitutes another is its release (operator-registry,
        declcfg.Bundle.VersionRelease).
        """
        if not self._check_version(name, gathered):
            return "", "", ""
        package = gathered.packages[0]
        version, release = package.version or "", package.release or ""
        number, _, build = version.partition("+")
        annotations = csv.facts.annotations if csv else None
        if build and not release and annotations and annotations.substitutesFor:
            version, release = number, build
        return version, release, order_key(version, release)

    # -- the package as a whole

    def finish(self) -> list[ParsedChannel]:
        """The channels with their heads; call after every blob was read."""
        default = self.package.defaultChannel or ""
        channels = []
        for name, entries in self.channels.items():
            heads = graph.heads(entries)
            head = heads[0] if len(heads) == 1 else ""
            bundle = self._bundles.get(head)
            version = bundle.version if bundle else ""
            channels.append(ParsedChannel(name, head, version, name == default, entries))
            self._check_channel(name, entries)
        self._check_whole(default)
        return channels

    def standing(self, channels: list[ParsedChannel]) -> tuple[str, int] | None:
        """The bundle that represents the package in lists, and its position in the index.

        The default channel's head; of several or no heads the newest entry; without a usable
        default channel the newest bundle. None when the package has no bundle.
        """
        candidates: list[str] = []
        for channel in channels:
            if channel.is_default:
                names = [channel.head] if channel.head else [e.name for e in channel.entries]
                candidates = [name for name in names if name in self._bundles]
        if not self._bundles:
            return None
        best = max(candidates or self._bundles, key=lambda name: self._bundles[name].key)
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
                csv = read_csv(blob.properties_of(blob.decode(bundle, blob.BundleIn)[0]))
            return read_texts(self.package, csv, self.icon)
        except blob.DECODE_ERRORS:
            return read_texts(self.package, None, self.icon)
