"""Blobs of file-based catalogs: the shapes of the four known schemas, and tolerant decoding of one
blob, whose parts of a wrong type become faults. Pure.
"""

import types
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
import yaml

from catalogs.fbc.lint_impact import reactions_of
from olmweb.kube.documents import KubernetesLoader

PACKAGE, CHANNEL, BUNDLE, DEPRECATIONS = (
    "olm.package",
    "olm.channel",
    "olm.bundle",
    "olm.deprecations",
)
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
NULL = msgspec.Raw(b"null")
ABSENT = msgspec.Raw(b"")  # compared by identity
YAML_DEPTH = 100
# Keys and values of one document: reading a million takes 10 s; real blobs have at most 20,000.
YAML_VALUES = 300_000
LONGEST_INTEGER = 1_000  # characters in YAML; JSON holds 20 digits
# Parts of a wrong type in one blob that are reported: one more than are listed of a package
# (`lint.MAX_FAULTS`), so that the list ends with a note.
MOST_FAULTS = 1_001
# With more aliases a few bytes can become gigabytes.
YAML_ALIASES = 10
YAML_ALIAS_DOCUMENT = 65_536  # bytes; a larger document may hold no alias at all


class ContentProblemRow(NamedTuple):
    """A fault of the content; the fields are columns of the model ContentProblem.

    `offset` is that of the blob in the decoded catalog until `catalogs.fbc.positions` replaces it
    by that of the field, and adds the file, the line (from 1) and the text around it.
    """

    package: str
    subject: str  # channel or bundle
    field: str
    code: str  # a key of `catalogs.fbc.lint_impact.REACTIONS`
    severity: str  # error: opm refuses the whole catalog; else warning
    message: str
    offset: int | None
    file: str
    line: int | None
    excerpt: str


def content_problem(
    code: str,
    message: str,
    offset: int | None,
    subject: str = "",
    field: str = "",
    package: str = "",
) -> ContentProblemRow:
    """A problem whose message and subject may quote the content: PostgreSQL stores no NUL."""
    severity = reactions_of(code).severity
    message, subject = (text.replace("\0", "\ufffd") for text in (message, subject))
    return ContentProblemRow(package, subject, field, code, severity, message, offset, "", None, "")


@dataclass(frozen=True, slots=True)
class Fault:
    """A part of one blob that was left out."""

    field: str
    message: str


