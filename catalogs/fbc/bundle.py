"""Facts of one bundle from its properties, related images and CSV.

Pure. `catalogs.fbc.package` reads the package around the bundle.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from catalogs import semver
from catalogs.fbc import blob, csvs
from catalogs.fbc.blob import Fault

PACKAGE_PROPERTY = "olm.package"
_MAX_OPENSHIFT = "olm.maxOpenShiftVersion"
_OPENSHIFT = re.compile(r" *v?[0-9]+(?:\.[0-9]+(?:\.0)?)? *")
CONSTRAINT_SIZE = 131_072
# Of a version or a range: their parsers have caches, which must not fill the memory.
LONGEST_TEXT = 2_000


class BundleGVKRow(NamedTuple):
    """The fields are columns of the model BundleGVK."""

    group: str
    version: str
    kind: str
    required: bool  # False: provided


class RelatedImageRow(NamedTuple):
    """The fields are columns of the model RelatedImage."""

    name: str
    image: str


class BundleFacts(NamedTuple):
    """One bundle; the names are those of the model."""

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
    gvks: list[BundleGVKRow]
    images: list[RelatedImageRow]


@dataclass(slots=True)
class Gathered:
    """The properties of one bundle, by type. `faults` are (code, fault)."""

    packages: list[blob.PackageProperty] = field(default_factory=list)
    package_at: list[int] = field(default_factory=list)  # positions of those properties
    gvks: list[BundleGVKRow] = field(default_factory=list)
    required: list[dict[str, str]] = field(default_factory=list)
    constraints: int = 0
    objects: int = 0
    max_openshift: str = ""
    faults: list[tuple[str, Fault]] = field(default_factory=list)


_gvk = msgspec.json.Decoder(blob.Gvk | None).decode
_package = msgspec.json.Decoder(blob.PackageProperty | None).decode
_required = msgspec.json.Decoder(blob.RequiredPackage | None).decode


def gather(properties: list[blob.PropertyIn]) -> Gathered:
    """Reads every property, and lists the faults that opm or OLM would report; none raises.

    As in Go, null is an empty value and a property without a value is a fault.
    """
    out = Gathered()
    limits = 0
    for i, item in enumerate(properties):
        kind = item.type
        if item.value is blob.ABSENT:
            _fault(out, i, kind or "", "unexpected end of JSON input")
            continue
        try:
            if kind in ("olm.gvk", "olm.gvk.required"):
                gvk = _gvk(item.value) or blob.Gvk()
                required = kind == "olm.gvk.required"
                out.gvks.append(
                    BundleGVKRow(gvk.group or "", gvk.version or "", gvk.kind or "", required)
                )
            elif kind == "olm.bundle.object":
                _object(out, i, item.value)
            elif kind == PACKAGE_PROPERTY:
                out.packages.append(_package(item.value) or blob.PackageProperty())
                out.package_at.append(i)
            elif kind == "olm.package.required":
                needed = _required(item.value) or blob.RequiredPackage()
                out.required.append(
                    {"name": needed.packageName or "", "range": needed.versionRange or ""}
                )
            elif kind == "olm.constraint":
                out.constraints += 1
                if fault := constraint_fault(bytes(item.value)):
                    field = f"properties[{i}].value"
                    out.faults.append(
                        ("constraint", Fault(field, f"parse olm.constraint: {fault}"))
                    )
            elif kind == _MAX_OPENSHIFT:
                limits += 1
                _max_openshift(out, i, item.value, limits)
        except (msgspec.DecodeError, RecursionError) as error:
            _fault(out, i, kind or "", str(error).split(" - at `")[0])
    return out


def _fault(out: Gathered, i: int, kind: str, message: str) -> None:
    message = f'parse property[{i}] of type "{kind}": {message}'
    out.faults.append(("property", Fault(f"properties[{i}].value", message)))


def _object(out: Gathered, i: int, value: msgspec.Raw) -> None:
    """Counts a manifest; opm refuses it unless it is base64 of JSON or YAML."""
    out.objects += 1
    manifest, fault = csvs.read_manifest(value)
    if fault:
        message = f"parse property at index {i} as bundle object: {fault}"
        out.faults.append(("bundle-object", Fault(f"properties[{i}].value.data", message)))
    elif fault := csvs.manifest_fault(manifest):
        message = f"convert bundle object property at index {i} to JSON: {fault}"
        out.faults.append(("bundle-object", Fault(f"properties[{i}].value.data", message)))


def _max_openshift(out: Gathered, i: int, value: msgspec.Raw, count: int) -> None:
    """OLM's rules (controller/operators/openshift/helpers.go), which apply after the install."""
    read = msgspec.json.decode(value)
    text = str(read).strip('"') if read is not None else ""
    out.max_openshift = text
    fault = ""
    if count > 1:
        fault = f'defining more than one "{_MAX_OPENSHIFT}" property is not allowed'
    elif not text:
        fault = 'value cannot be "" (an empty string)'
    elif not _OPENSHIFT.fullmatch(text):
        fault = (
            f"property {_MAX_OPENSHIFT} must specify only <major>.<minor> version, got invalid "
            f"value {text[:80]}"
        )
    if fault:
        out.faults.append(("max-openshift", Fault(f"properties[{i}].value", fault)))


