"""Writing many rows of one table in one statement.

PostgreSQL takes them as one JSON document and makes columns of it itself. As parameters, which
Django's bulk_create sends, quoting the texts takes more time here than all else in a write. Knows
tables, not what their rows mean. SQLite needs none of it.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import msgspec
from django.db import connection
from django.db.models import Field, Model

BATCH = 500

_Field: TypeAlias = "Field[Any, Any]"


def insert(model: type[Model], rows: Sequence[Any]) -> None:
    """Inserts rows and sets their ids."""
    if rows and connection.vendor == "postgresql":
        _insert(model, rows, "")
    elif rows:
        model._default_manager.bulk_create(rows, batch_size=BATCH)


def upsert(
    model: type[Model], rows: Sequence[Any], columns: Sequence[str], identity: Sequence[str]
) -> None:
    """Inserts rows, or writes these columns of those that have their identity; sets their ids."""
    if not rows:
        return
    for row in rows:
        row.pk = None  # with an id the insert would conflict with two constraints at once
    if connection.vendor != "postgresql":
        model._default_manager.bulk_create(
            rows,
            batch_size=BATCH,
            update_conflicts=True,
            unique_fields=identity,
            update_fields=columns,
        )
        return
    names = [_quoted(one) for one in _fields(model, columns)]
    sets = ", ".join(f"{name} = EXCLUDED.{name}" for name in names)
    unique = ", ".join(_quoted(one) for one in _fields(model, identity))
    _insert(model, rows, f"ON CONFLICT ({unique}) DO UPDATE SET {sets}")


def update(model: type[Model], rows: Sequence[Any], columns: Sequence[str]) -> None:
    """Writes these columns of rows, each of which has its id."""
    if not rows:
        return
    fields = _fields(model, columns)
    table = connection.ops.quote_name(model._meta.db_table)
    if connection.vendor == "postgresql":
        sets = ", ".join(f"{_quoted(one)} = told.{_quoted(one)}" for one in fields)
        told = [*_fields(model, ["id"]), *fields]
        where = f"{table}.id = told.id"
        _execute(
            f"UPDATE {table} SET {sets} FROM {_told(told)} WHERE {where}",  # noqa: S608
            _document(told, rows),
        )
        return
    sets = ", ".join(f"{_quoted(one)} = %s" for one in fields)
    values = [
        [*(one.get_db_prep_save(getattr(row, one.attname), connection) for one in fields), row.pk]
        for row in rows
    ]
    with connection.cursor() as cursor:
        cursor.executemany(f"UPDATE {table} SET {sets} WHERE id = %s", values)  # noqa: S608


def _insert(model: type[Model], rows: Sequence[Any], conflict: str) -> None:
    fields = [one for one in model._meta.concrete_fields if not one.primary_key]
    names = ", ".join(map(_quoted, fields))
    table = connection.ops.quote_name(model._meta.db_table)
    source = f"SELECT {names} FROM {_told(fields)}"  # noqa: S608 - all names are our own
    statement = f"INSERT INTO {table} ({names}) {source} {conflict} RETURNING id"
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        # One row for each, in their order, as Django's own bulk_create relies on too.
        for row, (pk,) in zip(batch, _execute(statement, _document(fields, batch)), strict=True):
            row.pk = pk
            row._state.adding = False


def _document(fields: Sequence[_Field], rows: Sequence[Any]) -> str:
    names = [(one.column, one.attname) for one in fields]
    told = [{column: getattr(row, name) for column, name in names} for row in rows]
    return msgspec.json.encode(told).decode()


def _told(fields: Sequence[_Field]) -> str:
    columns = ", ".join(f"{_quoted(one)} {one.db_type(connection)}" for one in fields)
    return f"json_to_recordset(%s) AS told ({columns})"


def _execute(statement: str, document: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, [document])
        return cursor.fetchall() if cursor.description else []


def _fields(model: type[Model], names: Sequence[str]) -> list[_Field]:
    return [cast("_Field", model._meta.get_field(name)) for name in names]


def _quoted(field: _Field) -> str:
    return connection.ops.quote_name(str(field.column))
