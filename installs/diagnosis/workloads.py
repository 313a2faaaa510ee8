"""Deployments of an operator and their pods: does it run, and why not.

What the knowledge base reads of a pod is one line that is made here: `pod NAMESPACE/NAME container
NAME: REASON: MESSAGE`, without the container where the pod itself waits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from installs.diagnosis.judgement import Judgement, judge_type, link_of
from installs.diagnosis.reading import number, rows, text
from installs.diagnosis.states import BROKEN, WAITING, Class, class_of
from installs.diagnosis.types import Link, Observation

SCALED_TO_ZERO = "ScaledToZero"
# The kubelet goes back and forth between the two: one reason, or the history fills with changes.
_STEADY = {"ErrImagePull": "ImagePullBackOff", "Error": "CrashLoopBackOff"}


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a Deployment does not run. `said` is what the knowledge base reads, of `kind`.

    `certain` is False while all that is known is that no pod is ready, as in every installation.
    """

    deployment: Observation
    kind: str
    reason: str
    message: str
    said: str
    links: tuple[Link, ...]  # the Deployment, and the Pod when it is the cause
    certain: bool = True


def judge_deployment(one: Observation) -> Judgement:
    """Degraded when it has no pod that answers or can't roll out; the first error names why."""
    if number(one.details, "replicas") == 0:
        message = "The Deployment is scaled to zero: no pod of it runs."
        return Judgement(Class.DEGRADED, SCALED_TO_ZERO, message)
    available = judge_type(one, "Available")
    failure = judge_type(one, "ReplicaFailure")
    progressing = judge_type(one, "Progressing")
    for verdict in (failure, progressing, available):
        if verdict.state in BROKEN:
            return Judgement(Class.DEGRADED, verdict.reason, verdict.message)
    if available.state is Class.ABSENT:
        return Judgement(Class.PROGRESSING, progressing.reason, progressing.message)
    return available


def trouble(deployments: Iterable[Observation]) -> Trouble | None:
    """Why the first of the Deployments that does not run does not; None when all run."""
    for one in sorted(deployments, key=lambda deployment: deployment.name):
        verdict = judge_deployment(one)
        pod = _broken_pod(one)
        if verdict.state is Class.HEALTHY or (pod is None and verdict.state not in BROKEN):
            continue
        if pod is not None and verdict.reason != SCALED_TO_ZERO:
            return _pod_trouble(one, verdict, pod)
        return Trouble(
            one,
            one.kind,
            verdict.reason,
            verdict.message,
            f"deployment {one.namespace}/{one.name}: {verdict.reason}: {verdict.message}",
            (link_of(one, verdict, first_broken=True),),
            certain=verdict.reason != judge_type(one, "Available").reason,
        )
    return None


def _broken_pod(deployment: Observation) -> Mapping[str, Any] | None:
    """The pod whose waiting reason is an error; a reason that nobody knows counts as one."""
    for pod in rows(deployment.details, "pods"):
        reason = text(pod, "reason")
        if reason and class_of("Pod", WAITING, "", reason) is not Class.PROGRESSING:
            return pod
    return None


def _pod_trouble(one: Observation, verdict: Judgement, pod: Mapping[str, Any]) -> Trouble:
    name, container = text(pod, "name"), text(pod, "container")
    reason, message = text(pod, "reason"), text(pod, "message")
    where = f"pod {one.namespace}/{name or '?'}" + (f" container {container}" if container else "")
    return Trouble(
        one,
        "Pod",
        _STEADY.get(reason, reason),
        message,
        f"{where}: {reason}: {message}",
        (
            link_of(one, Judgement(Class.DEGRADED, verdict.reason, verdict.message)),
            Link("Pod", one.namespace, name, "failed", reason, message, first_broken=True),
        ),
    )
