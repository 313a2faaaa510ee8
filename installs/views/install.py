"""Install one package: the plan in full, a dry run, confirmation.

A GET sends no request to a cluster. Forms work without JavaScript; htmx swaps the same form in
place.
"""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from catalogs.install_methods import InstallMethod
from catalogs.lookup import get_package
from catalogs.models import Package
from installs import methods
from installs.actions.plan import choice_for, paths_of, plan_install
from installs.views.forms import METHODS, form_key, review, show_form, targets_of
from olmweb.accounts.roles import person, sign_in_required
from olmweb.errors import OlmwebError
from olmweb.models import Cluster
from olmweb.web.forms import ValueField, ValuesForm

NOWHERE = OlmwebError(
    "No cluster here can install from this catalog, so there is nowhere to install this.",
    code="not-served",
    hint="PlatformOperators exist on OpenShift 4.12 to 4.15 with TechPreviewNoUpgrade; a "
    "Subscription needs the catalog as a CatalogSource, a ClusterExtension as a ClusterCatalog.",
)


class InstallForm(ValuesForm):
    cluster = ValueField()
    path = ValueField()
    name = ValueField()
    namespace = ValueField()
    targets = ValueField()
    channel = ValueField()
    version = ValueField()
    approval = ValueField()
    policy = ValueField()
    service_account = ValueField()
    crd_safety = ValueField()


@never_cache
@require_http_methods(METHODS)
@sign_in_required(check=person)
def install(request: HttpRequest, cluster: str, catalog: str, package: str) -> HttpResponse:
    """The form, the review with a dry run, the confirmation."""
    package_row = get_package(cluster, catalog, package)
    form = InstallForm(request.POST if request.method == "POST" else request.GET)
    values = form.cleaned_data
    targets = targets_of(request, package_row)
    target = _target(targets, values["cluster"])
    context: dict[str, Any] = {
        "package": package_row,
        "targets": targets,
        "target": target,
        "name": values["name"].strip(),
        "key": form_key(request),
        "form": form,
        "values": values,
        "approvals": (methods.AUTOMATIC, methods.MANUAL),
        "policies": methods.POLICIES,
        "safeties": methods.ENFORCEMENTS,
    }
    if target is None:
        context |= {"refusal": NOWHERE, "nowhere": True}
        return show_form(request, "install", context, failed=request.method == "POST")
    context |= _paths(target, package_row, values)
    try:
        plan = plan_install(target, package_row, context["name"], context["path"], values)
        context |= {"plan": plan, "name": plan.name, "choice": plan.choice}
        context["offered"] = _offered(plan.choice)
        if request.method != "POST":
            return show_form(request, "install", context)
        return review(request, "install", plan, context)
    except OlmwebError as error:
        if error.status == 403:
            raise
        form.refuse(error.fields)
        choice = _choice(target, package_row, context)
        context |= {"refusal": error, "choice": choice, "offered": _offered(choice)}
        return show_form(request, "install", context, failed=request.method == "POST")


def _paths(target: Cluster, package: Package, values: Mapping[str, str]) -> dict[str, Any]:
    """The possible install methods and the chosen one; the first is the default."""
    paths = paths_of(target, package.catalog)
    try:
        path = InstallMethod.parse(values.get("path", ""))
    except ValueError:
        path = paths[0] if paths else InstallMethod.PLATFORM_OPERATOR
    channels = package.channels.order_by("name").values_list("name", flat=True)
    return {
        "paths": paths,
        "path": path,
        "method": methods.METHODS[path],
        "channels": list(channels),
    }


def _offered(choice: methods.InstallChoice | None) -> frozenset[str]:
    return methods.METHODS[choice.method].offered(choice) if choice else frozenset()


def _choice(target: Cluster, package: Package, context: dict[str, Any]) -> Any:
    """The values of the fields even when one is wrong."""
    try:
        return choice_for(target, package, context["name"], context["path"], context["values"])
    except OlmwebError:
        return None


def _target(targets: list[Cluster], name: str) -> Cluster | None:
    """The requested cluster. Raises OlmwebError (403) for one that is not on offer."""
    if not name or not targets:
        return targets[0] if targets else None
    target = next((c for c in targets if c.name == name), None)
    if target is None:
        raise OlmwebError(
            f"Nothing of this catalog can be installed on a cluster {name[:80]}.",
            code="not-allowed",
            status=403,
            hint="Choose one of the clusters that the form offers.",
        )
    return target
