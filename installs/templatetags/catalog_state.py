"""Tags for what clusters say about catalogs, on the pages of catalogs."""

from typing import Any

from django import template

from catalogs.models import Catalog
from installs.presenters.diagnosis import remedy_steps
from installs.queries.catalog_troubles import catalog_trouble
from olmweb.kube.resources import CATALOG_SOURCES, CLUSTER_CATALOGS

register = template.Library()
_KINDS = {
    Catalog.SourceKind.CATALOG_SOURCE: CATALOG_SOURCES.kind,
    Catalog.SourceKind.PACKAGE_MANIFEST: CATALOG_SOURCES.kind,
    Catalog.SourceKind.CLUSTER_CATALOG: CLUSTER_CATALOGS.kind,
}


@register.inclusion_tag("installs/_catalog_trouble.html")
def trouble_on_cluster(catalog: Catalog) -> dict[str, Any]:
    """Why the catalog is down on its cluster, with the remedy; at most two queries."""
    kind = _KINDS.get(Catalog.SourceKind(catalog.source_kind))
    if catalog.cluster is None or kind is None:
        return {"trouble": None}
    trouble = catalog_trouble(catalog.cluster, kind, catalog.namespace, catalog.name)
    finding = trouble.finding if trouble else None
    return {"trouble": trouble, "steps": remedy_steps(finding.remedy) if finding else []}
