"""REST routes of upgrade readiness and takeovers. Everything is answered from rows."""

from collections.abc import Iterator
from typing import Annotated

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Query, Router

from installs.api.operators import clusters_state
from installs.readiness import ReadinessRow
from installs.readiness.request import (
    CODES,
    WEIGHTS,
    ReadinessRequest,
    catalogs_state,
    markdown,
    read_catalogs,
    read_following,
    requested_readiness,
)
from installs.readiness.v1_migration import Fate
from installs.readiness.v1_migration_report import V1Migration, narrowed, v1_migrations
from installs.readiness.v1_migration_report import markdown as takeover_markdown
from olmweb.api.lists import ComputedRows, Keyed, Page, ReportParameters, answer_list
from olmweb.api.parameters import OneOf, text, values
from olmweb.clusters import get_cluster
from olmweb.models import Cluster

router = Router(tags=["Clusters"])


class ReadinessParameters(ReportParameters):
    cluster: str = text("Name of the cluster.")
    weight: list[Annotated[str, OneOf(WEIGHTS)]] | None = values("Severity.")
    code: list[Annotated[str, OneOf(CODES)]] | None = values("Which rule.")
    q: str = text("Words that name, package, namespace or sentence contain.")
    following: str = text(
        "CLUSTER/CATALOG (`-` for no cluster): the catalog of the next minor; adds what of the "
        "installed it no longer has.",
        alias="next",
    )


class TakeoverParameters(ReportParameters):
    cluster: str = text("Name of the cluster.")
    fate: list[Annotated[str, OneOf(tuple(fate.value for fate in Fate))]] | None = values(
        "Verdict of the migration."
    )
    q: str = text("Words that name, package, namespace or a reason contain.")


@router.get("/readiness", response=Page[ReadinessRow])
def list_readiness(request: HttpRequest, query: Query[ReadinessParameters]) -> HttpResponseBase:
    """The blockers of the next minor version of each cluster, worst first, with resolutions."""
    if query.cluster:
        get_cluster(query.cluster)
    filters = ReadinessRequest(
        cluster=query.cluster,
        weights=tuple(query.weight or ()),
        codes=tuple(query.code or ()),
        q=query.q,
        following=read_following(query.following),
    )
    clusters = _clusters()

    def rows() -> Iterator[Keyed]:
        for report in requested_readiness(clusters, filters):
            for number, row in enumerate(report.rows):
                if filters.matches(row):
                    yield Keyed((report.cluster, number), row)

    return answer_list(
        request,
        query,
        "readiness",
        ReadinessRow,
        ComputedRows(rows),
        [clusters_state(), catalogs_state(read_catalogs())],
        lambda: markdown(requested_readiness(clusters, filters), filters),
    )


@router.get("/takeovers", response=Page[V1Migration])
def list_takeovers(request: HttpRequest, query: Query[TakeoverParameters]) -> HttpResponseBase:
    """For each Subscription whether a ClusterExtension can take over, and what is in the way."""
    clusters = [get_cluster(query.cluster)] if query.cluster else _clusters()

    def matching() -> list[V1Migration]:
        return narrowed(v1_migrations(clusters), query.fate or (), query.q)

    def rows() -> Iterator[Keyed]:
        for number, row in enumerate(matching()):
            yield Keyed((row.cluster, number), row)

    return answer_list(
        request,
        query,
        "takeovers",
        V1Migration,
        ComputedRows(rows),
        [clusters_state(), catalogs_state(read_catalogs())],
        lambda: takeover_markdown(matching()),
    )


def _clusters() -> list[Cluster]:
    """All clusters in the order in which cursors compare their names, whatever the collation of
    the database."""
    return sorted(Cluster.objects.all(), key=lambda cluster: cluster.name)
