"""The page of one cluster: how fresh what is shown of it is, and why not."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from installs.queries.watched_resources import freshness
from installs.views.live import render_live
from olmweb.errors import Missing
from olmweb.models import Cluster
from olmweb.web.context import clusters
from olmweb.web.polling import cluster_revision, revision_token, unchanged


@require_safe
def cluster_detail(request: HttpRequest, cluster: str) -> HttpResponse:
    """Each feed with its state, when it was last heard, and what to do when it can't be read."""
    row = known_cluster(request, cluster)
    found = freshness(row)
    # Feeds are heard without any row of the cluster changing.
    seen = [
        (feed.name, feed.state, feed.heard_at, feed.lists, feed.watches) for feed in found.feeds
    ]
    token = revision_token(cluster_revision(request), seen)
    if (answer := unchanged(request, token)) is not None:
        return answer
    context = {"cluster": row, "freshness": found, "silence_told": [row.pk]}
    return render_live(request, "installs/cluster.html", context, token=token)


def known_cluster(request: HttpRequest, name: str) -> Cluster:
    """The cluster of that name. Raises Missing with a sentence that names those there are."""
    for row in clusters(request):
        if row.name == name:
            return row
    known = ", ".join(row.name for row in clusters(request)) or "none"
    raise Missing(
        f"There is no cluster {name[:80]} here.",
        code="unknown-cluster",
        hint=f"Known clusters: {known}.",
    )
