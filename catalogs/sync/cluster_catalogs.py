"""Rows of a cluster's catalogs: what their objects say, not their content."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any

from django.db import transaction

from catalogs.models import Catalog
from catalogs.sync.deletion import delete_catalog
from olmweb.models import Cluster
from olmweb.tasks import enqueue

_Key = tuple[str, str]  # namespace, name
_Fields = dict[str, Any]


def record_cluster_catalogs(
    cluster: Cluster, objects: Iterable[Mapping[str, Any]], only: Collection[str] | None = None
) -> int:
    """Makes the ClusterCatalog rows of `cluster` those of `objects`; returns the rows written.

    `objects` is the authoritative list, of the catalogs named in `only` or of all of them: a
    catalog that isn't in it is deleted with its content. They are ClusterCatalogs of any version,
    or Catalogs, as catalogd's first versions called them.
    One that is only unready or unavailable keeps its content. Content that the object says is
    another one is enqueued to be synced on commit. Nothing is written for what is the same.
    """
    keys = None if only is None else {("", name) for name in only}
    kind = Catalog.SourceKind.CLUSTER_CATALOG
    return _record_all(cluster, kind, objects, keys, _cluster_catalog)


def record_catalog_sources(
    cluster: Cluster, objects: Iterable[Mapping[str, Any]], only: Collection[_Key] | None = None
) -> int:
    """The same for CatalogSources; `only` has (namespace, name)."""
    keys = None if only is None else set(only)
    kind = Catalog.SourceKind.CATALOG_SOURCE
    return _record_all(cluster, kind, objects, keys, _catalog_source)


def _record_all(
    cluster: Cluster,
    kind: str,
    objects: Iterable[Mapping[str, Any]],
    only: Collection[Hashable] | None,
    fields_of: Callable[[Mapping[str, Any]], _Fields],
) -> int:
    written = 0
    with transaction.atomic():
        known = cluster.catalogs.filter(source_kind=kind)
        rows = {(row.namespace, row.name): row for row in known}
        if only is not None:
            rows = {key: row for key, row in rows.items() if key in only}
        for found in objects:
            name = _text(_dig(found, "metadata", "name"))
            namespace = _text(_dig(found, "metadata", "namespace"))
            if not name or len(name) > 253 or len(namespace) > 63:  # no API server has such
                continue
            row = rows.pop((namespace, name), None) or Catalog(
                cluster=cluster, source_kind=kind, namespace=namespace, name=name
            )
            written += _record(row, fields_of(found))
        for row in rows.values():
            written += delete_catalog(row.pk)
    return written


def _free_slug(row: Catalog) -> str:
    """The catalog's name, or a longer one where another catalog of the cluster has that already.

    It is chosen once: links to a catalog stay what they are when others come and go.
    """
    taken = set(Catalog.objects.filter(cluster=row.cluster).values_list("slug", flat=True))
    longer = f"{row.namespace or row.source_kind.lower()}.{row.name}"
    names = (row.name, longer[:253], *(f"{longer[:240]}.{number}" for number in range(2, 1000)))
    return next(name for name in names if name not in taken)


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


def _cluster_catalog(found: Mapping[str, Any]) -> _Fields:
    """`status.urls.base` came with v1; before it there was `contentURL`, the address of the content
    itself, and `resolvedRef` beside `ref`."""
    image = _dig(found, "status", "resolvedSource", "image")
    base = _dig(found, "status", "urls", "base") or _dig(found, "status", "contentURL")
    return {
        "source": _text(_dig(found, "spec", "source", "image", "ref"), 2000),
        "priority": _priority(_dig(found, "spec", "priority")),
        "availability": _text(_dig(found, "spec", "availabilityMode") or "Available", 20),
        "resolved_digest": _text(_dig(image, "resolvedRef") or _dig(image, "ref"), 1000),
        "base_url": _text(base, 2000),
        "conditions": _conditions(found),
    }


def _catalog_source(found: Mapping[str, Any]) -> _Fields:
    """Its status names no digest: that of its pod is asked for when it is read.

    The state of OLM's connection is shown as a condition.
    """
    spec, status = _dig(found, "spec"), _dig(found, "status")
    connection, service = _dig(status, "connectionState"), _dig(status, "registryService")
    address = _dig(connection, "address") or _dig(spec, "address")
    if not address and _dig(service, "serviceName"):
        namespace, port = _dig(service, "serviceNamespace"), _dig(service, "port")
        address = f"{_dig(service, 'serviceName')}.{namespace}.svc:{port or 50051}"
    state = _text(_dig(connection, "lastObservedState"))
    connected = {
        "type": "Connected",
        "status": str(state == "READY"),
        "reason": state,
        "message": _text(_dig(status, "message")),
        "lastTransitionTime": _text(_dig(connection, "lastConnect")),
    }
    return {
        "source": _text(_dig(spec, "image") or _dig(spec, "address"), 2000),
        "priority": _priority(_dig(spec, "priority")),
        "base_url": _text(address, 2000),
        "conditions": ([connected] if state else []) + _conditions(found),
    }


def _conditions(found: Mapping[str, Any]) -> list[dict[str, str]]:
    conditions = _dig(found, "status", "conditions")
    kept = ("type", "status", "reason", "message", "lastTransitionTime")
    return [
        {key: _text(condition.get(key)) for key in kept}
        for condition in (conditions if isinstance(conditions, list) else [])
        if isinstance(condition, Mapping)
    ]


def _record(row: Catalog, fields: _Fields) -> int:
    """Writes what differs; 1 when anything did."""
    states = Catalog.State
    if fields.get("availability") == Catalog.UNAVAILABLE:
        # catalogd clears these on purpose then; what we read under that digest is still shown.
        fields["state"] = states.DISABLED
    elif row.state == states.DISABLED:
        fields["state"] = states.SERVING if row.content_hash else states.NEW
    changed = {name for name, value in fields.items() if getattr(row, name) != value}
    for name in changed:
        setattr(row, name, fields[name])
    new = row.pk is None
    if new:
        row.slug = _free_slug(row)
        row.save()
    elif changed:
        row.save(update_fields=sorted(changed))
    told = new or changed & {"resolved_digest", "base_url", "availability"}
    readable = row.base_url and row.state != states.DISABLED
    if row.source_kind == Catalog.SourceKind.CATALOG_SOURCE:
        # A new image is a new pod, and that a new connection.
        told = told or changed & {"source", "conditions"}
        another = True
    else:
        another = row.resolved_digest != row.synced_digest
    if told and readable and another:
        enqueue("catalogs.sync_catalog", row.pk)
    return int(new or bool(changed))
