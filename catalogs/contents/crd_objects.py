"""Whether objects fit a schema of their CustomResourceDefinition that they were not written with.
Pure.

The API server fills in defaults, drops what it does not know, and then validates
(k8s.io/apiextensions-apiserver 0.36: pkg/apiserver/schema/defaulting, pruning, listtype, objectmeta
and pkg/apiserver/validation). OLM v0 validates the objects as they are before it replaces a CRD
(validateExistingCRs in pkg/controller/operators/catalog/operator.go). Both use OpenAPI v3 schemas,
which are translated to JSON Schema for the validator. Findings have paths and rules, no values.
"""

import copy
import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any

from jsonschema_rs import Draft7Validator, RegexOptions, ValidationError

from catalogs.contents.crd_upgrade import bounded
from olmweb.kube.fields import Object, dig, items, text, texts

DEEPEST = 100  # levels of a schema; deeper fields are not checked
MISFITS = 10  # findings of one object
TEXT_SHOWN = 120  # characters of a part of the schema in a finding

_META = frozenset({"apiVersion", "kind", "metadata"})
_COPIED = (
    *("required", "enum", "multipleOf", "maxLength", "minLength", "maxItems", "minItems"),
    *("maxProperties", "minProperties"),
)
_LIMITS = (("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum"))
_PRESERVES = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_CEL = "x-kubernetes-validations"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_RANGES = {
    ("integer", "int32"): (-(2**31), 2**31 - 1),
    ("number", "float"): (-3.4028234663852886e38, 3.4028234663852886e38),
}
_FORMAT = "kube:"  # so that no format of JSON Schema is meant


class Outcome(StrEnum):
    """What happens to an object that does not fit. `OLM_V0`: the API server accepts it after its
    defaults, but OLM v0 refuses the upgrade. `DROPPED`: the value of the field is lost at the next
    write."""

    REFUSED = "refused"
    OLM_V0 = "olm-v0"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, order=True)
class Misfit:
    """One reason. `path` is that of the field in the object, such as `spec.ports[1].name`; `rule`
    the keyword of the schema."""

    path: str
    rule: str
    note: str
    outcome: Outcome = Outcome.REFUSED


class UnreadableSchema(ValueError):
    """The schema is not one that an API server would accept."""


class VersionSchema:
    """The schema of one version of a CRD, for any number of objects.

    `unchecked` are the parts that only a cluster can evaluate, as `path: part`: rules in CEL and
    rare formats. Raises UnreadableSchema.
    """

    def __init__(self, schema: Any) -> None:
        self._schema: Object = schema if isinstance(schema, Mapping) else {}
        translated, self.unchecked = json_schema(self._schema)
        try:
            self._validator = Draft7Validator(
                translated,
                pattern_options=RegexOptions(),
                validate_formats=True,
                formats={f"{_FORMAT}{name}": check for name, check in _FORMATS.items()},
            )
        except (ValueError, ValidationError) as error:
            raise UnreadableSchema("The schema is not valid.") from error

    def misfits(self, item: Object, most: int = MISFITS) -> tuple[Misfit, ...]:
        """Why the object does not fit, at most `most` reasons by path; empty if it does."""
        dropped: list[str] = []
        try:
            written = _Written(dropped).root(item, self._schema)
            refused = {*self._errors(written), *_structure(written, self._schema, "", is_root=True)}
            as_is = {*self._errors(item)} if written != item else set()
        except (ValueError, RecursionError):
            note = "The object is nested too deeply to be checked."
            return (Misfit("", "depth", note),)
        known = {(misfit.path, misfit.rule) for misfit in refused}
        only_v0 = (
            Misfit(misfit.path, misfit.rule, misfit.note, Outcome.OLM_V0)
            for misfit in as_is
            if (misfit.path, misfit.rule) not in known
        )
        gone = (
            Misfit(path, "unknown", "The new schema does not have this field.", Outcome.DROPPED)
            for path in dropped
        )
        order = list(Outcome).index
        rows = sorted({*refused, *only_v0, *gone}, key=lambda row: (order(row.outcome), row))
        return tuple(rows[:most])

    def _errors(self, item: Any) -> Iterator[Misfit]:
        for error in self._validator.iter_errors(item):
            path = _path(error.instance_path)
            rule = str(error.schema_path[-1]) if error.schema_path else ""
            if rule == "required":
                path = _joined(path, str(getattr(error.kind, "property", "")))
            yield Misfit(path, rule, _note(rule, error.kind))


def schema_of(crd: Object, version: str) -> Any:
    """The schema of this version; None without the version or a schema."""
    for row in items(crd, "spec", "versions"):
        if text(row, "name") == version:
            return dig(row, "schema", "openAPIV3Schema")
    return None


