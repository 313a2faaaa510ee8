"""Pages of lists: numbered on pages for people, by keyset in the REST API and in exports.

By keyset a page starts after the last row's values, however many rows precede it. An order is a
sequence of field names, `-` for descending, that ends in a unique field; no field of it may be
NULL. A cursor holds the values of these fields and a seal that names the list; it is opaque and
signed, so its values need no checks.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from django.core import signing
from django.core.paginator import Page, Paginator
from django.db.models import Model, Q, QuerySet

from olmweb.errors import BadRequest

PAGE_SIZE = 20  # rows of a page of a list of the cluster's objects
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


def paginate(
    items: Sequence[Any] | QuerySet[Any],
    number: int,
    size: int,
    notices: list[str],
    total: int | None = None,
) -> Page[Any]:
    """Page `number` of `items`; beyond the end it is the last one, with a notice. With `total`
    the items are not counted."""
    paginator = Paginator(items, size)
    if total is not None:
        paginator.count = total
    if number > (last := paginator.num_pages):
        notices.append(f"There is no page {number}; the last one, {last}, is shown.")
    return paginator.get_page(number)


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
