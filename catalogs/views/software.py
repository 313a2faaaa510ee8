"""The software catalog: what can be installed, from which catalog."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from catalogs import forms, present, search
from olmweb.htmx import render_page
from olmweb.polling import revision_token, unchanged

BUNDLES_PAGE = 20  # bundles that use an image, on one page


@require_safe
def software(request: HttpRequest) -> HttpResponse:
    stamps = search.catalog_stamps()
    rev = revision_token(stamps)
    answer = unchanged(request, rev)
    if answer:
        return answer
    query = forms.read_query(request.GET)
    index = search.current_index(stamps)
    asked = query.filters.asked
    hits = search.find_hits(index, asked)
    result = search.find_packages(index, query.filters, search.installed_packages(), hits)
    page = present.paginate(
        result.matches, query.page, search.PAGE_SIZE, query.notices, total=len(result.matches)
    )
    context = {
        "rev": rev,
        "query": query,
        "page": page,
        "cards": present.cards(page.items, asked, hits),
        "read_as": present.read_as(hits),
        "result": result,
        "catalogs": len(stamps),
        "facets": present.facets(result, query.filters, request.GET),
        "labels": present.chosen_labels(query.filters, request.GET),
        "kept": present.kept_pairs(request.GET),
        "nearest": _nearest(index, asked) if not result.matches else [],
        **_bundles(index, asked, query),
    }
    return render_page(request, "catalogs/software.html", context, partial="results")


def _nearest(index: search.Index, asked: search.Asked) -> list[tuple[str, str]]:
    """Names like the words asked for with the URL of their package."""
    return [
        (row.name, present.package_url(row.cluster, row.catalog, row.name))
        for row in search.nearest_names(index, asked.words)
    ]


def _bundles(index: search.Index, asked: search.Asked, query: forms.Query) -> dict[str, Any]:
    """The bundles that use the image asked for, one page of them; nothing for another search."""
    if not asked.images:
        return {}
    image = asked.images[0]
    found = search.bundles_with(index, image).select_related("package__catalog__cluster")
    page = present.paginate(
        found, query.bundles_page, BUNDLES_PAGE, query.notices, total=found.count()
    )
    rows = [
        (each, present.bundle_url(each.bundle.package, each.bundle.name))
        for each in search.with_images(page.items, image)
    ]
    return {"image": image, "bundles": page, "bundle_rows": rows}
