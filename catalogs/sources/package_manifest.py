"""Reads CatalogSources from the PackageManifest API: packages, channels, versions, no graph.

A channel of FBC needs exactly one head, so the head's entry skips all others, which is not in the
API. Pages of such a catalog must show that; see `catalogs.sources.access_methods.fidelity`.

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

from catalogs.sources.access_methods import PACKAGE_MANIFEST
from catalogs.sources.base import LIMITS, Fetched, Limits, SourceError
from catalogs.sources.catalogd import OpenClient, cluster_source
from catalogs.sources.registry.blobs import (
    Blob,
    Deprecation,
    as_lines,
    channel_blob,
    deprecations_blob,
)
from catalogs.sources.spool import spool

PATH = "/apis/packages.operators.coreos.com/v1/packagemanifests"
LARGEST = 512 * 1024**2  # bytes of one answer
_PROVIDED, _REQUIRED = "owned", "required"


class _ManifestStatus(msgspec.Struct):
    catalogSource: str
    catalogSourceNamespace: str
    packageName: str


class _PackageManifest(msgspec.Struct):
    status: _ManifestStatus


class _ManifestList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class PackageManifestSource:
    """The packages of one CatalogSource, as generated FBC."""

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
        # The selector only shortens the answer; a package's status names its CatalogSource.
        selector = f"catalog={name},catalog-namespace={namespace}"
        self._list = cluster_source(
            f"The PackageManifest API, asked for {label},",
            PATH,
            open_client,
            query=(("labelSelector", selector),),
            limits=replace(limits, body=min(limits.body, LARGEST)),
            access_method=PACKAGE_MANIFEST,
        )

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        """See ContentSource; `exact` is False. The API has no "not modified"."""
        listed = self._list.fetch()
        if listed.body is None:  # not without a stamp
            return listed
        with listed.body as body, mmap.mmap(body.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            view = memoryview(whole)
            try:
                packages = self._own(view)
                if not packages:
                    raise self._absent(listed)
                fetched = spool(self._blobs(packages), self.label, limits=self._limits)
            finally:
                packages = {}  # views of the map, which can't be closed before they are released
                view.release()
        return replace(fetched, requests=listed.requests, bytes_read=listed.bytes_read, exact=False)

    def _own(self, view: memoryview) -> dict[str, msgspec.Raw]:
        """The packages of this CatalogSource by name, not yet decoded."""
        own: dict[str, msgspec.Raw] = {}
        try:
            for item in msgspec.json.decode(view, type=_ManifestList).items or ():
                try:
                    status = msgspec.json.decode(item, type=_PackageManifest).status
                except msgspec.ValidationError:
                    continue  # its CatalogSource is unknown
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
    def _blobs(packages: Mapping[str, msgspec.Raw]) -> Iterator[bytes]:
        for name in sorted(packages):
            yield from as_lines(_package(name, msgspec.json.decode(packages[name])["status"]))


def _package(name: str, status: Blob) -> Iterator[Blob]:
    yield {
        "schema": "olm.package",
        "name": name,
        "defaultChannel": _text(status.get("defaultChannel")),
    }
    versions: dict[str, str] = {}
    heads: dict[str, Blob] = {}
    gone: list[Deprecation] = list(_deprecation("olm.package", "", status))
    channels = _dicts(status.get("channels"))
    for channel in sorted(channels, key=lambda channel: _text(channel.get("name"))):
        title, head = _text(channel.get("name")), _text(channel.get("currentCSV"))
        gone += _deprecation("olm.channel", title, channel)
        shown = channel.get("currentCSVDesc")
        if head and isinstance(shown, dict):
            heads[head] = shown
            versions[head] = _text(shown.get("version"))
        others = []
        for entry in _dicts(channel.get("entries")):
            bundle = _text(entry.get("name"))
            versions.setdefault(bundle, _text(entry.get("version")))
            gone += [item for item in _deprecation("olm.bundle", bundle, entry) if item not in gone]
            others += [bundle] if bundle != head else []
        skips = {"skips": others} if others else {}
        entries: list[Blob] = [{"name": head, **skips}, *({"name": other} for other in others)]
        yield channel_blob(name, title, entries)
    for bundle in sorted(versions):
        yield _bundle(name, bundle, versions[bundle], heads.get(bundle, {}))
    if gone:
        yield deprecations_blob(name, gone)


def _deprecation(schema: str, name: str, holder: Blob) -> Iterator[Deprecation]:
    deprecation = holder.get("deprecation")
    if isinstance(deprecation, dict):
        yield Deprecation(schema, name, _text(deprecation.get("message")))


def _bundle(package: str, name: str, version: str, shown: Blob) -> Blob:
    """A bundle without its image; of heads the manifest has the data of the API."""
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
    for crd in _dicts(crds.get(part) if isinstance(crds, dict) else None):
        group = _text(crd.get("name")).partition(".")[2]
        kind, version = _text(crd.get("kind")), _text(crd.get("version"))
        yield {"group": group, "kind": kind, "version": version}


def _dicts(value: Any) -> list[Blob]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
