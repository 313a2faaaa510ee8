"""Objects of a bundle as JSON, from the files of its image or from its blob in a catalog.

Pure: uses neither the database nor a registry.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from catalogs.contents.bundle_facts import CRD_KIND, CSV_KIND
from catalogs.fbc import blob as fbc
from catalogs.fbc.bundle import read_manifest
from catalogs.sources.base import SourceError
from olmweb.kube.decode import decoded as decoded_document
from olmweb.kube.fields import items, text

MOST_OBJECTS = 2_000
CRD_V1 = ("apiextensions.k8s.io/v1", CRD_KIND)
_DOCUMENT = re.compile(rb"^---(?:[ \t].*)?$", re.MULTILINE)
_ANNOTATIONS = "annotations.yaml"


@dataclass(frozen=True, slots=True)
class Manifests:
    """The decoded objects of a bundle. `annotations` of metadata/annotations.yaml, `folders` inside
    of manifests/ and `digest` of the image are empty for objects from a catalog."""

    objects: tuple[dict[str, Any], ...]
    annotations: dict[str, str]
    folders: tuple[str, ...] = ()
    digest: str = ""

    @property
    def csv(self) -> dict[str, Any]:
        """The ClusterServiceVersion; {} when there is none."""
        return next((manifest for manifest in self.objects if manifest.get("kind") == CSV_KIND), {})

    @property
    def missing_crds(self) -> set[str]:
        """Names of CRDs that the ClusterServiceVersion owns and that are not among the objects:
        some catalogs have the ClusterServiceVersion alone."""
        owned = items(self.csv, "spec", "customresourcedefinitions", "owned")
        crds = (manifest for manifest in self.objects if manifest.get("kind") == CRD_KIND)
        present = {text(manifest, "metadata", "name") for manifest in crds}
        return {text(row, "name") for row in owned} - present - {""}


class Packed(msgspec.Struct):
    """The stored form of an image's manifests, as JSON."""

    objects: list[msgspec.Raw]
    annotations: dict[str, str] = {}
    folders: list[str] = []


class _Head(msgspec.Struct):
    apiVersion: str
    kind: str


class _AnnotationsFile(msgspec.Struct):
    annotations: dict[str, Any] | None = None


def pack(
    label: str,
    manifests: Iterable[tuple[str, bytes]],
    metadata: Iterable[tuple[str, bytes]],
    folders: Sequence[str],
) -> Packed:
    """The objects of the files, given as (name, content). Raises SourceError for a file with
    anything but objects, and without a ClusterServiceVersion."""
    objects: list[msgspec.Raw] = []
    kinds = set()
    for name, data in manifests:
        for document in _documents(data, name, label):
            head = _head(document, name, label)
            if head is None:
                continue
            kinds.add(head.kind)
            objects.append(msgspec.Raw(document))
            if len(objects) > MOST_OBJECTS:
                raise _bad(label, f"holds more than {MOST_OBJECTS:,} objects", "too-many-objects")
    if CSV_KIND not in kinds:
        raise _bad(label, "has no ClusterServiceVersion among its manifests", "no-csv")
    annotations: dict[str, str] = {}
    for name, data in metadata:
        if name == _ANNOTATIONS:
            for document in _documents(data, name, label):
                values = fbc.decode(document, _AnnotationsFile)[0].annotations or {}
                annotations |= {key: str(value) for key, value in values.items()}
    return Packed(objects, annotations, list(folders))


def _documents(data: bytes, name: str, label: str) -> list[bytes]:
    """The documents of a file as JSON."""
    try:
        if data.lstrip().startswith(b"{"):
            msgspec.json.decode(data)
            return [data]
        parts = [part for part in _DOCUMENT.split(data) if part.strip()]
        return [fbc.yaml_to_json(part) for part in parts]
    except fbc.BadBlob as error:
        raise _bad(
            label, f"holds {name[:200]}, which can't be read: {error}", error.code
        ) from error
    except fbc.DECODE_ERRORS as error:
        why = str(error) or "it nests too deep"
        raise _bad(label, f"holds {name[:200]}, which can't be read: {why}", "not-json") from error


def _head(document: bytes, name: str, label: str) -> _Head | None:
    if document == b"null":
        return None
    try:
        return msgspec.json.decode(document, type=_Head)
    except fbc.DECODE_ERRORS as error:
        raise _bad(label, f"holds {name[:200]}, which is no Kubernetes object", "no-object") from (
            error
        )


def _bad(label: str, why: str, code: str) -> SourceError:
    return SourceError(f"{label} {why}.", code=code)


def objects_in(blob: bytes) -> list[bytes]:
    """The objects in the olm.bundle.object properties of a blob, as JSON or YAML; [] for a blob
    that is no bundle. Invalid objects, which are problems of the catalog, are left out."""
    if b"olm.bundle.object" not in blob:
        return []
    try:
        properties = fbc.properties_of(fbc.decode(blob, fbc.BundleIn)[0])
    except fbc.DECODE_ERRORS:
        return []
    result = []
    for prop in properties:
        if prop.type == "olm.bundle.object" and prop.value is not fbc.ABSENT:
            manifest = read_manifest(prop.value)[0]
            if manifest:
                result.append(manifest)
    return result


def crds_in(manifests: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The CustomResourceDefinitions among decoded objects, by name."""
    return {
        text(manifest, "metadata", "name"): manifest
        for manifest in manifests
        if (manifest.get("apiVersion"), manifest.get("kind")) == CRD_V1
    }


def decoded(manifests: Iterable[bytes | msgspec.Raw]) -> tuple[dict[str, Any], ...]:
    """Decodes objects from JSON or YAML; anything else is left out. One that is nested too deep is
    cut as those of a cluster are (olmweb.kube.decode)."""
    result = []
    for manifest in manifests:
        try:
            document = bytes(manifest)
            if not document.lstrip().startswith(b"{"):
                document = fbc.yaml_to_json(document)
            value = decoded_document(msgspec.json.decode, document)
        except (fbc.BadBlob, *fbc.DECODE_ERRORS):
            continue
        if isinstance(value, dict):
            result.append(value)
    return tuple(result)
