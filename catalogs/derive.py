"""What is derived from one package's blobs: rows for lists and pages, and the faults opm names.

Pure: knows blobs (`catalogs.fbc`), versions, channel graphs and markup, not the database. Bump
DERIVATION when anything derived here changes, so that the next sync writes every package anew.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from catalogs import fbc, graph, semver
from catalogs.bundles import (
    PACKAGE_PROPERTY,
    BundleFacts,
    Gathered,
    bundle_facts,
    gather,
    is_image,
    range_fault,
)
from catalogs.faults import EntryFacts, PackageFaults, Seen
from catalogs.texts import Texts, read_texts

DERIVATION = 1
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_RELEASE = re.compile(
    r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*"
)


@dataclass(frozen=True, slots=True)
class ChannelFacts:
    name: str
    head: str
    head_version: str
    is_default: bool
    entries: list[EntryFacts]


class PackageReader(PackageFaults):
    """Reads one package: first every blob but bundles, then the bundles, then `finish`.

    `problems` grows; no content raises. Bundles are not kept: memory is that of their names.
    """

    # -- every schema but olm.bundle

    def read(self, header: fbc.Header, json: bytes, offset: int) -> None:
        """Takes a package, channel, deprecations or unknown blob."""
        try:
            if header.schema == fbc.PACKAGE:
                self._read_package(json, offset)
            elif header.schema == fbc.CHANNEL:
                self._read_channel(json, offset)
            elif header.schema == fbc.DEPRECATIONS:
                self._read_deprecations(json, offset)
        except fbc.DECODE_ERRORS as error:
            self._problem("unreadable", f"the blob can't be read: {error}", offset=offset)

    def _read_package(self, json: bytes, offset: int) -> None:
        if self.known:
            self._problem("duplicate-package", f'duplicate package "{self.name}"', offset=offset)
            return
        self.known = True
        self.package, faults = fbc.decode(json, fbc.PackageIn)
        self._offsets[""] = offset
        self._faults(faults, "", offset)
        if not self.name:
            self._problem("no-package-name", "config contains package with no name", offset=offset)
        elif not _DNS_LABEL.fullmatch(self.name):
            self._problem(
                "package-name",
                f'invalid package name "{self.name}": a lowercase RFC 1123 label is letters, '
                "digits and '-', at most 63 of them",
                offset=offset,
            )

    def _read_channel(self, json: bytes, offset: int) -> None:
        found, faults = fbc.decode(json, fbc.ChannelIn)
        name = found.name or ""
        self._faults(faults, name, offset)
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
        for entry in found.entries or ():
            key = entry.name or ""
            if key in entries:
                self._problem(
                    "duplicate-entry",
                    f'invalid package "{self.name}", channel "{name}": duplicate entry "{key}"',
                    name,
                    offset=offset,
                )
                continue
            entries[key] = EntryFacts(
                key, entry.replaces or "", entry.skips or [], entry.skipRange or ""
            )
            self._check_entry(entries[key], name, offset)
        self.channels[name] = list(entries.values())
        self._listed.update(entries)

    def _check_entry(self, entry: EntryFacts, channel: str, offset: int) -> None:
        for i, skip in enumerate(entry.skips):
            if not skip:
                self._problem("empty-skip", f"skip[{i}] is empty", channel, "skips", offset=offset)
        if entry.skip_range and (fault := range_fault(entry.skip_range)):
            self._problem(
                "skip-range",
                f'invalid skipRange "{entry.skip_range}": {fault}',
                channel,
                "skipRange",
                offset=offset,
            )

    def _read_deprecations(self, json: bytes, offset: int) -> None:
        self._deprecations += 1
        if self._deprecations > 1:
            self._problem(
                "duplicate-deprecations",
                f'expected a maximum of one deprecation per package: "{self.name}"',
                offset=offset,
            )
            return
        self._offsets["deprecations"] = offset
        found, faults = fbc.decode(json, fbc.DeprecationsIn)
        self._faults(faults, "", offset)
        for i, entry in enumerate(found.entries or ()):
            reference = entry.reference or fbc.ReferenceIn()
            self._deprecate(i, reference.schema or "", reference.name or "", entry.message or "")

    def _deprecate(self, i: int, schema: str, name: str, message: str) -> None:
        targets = {fbc.CHANNEL: self.channel_deprecations, fbc.BUNDLE: self.bundle_deprecations}
        offset = self._offsets["deprecations"]
        if not message:
            self._problem(
                "no-deprecation-message",
                "invalid deprecation: message must be set",
                name,
                f"entries[{i}].message",
                offset=offset,
            )
        if not schema:
            self._problem(
                "no-deprecation-schema",
                f'schema must be set for deprecation entry [{i}] for package "{self.name}"',
                field=f"entries[{i}].reference.schema",
                offset=offset,
            )
        elif schema == fbc.PACKAGE:
            if name:
                self._problem(
                    "deprecation-name",
                    f'package name must be empty for deprecated package "{self.name}" '
                    f'(specified "{name}")',
                    field=f"entries[{i}].reference.name",
                    offset=offset,
                )
            self.deprecation = self.deprecation or message
        elif schema not in targets:
            self._problem(
                "deprecation-schema",
                f'cannot deprecate object {{"{schema}" "{name}"}} referenced by entry {i} for '
                f'package "{self.name}": object schema unknown',
                field=f"entries[{i}].reference.schema",
                offset=offset,
            )
        elif name in targets[schema]:
            self._problem(
                "duplicate-deprecation",
                f'duplicate deprecation entry {{"{schema}" "{name}"}} for package "{self.name}"',
                name,
                offset=offset,
            )
        else:
            targets[schema][name] = message

    # -- olm.bundle

    def read_bundle(self, json: bytes, offset: int, position: int) -> BundleFacts | None:
        """Facts of one bundle blob, `position` in the package's index; None when it is unusable.

        A bundle of a name seen before is returned too: the format doesn't keep names unique.
        """
        name = ""
        try:
            found, faults = fbc.decode(json, fbc.BundleIn)
            name = found.name or ""
            properties = found.properties or []
            gathered = gather(properties)
            csv = fbc.read_csv(properties)
        except fbc.DECODE_ERRORS as error:
            self._problem(
                "unreadable",
                f'parse properties for bundle "{name}": {error}',
                name,
                "properties",
                offset=offset,
            )
            return None
        self._faults(faults, name, offset)
        self._faults(
            gathered.faults, name, offset, prefix=f'parse properties for bundle "{name}": '
        )
        if csv:
            self._faults(csv.faults, name, offset)
        images = [(image.name or "", image.image or "") for image in found.relatedImages or ()]
        image = found.image or ""
        version, release, key = self._version(name, gathered, csv, offset)
        self._check_images(name, image, images, offset)
        if not self.known and self.name:
            self._problem(
                "unknown-package",
                f'unknown package "{self.name}" for bundle "{name}"',
                name,
                offset=offset,
            )
        if name in self._bundles:
            self._problem(
                "duplicate-bundle",
                f'package "{self.name}" has duplicate bundle "{name}"',
                name,
                offset=offset,
            )
        else:
            kinds = [kind for _, _, kind, required in gathered.gvks if not required]
            content = bool(image) or gathered.objects > 0
            self._bundles[name] = Seen(version, key, content, position, offset, kinds)
        self._count += 1
        return bundle_facts(name, version, release, key, image, images, gathered, csv)

    def _version(
        self, name: str, gathered: Gathered, csv: fbc.Csv | None, offset: int
    ) -> tuple[str, str, str]:
        """(version, release, key that sorts); the first olm.package property counts."""
        if len(gathered.packages) != 1:
            self._problem(
                "package-property",
                f'package "{self.name}" bundle "{name}" must have exactly 1 "{PACKAGE_PROPERTY}" '
                f"property, found {len(gathered.packages)}",
                name,
                "properties",
                offset=offset,
            )
            if not gathered.packages:
                return "", "", ""
        found = gathered.packages[0]
        if found.packageName != self.name:
            self._problem(
                "package-mismatch",
                f'package "{self.name}" does not match "{PACKAGE_PROPERTY}" property '
                f'"{found.packageName or ""}"',
                name,
                "properties",
                offset=offset,
            )
        version, release = found.version or "", found.release or ""
        build = version.partition("+")[2]
        annotations = csv.facts.annotations if csv else None
        try:
            semver.parse(version)
        except ValueError as error:
            self._problem(
                "version",
                f'error parsing bundle "{name}" version "{version}": {error}',
                name,
                "version",
                offset=offset,
            )
        if release and build:
            self._problem(
                "build-and-release",
                "cannot use build metadata in version with a release version",
                name,
                "release",
                offset=offset,
            )
        elif build and annotations and annotations.substitutesFor:
            version, release = version.partition("+")[0], build
        if release:
            self._check_release(name, version, release, offset)
        return version, release, semver.sort_key(version)

    def _check_release(self, name: str, version: str, release: str, offset: int) -> None:
        if len(release) > 20 or not _RELEASE.fullmatch(release):
            self._problem(
                "release",
                f'error parsing bundle "{name}" release version "{release}": it must be '
                "dot-separated identifiers of at most 20 characters together",
                name,
                "release",
                offset=offset,
            )
        wanted = f"{self.name}-v{version}-{release}"
        if name != wanted:
            self._problem(
                "bundle-name",
                f'name "{name}" does not match normalized name "{wanted}"',
                name,
                "name",
                offset=offset,
            )

    def _check_images(
        self, name: str, image: str, related: list[tuple[str, str]], offset: int
    ) -> None:
        where = f'package "{self.name}" bundle "{name}"'
        if image and not is_image(image):
            self._problem(
                "image",
                f'{where}: invalid image pull spec "{image}": invalid reference format',
                name,
                "image",
                offset=offset,
            )
        for i, (_, spec) in enumerate(related):
            if spec and not is_image(spec):
                self._problem(
                    "image",
                    f'{where}: invalid image pull spec "{spec}": invalid reference format',
                    name,
                    f"relatedImages[{i}].image",
                    offset=offset,
                )

    # -- the package as a whole

    def finish(self) -> list[ChannelFacts]:
        """The channels with their heads; call after every blob was read."""
        default = self.package.defaultChannel or ""
        channels = []
        for name, entries in self.channels.items():
            nodes = [
                graph.Entry(entry.name, entry.replaces, tuple(entry.skips), entry.skip_range)
                for entry in entries
            ]
            heads = graph.heads(nodes)
            head = heads[0] if len(heads) == 1 else ""
            seen = self._bundles.get(head)
            version = seen.version if seen else ""
            channels.append(ChannelFacts(name, head, version, name == default, entries))
            self._check_channel(name, entries, nodes)
        if not self.known:
            for name in self.channels:
                self._problem(
                    "unknown-package",
                    f'unknown package "{self.name}" for channel "{name}"',
                    name,
                    offset=self._offsets[name],
                )
            if self._deprecations:
                self._problem(
                    "unknown-package",
                    f'cannot apply deprecations to an unknown package "{self.name}"',
                    offset=self._offsets["deprecations"],
                )
        else:
            self._check_package(default)
        self._check_bundles()
        self._check_deprecations()
        return channels

    def standing(self, channels: list[ChannelFacts]) -> tuple[str, int] | None:
        """The bundle that stands for the package in lists, and its position in the index.

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

    def kinds_of(self, bundle: str) -> list[str]:
        return self._bundles[bundle].kinds

    @property
    def bundle_names(self) -> Iterable[str]:
        return self._bundles.keys()

    @property
    def bundle_count(self) -> int:
        return self._count

    def texts(self, bundle: bytes | None) -> Texts:
        """Long texts and icon, from the JSON of the bundle that stands for the package."""
        csv = None
        if bundle is not None:
            csv = fbc.read_csv(fbc.decode(bundle, fbc.BundleIn)[0].properties or [])
        return read_texts(self.package, csv)
