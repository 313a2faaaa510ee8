"""InstallPlans of OLM v0 beside a Subscription: one to approve, several for one version."""

from collections.abc import Sequence
from dataclasses import dataclass

from installs.diagnosis import Approval, approval
from installs.diagnosis.reading import texts
from installs.models import Component, Operator
from installs.queries.detail import Parts, subscriptions_beside
from installs.state.observation import details_of, observe


@dataclass(frozen=True, slots=True)
class PendingPlan:
    """What approving an InstallPlan will change. `others` are ClusterServiceVersions of other
    operators that it carries along; `command` approves it."""

    approval: Approval
    others: tuple[str, ...]
    command: str


def pending_plan(operator: Operator, parts: Parts) -> PendingPlan | None:
    """The plan that waits for approval and is about this Subscription; one query when it does."""
    if operator.kind != "Subscription":
        return None
    for plan in parts.of_kind("InstallPlan"):
        if plan.phase != "RequiresApproval":
            continue
        beside = subscriptions_beside(operator, plan.namespace)
        found = approval(observe(plan), [observe(row) for row in beside])
        if found.needed:
            others = tuple(one.csv for one in found.others(operator.name))
            return PendingPlan(found, others, approve_command(plan))
    return None


def approve_command(plan: Component) -> str:
    return (
        f"kubectl -n {plan.namespace} patch installplan {plan.name} "
        '--type merge -p \'{"spec":{"approved":true}}\''
    )


@dataclass(frozen=True, slots=True)
class Repeated:
    """A ClusterServiceVersion that several InstallPlans list, the newest plan first."""

    csv: str
    plans: tuple[Component, ...]


def repeated_plans(operator: Operator, parts: Parts) -> list[Repeated]:
    """The operator's own versions that more than one InstallPlan of its namespace lists."""
    versions = {one.name for one in parts.components if one.kind == "ClusterServiceVersion"}
    versions |= {one.name for one in parts.absent if one.kind == "ClusterServiceVersion"}
    plans = [*parts.of_kind("InstallPlan"), *parts.others]
    found = [
        Repeated(
            csv, _newest_first([one for one in plans if csv in texts(details_of(one), "csvs")])
        )
        for csv in sorted(versions)
    ]
    return [one for one in found if len(one.plans) > 1]


def _newest_first(plans: Sequence[Component]) -> tuple[Component, ...]:
    def made(plan: Component) -> tuple[float, str]:
        return (plan.created_at.timestamp() if plan.created_at else 0.0, plan.name)

    return tuple(sorted(plans, key=made, reverse=True))
