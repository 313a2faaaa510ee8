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
    "Present": "There",
    "NotPresent": "Missing",
    "PresentNotSatisfied": "There, not satisfied",
    "PresentNotAvailable": "There, not available",
    "DeploymentFound": "Deployment there",
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
        return "There, not satisfied"
    return _STATUS_WORDS.get(row.status, row.status or "Not told")


def facts_of(row: Operator | Component) -> list[Fact]:
    """The facts in the details of a row beyond its conditions; empty for kinds without any."""
    make = _FACTS.get(row.kind)
    phase = row.phase if isinstance(row, Component) else ""
    facts = make(details_of(row), phase) if make else []
    return [fact for fact in facts if fact.text or fact.at]


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
    """The text under `name`; numbers and booleans in words; empty for anything else."""
    item = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(item, bool):
        return "yes" if item else "no"
    return str(item) if isinstance(item, str | int) else ""


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


def _time(term: str, value: str) -> Fact:
    at = moment(value)
    return Fact(term, "" if at else value, "time", at)


def _subscription(details: Mapping[str, Any], phase: str) -> list[Fact]:
    return [
        Fact("Approval", text(details, "approval")),
        Fact("State", text(details, "state")),
        Fact("Installed CSV", text(details, "installed_csv"), "code"),
        Fact("Current CSV", text(details, "current_csv"), "code"),
        Fact("Starting CSV", text(details, "starting_csv"), "code"),
        Fact("Made by InstallPlan", text(details, "generated_by"), "code"),
    ]


def _catalog_source(details: Mapping[str, Any], phase: str) -> list[Fact]:
    return [
        Fact("Connection", text(details, "state")),
        Fact("Reason", text(details, "reason")),
        Fact("Message", text(details, "message")),
        Fact("Image", text(details, "image"), "code"),
        Fact("Address", text(details, "address"), "code"),
        Fact("Priority", text(details, "priority")),
        _time("Last connected", text(details, "last_connect")),
        _time("Last poll", text(details, "last_poll")),
    ]


def _install_plan(details: Mapping[str, Any], phase: str) -> list[Fact]:
    return [
        Fact("Phase", phase),
        Fact("Approval", text(details, "approval")),
        Fact("Approved", text(details, "approved")),
        Fact("Installs", listed(items(details, "csvs")), "code"),
        Fact("Steps", text(details, "steps_total")),
        Fact("Message", text(details, "message")),
        _time("Started", text(details, "start_time")),
    ]


def _csv(details: Mapping[str, Any], phase: str) -> list[Fact]:
    modes = details.get("install_modes")
    supported = (
        [name for name, on in modes.items() if on is True] if isinstance(modes, Mapping) else []
    )
    return [
        Fact("Phase", phase),
        Fact("Version", text(details, "version")),
        Fact("Replaces", text(details, "replaces"), "code"),
        Fact("Provider", text(details, "provider")),
        Fact("Install modes", listed(supported)),
        Fact("Its CRDs", listed(items(details, "owned_crds")), "code"),
        Fact("Needs CRDs", listed(items(details, "required_crds")), "code"),
        _time("Last update", text(details, "last_update")),
    ]


def _operator_group(details: Mapping[str, Any], phase: str) -> list[Fact]:
    watched = [namespace or "all namespaces" for namespace in items(details, "namespaces")]
    return [
        Fact("Watches", listed(watched)),
        Fact("Asked for", listed(items(details, "targets"))),
        Fact("Service account", text(details, "service_account"), "code"),
        Fact("Upgrade strategy", text(details, "upgrade_strategy")),
    ]


def _object_set(details: Mapping[str, Any], phase: str) -> list[Fact]:
    return [
        Fact("Revision", text(details, "revision")),
        Fact("Lifecycle", text(details, "lifecycle")),
        Fact("Bundle", text(details, "bundle"), "code"),
        Fact("Version", text(details, "version")),
    ]


def _deployment(details: Mapping[str, Any], phase: str) -> list[Fact]:
    ready, replicas = number(details, "ready"), number(details, "replicas")
    return [
        Fact("Ready", f"{ready} of {replicas}"),
        Fact("Updated", text(details, "updated")),
        Fact("Unavailable", text(details, "unavailable")),
    ]


def _cluster_extension(details: Mapping[str, Any], phase: str) -> list[Fact]:
    return [
        Fact("Installs into", text(details, "namespace")),
        Fact("Upgrade policy", text(details, "policy")),
        Fact("Revisions", listed(items(details, "revisions")), "code"),
    ]


def _operator_object(details: Mapping[str, Any], phase: str) -> list[Fact]:
    return [Fact("Counts objects", str(len(items(details, "refs"))))]


_FACTS: dict[str, Callable[[Mapping[str, Any], str], list[Fact]]] = {
    "Subscription": _subscription,
    "CatalogSource": _catalog_source,
    "InstallPlan": _install_plan,
    "ClusterServiceVersion": _csv,
    "OperatorGroup": _operator_group,
    "ClusterObjectSet": _object_set,
    "Deployment": _deployment,
    "ClusterExtension": _cluster_extension,
    "Operator": _operator_object,
}
