"""Writing many rows fast: INSERTs built from a model's columns, run without model instances.

Knows tables and both databases, not what the rows mean. Values go through no Django field: give
JSON as text, times as aware datetimes. Must run inside a transaction.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

import msgspec
from django.db import connection
from django.db.models import CharField, Field, Model

_encode = msgspec.json.Encoder().encode


def as_json(value: object) -> str:
    """Text for a JSON column."""
    return _encode(value).decode()


class Table:
    """One table with the columns that a caller fills, in that order, and rows waiting for it.

    `keyed` rows carry their own primary key where another writer may have stored the same one
    (content-addressed rows): what is there already is left alone. `finish` last.
    """

    def __init__(
        self, model: type[Model], *fields: str, keyed: bool = False, batch: int = 1000
    ) -> None:
        meta = model._meta
        self._model = model
        columns = [_column(model, name) for name in fields]
        quote = connection.ops.quote_name
        self._table = quote(meta.db_table)
        self._cuts = _cuts(model, fields)
        self.written = 0
        self._rows: list[Sequence[Any]] = []
        self._batch = batch
        self._columns = f" ({', '.join(map(quote, columns))})"
        self._target = self._table + self._columns
        self._keyed = keyed
        self._key = quote(_column(model, meta.pk.name))
        self._waits = False  # rows in a temporary table
        marks = ", ".join(["%s"] * len(columns))
        self._insert = f"INSERT INTO {self._target} VALUES ({marks})"  # noqa: S608 - our own names
        if keyed:
            self._insert += " ON CONFLICT DO NOTHING"

    def add(self, row: Sequence[Any]) -> None:
        self._rows.append(row)
        if len(self._rows) >= self._batch:
            self.flush()

    def extend(self, rows: Iterable[Sequence[Any]]) -> None:
        self._rows.extend(rows)
        if len(self._rows) >= self._batch:
            self.flush()

    def flush(self) -> None:
        if not self._rows:
            return
        rows = _fit_all(self._rows, self._cuts)
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                self._copy(cursor, rows)
            else:
                cursor.executemany(self._insert, rows)
        self.written += len(self._rows)
        self._rows.clear()

    def _copy(self, cursor: Any, rows: list[Sequence[Any]]) -> None:
        """PostgreSQL's fast way in; COPY itself can't skip keys that are there already."""
        if not self._keyed:
            _copy_rows(cursor, self._target, rows)
            return
        waiting = self._waiting_table()
        if not self._waits:
            self._waits = True
            cursor.execute(
                f"CREATE TEMPORARY TABLE {waiting}"
                f" (LIKE {self._table} INCLUDING DEFAULTS) ON COMMIT DROP"
            )
        _copy_rows(cursor, waiting + self._columns, rows)

    def _waiting_table(self) -> str:
        return connection.ops.quote_name(f"waiting_{self._model._meta.db_table}")

    def finish(self) -> None:
        """`flush`, and on PostgreSQL the way in for what waited for its keys to be compared.

        In the order of the keys: two writers of the same keys then wait, one for the other, where
        in their own orders each could wait for the other one.
        """
        self.flush()
        if not self._waits:
            return
        waiting = self._waiting_table()
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {self._target} SELECT {self._columns.strip(' ()')}"  # noqa: S608
                f" FROM {waiting} ORDER BY {self._key} ON CONFLICT DO NOTHING"
            )
            cursor.execute(f"DROP TABLE {waiting}")
        self._waits = False

    def update(self, key: int, fields: Sequence[str], values: Sequence[Any]) -> int:
        """Sets `fields` of the row with primary key `key`; returns the rows changed (0 or 1)."""
        quote = connection.ops.quote_name
        fitted = _fit(values, _cuts(self._model, fields))
        sets = ", ".join(f"{quote(_column(self._model, name))} = %s" for name in fields)
        with connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE {self._table} SET {sets} WHERE id = %s",  # noqa: S608 - our own names
                [*fitted, key],
            )
            return int(cursor.rowcount)


def _copy_rows(cursor: Any, target: str, rows: list[Sequence[Any]]) -> None:
    with cursor.copy(f"COPY {target} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _column(model: type[Model], name: str) -> str:
    field = model._meta.get_field(name)
    assert isinstance(field, Field)  # noqa: S101 - a column's name is written in this project
    return str(field.column)


def _cuts(model: type[Model], fields: Sequence[str]) -> list[tuple[int, int]]:
    """(position, longest text) of the columns that take a text of limited length."""
    found = ((i, model._meta.get_field(name)) for i, name in enumerate(fields))
    return [(i, f.max_length) for i, f in found if isinstance(f, CharField) and f.max_length]


def _fit(row: Sequence[Any], cuts: list[tuple[int, int]]) -> Sequence[Any]:
    """The row with texts cut to their columns: a text longer than any real one must not stop a
    whole catalog, and only one of the two databases would refuse it."""
    limits = dict(cuts)
    return [value[: limits[i]] if i in limits else value for i, value in enumerate(row)]


def _fit_all(rows: list[Sequence[Any]], cuts: list[tuple[int, int]]) -> list[Sequence[Any]]:
    """`_fit` of every row. Looks column by column first: nearly always nothing is too long."""
    for i, limit in cuts:
        if max(map(len, map(itemgetter(i), rows))) > limit:
            return [_fit(row, cuts) for row in rows]
    return rows


def reserve_ids(model: type[Model], count: int) -> Sequence[int]:
    """`count` primary keys that no other writer will be given.

    SQLite: the transaction holds the only write lock, so the next numbers are ours. PostgreSQL:
    taken from the table's own sequence, one by one: moving it by `count` in one step would need a
    lock that keeps other catalogs' writers out until this one commits.
    """
    if not count:
        return ()
    table = model._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT array_agg(nextval(pg_get_serial_sequence(%s, 'id')))"
                " FROM generate_series(1, %s)",
                [table, count],
            )
            taken: list[int] = cursor.fetchone()[0]
            return taken
        cursor.execute(
            f"SELECT MAX(COALESCE((SELECT MAX(id) FROM {quoted(model)}), 0),"  # noqa: S608
            " COALESCE((SELECT seq FROM sqlite_sequence WHERE name = %s), 0))",
            [table],
        )
        first = int(cursor.fetchone()[0]) + 1
        return range(first, first + count)


def quoted(model: type[Model]) -> str:
    """The model's table for a statement."""
    return connection.ops.quote_name(model._meta.db_table)


def delete(model: type[Model], where: str, params: Sequence[Any]) -> int:
    """Deletes the rows that `where` (trusted SQL) finds; returns how many. Cascades to nothing."""
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {quoted(model)} WHERE {where}", params)  # noqa: S608
        return max(0, int(cursor.rowcount))
