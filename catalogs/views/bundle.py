"""A bundle, and the icons of packages."""

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import parse_etags
from django.views.decorators.http import require_safe

from catalogs import queries
from catalogs.models import Bundle, ChannelEntry
from catalogs.verdicts.catalog_health import beside
from catalogs.verdicts.stored import verdicts_of
from catalogs.views import presenters
from catalogs.views.inspection import inspection_shown
from catalogs.views.standpoint import standpoint
from olmweb.accounts.roles import may_inspect
from olmweb.web.htmx import render_page

ICON_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'"


@require_safe
def bundle(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponse:
    found, _ = queries.get_sources(cluster, catalog, package)
    same_name = queries.get_bundles(found, bundle)
    shown = same_name[0]
    inspected = inspection_shown(found, shown)
    notices: list[str] = []
    place = standpoint(request, found.catalog, notices)
    entries = list(
        ChannelEntry.objects.filter(channel__package=found, name=shown.name)
        .select_related("channel")
        .order_by("channel__name")
    )
    context = {
        "package": found,
        "catalog": found.catalog,
        "status": presenters.catalog_status(found.catalog),
        "bundle": shown,
        "same_name": len(same_name),
        "entries": entries,
        "notices": notices,
        "standpoint": place,
        "verdicts": beside(verdicts_of(shown, place.cluster_id), found.catalog, place.cluster_id),
        "inspected": inspected,
        "may_inspect": may_inspect(request.user),
        "contents_url": presenters.bundle_url(found, shown.name, "installs:contents"),
        "blob": queries.read_blob(shown.blob),
        "fbc_url": presenters.bundle_url(found, shown.name, "api:get_bundle_fbc"),
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
