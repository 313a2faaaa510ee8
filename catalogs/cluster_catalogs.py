"""Rows of a cluster's ClusterCatalogs: what their objects say, not their content."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from celery import current_app
from django.db import transaction

from catalogs.models import Catalog
from catalogs.store import delete_catalog
from olmweb.models import Cluster

TASK = "catalogs.sync_catalog"  # by name: tasks know sync, not the other way round


def record_cluster_catalogs(
    cluster: Cluster, objects: Iterable[Mapping[str, Any]], only: Collection[str] | None = None
) -> int:
    """Makes the ClusterCatalog rows of `cluster` those of `objects`; returns the rows written.

    `objects` is the authoritative list, of the catalogs named in `only` or of all of them: a
    catalog that isn't in it is deleted with its content.
    One that is only unready or unavailable keeps its content. Content that the object says is
    another one is enqueued to be synced on commit. Nothing is written for what is the same.
    """
    kind = Catalog.SourceKind.CLUSTER_CATALOG
    written = 0
    with transaction.atomic():
        known = cluster.catalogs.filter(source_kind=kind)
        if only is not None:
            known = known.filter(name__in=only)
        rows = {row.name: row for row in known}
        for found in objects:
            name = _text(_dig(found, "metadata", "name"))
            if not name or len(name) > 253:  # no API server has such an object
                continue
            row = rows.pop(name, None) or Catalog(
                cluster=cluster, source_kind=kind, name=name, slug=name
            )
            written += _record(row, _fields(found))
        for row in rows.values():
            written += delete_catalog(row.pk)
    return written


def _dig(value: Any, *path: str) -> Any:
    """`value[path[0]][path[1]]...`, or None where there is no such thing."""
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _text(value: object, limit: int | None = None) -> str:
    """`value` as text without NUL, which PostgreSQL refuses."""
    return str(value or "").replace("\x00", "\ufffd")[:limit]


def _priority(value: object) -> int:
    """A priority of the API's range, 32 bits with a sign; 0 for anything else."""
    return value if isinstance(value, int) and -(2**31) <= value < 2**31 else 0


def _fields(found: Mapping[str, Any]) -> dict[str, Any]:
    conditions = _dig(found, "status", "conditions")
    kept = ("type", "status", "reason", "message", "lastTransitionTime")
    return {
        "source": _text(_dig(found, "spec", "source", "image", "ref"), 2000),
        "priority": _priority(_dig(found, "spec", "priority")),
        "availability": _text(_dig(found, "spec", "availabilityMode") or "Available", 20),
        "resolved_digest": _text(_dig(found, "status", "resolvedSource", "image", "ref"), 1000),
        "base_url": _text(_dig(found, "status", "urls", "base"), 2000),
        "conditions": [
            {key: _text(condition.get(key)) for key in kept}
            for condition in (conditions if isinstance(conditions, list) else [])
            if isinstance(condition, Mapping)
        ],
    }


def _record(row: Catalog, fields: dict[str, Any]) -> int:
    """Writes what differs; 1 when anything did."""
    states = Catalog.State
    if fields["availability"] == "Unavailable":
        # catalogd clears these on purpose then; what we read under that digest is still shown.
        fields["state"] = states.DISABLED
    elif row.state == states.DISABLED:
        fields["state"] = states.SERVING if row.content_hash else states.NEW
    changed = {name for name, value in fields.items() if getattr(row, name) != value}
    for name in changed:
        setattr(row, name, fields[name])
    new = row.pk is None
    if new:
        row.save()
    elif changed:
        row.save(update_fields=sorted(changed))
    told = new or changed & {"resolved_digest", "base_url", "availability"}
    readable = row.base_url and row.state != states.DISABLED
    if told and readable and row.resolved_digest != row.synced_digest:
        pk = row.pk
        transaction.on_commit(lambda: _enqueue(pk))
    return int(new or bool(changed))


def _enqueue(catalog_id: int) -> None:
    current_app.send_task(TASK, args=[catalog_id], queue="sync")
