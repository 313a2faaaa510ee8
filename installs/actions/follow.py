"""Runs recorded actions: sends each, then follows it until its outcome or its timeout.

Every step can be repeated: what is left is read from the action's row and from the cluster, so a
worker may die anywhere. Messages only say that there may be work: a worker claims each attempt in
the row, and a message that finds nothing to claim ends there.
"""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import structlog
from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from catalogs.install_methods import InstallMethod
from installs.actions import bulk
from installs.actions.authority import require_authority
from installs.actions.claims import claim, is_due, release, renew
from installs.actions.execute import finish, get, try_to_send, uid_of
from installs.actions.removal import object_counts
from installs.diagnosis.approvals import listing
from installs.diagnosis.knowledge import finding_for
from installs.methods.base import crds_with_objects
from installs.models import Action, Component, Health, Operator
from installs.models.steps import Delete
from installs.queries.leftovers import PLATFORM_PREFIXES, SHARED_NAMESPACES
from installs.queries.operators import has_installed_nothing
from installs.state.full_sync import sync_cluster
from installs.state.watch.scheduling import cluster_lease, pass_lease
from olmweb.clusters import client_for, require_configured
from olmweb.errors import OlmwebError
from olmweb.kube.errors import KubeError
from olmweb.kube.resources import CLUSTER_SERVICE_VERSIONS
from olmweb.models import Cluster, SyncRun
from olmweb.runtime.leases import is_held, lease

log = structlog.get_logger(__name__)

ACTION_TIMEOUT = timedelta(minutes=15)  # to send an action, and again to follow it
# One run follows at most this long, and only while no other action waits: other tasks of the queue,
# which give clusters to watchers and read for open pages, wait for a free slot.
RUN_SECONDS = 5.0
PAUSE_SECONDS = 1.5
# More than twice EARLY_SECONDS: of two messages for an action, the second finds nothing to claim.
AGAIN_SECONDS = 3.0
PASS_LEASE_SECONDS = 60
# In which another watcher takes over the clusters of one that was killed. Full passes over all of
# them at that moment would keep the machine busy, and the rows of the clusters locked.
TAKE_OVER_SECONDS = 15
# A failure that is older than the action counts only after this: clocks differ.
STALE_FAILURE = timedelta(seconds=60)
CSV = CLUSTER_SERVICE_VERSIONS.kind
# They change an object that exists already.
_CHANGES = (Action.Verb.UPGRADE, Action.Verb.CONFIGURE)
ENDED_BADLY = (Health.FAILED, Health.BLOCKED, Health.DEGRADED)


def waiting() -> list[int]:
    """Ids of open actions that no worker runs and that need not wait for others of their batch."""
    wait = bulk.waiting_in_batches()
    due = Action.objects.filter(is_due(Now()), state__in=Action.OPEN).order_by("id")
    return [action_id for action_id in due.values_list("id", flat=True) if action_id not in wait]


def run(action_id: int, pause: Callable[[float], None] = time.sleep) -> float | None:
    """Sends a pending action, then follows it for RUN_SECONDS, or less if other actions wait.

    Returns the seconds until the next run; None if the action has ended, is run by another worker,
    is not due, or waits for others of its batch. A refusal of the cluster is stored in the row, not
    raised.
    """
    action = claim(action_id)
    if action is None:
        return None
    again: float | None = None
    try:
        again = _attempt(action, pause)
    finally:
        release(action, again)
    return again


def _attempt(action: Action, pause: Callable[[float], None]) -> float | None:
    if action.state == Action.State.PENDING:
        if not bulk.begin(action):
            return None
        if timezone.now() - (action.begun_at or action.created_at) > ACTION_TIMEOUT:
            _give_up_sending(action)
            return None
        try:
            require_configured(action.cluster)
            require_authority(action)
        except OlmwebError as error:
            _refuse_sending(action, error)
            return None
        again = try_to_send(action)
        if action.state != Action.State.APPLIED:
            return again
    return _follow(action, pause)


