"""REST routes of ClusterOperators and CustomResourceDefinitions: what upgrades of the platform see.

Every GET is answered from rows and asks no cluster.
"""

from typing import Annotated

from django.db.models import Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import FilterLookup, Query, Router

from installs.api.operators import NameOrNone, OnCluster, clusters_state, containing
from installs.api.schemas import (
    ClusterOperatorDetail,
    ClusterOperatorRow,
    CRDRow,
    clusteroperator_detail,
    clusteroperator_row,
    crd_row,
)
from installs.models import ClusterOperator, CRDState
from installs.queries import lookup
from installs.queries.clusteroperators import explanation_of, members_of
from olmweb.api.formats import answer_one
from olmweb.api.lists import ListParameters, Page, StoredRows, answer_list
from olmweb.api.parameters import Values, any_of, values

router = Router(tags=["Cluster operators"])


class ClusterOperatorParameters(ListParameters):
    cluster: OnCluster = values("Name of the cluster.")
    q: Values = values("Words that name, reason or message contain.")

    def filter_q(self, texts: Values) -> Q:
        return containing(texts, ("name", "reason", "message"))


class CRDParameters(ListParameters):
    cluster: OnCluster = values("Name of the cluster.")
    finding: Annotated[NameOrNone, FilterLookup("finding__in")] = values(
        "Id of the finding; `-` for none."
    )
    problem: list[bool] | None = values("Whether something is wrong with it.")
    q: Values = values("Words that name, kind or owner contain.")

    def filter_problem(self, answers: list[bool] | None) -> Q:
        return any_of(answers, lambda wanted: ~Q(finding="") if wanted else Q(finding=""))

    def filter_q(self, texts: Values) -> Q:
        return containing(texts, ("name", "served_kind", "owner_name"))


@router.get("/clusteroperators", response=Page[ClusterOperatorRow])
def list_clusteroperators(
    request: HttpRequest, query: Query[ClusterOperatorParameters]
) -> HttpResponseBase:
    """ClusterOperators of every cluster."""
    source = StoredRows(
        query.filter(ClusterOperator.objects.select_related("cluster").defer("conditions")),
        ("name", "id"),
        lambda rows: [clusteroperator_row(row) for row in rows],
    )
    state = clusters_state()
    return answer_list(request, query, "clusteroperators", ClusterOperatorRow, source, state)


@router.get("/clusteroperators/{cluster}/{name}", response=ClusterOperatorDetail)
def get_clusteroperator(request: HttpRequest, cluster: str, name: str) -> HttpResponseBase:
    """One ClusterOperator; for the aggregated one also the operators that its message lists."""
    row = lookup.get_clusteroperator(cluster, name)
    return answer_one(
        request, (row.pk, row.digest, row.observed_at, row.cluster.revision), lambda: _detail(row)
    )


def _detail(row: ClusterOperator) -> ClusterOperatorDetail:
    if not row.aggregated:
        return clusteroperator_detail(row, (), None)
    groups = members_of(row)
    return clusteroperator_detail(row, groups, explanation_of(row, groups))


@router.get("/crds", response=Page[CRDRow])
def list_crds(request: HttpRequest, query: Query[CRDParameters]) -> HttpResponseBase:
    """CustomResourceDefinitions with their versions, and what will block an upgrade."""
    source = StoredRows(
        query.filter(CRDState.objects.select_related("cluster").defer("conditions", "details")),
        ("name", "id"),
        lambda rows: [crd_row(row) for row in rows],
    )
    return answer_list(request, query, "crds", CRDRow, source, clusters_state())
