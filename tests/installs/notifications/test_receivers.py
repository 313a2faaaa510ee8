"""Receivers that administrators added: what they get, when they fail, what pages show of them."""

import hashlib
import hmac
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
import time_machine
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalogs.sources import guard
from installs import tasks
from installs.models import WebhookDelivery, WebhookReceiver
from installs.notifications import receivers
from olmweb.eventlog.record import event, publish, record
from olmweb.eventlog.types import EventType, FailureData, HealthData
from olmweb.models import AuditEvent, Cluster, Lease
from tests.factories import make_catalog, make_cluster, make_operator
from tests.worlds.webhook_receiver import Receiver, Reply

pytestmark = pytest.mark.django_db
TOKEN = "T0123456-not-a-real-token"
SECRET = "not-a-real-secret"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Receiver]:
    monkeypatch.setattr(receivers, "RULES", guard.Rules(loopback=True))
    settings.PUBLIC_URL = "https://olmweb.example"
    with Receiver() as running:
        yield running


@pytest.fixture
def prod(db: None) -> Cluster:
    return make_cluster()


def add(server: Receiver, **fields: Any) -> WebhookReceiver:
    values = {"name": "chat", "url": f"http://{server.host}/hooks/{TOKEN}", **fields}
    return WebhookReceiver.objects.create(**values)


def happen(cluster: Cluster, *names: str, health: str = "Failed") -> None:
    data = HealthData("Healthy", "", health, "InstallFailed", "A *message*.", "")
    for name in names:
        created = event(
            EventType.OPERATOR_HEALTH, timezone.now(), data,
            cluster_id=cluster.pk, kind="Subscription", namespace="ops", name=name,
        )  # fmt: skip
        record([created])
    publish()


def unreachable(cluster: Cluster) -> None:
    data = FailureData("unreachable", "It does not answer.", "")
    record([event(EventType.CLUSTER_UNREACHABLE, timezone.now(), data, cluster_id=cluster.pk,
                  kind="Cluster", name=cluster.name)])  # fmt: skip
    publish()


def names(server: Receiver) -> list[str]:
    return [item["name"] for body in server.bodies for item in body["events"]]


def states() -> list[str]:
    return list(WebhookDelivery.objects.order_by("id").values_list("state", flat=True))


def test_events_are_sent_once_in_order_and_as_the_list_has_them(
    server: Receiver, prod: Cluster, client: Client, bob: User
) -> None:
    add(server)
    happen(prod, *(f"op{number}" for number in range(60)))
    tasks.notify()
    tasks.notify()
    assert names(server) == [f"op{number}" for number in range(60)]
    assert [len(body["events"]) for body in server.bodies] == [50, 10]
    client.force_login(bob)
    listed = client.get("/api/v1/events").json()["items"]
    assert server.bodies[0]["events"][0] == listed[0] | {
        "url": "https://olmweb.example/operators/prod/Subscription/ops/op0"
    }
    assert states() == ["sent", "sent"]


def test_each_receiver_gets_what_its_filters_select(server: Receiver, prod: Cluster) -> None:
    add(server, name="a", url=f"http://{server.host}/a", types=["cluster.unreachable"])
    add(server, name="b", url=f"http://{server.host}/b", clusters=["edge"])
    add(server, name="c", url=f"http://{server.host}/c", enabled=False)
    edge = make_cluster(name="edge")
    happen(prod, "one")
    happen(edge, "two")
    unreachable(prod)
    tasks.notify()
    got = {
        request.path: [item["name"] for item in request.body["events"]] for request in server.got
    }
    assert got == {"/a": ["prod"], "/b": ["two"]}
    assert set(WebhookReceiver.objects.exclude(name="c").values_list("position", flat=True)) == {3}


def test_nothing_is_written_and_few_queries_are_made_without_events(
    server: Receiver, prod: Cluster
) -> None:
    add(server)
    happen(prod, "etcd")
    tasks.notify()
    before = WebhookReceiver.objects.values().get()
    with CaptureQueriesContext(connection) as captured:
        receivers.deliver_all()
    assert len(captured) == 3
    assert WebhookReceiver.objects.values().get() == before
    assert all(query["sql"].startswith("SELECT") for query in captured)


