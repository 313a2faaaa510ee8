"""Inspecting the image of a bundle: asking for it, and how it goes."""

from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from catalogs import queries
from catalogs.contents import inspect, stored
from catalogs.contents.request import ask_inspection
from catalogs.models import Bundle, BundleInspection, Package
from catalogs.views import presenters
from olmweb.accounts.roles import may_inspect, sign_in_required
from olmweb.web.htmx import wants_fragment
from olmweb.web.polling import STOP_POLLING


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page shows of an inspection. `state` is one of: told (by the catalog), read, going,
    failed, none, imageless."""

    state: str
    row: BundleInspection | None = None
    url: str = ""

    @property
    def percent(self) -> int | None:
        row = self.row
        return min(100, 100 * row.done // row.total) if row and row.total else None


def inspection_shown(package: Package, bundle: Bundle) -> Shown:
    """How the inspection of the bundle stands; what it found is filled into `bundle`.

    At most three queries.
    """
    if bundle.webhooks is not None:
        return Shown("told")
    if not bundle.image:
        return Shown("imageless")
    row = stored.inspection_of(bundle)
    if row is not None and row.manifests_id:
        stored.settle(bundle)
    return Shown(
        _state(row), row, presenters.bundle_url(package, bundle.name, "catalogs:inspection")
    )


def _state(row: BundleInspection | None) -> str:
    if row is None:
        return "none"
    if inspect.goes_on(row):
        return "going"
    states = BundleInspection.State
    return {states.FAILED: "failed", states.READ: "read"}.get(states(row.state), "none")


@never_cache
@require_http_methods(("GET", "HEAD", "POST"))
@sign_in_required(methods=("POST",), return_to="catalogs:bundle")
def inspection(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponse:
    """GET: how it goes, for htmx alone. POST: an operator has a worker pull the image."""
    found, _ = queries.get_sources(cluster, catalog, package)
    shown = queries.get_bundles(found, bundle)[0]
    if request.method == "POST":
        _, begun = ask_inspection(shown, request.user)
        if begun:
            messages.success(request, "The image will be inspected; this page shows how far it is.")
        else:
            messages.info(request, "The image is being inspected already.")
        return redirect(presenters.bundle_url(found, shown.name))
    if not wants_fragment(request):
        return redirect(presenters.bundle_url(found, shown.name))
    inspected = inspection_shown(found, shown)
    context = {
        "inspected": inspected,
        "may_inspect": may_inspect(request.user),
        "package": found,
        "bundle": shown,
    }
    status = 200 if inspected.state == "going" else STOP_POLLING
    return render(request, "catalogs/_inspection.html", context, status=status)
