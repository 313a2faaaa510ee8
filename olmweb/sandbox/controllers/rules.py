"""The rules of PlatformOperators phase 0 and rukpak, as functions of catalog facts.

Which bundle is chosen, whether it converts, what a release would own and who owns it already.
Wordings are the controllers' own, misspellings included. Must not know the store.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_NUMBER = r"(?:0|[1-9]\d*)"
_SEMVER = re.compile(
    rf"^({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$"
)
SYSTEM_NAMESPACE = "openshift-platform-operators"
CONVERSION = "convert registry+v1 bundle to plain+v0 bundle"

# A pre-release part compares numbers as numbers and below words; having none is highest.
_Version = tuple[int, int, int, int, tuple[tuple[int, int, str], ...]]
Owned = tuple[str, str, str]  # kind, namespace, name


def parse_version(text: str) -> _Version | None:
    """A sort key of a strict semver without its build metadata; None when it is none."""
    found = _SEMVER.match(text)
    if not found:
        return None
    parts = found[4].split(".") if found[4] else []
    key = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts)
    return int(found[1]), int(found[2]), int(found[3]), 0 if parts else 1, key


@dataclass(frozen=True, slots=True)
class Release:
    """What the rules need to know of one bundle."""

    package: str
    version: str
    image: str
    modes: frozenset[str]
    owns_api_services: bool
    has_webhooks: bool
    namespace: str
    crds: tuple[str, ...]
    manifests: tuple[Mapping[str, Any], ...] = ()  # without the ClusterServiceVersion

    def objects(self) -> list[Owned]:
        """What a Helm release of it would own, in the order in which Helm looks at it."""
        return [
            ("Namespace", "", self.namespace),
            *(("CustomResourceDefinition", "", name) for name in self.crds),
            # A Role without a namespace goes where Helm keeps the release.
            *(
                ("Role", SYSTEM_NAMESPACE, str(one["metadata"]["name"]))
                for one in self.manifests
                if one["kind"] == "Role"
            ),
        ]


def read_release(blob: Mapping[str, Any]) -> Release:
    """From an olm.bundle blob."""
    properties = blob["properties"]
    version = next(p["value"]["version"] for p in properties if p["type"] == "olm.package")
    objects = [
        json.loads(base64.b64decode(item["value"]["data"]))
        for item in properties
        if item["type"] == "olm.bundle.object"
    ]
    spec: Mapping[str, Any] = {}
    for item in properties:
        if item["type"] == "olm.csv.metadata":
            value = item["value"]
            spec = {**value, "customresourcedefinitions": value.get("crdDescriptions", {})}
            spec = {**spec, "apiservicedefinitions": value.get("apiServiceDefinitions", {})}
    for csv in objects:
        if csv["kind"] == "ClusterServiceVersion":
            spec = {**csv["spec"], "annotations": csv["metadata"].get("annotations", {})}
    suggested = spec.get("annotations", {}).get("operatorframework.io/suggested-namespace")
    owned = spec.get("customresourcedefinitions", {}).get("owned", [])
    return Release(
        package=blob["package"],
        version=version,
        image=blob["image"],
        modes=frozenset(m["type"] for m in spec.get("installModes", []) if m["supported"]),
        owns_api_services=bool(spec.get("apiservicedefinitions", {}).get("owned")),
        has_webhooks=bool(spec.get("webhookdefinitions")),
        namespace=suggested or f"{blob['package']}-system",
        crds=tuple(crd["name"] for crd in owned),
        manifests=tuple(one for one in objects if one["kind"] != "ClusterServiceVersion"),
    )


def pick(releases: Iterable[Release]) -> Release | None:
    """The first strictly highest version over all channels; channels and deprecations don't count.

    A first one that is no semver is never beaten, as in the real filter.
    """
    best: Release | None = None
    for release in releases:
        if best is None:
            best = release
            continue
        mine, its = parse_version(release.version), parse_version(best.version)
        if mine and its and mine > its:
            best = release
    return best


def is_ready(source: Mapping[str, Any] | None) -> bool:
    """Whether a CatalogSource counts: connected, with an address, READY."""
    state = (source or {}).get("status", {}).get("connectionState") or {}
    return bool(state.get("address")) and state.get("lastObservedState") == "READY"


def conversion_error(release: Release) -> str:
    """Why the bundle can't be unpacked, or "": only the first broken rule is told."""
    if "AllNamespaces" not in release.modes:
        return f"{CONVERSION}: AllNamespace install mode must be enabled"
    if release.owns_api_services:
        return f"{CONVERSION}: apiServiceDefintions are not supported"
    if release.has_webhooks:
        return f"{CONVERSION}: webhookDefiniions are not supported"
    return ""


def ownership_error(release: str, wanted: Iterable[Owned], existing: Mapping[Owned, str]) -> str:
    """Helm's refusal, or "". `existing` maps an object to the release that owns it, "" for none."""
    for item in wanted:
        if item not in existing or existing[item] == release:
            continue
        kind, namespace, name = item
        return (
            "rendered manifests contain a resource that already exists. Unable to continue with "
            f'install: {kind} "{name}" in namespace "{namespace}" exists and cannot be imported '
            "into the current release: invalid ownership metadata; "
            + _metadata_error(release, existing[item])
        )
    return ""


def _metadata_error(release: str, owner: str) -> str:
    key = 'key "meta.helm.sh/release-name"'
    if owner:
        return (
            f'annotation validation error: {key} must equal "{release}": current value is "{owner}"'
        )
    return (
        'label validation error: missing key "app.kubernetes.io/managed-by": must be set to '
        f'"Helm"; annotation validation error: missing {key}: must be set to "{release}"; '
        'annotation validation error: missing key "meta.helm.sh/release-namespace": must be set '
        f'to "{SYSTEM_NAMESPACE}"'
    )
