"""The software catalog: what can be installed, from which catalog."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from catalogs import forms, present, search
from olmweb.htmx import render_page
from olmweb.polling import revision_token, unchanged


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
