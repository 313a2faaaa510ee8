"""Install requests: the form, the queue, one request with the plan of its approval.

A GET sends no request to a cluster. Every form works without JavaScript.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from catalogs.install_methods import InstallMethod
from catalogs.lookup import get_package
from catalogs.models import Bundle, Package
from installs import methods
from installs.actions import plan as planning
from installs.actions import requests as install_requests
from installs.actions.install_rows import InstallRows
from installs.actions.plan import Plan
from installs.facts.configuration import read_values
from installs.methods.configuration import CONFIG
from installs.methods.configuration_fields import FORM_FIELDS, WATCH, offered_fields
from installs.models import InstallRequest
from installs.queries import activity as queries
from installs.queries.lookup import get_request
from installs.views.forms import METHODS, UNPROCESSABLE, ConfigurationForm, targets_of
from olmweb.accounts.roles import sign_in_required
from olmweb.api.formats import fill
from olmweb.api.lists import StoredRows, export_table
from olmweb.errors import BadRequest, OlmwebError
from olmweb.models import Cluster
from olmweb.web.forms import (
    ChoiceFilter,
    FilterForm,
    SortFilter,
    TextFilter,
    ValueField,
    ValuesForm,
    read_page,
)
from olmweb.web.pages import render_live, revision_token, unchanged
from olmweb.web.pagination import PAGE_SIZE, paginate
from olmweb.web.preferences import remember_view

VERSIONS_SHOWN = 200
ALREADY_REQUESTED = (
    "You have already requested this, and it waits for a decision: this is your earlier request, "
    "with its reason. To change it, withdraw it and request the installation again."
)
ASKED = ("path", "version", "namespace", "service_account", "reason")


class RequestForm(ConfigurationForm):
    cluster = ValueField()
    path = ValueField()
    version = ValueField()
    namespace = ValueField()
    service_account = ValueField()
    reason = ValueField(install_requests.REASON_LIMIT + 1)  # longer ones are refused


class DecisionForm(ValuesForm):
    step = ValueField()
    word = ValueField(install_requests.REASON_LIMIT + 1)
    seen = ValueField(10_000)


@never_cache
@require_http_methods(METHODS)
@sign_in_required(check=install_requests.require_requester)
def ask(request: HttpRequest, cluster: str, catalog: str, package: str) -> HttpResponse:
    """Ask for one package in a version, by a path, with a reason."""
    package_row = get_package(cluster, catalog, package)
    targets = targets_of(request, package_row)
    form = RequestForm(request.POST if request.method == "POST" else request.GET)
    values = form.cleaned_data
    target = next((cluster for cluster in targets if cluster.name == values["cluster"]), None)
    if target is None and values["cluster"] and request.method == "POST":
        raise OlmwebError(
            "Installations from this catalog can't be requested for that cluster.",
            code="not-allowed",
            status=403,
        )
    target = target or (targets[0] if targets else None)
    rows = InstallRows(target, package_row, version=values["version"].strip()) if target else None
    paths = planning.paths_of(target, package_row.catalog, rows) if target else []
    context: dict[str, Any] = {
        "package": package_row,
        "targets": targets,
        "target": target,
        "paths": paths,
        "versions": _versions(package_row),
        "asks_account": target is not None and _asks_account(target, paths),
        "chosen": {
            **{name: values[name] for name in ASKED},
            "path": values["path"] or _best(rows),
            "version": values["version"] or package_row.head_version,
        },
        "configurable": _configurable(target, paths) if target else frozenset(),
        "values": values,
        "form": form,
        "reason_limit": install_requests.REASON_LIMIT,
    }
    if request.method != "POST":
        if target is not None:
            context |= _outside_allow_list(target, package_row, context)
        return render(request, "installs/request_new.html", context)
    try:
        submitted = _ask(request, target, package_row, context["chosen"], form.cleaned_data)
    except OlmwebError as error:
        form.refuse(error.fields)
        context["refusal"] = error
        status = error.status if error.status == 403 else UNPROCESSABLE
        return render(request, "installs/request_new.html", context, status=status)
    if not submitted.created:
        messages.info(request, ALREADY_REQUESTED)
    return redirect("installs:request", submitted.request.pk)


def _outside_allow_list(
    target: Cluster, package: Package, context: dict[str, Any]
) -> dict[str, Any]:
    """What the form would be refused with as it begins, so that nobody fills it in for nothing, and
    whether any other version or install method of the form can be requested."""
    chosen, paths, versions = context["chosen"], context["paths"], context["versions"]
    try:
        install_requests.matching_rules(target, chosen["path"], package.name, chosen["version"])
    except OlmwebError as error:
        if install_requests.permits_any(target, paths, package.name, versions):
            return {"refusal": error}
        return {
            "refusal": OlmwebError(
                f"{package.name} is not on the allow-list, so it can't be requested.",
                code="not-allowed",
                status=403,
                hint="Ask an administrator of OLM Web to add it.",
            ),
            "nothing_permitted": True,
        }
    return {}


def _best(rows: InstallRows | None) -> str:
    """The install method that the form begins with; empty where there is none."""
    return (planning.best_method(rows) or "") if rows else ""


def _ask(
    request: HttpRequest,
    target: Cluster | None,
    package: Package,
    chosen: dict[str, Any],
    values: dict[str, str],
) -> install_requests.Submitted:
    if target is None:
        raise BadRequest("No cluster here can install from this catalog.", code="not-served")
    try:
        method = InstallMethod.parse(chosen["path"])
    except ValueError:
        config = {}  # refused with the method
    else:
        config = read_values(method, values, FORM_FIELDS)
        if method != InstallMethod.CLUSTER_EXTENSION and values[WATCH].strip():
            message = f"A {method} has no watchNamespace; choose its namespace instead."
            raise BadRequest(message, code="invalid", **{WATCH: message})
    return install_requests.submit(target, package, request.user, config=config, **chosen)


def _configurable(target: Cluster, paths: list[InstallMethod]) -> frozenset[str]:
    """The fields of the configuration that any of the install methods has on this cluster."""
    offered: frozenset[str] = frozenset()
    for method in paths:
        if CONFIG in methods.METHODS[method].form_fields():
            version = planning.served_version(target, method)
            offered |= offered_fields(method, planning.known_fields(target, method, version))
    return offered


def _asks_account(target: Cluster, paths: list[InstallMethod]) -> bool:
    """Whether ClusterExtensions of this cluster name the ServiceAccount that installs them."""
    if InstallMethod.CLUSTER_EXTENSION not in paths:
        return False
    version = planning.served_version(target, InstallMethod.CLUSTER_EXTENSION)
    fields = planning.known_fields(target, InstallMethod.CLUSTER_EXTENSION, version)
    method = InstallMethod.CLUSTER_EXTENSION
    choice = methods.InstallChoice(method=method, package="", name="", known_fields=fields)
    return "service_account" in methods.METHODS[method].offered(choice)


def _versions(package: Package) -> list[str]:
    rows = Bundle.objects.filter(package=package).order_by("-version_key", "ordinal")
    return list(dict.fromkeys(rows.values_list("version", flat=True)[:VERSIONS_SHOWN]))


class RequestsForm(FilterForm):
    cluster = TextFilter()
    user = TextFilter()
    q = TextFilter()
    state = ChoiceFilter(queries.REQUEST_STATES)
    sort = SortFilter(queries.REQUESTS.names)


@dataclass(frozen=True, slots=True)
class ExportRow:
    """A row of the exported table of requests; `name` is that of the package, `answer` the word of
    the person who decided."""

    id: int
    name: str
    version: str
    path: str
    state: str
    reason: str
    answer: str
    user: str
    cluster: str
    requested: datetime
    decided: datetime | None
    decided_by: str


def _export_rows(rows: Sequence[InstallRequest]) -> list[ExportRow]:
    return [
        fill(
            ExportRow,
            row,
            name=row.package,
            answer=row.word,
            user=row.user.username if row.user else "",
            cluster=row.cluster.name,
            requested=row.created_at,
            decided=row.decided_at,
            decided_by=row.decided_by.username if row.decided_by else "",
        )
        for row in rows
    ]


@require_safe
@sign_in_required()
def request_export(request: HttpRequest) -> HttpResponseBase:
    """The table of requests as CSV: every matching row, in its order, with the columns shown."""
    chosen = RequestsForm.read(request.GET)
    table = queries.REQUESTS.view(request, chosen.pop("sort"))
    rows = queries.requests_matching(**chosen)
    return export_table(request, table, StoredRows(rows, table.order, _export_rows))


@remember_view
@require_safe
@sign_in_required()
def request_list(request: HttpRequest) -> HttpResponse:
    """The queue: waiting requests and decided ones."""
    chosen = RequestsForm.read(request.GET)
    token = revision_token("requests", queries.requests_revision())
    if (answer := unchanged(request, token)) is not None:
        return answer
    notices: list[str] = []
    table = queries.REQUESTS.view(request, chosen.pop("sort"))
    rows = queries.requests_matching(**chosen).order_by(*table.order)
    page = paginate(rows, read_page(request.GET, notices), PAGE_SIZE, notices)
    context = {
        "show": "requests",
        "table": table,
        "page": page,
        "notices": notices,
        "total": page.paginator.count,
        "chosen": chosen,
        "chips": RequestsForm.chips(chosen),
        "states": InstallRequest.State.choices,
    }
    return render_live(
        request, "installs/requests.html", context, token=token, topics=("requests",)
    )


@never_cache
@require_http_methods(METHODS)
@sign_in_required()
def request_detail(request: HttpRequest, id: int) -> HttpResponse:
    """One request: the plan, the installed operators, warnings; the decision."""
    install_request = get_request(id)
    context = _detail(request, install_request)
    if request.method != "POST":
        return render(request, "installs/request.html", context)
    try:
        return _decide(request, install_request, context)
    except OlmwebError as error:
        if error.status in (403, 404):
            raise
        install_request.refresh_from_db()
        context = _detail(request, install_request) | {"refusal": error, "fields": error.fields}
        status = error.status if error.status == 409 else UNPROCESSABLE
        return render(request, "installs/request.html", context, status=status)


def _decide(
    request: HttpRequest, install_request: InstallRequest, context: dict[str, Any]
) -> HttpResponse:
    values = DecisionForm(request.POST).cleaned_data
    step, word = values["step"], values["word"]
    if step == "approve":
        install_requests.require_decider(request.user, install_request)
        plan: Plan = context["plan"] or install_requests.plan_of(
            install_request, install_requests.package_of(install_request)
        )
        action = install_requests.approve(
            install_request, plan, request.user, review_token=values["seen"], word=word
        )
        return redirect("installs:action", action.pk)
    if step == "decline":
        install_requests.decline(install_request, request.user, word=word)
        messages.success(request, "Declined.")
    elif step == "withdraw":
        install_requests.withdraw(install_request.pk, request.user)
        messages.success(request, "Withdrawn.")
    else:
        raise BadRequest("Approve, decline or withdraw it.", code="invalid")
    return redirect("installs:request", install_request.pk)


def _detail(request: HttpRequest, install_request: InstallRequest) -> dict[str, Any]:
    waiting = install_request.state == InstallRequest.State.WAITING
    allowed, why = install_requests.may_decide(request.user, install_request)
    plan, hindrance, package = None, None, None
    if waiting:
        try:
            package = install_requests.package_of(install_request)
            plan = install_requests.plan_of(install_request, package)
        except OlmwebError as error:
            hindrance = error
    return {
        "install_request": install_request,
        "waiting": waiting,
        "plan": plan,
        "package": package,
        "hindrance": hindrance,
        "seen": install_requests.review_token(install_request, plan, request.user)
        if plan and allowed
        else "",
        "installed": queries.installed_of(install_request),
        "may_decide": allowed,
        "why_not": why,
        "own": request.user.is_authenticated and install_request.user_id == request.user.pk,
        "one_version": bool(methods.METHODS[install_request.path].version_hint),
    }
