"""What pages work out from the rows of each cluster or catalog, kept in memory while its revision
stays.

Every transaction that writes rows of a cluster, or the content of a catalog, increases its
revision, so a value that was worked out for a revision is right as long as the row has it. Pages
read the clusters first: of fifty they then work out only those that changed since the last page.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

Value = TypeVar("Value")


class Revised(Protocol):
    """A Cluster or Catalog, or a row with these two fields of it; or what a page asks of them with
    the revisions of all that decide it."""

    @property
    def pk(self) -> Any: ...

    @property
    def revision(self) -> object: ...


class PerRevision(Generic[Value]):
    """The values of one kind in this process.

    `read` gets ids and returns the value of each, from the rows that the revision covers alone:
    nothing that depends on the person, on the time or on other rows. A value is shared by requests
    of all threads and must not be changed.
    """

    def __init__(self, read: Callable[[Collection[Any]], Mapping[Any, Value]]) -> None:
        self._read = read
        self._stored: dict[Any, tuple[object, Value]] = {}  # id -> (revision, value)

    def of(self, rows: Iterable[Revised]) -> dict[Any, Value]:
        """Id of each row -> its value, at least as new as the revision of the row; reads those that
        changed together."""
        values: dict[Any, Value] = {}
        changed: dict[Any, object] = {}
        for row in rows:
            stored = self._stored.get(row.pk)
            if stored is not None and stored[0] == row.revision:
                values[row.pk] = stored[1]
            else:
                changed[row.pk] = row.revision
        if changed:
            for pk, value in self._read(changed).items():
                values[pk] = value
                self._stored[pk] = changed[pk], value
        return values

    def stored(self, pk: Any) -> Value | None:
        """The value of the last revision that was read, for a `read` that builds on it."""
        stored = self._stored.get(pk)
        return stored[1] if stored is not None else None
