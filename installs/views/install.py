"""Install one package: the plan in full, a dry run, confirmation.

A GET sends no request to a cluster. Forms work without JavaScript; htmx swaps the same form in
place.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from catalogs.graph.routes import upgrades_sentence
from catalogs.install_methods import InstallMethod
from catalogs.lookup import get_package
from catalogs.models import Catalog
from catalogs.verdicts.rules import Verdict
from catalogs.views.presenters import catalog_status
from installs import methods
from installs.actions.crd_safety import install_crd_safety
from installs.actions.dependencies import dependencies_of
from installs.actions.install_rows import InstallRows
from installs.actions.plan import (
    best_method,
    choice_for,
    offered_methods,
    plan_install,
    served_version,
)
from installs.facts.configuration import read_values
from installs.methods.configuration_fields import form_problems, offered_fields
from installs.views.export import export_url
from installs.views.forms import (
    APPROVALS,
    EDIT,
    METHODS,
    MODE_VALUES,
    ConfigurationForm,
    ModeForm,
    RadioOption,
    form_key,
    installation_modes,
    review,
    show_form,
    targets_of,
)
from olmweb.accounts.roles import ASK, may, person, sign_in_required
from olmweb.clusters import removed_error
from olmweb.errors import OlmwebError
from olmweb.models import Cluster
from olmweb.web.forms import ValueField
from olmweb.web.pages import render_page

NOWHERE = OlmwebError(
    "No cluster here can install from this catalog, so there is nowhere to install this.",
    code="not-served",
    hint="PlatformOperators exist on OpenShift 4.12 to 4.15 with TechPreviewNoUpgrade; a "
    "Subscription needs the catalog as a CatalogSource, a ClusterExtension as a ClusterCatalog.",
)


# Of the cluster, in the list of suggestions: 10 kB.
NAMESPACES_LISTED = 200
PLATFORM_PREFIXES = ("kube-", "openshift-")
# The values that a request has as well.
REQUESTED = ("cluster", "path", "version", "namespace", "service_account")


class InstallForm(ModeForm, ConfigurationForm):
    cluster = ValueField()
    path = ValueField()
    name = ValueField()
    namespace = ValueField()
    channel = ValueField()
    version = ValueField()
    approval = ValueField()
    policy = ValueField()
    service_account = ValueField()
    crd_safety = ValueField()
    suggested = ValueField()  # the namespace that the form filled in by itself

    def clean(self) -> dict[str, Any]:
        """Leaves a suggested namespace open, as another install method may suggest another."""
        values = super().clean()
        if values["suggested"] and values["namespace"] == values["suggested"]:
            values["namespace"] = ""
        return values


def _refused(
    request: HttpRequest, error: OlmwebError, cluster: str, catalog: str, package: str
) -> HttpResponse:
    """For people who may not install: the reason, and the form that requests the installation if
    they may send that."""
    package_row = get_package(cluster, catalog, package)
    form = InstallForm(request.POST if request.method == "POST" else request.GET)
    values = {name: form.cleaned_data[name] for name in REQUESTED if form.cleaned_data[name]}
    context = {
        "package": package_row,
        "error": error,
        "may_request": may(request.user, ASK),
        "of_request": f"?{urlencode(values)}" if values else "",
    }
    page = "installs/install_refused.html"
    return render_page(request, page, context, partial="", status=error.status)


@never_cache
@require_http_methods(METHODS)
@sign_in_required(check=person, refused=_refused)
def install(request: HttpRequest, cluster: str, catalog: str, package: str) -> HttpResponse:
    """The form, the review with a dry run, the confirmation."""
    package_row = get_package(cluster, catalog, package)
    form = InstallForm(request.POST if request.method == "POST" else request.GET)
    values = form.cleaned_data
    if request.method != "POST" and values["version"] and not values["approval"]:
        # With automatic approval OLM goes on from the chosen version at once.
        values["approval"] = methods.MANUAL
    targets = targets_of(request, package_row)
    target = _target(targets, values["cluster"])
    context: dict[str, Any] = {
        "package": package_row,
        "catalog": package_row.catalog,
        "status": catalog_status(package_row.catalog),
        "targets": targets,
        "target": target,
        "name": values["name"].strip(),
        "key": form_key(request),
        "form": form,
        "values": values,
        "approvals": APPROVALS,
        "policies": methods.POLICIES,
        "safeties": methods.ENFORCEMENTS,
    }
    if target is None:
        context |= {"refusal": _nowhere(request, package_row.catalog), "nowhere": True}
        return show_form(request, "install", context, failed=request.method == "POST")
    rows = InstallRows(target, package_row, values["channel"].strip(), values["version"].strip())
    context |= _paths(rows, values)
    try:
        form.require_names()
        config = _config(rows, context["path"], values)
        plan = plan_install(
            target, package_row, context["name"], context["path"], values, rows, config
        )
        context |= {"plan": plan, "name": plan.name}
        if plan.choice:
            context["crds"] = install_crd_safety(rows, plan.choice, plan.target)
            context["dependencies"] = dependencies_of(plan.choice, rows, plan.target)
        versions = {bundle.name: bundle.version for bundle in rows.bundles}
        context["upgrades"] = upgrades_sentence(plan.route[1:], versions)
        if plan.route and plan.choice and plan.choice.approval != methods.MANUAL:
            context["goes_on_to"] = versions.get(plan.route[-1]) or plan.route[-1]
        context |= _fields(rows, plan.choice, values, plan.target)
        if request.method != "POST":
            return show_form(request, "install", context)
        return review(request, "install", plan, context)
    except OlmwebError as error:
        if error.status == 403:
            raise
        form.refuse(error.fields)
        choice = _choice(rows, context)
        context |= _fields(rows, choice, values)
        # Until it is reviewed the form says what is wrong at the fields alone.
        reviewed = request.method == "POST" and request.POST.get("step") != EDIT
        placed = set(form_problems(error.fields, values))
        if reviewed or not placed or not placed <= context["offered"]:
            context["refusal"] = error
        context["name"] = choice.name if choice else context["name"]
        context["verdict"] = rows.verdict_of(context["path"], rows.version)
        return show_form(request, "install", context, failed=request.method == "POST")


def _nowhere(request: HttpRequest, catalog: Catalog) -> OlmwebError | None:
    """The reason why no cluster can install from the catalog; None for the GET of a removed
    cluster, as the banner of its page says it."""
    if catalog.cluster is None or not catalog.cluster.removed:
        return NOWHERE
    return removed_error(catalog.cluster) if request.method == "POST" else None


def _paths(rows: InstallRows, values: Mapping[str, str]) -> dict[str, Any]:
    """The possible install methods and the chosen one."""
    try:
        path = InstallMethod.parse(values.get("path", ""))
    except ValueError:
        path = best_method(rows) or InstallMethod.PLATFORM_OPERATOR
    return {
        "paths": (offered := offered_methods(rows)),
        "path_options": [_path_option(rows, method) for method in offered],
        "path": path,
        "method": methods.METHODS[path],
        "channels": sorted(rows.facts.channels),
    }


def _path_option(rows: InstallRows, method: InstallMethod) -> RadioOption:
    """The install method, marked if it can't install the package by its stored verdict."""
    refused = rows.verdict_of(method, rows.version) == Verdict.NOT_INSTALLABLE
    hint = "Not installable by this method; choose it to see why." if refused else ""
    return RadioOption(method, method, hint)


