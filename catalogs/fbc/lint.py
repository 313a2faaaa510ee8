"""The faults for which opm refuses a package, in opm's wording, all of them at once.

Pure. Mirrors operator-registry: alpha/declcfg (load.go, declcfg_to_model.go) and alpha/model
(model.go). `catalogs.fbc.package` reads the package; `catalogs.fbc.lint_impact` lists how each
installer reacts to a fault.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from catalogs import graph, semver
from catalogs.fbc import blob, csvs
from catalogs.fbc.blob import Fault, Problem
from catalogs.fbc.bundle import (
    LONGEST_TEXT,
    PACKAGE_PROPERTY,
    Gathered,
    RelatedImageRow,
    range_fault,
)
from catalogs.fbc.image_reference import image_fault
from catalogs.fbc.lint_impact import REACTIONS as REACTIONS
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


class EntryFacts(NamedTuple):
    name: str
    replaces: str
    skips: list[str]
    skip_range: str


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
        self.problems: list[Problem] = []
        self.known = False  # there is an olm.package blob
        self.package = blob.PackageIn()
        self.icon: text.Icon | None = None
        self.channels: dict[str, list[EntryFacts]] = {}
        self.deprecation = ""
        self.channel_deprecations: dict[str, str] = {}
        self.bundle_deprecations: dict[str, str] = {}
        self._offsets: dict[str, int] = {}
        self._deprecations = 0
        self._deprecations_at = 0
        self._deprecated: dict[tuple[str, str], int] = {}  # (schema, name): position
        self._bundles: dict[str, BundleSummary] = {}
        self._count = 0
        self._listed: set[str] = set()

    def _faults(self, faults: Iterable[Fault], subject: str, offset: int, *, prefix: str) -> None:
        for fault in faults:
            where = f"{fault.field}: " if fault.field else ""
            self._problem(
                "wrong-type", prefix + where + fault.message, subject, fault.field, offset=offset
            )

    def _problem(
        self, code: str, message: str, subject: str = "", field: str = "", *, offset: int
    ) -> None:
        if len(message) > LONGEST_MESSAGE:  # a name of a megabyte may have a thousand faults
            message = message[: LONGEST_MESSAGE - 1] + "…"
        subject = subject[:_LONGEST_SUBJECT]
        if len(self.problems) < MAX_FAULTS:
            self.problems.append(Problem(code, message, self.name, subject, field, offset))
        elif len(self.problems) == MAX_FAULTS:
            message = f'package "{self.name}" has more faults than the {MAX_FAULTS} that are listed'
            self.problems.append(Problem("more", message, self.name, offset=offset))

    # -- one blob

    def _check_header(self, header: blob.Header, offset: int) -> None:
        for key, value in (("package", header.package), ("name", header.name)):
            if value is None:
                self._null_key(key, "", offset)

    def _null_key(self, key: str, subject: str, offset: int) -> None:
        message = f'expected value for key "{key}" to be a string, got null'
        self._problem("key-type", message, subject, key, offset=offset)

    def _check_package_blob(self, offset: int) -> None:
        if not _DNS_LABEL.fullmatch(self.name):
            self._problem(
                "package-name",
                f'invalid package name "{self.name}": a lowercase RFC 1123 label is letters, '
                "digits and '-', at most 63 of them",
                field="name",
                offset=offset,
            )
        icon = self.package.icon
        data = (icon.base64data if icon else "") or ""
        if (at := csvs.base64_fault(data)) is not None:
            message = f"parse package: illegal base64 data at input byte {at}"
            self._problem("icon", message, field="icon.base64data", offset=offset)
        elif icon and data:
            try:
                self.icon = text.check_icon(data, icon.mediatype or "")
            except text.IconFault as fault:
                self._problem("icon-kind", str(fault), field="icon.base64data", offset=offset)

    def _check_entry(self, entry: EntryFacts, i: int, channel: str, offset: int) -> None:
        bundle = f'invalid bundle "{entry.name}": '
        if not entry.name:
            message = bundle + "name must be set"
            self._problem("no-entry-name", message, channel, f"entries[{i}]", offset=offset)
        for j, skip in enumerate(entry.skips):
            if not skip:
                message = f"{bundle}skip[{j}] is empty"
                field = f"entries[{i}].skips[{j}]"
                self._problem("empty-skip", message, channel, field, offset=offset)
        if entry.skip_range and (fault := range_fault(entry.skip_range)):
            message = f'{bundle}invalid skipRange "{entry.skip_range}": {fault}'
            field = f"entries[{i}].skipRange"
            self._problem("skip-range", message, channel, field, offset=offset)

    def _deprecate(self, i: int, schema: str, name: str, message: str) -> None:
        offset, place = self._deprecations_at, f"entries[{i}].reference"
        shown = f'declcfg.PackageScopedReference{{Schema:"{schema}", Name:"{name}"}}'
        targets = {blob.CHANNEL: self.channel_deprecations, blob.BUNDLE: self.bundle_deprecations}
        if not message:
            fault = "invalid deprecation: message must be set"
            self._problem(
                "no-deprecation-message", fault, name, f"entries[{i}].message", offset=offset
            )
        if not schema:
            fault = f'schema must be set for deprecation entry [{i}] for package "{self.name}"'
            self._problem("no-deprecation-schema", fault, name, place, offset=offset)
        elif (schema, name) in self._deprecated:
            fault = f'duplicate deprecation entry {shown} for package "{self.name}"'
            self._problem("duplicate-deprecation", fault, name, place, offset=offset)
            return
        elif schema == blob.PACKAGE:
            if name:
                fault = (
                    f'package name must be empty for deprecated package "{self.name}" '
                    f'(specified "{name}")'
                )
                self._problem("deprecation-name", fault, "", f"{place}.name", offset=offset)
            self.deprecation = self.deprecation or message
        elif schema in targets:
            targets[schema][name] = message
        else:
            fault = (
                f'cannot deprecate object {shown} referenced by entry {i} for package "{self.name}"'
                ": object schema unknown"
            )
            self._problem("deprecation-schema", fault, name, f"{place}.schema", offset=offset)
        self._deprecated[schema, name] = i

    def _check_bundle_blob(
        self,
        bundle: blob.BundleIn,
        faults: Iterable[Fault],
        gathered: Gathered,
        csv: csvs.Csv | None,
        offset: int,
    ) -> None:
        name = bundle.name or ""
        for key, value in (("package", bundle.package), ("name", bundle.name)):
            if value is None:
                self._null_key(key, name, offset)
        self._faults(faults, name, offset, prefix="parse bundle: ")
        for code, fault in gathered.faults:
            prefix = f'parse properties for bundle "{name}": ' if code == "property" else ""
            if code == "bundle-object":
                prefix = f'read bundle objects: package "{self.name}", bundle "{name}": '
            self._problem(code, prefix + fault.message, name, fault.field, offset=offset)
        for fault in csv.faults if csv else ():
            self._check_csv(name, csv, fault, offset)
        if not self.name:
            message = f'package name must be set for bundle "{name}"'
            self._problem("no-bundle-package", message, name, "package", offset=offset)
        elif not self.known:
            message = f'unknown package "{self.name}" for bundle "{name}"'
            self._problem("unknown-package", message, name, "package", offset=offset)

    def _check_csv(self, name: str, csv: csvs.Csv | None, fault: Fault, offset: int) -> None:
        """opm reads olm.csv.metadata strictly, but a CSV in olm.bundle.object not at all."""
        if csv is None:
            return
        field = f"properties[{csv.at}].value"
        message = f"{fault.field}: {fault.message}" if fault.field else fault.message
        if csv.webhooks is None:
            field = f"{field}.{fault.field}" if fault.field else field
            message = (
                f'parse properties for bundle "{name}": parse property[{csv.at}] of type '
                f'"olm.csv.metadata": {message}'
            )
            self._problem("property", message, name, field, offset=offset)
        else:
            message = f"the ClusterServiceVersion in {field}: {message}"
            self._problem("csv", message, name, field, offset=offset)

    def _check_version(self, name: str, gathered: Gathered, offset: int) -> bool:
        """Whether there is an olm.package property at all."""
        if len(gathered.packages) != 1:
            message = (
                f'package "{self.name}" bundle "{name}" must have exactly 1 "{PACKAGE_PROPERTY}" '
                f"property, found {len(gathered.packages)}"
            )
            self._problem("package-property", message, name, "properties", offset=offset)
            if not gathered.packages:
                return False
        package = gathered.packages[0]
        place = f"properties[{gathered.package_at[0]}].value"
        if (package.packageName or "") != self.name:
            message = (
                f'package "{self.name}" does not match "{PACKAGE_PROPERTY}" property '
                f'"{package.packageName or ""}"'
            )
            self._problem("package-mismatch", message, name, f"{place}.packageName", offset=offset)
        version = package.version or ""
        try:
            if len(version) > LONGEST_TEXT:
                raise ValueError(f"it is longer than {LONGEST_TEXT:,} characters")
            semver.parse(version)
        except ValueError as error:
            message = f'error parsing bundle "{name}" version "{version}": {error}'
            self._problem("version", message, name, f"{place}.version", offset=offset)
        if package.release:
            self._check_release(name, version, package.release, f"{place}.release", offset)
        return True

    def _check_release(
        self, name: str, version: str, release: str, field: str, offset: int
    ) -> None:
        if len(release) > RELEASE_LENGTH or not all(
            _RELEASE_PART.fullmatch(part) for part in release.split(".")
        ):
            message = (
                f'error parsing bundle "{name}" release version "{release}": it must be '
                f"dot-separated identifiers of at most {RELEASE_LENGTH} characters together"
            )
            self._problem("release", message, name, field, offset=offset)
            return
        if "+" in version:
            message = (
                f'invalid bundle "{name}": cannot use build metadata in version with a release '
                "version"
            )
            self._problem("build-and-release", message, name, field, offset=offset)
        wanted = f"{self.name}-v{version}-{release}"
        if name != wanted:
            message = (
                f'invalid bundle "{name}": name "{name}" does not match normalized name "{wanted}"'
            )
            self._problem("bundle-name", message, name, "name", offset=offset)

    @staticmethod
    def _label(gathered: Gathered) -> str:
        if not gathered.packages or not gathered.packages[0].version:
            return ""
        first = gathered.packages[0]
        return f"{first.version}-{first.release}" if first.release else first.version or ""

    def _check_images(
        self, name: str, image: str, related: list[RelatedImageRow], offset: int
    ) -> None:
        where = f'package "{self.name}" bundle "{name}"'
        fields = [("image", image)]
        fields += [(f"relatedImages[{i}].image", row.image) for i, row in enumerate(related)]
        for field, spec in fields:
            if spec and (fault := image_fault(spec)):
                message = f'{where} {field}: invalid image pull spec "{spec}": {fault}'
                self._problem("image", message, name, field, offset=offset)

    # -- the package as a whole

    def _check_whole(self, default: str) -> None:
        if self.known:
            self._check_package(default)
        else:
            self._check_owner()
        self._check_bundles()
        self._check_deprecations()

    def _check_owner(self) -> None:
        for name in self.channels:
            message = f'unknown package "{self.name}" for channel "{name}"'
            self._problem("unknown-package", message, name, "package", offset=self._offsets[name])
        if not self._deprecations:
            return
        at = self._deprecations_at
        if self.name:
            message = f'cannot apply deprecations to an unknown package "{self.name}"'
            self._problem("unknown-package", message, field="package", offset=at)
        else:
            message = "package name must be set for deprecation item 0"
            self._problem("no-deprecation-package", message, field="package", offset=at)

    def _check_channel(
        self, name: str, entries: list[EntryFacts], nodes: list[graph.GraphEntry]
    ) -> None:
        offset = self._offsets[name]
        prefix = f'invalid channel "{name}": '
        if not entries:
            message = prefix + "channel must contain at least one bundle"
            self._problem("empty-channel", message, name, "entries", offset=offset)
            return
        for message in graph.validate(nodes):
            code = next((code for start, code in _GRAPH_CODES if message.startswith(start)), "")
            self._problem(code or "stranded", prefix + message, name, "entries", offset=offset)
        missing = sorted(entry.name for entry in entries if entry.name not in self._bundles)
        if missing:
            message = (
                f'no olm.bundle blobs found in package "{self.name}" for olm.channel entries '
                f"[{' '.join(missing)}]"
            )
            self._problem("entry-without-bundle", message, name, "entries", offset=offset)

    def _check_package(self, default: str) -> None:
        offset = self._offsets[""]
        prefix = f'invalid package "{self.name}": '
        if not default:
            message = prefix + "default channel must be set"
            self._problem("no-default-channel", message, field="defaultChannel", offset=offset)
        elif default not in self.channels:
            message = (
                f'{prefix}invalid channel "{default}": channel must contain at least one bundle'
            )
            self._problem("default-channel", message, default, "defaultChannel", offset=offset)
        if not self.channels:
            message = prefix + "package must contain at least one channel"
            self._problem("no-channels", message, offset=offset)
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
            self._problem("duplicate-versions", message, field="version", offset=offset)

    def _check_bundles(self) -> None:
        for name, bundle in self._bundles.items():
            if not bundle.has_content:
                message = f'invalid bundle "{name}": bundle image must be set'
                self._problem("no-image", message, name, "image", offset=bundle.offset)
            if self.name and name not in self._listed:
                message = f'package "{self.name}", bundle "{name}" not found in any channel entries'
                self._problem("bundle-in-no-channel", message, name, offset=bundle.offset)

    def _check_deprecations(self) -> None:
        channels = {*self.channels, self.package.defaultChannel if self.known else ""}
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
                    offset=self._deprecations_at,
                )
