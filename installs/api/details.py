"""What the REST API says about one operator: its chain, events, requirements, what approving does.

Shapes as in installs.api.rows; what they hold comes from the same queries as the page.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from catalogs.api.rows import shallow
from installs.api.rows import FindingRow, OperatorRow, TransitionRow, operator_row, told
from installs.api.rows import transition_row as transition_row_of
from installs.diagnosis import requirement_rows
from installs.models import Event, Operator
from installs.queries import operator_detail as detail
from installs.queries.operator_detail import PendingPlan, pending_plan
from installs.state.observation import details_of, diagnose_row

HISTORY_TOLD = 100


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
class ChangeRow:
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
    changes: list[ChangeRow]
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


def operator_detail(operator: Operator) -> OperatorDetail:
    """`operator` comes with its cluster; at most five queries."""
    parts = detail.parts_of(operator)
    keys = parts.keys(operator)
    diagnosis = diagnose_row(operator, parts.components)
    pending = pending_plan(operator, parts)
    transitions = detail.history(operator.cluster_id, keys, HISTORY_TOLD)
    for row in transitions:
        row.cluster = operator.cluster
    return OperatorDetail(
        **shallow(operator_row(operator)),
        conditions=operator.conditions,
        chain=[LinkRow(**shallow(link)) for link in diagnosis.chain],
        events=[
            event_row(row) for row in detail.events_of(operator.cluster_id, keys, HISTORY_TOLD)
        ],
        transitions=[transition_row_of(row) for row in transitions],
        requirements=[
            RequirementRow(csv=one.name, **{**shallow(required), "rules": list(required.rules)})
            for one in parts.of_kind("ClusterServiceVersion")
            for required in requirement_rows(details_of(one))
        ],
        approval=approval_row(pending) if pending else None,
        notes=[told(note) for note in diagnosis.notes],
    )


def event_row(row: Event) -> EventRow:
    return EventRow(
        kind=row.kind,
        namespace=row.namespace,
        name=row.name,
        type=row.type,
        reason=row.reason,
        message=row.message,
        source=row.source,
        count=row.count,
        first_at=row.first_at,
        last_at=row.last_at,
    )


def approval_row(pending: PendingPlan) -> ApprovalRow:
    found = pending.approval
    return ApprovalRow(
        plan=found.plan,
        namespace=found.namespace,
        sentence=found.sentence,
        changes=[ChangeRow(**shallow(change)) for change in found.changes],
        others=list(pending.others),
        objects=dict(found.objects),
        crds=list(found.crds),
        command=pending.command,
    )
