"""Install and remove: say exactly what will be done, let the cluster try it, ask, then follow.

A GET asks no cluster. Every form works as a plain POST; htmx swaps the same form in place.
"""

import uuid
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from catalogs.models import Package
from installs import actions
from installs.models import Action
from installs.queries.overview import installable_kinds
from installs.views.operator import find_or_404
from olmweb.access import person
from olmweb.context import clusters
from olmweb.errors import Missing, OlmwebError
from olmweb.htmx import render_page, wants_fragment
from olmweb.models import LOCAL, Cluster

METHODS = ("GET", "HEAD", "POST")
UNPROCESSABLE = 422
KEY_LIMIT = 100  # characters, as the column holds


@never_cache
@require_http_methods(METHODS)
def install(request: HttpRequest, cluster: str, catalog: str, package: str) -> HttpResponse:
    """Install one package: what, where, review with the cluster's own dry run, confirm."""
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    person(request.user)
    found = _package(cluster, catalog, package)
    targets = _targets(request, found)
    values = request.POST if request.method == "POST" else request.GET
    target = _target(targets, values.get("cluster", ""))
    name = values.get("name", "").strip()
    context: dict[str, Any] = {
        "package": found,
        "targets": targets,
        "target": target,
        "name": name,
        "key": _key(request),
        "fields": {},
    }
    if target is None:
        context["refusal"] = OlmwebError(
            "No cluster here serves PlatformOperators, so there is nowhere to install this.",
            code="not-served",
            hint="PlatformOperators exist on OpenShift 4.12 to 4.15 with TechPreviewNoUpgrade.",
        )
        return _form(request, "install", context, failed=request.method == "POST")
    try:
        plan = actions.plan_install(target, found, name, request.user)
        context |= {"plan": plan, "name": plan.name}
        if request.method != "POST":
            return _form(request, "install", context)
        return _try_install(request, plan, context)
    except OlmwebError as error:
        context |= {"refusal": error, "fields": error.fields}
        return _form(request, "install", context, failed=request.method == "POST")


def _try_install(request: HttpRequest, plan: actions.Plan, context: dict[str, Any]) -> HttpResponse:
    """Dry run first, always; the action is recorded only on confirmation of what passed it."""
    tried = actions.dry_run(plan, request.user)
    context["tried"] = tried
    if not tried.ok:
        context["fields"] = tried.fields
        return _form(request, "install", context, failed=True)
    if request.POST.get("step") != "confirm":
        return _form(request, "install", context)
    action = actions.request_install(
        plan, request.user, tried=tried, idempotency_key=context["key"]
    )
    return _follow(request, action)


@never_cache
@require_http_methods(METHODS)
def remove(
    request: HttpRequest, cluster: str, kind: str, namespace: str, name: str
) -> HttpResponse:
    """Remove one operator: what goes with it, a tick, then follow."""
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    person(request.user)
    operator = find_or_404(cluster, kind, namespace, name)
    if operator.kind not in actions.REMOVABLE:
        raise OlmwebError(
            f"OLM Web does not remove objects of the kind {operator.kind}.",
            code="not-removable",
            status=409,
        )
    context: dict[str, Any] = {
        "operator": operator,
        "consequences": actions.removal_consequences(operator),
        "key": _key(request),
        "fields": {},
    }
    if request.method != "POST":
        return _form(request, "remove", context)
    if request.POST.get("sure") != "yes":
        context["fields"] = {"sure": "Tick this to say that you know what goes with it."}
        return _form(request, "remove", context, failed=True)
    try:
        action = actions.request_remove(
            operator.cluster, operator, request.user, idempotency_key=context["key"]
        )
    except OlmwebError as error:
        context["refusal"] = error
        return _form(request, "remove", context, failed=True)
    return _follow(request, action)


def _key(request: HttpRequest) -> str:
    """The form's own key, which makes sending it twice one action; a new one for a new form."""
    key = request.POST.get("key", "")
    return key if key and key.isprintable() and len(key) <= KEY_LIMIT else uuid.uuid4().hex


def _package(cluster: str, catalog: str, package: str) -> Package:
    """The package a URL names. Raises Missing with a sentence."""
    found = None
    if "\x00" not in f"{cluster}{catalog}{package}":
        rows = Package.objects.select_related("catalog", "catalog__cluster").filter(
            catalog__slug=catalog, name=package
        )
        local = Q(catalog__cluster=None)
        scope = local if cluster == LOCAL else Q(catalog__cluster__name=cluster)
        found = rows.filter(scope).first()
    if found is None:
        raise Missing(
            f"There is no package {package[:120]} in catalog {catalog[:120]} of cluster "
            f"{cluster[:80]}.",
            code="unknown-package",
            hint="Search the software catalog for it.",
        )
    return found


def _targets(request: HttpRequest, package: Package) -> list[Cluster]:
    """The catalog's own cluster, or for a catalog without one every cluster that could take it."""
    if package.catalog.cluster is not None:
        return [package.catalog.cluster]
    return [c for c in clusters(request) if "PlatformOperator" in installable_kinds(c)]


def _target(targets: list[Cluster], name: str) -> Cluster | None:
    return next((c for c in targets if c.name == name), targets[0] if targets else None)


def _form(
    request: HttpRequest, page: str, context: dict[str, Any], *, failed: bool = False
) -> HttpResponse:
    status = UNPROCESSABLE if failed else 200
    context["failed"] = failed
    return render_page(request, f"installs/{page}.html", context, partial="form", status=status)


def _follow(request: HttpRequest, action: Action) -> HttpResponse:
    """To the action's page, which follows it live."""
    address = reverse("installs:action", args=[action.pk])
    if wants_fragment(request):
        return HttpResponseClientRedirect(address)
    response = HttpResponseRedirect(address)
    response.status_code = 303
    return response
