"""Health of a catalog on a cluster: the results of the rules of scope catalog, never stored.

Reads the rows of the cluster's catalogs in one query. Knows no bundle and no HTTP.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from django.db.models import Exists, Q

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog
from catalogs.verdicts.evaluate import check_health
from catalogs.verdicts.health_checks import (
    CATALOG_SOURCE,
    CLUSTER_CATALOG,
    CheckedCatalog,
    HealthContext,
)
from catalogs.verdicts.read import StoredVerdict
from catalogs.verdicts.rules import RuleResult, RuleScope
from olmweb.models import ResourceWatch

HealthNotes = Mapping[InstallMethod, tuple[RuleResult, ...]]


def health_context(catalog: Catalog, cluster: int | None, namespace: str = "") -> HealthContext:
    """`catalog` with all catalogs of the cluster; without a cluster, `catalog` alone."""
    own = source_of(catalog)
    if cluster is None:
        return HealthContext(own)
    watches = ResourceWatch.objects.filter(cluster=cluster).filter(
        Q(listed_at__isnull=False) | Q(state=ResourceWatch.State.ABSENT)
    )
    catalogs = Catalog.objects.filter(cluster=cluster).order_by("namespace", "name")
    listed = {kind: Exists(watches.filter(kind=kind)) for kind in (CLUSTER_CATALOG, CATALOG_SOURCE)}
    rows = list(catalogs.annotate(**listed))
    read = frozenset(kind for kind in listed if rows and getattr(rows[0], kind))
    return HealthContext(own, tuple(map(source_of, rows)), read, namespace)


def health_notes(context: HealthContext) -> HealthNotes:
    """The notes on every verdict of the catalog, by install method, in the order of the rules."""
    return {path: tuple(check_health(path, RuleScope.CATALOG, context)) for path in InstallMethod}


def notes_on(catalog: Catalog) -> HealthNotes:
    """The notes on a catalog as its own cluster has it; one query."""
    return health_notes(health_context(catalog, catalog.cluster_id))


def with_health_notes(
    verdicts: Sequence[StoredVerdict], catalog: Catalog, cluster: int | None
) -> list[StoredVerdict]:
    """The verdicts on a bundle of the catalog with the notes; `cluster` is a key or None."""
    if not verdicts:
        return []
    notes = health_notes(health_context(catalog, cluster))
    return [replace(verdict, notes=notes[verdict.path]) for verdict in verdicts]


def source_of(row: Catalog) -> CheckedCatalog:
    """The catalog as input of the health checks."""
    disabled = row.state == Catalog.State.DISABLED
    return CheckedCatalog(row.source_kind, row.namespace, row.name, disabled, _trouble(row))


def _trouble(row: Catalog) -> str:
    """The reason of the status condition for not answering; empty without such a condition."""
    condition_type = {CLUSTER_CATALOG: "Serving", CATALOG_SOURCE: "Connected"}.get(row.source_kind)
    for condition in row.conditions:
        if condition.get("type") == condition_type and condition.get("status") != "True":
            return str(condition.get("reason") or condition.get("status"))
    return ""
