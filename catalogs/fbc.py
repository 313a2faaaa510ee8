"""File-based catalog blobs: typed, tolerant reading of one blob.

Owns the shapes of the four known schemas and of the ClusterServiceVersion facts in them, and the
`Problem` that a fault of the content becomes. Where bytes come from, how they are split into
blobs (`catalogs.splitter`) and what a package as a whole must satisfy (`catalogs.derive`) is not
known here. No Django, no network.
"""

import base64
import binascii
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec
import yaml

PACKAGE, CHANNEL, BUNDLE, DEPRECATIONS = (
    "olm.package",
    "olm.channel",
    "olm.bundle",
    "olm.deprecations",
)
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
NULL = msgspec.Raw(b"null")
_NUL = re.compile(rb"((?<!\\)(?:\\\\)*)\\u0000")
YAML_DEPTH = 100
# A document may repeat a little by alias; more than this is how a few bytes become gigabytes.
YAML_ALIASES = 10
YAML_ALIAS_DOCUMENT = 65_536  # bytes; a larger document may hold no alias at all


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault of the content. `offset` is the first byte of its blob in the decoded catalog."""

    code: str
    message: str
    package: str = ""
    subject: str = ""  # channel or bundle
    field: str = ""
    severity: str = "error"
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """A part of one blob that had to be left out."""

    field: str
    message: str


class BadBlob(Exception):
    """A blob that can't be used at all; `code` is a slug, the message a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


_Other = msgspec.Raw | msgspec.UnsetType


class Header(msgspec.Struct):
    """What says where a blob belongs. The format's keys match whatever their case: a blob with
    one of the other usual spellings is read in full to fold them."""

    schema: str | None = None
    package: str | None = None
    name: str | None = None
    schema_2: _Other = msgspec.field(default=msgspec.UNSET, name="Schema")
    schema_3: _Other = msgspec.field(default=msgspec.UNSET, name="SCHEMA")
    package_2: _Other = msgspec.field(default=msgspec.UNSET, name="Package")
    package_3: _Other = msgspec.field(default=msgspec.UNSET, name="PACKAGE")
    name_2: _Other = msgspec.field(default=msgspec.UNSET, name="Name")
    name_3: _Other = msgspec.field(default=msgspec.UNSET, name="NAME")

    @property
    def owner(self) -> str:
        """Name of the package that the blob belongs to, "" for none."""
        return (self.name if self.schema == PACKAGE else self.package) or ""


class IconIn(msgspec.Struct):
    base64data: str | None = None
    mediatype: str | None = None


class PackageIn(msgspec.Struct):
    name: str | None = None
    defaultChannel: str | None = None
    description: str | None = None
    icon: IconIn | None = None


class EntryIn(msgspec.Struct):
    name: str | None = None
    replaces: str | None = None
    skips: list[str] | None = None
    skipRange: str | None = None


class ChannelIn(msgspec.Struct):
    name: str | None = None
    entries: list[EntryIn] | None = None


class PropertyIn(msgspec.Struct):
    type: str = ""
    value: msgspec.Raw = NULL


class RelatedImageIn(msgspec.Struct):
    name: str | None = None
    image: str | None = None


class BundleIn(msgspec.Struct):
    name: str | None = None
    image: str | None = None
    properties: list[PropertyIn] | None = None
    relatedImages: list[RelatedImageIn] | None = None


class ReferenceIn(msgspec.Struct):
    schema: str | None = None
    name: str | None = None


class DeprecationIn(msgspec.Struct):
    reference: ReferenceIn | None = None
    message: str | None = None


class DeprecationsIn(msgspec.Struct):
    entries: list[DeprecationIn] | None = None


class PackageProperty(msgspec.Struct):
    packageName: str | None = None
    version: str | None = None
    release: str | None = None


class RequiredPackage(msgspec.Struct):
    packageName: str | None = None
    versionRange: str | None = None


class Gvk(msgspec.Struct):
    group: str | None = None
    version: str | None = None
    kind: str | None = None


class ObjectProperty(msgspec.Struct):
    data: str | None = None


class InstallMode(msgspec.Struct):
    type: str | None = None
    supported: bool | None = None


class ApiServices(msgspec.Struct):
    owned: list[msgspec.Raw] | None = None


class Annotations(msgspec.Struct):
    """The annotations that every bundle is read for."""

    createdAt: str | None = None
    suggestedNamespace: str | None = msgspec.field(
        default=None, name="operatorframework.io/suggested-namespace"
    )
    substitutesFor: str | None = msgspec.field(default=None, name="olm.substitutesFor")


