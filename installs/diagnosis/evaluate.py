"""The state of one object by itself: which of its conditions decides, and its message.

Chains of objects are evaluated in chains.py; what conditions mean is in states.py. The knowledge
base reads requirements, pods and definitions as lines that are made here, such as `pod
NAMESPACE/NAME container NAME: REASON: MESSAGE`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from installs.diagnosis.catalog_pods import (
    CONNECTED,
    FAILING,
    NO_STATE,
    catalog_pod_line,
    is_connecting,
)
from installs.diagnosis.knowledge import Finding, KnowledgeMatch, find, render
from installs.diagnosis.states import BROKEN, PHASE, WAITING, State, class_of
from installs.diagnosis.types import ChainLink, Condition, Observation, read_conditions
from olmweb.kube.fields import items, number, text

APPROVAL = "RequiresApproval"  # waits for a person, and nothing is wrong
_LINK_STATE = {
    State.HEALTHY: "ok",
    State.INFORMATION: "ok",
    State.PROGRESSING: "progressing",
    State.ABSENT: "waiting",
    State.UNKNOWN: "waiting",
}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The state of one object with reason and message of the condition that decides it."""

    state: State
    reason: str = ""
    message: str = ""


def link_of(obj: Observation, verdict: Evaluation, *, first_broken: bool = False) -> ChainLink:
    """The object as a link of a chain."""
    state = _LINK_STATE.get(verdict.state, "failed")
    if verdict.reason == APPROVAL:
        state = "waiting"
    return ChainLink(
        obj.kind, obj.namespace, obj.name, state, verdict.reason, verdict.message, first_broken
    )


def condition_of(obj: Observation, type_: str) -> Condition | None:
    """The condition of that type, None when the object has none."""
    return next((condition for condition in obj.conditions if condition.type == type_), None)


def evaluate_condition(obj: Observation, type_: str) -> Evaluation:
    """The state of one condition."""
    condition = condition_of(obj, type_)
    if condition is None:
        return Evaluation(State.ABSENT)
    state = class_of(obj.kind, type_, condition.status, condition.reason)
    return Evaluation(state, condition.reason, condition.message)


def worst(evaluations: Sequence[Evaluation]) -> Evaluation:
    """The first broken one, else the first unknown, progressing or healthy one."""
    healthy = (State.HEALTHY, State.INFORMATION)
    for group in (BROKEN, (State.UNKNOWN,), (State.PROGRESSING,), healthy):
        for verdict in evaluations:
            if verdict.state in group:
                return verdict
    return Evaluation(State.ABSENT)


# -- objects by kind -------------------------------------------------------------------------------

_RETRYING = "retrying execution due to error:"
# Means only that the error is in the Installed condition.
_SEE_INSTALLED = "retrying to get installed bundle"
_ORDER = {
    "PlatformOperator": ("Installed",),
    "BundleDeployment": ("Installed", "HasValidBundle", "Unpacked", "Healthy"),
    "ClusterObjectSet": ("Progressing", "Available"),
    "OperatorGroup": ("OperatorGroupServiceAccount", "MultipleOperatorGroup"),
    "OperatorCondition": ("Upgradeable",),
}
# These report problems only.
_HEALTHY_WITHOUT_CONDITIONS = frozenset(("OperatorGroup", "OperatorCondition"))


def evaluate(obj: Observation) -> Evaluation:
    """Evaluates any object; a kind that is not covered is UNKNOWN with its reason and message."""
    special = {
        "Bundle": evaluate_bundle,
        "ClusterExtension": evaluate_extension,
        "ClusterCatalog": evaluate_catalog,
        "CatalogSource": evaluate_catalog_source,
        "InstallPlan": evaluate_plan,
        "ClusterServiceVersion": evaluate_csv,
        "Deployment": evaluate_deployment,
    }.get(obj.kind)
    if special:
        return special(obj)
    order = _ORDER.get(obj.kind)
    if order is None:
        return Evaluation(State.UNKNOWN, text(obj.details, "reason"), text(obj.details, "message"))
    verdict = worst([evaluate_condition(obj, type_) for type_ in order])
    if verdict.state is State.ABSENT and obj.kind in _HEALTHY_WITHOUT_CONDITIONS:
        return Evaluation(State.HEALTHY)
    return verdict


def evaluate_bundle(obj: Observation) -> Evaluation:
    """A pending Bundle with a message of known cause (an image that can't be pulled) is stuck."""
    verdict = evaluate_condition(obj, "Unpacked")
    stuck = verdict.state is State.PROGRESSING and verdict.message
    if stuck and find(verdict.message, kind="Bundle"):
        return replace(verdict, state=State.RETRYING)
    return verdict


