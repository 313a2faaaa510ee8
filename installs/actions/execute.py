"""Executes a recorded action: sends its steps to the cluster, object by object. Repeatable.

The manifests come from the plan of the action: `plan` for installs, `plan_changes` for upgrades
and approvals, `configuration`, `removal` and `retry` for the others. A worker may die anywhere:
each object is read before it is written, and the row holds the steps that the cluster has accepted.
"""

from typing import Any

import structlog
from django.db import transaction
from django.utils import timezone

from installs.actions import clean_up_steps
from installs.actions.claims import ClaimLost, claimed, renew
from installs.actions.clean_up import adopted_again
from installs.actions.events import record_action
from installs.actions.objects import (
    DryRun,
    apply_step,
    config_refusal,
    delete_step,
    explain_step,
    is_there,
    other_config,
    read_object,
    remove_others,
)
from installs.actions.refusals import (
    adopted_refusal,
    includes,
    is_being_deleted,
    refusal_of,
)
from installs.diagnosis.approvals import listing
from installs.models import Action
from installs.models.steps import Apply, Delete, Step, deletion_entry, remakes
from olmweb.clusters import client_for
from olmweb.eventlog.types import EventType
from olmweb.kube.client import Impersonation, KubeClient
from olmweb.kube.errors import Abandoned, Conflict, KubeError, NotFound
from olmweb.kube.fields import number, text

log = structlog.get_logger(__name__)

RETRY_SECONDS = 5.0


def try_to_send(action: Action) -> float | None:
    """Sends the remaining steps; returns the seconds until the next attempt, None if settled or
    claimed by another worker since, after which nothing is sent or written."""
    send = {
        Action.Verb.INSTALL: _install,
        Action.Verb.RETRY: _retry,
        Action.Verb.REMOVE: _remove,
        Action.Verb.CLEAN_UP: _clean_up,
    }.get(Action.Verb(action.verb), _change)
    try:
        # Before each request: an attempt may take longer than its claim.
        with client_for(action.cluster, abandon=lambda: not renew(action)) as client:
            return None if send(action, client) else RETRY_SECONDS
    except (Abandoned, ClaimLost):
        log.warning("action claimed by another worker", action=action.pk, attempt=action.attempt)
        return None
    except KubeError as error:
        if not error.retryable:
            _refuse(action, error)
            return None
        claimed(action).update(
            outcome=error.message, outcome_code=error.code, outcome_hint=error.hint
        )
        return min(max(error.retry_after or 0.0, RETRY_SECONDS), 60.0)


def _install(action: Action, client: KubeClient) -> bool:
    """Applies the Namespace, OperatorGroup or ServiceAccount that is missing, then the main object;
    a migration then deletes the object that this replaces.

    False while an object of the same name is being deleted.
    """
    as_user = impersonation(action)
    for step in action.steps:
        if isinstance(step, Apply) and not step.main and step.label not in action.done:
            if not is_there(client, step, as_user):
                apply_step(client, step, as_user)
            _mark_done(action, step.label)
    main = action.main
    if action.sent_at is None:
        there = get(client, action)
        if is_being_deleted(there):
            return False
        if refusal := refusal_of(action.verb, main, there):
            # Ends in a Conflict that names the owner, unless the owner is OLM Web itself.
            apply_step(client, main, as_user, dry_run=True)
            _end_refused(action, refusal)
            return True
        if there is not None:
            more = other_config(there, main.manifest)
            besides = f", and also has {listing(more)}" if more else ""
            finish(
                action,
                Action.State.NO_CHANGE,
                f"{action.path} {action.name} exists already with all requested values{besides}; "
                "nothing was written.",
                code="already-so",
                hint="Edit its configuration to remove what was not requested." if more else "",
                uid=uid_of(there),
            )
            return True
        _mark_sent(action)
    uid = uid_of(apply_step(client, main, as_user))
    deletions = [step for step in action.steps if isinstance(step, Delete)]
    if deletions and main.label not in action.done:
        _mark_done(action, main.label)
    for step in deletions:  # of a migration: what the main object replaces
        _is_deleted(action, client, step)
    _mark_applied(action, uid)
    return True


def _change(action: Action, client: KubeClient) -> bool:
    """Applies an upgrade, a configuration or an approval to the reviewed object, and to no
    other."""
    main, there = action.main, get(client, action)
    only = action.version if action.sent_at is None else ""
    if refusal := refusal_of(action.verb, main, there, uid=action.object_uid, only=only):
        _end_refused(action, refusal)
        return True
    if action.sent_at is None:
        if there and _is_so(action, there):
            finish(
                action,
                Action.State.NO_CHANGE,
                f"{action.path} {action.name} has all requested values already; nothing was "
                "written.",
                code="already-so",
            )
            return True
        if refusal := _config_refusal(action, client):
            _end_refused(action, refusal)
            return True
        _mark_sent(action)
    configures = action.verb == Action.Verb.CONFIGURE
    if there and configures and action.force and other_config(there, main.manifest):
        remove_others(client, main, there, impersonation(action))
    applied = apply_step(client, main, impersonation(action), force=action.force)
    action.object_generation = number(applied, "metadata", "generation")
    _mark_applied(action, uid_of(applied))
    return True


