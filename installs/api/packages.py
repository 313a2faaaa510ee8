"""REST routes of what installing a package does: a bundle's contents, differences, exported files.

Answered from rows; nothing here asks a cluster.
"""

from typing import Annotated, Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import Field

from catalogs import lookup
from catalogs.api.parameters import METHOD, Method
from catalogs.contents.stored import inspection_of
from catalogs.models import Bundle, Catalog
from installs.api.schemas import BundleContentsRow, BundleDifferenceRow
from installs.export.plan import ARGOCD, KUSTOMIZE, TYPES, YAML
from installs.facts.bundle_contents import between, contents, installed_bundle
from installs.views.export import file_response
from olmweb.api.formats import answer_one, finish, make_etag, not_modified, refuse
from olmweb.api.parameters import OneOf, Parameters, text
from olmweb.clusters import get_cluster
from olmweb.errors import Missing
from olmweb.models import Cluster

router = Router(tags=["Catalogs"])
APPROVALS = ("Manual", "Automatic")
FORMS = {"yaml": YAML, "kustomize": KUSTOMIZE, "argocd": ARGOCD}


class ContentsParameters(Parameters):
    cluster: str = text("Cluster to look at, for a catalog of no cluster; else the catalog's own.")


class DifferenceParameters(ContentsParameters):
    before: str = text(
        "Name of the bundle to compare with; else the one that the cluster runs.", alias="from"
    )


class ExportParameters(Parameters):
    method: Method | None = Field(None, description=f"{METHOD} Absent: the catalog's first.")
    channel: str = text("A channel; absent: any.")
    version: str = text("Version or range to choose from, in the method's own grammar.")
    name: str = text("Name of the object; the package's when absent.")
    namespace: str = text("Namespace to install into; the suggested one when absent.")
    targets: str = text("Namespaces that the OperatorGroup watches, with commas; * for all.")
    approval: Annotated[str, OneOf(("", *APPROVALS))] = text(
        "Approval of a Subscription; Manual when absent, which holds it at its version.",
        json_schema_extra={"enum": list(APPROVALS)},
    )
    source: str = text(
        "CatalogSource or ClusterCatalog to name, for a catalog that is of no cluster."
    )
    source_namespace: str = text("Namespace of the CatalogSource.")
    service_account: str = text("ServiceAccount of a ClusterExtension, for clusters that need one.")
    config: str = text("YAML or JSON of `spec.config`; of clusters that serve that field.")
    repo: str = text("Git repository that holds the folder; needed for argocd.")
    repo_path: str = text("Folder in it; the object's name when absent.")
    revision: str = text("Branch, tag or commit; HEAD when absent.")
    format: Annotated[str, OneOf(tuple(FORMS))] = Field(
        "yaml",
        description="yaml: one file; kustomize: a zip with a folder; argocd: an Application.",
    )


# Registered before the bundle's own route: a bundle name may hold slashes.
@router.get(
    "/bundles/{cluster}/{catalog}/{package}/{path:bundle}/contents",
    response=BundleContentsRow,
)
def get_bundle_contents(
    request: HttpRequest,
    cluster: str,
    catalog: str,
    package: str,
    bundle: str,
    query: Query[ContentsParameters],
) -> HttpResponseBase:
    """The contents of the bundle: objects, permissions (dangerous ones first), CRDs with their
    current owner, webhooks, images, dependencies."""
    row = lookup.get_bundle(lookup.get_package(cluster, catalog, package), bundle)
    where = cluster_of(query, row.package.catalog)
    return answer_one(request, _state(row, where), lambda: _contents_row(row, where), query)


@router.get(
    "/bundles/{cluster}/{catalog}/{package}/{path:bundle}/difference",
    response=BundleDifferenceRow,
)
def get_bundle_difference(
    request: HttpRequest,
    cluster: str,
    catalog: str,
    package: str,
    bundle: str,
    query: Query[DifferenceParameters],
) -> HttpResponseBase:
    """Differences between two bundles of a package; both must be inspected."""
    row = lookup.get_bundle(lookup.get_package(cluster, catalog, package), bundle)
    where = cluster_of(query, row.package.catalog)
    before = earlier_bundle(query, row, where)
    sections = between(before, contents(row, where))
    if sections is None:
        raise Missing(
            f"How {row.name[:200]} differs from {before.name[:200]} is not known.",
            code="not-inspected",
            hint="Both bundles' images must have been inspected: their pages offer it.",
        )
    where_name = where.name if where else None
    difference = BundleDifferenceRow(before.name, row.name, where_name, list(sections))
    return answer_one(request, [difference], lambda: difference, query)


def earlier_bundle(query: DifferenceParameters, bundle: Bundle, cluster: Cluster | None) -> Bundle:
    """The bundle of the package to compare with. Raises BadRequest where none is named or runs."""
    before = (
        lookup.get_bundle(bundle.package, query.before)
        if query.before
        else installed_bundle(bundle.package, cluster)
    )
    if before is None:
        message = "Nothing of this package is installed there: name the bundle to compare with."
        raise refuse("from", message, code="missing-parameter")
    before.package = bundle.package
    return before


def cluster_of(query: ContentsParameters, catalog: Catalog) -> Cluster | None:
    """The cluster to look at. Raises BadRequest for another one than the catalog's."""
    if catalog.cluster is not None:
        if query.cluster not in ("", catalog.cluster.name):
            message = (
                f"The catalog is of cluster {catalog.cluster.name}, not of {query.cluster[:100]}."
            )
            raise refuse("cluster", message)
        return catalog.cluster
    return get_cluster(query.cluster) if query.cluster else None


def _state(bundle: Bundle, cluster: Cluster | None) -> tuple[Any, ...]:
    inspection = inspection_of(bundle)
    return (
        *(bundle.pk, bundle.blob_id, bundle.package.catalog.revision),
        *((inspection.state, inspection.manifests_id) if inspection else ()),
        *((cluster.pk, cluster.revision) if cluster else ()),
    )


def _contents_row(bundle: Bundle, cluster: Cluster | None) -> BundleContentsRow:
    result = contents(bundle, cluster)
    inspection = inspection_of(bundle)
    report = result.report
    return BundleContentsRow(
        bundle=bundle.name,
        cluster=cluster.name if cluster else None,
        known=result.inspected,
        inspection=inspection.state if inspection else "",
        objects=list(report.kinds) if result.inspected else None,
        permissions=list(report.permissions) if result.inspected else None,
        webhooks=list(report.webhooks) if result.inspected else None,
        crds=list(result.crds),
        needs=list(result.needs),
        images=list(report.images),
        namespaces=list(result.namespaces),
        notes=list(result.notes),
    )


@router.get(
    "/packages/{cluster}/{catalog}/{package}/export",
    tags=["Actions"],
    openapi_extra={
        "responses": {
            200: {"content": {kind: {"schema": {"type": "string"}} for kind in TYPES.values()}}
        },
    },
)
def get_export(
    request: HttpRequest, cluster: str, catalog: str, package: str, query: Query[ExportParameters]
) -> HttpResponseBase:
    """The manifests of an install as files, pinned to the resolved version. Calls no cluster."""
    row = lookup.get_package(cluster, catalog, package)
    values = query.model_dump(exclude={"format", "method"}) | {"path": query.method or ""}
    response = file_response(row, FORMS[query.format], values)
    etag = make_etag(request, response.content)
    return not_modified(request, etag) or finish(response, etag)
