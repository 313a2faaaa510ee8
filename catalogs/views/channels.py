"""The tab Channels of a package: its upgrade graph, drawn and in words, and the same as files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Page
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_safe

from catalogs import lookup, queries
from catalogs.graph import validate
from catalogs.graph.layout import layout
from catalogs.graph.mermaid import mermaid
from catalogs.graph.routes import Route, in_words, upgrades_sentence
from catalogs.graph.rules import REPLACES, SKIP_RANGE, SKIPS, age
from catalogs.graph.svg import STANDALONE_STYLE, render
from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Catalog, Package
from catalogs.resolve.analysis import (
    SEMANTICS,
    V0,
    V1,
    Analysis,
    analyse,
    explain_missing_route,
    longest_path,
    route_to,
)
from catalogs.resolve.facts import ResolverPackage, listed
from catalogs.resolve.stored import facts_from, facts_of
from catalogs.search.find import Installation
from catalogs.verdicts.read import StoredVerdict, offer_rank, verdicts_on_package
from catalogs.verdicts.rules import Verdict
from catalogs.views import forms, presenters
from olmweb.errors import Missing
from olmweb.web.forms import clean_text
from olmweb.web.pagination import paginate

ROWS = 20  # of the graph's table twin on one page
OPENED = 20  # folds that one address unfolds
# Kind of an edge -> its meaning in the key below the graph.
EDGE_KEY = {
    REPLACES: "replaces",
    SKIPS: "skips",
    SKIP_RANGE: "skipRange: from its newest version, and from each version that upgrades by it",
}
SVG_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'"
# Of the kinds that are upgraded.
_SEMANTICS: dict[str, str] = {
    InstallMethod.CLUSTER_EXTENSION: V1,
    InstallMethod.SUBSCRIPTION: V0,
}


def semantics_of(params: QueryDict, catalog: Catalog, notices: list[str], default: str = "") -> str:
    """The OLM generation in the URL; else `default`, else the one that reads such a catalog."""
    of_v1 = catalog.source_kind == Catalog.SourceKind.CLUSTER_CATALOG
    first = default or (V1 if of_v1 else V0)
    options = tuple(sorted(SEMANTICS, key=lambda semantics: semantics != first))
    return forms.read_option(params, "semantics", options, notices)


def shown_semantics(package: Package, context: Mapping[str, Any]) -> str:
    """The OLM generation in the URL of a tab; by default that of the install method which Install
    begins with. At most one query."""
    default = ""
    if _has_catalog_source(package.catalog, context["sources"]):
        cluster = context["target_cluster"].cluster_id
        best_last = reversed(verdicts_on_package(package, cluster))
        stored: dict[str, StoredVerdict] = {verdict.path: verdict for verdict in best_last}

        def rank(method: str) -> tuple[bool, bool, int, bool]:
            if (verdict := stored.get(method)) is None:
                return offer_rank(Verdict.UNKNOWN, warns=False, installs_head=True)
            is_head = verdict.bundle == package.head_bundle
            return offer_rank(verdict.verdict, bool(verdict.sentence), is_head)

        default = _SEMANTICS[min(_SEMANTICS, key=rank)]
    return semantics_of(context["params"], package.catalog, context["notices"], default)


def _has_catalog_source(catalog: Catalog, sources: Sequence[Package]) -> bool:
    """Whether the package of a ClusterCatalog can be installed by a Subscription, too: its cluster
    has a CatalogSource of that name."""
    kinds = Catalog.SourceKind
    if catalog.source_kind != kinds.CLUSTER_CATALOG:
        return False
    others = (source.catalog for source in sources)
    of_v0 = [other for other in others if other.source_kind != kinds.CLUSTER_CATALOG]
    wanted = (catalog.cluster_id, catalog.name)
    return any((other.cluster_id, other.name) == wanted for other in of_v0)


def facts_shown(
    package: Package, choice: queries.Choice, context: Mapping[str, Any]
) -> ResolverPackage:
    """The facts of the package from the rows that its page has read."""
    entries = {
        channel.name: context["entries"].get(channel.name, []) for channel in choice.channels
    }
    needing = {bundle.pk for bundle in choice.bundles if getattr(bundle, "requires_kind", False)}
    return facts_from(package, entries, choice.bundles, needing)


def channels_tab(
    package: Package, choice: queries.Choice, context: Mapping[str, Any]
) -> dict[str, Any]:
    """Context of the tab. Reads the package's facts; everything else is worked out from them."""
    params: QueryDict = context["params"]
    semantics = shown_semantics(package, context)
    if choice.channel is None:
        return {"semantics": semantics}
    facts = facts_shown(package, choice, context)
    together = semantics == V1 and not clean_text(params.get("channel", ""))
    analysis = analyse(facts, semantics, "" if together else choice.channel.name)
    bundles = {bundle.name: bundle for bundle in choice.bundles}
    here = {installation.version for installation in context["installed"]}
    installed = {
        name
        for name in analysis.names
        if name in bundles and bundles[name].version and bundles[name].version in here
    }
    ends = _ends(params, analysis, bundles, installed)
    start, goal = ends.start, ends.goal
    route = route_to(analysis, start, goal) if start and goal else None
    marks = _marks(analysis, bundles, installed, start, goal)
    title = f"Upgrade graph of {package.name}, {analysis.channel or 'all channels'}"
    svg, edge_key = _drawing(package, analysis, bundles, marks, route, params, title)
    rows, page = _table(package, choice, facts, analysis, installed, context)
    files = {"semantics": semantics} | ({"channel": analysis.channel} if analysis.channel else {})
    return {
        "semantics": semantics,
        "analysis": analysis,
        "together": together,
        "svg": svg,
        "opm_faults": [] if together else validate(analysis.entries),
        "way": route,
        "way_problems": explain_missing_route(analysis, facts, route)
        if route and not route.reached
        else (),
        "ends": ends,
        "install": _install_link(package, analysis, bundles, start, context)
        if route and route.hops and start not in installed
        else None,
        "options": sorted(analysis.names),
        "longest_path": _longest_path_in_words(analysis, bundles),
        "facts_in_words": _in_words(analysis, facts),
        "files": urlencode(files),
        "edge_key": edge_key,
        "rows": rows,
        "page": page,
        "opened": "open" in params,
    }


