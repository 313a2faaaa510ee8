"""Diagnoses an object with its components: health, chain, first broken link, finding.

A PlatformOperator creates a BundleDeployment of the same name, which (rukpak v1alpha1) creates
Bundles; each copies the failure of the one below, so the deepest failing one is the broken link.
Deployments come last: they are the cause only if their creator is done or waits for them. The
problems of OLM v0 are in problems_v0.py.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from installs.diagnosis.catalog_pods import CATALOGD, catalogd_line
from installs.diagnosis.evaluate import (
    DeploymentFailure,
    Evaluation,
    ReportedMessage,
    deployment_failure,
    evaluate,
    evaluate_deployment,
    finding_of,
    installed_before,
    link_of,
)
from installs.diagnosis.knowledge import DEPRECATIONS
from installs.diagnosis.notes import notes_of
from installs.diagnosis.problems_v0 import (
    CSV,
    NOT_RUNNING,
    V0Installation,
    V0Problem,
    missing_link,
    of_kind,
    problem_of,
    v0_installation,
)
from installs.diagnosis.states import BROKEN, State
from installs.diagnosis.types import ChainLink, Condition, Diagnosis, Observation
from olmweb.kube.fields import number, text

_HEALTH = {
    State.HEALTHY: "Healthy",
    State.INFORMATION: "Healthy",
    State.PROGRESSING: "Installing",
    State.ABSENT: "Installing",
    State.RETRYING: "Failed",
    State.FAILED: "Failed",
    State.DEGRADED: "Degraded",
    State.BLOCKED: "Blocked",
    State.UNKNOWN: "Unknown",
}
_QUIET = ("Healthy", "Installing", "Upgrading")
_WAITING = (State.PROGRESSING, State.ABSENT)
# Reasons of a ClusterExtension whose objects exist but are not available.
_ROLL_OUT = frozenset(("ProbeFailure", "ProgressDeadlineExceeded", "RollingOut"))
_CATALOG = re.compile(r'catalog "(?P<name>[^"]{1,253})"')
# Findings of a ClusterExtension that say of a catalog only that its content can't be had: what
# operator-controller writes while catalogd is down or has not unpacked the catalog
# (operator-controller internal/operator-controller/catalogmetadata/client/client.go).
_NO_CONTENT = frozenset(
    (
        "ce-catalog-cache",
        "ce-catalog-fetch",
        "ce-catalog-get-failed",
        "ce-catalog-http-status",
        "ce-catalog-nil-status",
        "ce-catalog-not-serving",
        "ce-catalog-request",
        "ce-catalogd-unreachable",
    )
)


def diagnose(
    subject: Observation,
    components: Sequence[Observation],
    *,
    now: datetime | None = None,
    catalogd: Callable[[], Mapping[str, Any]] = dict,
    unread: Callable[[], Container[str]] = frozenset,
) -> Diagnosis:
    """Health, cause and chain of a PlatformOperator, ClusterExtension, Subscription,
    ClusterServiceVersion, ClusterCatalog or CatalogSource.

    `components` are the objects that it owns or refers to, in any order. An object without
    conditions is being installed. With `now`, a step that takes unusually long is noted, and a
    ClusterServiceVersion that was installed seconds ago is not reported as deleted.
    `catalogd` returns the Deployment of catalogd as installs.facts.inventory stores it; it is
    called only for a ClusterExtension that gets no content of a catalog, whose cause catalogd is
    if it does not run. `unread` returns the kinds of which the cluster may have more objects than
    are stored; it is called only if an object is missing. Never raises for invalid input: what no
    known controller writes has health Unknown.
    """
    if subject.kind in OLM_V0:
        diagnosis = diagnose_v0(subject, components, now, unread)
    else:
        diagnosis = _diagnose(subject, components, unread)
    if subject.kind == "ClusterExtension" and diagnosis.finding is not None:
        diagnosis = _behind_catalogs(subject, components, diagnosis, catalogd)
    return replace(diagnosis, notes=notes_of(subject, components, diagnosis, now))


def assess(observation: Observation) -> ChainLink:
    """The state of one object by itself, as a link of a chain."""
    return link_of(observation, evaluate(observation))


def deprecations(conditions: Iterable[Condition]) -> tuple[str, ...]:
    """The messages of deprecation conditions that are true; empty if nothing is deprecated.

    Only the status decides: before v1.6 a condition that is not true has the reason Deprecated too.
    """
    messages = {
        condition.type: condition.message for condition in conditions if condition.status == "True"
    }
    return tuple(dict.fromkeys(messages[type_] for type_ in DEPRECATIONS if type_ in messages))


def _diagnose(
    subject: Observation, components: Sequence[Observation], unread: Callable[[], Container[str]]
) -> Diagnosis:
    observed = [subject, *_below(subject, components)]
    evaluations = [evaluate(obj) for obj in observed]
    deployments = of_kind(components, "Deployment")
    pods = deployment_failure(deployments) if _pods_decide(evaluations) else None
    if pods is not None and (pods.certain or evaluations[0].state not in _WAITING):
        return _not_running(subject, observed, evaluations, deployments, pods)
    broken = max(
        (i for i, verdict in enumerate(evaluations) if verdict.state in BROKEN), default=None
    )
    links = [
        link_of(obj, verdict, first_broken=i == broken)
        for i, (obj, verdict) in enumerate(zip(observed, evaluations, strict=True))
    ]
    own, deepest = evaluations[0], evaluations[broken] if broken is not None else evaluations[0]
    health = _health(subject, evaluations)
    message = deepest.message or own.message
    finding = None
    if health not in _QUIET:
        texts = (observed[broken or 0].kind, message or deepest.reason), (subject.kind, own.message)
        # BundleDeployment and release have the subject's name.
        messages = [
            ReportedMessage(kind, subject.namespace, subject.name, text) for kind, text in texts
        ]
        finding = finding_of(subject, messages)
    if subject.kind == "PlatformOperator" and len(observed) == 1:
        links.append(missing_link("BundleDeployment", "", subject.name, unread))
    links = _with_catalogs(subject, components, links, own, unread)
    links += [link_of(deployment, evaluate_deployment(deployment)) for deployment in deployments]
    return Diagnosis(health, own.reason or deepest.reason, message, finding, tuple(links))


def _pods_decide(evaluations: Sequence[Evaluation]) -> bool:
    """Whether Deployments may be the cause, because nothing above them has another one."""
    own = evaluations[0]
    if own.reason in _ROLL_OUT:
        return True
    return own.state in (State.HEALTHY, *_WAITING) and not any(
        verdict.state in BROKEN and verdict.reason not in _ROLL_OUT for verdict in evaluations[1:]
    )


def _not_running(
    subject: Observation,
    observed: Sequence[Observation],
    evaluations: Sequence[Evaluation],
    deployments: Sequence[Observation],
    pods: DeploymentFailure,
) -> Diagnosis:
    """The diagnosis if all objects exist and a Deployment does not run."""
    works = evaluations[0].state in (State.HEALTHY, State.DEGRADED)
    installed = works or installed_before(subject)
    parts = (NOT_RUNNING, pods.reason, pods.message) if installed else (pods.message,)
    at = pods.deployment
    links = [link_of(obj, verdict) for obj, verdict in zip(observed, evaluations, strict=True)]
    for deployment in deployments:
        own = (link_of(deployment, evaluate_deployment(deployment)),)
        links += pods.links if deployment is at else own
    return Diagnosis(
        "Degraded" if installed else "Failed",
        # Before it is installed the reason stays its own, as other tools show it.
        pods.reason if installed else evaluations[0].reason or pods.reason,
        ": ".join(filter(None, parts)),
        finding_of(subject, [ReportedMessage(pods.kind, at.namespace, at.name, pods.line)]),
        tuple(links),
    )


def _with_catalogs(
    subject: Observation,
    components: Sequence[Observation],
    links: list[ChainLink],
    own: Evaluation,
    unread: Callable[[], Container[str]],
) -> list[ChainLink]:
    """Adds the ClusterCatalogs of a ClusterExtension; one named in its error is the broken link."""
    if subject.kind != "ClusterExtension":
        return links
    catalogs = {catalog.name: catalog for catalog in of_kind(components, "ClusterCatalog")}
    named = _CATALOG.search(own.message) if own.state in BROKEN else None
    blamed = named["name"] if named else ""
    catalog_links = [
        replace(link_of(catalog, evaluate(catalog)), first_broken=name == blamed)
        for name, catalog in sorted(catalogs.items())
    ]
    if blamed and blamed not in catalogs:
        missing = missing_link("ClusterCatalog", "", blamed, unread)
        catalog_links.append(replace(missing, first_broken=True))
    if blamed:
        links = [replace(link, first_broken=False) for link in links]
    return [links[0], *catalog_links, *links[1:]]


def _behind_catalogs(
    subject: Observation,
    components: Sequence[Observation],
    diagnosis: Diagnosis,
    catalogd: Callable[[], Mapping[str, Any]],
) -> Diagnosis:
    """The cause of a ClusterExtension that gets no content of a catalog: catalogd if that does not
    run, else what holds up the ClusterCatalog that the error names."""
    if diagnosis.finding is None or diagnosis.finding.id not in _NO_CONTENT:
        return diagnosis
    named = _CATALOG.search(diagnosis.message)
    blamed = named["name"] if named else ""
    deployment = catalogd()
    if line := catalogd_line(deployment):
        finding = finding_of(subject, [ReportedMessage("ClusterCatalog", "", blamed, line)])
        namespace = text(deployment, "namespace")
        broken = ChainLink("Deployment", namespace, CATALOGD, "failed", message=line)
        links = [replace(link, first_broken=False) for link in diagnosis.chain]
        at = max((i for i, link in enumerate(links) if link.kind == "ClusterCatalog"), default=0)
        links.insert(at + 1, replace(broken, first_broken=True))
        return replace(diagnosis, finding=finding or diagnosis.finding, chain=tuple(links))
    for catalog in of_kind(components, "ClusterCatalog"):
        verdict = evaluate(catalog)
        if catalog.name == blamed and verdict.state in BROKEN and verdict.message:
            finding = finding_of(subject, [ReportedMessage.of(catalog, verdict.message)])
            return replace(diagnosis, finding=finding or diagnosis.finding)
    return diagnosis


def _health(subject: Observation, evaluations: Sequence[Evaluation]) -> str:
    own = evaluations[0].state
    below = [verdict.state for verdict in evaluations[1:]]
    if subject.kind == "ClusterExtension" and own is State.PROGRESSING:
        return "Upgrading" if installed_before(subject) else "Installing"
    if subject.kind == "PlatformOperator":
        failing = any(state in BROKEN for state in below)
        if own is State.HEALTHY and failing:
            return "Degraded"
        if own in _WAITING and failing:
            return "Failed"
        if own in _WAITING and below[:1] == [State.HEALTHY]:
            # rukpak 0.17 and newer never report completion to the PlatformOperator.
            return "Degraded" if evaluations[0].reason == "UnpackPending" else "Installing"
    return _HEALTH[own]


def _below(subject: Observation, components: Sequence[Observation]) -> list[Observation]:
    """The objects that belong to the subject, from the top of the chain to its bottom."""
    if subject.kind == "PlatformOperator":
        named = [obj for obj in of_kind(components, "BundleDeployment") if obj.name == subject.name]
        return named[:1] + _newest(of_kind(components, "Bundle"))
    if subject.kind == "ClusterExtension":
        return _newest(of_kind(components, "ClusterObjectSet"))
    return []


def _newest(candidates: Sequence[Observation]) -> list[Observation]:
    """The object with the highest revision, else the latest condition change; there are several
    only while one replaces another."""

    def changed(candidate: Observation) -> tuple[int, str, str]:
        times = [condition.last_transition_time for condition in candidate.conditions]
        return (number(candidate.details, "revision"), max(times, default=""), candidate.name)

    return [max(candidates, key=changed)] if candidates else []


# -- OLM v0 ----------------------------------------------------------------------------------------

OLM_V0 = frozenset(("Subscription", "ClusterServiceVersion"))


def diagnose_v0(
    subject: Observation,
    components: Sequence[Observation],
    now: datetime | None,
    unread: Callable[[], Container[str]],
) -> Diagnosis:
    """Health, cause and chain of a Subscription, or of a ClusterServiceVersion without one."""
    installation = v0_installation(subject, components, now, unread)
    problem = problem_of(installation)
    links = _links(installation, problem)
    if problem is None:
        health, verdict = _quiet_health(installation), _quiet_verdict(installation)
        if health == "Upgrading" and _is_replaced_next(installation):
            verdict = _upgrade_verdict(installation)
        return Diagnosis(health, verdict.reason, verdict.message, None, links)
    finding = finding_of(subject, problem.messages)
    return Diagnosis(problem.health, problem.reason, problem.message, finding, links)


def _quiet_verdict(installation: V0Installation) -> Evaluation:
    """The evaluation of the last existing object of the chain, if nothing is wrong."""
    if installation.csv is not None:
        return installation.csv_verdict
    if installation.plan is not None:
        return installation.plan_verdict
    return installation.conditions[0][1] if installation.conditions else Evaluation(State.ABSENT)


def _is_replaced_next(installation: V0Installation) -> bool:
    """Whether the ClusterServiceVersion is the old one, which still succeeds."""
    return installation.csv_verdict.state is State.HEALTHY and not installation.leaving


def _upgrade_verdict(installation: V0Installation) -> Evaluation:
    """The evaluation of the object that brings the next version; the old ClusterServiceVersion
    says nothing of it."""
    if installation.plan_is_next and installation.plan_verdict.state is State.PROGRESSING:
        return installation.plan_verdict
    return installation.condition("BundleUnpacking") or Evaluation(State.ABSENT)


def _quiet_health(installation: V0Installation) -> str:
    state = _quiet_verdict(installation).state
    if state is State.UNKNOWN:
        return "Unknown"
    if installation.csv is None or state is not State.HEALTHY:
        return "Upgrading" if installation.works or installation.upgrading else "Installing"
    planned = installation.plan_verdict.state is State.PROGRESSING and installation.plan_is_next
    resolved = text(installation.subject.details, "current_csv") not in ("", installation.csv.name)
    coming = planned or resolved or installation.condition("BundleUnpacking") is not None
    return "Upgrading" if coming or installation.leaving else "Healthy"


def _links(installation: V0Installation, problem: V0Problem | None) -> tuple[ChainLink, ...]:
    """The chain from top to bottom; the problem's links replace those of the same objects."""
    links: list[ChainLink] = []
    subject = installation.subject
    if subject.kind == "Subscription":
        links.append(_subject_link(installation, problem))
        catalog, plan = installation.catalog, installation.plan
        ref, plan_ref = installation.catalog_ref, (subject.namespace, installation.plan_name)
        unread = installation.unread
        links += _link(catalog, installation.catalog_verdict, "CatalogSource", *ref, unread)
        links += _link(plan, installation.plan_verdict, "InstallPlan", *plan_ref, unread)
    links += _csv_link(installation, problem)
    links += [
        link_of(deployment, evaluate_deployment(deployment))
        for deployment in installation.deployments
    ]
    if problem is None:
        return tuple(links)
    behind: tuple[str, str] = (problem.after, "")
    for broken in problem.links:
        links = _put(links, broken, behind)
        behind = (broken.kind, broken.name)
    return tuple(links)


