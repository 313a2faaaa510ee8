"""REST routes of CRDs before an install or upgrade: what a bundle changes, and whether objects fit.

The differences are answered from rows. A check reads a cluster: a worker makes it as the person who
starts it, and only that person reads the result.
"""

from typing import Annotated

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from ninja import Query, Router
from pydantic import Field

from catalogs import lookup as catalog_lookup
from installs.actions import crd_check as checks
from installs.actions import crd_safety
from installs.api.crd_schemas import (
    BUNDLE,
    CLUSTER,
    CrdChangesRow,
    CrdCheckRow,
    changes_row,
    check_row,
)
from installs.api.packages import DifferenceParameters, cluster_of, earlier_bundle
from installs.queries import lookup
from olmweb.accounts.api_tokens import PEOPLE_ONLY, require_scope
from olmweb.accounts.roles import may_read_yaml, person
from olmweb.api.formats import answer_one, json_response, refuse, refuse_parameters
from olmweb.api.parameters import OneOf
from olmweb.errors import Missing
from olmweb.kube.resources import CUSTOM_RESOURCE_DEFINITIONS as CRDS
from olmweb.models import Cluster

router = Router(tags=["Operators"])
_CHECK = "/crd-checks/{cluster}/{kind}/{namespace}/{name}/{path:bundle}"


class ChangesParameters(DifferenceParameters):
    against: Annotated[str, OneOf((BUNDLE, CLUSTER))] = Field(
        BUNDLE,
        description="cluster: compare with the CRDs that the cluster has, not with a bundle.",
    )


@router.post(_CHECK, response={202: CrdCheckRow})
def create_crd_check(
    request: HttpRequest, cluster: str, kind: str, namespace: str, name: str, bundle: str
) -> HttpResponseBase:
    """Has a worker compare the CRDs of the cluster with those of the bundle to upgrade to, and
    check the existing objects against the new schemas, as the person who starts it.

    While a check of this person is pending, it is that one. Needs a token with the scope act.
    """
    require_scope(request)
    user = person(request.user, may_read_yaml)
    operator = lookup.get_operator(cluster, kind, namespace, name)
    row = checks.request_check(user, operator, bundle, timezone.now())
    response = json_response(check_row(row, timezone.now()))
    response.status_code = 202
    where = (cluster, kind, namespace, name, bundle)
    response["Location"] = reverse("api:get_crd_check", args=where)
    return response


@router.get(_CHECK, response=CrdCheckRow, auth=PEOPLE_ONLY)
def get_crd_check(
    request: HttpRequest, cluster: str, kind: str, namespace: str, name: str, bundle: str
) -> HttpResponseBase:
    """The check that this person started in the last half hour."""
    refuse_parameters(request)
    user = person(request.user, may_read_yaml)
    operator = lookup.get_operator(cluster, kind, namespace, name)
    now = timezone.now()
    row = checks.current_check(user, operator, bundle, now)
    if row is None:
        raise Missing(
            f"You had no check of the CRDs of {bundle[:120]} made in the last half hour.",
            code="not-checked",
            hint="POST to the same address to have them checked.",
        )
    check = check_row(row, now)
    return answer_one(request, (check,), lambda: check)


# Registered before the bundle's own route: a bundle name may hold slashes.
@router.get(
    "/bundles/{cluster}/{catalog}/{package}/{path:bundle}/crd-changes", response=CrdChangesRow
)
def get_crd_changes(
    request: HttpRequest,
    cluster: str,
    catalog: str,
    package: str,
    bundle: str,
    query: Query[ChangesParameters],
) -> HttpResponseBase:
    """The changes of CRDs to a bundle that may break objects or clients, and what OLM v0 and OLM v1
    do about them: from another bundle of the package, or with `against=cluster` from the CRDs that
    the cluster has, as last read. The stored versions are those of the cluster, if any."""
    after = catalog_lookup.get_bundle(catalog_lookup.get_package(cluster, catalog, package), bundle)
    where = cluster_of(query, after.package.catalog)
    before = None
    if query.against == CLUSTER:
        compared = crd_safety.compare_with_cluster(_listed_cluster(query, where), after)
    else:
        before = earlier_bundle(query, after, where)
        compared = crd_safety.compare_bundles(where, before, after)
    if compared.unknown:
        raise Missing(
            f"The catalog does not have the CRDs of {' and '.join(compared.unknown)[:300]}.",
            code="not-inspected",
            hint="Inspect the images of the bundles first.",
        )
    names = (before.name if before else None, after.name, where.name if where else None)
    changes = changes_row(compared, *names)
    return answer_one(request, (changes,), lambda: changes, query)


def _listed_cluster(query: ChangesParameters, cluster: Cluster | None) -> Cluster:
    """The cluster whose CRDs are compared. Raises OlmwebError where none is named, for a bundle to
    compare with, and for a cluster whose CRDs were not listed."""
    if query.before:
        message = "With against=cluster no other bundle is read: leave out one of both."
        raise refuse("from", message)
    if cluster is None:
        message = "The catalog is of no cluster: name the one to compare with."
        raise refuse("cluster", message, code="missing-parameter")
    if not cluster.watches.filter(kind=CRDS.kind, listed_at__isnull=False).exists():
        raise Missing(
            f"The CRDs of cluster {cluster.name} were not listed yet, so nothing can be compared.",
            code="not-listed",
            hint="The page of the cluster has the state of each watched resource.",
        )
    return cluster
