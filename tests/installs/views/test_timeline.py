"""What was so before we looked stands in the timeline at the cluster's own time."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from installs.models import ClusterOperator, Operator
from olmweb.models import Cluster
from tests.factories import (
    make_component,
    make_event,
    make_operator,
    make_transition,
)
from tests.worlds.html import assert_page
from tests.worlds.operators import make_action

pytestmark = pytest.mark.django_db
NOW = timezone.now()
SINCE, SEEN = NOW - timedelta(hours=5, minutes=1), NOW - timedelta(minutes=20)


@pytest.fixture(autouse=True)
def _clock() -> Iterator[None]:
    with time_machine.travel(NOW, tick=False):
        yield


def stamp(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def condition(status: str = "False", reason: str = "Odd", since: str = "") -> dict[str, str]:
    return {
        "type": "Installed", "status": status, "reason": reason, "message": "m",
        "lastTransitionTime": since or stamp(SINCE),
    }  # fmt: skip


def make_seen(cluster: Cluster, *conditions: dict[str, str], **fields: Any) -> Operator:
    """An operator whose condition Installed we saw when we first looked."""
    values: dict[str, Any] = {"health": "Failed", "reason": "Odd", "uid": "u1", "since": SINCE}
    row = make_operator(cluster=cluster, conditions=list(conditions), **{**values, **fields})
    first = {"to_status": "False", "to_reason": "Odd", "uid": "u1", "at": SEEN}
    make_transition(subject=row, type="Installed", **first)
    return row


def story(reader: Client) -> str:
    text = assert_page(reader.get("/operators/prod/PlatformOperator/-/etcd")).text
    return text[text.index("Timeline") : text.index("Version and catalog")]


def test_a_condition_that_was_there_stands_at_the_clusters_time(
    reader: Client, prod: Cluster
) -> None:
    row = make_seen(prod, condition())
    make_event(subject=row, message="between", last_at=NOW - timedelta(hours=1))
    lines = story(reader)
    assert "5 h ago Installed: False · Odd first seen 20 min ago" in lines
    assert lines.index("between") < lines.index("Installed: False"), "sorted by it, too"


def test_so_does_a_health_and_the_phase_of_a_csv(reader: Client, prod: Cluster) -> None:
    row = make_seen(prod, condition())
    first = {"at": SEEN, "uid": "u1"}
    make_transition(subject=row, type="Health", to_status="Failed", to_reason="Odd", **first)
    csv = make_component(
        operator=row, kind="ClusterServiceVersion", name="etcd.v1", phase="Failed", uid="u2",
        details={"reason": "Timeout", "last_transition": stamp(NOW - timedelta(hours=3))},
    )  # fmt: skip
    make_transition(
        subject=csv, type="Phase", to_status="Failed", to_reason="Timeout", at=SEEN, uid="u2"
    )
    lines = story(reader)
    assert "5 h ago Failed Odd first seen 20 min ago" in lines
    assert "3 h ago Phase: Failed · Timeout first seen 20 min ago" in lines


@pytest.mark.parametrize(
    "now",
    [
        condition(since="0001-01-01T00:00:00Z"),
        condition(since="yesterday"),
        condition(since=stamp(SINCE).removesuffix("Z")),
        condition(status="True"),
        condition(reason="Other"),
    ],
)
def test_where_the_cluster_does_not_say_since_when_it_was_first_seen_then(
    reader: Client, prod: Cluster, now: dict[str, str]
) -> None:
    make_seen(prod, now, since=NOW)
    assert "20 min ago Installed: False · Odd first seen" in story(reader)
    assert "first seen 20 min ago" not in story(reader)


@pytest.mark.parametrize("since", [SEEN - timedelta(seconds=20), NOW + timedelta(hours=1)])
def test_what_began_when_we_looked_was_not_there_before(
    reader: Client, prod: Cluster, since: datetime
) -> None:
    make_seen(prod, condition(since=stamp(since)), since=NOW)
    assert "20 min ago Installed: False · Odd" in story(reader)
    assert "first seen" not in story(reader)


def test_what_came_with_its_object_was_not_there_before(reader: Client, prod: Cluster) -> None:
    row = make_seen(prod, condition(reason="Other"))
    make_transition(subject=row, type="Object", to_status="appeared", uid="u1", at=SEEN)
    row.cluster.transitions.filter(type="Installed").delete()
    first = {"to_status": "False", "to_reason": "Odd", "uid": "u1", "at": SEEN}
    make_transition(subject=row, type="Installed", **first)
    assert "first seen" not in story(reader)


def test_what_we_saw_change_is_told_at_our_time(reader: Client, prod: Cluster) -> None:
    row = make_seen(prod, condition(status="True", reason="Odd"))
    make_transition(
        subject=row, type="Installed", from_status="False", from_reason="Odd",
        to_status="True", to_reason="Odd", uid="u1", at=NOW - timedelta(minutes=5),
    )  # fmt: skip
    lines = story(reader)
    assert "5 min ago Installed: False · Odd True · Odd after 15 min" in lines
    assert "20 min ago Installed: False · Odd first seen" in lines
    assert lines.count("first seen") == 1


def test_a_change_that_we_saw_late_stands_at_the_time_of_the_object(
    reader: Client, prod: Cluster
) -> None:
    began, seen = NOW - timedelta(hours=2, minutes=1), NOW - timedelta(minutes=5)
    row = make_operator(
        cluster=prod, health="Failed", reason="Odd", uid="u1", since=began,
        conditions=[condition(since=stamp(began))],
    )  # fmt: skip
    for kind, fine in (("Installed", "True"), ("Health", "Healthy")):
        bad = "False" if kind == "Installed" else "Failed"
        make_transition(
            subject=row, type=kind, from_status="Unknown", to_status=fine, uid="u1",
            at=NOW - timedelta(hours=5, minutes=1, seconds=30),
        )  # fmt: skip
        make_transition(
            subject=row, type=kind, from_status=fine, to_status=bad, to_reason="Odd", uid="u1",
            at=seen,
        )  # fmt: skip
    lines = story(reader)
    assert "2 h ago Healthy Failed Odd after 3 h observed 5 min ago" in lines
    assert "2 h ago Installed: True False · Odd after 3 h observed 5 min ago" in lines
    assert "first seen" not in lines


def test_an_object_of_the_same_name_does_not_speak_for_the_one_before(
    reader: Client, prod: Cluster
) -> None:
    row = make_seen(prod, condition())
    row.uid = "u9"
    row.save()
    assert "20 min ago Installed: False · Odd first seen" in story(reader)


def test_a_cluster_operators_conditions_do_so_too(reader: Client, prod: Cluster) -> None:
    row = ClusterOperator.objects.create(
        cluster=prod, kind="ClusterOperator", name="dns", conditions=[condition()]
    )
    make_transition(subject=row, type="Installed", to_status="False", to_reason="Odd", at=SEEN)
    text = assert_page(reader.get("/cluster-operators/prod/dns")).text
    assert "5 h ago Installed: False · Odd first seen 20 min ago" in text


# --- removed operators -------------------------------------------------------------------------

PAGE = "/operators/prod/PlatformOperator/-/etcd"


def make_removed(cluster: Cluster, **fields: Any) -> Operator:
    """An operator that failed and was deleted ten minutes ago."""
    row = make_seen(cluster, condition(), **fields)
    make_transition(subject=row, type="Health", to_status="Failed", to_reason="Odd", uid="u1",
                    at=SEEN)  # fmt: skip
    make_transition(subject=row, type="Object", from_status="present", to_status="deleted",
                    uid="u1", at=NOW - timedelta(minutes=10))  # fmt: skip
    Operator.objects.all().delete()
    return row


def test_a_removed_operator_keeps_its_page(client: Client, prod: Cluster, bob: Any) -> None:
    make_removed(prod)
    removal = make_action(
        prod, verb="remove", user=bob, object_uid="u1", state="succeeded", stored_steps=[]
    )
    client.force_login(bob)
    page = assert_page(client.get(PAGE))
    assert "Removed 10 min ago" in page.text
    assert "It was deleted by the action Remove etcd , which bob requested." in page.text
    assert f"/activity/actions/{removal.pk}" in page.links
    bob.username = "operator"  # of which a reader thinks otherwise of a role, or of software
    bob.save()
    page = assert_page(client.get(PAGE))
    assert "which account operator (role viewer) requested." in page.text
    page = assert_page(client.get(f"/activity/actions/{removal.pk}"))
    assert "Requested by account operator (role viewer)" in page.text
    page = assert_page(client.get(PAGE))
    last = page.text[page.text.index("Last known state") : page.text.index("Timeline")]
    assert "Failed Odd" in last
    assert "Installed False Odd" in last
    assert "Deleted" in page.text[page.text.index("Timeline") :]
    action = assert_page(client.get(f"/activity/actions/{removal.pk}"))
    assert PAGE in action.links
    changes = assert_page(client.get("/"))
    assert PAGE in changes.links


def test_a_removed_operator_is_shown_without_conditions_that_ended(
    reader: Client, prod: Cluster
) -> None:
    row = make_removed(prod)
    make_transition(subject=row, type="Installed", from_status="False", to_status="", uid="u1",
                    at=NOW - timedelta(minutes=15))  # fmt: skip
    page = assert_page(reader.get(PAGE))
    last = page.text[page.text.index("Last known state") : page.text.index("Timeline")]
    assert "Failed Odd" in last
    assert "Installed" not in last


def test_a_removed_subscription_lists_its_approvals_and_its_cleanup(
    reader: Client, prod: Cluster
) -> None:
    where = {"namespace": "apps", "state": "succeeded", "stored_steps": []}
    row = make_operator(cluster=prod, kind="Subscription", namespace="apps", uid="u1")
    make_transition(subject=row, type="Object", from_status="present", to_status="deleted",
                    uid="u1", at=NOW)  # fmt: skip
    name = row.name
    Operator.objects.all().delete()
    make_action(prod, name, path="Subscription", package="kettle", **where)
    plans = {"kettle": "install-own", "tea": "install-other"}
    for package, plan in plans.items():
        make_action(prod, plan, verb="approve", path="InstallPlan", package=package,
                    target=f"{package}.v1.2.0", **where)  # fmt: skip
    make_action(prod, "kettle", verb="clean-up", path="Subscription", **where)
    page = assert_page(reader.get(f"/operators/prod/Subscription/apps/{name}"))
    assert "Approve kettle 1.2.0 (InstallPlan install-own)" in page.text
    assert "Clean up kettle" in page.text
    assert "install-other" not in page.text


def test_actions_on_a_removed_operator_are_not_public(
    client: Client, prod: Cluster, bob: Any, settings: Any
) -> None:
    settings.PUBLIC_READ = True
    make_removed(prod)
    make_action(prod, verb="remove", user=bob, object_uid="u1", state="succeeded")
    text = assert_page(client.get(PAGE)).text
    assert "Removed 10 min ago" in text
    assert "bob" not in text


def test_a_removal_of_an_earlier_object_deleted_no_later_one(
    reader: Client, prod: Cluster, alice: Any
) -> None:
    make_removed(prod)
    make_action(prod, verb="remove", user=alice, object_uid="u0", state="succeeded")
    page = assert_page(reader.get(PAGE))
    assert "Its removal was not requested in OLM Web" in page.text
    assert "alice" in page.text, "it is listed with the actions"


def test_an_operator_that_was_created_again_is_shown_with_the_history_of_its_name(
    reader: Client, prod: Cluster
) -> None:
    make_removed(prod)
    make_operator(cluster=prod, uid="u2", health="Healthy", since=NOW)
    text = story(reader)
    assert "Deleted" in text
    assert "Failed" in text


def test_an_open_page_loads_that_of_the_removed_operator(reader: Client, prod: Cluster) -> None:
    make_removed(prod)
    poll = reader.get(PAGE, {"rev": "old"}, headers={"HX-Request": "true"})
    assert poll["HX-Refresh"] == "true"


@pytest.mark.parametrize("kind", ["PlatformOperator", "Pod"])
def test_what_never_was_an_operator_is_not_found(reader: Client, prod: Cluster, kind: str) -> None:
    row = make_component(operator=make_operator(cluster=prod), kind="Pod", name="never")
    make_transition(subject=row, type="Object", to_status="deleted")
    assert_page(reader.get(f"/operators/prod/{kind}/-/never"), 404)


def test_the_page_of_a_removed_operator_costs_at_most_twelve_queries(
    reader: Client, prod: Cluster, alice: Any, django_assert_max_num_queries: Any
) -> None:
    make_removed(prod)
    for _ in range(5):
        make_action(prod, verb="remove", user=alice, object_uid="u1", state="succeeded")
    with django_assert_max_num_queries(12):
        reader.get(PAGE)
