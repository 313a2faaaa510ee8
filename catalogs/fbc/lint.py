"""The faults for which opm refuses a package, in opm's wording, all of them at once.

Pure. Mirrors operator-registry: alpha/declcfg (load.go, declcfg_to_model.go) and alpha/model
(model.go); for image references ParseNormalizedNamed of container-libs (image/docker/reference)
and the digests of opencontainers/go-digest.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from catalogs import graph, semver
from catalogs.fbc import blob
from catalogs.fbc.blob import ContentProblemRow, Fault, content_problem
from catalogs.fbc.bundle import (
    LONGEST_TEXT,
    PACKAGE_PROPERTY,
    BundleProperties,
    Csv,
    RelatedImageRow,
    base64_fault,
    range_fault,
)
from catalogs.markup import text

MAX_FAULTS = 1000  # listed of one package, so that a bad catalog does not fill the database
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_RELEASE_PART = re.compile(r"0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*")
RELEASE_LENGTH = 20
LONGEST_MESSAGE = 20_000  # characters of a fault; of subjects, the column holds this many:
_LONGEST_SUBJECT = 500
_GRAPH_CODES = (
    ("no channel head", "no-head"),
    ("multiple channel heads", "several-heads"),
    ("detected cycle", "cycle"),
)


@dataclass(slots=True)
class BundleSummary:
    """The part of a bundle that the checks of channels and of the package need."""

    version: str
    label: str  # version and release as opm joins them to tell versions apart
    key: str
    has_content: bool  # an image, or the manifests themselves
    position: int
    offset: int


class PackageFaults:
    """The outline of one package and its faults so far (`problems`)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.problems: list[ContentProblemRow] = []
        self.has_package = False  # an olm.package blob was read
        self.package = blob.PackageIn()
        self.icon: text.SafeIcon | None = None
        self.channels: dict[str, list[graph.GraphEntry]] = {}
        self.deprecation = ""
        self.channel_deprecations: dict[str, str] = {}
        self.bundle_deprecations: dict[str, str] = {}
        self._offset = 0  # of the blob that is checked
        self._offsets: dict[str, int] = {}  # of channels; of the olm.package under ""
        self._deprecations = 0
        self._deprecations_at = 0
        self._deprecated: dict[tuple[str, str], int] = {}  # (schema, name): position
        self._bundles: dict[str, BundleSummary] = {}
        self._count = 0
        self._listed: set[str] = set()

    def _faults(self, faults: Iterable[Fault], subject: str, *, prefix: str) -> None:
        for fault in faults:
            where = f"{fault.field}: " if fault.field else ""
            self._problem("wrong-type", prefix + where + fault.message, subject, fault.field)

    def _problem(self, code: str, message: str, subject: str = "", field: str = "") -> None:
        if len(message) > LONGEST_MESSAGE:  # a name of a megabyte may have a thousand faults
            message = message[: LONGEST_MESSAGE - 1] + "…"
        if len(self.problems) == MAX_FAULTS:
            message = f'package "{self.name}" has more faults than the {MAX_FAULTS} that are listed'
            code, subject, field = "more", "", ""
        if len(self.problems) <= MAX_FAULTS:
            subject = subject[:_LONGEST_SUBJECT]
            self.problems.append(
                content_problem(code, message, self._offset, subject, field, self.name)
            )

    # -- one blob

    def _check_keys(self, keys: blob.Header | blob.BundleIn, subject: str) -> None:
        for key, value in (("package", keys.package), ("name", keys.name)):
            if value is None:
                message = f'expected value for key "{key}" to be a string, got null'
                self._problem("key-type", message, subject, key)

    def _check_package_blob(self) -> None:
        if not _DNS_LABEL.fullmatch(self.name):
            self._problem(
                "package-name",
                f'invalid package name "{self.name}": a lowercase RFC 1123 label is letters, '
                "digits and '-', at most 63 of them",
                field="name",
            )
        icon = self.package.icon
        data = (icon.base64data if icon else "") or ""
        if (at := base64_fault(data)) is not None:
            message = f"parse package: illegal base64 data at input byte {at}"
            self._problem("icon", message, field="icon.base64data")
        elif icon and data:
            try:
                self.icon = text.check_icon(data, icon.mediatype or "")
            except text.IconFault as fault:
                self._problem("icon-kind", str(fault), field="icon.base64data")

    def _check_entry(self, entry: graph.GraphEntry, i: int, channel: str) -> None:
        bundle = f'invalid bundle "{entry.name}": '
        if not entry.name:
            self._problem("no-entry-name", bundle + "name must be set", channel, f"entries[{i}]")
        for j, skip in enumerate(entry.skips):
            if not skip:
                message = f"{bundle}skip[{j}] is empty"
                self._problem("empty-skip", message, channel, f"entries[{i}].skips[{j}]")
        if entry.skip_range and (fault := range_fault(entry.skip_range)):
            message = f'{bundle}invalid skipRange "{entry.skip_range}": {fault}'
            self._problem("skip-range", message, channel, f"entries[{i}].skipRange")

    def _deprecate(self, i: int, schema: str, name: str, message: str) -> None:
        place = f"entries[{i}].reference"
        shown = f'declcfg.PackageScopedReference{{Schema:"{schema}", Name:"{name}"}}'
        targets = {blob.CHANNEL: self.channel_deprecations, blob.BUNDLE: self.bundle_deprecations}
        if not message:
            fault = "invalid deprecation: message must be set"
            self._problem("no-deprecation-message", fault, name, f"entries[{i}].message")
        if not schema:
            fault = f'schema must be set for deprecation entry [{i}] for package "{self.name}"'
            self._problem("no-deprecation-schema", fault, name, place)
        elif (schema, name) in self._deprecated:
            fault = f'duplicate deprecation entry {shown} for package "{self.name}"'
            self._problem("duplicate-deprecation", fault, name, place)
            return
        elif schema == blob.PACKAGE:
            if name:
                fault = (
                    f'package name must be empty for deprecated package "{self.name}" '
                    f'(specified "{name}")'
                )
                self._problem("deprecation-name", fault, "", f"{place}.name")
            self.deprecation = self.deprecation or message
        elif schema in targets:
            targets[schema][name] = message
        else:
            fault = (
                f'cannot deprecate object {shown} referenced by entry {i} for package "{self.name}"'
                ": object schema unknown"
            )
            self._problem("deprecation-schema", fault, name, f"{place}.schema")
        self._deprecated[schema, name] = i

    def _check_bundle_blob(
        self,
        bundle: blob.BundleIn,
        faults: Iterable[Fault],
        gathered: BundleProperties,
        csv: Csv | None,
    ) -> None:
        name = bundle.name or ""
        self._check_keys(bundle, name)
        self._faults(faults, name, prefix="parse bundle: ")
        for code, fault in gathered.faults:
            prefix = f'parse properties for bundle "{name}": ' if code == "property" else ""
            if code == "bundle-object":
                prefix = f'read bundle objects: package "{self.name}", bundle "{name}": '
            self._problem(code, prefix + fault.message, name, fault.field)
        if csv is not None:
            self._check_csv(name, csv)
        if not self.name:
            message = f'package name must be set for bundle "{name}"'
            self._problem("no-bundle-package", message, name, "package")
        elif not self.has_package:
            message = f'unknown package "{self.name}" for bundle "{name}"'
            self._problem("unknown-package", message, name, "package")

    def _check_csv(self, name: str, csv: Csv) -> None:
        """opm reads olm.csv.metadata strictly, but a CSV in olm.bundle.object not at all."""
        place = f"properties[{csv.at}].value"
        strict = (
            f'parse properties for bundle "{name}": parse property[{csv.at}] of type '
            '"olm.csv.metadata": '
        )
        for fault in csv.faults:
            message = f"{fault.field}: {fault.message}" if fault.field else fault.message
            if csv.webhooks is None:
                field = f"{place}.{fault.field}" if fault.field else place
                self._problem("property", strict + message, name, field)
            else:
                message = f"the ClusterServiceVersion in {place}: {message}"
                self._problem("csv", message, name, place)

    def _check_version(self, name: str, gathered: BundleProperties) -> bool:
        """Whether there is an olm.package property at all."""
        if len(gathered.packages) != 1:
            message = (
                f'package "{self.name}" bundle "{name}" must have exactly 1 "{PACKAGE_PROPERTY}" '
                f"property, found {len(gathered.packages)}"
            )
            self._problem("package-property", message, name, "properties")
            if not gathered.packages:
                return False
        package = gathered.packages[0]
        place = f"properties[{gathered.package_at[0]}].value"
        if (package.packageName or "") != self.name:
            message = (
                f'package "{self.name}" does not match "{PACKAGE_PROPERTY}" property '
                f'"{package.packageName or ""}"'
            )
            self._problem("package-mismatch", message, name, f"{place}.packageName")
        version = package.version or ""
        try:
            if len(version) > LONGEST_TEXT:
                raise ValueError(f"it is longer than {LONGEST_TEXT:,} characters")
            semver.parse(version)
        except ValueError as error:
            message = f'error parsing bundle "{name}" version "{version}": {error}'
            self._problem("version", message, name, f"{place}.version")
        if package.release:
            self._check_release(name, version, package.release, f"{place}.release")
        return True

    def _check_release(self, name: str, version: str, release: str, field: str) -> None:
        if len(release) > RELEASE_LENGTH or not all(
            _RELEASE_PART.fullmatch(part) for part in release.split(".")
        ):
            message = (
                f'error parsing bundle "{name}" release version "{release}": it must be '
                f"dot-separated identifiers of at most {RELEASE_LENGTH} characters together"
            )
            self._problem("release", message, name, field)
            return
        if "+" in version:
            message = (
                f'invalid bundle "{name}": cannot use build metadata in version with a release '
                "version"
            )
            self._problem("build-and-release", message, name, field)
        wanted = f"{self.name}-v{version}-{release}"
        if name != wanted:
            message = (
                f'invalid bundle "{name}": name "{name}" does not match normalized name "{wanted}"'
            )
            self._problem("bundle-name", message, name, "name")

    @staticmethod
    def _label(gathered: BundleProperties) -> str:
        if not gathered.packages or not gathered.packages[0].version:
            return ""
        first = gathered.packages[0]
        return f"{first.version}-{first.release}" if first.release else first.version or ""

    def _check_images(self, name: str, image: str, related: list[RelatedImageRow]) -> None:
        where = f'package "{self.name}" bundle "{name}"'
        fields = [("image", image)]
        fields += [(f"relatedImages[{i}].image", row.image) for i, row in enumerate(related)]
        for field, spec in fields:
            if spec and (fault := image_fault(spec)):
                message = f'{where} {field}: invalid image pull spec "{spec}": {fault}'
                self._problem("image", message, name, field)

    # -- the package as a whole

    def _check_whole(self, default: str) -> None:
        if self.has_package:
            self._check_package(default)
        else:
            self._check_owner()
        self._check_bundles()
        self._check_deprecations()

    def _check_owner(self) -> None:
        for name in self.channels:
            self._offset = self._offsets[name]
            message = f'unknown package "{self.name}" for channel "{name}"'
            self._problem("unknown-package", message, name, "package")
        if not self._deprecations:
            return
        self._offset = self._deprecations_at
        if self.name:
            message = f'cannot apply deprecations to an unknown package "{self.name}"'
            self._problem("unknown-package", message, field="package")
        else:
            message = "package name must be set for deprecation item 0"
            self._problem("no-deprecation-package", message, field="package")

    def _check_channel(self, name: str, entries: list[graph.GraphEntry]) -> None:
        self._offset = self._offsets[name]
        prefix = f'invalid channel "{name}": '
        if not entries:
            message = prefix + "channel must contain at least one bundle"
            self._problem("empty-channel", message, name, "entries")
            return
        for message in graph.validate(entries):
            code = next((code for start, code in _GRAPH_CODES if message.startswith(start)), "")
            self._problem(code or "stranded", prefix + message, name, "entries")
        missing = sorted(entry.name for entry in entries if entry.name not in self._bundles)
        if missing:
            message = (
                f'no olm.bundle blobs found in package "{self.name}" for olm.channel entries '
                f"[{' '.join(missing)}]"
            )
            self._problem("entry-without-bundle", message, name, "entries")

    def _check_package(self, default: str) -> None:
        self._offset = self._offsets[""]
        prefix = f'invalid package "{self.name}": '
        if not default:
            message = prefix + "default channel must be set"
            self._problem("no-default-channel", message, field="defaultChannel")
        elif default not in self.channels:
            message = (
                f'{prefix}invalid channel "{default}": channel must contain at least one bundle'
            )
            self._problem("default-channel", message, default, "defaultChannel")
        if not self.channels:
            self._problem("no-channels", prefix + "package must contain at least one channel")
        labels: dict[str, list[str]] = {}
        for name, bundle in self._bundles.items():
            if bundle.label and name in self._listed:
                labels.setdefault(bundle.label, []).append(name)
        doubled = [
            f"{{{label}: [{', '.join(sorted(names))}]}}"
            for label, names in sorted(labels.items())
            if len(names) > 1
        ]
        if doubled:
            message = prefix + f"duplicate versions found in bundles: [{' '.join(doubled)}]"
            self._problem("duplicate-versions", message, field="version")

    def _check_bundles(self) -> None:
        for name, bundle in self._bundles.items():
            self._offset = bundle.offset
            if not bundle.has_content:
                message = f'invalid bundle "{name}": bundle image must be set'
                self._problem("no-image", message, name, "image")
            if self.name and name not in self._listed:
                message = f'package "{self.name}", bundle "{name}" not found in any channel entries'
                self._problem("bundle-in-no-channel", message, name)

    def _check_deprecations(self) -> None:
        channels = {*self.channels, self.package.defaultChannel if self.has_package else ""}
        self._offset = self._deprecations_at
        for (schema, name), i in self._deprecated.items():
            what = {blob.CHANNEL: "channel", blob.BUNDLE: "bundle"}.get(schema)
            # opm makes an empty channel of a default channel that does not exist.
            if what and name not in (channels if what == "channel" else self._bundles):
                message = (
                    f'cannot deprecate {what} "{name}" for package "{self.name}": {what} not found'
                )
                self._problem(
                    "deprecation-target",
                    message,
                    name,
                    f"entries[{i}].reference.name",
                )


