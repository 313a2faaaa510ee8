"""Reads the pods of Deployments that are not available, to know why they don't run."""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from installs.models import Component
from installs.state.assess import assess
from installs.state.decode.workloads import is_available
from installs.state.history import WriteContext
from installs.state.store import batched
from installs.state.write import WriteResult, lock, save_reachable
from olmweb.kube.client import KubeClient
from olmweb.kube.errors import KubeError, Unauthorized, Unreachable
from olmweb.kube.fields import dig, items, number, text
from olmweb.kube.resources import PODS
from olmweb.models import Cluster
from olmweb.runtime.leases import fenced_transaction

DEPLOYMENTS = 50  # limit per refresh; those that changed last come first
_PODS = 50
_LISTED = 20
_OPERATORS = {"In": "in", "NotIn": "notin"}

Pods = list[dict[str, Any]]


def refresh_pods(cluster: Cluster, client: KubeClient) -> WriteResult:
    """Lists the pods of Deployments that are not available and stores why they wait.

    Without permission to read pods nothing is stored. Raises Unreachable and Unauthorized.
    """
    rows = Component.objects.filter(cluster=cluster, kind="Deployment").order_by("-observed_at")
    down = [
        (pk, namespace, details)
        for pk, namespace, details in rows.values_list("id", "namespace", "details")
        if not is_available(details)
    ]
    pods: dict[int, Pods] = {}
    for pk, namespace, details in down[:DEPLOYMENTS]:
        selector = selector_text(details.get("selector"))
        if not selector:
            continue
        try:
            pods[pk] = _waiting(client, namespace, selector)
        except (Unreachable, Unauthorized):
            raise
        except KubeError:
            break
    return _write(cluster, pods) if pods else WriteResult()


def selector_text(selector: Any) -> str:
    """A LabelSelector in the syntax of list requests; empty if it selects by nothing."""
    terms = []
    labels = dig(selector, "matchLabels")
    if isinstance(labels, Mapping):
        terms += [f"{key}={value}" for key, value in labels.items()]
    for expression in items(selector, "matchExpressions"):
        key, operator = text(expression, "key"), text(expression, "operator")
        values = expression.get("values")
        if operator in _OPERATORS and isinstance(values, list):
            terms.append(f"{key} {_OPERATORS[operator]} ({','.join(map(str, values))})")
        elif operator in ("Exists", "DoesNotExist"):
            terms.append(key if operator == "Exists" else f"!{key}")
    return ",".join(terms)


def _waiting(client: KubeClient, namespace: str, selector: str) -> Pods:
    pages = client.list_pages(
        PODS, "v1", limit=_PODS, label_selector=selector, namespace=namespace, narrow="Pod"
    )
    page = next(pages, None)
    pods = sorted(page.items if page else (), key=lambda pod: text(pod, "metadata", "name"))
    return [entry for pod in pods for entry in waiting_of(pod)][:_LISTED]


def waiting_of(pod: Mapping[str, Any]) -> Pods:
    """Why a pod waits: an entry per container that does not run, and one if it is unscheduled."""
    name = text(pod, "metadata", "name", limit=253)
    waiting: Pods = []
    for item in items(pod, "status", "conditions"):
        if (item.get("type"), item.get("status")) == ("PodScheduled", "False"):
            waiting.append(_waiting_container(name, "", item))
    for group in ("initContainerStatuses", "containerStatuses"):
        for item in items(pod, "status", group):
            state = dig(item, "state", "waiting") or dig(item, "state", "terminated")
            # An init container that completed is done.
            if text(state, "reason") and text(state, "reason") != "Completed":
                waiting.append(_waiting_container(name, text(item, "name", limit=253), state, item))
    return waiting


def _waiting_container(
    name: str, container: str, state: Mapping[str, Any], status: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A waiting pod or container, with the last termination: a crash loop alone has no cause."""
    message = text(state, "message", limit=2_000)
    if ended := text(status, "lastState", "terminated", "reason", limit=253):
        code = number(status, "lastState", "terminated", "exitCode")
        words = text(status, "lastState", "terminated", "message", limit=2_000)
        before = f"it ended with {ended}, exit code {code}" + (f": {words}" if words else "")
        message = f"{message}; {before}" if message else before
    return {
        "name": name,
        "container": container,
        "reason": text(state, "reason", limit=253),
        "message": message,
        "restarts": number(status, "restartCount"),
    }


def _write(cluster: Cluster, pods: Mapping[int, Pods]) -> WriteResult:
    written = WriteResult()
    with fenced_transaction():
        row = lock(cluster)
        context = WriteContext(row.pk, timezone.now())
        operators: set[int] = set()
        changed = 0
        for batch in batched(pods):
            for deployment in Component.objects.filter(id__in=batch).order_by("id"):
                details = deployment.details
                if details.get("pods") == pods[deployment.pk] or is_available(details):
                    continue
                details["pods"] = pods[deployment.pk]
                deployment.save(update_fields=["details"])
                changed += 1
                operators |= {deployment.operator_id} if deployment.operator_id else set()
        written.derived = changed + assess(row.pk, operators, (), context)
        if written.total:
            save_reachable(row, context.now, changed=True)
            written.changed = True
    return written
