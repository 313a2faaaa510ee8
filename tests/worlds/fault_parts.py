"""The small catalogs that samples of faults are made of."""

import base64
from dataclasses import dataclass

from tests.worlds.fbc import Blob, bundle_blob, channel_blob, jsonl, package_blob

STABLE = channel_blob(entries=[{"name": "etcd.v1.0.0"}])
SOUND = [package_blob(), STABLE, bundle_blob()]


@dataclass(frozen=True, slots=True)
class Sample:
    """A catalog with one fault. `says` is the sentence, as far as opm's and ours are the same.

    `opm` is False where opm has nothing to say: it reads such a catalog.
    """

    code: str
    blobs: bytes
    says: str
    field: str = ""
    subject: str = ""
    opm: bool = True


def entries(*listed: Blob) -> list[Blob]:
    return [channel_blob(entries=list(listed))]


def graph(*listed: Blob) -> bytes:
    """A package whose channel has these entries, each with its bundle."""
    versions = [entry["name"].rpartition(".v")[2] for entry in listed]
    return jsonl(
        [package_blob(), *entries(*listed), *(bundle_blob(version) for version in versions)]
    )


def with_property(kind: str, **value: object) -> bytes:
    found = {"type": kind, **value}
    return jsonl([package_blob(), STABLE, bundle_blob(properties=[found])])


def with_bundle(version: str = "1.0.0", **more: object) -> bytes:
    blob = bundle_blob(version, **more)  # type: ignore[arg-type]
    return jsonl([package_blob(), channel_blob(entries=[{"name": blob["name"]}]), blob])


def released(version: str, release: str, name: str) -> bytes:
    blob = bundle_blob(version, image="registry.example/etcd:1", relatedImages=[])
    blob["name"] = name
    blob["properties"][0]["value"]["release"] = release
    return jsonl([package_blob(), channel_blob(entries=[{"name": name}]), blob])


def deprecating(*listed: Blob, package: str = "etcd", message: str = "old") -> Blob:
    return {
        "schema": "olm.deprecations",
        "package": package,
        "entries": [{"reference": reference, "message": message} for reference in listed],
    }


def deprecated(*listed: Blob, message: str = "old") -> bytes:
    return jsonl([*SOUND, deprecating(*listed, message=message)])


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
