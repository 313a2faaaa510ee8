"""What the REST API says about clusters and what they run: shapes and how rows become them.

The dataclasses are the interface: their fields are the JSON keys, the CSV columns and the OpenAPI
document. Findings and chains are rendered from stored rows by the diagnosis. Knows no HTTP.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from catalogs.api_rows import ErrorText, error_text, shallow
from installs.diagnosis import finding_for
from installs.models import (
    Action,
    ClusterOperator,
    ClusterOperatorMember,
    Component,
    Operator,
    Transition,
)
from installs.observe import diagnose_row
from olmweb.models import Cluster


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """`kinds`: what was read of each kind, and whether the cluster serves it."""

    cluster: str
    server: str
    version: str
    reachable: bool | None
    stale: bool
    kinds: dict[str, Any]
    error: ErrorText | None
    unreachable_since: datetime | None
    synced_at: datetime | None
    checked_at: datetime | None
    revision: int


@dataclass(frozen=True, slots=True)
class FindingCount:
    id: str
    title: str
    count: int


@dataclass(frozen=True, slots=True)
class StatusRow:
    """`operators` counts by health, `catalogs` by state; `clusteroperators` counts how many are
    there, available, progressing and degraded."""

    cluster: str
    version: str
    reachable: bool | None
    stale: bool
    synced_at: datetime | None
    operators: dict[str, int]
    clusteroperators: dict[str, int]
    catalogs: dict[str, int]
    findings: list[FindingCount]


@dataclass(frozen=True, slots=True)
class FindingRow:
    id: str
    title: str
    cause: str
    remedy: list[str]
    retryable: bool


@dataclass(frozen=True, slots=True)
class OperatorRow:
    cluster: str
    kind: str
    namespace: str
    name: str
    package: str
    catalog: str
    channel: str
    version: str
    bundle: str
    health: str
    reason: str
    message: str
    finding: FindingRow | None
    since: datetime | None
    observed_at: datetime
    deprecated: bool
    upgrade: str


@dataclass(frozen=True, slots=True)
class LinkRow:
    kind: str
    namespace: str
    name: str
    state: str
    reason: str
    message: str
    first_broken: bool


@dataclass(frozen=True, slots=True)
class TransitionRow:
    """`type` is a condition's, or Object (appeared, deleted), or Health. `at`: when we saw it."""

    cluster: str
    kind: str
    namespace: str
    name: str
    type: str
    from_status: str
    from_reason: str
    to_status: str
    to_reason: str
    message: str
    at: datetime


@dataclass(frozen=True, slots=True)
class OperatorDetail(OperatorRow):
    conditions: list[Any]
    chain: list[LinkRow]
    events: list[Any]
    transitions: list[TransitionRow]


@dataclass(frozen=True, slots=True)
class ClusterOperatorRow:
    """`problem`: how its message and the PlatformOperators disagree; empty when they don't."""

    cluster: str
    name: str
    version: str
    available: str
    progressing: str
    degraded: str
    upgradeable: str
    reason: str
    message: str
    aggregated: bool
    problem: str
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class OperatorRef:
    cluster: str
    kind: str
    namespace: str
    name: str
    health: str


@dataclass(frozen=True, slots=True)
class MemberRow:
    name: str
    reason: str
    operator: OperatorRef | None
    finding: FindingRow | None


@dataclass(frozen=True, slots=True)
class ClusterOperatorDetail(ClusterOperatorRow):
    conditions: list[Any]
    members: list[MemberRow]


@dataclass(frozen=True, slots=True)
class ActionRow:
    id: int
    cluster: str
    verb: str
    path: str
    package: str
    catalog: str
    state: str
    as_user: str
    manifests: list[Any]
    dry_run: dict[str, Any]
    outcome: str
    object: dict[str, str]
    created_at: datetime
    finished_at: datetime | None


def cluster_row(cluster: Cluster) -> ClusterRow:
    return ClusterRow(
        cluster=cluster.name,
        server=cluster.server,
        version=cluster.version,
        reachable=cluster.reachable,
        stale=cluster.stale,
        kinds=cluster.kinds,
        error=error_text(cluster.error_code, cluster.error_text, cluster.error_hint),
        unreachable_since=cluster.unreachable_since,
        synced_at=cluster.synced_at,
        checked_at=cluster.checked_at,
        revision=cluster.revision,
    )


