"""What the rules of a place say of a catalog and a cluster: read when they are shown, not stored.

Reads the rows of the cluster's catalogs, one query; looks at no bundle. Knows no HTTP.
"""

from collections.abc import Sequence
from dataclasses import replace

from django.db.models import Exists, Q

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog
from catalogs.verdicts import RuleResult, Scope, Site, Source, on_site
from catalogs.verdicts.health_checks import CATALOG_SOURCE, CLUSTER_CATALOG
from catalogs.verdicts.read import StoredRuleResult, StoredVerdict
from olmweb.models import Stream


def site_of(catalog: Catalog, cluster: int | None, namespace: str = "") -> Site:
    """`catalog` beside all catalogs of the cluster; without one, of `catalog` alone."""
    own = source_of(catalog)
    if cluster is None:
        return Site(own)
    streams = Stream.objects.filter(cluster=cluster).filter(
        Q(listed_at__isnull=False) | Q(state=Stream.State.ABSENT)
    )
    rows = Catalog.objects.filter(cluster=cluster).order_by("namespace", "name")
    known = {kind: Exists(streams.filter(kind=kind)) for kind in (CLUSTER_CATALOG, CATALOG_SOURCE)}
    found = list(rows.annotate(**known))
    read = frozenset(kind for kind in known if found and getattr(found[0], kind))
    return Site(own, tuple(map(source_of, found)), read, namespace)


def notes_on(site: Site) -> dict[InstallMethod, tuple[StoredRuleResult, ...]]:
    """What stands beside every verdict on the catalog's bundles, by path; in the rules' order."""
    return {path: tuple(map(said, on_site(path, Scope.CATALOG, site))) for path in InstallMethod}


def beside(
    verdicts: Sequence[StoredVerdict], catalog: Catalog, cluster: int | None
) -> list[StoredVerdict]:
    """The verdicts on a bundle of the catalog on a cluster (None: none), with their notes."""
    if not verdicts:
        return []
    notes = notes_on(site_of(catalog, cluster))
    return [replace(one, notes=notes[one.path]) for one in verdicts]


def said(found: RuleResult) -> StoredRuleResult:
    return StoredRuleResult(found.rule, found.verdict, found.sentence)


def source_of(row: Catalog) -> Source:
    """The catalog as the rules of a place see it."""
    disabled = row.state == Catalog.State.DISABLED
    return Source(row.source_kind, row.namespace, row.name, disabled, _trouble(row))


def _trouble(row: Catalog) -> str:
    """Why it does not answer, as its object tells; one that tells nothing is given the benefit."""
    told = {CLUSTER_CATALOG: "Serving", CATALOG_SOURCE: "Connected"}.get(row.source_kind)
    for condition in row.conditions:
        if condition.get("type") == told and condition.get("status") != "True":
            return str(condition.get("reason") or condition.get("status"))
    return ""
