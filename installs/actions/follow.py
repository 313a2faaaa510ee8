"""Carries out recorded actions and follows them to their outcome.

Every step can be repeated: what an action still needs is read from its row and from the cluster,
so a worker that dies anywhere loses nothing. Must not know who may ask for an action.
"""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import structlog
from django.utils import timezone

from installs.actions.apply import ACTION_TIMEOUT, finish, get, try_to_send, uid_of, version_of
from installs.actions.bulk import batches
from installs.actions.objects import WRITTEN
from installs.diagnosis.knowledge import finding_for
from installs.models import Action, Component, Health, Operator
from installs.state.full_sync import sync_cluster
from installs.state.watch.scheduling import cluster_lease, pass_lease
from olmweb.clusters import client_for
from olmweb.kube.errors import KubeError
from olmweb.kube.resources import CLUSTER_SERVICE_VERSIONS
from olmweb.models import Cluster, SyncRun
from olmweb.runtime.leases import Held, held_names, is_held, lease

log = structlog.get_logger(__name__)

RUN_SECONDS = 20.0  # one run follows this long, then lets other work pass
PAUSE_SECONDS = 1.5
AGAIN_SECONDS = 1.0
# Longer than a step should take. Two workers at one step do no harm: every step is idempotent.
LEASE_SECONDS = 90
PASS_LEASE_SECONDS = 60
# A failure that is older than what we sent counts only after this: clocks differ.
STALE_FAILURE = timedelta(seconds=60)
CSV = CLUSTER_SERVICE_VERSIONS.kind
_ENDED_BADLY = (Health.FAILED, Health.BLOCKED, Health.DEGRADED)


def waiting() -> list[int]:
    """Ids of open actions that no worker is at and whose turn it is."""
    busy = held_names("action:")
    wait = batches.waiting_in_batches()
    ids = Action.objects.filter(state__in=Action.OPEN).order_by("id").values_list("id", flat=True)
    return [
        action_id
        for action_id in ids
        if f"action:{action_id}" not in busy and action_id not in wait
    ]


def run(action_id: int, pause: Callable[[float], None] = time.sleep) -> float | None:
    """One run of an action: sends it if it is not sent, then follows it for RUN_SECONDS.

    Returns after how many seconds to run it again, None when it is finished, gone, in the hands
    of another worker, or of a batch in which it is not its turn. What the cluster refuses ends up
    in the row, not as an exception.
    """
    with lease(f"action:{action_id}", LEASE_SECONDS) as held:
        action = Action.objects.select_related("cluster").filter(pk=action_id).first()
        if held is None or action is None or action.state not in Action.OPEN:
            return None
        if action.state == Action.State.PENDING:
            if not batches.begin(action):
                return None
            again = try_to_send(action)
            if action.state != Action.State.APPLIED:
                return again
        return _follow(action, held, pause)


def _follow(action: Action, held: Held, pause: Callable[[float], None]) -> float | None:
    until = time.monotonic() + RUN_SECONDS
    while True:
        is_current = _refresh(action.cluster)
        if _settle(action, is_current=is_current):
            return None
        if timezone.now() - (action.sent_at or action.created_at) > ACTION_TIMEOUT:
            _lose(action)
            return None
        if time.monotonic() >= until or not held.renew(LEASE_SECONDS):
            return AGAIN_SECONDS
        pause(PAUSE_SECONDS)


def _refresh(cluster: Cluster) -> bool:
    """Brings the rows up to date where nobody watches the cluster, by a pass of our own.

    Returns whether they are as the cluster is now. Under a watch they are so within seconds, but
    nobody can tell of a moment; nor when another worker is at a pass or the cluster is silent.
    """
    if is_held(cluster_lease(cluster.pk)):
        return False
    with lease(pass_lease(cluster.pk), PASS_LEASE_SECONDS) as held:
        if held is None:
            return False
        report = sync_cluster(cluster, still_ours=lambda: held.renew(PASS_LEASE_SECONDS))
        return report.outcome != SyncRun.Outcome.FAILED


def _settle(action: Action, *, is_current: bool) -> bool:
    """Finishes the action when its outcome is known.

    `is_current`: the rows were read after the action was sent, so a missing row means a missing
    object; otherwise the cluster is asked.
    """
    if action.verb == Action.Verb.APPROVE:
        return _settle_approval(action)
    row = Operator.objects.filter(
        cluster=action.cluster, kind=action.path, namespace=action.namespace, name=action.name
    ).first()
    same = row is not None and row.uid == action.object_uid
    if action.verb == Action.Verb.REMOVE:
        gone = not same and (is_current or _is_gone(action))
        return gone and _removed(action, again=row is not None)
    if row is None or not same:
        gone = is_current or _is_gone(action)
        return gone and _vanished(action, replaced=row is not None)
    if row.health == Health.NEEDS_APPROVAL:
        plan = str(row.details.get("plan") or "")
        finish(
            action,
            Action.State.SUCCEEDED,
            f"{action.name} is subscribed; InstallPlan {plan} waits for approval.",
            code="needs-approval",
            hint="Look at what the InstallPlan carries, then approve it.",
        )
        return True
    if row.health == Health.HEALTHY and _arrived(action, row):
        finish(action, Action.State.SUCCEEDED, _done_text(action, row))
        return True
    if action.verb == Action.Verb.UPGRADE and action.target and _has_succeeded(row, action.target):
        finish(
            action, Action.State.SUCCEEDED, f"{_done_text(action, row)} {_besides([row])}".strip()
        )
        return True
    if row.health in _ENDED_BADLY and _is_news(action, row):
        _ended_badly(action, row)
        return True
    return False


