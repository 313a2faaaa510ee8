"""A package: one page, a tab for each question about it."""

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_safe

from catalogs import lookup, queries
from catalogs.models import Package, source_slugs
from catalogs.resolve.stored import graph_of
from catalogs.search.find import installations_of
from catalogs.verdicts.catalog_health import with_health_notes
from catalogs.verdicts.read import verdicts_of, verdicts_on_package
from catalogs.views import forms, presenters
from catalogs.views.bundle import bundle_contents
from catalogs.views.channels import channels_tab, facts_shown, upgrade_in_words
from catalogs.views.forms import read_target_cluster
from catalogs.views.problems import described, find_problems
from catalogs.views.versions import versions_tab
from olmweb.web.forms import clean_text, read_page
from olmweb.web.pages import render_page
from olmweb.web.pagination import paginate

ROWS = 50  # of a table on one page
SOURCES_SHOWN = 20  # in the menu


@require_safe
def package(request: HttpRequest, cluster: str, catalog: str, package: str) -> HttpResponse:
    package_row, sources = lookup.get_sources(cluster, catalog, package)
    graph = graph_of(package_row) if request.GET.get("tab", "") in OF_ALL_ENTRIES else None
    entries = graph.entries if graph else None
    choice = queries.choose(
        package_row,
        clean_text(request.GET.get("channel", "")),
        clean_text(request.GET.get("version", "")),
        entries,
    )
    notices = list(choice.notices)
    counts = {
        "channels": package_row.channel_count,
        "versions": package_row.bundle_count,
        "problems": package_row.problem_count,  # type: ignore[attr-defined]
    }
    origins = [
        (row, queries.other_catalog(row, package_row.catalog))
        for row in installations_of(package_row.name)
    ]
    here = [
        (row, other)
        for row, other in origins
        if package_row.catalog.cluster is None or row.cluster == package_row.catalog.cluster_name
    ]
    tabs = {name: title for name, title in TABS.items() if name != "problems" or counts[name]}
    tab = forms.read_option(request.GET, "tab", tuple(tabs), notices)
    context: dict[str, Any] = {
        "package": package_row,
        "catalog": package_row.catalog,
        "status": presenters.catalog_status(package_row.catalog),
        "sources": sources,
        "first_sources": _first_sources(package_row, sources),
        **_elsewhere(package_row, sources),
        "compare": _comparison(package_row, sources),
        "choice": choice,
        "entries": entries,
        "without_graph": graph is not None and not graph.complete,
        "bundle": choice.bundle,
        "tab": tab,
        "tabs": [(name, title, counts.get(name)) for name, title in tabs.items()],
        "chosen": _chosen(request.GET, choice),
        "installed": [row for row, _ in origins],
        "installed_here": [row for row, _ in here],
        "origins": origins,
        "origins_here": here,
        "healths": list(dict.fromkeys((row.health, other) for row, other in origins)),
        "notices": notices,
        "target_cluster": read_target_cluster(request, package_row.catalog, notices),
        "params": request.GET,
        "page_number": read_page(request.GET, notices),
    }
    if tab in TAB_CONTEXT:
        context.update(TAB_CONTEXT[tab](package_row, choice, context))
    return render_page(request, "catalogs/package.html", context)


def _elsewhere(package: Package, sources: Sequence[Package]) -> dict[str, int]:
    """How many other catalogs have the package, and how many other clusters have it in a copy of
    this catalog. A copy is no other catalog, as in the facet of the software catalog."""
    slugs = source_slugs(source.catalog for source in sources)
    slug = slugs[package.catalog.pk]
    copies = {source.catalog.cluster_id for source in sources if slugs[source.catalog.pk] == slug}
    return {
        "other_catalogs": len({*slugs.values()}) - 1,
        "other_clusters": len(copies) - 1,
    }


