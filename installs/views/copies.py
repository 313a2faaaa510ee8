"""The report on the cost of copied ClusterServiceVersions, requested by POST.

A GET sends no request to a cluster: it shows the report that a worker has made.
"""

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods

from installs.models import CopyReport
from installs.reports import copied_csvs as copies
from olmweb.clusters import get_cluster
from olmweb.errors import OlmwebError
from olmweb.models import Cluster
from olmweb.web.context import clusters
from olmweb.web.forms import FilterForm, TextFilter
from olmweb.web.pages import render_live, render_page, revision_token, unchanged

SHOWN = 6  # reports of one cluster: the newest in full, the others as a line each
ROWS = 50
SECONDS = 3.0
DISABLE = (
    "kubectl patch olmconfig cluster --type merge "
    '-p \'{"spec":{"features":{"disableCopiedCSVs":true}}}\''
)


class ClusterForm(FilterForm):
    cluster = TextFilter()


@require_http_methods(["GET", "HEAD", "POST"])
def copied_csvs(request: HttpRequest) -> HttpResponse:
    """The newest report of one cluster, or the request for one."""
    if request.method == "POST":
        return _ask(request)
    cluster = _chosen(request, ClusterForm.read(request.GET)["cluster"])
    reports = list(cluster.copy_reports.select_related("user")[:SHOWN]) if cluster else []
    newest = reports[0] if reports else None
    open_ = newest is not None and newest.state in copies.OPEN
    token = revision_token(cluster and cluster.name, newest and (newest.pk, newest.state))
    if (answer := unchanged(request, token)) is not None:
        return answer
    context = {
        "cluster": cluster,
        "choices": [
            (row.name, row.name) for row in clusters(request) if not row.removed or row == cluster
        ],
        "report": newest,
        "running": open_,
        "done": next((report for report in reports if report.state == CopyReport.State.DONE), None),
        "earlier": reports[1:],
        "rows": ROWS,
        "disable": DISABLE,
        "seconds": SECONDS,
    }
    return render_live(
        request, "installs/copied_csvs.html", context, token=token, topics=("reports",)
    )


def _chosen(request: HttpRequest, name: str) -> Cluster | None:
    """The cluster of that name; without a name the first one that is configured, None where there
    is none."""
    if name:
        return get_cluster(name, clusters(request))
    return next((cluster for cluster in clusters(request) if not cluster.removed), None)


def _ask(request: HttpRequest) -> HttpResponse:
    """Requests a report and leads back to the page, which follows it."""
    cluster = get_cluster(ClusterForm.read(request.POST)["cluster"], clusters(request))
    try:
        copies.request_report(cluster, request.user)
    except OlmwebError as error:
        context = {"cluster": cluster, "refusal": error, "rev": "refused"}
        return render_page(request, "installs/copied_csvs.html", context, status=error.status)
    address = reverse("installs:copies") + "?" + urlencode({"cluster": cluster.name})
    response = HttpResponseRedirect(address)
    response.status_code = 303
    return response
