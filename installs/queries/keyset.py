"""Keyset pagination: the next page starts after the last row's values, however many came before.

A cursor is opaque to its user: base64 of the JSON list of the key's values.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet

from olmweb.errors import BadRequest

PAGE_SIZE = 50
CURSOR_LIMIT = 2000
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """One page. `next` is empty on the last one; `cursor` is where this one started."""

    rows: list[Row]
    next: str
    cursor: str
    total: int


def paginate(
    queryset: QuerySet[Row],
    keys: Sequence[str],
    *,
    descending: bool = False,
    cursor: str = "",
    size: int = PAGE_SIZE,
    total: int | None = None,
) -> Page[Row]:
    """One page of `queryset` ordered by `keys` and the primary key. Two queries; one with `total`.

    The keys are fields or annotations that are never NULL. Raises BadRequest for a cursor that was
    not made by the same order.
    """
    fields = [*keys, "pk"]
    rows = queryset.order_by(*(f"-{field}" if descending else field for field in fields))
    number = queryset.count() if total is None else total
    try:
        if cursor:
            rows = rows.filter(_after(fields, _decode(cursor, len(fields)), descending))
        page_rows = list(rows[: size + 1])
    except (ValueError, TypeError, OverflowError, ValidationError) as error:
        raise _bad() from error
    more = len(page_rows) > size
    last = page_rows[size - 1] if more else None
    following = _encode([_value(last, field) for field in fields]) if last is not None else ""
    return Page(page_rows[:size], following, cursor, number)


def _after(fields: Sequence[str], values: Sequence[Any], descending: bool) -> Q:
    """(a, b, c) > (x, y, z) spelt with OR, the same on every database."""
    comparison = "lt" if descending else "gt"
    condition = Q()
    for position, field in enumerate(fields):
        equal = dict(zip(fields[:position], values[:position], strict=True))
        condition |= Q(**equal, **{f"{field}__{comparison}": values[position]})
    return condition


def _value(row: Model, field: str) -> Any:
    value: Any = row
    for part in field.split("__"):
        value = getattr(value, part)
    return value


def _encode(values: Sequence[Any]) -> str:
    plain = [{"t": v.isoformat()} if isinstance(v, datetime) else v for v in values]
    return base64.urlsafe_b64encode(json.dumps(plain).encode()).decode().rstrip("=")


def _decode(cursor: str, length: int) -> list[Any]:
    if len(cursor) > CURSOR_LIMIT:
        raise _bad()
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        plain = json.loads(text)
        if not isinstance(plain, list) or len(plain) != length:
            raise _bad()
        values = [_plain(value) for value in plain]
    except (binascii.Error, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _bad() from error
    if type(values[-1]) is not int:
        raise _bad()
    return values


def _plain(value: Any) -> Any:
    """A value of a key: text, whole number or time; anything else is no cursor of ours."""
    if isinstance(value, dict):
        moment = datetime.fromisoformat(value["t"])
        if moment.tzinfo is None:
            raise ValueError("a time without a zone")
        return moment
    if isinstance(value, str) and "\x00" not in value:
        return value
    if isinstance(value, int) and abs(value) < 2**62:
        return value
    raise ValueError("not a value of a key")


def _bad() -> BadRequest:
    return BadRequest(
        "The cursor in this address does not belong to this list.",
        code="bad-cursor",
        hint="Start from the first page: leave out cursor=.",
        cursor="not a cursor of this list",
    )
