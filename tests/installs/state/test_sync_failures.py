"""Passes that fail: as a whole, for one kind, half-way. Rows that were good stay."""

import socket
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from installs.models import ClusterOperator, Component, Operator, Transition
from installs.state.full_sync import record_crash, record_failure, sync_cluster
from installs.state.watch.positions import mark_reachable
from olmweb.clusters import client_for, due
from olmweb.kube.errors import Unreachable
from olmweb.kube.resources import (
    ALL,
    BUNDLES,
    CLUSTER_EXTENSIONS,
    PLATFORM_OPERATORS,
    group_path,
)
from olmweb.models import ChangeEvent, Cluster, SyncRun
from tests.kubefake import TOKEN, Answer, KubeFake, status_answer, write_kubeconfig
from tests.worlds import cluster as world

pytestmark = pytest.mark.usefixtures("recorded")

FIRST = "/apis/platform.openshift.io/v1alpha1"  # what a pass asks first
LIST = f"{FIRST}/platformoperators"
GROUPS = tuple(dict.fromkeys(group_path(one.group, v) for one in ALL for v in one.versions))


def rows() -> tuple[int, int, int]:
    return Operator.objects.count(), Component.objects.count(), ClusterOperator.objects.count()


@pytest.fixture
def synced(fake: KubeFake, cluster: Cluster) -> Cluster:
    world.fill(fake)
    sync_cluster(cluster)
    assert rows() == (4, 5, 2)
    return cluster


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (401, "unauthorized", "Cluster prod did not accept our credentials: because."),
        (403, "forbidden", "Cluster prod does not allow this: because."),
        (429, "too-many-requests", "Cluster prod is busy and limits requests: because."),
        (500, "cluster-broken", f"answered GET {FIRST} with an error (500): because."),
    ],
)
def test_a_cluster_that_refuses_everything_keeps_its_rows_and_says_why(
    fake: KubeFake,
    synced: Cluster,
    caplog: pytest.LogCaptureFixture,
    status: int,
    code: str,
    words: str,
) -> None:
    for group in GROUPS:
        fake.script("GET", group, status_answer(status, "because."))
    before = Transition.objects.count()
    report = sync_cluster(synced)
    assert report.outcome == "failed"
    assert words in report.error
    assert words in caplog.text
    assert rows() == (4, 5, 2)
    assert Transition.objects.count() == before
    assert (synced.reachable, synced.error_code) == (False, code)
    assert words in synced.error_text
    assert synced.error_hint
    assert synced.unreachable_since is not None
    assert synced.revision == 2
    run = SyncRun.objects.first()
    assert run is not None
    assert (run.outcome, run.error_code, run.error_text) == ("failed", code, report.error)


def test_an_unreachable_cluster_keeps_when_that_began_and_comes_back(
    fake: KubeFake, synced: Cluster, tmp_path: Path, settings: Any
) -> None:
    good = settings.KUBECONFIG
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    settings.KUBECONFIG = str(write_kubeconfig(tmp_path / "dead", url))
    assert sync_cluster(synced).error == f"Can't reach cluster prod at {url}: connection refused."
    began, revision = synced.unreachable_since, synced.revision
    sync_cluster(synced)
    assert (synced.unreachable_since, synced.revision) == (began, revision)
    assert rows() == (4, 5, 2)
    settings.KUBECONFIG = good
    report = sync_cluster(synced)
    assert (report.outcome, synced.reachable, synced.error_text) == ("changed", True, "")
    assert synced.unreachable_since is None
    assert synced.revision == revision + 1
    assert [run.outcome for run in SyncRun.objects.order_by("id")] == [
        "changed",
        "failed",  # once: how long it lasts is in the cluster's row
        "changed",
    ]


def test_a_kubeconfig_without_the_context_is_a_failed_pass(cluster: Cluster) -> None:
    cluster.context = "lab"
    cluster.save()
    report = sync_cluster(cluster)
    assert report.outcome == "failed"
    assert "has no context named lab; it has: prod." in report.error
    assert cluster.error_code == "kubeconfig"