def checked_versions(old: Object, new: Object) -> list[str]:
    """The versions that are served before and after, and whose schemas differ in more than
    descriptions, as far as they are compared (crd_upgrade.is_too_deep)."""
    old, new = bounded(old), bounded(new)
    before, after = (
        [text(row, "name") for row in items(crd, "spec", "versions") if dig(row, "served") is True]
        for crd in (old, new)
    )
    return [
        name
        for name in before
        if name in after and _bare(schema_of(old, name)) != _bare(schema_of(new, name))
    ]


def _bare(schema: Any, *, names: bool = False) -> Any:
    """The schema without descriptions. `names`: the keys are names of fields."""
    if isinstance(schema, list):
        return [_bare(row) for row in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: _bare(value, names=key == "properties" and not names)
        for key, value in schema.items()
        if names or key != "description"
    }


# -- JSON Schema -----------------------------------------------------------------------------------


def json_schema(schema: Any, *, closed: bool = False) -> tuple[dict[str, Any], tuple[str, ...]]:
    """JSON Schema draft 7 for a schema of a CRD, and its parts that only a cluster can evaluate, as
    `path: part`.

    It has only keywords that CRDs may have, so no `$ref`. `closed`: fields that the schema does not
    declare are refused, as by a server-side apply, and those with a default are not required, as
    the server fills them in first; for objects that are not pruned and filled in here.
    """
    unchecked: list[str] = []
    return _translated(schema, "", unchecked, 0, closed), tuple(unchecked)


def _translated(
    schema: Any, path: str, unchecked: list[str], depth: int, closed: bool
) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or depth >= DEEPEST:
        return {}
    out: dict[str, Any] = {key: schema[key] for key in _COPIED if schema.get(key) is not None}
    types = _types(schema)
    if types:
        out["type"] = types
    for limit, exclusive in _LIMITS:
        if schema.get(limit) is not None:
            out[exclusive if schema.get(exclusive) is True else limit] = schema[limit]
    if bound := _RANGES.get((text(schema, "type"), text(schema, "format"))):
        out["allOf"] = [{"minimum": bound[0], "maximum": bound[1]}]
    _add_texts(schema, out, path, unchecked)
    if rules := items(schema, _CEL):
        count = f"{len(rules)} CEL rule" + ("s" if len(rules) > 1 else "")
        unchecked.append(f"{path or 'object'}: {count}")

    def below(child: Any, place: str, *, repeats: bool = False) -> dict[str, Any]:
        # Schemas of anyOf and the like repeat some of the fields only.
        return _translated(child, place, unchecked, depth + 1, closed and not repeats)

    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    if properties:
        out["properties"] = {
            name: below(child, _joined(path, name)) for name, child in properties.items()
        }
    for key, place in (("items", f"{path}[]"), ("additionalProperties", f"{path}.*")):
        if isinstance(schema.get(key), Mapping):
            out[key] = below(schema[key], place)
    declared = properties and "additionalProperties" not in out and not schema.get(_PRESERVES)
    if schema.get("additionalProperties") is False or (closed and declared):
        out["additionalProperties"] = False
    if closed and "required" in out:
        out["required"] = [
            name for name in out["required"] if dig(properties.get(name), "default") is None
        ]
    if isinstance(schema.get("not"), Mapping):
        out["not"] = below(schema["not"], path, repeats=True)
    for key in ("allOf", "anyOf", "oneOf"):
        if key == "anyOf" and schema.get(_INT_OR_STRING) is True:
            continue  # the two types again
        if children := items(schema, key):
            own = [below(child, path, repeats=True) for child in children]
            out[key] = [*out.get(key, ()), *own]
    return out


def _types(schema: Object) -> list[str]:
    if schema.get(_INT_OR_STRING) is True:
        types = ["integer", "string"]
    else:
        types = [text(schema, "type")] if text(schema, "type") else []
    return [*types, "null"] if types and schema.get("nullable") is True else types


def _add_texts(schema: Object, out: dict[str, Any], path: str, unchecked: list[str]) -> None:
    """The pattern and the format. Go and the validator read the same patterns but for rare ones."""
    if pattern := text(schema, "pattern"):
        try:
            Draft7Validator({"pattern": pattern}, pattern_options=RegexOptions())
            out["pattern"] = pattern
        except (ValueError, ValidationError):
            unchecked.append(f"{path or 'object'}: pattern {_short(pattern)}")
    if text(schema, "type") in ("", "string") and (name := text(schema, "format")):
        plain = name.replace("-", "")
        if plain in _FORMATS:
            out["format"] = f"{_FORMAT}{plain}"
        elif plain in _OTHER_FORMATS:
            unchecked.append(f"{path or 'object'}: format {name}")