def _longest_path_in_words(analysis: Analysis, bundles: Mapping[str, Bundle]) -> str:
    """`Upgrades from 1.0.1: 1.1.0, then 1.2.0.`; empty where no version is upgraded over others."""
    names = longest_path(analysis)
    versions = {name: bundles[name].version for name in names if name in bundles}
    return upgrades_sentence(names, versions) if len(names) > 2 else ""


def upgrade_in_words(row: Installation, facts: ResolverPackage) -> str:
    """The upgrade of an installed operator to the last version that its OLM takes it to by itself:
    `from 1.0.0 to 1.2.0 over 1.1.0`. Empty without one."""
    semantics = _SEMANTICS.get(row.kind)
    channel = row.channel or facts.default_channel if semantics == V0 else row.channel
    channel = channel if channel in facts.channels else ""
    if semantics is None or not row.bundle or (semantics == V0 and not channel):
        return ""
    analysis = analyse(facts, semantics, channel)
    if not (goal := analysis.chosen) or row.bundle not in analysis.table:
        return ""
    hops = [hop.target for hop in route_to(analysis, row.bundle, goal).hops]
    return in_words(row.bundle, hops, {bundle.name: bundle.version for bundle in facts.bundles})


def _drawing(
    package: Package,
    analysis: Analysis,
    bundles: Mapping[str, Bundle],
    marks: Mapping[str, set[str]],
    route: Route | None,
    params: QueryDict,
    title: str,
) -> tuple[str, list[tuple[str, str]]]:
    """The SVG: bundles lead to their pages, folds to the same page with the fold open. And its key:
    the CSS classes of each kind of edge that is drawn, and their meaning."""
    opened = params.getlist("open")[:OPENED]
    drawn = layout(
        analysis.entries,
        analysis.versions,
        keep=marks["installed"] | (marks["head"] if len(marks["head"]) < 5 else set()),
        opened=opened,
        route=[(hop.source, hop.target, hop.kind) for hop in route.hops] if route else (),
        by_range=analysis.by_range,
        start=analysis.chosen,
    )
    links = {}
    for node in drawn.nodes:
        if node.folded:
            links[node.id] = _fold_link(params, node.id)
        elif node.id in bundles:
            links[node.id] = presenters.bundle_url(package, node.id)
    kinds = {edge.kind for edge in drawn.edges}
    key = [(f"olm-graph-{kind}", words) for kind, words in EDGE_KEY.items() if kind in kinds]
    if any(edge.route for edge in drawn.edges):
        key.append(("olm-graph-replaces olm-graph-route", "upgrade path"))
    return render(drawn, links=links, facts={**marks, "opened": opened}, title=title), key


