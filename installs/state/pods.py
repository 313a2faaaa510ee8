"""Why the pods of a Deployment that is not available don't run: asked only for those."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from installs.models import Component
from installs.state.assess import assess
from installs.state.decode import dig, items, number, text
from installs.state.decode.workloads import is_available
from installs.state.history import Moment
from installs.state.store import batched
from installs.state.write import Written, lock, save_answer
from olmweb.kube.client import KubeClient
from olmweb.kube.errors import KubeError, Unauthorized, Unreachable
from olmweb.kube.resources import PODS
from olmweb.models import Cluster

DEPLOYMENTS = 50  # at most so many are asked for at once, those that changed last first
_PODS = 50
_LISTED = 20
_OPERATORS = {"In": "in", "NotIn": "notin"}

Pods = list[dict[str, Any]]


def refresh_pods(cluster: Cluster, client: KubeClient) -> Written:
    """Lists the pods of Deployments that are not available and keeps what keeps them waiting.

    A cluster that does not let us read pods leaves them out. Raises Unreachable, Unauthorized.
    """
    rows = Component.objects.filter(cluster=cluster, kind="Deployment").order_by("-observed_at")
    down = [
        (pk, namespace, details)
        for pk, namespace, details in rows.values_list("id", "namespace", "details")
        if not is_available(details)
    ]
    found: dict[int, Pods] = {}
    for pk, namespace, details in down[:DEPLOYMENTS]:
        selector = selector_text(details.get("selector"))
        if not selector:
            continue
        try:
            found[pk] = _waiting(client, namespace, selector)
        except (Unreachable, Unauthorized):
            raise
        except KubeError:
            break
    return _write(cluster, found) if found else Written()


def selector_text(selector: Any) -> str:
    """A LabelSelector as a list request takes it; empty when it has nothing to select by."""
    terms = []
    labels = dig(selector, "matchLabels")
    if isinstance(labels, Mapping):
        terms += [f"{key}={value}" for key, value in labels.items()]
    for one in items(selector, "matchExpressions"):
        key, operator = text(one, "key"), text(one, "operator")
        values = one.get("values")
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
    return [told for pod in pods for told in waiting_of(pod)][:_LISTED]


def waiting_of(pod: Mapping[str, Any]) -> Pods:
    """What a pod waits for: containers that don't run, or that no node takes it."""
    name = text(pod, "metadata", "name", limit=253)
    found: Pods = []
    for one in items(pod, "status", "conditions"):
        if (one.get("type"), one.get("status")) == ("PodScheduled", "False"):
            found.append(_told(name, "", one))
    for group in ("initContainerStatuses", "containerStatuses"):
        for one in items(pod, "status", group):
            state = dig(one, "state", "waiting") or dig(one, "state", "terminated")
            # An init container that has ended well is done.
            if text(state, "reason") and text(state, "reason") != "Completed":
                found.append(_told(name, text(one, "name", limit=253), state, one))
    return found


def _told(
    name: str, container: str, state: Mapping[str, Any], status: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What waits, and how its container ended before: a crash loop alone does not say why."""
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


def _write(cluster: Cluster, found: Mapping[int, Pods]) -> Written:
    written = Written()
    with transaction.atomic():
        row = lock(cluster)
        moment = Moment(row.pk, timezone.now())
        operators: set[int] = set()
        changed = 0
        for batch in batched(found):
            for part in Component.objects.filter(id__in=batch).order_by("id"):
                if part.details.get("pods") == found[part.pk] or is_available(part.details):
                    continue
                part.details["pods"] = found[part.pk]
                part.save(update_fields=["details"])
                changed += 1
                operators |= {part.operator_id} if part.operator_id else set()
        written.derived = changed + assess(row.pk, operators, (), moment)
        if written.total:
            save_answer(row, moment.now, changed=True)
            written.changed = True
    return written
