"""REST: asking for an action. The same plans, dry runs, refusals and rows as the pages."""

from typing import Any, TypeVar

import msgspec
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from catalogs.install_methods import InstallMethod
from catalogs.models import Package
from installs.actions import change, record, retry
from installs.actions.plan import Plan, read_method
from installs.api.rows import action_row
from installs.models import Action
from installs.queries.lookup import get_install_plan, get_operator
from olmweb.accounts.api_tokens import require_scope
from olmweb.accounts.roles import person
from olmweb.api.formats import json_response
from olmweb.clusters import get_cluster
from olmweb.errors import BadRequest, Missing, OlmwebError
from olmweb.models import Cluster

BODY_LIMIT = 64 * 1024
KEY_LIMIT = 100
Body = TypeVar("Body", bound=msgspec.Struct)
VERBS = ("install", "upgrade", "approve", "retry", "remove")


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """What POST /actions takes. `name` is the object's; of an install empty for the default."""

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


def create_action(request: HttpRequest) -> HttpResponseBase:
    """Asks for an install, upgrade, approval, retry or removal; the cluster tries it first.

    202 with the action; with `dry_run` 200 with what would be sent and what the cluster said. An
    `Idempotency-Key` header makes asking twice asking once. Needs a token with the scope act.
    """
    require_scope(request)
    person(request.user)
    asked = _read(request)
    key = read_key(request)
    plan = _plan(asked, request)
    tried = record.dry_run(plan, request.user)
    if asked.dry_run:
        told = {**tried.as_json(), "objects": [list(one) for one in tried.objects]}
        return json_response({"manifests": list(plan.manifests), "dry_run": told})
    if not tried.ok:
        status = 403 if tried.code in ("forbidden", "impersonation-forbidden") else 422
        raise OlmwebError(
            tried.message, code=tried.code, status=status, hint=tried.hint, fields=tried.fields
        )
    action = record.request(plan, request.user, tried=tried, idempotency_key=key)
    response = json_response(action_row(action))
    response.status_code = 202
    return response


def read_body(request: HttpRequest, kind: type[Body]) -> Body:
    """The JSON body. Raises BadRequest for one that is too large or not what this takes."""
    if len(request.body) > BODY_LIMIT:
        raise BadRequest(f"The body may have {BODY_LIMIT} bytes.", code="too-large")
    if b"\\u0000" in request.body:
        raise BadRequest("No value may hold a NUL character.", code="bad-body")
    try:
        return msgspec.json.decode(request.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"The body is not what this takes: {error}.", code="bad-body") from None


def _read(request: HttpRequest) -> Asked:
    asked = read_body(request, Asked)
    if asked.verb not in VERBS:
        raise BadRequest(f"The verb is one of {', '.join(VERBS)}.", verb="No such verb.")
    return asked


def read_key(request: HttpRequest) -> str:
    """The Idempotency-Key header, empty without one. Raises BadRequest for a value that is none."""
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > KEY_LIMIT or (key and not key.isprintable()):
        raise BadRequest(
            f"An Idempotency-Key has at most {KEY_LIMIT} printable characters.", code="bad-key"
        )
    return key


def _plan(asked: Asked, request: HttpRequest) -> Plan:
    cluster = get_cluster(asked.cluster)
    fields = {
        one: getattr(asked, one)
        for one in (
            *("namespace", "channel", "version", "targets", "approval", "policy"),
            *("service_account", "crd_safety"),
        )
    }
    if asked.verb == Action.Verb.INSTALL:
        package = _package(asked, cluster)
        return record.plan_install(cluster, package, asked.name, request.user, asked.path, fields)
    if asked.verb == Action.Verb.APPROVE:
        plan = get_install_plan(cluster.name, asked.namespace, asked.name)
        return change.plan_approve(cluster, plan)
    kind = read_method(asked.path)
    operator = get_operator(cluster.name, kind, asked.namespace or "-", asked.name)
    if asked.verb == Action.Verb.UPGRADE:
        return change.plan_upgrade(operator, fields | {"take": "yes" if asked.take else ""})
    if asked.verb == Action.Verb.RETRY:
        return retry.plan_retry(operator)
    return change.plan_remove(operator)


def _package(asked: Asked, cluster: Cluster) -> Package:
    """The package in a catalog of the cluster, else in one without a cluster."""
    rows: Any = Package.objects.select_related("catalog").filter(name=asked.package)
    if asked.catalog:
        rows = rows.filter(catalog__slug=asked.catalog)
    found: Package | None = (
        rows.filter(catalog__cluster=cluster).order_by("catalog__name").first()
        or rows.filter(catalog__cluster=None).order_by("catalog__name").first()
    )
    if found is None:
        where = f" in catalog {asked.catalog[:120]}" if asked.catalog else ""
        raise Missing(f"There is no package {asked.package[:120]}{where}.", code="unknown-package")
    return found
