"""How far the sync of a catalog is, polled while it goes on, and asking it to stop."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from catalogs import queries
from catalogs.sync import progress as running
from olmweb.accounts.roles import sign_in_required
from olmweb.errors import OlmwebError
from olmweb.web.htmx import wants_fragment
from olmweb.web.polling import STOP_POLLING


@require_safe
def progress(request: HttpRequest, cluster: str, catalog: str) -> HttpResponse:
    """The bar alone, for htmx; whoever follows its address otherwise gets the catalog's page."""
    found = queries.get_catalog(cluster, catalog)
    if not wants_fragment(request):
        return redirect("catalogs:catalog", found.cluster_name, found.slug)
    standing = running.standings([found]).get(found.pk)
    if standing is None:
        return HttpResponse(status=STOP_POLLING)
    return render(request, "catalogs/_sync_progress.html", {"catalog": found, "standing": standing})


@require_POST
@sign_in_required(return_to="catalogs:catalog")
def cancel(request: HttpRequest, cluster: str, catalog: str) -> HttpResponse:
    """Staff ask the sync that goes on to stop; what was read before stays."""
    found = queries.get_catalog(cluster, catalog)
    if not request.user.is_staff:
        raise OlmwebError(
            "Only staff may cancel a sync.",
            code="not-staff",
            status=403,
            hint="Ask an administrator, or wait until it is done.",
        )
    if running.cancel(found):
        messages.success(request, f"The sync of {found} stops now; what was read before stays.")
    else:
        messages.info(request, f"No sync of {found} goes on; there is nothing to cancel.")
    return redirect("catalogs:catalog", found.cluster_name, found.slug)
