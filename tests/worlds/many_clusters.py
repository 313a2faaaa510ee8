"""More clusters with the rows of one that was read, copied inside the database."""

from collections.abc import Collection, Iterator
from typing import Any

from django.apps import apps
from django.db import connection, models

from olmweb.models import Cluster

STEP = 1_000_000  # from the ids of one copy to those of the next


def copy_cluster(cluster: Cluster, number: int) -> None:
    """Makes `number` clusters NAME-01, ... with rows like those of `cluster`: its operators, its
    catalogs, and all that belongs to them. Their ids are STEP apart. Both databases know the
    statistics of the rows afterwards."""
    copied = _models_of_clusters()
    with connection.cursor() as cursor:
        for turn in range(1, number + 1):
            row = Cluster.objects.get(pk=cluster.pk)
            row.pk, row.name = cluster.pk + turn * STEP, f"{cluster.name}-{turn:02}"
            row.save(force_insert=True)
            for model in copied:
                cursor.execute(_copy(model, copied, turn * STEP))
        # PostgreSQL plans by the statistics of rows that earlier tests took back, and can take
        # minutes for a join; outside of tests autovacuum keeps them true.
        cursor.execute("ANALYZE")


def _models_of_clusters() -> list[type[models.Model]]:
    """The models whose rows belong to a cluster, each behind those that it refers to."""
    found: list[type[models.Model]] = [Cluster]
    rest = [model for model in apps.get_models() if model is not Cluster]
    while more := [model for model in rest if {*_parents(model)} & {*found}]:
        # One that refers to another of `more`, as well, waits for it.
        ready = [model for model in more if not {*_parents(model)} & {*more} - {model}] or more
        found += ready
        rest = [model for model in rest if model not in ready]
    return found[1:]


def _parents(model: type[models.Model]) -> Iterator[Any]:
    return (field.related_model for field in model._meta.concrete_fields if field.remote_field)


def _copy(model: type[models.Model], copied: Collection[type[models.Model]], step: int) -> str:
    """The statement that copies the rows of the first cluster."""
    quote = connection.ops.quote_name
    columns, values, first, owned = [], [], [], []
    for field in model._meta.concrete_fields:
        column = quote(str(field.column))
        refers = field.related_model in (Cluster, *copied)
        columns.append(column)
        values.append(f"{column} + {step}" if refers or field.primary_key else column)
        if refers or field.primary_key:
            first.append(f"({column} < {STEP} OR {column} IS NULL)")
        if refers:
            owned.append(f"{column} IS NOT NULL")
    table = quote(model._meta.db_table)
    source = f"SELECT {', '.join(values)} FROM {table}"  # noqa: S608
    where = f"{' AND '.join(first)} AND ({' OR '.join(owned)})"
    return f"INSERT INTO {table} ({', '.join(columns)}) {source} WHERE {where}"
