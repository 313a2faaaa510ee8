"""Facts of one bundle from its properties, related images and ClusterServiceVersion. Pure."""

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from catalogs import semver
from catalogs.fbc import blob
from catalogs.fbc.blob import (
    ABSENT,
    DECODE_ERRORS,
    NULL,
    BadBlob,
    Fault,
    IconIn,
    PropertyIn,
    decode,
    readable,
    yaml_to_json,
)

PACKAGE_PROPERTY = "olm.package"
_MAX_OPENSHIFT = "olm.maxOpenShiftVersion"
_OPENSHIFT = re.compile(r" *v?[0-9]+(?:\.[0-9]+(?:\.0)?)? *")
CONSTRAINT_SIZE = 131_072
# Characters of a version or a range: their parsers have caches, which must stay small.
LONGEST_TEXT = 2_000
_NUL = re.compile(rb"((?<!\\)(?:\\\\)*)\\u0000")


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


class ParsedBundle(NamedTuple):
    """One bundle. The fields but the last two are columns of the model Bundle."""

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


# -- ClusterServiceVersions


class ObjectProperty(msgspec.Struct):
    data: str | None = None


class InstallMode(msgspec.Struct):
    type: str | None = None
    supported: bool | None = None


class ApiServices(msgspec.Struct):
    owned: list[msgspec.Raw] | None = None


class CsvAnnotations(msgspec.Struct):
    """The annotations read of every bundle."""

    createdAt: str | None = None
    suggestedNamespace: str | None = msgspec.field(
        default=None, name="operatorframework.io/suggested-namespace"
    )
    substitutesFor: str | None = msgspec.field(default=None, name="olm.substitutesFor")


class CsvFacts(msgspec.Struct):
    """The fields read of every bundle's CSV: the top level of `olm.csv.metadata`, or metadata and
    spec of a ClusterServiceVersion."""

    displayName: str | None = None
    minKubeVersion: str | None = None
    installModes: list[InstallMode] | None = None
    apiServiceDefinitions: ApiServices | None = None
    annotations: CsvAnnotations | None = None


class Named(msgspec.Struct):
    name: str | None = None
    url: str | None = None
    email: str | None = None


class CsvTexts(msgspec.Struct):
    """The fields read only of the bundle that represents its package."""

    displayName: str | None = None
    description: str | None = None
    provider: Named | None = None
    keywords: list[str] | None = None
    links: list[Named] | None = None
    maintainers: list[Named] | None = None
    installModes: list[InstallMode] | None = None
    annotations: dict[str, str] | None = None


class _CsvMetadata(msgspec.Struct):
    annotations: msgspec.Raw = NULL


class _Csv(msgspec.Struct):
    kind: str = ""
    metadata: _CsvMetadata | None = None
    spec: msgspec.Raw = NULL


class _Webhooks(msgspec.Struct):
    webhookdefinitions: list[msgspec.Raw] | None = None
    apiservicedefinitions: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    icon: list[IconIn] | None = None


@dataclass(frozen=True, slots=True)
class Csv:
    """A bundle's ClusterServiceVersion. `webhooks` is None unless the full CSV is there."""

    facts: CsvFacts
    webhooks: int | None
    raw: msgspec.Raw | bytes  # for `read_texts`: olm.csv.metadata, or the same derived from a CSV
    icon: IconIn | None
    faults: tuple[Fault, ...]
    at: int = 0  # position among the bundle's properties


def read_csv(properties: list[PropertyIn]) -> Csv | None:
    """The CSV of a bundle: from `olm.csv.metadata`, else from the first CSV among its
    `olm.bundle.object` properties. None when it has neither.

    Raises one of DECODE_ERRORS for a value that isn't JSON.
    """
    for i, item in enumerate(properties):
        if item.type == "olm.csv.metadata" and item.value is not ABSENT:
            facts, faults = decode(item.value, CsvFacts)
            return Csv(facts, None, item.value, None, faults, i)
    for i, item in enumerate(properties):
        if item.type == "olm.bundle.object" and item.value is not ABSENT:
            manifest = read_manifest(item.value)[0]
            if b"ClusterServiceVersion" in manifest and (csv := _full_csv(manifest, i)):
                return csv
    return None


def read_manifest(value: msgspec.Raw) -> tuple[bytes, str]:
    """The manifest in an `olm.bundle.object` value, and the reason why it is missing, or ""."""
    shape, faults = decode(value, ObjectProperty)
    if faults:
        return b"", f"{faults[0].field or 'value'}: {faults[0].message}"
    text = shape.data or ""
    try:
        return binascii.a2b_base64(text, strict_mode=True), ""
    except ValueError:
        pass
    if (at := base64_fault(text)) is not None:
        return b"", f"illegal base64 data at input byte {at}"
    return base64.b64decode(text), ""


def manifest_fault(manifest: bytes) -> str:
    """The reason why opm can't convert a manifest to JSON, or ""."""
    if _is_json(manifest):
        return ""
    try:
        yaml_to_json(manifest)
    except BadBlob as error:
        return str(error) if error.code == "not-yaml" else ""
    return ""


_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/\r\n]")


