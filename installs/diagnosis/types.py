"""The values that go into and come out of a diagnosis. Knows nothing of how it is made."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from installs.diagnosis.remedies import fill_sentence, fill_steps


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
    """What is known of one object. `phase`, `reason`, `message` are those of its status.

    `extra` may hold what the object asks for: `package`, and of a Subscription `catalog` and
    `catalog_namespace`, the CatalogSource. `details` is what the sync keeps of its kind, as
    installs.state.decode writes it; content has other shapes than promised at times, so read it
    with the functions of installs.diagnosis.reading. `since` is when we saw the subject come into
    its present health and reason: a cluster's own times don't move when only the reason changes.
    """

    kind: str
    namespace: str
    name: str
    conditions: tuple[Condition, ...] = ()
    phase: str = ""
    message: str = ""
    reason: str = ""
    deleting: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """One object of a chain. `state` is ok, progressing, failed, waiting or absent."""

    kind: str
    namespace: str
    name: str
    state: str
    reason: str = ""
    message: str = ""
    first_broken: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """A known cause. `remedy` mixes sentences and commands; `is_command` tells them apart.

    `note` says how it goes on without anybody acting; `confidence` is high, medium or low;
    `source` names the lines of the controllers' code that write such a message; `instead` are the
    kinds with which the remedy says to install the package in place of this one. Texts are filled
    with `values` when they are read: a sync asks for id and facts only, thousands of times.
    """

    id: str
    title: str
    cause_template: str
    remedy_templates: tuple[str, ...]
    retryable: bool
    facts: dict[str, str]
    confidence: str
    source: tuple[str, ...]
    note: str = ""
    instead: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def cause(self) -> str:
        return fill_sentence(self.cause_template, self.values)

    @property
    def remedy(self) -> tuple[str, ...]:
        return fill_steps(self.remedy_templates, self.values)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`health` is a value of installs.models.Health; `message` is raw text of the cluster.

    `notes` are what is worth knowing but does not decide the health: a deprecation, an earlier
    failure that is over, a step that takes unusually long.
    """

    health: str
    reason: str
    message: str
    finding: Finding | None
    chain: tuple[Link, ...]
    notes: tuple[Finding, ...] = ()


def read_conditions(raw: Iterable[Mapping[str, Any]]) -> tuple[Condition, ...]:
    """Conditions as Kubernetes writes them in JSON; unknown fields are ignored."""

    def text(item: Mapping[str, Any], key: str) -> str:
        value = item.get(key)
        return value if isinstance(value, str) else ""

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