def finding_row(operator: Operator) -> FindingRow | None:
    """The stored finding with this object's names filled into its remedy; null when none."""
    if not operator.finding:
        return None
    names = {
        "name": operator.name,
        "namespace": operator.namespace,
        "kind": operator.kind,
        "package": operator.package,
    }
    facts = {str(key): str(value) for key, value in operator.facts.items()}
    finding = finding_for(operator.finding, facts, names)
    if finding is None:  # stored by a release whose knowledge had another id
        return FindingRow(operator.finding, operator.finding, "", [], retryable=False)
    return FindingRow(
        id=finding.id,
        title=finding.title,
        cause=finding.cause,
        remedy=list(finding.remedy),
        retryable=finding.retryable,
    )


def operator_row(operator: Operator) -> OperatorRow:
    """`operator` comes with its cluster."""
    return OperatorRow(
        cluster=operator.cluster.name,
        kind=operator.kind,
        namespace=operator.namespace,
        name=operator.name,
        package=operator.package,
        catalog=operator.catalog,
        channel=operator.channel,
        version=operator.version,
        bundle=operator.bundle,
        health=operator.health,
        reason=operator.reason,
        message=operator.message,
        finding=finding_row(operator),
        since=operator.since,
        observed_at=operator.observed_at,
        deprecated=operator.deprecated,
        upgrade=operator.upgrade,
    )


def operator_detail(
    operator: Operator, components: Iterable[Component], transitions: Iterable[Transition]
) -> OperatorDetail:
    chain = diagnose_row(operator, components).chain
    return OperatorDetail(
        **shallow(operator_row(operator)),
        conditions=operator.conditions,
        chain=[LinkRow(**shallow(link)) for link in chain],
        events=[],  # Kubernetes Events are not read yet; the key is part of the interface
        transitions=[transition_row(one) for one in transitions],
    )


def transition_row(transition: Transition) -> TransitionRow:
    """`transition` comes with its cluster."""
    return TransitionRow(
        cluster=transition.cluster.name,
        kind=transition.kind,
        namespace=transition.namespace,
        name=transition.name,
        type=transition.type,
        from_status=transition.from_status,
        from_reason=transition.from_reason,
        to_status=transition.to_status,
        to_reason=transition.to_reason,
        message=transition.message,
        at=transition.at,
    )


def clusteroperator_row(row: ClusterOperator) -> ClusterOperatorRow:
    """`row` comes with its cluster."""
    return ClusterOperatorRow(
        cluster=row.cluster.name,
        name=row.name,
        version=row.version,
        available=row.available,
        progressing=row.progressing,
        degraded=row.degraded,
        upgradeable=row.upgradeable,
        reason=row.reason,
        message=row.message,
        aggregated=row.aggregated,
        problem=row.problem,
        observed_at=row.observed_at,
    )


def clusteroperator_detail(
    row: ClusterOperator, members: Iterable[ClusterOperatorMember]
) -> ClusterOperatorDetail:
    """`members` come with their operator and its cluster."""
    return ClusterOperatorDetail(
        **shallow(clusteroperator_row(row)),
        conditions=row.conditions,
        members=[
            MemberRow(
                name=member.name,
                reason=member.reason,
                operator=_reference(member.operator) if member.operator else None,
                finding=finding_row(member.operator) if member.operator else None,
            )
            for member in members
        ],
    )


def _reference(operator: Operator) -> OperatorRef:
    return OperatorRef(
        cluster=operator.cluster.name,
        kind=operator.kind,
        namespace=operator.namespace,
        name=operator.name,
        health=operator.health,
    )


def action_row(action: Action) -> ActionRow:
    """`action` comes with its cluster."""
    return ActionRow(
        id=action.pk,
        cluster=action.cluster.name,
        verb=action.verb,
        path=action.path,
        package=action.package,
        catalog=action.catalog,
        state=action.state,
        as_user=action.as_user,
        manifests=action.manifests,
        dry_run=action.dry_run,
        outcome=action.outcome,
        object={"kind": action.path, "namespace": action.namespace, "name": action.name},
        created_at=action.created_at,
        finished_at=action.finished_at,
    )
