"""What the REST API answers about clusters and what they run: shapes and how rows become them.

The dataclasses are the interface: their fields are the JSON keys, the CSV columns and the OpenAPI
document. Findings and chains are rendered from stored rows by the diagnosis.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from catalogs.api.schemas import ErrorText, error_text
from catalogs.contents.difference import DifferenceSection
from catalogs.contents.permissions import Permission
from catalogs.contents.report import Kinds, UsedImage, Webhook
from installs.diagnosis.aggregated import Explanation
from installs.diagnosis.knowledge import Finding, plain_remedy
from installs.facts.bundle_contents import CrdHere, Need
from installs.models import (
    Action,
    ClusterOperator,
    ClusterOperatorMember,
    CRDState,
    InstallRequest,
    Operator,
    Transition,
)
from installs.models.steps import as_manifests
from installs.queries.activity import Progress
from installs.queries.clusteroperators import MemberGroup, impact_of
from installs.queries.crds import crd_finding
from installs.queries.leftovers import Leftover, RemovedOwner
from installs.queries.operator_detail import PendingPlan
from installs.queries.operators import finding_of
from installs.queries.watched_resources import WatchedResources
from olmweb.api.formats import fill
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
class EventRow:
    """A Kubernetes Event about the operator or an object of its."""

    kind: str
    namespace: str
    name: str
    type: str
    reason: str
    message: str
    source: str
    count: int
    first_at: datetime | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class RequirementRow:
    """What a ClusterServiceVersion requires; `rules` are what is not satisfied, as OLM says it."""

    csv: str
    group: str
    version: str
    kind: str
    name: str
    status: str
    message: str
    met: bool
    rules: list[str]


@dataclass(frozen=True, slots=True)
class PlannedChangeRow:
    """`action`: install, upgrade, keep or dependency."""

    csv: str
    action: str
    subscription: str
    package: str
    replaces: str


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """What approving the InstallPlan will change. `others`: ClusterServiceVersions of other
    operators that it carries along; `objects`: steps by kind."""

    plan: str
    namespace: str
    sentence: str
    changes: list[PlannedChangeRow]
    others: list[str]
    objects: dict[str, int]
    crds: list[str]
    command: str


@dataclass(frozen=True, slots=True)
class OperatorDetail(OperatorRow):
    """`transitions` and `events` are those of the operator and of what belongs to it, newest
    first; `approval` is null unless an InstallPlan waits."""

    conditions: list[Any]
    chain: list[LinkRow]
    events: list[EventRow]
    transitions: list[TransitionRow]
    requirements: list[RequirementRow]
    approval: ApprovalRow | None
    notes: list[FindingRow]


@dataclass(frozen=True, slots=True)
class BatchAction:
    """`waiting`: no worker has begun with it, so it can be stopped."""

    id: int
    package: str
    state: str
    waiting: bool
    outcome: str
    object: dict[str, str]
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class DryRunRow:
    """One package of a dry run; `reason` is empty when the cluster would take it."""

    package: str
    catalog: str
    verdict: str
    rule: str
    sentence: str
    ok: bool
    reason: str
    hint: str
    target: str
    manifests: list[Any]


@dataclass(frozen=True, slots=True)
class BatchRow:
    """`verb`: install, or migrate, approve, retry or remove for a bulk change of operators. `path`
    is empty for objects of several kinds."""

    id: int
    cluster: str
    path: str
    verb: str
    user: str
    total: int
    done: int
    waiting: int
    actions: list[BatchAction]
    left_out: list[dict[str, str]]
    created_at: datetime
    stopped_at: datetime | None


@dataclass(frozen=True, slots=True)
class ContentsRow:
    """`known` false: only metadata is known, and objects, permissions and webhooks are null until
    the bundle's image is inspected; `inspection` says how that stands ("" without one)."""

    bundle: str
    cluster: str | None
    known: bool
    inspection: str
    objects: list[Kinds] | None
    permissions: list[Permission] | None
    webhooks: list[Webhook] | None
    crds: list[CrdHere]
    needs: list[Need]
    images: list[UsedImage]
    namespaces: list[str]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class BundleDifferenceRow:
    """From `before` to `after`; sections without a difference are left out."""

    before: str
    after: str
    cluster: str | None
    sections: list[DifferenceSection]


