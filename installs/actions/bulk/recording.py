"""Writing a batch: all of its actions in one transaction, before anything is sent; stopping it."""

import hashlib
import json
from collections.abc import Mapping, Sequence

import structlog
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from installs.actions import record as actions
from installs.actions.bulk import pacing
from installs.actions.bulk.reviewing import SHARED, Item
from installs.actions.bulk.selection import Key
from installs.actions.plan import Plan
from installs.models import Action, ActionBatch
from olmweb.accounts.roles import AnyUser, person
from olmweb.errors import Missing, OlmwebError
from olmweb.models import Cluster
from olmweb.tasks import enqueue

log = structlog.get_logger(__name__)
LeftOut = list[dict[str, str]]


def hash_of(cluster: Cluster, path: str, keys: Sequence[Key], asked: Mapping[str, str]) -> str:
    """Tells one selection, with what was asked once for all, from another."""
    shared = [asked.get(name, "").strip() for name in SHARED]
    told = [cluster.pk, path, sorted(str(key) for key in keys), shared]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def earlier(user: AnyUser, key: str, asked_hash: str) -> ActionBatch | None:
    """The batch that this person made with the key. Raises OlmwebError (409) for another one."""
    known = ActionBatch.objects.filter(user=user.pk, idempotency_key=key).first()
    if known is None or known.asked_hash == asked_hash:
        return known
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
    asked_hash: str,
) -> ActionBatch:
    """The batch of what the cluster would take; why the rest was left out is kept with it.

    Asked twice with the same key, the second call returns the first one's batch. Raises
    OlmwebError: 403 for who may not act, 409 when nothing is left or the key was used for another
    selection.
    """
    acting = person(user)
    if known := earlier(acting, key, asked_hash):
        return known
    try:
        with transaction.atomic():
            batch = ActionBatch.objects.create(
                cluster=cluster,
                path=path,
                user=acting,
                idempotency_key=key,
                asked_hash=asked_hash,
            )
            _fill(batch, items, acting)
    except IntegrityError:
        # Another process was first with this very key.
        if known := earlier(acting, key, asked_hash):
            return known
        raise
    log.info("batch recorded", batch=batch.pk, path=path, left_out=len(batch.left_out))
    return batch


def _fill(batch: ActionBatch, items: Sequence[Item], acting: User) -> None:
    made: list[int] = []
    left: LeftOut = []
    for number, one in enumerate(items):
        reason = one.problem
        if not reason and one.plan is not None:
            action, reason = _ask(batch, number, one.plan, one.tried, acting)
            made += [action.pk] if action else []
        if reason:
            left.append({"package": one.candidate.name, "reason": reason})
    if not made:
        raise OlmwebError(
            "Nothing of this can be installed now: " + _first_reasons(left),
            code="nothing-left",
            status=409,
            hint="Review it again.",
        )
    Action.objects.filter(pk__in=made).update(batch=batch)
    # Those after them are sent for when these end; a message for each would only stand in the way.
    for first in made[: pacing.AT_ONCE]:
        enqueue("installs.run_action", first)
    batch.left_out = left
    batch.save(update_fields=["left_out"])


def _ask(
    batch: ActionBatch, number: int, plan: Plan, tried: actions.DryRun | None, acting: User
) -> tuple[Action | None, str]:
    """The package's own action, or why there is none."""
    key = f"batch-{batch.pk}-{number}"
    try:
        action = actions.request(plan, acting, tried=tried, idempotency_key=key, waits=True)
    except OlmwebError as error:
        return None, error.message
    if action.idempotency_key != key:
        return None, f"Action {action.pk} does this already."
    return action, ""


def _first_reasons(left: LeftOut) -> str:
    told = "; ".join(f"{one['package']}: {one['reason']}" for one in left[:3])
    return told + (f"; and {len(left) - 3} more." if len(left) > 3 else "")


def find(pk: int) -> ActionBatch:
    """The batch with its cluster and user. Raises Missing."""
    rows = ActionBatch.objects.select_related("cluster", "user")
    found = rows.filter(pk=pk).first() if pk < 2**63 else None
    if found is None:
        raise Missing(
            f"There is no bulk install {pk}.",
            code="unknown-batch",
            hint="Old ones are deleted after the retention time; Activity lists the rest.",
        )
    return found


def stop(batch: ActionBatch, user: AnyUser) -> int:
    """Stops what no worker has begun; returns how many. Whoever may act may stop it.

    Raises OlmwebError (403) for everybody else. Stopping again stops nothing more.
    """
    who = person(user).get_username()[:150]
    count = pacing.stop(batch.pk, who)
    if count:
        batch.stopped_at, batch.stopped_by = timezone.now(), who
        batch.save(update_fields=["stopped_at", "stopped_by"])
        log.info("batch stopped", batch=batch.pk, actions=count)
    return count
