"""Representations of objects by the Accept header: whole, only their metadata, or as a table.

Pure: documents in, documents out. Must not know the store.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from olmweb.sandbox.apiserver import errors
from olmweb.sandbox.apiserver.kinds import AGE, Column, Object, ResourceKind

_JSON = "application/json"
_OFFERED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_WIDE = ("*/*", "application/*", _JSON)
_KINDS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
_META = {"v": "v1", "g": "meta.k8s.io"}
_META_VERSION = "meta.k8s.io/v1"
_NAME = (
    "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically."
)
_NAME_COLUMN = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": _NAME,
    "priority": 0,
}
_CREATED = "CreationTimestamp is the time when this object was created, in RFC3339 form and UTC."
_PATH_STEP = re.compile(r'\.([\w-]+)|\[(\d+)\]|\[\?\(@?\.(\w+)==[\'"]([^\'"]*)[\'"]\)\]')


def negotiate(accept: str) -> str:
    """The `as=` kind of the first acceptable media type, "" for whole objects; ApiError 406."""
    for part in (accept or "*/*").split(","):
        media, *parameters = [piece.strip() for piece in part.split(";")]
        given = dict(piece.split("=", 1) for piece in parameters if "=" in piece)
        if media not in _WIDE:
            continue
        wanted = given.get("as", "")
        if not wanted:
            return ""
        if wanted in _KINDS and given | _META == given:
            return wanted
    raise errors.not_acceptable(f"only the following media types are accepted: {_OFFERED}")


def represented(
    as_kind: str, kind: ResourceKind, document: Object, query: Mapping[str, str]
) -> Object:
    """An object or a list as `as_kind`; a Status is returned unchanged."""
    if not as_kind or document.get("kind") == "Status":
        return document
    is_list = isinstance(document.get("items"), list)
    if as_kind == "Table":
        return _table(kind, document, is_list, query.get("includeObject", ""))
    if as_kind == "PartialObjectMetadataList":
        if not is_list:
            raise errors.ApiError(500, "", "content is not a list")
        items = [_partial(item) for item in document["items"]]
        metadata = _list_metadata(document)
        return {**_meta(as_kind), "metadata": metadata, "items": items}
    if is_list:
        raise errors.not_acceptable(
            "you requested PartialObjectMetadata, but the requested object is a list "
            "(*unstructured.UnstructuredList)"
        )
    return _partial(document)


def _meta(kind: str) -> Object:
    return {"kind": kind, "apiVersion": _META_VERSION}


def _partial(item: Object) -> Object:
    return {**_meta("PartialObjectMetadata"), "metadata": item["metadata"]}


def _list_metadata(document: Object) -> Object:
    return {key: value for key, value in document["metadata"].items() if value != ""}


def _table(kind: ResourceKind, document: Object, is_list: bool, include: str) -> Object:
    items = document["items"] if is_list else [document]
    version = document["metadata"]["resourceVersion"]
    columns = _columns(kind)
    return {
        **_meta("Table"),
        "metadata": _list_metadata(document) if is_list else {"resourceVersion": version},
        "columnDefinitions": [_NAME_COLUMN, *(_definition(kind, column) for column in columns)],
        "rows": [_row(kind, columns, item, include) for item in items],
    }


def _columns(kind: ResourceKind) -> tuple[Column, ...]:
    if kind.custom:
        return kind.columns
    # A real server has printers for built-in kinds; this is its printer for kinds without one.
    return (Column("Created At", "date", AGE.path),)


def _definition(kind: ResourceKind, column: Column) -> Object:
    from_crd = f"Custom resource definition column (in JSONPath format): {column.path}"
    plain = not kind.custom or kind.columns == (AGE,)
    return {
        "name": column.name,
        "type": column.type,
        "format": "",
        "description": _CREATED if plain else from_crd,
        "priority": column.priority,
    }


def _row(kind: ResourceKind, columns: tuple[Column, ...], item: Object, include: str) -> Object:
    carried = {"None": None, "Object": item}.get(include, _partial(item))
    cells = [item["metadata"]["name"], *(_cell(kind, column, item) for column in columns)]
    return {"cells": cells, "object": carried}


def _cell(kind: ResourceKind, column: Column, item: Object) -> Any:
    value = _value_at(item, column.path)
    if column.type == "date" and kind.custom and isinstance(value, str):
        return _age(datetime.now(UTC) - datetime.fromisoformat(value))
    return value


def _value_at(item: Any, path: str) -> Any:
    """The first value at a JSONPath of names, indexes and `[?(@.field=="value")]`, or None."""
    for name, index, field, wanted in _PATH_STEP.findall(path):
        if name:
            item = item.get(name) if isinstance(item, dict) else None
        elif index:
            item = item[int(index)] if isinstance(item, list) and int(index) < len(item) else None
        else:
            items = item if isinstance(item, list) else []
            item = next((entry for entry in items if entry.get(field) == wanted), None)
    return item


def _age(since: timedelta) -> str:
    """A duration as duration.HumanDuration of k8s.io/apimachinery prints it."""
    seconds = int(since.total_seconds())
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 0:
        return "0s" if seconds >= -1 else "<invalid>"
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, unit: str, small: int, below: str) -> str:
    return f"{large}{unit}{small}{below}" if small else f"{large}{unit}"
