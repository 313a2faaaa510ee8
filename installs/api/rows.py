"""What the REST API says about clusters and what they run: shapes and how rows become them.

The dataclasses are the interface: their fields are the JSON keys, the CSV columns and the OpenAPI
document. Findings and chains are rendered from stored rows by the diagnosis. Knows no HTTP.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from catalogs.api.rows import ErrorText, error_text, shallow
from installs.diagnosis import Finding
from installs.diagnosis.aggregated import Explanation
from installs.models import (
    Action,
    ClusterOperator,
    CRDState,
    InstallRequest,
    Operator,
    Transition,
)
from installs.queries.clusteroperators import MemberGroup, impact_of
from installs.queries.crds import crd_finding
from installs.queries.operators import finding_of
from installs.queries.watched_resources import Freshness
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
class FeedRow:
    """How the reading of one feed stands; `objects` is null but for the first feed of a kind."""

    feed: str
    kind: str
    state: str
    error: str
    heard_at: datetime | None
    listed_at: datetime | None
    lists: int
    watches: int
    objects: int | None


@dataclass(frozen=True, slots=True)
class ClusterDetail(ClusterRow):
    """`missing_rules`: YAML of the RBAC rules that OLM Web lacks, empty when it lacks none."""

    feeds: list[FeedRow]
    missing_rules: str


@dataclass(frozen=True, slots=True)
class FindingCount:
    id: str
    title: str
    count: int


@dataclass(frozen=True, slots=True)
class StatusRow:
    """`operators` counts by health, `catalogs` and `feeds` by state; `clusteroperators` counts how
    many are there, available, progressing and degraded. `upgrades`: operators with another version
    to take; `approvals`: operators whose InstallPlan waits; `crds`: all, and those with a problem.
    """

    cluster: str
    version: str
    reachable: bool | None
    stale: bool
    synced_at: datetime | None
    operators: dict[str, int]
    clusteroperators: dict[str, int]
    catalogs: dict[str, int]
    feeds: dict[str, int]
    crds: dict[str, int]
    upgrades: int
    approvals: int
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
    upgrade_held: str


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
    """`blocks`, `leaves`: sentences on what it blocks and what not. `age` says which is newer, its
    message or the PlatformOperators, where they differ; `remarks` what its conditions don't mean.
    """

    conditions: list[Any]
    members: list[MemberRow]
    blocks: str
    leaves: str
    age: str
    remarks: list[str]


@dataclass(frozen=True, slots=True)
class CRDRow:
    """A CustomResourceDefinition. `stored` are its storedVersions; `owner` is null when its labels
    name nobody."""

    cluster: str
    name: str
    group: str
    kind: str
    stored: list[Any]
    served: list[Any]
    defined: list[Any]
    owner: dict[str, str] | None
    finding: FindingRow | None
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class RequestRow:
    id: int
    cluster: str
    path: str
    package: str
    catalog: str
    version: str
    bundle: str
    object: dict[str, str]
    reason: str
    user: str
    state: str
    decided_by: str
    word: str
    action: int | None
    created_at: datetime
    decided_at: datetime | None


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


def cluster_detail(cluster: Cluster, found: Freshness) -> ClusterDetail:
    return ClusterDetail(
        **shallow(cluster_row(cluster)),
        feeds=[
            FeedRow(
                feed=feed.name,
                kind=feed.kind,
                state=feed.state,
                error=feed.error,
                heard_at=feed.heard_at,
                listed_at=feed.listed_at,
                lists=feed.lists,
                watches=feed.watches,
                objects=feed.objects,
            )
            for feed in found.feeds
        ],
        missing_rules=found.rule,
    )


def finding_row(operator: Operator) -> FindingRow | None:
    """The stored finding with this object's names filled into its remedy; null when none."""
    return _finding_row(operator.finding, finding_of(operator))


def _finding_row(id: str, finding: Finding | None) -> FindingRow | None:
    if not id:
        return None
    if finding is None:  # stored by a release whose knowledge had another id
        return FindingRow(id, id, "", [], retryable=False)
    return told(finding)


def told(finding: Finding) -> FindingRow:
    return FindingRow(
        id=finding.id,
        title=finding.title,
        cause=finding.cause,
        remedy=list(finding.remedy),
        retryable=finding.retryable,
    )


def crd_row(row: CRDState) -> CRDRow:
    """`row` comes with its cluster."""
    owner = {"kind": row.owner_kind, "namespace": row.owner_namespace, "name": row.owner_name}
    return CRDRow(
        cluster=row.cluster.name,
        name=row.name,
        group=row.group,
        kind=row.served_kind,
        stored=row.stored,
        served=row.served,
        defined=row.defined,
        owner=owner if row.owner_name else None,
        finding=_finding_row(row.finding, crd_finding(row)),
        observed_at=row.observed_at,
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
        upgrade_held=operator.upgrade_held,
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
    row: ClusterOperator, groups: Sequence[MemberGroup], explanation: Explanation | None
) -> ClusterOperatorDetail:
    """`groups` and `explanation` are those of installs.queries.clusteroperators."""
    blocks, leaves = impact_of(row)
    members = sorted((one for group in groups for one in group.members), key=lambda one: one.name)
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
        blocks=blocks,
        leaves=leaves,
        age=explanation.age if explanation else "",
        remarks=list(explanation.remarks) if explanation else [],
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


def request_row(asked: InstallRequest) -> RequestRow:
    """`asked` comes with its cluster and both people."""
    return RequestRow(
        id=asked.pk,
        cluster=asked.cluster.name,
        path=asked.path,
        package=asked.package,
        catalog=asked.catalog_name,
        version=asked.version,
        bundle=asked.bundle,
        object={"kind": asked.path, "namespace": asked.namespace, "name": asked.name},
        reason=asked.reason,
        user=asked.user.get_username() if asked.user else "",
        state=asked.state,
        decided_by=asked.decided_by.get_username() if asked.decided_by else "",
        word=asked.word,
        action=asked.action_id,
        created_at=asked.created_at,
        decided_at=asked.decided_at,
    )
