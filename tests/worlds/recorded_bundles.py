"""Bundles that were recorded with all their objects, as images and as catalogs without objects."""

import base64
import gzip
import json
import lzma
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.peers.controllers import Registry
from tests.worlds.bundle_images import LABELS
from tests.worlds.image_registry_fake import tar

LARGE = 40_000  # characters
OBJECT, METADATA = "olm.bundle.object", "olm.csv.metadata"
# As `operator-sdk generate bundle` writes the Dockerfile: the last folder is of no installer.
STEPS = ("manifests", "metadata", "tests/scorecard")
# The fields that operator-registry keeps (alpha/property/property.go, CSVMetadata).
_KEPT = (
    *("apiservicedefinitions", "customresourcedefinitions", "description", "displayName"),
    *("installModes", "keywords", "labels", "links", "maintainers", "maturity"),
    *("minKubeVersion", "nativeAPIs", "provider"),
)
_RENAMED = {
    "apiservicedefinitions": "apiServiceDefinitions",
    "customresourcedefinitions": "crdDescriptions",
}


@dataclass(frozen=True, slots=True)
class RecordedBundle:
    """A bundle with its decoded objects; `properties` are those of its blob but the objects."""

    package: str
    name: str
    objects: tuple[dict[str, Any], ...]
    properties: tuple[dict[str, Any], ...]

    @property
    def csv(self) -> dict[str, Any]:
        return next(o for o in self.objects if o["kind"] == "ClusterServiceVersion")

    def layers(self, salt: str = "") -> list[bytes]:
        """The tars of STEPS; `salt` makes other bytes of the same objects."""
        manifests = [
            (f"manifests/{number}.yaml", _text(found)) for number, found in enumerate(self.objects)
        ]
        notes = {"operators.operatorframework.io.bundle.package.v1": self.package, "salt": salt}
        annotations = yaml.safe_dump({"annotations": notes}).encode()
        scorecard = json.dumps(self.properties).encode() * 20
        return [
            tar(*manifests),
            tar(("metadata/annotations.yaml", annotations)),
            tar(("tests/scorecard/config.yaml", scorecard)),
        ]

    def push(self, images: Registry, salt: str = "") -> tuple[str, int]:
        """Pushes its image; returns the reference and the bytes of the layers that are needed."""
        layers = self.layers(salt)
        tag = f"v1{salt}"
        history = [f"COPY {step} /{step}/ # buildkit" for step in STEPS]
        reference = images.push_image(f"olm/{self.package}", tag, layers, LABELS, history)
        return reference, sum(len(gzip.compress(layer, mtime=0)) for layer in layers[:2])

    def blob(self, image: str) -> dict[str, Any]:
        """The bundle as catalogs publish it: with metadata in place of its objects."""
        spec = self.csv.get("spec") or {}
        kept = {_RENAMED.get(key, key): spec[key] for key in _KEPT if key in spec}
        kept["annotations"] = self.csv["metadata"].get("annotations") or {}
        value = {**kept, "apiServiceDefinitions": spec.get("apiservicedefinitions") or {}}
        return {
            "schema": "olm.bundle",
            "name": self.name,
            "package": self.package,
            "image": image,
            "properties": [*self.properties, {"type": METADATA, "value": value}],
        }


def _text(found: dict[str, Any]) -> bytes:
    """The object as YAML, a large one as JSON: to write and read YAML takes most of a test."""
    text = json.dumps(found)
    if len(text) > LARGE:
        return text.encode()
    return yaml.dump(found, Dumper=yaml.CSafeDumper).encode()


def recorded_bundles(shared_data: Path) -> list[RecordedBundle]:
    """The newest bundle of 166 packages."""
    with lzma.open(shared_data / "truth" / "newest-bundles.jsonl.xz") as lines:
        return [_bundle(blob) for blob in map(json.loads, lines) if blob["schema"] == "olm.bundle"]


def _bundle(blob: dict[str, Any]) -> RecordedBundle:
    found = [p for p in blob["properties"] if p["type"] == OBJECT]
    objects = tuple(json.loads(base64.b64decode(p["value"]["data"])) for p in found)
    rest = tuple(p for p in blob["properties"] if p["type"] != OBJECT)
    return RecordedBundle(blob["package"], blob["name"], objects, rest)


def catalog_lines(bundles: Iterable[tuple[RecordedBundle, str]]) -> Iterator[bytes]:
    """A catalog of bundles with their images: each the head of the only channel of its package."""
    for bundle, image in bundles:
        name = bundle.package
        yield _line({"schema": "olm.package", "name": name, "defaultChannel": "stable"})
        entries = [{"name": bundle.name}]
        channel = {"schema": "olm.channel", "package": name, "name": "stable", "entries": entries}
        yield _line(channel)
        yield _line(bundle.blob(image))


def _line(blob: dict[str, Any]) -> bytes:
    return json.dumps(blob).encode() + b"\n"
