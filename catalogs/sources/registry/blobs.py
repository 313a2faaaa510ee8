"""FBC blobs rebuilt from a registry's answers. Pure.

They are not the author's bytes: answers have no blobs of other schemas, and neither manifests nor
related images of bundles that are not a channel's head.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

Blob = dict[str, Any]


class Deprecation(NamedTuple):
    """An entry of olm.deprecations; `name` is empty for the package itself."""

    schema: str
    name: str
    message: str


# Field of olm.csv.metadata -> field of the CSV's spec that it is taken from, as opm's migration
# from olm.bundle.object to olm.csv.metadata does (operator-registry, alpha/property/property.go).
_SAME_NAME = (
    *("description", "displayName", "installModes", "keywords", "links", "maintainers"),
    *("maturity", "minKubeVersion", "nativeAPIs", "provider"),
)
_FROM_SPEC = {
    "apiServiceDefinitions": "apiservicedefinitions",
    "crdDescriptions": "customresourcedefinitions",
    **dict(zip(_SAME_NAME, _SAME_NAME, strict=True)),
}
_FROM_METADATA = ("annotations", "labels")


def package_blob(name: str, default_channel: str, csv: Mapping[str, Any] | None) -> Blob:
    """olm.package, with the icon of `csv`, the default channel's head."""
    blob: Blob = {"schema": "olm.package", "name": name, "defaultChannel": default_channel}
    icons = _spec(csv).get("icon")
    icon = icons[0] if isinstance(icons, list) and icons else None
    if isinstance(icon, dict) and icon.get("base64data"):
        blob["icon"] = {"base64data": icon["base64data"], "mediatype": icon.get("mediatype", "")}
    return blob


def channel_blob(package: str, name: str, entries: Iterable[Blob]) -> Blob:
    return {"schema": "olm.channel", "name": name, "package": package, "entries": list(entries)}


def entry(bundle: Any) -> Blob:
    """The channel entry of a Bundle of ListBundles."""
    blob: Blob = {"name": bundle.csvName}
    if bundle.replaces:
        blob["replaces"] = bundle.replaces
    if bundle.skips:
        blob["skips"] = list(bundle.skips)
    if bundle.skipRange:
        blob["skipRange"] = bundle.skipRange
    return blob


def bundle_blob(bundle: Any, full: Any | None = None) -> Blob:
    """olm.bundle of a Bundle of ListBundles and, where requested, GetBundle's answer `full`."""
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
            {"type": "olm.bundle.object", "value": {"data": _base64(text)}} for text in objects
        ]
    images = _spec(csv).get("relatedImages")
    if isinstance(images, list):
        blob["relatedImages"] = [image for image in images if isinstance(image, dict)]
    return blob


def deprecations_blob(package: str, deprecations: Iterable[Deprecation]) -> Blob:
    """olm.deprecations."""
    entries = [
        {"reference": {"schema": schema, **({"name": name} if name else {})}, "message": message}
        for schema, name, message in deprecations
    ]
    return {"schema": "olm.deprecations", "package": package, "entries": entries}


def properties_of(bundle: Any) -> list[Blob]:
    """The properties of a Bundle; older servers, without properties, give them in other fields."""
    properties: list[Blob] = [
        {"type": item.type, "value": _value(item.value)} for item in bundle.properties
    ]
    kinds = {item["type"] for item in properties}
    if "olm.package" not in kinds:
        value = {"packageName": bundle.packageName, "version": bundle.version}
        properties.append({"type": "olm.package", "value": value})
    for kind, apis in (("olm.gvk", bundle.providedApis), ("olm.gvk.required", bundle.requiredApis)):
        if kind not in kinds:
            properties += [
                {
                    "type": kind,
                    "value": {"group": api.group, "kind": api.kind, "version": api.version},
                }
                for api in apis
            ]
    if not bundle.properties:
        properties += [
            {
                "type": _DEPENDENCIES.get(dependency.type, dependency.type),
                "value": _dependency(dependency),
            }
            for dependency in bundle.dependencies
            if dependency.type != "olm.gvk"  # the same as requiredApis
        ]
    return properties


_DEPENDENCIES = {"olm.package": "olm.package.required"}


def _dependency(dependency: Any) -> Any:
    value = _value(dependency.value)
    if dependency.type == "olm.package" and isinstance(value, dict):
        name, version = value.get("packageName"), value.get("version")
        return {"packageName": name, "versionRange": version}
    return value


def _value(text: str) -> Any:
    """The JSON of a property, or the text when it is not JSON, so that the lint reports it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def parsed_csv(text: str) -> dict[str, Any] | None:
    """The ClusterServiceVersion, or None when it is absent or unreadable."""
    try:
        csv = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    return csv if isinstance(csv, dict) else None


def csv_metadata(csv: Mapping[str, Any]) -> Blob:
    """Value of the property olm.csv.metadata."""
    meta, spec = csv.get("metadata"), _spec(csv)
    value = {
        name: meta[name] for name in _FROM_METADATA if isinstance(meta, dict) and meta.get(name)
    }
    return value | {name: spec[source] for name, source in _FROM_SPEC.items() if spec.get(source)}


def _spec(csv: Mapping[str, Any] | None) -> Mapping[str, Any]:
    spec = csv.get("spec") if csv else None
    return spec if isinstance(spec, dict) else {}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


def as_lines(blobs: Iterable[Blob]) -> Iterator[bytes]:
    """The blobs as JSON Lines with sorted keys, without lone surrogates, which are refused."""
    for blob in blobs:
        text = json.dumps(blob, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        yield text.encode("utf-8", "replace") + b"\n"