def base64_fault(text: str) -> int | None:
    """The position where Go's base64.StdEncoding, with which opm reads icons and manifests, fails;
    None for valid text.

    Line breaks are skipped; padding is required; nothing may follow it.
    """
    try:
        binascii.a2b_base64(text, strict_mode=True)
        return None
    except ValueError:
        odd = _NOT_BASE64.search(text)
    end = odd.start() if odd else len(text)
    left = (end - text.count("\n", 0, end) - text.count("\r", 0, end)) % 4
    if odd is None:
        return len(text) - left if left else None
    if text[end] != "=" or left < 2:
        return end
    rest = text[end + 1 :]
    at = end + 1 + len(rest) - len(rest.lstrip("\r\n"))
    if left == 2:
        if at == len(text):
            return at
        if text[at] != "=":
            return at - 1
        rest = text[at + 1 :]
        at += 1 + len(rest) - len(rest.lstrip("\r\n"))
    return at if at < len(text) else None


def _full_csv(manifest: bytes, at: int) -> Csv | None:
    if not manifest.lstrip().startswith(b"{"):
        try:
            manifest = yaml_to_json(manifest)
        except BadBlob:
            return None
    if not _is_json(manifest):
        return None
    manifest = readable(manifest)
    # The splitter does not detect a NUL inside base64, and PostgreSQL refuses it.
    manifest, nuls = _NUL.subn(rb"\1", manifest)
    csv, faults = decode(manifest, _Csv)
    if nuls:
        faults += (Fault("olm.bundle.object", "holds NUL characters, which were left out"),)
    if csv.kind != "ClusterServiceVersion":
        return None
    spec = csv.spec
    if not bytes(spec).lstrip().startswith(b"{"):
        faults += () if spec == NULL else (Fault("spec", "Expected `object`"),)
        spec = msgspec.Raw(b"{}")
    counted, more = decode(spec, _Webhooks)
    members = msgspec.json.decode(spec, type=dict[str, msgspec.Raw])
    if counted.apiservicedefinitions is not msgspec.UNSET:
        members["apiServiceDefinitions"] = counted.apiservicedefinitions
    metadata = {key: members[key] for key in _METADATA_KEYS if key in members}
    if csv.metadata is not None:
        metadata["annotations"] = csv.metadata.annotations
    raw = msgspec.json.encode(metadata)
    facts, rest = decode(raw, CsvFacts)
    icon = counted.icon[0] if counted.icon else None
    webhooks = len(counted.webhookdefinitions or ())
    return Csv(facts, webhooks, raw, icon, (*faults, *more, *rest), at)


def _is_json(manifest: bytes) -> bool:
    try:
        msgspec.json.decode(manifest, type=msgspec.Raw)
    except DECODE_ERRORS:
        return False
    return True


_METADATA_KEYS = (
    *("apiServiceDefinitions", "description", "displayName", "installModes", "keywords"),
    *("links", "maintainers", "minKubeVersion", "provider"),
)


# -- properties


@dataclass(slots=True)
class BundleProperties:
    """The properties of one bundle by type. `faults` are (code, fault)."""

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


def read_properties(properties: list[PropertyIn]) -> BundleProperties:
    """Reads every property and lists the faults that opm or OLM would report; never raises.

    As in Go, null is an empty value and a property without a value is a fault.
    """
    out = BundleProperties()
    limits = 0
    for i, item in enumerate(properties):
        kind = item.type
        if item.value is ABSENT:
            _fault(out, i, "property", _unparsed(i, kind, "unexpected end of JSON input"))
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
                    _fault(out, i, "constraint", f"parse olm.constraint: {fault}")
            elif kind == _MAX_OPENSHIFT:
                limits += 1
                _max_openshift(out, i, item.value, limits)
        except (msgspec.DecodeError, RecursionError) as error:
            _fault(out, i, "property", _unparsed(i, kind, str(error).split(" - at `")[0]))
    return out


def _fault(out: BundleProperties, i: int, code: str, message: str, field: str = "") -> None:
    out.faults.append((code, Fault(f"properties[{i}].value{field}", message)))


def _unparsed(i: int, kind: str | None, reason: str) -> str:
    return f'parse property[{i}] of type "{kind or ""}": {reason}'


def _object(out: BundleProperties, i: int, value: msgspec.Raw) -> None:
    """Counts a manifest; opm refuses it unless it is base64 of JSON or YAML."""
    out.objects += 1
    manifest, fault = read_manifest(value)
    if fault:
        message = f"parse property at index {i} as bundle object: {fault}"
        _fault(out, i, "bundle-object", message, ".data")
    elif fault := manifest_fault(manifest):
        message = f"convert bundle object property at index {i} to JSON: {fault}"
        _fault(out, i, "bundle-object", message, ".data")


def _max_openshift(out: BundleProperties, i: int, value: msgspec.Raw, count: int) -> None:
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
        _fault(out, i, "max-openshift", fault)


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
    constraints: "list[_OlmConstraint] | None" = None


class _OlmConstraint(msgspec.Struct, forbid_unknown_fields=True):
    failureMessage: str | None = None
    cel: _Rule | None = None
    package: _PackageRule | None = None
    gvk: _GvkRule | None = None
    all: _Compound | None = None
    any: _Compound | None = None
    not_: _Compound | None = msgspec.field(default=None, name="not")


_constraint = msgspec.json.Decoder(_OlmConstraint).decode


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


def supported(modes: list[InstallMode] | None) -> list[str]:
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
    """A text that sorts in opm's order: by version without its build, then by release, none first.

    The keys of two different versions differ before either ends, so a release may follow.
    """
    if len(version) > LONGEST_TEXT or len(release) > LONGEST_TEXT:
        return semver.sort_key("")
    key = semver.sort_key(version)
    return (key + semver.sort_key(f"0.0.0-{release}"))[: semver.KEY_LENGTH] if release else key