def evaluate_extension(obj: Observation) -> Evaluation:
    """A ClusterExtension: Progressing decides before Installed, and that before Available."""
    types = ("Installed", "Progressing", "Available")
    installed, progressing, available = (evaluate_condition(obj, type_) for type_ in types)
    works = installed.state is State.HEALTHY
    if progressing.state in (State.RETRYING, State.FAILED):
        message = installed.message if progressing.message == _SEE_INSTALLED else ""
        state = State.DEGRADED if works else State.FAILED
        return Evaluation(state, progressing.reason, message or progressing.message)
    if progressing.state in (State.BLOCKED, State.PROGRESSING, State.UNKNOWN):
        return progressing
    if works and available.state in (State.DEGRADED, State.PROGRESSING):
        return available
    return progressing if installed.state is State.ABSENT else installed


def evaluate_catalog(obj: Observation) -> Evaluation:
    """A ClusterCatalog: it is degraded, not failed, while it still serves old content."""
    serving = evaluate_condition(obj, "Serving")
    progressing = evaluate_condition(obj, "Progressing")
    if serving.state is State.BLOCKED:  # switched off by its owner
        return serving
    if progressing.state in (State.RETRYING, State.FAILED):
        state = State.DEGRADED if serving.state is State.HEALTHY else State.RETRYING
        return replace(progressing, state=state)
    if progressing.state in (State.BLOCKED, State.UNKNOWN):
        return progressing
    return serving if serving.state is not State.ABSENT else progressing


def evaluate_catalog_source(obj: Observation) -> Evaluation:
    """A CatalogSource: its reason if that is an error, else the state of its connection, with what
    its pods say.

    It is ABSENT until OLM has tried to connect, and failing as soon as a pod of it can't run or its
    connection is overdue.
    """
    reason = text(obj.details, "reason")
    message = text(obj.details, "message")
    if reason:
        status = class_of(obj.kind, "reason", "", reason)
        if status in BROKEN:
            return Evaluation(status, reason, message)
    state = text(obj.details, "state")
    line = catalog_pod_line(obj) if state != CONNECTED else ""
    if line.startswith(FAILING):
        return Evaluation(State.RETRYING, reason or state, line)
    if not state:
        if is_connecting(obj):
            return Evaluation(State.ABSENT, reason, message)
        return Evaluation(State.RETRYING, reason or NO_STATE, line)
    status = class_of(obj.kind, "connectionState", state, "")
    if status is State.PROGRESSING and not is_connecting(obj):
        status = State.DEGRADED
    return Evaluation(status, reason or state, line if status in BROKEN and line else message)


def evaluate_plan(obj: Observation) -> Evaluation:
    """An InstallPlan. One that is approved but not yet processed is PROGRESSING."""
    verdict = Evaluation(class_of(obj.kind, PHASE, obj.phase, ""), obj.phase)
    message = text(obj.details, "message")
    installed = evaluate_condition(obj, "Installed")
    if verdict.state is State.BLOCKED:
        if obj.details.get("approved") is True:
            return Evaluation(State.PROGRESSING, obj.phase)
        return Evaluation(State.BLOCKED, obj.phase, message)
    if verdict.state is State.FAILED:
        return Evaluation(State.FAILED, installed.reason or obj.phase, installed.message or message)
    if verdict.state is not State.HEALTHY:
        if installed.state in BROKEN:
            return installed
        if message.startswith(_RETRYING):
            return Evaluation(State.RETRYING, obj.phase, message)
        if unpacking := _unpacking(obj):
            return unpacking
    return replace(verdict, message=verdict.message or message)


def _unpacking(plan: Observation) -> Evaluation | None:
    """The failure of unpacking the plan's bundles, None without one."""
    for lookup in items(plan.details, "lookups"):
        for condition in read_conditions(items(lookup, "conditions")):
            state = class_of(plan.kind, condition.type, condition.status, condition.reason)
            if state is State.FAILED:
                return Evaluation(state, condition.reason or condition.type, condition.message)
            if state is State.PROGRESSING and _names_a_cause(condition.message, plan.kind):
                return Evaluation(State.RETRYING, condition.reason, condition.message)
    return None


def _names_a_cause(message: str, kind: str) -> bool:
    match = find(message, kind=kind) if message else None
    return match is not None and match.entry.id.startswith(("image-", "olmv0-unpack-image-"))


def evaluate_csv(obj: Observation) -> Evaluation:
    """A ClusterServiceVersion by phase and reason; its conditions are only a log.

    Pending is BLOCKED if a requirement is missing that only a person can provide.
    """
    reason = text(obj.details, "reason")
    message = text(obj.details, "message")
    state = class_of(obj.kind, PHASE, obj.phase, reason)
    pending = state is State.RETRYING and reason == "RequirementsNotMet"
    if pending and needs_a_person(requirement_rows(obj.details)):
        state = State.BLOCKED
    return Evaluation(state, reason, message)