def _follow(action: Action, pause: Callable[[float], None]) -> float | None:
    until = time.monotonic() + RUN_SECONDS
    while True:
        is_current = _refresh(action.cluster)
        if _settle(action, is_current=is_current):
            return None
        if timezone.now() - (action.sent_at or action.created_at) > ACTION_TIMEOUT:
            _give_up_following(action)
            return None
        if time.monotonic() >= until or not renew(action) or waiting():
            return AGAIN_SECONDS
        pause(PAUSE_SECONDS)


def _refresh(cluster: Cluster) -> bool:
    """Syncs a cluster that nobody watches; returns whether the rows are current.

    Under a watch they are current within seconds, but at no known moment. False, too, while another
    worker takes the watch over or syncs the cluster, and if it does not answer.
    """
    if is_held(cluster_lease(cluster.pk), lost_for=TAKE_OVER_SECONDS):
        return False
    with lease(pass_lease(cluster.pk), PASS_LEASE_SECONDS) as held:
        if held is None:
            return False
        report = sync_cluster(cluster, still_ours=lambda: held.renew(PASS_LEASE_SECONDS))
        return report.outcome != SyncRun.Outcome.FAILED


def _settle(action: Action, *, is_current: bool) -> bool:
    """Finishes the action if its outcome is known.

    `is_current`: the rows were read after the action was sent, so a missing row means a missing
    object; otherwise a request to the cluster decides.
    """
    if action.verb == Action.Verb.APPROVE:
        return _settle_approval(action)
    row = Operator.objects.filter(
        cluster=action.cluster, kind=action.path, namespace=action.namespace, name=action.name
    ).first()
    if row is None or row.uid != action.object_uid:
        if not is_current and not _is_gone(action):
            return False
        _finish_gone(action, replaced=row is not None)
        return True
    if action.verb == Action.Verb.REMOVE or not _is_observed(action, row):
        return False
    if row.health == Health.NEEDS_APPROVAL:
        plan = str(row.details.get("plan") or "")
        subscribed = f"{action.name} is subscribed"
        if action.verb in _CHANGES:
            subscribed = f"Subscription {action.name} is changed"
        finish(
            action,
            Action.State.SUCCEEDED,
            f"{subscribed}; InstallPlan {plan} requires approval.{_replaced(action)}",
            code="needs-approval",
            hint="Review the contents of the InstallPlan, then approve it.",
        )
        return True
    is_upgrade = action.verb == Action.Verb.UPGRADE
    version = f" {row.version}" if row.version else ""
    text = f"{action.name}{version} is installed.{_replaced(action)}"
    if action.verb == Action.Verb.CONFIGURE:
        # The rows of a Subscription don't tell when OLM has updated its Deployments.
        text = f"The configuration of {action.name} is changed; its Deployments are updated now."
    elif is_upgrade:
        text = f"{action.name} is at {_installed_bundle(row)}."
    elif action.verb == Action.Verb.RETRY:
        text = f"{action.name} is healthy."
    if is_reached(action, row):
        finish(action, Action.State.SUCCEEDED, text)
        return True
    if is_upgrade and action.target and _has_succeeded(row, action.target):
        finish(action, Action.State.SUCCEEDED, f"{text} {_remaining_trouble([row])}".strip())
        return True
    return _settle_failure(action, row)


def is_reached(action: Action, row: Operator) -> bool:
    """Whether the row shows that an installation, a change or a retry succeeded; the action
    finishes at the next check of its worker. Healthy counts for an upgrade only if it is not the
    state from before."""
    if row.health != Health.HEALTHY or row.uid != action.object_uid:
        return False
    if action.verb == Action.Verb.UPGRADE and action.target not in ("", _installed_bundle(row)):
        return False
    return _is_observed(action, row)


def _installed_bundle(row: Operator) -> str:
    return str(row.details.get("installed_csv") or row.bundle)


