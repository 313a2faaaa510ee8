"""Server-side apply: ownership of fields in `managedFields`, merging and conflicts.

Follows structured-merge-diff as far as these kinds need it: maps merge, lists with map keys merge
by item, sets by value, other lists are atomic. Must not know HTTP or the store.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

from olmweb.sandbox.apiserver.errors import ApiError
from olmweb.sandbox.apiserver.kinds import Object, ResourceKind, Schema

# Elements as in fieldsV1: `f:NAME`, `k:{"key":"value"}`, `v:"value"`.
Path = tuple[str, ...]

_SERVER_FIELDS = frozenset(
    [
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    ]
)
_OWNERS: Path = ("f:metadata", "f:ownerReferences")
_SETS: frozenset[Path] = frozenset({("f:metadata", "f:finalizers")})
_HERE = object()  # the value of a map or list that is owned itself, apart from its content


def _list_keys(path: Path, schema: Schema) -> list[str]:
    if path == _OWNERS:
        return ["uid"]
    if schema.get("x-kubernetes-list-type") == "map":
        return list(schema["x-kubernetes-list-map-keys"])
    return []


def _is_set(path: Path, schema: Schema) -> bool:
    return path in _SETS or schema.get("x-kubernetes-list-type") == "set"


def _child(schema: Schema, key: str) -> Schema:
    child = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
    return child if isinstance(child, dict) else {}


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _item_key(item: Object, keys: list[str]) -> str:
    return "k:" + _compact({key: item.get(key) for key in keys})


def _fields(value: Any, schema: Schema, maps: bool, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every field of an object with its value, without the server's own metadata.

    `maps` includes the maps and lists above the fields: an update owns those that it creates, an
    apply owns only the items of merged lists.
    """
    if isinstance(value, dict) and value:
        if path not in ((), ("f:metadata",)) and (maps or path[-1][0] == "k"):
            yield path, _HERE
        for key, item in value.items():
            if not path and key in ("apiVersion", "kind"):
                continue
            if path == ("f:metadata",) and key in _SERVER_FIELDS:
                continue
            yield from _fields(item, _child(schema, key), maps, (*path, f"f:{key}"))
        return
    if isinstance(value, list) and value and (keys := _list_keys(path, schema)):
        if maps:
            yield path, _HERE
        for item in value:
            where = (*path, _item_key(item, keys))
            if path == _OWNERS:
                yield where, item  # a reference is owned as a whole
            else:
                yield from _fields(item, schema.get("items", {}), maps, where)
        return
    if isinstance(value, list) and value and _is_set(path, schema):
        if maps:
            yield path, _HERE
        yield from (((*path, f"v:{_compact(item)}"), item) for item in value)
        return
    if path != ("f:metadata",):
        yield path, value


def _decode(tree: Mapping[str, Any], path: Path = ()) -> Iterator[Path]:
    if not tree and path:
        yield path
    for key, below in tree.items():
        if key == ".":
            yield path
        else:
            yield from _decode(below, (*path, key))