def _is_so(action: Action, there: dict[str, Any]) -> bool:
    """Whether the object has all that the action applies; a configuration is compared as a
    whole."""
    wanted = action.main.manifest
    if action.verb == Action.Verb.CONFIGURE and other_config(there, wanted):
        return False
    return includes(there.get("spec"), wanted["spec"])


def _config_refusal(action: Action, client: KubeClient) -> DryRun | None:
    """The refusal of a configuration that another manager has added fields to since its review,
    unless their removal is confirmed."""
    if action.verb != Action.Verb.CONFIGURE or action.force:
        return None
    as_user = impersonation(action)
    applied = apply_step(client, action.main, as_user, dry_run=True, force=action.force)
    return config_refusal(applied, action.main)


def _retry(action: Action, client: KubeClient) -> bool:
    """Deletes first, then applies.

    False while a deleted object still exists: its successor has the same name, and for OLM v0 a
    ClusterServiceVersion that is being deleted is in the way.
    """
    main = action.main
    remade = remakes(action.steps)
    if not remade or deletion_entry(main) not in action.done:
        there = get(client, action)
        # Without an object it was deleted by a worker that died before it noted that.
        is_begun = there is None and remade and action.sent_at is not None
        refusal = refusal_of(action.verb, main, there, uid=action.object_uid, remakes=remade)
        if refusal and not is_begun:
            _end_refused(action, refusal)
            return True
    if action.sent_at is None:
        _mark_sent(action)
    # The object itself goes last: until all else has gone, nothing of it is lost.
    deletions = [step for step in action.steps if isinstance(step, Delete)]
    if not all(_is_deleted(action, client, step) for step in deletions):
        return False
    as_user, uid = impersonation(action), ""
    for step in action.steps:
        if isinstance(step, Apply):
            applied = apply_step(client, step, as_user)
            uid = uid_of(applied) if step.main else uid
    _mark_applied(action, uid)
    return True


def _is_deleted(action: Action, client: KubeClient, step: Delete) -> bool:
    """Deletes the object of a retry's step; whether it no longer exists. Another object of the same
    name is left alone."""
    if deletion_entry(step) not in action.done:
        try:
            delete_step(client, action.cluster, step, impersonation(action))
        except NotFound:
            log.info("object went away before its removal", action=action.pk)
        except Conflict:
            log.info("object was replaced before its removal", action=action.pk)
        _mark_done(action, deletion_entry(step))
    if not step.uid:
        return True  # named by its content: OLM makes another one of the same name at once
    there = read_object(client, action.cluster, step.kind, step.namespace, step.name)
    return there is None or uid_of(there) != step.uid


def _remove(action: Action, client: KubeClient) -> bool:
    """Deletes the steps in order, by uid; a missing object counts as deleted."""
    for step in action.steps:
        if not isinstance(step, Delete) or step.label in action.done:
            continue
        there = read_object(client, action.cluster, step.kind, step.namespace, step.name)
        if refusal := refusal_of(action.verb, step, there, uid=step.uid):
            if step.main:
                _end_refused(action, refusal)
                return True
            there = None  # another object of the same name, not to be deleted
        if there is not None:
            if action.sent_at is None:
                _mark_sent(action)
            try:
                as_user = impersonation(action)
                delete_step(client, action.cluster, step, as_user, uid=uid_of(there))
            except NotFound:
                log.info("object went away before its removal", action=action.pk)
        _mark_done(action, step.label)
    if action.sent_at is None:
        finish(action, Action.State.SUCCEEDED, f"{action.path} {action.name} is gone.")
        return True
    _mark_applied(action, action.object_uid)
    return True


