"""What opm would refuse of one package, in its words, all of it at once.

Pure: knows the outline of a package that `catalogs.derive` gathers, not how it was read.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from catalogs import fbc, graph
from catalogs.fbc import Fault, Problem


class EntryFacts(NamedTuple):
    name: str
    replaces: str
    skips: list[str]
    skip_range: str


@dataclass(slots=True)
class Seen:
    """What is kept of each bundle until the channels are looked at."""

    version: str
    key: str
    has_content: bool  # an image, or the manifests themselves
    position: int
    offset: int
    kinds: list[str]


class PackageFaults:
    """The outline of one package, and the faults found in it so far (`problems`)."""

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
        self._bundles: dict[str, Seen] = {}
        self._count = 0
        self._listed: set[str] = set()

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
