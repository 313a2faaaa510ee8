"""FBC blobs made of a registry's answers: what it told, in the form that a catalog has.

Pure: messages in, dicts out. Not the author's bytes: an answer has no blob of a schema of its own,
and of the bundles that are no channel's head neither manifests nor related images.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

Blob = dict[str, Any]

# Field of olm.csv.metadata -> field of the CSV's spec that it is taken from, as opm's migration
# from olm.bundle.object to olm.csv.metadata does (operator-registry, alpha/property/property.go).
_FROM_SPEC = {
    "apiServiceDefinitions": "apiservicedefinitions",
    "crdDescriptions": "customresourcedefinitions",
    "description": "description",
    "displayName": "displayName",
    "installModes": "installModes",
    "keywords": "keywords",
    "links": "links",
    "maintainers": "maintainers",
    "maturity": "maturity",
    "minKubeVersion": "minKubeVersion",
    "nativeAPIs": "nativeAPIs",
    "provider": "provider",
}
_FROM_METADATA = ("annotations", "labels")


def package_blob(name: str, default_channel: str, csv: Mapping[str, Any] | None) -> Blob:
    """olm.package; its icon is the one of the default channel's head, `csv`."""
    blob: Blob = {"schema": "olm.package", "name": name, "defaultChannel": default_channel}
    icons = _spec(csv).get("icon")
    icon = icons[0] if isinstance(icons, list) and icons else None
    if isinstance(icon, dict) and icon.get("base64data"):
        blob["icon"] = {"base64data": icon["base64data"], "mediatype": icon.get("mediatype", "")}
    return blob


def channel_blob(package: str, name: str, entries: Iterable[Blob]) -> Blob:
    return {"schema": "olm.channel", "name": name, "package": package, "entries": list(entries)}


def entry(bundle: Any) -> Blob:
    """The entry of a channel that a Bundle of ListBundles stands for."""
    found: Blob = {"name": bundle.csvName}
    if bundle.replaces:
        found["replaces"] = bundle.replaces
    if bundle.skips:
        found["skips"] = list(bundle.skips)
    if bundle.skipRange:
        found["skipRange"] = bundle.skipRange
    return found


def bundle_blob(bundle: Any, full: Any | None = None) -> Blob:
    """olm.bundle of a Bundle of ListBundles, and of GetBundle's answer where that was asked for."""
    csv = parsed_csv((full or bundle).csvJson)
    blob: Blob = {
        "schema": "olm.bundle",
        "name": bundle.csvName,
        "package": bundle.packageName,
        "image": bundle.bundlePath,
        "properties": properties_of(bundle),
    }
    if bundle.bundlePath:
        if csv is not None:
            blob["properties"].append({"type": "olm.csv.metadata", "value": csv_metadata(csv)})
    else:
        # Without an image the manifests themselves are the bundle.
        objects = (full or bundle).object or bundle.object
        blob["properties"] += [
            {"type": "olm.bundle.object", "value": {"data": _base64(one)}} for one in objects
        ]
    images = _spec(csv).get("relatedImages")
    if isinstance(images, list):
        blob["relatedImages"] = [one for one in images if isinstance(one, dict)]
    return blob


def deprecations_blob(package: str, entries: Iterable[tuple[str, str, str]]) -> Blob | None:
    """olm.deprecations of (schema, name, message); None when nothing is deprecated."""
    listed = [
        {
            "reference": {"schema": schema, **({"name": name} if name else {})},
            "message": message,
        }
        for schema, name, message in entries
    ]
    if not listed:
        return None
    return {"schema": "olm.deprecations", "package": package, "entries": listed}


def properties_of(bundle: Any) -> list[Blob]:
    """The properties of a Bundle; a server from before there were any tells them otherwise."""
    found = [{"type": one.type, "value": _value(one.value)} for one in bundle.properties]
    kinds = {one["type"] for one in found}
    if "olm.package" not in kinds:
        value = {"packageName": bundle.packageName, "version": bundle.version}
        found.append({"type": "olm.package", "value": value})
    for kind, apis in (("olm.gvk", bundle.providedApis), ("olm.gvk.required", bundle.requiredApis)):
        if kind not in kinds:
            found += [
                {
                    "type": kind,
                    "value": {"group": api.group, "kind": api.kind, "version": api.version},
                }
                for api in apis
            ]
    if not bundle.properties:
        found += [
            {"type": _DEPENDENCIES.get(one.type, one.type), "value": _dependency(one)}
            for one in bundle.dependencies
            if one.type != "olm.gvk"  # the same as requiredApis
        ]
    return found


_DEPENDENCIES = {"olm.package": "olm.package.required"}


def _dependency(one: Any) -> Any:
    value = _value(one.value)
    if one.type == "olm.package" and isinstance(value, dict):
        name, version = value.get("packageName"), value.get("version")
        return {"packageName": name, "versionRange": version}
    return value


def _value(text: str) -> Any:
    """The JSON of a property; as text what is none, so that the content check names it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def parsed_csv(text: str) -> dict[str, Any] | None:
    """The ClusterServiceVersion, or None where there is none that can be read."""
    try:
        found = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def csv_metadata(csv: Mapping[str, Any]) -> Blob:
    """Value of the property olm.csv.metadata."""
    meta, spec = csv.get("metadata"), _spec(csv)
    found = {
        name: meta[name] for name in _FROM_METADATA if isinstance(meta, dict) and meta.get(name)
    }
    return found | {ours: spec[its] for ours, its in _FROM_SPEC.items() if spec.get(its)}


def _spec(csv: Mapping[str, Any] | None) -> Mapping[str, Any]:
    spec = csv.get("spec") if csv else None
    return spec if isinstance(spec, dict) else {}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
