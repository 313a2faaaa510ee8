"""Tables of pages: the columns, described once, which of them are shown, how rows are sorted, and
what an export writes.

The shown columns are those of the address (`columns=`, once for each), else those that the person
chose last, else those of the description. The sort is in the address alone (`sort=`).
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar

from django.contrib.auth.models import User
from django.http import HttpRequest

from olmweb.errors import BadRequest
from olmweb.models import Preferences
from olmweb.web.preferences import preferences_of

PARAMETER = "columns"
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `name` is its value of `sort=` and `columns=`; `fixed` ones can't be left out,
    and those that are not `initial` are shown by choice only; `number` aligns its cells at the end.

    `keys` are the fields that it sorts by, `exported` the fields that an export writes for it; both
    are its name unless given.
    """

    name: str
    label: str
    fixed: bool = False
    initial: bool = True
    number: bool = False
    keys: tuple[str, ...] = ()
    exported: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of a table, each of which sorts, and the sort unless chosen.

    `name` is that of the choice in the person's preferences and of the exported file. `route` is
    the list; that of the columns and of the export end in `-columns` and `-export`. Equal rows are
    sorted by `ties`, the last of which is unique.
    """

    name: str
    label: str
    route: str
    columns: tuple[Column, ...]
    sorted_by: str
    ties: tuple[str, ...] = ("name", "pk")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def view(self, request: HttpRequest, sort: str, without: Collection[str] = ()) -> "TableView":
        """The table as this request shows it; columns of `without` have nothing to show, so they
        are not offered. Raises BadRequest for unknown columns."""
        chosen = self.read(request.GET.getlist(PARAMETER))
        in_address = bool(chosen)
        if not chosen:
            stored = preferences_of(request).columns or {}
            names = stored.get(self.name) if isinstance(stored, dict) else None
            chosen = tuple(names) if isinstance(names, list) else ()
        offered = tuple(column for column in self.columns if column.name not in without)
        shown = tuple(
            column
            for column in offered
            if column.fixed or (column.name in chosen if chosen else column.initial)
        )
        return TableView(self, offered, shown, sort or self.sorted_by, in_address)

    def read(self, names: Collection[str]) -> tuple[str, ...]:
        """The requested columns in the order of the table. Raises BadRequest for unknown ones."""
        for name in names:
            if name not in self.names:
                listed = ", ".join(self.names)
                raise BadRequest(
                    f"columns={name[:40]} is no column; use one of: {listed}.",
                    code="bad-filter",
                    columns=f"one of {listed}",
                )
        return tuple(name for name in self.names if name in names)

    def remember(self, person: User, names: Collection[str]) -> None:
        """Stores the shown columns in the person's preferences. Raises BadRequest."""
        chosen = list(self.read(names))
        row, _created = Preferences.objects.get_or_create(user=person)
        row.columns = {**(row.columns or {}), self.name: chosen}
        row.save(update_fields=["columns"])


@dataclass(frozen=True, slots=True)
class TableView:
    """A table as one request shows it: the columns on offer, those shown, the sort in use."""

    table: Table
    offered: tuple[Column, ...]
    shown: tuple[Column, ...]
    sort: str
    in_address: bool

    @property
    def shows(self) -> dict[str, bool]:
        """Name -> whether it is shown, of every column: a name that a template can't resolve is
        slow."""
        return {column.name: column in self.shown for column in self.table.columns}

    def heads(self) -> Iterator[tuple[Column, str]]:
        """(column, its `aria-sort`, empty where another column sorts) of the shown columns."""
        direction = "descending" if self.sort.startswith("-") else "ascending"
        for column in self.shown:
            yield column, direction if column.name == self.sort.removeprefix("-") else ""

    @property
    def requested(self) -> tuple[str, ...]:
        """Values of `columns=` in the address, none where it has none."""
        return tuple(column.name for column in self.shown) if self.in_address else ()

    @property
    def order(self) -> tuple[str, ...]:
        """The sort as an order of olmweb.web.pagination."""
        name = self.sort.removeprefix("-")
        column = next(column for column in self.table.columns if column.name == name)
        keys = tuple(dict.fromkeys((*(column.keys or (name,)), *self.table.ties)))
        return tuple(f"-{key}" for key in keys) if self.sort.startswith("-") else keys

    def arrange(self, rows: Iterable[Row]) -> list[Row]:
        """Rows that no query sorts, in this order; the keys are attributes of a row."""
        keys = attrgetter(*(key.removeprefix("-") for key in self.order))
        return sorted(rows, key=keys, reverse=self.sort.startswith("-"))

    @property
    def exported(self) -> list[str]:
        """The fields that an export of the shown columns writes."""
        return [field for column in self.shown for field in column.exported or (column.name,)]
