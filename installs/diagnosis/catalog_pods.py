"""Why OLM is not connected to a CatalogSource, from the pods that serve it. Pure.

The knowledge base (installs/knowledge/source_pods.yaml) reads the facts about the pods as one line.
"""

from collections.abc import Mapping
from typing import Any

from installs.diagnosis.states import WAITING, State, class_of
from installs.diagnosis.types import Observation
from olmweb.kube.fields import items, number, text

NOT_READY = "NotReady"  # reason of a container that runs and does not pass its probes
_CONNECTING = ("CONNECTING", "IDLE")
_KILLED = "ended with OOMKilled"
FAILING = "catalog pod "  # how the line about a pod that does not run begins


def catalog_pod_line(source: Observation) -> str:
    """The line about the pods of a CatalogSource; empty while they were not read.

    A container that was killed for its memory comes first, then one that does not start, then one
    that is not ready. A pod that is still being created is no cause.
    """
    details = source.details
    where = f"{source.namespace}/{source.name}"
    state = text(details, "state") or "not set"
    if pod := _cause(source):
        name, container, reason, message = (
            text(pod, field) for field in ("name", "container", "reason", "message")
        )
        place = f"{source.namespace}/{name or '?'}"
        place += f" container {container}" if container else ""
        restarts = number(pod, "restarts")
        return f"{FAILING}{place}: {reason}: {message} ({restarts} restarts)"
    if state in _CONNECTING:
        return ""
    if address := text(details, "address"):
        return f"catalog {where} is served at {address}: connection {state}"
    if not isinstance(details.get("pods_total"), int) or items(details, "pods"):
        return ""  # not read, or only being created
    if not details["pods_total"]:
        return f"catalog {where} has no pod: connection {state}"
    address = text(details, "connected_to") or f"{source.name}.{source.namespace}.svc:50051"
    return f"catalog {where} has running pods: connection {state} at {address}"


def _cause(source: Observation) -> Mapping[str, Any] | None:
    def rank(pod: Mapping[str, Any]) -> int:
        killed = _KILLED in text(pod, "message") or text(pod, "reason") == "OOMKilled"
        return 0 if killed else 2 if text(pod, "reason") == NOT_READY else 1

    pods = [
        pod
        for pod in items(source.details, "pods")
        if class_of("Pod", WAITING, "", text(pod, "reason")) is not State.PROGRESSING
    ]
    return min(pods, key=rank, default=None)