def abnormal(obj: Observation) -> Sequence[tuple[str, Evaluation]]:
    """The conditions of a Subscription that are broken or in progress, with their type."""
    conditions = []
    for condition in obj.conditions:
        state = class_of(obj.kind, condition.type, condition.status, condition.reason)
        if state is State.PROGRESSING and _names_a_cause(condition.message, obj.kind):
            state = State.RETRYING
        if state in BROKEN or state is State.PROGRESSING:
            verdict = Evaluation(state, condition.reason, condition.message)
            conditions.append((condition.type, verdict))
    return conditions


def installed_before(obj: Observation) -> bool:
    """Whether a ClusterExtension has a bundle installed, whatever its state."""
    condition = condition_of(obj, "Installed")
    return condition is not None and condition.status == "True"


# -- requirements of a ClusterServiceVersion -------------------------------------------------------

# Statuses of requirements that are met: requirements.go of OLM's controllers.
_MET = frozenset(("Present", "Satisfied", "DeploymentFound"))
_CLUSTERWIDE = frozenset(("CustomResourceDefinition", "APIService", "ClusterServiceVersion"))


@dataclass(frozen=True, slots=True)
class Requirement:
    """One entry of status.requirementStatus.

    `rules` are the dependents that are not satisfied, in OLM's words: permissions as JSON.
    """

    group: str
    version: str
    kind: str
    name: str
    status: str
    message: str
    met: bool
    rules: tuple[str, ...] = ()

    @property
    def clusterwide(self) -> bool:
        """Whether an object of this kind has no namespace."""
        return self.kind in _CLUSTERWIDE

    @property
    def line(self) -> str:
        """The requirement in one line, as the knowledge base reads it."""
        return f"{self.kind} {self.name}: {self.message or self.status}"


