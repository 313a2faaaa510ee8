"""Reads what the sync keeps of an object, `Observation.details`, whatever shape it has.

Details come from clusters by way of the database: a value of another type counts as absent.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def text(details: Mapping[str, Any], key: str) -> str:
    """The text under the key, else empty."""
    value = details.get(key)
    return value if isinstance(value, str) else ""


def texts(details: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The texts of the list under the key."""
    value = details.get(key)
    if not isinstance(value, list | tuple):
        return ()
    return tuple(one for one in value if isinstance(one, str))


def rows(details: Mapping[str, Any], key: str) -> tuple[Mapping[str, Any], ...]:
    """The objects of the list under the key."""
    value = details.get(key)
    if not isinstance(value, list | tuple):
        return ()
    return tuple(one for one in value if isinstance(one, Mapping))


def number(details: Mapping[str, Any], key: str) -> int | None:
    """The whole number under the key, None when there is none."""
    value = details.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def moment(value: str) -> datetime | None:
    """A time as Kubernetes writes it; None when it is none."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
