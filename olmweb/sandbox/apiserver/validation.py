"""Validation of objects: structural schemas of custom resources, and ObjectMeta of all kinds.

Pure: values in, causes out. Messages follow the API server's (kube-openapi's validators and
field.Error). `x-rules` in a schema lists the few CEL rules of these CRDs: `matches`, `immutable`,
`requires`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from olmweb.sandbox.apiserver.errors import StatusCause, quoted, unsupported
from olmweb.sandbox.apiserver.kinds import ResourceKind, Schema

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
# CEL rules are not checked while there are faults for these reasons.
_BLOCKING = frozenset(
    [
        "FieldValueRequired",
        "FieldValueNotSupported",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ]
)
UNCHECKED = StatusCause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
    "<nil>",
)


def prune(value: Any, schema: Schema, path: str = "") -> tuple[Any, list[str]]:
    """Returns the value without nulls and undeclared fields, and the paths of the latter."""
    dropped: list[str] = []
    return _prune(value, schema, path, dropped), sorted(dropped)


def _prune(value: Any, schema: Schema, path: str, dropped: list[str]) -> Any:
    if isinstance(value, dict):
        declared: Mapping[str, Schema] = schema.get("properties", {})
        extra = schema.get("additionalProperties")
        preserves = schema.get("x-kubernetes-preserve-unknown-fields", False)
        pruned: dict[str, Any] = {}
        for key, item in value.items():
            where = f"{path}.{key}" if path else key
            if key in declared:
                if item is not None or declared[key].get("nullable"):
                    pruned[key] = _prune(item, declared[key], where, dropped)
            elif isinstance(extra, dict):
                pruned[key] = _prune(item, extra, where, dropped)
            elif preserves or not schema:
                pruned[key] = item
            else:
                dropped.append(where)
        return pruned
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
    """The first reason for which an applied body is no typed patch, or ""."""
    wanted = schema.get("type", "")
    actual = _type_of(value)
    if wanted and value is not None and _TYPED[wanted] != _TYPED[actual]:
        shown = quoted(value) if isinstance(value, str | bool) else str(value)
        return f"{path}: expected {_TYPED[wanted]}, got &value.valueUnstructured{{Value:{shown}}}"
    if isinstance(value, dict):
        declared: Mapping[str, Schema] = schema.get("properties", {})
        extra = schema.get("additionalProperties")
        for key, item in value.items():
            child = declared.get(key, extra if isinstance(extra, dict) else None)
            if child is not None:
                if fault := typed_fault(item, child, f"{path}.{key}"):
                    return fault
            elif declared and not schema.get("x-kubernetes-preserve-unknown-fields"):
                return f"{path}.{key}: field not declared in schema"
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            if fault := typed_fault(item, schema["items"], f"{path}[{index}]"):
                return fault
    return ""


def validate(
    value: Any, schema: Schema, old: Any = None, earlier: Iterable[StatusCause] = ()
) -> list[StatusCause]:
    """The `earlier` causes and those of the schema; `old` is the stored value on update."""
    causes = [*earlier, *_check(value, schema, "")]
    if blocked(causes, schema):
        return [*causes, UNCHECKED]
    return [*causes, *_rules(value, schema, old, "")]


def blocked(causes: Iterable[StatusCause], schema: Schema) -> bool:
    """Whether these causes prevent the check of the schema's rules."""
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


def _invalid(path: str, value: object, message: str) -> StatusCause:
    return StatusCause("FieldValueInvalid", f"Invalid value: {quoted(value)}: {message}", path)


def _type_fault(path: str, shown: object, wanted: str) -> StatusCause:
    text = f"{path} in body must be of type {wanted}: {quoted(shown)}"
    return StatusCause("FieldValueTypeInvalid", f"Invalid value: {quoted(shown)}: {text}", path)


def _check(value: Any, schema: Schema, path: str) -> Iterator[StatusCause]:
    wanted = schema.get("type")
    if value is None and schema.get("nullable"):
        return
    actual = _type_of(value)
    if wanted and actual != wanted and not (wanted == "number" and actual == "integer"):
        yield _type_fault(path, actual, wanted)
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


