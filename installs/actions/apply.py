"""Sends a recorded action to its cluster, object by object; every step can be repeated.

The manifests are made before: of an install by `installs.methods` and `plan`, of an upgrade,
approval or removal by `change`, of a retry by `retry`.

What the cluster has taken is noted in the row after each object, and each object is asked about
before it is written: a worker that dies anywhere leaves nothing undone and nothing done twice.
Must not know who may ask for an action, nor how it ends.
"""

from datetime import timedelta
from typing import Any

import structlog
from django.utils import timezone

from installs.actions.objects import WRITTEN, explain, is_there, remake_problem
from installs.models import Action
from installs.models.steps import Apply, Delete, Step, remakes
from olmweb.clusters import client_for
from olmweb.kube.client import Impersonation, KubeClient
from olmweb.kube.errors import Conflict, KubeError, NotFound
from olmweb.kube.fields import text
from olmweb.kube.resources import Resource
from olmweb.models import Cluster

log = structlog.get_logger(__name__)

ACTION_TIMEOUT = timedelta(minutes=15)  # an action without an outcome is given up after this
RETRY_SECONDS = 5.0


def try_to_send(action: Action) -> float | None:
    """Sends the action; returns when to try again, None when that is settled."""
    if timezone.now() - (action.begun_at or action.created_at) > ACTION_TIMEOUT:
        _give_up(action)
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
    """False when the cluster is not ready for it yet."""
    if action.verb == Action.Verb.REMOVE:
        return _send_remove(action, client)
    if action.verb == Action.Verb.INSTALL:
        for step in action.steps:
            if isinstance(step, Apply) and not step.main:
                _send_beside(action, client, step)
        return _send_install(action, client)
    if action.verb == Action.Verb.RETRY:
        return _send_retry(action, client)
    return _send_change(action, client)


def _send_beside(action: Action, client: KubeClient, step: Apply) -> None:
    """A Namespace, OperatorGroup or ServiceAccount; one that is there is left as it is."""
    if step.label in action.done:
        return
    as_user = impersonation(action)
    if not is_there(client, step, as_user):
        client.apply(WRITTEN[step.kind], step.version, step.manifest, as_user=as_user)
    _mark_done(action, step.label)


def _send_install(action: Action, client: KubeClient) -> bool:
    main = action.main
    manifest, resource, version = main.manifest, WRITTEN[main.kind], main.version
    if action.sent_at is None:
        there = get(client, resource, version, action)
        if there is not None and there["metadata"].get("deletionTimestamp"):
            return False
        if there is not None and not _same(there.get("spec"), manifest["spec"]):
            # Ends in a Conflict that names the owner, unless the owner is OLM Web itself.
            as_user = impersonation(action)
            client.apply(resource, version, manifest, dry_run=True, as_user=as_user)
            _refuse_taken(action, there)
            return True
        if there is not None:
            finish(
                action,
                Action.State.SUCCEEDED,
                f"{action.path} {action.name} exists already with the same specification; "
                "nothing was written.",
                code="already-so",
                uid=uid_of(there),
            )
            return True
        _mark_sent(action)
    applied = client.apply(resource, version, manifest, as_user=impersonation(action))
    _mark_applied(action, uid_of(applied))
    return True


