"""Why OLM is not connected to a CatalogSource and why catalogd does not serve, from their pods.
Pure.

The knowledge base (installs/knowledge/source_pods.yaml) reads the facts about the pods as one line.
"""

from collections.abc import Mapping
from typing import Any

from installs.diagnosis.states import WAITING, State, class_of
from installs.diagnosis.types import Observation
from olmweb.kube.fields import items, number, text

NOT_READY = "NotReady"  # reason of a container that runs and does not pass its probes
NODE_LOST = "NodeNotReady"  # reason of a pod whose node has stopped to report
REPORT = "resolver"  # detail: what OLM's resolver reports of the connection
CONNECTED = "READY"  # states of gRPC, in connectionState.lastObservedState
FAILED_ATTEMPT = "TRANSIENT_FAILURE"
NO_STATE = "no connectionState"  # of OLM Web itself: nothing else says so
_CONNECTING = ("", "CONNECTING", "IDLE")
UNCONNECTED_SINCE = "unconnected_since"  # detail: when the connection was lost or first wanted
# Detail: set by installs.state.pods once that is longer ago than the usual time.
OVERDUE = "overdue"
_KILLED = "ended with OOMKilled"
# The Deployment in every release, whatever its namespace: olmv1-system, openshift-catalogd.
CATALOGD = "catalogd-controller-manager"
FAILING = "catalog pod "  # how the line about a pod that does not run begins
RESTARTED = "several"  # times, of a pod of which only a message is known


def catalog_pod_line(source: Observation) -> str:
    """The line about the pods of a CatalogSource; empty while they were not read or its connection
    is only being made.

    A container that was killed for its memory comes first, then one that does not start, then one
    that is not ready. A pod that is being created is a cause only when the connection is overdue.
    """
    details = source.details
    where = f"{source.namespace}/{source.name}"
    state = text(details, "state")
    overdue = details.get(OVERDUE) is True
    if pod := _cause(details, overdue=overdue):
        return f"{FAILING}{_words(source.namespace, pod)}"
    if is_connecting(source):
        return ""
    if not state:
        pods = " and no pod" if details.get("pods_total") == 0 else ""
        return f"catalog {where} has no connection{pods}: OLM has written no state of it"
    report = f"; the resolver reports: {words}" if (words := text(details, REPORT)) else ""
    if address := text(details, "address"):
        return f"catalog {where} is served at {address}: connection {state}{report}"
    if not isinstance(details.get("pods_total"), int) or items(details, "pods"):
        return ""  # not read, or only being created
    if not details["pods_total"]:
        return f"catalog {where} has no pod: connection {state}"
    address = text(details, "connected_to") or f"{source.name}.{source.namespace}.svc:50051"
    if details.get("endpoints") == 0:
        return f"catalog {where} has running pods and no endpoint: connection {state} at {address}"
    return f"catalog {where} has running pods: connection {state} at {address}{report}"


def is_connecting(source: Observation) -> bool:
    """Whether OLM is about to connect to a CatalogSource, and has not tried in vain for long."""
    details = source.details
    return text(details, "state") in _CONNECTING and details.get(OVERDUE) is not True


def catalogd_line(catalogd: Mapping[str, Any]) -> str:
    """The line about catalogd, which serves every ClusterCatalog; empty while it is available.

    `catalogd` is as installs.facts.inventory stores it.
    """
    if not catalogd or number(catalogd, "available") > 0:
        return ""
    namespace = text(catalogd, "namespace")
    if not number(catalogd, "replicas"):
        return f"catalogd in {namespace} is scaled to zero"
    if pod := _cause(catalogd, overdue=False):
        return f"catalogd pod {_words(namespace, pod)}"
    if catalogd.get("pods_total") == 0:
        return f"catalogd in {namespace} has no pod"
    return f"catalogd in {namespace} is not available"


def line_of_reason(kind: str, namespace: str, name: str, reason: str, message: str) -> str:
    """What the knowledge base reads of the reason of a catalog's pod for a CatalogSource; the
    message itself for other kinds and reasons."""
    if kind != "CatalogSource" or class_of("Pod", WAITING, "", reason) is State.UNKNOWN:
        return message
    place = f"{namespace or '?'}/?"
    return f"{FAILING}{place}: {reason}: {message} ({RESTARTED} restarts)"


def _words(namespace: str, pod: Mapping[str, Any]) -> str:
    name, container, reason, message = (
        text(pod, field) for field in ("name", "container", "reason", "message")
    )
    place = f"{namespace}/{name or '?'}" + (f" container {container}" if container else "")
    return f"{place}: {reason}: {message} ({number(pod, 'restarts')} restarts)"


def _cause(details: Mapping[str, Any], *, overdue: bool) -> Mapping[str, Any] | None:
    def rank(pod: Mapping[str, Any]) -> int:
        killed = _KILLED in text(pod, "message") or text(pod, "reason") == "OOMKilled"
        return 0 if killed else 2 if text(pod, "reason") == NOT_READY else 3 if begins(pod) else 1

    def begins(pod: Mapping[str, Any]) -> bool:
        return class_of("Pod", WAITING, "", text(pod, "reason")) is State.PROGRESSING

    pods = [pod for pod in items(details, "pods") if overdue or not begins(pod)]
    return min(pods, key=rank, default=None)