def _replaced(action: Action) -> str:
    """The sentence about the object of another install method that a migration removed."""
    if action.verb != Action.Verb.INSTALL:
        return ""
    removed = [step.label for step in action.steps if step.verb == Delete.verb and not step.main]
    return f" {listing(removed)} is removed." if removed else ""


def _is_observed(action: Action, row: Operator) -> bool:
    """Whether the row shows the object with the applied upgrade, and its conditions, where they
    have an `observedGeneration`, are of that generation or a later one."""
    observed = [
        condition["observedGeneration"]
        for condition in row.conditions
        if "observedGeneration" in condition
    ]
    return min(row.generation, max(observed, default=row.generation)) >= action.object_generation


def _settle_approval(action: Action) -> bool:
    """By the InstallPlan, then by the Subscriptions whose versions it contains."""
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
        installed = ", ".join(wanted) or "everything it lists"
        text = f"{action.name} completed: {installed}. {_remaining_trouble(rows)}"
        finish(action, Action.State.SUCCEEDED, text.strip())
        return True
    return any(_settle_failure(action, row) for row in rows)


def _done(row: Operator, wanted: list[str]) -> bool:
    installed = str(row.details.get("installed_csv") or "")
    return installed in wanted and (row.health == Health.HEALTHY or _has_succeeded(row, installed))


def _has_succeeded(row: Operator, csv: str) -> bool:
    """Whether this version is installed for the Subscription, whatever its other conditions.

    A failed resolution is reported on every Subscription of the namespace, also on those whose
    version has succeeded.
    """
    if row.details.get("installed_csv") != csv:
        return False
    where = {"cluster": row.cluster_id, "namespace": row.namespace, "name": csv}
    return Component.objects.filter(**where, kind=CSV, phase="Succeeded").exists()


def _remaining_trouble(rows: Sequence[Operator]) -> str:
    ill = [row for row in rows if row.health in ENDED_BADLY]
    return " ".join(f"{row.name} is still {row.health}: {row.reason}." for row in ill)


def _is_gone(action: Action) -> bool:
    """Asks the cluster whether the object of the action still exists; False without an answer."""
    try:
        with client_for(action.cluster) as client:
            there = get(client, action)
    except KubeError:
        return False
    return there is None or uid_of(there) != action.object_uid


def _settle_failure(action: Action, row: Operator) -> bool:
    """Fails the action if the operator is in trouble because of it."""
    if row.health not in ENDED_BADLY or not _is_new(action, row):
        return False
    names = {"name": row.name, "namespace": row.namespace, "kind": row.kind}
    finding = finding_for(row.finding, row.facts, names, reason=row.reason)
    finish(
        action,
        Action.State.FAILED,
        f"{finding.title}: {finding.cause}" if finding else row.message or row.reason,
        code=row.health.lower(),
        hint=finding.note if finding else "",
        finding=row.finding,
    )
    return True


