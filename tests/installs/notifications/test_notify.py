"""Which changes of health are worth telling, and what is written down of them."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.utils import timezone

from installs.diagnosis.knowledge import find
from installs.models import Notification, Operator, Transition
from installs.notifications.select import (
    ongoing,
    record_changes,
    record_deletions,
    send_again,
    standing,
)
from olmweb.models import NOT_CONFIGURED, Cluster
from tests.factories import make_cluster, make_operator

MESSAGE = "convert registry+v1 bundle to plain+v0 bundle: AllNamespace install mode must be enabled"


@pytest.fixture(autouse=True)
def webhook(settings: Any, db: None) -> None:
    settings.WEBHOOK_URL = "https://hooks.example/secret"


@pytest.fixture
def cluster(db: None) -> Cluster:
    return make_cluster()


@pytest.fixture
def etcd(cluster: Cluster) -> Operator:
    return make_operator(cluster=cluster, name="etcd", namespace="db", kind="Subscription")


def change(
    operator: Operator, was: str, to: str, reason: str = "", type_: str = "Health"
) -> Transition:
    """The transition as a pass saves it, and the operator's row as it leaves it."""
    operator.health, operator.reason = to, reason
    operator.since = timezone.now()
    operator.save()
    return Transition.objects.create(
        cluster=operator.cluster, kind=operator.kind, namespace=operator.namespace,
        name=operator.name, type=type_, from_status=was, to_status=to, to_reason=reason,
    )  # fmt: skip


def delete(operator: Operator) -> Transition:
    gone = change(operator, "present", "deleted", type_="Object")
    operator.delete()
    return gone


def walk(operator: Operator, *healths: str) -> list[tuple[str, str]]:
    """Lets the operator take these healths in turn; (was, to) of what is told meanwhile."""
    told = Notification.objects.count()
    for was, to in pairwise(healths):
        record_changes([change(operator, was, to, reason=f"{to}Reason")], [operator])
    rows = Notification.objects.order_by("id")[told:]
    return [(row.body["was"], row.body["to"]) for row in rows]


@pytest.mark.parametrize(
    ("healths", "told"),
    [
        (["Healthy", "Failed", "Healthy"], [("Healthy", "Failed"), ("Failed", "Healthy")]),
        (["Healthy", "Degraded", "Blocked"], [("Healthy", "Degraded"), ("Degraded", "Blocked")]),
        (["Upgrading", "NeedsApproval"], [("Upgrading", "NeedsApproval")]),
        (["Healthy", "Upgrading", "Healthy"], []),
        (["Installing", "Healthy"], []),
        (["Installing", "Failed"], [("Installing", "Failed")]),
        (["Healthy", "Unknown", "Healthy"], []),
        (["Healthy", "Failed", "Installing", "Failed"], [("Healthy", "Failed")]),
        (["Healthy", "Failed", "Installing", "Healthy"],
         [("Healthy", "Failed"), ("Failed", "Healthy")]),
        (["Failed", "Healthy"], [("Failed", "Healthy")]),
        (["Failed", "Failed"], []),
        (["Installing", "Upgrading", "Unknown"], []),
    ],
)  # fmt: skip
def test_where_an_operator_comes_to_rest_is_told_and_the_way_there_is_not(
    etcd: Operator, healths: list[str], told: list[tuple[str, str]]
) -> None:
    assert walk(etcd, *healths) == told


def test_several_changes_of_one_pass_are_told_in_their_order(etcd: Operator) -> None:
    both = [change(etcd, "Healthy", "Failed"), change(etcd, "Failed", "Healthy")]
    assert record_changes(reversed(both), [etcd]) == 2
    told = [row.body["to"] for row in Notification.objects.order_by("id")]
    assert told == ["Failed", "Healthy"]


@pytest.mark.parametrize(
    ("age", "synced", "to", "expected"),
    [
        (timedelta(minutes=5), True, "Failed", 1),
        (timedelta(minutes=5), True, "Healthy", 0),
        (timedelta(hours=2), True, "Failed", 0),  # a kind that we newly read
        (timedelta(minutes=5), False, "Failed", 0),  # a cluster that we newly read
        (None, True, "Failed", 0),
    ],
)
def test_what_is_first_seen_in_trouble_is_told_only_when_it_is_new(
    cluster: Cluster, etcd: Operator, age: timedelta | None, synced: bool, to: str, expected: int
) -> None:
    cluster.synced_at = timezone.now() if synced else None
    cluster.save()
    etcd.created_at = None if age is None else timezone.now() - age
    assert record_changes([change(etcd, "", to)], [etcd]) == expected


def test_nothing_is_written_twice(etcd: Operator) -> None:
    failed = change(etcd, "Healthy", "Failed")
    assert record_changes([failed], [etcd]) == 1
    assert record_changes([failed], [etcd]) == 0
    assert Notification.objects.count() == 1


def test_without_a_webhook_nothing_is_written_or_asked(
    etcd: Operator, settings: Any, django_assert_num_queries: Any
) -> None:
    settings.WEBHOOK_URL = ""
    failed = change(etcd, "Healthy", "Failed")
    with django_assert_num_queries(0):
        assert record_changes([failed], [etcd]) == 0


def test_only_changes_of_health_of_known_operators_are_told(etcd: Operator) -> None:
    other = change(etcd, "True", "False", type_="Installed")
    stranger = Transition(cluster=etcd.cluster, kind="Subscription", name="else", type="Health",
                          from_status="Healthy", to_status="Failed")  # fmt: skip
    stranger.save()
    assert record_changes([other, stranger], [etcd]) == 0


