"""DecodedObject, and functions that read what objects of all kinds have."""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from olmweb.kube import conditions as kube_conditions
from olmweb.kube.fields import Object, dig, items, number, read_time, text

Key = tuple[str, str, str]  # kind, namespace, name

PACKAGE_LABEL = "operators.coreos.com/"  # of OLM v0, followed by `<package>.<namespace>`
LISTED = 500  # items stored of a list of unknown length


@dataclass(frozen=True, slots=True)
class DecodedObject:
    """The stored fields of an API object; `columns` are those specific to its table.

    `source` is the object itself, for catalogs, whose rows the app `catalogs` writes.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created_at: datetime | None
    deleting: bool
    conditions: list[dict[str, Any]]
    columns: dict[str, Any] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    source: Object | None = None

    @property
    def key(self) -> Key:
        return self.kind, self.namespace, self.name

    def digest(self) -> str:
        """A hash of all fields but the resourceVersion, which changes without them."""
        content = (
            self.key,
            self.uid,
            self.generation,
            self.created_at,
            self.deleting,
            self.conditions,
            self.columns,
            self.details,
        )
        return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()


def segment(value: Any, *path: str, limit: int = 253) -> str:
    """The text at `path` if it is a valid object name, else empty.

    As apimachinery pkg/api/validation/path, IsValidPathSegmentName: names stand in URLs.
    """
    name = text(value, *path, limit=limit)
    return "" if name in (".", "..") or "/" in name or "%" in name else name


def text_fields(value: Object, *fields: str, limit: int = 4_000) -> dict[str, str]:
    """These text fields of a mapping."""
    return {name: text(value, name, limit=limit) for name in fields}


def read_conditions(obj: Object) -> list[dict[str, Any]]:
    """`status.conditions` with clean texts; see olmweb.kube.conditions.read."""
    return [
        {
            key: text(condition, key) if isinstance(value, str) else value
            for key, value in condition.items()
        }
        for condition in kube_conditions.read(obj)
    ]


def decoded_object(
    obj: Object,
    kind: str,
    columns: dict[str, Any],
    details: dict[str, Any] | None = None,
    *,
    conditions: list[dict[str, Any]] | None = None,
    source: Object | None = None,
) -> DecodedObject | None:
    """Decodes the metadata; None for an object without a valid name, which no API server sends.

    The details of an object that is being deleted contain `deleted_at`.
    """
    meta = dig(obj, "metadata")
    name, namespace = segment(meta, "name"), segment(meta, "namespace", limit=63)
    if not name or (text(meta, "namespace") and not namespace):
        return None
    deleted = text(meta, "deletionTimestamp", limit=60)
    return DecodedObject(
        kind=kind,
        namespace=namespace,
        name=name,
        uid=text(meta, "uid", limit=64),
        resource_version=text(meta, "resourceVersion", limit=64),
        generation=max(number(meta, "generation"), 0),
        created_at=read_time(dig(meta, "creationTimestamp")),
        deleting=bool(dig(meta, "deletionTimestamp")),
        conditions=read_conditions(obj) if conditions is None else conditions,
        columns=columns,
        details=(details or {}) | ({"deleted_at": deleted} if deleted else {}),
        source=source,
    )


def component_columns(
    obj: Object, owner: Key = ("", "", ""), *, phase: str = "", image: str = ""
) -> dict[str, Any]:
    """The columns of a Component."""
    kind, namespace, name = owner
    return {
        "api_version": text(obj, "apiVersion", limit=300),
        "owner_kind": kind[:100],
        "owner_namespace": namespace[:63],
        "owner_name": name[:253],
        "phase": phase[:60],
        "image": image[:1000],
    }


def controller(obj: Object) -> Key:
    """The owner that controls the object, in the object's namespace."""
    for owner in items(obj, "metadata", "ownerReferences", limit=LISTED):
        if owner.get("controller") is True:
            namespace = text(obj, "metadata", "namespace")
            return text(owner, "kind"), namespace, segment(owner, "name")
    return "", "", ""


def labelled_owner(obj: Object, prefix: str) -> Key:
    """The owner named by the labels `<prefix>/owner-kind` and `<prefix>/owner-name`."""
    labels = dig(obj, "metadata", "labels")
    name = segment(labels, f"{prefix}/owner-name")
    return (text(labels, f"{prefix}/owner-kind"), "", name) if name else ("", "", "")
