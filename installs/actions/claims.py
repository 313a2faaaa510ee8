"""Claims of actions: one worker at a time makes an attempt to carry an action out.

A claim is the number of the attempt in the action's row and a time until which no other worker may
begin the next attempt. The worker renews it before each request to the cluster. What it writes to
the row names its attempt, so a worker that was paused for longer than its claim changes nothing.
"""

from datetime import timedelta

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.expressions import Combinable
from django.db.models.functions import Now

from installs.models import Action

# Longer than one request takes: the claim is renewed before each of them. A worker that takes over
# repeats a request that is under way, which does no harm: every step is idempotent.
CLAIM_SECONDS = 90
EARLY_SECONDS = 1.0  # an attempt may be claimed this much before its time: clocks differ


class ClaimLost(Exception):
    """Another worker has claimed the action since, or it has ended."""


def claim(action_id: int) -> Action | None:
    """Claims the next attempt of an open action for CLAIM_SECONDS, by a conditional UPDATE.

    None if its time has not come, another worker has claimed it, or it has ended. Times are the
    database's, so that workers whose clocks differ agree.
    """
    rows = Action.objects.filter(
        is_due(Now() + timedelta(seconds=EARLY_SECONDS)), pk=action_id, state__in=Action.OPEN
    )
    # Read while the row is locked, else it may have the number of an even later attempt.
    with transaction.atomic():
        if not rows.update(attempt=F("attempt") + 1, next_attempt_at=_in(CLAIM_SECONDS)):
            return None
        row = Action.objects.select_related("cluster", "user__oidc_identity").filter(pk=action_id)
        return row.first()


def claimed(action: Action) -> QuerySet[Action]:
    """The row of an open action while its claim is that of `action`; else no row."""
    return Action.objects.filter(pk=action.pk, attempt=action.attempt, state__in=Action.OPEN)


def renew(action: Action) -> bool:
    """Extends the claim; False when another worker has claimed the action since."""
    return bool(claimed(action).update(next_attempt_at=_in(CLAIM_SECONDS)))


def release(action: Action, seconds: float | None) -> None:
    """Ends the claim; the next attempt is due in `seconds`, None: at once."""
    claimed(action).update(next_attempt_at=None if seconds is None else _in(seconds))


def is_due(now: Combinable) -> Q:
    """The condition that the next attempt may be claimed at this time."""
    return Q(next_attempt_at=None) | Q(next_attempt_at__lte=now)


def _in(seconds: float) -> Combinable:
    return Now() + timedelta(seconds=seconds)
