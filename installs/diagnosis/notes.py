"""Notes on an installation that don't decide its health: slow steps, deprecations, and others.

The usual times are generous: each is the controllers' own limit if there is one, else several
times what was observed on real clusters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from installs.diagnosis import resolution
from installs.diagnosis.evaluate import ReportedMessage, evaluate_condition, finding_of
from installs.diagnosis.knowledge import DEPRECATIONS, Finding, classify
from installs.diagnosis.states import State
from installs.diagnosis.types import ChainLink, Diagnosis, Observation
from olmweb.kube.fields import items, read_time, text

_GOING_ON = ("Installing", "Upgrading")
# OLM installs this one itself, so no Subscription is missing.
PART_OF_OLM = "packageserver"
# Details with the time since when an object of a kind is in its phase.
_SINCE = {"ClusterServiceVersion": "last_update", "InstallPlan": "start_time"}


def notes_of(
    subject: Observation,
    components: Sequence[Observation],
    diagnosis: Diagnosis,
    now: datetime | None,
) -> tuple[Finding, ...]:
    """The notes, most important first; without `now` there are none about slow steps."""
    messages = [*_deleting(subject, now)]
    if now is not None and not messages:
        messages += _slow(subject, components, diagnosis, now)
    messages += _earlier(subject, diagnosis)
    messages += _outdated(subject, components)
    messages += _held(components, diagnosis)
    if subject.kind == "ClusterServiceVersion" and subject.name != PART_OF_OLM:
        messages.append(f"clusterserviceversion {subject.name} has no subscription")
    notes = [finding_of(subject, [ReportedMessage.of(subject, message)]) for message in messages]
    return (*filter(None, notes), *_deprecated(subject))


def _deleting(subject: Observation, now: datetime | None) -> Iterator[str]:
    if not subject.deleting:
        return
    since = read_time(text(subject.details, "deleted_at"))
    if now is not None and stuck(subject.kind, DELETING, since, now):
        minutes = int((now - since).total_seconds() // 60) if since else 0
        yield f"{subject.kind} {subject.name} waits for its finalizers for {minutes} minutes"
    else:
        yield f"{subject.kind} {subject.name} is being deleted"


def _slow(
    subject: Observation, components: Sequence[Observation], diagnosis: Diagnosis, now: datetime
) -> Iterator[str]:
    """The current step if it takes longer than usual."""
    if diagnosis.health not in _GOING_ON:
        return
    objects = {
        (component.kind, component.namespace, component.name): component
        for component in (*components, subject)
    }
    going = [link for link in diagnosis.chain if link.state == "progressing"]
    if not going and diagnosis.health == "Installing":
        # No controller has reported yet.
        going = [link for link in diagnosis.chain[:1] if not link.reason]
    if not going:
        return
    link = going[-1]
    obj = objects.get((link.kind, link.namespace, link.name))
    since = _since(obj, link, subject) if obj else None
    usual = usual_time(link.kind, link.reason)
    if since is None or usual is None or not stuck(link.kind, link.reason, since, now):
        return
    minutes = int((now - since).total_seconds() // 60)
    yield (
        f"{link.kind} {link.name} is at {link.reason or 'its start'} for {minutes} minutes, usually"
        f" at most {int(usual.total_seconds() // 60)}"
    )


def _since(obj: Observation, link: ChainLink, subject: Observation) -> datetime | None:
    """When the step began: the time of the phase, which is exact, else when its reason was first
    observed, else the condition's time, which changes only with the status, else its creation."""
    if exact := read_time(text(obj.details, _SINCE.get(obj.kind, ""))):
        return exact
    times = [
        at
        for condition in obj.conditions
        if condition.reason == link.reason and (at := read_time(condition.last_transition_time))
    ]
    return subject.since or max(times, default=None) or obj.created_at


