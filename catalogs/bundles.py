"""Facts of one bundle from its properties, related images and CSV.

Pure: knows the shapes of `catalogs.fbc`; the package around the bundle is `catalogs.derive`'s.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import msgspec

from catalogs import fbc, semver
from catalogs.fbc import Fault

PACKAGE_PROPERTY = "olm.package"
_DOMAIN = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)"
_PATH = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_DOMAIN}(?:\.{_DOMAIN})*(?::[0-9]+)?/)?{_PATH}(?:/{_PATH})*"
    r"(?::[\w][\w.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-f]{32,})?"
)


class BundleFacts(NamedTuple):
    """One bundle; the names are those of the model. `gvks` are (group, version, kind, required)."""

    name: str
    version: str
    release: str
    version_key: str
    image: str
    display_name: str
    install_modes: list[str]
    install_modes_known: bool
    webhooks: int | None
    owned_api_services: int | None
    min_kube_version: str
    max_openshift_version: str
    suggested_namespace: str
    released_at: str
    required_packages: list[dict[str, str]]
    constraint_count: int
    gvks: list[tuple[str, str, str, bool]]
    images: list[tuple[str, str]]


@dataclass(slots=True)
class Gathered:
    """The properties of one bundle by what they say."""

    packages: list[fbc.PackageProperty] = field(default_factory=list)
    gvks: list[tuple[str, str, str, bool]] = field(default_factory=list)
    required: list[dict[str, str]] = field(default_factory=list)
    constraints: int = 0
    objects: int = 0
    max_openshift: str = ""
    faults: list[Fault] = field(default_factory=list)


_gvk = msgspec.json.Decoder(fbc.Gvk).decode


def gather(properties: list[fbc.PropertyIn]) -> Gathered:
    out = Gathered()
    for i, found in enumerate(properties):
        kind = found.type
        try:
            if kind in ("olm.gvk", "olm.gvk.required"):
                gvk = _gvk(found.value)
                required = kind == "olm.gvk.required"
                out.gvks.append((gvk.group or "", gvk.version or "", gvk.kind or "", required))
            elif kind == "olm.bundle.object":
                out.objects += 1
            elif kind == PACKAGE_PROPERTY:
                out.packages.append(msgspec.json.decode(found.value, type=fbc.PackageProperty))
            elif kind == "olm.package.required":
                needed = msgspec.json.decode(found.value, type=fbc.RequiredPackage)
                out.required.append(
                    {"name": needed.packageName or "", "range": needed.versionRange or ""}
                )
            elif kind == "olm.constraint":
                out.constraints += 1
            elif kind == "olm.maxOpenShiftVersion":
                value = msgspec.json.decode(found.value)
                out.max_openshift = str(value).strip('"') if value is not None else ""
        except msgspec.DecodeError as error:
            message = str(error).split(" - at `")[0]
            out.faults.append(
                Fault(f"properties[{i}].value", f'parse property[{i}] of type "{kind}": {message}')
            )
    return out


def bundle_facts(
    name: str,
    version: str,
    release: str,
    key: str,
    image: str,
    images: list[tuple[str, str]],
    gathered: Gathered,
    csv: fbc.Csv | None,
) -> BundleFacts:
    facts = csv.facts if csv else fbc.CsvFacts()
    annotations = facts.annotations or fbc.Annotations()
    services = facts.apiServiceDefinitions
    owned = len(services.owned or ()) if services else 0
    return BundleFacts(
        name=name,
        version=version,
        release=release,
        version_key=key,
        image=image,
        display_name=facts.displayName or "",
        install_modes=supported(facts.installModes),
        install_modes_known=facts.installModes is not None,
        webhooks=csv.webhooks if csv else None,
        owned_api_services=owned if csv else None,
        min_kube_version=facts.minKubeVersion or "",
        max_openshift_version=gathered.max_openshift,
        suggested_namespace=annotations.suggestedNamespace or "",
        released_at=annotations.createdAt or "",
        required_packages=gathered.required,
        constraint_count=gathered.constraints,
        gvks=gathered.gvks,
        images=images,
    )


def supported(modes: list[fbc.InstallMode] | None) -> list[str]:
    return [mode.type for mode in modes or () if mode.supported and mode.type]


@lru_cache(maxsize=4096)
def range_fault(text: str) -> str:
    try:
        semver.blang_range(text)
    except ValueError as error:
        return str(error)
    return ""


@lru_cache(maxsize=4096)
def is_image(text: str) -> bool:
    return len(text) < 1000 and _IMAGE.fullmatch(text) is not None
