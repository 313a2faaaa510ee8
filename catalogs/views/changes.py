"""Changes of one catalog (revision by revision, of one revision, or since an earlier one), and the
comparison of any two catalogs or revisions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.forms import Field
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_safe

from catalogs.models import Catalog, CatalogChange, CatalogRevision, distinct_catalogs
from catalogs.queries import fullest
from catalogs.revisions.compare import ChangeKind, Sides
from catalogs.revisions.differences import (
    CHANGED,
    FATES,
    GONE,
    PackageDifference,
    Point,
    differences,
    find_point,
    find_point_at,
    newest_points,
    read_number,
    read_point,
    retained_revisions,
    without_details,
)
from catalogs.revisions.effects import installed_from
from catalogs.revisions.report import (
    FateSection,
    PackageEntry,
    changes_of,
    changes_of_revisions,
    make_report,
)
from catalogs.revisions.text import kind_label
from catalogs.views import forms, presenters
from olmweb.api.parameters import own_value
from olmweb.errors import OlmwebError
from olmweb.web.forms import OptionField, PageField, QueryForm, TextField
from olmweb.web.pages import render_page
from olmweb.web.pagination import paginate

REVISIONS = 10  # on one page
PREVIEW = 6  # packages of a revision in their list, besides those that concern somebody
OVERVIEW = 10  # packages of each section while all sections are shown
CONCERNED = 16  # the same, of packages whose changes affect an installation
PACKAGES = 20  # of one section on its page
PICKED = 50  # revisions to pick from
PICKED_EACH = 10  # revisions of each catalog to pick from, for a comparison


@dataclass(slots=True)
class ChangesQuery:
    """The query string of a page of changes. `show` is one of FATES, or empty for all."""

    kinds: frozenset[str]
    package: str
    show: str
    page: int


@dataclass(frozen=True, slots=True)
class LinkedEntry:
    """A package's entry with the address of its page; empty where no content shown has it.
    `pages` and `exports` as in `_in_both`."""

    entry: PackageEntry
    url: str
    pages: tuple[tuple[str, str], ...] = ()
    exports: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ShownSection:
    fate: str
    label: str
    total: int
    entries: Sequence[LinkedEntry]

    @property
    def more(self) -> int:
        return self.total - len(self.entries)


class ChangesForm(QueryForm):
    """Kinds of change, a package, the section in full, and its page."""

    allowed: ClassVar[Sequence[str]] = CatalogChange.Kind.values
    kind = Field(required=False)
    package = TextField(max_length=forms.MAX_VALUE)
    show = OptionField("show", ("", *FATES))
    page = PageField()

    def clean_kind(self) -> frozenset[str]:
        kinds = frozenset(kind for kind in self.params.getlist("kind") if kind)
        if not kinds.issubset(self.allowed):
            self.notices.append(f"“kind” can be {', '.join(self.allowed)}; others are left out.")
        return kinds & frozenset(self.allowed)


class ComparisonForm(ChangesForm):
    allowed = tuple(ChangeKind)


def read_query_string(
    params: QueryDict, notices: list[str], form: type[ChangesForm] = ChangesForm
) -> ChangesQuery:
    values = form(params, notices).cleaned_data
    return ChangesQuery(values["kind"], values["package"], values["show"], values["page"])


def filter_context(query: ChangesQuery, sides: Sides | None = None) -> dict[str, Any]:
    """The values of the filter fields; their words for two catalogs with `sides`."""
    return {
        "kinds": [
            (kind, kind_label(kind, sides))
            for kind in (ComparisonForm if sides else ChangesForm).allowed
        ],
        "kind_chosen": next(iter(query.kinds), ""),
        "package_filter": query.package,
        "show": query.show,
    }


def report_context(
    stream: Iterable[PackageDifference],
    query: ChangesQuery,
    before: Point | None,
    after: Point,
    notices: list[str],
) -> dict[str, Any]:
    """The sections of a comparison, or one page of one section.

    `before` is the catalog whose installations are looked up; None for the changes of a revision.
    """
    size = PACKAGES if query.show else OVERVIEW
    start = (query.page - 1) * size if query.show else 0
    installed = installed_from((before or after).catalog)
    sides = before.sides(after) if before else None
    report = make_report(stream, installed, kinds=query.kinds, keep=start + size, sides=sides)
    context: dict[str, Any] = {"report": report}
    if query.show:
        section = report.sections[query.show]
        context["page"] = paginate(section.entries, query.page, size, notices, section.total)
    context["sections"] = [
        ShownSection(
            fate,
            section.label,
            section.total,
            _shown(context["page"] if query.show else _first(section), before, after),
        )
        for fate, section in report.sections.items()
        if query.show in ("", fate)
    ]
    return context


def _first(section: FateSection) -> Sequence[PackageEntry]:
    """Entries that affect an installation up to their limit, then others up to OVERVIEW."""
    return section.entries[: max(OVERVIEW, min(CONCERNED, len(section.concerned)))]


def _shown(
    entries: Iterable[PackageEntry], before: Point | None, after: Point
) -> list[LinkedEntry]:
    """Links lead to the content that is current: a package that is gone has a page only where it
    is compared with another catalog."""
    shown = []
    for entry in entries:
        point = before if entry.fate == GONE else after
        url = ""
        if point is not None and point.current:
            url = presenters.package_url(
                point.catalog.cluster_name, point.catalog.slug, entry.package
            )
        pages = _in_both(entry, before, after, "catalogs:package")
        exports = _in_both(entry, before, after, "installs:export")
        shown.append(LinkedEntry(entry, url, pages, exports))
    return shown


def _in_both(
    entry: PackageEntry, before: Point | None, after: Point, view: str
) -> tuple[tuple[str, str], ...]:
    """(catalog, address of a page) of the package in both of two catalogs that are compared."""
    if before is None or before.catalog == after.catalog or entry.fate != CHANGED:
        return ()
    return tuple(
        (
            point.catalog.slug,
            reverse(
                view,
                args=(point.catalog.cluster_name, point.catalog.slug, entry.package),
            ),
        )
        for point in (before, after)
        if point.current
    )


def changes_tab(request: HttpRequest, catalog: Catalog, notices: list[str]) -> dict[str, Any]:
    """The context of a catalog's tab Changes."""
    query = read_query_string(request.GET, notices)
    since = _read_since(request.GET, catalog, notices)
    context = filter_context(query) | {
        "pickable": list(retained_revisions(catalog).exclude(number=catalog.revision)[:PICKED]),
        "since": since,
        "compare_url": f"{reverse('catalogs:compare')}?{urlencode({'from': str(catalog)})}",
        "feed_url": reverse("catalogs:changes-feed", args=(catalog.cluster_name, catalog.slug)),
    }
    revision = None if since else _read_revision(request.GET, catalog, notices)
    context["api"] = _api_url(catalog, since, revision, query)
    if since is not None:
        after = find_point(catalog)
        stream = differences(since, after, query.package)
        return context | report_context(stream, query, since, after, notices)
    if revision is not None:
        point = Point(catalog, revision.number, revision.created_at)
        stream = changes_of(revision, query.kinds, query.package)
        return (
            context | {"revision": revision} | report_context(stream, query, None, point, notices)
        )
    revisions = catalog.revisions.all()
    page = paginate(revisions, query.page, REVISIONS, notices)
    changes = changes_of_revisions(
        list(page),
        {catalog.pk: installed_from(catalog)},
        kinds=query.kinds,
        package=query.package,
        most=PREVIEW,
    )
    return context | {"page": page, "changes": changes}