class _Rule(msgspec.Struct, forbid_unknown_fields=True):
    rule: str | None = None


class _PackageRule(msgspec.Struct, forbid_unknown_fields=True):
    packageName: str | None = None
    versionRange: str | None = None


class _GvkRule(msgspec.Struct, forbid_unknown_fields=True):
    group: str | None = None
    kind: str | None = None
    version: str | None = None


class _Compound(msgspec.Struct, forbid_unknown_fields=True):
    constraints: "list[_Constraint] | None" = None


class _Constraint(msgspec.Struct, forbid_unknown_fields=True):
    failureMessage: str | None = None
    cel: _Rule | None = None
    package: _PackageRule | None = None
    gvk: _GvkRule | None = None
    all: _Compound | None = None
    any: _Compound | None = None
    not_: _Compound | None = msgspec.field(default=None, name="not")


_constraint = msgspec.json.Decoder(_Constraint).decode


def constraint_fault(value: bytes) -> str:
    """The reason why OLM can't read an olm.constraint, or "" (api, pkg/constraints)."""
    if len(value) > CONSTRAINT_SIZE:
        return f"olm.constraint value is greater than max constraint size {CONSTRAINT_SIZE} bytes"
    try:
        waiting = [_constraint(value)]
    except RecursionError:
        return "it nests too deep"
    except msgspec.DecodeError as error:
        return str(error)
    while waiting:
        constraint = waiting.pop()
        compounds = [
            part for part in (constraint.all, constraint.any, constraint.not_) if part is not None
        ]
        if not (compounds or constraint.cel or constraint.package or constraint.gvk):
            return "constraint is empty"
        for part in compounds:
            waiting += part.constraints or ()
    return ""


def bundle_facts(
    name: str,
    version: str,
    release: str,
    key: str,
    image: str,
    images: list[RelatedImageRow],
    gathered: Gathered,
    csv: csvs.Csv | None,
) -> BundleFacts:
    facts = csv.facts if csv else csvs.CsvFacts()
    annotations = facts.annotations or csvs.Annotations()
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


def supported(modes: list[csvs.InstallMode] | None) -> list[str]:
    return [mode.type for mode in modes or () if mode.supported and mode.type]


def range_fault(text: str) -> str:
    """The reason why opm can't read a skipRange, or ""."""
    if len(text) > LONGEST_TEXT:
        return f"it is longer than {LONGEST_TEXT:,} characters"
    try:
        semver.blang_range(text)
    except ValueError as error:
        return str(error)
    return ""


def order_key(version: str, release: str) -> str:
    """A text that sorts in opm's order: by version (builds are equal), then no release before any.

    The keys of two different versions differ before either ends, so a release may follow.
    """
    if len(version) > LONGEST_TEXT or len(release) > LONGEST_TEXT:
        return semver.sort_key("")
    key = semver.sort_key(version)
    return (key + semver.sort_key(f"0.0.0-{release}"))[: semver.KEY_LENGTH] if release else key