@pytest.mark.parametrize(("status", "state"), [(403, "forbidden"), (500, "failed")])
def test_a_kind_that_can_not_be_listed_keeps_its_rows_and_stops_nobody(
    fake: KubeFake, synced: Cluster, status: int, state: str
) -> None:
    fake.script("GET", LIST, status_answer(status, "not this one"))
    world.put_cluster_operator(fake, "dns", world.condition("Available", "False", "Down"))
    world.put_cluster_extension(fake, "second")
    report = sync_cluster(synced)
    assert report.outcome == "changed"
    assert rows() == (5, 5, 2)
    assert ClusterOperator.objects.get(name="dns").severity == 3
    told = synced.kinds["PlatformOperator"]
    assert (told["state"], told["objects"]) == (state, 3)
    assert "not this one" in told["error"]
    assert synced.reachable is True
    sync_cluster(synced)
    assert synced.kinds["PlatformOperator"]["state"] == "served"
    assert synced.kinds["PlatformOperator"]["error"] == ""


def test_a_kind_whose_discovery_fails_keeps_its_rows(fake: KubeFake, synced: Cluster) -> None:
    fake.script("GET", FIRST, status_answer(503, "aggregation is away"))
    sync_cluster(synced)
    assert rows() == (4, 5, 2)
    assert synced.kinds["PlatformOperator"]["state"] == "failed"
    assert synced.kinds["PlatformOperator"]["synced_at"] is not None


def test_a_kind_that_is_not_served_is_normal_and_loses_its_rows(
    fake: KubeFake, synced: Cluster
) -> None:
    fake.hide(PLATFORM_OPERATORS)
    fake.hide(BUNDLES)
    report = sync_cluster(synced)
    assert report.outcome == "changed"
    assert rows() == (1, 4, 2)
    assert synced.kinds["PlatformOperator"]["state"] == "absent"
    assert synced.reachable is True
    assert ClusterOperator.objects.get(aggregated=True).members.get().operator is None
    assert sync_cluster(synced).outcome == "unchanged"


def test_a_cluster_that_serves_nothing_of_ours_is_healthy(fake: KubeFake, cluster: Cluster) -> None:
    for group in GROUPS:
        fake.script("GET", group, Answer(404, b"404 page not found"))
    report = sync_cluster(cluster)
    assert (report.error, cluster.reachable, cluster.version) == ("", True, "v1.25.4")
    assert {one["state"] for one in cluster.kinds.values()} == {"absent"}


def test_a_kind_allowed_later_does_not_make_its_objects_appear(
    fake: KubeFake, cluster: Cluster
) -> None:
    world.put_installed(fake, "good")
    fake.script("GET", LIST, status_answer(403, "not yet"))
    sync_cluster(cluster)
    sync_cluster(cluster)
    assert Operator.objects.get().health == "Healthy"
    assert not Transition.objects.filter(type="Object").exists()


def test_a_connection_cut_half_way_writes_nothing(fake: KubeFake, synced: Cluster) -> None:
    world.put_failed(fake, "good")
    path = "/apis/olm.operatorframework.io/v1/clusterextensions"
    fake.script("GET", path, Answer(200, {"metadata": {}, "items": []}, cut=True))
    assert sync_cluster(synced).outcome == "failed"
    assert Operator.objects.get(name="good").health == "Healthy"
    assert Operator.objects.filter(kind=CLUSTER_EXTENSIONS.kind).exists()
    sync_cluster(synced)
    assert Operator.objects.get(name="good").health == "Failed"


