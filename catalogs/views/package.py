"""A package: one page, a tab for each question about it."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from catalogs import forms, present, queries, search
from catalogs.graph import Entry
from catalogs.graph.layout import layout
from catalogs.graph.svg import render
from catalogs.models import Bundle, ChannelEntry, Package
from catalogs.semver import Version, parse
from catalogs.views.bundle import bundle_contents
from olmweb.context import clusters
from olmweb.htmx import render_page

ROWS = 50  # of a table on one page
ENTRIES = 300  # of a channel in the graph's table twin


@require_safe
def package(request: HttpRequest, cluster: str, catalog: str, package: str) -> HttpResponse:
    found, sources = queries.get_sources(cluster, catalog, package)
    choice = queries.choose(
        found,
        forms.clean(request.GET.get("channel", "")),
        forms.clean(request.GET.get("version", "")),
    )
    notices = list(choice.notices)
    problems = found.catalog.problems.filter(package=found.name).count()
    tabs = {name: title for name, title in TABS.items() if name != "problems" or problems}
    tab = forms.one_of(request.GET, "tab", tuple(tabs), notices)
    context: dict[str, Any] = {
        "package": found,
        "catalog": found.catalog,
        "status": present.catalog_status(found.catalog),
        "sources": sources,
        "choice": choice,
        "bundle": choice.bundle,
        "tab": tab,
        "tabs": [(name, title, _tab_count(name, found, problems)) for name, title in tabs.items()],
        "installed": search.installed_packages().get(found.name, ()),
        "hindrance": queries.install_hindrance(found.catalog, clusters(request)),
        "notices": notices,
        "page_number": forms.read_page(request.GET, notices),
    }
    context.update(TAB_CONTEXT[tab](found, choice, context))
    return render_page(request, "catalogs/package.html", context)


TABS = {
    "overview": "Overview",
    "channels": "Channels",
    "versions": "Versions",
    "installs": "What it installs",
    "installed": "Installed here",
    "problems": "Problems",
}


def _tab_count(name: str, found: Package, problems: int) -> int | None:
    counts = {
        "channels": found.channel_count,
        "versions": found.bundle_count,
        "problems": problems,
    }
    return counts.get(name)


def _overview(found: Package, choice: queries.Choice, _: dict[str, Any]) -> dict[str, Any]:
    return {"suitability": queries.suitability(choice.bundle) if choice.bundle else None}


def _channels(found: Package, choice: queries.Choice, context: dict[str, Any]) -> dict[str, Any]:
    if choice.channel is None:
        return {}
    entries = list(choice.entries)
    bundles = {each.name: each for each in choice.offered}
    here = {each.version for each in context["installed"]}
    installed = {name for name, each in bundles.items() if each.version and each.version in here}
    drawn = layout(
        [Entry(each.name, each.replaces, tuple(each.skips), each.skip_range) for each in entries],
        _versions(choice.offered),
        keep=installed,
    )
    svg = render(
        drawn,
        links={name: present.bundle_url(found, name) for name in bundles},
        facts={
            "head": [choice.channel.head] if choice.channel.head else [],
            "deprecated": {name for name, each in bundles.items() if each.deprecated},
            "installed": installed,
        },
    )
    entries.sort(key=lambda each: _newest(bundles.get(each.name)), reverse=True)
    return {
        "svg": svg,
        "rows": [_entry_row(found, each, bundles, installed) for each in entries[:ENTRIES]],
        "more_entries": max(0, len(entries) - ENTRIES),
    }


def _newest(bundle: Bundle | None) -> str:
    return bundle.version_key if bundle else ""


def _entry_row(
    found: Package, entry: ChannelEntry, bundles: dict[str, Bundle], installed: set[str]
) -> dict[str, Any]:
    return {
        "entry": entry,
        "bundle": bundles.get(entry.name),
        "url": present.bundle_url(found, entry.name) if entry.name in bundles else "",
        "installed": entry.name in installed,
    }


def _versions(bundles: Any) -> dict[str, Version]:
    """Bundle name to version, for those whose version can be read."""
    found = {}
    for bundle in bundles:
        try:
            found[bundle.name] = parse(bundle.version)
        except ValueError:
            continue
    return found


def _all_versions(
    found: Package, choice: queries.Choice, context: dict[str, Any]
) -> dict[str, Any]:
    page = present.paginate(
        choice.bundles,
        context["page_number"],
        ROWS,
        context["notices"],
        total=len(choice.bundles),
    )
    channels = queries.channels_by_bundle(found)
    rows = [
        {
            "bundle": bundle,
            "url": present.bundle_url(found, bundle.name),
            "channels": present.order_channels(
                channels.get(bundle.name, ()), found.default_channel
            ),
        }
        for bundle in page.items
    ]
    return {"page": page, "rows": rows}


def _installs(found: Package, choice: queries.Choice, _: dict[str, Any]) -> dict[str, Any]:
    return bundle_contents(choice.bundle) if choice.bundle else {}


def _installed(found: Package, choice: queries.Choice, _: dict[str, Any]) -> dict[str, Any]:
    return {}


def _problems(found: Package, choice: queries.Choice, context: dict[str, Any]) -> dict[str, Any]:
    problems = queries.find_problems(found.catalog, package=found.name)
    page = present.paginate(
        problems, context["page_number"], ROWS, context["notices"], total=problems.count()
    )
    return {"page": page}


TAB_CONTEXT: dict[str, Callable[[Package, queries.Choice, dict[str, Any]], dict[str, Any]]] = {
    "overview": _overview,
    "channels": _channels,
    "versions": _all_versions,
    "installs": _installs,
    "installed": _installed,
    "problems": _problems,
}