def _clean_up(action: Action, client: KubeClient) -> bool:
    """Deletes the leftovers in their order; False while objects of a step exist.

    Stops at an object that belongs to an operator again.
    """
    left = [step for step in action.steps if step.label not in action.done]
    adopted = adopted_again(action.cluster, left)
    if adopted is None:
        _note(action, f"The operators of cluster {action.cluster.name} can't be read now.")
        return False
    as_user = impersonation(action)
    for step in left:
        if isinstance(step, Apply):
            continue
        try:
            if step.label in adopted and clean_up_steps.exists(
                client, action.cluster, step, as_user
            ):
                _end_refused(action, adopted_refusal(step.label), _deleted_before(action))
                return True
            if action.sent_at is None:
                _mark_sent(action)
            remaining = clean_up_steps.carry_out(client, action.cluster, step, as_user)
        except KubeError as error:
            if error.retryable:
                raise
            refusal = explain_step(error, action.cluster.name, as_user, step, action.verb)
            claimed(action).update(dry_run=refusal.as_json())
            text = f"{step.label}: {refusal.message}{_deleted_before(action)}"
            finish(action, Action.State.REFUSED, text, code=refusal.code, hint=refusal.hint)
            return True
        if remaining is not None:
            _note(action, remaining.sentence, remaining.hint)
            return False
        _mark_done(action, step.label)
    finish(action, Action.State.SUCCEEDED, f"Everything selected of {action.name} is deleted.")
    return True


def _note(action: Action, outcome: str, hint: str = "") -> None:
    """Stores what an open action waits for."""
    action.outcome, action.outcome_hint = outcome, hint
    claimed(action).update(outcome=outcome, outcome_hint=hint)


def _deleted_before(action: Action) -> str:
    return f" Deleted before that: {', '.join(action.done)}." if action.done else ""


def _end_refused(action: Action, refusal: DryRun, more: str = "") -> None:
    """Ends the action with the refusal and a sentence more."""
    text = f"{refusal.message}{more}"
    finish(action, Action.State.REFUSED, text, code=refusal.code, hint=refusal.hint)


def _refuse(action: Action, error: KubeError) -> None:
    step = _step_under_way(action)
    as_user = impersonation(action)
    refusal = explain_step(error, action.cluster.name, as_user, step, action.verb)
    message = refusal.message
    done = ", ".join(action.done)
    if done and action.verb == Action.Verb.RETRY:
        message += f" Before that, it {done}."
    elif done and action.verb != Action.Verb.REMOVE:
        message += f" Applied before that: {done}."
    elif done and isinstance(error, Conflict):
        message += f" Before that, {done} was deleted."
    claimed(action).update(dry_run=refusal.as_json())
    finish(action, Action.State.REFUSED, message, code=refusal.code, hint=refusal.hint)


def _step_under_way(action: Action) -> Step:
    """The first step that is not done; of a retry, which applies after all deletions, the main
    object then."""
    for step in action.steps:
        is_done = {step.label, deletion_entry(step)} & set(action.done)
        if not is_done and (isinstance(step, Delete) or action.verb != Action.Verb.RETRY):
            return step
    return action.main


def _mark_sent(action: Action) -> None:
    """Called before the request: from now on the cluster may have received it. Raises ClaimLost."""
    action.sent_at = timezone.now()
    _write(action, sent_at=action.sent_at)


def _mark_done(action: Action, entry: str) -> None:
    """Raises ClaimLost."""
    action.done = [*action.done, entry]
    _write(action, done=action.done)


def _write(action: Action, **values: Any) -> None:
    """Raises ClaimLost if another worker has claimed the action since: its row is as that worker
    left it."""
    if not claimed(action).update(**values):
        raise ClaimLost


def _mark_applied(action: Action, uid: str) -> None:
    """Raises ClaimLost."""
    done = action.done
    if action.verb != Action.Verb.REMOVE and action.main.label not in done:
        done = [*done, action.main.label]
    with transaction.atomic():
        _write(
            action,
            state=Action.State.APPLIED,
            object_uid=uid,
            object_generation=action.object_generation,
            done=done,
            outcome="",
            outcome_code="",
            outcome_hint="",
        )
        action.state, action.object_uid, action.done = Action.State.APPLIED, uid, done
        record_action(EventType.ACTION_APPLIED, action)
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
    """Ends an open action; one that has ended, or that another worker has claimed since, stays as
    it is."""
    action.state = state
    action.object_uid = uid or action.object_uid
    with transaction.atomic():
        is_ours = claimed(action).update(
            state=state,
            outcome=outcome,
            outcome_code=code,
            outcome_hint=hint,
            finding=finding,
            object_uid=action.object_uid,
            finished_at=timezone.now(),
        )
        if not is_ours:
            log.warning("action claimed by another worker", action=action.pk)
            return
        record_action(EventType.ACTION_FINISHED, action, outcome=outcome, outcome_code=code)
    log.info("action finished", action=action.pk, verb=action.verb, state=str(state), code=code)


def get(client: KubeClient, action: Action) -> dict[str, Any] | None:
    """The main object of the action; None if it does not exist."""
    return read_object(client, action.cluster, action.path, action.namespace, action.name)


def uid_of(item: dict[str, Any]) -> str:
    return text(item, "metadata", "uid", limit=64)


def impersonation(action: Action) -> Impersonation | None:
    return Impersonation(action.as_user, tuple(action.as_groups)) if action.as_user else None
