"""Carries out recorded actions and follows them to their outcome.

Every step can be repeated: what an action still needs is read from its row and from the cluster,
so a worker that dies anywhere loses nothing. Must not know who may ask for an action.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import structlog
from django.utils import timezone

from installs.diagnosis import finding_for
from installs.models import Action, Health, Operator
from installs.refusals import explain
from installs.sync import sync_cluster
from installs.sync.decode import text
from installs.turns import cluster_lease, pass_lease
from olmweb.clusters import client_for
from olmweb.kube.client import Impersonation, KubeClient
from olmweb.kube.errors import KubeError, NotFound
from olmweb.kube.resources import CLUSTER_EXTENSIONS, PLATFORM_OPERATORS, Resource
from olmweb.leases import Held, held_names, is_held, lease
from olmweb.models import Cluster, SyncRun

log = structlog.get_logger(__name__)

RESOURCES = {one.kind: one for one in (PLATFORM_OPERATORS, CLUSTER_EXTENSIONS)}
TOTAL = timedelta(minutes=15)  # an action without an outcome is given up after this
RUN_SECONDS = 20.0  # one run follows this long, then lets other work pass
PAUSE_SECONDS = 1.5
RETRY_SECONDS = 5.0
AGAIN_SECONDS = 1.0
# Longer than a step should take. Two workers at one step do no harm: every step is idempotent.
LEASE_SECONDS = 90
PASS_LEASE_SECONDS = 60
# A failure that is older than what we sent counts only after this: clocks differ.
STALE_FAILURE = timedelta(seconds=60)
_ENDED_BADLY = (Health.FAILED, Health.BLOCKED, Health.DEGRADED)


def waiting() -> list[int]:
    """Ids of open actions that no worker is at."""
    busy = held_names("action:")
    ids = Action.objects.filter(state__in=Action.OPEN).order_by("id").values_list("id", flat=True)
    return [one for one in ids if f"action:{one}" not in busy]


def run(action_id: int, pause: Callable[[float], None] = time.sleep) -> float | None:
    """One run of an action: sends it if it is not sent, then follows it for RUN_SECONDS.

    Returns after how many seconds to run it again, None when it is finished, gone, or in the
    hands of another worker. What the cluster refuses ends up in the row, not as an exception.
    """
    with lease(f"action:{action_id}", LEASE_SECONDS) as held:
        action = Action.objects.select_related("cluster").filter(pk=action_id).first()
        if held is None or action is None or action.state not in Action.OPEN:
            return None
        if action.state == Action.State.PENDING:
            again = _try_to_send(action)
            if action.state != Action.State.APPLIED:
                return again
        return _follow(action, held, pause)


def _try_to_send(action: Action) -> float | None:
    """Sends the action; returns when to try again, None when that is settled."""
    if timezone.now() - action.created_at > TOTAL:
        _give_up_sending(action)
        return None
    try:
        with client_for(action.cluster) as client:
            settled = _send(action, client)
    except KubeError as error:
        if error.retryable:
            Action.objects.filter(pk=action.pk).update(
                outcome=error.message, outcome_code=error.code, outcome_hint=error.hint
            )
            return min(max(error.retry_after or 0.0, RETRY_SECONDS), 60.0)
        _refuse(action, error)
        return None
    return None if settled else RETRY_SECONDS


def _send(action: Action, client: KubeClient) -> bool:
    """Install or remove; False when the cluster is not ready for it yet."""
    resource = RESOURCES[action.path]
    version = _version(action.cluster, resource)
    if action.verb == Action.Verb.REMOVE:
        return _send_remove(action, client, resource, version)
    return _send_install(action, client, resource, version)


def _send_install(action: Action, client: KubeClient, resource: Resource, version: str) -> bool:
    manifest: dict[str, Any] = action.manifests[0]
    if action.sent_at is None:
        there = _get(client, resource, version, action)
        if there is not None and there["metadata"].get("deletionTimestamp"):
            return False
        if there is not None and there.get("spec") != manifest["spec"]:
            # Ends in a Conflict that names the owner, unless the owner is OLM Web itself.
            as_user = _impersonation(action)
            client.apply(resource, version, manifest, dry_run=True, as_user=as_user)
            _refuse_taken(action, there)
            return True
        if there is not None:
            _finish(
                action,
                Action.State.SUCCEEDED,
                f"{action.path} {action.name} exists already with the same specification; "
                "nothing was written.",
                code="already-so",
                uid=_uid(there),
            )
            return True
        _mark_sent(action)
    applied = client.apply(resource, version, manifest, as_user=_impersonation(action))
    _mark_applied(action, _uid(applied))
    return True


def _send_remove(action: Action, client: KubeClient, resource: Resource, version: str) -> bool:
    there = _get(client, resource, version, action)
    if there is None:
        _finish(action, Action.State.SUCCEEDED, f"{action.path} {action.name} is gone.")
        return True
    if action.object_uid and _uid(there) != action.object_uid:
        _finish(
            action,
            Action.State.REFUSED,
            f"{action.path} {action.name} was replaced by another object of the same name "
            "since its removal was asked for; nothing was deleted.",
            code="replaced",
            hint="Look at the new object, and ask again if it shall go too.",
        )
        return True
    _mark_sent(action)
    try:
        client.delete(
            resource, version, action.name, action.namespace, as_user=_impersonation(action)
        )
    except NotFound:
        log.info("object went away before its removal", action=action.pk)
    _mark_applied(action, _uid(there))
    return True


def _follow(action: Action, held: Held, pause: Callable[[float], None]) -> float | None:
    until = time.monotonic() + RUN_SECONDS
    while True:
        fresh = _refresh(action.cluster)
        if _settle(action, fresh=fresh):
            return None
        if timezone.now() - (action.sent_at or action.created_at) > TOTAL:
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


def _settle(action: Action, *, fresh: bool) -> bool:
    """Finishes the action when its outcome is known.

    `fresh`: the rows were read after the action was sent, so a missing row means a missing object;
    otherwise the cluster is asked.
    """
    row = Operator.objects.filter(
        cluster=action.cluster, kind=action.path, namespace=action.namespace, name=action.name
    ).first()
    same = row is not None and row.uid == action.object_uid
    if action.verb == Action.Verb.REMOVE:
        gone = not same and (fresh or _is_gone(action))
        return gone and _removed(action, again=row is not None)
    if row is None or not same:
        gone = fresh or _is_gone(action)
        return gone and _vanished(action, replaced=row is not None)
    if row.health == Health.HEALTHY:
        _finish(action, Action.State.SUCCEEDED, f"{action.name} is installed.")
        return True
    if row.health in _ENDED_BADLY and _is_news(action, row):
        _ended_badly(action, row)
        return True
    return False


def _is_gone(action: Action) -> bool:
    """Whether the cluster says that the object which was acted on is no longer there."""
    resource = RESOURCES[action.path]
    try:
        with client_for(action.cluster) as client:
            there = _get(client, resource, _version(action.cluster, resource), action)
    except KubeError:
        return False
    return there is None or _uid(there) != action.object_uid


def _is_news(action: Action, row: Operator) -> bool:
    """Whether the failure in the row is about what we sent and not left from before."""
    sent = (action.sent_at or action.created_at).replace(microsecond=0)
    if row.created_at is not None and row.created_at >= sent:
        return True
    moved = [str(one.get("lastTransitionTime", "")) for one in row.conditions]
    if max(moved, default="") >= sent.strftime("%Y-%m-%dT%H:%M:%SZ"):
        return True
    return timezone.now() - sent > STALE_FAILURE


def _ended_badly(action: Action, row: Operator) -> None:
    names = {"name": row.name, "namespace": row.namespace, "kind": row.kind}
    found = finding_for(row.finding, row.facts, names) if row.finding else None
    _finish(
        action,
        Action.State.FAILED,
        f"{found.title}: {found.cause}" if found else row.message or row.reason,
        code=row.health.lower(),
        hint=found.note if found else "",
        finding=row.finding,
    )


def _removed(action: Action, *, again: bool) -> bool:
    text = f"{action.path} {action.name} is removed."
    if again:
        text += " Something has made it again since."
    _finish(action, Action.State.SUCCEEDED, text)
    return True


def _vanished(action: Action, *, replaced: bool) -> bool:
    what = "replaced by another object" if replaced else "deleted"
    _finish(
        action,
        Action.State.FAILED,
        f"{action.path} {action.name} was {what} before it was installed.",
        code="vanished",
        hint="Find out who else manages it, then ask again.",
    )
    return True


def _lose(action: Action) -> None:
    removing = action.verb == Action.Verb.REMOVE
    _finish(
        action,
        Action.State.LOST,
        f"No outcome within {TOTAL.seconds // 60} minutes; the cluster may still be at it.",
        code="no-outcome",
        hint="Look for finalizers that keep the object." if removing else "Look at the operator.",
    )


def _give_up_sending(action: Action) -> None:
    minutes = TOTAL.seconds // 60
    if action.sent_at:
        text = f"It is not known whether the cluster took it; no answer within {minutes} minutes."
        _finish(action, Action.State.LOST, text, code="no-answer", hint=action.outcome)
        return
    text = f"It was not sent within {minutes} minutes and is not sent any more."
    hint = action.outcome or "Check that a worker runs, then ask again."
    _finish(action, Action.State.REFUSED, text, code="not-sent", hint=hint)


def _refuse_taken(action: Action, there: dict[str, Any]) -> None:
    """An install never turns an operator that is there into another one."""
    package = there.get("spec", {}).get("package", {}).get("name", "")
    _finish(
        action,
        Action.State.REFUSED,
        f"{action.path} {action.name} exists already, for the package {package}; nothing was "
        "changed.",
        code="taken",
        hint="Choose another name, or remove the one that is there first.",
    )


def _refuse(action: Action, error: KubeError) -> None:
    resource = RESOURCES[action.path]
    told = explain(
        error,
        cluster=action.cluster.name,
        as_user=action.as_user,
        verb=action.verb,
        plural=f"{resource.plural}.{resource.group}",
    )
    action.dry_run = {"ok": False, "message": told.message, "fields": told.fields}
    Action.objects.filter(pk=action.pk).update(dry_run=action.dry_run)
    _finish(action, Action.State.REFUSED, told.message, code=told.code, hint=told.hint)


def _mark_sent(action: Action) -> None:
    """Before the request: from now on nobody knows whether the cluster got it."""
    action.sent_at = timezone.now()
    Action.objects.filter(pk=action.pk).update(sent_at=action.sent_at)


def _mark_applied(action: Action, uid: str) -> None:
    action.state, action.object_uid = Action.State.APPLIED, uid
    Action.objects.filter(pk=action.pk, state=Action.State.PENDING).update(
        state=action.state, object_uid=uid, outcome="", outcome_code="", outcome_hint=""
    )
    log.info("action applied", action=action.pk, verb=action.verb, name=action.name)


def _finish(
    action: Action,
    state: Action.State,
    outcome: str,
    *,
    code: str = "",
    hint: str = "",
    finding: str = "",
    uid: str = "",
) -> None:
    action.state = state
    action.object_uid = uid or action.object_uid
    Action.objects.filter(pk=action.pk, state__in=Action.OPEN).update(
        state=state,
        outcome=outcome,
        outcome_code=code,
        outcome_hint=hint,
        finding=finding,
        object_uid=action.object_uid,
        finished_at=timezone.now(),
    )
    log.info("action finished", action=action.pk, verb=action.verb, state=str(state), code=code)


def _get(
    client: KubeClient, resource: Resource, version: str, action: Action
) -> dict[str, Any] | None:
    try:
        return client.get(resource, version, action.name, action.namespace)
    except NotFound:
        return None


def _version(cluster: Cluster, resource: Resource) -> str:
    return cluster.kinds.get(resource.kind, {}).get("version") or resource.versions[0]


def _uid(item: dict[str, Any]) -> str:
    return text(item, "metadata", "uid", limit=64)


def _impersonation(action: Action) -> Impersonation | None:
    return Impersonation(action.as_user, tuple(action.as_groups)) if action.as_user else None
