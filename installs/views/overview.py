"""The overview: is anything broken, and what is the one thing to do."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from installs.queries import overview as queries
from installs.queries.changes import recent
from installs.queries.filters import read_value
from installs.queries.waiting import Waiting, waiting
from installs.views.clusters import known_cluster
from installs.views.live import render_live
from olmweb.web.context import clusters
from olmweb.web.polling import cluster_revision, revision_token, unchanged


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """One cluster in full, several as a table, none as three steps to the first one."""
    wanted = read_value(request.GET, "cluster")
    shown = [known_cluster(request, wanted)] if wanted else clusters(request)
    catalogs = queries.read_catalogs()
    token = revision_token(cluster_revision(request), queries.catalogs_revision(catalogs))
    if (answer := unchanged(request, token)) is not None:
        return answer
    entries = queries.overview(shown) if shown else []
    context = {
        "entries": entries,
        "single": entries[0] if len(entries) == 1 else None,
        "several": len(entries) > 1,
        "recent": recent(shown) if shown else None,
        "catalogs": queries.catalog_summary(catalogs, shown),
        "waiting": _waiting(entries) if entries else None,
        "kinds": queries.installable_kinds(entries[0].cluster) if len(entries) == 1 else [],
        "configured": settings.CLUSTERS,
        "silence_told": _silence_told(entries),
    }
    return render_live(request, "installs/overview.html", context, token=token)


def _silence_told(entries: list[queries.ClusterOverview]) -> list[int]:
    """The silent clusters of which the page itself says so: those of a table, and one that was
    never reached."""
    silent = [entry.cluster for entry in entries if entry.cluster.stale]
    return [one.pk for one in silent if len(entries) > 1 or one.synced_at is None]


def _waiting(entries: list[queries.ClusterOverview]) -> Waiting:
    return waiting(
        [entry.cluster for entry in entries],
        upgrades=sum(entry.counts.upgrades for entry in entries),
        approvals=[approval for entry in entries for approval in entry.approvals],
    )
