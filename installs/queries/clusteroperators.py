"""Reads behind the cluster operators pages."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, F, IntegerField, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from installs.diagnosis.aggregated import (
    Explanation,
    Member,
    PlatformOperatorStatus,
    explain_aggregated,
    explain_impact,
    external_remedy,
)
from installs.diagnosis.types import read_conditions
from installs.models import ClusterOperator, ClusterOperatorMember, Operator
from installs.queries import narrow, search
from installs.queries.operator_index import CauseFacts
from installs.queries.operators import cause_title
from olmweb.kube.conditions import status_of
from olmweb.web.tables import Column, Table

CLUSTEROPERATORS = Table(
    "clusteroperators",
    "Cluster operators",
    "installs:clusteroperators",
    (
        Column("name", "Name", fixed=True),
        Column("cluster", "Cluster", keys=("cluster__name",)),
        Column("version", "Version", initial=False),
        Column(
            "conditions",
            "Conditions",
            keys=("calm", "cluster__name"),
            exported=("available", "progressing", "degraded", "upgradeable"),
        ),
        Column("why", "Why", keys=("reason",), exported=("reason", "message")),
    ),
    sorted_by="conditions",
)
_SHOWN = (
    *("name", "version", "digest", "conditions", "available", "progressing", "degraded"),
    *("upgradeable", "reason", "message", "aggregated", "problem", "severity"),
)
_STATE_FILTER = {
    "unavailable": Q(available="False"),
    "degraded": Q(degraded="True"),
    "progressing": Q(progressing="True"),
    "blocked": Q(upgradeable="False"),
}


@dataclass(frozen=True, slots=True)
class MemberGroup:
    """Members of the aggregated ClusterOperator with one cause."""

    id: str
    title: str
    members: tuple[ClusterOperatorMember, ...]


def clusteroperators_matching(
    *, cluster: str = "", state: str = "", q: str = ""
) -> QuerySet[ClusterOperator]:
    """ClusterOperators with their cluster; the worst have the least `calm`."""
    rows = ClusterOperator.objects.select_related("cluster").annotate(calm=Value(9) - F("severity"))
    rows = narrow(rows, cluster__name=cluster)
    if state:
        rows = rows.filter(_STATE_FILTER[state])
    return search(rows, q, "name", "message")


def shown_on_page(rows: QuerySet[ClusterOperator]) -> QuerySet[ClusterOperator]:
    """The fields that the list shows, with `member_count`, which is counted for the rows of the
    page alone: grouping all rows by their members took most of the time of the page."""
    members = ClusterOperatorMember.objects.filter(cluster_operator=OuterRef("pk")).order_by()
    counted = members.values("cluster_operator").annotate(number=Count("pk")).values("number")
    return rows.only("cluster__name", "cluster__version", *_SHOWN).annotate(
        member_count=Coalesce(Subquery(counted, IntegerField()), 0)
    )


def members_of(row: ClusterOperator) -> list[MemberGroup]:
    """Its members grouped by our finding, else by reason, most members first; one query."""
    groups: dict[tuple[str, str], list[ClusterOperatorMember]] = {}
    for member in row.members.select_related("operator", "operator__cluster").order_by("name"):
        finding = member.operator.finding if member.operator else ""
        groups.setdefault((finding, "" if finding else member.reason), []).append(member)
    member_groups = [
        MemberGroup(finding, _title(finding, reason, members), tuple(members))
        for (finding, reason), members in groups.items()
    ]
    return sorted(member_groups, key=lambda group: (-len(group.members), group.title))


def _title(finding: str, reason: str, members: Sequence[ClusterOperatorMember]) -> str:
    """The title that the page of causes has for these operators."""
    operators = [member.operator for member in members if member.operator]
    facts = [CauseFacts(finding, row.reason, row.kind, row.facts) for row in operators]
    return cause_title(finding, reason, facts)


def explanation_of(row: ClusterOperator, groups: Sequence[MemberGroup]) -> Explanation:
    """The aggregated ClusterOperator explained from its members and the PlatformOperators of its
    cluster; one query.
    """
    titles = {member.name: group.title for group in groups if group.id for member in group.members}
    members = [Member(member.name, member.reason) for group in groups for member in group.members]
    rows = Operator.objects.filter(cluster=row.cluster_id, kind="PlatformOperator").values_list(
        "name", "conditions", "reason", "since"
    )
    itself = [
        PlatformOperatorStatus(
            name=name,
            installed=status_of(conditions, "Installed") == "True",
            reason=reason,
            cause=titles.get(name, ""),
            since=since,
        )
        for name, conditions, reason, since in rows
    ]
    return explain_aggregated(read_conditions(row.conditions), members, itself)


def impact_of(row: ClusterOperator) -> tuple[str, str]:
    """Two sentences: the operations that it blocks and those that it does not."""
    return explain_impact(read_conditions(row.conditions))


def remedy_of(row: ClusterOperator) -> tuple[str, ...]:
    """Steps and commands outside of this console; empty for a ClusterOperator of OLM."""
    return external_remedy(row.name, read_conditions(row.conditions))


def reasons_of(row: ClusterOperator) -> dict[str, str]:
    """Condition type -> its reason, and its message where it has no reason."""
    conditions = read_conditions(row.conditions)
    return {condition.type: condition.reason or condition.message[:200] for condition in conditions}