@dataclass(frozen=True, slots=True)
class _Ends:
    """Start and goal of the route, bundle names; empty where nothing is known. `from_value` and
    `to_value` are the fields, `from_error` and `to_error` what is wrong with them."""

    start: str
    goal: str
    from_value: str
    to_value: str
    from_error: str = ""
    to_error: str = ""

    @property
    def errors(self) -> list[str]:
        return [error for error in (self.from_error, self.to_error) if error]


def _ends(
    params: QueryDict, analysis: Analysis, bundles: Mapping[str, Bundle], installed: set[str]
) -> _Ends:
    """Start and goal from the URL, each a bundle name or a version, else the installed version and
    the head. A value that names no entry, or several, gives no route."""
    entered_start = clean_text(params.get("from", ""))
    entered_goal = clean_text(params.get("to", ""))
    start, from_error = _entry_of(entered_start, analysis, bundles)
    goal, to_error = _entry_of(entered_goal, analysis, bundles)
    if not entered_start and len(installed) == 1:
        start = next(iter(installed))
    if not entered_goal:
        goal = analysis.chosen or "".join(analysis.heads[:1])
    return _Ends(start, goal, start or entered_start, goal or entered_goal, from_error, to_error)


def _entry_of(value: str, analysis: Analysis, bundles: Mapping[str, Bundle]) -> tuple[str, str]:
    """The entry that a bundle name or its version stands for, and why there is no such entry."""
    if not value or value in analysis.table:
        return value, ""
    version = value.removeprefix("v")
    known = {name: bundles[name] for name in analysis.names if name in bundles}
    matches = sorted(name for name, bundle in known.items() if bundle.version == version)
    if len(matches) == 1:
        return matches[0], ""
    shown = f"“{value[:100]}”"
    if matches:
        return "", f"{shown} is the version of several bundles: {listed(matches)}. Enter one."
    where = f"channel {analysis.channel}" if analysis.channel else "these channels"
    newest = sorted(known.values(), key=lambda bundle: bundle.version_key, reverse=True)
    valid = listed([bundle.version or bundle.name for bundle in newest])
    return "", f"{shown} is not in {where}." + (f" It has {valid}." if valid else "")


def _install_link(
    package: Package,
    analysis: Analysis,
    bundles: Mapping[str, Bundle],
    start: str,
    context: Mapping[str, Any],
) -> dict[str, str] | None:
    """Version of the start of a route, and the form that installs it from this channel, which
    begins with manual approval. None for OLM v1, which has no approval, and without a
    CatalogSource."""
    of_v1 = package.catalog.source_kind == Catalog.SourceKind.CLUSTER_CATALOG
    served = not of_v1 or _has_catalog_source(package.catalog, context["sources"])
    if analysis.semantics == V1 or not served or start not in bundles:
        return None
    version = bundles[start].version or start
    values = {
        "path": InstallMethod.SUBSCRIPTION.value,
        "channel": analysis.channel,
        "version": version,
    }
    place = (package.catalog.cluster_name, package.catalog.slug, package.name)
    url = f"{reverse('installs:install', args=place)}?{urlencode(values)}"
    return {"version": version, "url": url}


def _marks(
    analysis: Analysis,
    bundles: Mapping[str, Bundle],
    installed: set[str],
    start: str,
    goal: str,
) -> dict[str, set[str]]:
    """Facts of entries, by catalogs.graph.svg.FACTS."""
    several = len(analysis.heads) > 1
    return {
        "head": set(analysis.heads),
        "chosen": {analysis.chosen} if analysis.chosen and several else set(),
        "installed": installed,
        "start": {start} - installed if start else set(),
        "goal": {goal} if start and goal != analysis.chosen else set(),
        "stranded": set(analysis.stranded),
        "unreachable": set(analysis.unreachable),
        "deprecated": {name for name, bundle in bundles.items() if bundle.deprecated},
        "skipped": set(),
    }


def _fold_link(params: QueryDict, name: str) -> str:
    """The same page with this fold open."""
    changed = params.copy()
    changed.appendlist("open", name)
    changed.pop("page", None)
    return f"?{changed.urlencode()}#olm-graph-opened"


