"""Bulk installs: their rows, and which of their actions a worker may begin.

The first AT_ONCE open actions of a batch, by id, may run. A worker begins an action by one
conditional update and Stop ends it by another, so that exactly one of them gets it.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta

import structlog
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from installs.actions import record as actions
from installs.actions.apply import finish
from installs.actions.bulk.review import SHARED, Item
from installs.actions.bulk.selection import Key
from installs.actions.plan import Plan
from installs.models import Action, ActionBatch
from olmweb.accounts.roles import AnyUser, person
from olmweb.errors import Missing, OlmwebError
from olmweb.models import Cluster
from olmweb.tasks import enqueue

log = structlog.get_logger(__name__)
LeftOut = list[dict[str, str]]


def hash_of(cluster: Cluster, path: str, keys: Sequence[Key], values: Mapping[str, str]) -> str:
    """Tells one selection, with what was asked once for all, from another."""
    shared = [values.get(name, "").strip() for name in SHARED]
    content = [cluster.pk, path, sorted(str(key) for key in keys), shared]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def earlier(user: AnyUser, key: str, request_hash: str) -> ActionBatch | None:
    """The batch that this person made with the key. Raises OlmwebError (409) for another one."""
    batch = ActionBatch.objects.filter(user=user.pk, idempotency_key=key).first()
    if batch is None or batch.asked_hash == request_hash:
        return batch
    raise OlmwebError(
        "This Idempotency-Key was used for another bulk install.",
        code="key-reused",
        status=409,
        hint="Take a new key for each thing you ask for.",
    )


def record(
    items: Sequence[Item],
    cluster: Cluster,
    path: str,
    user: AnyUser,
    *,
    key: str,
    request_hash: str,
) -> ActionBatch:
    """The batch of what the cluster would take; why the rest was left out is kept with it.

    Asked twice with the same key, the second call returns the first one's batch. Raises
    OlmwebError: 403 for who may not act, 409 when nothing is left or the key was used for another
    selection.
    """
    acting = person(user)
    if batch_before := earlier(acting, key, request_hash):
        return batch_before
    try:
        with transaction.atomic():
            batch = ActionBatch.objects.create(
                cluster=cluster,
                path=path,
                user=acting,
                idempotency_key=key,
                asked_hash=request_hash,
            )
            _fill(batch, items, acting)
    except IntegrityError:
        # Another process was first with this very key.
        if batch_before := earlier(acting, key, request_hash):
            return batch_before
        raise
    log.info("batch recorded", batch=batch.pk, path=path, left_out=len(batch.left_out))
    return batch


def _fill(batch: ActionBatch, items: Sequence[Item], acting: User) -> None:
    made: list[int] = []
    left: LeftOut = []
    for number, item in enumerate(items):
        reason = item.problem
        if not reason and item.plan is not None:
            action, reason = _ask(batch, number, item.plan, item.dry_run_result, acting)
            made += [action.pk] if action else []
        if reason:
            left.append({"package": item.candidate.name, "reason": reason})
    if not made:
        raise OlmwebError(
            "Nothing of this can be installed now: " + _first_reasons(left),
            code="nothing-left",
            status=409,
            hint="Review it again.",
        )
    Action.objects.filter(pk__in=made).update(batch=batch)
    # Those after them are sent for when these end; a message for each would only stand in the way.
    for first in made[:AT_ONCE]:
        enqueue("installs.run_action", first)
    batch.left_out = left
    batch.save(update_fields=["left_out"])


def _ask(
    batch: ActionBatch, number: int, plan: Plan, dry_run_result: actions.DryRun | None, acting: User
) -> tuple[Action | None, str]:
    """The package's own action, or why there is none."""
    key = f"batch-{batch.pk}-{number}"
    try:
        action = actions.request(
            plan, acting, dry_run_result=dry_run_result, idempotency_key=key, waits=True
        )
    except OlmwebError as error:
        return None, error.message
    if action.idempotency_key != key:
        return None, f"Action {action.pk} does this already."
    return action, ""


