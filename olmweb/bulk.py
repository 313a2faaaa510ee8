"""Bulk writes, faster than Django's: of plain rows (`Table`), and of model instances (`insert`,
`upsert`, `update`).

`Table` must run inside a transaction. Its values bypass Django's fields: pass JSON as text, times
as aware datetimes.

The functions for instances differ from Django's on PostgreSQL only, which receives the rows as one
JSON document: quoting the parameters of bulk_create takes longer than the rest of the write.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias, cast

import msgspec
from django.db import connection
from django.db.models import CharField, Field, Model

SQLITE_ROWS = 100  # in one statement of SQLite
INSTANCES = 500  # in one statement

_Field: TypeAlias = "Field[Any, Any]"


class Table:
    """Inserts rows with these columns of one model, in batches; call `finish` last.

    `keyed` rows have a primary key derived from their content; existing rows, of another writer,
    are skipped.
    """

    def __init__(
        self, model: type[Model], *fields: str, keyed: bool = False, batch: int = 1000
    ) -> None:
        meta = model._meta
        self._model = model
        columns = [_column(model, name) for name in fields]
        quote = connection.ops.quote_name
        self._table = quote(meta.db_table)
        self._limits = _text_limits(model, fields)
        self.written = 0
        self._rows: list[Sequence[Any]] = []
        self._batch = batch
        self._width = len(columns)
        self._columns = f" ({', '.join(map(quote, columns))})"
        self._target = self._table + self._columns
        self._keyed = keyed
        self._key = quote(_column(model, meta.pk.name))
        self._staged = False  # rows in a temporary table
        self._binary = _binary_types(model, fields)
        self._bytes = [
            column for column, of in zip(columns, self._binary, strict=False) if of == "bytea"
        ]
        marks = f"({', '.join('?' * len(columns))})"
        insert = f"INSERT INTO {self._target} VALUES "  # noqa: S608 - our own names
        end = " ON CONFLICT DO NOTHING" if keyed else ""
        self._insert = insert + marks + end
        self._insert_many = insert + ", ".join([marks] * SQLITE_ROWS) + end

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
            rows, self._rows = _truncate_all(self._rows, self._limits), []
            self.written += len(rows)
            self._write(rows)

    def truncated(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """The values of the last columns as they are stored: texts are cut to their columns."""
        skipped = self._width - len(row)
        return _truncate((*(None,) * skipped, *row), self._limits)[skipped:]

    def _write(self, rows: list[Sequence[Any]]) -> None:
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                self._copy(cursor, rows)
            return
        whole = len(rows) - len(rows) % SQLITE_ROWS
        starts = range(0, whole, SQLITE_ROWS)
        many = [list(chain.from_iterable(rows[at : at + SQLITE_ROWS])) for at in starts]
        connection.ensure_connection()
        # Django's cursor would search the long statement for placeholders each time.
        with connection.wrap_database_errors:
            connection.connection.executemany(self._insert_many, many)
            connection.connection.executemany(self._insert, rows[whole:])

    def _copy(self, cursor: Any, rows: list[Sequence[Any]]) -> None:
        """Writes with COPY; keyed rows to a temporary table, as it can't skip existing keys."""
        target = self._target
        if self._keyed:
            target = self._staging_table() + self._columns
            if not self._staged:
                self._staged = True
                cursor.execute(
                    f"CREATE TEMPORARY TABLE {self._staging_table()}"
                    f" (LIKE {self._table} INCLUDING DEFAULTS) ON COMMIT DROP"
                )
                for column in self._bytes:  # compressed once, in the final table
                    cursor.execute(
                        f"ALTER TABLE {self._staging_table()}"
                        f" ALTER COLUMN {column} SET STORAGE EXTERNAL"
                    )
        types = self._binary
        with cursor.copy(f"COPY {target} FROM STDIN{' (FORMAT BINARY)' if types else ''}") as copy:
            if types:
                copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    def _staging_table(self) -> str:
        return connection.ops.quote_name(f"staging_{self._model._meta.db_table}")

    def finish(self) -> None:
        """Flushes, and on PostgreSQL inserts the keyed rows from the temporary table, in the order
        of the keys, so that two writers can't deadlock."""
        self.flush()
        if not self._staged:
            return
        staging = self._staging_table()
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {self._target} SELECT {self._columns.strip(' ()')}"  # noqa: S608
                f" FROM {staging} ORDER BY {self._key} ON CONFLICT DO NOTHING"
            )
            cursor.execute(f"DROP TABLE {staging}")
        self._staged = False

    def update(self, key: int, fields: Sequence[str], values: Sequence[Any]) -> int:
        """Sets `fields` of the row with primary key `key`; returns the rows changed (0 or 1)."""
        quote = connection.ops.quote_name
        truncated = _truncate(values, _text_limits(self._model, fields))
        sets = ", ".join(f"{quote(_column(self._model, name))} = %s" for name in fields)
        with connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE {self._table} SET {sets} WHERE id = %s",  # noqa: S608 - our own names
                [*truncated, key],
            )
            return int(cursor.rowcount)