def _in_words(analysis: Analysis, facts: ResolverPackage) -> list[dict[str, Any]]:
    """Peculiarities of the graph: a sentence each, with the names of the entries. Nothing leads to
    the oldest entry of a channel, which is no peculiarity."""
    channels = [analysis.channel] if analysis.channel else facts.ordered_channels()
    oldest = {
        min(entries, key=lambda entry: age(entry.name, analysis.versions)).name
        for channel in channels
        if (entries := facts.channels.get(channel))
    }
    where = f"channel {analysis.channel}" if analysis.channel else "these channels"
    remarks = [
        (
            "stranded",
            sorted(analysis.stranded),
            "stranded, without upgrade path to the version of a new installation"
            if analysis.semantics == V1
            else "stranded, without upgrade path to the head with OLM v0",
        ),
        ("unreachable", sorted(analysis.unreachable - oldest), "without incoming upgrade"),
        ("orphan", analysis.orphans, "without any edge"),
        ("cycle", analysis.circling, "in a cycle of replaces and skips"),
    ]
    if len(analysis.heads) > 1:
        remarks.insert(0, ("head", list(analysis.heads), f"{where}: nothing replaces or skips"))
    return [
        {"word": word, "names": names, "count": len(names), "says": says}
        for word, names, says in remarks
        if names and len(analysis.names) > 1
    ]


def _table(
    package: Package,
    choice: queries.Choice,
    facts: ResolverPackage,
    analysis: Analysis,
    installed: set[str],
    context: Mapping[str, Any],
) -> tuple[list[dict[str, Any]], Page[Any]]:
    """The graph as a table: an entry a row, newest first, with its next upgrade."""
    bundles = {bundle.name: bundle for bundle in choice.bundles}
    channels = [analysis.channel] if analysis.channel else facts.ordered_channels()
    entries = [(channel, entry) for channel in channels for entry in facts.channels[channel]]
    keys = {bundle.name: bundle.version_key for bundle in choice.bundles}
    entries.sort(key=lambda pair: keys.get(pair[1].name, ""), reverse=True)
    page = paginate(entries, context["page_number"], ROWS, context["notices"])
    rows = [
        {
            "channel": channel,
            "entry": entry,
            "bundle": bundles.get(entry.name),
            "url": presenters.bundle_url(package, entry.name) if entry.name in bundles else "",
            "next": analysis.steps.get(entry.name, ""),
            "stranded": entry.name in analysis.stranded,
            "head": entry.name in analysis.heads,
            "installed": entry.name in installed,
        }
        for channel, entry in page
    ]
    return rows, page


# -- files ----------------------------------------------------------------------------------------


@require_safe
def graph_file(
    request: HttpRequest, cluster: str, catalog: str, package: str, kind: str
) -> HttpResponse:
    """The graph as Mermaid text (`mmd`) or as an SVG that stands alone; nothing is folded in the
    former. `?channel=` and `?semantics=` as on the page."""
    package_row = lookup.get_package(cluster, catalog, package)
    facts = facts_of(package_row)
    semantics = semantics_of(request.GET, package_row.catalog, [])
    channel = clean_text(request.GET.get("channel", ""))
    if channel and channel not in facts.channels:
        raise Missing(f"Package “{package}” has no channel “{channel[:100]}”.")
    if not channel and semantics == V0:
        channel = next(iter(facts.ordered_channels()), "")
    analysis = analyse(facts, semantics, channel)
    gone = {bundle.name: bundle for bundle in package_row.bundles.filter(deprecated=True)}
    marks = _marks(analysis, gone, set(), "", "")
    title = f"Upgrade graph of {package_row.name}, {channel or 'all channels'}"
    by_range = analysis.by_range
    if kind == "mmd":
        text = mermaid(
            analysis.entries, analysis.versions, facts=marks, title=title, by_range=by_range
        )
        response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    else:
        drawn = layout(
            analysis.entries, analysis.versions, by_range=by_range, start=analysis.chosen
        )
        svg = render(drawn, links={}, facts=marks, title=title, style=STANDALONE_STYLE)
        response = HttpResponse(svg, content_type="image/svg+xml")
        response.headers["Content-Security-Policy"] = SVG_POLICY
    name = "-".join(filter(None, (package_row.name, channel)))[:100]
    response.headers["Content-Disposition"] = (
        f'inline; filename="{presenters.file_name(name)}.{kind}"'
    )
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
