"""The software catalog: what can be installed, from which catalog."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from catalogs import forms, present, search
from olmweb.htmx import render_page
from olmweb.polling import revision_token, unchanged

BUNDLES_PAGE = 20  # bundles that use an image, on one page
BUNDLES_OF = 12  # packages whose bundles are looked through for an image


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
        **_bundles(index, query, result, hits),
    }
    return render_page(request, "catalogs/software.html", context, partial="results")


def _nearest(index: search.Index, asked: search.Asked) -> list[tuple[str, str]]:
    """Names like the words asked for with the URL of their package."""
    return [
        (row.name, present.package_url(row.cluster, row.catalog, row.name))
        for row in search.nearest_names(index, asked.words)
    ]


def _bundles(
    index: search.Index, query: forms.Query, result: search.Result, hits: search.Hits | None
) -> dict[str, Any]:
    """The bundles that use the image asked for, one page of them; nothing for another search.

    They are those of the first packages by name: an image that hundreds use is looked for by none.
    """
    images = query.filters.asked.images
    if not (images and result.matches and hits):
        return {}
    image = images[0]
    names = sorted(match.row.name for match in result.matches)[:BUNDLES_OF]
    packages = [
        row.id
        for match in result.matches
        if match.row.name <= names[-1]
        for row in match.sources
        if row.id in hits.scores
    ]
    found = search.bundles_with(index, image, packages)
    found = found.select_related("package__catalog__cluster")
    page = present.paginate(
        found, query.bundles_page, BUNDLES_PAGE, query.notices, total=found.count()
    )
    rows = [
        (each, present.bundle_url(each.bundle.package, each.bundle.name))
        for each in search.with_images(page.items, image)
    ]
    return {
        "bundles": page,
        "bundle_rows": rows,
        "more_packages": len(result.matches) - len(names),
    }
