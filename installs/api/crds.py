"""REST routes of CRDs before an upgrade: what two bundles change, and whether objects fit.

The differences are answered from rows. A check reads a cluster: a worker makes it as the person who
starts it, and only that person reads the result.
"""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from ninja import Query, Router

from catalogs import lookup as catalog_lookup
from installs.actions import crd_check as checks
from installs.api.crd_schemas import CrdChangesRow, CrdCheckRow, change_row, check_row
from installs.api.packages import DifferenceParameters, cluster_of, earlier_bundle
from installs.queries import lookup
from olmweb.accounts.api_tokens import PEOPLE_ONLY, require_scope
from olmweb.accounts.roles import may_read_yaml, person
from olmweb.api.formats import answer_one, json_response, refuse_parameters
from olmweb.errors import Missing

router = Router(tags=["Operators"])
_CHECK = "/crd-checks/{cluster}/{kind}/{namespace}/{name}/{path:bundle}"


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
    query: Query[DifferenceParameters],
) -> HttpResponseBase:
    """The changes of CRDs between two bundles of a package that may break objects or clients, and
    what OLM v0 and OLM v1 do about them. The stored versions are those of the cluster, if any."""
    after = catalog_lookup.get_bundle(catalog_lookup.get_package(cluster, catalog, package), bundle)
    where = cluster_of(query, after.package.catalog)
    before = earlier_bundle(query, after, where)
    compared = checks.compare_bundles(where, before, after)
    if compared.unknown:
        raise Missing(
            f"The catalog does not have the CRDs of {' and '.join(compared.unknown)[:300]}.",
            code="not-inspected",
            hint="Inspect the images of the bundles first.",
        )
    changes = CrdChangesRow(
        before.name,
        after.name,
        where.name if where else None,
        [change_row(finding) for finding in compared.findings],
    )
    return answer_one(request, (changes,), lambda: changes, query)