def test_a_pass_killed_between_its_writes_leaves_no_trace(
    fake: KubeFake, synced: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put_failed(fake, "good")

    def die(*_: Any, **__: Any) -> None:
        raise MemoryError("killed")

    before = Transition.objects.count()
    with monkeypatch.context() as patched:
        patched.setattr("installs.state.write.update_members", die)
        with pytest.raises(MemoryError):
            sync_cluster(synced)
    assert Operator.objects.get(name="good").health == "Healthy"
    assert Transition.objects.count() == before
    sync_cluster(synced)
    assert Operator.objects.get(name="good").health == "Failed"


def test_a_pass_that_lost_its_lease_writes_nothing(fake: KubeFake, cluster: Cluster) -> None:
    world.fill(fake)
    report = sync_cluster(cluster, still_ours=lambda: False)
    assert report.outcome == "failed"
    assert rows() == (0, 0, 0)
    assert cluster.synced_at is None


def test_our_own_fault_is_recorded_without_its_text(cluster: Cluster) -> None:
    report = record_crash(cluster, ValueError(f"token {TOKEN}"), timezone.now())
    assert TOKEN not in report.error
    assert cluster.error_code == "internal"
    assert "ValueError" in SyncRun.objects.get().error_text


def test_our_own_fault_does_not_make_a_cluster_unreachable(synced: Cluster) -> None:
    ChangeEvent.objects.all().delete()
    record_crash(synced, ValueError("no"), timezone.now())
    assert (synced.reachable, synced.stale) == (True, True)
    assert not ChangeEvent.objects.filter(type="cluster.unreachable").exists()
    assert not due(synced, timezone.now())
    sync_cluster(synced)
    assert (synced.error_code, synced.stale) == ("", False)
    assert not ChangeEvent.objects.filter(type="cluster.reachable").exists()


def test_an_outage_and_our_own_fault_do_not_mix(fake: KubeFake, synced: Cluster) -> None:
    ChangeEvent.objects.all().delete()
    away = Unreachable("It does not answer.", hint="Check the network.")
    record_failure(synced, away, timezone.now(), 1)
    began = synced.unreachable_since
    assert (synced.unreachable, synced.answers) == (True, False)
    record_crash(synced, ValueError("no"), timezone.now())
    assert (synced.unreachable, synced.answers, synced.stale) == (False, None, True)
    assert (synced.error_code, synced.unreachable_since) == ("internal", began)
    record_failure(synced, away, timezone.now(), 1)
    assert (synced.unreachable, synced.error_text) == (True, away.message)
    assert synced.unreachable_since == began
    sync_cluster(synced)
    assert (synced.unreachable, synced.answers, synced.unreachable_since) == (False, True, None)
    types = ["cluster.unreachable", "cluster.reachable"]
    assert [row.type for row in ChangeEvent.objects.order_by("id")] == types


def test_our_own_fault_after_an_outage_does_not_bring_it_back(synced: Cluster) -> None:
    record_failure(synced, Unreachable("It does not answer."), timezone.now(), 1)
    began = synced.unreachable_since
    assert mark_reachable(synced)
    assert synced.reachable is False, "the watch does not read the row again"
    ChangeEvent.objects.all().delete()
    record_crash(synced, ValueError("no"), timezone.now())
    synced.refresh_from_db()
    assert (synced.reachable, synced.error_code) == (True, "internal")
    assert synced.unreachable_since is not None
    assert began is not None
    assert synced.unreachable_since > began
    assert not ChangeEvent.objects.exists()


def test_an_outage_begins_after_our_own_fault_and_not_with_it(synced: Cluster) -> None:
    record_crash(synced, ValueError("no"), timezone.now())
    crashed = synced.unreachable_since
    record_failure(synced, Unreachable("It does not answer."), timezone.now(), 1)
    assert crashed is not None
    assert synced.unreachable_since is not None
    assert synced.unreachable_since > crashed


def test_a_client_given_by_the_caller_stays_open(fake: KubeFake, cluster: Cluster) -> None:
    world.fill(fake)
    with client_for(cluster) as client:
        sync_cluster(cluster, client)
        assert client.version() == "v1.25.4"


def test_no_row_log_or_report_ever_has_the_token(
    fake: KubeFake, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for answer in (status_answer(401, "no"), Answer(500, b"<html>"), Answer(200, b"x")):
        fake.script("GET", FIRST, answer)
        report = sync_cluster(cluster)
        assert TOKEN not in report.error + str(Cluster.objects.values())
        assert TOKEN not in str(list(SyncRun.objects.values()))
    assert TOKEN not in "".join(capsys.readouterr())
