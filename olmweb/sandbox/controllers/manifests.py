"""The PackageManifest API of the sandbox's CatalogSources, as OLM's packageserver answers it.

One list without pages or watch; no edges of the upgrade graph, no icons; a CatalogSource without a
connection is missing with all its packages. Owns the shape; the content is that of the catalogs.
"""

import base64
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from olmweb.sandbox.apiserver import access, errors
from olmweb.sandbox.apiserver.messages import Request, Response, compressed, json_response
from olmweb.sandbox.apiserver.store import Object, Store

GROUP, PLURAL = "packages.operators.coreos.com", "packagemanifests"
_ROOT = f"/apis/{GROUP}/v1"
Blob = Mapping[str, Any]


class PackageManifests:
    """`catalogs` has the blobs of those CatalogSources that answer, by name."""

    def __init__(self, store: Store, catalogs: Mapping[str, Sequence[Blob]]) -> None:
        self._store = store
        self._catalogs = catalogs
        self._made: dict[str, list[Object]] = {}

    def answer(self, request: Request) -> Response | None:
        """None for a request that is not for this API. Raises ApiError."""
        if request.path not in (_ROOT, f"{_ROOT}/{PLURAL}"):
            return None
        if request.method != "GET":
            raise errors.method_not_allowed()
        if request.path == _ROOT:
            access.require_path(request.who, request.path)
            return json_response(_discovery())
        access.require(request.who, "list", GROUP, PLURAL, "", "")
        wanted = dict(
            pair.split("=", 1)
            for pair in request.query.get("labelSelector", "").split(",")
            if "=" in pair
        )
        items = [
            item
            for source in self._store.items("CatalogSource")[0]
            for item in self._of(source)
            if wanted.items() <= item["metadata"]["labels"].items()
        ]
        listed = {
            "kind": "PackageManifestList",
            "apiVersion": f"{GROUP}/v1",
            "metadata": {},
            "items": items,
        }
        return compressed(json_response(listed), request.headers.get("accept-encoding", ""))

    def _of(self, source: Object) -> list[Object]:
        name = source["metadata"]["name"]
        state = source.get("status", {}).get("connectionState", {}).get("lastObservedState")
        if state != "READY" or name not in self._catalogs:
            return []
        if name not in self._made:
            self._made[name] = list(_manifests(source, self._catalogs[name]))
        return self._made[name]


def _discovery() -> Object:
    resource = {
        "name": PLURAL,
        "singularName": "",
        "namespaced": True,
        "kind": "PackageManifest",
        "verbs": ["get", "list"],
    }
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/v1",
        "resources": [resource],
    }


def _manifests(source: Object, blobs: Sequence[Blob]) -> list[Object]:
    channels: dict[str, list[Blob]] = defaultdict(list)
    bundles: dict[tuple[str, str], Blob] = {}
    for blob in blobs:
        if blob["schema"] == "olm.channel":
            channels[blob["package"]].append(blob)
        elif blob["schema"] == "olm.bundle":
            bundles[blob["package"], blob["name"]] = blob
    meta = source["metadata"]
    return [
        {
            "metadata": {
                "name": blob["name"],
                "namespace": meta["namespace"],
                "creationTimestamp": meta["creationTimestamp"],
                "labels": {"catalog": meta["name"], "catalog-namespace": meta["namespace"]},
            },
            "spec": {},
            "status": {
                "catalogSource": meta["name"],
                "catalogSourceDisplayName": source["spec"].get("displayName", ""),
                "catalogSourceNamespace": meta["namespace"],
                "catalogSourcePublisher": source["spec"].get("publisher", ""),
                "packageName": blob["name"],
                "defaultChannel": blob["defaultChannel"],
                "channels": [_channel(one, bundles) for one in channels[blob["name"]]],
            },
        }
        for blob in blobs
        if blob["schema"] == "olm.package"
    ]


def _channel(channel: Blob, bundles: Mapping[tuple[str, str], Blob]) -> Object:
    entries = channel["entries"]
    superseded = {name for one in entries for name in (one.get("replaces"), *one.get("skips", ()))}
    head = next(one["name"] for one in entries if one["name"] not in superseded)

    def version(name: str) -> str:
        found = bundles.get((channel["package"], name), {})
        return str(_value(found, "olm.package").get("version", ""))

    return {
        "name": channel["name"],
        "currentCSV": head,
        "currentCSVDesc": {
            **_shown(bundles.get((channel["package"], head), {})),
            "version": version(head),
        },
        "entries": [{"name": one["name"], "version": version(one["name"])} for one in entries],
    }


def _shown(bundle: Blob) -> Object:
    """Of a head, what its manifest or olm.csv.metadata says, in a ClusterServiceVersion's words."""
    told = _value(bundle, "olm.csv.metadata") or _manifest(bundle)
    names = {"crdDescriptions": "customresourcedefinitions", "nativeAPIs": "nativeApis"}
    left_out = ("labels", "apiServiceDefinitions", "icon", "install", "replaces")
    found = {names.get(key, key): told[key] for key in told if key not in left_out}
    images = [one["image"] for one in bundle.get("relatedImages", ())]
    return {**found, "relatedImages": images}


def _manifest(bundle: Blob) -> Object:
    for one in bundle.get("properties", ()):
        if one["type"] == "olm.bundle.object":
            found = json.loads(base64.b64decode(one["value"]["data"]))
            if found.get("kind") == "ClusterServiceVersion":
                return {**found["spec"], "annotations": found["metadata"].get("annotations", {})}
    return {}


def _value(bundle: Blob, kind: str) -> Object:
    found = [one["value"] for one in bundle.get("properties", ()) if one["type"] == kind]
    return json.loads(json.dumps(found[0])) if found else {}
