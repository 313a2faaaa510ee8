"""Namespaces, Deployments with their pods, and Events, as Kubernetes' controllers leave them.

Pure; must not know operators.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from olmweb.sandbox.apiserver.kinds import Object
from olmweb.sandbox.apiserver.store import safe_suffix, timestamp, uid_of

AVAILABLE, IMAGE_MISSING, CRASHING = "available", "image-missing", "crashing"


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment to be made: `state` is one of the three above; `labels` name its owner."""

    namespace: str
    name: str
    image: str
    state: str
    labels: Mapping[str, str]
    owner: Mapping[str, Any] | None = None
    replicas: int = 1


def suffix(*parts: str, length: int = 5) -> str:
    """The end of a generated name; the same at every start."""
    return safe_suffix("/".join(("suffix", *parts)), length)


def namespace(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def objects(workload: Workload, now: datetime) -> list[Object]:
    """The Deployment and its pods."""
    hash_ = suffix(workload.namespace, workload.name, length=10)
    pods = [_pod(workload, hash_, index, now) for index in range(workload.replicas)]
    return [_deployment(workload, now), *pods]


def _selector(workload: Workload) -> dict[str, str]:
    return {"name": workload.name}


def _containers(workload: Workload) -> list[Object]:
    return [{"name": "manager", "image": workload.image, "command": ["/manager"]}]


def _deployment(workload: Workload, now: datetime) -> Object:
    metadata: Object = {
        "name": workload.name,
        "namespace": workload.namespace,
        "labels": dict(workload.labels),
    }
    metadata |= {"ownerReferences": [dict(workload.owner)]} if workload.owner else {}
    template = {
        "metadata": {"labels": _selector(workload)},
        "spec": {"serviceAccountName": workload.name, "containers": _containers(workload)},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": workload.replicas,
            "selector": {"matchLabels": _selector(workload)},
            "template": template,
        },
        "status": _deployment_status(workload, now),
    }


def _deployment_status(workload: Workload, now: datetime) -> Object:
    available = workload.state == AVAILABLE
    stamp = timestamp(now)
    conditions = {
        "Available": ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        "Progressing": (
            "True",
            "NewReplicaSetAvailable",
            f'ReplicaSet "{workload.name}" has successfully progressed.',
        ),
    }
    if not available:
        conditions["Available"] = (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    counts = {"replicas": workload.replicas, "updatedReplicas": workload.replicas}
    if available:
        counts |= {"readyReplicas": workload.replicas, "availableReplicas": workload.replicas}
    else:
        counts |= {"unavailableReplicas": workload.replicas}
    return {
        "observedGeneration": 1,
        **counts,
        "conditions": [
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": stamp,
                "lastUpdateTime": stamp,
            }
            for type_, (status, reason, message) in conditions.items()
        ],
    }


def _pod(workload: Workload, hash_: str, index: int, now: datetime) -> Object:
    name = f"{workload.name}-{hash_}-{suffix(workload.namespace, workload.name, str(index))}"
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{workload.name}-{hash_}",
        "uid": uid_of("ReplicaSet", workload.namespace, f"{workload.name}-{hash_}"),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": workload.namespace,
            "labels": {**_selector(workload), "pod-template-hash": hash_},
            "ownerReferences": [reference],
        },
        "spec": {"nodeName": "worker-0", "containers": _containers(workload)},
        "status": _pod_status(workload, name, now),
    }


def _pod_status(workload: Workload, name: str, now: datetime) -> Object:
    stamp = timestamp(now)
    state: Object = {"running": {"startedAt": stamp}}
    restarts, last = 0, {}
    if workload.state == IMAGE_MISSING:
        text = f'Back-off pulling image "{workload.image}"'
        state = {"waiting": {"reason": "ImagePullBackOff", "message": text}}
    elif workload.state == CRASHING:
        text = (
            f"back-off 5m0s restarting failed container=manager pod={name}_{workload.namespace}"
            f"({uid_of('Pod', workload.namespace, name)})"
        )
        state = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
        restarts = 14
        last = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": stamp}}
    available = workload.state == AVAILABLE
    conditions = {"PodScheduled": True, "Initialized": True, "Ready": available}
    return {
        "phase": "Pending" if workload.state == IMAGE_MISSING else "Running",
        "startTime": stamp,
        "conditions": [
            {
                "type": type_,
                "status": "True" if holds else "False",
                "lastTransitionTime": stamp,
                **({} if holds else {"reason": "ContainersNotReady"}),
            }
            for type_, holds in conditions.items()
        ],
        "containerStatuses": [
            {
                "name": "manager",
                "image": workload.image,
                "imageID": "",
                "ready": available,
                "started": available,
                "restartCount": restarts,
                "state": state,
                "lastState": last,
            }
        ],
    }


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An Event to be made about an object, observed `count` times in the last `minutes`."""

    reason: str
    message: str
    warning: bool
    component: str
    count: int
    minutes: int


def event(about: Object, occurrence: Occurrence, now: datetime) -> Object:
    """The Event in the object's namespace, or in `default` where it has none."""
    meta = about["metadata"]
    involved = {
        "kind": about["kind"],
        "name": meta["name"],
        "uid": meta.get("uid") or uid_of(about["kind"], meta.get("namespace", ""), meta["name"]),
        "apiVersion": about["apiVersion"],
    }
    if "namespace" in meta:
        involved["namespace"] = meta["namespace"]
    text = f"event/{meta['name']}/{occurrence.reason}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{meta['name']}.{digest[:16]}",
            "namespace": meta.get("namespace", "default"),
        },
        "involvedObject": involved,
        "reason": occurrence.reason,
        "message": occurrence.message,
        "type": "Warning" if occurrence.warning else "Normal",
        "source": {"component": occurrence.component},
        "reportingComponent": occurrence.component,
        "reportingInstance": "",
        "eventTime": None,
        "firstTimestamp": timestamp(now - timedelta(minutes=occurrence.minutes)),
        "lastTimestamp": timestamp(now - timedelta(minutes=1)),
        "count": occurrence.count,
    }
