"""Reading decoded JSON that may have any shape: a part of a wrong type counts as absent."""

from collections.abc import Iterator
from typing import Any


def at(value: Any, *path: str) -> Any:
    """What lies below, None when the way is not there."""
    for part in path:
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def text(value: Any, *path: str) -> str:
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def texts(value: Any, *path: str) -> tuple[str, ...]:
    found = at(value, *path)
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()


def objects(value: Any, *path: str) -> Iterator[dict[str, Any]]:
    found = at(value, *path)
    if isinstance(found, list):
        yield from (each for each in found if isinstance(each, dict))