def _check_string(value: str, schema: Schema, path: str) -> Iterator[StatusCause]:
    if len(value) > schema.get("maxLength", len(value)):
        limit = schema["maxLength"]
        yield StatusCause(
            "FieldValueTooLong", f"Too long: may not be more than {limit} bytes", path
        )
    if len(value) < schema.get("minLength", 0):
        yield _invalid(
            path, value, f"{path} in body should be at least {schema['minLength']} chars long"
        )
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield _invalid(path, value, f"{path} in body should match '{schema['pattern']}'")
    if schema.get("format") == "date-time" and not _DATE_TIME.match(value):
        yield _type_fault(path, value, "date-time")


def _check_number(value: float, schema: Schema, path: str) -> Iterator[StatusCause]:
    if value < schema.get("minimum", value):
        yield _invalid(
            path, value, f"{path} in body should be greater than or equal to {schema['minimum']}"
        )
    if value > schema.get("maximum", value):
        yield _invalid(
            path, value, f"{path} in body should be less than or equal to {schema['maximum']}"
        )


def _check_list(value: list[Any], schema: Schema, path: str) -> Iterator[StatusCause]:
    if len(value) > schema.get("maxItems", len(value)):
        limit = schema["maxItems"]
        text = f"Too many: {len(value)}: must have at most {limit} items"
        yield StatusCause("FieldValueTooMany", text, path)
    items = schema.get("items")
    keys = schema.get("x-kubernetes-list-map-keys")
    identities: set[str] = set()
    for index, item in enumerate(value):
        where = f"{path}[{index}]"
        if keys and isinstance(item, dict):
            identity = quoted({key: item.get(key) for key in keys})
            if identity in identities:
                yield StatusCause("FieldValueDuplicate", f"Duplicate value: {identity}", where)
            identities.add(identity)
        if isinstance(items, dict):
            yield from _check(item, items, where)


def _check_object(value: dict[str, Any], schema: Schema, path: str) -> Iterator[StatusCause]:
    for key in sorted(schema.get("required", [])):
        if key not in value:
            yield StatusCause(
                "FieldValueRequired", "Required value", f"{path}.{key}" if path else key
            )
    for key, item, child in _children(value, schema):
        yield from _check(item, child, f"{path}.{key}" if path else key)


def _children(value: Mapping[str, Any], schema: Schema) -> Iterator[tuple[str, Any, Schema]]:
    declared: Mapping[str, Schema] = schema.get("properties", {})
    extra = schema.get("additionalProperties")
    for key, item in value.items():
        child = declared.get(key, extra if isinstance(extra, dict) else None)
        if child is not None:
            yield key, item, child


def _rules(value: Any, schema: Schema, old: Any, path: str) -> Iterator[StatusCause]:
    for rule in schema.get("x-rules", []):
        broken = (
            ("matches" in rule and not re.search(rule["matches"], value))
            or ("requires" in rule and rule["requires"] not in value)
            or (rule.get("immutable", False) and old is not None and value != old)
        )
        if broken:
            # The message has the value only if it is a scalar.
            shown = "" if isinstance(value, dict | list) else f"{quoted(value)}: "
            yield StatusCause("FieldValueInvalid", f"Invalid value: {shown}{rule['message']}", path)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for key, item, child in _children(value, schema):
            yield from _rules(item, child, before.get(key), f"{path}.{key}" if path else key)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from _rules(item, schema["items"], None, f"{path}[{index}]")


# --- ObjectMeta

_NAME_PART = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")
_NAME_PART_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_SUBDOMAIN}')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    f"for validation is '{_LABEL}')"
)
_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_LARGEST_ANNOTATIONS = 256 * 1024

_STRING = {"type": "string"}
_STRINGS = {"type": "object", "additionalProperties": _STRING}
_FREE = {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}}
METADATA_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "annotations": _STRINGS,
        "creationTimestamp": _STRING,
        "deletionGracePeriodSeconds": {"type": "integer"},
        "deletionTimestamp": _STRING,
        "finalizers": {"type": "array", "items": _STRING},
        "generateName": _STRING,
        "generation": {"type": "integer"},
        "labels": _STRINGS,
        "managedFields": _FREE,
        "name": _STRING,
        "namespace": _STRING,
        "ownerReferences": _FREE,
        "resourceVersion": _STRING,
        "selfLink": _STRING,
        "uid": _STRING,
    },
}
_GO_NAMES = {bool: "bool", str: "string", int: "number", float: "number", list: "array"}
_GO_TYPES = {"labels": "map[string]string", "annotations": "map[string]string"}


