"""What the REST API answers about clusters and what they run: shapes and how rows become them.

The dataclasses are the interface: their fields are the JSON keys, the CSV columns and the OpenAPI
document. Findings and chains are rendered from stored rows by the diagnosis.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from django.urls import reverse

from catalogs.api.schemas import BundleInspectionState, LastError, catalog_url, error_text
from catalogs.contents.difference import DifferenceSection
from catalogs.contents.permissions import Permission
from catalogs.contents.report import Kinds, UsedImage, Webhook
from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog
from installs.diagnosis.aggregated import Explanation
from installs.diagnosis.knowledge import Finding
from installs.diagnosis.remedies import plain_remedy
from installs.diagnosis.types import LINK_STATES
from installs.facts.bundle_contents import CrdHere, Need
from installs.models import (
    ClusterOperator,
    ClusterOperatorMember,
    CRDState,
    Health,
    Operator,
    Transition,
)
from installs.queries.catalog_references import catalogs_of_operators
from installs.queries.catalog_troubles import CatalogTrouble
from installs.queries.clusteroperators import MemberGroup, impact_of
from installs.queries.crds import crd_finding
from installs.queries.leftovers import Leftover, RemovedOwner
from installs.queries.operator_detail import PendingPlan
from installs.queries.operators import awaits_first_approval, finding_of
from installs.queries.unknown_messages import UnknownRow, mask_names
from installs.queries.watched_resources import WORST_FIRST, WatchedResources
from installs.readiness import ReadinessRow
from installs.readiness.blockers import Weight
from installs.readiness.request import CODES
from installs.readiness.v1_migration import Fate
from installs.readiness.v1_migration_report import V1Migration
from olmweb.api.formats import fill
from olmweb.api.parameters import OneOf
from olmweb.kube.fields import read_time
from olmweb.models import Cluster

CSV = "ClusterServiceVersion"  # one without a Subscription
# Closed enums of the fields and filters.
HealthName = Annotated[str, OneOf(tuple(Health.values), "Health")]
OperatorKind = Annotated[str, OneOf((*InstallMethod, CSV), "OperatorKind")]
ConditionStatus = Annotated[str, OneOf(("True", "False", "Unknown"), "ConditionStatus")]
WatchState = Annotated[str, OneOf(WORST_FIRST, "WatchState")]
LinkState = Annotated[str, OneOf(LINK_STATES, "ChainLinkState")]
PlannedChangeAction = Annotated[
    str, OneOf(("install", "upgrade", "keep", "dependency"), "PlannedChangeAction")
]
BlockerSeverity = Annotated[str, OneOf(tuple(Weight), "BlockerSeverity")]
BlockerCode = Annotated[str, OneOf(CODES, "BlockerCode")]
MigrationVerdict = Annotated[str, OneOf(tuple(Fate), "MigrationVerdict")]


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """An object of the cluster; `namespace` is empty for one without. `kind` is any Kubernetes
    kind."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """`kinds`: what was read of each kind, and whether the cluster serves it. `reachable`: whether
    it answered the last attempt, null if that is not known: before the first attempt, of a removed
    cluster, and of one that did not answer before a fault inside OLM Web. `removed`: it is no
    longer configured, and not synced."""

    cluster: str
    server: str
    version: str
    reachable: bool | None
    removed: bool
    stale: bool
    kinds: dict[str, Any]
    error: LastError | None
    unreachable_since: datetime | None
    synced_at: datetime | None
    checked_at: datetime | None
    revision: int


@dataclass(frozen=True, slots=True)
class WatchedResourceRow:
    """How the reading of one resource stands; `objects` is null but for the first of a kind."""

    resource: str
    kind: str
    state: WatchState
    error: str
    last_event_at: datetime | None
    listed_at: datetime | None
    lists: int
    watches: int
    objects: int | None


@dataclass(frozen=True, slots=True)
class ClusterDetail(ClusterRow):
    """`missing_rules`: YAML of the RBAC rules that OLM Web lacks, empty when it lacks none."""

    watched_resources: list[WatchedResourceRow]
    missing_rules: str


@dataclass(frozen=True, slots=True)
class FindingCount:
    id: str
    title: str
    count: int


@dataclass(frozen=True, slots=True)
class StatusRow:
    """`operators` counts by health, `watched_resources` by state. `catalogs` are those of the
    cluster by state: each ClusterCatalog and CatalogSource, also two with the same content.
    `clusteroperators` counts how many exist, are available, progressing and degraded. `upgrades`:
    operators with another version to take; `approvals`: operators whose InstallPlan waits; `crds`:
    all, and those with a problem."""

    cluster: str
    version: str
    reachable: bool | None
    removed: bool
    stale: bool
    synced_at: datetime | None
    operators: dict[str, int]
    clusteroperators: dict[str, int]
    catalogs: dict[str, int]
    watched_resources: dict[str, int]
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
    """`catalog` is the reference of the catalog, empty if OLM Web knows none that `catalog_name`,
    the name in the object, means. `health_since`: since when it has this health and reason."""

    cluster: str
    kind: OperatorKind
    namespace: str
    name: str
    package: str
    catalog: str
    catalog_url: str | None
    catalog_name: str
    channel: str
    version: str
    bundle: str
    health: HealthName
    reason: str
    message: str
    finding: FindingRow | None
    health_since: datetime | None
    observed_at: datetime
    deprecated: bool
    upgrade: str
    upgrade_held: str


@dataclass(frozen=True, slots=True)
class TransitionRow:
    """`type` is that of a condition, as its controller writes it, or one of OLM Web: Object
    (appeared or deleted), Health, Phase, and Connection of a catalog. `observed_at`: when OLM Web
    saw it."""

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
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class ClusterOperatorRow:
    """`problem`: how its message and the PlatformOperators disagree; empty when they don't."""

    cluster: str
    name: str
    version: str
    available: ConditionStatus | Literal[""]
    progressing: ConditionStatus | Literal[""]
    degraded: ConditionStatus | Literal[""]
    upgradeable: ConditionStatus | Literal[""]
    reason: str
    message: str
    aggregated: bool
    problem: str
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class OperatorRef:
    cluster: str
    kind: OperatorKind
    namespace: str
    name: str
    health: HealthName


