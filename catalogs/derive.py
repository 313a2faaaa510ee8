"""What is derived from one package's blobs: rows for lists and pages, and the faults opm names.

Pure: knows blobs (`catalogs.fbc`), versions, channel graphs and markup, not the database. Bump
DERIVATION when anything derived here changes, so that the next sync writes every package anew.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import msgspec

from catalogs import fbc, graph, markup, semver
from catalogs.fbc import Fault, Problem

DERIVATION = 1
PACKAGE_PROPERTY = "olm.package"
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DOMAIN = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)"
_PATH = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_DOMAIN}(?:\.{_DOMAIN})*(?::[0-9]+)?/)?{_PATH}(?:/{_PATH})*"
    r"(?::[\w][\w.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-f]{32,})?"
)
_RELEASE = re.compile(
    r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*"
)


class BundleFacts(NamedTuple):
    """One bundle; the names are those of the model. `gvks` are (group, version, kind, required)."""

    name: str
    version: str
    release: str
    version_key: str
    image: str
    display_name: str
    install_modes: list[str]
    install_modes_known: bool
    webhooks: int | None
    owned_api_services: int | None
    min_kube_version: str
    max_openshift_version: str
    suggested_namespace: str
    released_at: str
    required_packages: list[dict[str, str]]
    constraint_count: int
    gvks: list[tuple[str, str, str, bool]]
    images: list[tuple[str, str]]


class EntryFacts(NamedTuple):
    name: str
    replaces: str
    skips: list[str]
    skip_range: str


@dataclass(frozen=True, slots=True)
class ChannelFacts:
    name: str
    head: str
    head_version: str
    is_default: bool
    entries: list[EntryFacts]


@dataclass(frozen=True, slots=True)
class Texts:
    """What the bundle that stands for the package says about it."""

    display_name: str = ""
    summary: str = ""
    provider: str = ""
    categories: list[str] = field(default_factory=list)
    keywords: list[str] = field(default_factory=list)
    capability: str = ""
    infrastructure_features: list[str] = field(default_factory=list)
    install_modes: list[str] = field(default_factory=list)
    description_html: str = ""
    links: list[dict[str, str]] = field(default_factory=list)
    maintainers: list[dict[str, str]] = field(default_factory=list)
    icon: markup.Icon | None = None


@dataclass(slots=True)
class _Seen:
    """What is kept of each bundle until the channels are looked at."""

    version: str
    key: str
    has_content: bool  # an image, or the manifests themselves
    position: int
    offset: int
    kinds: list[str]


class PackageReader:
    """Reads one package: first every blob but bundles, then the bundles, then `finish`.

    `problems` grows; no content raises. Bundles are not kept: memory is that of their names.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.problems: list[Problem] = []
        self.known = False  # there is an olm.package blob
        self.package = fbc.PackageIn()
        self.channels: dict[str, list[EntryFacts]] = {}
        self.deprecation = ""
        self.channel_deprecations: dict[str, str] = {}
        self.bundle_deprecations: dict[str, str] = {}
        self._offsets: dict[str, int] = {}
        self._deprecations = 0
        self._bundles: dict[str, _Seen] = {}
        self._count = 0
        self._listed: set[str] = set()

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
        if entry.skip_range and (fault := _range_fault(entry.skip_range)):
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
            gathered = _gather(properties)
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
            self._bundles[name] = _Seen(version, key, content, position, offset, kinds)
        self._count += 1
        return _bundle_facts(name, version, release, key, image, images, gathered, csv)

    def _version(
        self, name: str, gathered: "_Gathered", csv: fbc.Csv | None, offset: int
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
        if image and not _is_image(image):
            self._problem(
                "image",
                f'{where}: invalid image pull spec "{image}": invalid reference format',
                name,
                "image",
                offset=offset,
            )
        for i, (_, spec) in enumerate(related):
            if spec and not _is_image(spec):
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

    def _check_channel(
        self, name: str, entries: list[EntryFacts], nodes: list[graph.Entry]
    ) -> None:
        offset = self._offsets[name]
        prefix = f'invalid channel "{name}": '
        if not entries:
            self._problem(
                "empty-channel",
                prefix + "channel must contain at least one bundle",
                name,
                "entries",
                offset=offset,
            )
            return
        for message in graph.validate(nodes):
            self._problem("channel-graph", prefix + message, name, "entries", offset=offset)
        missing = sorted(entry.name for entry in entries if entry.name not in self._bundles)
        if missing:
            self._problem(
                "entry-without-bundle",
                f'no olm.bundle blobs found in package "{self.name}" for olm.channel entries '
                f"[{' '.join(missing)}]",
                name,
                "entries",
                offset=offset,
            )

    def _check_package(self, default: str) -> None:
        offset = self._offsets[""]
        prefix = f'invalid package "{self.name}": '
        if not default:
            self._problem(
                "no-default-channel",
                prefix + "default channel must be set",
                field="defaultChannel",
                offset=offset,
            )
        elif default not in self.channels:
            self._problem(
                "default-channel",
                prefix + f'invalid channel "{default}": channel must contain at least one bundle',
                default,
                "defaultChannel",
                offset=offset,
            )
        if not self.channels:
            self._problem(
                "no-channels", prefix + "package must contain at least one channel", offset=offset
            )
        versions: dict[str, list[str]] = {}
        for name, seen in self._bundles.items():
            if seen.version and name in self._listed:
                versions.setdefault(seen.version, []).append(name)
        doubled = [
            f"{{{version}: [{', '.join(sorted(names))}]}}"
            for version, names in sorted(versions.items())
            if len(names) > 1
        ]
        if doubled:
            self._problem(
                "duplicate-versions",
                prefix + f"duplicate versions found in bundles: [{' '.join(doubled)}]",
                field="version",
                offset=offset,
            )

    def _check_bundles(self) -> None:
        for name, seen in self._bundles.items():
            if not seen.has_content:
                self._problem(
                    "no-image",
                    f'invalid bundle "{name}": bundle image must be set',
                    name,
                    "image",
                    offset=seen.offset,
                )
            if self.name and name not in self._listed:
                self._problem(
                    "bundle-in-no-channel",
                    f'package "{self.name}", bundle "{name}" not found in any channel entries',
                    name,
                    offset=seen.offset,
                )
            elif not self.name:
                self._problem(
                    "no-bundle-package",
                    f'package name must be set for bundle "{name}"',
                    name,
                    "package",
                    offset=seen.offset,
                )

    def _check_deprecations(self) -> None:
        for what, deprecated, present in (
            ("channel", self.channel_deprecations, self.channels),
            ("bundle", self.bundle_deprecations, self._bundles),
        ):
            for name in deprecated:
                if name not in present:
                    self._problem(
                        "deprecation-target",
                        f'cannot deprecate {what} "{name}" for package "{self.name}": '
                        f"{what} not found",
                        name,
                        offset=self._offsets["deprecations"],
                    )

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
        return _texts(self.package, csv)

    def _faults(
        self, faults: Iterable[Fault], subject: str, offset: int, *, prefix: str = ""
    ) -> None:
        for fault in faults:
            message = prefix + (f"{fault.field}: {fault.message}" if not prefix else fault.message)
            self._problem("wrong-type", message, subject, fault.field, offset=offset)

    def _problem(
        self,
        code: str,
        message: str,
        subject: str = "",
        field: str = "",
        *,
        offset: int,
        severity: str = "error",
    ) -> None:
        self.problems.append(Problem(code, message, self.name, subject, field, severity, offset))


@dataclass(slots=True)
class _Gathered:
    """The properties of one bundle by what they say."""

    packages: list[fbc.PackageProperty] = field(default_factory=list)
    gvks: list[tuple[str, str, str, bool]] = field(default_factory=list)
    required: list[dict[str, str]] = field(default_factory=list)
    constraints: int = 0
    objects: int = 0
    max_openshift: str = ""
    faults: list[Fault] = field(default_factory=list)


_gvk = msgspec.json.Decoder(fbc.Gvk).decode


def _gather(properties: list[fbc.PropertyIn]) -> _Gathered:
    out = _Gathered()
    for i, found in enumerate(properties):
        kind = found.type
        try:
            if kind in ("olm.gvk", "olm.gvk.required"):
                gvk = _gvk(found.value)
                required = kind == "olm.gvk.required"
                out.gvks.append((gvk.group or "", gvk.version or "", gvk.kind or "", required))
            elif kind == "olm.bundle.object":
                out.objects += 1
            elif kind == PACKAGE_PROPERTY:
                out.packages.append(msgspec.json.decode(found.value, type=fbc.PackageProperty))
            elif kind == "olm.package.required":
                needed = msgspec.json.decode(found.value, type=fbc.RequiredPackage)
                out.required.append(
                    {"name": needed.packageName or "", "range": needed.versionRange or ""}
                )
            elif kind == "olm.constraint":
                out.constraints += 1
            elif kind == "olm.maxOpenShiftVersion":
                value = msgspec.json.decode(found.value)
                out.max_openshift = str(value).strip('"') if value is not None else ""
        except msgspec.DecodeError as error:
            message = str(error).split(" - at `")[0]
            out.faults.append(
                Fault(f"properties[{i}].value", f'parse property[{i}] of type "{kind}": {message}')
            )
    return out


def _bundle_facts(
    name: str,
    version: str,
    release: str,
    key: str,
    image: str,
    images: list[tuple[str, str]],
    gathered: _Gathered,
    csv: fbc.Csv | None,
) -> BundleFacts:
    facts = csv.facts if csv else fbc.CsvFacts()
    annotations = facts.annotations or fbc.Annotations()
    services = facts.apiServiceDefinitions
    owned = len(services.owned or ()) if services else 0
    return BundleFacts(
        name=name,
        version=version,
        release=release,
        version_key=key,
        image=image,
        display_name=facts.displayName or "",
        install_modes=_supported(facts.installModes),
        install_modes_known=facts.installModes is not None,
        webhooks=csv.webhooks if csv else None,
        owned_api_services=owned if csv else None,
        min_kube_version=facts.minKubeVersion or "",
        max_openshift_version=gathered.max_openshift,
        suggested_namespace=annotations.suggestedNamespace or "",
        released_at=annotations.createdAt or "",
        required_packages=gathered.required,
        constraint_count=gathered.constraints,
        gvks=gathered.gvks,
        images=images,
    )


def _supported(modes: list[fbc.InstallMode] | None) -> list[str]:
    return [mode.type for mode in modes or () if mode.supported and mode.type]


@lru_cache(maxsize=4096)
def _range_fault(text: str) -> str:
    try:
        semver.blang_range(text)
    except ValueError as error:
        return str(error)
    return ""


@lru_cache(maxsize=4096)
def _is_image(text: str) -> bool:
    return len(text) < 1000 and _IMAGE.fullmatch(text) is not None


def _texts(package: fbc.PackageIn, csv: fbc.Csv | None) -> Texts:
    found = fbc.read_texts(csv) if csv else fbc.CsvTexts()
    annotations = found.annotations or {}
    description = found.description or package.description or ""
    short = annotations.get("description") or package.description or description
    icon = package.icon or (csv.icon if csv else None)
    return Texts(
        display_name=(found.displayName or "").strip(),
        summary=markup.plain_summary(short),
        provider=((found.provider.name if found.provider else "") or "").strip(),
        categories=_unique(annotations.get("categories", "").split(",")),
        keywords=_unique(found.keywords or []),
        capability=annotations.get("capabilities", "").strip(),
        infrastructure_features=_features(annotations),
        install_modes=_supported(found.installModes),
        description_html=markup.render_markdown(description),
        links=[
            {"name": link.name or url, "url": url}
            for link in found.links or ()
            if (url := markup.safe_url(link.url or ""))
        ],
        maintainers=[
            {"name": person.name or "", "email": person.email or ""}
            for person in found.maintainers or ()
        ],
        icon=markup.read_icon(icon.base64data or "", icon.mediatype or "") if icon else None,
    )


def _features(annotations: dict[str, str]) -> list[str]:
    """Infrastructure features by both notations: a JSON list, and one annotation per feature."""
    listed: list[str] = []
    text = annotations.get("operators.openshift.io/infrastructure-features", "")
    try:
        listed = msgspec.json.decode(text, type=list[str]) if text else []
    except msgspec.DecodeError:
        listed = []
    prefix = "features.operators.openshift.io/"
    listed += [
        key.removeprefix(prefix)
        for key, value in annotations.items()
        if key.startswith(prefix) and value == "true"
    ]
    return _unique(listed)


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(text for value in values if (text := value.strip())))


def search_text(name: str, texts: Texts, kinds: Iterable[str]) -> str:
    """What search looks in: lower case, most telling words first."""
    parts = [name, texts.display_name, texts.provider, *texts.keywords, *texts.categories]
    return " ".join([*parts, *dict.fromkeys(kinds), texts.summary]).lower()
