"""Records the catalogs of a cluster from their Kubernetes objects, without their content."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any

from django.db import transaction

from catalogs.models import Catalog
from catalogs.sync.deletion import delete_catalog
from olmweb.kube import conditions
from olmweb.kube.fields import dig, items
from olmweb.models import Cluster
from olmweb.tasks import enqueue

_Key = tuple[str, str]  # namespace, name
_Fields = dict[str, Any]


def record_cluster_catalogs(
    cluster: Cluster, objects: Iterable[Mapping[str, Any]], only: Collection[str] | None = None
) -> int:
    """Replaces the ClusterCatalog rows of `cluster` with `objects`; returns the rows written.

    `objects` is the complete list of the catalogs named in `only`, or of all: a missing catalog is
    deleted with its content. They are ClusterCatalogs of any version, or Catalogs of catalogd's
    first versions. An unready or unavailable catalog keeps its content. A catalog whose content
    changed is enqueued for a sync on commit. Unchanged rows are not written.
    """
    keys = None if only is None else {("", name) for name in only}
    kind = Catalog.SourceKind.CLUSTER_CATALOG
    return _record_all(cluster, kind, objects, keys, _cluster_catalog)


def record_catalog_sources(
    cluster: Cluster, objects: Iterable[Mapping[str, Any]], only: Collection[_Key] | None = None
) -> int:
    """As record_cluster_catalogs, for CatalogSources; `only` has (namespace, name)."""
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
        stored = cluster.catalogs.filter(source_kind=kind)
        rows = {(row.namespace, row.name): row for row in stored}
        if only is not None:
            rows = {key: row for key, row in rows.items() if key in only}
        for item in objects:
            name = _text(dig(item, "metadata", "name"))
            namespace = _text(dig(item, "metadata", "namespace"))
            if not name or len(name) > 253 or len(namespace) > 63:  # invalid in Kubernetes
                continue
            row = rows.pop((namespace, name), None) or Catalog(
                cluster=cluster, source_kind=kind, namespace=namespace, name=name
            )
            written += _record(row, fields_of(item))
        for row in rows.values():
            written += delete_catalog(row.pk)
    return written


def _free_slug(row: Catalog) -> str:
    """The catalog's name, or a longer text if another catalog of the cluster has that slug.

    Chosen only when the row is created, so that links to a catalog do not change.
    """
    slugs = set(Catalog.objects.filter(cluster=row.cluster).values_list("slug", flat=True))
    longer = f"{row.namespace or row.source_kind.lower()}.{row.name}"
    names = (row.name, longer[:253], *(f"{longer[:240]}.{number}" for number in range(2, 1000)))
    return next(name for name in names if name not in slugs)


def _text(value: object, limit: int | None = None) -> str:
    """`value` as text without NUL, which PostgreSQL refuses."""
    return str(value or "").replace("\x00", "\ufffd")[:limit]


def _priority(value: object) -> int:
    """A priority of the API's range, 32 bits with a sign; 0 for anything else."""
    return value if isinstance(value, int) and -(2**31) <= value < 2**31 else 0


def _cluster_catalog(item: Mapping[str, Any]) -> _Fields:
    """Before v1, the status had `contentURL`, the address of the content itself, instead of
    `urls.base`, and `resolvedRef` besides `ref`."""
    image = dig(item, "status", "resolvedSource", "image")
    base = dig(item, "status", "urls", "base") or dig(item, "status", "contentURL")
    return {
        "source": _text(dig(item, "spec", "source", "image", "ref"), 2000),
        "priority": _priority(dig(item, "spec", "priority")),
        "availability": _text(dig(item, "spec", "availabilityMode") or "Available", 20),
        "resolved_digest": _text(dig(image, "resolvedRef") or dig(image, "ref"), 1000),
        "base_url": _text(base, 2000),
        "conditions": _conditions(item),
    }


def _catalog_source(item: Mapping[str, Any]) -> _Fields:
    """The state of OLM's connection becomes a condition. The status has no digest: a sync reads
    that of the pod."""
    spec, status = dig(item, "spec"), dig(item, "status")
    connection, service = dig(status, "connectionState"), dig(status, "registryService")
    address = dig(connection, "address") or dig(spec, "address")
    if not address and dig(service, "serviceName"):
        namespace, port = dig(service, "serviceNamespace"), dig(service, "port")
        address = f"{dig(service, 'serviceName')}.{namespace}.svc:{port or 50051}"
    state = _text(dig(connection, "lastObservedState"))
    connected = {
        "type": "Connected",
        "status": str(state == "READY"),
        "reason": state,
        "message": _text(dig(status, "message")),
        "lastTransitionTime": _text(dig(connection, "lastConnect")),
    }
    return {
        "source": _text(dig(spec, "image") or dig(spec, "address"), 2000),
        "priority": _priority(dig(spec, "priority")),
        "base_url": _text(address, 2000),
        "conditions": ([connected] if state else []) + _conditions(item),
    }


def _conditions(item: Mapping[str, Any]) -> list[dict[str, str]]:
    return [
        {key: _text(condition.get(key)) for key in conditions.TEXTS}
        for condition in items(item, "status", "conditions")
    ]


def _record(row: Catalog, fields: _Fields) -> int:
    """Writes the changed fields; 1 if there are any."""
    states = Catalog.State
    if fields.get("availability") == Catalog.UNAVAILABLE:
        # catalogd clears these fields; the content of the last digest is still shown.
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
    source_changed = new or changed & {"resolved_digest", "base_url", "availability"}
    readable = row.base_url and row.state != states.DISABLED
    if row.source_kind == Catalog.SourceKind.CATALOG_SOURCE:
        # A new image starts a new pod, with a new connection.
        source_changed = source_changed or changed & {"source", "conditions"}
        content_changed = True
    else:
        content_changed = row.resolved_digest != row.synced_digest
    if source_changed and readable and content_changed:
        enqueue("catalogs.sync_catalog", row.pk)
    return int(new or bool(changed))
