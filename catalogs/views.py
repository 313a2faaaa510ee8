"""Pages of the software catalog, packages, bundles and catalogs. Reads only our own rows."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.shortcuts import redirect
from django.utils.http import parse_etags
from django.views.decorators.http import require_POST, require_safe

from catalogs import forms, present, queries, search, tasks
from catalogs.graph import Entry, layout
from catalogs.graph_svg import render
from catalogs.models import Bundle, Catalog, ChannelEntry, ContentProblem, Package
from catalogs.semver import Version, parse
from olmweb.context import clusters
from olmweb.errors import OlmwebError
from olmweb.htmx import render_page
from olmweb.models import SyncRun
from olmweb.polling import revision_token, unchanged

ROWS = 50  # of a table on one page
ENTRIES = 300  # of a channel in the graph's table twin
REVISIONS = 20  # on a catalog's page
RUNS = 10
ICON_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'"


@require_safe
def software(request: HttpRequest) -> HttpResponse:
    stamps = search.catalog_stamps()
    rev = revision_token(stamps)
    answer = unchanged(request, rev)
    if answer:
        return answer
    query = forms.read_query(request.GET)
    index = search.current_index(stamps)
    result = search.find_packages(index, query.filters, search.installed_packages())
    page = present.paginate(
        result.matches, query.page, search.PAGE_SIZE, query.notices, total=len(result.matches)
    )
    context = {
        "rev": rev,
        "query": query,
        "page": page,
        "cards": [present.card(match) for match in page.items],
        "result": result,
        "catalogs": len(stamps),
        "facets": present.facets(result, query.filters, request.GET),
        "labels": present.chosen_labels(query.filters, request.GET),
        "kept": present.kept_pairs(request.GET),
        "nearest": _nearest(index, query.filters.q) if not result.matches else [],
    }
    return render_page(request, "catalogs/software.html", context, partial="results")


def _nearest(index: search.Index, q: str) -> list[tuple[str, str]]:
    """Names like `q` with the URL of their package."""
    return [
        (row.name, present.package_url(row.cluster, row.catalog, row.name))
        for row in search.nearest_names(index, q)
    ]


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
        head=choice.channel.head,
        deprecated={name for name, each in bundles.items() if each.deprecated},
        installed=installed,
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


def bundle_contents(bundle: Bundle) -> dict[str, Any]:
    """What a bundle brings along: kinds, images."""
    gvks = list(bundle.gvks.all())
    images = list(bundle.related_images.all()[: queries.IMAGE_SHOW_LIMIT + 1])
    return {
        "provided": [gvk for gvk in gvks if not gvk.required],
        "required": [gvk for gvk in gvks if gvk.required],
        "images": images[: queries.IMAGE_SHOW_LIMIT],
        "more_images": len(images) > queries.IMAGE_SHOW_LIMIT,
    }


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


@require_safe
def bundle(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponse:
    found, _ = queries.get_sources(cluster, catalog, package)
    same_name = queries.get_bundles(found, bundle)
    shown = same_name[0]
    entries = list(
        ChannelEntry.objects.filter(channel__package=found, name=shown.name)
        .select_related("channel")
        .order_by("channel__name")
    )
    context = {
        "package": found,
        "catalog": found.catalog,
        "status": present.catalog_status(found.catalog),
        "bundle": shown,
        "same_name": len(same_name),
        "entries": entries,
        "suitability": queries.suitability(shown),
        "blob": queries.read_blob(shown.blob),
        "fbc_url": present.bundle_url(found, shown.name, "api:get_bundle_fbc"),
        **bundle_contents(shown),
    }
    return render_page(request, "catalogs/bundle.html", context)


@require_safe
def icon(request: HttpRequest, sha256: str) -> HttpResponse:
    """Icon bytes under a URL that names their content: they never change.

    The policy lets an SVG that is opened by itself do nothing but style itself.
    """
    etag = f'"{sha256}"'
    response: HttpResponse
    if etag in parse_etags(request.headers.get("If-None-Match", "")):
        response = HttpResponseNotModified()
    else:
        found = queries.get_icon(sha256)
        response = HttpResponse(bytes(found.data), content_type=found.media_type)
    response.headers["Cache-Control"] = "private, max-age=31536000, immutable"
    response.headers["ETag"] = etag
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Security-Policy"] = ICON_POLICY
    return response


@require_safe
def catalog_list(request: HttpRequest) -> HttpResponse:
    catalogs = list(Catalog.objects.select_related("cluster"))
    rev = revision_token([_catalog_stamp(each) for each in catalogs])
    answer = unchanged(request, rev)
    if answer:
        return answer
    rows = [(each, present.catalog_status(each)) for each in catalogs]
    context = {
        "rev": rev,
        "rows": rows,
        "packages": sum(each.package_count for each in catalogs),
        "troubled": [row for row in rows if row[1].tone in ("danger", "warning")],
    }
    return render_page(request, "catalogs/catalog_list.html", context, partial="rows")


CATALOG_TABS = {"overview": "Overview", "changes": "Changes", "problems": "Problems"}


@require_safe
def catalog(request: HttpRequest, cluster: str, catalog: str) -> HttpResponse:
    found = queries.get_catalog(cluster, catalog)
    rev = revision_token(_catalog_stamp(found))
    answer = unchanged(request, rev)
    if answer:
        return answer
    notices: list[str] = []
    tab = forms.one_of(request.GET, "tab", tuple(CATALOG_TABS), notices)
    context: dict[str, Any] = {
        "rev": rev,
        "catalog": found,
        "status": present.catalog_status(found),
        "tab": tab,
        "tabs": [
            ("overview", "Overview", None),
            ("changes", "Changes", None),
            ("problems", "Problems", found.problem_count),
        ],
        "notices": notices,
    }
    if tab == "problems":
        context.update(_catalog_problems(request, found, notices))
    elif tab == "changes":
        context.update(_catalog_changes(found))
    else:
        context["runs"] = SyncRun.objects.filter(kind=SyncRun.Kind.CATALOG, target=str(found))[
            :RUNS
        ]
    return render_page(request, "catalogs/catalog.html", context, partial="body")


def _catalog_problems(request: HttpRequest, found: Catalog, notices: list[str]) -> dict[str, Any]:
    severities = ("", *ContentProblem.Severity.values)
    severity = forms.one_of(request.GET, "severity", severities, notices)
    package = forms.clean(request.GET.get("package", ""))[: forms.MAX_VALUE]
    problems = queries.find_problems(found, severity=severity, package=package)
    number = forms.read_page(request.GET, notices)
    return {
        "severity": severity,
        "package_filter": package,
        "severities": ContentProblem.Severity.choices,
        "page": present.paginate(problems, number, ROWS, notices, total=problems.count()),
    }


def _catalog_changes(found: Catalog) -> dict[str, Any]:
    revisions = list(found.revisions.all()[:REVISIONS])
    changes = queries.changes_of([each.pk for each in revisions])
    installed = search.installed_packages()
    return {
        "revisions": [
            {
                "revision": revision,
                "changes": [
                    (each, installed.get(each.package, ())) for each in changes[revision.pk]
                ],
            }
            for revision in revisions
        ]
    }


def _catalog_stamp(found: Catalog) -> tuple[object, ...]:
    """What an open page shows of a catalog."""
    cluster = found.cluster
    return (
        *(found.pk, found.revision, found.state, found.checked_at, found.error_text),
        *(found.problem_count, found.priority, found.availability, found.conditions),
        *((cluster.reachable, cluster.error_text) if cluster else ()),
    )


@require_POST
@login_required
def sync_now(request: HttpRequest, cluster: str, catalog: str) -> HttpResponse:
    """Staff ask for a read of the catalog now; a worker does it."""
    found = queries.get_catalog(cluster, catalog)
    if not request.user.is_staff:
        raise OlmwebError(
            "Only staff may start a sync.",
            code="not-staff",
            status=403,
            hint="Ask an administrator, or wait: catalogs are read by themselves.",
        )
    tasks.sync_catalog.delay_on_commit(found.pk)
    messages.success(request, f"A sync of {found} was asked for; a worker reads it now.")
    return redirect("catalogs:catalog", found.cluster_name, found.slug)
