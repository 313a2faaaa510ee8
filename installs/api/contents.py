"""REST routes of what a bundle would install and how two bundles differ; stored rows only."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from catalogs import lookup
from catalogs.contents.difference import Section
from catalogs.contents.report import Image, Kinds, Permission, Webhook
from catalogs.contents.stored import inspection_of
from catalogs.models import Bundle, Catalog
from installs.facts.bundle_contents import CrdHere, Need, between, contents, installed_bundle
from olmweb.api.formats import answer_one, refuse
from olmweb.clusters import get_cluster
from olmweb.errors import Missing
from olmweb.models import Cluster

router = Router(tags=["Catalogs"])
CLUSTER = {
    "in": "query",
    "name": "cluster",
    "description": "Cluster to look at, for a catalog of no cluster; else the catalog's own.",
    "schema": {"type": "string"},
}
FROM = {
    "in": "query",
    "name": "from",
    "description": "Name of the bundle to compare with; else the one that the cluster runs.",
    "schema": {"type": "string"},
}


@dataclass(frozen=True, slots=True)
class ContentsRow:
    """`known` false: only metadata is known, and objects, permissions and webhooks are null until
    the bundle's image is inspected; `inspection` says how that stands ("" when nobody asked)."""

    bundle: str
    cluster: str | None
    known: bool
    inspection: str
    objects: list[Kinds] | None
    permissions: list[Permission] | None
    webhooks: list[Webhook] | None
    crds: list[CrdHere]
    needs: list[Need]
    images: list[Image]
    namespaces: list[str]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """From `before` to `after`; sections without a difference are left out."""

    before: str
    after: str
    cluster: str | None
    sections: list[Section]


# Registered before the bundle's own route: a bundle name may hold slashes.
@router.get(
    "/bundles/{cluster}/{catalog}/{package}/{path:bundle}/contents",
    response=ContentsRow,
    openapi_extra={"parameters": [CLUSTER]},
)
def get_bundle_contents(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponseBase:
    """What the bundle would install: objects, permissions (dangerous ones first), CRDs with who
    owns them now, webhooks, images, dependencies."""
    found = lookup.get_bundle(lookup.get_package(cluster, catalog, package), bundle)
    where = _cluster(request, found.package.catalog)
    return answer_one(
        request, _state(found, where), lambda: _contents_row(found, where), ("cluster",)
    )


@router.get(
    "/bundles/{cluster}/{catalog}/{package}/{path:bundle}/difference",
    response=DifferenceRow,
    openapi_extra={"parameters": [CLUSTER, FROM]},
)
def get_bundle_difference(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponseBase:
    """What changes between two bundles of a package: both must be inspected."""
    found = lookup.get_bundle(lookup.get_package(cluster, catalog, package), bundle)
    where = _cluster(request, found.package.catalog)
    asked = request.GET.get("from", "")
    before = (
        lookup.get_bundle(found.package, asked) if asked else installed_bundle(found.package, where)
    )
    if before is None:
        told = "Nothing of this package is installed there: name the bundle to compare with."
        raise refuse("from", told, code="missing-parameter")
    before.package = found.package
    sections = between(before, contents(found, where))
    if sections is None:
        raise Missing(
            f"How {found.name[:200]} differs from {before.name[:200]} is not known.",
            code="not-inspected",
            hint="Both bundles' images must have been inspected: their pages offer it.",
        )
    row = DifferenceRow(before.name, found.name, where.name if where else None, list(sections))
    return answer_one(request, [row], lambda: row, ("cluster", "from"))


def _cluster(request: HttpRequest, catalog: Catalog) -> Cluster | None:
    asked = request.GET.get("cluster", "")
    if catalog.cluster is not None:
        if asked not in ("", catalog.cluster.name):
            told = f"The catalog is of cluster {catalog.cluster.name}, not of {asked[:100]}."
            raise refuse("cluster", told)
        return catalog.cluster
    return get_cluster(asked) if asked else None


def _state(bundle: Bundle, cluster: Cluster | None) -> tuple[Any, ...]:
    row = inspection_of(bundle)
    return (
        *(bundle.pk, bundle.blob_id, bundle.package.catalog.revision),
        *((row.state, row.manifests_id) if row else ()),
        *((cluster.pk, cluster.revision) if cluster else ()),
    )


def _contents_row(bundle: Bundle, cluster: Cluster | None) -> ContentsRow:
    found = contents(bundle, cluster)
    row = inspection_of(bundle)
    told = found.report
    return ContentsRow(
        bundle=bundle.name,
        cluster=cluster.name if cluster else None,
        known=found.known,
        inspection=row.state if row else "",
        objects=list(told.kinds) if found.known else None,
        permissions=list(told.permissions) if found.known else None,
        webhooks=list(told.webhooks) if found.known else None,
        crds=list(found.crds),
        needs=list(found.needs),
        images=list(told.images),
        namespaces=list(found.namespaces),
        notes=list(found.notes),
    )