def _first_sources(package: Package, sources: Sequence[Package]) -> list[Package]:
    """The SOURCES_SHOWN sources of the menu, in their order: this one and those of its cluster
    before others."""
    cluster = package.catalog.cluster_id

    def rank(source: Package) -> tuple[bool, bool]:
        return (source.pk != package.pk, source.catalog.cluster_id != cluster)

    first = {source.pk for source in sorted(sources, key=rank)[:SOURCES_SHOWN]}
    return [source for source in sources if source.pk in first]


def _comparison(package: Package, sources: Sequence[Package]) -> dict[str, str] | None:
    """Name and address of the comparison of this package with the first other catalog that has it
    and was read; None where there is none. A ClusterCatalog and a CatalogSource of one name usually
    serve the same content."""
    catalogs = (source.catalog for source in sources)
    others = (other for other in catalogs if other.name != package.catalog.name)
    other = next((catalog for catalog in others if catalog.revision), None)
    if other is None or not package.catalog.revision:
        return None
    values = {"from": str(package.catalog), "to": str(other), "package": package.name}
    return {"name": str(other), "url": f"{reverse('catalogs:compare')}?{urlencode(values)}"}


def _chosen(params: QueryDict, choice: queries.Choice) -> dict[str, str]:
    """The channel and version that the reader chose, as query strings for the forms that install.

    The newest version of a channel is left out, as an install of that channel takes it anyway; a
    request always names its version.
    """
    channel, bundle = choice.channel, choice.bundle
    values = {}
    if channel and params.get("channel"):
        values["channel"] = channel.name
    if channel and bundle and params.get("version") and bundle.name != channel.head:
        values |= {"channel": channel.name, "version": bundle.version or bundle.name}
    asked = {"version": bundle.version} if values and bundle else {}
    return {
        "of_install": f"?{urlencode(values)}" if values else "",
        "of_request": f"?{urlencode(asked)}" if asked else "",
    }


TABS = {
    "overview": "Overview",
    "channels": "Channels",
    "versions": "Versions",
    "installs": "What it installs",
    "installed": "Installed here",
    "problems": "Problems",
}
# Tabs that are worked out from the entries of all channels.
OF_ALL_ENTRIES = ("channels", "versions", "installed")


def _overview(package: Package, choice: queries.Choice, context: dict[str, Any]) -> dict[str, Any]:
    """The verdicts on the bundle of the requested channel or version; without them, as in the lists
    and in the REST API, on the bundles that the install methods would choose."""
    cluster = context["target_cluster"].cluster_id
    if context["params"].get("channel") or context["params"].get("version"):
        stored = verdicts_of(choice.bundle, cluster) if choice.bundle else []
    else:
        stored = verdicts_on_package(package, cluster)
    return {"verdicts": with_health_notes(stored, package.catalog, cluster)}


def _installs(package: Package, choice: queries.Choice, _: dict[str, Any]) -> dict[str, Any]:
    bundle = choice.bundle
    if bundle is None:
        return {}
    contents_url = presenters.bundle_url(package, bundle.name, "installs:contents")
    return {**bundle_contents(bundle), "contents_url": contents_url}


def _installed(package: Package, choice: queries.Choice, context: dict[str, Any]) -> dict[str, Any]:
    """The installations, each with the upgrade that this catalog leads to, in words."""
    facts = facts_shown(package, choice, context)
    own = {row for row, other in context["origins_here"] if not other}
    return {
        "installations": [
            (row, other or row.catalog, upgrade_in_words(row, facts) if row in own else "")
            for row, other in context["origins"]
        ]
    }


def _problems(package: Package, choice: queries.Choice, context: dict[str, Any]) -> dict[str, Any]:
    problems = find_problems(package.catalog, package=package.name)
    page = paginate(problems, context["page_number"], ROWS, context["notices"])
    return {"page": page, **described(list(page))}


TAB_CONTEXT: dict[str, Callable[[Package, queries.Choice, dict[str, Any]], dict[str, Any]]] = {
    "overview": _overview,
    "channels": channels_tab,
    "versions": versions_tab,
    "installs": _installs,
    "installed": _installed,
    "problems": _problems,
}
