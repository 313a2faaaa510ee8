"""How the update of each cluster itself stands, and what is in its way."""

from collections.abc import Sequence
from dataclasses import dataclass

from installs.diagnosis import read_conditions
from installs.models import ClusterOperator, Component
from installs.state.observation import details_of


@dataclass(frozen=True, slots=True)
class Blocker:
    """Something that stands in the way of an update of the cluster itself, in its own words."""

    kind: str
    name: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ClusterUpdate:
    """How the ClusterVersion stands; `desired` is another version while an update runs."""

    version: str
    desired: str
    available: tuple[str, ...]
    blockers: tuple[Blocker, ...]
    failing: str


def cluster_versions(ids: Sequence[int]) -> dict[int, Component]:
    """The ClusterVersion of each of these clusters that has one; one query."""
    rows = Component.objects.filter(cluster__in=ids, kind="ClusterVersion").order_by("-name")
    return {row.cluster_id: row for row in rows}


def update_of(
    row: Component | None, cluster_operators: Sequence[ClusterOperator]
) -> ClusterUpdate | None:
    """From the ClusterVersion and from the ClusterOperators that say Upgradeable=False."""
    if row is None:
        return None
    details = details_of(row)
    available = details.get("available")
    conditions = {one.type: one for one in read_conditions(row.conditions)}
    blockers = [
        Blocker("ClusterOperator", one.name, told.reason, told.message)
        for one in cluster_operators
        for told in read_conditions(one.conditions)
        if told.type == "Upgradeable" and told.status == "False"
    ]
    own = conditions.get("Upgradeable")
    if own and own.status == "False" and not blockers:  # it repeats what they say
        blockers.append(Blocker("ClusterVersion", row.name, own.reason, own.message))
    refused = conditions.get("ReleaseAccepted")
    if refused and refused.status == "False":
        blockers.append(Blocker("ClusterVersion", row.name, refused.reason, refused.message))
    failing = conditions.get("Failing")
    return ClusterUpdate(
        version=str(details.get("version") or ""),
        desired=str(details.get("desired") or ""),
        available=tuple(str(one) for one in available) if isinstance(available, list) else (),
        blockers=tuple(blockers),
        failing=failing.message if failing and failing.status == "True" else "",
    )
