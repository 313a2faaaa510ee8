"""Compares any two catalogs or revisions: removed, added and changed packages."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_safe

from catalogs.revisions.differences import (
    Point,
    differences,
    newest_points,
    read_point,
    write_point,
)
from catalogs.views.changes import filter_context, read_query_string, report_context
from olmweb.errors import OlmwebError
from olmweb.web.pages import render_page

PICKED = 10  # revisions of each catalog to pick from


@dataclass(frozen=True, slots=True)
class RevisionOption:
    """One option of a picker; `value` is the value in the URL."""

    value: str
    point: Point

    @property
    def words(self) -> str:
        when = f" of {self.point.at:%Y-%m-%d}" if self.point.at else ""
        current = ", current" if self.point.current else ""
        return f"{self.point.catalog.slug}, revision {self.point.number}{when}{current}"


@require_safe
def compare(request: HttpRequest) -> HttpResponse:
    notices: list[str] = []
    query = read_query_string(request.GET, notices)
    values = {side: request.GET.get(side, "") for side in ("from", "to")}
    points: dict[str, Point] = {}
    status = 200
    for side, value in values.items():
        if not value:
            continue
        try:
            points[side] = read_point(value)
        except OlmwebError as error:
            notices.append(f"{error.message} {error.hint}".strip())
            status = error.status
    context: dict[str, Any] = filter_context(query) | {"notices": notices}
    before, after = points.get("from"), points.get("to")
    if before is not None and after is not None:
        stream = differences(before, after, query.package)
        context |= report_context(stream, query, before, after, notices)
        context |= {"api": _api_url(request.GET), "swapped": _swapped(request.GET)}
    context |= {
        "before": before,
        "after": after,
        "groups": _groups(list(points.values())),
        "pickers": [("from", "From", before), ("to", "To", after)],
    }
    return render_page(request, "catalogs/compare.html", context, status=status)


def _groups(chosen: list[Point]) -> list[tuple[str, list[RevisionOption]]]:
    """The options of both pickers, by catalog; always with the chosen revisions."""
    groups = []
    for catalog, points in newest_points(PICKED):
        numbers = {point.number for point in points}
        older = [p for p in chosen if p.catalog.pk == catalog.pk and p.number not in numbers]
        choices = [
            RevisionOption(write_point(point), point) for point in [*points, *dict.fromkeys(older)]
        ]
        groups.append((str(catalog), choices))
    return groups


def _api_url(params: QueryDict) -> str:
    """The address of the same comparison in the API, without the format."""
    filters = QueryDict(mutable=True)
    for name in ("from", "to", "kind", "package"):
        filters.setlist(name, [value for value in params.getlist(name) if value])
    return f"{reverse('api:compare')}?{filters.urlencode()}&"


def _swapped(params: QueryDict) -> str:
    swapped = params.copy()
    swapped["from"], swapped["to"] = params.get("to", ""), params.get("from", "")
    for gone in ("page", "show"):
        swapped.pop(gone, None)
    return f"?{swapped.urlencode()}"
