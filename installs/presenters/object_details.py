"""Presents the details of objects as terms and values. Tolerant of odd content."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from installs.diagnosis.evaluate import Requirement, requirement_rows
from installs.models import Component, Operator
from installs.queries.providers import Search, api_of_crd, provider_searches
from installs.state.observation import details_of
from olmweb.models import Cluster
from olmweb.templatetags.olmweb import moment

NAMES_SHOWN = 8
_STATUS_WORDS = {
    "Present": "Present",
    "NotPresent": "Missing",
    "PresentNotSatisfied": "Present, not satisfied",
    "PresentNotAvailable": "Present, not available",
    "DeploymentFound": "Deployment present",
    "DeploymentNotFound": "Deployment missing",
    "Satisfied": "Satisfied",
    "NotSatisfied": "Not satisfied",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One line: a term and its value. `style` is text, code or time (then `at` is set)."""

    term: str
    text: str
    style: str = "text"
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PodRow:
    """A container that does not run, with the reason and message of its kubelet."""

    deployment: str
    name: str
    container: str
    reason: str
    message: str
    restarts: int


@dataclass(frozen=True, slots=True)
class DeploymentRow:
    """How many of a Deployment's pods are ready."""

    namespace: str
    name: str
    ready: int
    replicas: int
    created_at: datetime | None

    @property
    def ok(self) -> bool:
        return self.ready >= self.replicas


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirements of a ClusterServiceVersion; `rows` are (requirement, its status in words,
    the search for providers of a missing definition).
    """

    csv: str
    rows: list[tuple[Requirement, str, Search | None]]

    @property
    def unmet(self) -> int:
        return sum(1 for row, *_ in self.rows if not row.met)


def requirements_of(cluster: Cluster, components: Sequence[Component]) -> Requirements:
    """Those of the first ClusterServiceVersion that misses any; none when nothing is missing."""
    for component in components:
        if component.kind == "ClusterServiceVersion":
            rows = requirement_rows(details_of(component))
            if any(not row.met for row in rows):
                return Requirements(component.name, _with_searches(cluster, rows))
    return Requirements("", [])


def _with_searches(
    cluster: Cluster, rows: Sequence[Requirement]
) -> list[tuple[Requirement, str, Search | None]]:
    missing = {
        row.name: api_of_crd(row.name)
        for row in rows
        if row.kind == "CustomResourceDefinition" and row.status == "NotPresent"
    }
    searches = provider_searches(cluster, missing.values())
    return [
        (row, status_words(row), searches.get(missing[row.name]) if row.name in missing else None)
        for row in rows
    ]


def status_words(row: Requirement) -> str:
    """The status of a requirement, which OLM writes as one word, as a reader would say it."""
    if row.status == "Present" and not row.met:
        return "Present, not satisfied"
    return _STATUS_WORDS.get(row.status, row.status or "Not reported")


def facts_of(row: Operator | Component) -> list[Fact]:
    """The facts in the details of a row beyond its conditions; empty for kinds without any."""
    phase = row.phase if isinstance(row, Component) else ""
    details = {**details_of(row), "phase": phase}
    facts = [_fact(details, *line) for line in _FACTS.get(row.kind, ())]
    return [fact for fact in facts if fact.text or fact.at]


def _fact(
    details: Mapping[str, Any], term: str, source: str | Callable[..., str], style: str = "text"
) -> Fact:
    value = text(details, source) if isinstance(source, str) else source(details)
    at = moment(value) if style == "time" else None
    return Fact(term, "" if at else value, style, at)


def deployments(components: Sequence[Component]) -> list[DeploymentRow]:
    """The Deployments among the components, those with pods missing first."""
    rows = [
        DeploymentRow(
            component.namespace,
            component.name,
            number(component.details, "ready"),
            number(component.details, "replicas"),
            component.created_at,
        )
        for component in components
        if component.kind == "Deployment"
    ]
    return sorted(rows, key=lambda row: (row.ok, row.namespace, row.name))


def waiting_pods(components: Sequence[Component]) -> list[PodRow]:
    """Containers of their pods that don't run, with the reason; the worst restarts first."""
    pods = [
        PodRow(
            deployment=component.name,
            name=text(pod, "name"),
            container=text(pod, "container"),
            reason=text(pod, "reason"),
            message=text(pod, "message"),
            restarts=number(pod, "restarts"),
        )
        for component in components
        if component.kind == "Deployment"
        for pod in items(component.details, "pods")
    ]
    return sorted(pods, key=lambda pod: (-pod.restarts, pod.deployment, pod.name))