def metadata_type_fault(metadata: Any) -> str:
    """Go's complaint about a value that doesn't fit its field, or ""."""
    if not isinstance(metadata, dict):
        return f"json: cannot unmarshal {_go(metadata)} into Go value of type v1.ObjectMeta"
    for field in ("labels", "annotations"):
        value = metadata.get(field)
        if value is None:
            continue
        if not isinstance(value, dict):
            return _go_fault(value, field, _GO_TYPES[field])
        for item in value.values():
            if not isinstance(item, str | None):
                return _go_fault(item, field, "string")
    if not isinstance(metadata.get("finalizers"), list | None):
        return _go_fault(metadata["finalizers"], "finalizers", "[]string")
    for field in ("name", "namespace", "generateName", "resourceVersion", "uid"):
        if not isinstance(metadata.get(field), str | None):
            return _go_fault(metadata[field], field, "string")
    return ""


def _go(value: Any) -> str:
    return _GO_NAMES.get(type(value), "object")


def _go_fault(value: Any, field: str, wanted: str) -> str:
    return (
        f"json: cannot unmarshal {_go(value)} into Go struct field ObjectMeta.{field} of type "
        f"{wanted}"
    )


def label_name_fault(key: str) -> str:
    """The fault in the name of a label (its part after the `/`), or ""."""
    return "" if _NAME_PART.match(key.rsplit("/", 1)[-1]) else _NAME_PART_RULE


def metadata_causes(kind: ResourceKind, metadata: Mapping[str, Any]) -> list[StatusCause]:
    """The faults in name, labels and annotations."""
    causes = list(_name_faults(kind, metadata.get("name", "")))
    for key, value in (metadata.get("labels") or {}).items():
        if fault := label_name_fault(key):
            causes.append(_invalid("metadata.labels", key, fault))
        if len(value) > 63:
            causes.append(_invalid("metadata.labels", value, "must be no more than 63 bytes"))
        elif not _VALUE.match(value):
            causes.append(_invalid("metadata.labels", value, _VALUE_RULE))
    size = sum(len(k) + len(v) for k, v in (metadata.get("annotations") or {}).items())
    if size > _LARGEST_ANNOTATIONS:
        text = f"Too long: may not be more than {_LARGEST_ANNOTATIONS} bytes"
        causes.append(StatusCause("FieldValueTooLong", text, "metadata.annotations"))
    return causes


def _name_faults(kind: ResourceKind, name: str) -> Iterable[StatusCause]:
    field = "metadata.name"
    is_label = kind.kind == "Namespace"
    if not name:
        text = "Required value: name or generateName is required"
        yield StatusCause("FieldValueRequired", text, field)
    elif len(name) > 253:
        yield _invalid(field, name, "must be no more than 253 characters")
    elif is_label and "." in name:
        yield _invalid(field, name, "must not contain dots")
    elif not re.fullmatch(_LABEL if is_label else _SUBDOMAIN, name):
        yield _invalid(field, name, _LABEL_RULE if is_label else _SUBDOMAIN_RULE)


def metadata_update_causes(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> list[StatusCause]:
    """The faults of an update, each twice: the real server checks and reports them twice."""
    causes: list[StatusCause] = []
    if after.get("uid", before["uid"]) != before["uid"]:
        causes.append(_invalid("metadata.uid", after["uid"], "field is immutable"))
    added = [
        name for name in after.get("finalizers") or () if name not in before.get("finalizers", ())
    ]
    if added and "deletionTimestamp" in before:
        listed = ", ".join(f'"{name}"' for name in added)
        text = (
            "Forbidden: no new finalizers can be added if the object is being deleted, found new "
            f"finalizers []string{{{listed}}}"
        )
        causes.append(StatusCause("FieldValueForbidden", text, "metadata.finalizers"))
    return causes * 2


def metadata_warnings(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Warnings about an object that is stored all the same."""
    return tuple(
        f"metadata.finalizers: {quoted(name)}: prefer a domain-qualified finalizer name to avoid "
        "accidental conflicts with other finalizer writers"
        for name in metadata.get("finalizers") or ()
        if "/" not in name
    )