def test_the_body_says_what_happened_as_it_was_then(cluster: Cluster) -> None:
    operator = make_operator(
        cluster=cluster, name="loki", finding="allnamespaces-required", message=MESSAGE * 100,
        facts={"bundle": "loki.v1"},
    )  # fmt: skip
    failed = change(operator, "Healthy", "Failed", reason="InstallFailed")
    record_changes([failed], [operator])
    body = Notification.objects.get().body
    assert (body["cluster"], body["kind"], body["name"]) == ("prod", "PlatformOperator", "loki")
    assert (body["was"], body["to"], body["reason"]) == ("Healthy", "Failed", "InstallFailed")
    assert body["message"] == (MESSAGE * 100)[:1000]
    assert body["finding"]["id"] == "allnamespaces-required"
    assert body["finding"]["title"]
    assert body["finding"]["cause"]
    assert body["finding"]["remedy"]
    assert body["at"] == failed.at.isoformat()
    assert operator.since is not None
    assert body["since"] == operator.since.isoformat()


def test_the_body_explains_the_reason_of_the_operator(cluster: Cluster) -> None:
    message = "No bundle installed"
    match = find(message, kind="ClusterExtension")
    assert match is not None
    operator = make_operator(
        cluster=cluster, name="loki", kind="ClusterExtension", message=message,
        finding=match.entry.id, facts=match.facts,
    )  # fmt: skip
    failed = change(operator, "Installing", "Failed", reason="Failed")
    record_changes([failed], [operator])
    finding = Notification.objects.get().body["finding"]
    assert "no revision of it is rolling out without an error" in finding["cause"]


def test_an_unknown_finding_is_no_finding(etcd: Operator) -> None:
    etcd.finding = "an-id-of-an-older-version"
    record_changes([change(etcd, "Healthy", "Failed")], [etcd])
    assert Notification.objects.get().body["finding"] is None


def test_an_alert_ends_with_the_very_labels_that_it_began_with(etcd: Operator) -> None:
    walk(etcd, "Healthy", "Failed", "Degraded", "Healthy")
    failed, degraded, healthy = (row.body for row in Notification.objects.order_by("id"))
    assert failed["ends"] is None
    assert failed["starts"]["labels"] == {
        "alertname": "OperatorNeedsAttention",
        "cluster": "prod",
        "kind": "Subscription",
        "namespace": "db",
        "name": "etcd",
        "severity": "critical",
        "reason": "FailedReason",
    }
    assert degraded["ends"] == failed["starts"]
    assert degraded["starts"]["labels"]["severity"] == "warning"
    assert (healthy["ends"], healthy["starts"]) == (degraded["starts"], None)


def test_a_label_that_is_empty_is_left_out(etcd: Operator) -> None:
    record_changes([change(etcd, "Healthy", "Failed")], [etcd])
    assert "reason" not in Notification.objects.get().body["starts"]["labels"]


def test_trouble_that_ends_by_deletion_is_told_once(etcd: Operator, cluster: Cluster) -> None:
    fine = make_operator(cluster=cluster, name="fine")
    walk(etcd, "Healthy", "Failed")
    walk(fine, "Failed", "Healthy")
    assert record_deletions() == 0
    delete(etcd)
    delete(fine)
    assert (record_deletions(), record_deletions()) == (1, 0)
    started, _, told = Notification.objects.order_by("id")
    assert (told.body["was"], told.body["to"]) == ("Failed", "Deleted")
    assert (told.body["ends"], told.body["starts"]) == (started.body["starts"], None)
    assert not standing().exists()


def test_what_comes_back_after_its_deletion_starts_anew(etcd: Operator, cluster: Cluster) -> None:
    walk(etcd, "Healthy", "Failed")
    delete(etcd)
    record_deletions()
    again = make_operator(cluster=cluster, name="etcd", namespace="db", kind="Subscription")
    assert walk(again, "Installing", "Healthy", "Failed") == [("Healthy", "Failed")]


def test_what_stands_is_the_last_trouble_told_of_each_operator(
    etcd: Operator, cluster: Cluster
) -> None:
    walk(etcd, "Healthy", "Failed", "Healthy", "Blocked")
    walk(make_operator(cluster=cluster, name="fine"), "Healthy", "Failed", "Healthy")
    gone = make_operator(cluster=cluster, name="gone")
    walk(gone, "Healthy", "Failed")
    assert [row.body["to"] for row in standing().order_by("id")] == ["Blocked", "Failed"]
    gone.delete()
    assert [row.body["name"] for row in ongoing()] == ["etcd"]
    cluster.error_code = NOT_CONFIGURED
    cluster.save()
    assert not ongoing().exists()


def test_a_burst_costs_a_fixed_number_of_queries(
    cluster: Cluster, django_assert_max_num_queries: Any
) -> None:
    operators = [make_operator(cluster=cluster, name=f"op{n}") for n in range(60)]
    changes = [change(operator, "Healthy", "Failed") for operator in operators]
    with django_assert_max_num_queries(4):
        assert record_changes(changes, operators) == 60


def test_what_was_not_overtaken_can_be_sent_again(etcd: Operator, cluster: Cluster) -> None:
    walk(etcd, "Healthy", "Failed", "Healthy")
    walk(make_operator(cluster=cluster, name="other"), "Healthy", "Failed")
    gone, sent = Notification.State.GIVEN_UP, Notification.State.SENT
    first, second, third = Notification.objects.order_by("id")
    for row, state in ((first, gone), (second, gone), (third, sent)):
        Notification.objects.filter(pk=row.pk).update(state=state, attempts=9, error="No.")
    assert send_again(Notification.objects.all()) == 2
    assert send_again(Notification.objects.all()) == 0
    rows = Notification.objects.order_by("id")
    assert [(row.state, row.attempts, row.error) for row in rows] == [
        (gone, 9, "No."),
        (Notification.State.PENDING, 0, ""),
        (Notification.State.PENDING, 0, ""),
    ]
