"""What is forgotten, and when. History and reports live OLMWEB_RETENTION_DAYS, Kubernetes Events
OLMWEB_EVENT_RETENTION_DAYS; what is still going on stays, however old. Knows no task.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from catalogs.contents import stored
from catalogs.revisions.record import prune as prune_revisions
from installs.actions import buttons
from installs.models import (
    Action,
    ActionBatch,
    CopyReport,
    Event,
    InstallRequest,
    Transition,
    UnknownMessage,
)
from installs.notifications.select import ongoing
from olmweb.models import SyncRun

BATCH = 1000
UNNAMED = timedelta(days=1)  # a catalog may be away for a while


def prune(now: datetime) -> dict[str, int]:
    """Deletes what is too old; returns how many rows of each table.

    Notifications go with their transitions. Unfinished actions and requests that wait stay, and
    the transitions of trouble that goes on: the alert would lose what it is to be ended with.
    """
    limit = now - timedelta(days=settings.RETENTION_DAYS)
    events = now - timedelta(days=settings.EVENT_RETENTION_DAYS)
    old: dict[str, QuerySet[Any]] = {
        "transitions": Transition.objects.filter(at__lt=limit).exclude(notification__in=ongoing()),
        "events": Event.objects.filter(last_at__lt=events),
        "runs": SyncRun.objects.filter(started_at__lt=limit),
        "actions": Action.objects.filter(finished_at__lt=limit).exclude(state__in=Action.OPEN),
        "batches": ActionBatch.objects.filter(created_at__lt=limit).exclude(
            actions__state__in=Action.OPEN
        ),
        "requests": InstallRequest.objects.filter(decided_at__lt=limit),
        "reports": CopyReport.objects.filter(created_at__lt=limit),
        "messages": UnknownMessage.objects.filter(last_at__lt=limit),
    }
    deleted = {name: sum(_delete(rows)) for name, rows in old.items()}
    deleted["rights"] = buttons.delete_old_answers(now)
    deleted["inspections"] = stored.prune(now - UNNAMED)
    return deleted | prune_revisions(limit)


def _delete(rows: QuerySet[Any]) -> Iterator[int]:
    """In small transactions: whoever writes meanwhile waits only for one."""
    manager = rows.model._default_manager
    while ids := list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH]):
        manager.filter(pk__in=ids).delete()
        yield len(ids)
