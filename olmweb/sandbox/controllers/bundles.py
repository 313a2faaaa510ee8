"""File-based catalogs as the controllers read them: bundles, channels, versions and ranges.

Pure; must not know the store. Ranges are a small part of what Masterminds and blang allow:
comparisons, partial versions, `~`, `^`, AND by space or comma, OR by `||`.
"""

import base64
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

Blob = Mapping[str, Any]

# A pre-release part compares numbers as numbers and below words; having none is highest.
_Version = tuple[int, int, int, int, tuple[tuple[int, int, str], ...]]
_Bound = tuple[Any, ...]  # a _Version, or a longer or shorter tuple that compares with versions

_NUMBER = r"(?:0|[1-9]\d*)"
_SEMVER = re.compile(
    rf"^({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$"
)
_COMPARISON = re.compile(r"\s*(>=|<=|!=|==|=|>|<|~|\^)?\s*v?([0-9][0-9A-Za-z.+-]*)[\s,]*")
_VERSION_PARTS = 3


@dataclass(frozen=True, slots=True)
class BundleContent:
    """An olm.bundle blob: the `spec` and `annotations` of its ClusterServiceVersion, its other
    `manifests`, and its properties."""

    name: str
    package: str
    version: str
    image: str
    spec: Mapping[str, Any]
    annotations: Mapping[str, str]
    manifests: tuple[Mapping[str, Any], ...] = ()
    properties: tuple[Mapping[str, Any], ...] = ()
    related_images: tuple[str, ...] = ()
    replaces: str = ""

    @property
    def crds(self) -> list[Mapping[str, Any]]:
        """name, kind and version of each owned CRD."""
        return list(self.spec.get("customresourcedefinitions", {}).get("owned", []))

    @property
    def install_modes(self) -> set[str]:
        modes = self.spec.get("installModes", [])
        return {mode["type"] for mode in modes if mode["supported"]}

    @property
    def has_webhooks(self) -> bool:
        return bool(self.spec.get("webhookdefinitions"))

    @property
    def owns_api_services(self) -> bool:
        return bool(self.spec.get("apiservicedefinitions", {}).get("owned"))

    @property
    def namespace(self) -> str:
        """The namespace that the bundle suggests, or the one that tools derive from its package."""
        suggested = self.annotations.get("operatorframework.io/suggested-namespace")
        return suggested or f"{self.package}-system"


def read_bundle(blob: Blob) -> BundleContent:
    """Decodes an olm.bundle blob with either olm.bundle.object or olm.csv.metadata properties."""
    spec: Mapping[str, Any] = {}
    annotations: Mapping[str, str] = {}
    version, manifests = "", []
    for item in blob["properties"]:
        type_, value = item["type"], item["value"]
        if type_ == "olm.package":
            version = value["version"]
        elif type_ == "olm.bundle.object":
            manifest = json.loads(base64.b64decode(value["data"]))
            if manifest["kind"] == "ClusterServiceVersion":
                spec = manifest["spec"]
                annotations = manifest["metadata"].get("annotations", {})
            else:
                manifests.append(manifest)
        elif type_ == "olm.csv.metadata":
            rest = dict(value)
            annotations = rest.pop("annotations", {})
            spec = {
                "customresourcedefinitions": rest.pop("crdDescriptions", {}),
                "apiservicedefinitions": rest.pop("apiServiceDefinitions", {}),
                **rest,
            }
    return BundleContent(
        name=blob["name"],
        package=blob["package"],
        version=version,
        image=blob["image"],
        spec=spec,
        annotations=annotations,
        manifests=tuple(manifests),
        properties=tuple(blob["properties"]),
        related_images=tuple(image["image"] for image in blob["relatedImages"]),
    )


