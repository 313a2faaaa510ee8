"""Keyset pagination: a page starts after the last row's values, however many rows precede it.

Shared by the pages and the REST API. An order is a sequence of field names, `-` for descending,
that ends in a unique field; no field of it may be NULL. A cursor holds the values of these fields
and a seal that names the list; it is opaque and signed, so its values need no checks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.core import signing
from django.db.models import Model, Q, QuerySet

from olmweb.errors import BadRequest

PAGE_SIZE = 50  # rows of every page
Row = TypeVar("Row", bound=Model)
_SIGNER = signing.Signer(salt="olmweb.cursor")


class BadCursor(BadRequest):
    """A cursor that OLM Web did not write, or wrote for another list."""

    def __init__(self) -> None:
        super().__init__(
            "The cursor in this address does not belong to this list.",
            code="bad-cursor",
            hint="Start from the first page: leave out cursor=.",
            cursor="not a cursor of this list",
        )


@dataclass(frozen=True, slots=True)
class KeysetPage(Generic[Row]):
    """One page. `next` is empty on the last one; `cursor` is where this one started."""

    rows: list[Row]
    next: str
    cursor: str
    total: int


def paginate(
    queryset: QuerySet[Row], order: Sequence[str], *, cursor: str = "", total: int | None = None
) -> KeysetPage[Row]:
    """One page of `queryset`. Two queries, one where the caller knows the total. Raises
    BadCursor."""
    seal = f"{queryset.model._meta.label} {' '.join(order)}"
    start = read_cursor(cursor, seal) if cursor else None
    if total is None:
        total = queryset.count()
    rows = list(rows_after(queryset, order, start)[: PAGE_SIZE + 1])
    page, rest = rows[:PAGE_SIZE], rows[PAGE_SIZE:]
    following = write_cursor(key_of(page[-1], order), seal) if rest else ""
    return KeysetPage(page, following, cursor, total)


def rows_after(
    queryset: QuerySet[Row], order: Sequence[str], key: Sequence[Any] | None
) -> QuerySet[Row]:
    """`queryset` in this order, from its beginning or after the row with this key."""
    ordered = queryset.order_by(*order)
    if key is None:
        return ordered
    beyond, equal = Q(), Q()
    for name, value in zip(order, key, strict=True):
        field = name.removeprefix("-")
        beyond |= equal & Q(**{f"{field}__{'lt' if name.startswith('-') else 'gt'}": value})
        equal &= Q(**{field: value})
    # Implied by `beyond`, but only this lets the database start at the right place of its index.
    comparison = "lte" if order[0].startswith("-") else "gte"
    start = Q(**{f"{order[0].removeprefix('-')}__{comparison}": key[0]})
    return ordered.filter(start & beyond)


def key_of(row: Model, order: Sequence[str]) -> list[Any]:
    """The values of the order's fields in this row."""
    values = []
    for name in order:
        value: Any = row
        for part in name.removeprefix("-").split("__"):
            value = getattr(value, part)
        values.append(value)
    return values


def write_cursor(key: Sequence[Any], seal: str) -> str:
    plain = [{"time": v.isoformat()} if isinstance(v, datetime) else v for v in key]
    return _SIGNER.sign_object([seal, *plain])


def read_cursor(cursor: str, seal: str) -> list[Any]:
    """The key in a cursor. Raises BadCursor."""
    try:
        written, *key = _SIGNER.unsign_object(cursor)
    except signing.BadSignature as error:
        raise BadCursor from error
    if written != seal:
        raise BadCursor
    return [datetime.fromisoformat(v["time"]) if isinstance(v, dict) else v for v in key]
