"""Whose turn it is in a bulk install: few of a batch are under way, the others wait or are stopped.

The first AT_ONCE open actions of a batch, by id, have their turn. A worker takes an action up by
one conditional update and Stop takes it away by another, so that exactly one of them gets it.
"""

from collections import defaultdict
from datetime import timedelta

from django.utils import timezone

from installs.actions.apply import finish
from installs.models import Action

AT_ONCE = 3
# Fifty installs that each take the most time that one is followed for fit into this.
WAIT = timedelta(hours=6)


def without_turn() -> set[int]:
    """Ids of the open actions of batches that have to wait for others."""
    rows = Action.objects.filter(batch__isnull=False, state__in=Action.OPEN).order_by("id")
    by_batch: dict[int | None, list[int]] = defaultdict(list)
    for batch, action in rows.values_list("batch_id", "id"):
        by_batch[batch].append(action)
    return {one for ids in by_batch.values() for one in ids[AT_ONCE:]}


def begin(action: Action) -> bool:
    """Takes a pending action up; False when it has to wait or was stopped.

    From now on it can't be stopped: something of it may have been sent. What waited longer than
    WAIT is refused: nobody expects it any more. An action without a batch always begins.
    """
    if action.batch_id is None or action.begun_at is not None:
        return True
    mates = Action.objects.filter(batch=action.batch_id, state__in=Action.OPEN)
    if mates.filter(pk__lt=action.pk).count() >= AT_ONCE:
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
    return [one for one, begun in first if begun is None]


def stop(batch_id: int, who: str) -> int:
    """Ends what no worker has begun; returns how many. What has begun goes on."""
    return Action.objects.filter(batch=batch_id, state=Action.State.PENDING, begun_at=None).update(
        state=Action.State.STOPPED,
        finished_at=timezone.now(),
        outcome=f"Stopped by {who} before anything of it was sent.",
        outcome_code="stopped",
    )