def _arrived(action: Action, row: Operator) -> bool:
    """Whether what is healthy is what was asked for, and not what was there before."""
    if action.verb != Action.Verb.UPGRADE or not action.target:
        return True
    installed = str(row.details.get("installed_csv") or row.bundle)
    return installed == action.target


def _done_text(action: Action, row: Operator) -> str:
    if action.verb == Action.Verb.UPGRADE:
        return f"{action.name} is at {row.details.get('installed_csv') or row.bundle}."
    if action.verb == Action.Verb.RETRY:
        return f"{action.name} is healthy."
    return f"{action.name} is installed."


def _settle_approval(action: Action) -> bool:
    """By the plan itself, then by the Subscriptions whose versions it carries."""
    where = {"cluster": action.cluster, "namespace": action.namespace}
    plan = Component.objects.filter(**where, kind=action.path, name=action.name).first()
    if plan is not None and plan.phase == "Failed":
        text = str(plan.details.get("message") or "The InstallPlan failed.")
        finish(action, Action.State.FAILED, text, code="plan-failed")
        return True
    wanted = [bundle for bundle in action.target.split(",") if bundle]
    rows = [
        row
        for row in Operator.objects.filter(**where, kind="Subscription").order_by("name")
        if row.details.get("current_csv") in wanted
    ]
    if plan is not None and plan.phase == "Complete" and all(_done(row, wanted) for row in rows):
        installed = ", ".join(wanted) or "what it carried"
        text = f"{action.name} is carried out: {installed}. {_besides(rows)}"
        finish(action, Action.State.SUCCEEDED, text.strip())
        return True
    for row in rows:
        if row.health in _ENDED_BADLY and _is_news(action, row):
            _ended_badly(action, row)
            return True
    return False


def _done(row: Operator, wanted: list[str]) -> bool:
    installed = str(row.details.get("installed_csv") or "")
    return installed in wanted and (row.health == Health.HEALTHY or _has_succeeded(row, installed))


def _has_succeeded(row: Operator, csv: str) -> bool:
    """Whether this very version is installed for the Subscription, whatever else ails that.

    OLM v0 resolves while the old version is still going, fails, and leaves that on the Subscription
    until it looks again, minutes after the new version has succeeded.
    """
    if row.details.get("installed_csv") != csv:
        return False
    where = {"cluster": row.cluster_id, "namespace": row.namespace, "name": csv}
    return Component.objects.filter(**where, kind=CSV, phase="Succeeded").exists()


def _besides(rows: Sequence[Operator]) -> str:
    """What is wrong with them all the same; empty when nothing is."""
    ill = [row for row in rows if row.health in _ENDED_BADLY]
    return " ".join(f"{row.name} is {row.health} all the same: {row.reason}." for row in ill)


def _is_gone(action: Action) -> bool:
    """Whether the cluster says that the object which was acted on is no longer there."""
    resource = WRITTEN[action.path]
    try:
        with client_for(action.cluster) as client:
            there = get(client, resource, version_of(action.cluster, resource), action)
    except KubeError:
        return False
    return there is None or uid_of(there) != action.object_uid


def _is_news(action: Action, row: Operator) -> bool:
    """Whether the failure in the row is about what we sent and not left from before.

    A cluster counts whole seconds: one of the second in which we sent a retry may be the failure
    that it shall cure.
    """
    sent = (action.sent_at or action.created_at).replace(microsecond=0)
    if action.verb == Action.Verb.RETRY:
        sent += timedelta(seconds=1)
    if row.created_at is not None and row.created_at >= sent:
        return True
    moved = [str(condition.get("lastTransitionTime", "")) for condition in row.conditions]
    if max(moved, default="") >= sent.strftime("%Y-%m-%dT%H:%M:%SZ"):
        return True
    return timezone.now() - sent > STALE_FAILURE


def _ended_badly(action: Action, row: Operator) -> None:
    names = {"name": row.name, "namespace": row.namespace, "kind": row.kind}
    finding = finding_for(row.finding, row.facts, names) if row.finding else None
    finish(
        action,
        Action.State.FAILED,
        f"{finding.title}: {finding.cause}" if finding else row.message or row.reason,
        code=row.health.lower(),
        hint=finding.note if finding else "",
        finding=row.finding,
    )


def _removed(action: Action, *, again: bool) -> bool:
    text = f"{action.path} {action.name} is removed."
    if again:
        text += " Something has made it again since."
    finish(action, Action.State.SUCCEEDED, text)
    return True


def _vanished(action: Action, *, replaced: bool) -> bool:
    what = "replaced by another object" if replaced else "deleted"
    finish(
        action,
        Action.State.FAILED,
        f"{action.path} {action.name} was {what} before it was installed.",
        code="vanished",
        hint="Find out who else manages it, then ask again.",
    )
    return True


def _lose(action: Action) -> None:
    removing = action.verb == Action.Verb.REMOVE
    finish(
        action,
        Action.State.LOST,
        f"No outcome within {ACTION_TIMEOUT.seconds // 60} minutes; "
        "the cluster may still be at it.",
        code="no-outcome",
        hint="Look for finalizers that keep the object." if removing else "Look at the operator.",
    )
