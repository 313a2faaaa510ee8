"""A CatalogSource as the PackageManifest API tells it: packages, channels, versions, no graph.

What the API leaves out stays out, with one exception: a channel of FBC has exactly one head, so the
head's entry says that it skips the others, which the API does not say. Whoever shows such a catalog
must say so; `catalogs.sources.ways.tells` knows it by its way.

Facts of the API: operator-lifecycle-manager, pkg/package-server. A list is one answer, never in
pages; it has the packages of all CatalogSources, several of one name; one that OLM has no
connection to is missing with all its packages.
"""

import base64
import json
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from catalogs.sources.base import LIMITS, Fetched, Limits, SourceError
from catalogs.sources.catalogd import OpenClient, cluster_source
from catalogs.sources.spool import spool
from catalogs.sources.ways import PACKAGE_MANIFEST

PATH = "/apis/packages.operators.coreos.com/v1/packagemanifests"
LARGEST = 512 * 1024**2  # bytes of one answer
_PROVIDED, _REQUIRED = "owned", "required"
Blob = dict[str, Any]


class _Status(msgspec.Struct):
    catalogSource: str
    catalogSourceNamespace: str
    packageName: str


class _Manifest(msgspec.Struct):
    status: _Status


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class PackageManifestSource:
    """The packages of one CatalogSource, in FBC that is written anew."""

    def __init__(
        self,
        label: str,
        namespace: str,
        name: str,
        open_client: OpenClient,
        *,
        limits: Limits = LIMITS,
    ) -> None:
        self.label = label
        self._key = (namespace, name)
        self._limits = limits
        # The selector only makes the answer shorter; whose a package is, its status says.
        selector = f"catalog={name},catalog-namespace={namespace}"
        self._list = cluster_source(
            f"The PackageManifest API, asked for {label},",
            PATH,
            open_client,
            query=(("labelSelector", selector),),
            limits=replace(limits, body=min(limits.body, LARGEST)),
            way=PACKAGE_MANIFEST,
        )

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        """See Source; `exact` is False. The API has no "not modified"."""
        listed = self._list.fetch()
        if listed.body is None:  # not without a stamp
            return listed
        with listed.body as body, mmap.mmap(body.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            view = memoryview(whole)
            try:
                found = self._own(view)
                if not found:
                    raise self._absent(listed)
                fetched = spool(self._blobs(found), self.label, limits=self._limits)
            finally:
                found = {}  # views of the map, which can't be closed before they are gone
                view.release()
        return replace(fetched, requests=listed.requests, bytes_read=listed.bytes_read, exact=False)

    def _own(self, view: memoryview) -> dict[str, msgspec.Raw]:
        """The packages of this CatalogSource by name, undecoded: only one at a time is."""
        own: dict[str, msgspec.Raw] = {}
        try:
            for item in msgspec.json.decode(view, type=_List).items or ():
                try:
                    status = msgspec.json.decode(item, type=_Manifest).status
                except msgspec.ValidationError:
                    continue  # not of the API's shape, so that nobody knows whose it is
                if (status.catalogSourceNamespace, status.catalogSource) == self._key:
                    own[status.packageName] = item
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise SourceError(
                f"{self.label} can't be read from the PackageManifest API: its answer is no list "
                f"of PackageManifests ({error}).",
                code="bad-answer",
                hint="The log of OLM's packageserver may say more.",
            ) from None
        return own

    def _absent(self, listed: Fetched) -> SourceError:
        return SourceError(
            f"The PackageManifest API lists no package of {self.label}.",
            code="not-ready",
            hint="It leaves out a CatalogSource that OLM has no connection to; what was read "
            "before stays.",
            requests=listed.requests,
            bytes_read=listed.bytes_read,
        )

    @staticmethod
    def _blobs(found: Mapping[str, msgspec.Raw]) -> Iterator[bytes]:
        for name in sorted(found):
            status = msgspec.json.decode(found[name])["status"]
            for blob in _package(name, status):
                text = json.dumps(blob, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
                yield text.encode("utf-8", "replace") + b"\n"


def _package(name: str, status: Blob) -> Iterator[Blob]:
    yield {
        "schema": "olm.package",
        "name": name,
        "defaultChannel": _text(status.get("defaultChannel")),
    }
    versions: dict[str, str] = {}
    heads: dict[str, Blob] = {}
    gone: list[tuple[str, str, str]] = list(_gone("olm.package", "", status))
    for channel in sorted(_dicts(status.get("channels")), key=lambda one: _text(one.get("name"))):
        title, head = _text(channel.get("name")), _text(channel.get("currentCSV"))
        gone += _gone("olm.channel", title, channel)
        shown = channel.get("currentCSVDesc")
        if head and isinstance(shown, dict):
            heads[head] = shown
            versions[head] = _text(shown.get("version"))
        others = []
        for entry in _dicts(channel.get("entries")):
            bundle = _text(entry.get("name"))
            versions.setdefault(bundle, _text(entry.get("version")))
            gone += [one for one in _gone("olm.bundle", bundle, entry) if one not in gone]
            others += [bundle] if bundle != head else []
        skips = {"skips": others} if others else {}
        entries = [{"name": head, **skips}, *({"name": other} for other in others)]
        yield {"schema": "olm.channel", "package": name, "name": title, "entries": entries}
    for bundle in sorted(versions):
        yield _bundle(name, bundle, versions[bundle], heads.get(bundle, {}))
    if gone:
        yield _deprecations(name, gone)


def _deprecations(package: str, gone: list[tuple[str, str, str]]) -> Blob:
    entries = [
        {"reference": {"schema": schema, **({"name": name} if name else {})}, "message": message}
        for schema, name, message in gone
    ]
    return {"schema": "olm.deprecations", "package": package, "entries": entries}


def _gone(schema: str, name: str, holder: Blob) -> Iterator[tuple[str, str, str]]:
    deprecation = holder.get("deprecation")
    if isinstance(deprecation, dict):
        yield schema, name, _text(deprecation.get("message"))


def _bundle(package: str, name: str, version: str, shown: Blob) -> Blob:
    """The image is not told; the manifest is what the API tells of it, of heads only."""
    manifest = json.dumps(_csv(name, version, shown)).encode()
    value = {"packageName": package, "version": version}
    properties: list[Blob] = [{"type": "olm.package", "value": value}]
    properties += [
        {"type": kind, "value": gvk}
        for kind, part in (("olm.gvk", _PROVIDED), ("olm.gvk.required", _REQUIRED))
        for gvk in _gvks(shown, part)
    ]
    data = {"data": base64.b64encode(manifest).decode()}
    properties.append({"type": "olm.bundle.object", "value": data})
    images = shown.get("relatedImages")
    return {
        "schema": "olm.bundle",
        "package": package,
        "name": name,
        "image": "",
        "properties": properties,
        "relatedImages": [
            {"name": "", "image": image}
            for image in (images if isinstance(images, list) else ())
            if isinstance(image, str)
        ],
    }


def _csv(name: str, version: str, shown: Blob) -> Blob:
    same = (
        *("displayName", "description", "provider", "keywords", "links", "maintainers"),
        *("maturity", "installModes", "minKubeVersion", "icon"),
        *("customresourcedefinitions", "apiservicedefinitions"),
    )
    spec = {key: shown[key] for key in same if shown.get(key)}
    if shown.get("nativeApis"):
        spec["nativeAPIs"] = shown["nativeApis"]
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "annotations": shown.get("annotations") or {}},
        "spec": {"version": version, **spec},
    }


def _gvks(shown: Blob, part: str) -> Iterator[Blob]:
    crds = shown.get("customresourcedefinitions")
    for one in _dicts(crds.get(part) if isinstance(crds, dict) else None):
        group = _text(one.get("name")).partition(".")[2]
        yield {
            "group": group,
            "kind": _text(one.get("kind")),
            "version": _text(one.get("version")),
        }


def _dicts(value: Any) -> list[Blob]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