@dataclass(frozen=True, slots=True)
class LeftoverOwner:
    """An operator that no longer exists: kind, namespace and name of its object. `name` is the
    package of a Subscription."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class LeftoverRow:
    """An object of a removed operator. `objects` counts the custom resources of a CRD, or the
    copies of a ClusterServiceVersion; `converts`: the CRD names a conversion webhook."""

    cluster: str
    owner: LeftoverOwner
    kind: str
    namespace: str
    name: str
    objects: int | None
    converts: bool


def leftover_row(owner: RemovedOwner, leftover: Leftover) -> LeftoverRow:
    removed = LeftoverOwner(owner.kind, owner.namespace, owner.name)
    return fill(LeftoverRow, leftover, cluster=owner.cluster, owner=removed)


def cluster_row(cluster: Cluster) -> ClusterRow:
    error = error_text(cluster.error_code, cluster.error_text, cluster.error_hint)
    return fill(ClusterRow, cluster, cluster=cluster.name, error=error)


def cluster_detail(cluster: Cluster, watched: WatchedResources) -> ClusterDetail:
    return fill(
        ClusterDetail,
        cluster_row(cluster),
        feeds=[
            fill(FeedRow, feed, feed=feed.name, heard_at=feed.last_event_at)
            for feed in watched.resources
        ],
        missing_rules=watched.rule,
    )


def finding_row(operator: Operator) -> FindingRow | None:
    """The stored finding with this object's names filled into its remedy; null when none."""
    return _finding_row(operator.finding, finding_of(operator))


def _finding_row(id: str, finding: Finding | None) -> FindingRow | None:
    if not id:
        return None
    if finding is None:  # stored by a release whose knowledge had another id
        return FindingRow(id, id, "", [], retryable=False)
    return finding_text(finding)


def finding_text(finding: Finding) -> FindingRow:
    return fill(FindingRow, finding, remedy=plain_remedy(finding.remedy))


def crd_row(row: CRDState) -> CRDRow:
    """`row` comes with its cluster."""
    owner = {"kind": row.owner_kind, "namespace": row.owner_namespace, "name": row.owner_name}
    return fill(
        CRDRow,
        row,
        cluster=row.cluster.name,
        kind=row.served_kind,
        owner=owner if row.owner_name else None,
        finding=_finding_row(row.finding, crd_finding(row)),
    )


def operator_row(operator: Operator) -> OperatorRow:
    """`operator` comes with its cluster."""
    finding = finding_row(operator)
    return fill(OperatorRow, operator, cluster=operator.cluster.name, finding=finding)


def transition_row(transition: Transition) -> TransitionRow:
    """`transition` comes with its cluster."""
    return fill(TransitionRow, transition, cluster=transition.cluster.name)


def clusteroperator_row(row: ClusterOperator) -> ClusterOperatorRow:
    """`row` comes with its cluster."""
    return fill(ClusterOperatorRow, row, cluster=row.cluster.name)


def clusteroperator_detail(
    row: ClusterOperator, groups: Sequence[MemberGroup], explanation: Explanation | None
) -> ClusterOperatorDetail:
    """`groups` and `explanation` are those of installs.queries.clusteroperators."""
    blocks, leaves = impact_of(row)
    members = [_member_row(member) for group in groups for member in group.members]
    return fill(
        ClusterOperatorDetail,
        clusteroperator_row(row),
        conditions=row.conditions,
        members=sorted(members, key=lambda member: member.name),
        blocks=blocks,
        leaves=leaves,
        age=explanation.age if explanation else "",
        remarks=list(explanation.remarks) if explanation else [],
    )


def _member_row(member: ClusterOperatorMember) -> MemberRow:
    operator = member.operator
    if operator is None:
        return fill(MemberRow, member, finding=None)
    reference = fill(OperatorRef, operator, cluster=operator.cluster.name)
    return fill(MemberRow, member, operator=reference, finding=finding_row(operator))


def action_row(action: Action) -> ActionRow:
    """`action` comes with its cluster."""
    return fill(
        ActionRow,
        action,
        cluster=action.cluster.name,
        manifests=as_manifests(action.steps),
        object=_object_of(action),
    )


def _object_of(row: Action | InstallRequest) -> dict[str, str]:
    return {"kind": row.path, "namespace": row.namespace, "name": row.name}


def request_row(request: InstallRequest) -> RequestRow:
    """`request` comes with its cluster and both people."""
    return fill(
        RequestRow,
        request,
        cluster=request.cluster.name,
        catalog=request.catalog_name,
        object=_object_of(request),
        user=request.user.get_username() if request.user else "",
        decided_by=request.decided_by.get_username() if request.decided_by else "",
        action=request.action_id,
    )


def approval_row(pending: PendingPlan) -> ApprovalRow:
    approval = pending.approval
    return fill(
        ApprovalRow,
        approval,
        changes=[fill(PlannedChangeRow, change) for change in approval.changes],
        others=list(pending.others),
        objects=dict(approval.objects),
        crds=list(approval.crds),
        command=pending.command,
    )


def batch_row(progress: Progress) -> BatchRow:
    """The batch comes with its cluster and user."""
    batch = progress.batch
    return fill(
        BatchRow,
        batch,
        cluster=batch.cluster.name,
        user=batch.user.get_username() if batch.user else "",
        total=progress.total,
        done=progress.done,
        waiting=progress.waiting,
        actions=[
            fill(
                BatchAction,
                row,
                waiting=row.state == Action.State.PENDING and row.begun_at is None,
                object=_object_of(row),
            )
            for row in progress.rows
        ],
        left_out=list(batch.left_out),
    )
