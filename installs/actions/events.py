"""The events of actions and install requests, recorded in the transaction that changes the row."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from django.db import transaction
from django.utils import timezone

from installs.models import Action, InstallRequest
from olmweb.eventlog.record import event, record
from olmweb.eventlog.types import ActionData, EventType, RequestData
from olmweb.models import ChangeEvent
from olmweb.runtime import counters


def record_action(
    type_: EventType, action: Action, *, outcome: str = "", outcome_code: str = ""
) -> None:
    """`action` has its new state. Reads its user if the row came without."""
    record_actions(type_, [action], outcome=outcome, outcome_code=outcome_code)


def record_actions(
    type_: EventType, actions: Sequence[Action], *, outcome: str = "", outcome_code: str = ""
) -> None:
    """Actions with the same outcome. Those that ended are counted for /metrics."""
    now = timezone.now()
    events = [
        event(
            type_,
            now,
            ActionData(
                action=action.pk,
                bulk=action.batch_id,
                verb=str(action.verb),
                state=str(action.state).replace("_", "-"),
                user=action.user.get_username() if action.user else "",
                package=action.package,
                version=action.version,
                outcome=outcome,
                outcome_code=outcome_code,
            ),
            cluster_id=action.cluster_id,
            kind=action.path,
            namespace=action.namespace,
            name=action.name,
        )
        for action in actions
    ]
    record(events)
    if type_ == EventType.ACTION_FINISHED and events:
        ended = [
            (str(action.verb), action.path, event.data["state"], now - action.created_at)
            for action, event in zip(actions, events, strict=True)
        ]
        transaction.on_commit(partial(_count_ended, ended), robust=True)


def _count_ended(ended: Sequence[tuple[str, str, str, timedelta]]) -> None:
    """(verb, install method, state, time from its record) of each action."""
    counters.add(counters.ACTIONS, Counter((verb, path, state) for verb, path, state, _ in ended))
    for verb, path, _, time in ended:
        series = (verb, path)
        counters.observe(
            counters.ACTION_SECONDS, series, time.total_seconds(), counters.ACTION_BOUNDS
        )


def record_request(type_: EventType, request: InstallRequest) -> None:
    """`request` has its new state, and its people."""
    record([_of_request(type_, request)])


def _of_request(type_: EventType, request: InstallRequest) -> ChangeEvent:
    return event(
        type_,
        request.decided_at or request.created_at,
        RequestData(
            request=request.pk,
            state=str(request.state),
            package=request.package,
            version=request.version,
            user=request.user.get_username() if request.user else "",
            decided_by=request.decided_by.get_username() if request.decided_by else "",
            comment=request.word,
            action=request.action_id,
        ),
        cluster_id=request.cluster_id,
        kind=request.path,
        namespace=request.namespace,
        name=request.name,
    )
