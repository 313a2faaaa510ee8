"""Every read of the pages about installed operators. Knows models, never requests or templates."""

from functools import reduce
from operator import or_
from typing import TypeVar

from django.db.models import Model, Q, QuerySet

Row = TypeVar("Row", bound=Model)


def narrow(rows: QuerySet[Row], **values: str) -> QuerySet[Row]:
    """The rows with these values; an empty one narrows nothing."""
    return rows.filter(**{field: value for field, value in values.items() if value})


def search(rows: QuerySet[Row], words: str, *fields: str) -> QuerySet[Row]:
    """The rows that have each of the first eight words in any of the fields."""
    for word in words.split()[:8]:
        rows = rows.filter(reduce(or_, (Q(**{f"{name}__icontains": word}) for name in fields)))
    return rows
