"""The overview's news: what changed, what waits for a person, what is in the way of updates."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from installs.models import Transition
from installs.queries import changes
from installs.queries.changes import (
    BAR_HEIGHT,
    DIRECTIONS,
    Trend,
    TrendDay,
    failure_history,
    recent,
    trend,
)
from olmweb.models import Cluster, SyncRun
from tests.factories import make_cluster, make_component, make_crd, make_operator, make_transition
from tests.worlds.html import assert_page
from tests.worlds.operators import make_clusteroperator, make_failing_world
from tests.worlds.subscriptions import make_orphan, make_pending_approval, make_subscription

pytestmark = pytest.mark.django_db


def change(cluster: Cluster, before: str, after: str, minutes: int = 5, **fields: Any) -> None:
    Transition.objects.create(
        cluster=cluster, from_status=before, to_status=after,
        at=timezone.now() - timedelta(minutes=minutes),
        **{"kind": "Subscription", "namespace": "apps", "name": f"{before}-{after}",
           "type": "Health", **fields},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("Healthy", "Failed", "failed"),
        ("Installing", "Blocked", "failed"),
        ("NeedsApproval", "Failed", "failed"),
        ("Failed", "Blocked", ""),
        ("Healthy", "NeedsApproval", ""),
        ("", "Failed", ""),
        ("Failed", "Healthy", "recovered"),
        ("Degraded", "Healthy", "recovered"),
        ("Installing", "Healthy", "installed"),
        ("Upgrading", "Healthy", "installed"),
        ("NeedsApproval", "Healthy", "installed"),
        ("", "Healthy", ""),
        ("Failed", "Installing", ""),
    ],
)
def test_a_change_of_health_has_one_direction_or_is_no_news(
    prod: Cluster, before: str, after: str, expected: str
) -> None:
    change(prod, before, after)
    found = {one.id: one.day for one in recent([prod]).directions}
    assert found == dict.fromkeys(DIRECTIONS, 0) | ({expected: 1} if expected else {})


def test_an_operator_that_is_gone_was_removed_and_a_component_was_not(prod: Cluster) -> None:
    change(prod, "present", "deleted", type="Object")
    change(prod, "present", "deleted", type="Object", kind="InstallPlan")
    change(prod, "", "appeared", type="Object")
    found = recent([prod])
    assert found.day("removed") == 1
    assert len(found.changes) == 2


@pytest.mark.revisions
def test_after_a_change_only_the_newest_transitions_are_read_again(
    prod: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(prod, "Healthy", "Failed", minutes=30, name="a")
    change(prod, "Healthy", "Failed", minutes=30, name="b")
    assert recent([prod]).failed == 2
    Transition.objects.filter(name="a").delete()  # a second read of it would count one less
    change(prod, "Healthy", "Blocked", minutes=0, name="c")
    change(prod, "", "Failed", minutes=0, name="d")
    prod.revision += 1
    assert recent([prod]).failed == 3
    assert sum(failure_history([prod]).failures.values()) == 4
    prod.revision += 1
    monkeypatch.setattr(changes, "READ_AGAIN", timedelta(0))
    assert recent([prod]).failed == 2


def test_only_a_cluster_service_version_with_a_health_of_its_own_is_an_operator(
    prod: Cluster,
) -> None:
    """That of a Subscription has no page, and is not removed a second time."""
    kind = "ClusterServiceVersion"
    for name in ("of-a-subscription.v1", "alone.v1"):
        change(prod, "", "appeared", type="Object", kind=kind, name=name)
        change(prod, "present", "deleted", type="Object", kind=kind, name=name)
    change(prod, "", "Healthy", kind=kind, name="alone.v1")
    latest = recent([prod])
    assert {row.name for row in latest.changes} == {"alone.v1"}
    assert latest.day("removed") == 1


def test_the_last_hour_and_the_last_day_are_counted_apart(reader: Client, prod: Cluster) -> None:
    make_subscription(prod)
    change(prod, "Healthy", "Failed", 10)
    change(prod, "Healthy", "Failed", 90)
    change(prod, "Failed", "Healthy", 600)
    change(prod, "Installing", "Healthy", 25 * 60)
    page = assert_page(reader.get("/"))
    assert "new failures 1 2 recovered 0 1 installed or upgraded 0 0" in page.text
    assert "2 new failures, 1 recovered" in page.text
    assert "/operators/prod/Subscription/apps/Healthy-Failed" in page.links
    assert "Hour until Failed Recovered Installed Removed" in page.text, "the table twin"


def test_what_was_only_first_seen_is_counted_apart(reader: Client, prod: Cluster) -> None:
    make_subscription(prod)
    change(prod, "", "Failed", 10)
    text = assert_page(reader.get("/")).text
    assert "0 new failures, 0 recovered, 2 discovered at first sync" not in text
    assert "0 new failures, 0 recovered, 1 discovered at first sync" in text


def test_removed_operators_that_failed_and_were_replaced_are_said(
    reader: Client, prod: Cluster
) -> None:
    now = timezone.now()
    for name, before in (("etcd", "Failed"), ("kafka", "Failed"), ("fine", "Healthy")):
        old = make_operator(cluster=prod, kind="PlatformOperator", name=name)
        make_transition(
            subject=old, type="Health", from_status="Installing", to_status=before,
            at=now - timedelta(days=3),
        )  # fmt: skip
        make_transition(
            subject=old, type="Object", from_status="present", to_status="deleted",
            at=now - timedelta(minutes=5),
        )  # fmt: skip
        old.delete()
    new = make_operator(cluster=prod, kind="Subscription", namespace="apps", name="etcd")
    make_transition(
        subject=new, type="Health", from_status="Installing", to_status="Healthy",
        at=now - timedelta(days=2),
    )  # fmt: skip
    text = assert_page(reader.get("/")).text
    assert "3 removed (2 of them failing, 1 replaced by a healthy operator)" in text


def test_an_operator_that_appears_after_the_first_sync_is_a_new_operator(
    reader: Client, prod: Cluster
) -> None:
    make_subscription(prod)
    change(prod, "", "Failed", 10, name="old")
    change(prod, "", "Installing", 5, name="new")
    change(prod, "", "appeared", 5, type="Object", name="new")
    text = assert_page(reader.get("/")).text
    assert "0 recovered, 1 operator added, 1 discovered at first sync" in text
    change(prod, "", "deleted", 1, type="Object", name="new")
    text = assert_page(reader.get("/")).text
    assert "0 recovered, 1 operator added, 1 removed, 1 discovered at first sync" in text


def test_bars_fill_their_box_and_stack(prod: Cluster) -> None:
    for number in range(30):
        change(prod, "Healthy", "Failed", 5, name=f"a{number}")
    change(prod, "Failed", "Healthy", 5)
    change(prod, "Failed", "Healthy", 200)
    hours = recent([prod]).hours
    assert len(hours) == 24
    failed, recovered = hours[-1].bars
    assert failed.y + failed.height == BAR_HEIGHT
    assert recovered.y + recovered.height == failed.y
    assert recovered.height >= 3, "seen however small its part"
    assert [bool(hour.bars) for hour in hours[-4:]] == [True, False, False, True]


def test_a_removed_operator_leads_to_its_history(reader: Client, prod: Cluster) -> None:
    make_subscription(prod)
    change(prod, "present", "deleted", type="Object", name="gone")
    page = assert_page(reader.get("/"))
    assert "gone Subscription in apps – Removed" in page.text
    assert "/operators/prod/Subscription/apps/gone" in page.links
    assert "Removed" in assert_page(reader.get("/operators/prod/Subscription/apps/gone")).text


def test_an_install_plan_waits_once_however_many_operators_it_moves(
    reader: Client, prod: Cluster
) -> None:
    make_pending_approval(prod)
    page = assert_page(reader.get("/"))
    assert "1 InstallPlan needs approval" in page.text
    assert "grafana to 1.1.0, loki openshift-operators" in page.text
    assert "1 upgrade available" in page.text
    found = assert_page(reader.get("/operators/?view=all&upgrade=yes"))
    assert "1 operator" in found.text
    assert "Upgrade available" in found.text


def test_an_upgrade_filter_that_is_none_is_refused(reader: Client, prod: Cluster) -> None:
    page = assert_page(reader.get("/operators/", {"upgrade": "maybe"}), 400)
    assert "upgrade=maybe is not possible" in page.text


def test_crds_that_will_block_an_upgrade_are_counted(reader: Client, prod: Cluster) -> None:
    make_orphan(prod)
    make_crd(cluster=prod)
    make_crd(
        cluster=prod, name="gadgets.example.com", finding="crd-stored-not-defined",
        owner_kind="Operator", owner_name="gadgets.tools",
    )  # fmt: skip
    page = assert_page(reader.get("/"))
    blocks = "block an upgrade of the operator that provides it: gadgets.example.com of gadgets"
    assert f"{blocks} " in page.text
    assert "/crds/?cluster=prod&q=gadgets.example.com" in page.links


def test_what_blocks_the_update_of_the_cluster_is_named(reader: Client, prod: Cluster) -> None:
    make_operator(cluster=prod)
    make_component(
        cluster=prod, kind="ClusterVersion", name="version",
        conditions=[
            {"type": "Upgradeable", "status": "False", "reason": "X", "message": "copied"},
            {"type": "ReleaseAccepted", "status": "False", "reason": "VerifyPayload",
             "message": "no signature"},
            {"type": "Failing", "status": "True", "reason": "Y", "message": "etcd is slow"},
        ],
        details={"version": "4.16.3", "desired": "4.16.9", "available": ["4.16.9", "4.17.1"]},
    )  # fmt: skip
    make_clusteroperator(
        prod, "olm", upgradeable="False", severity=1, reason="IncompatibleOperatorsInstalled",
        message="etcd is incompatible with OpenShift 4.17",
    )  # fmt: skip
    page = assert_page(reader.get("/"))
    assert "Blocked by ClusterOperator olm (IncompatibleOperatorsInstalled)" in page.text
    assert "ClusterVersion (VerifyPayload)" in page.text
    assert "next minor 4.17" in page.text
    assert "copied" not in page.text, "it repeats what the ClusterOperator says"
    assert "Updating from 4.16.3 to 4.16.9" in page.text
    assert "etcd is slow" in page.text
    assert "Available: 4.16.9, 4.17.1" in page.text


def test_a_cluster_version_alone_may_block(reader: Client, prod: Cluster) -> None:
    make_operator(cluster=prod)
    make_component(
        cluster=prod, kind="ClusterVersion", name="version", details={"available": 3},
        conditions=[{"type": "Upgradeable", "status": "False", "reason": "Overrides"}],
    )  # fmt: skip
    text = assert_page(reader.get("/")).text
    assert "Blocked by ClusterVersion (Overrides)" in text
    assert "The cluster’s update channel offers no update" in text


def test_an_update_that_nothing_blocks_says_so(reader: Client, prod: Cluster) -> None:
    make_operator(cluster=prod)
    make_component(cluster=prod, kind="ClusterVersion", name="version")
    assert (
        "The cluster reports no condition that blocks an update"
        in assert_page(reader.get("/")).text
    )


def test_a_failing_cluster_that_nothing_blocks_says_what_the_failure_means(
    reader: Client, prod: Cluster
) -> None:
    make_operator(cluster=prod, health="Failed")
    make_component(
        cluster=prod, kind="ClusterVersion", name="version",
        conditions=[{"type": "Failing", "status": "True", "message": "etcd is not available"}],
    )  # fmt: skip
    response = reader.get("/")
    text = assert_page(response).text
    refusal = "oc adm upgrade needs --allow-upgrade-with-warnings"
    assert f"etcd is not available · Until then {refusal}." in text
    assert "Not blocked" in text
    assert "no condition that blocks an update" not in text
    assert "not upgradeable; none does." in text
    card = response.content.decode().partition('aria-label="Cluster update"')[2]
    card = card.partition("</section>")[0]
    assert "pf-m-success" not in card
    assert "pf-m-danger" not in card


@pytest.mark.revisions
def test_the_fullest_overview_costs_at_most_twelve_queries(
    reader: Client, django_assert_max_num_queries: Any
) -> None:
    for name in ("a", "b", "c"):
        cluster = make_cluster(name=name)
        make_failing_world(cluster)
        make_pending_approval(cluster)
        make_crd(cluster=cluster, finding="crd-stored-not-defined")
        version = make_component(cluster=cluster, kind="ClusterVersion", name="version")
        make_transition(subject=version, type="Upgradeable", to_status="False")
    for address, most in (("/", 7), ("/?cluster=a", 10)):
        reader.get(address)
        with django_assert_max_num_queries(most):
            reader.get(address)


# --- failing operators by day ---------------------------------------------------------------------


def sync_first(cluster: Cluster, days: int) -> None:
    at = timezone.now() - timedelta(days=days)
    SyncRun.objects.create(
        kind="cluster", target=cluster.name, cluster=cluster, outcome="changed", started_at=at
    )
    SyncRun.objects.create(
        kind="cluster", target=cluster.name, cluster=cluster, outcome="failed",
        started_at=at - timedelta(days=5),
    )  # fmt: skip


def counts_of(*clusters: Cluster, failing: int) -> list[int | None]:
    """The counts of the last ten days, the newest first."""
    days = trend(failing, failure_history(clusters)).days
    assert len(days) == 30
    return [day.count for day in reversed(days)][:10]


def test_failing_operators_are_counted_back_from_now_by_day(prod: Cluster) -> None:
    sync_first(prod, 9)
    day = 24 * 60
    change(prod, "Healthy", "Failed", 2 * day, name="a")
    change(prod, "Failed", "Blocked", 1 * day, name="a")  # still failing
    change(prod, "Degraded", "Degraded", 3 * day, name="b")  # only its reason changed
    change(prod, "Degraded", "Healthy", 4 * day, name="b")
    change(prod, "", "Failed", 6 * day, name="c")
    change(prod, "Healthy", "NeedsApproval", 1 * day, name="d")
    change(prod, "Healthy", "Failed", 3 * day, name="x", kind="InstallPlan")
    assert counts_of(prod, failing=2) == [2, 2, 2, 1, 1, 2, 2, 1, 1, 1]


def test_days_before_the_first_sync_are_unknown_and_not_zero(prod: Cluster) -> None:
    assert counts_of(prod, failing=3) == [3, *[None] * 9], "never synced"
    sync_first(prod, 2)
    change(prod, "", "Failed", 2 * 24 * 60)
    assert counts_of(prod, failing=1) == [1, 1, 1, *[None] * 7]
    late = make_cluster(name="late")
    sync_first(late, 1)
    assert counts_of(prod, late, failing=1) == [1, 1, *[None] * 8]


def test_an_operator_that_was_deleted_failed_until_then(prod: Cluster) -> None:
    sync_first(prod, 40)
    day = 24 * 60
    change(prod, "Healthy", "Failed", 35 * day, name="a")
    change(prod, "present", "deleted", 2 * day, name="a", type="Object")
    change(prod, "", "Healthy", 35 * day, name="b")
    change(prod, "present", "deleted", 2 * day, name="b", type="Object")
    assert counts_of(prod, failing=0) == [0, 0, 0, *[1] * 7]


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (None, "3 failed, degraded or blocked now"),
        (3, "3 failed, degraded or blocked now, as many as 7 days ago"),
        (1, "3 failed, degraded or blocked now, 2 more than 7 days ago"),
        (4, "3 failed, degraded or blocked now, 1 fewer than 7 days ago"),
    ],
)
def test_the_figures_are_in_words(before: int | None, words: str) -> None:
    days = [TrendDay(timezone.localdate(), before, 0)] * 29
    assert Trend((*days, TrendDay(timezone.localdate(), 3, 0))).sentence == words


def test_the_overview_has_the_trend_as_picture_table_and_sentence(
    reader: Client, prod: Cluster
) -> None:
    make_operator(cluster=prod, health="Failed")
    sync_first(prod, 3)
    page = assert_page(reader.get("/"))
    today = timezone.localdate()
    since = f"{today - timedelta(days=3):%-d %b}"
    assert f"1 failed, degraded or blocked now (recorded since {since})" in page.text
    assert page.text.count("not recorded") == 27, "26 days of the table, and the picture"
    assert f"{today:%Y-%m-%d} 1" in page.text
    assert 'role="img" aria-label="Operators failed' in " ".join(
        reader.get("/").content.decode().split()
    )
