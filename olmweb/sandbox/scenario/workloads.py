"""Deployments, their pods and Events about them, as kubelet and the controllers leave them.

Pure: facts in, objects out. Must not know who installed what.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from olmweb.sandbox.apiserver.store import Object, timestamp, uid_of
from olmweb.sandbox.scenario.facts import digest

AVAILABLE, IMAGE_MISSING, CRASHING = "available", "image-missing", "crashing"
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment to be: `state` is one of the three above; `labels` tell whose it is."""

    namespace: str
    name: str
    image: str
    state: str
    labels: Mapping[str, str]
    owner: Mapping[str, Any] | None = None
    replicas: int = 1


def suffix(*parts: str, length: int = 5) -> str:
    """A generated name's last part; the same at every start."""
    found = digest("suffix", *parts)
    return "".join(_SAFE[byte % len(_SAFE)] for byte in found[:length])


def objects(wanted: Workload, now: datetime) -> list[Object]:
    """The Deployment and its pods."""
    hash_ = suffix(wanted.namespace, wanted.name, length=10)
    pods = [_pod(wanted, hash_, number, now) for number in range(wanted.replicas)]
    return [_deployment(wanted, now), *pods]


def _selector(wanted: Workload) -> dict[str, str]:
    return {"name": wanted.name}


def _containers(wanted: Workload) -> list[Object]:
    return [{"name": "manager", "image": wanted.image, "command": ["/manager"]}]


def _deployment(wanted: Workload, now: datetime) -> Object:
    metadata: Object = {
        "name": wanted.name,
        "namespace": wanted.namespace,
        "labels": dict(wanted.labels),
    }
    metadata |= {"ownerReferences": [dict(wanted.owner)]} if wanted.owner else {}
    template = {
        "metadata": {"labels": _selector(wanted)},
        "spec": {"serviceAccountName": wanted.name, "containers": _containers(wanted)},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": wanted.replicas,
            "selector": {"matchLabels": _selector(wanted)},
            "template": template,
        },
        "status": _deployment_status(wanted, now),
    }


def _deployment_status(wanted: Workload, now: datetime) -> Object:
    well = wanted.state == AVAILABLE
    stamp = timestamp(now)
    said = {
        "Available": ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        "Progressing": (
            "True",
            "NewReplicaSetAvailable",
            f'ReplicaSet "{wanted.name}" has successfully progressed.',
        ),
    }
    if not well:
        said["Available"] = (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    counts = {"replicas": wanted.replicas, "updatedReplicas": wanted.replicas}
    if well:
        counts |= {"readyReplicas": wanted.replicas, "availableReplicas": wanted.replicas}
    else:
        counts |= {"unavailableReplicas": wanted.replicas}
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
            for type_, (status, reason, message) in said.items()
        ],
    }


def _pod(wanted: Workload, hash_: str, number: int, now: datetime) -> Object:
    name = f"{wanted.name}-{hash_}-{suffix(wanted.namespace, wanted.name, str(number))}"
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{wanted.name}-{hash_}",
        "uid": uid_of("ReplicaSet", wanted.namespace, f"{wanted.name}-{hash_}"),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": wanted.namespace,
            "labels": {**_selector(wanted), "pod-template-hash": hash_},
            "ownerReferences": [reference],
        },
        "spec": {"nodeName": "worker-0", "containers": _containers(wanted)},
        "status": _pod_status(wanted, name, now),
    }


def _pod_status(wanted: Workload, name: str, now: datetime) -> Object:
    stamp = timestamp(now)
    state: Object = {"running": {"startedAt": stamp}}
    restarts, last = 0, {}
    if wanted.state == IMAGE_MISSING:
        text = f'Back-off pulling image "{wanted.image}"'
        state = {"waiting": {"reason": "ImagePullBackOff", "message": text}}
    elif wanted.state == CRASHING:
        text = (
            f"back-off 5m0s restarting failed container=manager pod={name}_{wanted.namespace}"
            f"({uid_of('Pod', wanted.namespace, name)})"
        )
        state = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
        restarts = 14
        last = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": stamp}}
    well = wanted.state == AVAILABLE
    conditions = {"PodScheduled": True, "Initialized": True, "Ready": well}
    return {
        "phase": "Pending" if wanted.state == IMAGE_MISSING else "Running",
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
                "image": wanted.image,
                "imageID": "",
                "ready": well,
                "started": well,
                "restartCount": restarts,
                "state": state,
                "lastState": last,
            }
        ],
    }


@dataclass(frozen=True, slots=True)
class Happening:
    """An Event to be, about one object, seen `count` times in the last `minutes`."""

    reason: str
    message: str
    warning: bool
    component: str
    count: int
    minutes: int


def event(about: Object, what: Happening, now: datetime) -> Object:
    """The Event in the object's namespace, or in `default` where it has none."""
    meta = about["metadata"]
    namespace = meta.get("namespace", "default")
    about_it = {
        "kind": about["kind"],
        "name": meta["name"],
        "uid": meta.get("uid") or uid_of(about["kind"], meta.get("namespace", ""), meta["name"]),
        "apiVersion": about["apiVersion"],
    }
    if "namespace" in meta:
        about_it["namespace"] = namespace
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{meta['name']}.{digest('event', meta['name'], what.reason).hex()[:16]}",
            "namespace": namespace,
        },
        "involvedObject": about_it,
        "reason": what.reason,
        "message": what.message,
        "type": "Warning" if what.warning else "Normal",
        "source": {"component": what.component},
        "reportingComponent": what.component,
        "reportingInstance": "",
        "eventTime": None,
        "firstTimestamp": timestamp(now - timedelta(minutes=what.minutes)),
        "lastTimestamp": timestamp(now - timedelta(minutes=1)),
        "count": what.count,
    }