def _note(rule: str, kind: Any) -> str:
    """A sentence of the schema's part, without the value of the object."""
    limit = getattr(kind, "limit", None)
    match rule:
        case "type":
            types = [name for name in getattr(kind, "types", ()) if name != "null"]
            return f"The type has to be {' or '.join(types)}."
        case "required":
            return "The field is required."
        case "enum":
            values = ", ".join(json.dumps(value) for value in getattr(kind, "options", ()))
            return f"Only these values are allowed: {_short(values)}."
        case "pattern":
            return f"The value has to match {_short(str(getattr(kind, 'pattern', '')))}."
        case "format":
            return f"The format has to be {getattr(kind, 'format', '').removeprefix(_FORMAT)}."
        case "maximum" | "minimum" | "exclusiveMaximum" | "exclusiveMinimum":
            words = {
                "maximum": "at most",
                "minimum": "at least",
                "exclusiveMaximum": "less than",
                "exclusiveMinimum": "greater than",
            }
            return f"The value has to be {words[rule]} {limit}."
        case _ if rule.startswith(("max", "min")):
            word = "at most" if rule.startswith("max") else "at least"
            noun = {"Length": "characters", "Items": "items", "Properties": "fields"}[rule[3:]]
            return f"It has to have {word} {limit} {noun}."
        case "multipleOf":
            return f"The value has to be a multiple of {getattr(kind, 'multiple_of', '')}."
        case "oneOf":
            return "Not exactly one of the alternatives of oneOf fits."
        case "anyOf":
            return "None of the alternatives of anyOf fits."
        case "not":
            return "The value fits a schema that is excluded."
        case _:
            return f"The value does not fit {rule} of the schema."


# -- what the API server writes --------------------------------------------------------------------


class _Written:
    """Objects as the API server validates them: pruned, nulls removed, defaults filled in.

    `dropped` collects the paths of fields that are not in the schema.
    """

    def __init__(self, dropped: list[str]) -> None:
        self._dropped = dropped

    def root(self, item: Object, schema: Object) -> dict[str, Any]:
        written: dict[str, Any] = self._value(item, {**schema, _EMBEDDED: True}, "", False, 0)
        return written

    def _value(self, value: Any, schema: Any, path: str, keep: bool, depth: int) -> Any:
        """`keep`: unknown fields stay, because the array around it says so."""
        if depth >= DEEPEST:
            return value
        if isinstance(value, list):
            return self._list(value, schema, path, keep, depth)
        if not isinstance(value, Mapping):
            return value
        if not isinstance(schema, Mapping):
            self._dropped += (_joined(path, key) for key in value)
            return {}
        preserves = keep or schema.get(_PRESERVES) is True
        properties = schema.get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        others = schema.get("additionalProperties")
        out: dict[str, Any] = {}
        for key, inner in value.items():
            place = _joined(path, key)
            if schema.get(_EMBEDDED) is True and key in _META:
                out[key] = inner
                continue
            if key not in properties and (others is None or others is False):
                if preserves:
                    out[key] = inner
                else:
                    self._dropped.append(place)
                continue
            child = properties.get(key, others)
            child = child if isinstance(child, Mapping) else None
            if inner is None and child is not None and child.get("nullable") is not True:
                if child.get("default") is None:
                    continue
                inner = copy.deepcopy(child["default"])
            out[key] = self._value(inner, child, place, False, depth + 1)
        for key, child in properties.items():
            if key not in out and isinstance(child, Mapping) and child.get("default") is not None:
                default = copy.deepcopy(child["default"])
                out[key] = self._value(default, child, _joined(path, key), False, depth + 1)
        return out

    def _list(self, value: list[Any], schema: Any, path: str, keep: bool, depth: int) -> list[Any]:
        child = schema.get("items") if isinstance(schema, Mapping) else None
        child = child if isinstance(child, Mapping) else None
        preserves = keep or (isinstance(schema, Mapping) and schema.get(_PRESERVES) is True)
        out = []
        for at, inner in enumerate(value):
            if inner is None and child is not None and child.get("nullable") is not True:
                inner = copy.deepcopy(child.get("default"))
            out.append(self._value(inner, child, f"{path}[{at}]", preserves, depth + 1))
        return out