@dataclass(frozen=True, slots=True)
class ClusterOperatorMemberRow:
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
    members: list[ClusterOperatorMemberRow]
    blocks: str
    leaves: str
    age: str
    remarks: list[str]


@dataclass(frozen=True, slots=True)
class CRDRow:
    """A CustomResourceDefinition. `stored` are its storedVersions. `owner` is the operator that its
    labels name, whose `name` is the package if it is a Subscription; it is null when they name
    nobody."""

    cluster: str
    name: str
    group: str
    kind: str
    stored: list[Any]
    served: list[Any]
    defined: list[Any]
    owner: ObjectRef | None
    finding: FindingRow | None
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class UnknownMessageRow:
    """A message without an explanation. `message` has its names masked, and `issue_text` is what to
    report to the project; `operators` is the number of operators that report it now."""

    id: int
    kind: str
    reason: str
    message: str
    count: int
    operators: int
    first_at: datetime
    last_at: datetime
    issue_text: str


@dataclass(frozen=True, slots=True)
class ChainLinkRow:
    kind: str
    namespace: str
    name: str
    state: LinkState
    reason: str
    message: str
    first_broken: bool


@dataclass(frozen=True, slots=True)
class KubernetesEventRow:
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
    action: PlannedChangeAction
    subscription: str
    package: str
    replaces: str


@dataclass(frozen=True, slots=True)
class PendingApprovalRow:
    """What approving the InstallPlan will change. `others`: ClusterServiceVersions of other
    operators that it carries along; `objects`: steps by kind."""

    install_plan: str
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
    chain: list[ChainLinkRow]
    events: list[KubernetesEventRow]
    transitions: list[TransitionRow]
    requirements: list[RequirementRow]
    approval: PendingApprovalRow | None
    notes: list[FindingRow]


@dataclass(frozen=True, slots=True)
class BundleContentsRow:
    """`known` false: only metadata is known, and objects, permissions and webhooks are null until
    the bundle's image is inspected; `inspection` says how that stands ("" without one)."""

    bundle: str
    cluster: str | None
    known: bool
    inspection: BundleInspectionState | Literal[""]
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
class CatalogPod:
    """A container of a catalog's pod that does not run; `container` is empty for a pod that is not
    scheduled."""

    name: str
    container: str
    reason: str
    message: str
    restarts: int


@dataclass(frozen=True, slots=True)
class CatalogTroubleRow:
    """A catalog that is down: `state` as its object has it, `operators` that name it."""

    cluster: str
    kind: str
    namespace: str
    name: str
    state: str
    message: str
    finding: FindingRow | None
    pods: list[CatalogPod]
    operators: int


def catalog_trouble_row(trouble: CatalogTrouble) -> CatalogTroubleRow:
    """The catalog of `trouble` comes with its cluster."""
    return fill(
        CatalogTroubleRow,
        trouble.catalog,
        cluster=trouble.catalog.cluster.name,
        state=trouble.state,
        message=trouble.message,
        finding=finding_text(trouble.finding) if trouble.finding else None,
        pods=[CatalogPod(**pod) for pod in trouble.pods],
        operators=trouble.operators,
    )


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


@dataclass(frozen=True, slots=True)
class BlockerRow:
    """A blocker of the upgrade of a cluster to `next_version`; a blocker of the cluster itself has
    the kind ClusterVersion or ClusterOperator. `target_version` resolves it; `install_plan` is the
    InstallPlan of its namespace to approve before, empty for none."""

    cluster: str
    next_version: str
    kind: str
    namespace: str
    name: str
    package: str
    version: str
    code: BlockerCode
    title: str
    severity: BlockerSeverity
    message: str
    resolutions: list[str]
    target_version: str
    install_plan: str


