"""Reads about CustomResourceDefinitions: those that will block an upgrade first."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Case, IntegerField, QuerySet, Value, When

from installs.diagnosis.knowledge import Finding, finding_for
from installs.models import CRDState
from installs.queries import narrow, search
from olmweb.models import Cluster
from olmweb.web.pagination import KeysetPage, paginate


@dataclass(frozen=True, slots=True)
class OwnedCRD:
    """A CustomResourceDefinition with what is wrong with it.

    `owner` is a package when `owner_kind` is Subscription, else the name of an operator; it is only
    words, without a page, when `owner_kind` is empty.
    """

    row: CRDState
    finding: Finding | None
    owner: str
    owner_kind: str
    owner_namespace: str


def crds_matching(*, cluster: str = "", q: str = "", finding: str = "") -> QuerySet[CRDState]:
    """CustomResourceDefinitions with their cluster; `calm` is 0 for those with a finding."""
    rows = CRDState.objects.select_related("cluster").annotate(
        calm=Case(When(finding="", then=Value(1)), default=Value(0), output_field=IntegerField())
    )
    rows = narrow(rows, cluster__name=cluster)
    if finding:
        rows = rows.filter(finding="" if finding == "-" else finding)
    return search(rows, q, "name", "served_kind", "owner_name")


def crd_page(
    *, cluster: str = "", q: str = "", problems: bool = False, cursor: str = ""
) -> KeysetPage[CRDState]:
    """One page, those with a finding first; two queries. Raises BadCursor."""
    rows = crds_matching(cluster=cluster, q=q)
    if problems:
        rows = rows.exclude(finding="")
    return paginate(rows, ("calm", "cluster__name", "name", "pk"), cursor=cursor)


def crd_finding(row: CRDState) -> Finding | None:
    """The finding with the name of the definition in its commands."""
    if not row.finding:
        return None
    facts = {str(key): str(value) for key, value in row.facts.items()}
    return finding_for(row.finding, facts, {"kind": row.kind, "name": row.name})


def crd_row(row: CRDState) -> OwnedCRD:
    """The row of the page for one definition."""
    kind, namespace, name = row.owner_kind, row.owner_namespace, row.owner_name
    if kind == "Operator":  # OLM's own grouping, called PACKAGE.NAMESPACE
        name, _, namespace = name.rpartition(".")
        kind = "Subscription"
    elif kind == "BundleDeployment" and name:
        kind, namespace = "PlatformOperator", ""
    elif kind != "ClusterExtension" or not name:
        kind = ""
    return OwnedCRD(row, crd_finding(row), name, kind, namespace)


def troubled_crds(clusters: Sequence[Cluster]) -> list[CRDState]:
    """Those with a finding on these clusters; one query."""
    rows = CRDState.objects.select_related("cluster").exclude(finding="")
    return list(rows.filter(cluster__in=[cluster.pk for cluster in clusters])[:200])
