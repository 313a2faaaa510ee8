"""Following the sandbox: what resumes, what is listed again, what is written, and by whom."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from installs.models import Component, Operator, Transition
from installs.state.full_sync import sync_cluster
from installs.state.resources import decode
from installs.state.watch import positions, session
from installs.state.watch.session import End
from installs.state.watch.threads import Jobs
from installs.state.write import apply_changes
from olmweb.clusters import client_for
from olmweb.kube.errors import Unreachable
from olmweb.kube.resources import ALL
from olmweb.models import Cluster, ResourceWatch, SyncRun
from olmweb.sandbox.cluster import Sandbox
from tests.worlds.watching import all_open, do, follow, paths, wait, writes

pytestmark = pytest.mark.django_db(transaction=True)

PO = "/apis/platform.openshift.io/v1alpha1/platformoperators"
GROUP = "/apis/platform.openshift.io/v1alpha1"


def serve(path: Path, settings: Any, **more: Any) -> Sandbox:
    server = Sandbox(**{"step_seconds": 0.05, "bookmark_seconds": 0.5, **more})
    server.start()
    server.write_kubeconfig(path / "kubeconfig")
    settings.KUBECONFIG = str(path / "kubeconfig")
    return server


@pytest.fixture
def sandbox(whole_scenario: None, tmp_path: Path, settings: Any) -> Iterator[Sandbox]:
    server = serve(tmp_path, settings)
    yield server
    server.stop()


@pytest.fixture
def cluster(sandbox: Sandbox, settings: Any) -> Cluster:
    settings.CLUSTERS = ["sandbox"]
    return Cluster.objects.create(name="sandbox", context="sandbox")


@pytest.fixture
def synced(sandbox: Sandbox, cluster: Cluster) -> Cluster:
    """The cluster after a first turn: its rows are there, and so are its positions."""
    follow(cluster, all_open)
    sandbox.script.requests.clear()
    return cluster


def put(sandbox: Sandbox, name: str, package: str = "etcd") -> None:
    sandbox.store.put(
        {
            "apiVersion": "platform.openshift.io/v1alpha1",
            "kind": "PlatformOperator",
            "metadata": {"name": name},
            "spec": {"package": {"name": package}},
        }
    )


def has(name: str) -> bool:
    return Operator.objects.filter(name=name).exists()


def watch_row(feed: str = "PlatformOperator") -> ResourceWatch:
    return ResourceWatch.objects.get(resource=feed)


def twice() -> list[Any]:
    """Changes that were recorded more than once."""
    fields = ("kind", "namespace", "name", "uid", "type", "from_status", "from_reason")
    rows = list(Transition.objects.values_list(*fields, "to_status", "to_reason"))
    return [row for row in rows if rows.count(row) > 1]


def is_same(cluster: Cluster) -> bool:
    """Whether a full pass finds nothing to write."""
    report = sync_cluster(cluster)
    told = [(kind, one["written"], one["deleted"]) for kind, one in report.kinds.items()]
    return not any(written or deleted for _, written, deleted in told)


def test_a_cluster_never_seen_is_read_once_and_then_watched(
    sandbox: Sandbox, cluster: Cluster
) -> None:
    report = follow(cluster, all_open)
    assert report.end is End.TIME
    assert Operator.objects.filter(kind="PlatformOperator").count() == 69
    served = ResourceWatch.objects.exclude(state="absent")
    assert set(served.values_list("lists", "watches", "state")) == {(1, 1, "watching")}
    assert len(paths(sandbox, watch=True)) == served.count()
    cluster.refresh_from_db()
    assert cluster.reachable
    assert not Transition.objects.filter(type="Object").exists()


def test_watches_that_are_alike_are_saved_in_one_statement(synced: Cluster) -> None:
    rows = positions.watch_rows_of(synced)
    watches = positions.make_plan(client_for(synced).discover(), rows).watches
    for watch in watches.values():
        watch.mark_started()
        watch.mark_opened(100.0)
    failed = watches["PlatformOperator"]
    failed.mark_ended(Unreachable("Can't reach it."), 100.1)
    with CaptureQueriesContext(connection) as queries:
        positions.save_watches(synced, list(watches.values()))
    assert sum(query["sql"].startswith("UPDATE") for query in queries) == 2
    assert watch_row().error == "Can't reach it."
    working = ResourceWatch.objects.exclude(state="absent").exclude(error=failed.error)
    assert set(working.values_list("watches", "state", "error")) == {(2, "watching", "")}
    assert {watch.watches for watch in watches.values()} == {0}


def test_what_happens_in_the_cluster_comes_into_the_rows(sandbox: Sandbox, synced: Cluster) -> None:
    report = follow(
        synced,
        all_open,
        do(lambda: put(sandbox, "new")),
        lambda: has("new"),
        lambda: Operator.objects.get(name="new").reason,
        do(lambda: sandbox.store.delete("PlatformOperator", "new")),
        lambda: not has("new"),
    )
    assert report.rows
    assert paths(sandbox, watch=False) == []
    moves = Transition.objects.filter(name="new", kind="PlatformOperator", type="Object")
    assert list(moves.order_by("id").values_list("to_status", flat=True)) == ["appeared", "deleted"]
    run = SyncRun.objects.first()
    assert run is not None
    assert run.counts["rows_written"] == report.rows


def test_a_new_turn_goes_on_from_the_stored_positions_and_lists_nothing(
    sandbox: Sandbox, synced: Cluster
) -> None:
    position = watch_row().resource_version
    put(sandbox, "meanwhile")
    follow(synced, lambda: has("meanwhile"))
    (asked,) = [path for path in paths(sandbox, watch=True) if path.startswith(PO)]
    assert f"resourceVersion={position}&" in asked
    assert paths(sandbox, watch=False) == []
    assert (watch_row().lists, watch_row().watches) == (1, 2)
    assert twice() == []


def test_bookmarks_move_the_positions_of_quiet_feeds(sandbox: Sandbox, synced: Cluster) -> None:
    before = int(watch_row("ClusterCatalog").resource_version)
    put(sandbox, "elsewhere")
    follow(synced, lambda: has("elsewhere"), wait(4))
    assert int(watch_row("ClusterCatalog").resource_version) > before


def test_what_was_deleted_while_nobody_watched_and_history_was_forgotten_goes(
    sandbox: Sandbox, synced: Cluster
) -> None:
    (name,) = Operator.objects.filter(kind="PlatformOperator").values_list("name", flat=True)[:1]
    sandbox.store.delete("PlatformOperator", name)
    put(sandbox, "meanwhile")
    sandbox.store.compact()
    follow(synced, lambda: has("meanwhile"), lambda: not has(name), all_open)
    assert is_same(synced)
    assert twice() == []


def test_only_the_feed_whose_position_is_too_old_is_listed(
    sandbox: Sandbox, synced: Cluster
) -> None:
    ResourceWatch.objects.filter(resource="PlatformOperator").update(resource_version="1")
    put(sandbox, "meanwhile")
    follow(synced, lambda: has("meanwhile"), all_open)
    assert [path.partition("?")[0] for path in paths(sandbox, watch=False)] == [PO]
    assert watch_row().lists == 2


def test_nothing_is_written_asked_or_opened_while_nothing_happens(
    sandbox: Sandbox, synced: Cluster, settings: Any
) -> None:
    settings.STATE_POLL = 3600
    asked: list[int] = []
    with writes() as written:
        note = do(lambda: asked.append(len(sandbox.script.requests)))
        follow(
            synced, all_open, wait(4), note, do(written.clear), wait(12), note, do(written.freeze)
        )
    assert written == []
    assert asked[0] == asked[1]
    assert paths(sandbox, watch=False) == []


@pytest.mark.parametrize("needed", [False, True])
def test_a_job_reads_pods_only_where_something_does_not_run(
    synced: Cluster, monkeypatch: pytest.MonkeyPatch, needed: bool
) -> None:
    """The thread of a job opens a connection to the database, on each cluster of a takeover."""
    started: list[str] = []
    monkeypatch.setattr(positions, "pods_are_needed", lambda _: needed)
    monkeypatch.setattr(Jobs, "start", lambda _, name, work: started.append(name))
    follow(synced, all_open)
    assert ("pods" in started) is needed


def test_of_a_quiet_cluster_only_the_times_are_written(
    sandbox: Sandbox, synced: Cluster, settings: Any
) -> None:
    settings.STATE_POLL = 1
    synced.refresh_from_db()
    before = synced.synced_at, synced.revision
    with writes() as written:
        follow(synced, all_open, wait(4), do(written.clear), wait(8), do(written.freeze))
    assert {sql.split(" SET ")[0] for sql in written} == {'UPDATE "olmweb_cluster"'}
    synced.refresh_from_db()
    assert before[0] is not None
    assert synced.synced_at is not None
    assert (synced.synced_at > before[0], synced.revision) == (True, before[1])


def test_positions_are_saved_now_and_then_while_nothing_else_is(
    sandbox: Sandbox, synced: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "SAVE_SECONDS", 0.5)
    sandbox.store.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "any"}})
    newest = sandbox.store.version
    follow(synced, lambda: int(watch_row("ClusterCatalog").resource_version) == newest)
    last_event_at = watch_row("ClusterCatalog").last_event_at
    assert last_event_at is not None


def test_a_lease_that_is_lost_ends_the_watch_before_it_writes(
    sandbox: Sandbox, synced: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LEASE_CHECK_SECONDS", 0)  # as after a pause
    ours = [True]

    def steal() -> bool:
        if ours[0]:
            written.clear()
            ours[0] = False
            put(sandbox, "too-late")
        return False

    with writes() as written:
        report = follow(synced, all_open, steal, still_ours=lambda: ours[0], done=False)
    assert report.end is End.LOST
    assert written == []
    assert not has("too-late")


def test_a_lease_that_is_lost_is_noticed_while_nothing_happens(
    sandbox: Sandbox, synced: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LEASE_CHECK_SECONDS", 0.3)
    ours = [True]

    def steal() -> bool:
        ours[0] = False
        return False

    report = follow(synced, all_open, steal, still_ours=lambda: ours[0], done=False)
    assert report.end is End.LOST


def test_the_lease_is_checked_rarely_with_and_without_writes(
    sandbox: Sandbox, synced: Cluster, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(session, "LEASE_CHECK_SECONDS", 60)
    settings.STATE_POLL = 60
    asked: list[int] = []

    def ours() -> bool:
        asked.append(1)
        return True

    counts: list[int] = []
    note = do(lambda: counts.append(len(asked)))
    change = do(lambda: put(sandbox, "new"))
    follow(
        synced, all_open, wait(4), note, wait(8), note, change, lambda: has("new"), note,
        still_ours=ours,
    )  # fmt: skip
    assert counts == [0, 0, 0]


class Killed(BaseException):
    """As kill -9 would: nothing that follows is done, no `except Exception` sees it."""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_killed_around_a_transaction_loses_and_repeats_nothing(
    sandbox: Sandbox, synced: Cluster, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    real = apply_changes

    def killed(cluster: Cluster, changes: Any, positions: Any, **options: Any) -> Any:
        if any(one.obj.name == "new" for one in changes):
            if when == "after":
                real(cluster, changes, positions, **options)
            raise Killed
        return real(cluster, changes, positions, **options)

    steps = all_open, do(lambda: put(sandbox, "new")), lambda: False
    with monkeypatch.context() as patched:
        patched.setattr(session, "apply_changes", killed)
        with pytest.raises(Killed):
            follow(synced, *steps)
    assert has("new") is (when == "after")
    follow(
        synced,
        all_open,
        lambda: has("new"),
        lambda: Operator.objects.get(name="new").reason,
        wait(4),
    )
    assert twice() == []
    assert is_same(synced)


def test_a_feed_that_fails_says_so_and_the_others_go_on(sandbox: Sandbox, synced: Cluster) -> None:
    catalogs = "/apis/olm.operatorframework.io/v1/clustercatalogs"
    sandbox.script.fail_next(500, count=1000, path_prefix=catalogs)

    def told() -> bool:
        return "an error (500)" in watch_row("ClusterCatalog").error

    follow(synced, told, do(lambda: put(sandbox, "new")), lambda: has("new"))
    assert (watch_row("ClusterCatalog").state, watch_row().state) == ("retrying", "watching")
    synced.refresh_from_db()
    assert synced.reachable


def test_a_feed_that_recovers_is_watched_again(
    sandbox: Sandbox, synced: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("installs.state.watch.backoff.STEADY", 0.5)
    sandbox.script.fail_next(500, count=2, path_prefix=PO)
    follow(synced, lambda: watch_row().error, all_open)
    assert watch_row().error == ""
    assert paths(sandbox, watch=False) == []


def test_a_feed_that_may_not_be_read_is_told_apart(sandbox: Sandbox, synced: Cluster) -> None:
    sandbox.script.fail_next(403, count=1000, path_prefix=PO)
    follow(synced, lambda: watch_row().state == "forbidden")
    assert "does not allow this" in watch_row().error
    assert Operator.objects.filter(kind="PlatformOperator").count() == 69


def test_a_cluster_that_was_made_anew_is_read_anew(
    sandbox: Sandbox, synced: Cluster, tmp_path: Path, settings: Any
) -> None:
    for number in range(50):
        put(sandbox, f"old-{number}")
    follow(synced, lambda: has("old-49"), wait(4))
    follow(synced, all_open)
    other = serve(tmp_path, settings)
    try:
        assert int(watch_row().resource_version) > other.store.version
        follow(synced, lambda: not has("old-1"), all_open, do(lambda: put(other, "new")),
               lambda: has("new"))  # fmt: skip
        assert is_same(synced)
    finally:
        other.stop()


def test_a_cluster_that_goes_away_and_comes_back_resumes(
    sandbox: Sandbox, synced: Cluster, tmp_path: Path, settings: Any
) -> None:
    state, port = tmp_path / "state.json", int(sandbox.url.rpartition(":")[2])
    sandbox.stop()
    back: list[Sandbox] = []

    def is_down() -> bool:
        synced.refresh_from_db()
        return synced.reachable is False and watch_row().state == "retrying"

    def restart() -> None:
        back.append(serve(tmp_path, settings, port=port, state_file=state))

    first = serve(tmp_path, settings, port=port, state_file=state)
    try:
        follow(synced, all_open, do(first.stop), is_down, do(restart), all_open,
               do(lambda: put(back[0], "new")), lambda: has("new"))  # fmt: skip
    finally:
        for one in back:
            one.stop()
    synced.refresh_from_db()
    assert (synced.reachable, synced.error_code, synced.unreachable_since) == (True, "", None)
    assert twice() == []


@pytest.mark.parametrize(
    ("status", "count", "path"),
    [(403, 30, ""), (403, 2, PO), (404, 3, GROUP), (503, 2, GROUP), (503, 30, "")],
)
def test_a_restarted_api_server_that_refuses_requests_at_first_is_followed_within_seconds(
    sandbox: Sandbox, synced: Cluster, tmp_path: Path, settings: Any, status: int, count: int,
    path: str,
) -> None:  # fmt: skip
    """As a real one does until its RBAC caches are filled and it serves custom resources."""
    state, port = tmp_path / "state.json", int(sandbox.url.rpartition(":")[2])
    sandbox.stop()
    first = serve(tmp_path, settings, port=port, state_file=state)
    second: list[Sandbox] = []

    def restart() -> None:
        server = Sandbox(port=port, state_file=state, step_seconds=0.05, bookmark_seconds=0.5)
        server.script.fail_next(status, count=count, path_prefix=path)
        server.start()
        server.write_kubeconfig(tmp_path / "kubeconfig")
        put(server, "new")
        second.append(server)

    def is_down() -> bool:
        synced.refresh_from_db()
        return synced.reachable is False

    try:
        follow(synced, all_open, do(first.stop), is_down, do(restart), lambda: has("new"),
               all_open, seconds=25)  # fmt: skip
    finally:
        for server in second:
            server.stop()
    assert not Transition.objects.filter(type="Object", to_status="deleted").exists()
    assert twice() == []


def test_a_watch_that_is_refused_once_is_opened_again_within_seconds(
    sandbox: Sandbox, synced: Cluster
) -> None:
    sandbox.script.fail_next(403, count=2, path_prefix=PO)
    follow(synced, lambda: watch_row().state == "forbidden", all_open, seconds=15)


def discoveries(sandbox: Sandbox) -> list[str]:
    """Paths of the groups and versions whose kinds were looked up."""
    paths = [path for method, path in sandbox.script.requests if method == "GET"]
    return [path for path in paths if "?" not in path and path != "/version"]


def test_a_session_begins_with_the_stored_kinds_and_looks_them_up_once_later(
    sandbox: Sandbox, synced: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    follow(synced, all_open, do(lambda: counts.append(len(discoveries(sandbox)))))
    assert counts == [0]
    monkeypatch.setattr(session, "CONFIRM_WAITS", (0.0, 0.1))
    groups = {(resource.group, version) for resource in ALL for version in resource.versions}
    report = follow(synced, all_open, lambda: len(discoveries(sandbox)) >= len(groups), wait(8))
    assert len(discoveries(sandbox)) == len(set(discoveries(sandbox))) == len(groups)
    assert report.end is End.TIME
    assert paths(sandbox, watch=False) == []


def test_kinds_that_were_stored_wrongly_are_watched_after_they_are_looked_up(
    sandbox: Sandbox, synced: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "CONFIRM_WAITS", (0.5, 1.0))
    catalogs = {"ClusterCatalog": {"state": "absent", "version": "", "objects": 0}}
    Cluster.objects.update(kinds={**synced.kinds, **catalogs})
    ResourceWatch.objects.filter(resource="ClusterCatalog").update(state="absent")
    follow(synced, lambda: watch_row("ClusterCatalog").state == "watching", all_open)
    synced.refresh_from_db()
    assert synced.kinds["ClusterCatalog"]["state"] == "served"
    assert is_same(synced)


def test_a_cluster_made_anew_with_fewer_kinds_is_watched_as_it_is_now(
    sandbox: Sandbox, synced: Cluster, tmp_path: Path, settings: Any
) -> None:
    """Its positions are of the cluster before it, and so are its stored kinds."""
    ResourceWatch.objects.update(resource_version="999999999")
    sandbox.script.fail_next(404, count=1000, path_prefix=GROUP)
    follow(synced, lambda: watch_row().state == "absent", all_open)
    watches = [path for path in paths(sandbox, watch=True) if path.startswith(PO)]
    assert watches == []


@pytest.mark.parametrize(
    "change",
    [
        {"synced_at": None},
        {"error_code": "unauthorized"},
        {"unreachable_since": timezone.now()},
        {"kinds": {}},
        {"kinds": {"ClusterCatalog": {"state": "failed", "version": "v1"}}},
        {"kinds": {"ClusterCatalog": {"state": "served", "version": "v7"}}},
    ],
)
def test_kinds_that_were_not_all_read_are_looked_up_at_once(
    synced: Cluster, change: dict[str, Any]
) -> None:
    synced.refresh_from_db()
    stored = positions.stored_discovery(synced)
    assert stored is not None
    with client_for(synced) as client:
        assert positions.served_resources(stored) == positions.served_resources(client.discover())
    for name, value in change.items():
        setattr(synced, name, synced.kinds | value if value and name == "kinds" else value)
    assert positions.stored_discovery(synced) is None


def test_kinds_whose_discovery_failed_at_the_start_of_a_session_are_watched_within_seconds(
    sandbox: Sandbox, synced: Cluster
) -> None:
    Cluster.objects.update(unreachable_since=synced.synced_at)
    sandbox.script.fail_next(403, path_prefix=GROUP)
    put(sandbox, "new")
    follow(synced, lambda: has("new"), all_open, seconds=15)


def test_kinds_that_a_starting_api_server_does_not_serve_yet_are_watched_within_seconds(
    sandbox: Sandbox, synced: Cluster
) -> None:
    Cluster.objects.update(reachable=False, unreachable_since=synced.synced_at)
    sandbox.script.fail_next(404, count=2, path_prefix=GROUP)
    put(sandbox, "new")
    follow(synced, lambda: has("new"), all_open, seconds=15)


def test_a_cluster_that_stays_away_is_given_up(
    sandbox: Sandbox, synced: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "GIVE_UP", 1.0)
    report = follow(synced, all_open, do(sandbox.stop), lambda: False, done=False)
    assert report.end is End.UNREACHABLE
    synced.refresh_from_db()
    assert (synced.reachable, synced.error_code) == (False, "unreachable")
    assert Operator.objects.filter(kind="PlatformOperator").count() == 69
    report = follow(synced, lambda: False, done=False)
    assert (report.end, report.rows) == (End.UNREACHABLE, 0)


def test_a_database_that_is_away_for_a_moment_costs_nothing(
    sandbox: Sandbox, synced: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    real, failures = apply_changes, [2]

    def away(*given: Any, **options: Any) -> Any:
        if given[1] and failures[0]:
            failures[0] -= 1
            raise OperationalError("the server closed the connection")
        return real(*given, **options)

    monkeypatch.setattr(session, "apply_changes", away)
    monkeypatch.setattr("installs.state.watch.session.connection.close", lambda: None)
    follow(synced, all_open, do(lambda: put(sandbox, "new")), lambda: has("new"))
    assert failures == [0]
    assert "database away" in caplog.text
    assert twice() == []


def test_our_own_fault_in_one_feed_is_told_and_logged_and_the_others_go_on(
    sandbox: Sandbox, synced: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def broken(feed: Any, item: dict[str, Any]) -> Any:
        if item["metadata"]["name"] == "broken":
            raise ZeroDivisionError
        return decode(feed, item)

    monkeypatch.setattr("installs.state.watch.threads.decode", broken)
    monkeypatch.setattr("installs.state.listing.decode", broken)
    catalog: dict[str, Any] = {"apiVersion": "olm.operatorframework.io/v1"}
    catalog |= {"kind": "ClusterCatalog", "metadata": {"name": "broken"}, "spec": {}}
    known = set(Component.objects.filter(kind="ClusterCatalog"))
    told = "Reading ClusterCatalog of cluster sandbox failed inside OLM Web (ZeroDivisionError)."
    follow(
        synced,
        all_open,
        do(lambda: sandbox.store.put(catalog)),
        lambda: watch_row("ClusterCatalog").error == told,
        do(lambda: put(sandbox, "new")),
        lambda: has("new"),
    )
    assert (watch_row("ClusterCatalog").state, watch_row().state) == ("retrying", "watching")
    assert "Traceback" in caplog.text
    put(sandbox, "newer")
    assert sync_cluster(synced).outcome == SyncRun.Outcome.CHANGED
    assert has("newer")
    assert set(Component.objects.filter(kind="ClusterCatalog")) == known


def test_a_burst_is_few_transactions_with_the_last_state_of_each_object(
    sandbox: Sandbox, synced: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    real = apply_changes

    def counted(cluster: Cluster, changes: Any, positions: Any, **options: Any) -> Any:
        sizes.append(len(changes))
        return real(cluster, changes, positions, **options)

    def burst() -> None:
        sizes.clear()
        for number in range(300):
            put(sandbox, f"op-{number % 100}", f"package-{number}")

    monkeypatch.setattr(session, "apply_changes", counted)
    last = Operator.objects.filter(name="op-99", package="package-299")
    follow(synced, all_open, do(burst), last.exists)
    assert max(sizes) <= session.BATCH
    assert len([size for size in sizes if size]) < 30


def test_lists_are_made_anew_after_an_hour_a_few_at_a_time(
    sandbox: Sandbox, synced: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "LIST_AGAIN", positions.LIST_AGAIN * 0)
    follow(synced, all_open, wait(4))
    assert len(paths(sandbox, watch=False)) == positions.LISTS_AT_ONCE
    assert sorted(ResourceWatch.objects.values_list("lists", flat=True))[-4:] == [1, 2, 2, 2]


def test_a_turn_ends_at_its_time_with_every_thread(sandbox: Sandbox, synced: Cluster) -> None:
    report = follow(synced, lambda: False, seconds=2, done=False)
    assert report.end is End.TIME
    assert report.seconds < 6
    assert not [one.name for one in threading.enumerate() if one.name.startswith("watch sandbox")]


def test_an_outage_that_turns_into_a_refusal_says_so(
    sandbox: Sandbox, synced: Cluster, tmp_path: Path, settings: Any
) -> None:
    state, port = tmp_path / "state.json", int(sandbox.url.rpartition(":")[2])
    sandbox.stop()
    first = serve(tmp_path, settings, port=port, state_file=state)
    back: list[Sandbox] = []

    def tells(code: str) -> bool:
        synced.refresh_from_db()
        return synced.error_code == code

    def restart() -> None:
        made = Sandbox(port=port, state_file=state, token="another")
        made.start()
        back.append(made)

    try:
        follow(synced, all_open, do(first.stop), lambda: tells("unreachable"), do(restart),
               lambda: tells("unauthorized"),
               do(lambda: back[0].write_kubeconfig(tmp_path / "kubeconfig")),
               lambda: tells(""), all_open)  # fmt: skip
    finally:
        for one in back:
            one.stop()
    assert twice() == []
