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
    told = story(reader)
    assert "5 h ago Installed: False · Odd first seen 20 min ago" in told
    assert told.index("between") < told.index("Installed: False"), "sorted by it, too"


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
    told = story(reader)
    assert "5 h ago Failed Odd first seen 20 min ago" in told
    assert "3 h ago Phase: Failed · Timeout first seen 20 min ago" in told


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
    told = story(reader)
    assert "5 min ago Installed: False · Odd True · Odd after 15 min" in told
    assert "20 min ago Installed: False · Odd first seen" in told
    assert told.count("first seen") == 1


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