def _first_reasons(left: LeftOut) -> str:
    reasons = "; ".join(f"{entry['package']}: {entry['reason']}" for entry in left[:3])
    return reasons + (f"; and {len(left) - 3} more." if len(left) > 3 else "")


def find(pk: int) -> ActionBatch:
    """The batch with its cluster and user. Raises Missing."""
    rows = ActionBatch.objects.select_related("cluster", "user")
    batch = rows.filter(pk=pk).first() if pk < 2**63 else None
    if batch is None:
        raise Missing(
            f"There is no bulk install {pk}.",
            code="unknown-batch",
            hint="Old ones are deleted after the retention time; Activity lists the rest.",
        )
    return batch


def stop(batch: ActionBatch, user: AnyUser) -> int:
    """Stops what no worker has begun; returns how many. Whoever may act may stop it.

    Raises OlmwebError (403) for everybody else. Stopping again stops nothing more.
    """
    username = person(user).get_username()[:150]
    count = _stop_waiting(batch.pk, username)
    if count:
        batch.stopped_at, batch.stopped_by = timezone.now(), username
        batch.save(update_fields=["stopped_at", "stopped_by"])
        log.info("batch stopped", batch=batch.pk, actions=count)
    return count


AT_ONCE = 3
# Fifty installs that each take the most time that one is followed for fit into this.
WAIT = timedelta(hours=6)


def waiting_in_batches() -> set[int]:
    """Ids of the open actions of batches that have to wait for others."""
    rows = Action.objects.filter(batch__isnull=False, state__in=Action.OPEN).order_by("id")
    by_batch: dict[int | None, list[int]] = defaultdict(list)
    for batch, action in rows.values_list("batch_id", "id"):
        by_batch[batch].append(action)
    return {action for ids in by_batch.values() for action in ids[AT_ONCE:]}


def begin(action: Action) -> bool:
    """Takes a pending action up; False when it has to wait or was stopped.

    From now on it can't be stopped: something of it may have been sent. What waited longer than
    WAIT is refused: nobody expects it any more. An action without a batch always begins.
    """
    if action.batch_id is None or action.begun_at is not None:
        return True
    same_batch = Action.objects.filter(batch=action.batch_id, state__in=Action.OPEN)
    if same_batch.filter(pk__lt=action.pk).count() >= AT_ONCE:
        return False
    if timezone.now() - action.created_at > WAIT:
        hours = WAIT.seconds // 3600
        text = f"Its turn did not come within {hours} hours, so it is not sent any more."
        finish(action, Action.State.REFUSED, text, code="not-sent", hint="Ask for it again.")
        return False
    now = timezone.now()
    waiting = Action.objects.filter(pk=action.pk, state=Action.State.PENDING, begun_at=None)
    if not waiting.update(begun_at=now):
        return False
    action.begun_at = now
    return True


def next_after(action_id: int) -> list[int]:
    """Once this action has ended: ids in its batch whose turn has come and that nobody began."""
    ended = Action.objects.filter(pk=action_id, batch__isnull=False).exclude(state__in=Action.OPEN)
    batch = ended.values_list("batch_id", flat=True).first()
    if batch is None:
        return []
    rows = Action.objects.filter(batch=batch, state__in=Action.OPEN).order_by("id")
    first = rows.values_list("id", "begun_at")[:AT_ONCE]
    return [action for action, begun in first if begun is None]


def _stop_waiting(batch_id: int, username: str) -> int:
    """Ends what no worker has begun; returns how many. What has begun goes on."""
    return Action.objects.filter(batch=batch_id, state=Action.State.PENDING, begun_at=None).update(
        state=Action.State.STOPPED,
        finished_at=timezone.now(),
        outcome=f"Stopped by {username} before anything of it was sent.",
        outcome_code="stopped",
    )
