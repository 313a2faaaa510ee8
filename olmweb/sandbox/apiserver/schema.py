"""Structural-schema validation of custom resources: pruning, defaults, typed patches, 422 causes.

Messages follow the API server's (kube-openapi's validators and field.Error). The rule list
`x-rules` stands for the few CEL rules of these CRDs: `matches`, `immutable`, `requires`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from olmweb.sandbox.apiserver.errors import Cause, quoted, unsupported
from olmweb.sandbox.apiserver.kinds import Schema

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}
_TYPED: Mapping[str, str] = {
    "string": "string",
    "integer": "numeric (int or float)",
    "number": "numeric (int or float)",
    "boolean": "boolean",
    "object": "map",
    "array": "list",
}
_DATE_TIME = re.compile(r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$")
# Faults of these sorts keep CEL rules from being checked.
_BLOCKING = frozenset(
    [
        "FieldValueRequired",
        "FieldValueNotSupported",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ]
)
UNCHECKED = Cause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
    "<nil>",
)


def prune(value: Any, schema: Schema, path: str = "") -> tuple[Any, list[str]]:
    """Drops fields that the schema lacks, and nulls; gives the rest and the unknown paths."""
    dropped: list[str] = []
    return _prune(value, schema, path, dropped), sorted(dropped)


def _prune(value: Any, schema: Schema, path: str, dropped: list[str]) -> Any:
    if isinstance(value, dict):
        known: Mapping[str, Schema] = schema.get("properties", {})
        extra = schema.get("additionalProperties")
        keeps = schema.get("x-kubernetes-preserve-unknown-fields", False)
        kept: dict[str, Any] = {}
        for key, item in value.items():
            where = f"{path}.{key}" if path else key
            if key in known:
                if item is not None or known[key].get("nullable"):
                    kept[key] = _prune(item, known[key], where, dropped)
            elif isinstance(extra, dict):
                kept[key] = _prune(item, extra, where, dropped)
            elif keeps or extra is True or not schema:
                kept[key] = item
            else:
                dropped.append(where)
        return kept
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [
            _prune(item, schema["items"], f"{path}[{i}]", dropped) for i, item in enumerate(value)
        ]
    return value


def with_defaults(value: Any, schema: Schema) -> Any:
    """The value with the schema's defaults filled in."""
    if isinstance(value, dict):
        filled = dict(value)
        for key, child in schema.get("properties", {}).items():
            if key not in filled and "default" in child:
                filled[key] = child["default"]
            if key in filled:
                filled[key] = with_defaults(filled[key], child)
        return filled
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [with_defaults(item, schema["items"]) for item in value]
    return value


def typed_fault(value: Any, schema: Schema, path: str = "") -> str:
    """The first fault that keeps an applied body from being a typed patch, or ""."""
    wanted = schema.get("type", "")
    actual = _type_of(value)
    if wanted and value is not None and _TYPED[wanted] != _TYPED[actual]:
        shown = quoted(value) if isinstance(value, str | bool) else str(value)
        return f"{path}: expected {_TYPED[wanted]}, got &value.valueUnstructured{{Value:{shown}}}"
    if isinstance(value, dict):
        known: Mapping[str, Schema] = schema.get("properties", {})
        extra = schema.get("additionalProperties")
        for key, item in value.items():
            child = known.get(key, extra if isinstance(extra, dict) else None)
            if child is not None:
                if fault := typed_fault(item, child, f"{path}.{key}"):
                    return fault
            elif known and not schema.get("x-kubernetes-preserve-unknown-fields"):
                return f"{path}.{key}: field not declared in schema"
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            if fault := typed_fault(item, schema["items"], f"{path}[{index}]"):
                return fault
    return ""


def validate(
    value: Any, schema: Schema, old: Any = None, already: Iterable[Cause] = ()
) -> list[Cause]:
    """Every cause, those found `already` first; `old` is the stored value on update."""
    causes = [*already, *_check(value, schema, "")]
    if blocked(causes, schema):
        return [*causes, UNCHECKED]
    return [*causes, *_rules(value, schema, old, "")]


def blocked(causes: Iterable[Cause], schema: Schema) -> bool:
    """Whether the schema has rules that can't be checked because of these causes."""
    return any(cause.reason in _BLOCKING for cause in causes) and _has_rules(schema)


