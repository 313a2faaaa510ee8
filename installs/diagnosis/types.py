"""The input and output of a diagnosis."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from installs.diagnosis.knowledge import Finding
from olmweb.kube.fields import text


@dataclass(frozen=True, slots=True)
class Condition:
    """One item of `status.conditions`; absent fields are empty."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """An object; `phase` is that of its status.

    `extra` may hold fields of the spec: `package`, and for a Subscription `catalog` and
    `catalog_namespace`, the CatalogSource. `details` are those of installs.state.decode; their
    shape is not guaranteed, so read them with olmweb.kube.fields. `since` is when the
    present health and reason of the subject were first observed, as a cluster's own times don't
    change with the reason.
    """

    kind: str
    namespace: str
    name: str
    conditions: tuple[Condition, ...] = ()
    phase: str = ""
    deleting: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime | None = None
    since: datetime | None = None


LINK_STATES = ("ok", "progressing", "failed", "waiting", "absent", "unknown")


@dataclass(frozen=True, slots=True)
class ChainLink:
    """One object of a chain. `state` is one of LINK_STATES: `unknown` for an object that is not
    stored and whose kind could not be read, so that it may exist."""

    kind: str
    namespace: str
    name: str
    state: str
    reason: str = ""
    message: str = ""
    first_broken: bool = False


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`health` is a value of installs.models.Health; `message` is raw text of the cluster.

    `notes` don't decide the health: deprecations, earlier failures that are over, slow steps.
    """

    health: str
    reason: str
    message: str
    finding: Finding | None
    chain: tuple[ChainLink, ...]
    notes: tuple[Finding, ...] = ()


def read_conditions(raw: Iterable[Mapping[str, Any]]) -> tuple[Condition, ...]:
    """Conditions as Kubernetes writes them in JSON; unknown fields are ignored."""
    return tuple(
        Condition(
            type=text(item, "type"),
            status=text(item, "status"),
            reason=text(item, "reason"),
            message=text(item, "message"),
            last_transition_time=text(item, "lastTransitionTime"),
        )
        for item in raw
    )