def _read_since(params: QueryDict, catalog: Catalog, notices: list[str]) -> Point | None:
    """The revision that `since` names by number or date; None without the parameter."""
    value = params.get("since", "") or params.get("day", "")
    if not value:
        return None
    try:
        if (number := read_number(value)) is not None:
            return find_point(catalog, number)
        midnight = datetime.combine(date.fromisoformat(value), time(), UTC)
        point = find_point_at(catalog, midnight)
    except OlmwebError as error:
        notices.append(f"{error.message} {error.hint}")
    except ValueError:
        notices.append("“since” is the number of a revision or a date such as 2026-01-31.")
    else:
        if point.at and point.at > midnight:
            notices.append(
                f"Revisions before {point.number} are no longer stored; this compares with it."
            )
        return point
    return None


def _read_revision(
    params: QueryDict, catalog: Catalog, notices: list[str]
) -> CatalogRevision | None:
    value = params.get("revision", "")
    if not value:
        return None
    revision = catalog.revisions.filter(number=read_number(value) or 0).first()
    if revision is None:
        notices.append(f"Revision “{value[:20]}” of this catalog is not stored.")
    return revision


def _api_url(
    catalog: Catalog, since: Point | None, revision: CatalogRevision | None, query: ChangesQuery
) -> str:
    """The address of the same report in the API, without the format."""
    params = QueryDict(mutable=True)
    if since is not None:
        params["from"] = str(since.number)
    if revision is not None:
        params["revision"] = str(revision.number)
    params.setlist("kind", sorted(map(own_value, query.kinds)))
    if query.package:
        params["package"] = query.package
    place = (catalog.cluster_name, catalog.slug)
    return f"{reverse('api:list_changes', args=place)}?{params.urlencode()}&"


