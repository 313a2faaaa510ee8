"""REST routes of actions and install requests. Asking for an action makes the same plans, dry runs,
refusals and rows as the pages.
"""

from typing import Annotated, Any

from django.db.models import Count, Max
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import FilterLookup, Query, Router

from catalogs.install_methods import InstallMethod
from catalogs.models import Package
from installs.actions import record, retry, upgrade
from installs.actions.plan import Plan, plan_install, read_method
from installs.actions.requests import get_request as get_install_request
from installs.api.operators import OnCluster
from installs.api.schemas import ActionRow, RequestRow, action_row, request_row
from installs.models import Action, InstallRequest
from installs.queries import lookup
from installs.queries.activity import requests_revision
from olmweb.accounts.api_tokens import require_scope
from olmweb.accounts.roles import person
from olmweb.api.formats import answer_one, json_response
from olmweb.api.lists import ListParameters, Page, StoredRows, answer_list
from olmweb.api.parameters import OneOf, RequestBody, Values, values
from olmweb.clusters import get_cluster
from olmweb.errors import BadRequest, Missing
from olmweb.models import Cluster

KEY_LIMIT = 100
VERBS = ("install", "upgrade", "approve", "retry", "remove")
FORM_FIELDS = (
    *("namespace", "channel", "version", "targets", "approval", "policy"),
    *("service_account", "crd_safety"),
)
router = Router(tags=["Actions"])


class ActionParameters(ListParameters):
    cluster: OnCluster = values("Name of the cluster.")
    state: Annotated[
        list[Annotated[str, OneOf(tuple(Action.State.values))]] | None, FilterLookup("state__in")
    ] = values("State.")


class RequestParameters(ListParameters):
    cluster: OnCluster = values("Name of the cluster.")
    package: Annotated[Values, FilterLookup("package__in")] = values("Name of the package.")
    user: Annotated[Values, FilterLookup("user__username__in")] = values("Name of who asked.")
    state: Annotated[
        list[Annotated[str, OneOf(tuple(InstallRequest.State.values))]] | None,
        FilterLookup("state__in"),
    ] = values("State.")


class ActionBody(RequestBody):
    """An action to take. `name` is the object's; of an install empty for the default."""

    cluster: str
    verb: str
    path: str = InstallMethod.PLATFORM_OPERATOR.value
    package: str = ""
    catalog: str = ""
    name: str = ""
    namespace: str = ""
    channel: str = ""
    version: str = ""
    targets: str = ""
    approval: str = ""
    policy: str = ""
    service_account: str = ""
    crd_safety: str = ""
    take: bool = False
    dry_run: bool = False


@router.get("/actions", response=Page[ActionRow])
def list_actions(request: HttpRequest, query: Query[ActionParameters]) -> HttpResponseBase:
    """What people asked OLM Web to do, newest first."""
    by_state = Action.objects.order_by("state").values_list("state")
    state = list(by_state.annotate(Count("id"), Max("id"), Max("finished_at"), Max("sent_at")))
    actions = query.filter(Action.objects.select_related("cluster"))
    source = StoredRows(actions, ("-id",), lambda rows: [action_row(row) for row in rows])
    return answer_list(request, query, "actions", ActionRow, source, state)


@router.post("/actions", response={202: ActionRow})
def create_action(request: HttpRequest, body: ActionBody) -> HttpResponseBase:
    """Asks for an install, upgrade, approval, retry or removal; the cluster tries it first.

    202 with the action; with `dry_run` 200 with what would be sent and what the cluster said. An
    `Idempotency-Key` header makes asking twice asking once. Needs a token with the scope act.
    """
    require_scope(request)
    person(request.user)
    if body.verb not in VERBS:
        raise BadRequest(f"The verb is one of {', '.join(VERBS)}.", verb="No such verb.")
    key = read_key(request)
    plan = _plan(body)
    result = record.dry_run(plan, request.user)
    if body.dry_run:
        outcome = {**result.as_json(), "objects": [list(names) for names in result.objects]}
        return json_response({"manifests": list(plan.manifests), "dry_run": outcome})
    if not result.ok:
        status = 403 if result.code in ("forbidden", "impersonation-forbidden") else 422
        raise result.as_error(status)
    action = record.request(plan, request.user, dry_run_result=result, idempotency_key=key)
    response = json_response(action_row(action))
    response.status_code = 202
    return response


@router.get("/actions/{id}", response=ActionRow)
def get_action(request: HttpRequest, id: int) -> HttpResponseBase:
    """One action."""
    row = action_row(lookup.get_action(id))
    return answer_one(request, (row,), lambda: row)


@router.get("/requests", response=Page[RequestRow])
def list_requests(request: HttpRequest, query: Query[RequestParameters]) -> HttpResponseBase:
    """What people asked their operators for, newest first, and how it was decided."""
    rows = query.filter(InstallRequest.objects.select_related("cluster", "user", "decided_by"))
    source = StoredRows(rows, ("-id",), lambda requests: [request_row(row) for row in requests])
    return answer_list(request, query, "requests", RequestRow, source, requests_revision())


@router.get("/requests/{id}", response=RequestRow)
def get_request(request: HttpRequest, id: int) -> HttpResponseBase:
    """One request."""
    row = request_row(get_install_request(id))
    return answer_one(request, (row,), lambda: row)


def read_key(request: HttpRequest) -> str:
    """The Idempotency-Key header, empty without one. Raises BadRequest for a value that is none."""
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > KEY_LIMIT or (key and not key.isprintable()):
        raise BadRequest(
            f"An Idempotency-Key has at most {KEY_LIMIT} printable characters.", code="bad-key"
        )
    return key


def _plan(body: ActionBody) -> Plan:
    cluster = get_cluster(body.cluster)
    fields = body.model_dump(include=set(FORM_FIELDS))
    if body.verb == Action.Verb.INSTALL:
        package = _package(body, cluster)
        return plan_install(cluster, package, body.name, body.path, fields)
    if body.verb == Action.Verb.APPROVE:
        plan = lookup.get_install_plan(cluster.name, body.namespace, body.name)
        return upgrade.plan_approve(cluster, plan)
    kind = read_method(body.path)
    operator = lookup.get_operator(cluster.name, kind, body.namespace or "-", body.name)
    if body.verb == Action.Verb.UPGRADE:
        return upgrade.plan_upgrade(operator, fields | {"take": "yes" if body.take else ""})
    if body.verb == Action.Verb.RETRY:
        return retry.plan_retry(operator)
    return upgrade.plan_remove(operator)


def _package(body: ActionBody, cluster: Cluster) -> Package:
    """The package in a catalog of the cluster, else in one without a cluster."""
    rows: Any = Package.objects.select_related("catalog").filter(name=body.package)
    if body.catalog:
        rows = rows.filter(catalog__slug=body.catalog)
    package: Package | None = (
        rows.filter(catalog__cluster=cluster).order_by("catalog__name").first()
        or rows.filter(catalog__cluster=None).order_by("catalog__name").first()
    )
    if package is None:
        where = f" in catalog {body.catalog[:120]}" if body.catalog else ""
        raise Missing(f"There is no package {body.package[:120]}{where}.", code="unknown-package")
    return package
