"""Tables of pages: the columns, described once, which of them are shown, and how rows are sorted.

The shown columns are those of the address (`columns=`, once for each), else those that the person
chose last, else those of the description. The sort is in the address alone (`sort=`).
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.http import HttpRequest

from olmweb.errors import BadRequest
from olmweb.models import Preferences
from olmweb.web.preferences import preferences_of

PARAMETER = "columns"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `name` is its value of `sort=` and `columns=`; `fixed` ones can't be left out,
    and those that are not `initial` are shown by choice only."""

    name: str
    label: str
    fixed: bool = False
    initial: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of a table, each of which sorts, and the column that sorts unless chosen.
    `name` is that of the choice in the person's preferences."""

    name: str
    label: str
    columns: tuple[Column, ...]
    sorted_by: str

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
