"""Reads from the schema of a CustomResourceDefinition what forms of its objects need.

The rules of structural schemas are those of Kubernetes, "Extend the Kubernetes API with
CustomResourceDefinitions".
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from olmweb.kube.fields import dig, text, texts

_DEPRECATED = re.compile(r"\bis a deprecated field\b|\bDeprecated:", re.IGNORECASE)
_FIELDS = 500
_DEPTH = 4
_SCHEMA_DEPTH = 60  # of a stored schema; that of a Subscription has 21
_SCHEMA_BYTES = 256 * 1024  # of a stored schema; that of a Subscription has 24 kB
_OF_SCHEMAS = ("items", "additionalProperties", "not")
_OF_LISTS = ("anyOf", "allOf", "oneOf")
_DROPPED = frozenset({"description", "title", "example", "externalDocs"})


def schema_fields(schema: Any) -> list[str]:
    """Sorted paths of the fields below `spec` that are not deprecated.

    Without items of lists and at most five levels deep, as forms need no more.
    """
    fields: list[str] = []
    below = [("spec", dig(schema, "properties", "spec"), 0)]
    while below and len(fields) < _FIELDS:
        path, schema_node, depth = below.pop()
        properties = dig(schema_node, "properties")
        if not isinstance(properties, Mapping) or depth > _DEPTH:
            continue
        for name, child in sorted(properties.items()):
            if _DEPRECATED.search(text(child, "description", limit=4000)):
                continue
            fields.append(f"{path}.{str(name)[:100]}")
            below.append((fields[-1], child, depth + 1))
    return sorted(fields)[:_FIELDS]


def required_fields(schema: Any) -> list[str]:
    """Sorted paths of the fields that `spec` requires, such as `spec.namespace`."""
    spec = dig(schema, "properties", "spec")
    return sorted(f"spec.{name[:100]}" for name in texts(spec, "required", limit=_FIELDS))


def config_schema(schema: Any) -> dict[str, Any] | None:
    """The schema of `spec.config` without its descriptions; None without one, and for one that is
    far larger or deeper than those of OLM, or holds NUL characters."""
    config = dig(schema, "properties", "spec", "properties", "config")
    if not isinstance(config, Mapping):
        return None
    try:
        stored = _without_descriptions(config, 0)
    except RecursionError:
        return None
    document = msgspec.json.encode(stored)
    # PostgreSQL stores no NUL, which only a pattern or default of no use could hold.
    return stored if len(document) <= _SCHEMA_BYTES and b"\\u0000" not in document else None


def _without_descriptions(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """Raises RecursionError beyond _SCHEMA_DEPTH."""
    if depth > _SCHEMA_DEPTH:
        raise RecursionError
    stored: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DROPPED:
            continue
        if key == "properties" and isinstance(value, Mapping):
            stored[key] = {
                name: _without_descriptions(child, depth + 1)
                for name, child in value.items()
                if isinstance(child, Mapping)
            }
        elif key in _OF_SCHEMAS and isinstance(value, Mapping):
            stored[key] = _without_descriptions(value, depth + 1)
        elif key in _OF_LISTS and isinstance(value, list):
            stored[key] = [
                _without_descriptions(child, depth + 1)
                for child in value
                if isinstance(child, Mapping)
            ]
        else:
            stored[key] = value
    return stored