def _subject_link(installation: V0Installation, problem: V0Problem | None) -> ChainLink:
    """The link of the Subscription: failed only if it is the cause, as it copies other failures."""
    verdicts = [verdict for _, verdict in installation.conditions]
    broken = [verdict for verdict in verdicts if verdict.state in BROKEN]
    verdict = next(iter((*broken, *verdicts)), Evaluation(State.HEALTHY))
    if problem is None and verdict.state in BROKEN:
        verdict = replace(verdict, state=State.INFORMATION)
    return link_of(installation.subject, verdict)


def _csv_link(installation: V0Installation, problem: V0Problem | None) -> list[ChainLink]:
    csv, verdict = installation.csv, installation.csv_verdict
    if problem is None and verdict.state in BROKEN:
        verdict = replace(verdict, state=State.PROGRESSING)  # missing requirements are created
    namespace, name = installation.subject.namespace, installation.csv_name
    return _link(csv, verdict, CSV, namespace, name, installation.unread)


def _link(
    obj: Observation | None,
    verdict: Evaluation,
    kind: str,
    namespace: str,
    name: str,
    unread: Callable[[], Container[str]],
) -> list[ChainLink]:
    """The link of the object, that of a missing one if only its name is known, none without a
    name."""
    if obj is not None:
        return [link_of(obj, verdict)]
    return [missing_link(kind, namespace, name, unread)] if name else []


def _put(links: list[ChainLink], new: ChainLink, behind: tuple[str, str]) -> list[ChainLink]:
    """Replaces the link of the same object, else inserts the new one after the last link of the
    kind and name in `behind` (an empty name matches any), else appends it."""
    for position, link in enumerate(links):
        if (link.kind, link.namespace, link.name) == (new.kind, new.namespace, new.name):
            return [*links[:position], new, *links[position + 1 :]]
    kind, name = behind
    before = [i for i, link in enumerate(links) if link.kind == kind and name in ("", link.name)]
    place = before[-1] + 1 if before else len(links)
    return [*links[:place], new, *links[place:]]
