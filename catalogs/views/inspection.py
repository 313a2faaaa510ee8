"""Inspecting the image of a bundle: asking for it, and how it goes."""

from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from catalogs import present, queries, tasks
from catalogs.inspection import inspect, stored
from catalogs.models import Bundle, BundleInspection, Package
from olmweb.errors import OlmwebError
from olmweb.htmx import wants_fragment
from olmweb.polling import STOP_POLLING

WHO = 150  # characters of a name, as the column holds


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
    return Shown(_state(row), row, present.bundle_url(package, bundle.name, "catalogs:inspection"))


def _state(row: BundleInspection | None) -> str:
    if row is None:
        return "none"
    if inspect.goes_on(row):
        return "going"
    states = BundleInspection.State
    return {states.FAILED: "failed", states.READ: "read"}.get(states(row.state), "none")


@never_cache
@require_http_methods(("GET", "HEAD", "POST"))
def inspection(
    request: HttpRequest, cluster: str, catalog: str, package: str, bundle: str
) -> HttpResponse:
    """GET: how it goes, for htmx alone. POST: staff ask a worker to pull the image."""
    found, _ = queries.get_sources(cluster, catalog, package)
    shown = queries.get_bundles(found, bundle)[0]
    if request.method == "POST":
        if not request.user.is_authenticated:
            return redirect_to_login(present.bundle_url(found, shown.name))
        _ask(request, shown)
        return redirect(present.bundle_url(found, shown.name))
    if not wants_fragment(request):
        return redirect(present.bundle_url(found, shown.name))
    inspected = inspection_shown(found, shown)
    context = {"inspected": inspected, "package": found, "bundle": shown}
    status = 200 if inspected.state == "going" else STOP_POLLING
    return render(request, "catalogs/_inspection.html", context, status=status)


def _ask(request: HttpRequest, bundle: Bundle) -> None:
    if not request.user.is_staff:
        raise OlmwebError(
            "Only staff may have an image inspected.",
            code="not-staff",
            status=403,
            hint="Ask an administrator: whoever may start the sync of a catalog may do this.",
        )
    if bundle.webhooks is not None or not bundle.image:
        why = "names no image" if not bundle.image else "has its objects in the catalog already"
        raise OlmwebError(
            f"Bundle {bundle.name} {why}: there is nothing to pull.",
            code="nothing-to-inspect",
            status=409,
        )
    row = inspect.ask(bundle.image, request.user.get_username()[:WHO])
    if row is None:
        messages.info(request, "The image is being inspected already.")
        return
    tasks.inspect_bundle.delay_on_commit(row.pk)
    messages.success(request, "The image will be inspected now; this page shows how far it is.")
