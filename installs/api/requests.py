"""REST routes of install requests: the queue, a new request, its approval or refusal.

They make the same plans, dry runs, refusals and rows as the pages.
"""

from typing import Annotated

from django.db.models import Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from ninja import FilterLookup, Query, Router
from pydantic import Field

from catalogs.api.parameters import Method, OptionalReference
from catalogs.install_methods import InstallMethod
from installs.actions import record
from installs.actions import requests as install_requests
from installs.api.action_schemas import (
    ActionRow,
    Config,
    InstallRequestRow,
    RequestState,
    action_row,
    request_row,
)
from installs.api.actions import accepted, find_package, tried
from installs.api.operators import OnCluster
from installs.models import InstallRequest
from installs.queries import lookup
from installs.queries.activity import requests_revision
from olmweb.accounts.api_tokens import PEOPLE_ONLY, require_scope, token_of_request
from olmweb.api.formats import answer_one, json_response
from olmweb.api.lists import ListParameters, Page, StoredRows, answer_list
from olmweb.api.parameters import (
    SINCE,
    UNTIL,
    Moment,
    RequestBody,
    Values,
    at_or_after,
    before,
    values,
)
from olmweb.clusters import get_cluster

router = Router(tags=["Actions"])


class RequestParameters(ListParameters):
    cluster: OnCluster = values("Name of the cluster.")
    package: Annotated[Values, FilterLookup("package__in")] = values("Name of the package.")
    user: Annotated[Values, FilterLookup("user__username__in")] = values("Who asked for it.")
    state: Annotated[list[RequestState] | None, FilterLookup("state__in")] = values("State.")
    since: Moment = Field(None, description=SINCE)
    until: Moment = Field(None, description=UNTIL)

    def filter_since(self, moment: Moment) -> Q:
        return at_or_after("created_at", moment)

    def filter_until(self, moment: Moment) -> Q:
        return before("created_at", moment)


class InstallRequestBody(RequestBody):
    """A package that operators shall install, from the catalog with the reference `catalog`.
    `version` is one of the package; `config` is `spec.config` of the object, if the cluster serves
    that field; `reason` is what they read before they decide."""

    cluster: str
    package: str
    version: str
    reason: str
    catalog: OptionalReference = ""
    method: Method = InstallMethod.PLATFORM_OPERATOR
    namespace: str = ""
    service_account: str = ""
    config: Config = {}


class ApprovalBody(RequestBody):
    """`comment` is an optional answer to the person who asked."""

    comment: str = ""
    dry_run: bool = False


class DeclineBody(RequestBody):
    """`comment` is the reason, for the person who asked."""

    comment: str


@router.get("/requests", response=Page[InstallRequestRow], auth=PEOPLE_ONLY)
def list_requests(request: HttpRequest, query: Query[RequestParameters]) -> HttpResponseBase:
    """Installation requests with their decisions, newest first."""
    related = ("cluster", "catalog__cluster", "user", "decided_by")
    rows = query.filter(InstallRequest.objects.select_related(*related))
    source = StoredRows(rows, ("-id",), lambda requests: [request_row(row) for row in requests])
    return answer_list(request, query, "requests", InstallRequestRow, source, requests_revision())


@router.get("/requests/{id}", response=InstallRequestRow, auth=PEOPLE_ONLY)
def get_request(request: HttpRequest, id: int) -> HttpResponseBase:
    """One request."""
    row = request_row(lookup.get_request(id))
    return answer_one(request, (row,), lambda: row)


@router.post("/requests", response={200: InstallRequestRow, 201: InstallRequestRow})
def create_request(request: HttpRequest, body: InstallRequestBody) -> HttpResponseBase:
    """Requests an installation, which an operator or admin approves or declines.

    201 with the request. 200 with your earlier request, and its own reason, while the same request
    is pending. An approval rule may have approved it already. Needs a token with the scope act.
    """
    require_scope(request)
    install_requests.require_requester(request.user)
    cluster = get_cluster(body.cluster)
    submitted = install_requests.submit(
        cluster,
        find_package(cluster, body.package, body.catalog, body.method),
        request.user,
        path=body.method,
        version=body.version,
        namespace=body.namespace,
        service_account=body.service_account,
        config=body.config,
        reason=body.reason,
    )
    response = json_response(request_row(submitted.request))
    if submitted.created:
        response.status_code = 201
    response["Location"] = reverse("api:get_request", args=[submitted.request.pk])
    return response


@router.post("/requests/{id}/approve", response={202: ActionRow})
def approve_request(request: HttpRequest, id: int, body: ApprovalBody) -> HttpResponseBase:
    """Approves a pending request: its plan, after a dry run, becomes an action of the approver.

    The plan is that of the catalog as it is now, as `dry_run` shows it.
    202 with the action; with `dry_run` 200 with the manifests to apply and the results of the
    server-side dry run. Needs a token with the scope act.
    """
    require_scope(request)
    row, user = lookup.get_request(id), request.user
    install_requests.require_decider(user, row)
    plan = install_requests.plan_of(row, install_requests.package_of(row))
    if body.dry_run:
        return tried(plan, record.dry_run(plan, user))
    action = install_requests.approve(
        row,
        plan,
        user,
        review_token=install_requests.review_token(row, plan, user),
        word=body.comment,
        token=token_of_request(request),
    )
    return accepted(action_row(action), replayed=False)


@router.post("/requests/{id}/withdraw", response=InstallRequestRow)
def withdraw_request(request: HttpRequest, id: int) -> HttpResponseBase:
    """Withdraws a pending request of your own. Needs a token with the scope act."""
    require_scope(request)
    install_requests.withdraw(id, request.user)
    return json_response(request_row(lookup.get_request(id)))


@router.post("/requests/{id}/decline", response=InstallRequestRow)
def decline_request(request: HttpRequest, id: int, body: DeclineBody) -> HttpResponseBase:
    """Declines a pending request, with a reason. Needs a token with the scope act."""
    require_scope(request)
    install_requests.decline(lookup.get_request(id), request.user, word=body.comment)
    return json_response(request_row(lookup.get_request(id)))
