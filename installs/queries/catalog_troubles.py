"""Catalogs that controllers have no connection to or that are not served, with cause and remedy."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Count, Q

from installs.diagnosis.catalog_pods import FAILING, REPORT, catalogd_line
from installs.diagnosis.evaluate import ReportedMessage, evaluate, finding_of
from installs.diagnosis.knowledge import Finding
from installs.diagnosis.resolution import connection_error
from installs.diagnosis.states import BROKEN, State
from installs.models import ClusterInventory, Component, Operator, OperatorReference
from installs.state.observation import observe
from olmweb.kube.fields import items
from olmweb.kube.resources import CATALOG_SOURCES, CLUSTER_CATALOGS, SUBSCRIPTIONS
from olmweb.models import Cluster

CLUSTER_CATALOG = CLUSTER_CATALOGS.kind
KINDS = (CATALOG_SOURCES.kind, CLUSTER_CATALOG)
CATALOGD_DOWN = "CatalogdUnavailable"  # state: of OLM Web itself, no condition has it


@dataclass(frozen=True, slots=True)
class CatalogTrouble:
    """A CatalogSource or ClusterCatalog that is down.

    `state` is the reason or the state of the connection; `message` what decided the finding; `pods`
    the containers of its pods, or of catalogd's, that do not run, as installs.state.pods stores
    them; `operators` how many operators name the catalog.
    """

    catalog: Component
    state: str
    message: str
    finding: Finding | None
    pods: tuple[dict[str, Any], ...]
    operators: int


def catalog_troubles(clusters: Sequence[Cluster]) -> list[CatalogTrouble]:
    """The catalogs of these clusters that are down, by cluster and name; three queries, and one
    more for those whose pods do not say why."""
    rows = Component.objects.filter(cluster__in=clusters, kind__in=KINDS)
    order = ("cluster__name", "namespace", "name", "kind")
    return list(_troubles(rows.select_related("cluster").order_by(*order)))


def catalog_trouble(
    cluster: Cluster, kind: str, namespace: str, name: str
) -> CatalogTrouble | None:
    """The trouble of one catalog; None if it is served, or not stored. At most four queries."""
    rows = Component.objects.filter(cluster=cluster, kind=kind, namespace=namespace, name=name)
    return next(_troubles(rows.select_related("cluster")), None)


def _troubles(rows: Any) -> Iterator[CatalogTrouble]:
    listed = [(row, obj, evaluate(obj)) for row in rows for obj in (observe(row),)]
    reports = _resolver_reports(
        row
        for row, _, verdict in listed
        if row.kind == CATALOG_SOURCES.kind
        and verdict.state in BROKEN
        and verdict.message
        and not verdict.message.startswith(FAILING)
    )
    of_v1 = {row.cluster_id for row, _, _ in listed if row.kind == CLUSTER_CATALOG}
    catalogds = _catalogds(of_v1) if of_v1 else {}
    down = []
    for row, obj, verdict in listed:
        catalogd = catalogds.get(row.cluster_id, {}) if row.kind == CLUSTER_CATALOG else {}
        line = catalogd_line(catalogd)
        # The conditions are those from before: nothing else writes them.
        if line and verdict.state is not State.BLOCKED:
            down.append((row, obj, CATALOGD_DOWN, line, items(catalogd, "pods")))
        elif verdict.state in BROKEN:
            if report := reports.get(row.pk):
                obj = replace(obj, details={**obj.details, REPORT: report})
                verdict = evaluate(obj)
            message = verdict.message or verdict.reason
            down.append((row, obj, verdict.reason, message, items(row.details, "pods")))
    counts = _operators([row for row, *_ in down])
    for row, obj, reason, message, pods in down:
        yield CatalogTrouble(
            catalog=row,
            state=reason,
            message=message,
            finding=finding_of(obj, [ReportedMessage.of(obj, message)]),
            pods=tuple(dict(pod) for pod in pods),
            operators=counts.get((row.cluster_id, row.kind, row.namespace, row.name), 0),
        )


def _resolver_reports(catalogs: Iterable[Component]) -> dict[int, str]:
    """Catalog -> the error of its connection, which no CatalogSource has and the resolver writes to
    every Subscription that the catalog stops. One query, none without catalogs."""
    by_name = {(row.cluster_id, row.namespace, row.name): row.pk for row in catalogs}
    named = Q()
    for cluster, namespace, name in by_name:
        named |= Q(cluster=cluster, message__contains=f"catalogsource {namespace}/{name}: ")
    if not named:
        return {}
    rows = Operator.objects.filter(named, kind=SUBSCRIPTIONS.kind).order_by("-since", "id")
    reports: dict[int, str] = {}
    for cluster, message in rows.values_list("cluster", "message"):
        if error := connection_error(message):
            namespace, name, words = error
            if (key := by_name.get((cluster, namespace, name))) is not None:
                reports.setdefault(key, words)
    return reports


def _catalogds(clusters: Collection[int]) -> dict[int, dict[str, Any]]:
    """Cluster -> the Deployment of catalogd, as installs.facts.inventory read it last."""
    rows = ClusterInventory.objects.filter(cluster__in=clusters)
    return {key: value or {} for key, value in rows.values_list("cluster", "catalogd")}


def _operators(catalogs: Sequence[Component]) -> dict[tuple[int, str, str, str], int]:
    named = Q()
    for row in catalogs:
        named |= Q(cluster=row.cluster_id, kind=row.kind, namespace=row.namespace, name=row.name)
    if not named:
        return {}
    rows = OperatorReference.objects.filter(named).order_by()
    counted = rows.values_list("cluster", "kind", "namespace", "name").annotate(Count("operator"))
    return {(cluster, kind, namespace, name): n for cluster, kind, namespace, name, n in counted}