class BadBlob(Exception):
    """An unusable blob; `code` is a slug, the message a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


_Other = msgspec.Raw | msgspec.UnsetType


class Header(msgspec.Struct):
    """The keys that assign a blob to a package. Keys match in any case: a blob with one of the
    other usual spellings is decoded in full to fold them."""

    schema: str | None = ""  # None: null was written
    package: str | None = ""
    name: str | None = ""
    schema_2: _Other = msgspec.field(default=msgspec.UNSET, name="Schema")
    schema_3: _Other = msgspec.field(default=msgspec.UNSET, name="SCHEMA")
    package_2: _Other = msgspec.field(default=msgspec.UNSET, name="Package")
    package_3: _Other = msgspec.field(default=msgspec.UNSET, name="PACKAGE")
    name_2: _Other = msgspec.field(default=msgspec.UNSET, name="Name")
    name_3: _Other = msgspec.field(default=msgspec.UNSET, name="NAME")
    channel_2: _Other = msgspec.field(default=msgspec.UNSET, name="DefaultChannel")
    entries_2: _Other = msgspec.field(default=msgspec.UNSET, name="Entries")
    image_2: _Other = msgspec.field(default=msgspec.UNSET, name="Image")
    properties_2: _Other = msgspec.field(default=msgspec.UNSET, name="Properties")
    related_2: _Other = msgspec.field(default=msgspec.UNSET, name="RelatedImages")

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
    skips: list[str | None] | None = None
    skipRange: str | None = None


class ChannelIn(msgspec.Struct):
    name: str | None = None
    entries: list[EntryIn | None] | None = None


class PropertyIn(msgspec.Struct):
    type: str | None = None
    value: msgspec.Raw = ABSENT


class RelatedImageIn(msgspec.Struct):
    name: str | None = None
    image: str | None = None


class BundleIn(msgspec.Struct):
    name: str | None = ""  # None: null was written
    package: str | None = ""
    image: str | None = None
    properties: list[PropertyIn | None] | None = None
    relatedImages: list[RelatedImageIn | None] | None = None


class ReferenceIn(msgspec.Struct):
    schema: str | None = None
    name: str | None = None


class DeprecationIn(msgspec.Struct):
    reference: ReferenceIn | None = None
    message: str | None = None


class DeprecationsIn(msgspec.Struct):
    entries: list[DeprecationIn | None] | None = None


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


def properties_of(bundle: BundleIn) -> list[PropertyIn]:
    """The properties; null becomes a property without type and value, as in Go."""
    return [item or PropertyIn() for item in bundle.properties or ()]


Shape = TypeVar("Shape", bound=msgspec.Struct)
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_read_header = msgspec.json.Decoder(Header).decode


def read_header(data: bytes) -> tuple[Header, bytes]:
    """Header of a JSON blob, and its JSON: `data` unless keys had to be folded.

    Bytes that are not UTF-8 become U+FFFD, as in opm. Raises one of DECODE_ERRORS if `data` is not
    a JSON object, BadBlob for an object that breaks the rules for its first-level keys.
    """
    data = readable(data)
    try:
        header = _read_header(data)
    except msgspec.ValidationError:
        return _fold(data)
    if not header.schema or any(part is not msgspec.UNSET for part in _spelled(header)):
        return _fold(data)
    return header, data


def readable(data: bytes) -> bytes:
    """`data` itself when it is UTF-8, else with U+FFFD for the other bytes."""
    if data.isascii():
        return data
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="replace").encode()
    return data


_spelled = attrgetter(*(name for name in Header.__struct_fields__ if name[-2] == "_"))
_HEADER = ("schema", "package", "name")
_KNOWN: dict[str, str] = {
    key.lower(): key
    for key in (
        *("schema", "package", "name", "defaultChannel", "description", "icon", "entries"),
        *("image", "properties", "relatedImages"),
    )
}


def _fold(data: bytes) -> tuple[Header, bytes]:
    members = msgspec.json.decode(data)
    if not isinstance(members, dict):
        raise BadBlob("not-an-object", "the blob is not a JSON object; remove it or wrap it in one")
    folded: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for key, value in members.items():
        low = str(key).lower()
        if low in spelled:
            keys = " ".join(sorted((key, spelled[low])))
            raise BadBlob("duplicate-key", f'duplicate keys for key "{low}": [{keys}]')
        spelled[low] = key
        if low in _HEADER and not isinstance(value, str | None):
            kind = type(value).__name__
            raise BadBlob("key-type", f'expected value for key "{key}" to be a string, got {kind}')
        folded[_KNOWN.get(low) or key] = value
    if not folded.get("schema"):
        name = folded.get("name") or ""
        raise BadBlob("no-schema", f"object '{name}' is missing root schema field")
    header = Header(folded["schema"], folded.get("package", ""), folded.get("name", ""))
    return header, msgspec.json.encode(folded)


def decode(data: bytes | msgspec.Raw, shape: type[Shape]) -> tuple[Shape, tuple[Fault, ...]]:
    """`data` as `shape`; parts of a wrong type are left out and returned as faults.

    Raises one of DECODE_ERRORS when `data` is not JSON.
    """
    try:
        return _decoder(shape).decode(data), ()
    except msgspec.ValidationError:
        faults: list[Fault] = []
        salvaged = _salvage(msgspec.json.decode(data), shape, "", faults)
        empty: Shape = salvaged if isinstance(salvaged, shape) else shape()
        return empty, tuple(faults)


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Cached, because creating a decoder takes longer than decoding with it."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder


def _salvage(value: Any, kind: Any, path: str, faults: list[Fault]) -> Any:
    """`value` as `kind` without the parts of a wrong type; UNSET if nothing remains."""
    if len(faults) >= MOST_FAULTS:
        return msgspec.UNSET
    try:
        return _decoder(kind).decode(msgspec.json.encode(value))
    except msgspec.ValidationError as error:
        message = str(error).split(" - at `")[0]
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, dict):
        fields: dict[str, Any] = {}
        for field in msgspec.structs.fields(kind):
            if field.encode_name in value:
                inner = f"{path}.{field.encode_name}" if path else field.encode_name
                part = _salvage(value[field.encode_name], field.type, inner, faults)
                if part is not msgspec.UNSET:
                    fields[field.name] = part
        return kind(**fields)
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


class _YamlLoader(KubernetesLoader):
    """Loads YAML as opm does, with integers of a bounded length."""


def _integer(loader: _YamlLoader, node: yaml.ScalarNode) -> int:
    """As YAML 1.1, whose numbers of base 60 take quadratic time in their digits."""
    if len(node.value) > LONGEST_INTEGER:
        raise ValueError(f"an integer of more than {LONGEST_INTEGER} characters")
    return loader.construct_yaml_int(node)


_YamlLoader.add_constructor("tag:yaml.org,2002:int", _integer)


def yaml_to_json(document: bytes) -> bytes:
    """One YAML document as JSON; b"null" for an empty one.

    Raises BadBlob for invalid YAML, for a document beyond YAML_DEPTH levels, YAML_VALUES keys and
    values or YAML_ALIASES, and for values without a JSON form.
    """
    try:
        _check_events(yaml.parse(document, Loader=_YamlLoader), len(document))
        # Safe: _YamlLoader is a CSafeLoader.
        return msgspec.json.encode(yaml.load(document, Loader=_YamlLoader))  # noqa: S506
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
    depth = aliases = values = 0
    for event in events:
        if isinstance(event, yaml.NodeEvent):
            values += 1
            if values > YAML_VALUES:
                raise BadBlob(
                    "blob-too-large",
                    f"the document has over {YAML_VALUES:,} keys and values; write it as several",
                )
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


_encode = msgspec.json.Encoder().encode


def as_json(value: object) -> str:
    """Text for a JSON column."""
    return _encode(value).decode()
