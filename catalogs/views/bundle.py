"""A bundle, the inspection of its image, and the icons of packages."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.shortcuts import redirect, render
from django.utils.http import parse_etags
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from catalogs import lookup, queries
from catalogs.contents import stored
from catalogs.contents.inspection import in_progress, request_inspection
from catalogs.models import Bundle, BundleInspection, ChannelEntry, Package
from catalogs.verdicts.catalog_health import with_health_notes
from catalogs.verdicts.read import verdicts_of
from catalogs.views import presenters
from catalogs.views.forms import read_target_cluster
from olmweb.accounts.roles import may_inspect, sign_in_required
from olmweb.web.pages import STOP_POLLING, render_page, wants_fragment

ICON_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'"


@require_safe
def bundle(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponse:
    package_row = lookup.get_package(cluster, catalog, package)
    same_name = lookup.get_bundles(package_row, bundle)
    shown = same_name[0]
    inspected = inspection_status(package_row, shown)
    notices: list[str] = []
    target = read_target_cluster(request, package_row.catalog, notices)
    entries = list(
        ChannelEntry.objects.filter(channel__package=package_row, name=shown.name)
        .select_related("channel")
        .order_by("channel__name")
    )
    context = {
        "package": package_row,
        "catalog": package_row.catalog,
        "status": presenters.catalog_status(package_row.catalog),
        "bundle": shown,
        "same_name": len(same_name),
        "entries": entries,
        "notices": notices,
        "target_cluster": target,
        "verdicts": with_health_notes(
            verdicts_of(shown, target.cluster_id), package_row.catalog, target.cluster_id
        ),
        "inspected": inspected,
        "may_inspect": may_inspect(request.user),
        "contents_url": presenters.bundle_url(package_row, shown.name, "installs:contents"),
        "blob": queries.read_blob(shown.blob),
        "fbc_url": presenters.bundle_url(package_row, shown.name, "api:get_bundle_fbc"),
        **bundle_contents(shown),
    }
    return render_page(request, "catalogs/bundle.html", context)


@require_safe
def icon(request: HttpRequest, sha256: str) -> HttpResponse:
    """Icon bytes. Their URL names their content, so they never change; the policy forbids an SVG
    that is opened by itself anything but to style itself."""
    etag = f'"{sha256}"'
    response: HttpResponse
    if etag in parse_etags(request.headers.get("If-None-Match", "")):
        response = HttpResponseNotModified()
    else:
        row = lookup.get_icon(sha256)
        response = HttpResponse(bytes(row.data), content_type=row.media_type)
    response.headers["Cache-Control"] = "private, max-age=31536000, immutable"
    response.headers["ETag"] = etag
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Security-Policy"] = ICON_POLICY
    return response


def bundle_contents(bundle: Bundle) -> dict[str, Any]:
    """The provided and required APIs of a bundle, and its images."""
    gvks = list(bundle.gvks.all())
    images = list(bundle.related_images.all()[: queries.IMAGE_SHOW_LIMIT + 1])
    return {
        "provided": [gvk for gvk in gvks if not gvk.required],
        "required": [gvk for gvk in gvks if gvk.required],
        "images": images[: queries.IMAGE_SHOW_LIMIT],
        "more_images": len(images) > queries.IMAGE_SHOW_LIMIT,
    }


@dataclass(frozen=True, slots=True)
class InspectionStatus:
    """`state` is one of from-catalog, read, going, failed, none, imageless."""

    state: str
    row: BundleInspection | None = None
    url: str = ""

    @property
    def poll_seconds(self) -> int:
        """How often a page asks for the progress: rarely while the registry has us wait."""
        return 15 if self.row and self.row.next_attempt_at else 1

    @property
    def percent(self) -> int | None:
        row = self.row
        return min(100, 100 * row.done // row.total) if row and row.total else None


def inspection_status(package: Package, bundle: Bundle) -> InspectionStatus:
    """Fills the results of the inspection into `bundle`; at most three queries."""
    if bundle.webhooks is not None:
        return InspectionStatus("from-catalog")
    if not bundle.image:
        return InspectionStatus("imageless")
    row = stored.inspection_of(bundle)
    if row is not None and row.manifests_id:
        stored.fill_from_image(bundle)
    return InspectionStatus(
        _state(row), row, presenters.bundle_url(package, bundle.name, "catalogs:inspection")
    )


def _state(row: BundleInspection | None) -> str:
    if row is None:
        return "none"
    if in_progress(row):
        return "going"
    states = BundleInspection.State
    return {states.FAILED: "failed", states.READ: "read"}.get(states(row.state), "none")


@never_cache
@require_http_methods(("GET", "HEAD", "POST"))
@sign_in_required(methods=("POST",), return_to="catalogs:bundle")
def inspection(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponse:
    """GET: the progress, for htmx alone. POST: requests that a worker pulls the image."""
    package_row = lookup.get_package(cluster, catalog, package)
    shown = lookup.get_bundle(package_row, bundle)
    if request.method == "POST":
        _, begun = request_inspection(shown, request.user)
        if begun:
            messages.success(request, "The image will be inspected; this page shows how far it is.")
        else:
            messages.info(request, "The image is being inspected already.")
        return redirect(presenters.bundle_url(package_row, shown.name))
    if not wants_fragment(request):
        return redirect(presenters.bundle_url(package_row, shown.name))
    inspected = inspection_status(package_row, shown)
    context = {
        "inspected": inspected,
        "may_inspect": may_inspect(request.user),
        "package": package_row,
        "bundle": shown,
    }
    status = 200 if inspected.state == "going" else STOP_POLLING
    return render(request, "catalogs/_inspection.html", context, status=status)