def test_a_receiver_that_is_down_gets_everything_later_in_order(
    server: Receiver, prod: Cluster
) -> None:
    receiver = add(server)
    happen(prod, "first")
    server.replies = [Reply(503, headers={"Retry-After": "120"})]
    with time_machine.travel(timezone.now(), tick=False) as clock:
        tasks.notify()
        assert states() == ["failing"]
        happen(prod, "second")
        tasks.notify()
        assert len(server.got) == 1, "it asked for two minutes"
        receiver.refresh_from_db()
        assert receiver.error == "127.0.0.1 answered 503."
        clock.shift(121)
        tasks.notify()
    assert names(server) == ["first", "first", "second"]
    assert states() == ["sent", "sent"]
    receiver.refresh_from_db()
    assert (receiver.error, receiver.attempts) == ("", 0)


def test_what_fails_for_a_day_is_given_up_and_the_rest_goes_on(
    server: Receiver, prod: Cluster
) -> None:
    add(server)
    happen(prod, "first")
    server.replies = [Reply(500), Reply(500)]
    with time_machine.travel(timezone.now(), tick=False) as clock:
        tasks.notify()
        clock.shift(timedelta(days=1, minutes=1))
        happen(prod, "second")
        tasks.notify()
    assert states() == ["given-up", "sent"]


def test_an_event_that_is_refused_does_not_hold_up_the_others(
    server: Receiver, prod: Cluster
) -> None:
    add(server)
    happen(prod, "good", "bad", "fine")
    server.judge = lambda body: 400 if "bad" in str(body) else 200
    for _ in range(2):
        tasks.notify()
    assert states() == ["sent", "given-up", "sent"]
    server.judge = lambda _: 200
    assert receivers.send_again(list(WebhookDelivery.objects.filter(state="given-up"))) == 1
    tasks.notify()
    assert states() == ["sent", "sent", "sent"]
    assert names(server)[-1] == "bad"


def test_a_request_is_signed_over_its_time_and_body(server: Receiver, prod: Cluster) -> None:
    add(server, secret=SECRET)
    happen(prod, "etcd")
    tasks.notify()
    headers = server.got[0].headers
    body = msgspec.json.encode(server.bodies[0])
    assert headers["content-length"] == str(len(body)), "these are the bytes that were sent"
    signed = headers["olmweb-timestamp"].encode() + b"." + body
    expected = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert headers["olmweb-signature"] == f"sha256={expected}"
    assert headers["olmweb-delivery"] == str(WebhookDelivery.objects.get().pk)


def test_cloudevents_are_one_event_each_in_structured_mode(server: Receiver, prod: Cluster) -> None:
    add(server, format="cloudevents")
    happen(prod, "one", "two")
    tasks.notify()
    assert {request.headers["content-type"] for request in server.got} == {
        "application/cloudevents+json; charset=utf-8"
    }
    body = server.bodies[0]
    data = body.pop("data")
    assert datetime.fromisoformat(body.pop("time").replace("Z", "+00:00")).tzinfo
    assert body == {
        "specversion": "1.0", "id": "1", "source": "https://olmweb.example",
        "type": "io.olmweb.operator.health", "subject": "prod/Subscription/ops/one",
        "datacontenttype": "application/json",
    }  # fmt: skip
    assert (data["id"], data["data"]["health"]) == (1, "Failed")


def test_slack_gets_a_line_an_event_without_markup_of_the_cluster(
    server: Receiver, prod: Cluster
) -> None:
    add(server, format="slack")
    happen(prod, "one")
    unreachable(prod)
    tasks.notify()
    first, second = server.bodies[0]["text"].splitlines()
    assert first.startswith(":red_circle: *operator.health*: `Subscription` `ops/one` on `prod` · ")
    assert "message `A *message*.`" in first
    assert first.endswith("<https://olmweb.example/operators/prod/Subscription/ops/one|open>")
    assert second.startswith(":red_circle: *cluster.unreachable*: `Cluster` `prod`")


def test_alertmanager_gets_alerts_that_begin_last_and_end(server: Receiver, prod: Cluster) -> None:
    add(server, format="alertmanager", url=f"http://{server.host}/base/")
    started = timezone.now()
    make_operator(
        cluster=prod, kind="Subscription", namespace="ops", name="lasting", health="Blocked",
        reason="R", since=started,
    )  # fmt: skip
    make_catalog(cluster=prod, name="broken", failing_since=started, error_code="cut-short")
    with time_machine.travel(started, tick=False) as clock:
        happen(prod, "etcd")
        tasks.notify()
        assert {request.path for request in server.got} == {"/base/api/v2/alerts"}
        begun, renewed = server.bodies
        assert begun[0]["labels"] == {
            "alertname": "OperatorNeedsAttention", "cluster": "prod", "kind": "Subscription",
            "namespace": "ops", "name": "etcd", "severity": "critical",
        }  # fmt: skip
        assert begun[0]["endsAt"] > begun[0]["startsAt"]
        assert [(alert["labels"]["alertname"], alert["labels"]["name"]) for alert in renewed] == [
            ("OperatorNeedsAttention", "lasting"), ("CatalogFailing", "broken"),
        ]  # fmt: skip
        assert renewed[1]["labels"]["catalog"] == "prod/broken"
        tasks.notify()
        assert len(server.got) == 2, "five minutes are not over"
        Lease.objects.update(expires_at=started - timedelta(seconds=1))
        clock.shift(300)
        data = HealthData("Failed", "", "Healthy", "", "", "")
        record([event(EventType.OPERATOR_HEALTH, timezone.now(), data, cluster_id=prod.pk,
                      kind="Subscription", namespace="ops", name="etcd")])  # fmt: skip
        publish()
        tasks.notify()
    ended, renewed_again = server.bodies[2:]
    assert ended[0]["labels"] == begun[0]["labels"]
    assert ended[0]["endsAt"] == ended[0]["startsAt"]
    assert len(renewed_again) == 2