def _column(model: type[Model], name: str) -> str:
    field = model._meta.get_field(name)
    assert isinstance(field, Field)  # noqa: S101 - callers name columns only
    return str(field.column)


def _binary_types(model: type[Model], fields: Sequence[str]) -> list[str]:
    """PostgreSQL's types of the columns if one of them holds bytes, twice as long as text. Empty
    for other tables: the server parses JSON and times from text."""
    if connection.vendor != "postgresql":
        return []
    types = [str(model._meta.get_field(name).db_type(connection)) for name in fields]
    return [name.partition("(")[0] for name in types] if "bytea" in types else []


def _text_limits(model: type[Model], fields: Sequence[str]) -> dict[int, int]:
    """The longest text of each column that limits it, by position."""
    columns = ((i, model._meta.get_field(name)) for i, name in enumerate(fields))
    return {i: f.max_length for i, f in columns if isinstance(f, CharField) and f.max_length}


def _truncate(row: Sequence[Any], limits: dict[int, int]) -> tuple[Any, ...]:
    """The row with texts cut to their columns: a text longer than any real one must not stop a
    sync, and only PostgreSQL would refuse it."""
    return tuple(
        value[: limits[i]] if i in limits and value is not None else value
        for i, value in enumerate(row)
    )


def _truncate_all(rows: list[Sequence[Any]], limits: dict[int, int]) -> list[Sequence[Any]]:
    """Truncates every row. Checks whole columns first: nearly always nothing is too long."""
    for i, limit in limits.items():
        if max(map(len, map(itemgetter(i), rows))) > limit:
            return [_truncate(row, limits) for row in rows]
    return rows


def reserve_ids(model: type[Model], count: int) -> Sequence[int]:
    """`count` primary keys that no other writer receives.

    On SQLite the transaction holds the only write lock, so the next numbers are free. On PostgreSQL
    they come from the sequence, number by number: advancing it in one step would need a lock that
    blocks other writers until the commit.
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
            ids: list[int] = cursor.fetchone()[0]
            return ids
        cursor.execute(
            f"SELECT MAX(COALESCE((SELECT MAX(id) FROM {quoted(model)}), 0),"  # noqa: S608
            " COALESCE((SELECT seq FROM sqlite_sequence WHERE name = %s), 0))",
            [table],
        )
        first = int(cursor.fetchone()[0]) + 1
        return range(first, first + count)


def quoted(model: type[Model]) -> str:
    """The name of the model's table for a statement."""
    return connection.ops.quote_name(model._meta.db_table)


def among(column: str, texts: Sequence[str]) -> tuple[str, list[Any]]:
    """The condition that a column is one of these texts, however many, and its parameters."""
    if connection.vendor == "postgresql":
        return f"{column} = ANY(%s)", [list(texts)]
    document = msgspec.json.encode(texts).decode()
    return f"{column} IN (SELECT value FROM json_each(%s))", [document]  # noqa: S608 - our own names


