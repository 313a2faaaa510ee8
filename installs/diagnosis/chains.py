"""Puts an object and its components together: health, chain, first broken link, finding.

A PlatformOperator makes a BundleDeployment of the same name, which (rukpak v1alpha1) makes
Bundles; each copies the failure of the one below, so the deepest failing one is where it broke.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from installs.diagnosis.classify import DEPRECATIONS, find, render
from installs.diagnosis.states import BROKEN, Class, class_of
from installs.diagnosis.types import Condition, Diagnosis, Finding, Link, Observation

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
_LINK_STATE = {
    Class.HEALTHY: "ok",
    Class.INFORMATION: "ok",
    Class.PROGRESSING: "progressing",
    Class.ABSENT: "waiting",
    Class.UNKNOWN: "waiting",
}
# Says only that the real error stands in the Installed condition.
_SEE_INSTALLED = "retrying to get installed bundle"


@dataclass(frozen=True, slots=True)
class _Judgement:
    """The class of one object and the condition that decides it."""

    state: Class
    reason: str = ""
    message: str = ""


def diagnose(
    subject: Observation, components: Sequence[Observation], *, now: datetime | None = None
) -> Diagnosis:
    """Health, cause and chain of a PlatformOperator, ClusterExtension or ClusterCatalog.

    `components` are the objects that belong to it, in any order. An object without conditions is
    being installed: its controller has not spoken yet. Never raises for odd input: what no known
    controller writes gives health Unknown.
    """
    observed = [subject, *_below(subject, components)]
    judged = [_judge(one) for one in observed]
    broken = max((i for i, one in enumerate(judged) if one.state in BROKEN), default=None)
    links = [
        _link(one, verdict, first_broken=i == broken)
        for i, (one, verdict) in enumerate(zip(observed, judged, strict=True))
    ]
    own, deepest = judged[0], judged[broken] if broken is not None else judged[0]
    health = _health(subject, judged)
    message = deepest.message or own.message
    finding = None
    if health not in ("Healthy", "Installing", "Upgrading"):
        finding = _finding(
            subject, [(observed[broken or 0].kind, message), (subject.kind, own.message)]
        )
    if subject.kind == "PlatformOperator" and len(observed) == 1:
        links.append(Link("BundleDeployment", "", subject.name, "absent"))
    return Diagnosis(health, own.reason or deepest.reason, message, finding, tuple(links))


def assess(observation: Observation) -> Link:
    """The state of one object by itself, as a link of a chain."""
    return _link(observation, _judge(observation), first_broken=False)


def deprecations(conditions: Iterable[Condition]) -> tuple[str, ...]:
    """What a ClusterExtension says is deprecated, in its catalog's words; empty when nothing is.

    Judged by status alone: before v1.6 a condition that is not true has the reason Deprecated too.
    """
    told = {one.type: one.message for one in conditions if one.status == "True"}
    return tuple(dict.fromkeys(told[type_] for type_ in DEPRECATIONS if type_ in told))


def _health(subject: Observation, judged: Sequence[_Judgement]) -> str:
    own = judged[0].state
    below = [one.state for one in judged[1:]]
    if subject.kind == "ClusterExtension" and own is Class.PROGRESSING:
        installed = _condition(subject, "Installed")
        return "Upgrading" if installed and installed.status == "True" else "Installing"
    if subject.kind == "PlatformOperator":
        failing = any(state in BROKEN for state in below)
        if own is Class.HEALTHY and failing:
            return "Degraded"
        if own in (Class.PROGRESSING, Class.ABSENT) and failing:
            return "Failed"
        if own in (Class.PROGRESSING, Class.ABSENT) and below[:1] == [Class.HEALTHY]:
            # rukpak 0.17 and newer never tell the PlatformOperator that they are done.
            return "Degraded" if judged[0].reason == "UnpackPending" else "Installing"
    return _HEALTH[own]


def _finding(subject: Observation, texts: Sequence[tuple[str, str]]) -> Finding | None:
    names = {"name": subject.name, "namespace": subject.namespace, "kind": subject.kind}
    if package := subject.extra.get("package"):
        names["package"] = package
    for kind, text in texts:
        if text and (match := find(text, kind=kind)):
            return render(match.entry, match.facts, names)
    return None


def _below(subject: Observation, components: Sequence[Observation]) -> list[Observation]:
    """The objects that belong to the subject, from the top of the chain to its bottom."""
    of_kind = {
        kind: [one for one in components if one.kind == kind]
        for kind in ("BundleDeployment", "Bundle", "ClusterObjectSet")
    }
    if subject.kind == "PlatformOperator":
        deployments = [one for one in of_kind["BundleDeployment"] if one.name == subject.name]
        return deployments[:1] + _newest(of_kind["Bundle"])
    if subject.kind == "BundleDeployment":
        return _newest(of_kind["Bundle"])
    if subject.kind == "ClusterExtension":
        return _newest(of_kind["ClusterObjectSet"])
    return []


def _newest(candidates: Sequence[Observation]) -> list[Observation]:
    """The object whose conditions changed last: several exist only while one replaces another."""

    def changed(one: Observation) -> tuple[str, str]:
        times = [condition.last_transition_time for condition in one.conditions]
        return (max(times, default=""), one.name)

    return [max(candidates, key=changed)] if candidates else []


def _link(one: Observation, verdict: _Judgement, *, first_broken: bool) -> Link:
    state = _LINK_STATE.get(verdict.state, "failed")
    return Link(
        one.kind, one.namespace, one.name, state, verdict.reason, verdict.message, first_broken
    )


def _judge(one: Observation) -> _Judgement:
    if one.kind == "ClusterExtension":
        return _judge_extension(one)
    if one.kind == "ClusterCatalog":
        return _judge_catalog(one)
    if one.kind == "Bundle":
        return _judge_bundle(one)
    order = {
        "PlatformOperator": ("Installed",),
        "BundleDeployment": ("Installed", "HasValidBundle", "Unpacked", "Healthy"),
        "ClusterObjectSet": ("Progressing", "Available"),
    }.get(one.kind)
    if order is None:
        return _Judgement(Class.UNKNOWN, one.reason, one.message)
    judged = [_of_type(one, type_) for type_ in order]
    return _worst(judged)


def _judge_bundle(one: Observation) -> _Judgement:
    """A pending Bundle whose message names a cause (an image that can't be pulled) is stuck."""
    verdict = _of_type(one, "Unpacked")
    if (
        verdict.state is Class.PROGRESSING
        and verdict.message
        and find(verdict.message, kind="Bundle")
    ):
        return replace(verdict, state=Class.RETRYING)
    return verdict


def _judge_extension(one: Observation) -> _Judgement:
    installed, progressing = _of_type(one, "Installed"), _of_type(one, "Progressing")
    available = _of_type(one, "Available")
    if progressing.state in (Class.RETRYING, Class.FAILED):
        told = (
            installed
            if progressing.message == _SEE_INSTALLED and installed.message
            else progressing
        )
        works = installed.state is Class.HEALTHY
        state = Class.DEGRADED if works else Class.FAILED
        return _Judgement(state, progressing.reason, told.message)
    if progressing.state in (Class.BLOCKED, Class.PROGRESSING, Class.UNKNOWN):
        return progressing
    if installed.state is Class.HEALTHY and available.state in (Class.DEGRADED, Class.PROGRESSING):
        return available
    if installed.state is Class.ABSENT:
        return progressing
    return installed


def _judge_catalog(one: Observation) -> _Judgement:
    serving, progressing = _of_type(one, "Serving"), _of_type(one, "Progressing")
    if serving.state is Class.BLOCKED:  # switched off by its owner
        return serving
    if progressing.state in (Class.RETRYING, Class.FAILED):
        state = Class.DEGRADED if serving.state is Class.HEALTHY else Class.RETRYING
        return replace(progressing, state=state)
    if progressing.state in (Class.BLOCKED, Class.UNKNOWN):
        return progressing
    return serving if serving.state is not Class.ABSENT else progressing


def _of_type(one: Observation, type_: str) -> _Judgement:
    condition = _condition(one, type_)
    if condition is None:
        return _Judgement(Class.ABSENT)
    state = class_of(one.kind, type_, condition.status, condition.reason)
    return _Judgement(state, condition.reason, condition.message)


def _condition(one: Observation, type_: str) -> Condition | None:
    return next((condition for condition in one.conditions if condition.type == type_), None)


def _worst(judged: Sequence[_Judgement]) -> _Judgement:
    """The first that is broken, else unknown, else progressing; else the first that is there."""
    groups: tuple[frozenset[Class], ...] = (
        BROKEN,
        frozenset((Class.UNKNOWN,)),
        frozenset((Class.PROGRESSING,)),
        frozenset((Class.HEALTHY, Class.INFORMATION)),
    )
    for group in groups:
        for verdict in judged:
            if verdict.state in group:
                return verdict
    return _Judgement(Class.ABSENT)
