"""Reads fields of untrusted decoded JSON: a field of an unexpected type counts as absent. Pure.

Texts are cut, and NUL characters, which PostgreSQL rejects, are replaced.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

Object = Mapping[str, Any]

TEXT_LIMIT = 32_768  # the longest message that operator-controller writes
_BIG = 2**63
_HTTPS = re.compile(r"https://[A-Za-z0-9.\-\[\]:]+(/[A-Za-z0-9._/\-]*)?")


def dig(value: Any, *path: str) -> Any:
    """`value[path[0]][path[1]]...`, None if there is no such field."""
    for part in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def text(value: Any, *path: str, limit: int = TEXT_LIMIT) -> str:
    """The text at `path`, at most `limit` characters; empty for anything else."""
    content = dig(value, *path)
    return content.replace("\x00", "\ufffd")[:limit] if isinstance(content, str) else ""


def number(value: Any, *path: str, default: int = 0) -> int:
    """The integer at `path` if it fits into 64 bits, else `default`."""
    content = dig(value, *path)
    is_number = isinstance(content, int) and not isinstance(content, bool)
    return content if is_number and -_BIG <= content < _BIG else default


def items(value: Any, *path: str, limit: int | None = None) -> list[Object]:
    """The mappings of the list at `path`, at most `limit` of them."""
    content = dig(value, *path)
    listed = content if isinstance(content, list) else ()
    return [item for item in listed if isinstance(item, Mapping)][:limit]


def texts(value: Any, *path: str, limit: int | None = None) -> list[str]:
    """The texts of the list at `path`, at most `limit` of them."""
    content = dig(value, *path)
    listed = content if isinstance(content, list) else ()
    return [text(item) for item in listed if isinstance(item, str)][:limit]


def read_time(value: Any) -> datetime | None:
    """A Kubernetes timestamp; None for anything else and for times out of the range of UTC."""
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def https_address(value: str) -> str:
    """The https address without user, query and last slash; empty for anything else."""
    return value.rstrip("/") if _HTTPS.fullmatch(value) else ""
