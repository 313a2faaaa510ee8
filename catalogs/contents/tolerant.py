"""Access to decoded JSON of any shape: a value of the wrong type counts as absent."""

from collections.abc import Iterator
from typing import Any


def at(value: Any, *path: str) -> Any:
    """The value at the path, None when the path does not exist."""
    for part in path:
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def text(value: Any, *path: str) -> str:
    part = at(value, *path)
    return part if isinstance(part, str) else ""


def texts(value: Any, *path: str) -> tuple[str, ...]:
    part = at(value, *path)
    return tuple(item for item in part if isinstance(item, str)) if isinstance(part, list) else ()


def objects(value: Any, *path: str) -> Iterator[dict[str, Any]]:
    part = at(value, *path)
    if isinstance(part, list):
        yield from (item for item in part if isinstance(item, dict))