def _earlier(subject: Observation, diagnosis: Diagnosis) -> Iterator[str]:
    """An InstallPlan that failed although its version was installed in the end."""
    if subject.kind != "Subscription" or diagnosis.health != "Healthy":
        return
    for link in diagnosis.chain:
        if link.kind == "InstallPlan" and link.state == "failed":
            yield f"installplan {link.name} failed earlier: {link.message or link.reason}"


def _outdated(subject: Observation, components: Sequence[Observation]) -> Iterator[str]:
    """A failed resolution that OLM still reports although it is over."""
    if subject.kind != "Subscription":
        return
    csvs = [
        component
        for component in components
        if (component.kind, component.namespace) == ("ClusterServiceVersion", subject.namespace)
    ]
    if why := resolution.why_over(subject, csvs):
        # Without the prefix of a list of constraints, of which only the worst would be shown.
        message = resolution.resolution_message(subject)
        message = message.removeprefix("constraints not satisfiable: ")
        yield f"resolution failed before, and {why}: {message}"


def _held(components: Sequence[Observation], diagnosis: Diagnosis) -> Iterator[str]:
    """An OperatorCondition that blocks the next upgrade."""
    if diagnosis.health != "Healthy":
        return
    for component in components:
        if component.kind != "OperatorCondition":
            continue
        verdict = evaluate_condition(component, "Upgradeable")
        overridden = any(
            text(override, "type") == "Upgradeable" and text(override, "status") == "True"
            for override in items(component.details, "overrides")
        )
        if verdict.state is State.BLOCKED and not overridden:
            why = verdict.message or verdict.reason
            yield f"operatorcondition {component.name} does not allow an upgrade: {why}"


def _deprecated(subject: Observation) -> Iterator[Finding]:
    """The distinct deprecation messages of conditions that are true.

    The condition Deprecated joins the messages of the others with newlines (operator-controller,
    clusterextension_controller.go), so messages that it contains are left out.
    """
    types = {
        condition.message: condition.type
        for condition in subject.conditions
        if condition.type in DEPRECATIONS and condition.status == "True"
    }
    joined = next((message for message, type_ in types.items() if type_ == "Deprecated"), "")
    for message, type_ in types.items():
        if type_ != "Deprecated" and message and message in joined:
            continue
        note = classify(message or type_, kind=subject.kind, type=type_)
        if note is not None:
            yield replace(note, facts={"message": message, **note.facts})


# -- times -----------------------------------------------------------------------------------------

DAY = timedelta(hours=24)
DELETING = "Deleting"
_ANY = "*"

