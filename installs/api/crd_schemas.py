"""What the REST API answers about CRDs before an upgrade: shapes and how rows become them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from catalogs.api.schemas import LastError, error_text
from catalogs.contents.crd_objects import Outcome
from catalogs.contents.crd_upgrade import CrdFinding, OlmV0
from installs.actions import crd_check as checks
from installs.actions.crd_safety import CRD_OUTCOMES, Compared
from installs.models import CrdCheck
from olmweb.api.parameters import OneOf

PENDING, DONE, FAILED, LOST = STATES = ("pending", "done", "failed", "lost")
CrdCheckState = Annotated[str, OneOf(STATES, "CrdCheckState")]
ObjectOutcome = Annotated[str, OneOf(tuple(Outcome), "ObjectOutcome")]
BUNDLE, CLUSTER, NOTHING = SIDES = ("bundle", "cluster", "nothing")
ComparedWith = Annotated[str, OneOf(SIDES, "CrdComparedWith")]
OlmV0Answer = Annotated[str, OneOf(tuple(OlmV0), "OlmV0Answer")]
ChangeOutcome = Annotated[
    str, OneOf(tuple(name.replace("_", "-") for name in CRD_OUTCOMES), "CrdChangeOutcome")
]


@dataclass(frozen=True, slots=True)
class CrdChangeRow:
    """One change. `version` is empty for the whole CRD, `field` is written as operator-controller
    does (`^.spec.size`). `olm_v1_refuses`: with `crdUpgradeSafety` Strict; `olm_v0` is `objects`
    if OLM v0 refuses the upgrade when an existing object does not fit."""

    crd: str
    version: str
    field: str
    rule: str
    note: str
    olm_v0: OlmV0Answer
    olm_v1_refuses: bool


@dataclass(frozen=True, slots=True)
class ComparedCrd:
    """A CRD of the new bundle that the other side has. `compared_with` is `nothing` while the
    schema of the cluster was not read; `complete` is false, too, for one that is nested deeper than
    100 levels, below which nothing is compared. The owner is the operator that owns it on the
    cluster; `owner_name` is the package of a Subscription; the fields are empty without one."""

    name: str
    compared_with: ComparedWith
    complete: bool
    owner_kind: str
    owner_namespace: str
    owner_name: str


@dataclass(frozen=True, slots=True)
class CrdChangesRow:
    """To `after` from the bundle `before`, or from the CRDs of the cluster if it is null. `cluster`
    is the one whose stored versions count."""

    before: str | None
    after: str
    cluster: str | None
    crds: list[ComparedCrd]
    changes: list[CrdChangeRow]


@dataclass(frozen=True, slots=True)
class CheckedChange:
    """A change between the CRD of the cluster and that of the bundle, for the operator's OLM."""

    version: str
    field: str
    rule: str
    note: str
    outcome: ChangeOutcome


@dataclass(frozen=True, slots=True)
class MisfitReason:
    """`already`: the current schema refuses it in the same way."""

    field: str
    rule: str
    note: str
    outcome: ObjectOutcome
    already: bool


@dataclass(frozen=True, slots=True)
class MisfitObject:
    """An object that does not fit the new schema; `already` if all its reasons are."""

    namespace: str
    name: str
    version: str
    outcome: ObjectOutcome
    already: bool
    reasons: list[MisfitReason]


@dataclass(frozen=True, slots=True)
class CheckedCrd:
    """A CRD of the bundle that the cluster has. `error` is a sentence if it could not be checked.
    `refused`, `olm_v0` and `dropped` count objects by their worst reason, `already` those of them
    that break the current schema in the same ways. `misfits` and `changes` are cut at 100."""

    name: str
    kind: str
    error: str
    versions: list[str]
    objects: int
    complete: bool
    refused: int
    olm_v0: int
    dropped: int
    already: int
    unchecked: list[str]
    changes: list[CheckedChange]
    misfits: list[MisfitObject]


@dataclass(frozen=True, slots=True)
class CrdCheckRow:
    """A check of one person. `lost`: no worker made it. `requests` and `bytes` tell what was
    read."""

    cluster: str
    kind: str
    namespace: str
    name: str
    bundle: str
    state: CrdCheckState
    created_at: datetime
    finished_at: datetime | None
    error: LastError | None
    requests: int
    bytes: int
    crds: list[CheckedCrd]


def changes_row(
    compared: Compared, before: str | None, after: str, cluster: str | None
) -> CrdChangesRow:
    return CrdChangesRow(
        before,
        after,
        cluster,
        [_compared_crd(compared, name) for name in compared.names],
        [_change_row(finding) for finding in compared.findings],
    )


def _compared_crd(compared: Compared, name: str) -> ComparedCrd:
    side = BUNDLE if name in compared.before else CLUSTER if name in compared.read else NOTHING
    state = compared.states.get(name)
    owner = state.operator if state else None
    return ComparedCrd(
        name,
        side,
        complete=side != NOTHING and name not in compared.too_deep,
        owner_kind=owner.kind if owner else "",
        owner_namespace=owner.namespace if owner else "",
        owner_name=owner.name if owner else "",
    )


def _change_row(finding: CrdFinding) -> CrdChangeRow:
    return CrdChangeRow(
        crd=finding.crd,
        version=finding.version,
        field=finding.path,
        rule=finding.rule,
        note=finding.note,
        olm_v0=finding.olm_v0,
        olm_v1_refuses=finding.olm_v1,
    )


def check_row(row: CrdCheck, now: datetime) -> CrdCheckRow:
    state = DONE
    if row.finished_at is None:
        state = PENDING if checks.is_pending(row, now) else LOST
    elif row.error_text:
        state = FAILED
    return CrdCheckRow(
        cluster=row.cluster.name,
        kind=row.kind,
        namespace=row.namespace,
        name=row.name,
        bundle=row.bundle,
        state=state,
        created_at=row.requested_at,
        finished_at=row.finished_at,
        error=error_text("", row.error_text, row.error_hint),
        requests=row.result.get("requests", 0),
        bytes=row.result.get("bytes", 0),
        crds=[_checked_crd(crd) for crd in row.result.get("crds", ())],
    )


def _checked_crd(crd: dict[str, Any]) -> CheckedCrd:
    """Of an entry of CrdCheck.result (installs.actions.crd_check)."""
    changes = [
        CheckedChange(**_with_field(change) | {"outcome": change["outcome"].replace("_", "-")})
        for change in crd["changes"]
    ]
    misfits = [
        MisfitObject(
            **item | {"reasons": [MisfitReason(**_with_field(row)) for row in item["reasons"]]}
        )
        for item in crd["misfits"]
    ]
    return CheckedCrd(**crd | {"changes": changes, "misfits": misfits})


def _with_field(row: dict[str, Any]) -> dict[str, Any]:
    return {"field" if name == "path" else name: value for name, value in row.items()}