class CsvFacts(msgspec.Struct):
    """What every bundle's CSV is read for. In `olm.csv.metadata` this is the top level, in a
    ClusterServiceVersion it is spread over metadata and spec."""

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
    """What only the bundle that stands for its package is read for."""

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


Shape = TypeVar("Shape", bound=msgspec.Struct)
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}
_read_header = msgspec.json.Decoder(Header).decode


def read_header(data: bytes) -> tuple[Header, bytes]:
    """Header of a JSON blob, and the JSON to read it from (`data` unless keys had to be folded).

    Raises one of DECODE_ERRORS for what isn't a JSON object, BadBlob for an object that breaks
    the rules for its first-level keys.
    """
    try:
        header = _read_header(data)
    except msgspec.ValidationError:
        return _fold(data)
    unset = msgspec.UNSET
    if (
        not header.schema
        or header.schema_2 is not unset
        or header.schema_3 is not unset
        or header.package_2 is not unset
        or header.package_3 is not unset
        or header.name_2 is not unset
        or header.name_3 is not unset
    ):
        return _fold(data)
    return header, data


def _fold(data: bytes) -> tuple[Header, bytes]:
    found = msgspec.json.decode(data)
    if not isinstance(found, dict):
        raise BadBlob("not-an-object", "the blob is not a JSON object; remove it or wrap it in one")
    folded: dict[str, Any] = {}
    for key, value in found.items():
        low = key.lower()
        if low not in ("schema", "package", "name"):
            folded[key] = value
            continue
        if low in folded:
            raise BadBlob("duplicate-key", f'duplicate keys for key "{low}": {key}')
        if value is not None and not isinstance(value, str):
            kind = type(value).__name__
            raise BadBlob("key-type", f'expected value for key "{low}" to be a string, got {kind}')
        folded[low] = value
    if not folded.get("schema"):
        name = folded.get("name") or ""
        raise BadBlob("no-schema", f"object '{name}' is missing root schema field")
    return Header(folded["schema"], folded.get("package"), folded.get("name")), msgspec.json.encode(
        folded
    )


def decode(data: bytes | msgspec.Raw, shape: type[Shape]) -> tuple[Shape, tuple[Fault, ...]]:
    """`data` as `shape`; parts of a wrong type are left out and returned as faults.

    Raises one of DECODE_ERRORS when `data` isn't JSON at all.
    """
    decoder = _decoders.get(shape)
    if decoder is None:
        decoder = _decoders[shape] = msgspec.json.Decoder(shape)
    try:
        return decoder.decode(data), ()
    except msgspec.ValidationError:
        faults: list[Fault] = []
        salvaged = _salvage(msgspec.json.decode(data), shape, "", faults)
        empty: Shape = salvaged if isinstance(salvaged, shape) else shape()
        return empty, tuple(faults)


def _salvage(value: Any, kind: Any, path: str, faults: list[Fault]) -> Any:
    """`value` as `kind` with what doesn't fit left out; UNSET when nothing of it fits."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value), type=kind)
    except msgspec.ValidationError as error:
        message = str(error).split(" - at `")[0]
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, dict):
        kept: dict[str, Any] = {}
        for field in msgspec.structs.fields(kind):
            if field.encode_name in value:
                inner = f"{path}.{field.encode_name}" if path else field.encode_name
                part = _salvage(value[field.encode_name], field.type, inner, faults)
                if part is not msgspec.UNSET:
                    kept[field.name] = part
        return kind(**kept)
    if get_origin(kind) is list and isinstance(value, list):
        item = get_args(kind)[0]
        parts = (_salvage(part, item, f"{path}[{i}]", faults) for i, part in enumerate(value))
        return [part for part in parts if part is not msgspec.UNSET]
    if get_origin(kind) is dict and isinstance(value, dict):
        item = get_args(kind)[1]
        pairs = (
            (key, _salvage(part, item, f"{path}.{key}", faults)) for key, part in value.items()
        )
        return {key: part for key, part in pairs if part is not msgspec.UNSET}
    faults.append(Fault(path, message))
    return msgspec.UNSET


@dataclass(frozen=True, slots=True)
class Csv:
    """A bundle's ClusterServiceVersion. `webhooks` is None unless the full CSV is there."""

    facts: CsvFacts
    webhooks: int | None
    raw: msgspec.Raw | bytes  # what `read_texts` reads: olm.csv.metadata, or the same made of a CSV
    icon: IconIn | None
    faults: tuple[Fault, ...]