class FileBasedCatalog:
    """The blobs of one file-based catalog by package; bundles are decoded when first read."""

    def __init__(self, blobs: Iterable[Blob]) -> None:
        self.blobs = tuple(blobs)
        self._by_schema: dict[tuple[str, str], list[Blob]] = defaultdict(list)
        for blob in self.blobs:
            self._by_schema[blob["schema"], blob.get("package", "")].append(blob)
        self._bundles: dict[str, tuple[BundleContent, ...]] = {}

    def bundles(self, package: str) -> tuple[BundleContent, ...]:
        if package not in self._bundles:
            blobs = self._by_schema.get(("olm.bundle", package), ())
            self._bundles[package] = tuple(read_bundle(blob) for blob in blobs)
        return self._bundles[package]

    def packages(self) -> list[str]:
        """The names of the packages that have bundles."""
        return [package for schema, package in self._by_schema if schema == "olm.bundle"]

    def all_bundles(self) -> list[BundleContent]:
        return [bundle for package in self.packages() for bundle in self.bundles(package)]

    def channels(self, package: str) -> list[Blob]:
        """The olm.channel blobs of a package, the default channel first."""
        return self._by_schema.get(("olm.channel", package), [])

    def deprecations(self, package: str) -> list[Blob]:
        """The entries of the package's olm.deprecations blob."""
        blobs = self._by_schema.get(("olm.deprecations", package), ())
        return [entry for blob in blobs for entry in blob["entries"]]

    def bundle(self, package: str, channel: str = "", name: str = "") -> BundleContent:
        """The newest bundle of a channel ("" is the default channel), or its bundle `name`.

        Raises KeyError if there is none.
        """
        channels = [blob for blob in self.channels(package) if channel in ("", blob["name"])]
        if not channels:
            raise KeyError(f"{package} has no channel {channel}")
        entries = [entry for entry in channels[0]["entries"] if name in ("", entry["name"])]
        if not entries:
            raise KeyError(f"{package} has no bundle {name}")
        newest = entries[-1]
        bundles = {bundle.name: bundle for bundle in self.bundles(package)}
        return replace(bundles[newest["name"]], replaces=newest.get("replaces", ""))

    def successor(self, package: str, channel: str, installed: str) -> BundleContent:
        """The newest bundle of the channel that an upgrade of OLM v0 leads to in one step; the
        installed one if there is none. Raises KeyError without the channel."""
        newest = self.bundle(package, channel)
        version = next((row.version for row in self.bundles(package) if row.name == installed), "")
        channels = [blob for blob in self.channels(package) if channel in ("", blob["name"])]
        for entry in reversed(channels[0]["entries"]):
            follows = installed == entry.get("replaces") or installed in entry.get("skips", ())
            skipped = version and entry.get("skipRange") and in_range(entry["skipRange"], version)
            if follows or (skipped and entry["name"] != installed):
                return self.bundle(package, channel, entry["name"])
        return self.bundle(package, channel, installed) if version else newest


Catalogs = Mapping[str, FileBasedCatalog]


# --- versions and ranges


def parse_version(text: str) -> _Version | None:
    """A sort key of a strict semantic version without its build metadata, or None."""
    match = _SEMVER.match(text)
    if not match:
        return None
    parts = match[4].split(".") if match[4] else []
    key = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts)
    return int(match[1]), int(match[2]), int(match[3]), 0 if parts else 1, key


def in_range(text: str, version: str) -> bool:
    """Whether the version is in the range; an empty range has every version.

    Raises ValueError for an invalid range or version.
    """
    key = parse_version(version)
    if key is None:
        raise ValueError(f"{version} is no semantic version")
    return not text.strip() or any(_meets_all(part, key) for part in text.split("||"))


def _meets_all(text: str, version: _Version) -> bool:
    position, holds = 0, True
    while position < len(text):
        match = _COMPARISON.match(text, position)
        if match is None:
            raise ValueError(f"improper constraint: {text.strip()}")
        position = match.end()
        low, high = _bounds(match[1] or "", match[2])
        holds = holds and _within(match[1] or "=", version, low, high)
    return holds


def _within(sign: str, version: _Bound, low: _Bound, high: _Bound) -> bool:
    """`low` is the first version that the text means, `high` the first after all of them."""
    inside = low <= version < high
    return {
        ">": version >= high,
        ">=": version >= low,
        "<": version < low,
        "<=": version < high,
        "!=": not inside,
    }.get(sign, inside)


def _bounds(sign: str, text: str) -> tuple[_Bound, _Bound]:
    parts = [part for part in text.split("-")[0].split("+")[0].split(".") if part not in ("x", "X")]
    if not all(part.isdigit() for part in parts) or len(parts) > _VERSION_PARTS:
        raise ValueError(f"improper constraint: {sign}{text}")
    numbers = [int(part) for part in parts]
    padded = numbers + [0] * (_VERSION_PARTS - len(numbers))
    low: _Bound = parse_version(text) or (*padded, 1, ())
    if sign == "^":
        last = next((i for i, n in enumerate(padded) if n), _VERSION_PARTS - 1)
    elif sign == "~":
        last = min(1, len(numbers) - 1)
    elif len(numbers) == _VERSION_PARTS:
        return low, (*low[:-1], (*low[-1], (-1, 0, "")))
    else:
        last = len(numbers) - 1
    above = [*padded[:last], padded[last] + 1, *([0] * (_VERSION_PARTS - 1 - last))]
    return low, (*above, 0, ())
