"""REST routes of upgrade readiness. Everything is answered from rows."""

from collections.abc import Iterator

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from installs.api.routes import clusters_state
from installs.readiness import Row
from installs.readiness.asked import (
    CODES,
    WEIGHTS,
    Asked,
    answer,
    catalogs_state,
    markdown,
    read_following,
)
from installs.readiness.takeover import Fate
from installs.readiness.takeovers import Takeover, narrowed, takeovers
from installs.readiness.takeovers import markdown as takeover_markdown
from olmweb.api.computed import ComputedList, Keyed, Parameter, answer_computed, check_parameters
from olmweb.api.lists import Page
from olmweb.clusters import get_cluster
from olmweb.models import Cluster

router = Router(tags=["Clusters"])

READINESS = ComputedList(
    "readiness",
    Row,
    (
        Parameter("cluster", "Name of the cluster."),
        Parameter("weight", "How much it weighs; may be repeated.", WEIGHTS),
        Parameter("code", "Which rule; may be repeated.", CODES),
        Parameter("q", "Words that name, package, namespace or sentence contain."),
        Parameter(
            "next",
            "CLUSTER/CATALOG (`-` for no cluster): the catalog of the next minor; adds what of the "
            "installed it no longer has.",
        ),
    ),
)

TAKEOVERS = ComputedList(
    "takeovers",
    Takeover,
    (
        Parameter("cluster", "Name of the cluster."),
        Parameter(
            "fate", "What would become of it; may be repeated.", tuple(fate.value for fate in Fate)
        ),
        Parameter("q", "Words that name, package, namespace or a reason contain."),
    ),
)


@router.get("/readiness", response=Page[Row], openapi_extra=READINESS.openapi())
def list_readiness(request: HttpRequest) -> HttpResponseBase:
    """What blocks the next minor version of each cluster, worst first, and the way out of each."""
    values = check_parameters(request, READINESS)
    one = {name: listed[0] for name, listed in values.items() if listed}
    if "cluster" in one:
        get_cluster(one["cluster"])
    asked = Asked(
        cluster=one.get("cluster", ""),
        weights=tuple(values["weight"]),
        codes=tuple(values["code"]),
        q=one.get("q", ""),
        following=read_following(one.get("next", "")),
    )
    clusters = list(Cluster.objects.order_by("name"))

    def rows() -> Iterator[Keyed]:
        for found in answer(clusters, asked):
            for number, row in enumerate(found.rows):
                if asked.wants(row):
                    yield (found.cluster, number), row

    state = [clusters_state(), catalogs_state()]
    return answer_computed(
        request, READINESS, rows, state, lambda: markdown(answer(clusters, asked), asked)
    )


@router.get("/takeovers", response=Page[Takeover], openapi_extra=TAKEOVERS.openapi())
def list_takeovers(request: HttpRequest) -> HttpResponseBase:
    """For each Subscription whether a ClusterExtension can take over, and what is in the way."""
    values = check_parameters(request, TAKEOVERS)
    cluster = values["cluster"][0] if values["cluster"] else ""
    if cluster:
        get_cluster(cluster)
    clusters = Cluster.objects.filter(name=cluster) if cluster else Cluster.objects.all()
    q = values["q"][0] if values["q"] else ""

    def matching() -> list[Takeover]:
        return narrowed(takeovers(list(clusters)), values["fate"], q)

    def rows() -> Iterator[Keyed]:
        for number, row in enumerate(matching()):
            yield (row.cluster, number), row

    state = [clusters_state(), catalogs_state()]
    return answer_computed(request, TAKEOVERS, rows, state, lambda: takeover_markdown(matching()))
