"""Writing many rows fast: INSERTs built from a model's columns, run without model instances.

Knows tables and both databases, not what the rows mean. Values go through no Django field: give
JSON as text, times as aware datetimes. Must run inside a transaction.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import msgspec
from django.db import connection
from django.db.models import CharField, Field, Model

ROWS_AT_ONCE = 100  # in one statement of SQLite, whose marks are ?


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
        self._binary = _binary_types(model, fields)
        self._bytes = [
            column for column, of in zip(columns, self._binary, strict=False) if of == "bytea"
        ]
        marks = f"({', '.join('?' * len(columns))})"
        insert = f"INSERT INTO {self._target} VALUES "  # noqa: S608 - our own names
        end = " ON CONFLICT DO NOTHING" if keyed else ""
        self._insert = insert + marks + end
        self._insert_many = insert + ", ".join([marks] * ROWS_AT_ONCE) + end

    def add(self, row: Sequence[Any]) -> None:
        self._rows.append(row)
        if len(self._rows) >= self._batch:
            self.flush()

    def extend(self, rows: Iterable[Sequence[Any]]) -> None:
        self._rows.extend(rows)
        if len(self._rows) >= self._batch:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            rows, self._rows = _fit_all(self._rows, self._cuts), []
            self.written += len(rows)
            self._write(rows)

    def fitted(self, row: Sequence[Any]) -> Sequence[Any]:
        """The row as it will be stored: texts cut to their columns."""
        return _fit(row, self._cuts)

    def _write(self, rows: list[Sequence[Any]]) -> None:
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                self._copy(cursor, rows)
            return
        whole = len(rows) - len(rows) % ROWS_AT_ONCE
        starts = range(0, whole, ROWS_AT_ONCE)
        many = [list(chain.from_iterable(rows[at : at + ROWS_AT_ONCE])) for at in starts]
        connection.ensure_connection()
        # Past Django's cursor, which would look for marks in the long text again each time.
        with connection.wrap_database_errors:
            connection.connection.executemany(self._insert_many, many)
            connection.connection.executemany(self._insert, rows[whole:])

    def _copy(self, cursor: Any, rows: list[Sequence[Any]]) -> None:
        """PostgreSQL's fast way in; COPY itself can't skip keys that are there already."""
        target = self._target
        if self._keyed:
            target = self._waiting_table() + self._columns
            if not self._waits:
                self._waits = True
                cursor.execute(
                    f"CREATE TEMPORARY TABLE {self._waiting_table()}"
                    f" (LIKE {self._table} INCLUDING DEFAULTS) ON COMMIT DROP"
                )
                for column in self._bytes:  # to be compressed once, where they stay
                    cursor.execute(
                        f"ALTER TABLE {self._waiting_table()}"
                        f" ALTER COLUMN {column} SET STORAGE EXTERNAL"
                    )
        types = self._binary
        with cursor.copy(f"COPY {target} FROM STDIN{' (FORMAT BINARY)' if types else ''}") as copy:
            if types:
                copy.set_types(types)
            for row in rows:
                copy.write_row(row)

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


def _column(model: type[Model], name: str) -> str:
    field = model._meta.get_field(name)
    assert isinstance(field, Field)  # noqa: S101 - a column's name is written in this project
    return str(field.column)


def _binary_types(model: type[Model], fields: Sequence[str]) -> list[str]:
    """PostgreSQL's types of the columns where one of them holds bytes: as text they are twice as
    long. Empty for other tables: text is simpler for the server to make JSON and times of."""
    if connection.vendor != "postgresql":
        return []
    types = [str(model._meta.get_field(name).db_type(connection)) for name in fields]
    return [name.partition("(")[0] for name in types] if "bytea" in types else []


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


def among(column: str, texts: Sequence[str]) -> tuple[str, list[Any]]:
    """The condition that a column is one of these texts, however many, and its parameters."""
    if connection.vendor == "postgresql":
        return f"{column} = ANY(%s)", [list(texts)]
    told = msgspec.json.encode(texts).decode()
    return f"{column} IN (SELECT value FROM json_each(%s))", [told]  # noqa: S608 - our own names


def delete(model: type[Model], where: str, params: Sequence[Any]) -> int:
    """Deletes the rows that `where` (trusted SQL) finds; returns how many. Cascades to nothing."""
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {quoted(model)} WHERE {where}", params)  # noqa: S608
        return max(0, int(cursor.rowcount))