def test_events_that_are_no_alert_are_not_sent_to_alertmanager(
    server: Receiver, prod: Cluster
) -> None:
    add(server, format="alertmanager")
    happen(prod, "etcd", health="Upgrading")
    tasks.notify()
    assert not server.got
    assert states() == ["sent"]


# -- addresses and secrets -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9/x", "http://169.254.169.254/latest", "http://[::1]/x", "http://0.0.0.0/"],
)
def test_an_address_of_this_machine_is_not_called_even_if_it_was_stored(
    url: str, prod: Cluster
) -> None:
    receiver = WebhookReceiver.objects.create(name="inside", url=url)
    happen(prod, "etcd")
    tasks.notify()
    assert states() == ["given-up"]
    receiver.refresh_from_db()
    assert "is no address that may be called" in receiver.error


def test_a_redirect_is_not_followed(server: Receiver, prod: Cluster) -> None:
    add(server)
    happen(prod, "etcd")
    server.replies = [Reply(302, headers={"Location": f"http://{server.host}/elsewhere"})]
    tasks.notify()
    assert len(server.got) == 1
    assert states() == ["given-up"]


FORM = {"name": "chat", "format": "json", "enabled": "on", "types": ["operator.health"]}
ADD = "/admin/installs/webhookreceiver/add/"


@pytest.fixture
def admin(client: Client, alice: User) -> Client:
    client.force_login(alice)
    return client


def test_an_administrator_adds_a_receiver_that_begins_with_the_next_event(
    server: Receiver, prod: Cluster, admin: Client
) -> None:
    happen(prod, "before")
    url = f"http://{server.host}/hooks/{TOKEN}"
    response = admin.post(ADD, {**FORM, "new_url": url, "new_secret": SECRET})
    assert response.status_code == 302, response.text
    row = WebhookReceiver.objects.get()
    assert (row.url, row.secret, row.position, row.types) == (url, SECRET, 1, ["operator.health"])
    happen(prod, "after")
    tasks.notify()
    assert names(server) == ["after"]


@pytest.mark.parametrize("url", ["", "ftp://x.example", "http://169.254.169.254/", "http://[::1"])
def test_an_address_that_may_not_be_called_is_refused_in_the_form(
    prod: Cluster, admin: Client, url: str
) -> None:
    response = admin.post(ADD, {**FORM, "new_url": url})
    assert response.status_code == 200
    assert 'class="errorlist"' in response.text
    assert not WebhookReceiver.objects.exists()


def test_a_change_keeps_what_is_left_empty_and_the_position(
    server: Receiver, prod: Cluster, admin: Client
) -> None:
    row = add(server, secret=SECRET, position=7)
    page = f"/admin/installs/webhookreceiver/{row.pk}/change/"
    assert admin.post(page, {**FORM, "name": "other"}).status_code == 302
    row.refresh_from_db()
    assert (row.name, row.secret, row.position) == ("other", SECRET, 7)
    assert TOKEN in row.url
    admin.post(page, {**FORM, "remove_secret": "on"})
    row.refresh_from_db()
    assert row.secret == ""


def test_secrets_are_on_no_page_and_in_no_log(
    server: Receiver, prod: Cluster, admin: Client, caplog: pytest.LogCaptureFixture
) -> None:
    row = add(server, secret=SECRET)
    happen(prod, "etcd")
    server.replies = [Reply(404, body=f"no hook {TOKEN}")]
    tasks.notify()
    reader = User.objects.create_user("reader", is_staff=True)
    reader.user_permissions.set(Permission.objects.filter(codename__startswith="view_webhook"))
    for person in (None, reader):
        if person:
            admin.force_login(person)
        for page in (f"webhookreceiver/{row.pk}/change/", "webhookreceiver/", "webhookdelivery/"):
            text = admin.get(f"/admin/installs/{page}").text
            assert "127.0.0.1" in text or "chat" in text
            assert TOKEN not in text
            assert SECRET not in text
    stored = str(list(WebhookDelivery.objects.values())) + str(list(LogEntry.objects.values()))
    assert TOKEN not in caplog.text + stored
    assert SECRET not in caplog.text + stored