def read_csv(properties: list[PropertyIn]) -> Csv | None:
    """The CSV of a bundle: from `olm.csv.metadata`, else from the first CSV among its
    `olm.bundle.object` properties. None when it has neither.

    Raises one of DECODE_ERRORS for a value that isn't JSON.
    """
    for found in properties:
        if found.type == "olm.csv.metadata":
            facts, faults = decode(found.value, CsvFacts)
            return Csv(facts, None, found.value, None, faults)
    for found in properties:
        if found.type == "olm.bundle.object":
            manifest = _manifest(found.value)
            if b"ClusterServiceVersion" in manifest:
                csv = _full_csv(manifest)
                if csv:
                    return csv
    return None


def _manifest(value: msgspec.Raw) -> bytes:
    """The manifest in an `olm.bundle.object` value, b"" when there is none."""
    data = decode(value, ObjectProperty)[0].data
    try:
        return base64.b64decode(data or "")
    except (binascii.Error, ValueError):
        return b""


def _full_csv(manifest: bytes) -> Csv | None:
    if not manifest.lstrip().startswith(b"{"):
        try:
            manifest = yaml_to_json(manifest)
        except BadBlob:
            return None
    # Inside base64 a NUL is not seen where blobs are split, and PostgreSQL refuses it.
    manifest, nuls = _NUL.subn(rb"\1", manifest)
    csv, faults = decode(manifest, _Csv)
    if nuls:
        faults += (Fault("olm.bundle.object", "holds NUL characters, which were left out"),)
    if csv.kind != "ClusterServiceVersion":
        return None
    spec = csv.spec if csv.spec != NULL else msgspec.Raw(b"{}")
    counted, more = decode(spec, _Webhooks)
    members = msgspec.json.decode(spec, type=dict[str, msgspec.Raw])
    if counted.apiservicedefinitions is not msgspec.UNSET:
        members["apiServiceDefinitions"] = counted.apiservicedefinitions
    kept = {key: members[key] for key in _METADATA_KEYS if key in members}
    if csv.metadata is not None:
        kept["annotations"] = csv.metadata.annotations
    raw = msgspec.json.encode(kept)
    facts, rest = decode(raw, CsvFacts)
    icon = counted.icon[0] if counted.icon else None
    return Csv(facts, len(counted.webhookdefinitions or ()), raw, icon, (*faults, *more, *rest))


_METADATA_KEYS = (
    *("apiServiceDefinitions", "description", "displayName", "installModes", "keywords"),
    *("links", "maintainers", "minKubeVersion", "provider"),
)


def read_texts(csv: Csv) -> CsvTexts:
    """The long texts of a CSV; parts of a wrong type are left out."""
    return decode(csv.raw, CsvTexts)[0]


class _Loader(yaml.CSafeLoader):
    """YAML as the format's own reader takes it: an unquoted timestamp stays a string."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regex) for tag, regex in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def yaml_to_json(document: bytes) -> bytes:
    """One YAML document as JSON; b"null" for an empty one.

    Raises BadBlob for what isn't YAML, nests over YAML_DEPTH levels, expands aliases beyond a
    small measure, or has no JSON form.
    """
    try:
        _check_events(yaml.parse(document, Loader=_Loader), len(document))
        # Safe: _Loader is CSafeLoader less one resolver.
        return msgspec.json.encode(yaml.load(document, Loader=_Loader))  # noqa: S506
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        what = getattr(error, "problem", None) or "unreadable"
        raise BadBlob("not-yaml", f"the document is not valid YAML{where}: {what}") from error
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise BadBlob("not-json", f"the document has a value that JSON can't hold: {error}") from (
            error
        )


def _check_events(events: Iterator[yaml.Event], size: int) -> None:
    depth = aliases = 0
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > YAML_DEPTH:
                raise BadBlob(
                    "too-deep", f"the document nests deeper than {YAML_DEPTH} levels; flatten it"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            aliases += 1
            if aliases > YAML_ALIASES or size > YAML_ALIAS_DOCUMENT:
                raise BadBlob(
                    "yaml-aliases",
                    f"the document uses more YAML aliases than the {YAML_ALIASES} allowed in "
                    f"{YAML_ALIAS_DOCUMENT} bytes; write the repeated parts out",
                )
