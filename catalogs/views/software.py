"""The software catalog: the packages of all catalogs, searched and filtered."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from catalogs.search.find import (
    PAGE_SIZE,
    Filters,
    Result,
    find_packages,
    installed_packages,
    installed_states,
    nearest_names,
)
from catalogs.search.images import bundles_with, with_images
from catalogs.search.index import Row, catalog_stamps, current_index
from catalogs.search.matching import Hits, find_hits, kind_named
from catalogs.views import forms, presenters
from olmweb.accounts.roles import may_act
from olmweb.web.context import clusters
from olmweb.web.pages import render_page, revision_token, unchanged
from olmweb.web.pagination import paginate
from olmweb.web.preferences import remember_view

BUNDLES_PAGE = 20  # bundles that use an image, on one page
BUNDLES_OF = 20  # packages, each catalog's for itself, whose images are looked through


@remember_view
@require_safe
def software(request: HttpRequest) -> HttpResponse:
    stamps = catalog_stamps()
    rev = revision_token(stamps)
    answer = unchanged(request, rev)
    if answer:
        return answer
    notices: list[str] = []
    form = forms.SoftwareForm(request.GET, notices)
    values, filters = form.cleaned_data, form.filters
    index = current_index(stamps)
    query = filters.query
    hits = find_hits(index, query)
    result = find_packages(index, filters, installed_packages(clusters(request)), hits)
    page = paginate(result.matches, values["page"], PAGE_SIZE, notices)
    context = {
        "rev": rev,
        "topics": ("catalogs", "clusters"),
        "filters": filters,
        "view": values["view"],
        "notices": notices,
        "page": page,
        "cards": presenters.cards(
            list(page),
            query,
            hits,
            installed_states(clusters(request), [match.row.name for match in page]),
            stamps,
        ),
        "read_as": presenters.read_as(hits),
        "kind": kind_named(index, query),
        "result": result,
        "catalogs": index.catalogs,
        "empty_catalogs": index.empty_catalogs,
        "several_clusters": len({stamp.cluster_id for stamp in stamps if stamp.cluster_id}) > 1,
        "facets": presenters.facets(result, filters, request.GET),
        "labels": presenters.chosen_labels(filters, request.GET),
        "may_install": may_act(request.user)[0],
        "filter_pairs": presenters.filter_pairs(request.GET),
        "nearest": [
            (row.name, presenters.package_url(row.cluster, row.catalog, row.name))
            for row in (() if result.matches else nearest_names(index, query.words))
        ],
        **_bundles(filters, values["bundles_page"], notices, result, hits),
    }
    return render_page(request, "catalogs/software.html", context, partial="results")


def _bundles(
    filters: Filters,
    number: int,
    notices: list[str],
    result: Result,
    hits: Hits | None,
) -> dict[str, Any]:
    """One page of the bundles that use the searched image, of the first packages by name; nothing
    for another search."""
    images = filters.query.images
    if not (images and result.matches and hits):
        return {}
    image = images[0]
    packages: list[Row] = []
    left = sorted(result.matches, key=lambda match: match.row.name, reverse=True)
    while left and len(packages) < BUNDLES_OF:
        packages += [row for row in left.pop().sources if row.id in hits.scores]
    bundles = bundles_with(image, packages)
    page = paginate(bundles, number, BUNDLES_PAGE, notices)
    rows = [
        (bundle, presenters.bundle_url(bundle.bundle.package, bundle.bundle.name))
        for bundle in with_images(list(page), image)
    ]
    return {
        "bundles": page,
        "bundle_rows": rows,
        "more_packages": len(left),
    }
