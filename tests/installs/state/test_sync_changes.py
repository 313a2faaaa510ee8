"""Changes and partial readings: positions, the lock, what they cost, what they leave alone."""

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalogs.models import Catalog
from installs.models import (
    ClusterOperator,
    ClusterOperatorMember,
    Component,
    Event,
    Operator,
    Transition,
)
from installs.state.assess import assess
from installs.state.decode import DECODERS
from installs.state.listing import ABSENT, FORBIDDEN, SERVED, ResourceList, Snapshot, list_resources
from installs.state.resources import (
    BY_NAME,
    WATCHED_RESOURCES,
    Change,
    Position,
    decode,
    resources_of_kinds,
    served_by,
)
from installs.state.write import apply_changes, write_snapshot
from olmweb.clusters import client_for
from olmweb.kube.client import Discovery
from olmweb.kube.errors import Broken
from olmweb.kube.resources import (
    ALL,
    CLUSTER_SERVICE_VERSIONS,
    DEPLOYMENTS,
    PLATFORM_OPERATORS,
    Served,
)
from olmweb.models import Cluster, ResourceWatch
from tests.factories import make_catalog, make_package
from tests.kubefake import KubeFake, status_answer
from tests.worlds import cluster as world
from tests.worlds import cluster_v0 as v0

pytestmark = pytest.mark.usefixtures("recorded")

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def watched(fake: KubeFake, cluster: Cluster) -> Cluster:
    """A cluster that was listed once, empty."""
    with client_for(cluster) as client:
        write_snapshot(cluster, list_resources(client))
    return cluster


def change(feed: str, obj: dict[str, Any], version: int, *, gone: bool = False) -> Change:
    meta = obj["metadata"]
    meta.setdefault("uid", f"uid of {meta['name']}")
    meta["resourceVersion"] = str(version)
    kept = decode(BY_NAME[feed], obj)
    assert kept is not None
    return Change(feed, gone, kept)


def platform(name: str, reason: str, version: int) -> Change:
    status = "True" if reason == "InstallSuccessful" else "False"
    obj = {
        "metadata": {"name": name},
        "spec": {"package": {"name": name}},
        "status": {"conditions": [world.condition("Installed", status, reason)]},
    }
    return change("PlatformOperator", obj, version)


def installed(count: int, start: int = 1000) -> list[Change]:
    """Subscriptions in namespaces of their own, with a CSV and a Deployment each."""
    changes = []
    for number in range(count):
        namespace = f"ns-{number}"
        objects = {
            "Subscription": v0.subscription(currentCSV="etcd.v1.0.0", installedCSV="etcd.v1.0.0"),
            "ClusterServiceVersion": v0.csv(),
            "Deployment (olm.owner)": v0.deployment(),
            "OperatorGroup": v0.operator_group(),
        }
        for feed, obj in objects.items():
            obj["metadata"] |= {"namespace": namespace, "uid": f"{feed} {number}"}
            labels = obj["metadata"].get("labels", {})
            labels |= {"olm.owner.namespace": namespace} if "olm.owner" in labels else {}
            start += 1
            changes.append(change(feed, obj, start))
    return changes


def failing(count: int, start: int, phase: str = "Failed") -> list[Change]:
    changes = []
    for number in range(count):
        obj = v0.csv(phase=phase, reason="InstallCheckFailed", message="install timeout")
        uid = f"ClusterServiceVersion {number}"
        obj["metadata"] |= {"namespace": f"ns-{number}", "uid": uid}
        changes.append(change("ClusterServiceVersion", obj, start + number))
    return changes


def queries_of(cluster: Cluster, changes: Sequence[Change]) -> int:
    with CaptureQueriesContext(connection) as queries:
        apply_changes(cluster, changes, {})
    return len(queries)


def test_changes_become_rows_history_and_a_new_revision(watched: Cluster) -> None:
    revision = watched.revision
    written = apply_changes(watched, [platform("good", "UnpackFailed", 1000)], {})
    assert (written.written["PlatformOperator"], written.changed) == (1, True)
    row = Operator.objects.get()
    assert (row.health, row.resource_version) == ("Failed", "1000")
    assert Transition.objects.filter(to_status="appeared").count() == 1
    watched.refresh_from_db()
    assert watched.revision == revision + 1


def test_the_same_change_twice_writes_nothing_the_second_time(watched: Cluster) -> None:
    told = [platform("good", "UnpackFailed", 1000)]
    apply_changes(watched, told, {})
    count = Transition.objects.count()
    written = apply_changes(watched, told, {})
    assert (written.total, written.changed) == (0, False)
    assert Transition.objects.count() == count


