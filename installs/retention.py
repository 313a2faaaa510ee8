"""Which rows are deleted, and when. The periods are set in olmweb/settings.py.

History, the log of events and reports stay for OLMWEB_RETENTION_DAYS, Kubernetes Events for
OLMWEB_EVENT_RETENTION_DAYS, answers of access reviews as long as buttons show them, the YAML of
objects and checks of CRDs as long as their pages show them, inspections of
images that no catalog names and expired leases for a day, sessions until they expire, expired API
tokens and the admin pages' log for OLMWEB_RETENTION_DAYS, the audit log for
OLMWEB_AUDIT_RETENTION_DAYS (0: for ever). Unfinished work stays, however old.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.db.models import QuerySet

from catalogs.contents import stored
from catalogs.revisions.record import prune as prune_revisions
from installs.actions import buttons, crd_check
from installs.models import (
    AccessAnswer,
    Action,
    ActionBatch,
    CopyReport,
    CrdCheck,
    Event,
    InstallRequest,
    ObjectYaml,
    Transition,
    UnknownMessage,
    WebhookDelivery,
)
from installs.notifications import receivers
from installs.notifications.select import ongoing
from installs.reports import object_yaml
from olmweb.eventlog import record as eventlog
from olmweb.models import ApiToken, AuditEvent, Lease, SyncRun

BATCH = 1000
INSPECTIONS = timedelta(days=1)  # a catalog may be missing for a while
LEASES = timedelta(days=1)  # their names are made again when they are needed


def prune(now: datetime) -> dict[str, int]:
    """Deletes rows past their retention period; returns their number by table.

    Notifications are deleted with their transitions. Transitions of ongoing trouble stay, because
    the end of the alert refers to them.
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
        "deliveries": WebhookDelivery.objects.filter(created_at__lt=limit).exclude(
            state__in=receivers.OPEN
        ),
        "reports": CopyReport.objects.filter(created_at__lt=limit),
        "messages": UnknownMessage.objects.filter(last_at__lt=limit),
        "sessions": Session.objects.filter(expire_date__lt=now),
        "leases": Lease.objects.filter(expires_at__lt=now - LEASES),
        "tokens": ApiToken.objects.filter(expires_at__lt=limit),
        "admin_log": LogEntry.objects.filter(action_time__lt=limit),
        "crd_checks": CrdCheck.objects.filter(requested_at__lt=now - crd_check.SHOWN),
        "yaml": ObjectYaml.objects.filter(requested_at__lt=now - object_yaml.SHOWN),
        "rights": AccessAnswer.objects.filter(checked_at__lt=now - buttons.MAX_AGE),
    }
    if settings.AUDIT_RETENTION_DAYS:
        limit_of_audit = now - timedelta(days=settings.AUDIT_RETENTION_DAYS)
        # The base manager: the default one refuses to delete.
        old["audit"] = AuditEvent._base_manager.filter(at__lt=limit_of_audit)
    deleted = {name: sum(_delete(rows)) for name, rows in old.items()}
    deleted["inspections"] = stored.prune(now - INSPECTIONS)
    deleted["event_log"] = eventlog.prune(limit)
    return deleted | prune_revisions(limit)


def _delete(rows: QuerySet[Any]) -> Iterator[int]:
    """In small transactions, so that other writers wait for one batch only."""
    manager = rows.model._base_manager
    while ids := list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH]):
        manager.filter(pk__in=ids).delete()
        yield len(ids)
