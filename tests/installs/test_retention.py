"""What is forgotten when, and what stays however old it is."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from installs import retention, tasks
from installs.models import ActionBatch, CopyReport, Event, Notification, Transition, UnknownMessage
from olmweb.models import Cluster
from tests.factories import make_cluster, make_event, make_operator
from tests.installs.notifications.test_notify import walk
from tests.worlds.operators import make_action


@pytest.fixture
def cluster(settings: Any, db: None) -> Cluster:
    settings.RETENTION_DAYS, settings.EVENT_RETENTION_DAYS = 10, 2
    settings.WEBHOOK_URL = "https://hooks.example/"
    return make_cluster()


def days_ago(days: float) -> datetime:
    return timezone.now() - timedelta(days=days)


def test_events_go_sooner_than_history(cluster: Cluster) -> None:
    operator = make_operator(cluster=cluster)
    for days in (1, 3):
        make_event(
            subject=operator, first_at=days_ago(30), last_at=days_ago(days), reason=str(days)
        )
    tasks.prune()
    assert [event.reason for event in Event.objects.all()] == ["1"]


def test_reports_and_messages_that_nobody_needs_any_more_go(cluster: Cluster) -> None:
    for days in (9, 11):
        CopyReport.objects.create(cluster=cluster, created_at=days_ago(days))
        UnknownMessage.objects.create(
            fingerprint=str(days), kind="k", sample="x", first_at=days_ago(99),
            last_at=days_ago(days),
        )  # fmt: skip
    tasks.prune()
    assert CopyReport.objects.count() == 1
    assert [row.fingerprint for row in UnknownMessage.objects.all()] == ["9"]


def test_a_batch_goes_when_it_is_old_and_nothing_of_it_is_open(cluster: Cluster) -> None:
    for name, state in (("done", "succeeded"), ("open", "pending")):
        batch = ActionBatch.objects.create(
            cluster=cluster, idempotency_key=name, created_at=days_ago(11)
        )
        finished = days_ago(11) if state == "succeeded" else None
        make_action(cluster, name, state=state, finished_at=finished, batch=batch)
    ActionBatch.objects.create(cluster=cluster, idempotency_key="new")
    tasks.prune()
    kept = ActionBatch.objects.order_by("pk").values_list("idempotency_key", flat=True)
    assert list(kept) == ["open", "new"]


def test_notifications_go_with_their_transitions(cluster: Cluster) -> None:
    walk(make_operator(cluster=cluster), "Healthy", "Failed", "Healthy")
    Transition.objects.update(at=days_ago(11))
    tasks.prune()
    assert not Notification.objects.exists()
    assert not Transition.objects.exists()


def test_trouble_that_goes_on_keeps_what_its_alert_is_ended_with(cluster: Cluster) -> None:
    operator = make_operator(cluster=cluster)
    walk(operator, "Healthy", "Blocked", "Failed")
    Transition.objects.update(at=days_ago(11))
    tasks.prune()
    (kept,) = Notification.objects.all()
    assert kept.body["to"] == "Failed"
    assert walk(operator, "Installing", "Healthy") == [("Failed", "Healthy")]
    assert Notification.objects.latest("id").body["ends"] == kept.body["starts"]


def test_much_goes_in_small_parts(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 10)
    operator = make_operator(cluster=cluster)
    for _ in range(25):
        make_event(subject=operator, last_at=days_ago(5))
    assert retention.prune(timezone.now()) == {
        "transitions": 0,
        "requests": 0,
        "events": 25,
        "runs": 0,
        "actions": 0,
        "batches": 0,
        "reports": 0,
        "rights": 0,
        "inspections": 0,
        "messages": 0,
        "revisions": 0,
        "outlines": 0,
    }
