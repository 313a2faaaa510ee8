"""Small catalogs for tests: dicts of blobs, and the bytes that a source would send."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

Blob = dict[str, Any]


def package_blob(name: str = "etcd", default: str = "stable", **more: Any) -> Blob:
    return {"schema": "olm.package", "name": name, "defaultChannel": default, **more}


def channel_blob(
    package: str = "etcd", name: str = "stable", entries: Sequence[Mapping[str, Any]] = ()
) -> Blob:
    return {"schema": "olm.channel", "package": package, "name": name, "entries": list(entries)}


def csv_metadata(**more: Any) -> Blob:
    value = {
        "displayName": "Etcd",
        "description": "# Etcd\n\nKeeps <b>keys</b>.",
        "installModes": [
            {"type": "OwnNamespace", "supported": False},
            {"type": "AllNamespaces", "supported": True},
        ],
        "minKubeVersion": "1.21.0",
        "keywords": ["Keys", "values"],
        "provider": {"name": "Example Corp"},
        "links": [{"name": "Home", "url": "https://example.org/"}, {"url": "javascript:x"}],
        "maintainers": [{"name": "Ada", "email": "ada@example.org"}],
        "apiServiceDefinitions": {"owned": [{"name": "v1.etcd.example.org"}]},
        "annotations": {
            "capabilities": "Deep Insights",
            "categories": "Database, Storage",
            "description": "A key-value store",
            "createdAt": "2024-02-03",
            "operatorframework.io/suggested-namespace": "etcd-system",
            "operators.openshift.io/infrastructure-features": '["disconnected"]',
            "features.operators.openshift.io/fips-compliant": "true",
            "features.operators.openshift.io/cnf": "false",
        },
    }
    return {"type": "olm.csv.metadata", "value": {**value, **more}}


def bundle_blob(
    version: str = "1.0.0",
    package: str = "etcd",
    *,
    properties: Iterable[Any] = (),
    csv: Blob | None = None,
    **more: Any,
) -> Blob:
    own = {"type": "olm.package", "value": {"packageName": package, "version": version}}
    gvk = {"group": "etcd.example.org", "version": "v1", "kind": "EtcdCluster"}
    return {
        "schema": "olm.bundle",
        "package": package,
        "name": f"{package}.v{version}",
        "image": f"registry.example/{package}:{version}",
        "properties": [
            own,
            {"type": "olm.gvk", "value": gvk},
            csv or csv_metadata(),
            *properties,
        ],
        "relatedImages": [{"name": "", "image": f"registry.example/{package}-run:{version}"}],
        **more,
    }


def package(name: str = "etcd", versions: Sequence[str] = ("1.0.0", "1.1.0")) -> list[Blob]:
    """A sound package: one channel in which each version replaces the one before."""
    names = [f"{name}.v{version}" for version in versions]
    entries: list[Blob] = [{"name": names[0]}]
    entries += [{"name": new, "replaces": old} for old, new in pairwise(names)]
    return [
        package_blob(name),
        channel_blob(name, "stable", entries),
        *(bundle_blob(version, name) for version in versions),
    ]


def jsonl(blobs: Iterable[Blob]) -> bytes:
    return b"".join(json.dumps(blob).encode() + b"\n" for blob in blobs)
