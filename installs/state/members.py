"""The aggregated ClusterOperator and the PlatformOperators that its message lists."""

from collections.abc import Iterable
from typing import Any

from installs.diagnosis.aggregated import NAME, Member, disagreement, parse_members
from installs.models import ClusterOperator, ClusterOperatorMember, Operator
from installs.state.store import BATCH, Delta
from olmweb.kube.conditions import find, status_of, text


def is_told(operators: Delta) -> bool:
    """Whether any ClusterOperator that these changes touched lists members, or did so before."""
    for key in operators.touched:
        before, after = operators.before.get(key), operators.changed.get(key)
        told = (before.conditions if before else [], after.conditions if after else [])
        if key[2] == NAME or any(_members_in(conditions) for conditions in told):
            return True
    return False


def update_members(cluster_id: int, *, comparable: bool) -> tuple[int, int]:
    """Brings members and the sentence on disagreement to what the rows say.

    `comparable`: the PlatformOperators are known; without them there is nothing to compare. Returns
    (ClusterOperators written, members written or deleted).
    """
    rows = list(ClusterOperator.objects.filter(cluster_id=cluster_id, aggregated=True))
    told = {row.pk: _members_in(row.conditions) for row in rows}
    written = 0
    if rows:
        failing = _failing(cluster_id) if comparable else set()
        for row in rows:
            problem = disagreement(told[row.pk], failing) if comparable else ""
            if problem != row.problem:
                ClusterOperator.objects.filter(pk=row.pk).update(problem=problem)
                written += 1
    return written, _join_members(cluster_id, told.items())


def _members_in(conditions: list[dict[str, Any]]) -> tuple[Member, ...]:
    return parse_members(text(find(conditions, "Available"), "message"))


def _failing(cluster_id: int) -> set[str]:
    rows = Operator.objects.filter(cluster_id=cluster_id, kind="PlatformOperator").order_by()
    return {
        name
        for name, conditions in rows.values_list("name", "conditions")
        if status_of(conditions, "Installed") != "True"
    }


def _join_members(cluster_id: int, told: Iterable[tuple[int, tuple[Member, ...]]]) -> int:
    wanted = {(pk, one.name[:253]): one.reason for pk, members in told for one in members}
    stored = {
        (row.cluster_operator_id, row.name): row
        for row in ClusterOperatorMember.objects.filter(cluster_operator__cluster_id=cluster_id)
    }
    if not wanted and not stored:
        return 0
    operators = dict(
        Operator.objects.filter(
            cluster_id=cluster_id,
            kind="PlatformOperator",
            name__in={name for _, name in wanted},
        ).values_list("name", "id")
    )
    rows = [
        ClusterOperatorMember(
            cluster_operator_id=parent, name=name, reason=reason, operator_id=operators.get(name)
        )
        for (parent, name), reason in wanted.items()
        if (old := stored.get((parent, name))) is None
        or (old.reason, old.operator_id) != (reason, operators.get(name))
    ]
    ClusterOperatorMember.objects.bulk_create(
        rows,
        batch_size=BATCH,
        update_conflicts=True,
        unique_fields=["cluster_operator", "name"],
        update_fields=["reason", "operator"],
    )
    gone = [row.pk for key, row in stored.items() if key not in wanted]
    if gone:
        ClusterOperatorMember.objects.filter(pk__in=gone).delete()
    return len(rows) + len(gone)
