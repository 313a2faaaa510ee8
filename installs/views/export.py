"""The manifests of an install to read, and as files for Git.

Plain GETs with all values in the address; need no permission and send no request to a cluster.
"""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from catalogs import lookup
from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Catalog, Package
from catalogs.resolve import resolve
from catalogs.resolve.facts import BadQuestion, ResolverPackage
from catalogs.resolve.stored import BUNDLE_FIELDS, facts_of_all
from catalogs.verdicts.rules import Verdict
from installs.actions.install_rows import InstallRows
from installs.actions.plan import offered_methods
from installs.export.files import kustomize_folder
from installs.export.plan import (
    ARGOCD,
    DEFAULT_REVISION,
    DEFAULTS_FIELDS,
    KUSTOMIZE,
    TYPES,
    YAML,
    Export,
    as_file,
    default_path,
    plan_export,
    read_repository,
)
from installs.methods import AUTOMATIC, MANUAL, METHODS, InstallChoice
from installs.methods.configuration import TEXT_LIMIT
from installs.models import Operator
from installs.queries.operators import has_installed_nothing
from installs.views.forms import (
    MODE_VALUES,
    UNPROCESSABLE,
    ModeForm,
    RadioOption,
    installation_modes,
)
from olmweb.errors import OlmwebError
from olmweb.web.forms import ValueField
from olmweb.web.pages import render_page

# As an export means them: the first is its default.
APPROVALS = (
    RadioOption(MANUAL, "Manual", "Stays at the pinned version until an InstallPlan is approved."),
    RadioOption(AUTOMATIC, "Automatic", "Updates install automatically along the channel."),
)


class ExportForm(ModeForm):
    """The values of an export and of its Git repository."""

    path = ValueField()
    channel = ValueField()
    version = ValueField()
    name = ValueField()
    namespace = ValueField()
    approval = ValueField()
    source = ValueField()
    source_namespace = ValueField()
    service_account = ValueField()
    config = ValueField(TEXT_LIMIT)  # YAML or JSON
    repo = ValueField()
    repo_path = ValueField()
    revision = ValueField()


@require_safe
def export_page(request: HttpRequest, cluster: str, catalog: str, package: str) -> HttpResponse:
    """The form, every manifest, and the files."""
    package_row = _package(cluster, catalog, package)
    form = ExportForm(request.GET)
    words = {name: value.strip() for name, value in form.cleaned_data.items()}
    bundles = list(package_row.bundles.only(*BUNDLE_FIELDS, *DEFAULTS_FIELDS))  # newest first
    facts = facts_of_all([package_row], bundles)[package_row.pk]
    is_evaluated = True
    if not words["path"]:
        words["path"], is_evaluated = _first_method(package_row, words, facts)
    chosen = words | {"path": _method(package_row, words["path"])}
    channel = words["channel"] or _default_channel(chosen["path"], facts)
    context: dict[str, Any] = {
        "package": package_row,
        "chosen": chosen,
        "paths": tuple(InstallMethod),
        "method": METHODS[chosen["path"]],
        "channels": sorted(facts.channels),
        "versions": _versions(facts, channel, bundles),
        "form": form,
        "unevaluated": not is_evaluated,
        "installations": _installations(package_row),
    }
    of_channel = f"channel {channel}" if channel else "all channels"
    version_hint = f"Choose one of the {len(context['versions'])} versions of {of_channel}"
    context["version_hint"] = (
        METHODS[chosen["path"]].version_hint
        or f"{version_hint}, or enter a range such as >=1.0.0 <2.0.0."
    )
    status = 200
    export: Export | None = None
    try:
        export = plan_export(package_row, words, facts, bundles)
        form.require_names()
        words = {name: value for name, value in words.items() if name not in MODE_VALUES}
        # The files have the installation mode of the page, however that was chosen.
        words["targets"] = _targets(export.choice)
        context |= _shown(export) | {"links": _links(package_row, words, (YAML, KUSTOMIZE))}
        if words["repo"]:
            read_repository(words, export.folder)
            context |= {
                "argo": as_file(export, ARGOCD, words).decode(),
                "argo_links": _links(package_row, words, (ARGOCD,)),
            }
    except OlmwebError as error:
        chosen_nothing = error.code == "nothing-chosen" and not (
            words["channel"] or words["version"]
        )
        if is_evaluated or not chosen_nothing:  # else the page says that the verdicts are to come
            status = UNPROCESSABLE
            form.refuse(error.fields)
            context["refusal"] = error
    context |= _fields(package_row, chosen, export, bundles)
    return render_page(request, "installs/export.html", context, partial="form", status=status)