# -- image references

_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*(?::[0-9]+)?"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"((?:{_HOST}/)?{_PART}(?:/{_PART})*)(?::[\w][\w.-]{{0,127}})?"
    r"(?:@([A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
# The shape of nearly every reference; longer names are left to the full rules.
_PLAIN = re.compile(
    r"[a-z0-9]+(?:[.-][a-z0-9]+)*(?::[0-9]+)?(?:/[a-z0-9]+(?:[._-][a-z0-9]+)*)+"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")
_DIGEST = re.compile(r"[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+")
_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
LONGEST_NAME = 255
_CACHED = 1000  # characters; longer texts are rare and would fill the cache
_HUB = "docker.io"


def image_fault(text: str) -> str:
    """The reason why `text` is no image reference, in the library's words, or ""."""
    return _image_fault(text) if len(text) < _CACHED else _image_fault.__wrapped__(text)


@lru_cache(maxsize=8192)
def _image_fault(text: str) -> str:
    if len(text) < LONGEST_NAME and _PLAIN.fullmatch(text):
        return ""
    if _IDENTIFIER.fullmatch(text):
        return f"invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"
    domain, rest = _split(text)
    name = rest.partition(":")[0]
    if name.lower() != name:
        return "invalid reference format: repository name must be lowercase"
    match = _REFERENCE.fullmatch(f"{domain}/{rest}")
    if match is None:
        lower = _REFERENCE.fullmatch(f"{domain}/{rest}".lower())
        return "repository name must be lowercase" if lower else "invalid reference format"
    if len(match[1]) > LONGEST_NAME:
        return f"repository name must not be more than {LONGEST_NAME} characters"
    return _digest_fault(match[2]) if match[2] else ""


def _split(text: str) -> tuple[str, str]:
    """Domain and the rest; the default domain is Docker Hub."""
    domain, slash, rest = text.partition("/")
    if not slash or (domain != "localhost" and "." not in domain and ":" not in domain):
        domain, rest = _HUB, text
    if domain == "index.docker.io":
        domain = _HUB
    if domain == _HUB and "/" not in rest:
        rest = f"library/{rest}"
    return domain, rest


def _digest_fault(digest: str) -> str:
    algorithm, _, encoded = digest.partition(":")
    if algorithm not in _LENGTHS:
        valid = _DIGEST.fullmatch(digest)
        return "unsupported digest algorithm" if valid else "invalid checksum digest format"
    if len(encoded) != _LENGTHS[algorithm]:
        return "invalid checksum digest length"
    return "" if encoded == encoded.lower() else "invalid checksum digest format"
