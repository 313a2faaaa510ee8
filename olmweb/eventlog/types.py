"""The types of events and their data. Pure.

The names are part of the REST API and of webhooks: a type may be added, none is renamed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias


class EventType(StrEnum):
    """`operator.*` is about PlatformOperators, ClusterExtensions and Subscriptions, and the health
    of ClusterServiceVersions without one; `object.*` about the objects that belong to them."""

    OPERATOR_DISCOVERED = "operator.discovered"  # by the first reading of its kind
    OPERATOR_APPEARED = "operator.appeared"
    OPERATOR_HEALTH = "operator.health"
    OPERATOR_CONDITION = "operator.condition"
    OPERATOR_DELETED = "operator.deleted"
    OBJECT_APPEARED = "object.appeared"
    OBJECT_CONDITION = "object.condition"
    OBJECT_DELETED = "object.deleted"
    ACTION_REQUESTED = "action.requested"
    ACTION_APPLIED = "action.applied"
    ACTION_FINISHED = "action.finished"
    REQUEST_OPENED = "request.opened"
    REQUEST_DECIDED = "request.decided"
    REQUEST_WITHDRAWN = "request.withdrawn"
    CATALOG_REVISION = "catalog.revision"
    CATALOG_FAILING = "catalog.failing"
    CATALOG_RECOVERED = "catalog.recovered"
    CLUSTER_UNREACHABLE = "cluster.unreachable"
    CLUSTER_REACHABLE = "cluster.reachable"


@dataclass(frozen=True, slots=True)
class ExistenceData:
    """The object was created or deleted."""

    uid: str


@dataclass(frozen=True, slots=True)
class HealthData:
    """The health of an operator. `from_health` is empty for its first diagnosis; `finding` is the
    id of the known cause, or empty. `message` is the cluster's."""

    from_health: str
    from_reason: str
    health: str
    reason: str
    message: str
    finding: str


@dataclass(frozen=True, slots=True)
class ConditionData:
    """A condition, or the phase of an object (`Phase`, `Connection`). An empty status means that
    the object has none."""

    condition: str
    from_status: str
    from_reason: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ActionData:
    """`action` is the id of /actions, `bulk` that of /bulk-installs or null; `outcome` is empty
    until the action has finished."""

    action: int
    bulk: int | None
    verb: str
    state: str
    user: str
    package: str
    version: str
    outcome: str
    outcome_code: str


@dataclass(frozen=True, slots=True)
class RequestData:
    """`request` is the id of /requests; `action` that of the action of an approved one. `comment`
    is the answer to the person who requested it, `user`."""

    request: int
    state: str
    package: str
    version: str
    user: str
    decided_by: str
    comment: str
    action: int | None


@dataclass(frozen=True, slots=True)
class RevisionData:
    """The content of a catalog; `added`, `removed` and `changed` count packages."""

    revision: int
    packages: int
    bundles: int
    added: int
    removed: int
    changed: int


@dataclass(frozen=True, slots=True)
class FailureData:
    """Why a catalog or cluster can't be read."""

    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class RecoveryData:
    """Since when it could not be read; null if that is not known."""

    failing_since: str | None


EventData: TypeAlias = (
    HealthData
    | ConditionData
    | ExistenceData
    | ActionData
    | RequestData
    | RevisionData
    | FailureData
    | RecoveryData
)

# The data of each type, for documents.
DATA_TYPES: Mapping[EventType, type] = {
    EventType.OPERATOR_DISCOVERED: HealthData,
    EventType.OPERATOR_APPEARED: ExistenceData,
    EventType.OPERATOR_HEALTH: HealthData,
    EventType.OPERATOR_CONDITION: ConditionData,
    EventType.OPERATOR_DELETED: ExistenceData,
    EventType.OBJECT_APPEARED: ExistenceData,
    EventType.OBJECT_CONDITION: ConditionData,
    EventType.OBJECT_DELETED: ExistenceData,
    EventType.ACTION_REQUESTED: ActionData,
    EventType.ACTION_APPLIED: ActionData,
    EventType.ACTION_FINISHED: ActionData,
    EventType.REQUEST_OPENED: RequestData,
    EventType.REQUEST_DECIDED: RequestData,
    EventType.REQUEST_WITHDRAWN: RequestData,
    EventType.CATALOG_REVISION: RevisionData,
    EventType.CATALOG_FAILING: FailureData,
    EventType.CATALOG_RECOVERED: RecoveryData,
    EventType.CLUSTER_UNREACHABLE: FailureData,
    EventType.CLUSTER_REACHABLE: RecoveryData,
}


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event: what happened, when, and to which object. `cluster` is null for a catalog without
    one, `catalog` is `cluster/catalog`, empty for other objects. The fields of `data` depend on the
    type."""

    id: int
    type: str
    happened_at: datetime
    cluster: str | None
    kind: str
    namespace: str
    name: str
    catalog: str
    data: EventData