def _same(there: Any, wanted: Any) -> bool:
    """Whether the object has all that is wanted; the server adds defaults of its own."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        return all(key in there and _same(there[key], value) for key, value in wanted.items())
    return bool(there == wanted)


def _send_change(action: Action, client: KubeClient) -> bool:
    """An upgrade or an approval of the object that was looked at, and of no other."""
    main = action.main
    manifest, resource, version = main.manifest, WRITTEN[main.kind], main.version
    there = get(client, resource, version, action)
    same = _is_the_same(action, there)
    if there is None or not same:
        return True
    if action.sent_at is None:
        if _same(there.get("spec"), manifest["spec"]):
            finish(
                action,
                Action.State.SUCCEEDED,
                f"{action.path} {action.name} is so already; nothing was written.",
                code="already-so",
            )
            return True
        _mark_sent(action)
    applied = client.apply(
        resource, version, manifest, force=action.force, as_user=impersonation(action)
    )
    _mark_applied(action, uid_of(applied))
    return True


def _is_the_same(action: Action, there: dict[str, Any] | None) -> bool:
    """Whether it is the object that the action was asked about; ends the action where not."""
    if there is not None and (not action.object_uid or uid_of(there) == action.object_uid):
        return True
    what = "is gone" if there is None else "was replaced by another object of the same name"
    finish(
        action,
        Action.State.REFUSED,
        f"{action.path} {action.name} {what}; nothing was changed.",
        code="gone" if there is None else "replaced",
    )
    return False


def _send_retry(action: Action, client: KubeClient) -> bool:
    """Deletes the steps, each by its uid where that is known, then applies the rest.

    False while a deleted object is still there: what is made again needs its place, and OLM v0
    takes a ClusterServiceVersion that is on its way out for one that is in the way.
    """
    main = action.main
    manifest, resource, version = main.manifest, WRITTEN[main.kind], main.version
    made_again = remakes(action.steps)
    if not made_again or _deleted(main) not in action.done:
        there = get(client, resource, version, action)
        if there is None and made_again and action.sent_at is not None:
            pass  # deleted by a worker that died before it could say so
        elif not _is_the_same(action, there):
            return True
        elif made_again and there and (why := remake_problem(there, manifest)):
            text = f"{action.path} {action.name} can't be made again as it was: {why}."
            finish(action, Action.State.REFUSED, text, code="changed", hint="Review it again.")
            return True
    if action.sent_at is None:
        _mark_sent(action)
    # The object itself goes last: until all else has gone, nothing of it is lost.
    deletions = [step for step in action.steps if isinstance(step, Delete)]
    if not all(_gone(action, client, step) for step in deletions):
        return False
    as_user, uid = impersonation(action), ""
    for step in action.steps:
        if isinstance(step, Apply):
            applied = client.apply(WRITTEN[step.kind], step.version, step.manifest, as_user=as_user)
            uid = uid_of(applied) if step.main else uid
    _mark_applied(action, uid)
    return True


def _deleted(step: Step) -> str:
    """How `done` names a deletion of a retry, which may apply the same object afterwards."""
    return f"deleted {step.label}"


def _gone(action: Action, client: KubeClient, step: Delete) -> bool:
    """Deletes what a step of a retry names; whether it has gone. Another object of the same name
    is none of it."""
    resource, as_user = WRITTEN[step.kind], impersonation(action)
    version = version_of(action.cluster, resource)
    if _deleted(step) not in action.done:
        try:
            client.delete(
                resource, version, step.name, step.namespace, uid=step.uid, as_user=as_user
            )
        except NotFound:
            log.info("object went away before its removal", action=action.pk)
        except Conflict:
            log.info("object was replaced before its removal", action=action.pk)
        _mark_done(action, _deleted(step))
    if not step.uid:
        return True  # of a content's own name: OLM makes another one of the same name at once
    try:
        there = client.get(resource, version, step.name, step.namespace)
    except NotFound:
        return True
    return uid_of(there) != step.uid


def _send_remove(action: Action, client: KubeClient) -> bool:
    """Deletes the steps in their order, each by its uid; one that is gone counts as deleted."""
    for step in action.steps:
        if not isinstance(step, Delete) or step.label in action.done:
            continue
        resource = WRITTEN[step.kind]
        version = version_of(action.cluster, resource)
        try:
            there = client.get(resource, version, step.name, step.namespace)
        except NotFound:
            _mark_done(action, step.label)
            continue
        if step.uid and uid_of(there) != step.uid:
            if step.main:
                _refuse_replaced(action)
                return True
            _mark_done(action, step.label)  # another one of the same name, not to be deleted
            continue
        if action.sent_at is None:
            _mark_sent(action)
        try:
            client.delete(
                resource,
                version,
                step.name,
                step.namespace,
                uid=uid_of(there),
                as_user=impersonation(action),
            )
        except NotFound:
            log.info("object went away before its removal", action=action.pk)
        _mark_done(action, step.label)
    if action.sent_at is None:
        finish(action, Action.State.SUCCEEDED, f"{action.path} {action.name} is gone.")
        return True
    _mark_applied(action, action.object_uid)
    return True


def _refuse_replaced(action: Action) -> None:
    finish(
        action,
        Action.State.REFUSED,
        f"{action.path} {action.name} was replaced by another object of the same name "
        "since its removal was asked for; nothing was deleted.",
        code="replaced",
        hint="Look at the new object, and ask again if it shall go too.",
    )


def _refuse_taken(action: Action, there: dict[str, Any]) -> None:
    """An install never turns an operator that is there into another one."""
    spec = there.get("spec", {})
    package = (
        spec.get("package", {}).get("name")
        or spec.get("name")
        or spec.get("source", {}).get("catalog", {}).get("packageName", "")
    )
    finish(
        action,
        Action.State.REFUSED,
        f"{action.path} {action.name} exists already, for the package {package}; nothing was "
        "changed.",
        code="taken",
        hint="Choose another name, or remove the one that is there first.",
    )


def _refuse(action: Action, error: KubeError) -> None:
    resource = WRITTEN[action.path]
    explanation = explain(
        error,
        cluster=action.cluster.name,
        as_user=action.as_user,
        verb=action.verb,
        plural=f"{resource.plural}.{resource.group}",
        kind=action.path,
    )
    message = explanation.message
    if isinstance(error, NotFound):
        message += f" The kind {action.path} or the namespace may have gone since it was reviewed."
    written = [step for step in action.done if action.verb != Action.Verb.REMOVE]
    if action.verb == Action.Verb.RETRY and action.done:
        message += f" Before that, it {', '.join(action.done)}."
    elif written:
        message += f" Before that, it had made sure of {', '.join(written)}."
    elif isinstance(error, Conflict) and action.done:
        message += f" Before that, {', '.join(action.done)} was deleted."
    action.dry_run = {"ok": False, "message": explanation.message, "fields": explanation.fields}
    Action.objects.filter(pk=action.pk).update(dry_run=action.dry_run)
    finish(action, Action.State.REFUSED, message, code=explanation.code, hint=explanation.hint)


def _give_up(action: Action) -> None:
    minutes = ACTION_TIMEOUT.seconds // 60
    if action.sent_at:
        message = (
            f"It is not known whether the cluster took it; no answer within {minutes} minutes."
        )
        message += f" Known is: {', '.join(action.done)}." if action.done else ""
        finish(action, Action.State.LOST, message, code="no-answer", hint=action.outcome)
        return
    message = f"It was not sent within {minutes} minutes and is not sent any more."
    hint = action.outcome or "Check that a worker runs, then ask again."
    finish(action, Action.State.REFUSED, message, code="not-sent", hint=hint)


def _mark_sent(action: Action) -> None:
    """Before the request: from now on nobody knows whether the cluster got it."""
    action.sent_at = timezone.now()
    Action.objects.filter(pk=action.pk).update(sent_at=action.sent_at)


def _mark_done(action: Action, named: str) -> None:
    action.done = [*action.done, named]
    Action.objects.filter(pk=action.pk).update(done=action.done)


def _mark_applied(action: Action, uid: str) -> None:
    action.state, action.object_uid = Action.State.APPLIED, uid
    if action.verb != Action.Verb.REMOVE:
        action.done = [*action.done, action.main.label]
    Action.objects.filter(pk=action.pk, state=Action.State.PENDING).update(
        state=action.state,
        object_uid=uid,
        done=action.done,
        outcome="",
        outcome_code="",
        outcome_hint="",
    )
    log.info("action applied", action=action.pk, verb=action.verb, name=action.name)


def finish(
    action: Action,
    state: Action.State,
    outcome: str,
    *,
    code: str = "",
    hint: str = "",
    finding: str = "",
    uid: str = "",
) -> None:
    """Ends an open action; one that has ended already stays as it is."""
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


def get(
    client: KubeClient, resource: Resource, version: str, action: Action
) -> dict[str, Any] | None:
    """The object that the action is about; None when there is none."""
    try:
        return client.get(resource, version, action.name, action.namespace)
    except NotFound:
        return None


def version_of(cluster: Cluster, resource: Resource) -> str:
    return cluster.kinds.get(resource.kind, {}).get("version") or resource.versions[0]


def uid_of(item: dict[str, Any]) -> str:
    return text(item, "metadata", "uid", limit=64)


def impersonation(action: Action) -> Impersonation | None:
    return Impersonation(action.as_user, tuple(action.as_groups)) if action.as_user else None
