"""What ObjectMeta must look like: its types, its names and labels, what may not change.

Pure: metadata in, causes out. Wordings are the API server's.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from olmweb.sandbox.apiserver.errors import Cause, quoted
from olmweb.sandbox.apiserver.kinds import Kind, Schema
from olmweb.sandbox.apiserver.selectors import label_name_fault

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
SCHEMA: Schema = {
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


def type_fault(metadata: Any) -> str:
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


def causes(kind: Kind, metadata: Mapping[str, Any]) -> list[Cause]:
    """What is wrong with name, labels and annotations."""
    found = list(_name_faults(kind, metadata.get("name", "")))
    for key, value in (metadata.get("labels") or {}).items():
        if fault := label_name_fault(key):
            found.append(_invalid("metadata.labels", key, fault))
        if len(value) > 63:
            found.append(_invalid("metadata.labels", value, "must be no more than 63 bytes"))
        elif not _VALUE.match(value):
            found.append(_invalid("metadata.labels", value, _VALUE_RULE))
    size = sum(len(k) + len(v) for k, v in (metadata.get("annotations") or {}).items())
    if size > _LARGEST_ANNOTATIONS:
        text = f"Too long: may not be more than {_LARGEST_ANNOTATIONS} bytes"
        found.append(Cause("FieldValueTooLong", text, "metadata.annotations"))
    return found


def _invalid(field: str, value: str, rule: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {quoted(value)}: {rule}", field)


def _name_faults(kind: Kind, name: str) -> Iterable[Cause]:
    field = "metadata.name"
    is_label = kind.kind == "Namespace"
    if not name:
        text = "Required value: name or generateName is required"
        yield Cause("FieldValueRequired", text, field)
    elif len(name) > 253:
        yield _invalid(field, name, "must be no more than 253 characters")
    elif is_label and "." in name:
        yield _invalid(field, name, "must not contain dots")
    elif not re.fullmatch(_LABEL if is_label else _SUBDOMAIN, name):
        yield _invalid(field, name, _LABEL_RULE if is_label else _SUBDOMAIN_RULE)


def update_causes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Cause]:
    """What an update may not change. The real server checks it twice, and tells it twice."""
    found: list[Cause] = []
    if after.get("uid", before["uid"]) != before["uid"]:
        found.append(_invalid("metadata.uid", after["uid"], "field is immutable"))
    added = [
        name for name in after.get("finalizers") or () if name not in before.get("finalizers", ())
    ]
    if added and "deletionTimestamp" in before:
        listed = ", ".join(f'"{name}"' for name in added)
        text = (
            "Forbidden: no new finalizers can be added if the object is being deleted, found new "
            f"finalizers []string{{{listed}}}"
        )
        found.append(Cause("FieldValueForbidden", text, "metadata.finalizers"))
    return found * 2


def warnings(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Advice that doesn't keep the object from being stored."""
    return tuple(
        f"metadata.finalizers: {quoted(name)}: prefer a domain-qualified finalizer name to avoid "
        "accidental conflicts with other finalizer writers"
        for name in metadata.get("finalizers") or ()
        if "/" not in name
    )
