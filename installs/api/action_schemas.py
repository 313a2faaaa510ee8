"""What the REST API answers about what people do: actions, install requests and bulk installs.

As in installs.api.schemas, the fields of the dataclasses are the JSON keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from django.contrib.auth.base_user import AbstractBaseUser
from pydantic import Field

from catalogs.api.schemas import ErrorCode, MethodName, VerdictName
from installs.actions.bulk import STOPPED
from installs.actions.follow import ENDED_BADLY
from installs.api.schemas import ObjectRef, catalog_fields
from installs.models import Action, ActionBatch, InstallRequest
from installs.models.steps import as_manifests
from installs.queries.activity import Progress
from installs.queries.catalog_references import catalogs_of_actions
from olmweb.api.formats import fill
from olmweb.api.openapi import CODES
from olmweb.api.parameters import OneOf, own_value

# Closed enums of the fields and filters.
ActionVerb = Annotated[str, OneOf(tuple(Action.Verb.values), "ActionVerb")]
ActionState = Annotated[str, OneOf(tuple(Action.State.values), "ActionState")]
BulkVerb = Annotated[str, OneOf(tuple(ActionBatch.NOUNS), "BulkInstallVerb")]
RequestState = Annotated[str, OneOf(tuple(InstallRequest.State.values), "InstallRequestState")]
# Codes of refusals, and those that only an action that was recorded can end with.
_ENDS = (STOPPED, *(health.lower() for health in ENDED_BADLY))
OutcomeCode = Annotated[str, OneOf(tuple(sorted({*CODES, *_ENDS})), "OutcomeCode")]

Config = Annotated[
    dict[str, Any],
    Field(description='`spec.config` of the object, such as {"env": [...]}; empty for none.'),
]


@dataclass(frozen=True, slots=True)
class LeftOutPackage:
    """A package of a bulk install that was left out, and why."""

    package: str
    reason: str


@dataclass(frozen=True, slots=True)
class InstallRequestRow:
    """`catalog` is empty after the catalog was deleted; `action` is the address of the action that
    an approval recorded."""

    id: int
    cluster: str
    method: MethodName
    package: str
    catalog: str
    catalog_url: str | None
    catalog_name: str
    version: str
    bundle: str
    object: ObjectRef
    config: Config
    reason: str
    user: str
    state: RequestState
    decided_by: str
    comment: str
    action: int | None
    created_at: datetime
    decided_at: datetime | None


@dataclass(frozen=True, slots=True)
class ActionRow:
    """`user` asked for it; `as_user` is the identity that the cluster sees. `outcome_code` is a
    code of the outcome in `outcome`, empty before."""

    id: int
    cluster: str
    verb: ActionVerb
    package: str
    catalog: str
    catalog_url: str | None
    catalog_name: str
    state: ActionState
    user: str
    as_user: str
    manifests: list[Any]
    config: Config
    dry_run: dict[str, Any]
    outcome: str
    outcome_code: OutcomeCode | Literal[""]
    object: ObjectRef
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class BulkInstallAction:
    """`waiting`: no worker has begun with it, so it can be stopped."""

    id: int
    package: str
    state: ActionState
    waiting: bool
    outcome: str
    object: ObjectRef
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class PlannedPackageRow:
    """One package of a dry run; `reason` is empty when the cluster would take it. `bundle` is the
    bundle that would be installed."""

    package: str
    catalog: str
    verdict: VerdictName | Literal[""]
    rule: str
    sentence: str
    ok: bool
    reason: str
    hint: str
    bundle: str
    manifests: list[Any]


@dataclass(frozen=True, slots=True)
class BulkInstallRow:
    """`verb`: install, or migrate, approve, retry or remove for a bulk change of operators.
    `method` is empty for objects of several kinds."""

    id: int
    cluster: str
    method: MethodName | Literal[""]
    verb: BulkVerb
    user: str
    total: int
    done: int
    waiting: int
    actions: list[BulkInstallAction]
    left_out: list[LeftOutPackage]
    created_at: datetime
    stopped_at: datetime | None
    stopped_by: str


@dataclass(frozen=True, slots=True)
class PlannedVerdict:
    verdict: VerdictName
    rule: str
    sentence: str


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """What the cluster said; `objects` are pairs of an object and its result, `changes` the lines
    of a unified diff of `spec.config` for the verb configure."""

    ok: bool
    message: str
    fields: dict[str, str]
    code: ErrorCode | Literal[""]
    hint: str
    objects: list[list[str]]
    changes: list[str]


@dataclass(frozen=True, slots=True)
class PlannedAction:
    """The catalog and the bundle in it with its verdict (null where none is stored), what would be
    sent, and what the cluster said."""

    catalog: str
    bundle: str
    verdict: PlannedVerdict | None
    manifests: list[Any]
    dry_run: DryRunResult


@dataclass(frozen=True, slots=True)
class PlannedBulkInstall:
    packages: list[PlannedPackageRow]


@dataclass(frozen=True, slots=True)
class BulkInstallSummary:
    """A bulk install or bulk change without its actions: how many are done, and how many wait for
    a worker."""

    id: int
    cluster: str
    method: MethodName | Literal[""]
    verb: BulkVerb
    user: str
    total: int
    done: int
    waiting: int
    created_at: datetime
    stopped_at: datetime | None
    stopped_by: str


def action_row(action: Action) -> ActionRow:
    """`action` comes with its cluster and user; one query for its catalog."""
    return action_rows([action])[0]


def action_rows(actions: Sequence[Action]) -> list[ActionRow]:
    """`actions` come with their cluster and user; one query for their catalogs."""
    catalogs = catalogs_of_actions(actions)
    return [
        fill(
            ActionRow,
            action,
            cluster=action.cluster.name,
            **catalog_fields(catalogs[action.pk], action.catalog),
            state=own_value(action.state),
            user=_name_of(action.user),
            manifests=as_manifests(action.steps),
            config=action.config,
            object=_object_of(action),
        )
        for action in actions
    ]


def _name_of(user: AbstractBaseUser | None) -> str:
    return user.get_username() if user else ""


def _object_of(row: Action | InstallRequest) -> ObjectRef:
    return ObjectRef(row.path, row.namespace, row.name)


def request_row(request: InstallRequest) -> InstallRequestRow:
    """`request` comes with its cluster, catalog and both people."""
    return fill(
        InstallRequestRow,
        request,
        cluster=request.cluster.name,
        method=request.path,
        **catalog_fields(request.catalog, request.catalog_name),
        object=_object_of(request),
        user=_name_of(request.user),
        decided_by=_name_of(request.decided_by),
        comment=request.word,
        action=request.action_id,
    )


def bulk_install_summary(batch: Any) -> BulkInstallSummary:
    """`batch` comes with its cluster, user and the counts of `with_progress`."""
    return fill(
        BulkInstallSummary,
        batch,
        cluster=batch.cluster.name,
        method=batch.path,
        user=_name_of(batch.user),
    )


def bulk_install_row(progress: Progress) -> BulkInstallRow:
    """The batch comes with its cluster and user."""
    batch = progress.batch
    return fill(
        BulkInstallRow,
        batch,
        cluster=batch.cluster.name,
        method=batch.path,
        user=_name_of(batch.user),
        total=progress.total,
        done=progress.done,
        waiting=progress.waiting,
        actions=[
            fill(
                BulkInstallAction,
                row,
                state=own_value(row.state),
                waiting=row.state == Action.State.PENDING and row.begun_at is None,
                object=_object_of(row),
            )
            for row in progress.rows
        ],
        left_out=[LeftOutPackage(item["package"], item["reason"]) for item in batch.left_out],
    )
