"""Reads the pods of Deployments that are not available and of CatalogSources that OLM is not
connected to, to know why they don't run."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.utils import timezone

from installs.diagnosis.catalog_pods import NODE_LOST, NOT_READY, OVERDUE, UNCONNECTED_SINCE
from installs.diagnosis.notes import stuck
from installs.models import Component, OperatorReference
from installs.state.assess import assess
from installs.state.decode.workloads import runs
from installs.state.history import WriteContext
from installs.state.store import batched
from installs.state.write import WriteResult, lock, save_reachable
from olmweb.kube.client import KubeClient
from olmweb.kube.errors import Forbidden, KubeError, NotFound, Unauthorized, Unreachable
from olmweb.kube.fields import dig, items, number, read_time, text
from olmweb.kube.resources import CATALOG_SOURCES, ENDPOINT_SLICES, PODS
from olmweb.models import Cluster
from olmweb.runtime.leases import fenced_transaction

DEPLOYMENTS = 50  # limit per refresh; those that changed last come first
_PODS = 50
_LISTED = 20
CATALOG_SOURCE = CATALOG_SOURCES.kind
_KINDS = ("Deployment", CATALOG_SOURCE)
_OPERATORS = {"In": "in", "NotIn": "notin"}

Pods = list[dict[str, Any]]


def refresh_pods(cluster: Cluster, client: KubeClient) -> WriteResult:
    """Lists the pods of what does not run and stores why they wait, and which connections of
    CatalogSources are overdue.

    Without permission to read pods nothing is stored of them. Raises Unreachable and Unauthorized.
    """
    rows = Component.objects.filter(cluster=cluster, kind__in=_KINDS).order_by("-observed_at")
    down = [row for row in rows.only("kind", "namespace", "name", "details") if not runs(row)]
    now = timezone.now()
    details: dict[int, dict[str, Any]] = {
        row.pk: {OVERDUE: True} for row in down if _is_overdue(row, now)
    }
    for row in down[:DEPLOYMENTS]:
        try:
            if row.kind == CATALOG_SOURCE:
                details[row.pk] = details.get(row.pk, {}) | _registry_details(client, row)
            elif selector := selector_text(row.details.get("selector")):
                pods = _pods(client, row.namespace, selector)
                details[row.pk] = {"pods": _entries(waiting_of(pod) for pod in pods)}
        except (Unreachable, Unauthorized):
            raise
        except KubeError:
            break
    return _write(cluster, details) if details else WriteResult()


def _is_overdue(row: Component, now: datetime) -> bool:
    """Whether OLM has had no connection to a CatalogSource for longer than is usual."""
    since = read_time(row.details.get(UNCONNECTED_SINCE))
    return row.kind == CATALOG_SOURCE and stuck(row.kind, text(row.details, "state"), since, now)


def _registry_details(client: KubeClient, source: Component) -> dict[str, Any]:
    """The pods that OLM made for a CatalogSource (operator-lifecycle-manager
    pkg/controller/registry/reconciler: CatalogSourceLabelKey), and while all of them are ready
    `endpoints`: how many of them its Service has, None if that was not read."""
    details = pods_that_wait(client, source.namespace, f"olm.catalogSource={source.name}")
    running = details["pods_total"] and not details["pods"] and not text(source.details, "address")
    return {**details, "endpoints": _endpoints(client, source) if running else None}


def _endpoints(client: KubeClient, source: Component) -> int | None:
    """The ready endpoints of the Service of a CatalogSource; None without permission."""
    # OLM changes the names of CatalogSources that are no names of Services.
    service = text(source.details, "connected_to").partition(".")[0] or source.name
    pages = client.list_pages(
        ENDPOINT_SLICES,
        "v1",
        limit=_PODS,
        label_selector=f"kubernetes.io/service-name={service}",
        namespace=source.namespace,
    )
    try:
        page = next(pages, None)
    except (Forbidden, NotFound):
        return None
    return sum(
        dig(endpoint, "conditions", "ready") is not False
        for slice_ in (page.items if page else ())
        for endpoint in items(slice_, "endpoints")
    )


def pods_that_wait(client: KubeClient, namespace: str, selector: str) -> dict[str, Any]:
    """`pods`: the containers that do not run or are not ready; `pods_total` counts all pods. Raises
    KubeError."""
    pods = _pods(client, namespace, selector)
    return {
        "pods": _entries([*waiting_of(pod), *not_ready_of(pod)] for pod in pods),
        "pods_total": len(pods),
    }


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


def _pods(client: KubeClient, namespace: str, selector: str) -> list[dict[str, Any]]:
    """By name; those that have ended only if there are no others, as a new pod replaces them."""
    pages = client.list_pages(
        PODS, "v1", limit=_PODS, label_selector=selector, namespace=namespace, narrow="Pod"
    )
    page = next(pages, None)
    listed = sorted(page.items if page else (), key=lambda pod: text(pod, "metadata", "name"))
    return [pod for pod in listed if not _end(pod)] or listed


def _entries(by_pod: Iterable[Pods]) -> Pods:
    return [entry for entries in by_pod for entry in entries][:_LISTED]


def not_ready_of(pod: Mapping[str, Any]) -> Pods:
    """The containers of a pod that run and do not pass their probes, with their last end; the pod
    itself if its node has stopped to report (Kubernetes' pkg/controller/nodelifecycle sets the
    condition Ready of such pods and leaves their containers as they were)."""
    name = text(pod, "metadata", "name", limit=253)
    containers = items(pod, "status", "containerStatuses")
    for item in items(pod, "status", "conditions"):
        unready = (item.get("type"), item.get("status")) == ("Ready", "False")
        known = bool(containers) and all(row.get("ready") for row in containers)
        if unready and known and not text(item, "reason"):
            node = text(pod, "spec", "nodeName", limit=253)
            state = {"reason": NODE_LOST, "message": f"node {node or '?'} does not report"}
            return [_waiting_container(name, "", state)]
    return [
        _waiting_container(name, text(item, "name", limit=253), {"reason": NOT_READY}, item)
        for item in containers
        if item.get("ready") is False and isinstance(dig(item, "state", "running"), Mapping)
    ]


def waiting_of(pod: Mapping[str, Any]) -> Pods:
    """Why a pod waits: an entry per container that does not run, and one if it is unscheduled; only
    one if the pod itself has ended."""
    name = text(pod, "metadata", "name", limit=253)
    if text(end := _end(pod), "reason"):
        return [_waiting_container(name, "", end)]
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


def _end(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Why a pod has ended or is being removed from its node, with `reason` and `message`; empty
    while it may run."""
    status = dig(pod, "status")
    for item in items(pod, "status", "conditions"):
        if (item.get("type"), item.get("status")) == ("DisruptionTarget", "True"):
            return status if text(status, "reason") else item
    return status if text(status, "phase") in ("Failed", "Succeeded") else {}


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


def _write(cluster: Cluster, by_row: Mapping[int, dict[str, Any]]) -> WriteResult:
    written = WriteResult()
    with fenced_transaction():
        row = lock(cluster)
        context = WriteContext(row.pk, timezone.now())
        operators: set[int] = set()
        changed = 0
        for batch in batched(by_row):
            for component in Component.objects.filter(id__in=batch).order_by("id"):
                details = {**component.details, **by_row[component.pk]}
                if details == component.details or runs(component):
                    continue
                component.details = details
                component.save(update_fields=["details"])
                changed += 1
                operators |= _operators_of(component)
        written.derived = changed + assess(row.pk, operators, (), context)
        if written.total:
            save_reachable(row, context.now, changed=True)
            written.changed = True
    return written


def _operators_of(component: Component) -> set[int]:
    """The operators whose state depends on the component."""
    if component.kind != CATALOG_SOURCE:
        return {component.operator_id} if component.operator_id else set()
    references = OperatorReference.objects.filter(
        cluster=component.cluster_id,
        kind=component.kind,
        namespace=component.namespace,
        name=component.name,
    )
    return set(references.values_list("operator_id", flat=True))
