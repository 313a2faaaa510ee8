"""Catalogs: the list, one catalog with its tabs, and its sync: start, progress, cancel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from django.apps import apps
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from catalogs import lookup, queries
from catalogs.models import Catalog, distinct_catalogs
from catalogs.sources.own_catalogs import is_own
from catalogs.sync import progress as sync_progress
from catalogs.verdicts import catalog_inspection
from catalogs.views import forms, presenters
from catalogs.views.changes import changes_tab
from catalogs.views.problems import problems_tab
from olmweb.accounts.roles import INSPECT_ALL, SYNC, require, sign_in_required
from olmweb.api.formats import stream
from olmweb.models import SyncRun
from olmweb.web.context import clusters
from olmweb.web.forms import FilterForm, SortFilter, read_page
from olmweb.web.pages import (
    STOP_POLLING,
    cluster_revision,
    render_page,
    revision_token,
    unchanged,
    wants_fragment,
)
from olmweb.web.pagination import PAGE_SIZE, paginate
from olmweb.web.preferences import remember_view
from olmweb.web.tables import Column, Table

RUNS = 10
# Of the catalogs of the list.
_FIELDS = (
    *("slug", "namespace", "source_kind", "source", "base_url", "state"),
    *("error_code", "error_text", "error_hint", "access_method"),
    *("checked_at", "synced_at", "changed_at", "last_cost", "priority", "revision"),
    *("package_count", "bundle_count", "problem_count"),
)
_SHOWN = attrgetter("pk", "stale", *_FIELDS)
Entry = tuple[Catalog, presenters.Status, sync_progress.Standing | None]


CATALOGS = Table(
    "catalogs",
    "Catalogs",
    "catalogs:catalog-list",
    (
        Column("name", "Name", fixed=True, exported=("name", "cluster")),
        Column("access", "Access", exported=("access", "status")),
        Column("packages", "Packages", number=True),
        Column("bundles", "Bundles", number=True),
        Column("problems", "Problems", number=True),
        Column("changed", "Changed", keys=("changed_or_never",)),
    ),
    sorted_by="name",
    ties=("name", "cluster", "pk"),
)


class CatalogsForm(FilterForm):
    sort = SortFilter(CATALOGS.names)


@dataclass(frozen=True, slots=True)
class CatalogLine:
    """One catalog: the row with most of the content, and the rows of all its sources."""

    catalog: Catalog
    entries: list[Entry]

    @property
    def pk(self) -> int:
        return self.catalog.pk

    @property
    def name(self) -> str:
        return self.catalog.name

    @property
    def cluster(self) -> str:
        return self.catalog.cluster_name

    @property
    def access(self) -> str:
        return ", ".join(entry.source_kind for entry, _status, _standing in self.entries)

    @property
    def status(self) -> str:
        return ", ".join(status.word for _entry, status, _standing in self.entries)

    @property
    def packages(self) -> int:
        return self.catalog.package_count

    @property
    def bundles(self) -> int:
        return self.catalog.bundle_count

    @property
    def problems(self) -> int:
        return self.catalog.problem_count

    @property
    def changed(self) -> datetime | None:
        return self.catalog.changed_at

    @property
    def changed_or_never(self) -> float:
        return self.changed.timestamp() if self.changed else 0.0


@remember_view
@require_safe
def catalog_list(request: HttpRequest) -> HttpResponse:
    sort = CatalogsForm.read(request.GET)["sort"]
    catalogs = queries.read_catalogs(clusters(request), *_FIELDS)
    standings = sync_progress.standings(catalogs)
    runs = sorted((key, catalog.run) for key, catalog in standings.items())
    rev = revision_token(cluster_revision(request), list(map(_SHOWN, catalogs)), runs)
    answer = unchanged(request, rev)
    if answer:
        return answer
    table = CATALOGS.view(request, sort)
    lines = table.arrange(_lines(catalogs, standings))
    notices: list[str] = []
    page = paginate(lines, read_page(request.GET, notices), PAGE_SIZE, notices)
    by_catalog = (
        [entry[:2] for entry in line.entries if entry[1].tone in ("danger", "warning")]
        for line in lines
    )
    context = {
        "rev": rev,
        "topics": ("catalogs", "syncs", "clusters"),
        "table": table,
        "notices": notices,
        "page": page,
        "total": len(lines),
        "packages": queries.count_packages(),
        "troubled": [entries[0] for entries in by_catalog if entries],
    }
    return render_page(request, "catalogs/catalog_list.html", context, partial="rows")


@require_safe
def catalog_export(request: HttpRequest) -> HttpResponseBase:
    """The table as CSV: every catalog, in its order, with the columns shown."""
    table = CATALOGS.view(request, CatalogsForm.read(request.GET)["sort"])
    lines = table.arrange(_lines(list(Catalog.objects.select_related("cluster")), {}))
    return stream([lines], table.exported, "csv", CATALOGS.name)


def _lines(
    catalogs: Sequence[Catalog], standings: Mapping[int, sync_progress.Standing]
) -> list[CatalogLine]:
    """Each distinct catalog with all its entries."""
    entries = {
        catalog.pk: (catalog, presenters.catalog_status(catalog), standings.get(catalog.pk))
        for catalog in catalogs
    }
    lines = []
    for group in distinct_catalogs(catalogs):
        shown = [entries[catalog.pk] for catalog in reversed(group)]
        lines.append(CatalogLine(queries.fullest(group), shown))
    return lines


CATALOG_TABS = {"overview": "Overview", "changes": "Changes", "problems": "Problems"}


@require_safe
def catalog(request: HttpRequest, cluster: str, catalog: str) -> HttpResponse:
    catalog_row = lookup.get_catalog(cluster, catalog)
    standing = sync_progress.standings([catalog_row]).get(catalog_row.pk)
    images = presenters.inspected_images(catalog_row)
    rev = revision_token(_catalog_stamp(catalog_row), images, standing and standing.run)
    answer = unchanged(request, rev)
    if answer:
        return answer
    notices: list[str] = []
    tab = forms.read_option(request.GET, "tab", tuple(CATALOG_TABS), notices)
    counts = {"problems": catalog_row.problem_count}
    context: dict[str, Any] = {
        "rev": rev,
        "topics": ("catalogs", "syncs", "clusters"),
        "catalog": catalog_row,
        "is_own": is_own(catalog_row),
        "standing": standing,
        "status": presenters.catalog_status(catalog_row),
        "tab": tab,
        "tabs": [(name, title, counts.get(name)) for name, title in CATALOG_TABS.items()],
        "notices": notices,
    }
    if tab == "problems":
        context.update(problems_tab(request, catalog_row, notices))
    elif tab == "changes":
        context.update(changes_tab(request, catalog_row, notices))
    else:
        # By name: catalogs must not import installs.
        context |= apps.get_app_config("installs").trouble_of_catalog(catalog_row)  # type: ignore[attr-defined]
        context["images"] = images
        context["origin"] = presenters.origin(catalog_row.access_method)
        context["access_methods"] = presenters.access_method_rows(catalog_row.access_methods)
        context["runs"] = SyncRun.objects.filter(
            kind=SyncRun.Kind.CATALOG, target=str(catalog_row)
        )[:RUNS]
    return render_page(request, "catalogs/catalog.html", context, partial="body")


def _catalog_stamp(catalog: Catalog) -> tuple[object, ...]:
    """The values of a catalog that an open page shows."""
    cluster = catalog.cluster
    return (
        *(catalog.pk, catalog.revision, catalog.state, catalog.checked_at, catalog.error_text),
        catalog.stale,
        *(catalog.problem_count, catalog.priority, catalog.availability, catalog.conditions),
        *(catalog.access_method, catalog.access_methods),
        *((cluster.reachable, cluster.error_text, cluster.revision) if cluster else ()),
    )


@require_POST
@sign_in_required(return_to="catalogs:catalog", check=require(SYNC))
def sync_now(request: HttpRequest, cluster: str, catalog: str) -> HttpResponse:
    """Requests a sync of the catalog; a worker does it."""
    catalog_row = lookup.get_catalog(cluster, catalog)
    sync_progress.request_sync(catalog_row.pk)
    messages.success(
        request, f"A sync of {catalog_row} was requested; the next free worker runs it."
    )
    return redirect("catalogs:catalog", catalog_row.cluster_name, catalog_row.slug)


@require_POST
@sign_in_required(return_to="catalogs:catalog", check=require(INSPECT_ALL))
def inspect_images(request: HttpRequest, cluster: str, catalog: str) -> HttpResponse:
    """Switches the inspection of all bundle images of the catalog on, or off with `stop`."""
    catalog_row = lookup.get_catalog(cluster, catalog)
    if "stop" in request.POST:
        catalog_inspection.stop(catalog_row)
        text = f"The inspection of {catalog_row} stops; inspected images stay."
    else:
        catalog_inspection.start(catalog_row, request.user)
        text = f"Workers inspect the bundle images of {catalog_row} in the background."
    messages.success(request, text)
    return redirect("catalogs:catalog", catalog_row.cluster_name, catalog_row.slug)


@require_safe
def progress(request: HttpRequest, cluster: str, catalog: str) -> HttpResponse:
    """The progress bar for htmx; a redirect to the page of the catalog for other requests."""
    catalog_row = lookup.get_catalog(cluster, catalog)
    if not wants_fragment(request):
        return redirect("catalogs:catalog", catalog_row.cluster_name, catalog_row.slug)
    standing = sync_progress.standings([catalog_row]).get(catalog_row.pk)
    if standing is None:
        return HttpResponse(status=STOP_POLLING)
    return render(
        request, "catalogs/_sync_progress.html", {"catalog": catalog_row, "standing": standing}
    )


@require_POST
@sign_in_required(return_to="catalogs:catalog", check=require(SYNC))
def cancel(request: HttpRequest, cluster: str, catalog: str) -> HttpResponse:
    """Cancels the running sync; the content read before stays."""
    catalog_row = lookup.get_catalog(cluster, catalog)
    if sync_progress.cancel(catalog_row):
        messages.success(
            request, f"The sync of {catalog_row} stops now; what was read before stays."
        )
    else:
        messages.info(request, f"No sync of {catalog_row} goes on; there is nothing to cancel.")
    return redirect("catalogs:catalog", catalog_row.cluster_name, catalog_row.slug)