def _has_rules(schema: Schema) -> bool:
    if "x-rules" in schema:
        return True
    below = [*schema.get("properties", {}).values(), schema.get("items")]
    return any(isinstance(child, dict) and _has_rules(child) for child in below)


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    for name in ("boolean", "string", "integer", "number", "object", "array"):
        if isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool)):
            return name
    raise TypeError(f"{type(value)} is no JSON value")


def _invalid(path: str, value: object, message: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {quoted(value)}: {message}", path)


def _type_fault(path: str, shown: object, wanted: str, told: object) -> Cause:
    text = f"{path} in body must be of type {wanted}: {quoted(told)}"
    return Cause("FieldValueTypeInvalid", f"Invalid value: {quoted(shown)}: {text}", path)


def _check(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    wanted = schema.get("type")
    if value is None and schema.get("nullable"):
        return
    actual = _type_of(value)
    if wanted and actual != wanted and not (wanted == "number" and actual == "integer"):
        yield _type_fault(path, actual, wanted, actual)
        return
    if isinstance(value, str):
        yield from _check_string(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _check_number(value, schema, path)
    elif isinstance(value, list):
        yield from _check_list(value, schema, path)
    elif isinstance(value, dict):
        yield from _check_object(value, schema, path)
    allowed = schema.get("enum")
    if allowed and value not in allowed:
        yield unsupported(path, value, allowed)


def _check_string(value: str, schema: Schema, path: str) -> Iterator[Cause]:
    if len(value) > schema.get("maxLength", len(value)):
        limit = schema["maxLength"]
        yield Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", path)
    if len(value) < schema.get("minLength", 0):
        yield _invalid(
            path, value, f"{path} in body should be at least {schema['minLength']} chars long"
        )
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield _invalid(path, value, f"{path} in body should match '{schema['pattern']}'")
    if schema.get("format") == "date-time" and not _DATE_TIME.match(value):
        yield _type_fault(path, value, "date-time", value)


def _check_number(value: float, schema: Schema, path: str) -> Iterator[Cause]:
    if value < schema.get("minimum", value):
        yield _invalid(
            path, value, f"{path} in body should be greater than or equal to {schema['minimum']}"
        )
    if value > schema.get("maximum", value):
        yield _invalid(
            path, value, f"{path} in body should be less than or equal to {schema['maximum']}"
        )


def _check_list(value: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    if len(value) > schema.get("maxItems", len(value)):
        limit = schema["maxItems"]
        text = f"Too many: {len(value)}: must have at most {limit} items"
        yield Cause("FieldValueTooMany", text, path)
    items = schema.get("items")
    keys = schema.get("x-kubernetes-list-map-keys")
    seen: set[str] = set()
    for index, item in enumerate(value):
        where = f"{path}[{index}]"
        if keys and isinstance(item, dict):
            identity = quoted({key: item.get(key) for key in keys})
            if identity in seen:
                yield Cause("FieldValueDuplicate", f"Duplicate value: {identity}", where)
            seen.add(identity)
        if isinstance(items, dict):
            yield from _check(item, items, where)


def _check_object(value: dict[str, Any], schema: Schema, path: str) -> Iterator[Cause]:
    for key in sorted(schema.get("required", [])):
        if key not in value:
            yield Cause("FieldValueRequired", "Required value", f"{path}.{key}" if path else key)
    for key, item, child in _children(value, schema):
        yield from _check(item, child, f"{path}.{key}" if path else key)


def _children(value: Mapping[str, Any], schema: Schema) -> Iterator[tuple[str, Any, Schema]]:
    known: Mapping[str, Schema] = schema.get("properties", {})
    extra = schema.get("additionalProperties")
    for key, item in value.items():
        child = known.get(key, extra if isinstance(extra, dict) else None)
        if child is not None:
            yield key, item, child


def _rules(value: Any, schema: Schema, old: Any, path: str) -> Iterator[Cause]:
    for rule in schema.get("x-rules", []):
        broken = (
            ("matches" in rule and not re.search(rule["matches"], value))
            or ("requires" in rule and rule["requires"] not in value)
            or (rule.get("immutable", False) and old is not None and value != old)
        )
        if broken:
            # The value is told when it is a scalar only.
            shown = "" if isinstance(value, dict | list) else f"{quoted(value)}: "
            yield Cause("FieldValueInvalid", f"Invalid value: {shown}{rule['message']}", path)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for key, item, child in _children(value, schema):
            yield from _rules(item, child, before.get(key), f"{path}.{key}" if path else key)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from _rules(item, schema["items"], None, f"{path}[{index}]")
