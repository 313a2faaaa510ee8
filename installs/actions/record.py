"""Tries a plan with a dry run and records it as an Action. Sends nothing else.

Workers send and follow recorded actions (installs.actions.follow). At most one action is open per
object, so recording the same plan again returns that action.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
from django.core import signing
from django.db import IntegrityError, transaction
from django.utils import timezone

from installs.actions import clean_up_steps
from installs.actions.clean_up import adopted_again
from installs.actions.events import record_action
from installs.actions.objects import (
    NEEDS_NAMESPACE,
    RETRIED,
    WRITTEN,
    DryRun,
    apply_step,
    config_changes,
    config_refusal,
    delete_step,
    explain_step,
    is_there,
    may_write,
    read_object,
    remove_others,
)
from installs.actions.plan import Plan
from installs.actions.plan_changes import route_of_approval
from installs.actions.refusals import adopted_refusal, is_being_deleted, refusal_of
from installs.diagnosis.approvals import listing
from installs.models import Action, ActionBatch, ActionKey, AllowRule
from installs.models.steps import (
    Apply,
    Delete,
    DeleteAll,
    EndConversion,
    Manifest,
    Step,
    to_json,
)
from installs.queries.activity import operators_of
from installs.readiness import readiness
from olmweb.accounts.roles import AnyUser, impersonation_for, person
from olmweb.clusters import client_for, require_configured
from olmweb.errors import OlmwebError
from olmweb.eventlog.types import EventType
from olmweb.kube.client import Impersonation, KubeClient
from olmweb.kube.errors import Conflict, Forbidden, KubeError, NotFound
from olmweb.kube.resources import CLUSTER_VERSIONS, NAMESPACES
from olmweb.models import ApiToken
from olmweb.tasks import enqueue

DRY_RUN_TIMEOUT = (5.0, 5.0)  # seconds to connect and to wait for the answer: a person waits
REVIEW_SECONDS = 3600  # a reviewed plan may be confirmed this long
# Changes of an operator after which it may not block the next minor version any more.
UNBLOCKING = (Action.Verb.APPROVE, Action.Verb.UPGRADE, Action.Verb.REMOVE)


def dry_run(plan: Plan, user: AnyUser) -> DryRun:
    """Lets the cluster try the plan as this user, for at most five seconds an object. Refuses what
    the worker that sends the action would refuse.

    Never raises KubeError. An object whose namespace does not exist yet can't be tried; an access
    review replaces that. Raises OlmwebError: 403 for users who may not act, 409 when the object has
    another open action or its cluster is removed.
    """
    as_user = impersonation_for(user)
    require_configured(plan.cluster)
    is_open = _open_action(plan) is not None
    try:
        with client_for(plan.cluster, timeout=DRY_RUN_TIMEOUT) as client:
            if plan.verb == Action.Verb.CLEAN_UP:
                return _try_clean_up(client, plan, as_user)
            step = plan.main
            there = read_object(client, plan.cluster, step.kind, step.namespace, step.name)
            refused = refusal_of(
                plan.verb, step, there, uid=plan.uid, only=plan.version, remakes=plan.remakes
            )
            # The same action, under way, may have deleted the object to make it again.
            if refused and plan.verb != Action.Verb.INSTALL and not (is_open and plan.remakes):
                return refused
            if plan.verb == Action.Verb.CONFIGURE and isinstance(step, Apply):
                return _try_config(client, plan, step, as_user)
            return _try_steps(client, plan, as_user, there, refused)
    except KubeError as error:
        return explain_step(error, plan.cluster.name, as_user, plan.main, plan.verb)


def _try_steps(
    client: KubeClient,
    plan: Plan,
    as_user: Impersonation | None,
    there: Manifest | None,
    refused: DryRun | None,
) -> DryRun:
    """The result for all objects; `there` is the main object, `refused` the refusal of an install
    to write it, unless the cluster has one."""
    outcomes: list[tuple[str, str]] = []
    new_namespaces: set[str] = set()
    is_waiting = plan.verb == Action.Verb.INSTALL and is_being_deleted(there)
    waiting = plan.main if is_waiting else None
    for step in plan.steps:
        if isinstance(step, DeleteAll | EndConversion):
            continue  # of a clean-up
        try:
            if isinstance(step, Apply) and step is waiting:
                outcome = _try_later(client, step, as_user)
            else:
                outcome = _try(client, plan, step, as_user, new_namespaces)
        except KubeError as error:
            return explain_step(error, plan.cluster.name, as_user, step, plan.verb)
        if refused and plan.verb == Action.Verb.INSTALL and step.main:
            return refused
        outcomes.append((step.label, outcome))
    message = f"Cluster {plan.cluster.name} would accept this."
    result = DryRun(True, message, objects=tuple(outcomes))
    untried = [label for label, outcome in outcomes if outcome == NEEDS_NAMESPACE]
    if untried:
        tried = [label for label, outcome in outcomes if outcome != NEEDS_NAMESPACE]
        message = (
            f"Cluster {plan.cluster.name} would accept {listing(tried)}; you have the permission "
            f"to create {listing(untried)}, which can be validated only after namespace "
            f"{', '.join(sorted(new_namespaces))} is created."
        )
        return replace(result, message=message)
    return result


def _try_clean_up(client: KubeClient, plan: Plan, as_user: Impersonation | None) -> DryRun:
    adopted = adopted_again(plan.cluster, plan.steps) or set()
    outcomes: list[tuple[str, str]] = []
    for step in plan.steps:
        if isinstance(step, Apply):
            continue
        try:
            if step.label in adopted and clean_up_steps.exists(client, plan.cluster, step, as_user):
                return adopted_refusal(step.label)
            outcome = clean_up_steps.dry_run(client, plan.cluster, step, plan.steps, as_user)
        except KubeError as error:
            refusal = explain_step(error, plan.cluster.name, as_user, step, plan.verb)
            return replace(refusal, message=f"{step.label}: {refusal.message}")
        outcomes.append((step.label, outcome))
    message = f"Cluster {plan.cluster.name} would accept this."
    return DryRun(True, message, objects=tuple(outcomes))


def _try_config(
    client: KubeClient, plan: Plan, step: Apply, as_user: Impersonation | None
) -> DryRun:
    """The result for another `spec.config` of an object, with what changes."""
    applied = apply_step(client, step, as_user, dry_run=True, force=plan.force)
    if refused := config_refusal(applied, step):
        if not plan.force:
            return refused
        remove_others(client, step, applied, as_user, dry_run=True)
        applied = step.manifest
    try:
        there = client.get(
            WRITTEN[step.kind], step.version, step.name, step.namespace, as_user=as_user
        )
        changes = config_changes(there, applied)
        done = "" if changes else " Nothing would change."
    except Forbidden:  # may patch it and not read it
        changes, done = (), ""
    message = f"Cluster {plan.cluster.name} would accept this.{done}"
    return DryRun(True, message, objects=((step.label, "accepted"),), changes=changes)


def _try(
    client: KubeClient,
    plan: Plan,
    step: Apply | Delete,
    as_user: Impersonation | None,
    new_namespaces: set[str],
) -> str:
    """The result for one object, in words. Adds the namespaces of the plan to `new_namespaces`."""
    if isinstance(step, Delete):
        try:
            delete_step(client, plan.cluster, step, as_user, dry_run=True)
        except NotFound:
            return "does not exist any more"
        except Conflict:
            if step.main:
                raise
            return "was replaced by another object of the same name, which stays"
        return "deleted"
    if step.namespace in new_namespaces:
        may_write(client, step, as_user)
        return NEEDS_NAMESPACE
    if plan.verb == Action.Verb.INSTALL and not step.main and is_there(client, step, as_user):
        return "exists already and is not changed"
    apply_step(client, step, as_user, dry_run=True, force=plan.force and step.main)
    if step.kind == NAMESPACES.kind:
        new_namespaces.add(step.name)
    return "accepted"


def _try_later(client: KubeClient, step: Apply, as_user: Impersonation | None) -> str:
    """The result for an object that is applied when the one of its name is deleted."""
    with suppress(Conflict):
        apply_step(client, step, as_user, dry_run=True)
    return "is being deleted, and is created when it is gone"


def reviewed(plans: Sequence[Plan], user: AnyUser, purpose: str) -> str:
    """A token that this user was shown exactly these plans; valid for REVIEW_SECONDS.

    `purpose` names the decision that it is for, such as one form or one install request: a token
    of another purpose is refused.
    """
    digests = [_digest(plan, user) for plan in plans]
    return signing.dumps(digests, salt=_salt(purpose), compress=True)


def require_reviewed(token: str, plans: Sequence[Plan], user: AnyUser, purpose: str) -> None:
    """Raises OlmwebError (403) unless the token says that this user was shown all these plans for
    this purpose."""
    try:
        digests = signing.loads(token, salt=_salt(purpose), max_age=REVIEW_SECONDS)
    except signing.BadSignature:
        digests = []
    if not {_digest(plan, user) for plan in plans} <= set(digests):
        raise OlmwebError(
            "Form changed, nothing applied. Review again.",
            code="not-reviewed",
            status=403,
            hint="Review the form again, then confirm.",
        )


def _salt(purpose: str) -> str:
    return f"installs.actions.review:{purpose}"


def _digest(plan: Plan, user: AnyUser) -> str:
    """A hash of everything that would be sent, of the bundle that it ends with, and of the user."""
    content = [
        user.pk,
        plan.cluster.pk,
        plan.verb,
        plan.kind,
        plan.namespace,
        plan.name,
        plan.uid,
        plan.force,
        plan.version,
        plan.target,
        to_json(_untimed(plan.steps)),
    ]
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


def _untimed(steps: Sequence[Step]) -> list[Step]:
    """The steps without the time of a retry, which differs between two plans of the same retry."""
    return [
        replace(step, manifest=_without_time(step.manifest)) if isinstance(step, Apply) else step
        for step in steps
    ]


def _without_time(manifest: Manifest) -> Manifest:
    metadata = manifest["metadata"]
    if RETRIED not in metadata.get("annotations", {}):
        return manifest
    return {**manifest, "metadata": {k: v for k, v in metadata.items() if k != "annotations"}}


def request(
    plan: Plan,
    user: AnyUser,
    *,
    dry_run_result: DryRun | None = None,
    idempotency_key: str = "",
    request_hash: str = "",
    token: ApiToken | None = None,
    rule: AllowRule | None = None,
    batch: ActionBatch | None = None,
) -> Action:
    """Records the plan and enqueues the action; an action of a `batch` is enqueued by its caller.

    Returns an equal open action if there is one, and the user's action with the same
    `idempotency_key` and `request_hash` (empty: that of the plan) even if it has ended. `token` and
    `rule` are what the user acts by, if not by a session; the action ends with them. Raises
    OlmwebError: 409 when the object has another open action or its cluster is removed, 422 when the
    key was used for another request, 403 for users who may not act.
    """
    acting, identity = person(user), impersonation_for(user)
    hashed = (request_hash or _digest(plan, acting)) if idempotency_key else ""
    route = route_of_approval(plan) if plan.verb == Action.Verb.APPROVE else plan.route
    values = {
        "cluster": plan.cluster,
        "verb": plan.verb,
        "path": plan.kind,
        "namespace": plan.namespace,
        "name": plan.name,
        "package": plan.package,
        "catalog": plan.catalog,
        "chosen_catalog": plan.chosen_catalog,
        "channel": plan.channel,
        "version": plan.version[:300],
        "target": plan.target,
        "route": list(route) or None,
        "stored_steps": to_json(plan.steps),
        "force": plan.force,
        "object_uid": "" if plan.verb == Action.Verb.INSTALL else plan.uid,
        "dry_run": dry_run_result.as_json() if dry_run_result else {},
        "user": acting,
        "as_user": identity.user if identity else "",
        "as_groups": list(identity.groups) if identity else [],
        "by_token": token.pk if token else None,
        "by_rule": rule.pk if rule else None,
        "batch": batch,
        "idempotency_key": idempotency_key,
        "request_hash": hashed,
        "of_blocker": batch is None and _changes_blocker(plan),
    }
    for _ in range(2):  # the open action may be finished before it is read
        if action := earlier_action(acting, idempotency_key, hashed):
            return action
        require_configured(plan.cluster)
        if action := _create(values):
            return action
        if action := _open_action(plan):
            _keep_key(values, action)
            return action
    raise _busy(plan, "action")


def _changes_blocker(plan: Plan) -> bool:
    """Whether an operator that the plan changes blocks the next minor version of its OpenShift."""
    openshift = plan.cluster.kinds.get(CLUSTER_VERSIONS.kind, {}).get("state") == "served"
    if not openshift or plan.verb not in UNBLOCKING:
        return False
    changed = Action(
        cluster=plan.cluster, verb=plan.verb, path=plan.kind, namespace=plan.namespace,
        name=plan.name, target=plan.target,
    )  # fmt: skip
    return readiness([plan.cluster])[0].is_blocked_by(operators_of(changed))


def record_refusal(
    plan: Plan, user: AnyUser, refusal: DryRun, token: ApiToken | None = None
) -> Action:
    """Records an approval that its dry run refused as a refused action, once for each user,
    InstallPlan and reason. Nothing is sent. Raises OlmwebError (403) for users who may not act."""
    identity = impersonation_for(user)
    with transaction.atomic():
        action, created = Action.objects.get_or_create(
            cluster=plan.cluster,
            verb=plan.verb,
            path=plan.kind,
            namespace=plan.namespace,
            name=plan.name,
            object_uid=plan.uid,
            version=plan.version[:300],
            user=person(user),
            state=Action.State.REFUSED,
            outcome=refusal.message,
            sent_at=None,
            defaults={
                "package": plan.package,
                "target": plan.target,
                "stored_steps": to_json(plan.steps),
                "force": plan.force,
                "dry_run": refusal.as_json(),
                "as_user": identity.user if identity else "",
                "as_groups": list(identity.groups) if identity else [],
                "by_token": token.pk if token else None,
                "outcome_code": refusal.code,
                "outcome_hint": refusal.hint,
                "finished_at": timezone.now(),
            },
        )
        if created:
            record_action(
                EventType.ACTION_FINISHED,
                action,
                outcome=refusal.message,
                outcome_code=refusal.code,
            )
    return action


def earlier_action(user: AnyUser, key: str, request_hash: str) -> Action | None:
    """The user's action with this Idempotency-Key, marked as replayed; None for an empty key.

    Raises OlmwebError (422) if the key was used for a request with another hash.
    """
    if not key:
        return None
    action = Action.objects.filter(user=user.pk, idempotency_key=key).first()
    if action:
        used_for = action.request_hash
    else:
        answered = ActionKey.objects.select_related("action").filter(user=user.pk, key=key).first()
        if answered is None:
            return None
        action, used_for = answered.action, answered.request_hash
    if used_for != request_hash:
        raise key_reused("action")
    action.replayed = True
    return action


def key_reused(thing: str) -> OlmwebError:
    return OlmwebError(
        f"This Idempotency-Key was used for another {thing}.",
        code="key-reused",
        status=422,
        hint="Use a new key for each request.",
    )


def _create(values: dict[str, Any]) -> Action | None:
    """The recorded action; None if its object has an open one or its key was used just now."""
    try:
        with transaction.atomic():
            action = Action.objects.create(**values)
            record_action(EventType.ACTION_REQUESTED, action)
            if action.batch is None:
                enqueue("installs.run_action", action.pk)
    except IntegrityError:
        return None
    return action


def _open_action(plan: Plan) -> Action | None:
    """The open action of the object. Raises OlmwebError if it differs from the plan."""
    action = Action.objects.filter(
        cluster=plan.cluster,
        path=plan.kind,
        namespace=plan.namespace,
        name=plan.name,
        state__in=Action.OPEN,
    ).first()
    if action is None:
        return None
    same_steps = _untimed(plan.steps) == _untimed(action.steps)
    is_same = (action.verb, action.version) == (plan.verb, plan.version[:300])
    if is_same and same_steps:
        return action
    raise _busy(plan, str(action.verb))


def _keep_key(values: dict[str, Any], action: Action) -> None:
    """Stores the request's key, so that it gives this action when it is repeated later."""
    user, key = values["user"], values["idempotency_key"]
    if key and (action.user_id, action.idempotency_key) != (user.pk, key):
        ActionKey.objects.get_or_create(
            user=user, key=key, defaults={"action": action, "request_hash": values["request_hash"]}
        )


def _busy(plan: Plan, doing: str) -> OlmwebError:
    return OlmwebError(
        f"Another {doing} of {plan.kind} {plan.name} on cluster {plan.cluster.name} is not "
        "finished.",
        code="busy",
        status=409,
        retryable=True,
        hint="Wait until it has finished, then try again.",
    )
