"""REST routes of clusters: their state, what is read of them, counts of what they run.

Every GET is answered from rows and asks no cluster.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from django.conf import settings
from django.db.models import Count, Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import FilterLookup, Query, Router, Schema

from catalogs.models import Catalog
from installs.api.operators import UPGRADABLE, clusters_state
from installs.api.schemas import (
    CatalogTroubleRow,
    ClusterDetail,
    ClusterRow,
    FindingCount,
    LeftoverRow,
    StatusRow,
    catalog_trouble_row,
    cluster_detail,
    cluster_row,
    leftover_row,
)
from installs.diagnosis.entries import knowledge
from installs.models import (
    ClusterInventory,
    ClusterOperator,
    CopyReport,
    CRDState,
    Health,
    Operator,
)
from installs.queries.catalog_troubles import catalog_troubles
from installs.queries.leftovers import removed_owners
from installs.queries.watched_resources import watched_resources
from olmweb import clusters
from olmweb.api.formats import answer_one
from olmweb.api.lists import ComputedRows, Keyed, ListParameters, Page, StoredRows, answer_list
from olmweb.api.parameters import Values, values
from olmweb.models import Cluster, ResourceWatch

PLATFORM_COUNTS = ("total", "available", "progressing", "degraded")
router = Router(tags=["Clusters"])


class StatusParameters(ListParameters):
    cluster: Annotated[Values, FilterLookup("name__in")] = values("Name of the cluster.")


class OnClusterParameters(ListParameters):
    cluster: Values = values("Name of the cluster.")


class ProductVersion(Schema):
    """The OLM Web that answers."""

    version: str


class StatusList(Page[StatusRow]):
    """Counts of each cluster, and the version of OLM Web."""

    olmweb: ProductVersion


@router.get("/status", response=StatusList)
def list_status(request: HttpRequest, query: Query[StatusParameters]) -> HttpResponseBase:
    """Per cluster: how many operators are in which health, and the causes behind."""
    catalogs = list(Catalog.objects.order_by("id").values_list("id", "cluster", "state"))
    watched = list(ResourceWatch.objects.order_by("id").values_list("id", "state"))
    source = StoredRows(query.filter(Cluster.objects.all()), ("name", "id"), _status_rows)
    state = [_rows_state(), catalogs, watched]
    about = {"olmweb": {"version": settings.VERSION}}
    return answer_list(request, query, "status", StatusRow, source, state, about=about)


@router.get("/clusters", response=Page[ClusterRow])
def list_clusters(request: HttpRequest, query: Query[ListParameters]) -> HttpResponseBase:
    """Clusters, whether they can be reached and what they serve."""
    source = StoredRows(
        Cluster.objects.all(), ("name", "id"), lambda rows: [cluster_row(row) for row in rows]
    )
    return answer_list(request, query, "clusters", ClusterRow, source, _rows_state())


@router.get("/clusters/{name}", response=ClusterDetail)
def get_cluster(request: HttpRequest, name: str) -> HttpResponseBase:
    """One cluster with its watched resources: state, last event and error of each."""
    row = clusters.get_cluster(name)
    watched = watched_resources(row)
    return answer_one(
        request, (cluster_row(row), watched.resources), lambda: cluster_detail(row, watched)
    )


@router.get("/catalog-troubles", response=Page[CatalogTroubleRow])
def list_catalog_troubles(
    request: HttpRequest, query: Query[OnClusterParameters]
) -> HttpResponseBase:
    """CatalogSources without a connection and ClusterCatalogs that are not served: cause, remedy
    and the pods that do not run."""

    def rows() -> Iterator[Keyed]:
        for number, trouble in enumerate(catalog_troubles(clusters_named(query.cluster))):
            yield Keyed((trouble.catalog.cluster.name, number), catalog_trouble_row(trouble))

    source = ComputedRows(rows)
    state = [clusters_state()]
    return answer_list(request, query, "catalog-troubles", CatalogTroubleRow, source, state)


def clusters_named(names: Values) -> list[Cluster]:
    """The clusters with these names, all without any, in the order in which cursors compare their
    names, whatever the collation of the database."""
    rows = Cluster.objects.filter(name__in=names) if names else Cluster.objects.all()
    return sorted(rows, key=lambda cluster: cluster.name)


@router.get("/leftovers", response=Page[LeftoverRow])
def list_leftovers(request: HttpRequest, query: Query[OnClusterParameters]) -> HttpResponseBase:
    """Objects of operators that no longer exist, by operator in the order of their deletion."""

    def rows() -> Iterator[Keyed]:
        number = 0
        for owner in removed_owners(clusters_named(query.cluster)):
            for leftover in owner.leftovers:
                number += 1
                yield Keyed((owner.cluster, number), leftover_row(owner, leftover))

    read = list(ClusterInventory.objects.order_by("pk").values_list("pk", "read_at"))
    reports = list(CopyReport.objects.order_by("pk").values_list("pk", "state"))
    state = [clusters_state(), read, reports]
    return answer_list(request, query, "leftovers", LeftoverRow, ComputedRows(rows), state)


def _rows_state() -> list[ClusterRow]:
    """Few rows and many things that change: the state is what the rows say."""
    return [cluster_row(cluster) for cluster in Cluster.objects.order_by("id")]


def _status_rows(clusters: Sequence[Cluster]) -> list[StatusRow]:
    """Seven queries, however many clusters."""
    of = Q(cluster__in=[cluster.pk for cluster in clusters])
    operators = Operator.objects.filter(of).order_by()
    health = _tally(operators.values_list("cluster", "health").annotate(Count("id")))
    causes = operators.exclude(finding="").values_list("cluster", "finding")
    findings = _tally(causes.annotate(Count("id")))
    catalogs = Catalog.objects.filter(of).order_by().values_list("cluster", "state")
    states = _tally(catalogs.annotate(Count("id")))
    platform = _clusteroperator_counts(of)
    watches = ResourceWatch.objects.filter(of).order_by().values_list("cluster", "state")
    watched = _tally(watches.annotate(Count("id")))
    upgrades = dict(operators.filter(UPGRADABLE).values_list("cluster").annotate(Count("id")))
    crds = _crd_counts(of)
    titles = {entry.id: entry.title for entry in knowledge()}
    return [
        StatusRow(
            cluster=cluster.name,
            version=cluster.version,
            reachable=cluster.answers,
            removed=cluster.removed,
            stale=cluster.stale,
            synced_at=cluster.synced_at,
            operators={name: health[cluster.pk].get(name, 0) for name in Health.values},
            clusteroperators=platform.get(cluster.pk, dict.fromkeys(PLATFORM_COUNTS, 0)),
            catalogs={name: states[cluster.pk].get(name, 0) for name in Catalog.State.values},
            watched_resources={
                name: watched[cluster.pk].get(name, 0) for name in ResourceWatch.State.values
            },
            crds=crds.get(cluster.pk, {"total": 0, "problems": 0}),
            upgrades=upgrades.get(cluster.pk, 0),
            approvals=health[cluster.pk].get(Health.NEEDS_APPROVAL, 0),
            findings=[
                FindingCount(finding, titles.get(finding, finding), count)
                for finding, count in sorted(
                    findings[cluster.pk].items(), key=lambda item: (-item[1], item[0])
                )
            ],
        )
        for cluster in clusters
    ]


def _tally(rows: Any) -> dict[int, dict[str, int]]:
    """(cluster, value, count) triples as cluster to value to count."""
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for cluster, value, count in rows:
        counts[cluster][value] = count
    return counts


def _clusteroperator_counts(of: Q) -> dict[int, dict[str, int]]:
    counted = ClusterOperator.objects.filter(of).order_by().values_list("cluster")
    rows = counted.annotate(
        number=Count("id"),
        **{f"is_{name}": Count("id", filter=Q(**{name: "True"})) for name in PLATFORM_COUNTS[1:]},
    )
    return {cluster: dict(zip(PLATFORM_COUNTS, counts, strict=True)) for cluster, *counts in rows}


def _crd_counts(of: Q) -> dict[int, dict[str, int]]:
    rows = CRDState.objects.filter(of).order_by().values_list("cluster")
    counted = rows.annotate(total=Count("id"), problems=Count("id", filter=~Q(finding="")))
    return {pk: {"total": total, "problems": problems} for pk, total, problems in counted}