def _fields(
    package: Package, values: dict[str, str], export: Export | None, bundles: Sequence[Bundle]
) -> dict[str, Any]:
    """The installation modes, the defaults of empty fields, and the values of fields that the form
    does not show, so that another install method or namespace finds them again. `export` is None
    for values that are refused."""
    method, choice = METHODS[values["path"]], export.choice if export else None
    shown = {"path", "channel", "version", "name", "repo", "repo_path", "revision"}
    context: dict[str, Any] = {"defaults": _defaults(export) if export else {}}
    if method.needs_namespace:
        shown.add("namespace")
    if method.needs_group:
        shown.add("approval")
        context |= {
            "approvals": APPROVALS,
            "approval": values["approval"] or MANUAL,
            "asks_source": package.catalog.source_kind != Catalog.SourceKind.CATALOG_SOURCE,
        }
        if context["asks_source"]:
            shown |= {"source", "source_namespace"}
        if choice is None or choice.make_group:
            shown |= {"mode", "targets"}
            name = export.resolution.bundle if export else package.head_bundle
            bundle = next((bundle for bundle in bundles if bundle.name == name), None)
            context |= installation_modes(choice, values, bundle)
        else:
            context["group_namespace"] = choice.namespace
    elif method.needs_namespace:
        shown.add("service_account")
    if method.config_hint:
        shown.add("config")
    unseen = values.keys() - shown - (MODE_VALUES - {"mode"})
    return context | {"unseen": {name: values[name] for name in sorted(unseen) if values[name]}}


def _installations(package: Package) -> list[tuple[Operator, str]]:
    """The operators of the package on the cluster of its catalog, also those that failed, with
    their installed versions. One query, none for a catalog of no cluster."""
    rows = Operator.objects.filter(cluster=package.catalog.cluster_id, package=package.name)
    rows = rows.select_related("cluster").order_by("kind", "namespace", "name")
    if package.catalog.cluster_id is None:
        return []
    return [(row, "" if has_installed_nothing(row) else row.version) for row in rows]


def _defaults(export: Export) -> dict[str, str]:
    """What empty fields stand for."""
    return {
        "version": export.resolution.version,
        "name": export.choice.name,
        "namespace": export.choice.namespace,
        "source": export.choice.catalog,
        "source_namespace": export.choice.catalog_namespace,
        "repo_path": export.folder,
        "revision": DEFAULT_REVISION,
    }


def _targets(choice: InstallChoice) -> str:
    """The installation mode as `plan_export` reads it."""
    return (",".join(choice.targets) or "*") if METHODS[choice.method].needs_group else ""


def _first_method(
    package: Package, words: dict[str, str], facts: ResolverPackage
) -> tuple[InstallMethod, bool]:
    """The first install method of the install form that can be pinned to a version and work by
    the stored verdicts, before the evaluation one that chooses a bundle; the usual one of the
    catalog without any. And whether there are verdicts, where a cluster needs them."""
    cluster, version = package.catalog.cluster, words["version"]
    if cluster is None:
        return default_path(package.catalog), True
    rows = InstallRows(cluster, package, words["channel"], version)
    for method in offered_methods(rows):
        can_pin = not METHODS[method].version_hint
        if not can_pin or rows.verdict_of(method, version) == Verdict.NOT_INSTALLABLE:
            continue
        if rows.is_evaluated or _chooses_bundle(facts, method, words):
            return method, rows.is_evaluated
    return default_path(package.catalog), rows.is_evaluated


