"""The outbox against a real receiver on this machine: sent once, again, later, or given up."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from installs import tasks
from installs.models import Notification, Operator
from installs.notifications import send as notify_send
from installs.notifications.formats import HealthChange
from installs.notifications.select import record_changes
from installs.notifications.send import SendResult, send_pending
from olmweb.models import Cluster, Lease
from tests.factories import make_cluster, make_operator
from tests.installs.notifications.test_notify import change, delete, walk
from tests.worlds.webhook_receiver import Receiver, Reply

SECRET = "T0123456/B0123456/not-a-real-token"
State = Notification.State


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    with Receiver() as running:
        settings.WEBHOOK_URL = f"http://{running.host}/services/{SECRET}"
        settings.WEBHOOK_FORMAT = "json"
        settings.PUBLIC_URL = "https://olmweb.example"
        yield running


@pytest.fixture
def cluster(receiver: Receiver, db: None) -> Cluster:
    return make_cluster()


@pytest.fixture
def etcd(cluster: Cluster) -> Operator:
    return make_operator(cluster=cluster, name="etcd", namespace="db", kind="Subscription")


def burst(cluster: Cluster, number: int) -> None:
    operators = [make_operator(cluster=cluster, name=f"op{n}") for n in range(number)]
    record_changes([change(operator, "Healthy", "Failed") for operator in operators], operators)


def states() -> list[str]:
    return list(Notification.objects.order_by("id").values_list("state", flat=True))


@contextmanager
def later(seconds: float) -> Iterator[None]:
    """Leases go by the database's clock, which can't be set: they move instead."""
    Lease.objects.update(expires_at=F("expires_at") - timedelta(seconds=seconds))
    with time_machine.travel(timezone.now() + timedelta(seconds=seconds), tick=False):
        yield
    Lease.objects.update(expires_at=F("expires_at") + timedelta(seconds=seconds))


def test_a_change_is_sent_once(receiver: Receiver, etcd: Operator) -> None:
    walk(etcd, "Healthy", "Failed")
    tasks.notify()
    tasks.notify()
    (got,) = receiver.got
    row = Notification.objects.get()
    assert got.path == f"/services/{SECRET}"
    assert got.headers["content-type"] == "application/json"
    assert got.body["changes"][0]["id"] == row.pk
    assert got.body["changes"][0]["url"] == (
        "https://olmweb.example/operators/prod/Subscription/db/etcd"
    )
    assert (row.state, row.attempts, row.error) == (State.SENT, 1, "")
    assert row.sent_at is not None


@pytest.mark.parametrize("form", ["json", "slack", "alertmanager"])
def test_each_format_goes_where_its_receiver_wants_it(
    receiver: Receiver, etcd: Operator, settings: Any, form: str
) -> None:
    settings.WEBHOOK_FORMAT = form
    settings.WEBHOOK_URL = f"http://{receiver.host}/base/"
    walk(etcd, "Healthy", "Failed")
    tasks.notify()
    (got,) = receiver.got
    assert got.path == ("/base/api/v2/alerts" if form == "alertmanager" else "/base/")
    kind = {"json": "changes", "slack": "text"}.get(form)
    assert list(got.body)[-1] == kind if kind else got.body[0]["labels"]["name"] == "etcd"


def test_with_nothing_to_send_nothing_is_written(
    receiver: Receiver, etcd: Operator, settings: Any
) -> None:
    settings.WEBHOOK_FORMAT = "alertmanager"
    walk(etcd, "Healthy", "Failed")
    tasks.notify()
    with CaptureQueriesContext(connection) as queries:
        tasks.notify()
    assert [query["sql"][:6] for query in queries] == ["SELECT"] * 4


def test_without_a_webhook_nothing_is_sent(
    receiver: Receiver, etcd: Operator, settings: Any
) -> None:
    walk(etcd, "Healthy", "Failed")
    settings.WEBHOOK_URL = ""
    tasks.notify()
    assert receiver.got == []
    assert states() == [State.PENDING]


def test_a_failing_receiver_is_asked_again_later(receiver: Receiver, etcd: Operator) -> None:
    receiver.replies = [Reply(500, "out of order"), Reply(200)]
    walk(etcd, "Healthy", "Failed")
    tasks.notify()
    tasks.notify()  # too early
    row = Notification.objects.get()
    assert len(receiver.got) == 1
    assert (row.state, row.attempts) == (State.PENDING, 1)
    assert row.error == f"{receiver.host} answered 500: out of order"
    assert 7 <= (row.next_at - timezone.now()).total_seconds() <= 13
    with later(14):
        tasks.notify()
    row.refresh_from_db()
    assert (row.state, row.attempts, row.error) == (State.SENT, 2, "")


def test_waits_double_up_to_half_an_hour(receiver: Receiver, etcd: Operator) -> None:
    receiver.judge = lambda _: 503
    walk(etcd, "Healthy", "Failed")
    for attempts, least, most in ((1, 15, 25), (4, 120, 200), (30, 1350, 2250)):
        Notification.objects.update(attempts=attempts, next_at=timezone.now())
        Lease.objects.all().delete()
        tasks.notify()
        wait = (Notification.objects.get().next_at - timezone.now()).total_seconds()
        assert least - 1 <= wait <= most


@pytest.mark.parametrize("how", ["seconds", "date"])
def test_what_the_receiver_asks_us_to_wait_holds_for_everything(
    receiver: Receiver, cluster: Cluster, etcd: Operator, how: str
) -> None:
    moment = timezone.now() + timedelta(seconds=120)
    after = "120" if how == "seconds" else format_datetime(moment)
    receiver.replies = [Reply(429, headers={"Retry-After": after})]
    walk(etcd, "Healthy", "Failed")
    tasks.notify()
    walk(make_operator(cluster=cluster, name="new"), "Healthy", "Failed")
    with later(100):
        tasks.notify()
    assert len(receiver.got) == 1
    with later(130):
        tasks.notify()
    assert states() == [State.SENT, State.SENT]


def test_a_receiver_that_is_away_is_one_attempt_a_pause(
    receiver: Receiver, cluster: Cluster, settings: Any
) -> None:
    with Receiver() as closed:
        host = closed.host
    settings.WEBHOOK_URL = f"http://{host}/{SECRET}"
    burst(cluster, 120)
    tasks.notify()
    tasks.notify()
    assert set(states()) == {State.PENDING}
    tried = Notification.objects.filter(attempts=1)
    assert tried.count() == 50
    assert {row.error for row in tried} == {f"{host} refuses the connection."}


def test_a_receiver_that_does_not_answer_is_not_waited_for(
    receiver: Receiver, etcd: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify_send, "TIMEOUT", 0.2)
    receiver.replies = [Reply(delay=1)]
    walk(etcd, "Healthy", "Failed")
    tasks.notify()
    assert Notification.objects.get().error == f"{receiver.host} did not answer in time."


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("https://{host}/x", "{host} has a certificate that is not accepted, or speaks no https."),
        ("http://nowhere.invalid/x", "nowhere.invalid can't be found: its name is not known."),
    ],
)
def test_other_faults_of_the_network_are_sentences_too(
    receiver: Receiver, etcd: Operator, settings: Any, url: str, error: str
) -> None:
    settings.WEBHOOK_URL = url.format(host=receiver.host)
    walk(etcd, "Healthy", "Failed")
    tasks.notify()
    assert Notification.objects.get().error == error.format(host=receiver.host)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_a_refusal_is_given_up_at_once(receiver: Receiver, etcd: Operator, status: int) -> None:
    receiver.replies = [Reply(status, "no_service")]
    walk(etcd, "Healthy", "Failed")
    tasks.notify()
    with later(3600):
        tasks.notify()
    row = Notification.objects.get()
    assert len(receiver.got) == 1
    assert (row.state, row.error) == (
        State.GIVEN_UP,
        f"{receiver.host} answered {status}: no_service",
    )


def test_a_redirect_is_not_followed(receiver: Receiver, etcd: Operator) -> None:
    with Receiver() as elsewhere:
        receiver.replies = [Reply(307, headers={"Location": f"http://{elsewhere.host}/"})]
        walk(etcd, "Healthy", "Failed")
        tasks.notify()
        assert elsewhere.got == []
    row = Notification.objects.get()
    assert row.state == State.GIVEN_UP
    assert "a redirect, which is not followed" in row.error


def test_what_can_not_be_sent_for_a_day_is_given_up(receiver: Receiver, etcd: Operator) -> None:
    receiver.judge = lambda _: 503
    walk(etcd, "Healthy", "Failed")
    tasks.notify()
    with later(25 * 3600):
        Notification.objects.update(attempts=3)
        tasks.notify()
        assert states() == [State.PENDING]  # too few attempts: it was we who were away
    with later(26 * 3600):
        tasks.notify()
    row = Notification.objects.get()
    assert row.state == State.GIVEN_UP
    assert row.error == f"Given up after 5 attempts: {receiver.host} answered 503: ok"


def test_a_burst_is_a_few_bodies(receiver: Receiver, cluster: Cluster, settings: Any) -> None:
    settings.WEBHOOK_FORMAT = "slack"
    burst(cluster, 120)
    tasks.notify()
    assert [len(body["text"].splitlines()) - 1 for body in receiver.bodies] == [50, 50, 20]
    assert set(states()) == {State.SENT}


def test_one_array_has_at_most_fifty_alerts(
    receiver: Receiver, cluster: Cluster, settings: Any
) -> None:
    settings.WEBHOOK_FORMAT = "alertmanager"
    burst(cluster, 60)
    operators = list(Operator.objects.order_by("id"))
    record_changes([change(operator, "Failed", "Blocked") for operator in operators], operators)
    tasks.notify()
    assert sum(map(len, receiver.bodies)) == 60 + 60 * 2
    assert max(map(len, receiver.bodies)) <= 50


def names(body: dict[str, Any]) -> list[str]:
    return [one["name"] for one in body["changes"]]


def test_one_body_that_is_refused_does_not_take_its_neighbours_with_it(
    receiver: Receiver, cluster: Cluster
) -> None:
    receiver.judge = lambda body: 400 if "op7" in names(body) else 200
    burst(cluster, 50)
    tasks.notify()
    refused = Notification.objects.exclude(state=State.SENT)
    assert [row.body["name"] for row in refused] == ["op7"]
    assert refused[0].state == State.GIVEN_UP
    assert len(receiver.got) < 15


def test_a_body_that_breaks_the_receiver_ends_up_alone(
    receiver: Receiver, cluster: Cluster
) -> None:
    receiver.judge = lambda body: 500 if "op7" in names(body) else 200
    burst(cluster, 110)
    for run in range(1, 9):
        with later(4000 * run):
            tasks.notify()
    left = Notification.objects.exclude(state=State.SENT)
    assert [row.body["name"] for row in left] == ["op7"]
    assert left[0].state == State.PENDING


def test_changes_of_one_object_keep_their_order(
    receiver: Receiver, cluster: Cluster, etcd: Operator
) -> None:
    receiver.replies = [Reply(500)]
    walk(etcd, "Healthy", "Failed")
    tasks.notify()
    walk(etcd, "Failed", "Healthy")
    walk(make_operator(cluster=cluster, name="other"), "Healthy", "Failed")
    tasks.notify()
    assert [names(body) for body in receiver.bodies] == [["etcd"], ["other"]]
    with later(30):
        tasks.notify()
    assert [one["to"] for one in receiver.bodies[-1]["changes"]] == ["Failed", "Healthy"]


def test_a_second_worker_in_the_middle_of_the_first_ones_run_sends_nothing(
    receiver: Receiver, etcd: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk(etcd, "Healthy", "Failed")
    send = notify_send.Receiver.send
    depth: list[int] = []

    def sending(self: notify_send.Receiver, changes: Sequence[HealthChange]) -> SendResult:
        depth.append(len(depth))
        send_pending()
        return send(self, changes)

    monkeypatch.setattr(notify_send.Receiver, "send", sending)
    send_pending()
    assert depth == [0]
    assert len(receiver.got) == 1
    assert states() == [State.SENT]


def test_a_crash_is_logged_and_the_rows_wait(
    receiver: Receiver,
    etcd: Operator,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    walk(etcd, "Healthy", "Failed")
    with monkeypatch.context() as patched:
        patched.setattr(notify_send, "record_deletions", lambda: 1 / 0)
        tasks.notify()
    assert "notifications crashed" in caplog.text
    tasks.notify()
    assert states() == [State.SENT]


def test_no_secret_of_the_address_is_told(
    receiver: Receiver, etcd: Operator, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.WEBHOOK_URL = (
        f"http://me:hunter2hunter2@{receiver.host}/services/{SECRET}?key=abcdefghi"
    )
    receiver.replies = [
        Reply(500, f"no such hook: {SECRET}"),
        Reply(404, "<p>key=abcdefghi</p>", {"Content-Type": "text/html"}),
    ]
    walk(etcd, "Healthy", "Failed")
    tasks.notify()
    with later(60):
        tasks.notify()
    assert receiver.got[0].headers["authorization"].startswith("Basic ")
    told = caplog.text + json.dumps([row.error for row in Notification.objects.all()])
    assert receiver.host in told
    for secret in ("hunter2", "token", "abcdefghi", "T0123456", "/services"):
        assert secret not in told


def test_an_address_that_is_none_is_said_and_nothing_is_lost(
    receiver: Receiver, etcd: Operator, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    walk(etcd, "Healthy", "Failed")
    settings.WEBHOOK_URL = "http://[bad/token"
    tasks.notify()
    assert "webhook address is wrong" in caplog.text
    assert "token" not in caplog.text
    assert states() == [State.PENDING]


def test_a_deleted_operator_ends_its_alert(
    receiver: Receiver, etcd: Operator, settings: Any
) -> None:
    settings.WEBHOOK_FORMAT = "alertmanager"
    walk(etcd, "Healthy", "Failed")
    tasks.notify()
    delete(etcd)
    tasks.notify()
    (firing,), (resolved,) = receiver.bodies
    assert resolved["labels"] == firing["labels"]
    assert resolved["endsAt"] <= timezone.now().isoformat() < firing["endsAt"]


def test_alerts_that_stand_are_sent_again_and_others_are_not(
    receiver: Receiver, cluster: Cluster, etcd: Operator, settings: Any
) -> None:
    settings.WEBHOOK_FORMAT = "alertmanager"
    walk(etcd, "Healthy", "Degraded", "Failed")
    walk(make_operator(cluster=cluster, name="fine"), "Healthy", "Failed", "Healthy")
    tasks.notify()
    tasks.notify()
    assert len(receiver.got) == 1
    with later(301):
        tasks.notify()
        tasks.notify()
    assert len(receiver.got) == 2
    (again,) = receiver.bodies[1]  # what is over is put off, not looked at in every run
    assert (
        Notification.objects.filter(next_at__lte=timezone.now() + timedelta(hours=1)).count() == 1
    )
    assert (again["labels"]["name"], again["labels"]["severity"]) == ("etcd", "critical")
    assert again["endsAt"] > receiver.bodies[0][1]["endsAt"]
    assert Notification.objects.filter(attempts__gt=1).count() == 0


def test_a_receiver_that_refuses_a_renewal_is_left_alone_a_while(
    receiver: Receiver, etcd: Operator, settings: Any
) -> None:
    settings.WEBHOOK_FORMAT = "alertmanager"
    walk(etcd, "Healthy", "Failed")
    tasks.notify()
    with later(301):
        receiver.replies = [Reply(503)]
        tasks.notify()
        tasks.notify()
        assert len(receiver.got) == 2
    with later(320):
        tasks.notify()
    assert len(receiver.got) == 3
    assert states() == [State.SENT]