def test_positions_are_saved_with_the_rows_and_never_go_back(watched: Cluster) -> None:
    apply_changes(watched, [], {"PlatformOperator": Position("1500", NOW)})
    row = ResourceWatch.objects.get(resource="PlatformOperator")
    assert (row.resource_version, row.last_event_at) == ("1500", NOW)
    assert (row.lists, row.state) == (1, "listed")
    apply_changes(watched, [], {"PlatformOperator": Position("1400", NOW)})
    assert ResourceWatch.objects.get(resource="PlatformOperator").resource_version == "1500"
    apply_changes(watched, [platform("late", "UnpackFailed", 1400)], {})
    assert not Operator.objects.exists()


def test_a_version_that_moves_alone_is_kept_only_where_no_position_vouches_for_it(
    watched: Cluster,
) -> None:
    apply_changes(watched, [platform("good", "UnpackFailed", 1000)], {})
    vouched = {"PlatformOperator": Position("1010", NOW)}
    apply_changes(watched, [platform("good", "UnpackFailed", 1010)], vouched)
    assert Operator.objects.get().resource_version == "1000"
    assert apply_changes(watched, [platform("good", "UnpackFailed", 1020)], {}).total == 0
    assert Operator.objects.get().resource_version == "1020"


def test_a_failed_write_saves_neither_rows_nor_positions(
    watched: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ResourceWatch.objects.get(resource="PlatformOperator").resource_version

    def die(*_: Any, **__: Any) -> None:
        raise MemoryError("killed")

    monkeypatch.setattr("installs.state.write.assess", die)
    with pytest.raises(MemoryError):
        apply_changes(
            watched,
            [platform("good", "UnpackFailed", 1000)],
            {"PlatformOperator": Position("1000", NOW)},
        )
    assert not Operator.objects.exists()
    assert ResourceWatch.objects.get(resource="PlatformOperator").resource_version == before


def test_a_write_locks_the_row_of_its_cluster_first(watched: Cluster) -> None:
    with CaptureQueriesContext(connection) as queries:
        apply_changes(watched, [platform("good", "UnpackFailed", 1000)], {})
    told = [query["sql"] for query in queries.captured_queries]
    first = next(sql for sql in told if not sql.startswith(("BEGIN", "SAVEPOINT")))
    assert '"olmweb_cluster"' in first
    # Not its key, or a commit of rows that refer to the cluster would wait.
    assert not connection.features.has_select_for_update or "FOR NO KEY UPDATE" in first


@pytest.mark.django_db(transaction=True)
def test_two_writers_of_one_change_record_it_once(watched: Cluster) -> None:
    changes = [platform(f"op-{number}", "UnpackFailed", 1000 + number) for number in range(20)]
    at_once(lambda: apply_changes(watched, changes, {}), 3)
    told = Transition.objects.filter(kind="PlatformOperator")
    assert Operator.objects.count() == 20
    assert sorted(told.values_list("type", flat=True)) == sorted(
        ["Object", "Installed", "Health"] * 20
    )


def at_once(job: Callable[[], Any], times: int) -> None:
    """Runs the job in threads; one after another where the database has one writer anyway."""
    if connection.vendor == "sqlite":
        for _ in range(times):
            job()
        return

    def run() -> None:
        try:
            job()
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_queries_grow_neither_with_the_cluster_nor_with_the_batch(watched: Cluster) -> None:
    apply_changes(watched, installed(20), {})
    few = queries_of(watched, failing(3, 5000))
    apply_changes(watched, failing(3, 6000, "Succeeded"), {})
    apply_changes(watched, installed(80, start=10_000), {})
    many = queries_of(watched, failing(30, 20_000))  # one INSERT on SQLite, too
    assert Operator.objects.filter(health="Healthy").count() == 50
    assert few == many <= 30


def test_a_change_reads_only_rows_around_it(watched: Cluster) -> None:
    apply_changes(watched, installed(30), {})
    with CaptureQueriesContext(connection) as queries:
        apply_changes(watched, failing(1, 9000), {})
    for query in queries.captured_queries:
        sql = query["sql"]
        if sql.startswith("SELECT") and '"installs_' in sql:
            few = " IN (" in sql or '"id" = ' in sql or "= ANY" in sql
            assert few or '"operator_id" IS NULL' in sql, sql  # those that belong to nobody


def test_a_changed_cluster_operator_looks_at_no_operator_and_no_catalog(watched: Cluster) -> None:
    apply_changes(watched, installed(3), {})
    degraded = {"conditions": [world.condition("Degraded", "True", "Slow")]}
    changed = change("ClusterOperator", {"metadata": {"name": "dns"}, "status": degraded}, 2000)
    with CaptureQueriesContext(connection) as queries:
        apply_changes(watched, [changed], {"ClusterOperator": Position("2000", NOW)}, derive=False)
    others = ('"catalogs_', '"installs_operator"', '"installs_component"')
    sqls = [query["sql"] for query in queries.captured_queries]
    assert not [sql for sql in sqls if any(name in sql for name in others)]
    assert ResourceWatch.objects.get(resource="ClusterOperator").resource_version == "2000"


def test_a_catalog_that_no_operator_comes_from_diagnoses_none(
    watched: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply_changes(watched, installed(3), {})
    assessed: list[int] = []
    real = assess

    def count(cluster_id: int, ids: Any, *rest: Any) -> int:
        assessed.append(len(ids))
        return real(cluster_id, ids, *rest)

    monkeypatch.setattr("installs.state.write.assess", count)
    catalog = make_catalog(revision=1)
    make_package(catalog=catalog, name="unrelated")
    for revision in (2, 3):
        Catalog.objects.update(revision=revision)
        apply_changes(watched, [], {})
    assert not any(assessed)
    make_package(catalog=catalog, name="etcd")
    apply_changes(watched, [], {})
    Catalog.objects.update(revision=4)
    apply_changes(watched, [], {})
    apply_changes(watched, [], {})
    assert [number for number in assessed if number] == [3, 3]


def test_an_unchanged_batch_costs_little(watched: Cluster) -> None:
    changes = installed(50)
    apply_changes(watched, changes, {})
    assert queries_of(watched, changes) <= 12


def test_an_object_that_goes_is_deleted_and_its_operator_diagnosed_anew(
    watched: Cluster,
) -> None:
    apply_changes(watched, installed(1), {})
    down = v0.deployment(available=0)
    down["metadata"] |= {"namespace": "ns-0", "uid": "Deployment (olm.owner) 0"}
    down["metadata"]["labels"]["olm.owner.namespace"] = "ns-0"
    apply_changes(watched, [change("Deployment (olm.owner)", down, 2000)], {})
    assert Operator.objects.get().health == "Degraded"
    apply_changes(watched, [change("Deployment (olm.owner)", down, 2001, gone=True)], {})
    assert Operator.objects.get().health == "Healthy"
    assert not Component.objects.filter(kind="Deployment").exists()


def test_an_object_that_goes_from_one_feed_to_another_stays(watched: Cluster) -> None:
    before = v0.deployment()
    after = v0.deployment(labels={"olm.operatorframework.io/owner-name": "ext"})
    apply_changes(watched, [change("Deployment (olm.owner)", before, 1000)], {})
    came = change("Deployment (olm.operatorframework.io/owner-name)", after, 1001)
    # A watch tells the last state that was selected, with the version of the change.
    left = change("Deployment (olm.owner)", before, 1001, gone=True)
    for told in ([came, left], [left, came], [left], [came], [left]):
        apply_changes(watched, told, {})
    assert Component.objects.get().owner_kind == "ClusterExtension"


def test_changes_of_cluster_catalogs_are_handed_on_alone(
    watched: Cluster, recorded: list[list[dict[str, Any]]]
) -> None:
    recorded.clear()
    for name in ("one", "two"):
        told = change("ClusterCatalog", {"metadata": {"name": name}}, 1000)
        apply_changes(watched, [told], {})
    apply_changes(
        watched, [change("ClusterCatalog", {"metadata": {"name": "one"}}, 1001, gone=True)], {}
    )
    assert [[one["metadata"]["name"] for one in handed] for handed in recorded] == [
        ["one"],
        ["two"],
        [],
    ]


def test_the_version_of_the_cluster_follows_its_cluster_version(watched: Cluster) -> None:
    obj = {"metadata": {"name": "version"}, "status": {"desired": {"version": "4.13.0"}}}
    apply_changes(watched, [change("ClusterVersion", obj, 1000)], {})
    watched.refresh_from_db()
    assert watched.version == "4.13.0"


def test_the_address_of_the_console_follows_its_console(watched: Cluster) -> None:
    obj = {"metadata": {"name": "cluster"}, "status": {"consoleURL": "https://console.test"}}
    apply_changes(watched, [change("Console", obj, 1000)], {})
    watched.refresh_from_db()
    assert watched.console == "https://console.test"
    apply_changes(watched, [change("ClusterOperator", {"metadata": {"name": "dns"}}, 1001)], {})
    watched.refresh_from_db()
    assert watched.console == "https://console.test"
    apply_changes(watched, [change("Console", obj, 1002, gone=True)], {})
    watched.refresh_from_db()
    assert watched.console == ""


def test_members_of_the_aggregated_operator_follow_changes(
    fake: KubeFake, cluster: Cluster
) -> None:
    world.fill(fake)
    with client_for(cluster) as client:
        write_snapshot(cluster, list_resources(client))
    fixed = platform("bad", "InstallSuccessful", 1000)
    apply_changes(cluster, [fixed], {})
    assert "disagree" in ClusterOperator.objects.get(aggregated=True).problem


def lists_members(name: str, version: int, *members: str) -> Change:
    items = [
        f'encountered the failing {one} platform operator with reason "SourceFailed"'
        for one in members
    ]
    available = world.condition("Available", "False", "Error", items[0] if items else "not there")
    return change(
        "ClusterOperator",
        {"metadata": {"name": name}, "status": {"conditions": [available]}},
        version,
    )


def test_a_cluster_operator_that_lists_members_no_more_loses_them(watched: Cluster) -> None:
    apply_changes(watched, [lists_members("under-another-name", 1000, "bad")], {})
    assert ClusterOperatorMember.objects.get().name == "bad"
    apply_changes(watched, [lists_members("under-another-name", 1001)], {})
    assert not ClusterOperatorMember.objects.exists()


def test_members_are_looked_at_only_when_a_cluster_operator_lists_some(watched: Cluster) -> None:
    with CaptureQueriesContext(connection) as queries:
        written = apply_changes(watched, [lists_members("dns", 1000)], {})
    assert written.written["ClusterOperator"] == 1
    assert not [one for one in queries if "clusteroperatormember" in one["sql"]]


def test_events_of_a_watch_are_kept_and_their_deletion_is_not_heard(watched: Cluster) -> None:
    apply_changes(watched, installed(1), {})
    feed = "Event (operators.coreos.com/v1alpha1)"
    about = v0.event("one", "etcd.v1.0.0", meta={"uid": "e1"})
    about["involvedObject"]["namespace"] = "ns-0"
    told = [change(feed, about, 2000), change(feed, v0.event("two", "not-ours"), 2001)]
    apply_changes(watched, told, {})
    apply_changes(watched, [change(feed, about, 2002, gone=True)], {})
    late = {**about, "count": 5}
    apply_changes(watched, [change(feed, late, 1999)], {})
    assert Event.objects.get().count == 1
    apply_changes(watched, [change(feed, late, 2003)], {})
    assert Event.objects.get().count == 5


# -- partial readings -----------------------------------------------------------------------------


def test_a_reading_of_one_feed_touches_no_other(fake: KubeFake, cluster: Cluster) -> None:
    world.fill(fake)
    v0.put_installed(fake)
    with client_for(cluster) as client:
        write_snapshot(cluster, list_resources(client))
        synced, lists = cluster.synced_at, ResourceWatch.objects.get(resource="Subscription").lists
        fake.remove(PLATFORM_OPERATORS, "bad")
        fake.remove(CLUSTER_SERVICE_VERSIONS, "etcd.v1.0.0", v0.NS)
        snapshot = list_resources(client, resources_of_kinds(["PlatformOperator"]))
    written = write_snapshot(cluster, snapshot)
    assert written.deleted == {"PlatformOperator": 1}
    assert Component.objects.filter(kind="ClusterServiceVersion").exists()
    assert cluster.synced_at == synced
    assert ResourceWatch.objects.get(resource="PlatformOperator").lists == 2
    assert ResourceWatch.objects.get(resource="Subscription").lists == lists
    assert set(cluster.kinds) == {feed.kind for feed in WATCHED_RESOURCES}


def test_a_list_deletes_only_what_its_feed_would_have_listed(
    fake: KubeFake, cluster: Cluster
) -> None:
    fake.put(DEPLOYMENTS, v0.deployment("a"))
    fake.put(
        DEPLOYMENTS,
        v0.deployment("b", labels={"olm.operatorframework.io/owner-name": "ext"}),
    )
    with client_for(cluster) as client:
        write_snapshot(cluster, list_resources(client))
        fake.remove(DEPLOYMENTS, "a", v0.NS)
        fake.remove(DEPLOYMENTS, "b", v0.NS)
        write_snapshot(cluster, list_resources(client, [BY_NAME["Deployment (olm.owner)"]]))
    assert Component.objects.get().name == "b"


def test_a_list_keeps_what_came_after_it(watched: Cluster) -> None:
    old = Snapshot({"PlatformOperator": ResourceList(SERVED, "v1alpha1", "900")}, began_at=NOW)
    apply_changes(watched, [platform("new", "UnpackFailed", 1000)], {})
    assert write_snapshot(watched, old).total == 0
    assert Operator.objects.exists()


def test_streams_say_how_each_feed_was_read(fake: KubeFake, cluster: Cluster) -> None:
    fake.hide(PLATFORM_OPERATORS)
    path = "/apis/operators.coreos.com/v1alpha1/subscriptions"
    fake.script("GET", path, status_answer(403, "not yours"))
    with client_for(cluster) as client:
        write_snapshot(cluster, list_resources(client))
    found = {row.resource: row for row in ResourceWatch.objects.all()}
    assert len(found) == len(WATCHED_RESOURCES)
    assert (found["PlatformOperator"].state, found["PlatformOperator"].lists) == ("absent", 1)
    assert found["Event (platform.openshift.io/v1alpha1)"].state == "absent"
    refused = found["Subscription"]
    assert (refused.state, refused.listed_at, refused.lists) == ("forbidden", None, 0)
    assert "not yours" in refused.error
    assert found["InstallPlan"].state == "listed"
    assert found["InstallPlan"].resource_version


def test_a_feed_that_is_watched_stays_so_when_it_is_listed(
    fake: KubeFake, watched: Cluster
) -> None:
    ResourceWatch.objects.filter(resource="Bundle").update(
        state=ResourceWatch.State.WATCHING, watches=3
    )
    with client_for(watched) as client:
        write_snapshot(watched, list_resources(client))
    row = ResourceWatch.objects.get(resource="Bundle")
    assert (row.state, row.watches, row.lists) == ("watching", 3, 2)


def test_a_first_list_of_a_feed_makes_nothing_appear(fake: KubeFake, cluster: Cluster) -> None:
    world.put_installed(fake, "good")
    with client_for(cluster) as client:
        write_snapshot(cluster, list_resources(client, resources_of_kinds(["Bundle"])))
        write_snapshot(cluster, list_resources(client, resources_of_kinds(["PlatformOperator"])))
    assert not Transition.objects.filter(type="Object").exists()


def test_reading_one_feed_asks_for_nothing_else(fake: KubeFake, cluster: Cluster) -> None:
    with client_for(cluster) as client:
        discovery = client.discover()
        fake.requests.clear()
        snapshot = list_resources(client, resources_of_kinds(["InstallPlan"]), discovery)
    (asked,) = fake.requests
    assert (asked.query["limit"], snapshot.version, snapshot.complete) == ("50", "", False)


# -- feeds ----------------------------------------------------------------------------------------


def test_feeds_are_unique_and_every_kind_has_a_decoder() -> None:
    assert len(BY_NAME) == len(WATCHED_RESOURCES)
    assert {feed.kind for feed in WATCHED_RESOURCES} == set(DECODERS)
    assert {feed.kind for feed in WATCHED_RESOURCES} == {one.kind for one in ALL} - {"Pod"}


def test_a_feed_is_served_where_its_kind_is_and_something_can_be_in_it() -> None:
    served = {one.kind: Served(one, one.versions[0]) for one in ALL}
    feed = BY_NAME["Deployment (olm.owner)"]
    assert served_by(feed, Discovery(served, {})) == served["Deployment"]
    without = {kind: one for kind, one in served.items() if kind != "ClusterServiceVersion"}
    assert served_by(feed, Discovery(without, {})) is None
    error = Broken("away", status=503)
    with pytest.raises(Broken):
        served_by(feed, Discovery(without, {"ClusterServiceVersion": error}))


@pytest.mark.parametrize("state", [FORBIDDEN, ABSENT])
def test_what_several_feeds_of_a_kind_say_is_one_state(watched: Cluster, state: str) -> None:
    reads = {f.name: ResourceList(SERVED, "v1", "1") for f in resources_of_kinds(["Deployment"])}
    reads["Deployment (olm.owner)"] = ResourceList(state, error="no" if state == FORBIDDEN else "")
    write_snapshot(watched, Snapshot(reads, began_at=timezone.now()))
    told = watched.kinds["Deployment"]
    assert told["state"] == (FORBIDDEN if state == FORBIDDEN else SERVED)