# -- comparison of any two -----------------------------------------------------------------------


@require_safe
def compare(request: HttpRequest) -> HttpResponse:
    notices: list[str] = []
    query = read_query_string(request.GET, notices, ComparisonForm)
    values = {side: request.GET.get(side, "") for side in ("from", "to")}
    offered = newest_points(PICKED_EACH)
    addresses = {
        address: point
        for _catalog, points_of in offered
        for point in points_of
        for address in (str(point), point.address)
    }
    points: dict[str, Point] = {}
    status = 200
    for side, value in values.items():
        if not value:
            continue
        try:
            points[side] = addresses.get(value) or read_point(value)
        except OlmwebError as error:
            notices.append(f"{error.message} {error.hint}".strip())
            status = error.status
    before, after = points.get("from"), points.get("to")
    sides = before.sides(after) if before and after else None
    context: dict[str, Any] = filter_context(query, sides) | {"notices": notices}
    if before is not None and after is not None:
        stream = differences(before, after, query.package)
        context |= report_context(stream, query, before, after, notices)
        context |= {"api": _comparison_api_url(request.GET), "swapped": _swapped(request.GET)}
        context["without_details"] = without_details(before, after)
    context |= {
        "before": before,
        "after": after,
        "groups": _groups(offered, list(points.values())),
        "pickers": [("from", "From", before), ("to", "To", after)],
    }
    return render_page(request, "catalogs/compare.html", context, status=status)


def _groups(
    offered: Sequence[tuple[Catalog, list[Point]]], chosen: list[Point]
) -> list[tuple[str, list[Point]]]:
    """The options of both pickers, by catalog; one that several objects of a cluster serve is
    offered once. Always with the chosen revisions."""
    groups = []
    served = distinct_catalogs(catalog for catalog, _ in offered)
    wanted = {fullest(group).pk for group in served} | {point.catalog.pk for point in chosen}
    for catalog, points in offered:
        if catalog.pk not in wanted:
            continue
        numbers = {point.number for point in points}
        older = [p for p in chosen if p.catalog.pk == catalog.pk and p.number not in numbers]
        label = f"{catalog} ({catalog.source_kind})"
        groups.append((label, [*points, *dict.fromkeys(older)]))
    return groups


def _comparison_api_url(params: QueryDict) -> str:
    """The address of the same comparison in the API, without the format."""
    filters = QueryDict(mutable=True)
    for name in ("from", "to", "kind", "package"):
        texts = [value for value in params.getlist(name) if value]
        filters.setlist(name, map(own_value, texts) if name == "kind" else texts)
    return f"{reverse('api:compare')}?{filters.urlencode()}&"


def _swapped(params: QueryDict) -> str:
    swapped = params.copy()
    swapped["from"], swapped["to"] = params.get("to", ""), params.get("from", "")
    for gone in ("page", "show"):
        swapped.pop(gone, None)
    return f"?{swapped.urlencode()}"
