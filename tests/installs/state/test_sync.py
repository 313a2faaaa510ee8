"""Passes over a cluster that answers: rows, links, diagnosis, history, and writing nothing."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from installs.models import (
    ClusterOperator,
    ClusterOperatorMember,
    Component,
    Operator,
    Transition,
)
from installs.state import assess
from installs.state.full_sync import sync_cluster
from installs.state.resources import WATCHED_RESOURCES
from olmweb.kube.resources import (
    BUNDLE_DEPLOYMENTS,
    BUNDLES,
    CLUSTER_CATALOGS,
    CLUSTER_VERSIONS,
    CONSOLES,
    PLATFORM_OPERATORS,
)
from olmweb.models import Cluster, ResourceWatch, SyncRun
from tests.factories import make_bundle, make_catalog, make_package
from tests.kubefake import KubeFake
from tests.worlds import cluster as world
from tests.worlds.cluster import condition

pytestmark = pytest.mark.usefixtures("recorded")


def writes_of(queries: CaptureQueriesContext) -> list[str]:
    verbs = ("INSERT", "UPDATE", "DELETE")
    return [q["sql"] for q in queries.captured_queries if q["sql"].startswith(verbs)]


def history_of(name: str, type_: str = "") -> list[tuple[str, ...]]:
    rows = Transition.objects.filter(name=name).order_by("id")
    if type_:
        rows = rows.filter(type=type_)
    return [
        (row.kind, row.type, row.from_status, row.from_reason, row.to_status, row.to_reason)
        for row in rows
    ]


def test_a_first_pass_keeps_every_object_with_what_pages_show(
    fake: KubeFake, cluster: Cluster
) -> None:
    world.fill(fake)
    report = sync_cluster(cluster)
    assert (report.outcome, report.error) == ("changed", "")
    assert report.kinds["PlatformOperator"] == {"objects": 3, "written": 3, "deleted": 0}
    assert report.requests == len(fake.requests) == 42
    bad = Operator.objects.get(name="bad")
    assert (bad.package, bad.catalog) == ("bad", "redhat-operators")
    assert bad.bundle == "quay.io/x/bad@sha256:1"
    assert (bad.health, bad.reason) == ("Failed", "UnpackFailed")
    assert bad.finding
    assert "AllNamespace install mode" in bad.message
    assert (bad.broken_kind, bad.broken_name) == ("Bundle", "bad-7d4c")
    assert bad.since == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert {part.kind for part in bad.components.all()} == {"BundleDeployment", "Bundle"}
    ext = Operator.objects.get(name="ext")
    assert (ext.package, ext.catalog, ext.channel) == ("ext-package", "community", "stable, beta")
    assert (ext.version_asked, ext.version, ext.bundle) == (">=1.0.0", "1.2.3", "ext.v1.2.3")
    assert ext.health == "Healthy"
    assert Component.objects.get(kind="Bundle").phase == "Failing"
    cluster.refresh_from_db()
    assert (cluster.reachable, cluster.version, cluster.server) == (True, "4.12.7", fake.url)
    assert cluster.kinds["ClusterExtension"]["state"] == "served"
    assert cluster.kinds["BundleDeployment"]["version"] == "v1alpha2"
    assert cluster.revision == 1
    run = SyncRun.objects.get()
    assert (run.outcome, run.target, run.counts["requests"]) == ("changed", "prod", 42)


def test_an_unchanged_pass_writes_only_the_cluster_row(fake: KubeFake, cluster: Cluster) -> None:
    world.fill(fake)
    sync_cluster(cluster)
    before = cluster.synced_at
    with CaptureQueriesContext(
        connection,
    ) as queries:
        report = sync_cluster(cluster)
    assert report.outcome == "unchanged"
    streams, row = writes_of(queries)
    assert streams.startswith('INSERT INTO "olmweb_resourcewatch"')
    assert row.startswith('UPDATE "olmweb_cluster"')
    assert ResourceWatch.objects.count() == len(WATCHED_RESOURCES)
    assert set(ResourceWatch.objects.values_list("lists", flat=True)) == {2}
    assert cluster.synced_at != before
    assert cluster.revision == 1
    assert SyncRun.objects.count() == 1


def test_a_new_resource_version_alone_writes_nothing(fake: KubeFake, cluster: Cluster) -> None:
    world.put_installed(fake, "good")
    sync_cluster(cluster)
    world.put_platform_operator(
        fake,
        "good",
        condition("Installed", "True", "InstallSuccessful", "Successfully applied"),
        uid=Operator.objects.get().uid,
        annotations={"touched": "1"},
    )
    assert sync_cluster(cluster).outcome == "unchanged"


def test_queries_of_an_unchanged_pass_do_not_grow_with_the_objects(
    fake: KubeFake, cluster: Cluster
) -> None:
    world.fill(fake)
    sync_cluster(cluster)
    with CaptureQueriesContext(connection) as few:
        sync_cluster(cluster)
    for number in range(30):
        world.put_failed(fake, f"more-{number}")
    sync_cluster(cluster)
    with CaptureQueriesContext(connection) as many:
        sync_cluster(cluster)
    assert len(many) == len(few) <= 18


def test_first_sight_records_conditions_and_health_but_no_appearance(
    fake: KubeFake, cluster: Cluster
) -> None:
    world.put_failed(fake, "bad")
    sync_cluster(cluster)
    assert history_of("bad") == [
        ("BundleDeployment", "HasValidBundle", "", "", "False", "UnpackFailed"),
        ("PlatformOperator", "Installed", "", "", "False", "UnpackFailed"),
        ("PlatformOperator", "Health", "", "", "Failed", "UnpackFailed"),
    ]


def test_an_object_that_comes_later_appears(fake: KubeFake, cluster: Cluster) -> None:
    sync_cluster(cluster)
    world.put_platform_operator(fake, "late")
    sync_cluster(cluster)
    assert ("PlatformOperator", "Object", "", "", "appeared", "") in history_of("late")
    assert Operator.objects.get().health == "Installing"


def test_a_change_of_the_reason_alone_is_recorded_and_restarts_since(
    fake: KubeFake, cluster: Cluster
) -> None:
    world.put_failed(fake, "bad", "UnpackFailed")
    sync_cluster(cluster)
    began = Operator.objects.get().since
    assert began is not None
    world.put_platform_operator(
        fake,
        "bad",
        condition("Installed", "False", "InstallFailed", "something else"),
        uid=Operator.objects.get().uid,
    )
    sync_cluster(cluster)
    row = Operator.objects.get()
    assert row.reason == "InstallFailed"
    assert row.since is not None
    assert row.since > began
    assert history_of("bad", "Installed")[-1][2:] == (
        "False",
        "UnpackFailed",
        "False",
        "InstallFailed",
    )
    assert history_of("bad", "Health")[-1][2:] == (
        "Failed",
        "UnpackFailed",
        "Failed",
        "InstallFailed",
    )


@pytest.mark.parametrize(
    ("transition", "since"),
    [
        ("2026-01-02T05:00:00Z", datetime(2026, 1, 2, 5, tzinfo=UTC)),
        ("2026-01-02T02:00:00Z", None),  # before the health that it replaced
        ("2036-01-02T05:00:00Z", None),  # a clock that differs
    ],
)
def test_a_change_that_is_observed_late_began_when_its_condition_changed(
    fake: KubeFake, cluster: Cluster, transition: str, since: datetime | None
) -> None:
    world.put_failed(fake, "bad", "UnpackFailed")
    sync_cluster(cluster)
    begun, uid = timezone.now(), Operator.objects.get().uid
    failed = condition("Installed", "False", "InstallFailed", "something else")
    later = {**failed, "lastTransitionTime": transition}
    world.put_platform_operator(fake, "bad", later, uid=uid)
    sync_cluster(cluster)
    row = Operator.objects.get()
    assert row.since is not None
    assert row.since == since or (since is None and begun <= row.since <= timezone.now())
    assert Transition.objects.filter(name="bad", type="Health").latest("id").at >= begun


def test_a_message_that_changes_is_kept_without_a_transition(
    fake: KubeFake, cluster: Cluster
) -> None:
    installed = condition("Installed", "False", "InstallFailed", "first text")
    world.put_platform_operator(fake, "bad", installed, uid="same")
    sync_cluster(cluster)
    count, since = Transition.objects.count(), Operator.objects.get().since
    installed["message"] = "second text"
    assert sync_cluster(cluster).outcome == "changed"
    row = Operator.objects.get()
    assert (row.message, row.since) == ("second text", since)
    assert Transition.objects.count() == count


def test_a_condition_that_goes_leaves_a_transition(fake: KubeFake, cluster: Cluster) -> None:
    world.put_cluster_operator(fake, "dns", condition("Degraded", "True", "Oops"))
    sync_cluster(cluster)
    fake._objects["config.openshift.io", "clusteroperators"]["dns"]["status"]["conditions"] = []
    sync_cluster(cluster)
    assert history_of("dns")[-1] == ("ClusterOperator", "Degraded", "True", "Oops", "", "")


def test_a_failing_component_changes_the_health_of_an_unchanged_operator(
    fake: KubeFake, cluster: Cluster
) -> None:
    world.put_installed(fake, "good")
    sync_cluster(cluster)
    world.put_bundle_deployment(fake, "good", condition("Installed", "False", "UpgradeFailed"))
    report = sync_cluster(cluster)
    assert report.kinds["PlatformOperator"]["written"] == 0
    assert Operator.objects.get().health == "Degraded"
    world.put_installed(fake, "good")
    sync_cluster(cluster)
    assert Operator.objects.get().health == "Healthy"


def test_the_health_is_assessed_anew_when_a_component_is_deleted(
    fake: KubeFake, cluster: Cluster
) -> None:
    world.put_installed(fake, "good")
    world.put_bundle_deployment(fake, "good", condition("Installed", "False", "UpgradeFailed"))
    sync_cluster(cluster)
    assert Operator.objects.get().health == "Degraded"
    fake.remove(BUNDLE_DEPLOYMENTS, "good")
    sync_cluster(cluster)
    assert Operator.objects.get().health == "Healthy"


def test_deleted_objects_lose_their_rows_and_leave_history(
    fake: KubeFake, cluster: Cluster
) -> None:
    world.fill(fake)
    sync_cluster(cluster)
    fake.remove(PLATFORM_OPERATORS, "bad")
    fake.remove(BUNDLES, "bad-7d4c")
    report = sync_cluster(cluster)
    assert report.kinds["PlatformOperator"]["deleted"] == 1
    assert set(Operator.objects.values_list("name", flat=True)) == {"good", "fine", "ext"}
    assert Component.objects.get(name="bad").operator is None
    assert ("PlatformOperator", "Object", "present", "", "deleted", "") in history_of("bad")
    assert ("Bundle", "Object", "present", "", "deleted", "") in history_of("bad-7d4c")


def test_another_object_of_the_same_name_is_a_new_one(fake: KubeFake, cluster: Cluster) -> None:
    world.put_failed(fake, "bad")
    sync_cluster(cluster)
    fake.remove(PLATFORM_OPERATORS, "bad")
    world.put_platform_operator(fake, "bad")
    sync_cluster(cluster)
    steps = [row[1:2] + row[4:] for row in history_of("bad") if row[0] == "PlatformOperator"]
    assert steps[2:4] == [("Object", "deleted", ""), ("Object", "appeared", "")]
    assert steps[4][0] == "Health"
    assert Operator.objects.count() == 1


def test_version_and_bundle_come_from_a_catalog_that_has_the_image(
    fake: KubeFake, cluster: Cluster
) -> None:
    world.put_installed(fake, "good")
    sync_cluster(cluster)
    catalog = make_catalog(cluster=cluster)
    package = make_package(catalog=catalog, name="good")
    make_bundle(
        package=package, name="good.v2.0.0", version="2.0.0", image="quay.io/x/good@sha256:1"
    )
    assert sync_cluster(cluster).outcome == "changed"
    row = Operator.objects.get()
    assert (row.bundle, row.version) == ("good.v2.0.0", "2.0.0")
    assert sync_cluster(cluster).outcome == "unchanged"


def test_cluster_operators_have_their_columns_and_the_worst_condition(
    fake: KubeFake, cluster: Cluster
) -> None:
    up = condition("Available", "True", "AsExpected", "fine")
    world.put_cluster_operator(fake, "a-fine", up, condition("Progressing", "False"))
    world.put_cluster_operator(fake, "b-moving", up, condition("Progressing", "True", "Rolling"))
    world.put_cluster_operator(fake, "c-degraded", up, condition("Degraded", "True", "Sick", "ill"))
    world.put_cluster_operator(
        fake,
        "d-down",
        condition("Degraded", "True", "Sick"),
        condition("Available", "False", "Down", "not there"),
    )
    world.put_cluster_operator(fake, "e-held", up, condition("Upgradeable", "False", "Held"))
    world.put_cluster_operator(fake, "f-silent")
    sync_cluster(cluster)
    rows = {row.name: row for row in ClusterOperator.objects.all()}
    assert [(rows[n].severity, rows[n].reason) for n in sorted(rows)] == [
        (0, "AsExpected"),
        (1, "Rolling"),
        (2, "Sick"),
        (3, "Down"),
        (1, "Held"),
        (1, ""),
    ]
    down = rows["d-down"]
    assert (down.available, down.degraded, down.progressing) == ("False", "True", "Unknown")
    assert (down.message, down.version) == ("not there", "4.12.0")


def test_members_of_the_aggregated_operator_are_joined_with_their_rows(
    fake: KubeFake, cluster: Cluster
) -> None:
    world.fill(fake)
    sync_cluster(cluster)
    row = ClusterOperator.objects.get(aggregated=True)
    assert (row.severity, row.problem) == (3, "")
    member = row.members.get()
    assert (member.name, member.reason) == ("bad", "UnpackFailed")
    assert member.operator == Operator.objects.get(name="bad")


def test_a_message_that_disagrees_with_the_objects_is_a_problem_until_it_agrees(
    fake: KubeFake, cluster: Cluster
) -> None:
    world.fill(fake)
    sync_cluster(cluster)
    world.put_installed(fake, "bad")
    assert sync_cluster(cluster).kinds["ClusterOperator"]["written"] == 1
    assert "disagree" in ClusterOperator.objects.get(aggregated=True).problem
    world.put_aggregated(fake)
    sync_cluster(cluster)
    row = ClusterOperator.objects.get(aggregated=True)
    assert (row.problem, row.members.count(), row.available) == ("", 0, "True")


def test_a_member_that_gets_its_operator_later_is_joined_then(
    fake: KubeFake, cluster: Cluster
) -> None:
    world.put_aggregated(fake, ("ghost", "SourceFailed"), ("bad", "UnpackFailed"))
    sync_cluster(cluster)
    assert set(ClusterOperatorMember.objects.values_list("operator", flat=True)) == {None}
    world.put_failed(fake, "bad")
    sync_cluster(cluster)
    joined = ClusterOperatorMember.objects.exclude(operator=None).get()
    assert joined.operator == Operator.objects.get(name="bad")


def test_cluster_catalogs_are_handed_on_and_count_as_a_change(
    fake: KubeFake, cluster: Cluster, recorded: list[list[dict[str, Any]]]
) -> None:
    fake.put(CLUSTER_CATALOGS, {"metadata": {"name": "community"}})
    assert sync_cluster(cluster).kinds["ClusterCatalog"]["written"] == 1
    assert sync_cluster(cluster).outcome == "unchanged"
    assert [[item["metadata"]["name"] for item in one] for one in recorded] == [["community"]] * 2


def test_catalogs_are_not_touched_when_their_kind_can_not_be_read(
    fake: KubeFake, cluster: Cluster, recorded: list[list[dict[str, Any]]]
) -> None:
    from tests.kubefake import status_answer

    path = "/apis/olm.operatorframework.io/v1/clustercatalogs"
    fake.script("GET", path, status_answer(403, "forbidden"))
    sync_cluster(cluster)
    assert recorded == []
    fake.hide(CLUSTER_CATALOGS)
    sync_cluster(cluster)
    assert recorded == [[]]


def test_the_servers_version_stands_in_for_a_missing_cluster_version(
    fake: KubeFake, cluster: Cluster
) -> None:
    fake.hide(CLUSTER_VERSIONS)
    sync_cluster(cluster)
    assert cluster.version == "v1.25.4"
    assert cluster.kinds["ClusterVersion"]["state"] == "absent"


def test_new_rules_diagnose_anew(
    fake: KubeFake, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put_failed(fake, "bad")
    sync_cluster(cluster)
    Operator.objects.update(finding="old-id")
    sync_cluster(cluster)
    assert Operator.objects.get().finding == "old-id"
    assert len(assess.rules_version()) == 64
    monkeypatch.setattr("installs.state.assess.rules_version", lambda: "newer")
    sync_cluster(cluster)
    assert Operator.objects.get().finding != "old-id"


def test_odd_objects_are_kept_as_far_as_they_can_be_read(fake: KubeFake, cluster: Cluster) -> None:
    fake.put(PLATFORM_OPERATORS, {"metadata": {"name": "odd"}, "spec": [], "status": 7})
    fake.put(
        BUNDLE_DEPLOYMENTS,
        {"metadata": {"name": "odd", "ownerReferences": {"a": 1}}, "spec": {"source": None}},
    )
    fake.put(
        PLATFORM_OPERATORS,
        {
            "metadata": {"name": "nul", "generation": "x", "creationTimestamp": "yesterday"},
            "spec": {"package": {"name": "nul\x00" + "x" * 300}},
            "status": {"conditions": [{"type": "Installed", "status": "False", "reason": 5}, 3]},
        },
    )
    assert sync_cluster(cluster).outcome == "changed"
    nul = Operator.objects.get(name="nul")
    assert "\x00" not in nul.package
    assert len(nul.package) == 253
    assert nul.generation == 0
    assert sync_cluster(cluster).outcome == "unchanged"


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_moment_that_utc_can_not_say_counts_as_absent(
    fake: KubeFake, cluster: Cluster, time: str
) -> None:
    failed = condition("Installed", "False", "UnpackFailed", "m")
    world.put_platform_operator(
        fake, "odd", {**failed, "lastTransitionTime": time}, creationTimestamp=time
    )
    assert sync_cluster(cluster).outcome == "changed"
    odd = Operator.objects.get(name="odd")
    assert odd.created_at is None
    assert odd.since is not None


def test_texts_of_any_length_fit_their_columns(fake: KubeFake, cluster: Cluster) -> None:
    long = "x\0" + "y" * 40_000
    fake.version = long
    odd = condition(long, long, long, long)
    item = f'encountered the failing {"n" * 253} platform operator with reason "{"r" * 1024}"'
    world.put_platform_operator(fake, "odd", {**odd, "type": "Installed"}, odd, uid=long)
    world.put_bundle_deployment(fake, "odd", {**odd, "type": "HasValidBundle"}, odd)
    world.put_cluster_operator(
        fake, "platform-operators-aggregated", condition("Available", "False", long, item), odd
    )
    report = sync_cluster(cluster)
    assert (report.outcome, report.error) == ("changed", "")
    assert sync_cluster(cluster).outcome == "unchanged"
    world.put_platform_operator(fake, "odd", {**odd, "type": "Installed", "reason": "z" * 2000})
    assert sync_cluster(cluster).outcome == "changed"


def test_a_list_that_expires_half_way_keeps_no_ghosts(fake: KubeFake, cluster: Cluster) -> None:
    from tests.kubefake import Answer, status_answer

    world.put_installed(fake, "good")
    ghost = {"metadata": {"name": "ghost"}}
    path = "/apis/platform.openshift.io/v1alpha1/platformoperators"
    first = Answer(200, {"metadata": {"continue": "x"}, "items": [ghost]})
    fake.script("GET", path, first, status_answer(410, "expired", "Expired"))
    sync_cluster(cluster)
    assert list(Operator.objects.values_list("name", flat=True)) == ["good"]


def put_console(fake: KubeFake, address: object) -> None:
    fake.put(CONSOLES, {"metadata": {"name": "cluster"}, "status": {"consoleURL": address}})


@pytest.mark.parametrize(
    ("reported", "stored"),
    [
        ("https://console.example.com", "https://console.example.com"),
        ("https://console.example.com/", "https://console.example.com"),
        ("http://console.example.com", ""),
        ("javascript:alert(1)//https://x", ""),
        ("https://user@console.example.com", ""),
        ('https://console.example.com/"onclick="', ""),
        (7, ""),
    ],
)
def test_the_address_of_the_console_is_that_of_the_cluster_if_it_is_https(
    fake: KubeFake, cluster: Cluster, reported: object, stored: str
) -> None:
    put_console(fake, reported)
    sync_cluster(cluster)
    assert cluster.console == stored


def test_a_cluster_without_consoles_has_no_address_and_no_error(
    fake: KubeFake, cluster: Cluster
) -> None:
    put_console(fake, "https://console.example.com")
    sync_cluster(cluster)
    fake.hide(CONSOLES)
    assert sync_cluster(cluster).outcome == "changed"
    assert cluster.console == ""
    assert (cluster.kinds["Console"]["state"], cluster.error_code) == ("absent", "")


def test_the_address_of_the_console_stays_while_it_can_not_be_read(
    fake: KubeFake, cluster: Cluster
) -> None:
    from tests.kubefake import status_answer

    put_console(fake, "https://console.example.com")
    sync_cluster(cluster)
    path = "/apis/config.openshift.io/v1/consoles"
    fake.script("GET", path, status_answer(403, "forbidden"))
    sync_cluster(cluster)
    assert cluster.kinds["Console"]["state"] == "forbidden"
    assert cluster.console == "https://console.example.com"