def text(value: Any, name: str) -> str:
    """The text under `name`; numbers, booleans and lists in words; empty for anything else."""
    item = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(item, bool):
        return "yes" if item else "no"
    return (
        listed(item) if isinstance(item, list) else str(item) if isinstance(item, str | int) else ""
    )


def number(value: Any, name: str) -> int:
    """The number under `name`, or 0."""
    item = value.get(name) if isinstance(value, Mapping) else None
    return item if isinstance(item, int) and not isinstance(item, bool) else 0


def items(value: Any, name: str) -> list[Any]:
    """The list under `name`, or an empty one."""
    item = value.get(name) if isinstance(value, Mapping) else None
    return item if isinstance(item, list) else []


def listed(values: Sequence[Any]) -> str:
    """Names with commas, the first few of many."""
    names = [str(value) for value in values if isinstance(value, str | int)]
    rest = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _install_modes(details: Mapping[str, Any]) -> str:
    modes = details.get("install_modes")
    return listed(
        [name for name, on in modes.items() if on is True] if isinstance(modes, dict) else []
    )


def _watched(details: Mapping[str, Any]) -> str:
    return listed([namespace or "all namespaces" for namespace in items(details, "namespaces")])


def _ready(details: Mapping[str, Any]) -> str:
    return f"{number(details, 'ready')} of {number(details, 'replicas')}"


def _reference_count(details: Mapping[str, Any]) -> str:
    return str(len(items(details, "refs")))


# Kind -> (term, key or function of the details, style of the fact) of each of its facts.
_FACTS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "Subscription": (
        ("Approval", "approval"),
        ("State", "state"),
        ("Installed CSV", "installed_csv", "code"),
        ("Current CSV", "current_csv", "code"),
        ("Starting CSV", "starting_csv", "code"),
        ("Made by InstallPlan", "generated_by", "code"),
    ),
    "CatalogSource": (
        ("Connection", "state"),
        ("Reason", "reason"),
        ("Message", "message"),
        ("Image", "image", "code"),
        ("Address", "address", "code"),
        ("Priority", "priority"),
        ("Last connected", "last_connect", "time"),
        ("Last poll", "last_poll", "time"),
    ),
    "InstallPlan": (
        ("Phase", "phase"),
        ("Approval", "approval"),
        ("Approved", "approved"),
        ("Installs", "csvs", "code"),
        ("Steps", "steps_total"),
        ("Message", "message"),
        ("Started", "start_time", "time"),
    ),
    "ClusterServiceVersion": (
        ("Phase", "phase"),
        ("Version", "version"),
        ("Replaces", "replaces", "code"),
        ("Provider", "provider"),
        ("Install modes", _install_modes),
        ("Its CRDs", "owned_crds", "code"),
        ("Needs CRDs", "required_crds", "code"),
        ("Last update", "last_update", "time"),
    ),
    "OperatorGroup": (
        ("Watches", _watched),
        ("Requested namespaces", "targets"),
        ("Service account", "service_account", "code"),
        ("Upgrade strategy", "upgrade_strategy"),
    ),
    "ClusterObjectSet": (
        ("Revision", "revision"),
        ("Lifecycle", "lifecycle"),
        ("Bundle", "bundle", "code"),
        ("Version", "version"),
    ),
    "Deployment": (
        ("Ready", _ready),
        ("Updated", "updated"),
        ("Unavailable", "unavailable"),
    ),
    "ClusterExtension": (
        ("Installs into", "namespace"),
        ("Upgrade policy", "policy"),
        ("Revisions", "revisions", "code"),
    ),
    "Operator": (("Counts objects", _reference_count),),
}
