"""What is done under a lease is committed only while the lease is still the thread's own."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from catalogs.models import PredictionRun
from installs.facts import evaluate
from installs.models import Operator
from installs.state.full_sync import record_failure, sync_cluster
from installs.state.listing import Snapshot
from installs.state.watch import positions
from installs.state.write import apply_changes, lock, write_snapshot
from olmweb.kube.errors import Unreachable
from olmweb.models import Cluster, Lease
from olmweb.runtime.leases import LeaseLost, _extend, acquire, fenced_transaction, lease
from tests.factories import make_catalog, make_cluster, make_watch

pytestmark = pytest.mark.django_db(transaction=True)


def steal() -> None:
    """As another worker does when this one was paused for too long."""
    Lease.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert acquire("cluster:1", 60)


def test_rows_of_a_lost_lease_are_rolled_back() -> None:
    with lease("cluster:1", 60):
        with fenced_transaction():
            make_cluster(name="mine")
        steal()
        with pytest.raises(LeaseLost), fenced_transaction():
            make_cluster(name="late")
    assert list(Cluster.objects.values_list("name", flat=True)) == ["mine"]


def test_a_lease_that_expired_without_a_taker_still_counts() -> None:
    with lease("cluster:1", 60):
        Lease.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        with fenced_transaction():
            make_cluster(name="mine")
    assert Cluster.objects.count() == 1


def test_a_thread_without_a_lease_writes() -> None:
    with lease("cluster:1", 60):
        pass
    with lease("cluster:1", 60):
        others: list[int] = []

        def write() -> None:
            steal()
            with fenced_transaction():
                others.append(Cluster.objects.count())
            connection.close()

        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert others == [0]


def test_a_commit_that_takes_long_keeps_no_other_lease_from_being_renewed() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    ours = acquire("cluster:1", 1)
    other = acquire("cluster:2", 1)
    assert ours
    assert other
    before = dict(Lease.objects.values_list("name", "expires_at"))

    def renew() -> None:
        _extend([ours.owner, other.owner], 60)
        connection.close()

    thread = threading.Thread(target=renew)
    with transaction.atomic():
        Lease.objects.select_for_update().get(owner=ours.owner)  # as a fence before its commit
        thread.start()
        thread.join(10)
        assert not thread.is_alive(), "waits for the commit"
    after = dict(Lease.objects.values_list("name", "expires_at"))
    assert [name for name in after if after[name] > before[name]] == ["cluster:2"]
    _extend([ours.owner, other.owner], 90)
    assert Lease.objects.get(name="cluster:1").expires_at > before["cluster:1"]


def test_rows_that_refer_to_a_cluster_are_committed_beside_its_writer() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    cluster = make_cluster(name="prod")
    committed = threading.Event()

    def refer() -> None:
        make_watch(cluster=cluster)
        committed.set()
        connection.close()

    thread = threading.Thread(target=refer)
    with transaction.atomic():
        lock(cluster)
        thread.start()
        assert committed.wait(10), "waits for the writer of the cluster"
    thread.join()


def test_a_taker_waits_for_the_commit() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    taken = threading.Event()

    def take() -> None:
        while not acquire("cluster:1", 60):
            pass
        taken.set()
        connection.close()

    thread = threading.Thread(target=take)
    with lease("cluster:1", 60):
        Lease.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        with transaction.atomic():
            with fenced_transaction():
                make_cluster(name="mine")
            thread.start()
            assert not taken.wait(0.5), "taken over before the commit"
        assert taken.wait(5)
    thread.join()


def snapshot(cluster: Cluster) -> object:
    return write_snapshot(cluster, Snapshot())


def changes(cluster: Cluster) -> object:
    return apply_changes(cluster, [], {})


@pytest.mark.parametrize("write", [snapshot, changes])
def test_the_state_of_a_cluster_that_was_taken_over_is_not_written(
    write: Callable[[Cluster], Any],
) -> None:
    cluster = make_cluster(name="prod", reachable=False, unreachable_since=timezone.now())
    with lease("cluster:1", 60):
        steal()
        with pytest.raises(LeaseLost):
            write(cluster)
        assert not positions.mark_reachable(cluster)
    cluster.refresh_from_db()
    assert cluster.reachable is False


def test_a_failure_of_a_cluster_that_was_taken_over_is_not_stored() -> None:
    cluster = make_cluster(name="prod")
    with lease("cluster:1", 60):
        steal()
        report = record_failure(cluster, Unreachable("It does not answer."), timezone.now(), 1)
    cluster.refresh_from_db()
    assert report.outcome == "failed"
    assert cluster.reachable is not False


def test_a_pass_of_a_cluster_that_was_taken_over_reports_so(
    sandbox: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make_cluster(name="prod", context="sandbox")

    def stolen() -> bool:
        steal()  # after this check: the fence alone notices
        return True

    with lease("cluster:1", 60):
        report = sync_cluster(cluster, still_ours=stolen)
    assert "took over" in report.error
    assert Operator.objects.count() == 0


def test_verdicts_of_a_worker_that_lost_its_lease_are_not_recorded() -> None:
    catalog = make_catalog()
    with lease("cluster:1", 60):
        steal()
        with pytest.raises(LeaseLost):
            evaluate.refresh(catalog)
    assert not PredictionRun.objects.filter(catalog=catalog).exists()
    evaluate.refresh(catalog)
    assert PredictionRun.objects.filter(catalog=catalog).exists()
