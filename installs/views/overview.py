"""The overview: is anything broken, and what is the one thing to do."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from installs.queries import overview as queries
from installs.queries.filters import read_value
from installs.views.clusters import known_cluster
from installs.views.live import render_live
from olmweb.context import clusters
from olmweb.polling import cluster_revision, revision_token, unchanged


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """One cluster in full, several as a table, none as three steps to the first one."""
    wanted = read_value(request.GET, "cluster")
    shown = [known_cluster(request, wanted)] if wanted else clusters(request)
    token = revision_token(cluster_revision(request), queries.catalogs_revision())
    if (answer := unchanged(request, token)) is not None:
        return answer
    entries = queries.overview(shown) if shown else []
    context = {
        "entries": entries,
        "single": entries[0] if len(entries) == 1 else None,
        "several": len(entries) > 1,
        "recent": queries.recent(shown) if shown else None,
        "catalogs": queries.catalog_summary(shown) if shown else None,
        "waiting": queries.waiting(shown) if shown else None,
        "kinds": queries.installable_kinds(entries[0].cluster) if len(entries) == 1 else [],
        "configured": settings.CLUSTERS,
    }
    return render_live(request, "installs/overview.html", context, token=token)