def _is_new(action: Action, row: Operator) -> bool:
    """Whether the failure of the row was caused by the action and not left from before.

    A cluster counts whole seconds: a failure of the second in which a retry was sent may be the one
    that the retry cures.
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


def _finish_gone(action: Action, *, replaced: bool) -> None:
    if action.verb == Action.Verb.REMOVE:
        text = _removal_outcome(action) + (" It was created again since." if replaced else "")
        finish(action, Action.State.SUCCEEDED, text, hint="" if replaced else _left_behind(action))
        return
    what = "replaced by another object" if replaced else "deleted"
    finish(
        action,
        Action.State.FAILED,
        f"{action.path} {action.name} was {what} before it was installed.",
        code="vanished",
        hint="Find out who else manages it, then request it again.",
    )


def _removal_outcome(action: Action) -> str:
    """Names what was deleted and the other objects of the package, which stay. Says that the
    operator is removed only if it had a version and no other object has installed it, or is still
    on the way to."""
    deleted = [step.label for step in action.steps] or [f"{action.path} {action.name}"]
    itself = Q(kind=action.path, namespace=action.namespace, name=action.name)
    others = Operator.objects.filter(cluster=action.cluster, package=action.package)
    staying = [
        f"{row.kind} {row.name} stays ({row.get_health_display()})"
        for row in others.exclude(itself).order_by("kind", "namespace", "name")
        if action.package and (_may_be_installed(row) or not action.version)
    ]
    if staying or not action.version:
        verb = "is" if len(deleted) == 1 else "are"
        return "; ".join((f"{listing(deleted)} {verb} deleted", *staying)) + "."
    return f"Operator {action.name} {action.version} is removed. Deleted: {listing(deleted)}."


def _may_be_installed(row: Operator) -> bool:
    """Whether the object has installed its package, or has not failed to yet."""
    return bool(row.version or row.health not in ENDED_BADLY) and not has_installed_nothing(row)


def _left_behind(action: Action) -> str:
    """The objects of a removed Subscription that OLM v0 leaves on the cluster; empty for others."""
    if action.path != InstallMethod.SUBSCRIPTION:
        return ""
    here = {"cluster": action.cluster, "namespace": action.namespace}
    removed = Operator(**here, kind=action.path, name=action.name, package=action.package)
    crds = object_counts(removed)
    others = Operator.objects.filter(**here, kind=action.path).exclude(name=action.name)
    shared = action.namespace in SHARED_NAMESPACES
    alone = not shared and not others.exists()
    groups = list(Component.objects.filter(**here, kind="OperatorGroup")) if alone else []
    left = [crds_with_objects(crds)] if crds else []
    left += [f"OperatorGroup {group.name} in namespace {group.namespace}" for group in groups]
    if groups and not action.namespace.startswith(PLATFORM_PREFIXES):
        left.append(f"Namespace {action.namespace}")
    text = f"Left on the cluster: {listing(left)}." if left else ""
    generated = others.exclude(details__generated_by="").filter(details__has_key="generated_by")
    names = list(generated.order_by("name").values_list("package", flat=True))
    if names and not shared:
        verb = "were" if len(names) > 1 else "was"
        text += (
            f" The OperatorGroup and Namespace {action.namespace} stay for {listing(names)}, which "
            f"{verb} installed as a dependency."
        )
    return text.strip()


def _refuse_sending(action: Action, error: OlmwebError) -> None:
    if action.sent_at:
        text = f"It is unknown whether the cluster applied it, and it is not applied again. {error}"
        text += f" Done before that: {', '.join(action.done)}." if action.done else ""
        finish(action, Action.State.LOST, text, code=error.code, hint=error.hint)
        return
    made = f" Applied before that: {', '.join(action.done)}." if action.done else ""
    text = f"It was not applied. {error}{made}"
    finish(action, Action.State.REFUSED, text, code=error.code, hint=error.hint)


def _give_up_sending(action: Action) -> None:
    minutes = ACTION_TIMEOUT.seconds // 60
    if action.verb == Action.Verb.CLEAN_UP and action.sent_at:
        text = f"Not everything was deleted within {minutes} minutes. {action.outcome}"
        finish(action, Action.State.FAILED, text, code="no-outcome", hint=action.outcome_hint)
        return
    if action.sent_at:
        text = f"It is unknown whether the cluster applied it: no answer within {minutes} minutes."
        text += f" Applied so far: {', '.join(action.done)}." if action.done else ""
        finish(action, Action.State.LOST, text, code="no-answer", hint=action.outcome)
        return
    text = f"It was not applied within {minutes} minutes and will not be applied."
    check = "See the log of OLM Web" if settings.EMBEDDED else "Check that a worker of actions runs"
    hint = action.outcome or f"{check}, then request it again."
    finish(action, Action.State.REFUSED, text, code="not-sent", hint=hint)


def _give_up_following(action: Action) -> None:
    removing = action.verb == Action.Verb.REMOVE
    finish(
        action,
        Action.State.LOST,
        f"No outcome within {ACTION_TIMEOUT.seconds // 60} minutes; "
        "the cluster may still be working on it.",
        code="no-outcome",
        hint="Look for finalizers that keep the object." if removing else "Look at the operator.",
    )
