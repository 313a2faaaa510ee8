"""What waits for a person: InstallPlans to approve, upgrades, CRDs that stand in the way."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from installs.models import Action, CRDState, Health, Operator
from installs.queries.crds import troubled_crds
from installs.state.observation import details_of
from olmweb.models import Cluster


@dataclass(frozen=True, slots=True)
class Approval:
    """An InstallPlan that waits for a person, and the operators that it is about."""

    cluster: str
    namespace: str
    name: str
    operators: tuple[Operator, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for a person or is under way."""

    actions: int
    upgrades: int
    approvals: tuple[Approval, ...]
    crds: tuple[CRDState, ...]


def waiting(
    clusters: Sequence[Cluster], *, upgrades: int, approvals: Sequence[Approval]
) -> Waiting:
    """These, the actions under way and the CRDs that will block an upgrade; two queries."""
    ids = [cluster.pk for cluster in clusters]
    return Waiting(
        actions=Action.objects.filter(cluster__in=ids, state__in=Action.OPEN).count(),
        upgrades=upgrades,
        approvals=tuple(approvals),
        crds=tuple(troubled_crds(clusters)),
    )


def approvals_of(cluster: str, operators: Sequence[Operator]) -> list[Approval]:
    """The InstallPlans that wait, each once however many operators it is about."""
    plans: dict[tuple[str, str], list[Operator]] = defaultdict(list)
    for row in operators:
        details = details_of(row)
        if row.health == Health.NEEDS_APPROVAL and details.get("plan"):
            namespace = str(details.get("plan_namespace") or row.namespace)
            plans[namespace, str(details["plan"])].append(row)
    return [
        Approval(cluster, namespace, name, tuple(rows))
        for (namespace, name), rows in sorted(plans.items())
    ]