def delete(model: type[Model], where: str, params: Sequence[Any]) -> int:
    """Deletes the rows that match `where` (trusted SQL), without cascades; returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {quoted(model)} WHERE {where}", params)  # noqa: S608
        return max(0, int(cursor.rowcount))


# -- model instances


def insert(model: type[Model], rows: Sequence[Any]) -> None:
    """Inserts rows and sets their ids."""
    if rows and connection.vendor == "postgresql":
        _insert(model, rows, "")
    elif rows:
        model._default_manager.bulk_create(rows, batch_size=INSTANCES)


def upsert(
    model: type[Model], rows: Sequence[Any], columns: Sequence[str], identity: Sequence[str]
) -> None:
    """Inserts rows, or updates these columns where a row with the same `identity` exists; sets
    their ids."""
    if not rows:
        return
    for row in rows:
        row.pk = None  # with an id the insert would conflict with two constraints at once
    if connection.vendor != "postgresql":
        model._default_manager.bulk_create(
            rows,
            batch_size=INSTANCES,
            update_conflicts=True,
            unique_fields=identity,
            update_fields=columns,
        )
        return
    names = [_quoted(field) for field in _fields(model, columns)]
    sets = ", ".join(f"{name} = EXCLUDED.{name}" for name in names)
    unique = ", ".join(_quoted(field) for field in _fields(model, identity))
    _insert(model, rows, f"ON CONFLICT ({unique}) DO UPDATE SET {sets}")


def update(model: type[Model], rows: Sequence[Any], columns: Sequence[str]) -> None:
    """Updates these columns of rows that have ids."""
    if not rows:
        return
    fields = _fields(model, columns)
    table = quoted(model)
    if connection.vendor == "postgresql":
        sets = ", ".join(f"{_quoted(field)} = source.{_quoted(field)}" for field in fields)
        columns_of_source = [*_fields(model, ["id"]), *fields]
        where = f"{table}.id = source.id"
        _execute(
            f"UPDATE {table} SET {sets} FROM {_source(columns_of_source)} WHERE {where}",  # noqa: S608
            _document(columns_of_source, rows),
        )
        return
    sets = ", ".join(f"{_quoted(field)} = %s" for field in fields)
    values = [
        [
            *(field.get_db_prep_save(getattr(row, field.attname), connection) for field in fields),
            row.pk,
        ]
        for row in rows
    ]
    with connection.cursor() as cursor:
        cursor.executemany(f"UPDATE {table} SET {sets} WHERE id = %s", values)  # noqa: S608


def _insert(model: type[Model], rows: Sequence[Any], conflict: str) -> None:
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    names = ", ".join(map(_quoted, fields))
    table = quoted(model)
    select = f"SELECT {names} FROM {_source(fields)}"  # noqa: S608 - our own names
    statement = f"INSERT INTO {table} ({names}) {select} {conflict} RETURNING id"
    for start in range(0, len(rows), INSTANCES):
        batch = rows[start : start + INSTANCES]
        # One id per row, in the order of the rows: Django's bulk_create relies on it too.
        for row, (pk,) in zip(batch, _execute(statement, _document(fields, batch)), strict=True):
            row.pk = pk
            row._state.adding = False


def _document(fields: Sequence[_Field], rows: Sequence[Any]) -> str:
    names = [(field.column, field.attname) for field in fields]
    objects = [{column: getattr(row, name) for column, name in names} for row in rows]
    return msgspec.json.encode(objects).decode()


def _source(fields: Sequence[_Field]) -> str:
    columns = ", ".join(f"{_quoted(field)} {field.db_type(connection)}" for field in fields)
    return f"json_to_recordset(%s) AS source ({columns})"


def _execute(statement: str, document: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, [document])
        return cursor.fetchall() if cursor.description else []


def _fields(model: type[Model], names: Sequence[str]) -> list[_Field]:
    return [cast("_Field", model._meta.get_field(name)) for name in names]


def _quoted(field: _Field) -> str:
    return connection.ops.quote_name(str(field.column))