def _encode(paths: set[Path]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path in sorted(paths):
        node = root
        for element in path:
            node = node.setdefault(element, {})
    for path in paths:
        node = root
        for element in path:
            node = node[element]
        if node:
            node["."] = {}
    return root


def _printed(path: Path) -> str:
    text = ""
    for element in path:
        prefix, value = element[0], element[2:]
        if prefix == "f":
            text += "." + value
        elif prefix == "v":
            text += f"[={value}]"
        else:
            text += "[" + ",".join(f'{k}="{v}"' for k, v in json.loads(value).items()) + "]"
    return text


class Ownership:
    """`metadata.managedFields` as sets of paths per manager."""

    def __init__(self, item: Object | None) -> None:
        metadata = item["metadata"] if item else {}
        self._entries: list[tuple[Object, set[Path]]] = [
            (dict(entry), set(_decode(entry["fieldsV1"])))
            for entry in metadata.get("managedFields", [])
        ]

    def of(self, manager: str, operation: str, subresource: str = "") -> set[Path]:
        for entry, paths in self._entries:
            if _identity(entry) == (manager, operation, subresource):
                return paths
        return set()

    def others(
        self, manager: str, operation: str, subresource: str = ""
    ) -> Iterator[tuple[Object, set[Path]]]:
        for entry, paths in self._entries:
            if _identity(entry) != (manager, operation, subresource):
                yield entry, paths

    def set_owned(
        self,
        paths: set[Path],
        kind: ResourceKind,
        manager: str,
        operation: str,
        at: str,
        sub: str = "",
    ) -> None:
        """Replaces the paths of this manager."""
        self._entries = [
            (entry, owned)
            for entry, owned in self._entries
            if _identity(entry) != (manager, operation, sub)
        ]
        entry: Object = {
            "manager": manager,
            "operation": operation,
            "apiVersion": kind.api_version,
            "time": at,
            "fieldsType": "FieldsV1",
        }
        if sub:
            entry["subresource"] = sub
        self._entries.append((entry, paths))

    def release(self, paths: set[Path], manager: str, operation: str, sub: str = "") -> None:
        """Removes `paths` from every other manager."""
        for _entry, owned in self.others(manager, operation, sub):
            owned -= paths

    def as_json(self) -> list[Object]:
        entries = [{**entry, "fieldsV1": _encode(owned)} for entry, owned in self._entries if owned]
        return sorted(entries, key=lambda e: (e["operation"], e["time"], *_identity(e)))


def _identity(entry: Object) -> tuple[str, str, str]:
    return entry["manager"], entry["operation"], entry.get("subresource", "")


def record_update(
    before: Object | None,
    after: Object,
    kind: ResourceKind,
    manager: str,
    at: str,
    subresource: str = "",
) -> Object:
    """The object with its changed fields owned by `manager` (POST, PUT and the other PATCHes)."""
    old = dict(_fields(before, kind.schema, True)) if before else {}
    new = dict(_fields(after, kind.schema, True))
    changed = {path for path, value in new.items() if path not in old or old[path] != value}
    ownership = Ownership(before)
    owned = ownership.of(manager, "Update", subresource)
    gone = set(old) - set(new)
    ownership.release(changed | gone, manager, "Update", subresource)
    if changed or owned:
        ownership.set_owned((owned | changed) - gone, kind, manager, "Update", at, subresource)
    made = copy.deepcopy(after)
    made["metadata"]["managedFields"] = ownership.as_json()
    return made


def apply(
    live: Object | None,
    wanted: Object,
    kind: ResourceKind,
    manager: str,
    at: str,
    *,
    force: bool = False,
    subresource: str = "",
) -> Object:
    """The merged object. Raises ApiError 409 for fields of other managers, unless `force`."""
    new = dict(_fields(wanted, kind.schema, False))
    old = dict(_fields(live, kind.schema, True)) if live else {}
    ownership = Ownership(live)
    conflicts = [
        (entry, path)
        for entry, owned in ownership.others(manager, "Apply", subresource)
        for path in sorted(owned & set(new))
        if old.get(path) != new[path]
    ]
    if conflicts and not force:
        raise _conflict(conflicts)
    mine = ownership.of(manager, "Apply", subresource)
    if force:
        ownership.release({path for _entry, path in conflicts}, manager, "Apply", subresource)
    still_owned = {
        path for _, owned in ownership.others(manager, "Apply", subresource) for path in owned
    }
    merged = copy.deepcopy(live) if live else {"metadata": {}}
    for path in mine - set(new) - still_owned:
        _remove(merged, path)
    merged = _merge(merged, wanted, kind.schema, ())
    ownership.set_owned(set(new), kind, manager, "Apply", at, subresource)
    made: Object = merged
    made["metadata"]["managedFields"] = ownership.as_json()
    return made


def _merge(live: Any, wanted: Any, schema: Schema, path: Path) -> Any:
    if isinstance(live, dict) and isinstance(wanted, dict):
        merged = dict(live)
        for key, value in wanted.items():
            where = (*path, f"f:{key}")
            if key in live:
                merged[key] = _merge(live[key], value, _child(schema, key), where)
            else:
                merged[key] = copy.deepcopy(value)
        return merged
    if isinstance(live, list) and isinstance(wanted, list) and (keys := _list_keys(path, schema)):
        items = {_item_key(item, keys): item for item in live}
        for item in wanted:
            key = _item_key(item, keys)
            items[key] = _merge(items.get(key, {}), item, schema.get("items", {}), (*path, key))
        return list(items.values())
    if isinstance(live, list) and isinstance(wanted, list) and _is_set(path, schema):
        return [*live, *(item for item in wanted if item not in live)]
    return copy.deepcopy(wanted)


def _remove(node: Any, path: Path) -> None:
    """Removes a field, and the maps and lists that become empty."""
    head, rest = path[0], path[1:]
    if head[0] == "v":
        value = json.loads(head[2:])
        node[:] = [item for item in node if item != value]
        return
    if head[0] == "k":
        keys = json.loads(head[2:])
        for item in [item for item in node if all(item.get(k) == v for k, v in keys.items())]:
            if rest:
                _remove(item, rest)
            if set(item) <= set(keys):
                node.remove(item)
        return
    name = head[2:]
    if name not in node:
        return
    if rest:
        _remove(node[name], rest)
        if node[name] in ({}, []):
            del node[name]
    else:
        del node[name]


def _manager_text(entry: Object) -> str:
    text = json.dumps(entry["manager"])
    if "subresource" in entry:
        text += f" with subresource {json.dumps(entry['subresource'])}"
    if entry["operation"] == "Update":
        text += f" using {entry['apiVersion']}"
    return text


def _conflict(conflicts: list[tuple[Object, Path]]) -> ApiError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_manager_text(entry)}",
            "field": _printed(path),
        }
        for entry, path in conflicts
    ]
    if len(conflicts) == 1:
        entry, path = conflicts[0]
        text = f"1 conflict: conflict with {_manager_text(entry)}: {_printed(path)}"
    else:
        by_manager: dict[str, list[str]] = {}
        for entry, path in conflicts:
            by_manager.setdefault(_manager_text(entry), []).append(_printed(path))
        parts = [
            f"conflicts with {manager}:\n" + "\n".join(f"- {field}" for field in sorted(fields))
            for manager, fields in sorted(by_manager.items())
        ]
        text = f"{len(conflicts)} conflicts: " + "\n".join(parts)
    return ApiError(409, "Conflict", f"Apply failed with {text}", {"causes": causes})
