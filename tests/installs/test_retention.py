"""What is forgotten when, and what stays however old it is."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.utils import timezone

from installs import retention, tasks
from installs.models import ActionBatch, CopyReport, Event, Notification, Transition, UnknownMessage
from olmweb.models import ApiToken, Cluster, Lease
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
        "event_log": 0,
        "deliveries": 0,
        "events": 25,
        "runs": 0,
        "actions": 0,
        "batches": 0,
        "reports": 0,
        "rights": 0,
        "yaml": 0,
        "crd_checks": 0,
        "inspections": 0,
        **dict.fromkeys(("sessions", "leases", "tokens", "admin_log", "audit"), 0),
        "messages": 0,
        "revisions": 0,
        "outlines": 0,
    }


def test_sessions_leases_and_tokens_that_ended_go_and_others_stay(cluster: Cluster) -> None:
    user = User.objects.create_user("ida")
    for name, days in (("past", 0.1), ("ahead", -1)):
        Session.objects.create(session_key=name, session_data="", expire_date=days_ago(days))
    for name, days in (("old", 1.1), ("yesterday", 0.9), ("held", -0.1)):
        Lease.objects.create(name=name, owner=name, expires_at=days_ago(days))
    for days in (11, 9, -1):
        _, token = ApiToken.issue(user.pk, "read")
        ApiToken.objects.filter(pk=token.pk).update(expires_at=days_ago(days))
    ApiToken.objects.create(user=user, digest="endless", expires_at=None)
    tasks.prune()
    assert [row.session_key for row in Session.objects.all()] == ["ahead"]
    assert set(Lease.objects.values_list("name", flat=True)) == {"yesterday", "held"}
    assert ApiToken.objects.count() == 3


def test_many_expired_sessions_go_in_batches(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 10)
    rows = [Session(session_key=str(n), expire_date=days_ago(1)) for n in range(25)]
    Session.objects.bulk_create(rows)
    assert retention.prune(timezone.now())["sessions"] == 25
    assert not Session.objects.exists()