# (kind, reason or phase) -> minutes, and where the number comes from.
USUAL: dict[tuple[str, str], tuple[int, str]] = {
    ("PlatformOperator", ""): (2, "the manager answers within seconds"),
    ("PlatformOperator", "UnpackPending"): (5, "an image pull and one pod"),
    ("PlatformOperator", "InstallPending"): (5, "an image pull and one Helm installation"),
    ("BundleDeployment", ""): (2, "rukpak answers within seconds"),
    ("BundleDeployment", "UnpackPending"): (5, "an image pull and one pod"),
    ("BundleDeployment", "Unpacking"): (5, "an image pull and one pod"),
    ("Bundle", ""): (2, "rukpak answers within seconds"),
    ("Bundle", "UnpackPending"): (5, "an image pull and one pod"),
    ("Bundle", "Unpacking"): (5, "an image pull and one pod"),
    ("ClusterExtension", ""): (2, "operator-controller answers within seconds"),
    ("ClusterExtension", "Absent"): (10, "smallest progressDeadlineMinutes"),
    ("ClusterExtension", "RollingOut"): (10, "smallest progressDeadlineMinutes"),
    ("ClusterExtension", "Reconciling"): (10, "smallest progressDeadlineMinutes"),
    ("ClusterObjectSet", "RollingOut"): (10, "smallest progressDeadlineMinutes"),
    ("ClusterObjectSet", "Reconciling"): (10, "smallest progressDeadlineMinutes"),
    ("ClusterCatalog", ""): (5, "131 MB are unpacked in 3 s; the rest is the image pull"),
    ("CatalogSource", ""): (5, "an image pull and the start of the registry"),
    ("CatalogSource", "CONNECTING"): (5, "an image pull and the start of the registry"),
    ("CatalogSource", "TRANSIENT_FAILURE"): (5, "gRPC tries again every two minutes at most"),
    ("CatalogSource", "IDLE"): (5, "the next resolution connects again"),
    ("Subscription", ""): (5, "resolution takes seconds; a catalog may still start"),
    ("Subscription", "UnpackingInProgress"): (10, "OLM's --bundle-unpack-timeout"),
    ("Subscription", "Installing"): (5, "five times OLM's --install-plan-retry-timeout"),
    ("Subscription", "InstallPlanNotYetReconciled"): (2, "seconds"),
    ("InstallPlan", ""): (2, "seconds"),
    ("InstallPlan", "Planning"): (10, "OLM's --bundle-unpack-timeout"),
    ("InstallPlan", "Installing"): (5, "five times OLM's --install-plan-retry-timeout"),
    ("InstallPlan", "JobIncomplete"): (10, "OLM's --bundle-unpack-timeout"),
    ("ClusterServiceVersion", ""): (2, "seconds"),
    ("ClusterServiceVersion", "RequirementsUnknown"): (2, "seconds"),
    ("ClusterServiceVersion", "RequirementsNotMet"): (5, "the InstallPlan's time"),
    ("ClusterServiceVersion", "AllRequirementsMet"): (2, "seconds"),
    ("ClusterServiceVersion", "InstallSucceeded"): (5, "OLM's install timeout of a CSV"),
    ("ClusterServiceVersion", "InstallWaiting"): (5, "OLM's install timeout of a CSV"),
    ("ClusterServiceVersion", "NeedsReinstall"): (5, "OLM's install timeout of a CSV"),
    ("ClusterServiceVersion", "NeedsCertRotation"): (5, "OLM's install timeout of a CSV"),
    ("ClusterServiceVersion", "BeingReplaced"): (10, "requirements and installation of the next"),
    ("ClusterServiceVersion", "Replaced"): (5, "deletion of the old version's objects"),
    ("Deployment", ""): (10, "progressDeadlineSeconds, 600 unless set"),
    ("Deployment", "NewReplicaSetCreated"): (10, "progressDeadlineSeconds, 600 unless set"),
    ("Deployment", "ReplicaSetUpdated"): (10, "progressDeadlineSeconds, 600 unless set"),
    ("Pod", "ContainerCreating"): (5, "volumes and an image pull"),
    ("Pod", "PodInitializing"): (5, "init containers"),
    (_ANY, DELETING): (5, "finalizers and garbage collection"),
}
_WORKING = frozenset(("Healthy",))
_NOT_WORKING = frozenset(("Failed", "Degraded", "Blocked"))


def usual_time(kind: str, step: str) -> timedelta | None:
    """The usual maximum duration of a step (a reason or phase) of a kind; None if unknown."""
    usual = USUAL.get((kind, step)) or USUAL.get((_ANY, step))
    return timedelta(minutes=usual[0]) if usual else None


def stuck(kind: str, step: str, since: datetime | None, now: datetime) -> bool:
    """Whether the step lasts longer than usual. Steps that wait for a person are never stuck."""
    usual = usual_time(kind, step)
    return usual is not None and since is not None and now - since > usual


def flaps(healths: Sequence[tuple[datetime, str]], now: datetime) -> int:
    """The number of changes between working and not working in the last 24 hours.

    `healths` are (since, health) in any order. Installing, Upgrading, NeedsApproval and Unknown are
    neither.
    """
    count = 0
    before: bool | None = None
    for at, health in sorted(healths):
        if health not in _WORKING | _NOT_WORKING:
            continue
        works = health in _WORKING
        if before is not None and works != before and now - DAY <= at <= now:
            count += 1
        before = works
    return count
