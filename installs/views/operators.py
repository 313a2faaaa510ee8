"""The operators list, by cause or as a table."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from installs.models import Health
from installs.presenters.chain import steps
from installs.queries import operators as queries
from installs.queries.filters import (
    ATTENTION,
    OperatorFilters,
    read_choice,
    read_operator_filters,
    read_sort,
)
from installs.views.live import render_live
from olmweb.web.context import attention
from olmweb.web.polling import cluster_revision, revision_token, unchanged

VIEWS = ("cause", "all")
FILTER_WORDS = {
    "cluster": "Cluster",
    "kind": "Path",
    "namespace": "Namespace",
    "health": "Health",
    "reason": "Reason",
    "finding": "Cause",
    "package": "Package",
    "upgrade": "Upgrade",
    "q": "Text",
}


@require_safe
def operator_list(request: HttpRequest) -> HttpResponse:
    """By cause when anything needs attention and nothing else was asked, else the table."""
    filters = read_operator_filters(request.GET)
    sort = read_sort(request.GET)
    chosen = read_choice(request.GET, "view", VIEWS)
    token = revision_token(cluster_revision(request))
    if (answer := unchanged(request, token)) is not None:
        return answer
    view = chosen or _default_view(request, filters)
    context = {
        "filters": filters,
        "chips": _chips(filters),
        "sort": sort,
        "view": view,
        "facets": queries.facets(),
        "attention": sum(attention(request).values()),
        "ATTENTION": ATTENTION,
    }
    if view == "cause":
        found = queries.causes(filters)
        blocks = [(one, steps(one.finding.remedy) if one.finding else []) for one in found]
        context |= {"causes": blocks, "total": sum(cause.count for cause in found)}
    else:
        page = queries.operator_page(filters, sort=sort, cursor=request.GET.get("cursor", ""))
        unsteady = queries.flapping(page.rows)
        rows = [
            (row, queries.why(row), queries.is_slow(row), unsteady.get(row.pk, 0))
            for row in page.rows
        ]
        context |= {"page": page, "rows": rows, "total": page.total}
    return render_live(request, "installs/operators.html", context, token=token)


def _default_view(request: HttpRequest, filters: OperatorFilters) -> str:
    narrowed = any((filters.finding, filters.reason, filters.q, filters.health, filters.upgrade))
    return "cause" if not narrowed and any(attention(request).values()) else "all"


def _chips(filters: OperatorFilters) -> list[tuple[str, str, str]]:
    """(parameter, its word, value in words) of every filter in use."""
    titles = queries.finding_titles()
    healths = dict(Health.choices)
    words = []
    for name, value in filters.chosen():
        shown = value
        if name == "finding":
            shown = "not known" if value == "-" else titles.get(value, value)
        elif name == "health":
            shown = "needs attention" if value == ATTENTION else str(healths[value])
        elif name == "namespace" and value == "-":
            shown = "none"
        elif name == "upgrade":
            shown = "available"
        words.append((name, FILTER_WORDS[name], shown))
    return words
