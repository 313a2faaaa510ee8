"""Reads the ClusterServiceVersion of a bundle from `olm.csv.metadata` or `olm.bundle.object`.

Both become the same facts. Pure.
"""

import base64
import binascii
import re
from dataclasses import dataclass

import msgspec

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

_NUL = re.compile(rb"((?<!\\)(?:\\\\)*)\\u0000")


class ObjectProperty(msgspec.Struct):
    data: str | None = None


class InstallMode(msgspec.Struct):
    type: str | None = None
    supported: bool | None = None


class ApiServices(msgspec.Struct):
    owned: list[msgspec.Raw] | None = None


class Annotations(msgspec.Struct):
    """The annotations read of every bundle."""

    createdAt: str | None = None
    suggestedNamespace: str | None = msgspec.field(
        default=None, name="operatorframework.io/suggested-namespace"
    )
    substitutesFor: str | None = msgspec.field(default=None, name="olm.substitutesFor")


class CsvFacts(msgspec.Struct):
    """The fields read of every bundle's CSV: the top level of `olm.csv.metadata`, or parts of
    metadata and spec of a ClusterServiceVersion."""

    displayName: str | None = None
    minKubeVersion: str | None = None
    installModes: list[InstallMode] | None = None
    apiServiceDefinitions: ApiServices | None = None
    annotations: Annotations | None = None


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


class _Meta(msgspec.Struct):
    annotations: msgspec.Raw = NULL


class _Csv(msgspec.Struct):
    kind: str = ""
    metadata: _Meta | None = None
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
    raw: msgspec.Raw | bytes  # what `read_texts` reads: olm.csv.metadata, or the same made of a CSV
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
            if b"ClusterServiceVersion" in manifest:
                csv = _full_csv(manifest, i)
                if csv:
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
    # The splitter does not see a NUL inside base64, and PostgreSQL refuses it.
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


def read_texts(csv: Csv) -> CsvTexts:
    """The long texts of a CSV; parts of a wrong type are left out."""
    return decode(csv.raw, CsvTexts)[0]
