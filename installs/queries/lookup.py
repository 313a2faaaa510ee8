"""Operators, ClusterOperators, InstallPlans, actions, bulk installs and requests by the names or
numbers that URLs use.

Every function raises `Missing`, with one code for each kind of thing, for a name or
number that matches no row.
"""

from typing import TypeVar

from django.db.models import Count, IntegerField, Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from installs.models import (
    NEEDS_ATTENTION,
    Action,
    ActionBatch,
    ClusterOperator,
    Component,
    InstallRequest,
    Operator,
)
from installs.queries.activity import recorded_routes
from olmweb.clusters import get_cluster
from olmweb.errors import Missing

NO_NAMESPACE = "-"
Row = TypeVar("Row", bound=Model)


def get_operator(cluster: str, kind: str, namespace: str, name: str) -> Operator:
    """The operator, with its cluster; one query. NO_NAMESPACE stands for none.

    Annotations: `same_cause`, the number of other operators that need attention for the same
    finding; `open_action_id`, of its newest unfinished action or None; `route`, the newest recorded
    route of its package in its namespace.
    """
    actions = Action.objects.filter(
        cluster=OuterRef("cluster"),
        path=OuterRef("kind"),
        namespace=OuterRef("namespace"),
        name=OuterRef("name"),
        state__in=Action.OPEN,
    )
    routes = Action.objects.filter(
        cluster=OuterRef("cluster"), namespace=OuterRef("namespace"), package=OuterRef("package")
    )
    others = (
        Operator.objects.filter(finding=OuterRef("finding"), health__in=NEEDS_ATTENTION)
        .exclude(finding="")
        .exclude(pk=OuterRef("pk"))
        .order_by()
        .values("finding")
        .annotate(number=Count("pk", output_field=IntegerField()))
        .values("number")
    )
    operator = (
        Operator.objects.select_related("cluster")
        .annotate(
            same_cause=Coalesce(Subquery(others), 0),
            open_action_id=Subquery(actions.order_by("-created_at", "-pk").values("pk")[:1]),
            route=Subquery(recorded_routes(routes).values("route")[:1]),
        )
        .filter(
            cluster__name=cluster,
            kind=kind,
            namespace="" if namespace == NO_NAMESPACE else namespace,
            name=name,
        )
        .first()
    )
    if operator is None:
        raise Missing(
            f"There is no {kind[:80]} {name[:120]} on cluster {get_cluster(cluster)}.",
            code="unknown-operator",
            hint="It may have been removed; Activity and the operators list show what is there.",
        )
    return operator


def get_clusteroperator(cluster: str, name: str) -> ClusterOperator:
    """The ClusterOperator, with its cluster; one query."""
    rows = ClusterOperator.objects.select_related("cluster")
    row = rows.filter(cluster__name=cluster, name=name).first()
    if row is None:
        raise Missing(
            f"There is no ClusterOperator {name[:120]} on cluster {get_cluster(cluster)}.",
            code="unknown-clusteroperator",
            hint="The list of cluster operators shows what is there.",
        )
    return row


def get_install_plan(cluster: str, namespace: str, name: str) -> Component:
    """The InstallPlan, with its cluster; one query."""
    rows = Component.objects.select_related("cluster").filter(kind="InstallPlan")
    plan = rows.filter(cluster__name=cluster, namespace=namespace, name=name).first()
    if plan is None:
        raise Missing(
            f"There is no InstallPlan {name[:120]} in namespace {namespace[:80]} of cluster "
            f"{get_cluster(cluster)}.",
            code="unknown-plan",
            hint="It may have been replaced by a newer one.",
        )
    return plan


def get_action(pk: int) -> Action:
    """The action, with its cluster and user; one query."""
    rows = Action.objects.select_related("cluster", "user")
    return _numbered(rows, pk, "action", "unknown-action", "Old actions")


def get_batch(pk: int) -> ActionBatch:
    """The batch of a bulk action, with its cluster and user; one query."""
    rows = ActionBatch.objects.select_related("cluster", "user")
    return _numbered(rows, pk, "bulk action", "unknown-batch", "Old ones")


def get_request(pk: int) -> InstallRequest:
    """The install request with its related rows; one query."""
    rows = InstallRequest.objects.select_related(
        "cluster", "catalog", "catalog__cluster", "user", "decided_by", "rule", "action"
    )
    return _numbered(rows, pk, "request", "unknown-request", "Old requests")


def _numbered(rows: QuerySet[Row], pk: int, noun: str, code: str, deleted: str) -> Row:
    row = rows.filter(pk=pk).first() if pk < 2**63 else None
    if row is None:
        raise Missing(
            f"There is no {noun} {pk}.",
            code=code,
            hint=f"{deleted} are deleted after the retention time; Activity lists the rest.",
        )
    return row
