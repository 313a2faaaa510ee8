"""Rows of a cluster's ClusterCatalogs: what their objects say, not their content."""

from collections.abc import Mapping
from typing import Any

from celery import current_app
from django.db import transaction

from catalogs.models import Catalog
from catalogs.store import delete_catalog
from olmweb.models import Cluster

TASK = "catalogs.sync_catalog"  # by name: tasks know sync, not the other way round


def record_cluster_catalogs(cluster: Cluster, objects: list[dict[str, Any]]) -> int:
    """Makes the ClusterCatalog rows of `cluster` those of `objects`; returns the rows written.

    `objects` is the authoritative list: a catalog that isn't in it is deleted with its content.
    One that is only unready or unavailable keeps its content. Content that the object says is
    another one is enqueued to be synced on commit. Nothing is written for what is the same.
    """
    kind = Catalog.SourceKind.CLUSTER_CATALOG
    written = 0
    with transaction.atomic():
        rows = {row.name: row for row in cluster.catalogs.filter(source_kind=kind)}
        for found in objects:
            name = str(found.get("metadata", {}).get("name", ""))
            if not name:
                continue
            row = rows.pop(name, None) or Catalog(
                cluster=cluster, source_kind=kind, name=name, slug=name
            )
            written += _record(row, _fields(found))
        for row in rows.values():
            written += delete_catalog(row.pk)
    return written


def _fields(found: Mapping[str, Any]) -> dict[str, Any]:
    spec, status = found.get("spec") or {}, found.get("status") or {}
    image = (spec.get("source") or {}).get("image") or {}
    resolved = (status.get("resolvedSource") or {}).get("image") or {}
    kept = ("type", "status", "reason", "message", "lastTransitionTime")
    return {
        "source": str(image.get("ref") or "")[:2000],
        "priority": int(spec.get("priority") or 0),
        "availability": str(spec.get("availabilityMode") or "Available")[:20],
        "resolved_digest": str(resolved.get("ref") or "")[:1000],
        "base_url": str((status.get("urls") or {}).get("base") or "")[:2000],
        "conditions": [
            {key: str(condition.get(key) or "") for key in kept}
            for condition in status.get("conditions") or []
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
