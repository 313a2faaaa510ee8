"""Puts an object and its components together: health, chain, first broken link, finding.

A PlatformOperator makes a BundleDeployment of the same name, which (rukpak v1alpha1) makes
Bundles; each copies the failure of the one below, so the deepest failing one is where it broke.
Deployments come last: they are to blame only when what made them says that it is done or waits.
OLM v0 has rules of its own, in olm_v0.py.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from installs.diagnosis.classify import DEPRECATIONS
from installs.diagnosis.finding import Said, finding_of
from installs.diagnosis.judge import installed_before, judge
from installs.diagnosis.judgement import Judgement, link_of
from installs.diagnosis.notes import notes_of
from installs.diagnosis.olm_v0 import KINDS as OLM_V0
from installs.diagnosis.olm_v0 import diagnose_v0
from installs.diagnosis.problems import NOT_RUNNING
from installs.diagnosis.reading import number
from installs.diagnosis.states import BROKEN, Class
from installs.diagnosis.types import Condition, Diagnosis, Link, Observation
from installs.diagnosis.workloads import Trouble, judge_deployment, trouble

_HEALTH = {
    Class.HEALTHY: "Healthy",
    Class.INFORMATION: "Healthy",
    Class.PROGRESSING: "Installing",
    Class.ABSENT: "Installing",
    Class.RETRYING: "Failed",
    Class.FAILED: "Failed",
    Class.DEGRADED: "Degraded",
    Class.BLOCKED: "Blocked",
    Class.UNKNOWN: "Unknown",
}
_QUIET = ("Healthy", "Installing", "Upgrading")
_WAITING = (Class.PROGRESSING, Class.ABSENT)
# What a ClusterExtension says when the objects are there and do not come up.
_ROLL_OUT = frozenset(("ProbeFailure", "ProgressDeadlineExceeded", "RollingOut"))
_CATALOG = re.compile(r'catalog "(?P<name>[^"]{1,253})"')


def diagnose(
    subject: Observation, components: Sequence[Observation], *, now: datetime | None = None
) -> Diagnosis:
    """Health, cause and chain of a PlatformOperator, ClusterExtension, Subscription,
    ClusterServiceVersion, ClusterCatalog or CatalogSource.

    `components` are the objects that belong to it or that it refers to, in any order. An object
    without conditions is being installed: its controller has not spoken yet. With `now` a step
    that takes unusually long is noted. Never raises for odd input: what no known controller
    writes gives health Unknown.
    """
    if subject.kind in OLM_V0:
        found = diagnose_v0(subject, components)
    else:
        found = _diagnose(subject, components)
    return replace(found, notes=notes_of(subject, components, found, now))


def assess(observation: Observation) -> Link:
    """The state of one object by itself, as a link of a chain."""
    return link_of(observation, judge(observation))


def deprecations(conditions: Iterable[Condition]) -> tuple[str, ...]:
    """What OLM says is deprecated, in its catalog's words; empty when nothing is.

    Judged by status alone: before v1.6 a condition that is not true has the reason Deprecated too.
    """
    told = {one.type: one.message for one in conditions if one.status == "True"}
    return tuple(dict.fromkeys(told[type_] for type_ in DEPRECATIONS if type_ in told))


def _diagnose(subject: Observation, components: Sequence[Observation]) -> Diagnosis:
    observed = [subject, *_below(subject, components)]
    judged = [judge(one) for one in observed]
    deployments = sorted(_of_kind(components, "Deployment"), key=lambda one: one.name)
    pods = trouble(deployments) if _pods_decide(judged) else None
    if pods is not None and (pods.certain or judged[0].state not in _WAITING):
        return _not_running(subject, observed, judged, deployments, pods)
    broken = max((i for i, one in enumerate(judged) if one.state in BROKEN), default=None)
    links = [
        link_of(one, verdict, first_broken=i == broken)
        for i, (one, verdict) in enumerate(zip(observed, judged, strict=True))
    ]
    own, deepest = judged[0], judged[broken] if broken is not None else judged[0]
    health = _health(subject, judged)
    message = deepest.message or own.message
    finding = None
    if health not in _QUIET:
        told = (observed[broken or 0].kind, message or deepest.reason), (subject.kind, own.message)
        # The names are the subject's: BundleDeployment and release are called as it is.
        said = [Said(kind, subject.namespace, subject.name, text) for kind, text in told]
        finding = finding_of(subject, said)
    if subject.kind == "PlatformOperator" and len(observed) == 1:
        links.append(Link("BundleDeployment", "", subject.name, "absent"))
    links = _with_catalogs(subject, components, links, own)
    links += [link_of(one, judge_deployment(one)) for one in deployments]
    return Diagnosis(health, own.reason or deepest.reason, message, finding, tuple(links))


def _pods_decide(judged: Sequence[Judgement]) -> bool:
    """Whether Deployments may be the cause: nothing above them names another one."""
    own = judged[0]
    if own.reason in _ROLL_OUT:
        return True
    return own.state in (Class.HEALTHY, *_WAITING) and not any(
        one.state in BROKEN and one.reason not in _ROLL_OUT for one in judged[1:]
    )


def _not_running(
    subject: Observation,
    observed: Sequence[Observation],
    judged: Sequence[Judgement],
    deployments: Sequence[Observation],
    pods: Trouble,
) -> Diagnosis:
    """Everything is there and a Deployment does not run."""
    installed = judged[0].state in (Class.HEALTHY, Class.DEGRADED) or installed_before(subject)
    parts = (NOT_RUNNING, pods.reason, pods.message) if installed else (pods.message,)
    at = pods.deployment
    links = [link_of(one, verdict) for one, verdict in zip(observed, judged, strict=True)]
    for one in deployments:
        links += pods.links if one is at else (link_of(one, judge_deployment(one)),)
    return Diagnosis(
        "Degraded" if installed else "Failed",
        # Before it is installed the reason stays its own, by which others know it too.
        pods.reason if installed else judged[0].reason or pods.reason,
        ": ".join(filter(None, parts)),
        finding_of(subject, [Said(pods.kind, at.namespace, at.name, pods.said)]),
        tuple(links),
    )


def _with_catalogs(
    subject: Observation, components: Sequence[Observation], links: list[Link], own: Judgement
) -> list[Link]:
    """The ClusterCatalogs behind a ClusterExtension; one that its error names is where it broke."""
    if subject.kind != "ClusterExtension":
        return links
    catalogs = {one.name: one for one in _of_kind(components, "ClusterCatalog")}
    named = _CATALOG.search(own.message) if own.state in BROKEN else None
    blamed = named["name"] if named else ""
    found = [
        replace(link_of(one, judge(one)), first_broken=name == blamed)
        for name, one in sorted(catalogs.items())
    ]
    if blamed and blamed not in catalogs:
        found.append(Link("ClusterCatalog", "", blamed, "absent", first_broken=True))
    if blamed:
        links = [replace(link, first_broken=False) for link in links]
    return [links[0], *found, *links[1:]]


def _health(subject: Observation, judged: Sequence[Judgement]) -> str:
    own = judged[0].state
    below = [one.state for one in judged[1:]]
    if subject.kind == "ClusterExtension" and own is Class.PROGRESSING:
        return "Upgrading" if installed_before(subject) else "Installing"
    if subject.kind == "PlatformOperator":
        failing = any(state in BROKEN for state in below)
        if own is Class.HEALTHY and failing:
            return "Degraded"
        if own in _WAITING and failing:
            return "Failed"
        if own in _WAITING and below[:1] == [Class.HEALTHY]:
            # rukpak 0.17 and newer never tell the PlatformOperator that they are done.
            return "Degraded" if judged[0].reason == "UnpackPending" else "Installing"
    return _HEALTH[own]


def _of_kind(components: Sequence[Observation], kind: str) -> list[Observation]:
    return [one for one in components if one.kind == kind]


def _below(subject: Observation, components: Sequence[Observation]) -> list[Observation]:
    """The objects that belong to the subject, from the top of the chain to its bottom."""
    if subject.kind == "PlatformOperator":
        deployments = [
            one for one in _of_kind(components, "BundleDeployment") if one.name == subject.name
        ]
        return deployments[:1] + _newest(_of_kind(components, "Bundle"))
    if subject.kind == "ClusterExtension":
        return _newest(_of_kind(components, "ClusterObjectSet"))
    return []


def _newest(candidates: Sequence[Observation]) -> list[Observation]:
    """The object of the highest revision, else the one whose conditions changed last: several
    exist only while one replaces another."""

    def changed(one: Observation) -> tuple[int, str, str]:
        times = [condition.last_transition_time for condition in one.conditions]
        return (number(one.details, "revision") or 0, max(times, default=""), one.name)

    return [max(candidates, key=changed)] if candidates else []