def _fields(
    rows: InstallRows,
    choice: methods.InstallChoice | None,
    values: Mapping[str, str],
    target: str = "",
) -> dict[str, Any]:
    """The fields that the form shows for the choice, `target` being the bundle to install. The
    values of all others are sent along unseen, so that another install method finds them again."""
    if choice is None:
        return {"choice": None, "offered": frozenset(), "unseen": {}}
    method = methods.METHODS[choice.method]
    offered = method.offered(choice) if method.needs_namespace else frozenset({"name"})
    configurable = offered_fields(choice.method, choice.known_fields)
    offered |= configurable
    # A field of the OperatorGroup, whatever the Subscription's definition has.
    offered -= {"targets"}
    if method.needs_group and choice.make_group:
        offered |= {"targets"}
    unseen = set(values) - offered - {"cluster", "path", "suggested", *MODE_VALUES}
    return {
        "choice": choice,
        "offered": offered,
        "unseen": {name: values[name] for name in sorted(unseen) if values[name]},
        "suggested": "" if values["namespace"].strip() else choice.namespace,
        "namespaces": _namespaces(rows) if method.needs_namespace else (),
        "versions": _versions(rows, choice) if method.needs_group else (),
        "group": _group(rows, choice) if method.needs_group else "",
        "account_required": method.needs_account(choice),
        "configurable": configurable,
        "export_url": export_url(rows.package, choice),
    } | (
        installation_modes(choice, values, rows.bundle(target or rows.package.head_bundle))
        if "targets" in offered
        else {}
    )


def _group(rows: InstallRows, choice: methods.InstallChoice) -> str:
    """What the existing OperatorGroup of the namespace selects, which is the installation mode."""
    for group in rows.groups_in(choice.namespace):
        names = sorted("all namespaces" if name == "" else name for name in group.selects)
        return f"OperatorGroup {group.name} selects {', '.join(names) or 'no namespace'}"
    return ""


def _namespaces(rows: InstallRows) -> list[str]:
    """Existing namespaces to suggest, those of the platform last."""
    names = sorted(rows.namespaces, key=lambda name: (name.startswith(PLATFORM_PREFIXES), name))
    return names[:NAMESPACES_LISTED]


def _versions(rows: InstallRows, choice: methods.InstallChoice) -> list[tuple[str, str]]:
    """(bundle, its version) of every bundle of the channel, newest first."""
    entries = rows.facts.channels.get(choice.channel or rows.package.default_channel, ())
    names = {entry.name for entry in entries}
    return list({row.name: row.version for row in rows.bundles if row.name in names}.items())


def _config(rows: InstallRows, method: InstallMethod, values: Mapping[str, str]) -> dict[str, Any]:
    """The configuration of the form; empty where the cluster serves none, so that its values wait
    for another install method. Raises BadRequest for values that can't be read."""
    version = served_version(rows.cluster, method)
    return read_values(method, values, offered_fields(method, rows.known_fields(method, version)))


def _choice(rows: InstallRows, context: dict[str, Any]) -> methods.InstallChoice | None:
    """The values of the fields even when one is wrong."""
    try:
        return choice_for(rows, context["name"], context["path"], context["values"])
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