def test_the_test_button_shows_what_the_receiver_answers(
    server: Receiver, prod: Cluster, admin: Client
) -> None:
    row = add(server)
    server.replies = [Reply(200), Reply(403)]
    form = {"action": "send_test", "_selected_action": [row.pk]}
    page = "/admin/installs/webhookreceiver/"
    assert "Test event accepted by chat." in admin.post(page, form, follow=True).text
    assert (
        "Test event for chat: 127.0.0.1 answered 403." in admin.post(page, form, follow=True).text
    )
    assert server.bodies[0]["events"][0]["kind"] == "Test"
    assert not WebhookDelivery.objects.exists()


def test_a_delivery_is_sent_again_from_the_log(
    server: Receiver, prod: Cluster, admin: Client
) -> None:
    add(server)
    happen(prod, "etcd")
    tasks.notify()
    form = {"action": "send_again", "_selected_action": [WebhookDelivery.objects.get().pk]}
    page = admin.post("/admin/installs/webhookdelivery/", form, follow=True).text
    assert "1 delivery will be sent again." in page
    tasks.notify()
    assert names(server) == ["etcd", "etcd"]
    assert server.got[0].body == server.got[1].body
    assert states() == ["sent"]


def test_one_worker_at_a_time_sends_to_a_receiver(server: Receiver, prod: Cluster) -> None:
    row = add(server)
    happen(prod, "etcd")
    Lease.objects.create(
        name=f"webhook-receiver:{row.pk}", owner="other",
        expires_at=timezone.now() + timedelta(minutes=1),
    )  # fmt: skip
    tasks.notify()
    assert not server.got


def test_the_audit_log_has_each_change_of_a_receiver_without_its_address_and_secret(
    server: Receiver, prod: Cluster, client: Client, alice: User
) -> None:
    client.force_login(alice)
    url, host = f"http://{server.host}/hooks/{TOKEN}", server.host
    form = {"name": "chat", "format": "json", "enabled": "on"}
    place = "/admin/installs/webhookreceiver/"

    def save(path: str, **values: str) -> None:
        assert client.post(f"{place}{path}", form | values).status_code == 302

    save("add/", new_url=url)
    row = WebhookReceiver.objects.get()
    change = f"{row.pk}/change/"
    save(change, new_secret=SECRET)
    save(change, new_secret=f"{SECRET}-2")
    save(change, remove_secret="on", format="slack")
    save(change, format="slack")  # changes nothing
    client.post(place, {"action": "send_test", "_selected_action": row.pk})
    delivery = WebhookDelivery.objects.create(receiver=row, state="given-up")
    again = {"action": "send_again", "_selected_action": delivery.pk}
    client.post("/admin/installs/webhookdelivery/", again)
    client.post(f"{place}{row.pk}/delete/", {"post": "yes"})
    events = list(AuditEvent.objects.filter(detail__receiver=row.pk).order_by("id"))
    assert [(item.event, item.detail.get("secret", "")) for item in events] == [
        ("receiver-created", ""),
        ("receiver-secret-changed", "added"),
        ("receiver-secret-changed", "rotated"),
        ("receiver-secret-changed", "removed"),
        ("receiver-changed", ""),
        ("receiver-tested", ""),
        ("deliveries-sent-again", ""),
        ("receiver-deleted", ""),
    ]
    assert {(item.actor, item.address) for item in events} == {("alice", "127.0.0.1")}
    assert {item.detail["host"] for item in events} == {host}
    assert events[4].detail["changed"] == {"format": {"before": "json", "after": "slack"}}
    assert events[5].detail["result"] == "accepted"
    assert (events[6].detail["count"], events[6].detail["deliveries"]) == (1, [delivery.pk])
    stored = repr([item.detail for item in events])
    assert TOKEN not in stored
    assert SECRET not in stored


def test_a_delivery_records_no_audit_event(server: Receiver, prod: Cluster) -> None:
    add(server)
    count = AuditEvent.objects.count()
    happen(prod, "one")
    tasks.notify()
    assert states() == ["sent"]
    assert AuditEvent.objects.count() == count