@dataclass(frozen=True, slots=True)
class MigrationRow:
    """Whether a Subscription can be migrated: `verdict` is ready, changes, unknown or no; `reasons`
    are sentences, worst first, `codes` their rules in that order; `steps` are empty if it can't be.
    `catalog` is the ClusterCatalog with the installed version, empty if there is none."""

    cluster: str
    namespace: str
    name: str
    package: str
    version: str
    verdict: MigrationVerdict
    reasons: list[str]
    codes: list[str]
    steps: list[str]
    catalog: str
    catalog_url: str | None


def readiness_row(row: ReadinessRow) -> BlockerRow:
    return fill(
        BlockerRow,
        row,
        next_version=row.following,
        severity=row.weight,
        message=row.sentence,
        resolutions=list(row.ways),
        target_version=row.target,
        install_plan=row.plan,
    )


def migration_row(row: V1Migration) -> MigrationRow:
    """The ClusterCatalog of a migration is a stored one, whose slug is its name."""
    address = reverse("api:get_catalog", args=[row.cluster, row.catalog]) if row.catalog else None
    return fill(
        MigrationRow,
        row,
        verdict=row.fate,
        reasons=list(row.reasons),
        codes=list(row.codes),
        steps=list(row.steps),
        catalog=f"{row.cluster}/{row.catalog}" if row.catalog else "",
        catalog_url=address,
    )


def cluster_row(cluster: Cluster) -> ClusterRow:
    error = error_text(cluster.error_code, cluster.error_text, cluster.error_hint)
    kinds = {
        kind: {**state, "synced_at": read_time(state["synced_at"])}
        if "synced_at" in state
        else state
        for kind, state in cluster.kinds.items()
    }
    since = cluster.unreachable_since if cluster.unreachable else None
    return fill(
        ClusterRow,
        cluster,
        cluster=cluster.name,
        reachable=cluster.answers,
        kinds=kinds,
        error=error,
        unreachable_since=since,
    )


def cluster_detail(cluster: Cluster, watched: WatchedResources) -> ClusterDetail:
    return fill(
        ClusterDetail,
        cluster_row(cluster),
        watched_resources=[
            fill(WatchedResourceRow, resource, resource=resource.name)
            for resource in watched.resources
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


def unknown_message_row(unknown: UnknownRow) -> UnknownMessageRow:
    return fill(
        UnknownMessageRow,
        unknown.row,
        reason=mask_names(unknown.row.reason),
        message=unknown.text,
        operators=unknown.reported,
        issue_text=unknown.issue_text,
    )


def crd_row(row: CRDState) -> CRDRow:
    """`row` comes with its cluster."""
    owner = row.operator
    return fill(
        CRDRow,
        row,
        cluster=row.cluster.name,
        kind=row.served_kind,
        owner=ObjectRef(owner.kind, owner.namespace, owner.name) if owner else None,
        finding=_finding_row(row.finding, crd_finding(row)),
    )


def operator_rows(operators: Sequence[Operator]) -> list[OperatorRow]:
    """`operators` come with their cluster; one query for their catalogs."""
    catalogs = catalogs_of_operators(operators)
    return [
        fill(
            OperatorRow,
            operator,
            cluster=operator.cluster.name,
            **catalog_fields(catalogs[operator.pk], operator.catalog),
            # As the pages have it: the version of a first InstallPlan is not installed yet.
            version="" if awaits_first_approval(operator) else operator.version,
            finding=finding_row(operator),
            health_since=operator.since,
        )
        for operator in operators
    ]


def catalog_fields(catalog: Catalog | None, name: str) -> dict[str, str | None]:
    """The fields that name a catalog: reference, address, and the name that the object uses."""
    return {
        "catalog": str(catalog) if catalog else "",
        "catalog_url": catalog_url(catalog) if catalog else None,
        "catalog_name": name,
    }


def transition_row(transition: Transition) -> TransitionRow:
    """`transition` comes with its cluster."""
    return fill(
        TransitionRow,
        transition,
        cluster=transition.cluster.name,
        observed_at=transition.at,
    )


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


def _member_row(member: ClusterOperatorMember) -> ClusterOperatorMemberRow:
    operator = member.operator
    if operator is None:
        return fill(ClusterOperatorMemberRow, member, finding=None)
    reference = fill(OperatorRef, operator, cluster=operator.cluster.name)
    return fill(ClusterOperatorMemberRow, member, operator=reference, finding=finding_row(operator))


def approval_row(pending: PendingPlan) -> PendingApprovalRow:
    approval = pending.approval
    return fill(
        PendingApprovalRow,
        approval,
        install_plan=approval.plan,
        changes=[fill(PlannedChangeRow, change) for change in approval.changes],
        others=list(pending.others),
        objects=dict(approval.objects),
        crds=list(approval.crds),
        command=pending.command,
    )