def _structure(
    value: Any, schema: Any, path: str, *, is_root: bool = False, depth: int = 0
) -> Iterator[Misfit]:
    """What the server checks beside the schema: unique items of sets and maps, and the kind of
    embedded objects."""
    if not isinstance(schema, Mapping) or depth >= DEEPEST:
        return
    if isinstance(value, list):
        yield from _unique(value, schema, path)
        for at, inner in enumerate(value):
            yield from _structure(inner, schema.get("items"), f"{path}[{at}]", depth=depth + 1)
    elif isinstance(value, Mapping):
        if schema.get(_EMBEDDED) is True and not is_root:
            for key in ("apiVersion", "kind"):
                if not text(value, key):
                    yield Misfit(_joined(path, key), "required", "The field is required.")
        properties = schema.get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        for key, inner in value.items():
            child = properties.get(key, schema.get("additionalProperties"))
            yield from _structure(inner, child, _joined(path, key), depth=depth + 1)


def _unique(value: list[Any], schema: Object, path: str) -> Iterator[Misfit]:
    kind, rule = text(schema, "x-kubernetes-list-type"), "x-kubernetes-list-type"
    if kind not in ("set", "map"):
        return
    keys = texts(schema, "x-kubernetes-list-map-keys")
    seen: set[str] = set()
    for at, inner in enumerate(value):
        place = f"{path}[{at}]"
        if kind == "map" and inner is not None and not isinstance(inner, Mapping):
            yield Misfit(place, rule, "An item of this list has to be an object.")
            continue
        identity = {key: dig(inner, key) for key in keys} if kind == "map" else inner
        encoded = json.dumps(identity, sort_keys=True)
        if encoded in seen:
            what = f"the same {', '.join(keys)}" if kind == "map" else "the same value"
            yield Misfit(place, rule, f"Another item of the list has {what}.")
        seen.add(encoded)


# -- formats (k8s.io/kube-openapi pkg/validation/strfmt) -------------------------------------------


def _is_address(value: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(value).version == version and "%" not in value
    except ValueError:
        return False


def _is_ipv4(value: str) -> bool:
    # Leading zeros are tolerated.
    parts = value.split(".")
    return len(parts) == 4 and all(part.isdecimal() and int(part) <= 255 for part in parts)


def _is_cidr(value: str) -> bool:
    address, slash, size = value.partition("/")
    if not slash or not size.isdecimal():
        return False
    if ":" in address:
        return _is_address(address, 6) and int(size) <= 128
    return _is_ipv4(address) and int(size) <= 32


def _is_date(value: str) -> bool:
    try:
        return bool(re.fullmatch(r"\d{4}-\d{2}-\d{2}", value) and date.fromisoformat(value))
    except ValueError:
        return False


_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(.\d+)?(z|[+-]\d{2}:\d{2})")


def _is_date_time(value: str) -> bool:
    day, letter, clock = value.lower().partition("t")
    return bool(letter) and _is_date(day) and _TIME.fullmatch(clock) is not None


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda value: compiled.fullmatch(value) is not None


_HEX = "[0-9a-fA-F]"
_BASE64 = "[A-Za-z0-9+/]"
_FORMATS: dict[str, Callable[[str], bool]] = {
    "ipv4": _is_ipv4,
    "ipv6": lambda value: _is_address(value, 6),
    "cidr": _is_cidr,
    "date": _is_date,
    "datetime": _is_date_time,
    "byte": _matches(f"(?:{_BASE64}{{4}})*(?:{_BASE64}{{2}}==|{_BASE64}{{3}}=|{_BASE64}{{4}})"),
    "uuid": _matches(f"{_HEX}{{8}}-?(?:{_HEX}{{4}}-?){{3}}{_HEX}{{12}}"),
    "uuid3": _matches(f"{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
    "uuid4": _matches(f"{_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}-?[89abAB]{_HEX}{{3}}-?{_HEX}{{12}}"),
    "uuid5": _matches(f"{_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}-?[89abAB]{_HEX}{{3}}-?{_HEX}{{12}}"),
}
# Enforced by the server as well, and not read here.
_OTHER_FORMATS = frozenset(
    {
        *("bsonobjectid", "uri", "email", "hostname", "mac", "isbn", "isbn10", "isbn13"),
        *("creditcard", "ssn", "hexcolor", "rgbcolor", "duration", "k8sshortname", "k8slongname"),
    }
)


# -- texts -----------------------------------------------------------------------------------------


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _path(parts: list[str | int]) -> str:
    path = ""
    for part in parts:
        path = f"{path}[{part}]" if isinstance(part, int) else _joined(path, part)
    return path


def _short(value: str) -> str:
    return value if len(value) <= TEXT_SHOWN else f"{value[: TEXT_SHOWN - 1]}…"
