"""JSON merge patches and JSON patches. Pure: a value and a patch in, a new value out."""

import json
from collections.abc import Mapping
from typing import Any

from olmweb.sandbox.apiserver.errors import ApiError, bad_request
from olmweb.sandbox.apiserver.store import Object, copied

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
ACCEPTED = (JSON, MERGE, APPLY)


def decoded(media_type: str, body: bytes) -> Any:
    """The patch of a request. Raises ApiError 400 when it is none of its sort."""
    wanted = list if media_type == JSON else dict
    try:
        patch = json.loads(body)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from error
    if not isinstance(patch, wanted):
        raise bad_request(f"error decoding patch: {type(patch).__name__} is no {wanted.__name__}")
    return patch


def merged(value: Any, change: Any) -> Any:
    """RFC 7386."""
    if not isinstance(change, dict):
        return copied(change)
    made = copied(value) if isinstance(value, dict) else {}
    for key, item in change.items():
        if item is None:
            made.pop(key, None)
        else:
            made[key] = merged(made.get(key), item)
    return made


def patched(value: Object, steps: list[Any]) -> Object:
    """RFC 6902. Raises ApiError 422 for a step that doesn't fit; which one isn't told."""
    made = copied(value)
    try:
        for step in steps:
            _take(made, step)
    except (KeyError, IndexError, ValueError, TypeError) as error:
        text = "the server rejected our request due to an error in our request"
        raise ApiError(422, "Invalid", text, {}) from error
    return made


def _take(root: Any, step: Mapping[str, Any]) -> None:
    operation, path = step["op"], step["path"]
    if operation == "test":
        if _found(root, path) != step["value"]:
            raise ValueError("the test failed")
    elif operation == "remove":
        _remove(root, path)
    elif operation == "add":
        _add(root, path, step["value"])
    elif operation == "replace":
        _replace(root, path, step["value"])
    elif operation == "copy":
        _add(root, path, copied(_found(root, step["from"])))
    elif operation == "move":
        value = _found(root, step["from"])
        _remove(root, step["from"])
        _add(root, path, value)
    else:
        raise ValueError(f"unexpected operation {operation}")


def _parts(path: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _found(root: Any, path: str) -> Any:
    node = root
    for part in _parts(path):
        node = node[int(part)] if isinstance(node, list) else node[part]
    return node


def _parent(root: Any, path: str) -> tuple[Any, Any]:
    """The map or list that holds the last part, and that part as its key or index."""
    *above, last = _parts(path)
    node = root
    for part in above:
        node = node[int(part)] if isinstance(node, list) else node[part]
    if isinstance(node, list):
        return node, len(node) if last == "-" else int(last)
    return node, last


def _remove(root: Any, path: str) -> None:
    node, last = _parent(root, path)
    del node[last]


def _add(root: Any, path: str, value: Any) -> None:
    node, last = _parent(root, path)
    if not isinstance(node, list):
        node[last] = value
    elif last <= len(node):
        node.insert(last, value)
    else:
        raise IndexError(path)


def _replace(root: Any, path: str, value: Any) -> None:
    node, last = _parent(root, path)
    node[last] = value  # a field that isn't there is made, as the real server's library does