def requirement_rows(details: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """The requirements of a ClusterServiceVersion, those that are not met first.

    Among those, causes come first: a missing definition or API before one that exists and is not
    available yet, and both before the service account, which the same InstallPlan would have
    created.
    """
    requirements = [_requirement(entry) for entry in items(details, "requirements")]
    requirements.sort(
        key=lambda entry: (
            entry.met,
            entry.kind == "ServiceAccount",
            entry.status == "PresentNotAvailable",
            entry.kind,
            entry.name,
        )
    )
    return tuple(requirements)


def needs_a_person(requirements: Sequence[Requirement]) -> bool:
    """Whether a requirement is missing that OLM does not create."""
    return any(
        not requirement.met and requirement.kind != "ServiceAccount" for requirement in requirements
    )


def _requirement(entry: Mapping[str, Any]) -> Requirement:
    status = text(entry, "status")
    rules = tuple(
        text(rule, "message")
        for rule in items(entry, "dependents")
        if text(rule, "status") not in _MET
    )
    return Requirement(
        group=text(entry, "group"),
        version=text(entry, "version"),
        kind=text(entry, "kind"),
        name=text(entry, "name"),
        status=status,
        message=text(entry, "message"),
        met=status in _MET and not rules,
        rules=rules,
    )


# -- Deployments and their pods --------------------------------------------------------------------

SCALED_TO_ZERO = "ScaledToZero"
# The kubelet alternates between the two; one reason keeps the history short.
_STABLE_REASONS = {"ErrImagePull": "ImagePullBackOff", "Error": "CrashLoopBackOff"}


@dataclass(frozen=True, slots=True)
class DeploymentFailure:
    """Why a Deployment does not run. `line` is the text for the knowledge base, from `kind`.

    `certain` is False if only the absence of ready pods is known, as during every installation.
    """

    deployment: Observation
    kind: str
    reason: str
    message: str
    line: str
    links: tuple[ChainLink, ...]  # the Deployment, and the Pod when it is the cause
    certain: bool = True


def evaluate_deployment(deployment: Observation) -> Evaluation:
    """Degraded if no pod is available or the rollout failed; the first error decides."""
    if number(deployment.details, "replicas", default=1) == 0:
        message = "The Deployment is scaled to zero: no pod of it runs."
        return Evaluation(State.DEGRADED, SCALED_TO_ZERO, message)
    available = evaluate_condition(deployment, "Available")
    failure = evaluate_condition(deployment, "ReplicaFailure")
    progressing = evaluate_condition(deployment, "Progressing")
    for verdict in (failure, progressing, available):
        if verdict.state in BROKEN:
            return Evaluation(State.DEGRADED, verdict.reason, verdict.message)
    if available.state is State.ABSENT:
        return Evaluation(State.PROGRESSING, progressing.reason, progressing.message)
    return available


def deployment_failure(deployments: Iterable[Observation]) -> DeploymentFailure | None:
    """Why the first Deployment that does not run fails; None if all run."""
    for deployment in sorted(deployments, key=lambda deployment: deployment.name):
        verdict = evaluate_deployment(deployment)
        pod = _broken_pod(deployment)
        if verdict.state is State.HEALTHY or (pod is None and verdict.state not in BROKEN):
            continue
        if pod is not None and verdict.reason != SCALED_TO_ZERO:
            return _pod_failure(deployment, verdict, pod)
        return DeploymentFailure(
            deployment,
            deployment.kind,
            verdict.reason,
            verdict.message,
            f"deployment {deployment.namespace}/{deployment.name}: {verdict.reason}: "
            f"{verdict.message}",
            (link_of(deployment, verdict, first_broken=True),),
            certain=verdict.reason != evaluate_condition(deployment, "Available").reason,
        )
    return None


def _broken_pod(deployment: Observation) -> Mapping[str, Any] | None:
    """The first pod whose waiting reason is an error or unknown."""
    for pod in items(deployment.details, "pods"):
        reason = text(pod, "reason")
        if reason and class_of("Pod", WAITING, "", reason) is not State.PROGRESSING:
            return pod
    return None


def _pod_failure(
    deployment: Observation, verdict: Evaluation, pod: Mapping[str, Any]
) -> DeploymentFailure:
    fields = ("name", "container", "reason", "message")
    name, container, reason, message = (text(pod, field) for field in fields)
    where = f"pod {deployment.namespace}/{name or '?'}"
    where += f" container {container}" if container else ""
    return DeploymentFailure(
        deployment,
        "Pod",
        _STABLE_REASONS.get(reason, reason),
        message,
        f"{where}: {reason}: {message}",
        (
            link_of(deployment, Evaluation(State.DEGRADED, verdict.reason, verdict.message)),
            ChainLink(
                "Pod", deployment.namespace, name, "failed", reason, message, first_broken=True
            ),
        ),
    )


# -- CustomResourceDefinitions ---------------------------------------------------------------------

KIND = "CustomResourceDefinition"
# Condition type -> the status that is a problem.
_PROBLEMS = {
    "NamesAccepted": "False",
    "Established": "False",
    "Terminating": "True",
    "NonStructuralSchema": "True",
}


def crd_problem(
    name: str,
    defined: Sequence[str],
    served: Sequence[str],
    stored: Sequence[str],
    conditions: Iterable[Condition],
) -> KnowledgeMatch | None:
    """The knowledge entry that applies to a definition, None if it is sound.

    `defined` are the names in spec.versions, `served` those that are served, `stored` those of
    status.storedVersions, which only ever grows: an upgrade whose definition lacks a stored version
    is refused. It does not prove what etcd holds.
    """
    if defined:
        keep = [version for version in stored if version in served] or list(served)
        # Names the storage version that remains, if there is only one.
        stays = f"; {keep[0]} stays" if len(keep) == 1 else ""
        for versions, verb in ((defined, "define"), (served, "serve")):
            if missing := [version for version in stored if version not in versions]:
                return _match(name, f"stores {', '.join(missing)}, which it does not {verb}{stays}")
    by_type = {condition.type: condition for condition in conditions}
    for type_, status in _PROBLEMS.items():
        condition = by_type.get(type_)
        # A new definition that is not established yet has this reason.
        if condition is None or condition.status != status or condition.reason == "Installing":
            continue
        return _match(name, f"{type_} is {status}: {condition.reason}: {condition.message}")
    return None


def _match(name: str, problem: str) -> KnowledgeMatch | None:
    return find(f"customresourcedefinition {name}: {problem}", kind=KIND)


# -- findings --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReportedMessage:
    """A text and the object that reports it, whose kind selects the knowledge entries."""

    kind: str
    namespace: str
    name: str
    text: str

    @classmethod
    def of(cls, obj: Observation, text: str) -> "ReportedMessage":
        return cls(obj.kind, obj.namespace, obj.name, text)


def finding_of(subject: Observation, messages: Sequence[ReportedMessage]) -> Finding | None:
    """The first finding among the messages.

    The names of a reporting object other than the subject become facts, so that a stored finding
    is filled with them again.
    """
    names = names_of(subject)
    for message in messages:
        if not message.text:
            continue
        match = find(message.text, kind=message.kind)
        if match is None:
            continue
        facts = dict(match.facts)
        if (message.namespace, message.name) != (subject.namespace, subject.name):
            facts |= {"kind": message.kind, "namespace": message.namespace, "name": message.name}
        return render(match.entry, facts, names)
    return None


def names_of(subject: Observation) -> dict[str, str]:
    """The subject's names for the texts of causes and remedies."""
    names = {"name": subject.name, "namespace": subject.namespace, "kind": subject.kind}
    if package := subject.extra.get("package"):
        names["package"] = package
    return names
