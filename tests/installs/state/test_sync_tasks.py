"""Which clusters are asked when, by whom, and what is forgotten."""

import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import InterfaceError
from django.db.models.signals import post_save
from django.utils import timezone

from catalogs.models import PredictionRun
from installs import tasks
from installs.models import Action, Operator, Transition
from installs.state.watch.positions import mark_reachable
from installs.state.watch.scheduling import cluster_lease, pass_lease
from olmweb.clusters import as_olmweb_error, configured, due, parse_entries
from olmweb.errors import OlmwebError
from olmweb.kube.errors import Cause, Forbidden, Invalid, Unauthorized, Unreachable
from olmweb.models import ChangeEvent, Cluster, SyncRun
from olmweb.runtime.leases import lease
from tests.kubefake import Answer, KubeFake, status_answer
from tests.worlds import cluster as world
from tests.worlds.verdicts import monitored_catalog

pytestmark = pytest.mark.usefixtures("recorded")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ids of the clusters for which a watch was enqueued."""
    ids: list[int] = []
    monkeypatch.setattr(tasks.watch_cluster, "delay_on_commit", ids.append)
    return ids


def test_entries_name_clusters_and_contexts() -> None:
    assert parse_entries(["prod=admin@prod", "lab", "here=in-cluster", "in-cluster", "now="]) == {
        "prod": "admin@prod",
        "lab": "lab",
        "here": "in-cluster",
        "in-cluster": "in-cluster",
        "now": "",  # the current context
    }


@pytest.mark.parametrize("entry", ["a/b", "-", "=x", "", "a b=c", "x" * 101])
def test_an_entry_whose_name_can_not_stand_in_a_url_is_refused(entry: str) -> None:
    with pytest.raises(OlmwebError, match="can't stand in a URL") as caught:
        parse_entries([entry])
    assert entry in caught.value.message


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(OlmwebError, match="twice"):
        parse_entries(["a=b", "a=c"])


def test_rows_follow_the_settings_and_keep_what_left_them(
    cluster: Cluster, settings: Any, django_assert_num_queries: Any
) -> None:
    settings.CLUSTERS = ["lab=in-cluster", "two"]
    assert [(row.name, row.context) for row in configured()] == [
        ("lab", "in-cluster"),
        ("two", "two"),
    ]
    cluster.refresh_from_db()
    assert (cluster.reachable, cluster.error_code) == (None, "not-configured")
    assert (cluster.removed, cluster.unreachable) == (True, False)
    assert cluster.revision == 1
    settings.CLUSTERS = ["lab=other", "two"]
    assert configured()[0].context == "other"
    with django_assert_num_queries(1):
        configured()


def test_a_removed_cluster_is_not_unreachable(cluster: Cluster, settings: Any) -> None:
    settings.CLUSTERS = ["lab"]
    configured()
    assert not ChangeEvent.objects.exists()
    settings.CLUSTERS = ["lab", cluster.name]
    configured()
    cluster.refresh_from_db()
    assert (cluster.removed, cluster.reachable, cluster.error_text) == (False, None, "")


def test_the_outage_of_a_removed_cluster_lasts_until_it_answers(
    cluster: Cluster, settings: Any
) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(reachable=False, error_code="unreachable")
    settings.CLUSTERS = ["lab"]
    configured()
    cluster.refresh_from_db()
    assert (cluster.reachable, cluster.unreachable) == (False, False)
    assert mark_reachable(cluster)
    assert [row.type for row in ChangeEvent.objects.all()] == ["cluster.reachable"]


def test_the_mark_of_a_removed_cluster_keeps_what_others_stored_meanwhile(
    cluster: Cluster, settings: Any
) -> None:
    settings.CLUSTERS = ["new"]

    def store(sender: Any, **_: Any) -> None:
        Cluster.objects.filter(pk=cluster.pk).update(reachable=False, revision=7)

    post_save.connect(store, sender=Cluster)  # the row of "new" is created before the mark
    try:
        configured()
    finally:
        post_save.disconnect(store, sender=Cluster)
    cluster.refresh_from_db()
    assert (cluster.removed, cluster.reachable, cluster.revision) == (True, False, 8)


@pytest.mark.parametrize("task", ["watch_cluster", "sync_cluster"])
def test_a_message_left_for_a_removed_cluster_does_nothing(
    fake: KubeFake, cluster: Cluster, settings: Any, task: str
) -> None:
    settings.CLUSTERS = ["lab"]
    configured()
    getattr(tasks, task)(cluster.pk)
    cluster.refresh_from_db()
    assert (cluster.removed, cluster.reachable) == (True, None)
    assert not SyncRun.objects.exists()


@pytest.mark.parametrize(
    ("task", "work"), [("watch_cluster", "watch"), ("sync_cluster", "full_sync.sync_cluster")]
)
def test_a_database_that_is_away_is_no_failure_of_the_cluster(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    task: str,
    work: str,
) -> None:
    def lose(*_: Any, **__: Any) -> Any:
        raise InterfaceError("the connection is closed")

    monkeypatch.setattr(f"installs.tasks.{work}", lose)
    getattr(tasks, task)(cluster.pk)
    assert "database away" in caplog.text
    assert "crashed" not in caplog.text
    cluster.refresh_from_db()
    assert (cluster.reachable, cluster.error_code) == (None, "")


@pytest.mark.parametrize(
    ("failing_for", "since_last", "expected"),
    [
        (0, 5, False),
        (0, 10, True),
        (15, 14, False),
        (15, 15, True),
        (3600, 19, False),
        (3600, 20, True),
    ],
)
def test_a_failing_cluster_is_asked_ever_less_often(
    settings: Any, failing_for: int, since_last: int, expected: bool
) -> None:
    settings.STATE_POLL = 10
    now = timezone.now()
    checked = now - timedelta(seconds=since_last)
    cluster = Cluster(
        checked_at=checked, unreachable_since=checked - timedelta(seconds=failing_for)
    )
    assert due(cluster, now) is expected


def test_a_reachable_or_new_cluster_is_always_due() -> None:
    now = timezone.now()
    assert due(Cluster(), now)
    assert due(Cluster(checked_at=now), now)


def test_each_due_cluster_gets_a_watch_of_its_own(
    cluster: Cluster, settings: Any, started: list[int]
) -> None:
    settings.CLUSTERS = ["prod", "down", "lab"]
    now = timezone.now()
    down = Cluster.objects.create(
        name="down", context="down", unreachable_since=now - timedelta(hours=1), checked_at=now
    )
    tasks.sync_clusters()
    lab = Cluster.objects.get(name="lab")
    assert started == [cluster.pk, lab.pk]
    with time_machine.travel(now + timedelta(minutes=6)):
        tasks.sync_clusters()
    assert down.pk in started


def test_a_wrong_setting_starts_nothing_and_says_so(
    settings: Any, db: None, started: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    settings.CLUSTERS = ["a/b"]
    tasks.sync_clusters()
    assert started == []
    assert "clusters setting is wrong" in caplog.text
    assert 'OLMWEB_CLUSTERS has "a/b"' in caplog.text


def test_a_cluster_that_a_worker_watches_is_left_to_it(
    cluster: Cluster, settings: Any, started: list[int]
) -> None:
    with lease(cluster_lease(cluster.pk), 60):
        tasks.sync_clusters()
    assert started == []


def test_tasks_wait_in_queues_that_suit_them_and_expire() -> None:
    starter: Any = tasks.sync_clusters
    watch: Any = tasks.watch_cluster
    full: Any = tasks.sync_cluster
    assert [one.queue for one in (starter, watch, full)] == ["actions", "watch", "sync"]
    assert {one.expires for one in (starter, watch, full)} == {tasks.EXPIRES}
    assert tasks.EXPIRES >= 30
    assert watch.soft_time_limit > tasks.WATCH_SECONDS + 10  # it ends by itself before


def test_the_task_syncs_under_its_lease_twice_with_the_same_rows(
    fake: KubeFake, cluster: Cluster
) -> None:
    world.fill(fake)
    tasks.sync_cluster(cluster.pk)
    tasks.sync_cluster(cluster.pk)
    assert Operator.objects.count() == 4
    assert SyncRun.objects.count() == 1


def test_the_task_leaves_a_cluster_of_which_a_pass_is_under_way(
    fake: KubeFake, cluster: Cluster
) -> None:
    with lease(pass_lease(cluster.pk), 60):
        tasks.sync_cluster(cluster.pk)
    assert fake.requests == []


def test_the_task_of_a_deleted_cluster_ends_quietly(db: None) -> None:
    tasks.sync_cluster(12345)
    assert not SyncRun.objects.exists()


def test_one_bad_cluster_does_not_stop_another(
    fake: KubeFake, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Cluster.objects.create(name="bad", context="missing")
    tasks.sync_cluster(bad.pk)
    tasks.sync_cluster(cluster.pk)
    bad.refresh_from_db()
    cluster.refresh_from_db()
    assert (bad.reachable, cluster.reachable) == (False, True)


def test_a_crash_of_ours_is_recorded_and_frees_the_lease(
    fake: KubeFake, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr("installs.state.full_sync.list_resources", crash)
        tasks.sync_cluster(cluster.pk)
    cluster.refresh_from_db()
    assert cluster.error_code == "internal"
    tasks.sync_cluster(cluster.pk)
    cluster.refresh_from_db()
    assert cluster.error_code == ""


def test_old_history_goes_and_unfinished_actions_stay(cluster: Cluster, settings: Any) -> None:
    settings.RETENTION_DAYS = 10
    old, new = timezone.now() - timedelta(days=11), timezone.now() - timedelta(days=9)
    for at in (old, new):
        Transition.objects.create(cluster=cluster, kind="k", name="n", type="t", at=at)
        SyncRun.objects.create(kind="cluster", target="prod", started_at=at)
        done = Action.State.SUCCEEDED
        Action.objects.create(cluster=cluster, verb="install", name="n", state=done, finished_at=at)
    Action.objects.create(cluster=cluster, verb="install", name="n", created_at=old)
    tasks.prune()
    tasks.prune()
    assert [row.at for row in Transition.objects.all()] == [new]
    assert [row.started_at for row in SyncRun.objects.all()] == [new]
    assert {row.finished_at for row in Action.objects.all()} == {new, None}


def test_the_command_prints_one_json_object(fake: KubeFake, cluster: Cluster) -> None:
    world.fill(fake)
    out = io.StringIO()
    call_command("sync_cluster", "prod", "--json", stdout=out)
    (line,) = out.getvalue().splitlines()
    printed = json.loads(line)
    assert set(printed) == {"cluster", "outcome", "kinds", "requests", "seconds", "error"}
    assert (printed["cluster"], printed["outcome"], printed["error"]) == ("prod", "changed", None)
    assert printed["kinds"]["PlatformOperator"] == {"objects": 3, "written": 3, "deleted": 0}


def test_the_command_tells_a_person_what_it_did(fake: KubeFake, cluster: Cluster) -> None:
    world.fill(fake)
    out = io.StringIO()
    call_command("sync_cluster", "prod", stdout=out)
    assert "PlatformOperator: 3 objects, 3 written, 0 deleted" in out.getvalue()
    assert "prod: changed, 42 requests" in out.getvalue()


def test_the_command_reads_all_that_verdicts_need_and_evaluates_anew(
    fake: KubeFake, cluster: Cluster, tmp_path: Path
) -> None:
    world.fill(fake)
    monitored_catalog(tmp_path)

    def verdict() -> tuple[str, str]:
        out = io.StringIO()
        arguments = ("demo", "--path", "Subscription", "--cluster", "prod", "--json")
        call_command("audit", *arguments, stdout=out)
        (row,) = json.loads(out.getvalue())["packages"]
        return row["verdict"], row["rule"]

    assert verdict() == ("unknown", "sub-kind-unserved")
    fake.script("GET", "/api", Answer(200, {"versions": ["v1"]}))
    fake.script("GET", "/apis", Answer(200, {"groups": []}))
    fake.script("GET", "/api/v1", Answer(200, {"resources": [{"kind": "Pod"}]}))
    call_command("sync_cluster", "prod", stdout=io.StringIO())
    (run,) = PredictionRun.objects.filter(cluster=cluster).order_by("-id")[:1]
    assert run.counts["Subscription"] == {"not_installable": 1}, "evaluated by the command"
    assert verdict() == ("not-installable", "sub-kind-unserved")


def test_the_command_fails_with_the_sentence(fake: KubeFake, cluster: Cluster) -> None:
    first = "/apis/platform.openshift.io/v1alpha1"
    fake.script("GET", first, status_answer(401, "Unauthorized"))
    out = io.StringIO()
    with pytest.raises(CommandError, match="did not accept our credentials"):
        call_command("sync_cluster", "prod", "--json", stdout=out)
    assert json.loads(out.getvalue())["outcome"] == "failed"


def test_the_command_names_the_clusters_that_there_are(cluster: Cluster) -> None:
    with pytest.raises(CommandError, match="no cluster nope; it names: prod"):
        call_command("sync_cluster", "nope")


def test_the_command_gives_up_when_a_worker_does_not(
    fake: KubeFake, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("installs.management.commands.sync_cluster.WAIT", 0)
    with (
        lease(pass_lease(cluster.pk), 60),
        pytest.raises(CommandError, match="A worker has been syncing cluster prod"),
    ):
        call_command("sync_cluster", "prod")


def test_a_clusters_error_becomes_one_for_pages() -> None:
    causes = (Cause("spec.package.name", "Too long", "FieldValueTooLong"), Cause("", "x", ""))
    invalid = as_olmweb_error(Invalid("No.", status=422, causes=causes))
    assert (invalid.status, invalid.fields) == (422, {"spec.package.name": "Too long"})
    assert as_olmweb_error(Forbidden("No.", status=403)).status == 403
    assert as_olmweb_error(Unauthorized("No.", status=401)).status == 502
    away = as_olmweb_error(Unreachable("Away.", hint="Check."))
    assert (away.status, away.code, away.hint, away.retryable) == (
        502,
        "unreachable",
        "Check.",
        True,
    )