def _chooses_bundle(facts: ResolverPackage, method: InstallMethod, words: dict[str, str]) -> bool:
    channels = [words["channel"]] if words["channel"] else []
    try:
        return bool(resolve(facts, method, channels=channels, version=words["version"]).bundle)
    except BadQuestion:
        return False


def _default_channel(path: InstallMethod, facts: ResolverPackage) -> str:
    """The channel of an export that names none; empty if it takes the versions of all."""
    return facts.default_channel if METHODS[path].needs_group else ""


def _versions(facts: ResolverPackage, channel: str, bundles: Sequence[Bundle]) -> list[str]:
    """The versions of the channel, or of all channels without one, in the order of `bundles`."""
    entries = {entry.name for entry in facts.channels.get(channel, ())}
    rows = [bundle for bundle in bundles if not channel or bundle.name in entries]
    return list(dict.fromkeys(bundle.version for bundle in rows))


def _method(package: Package, text: str) -> InstallMethod:
    """What the form shows; `plan_export` refuses a text that can't be read."""
    try:
        return InstallMethod.parse(text)
    except ValueError:
        return default_path(package.catalog)


@require_safe
def export_file(
    request: HttpRequest, cluster: str, catalog: str, package: str, form: str
) -> HttpResponse:
    """One of the files, to be saved."""
    if form not in TYPES:
        raise Http404
    return file_response(_package(cluster, catalog, package), form, request.GET.dict())


def file_response(package: Package, form: str, words: dict[str, str]) -> HttpResponse:
    """The file of TYPES as an attachment; the same request gives the same bytes while the catalog
    stays the same. Raises OlmwebError as `plan_export` does."""
    export = plan_export(package, words)
    response = HttpResponse(as_file(export, form, words), content_type=TYPES[form])
    name = f"{export.folder}.zip" if form == KUSTOMIZE else f"{export.folder}-{form}"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


def export_url(package: Package, choice: InstallChoice) -> str:
    """The export page with the values of an install."""
    group = METHODS[choice.method].needs_group
    values = {
        "path": choice.method,
        "channel": choice.channel,
        "version": choice.version,
        "name": choice.name,
        "namespace": choice.namespace,
        "targets": _targets(choice),
        "approval": choice.approval if group else "",
        "source": choice.catalog if group else "",
        "source_namespace": choice.catalog_namespace,
        "service_account": choice.service_account,
        "config": json.dumps(choice.config) if choice.config else "",
    }
    catalog = package.catalog
    address = reverse("installs:export", args=(catalog.cluster_name, catalog.slug, package.name))
    return f"{address}?{urlencode({name: value for name, value in values.items() if value})}"


def _package(cluster: str, catalog: str, package: str) -> Package:
    return lookup.get_package(cluster, catalog, package)


def _shown(export: Export) -> dict[str, Any]:
    files = kustomize_folder(export.manifests, export.notes)
    return {
        "export": export,
        "files": [(name, content.decode()) for name, content in files.items()],
        "folder": export.folder,
    }


def _links(package: Package, words: dict[str, str], forms: tuple[str, ...]) -> dict[str, str]:
    """Form -> address with every word that was given; keys are names for the template."""
    query = urlencode({name: value for name, value in words.items() if value})
    catalog = package.catalog
    names = {YAML: "yaml", KUSTOMIZE: "kustomize", ARGOCD: "argocd"}
    return {
        names[form]: reverse(
            "installs:export-file", args=(catalog.cluster_name, catalog.slug, package.name, form)
        )
        + (f"?{query}" if query else "")
        for form in forms
    }
