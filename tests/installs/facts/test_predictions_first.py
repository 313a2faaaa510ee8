"""The first reading of a cluster: nothing is judged for it before, and nobody waits for ever."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from catalogs.models import Catalog, PredictionRun
from catalogs.sync.catalog import sync_catalog
from catalogs.verdicts import store as judge_module
from catalogs.verdicts.read import verdicts, verdicts_of
from installs import tasks
from installs.facts.cluster_facts import cluster_facts
from installs.models import ClusterInventory
from olmweb.kube.errors import Unreachable
from olmweb.models import Cluster
from tests.worlds.syncing import make
from tests.worlds.verdicts import bundle_called, judged_cluster, package_blobs

pytestmark = pytest.mark.django_db


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """Synced; a reading that is asked for does not come by itself."""
    monkeypatch.setattr(tasks.read_inventory, "delay", lambda _: None)
    found = make(tmp_path, package_blobs("good", "1.0.0", "1.1.0"))
    assert sync_catalog(found).outcome == "changed"
    return found


def _judged_for() -> set[int | None]:
    return set(PredictionRun.objects.values_list("cluster_id", flat=True))


def _read(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, error: Exception | None) -> list[str]:
    """Runs the task that reads the inventory; the tasks that it enqueues."""
    asked: list[str] = []

    def read(_: Cluster) -> bool:
        if error is not None:
            raise error
        ClusterInventory.objects.filter(cluster=cluster).update(
            awaited_since=None, read_at=timezone.now(), namespaces=[]
        )
        return True

    monkeypatch.setattr(tasks.predict, "delay", lambda: asked.append("predict"))
    monkeypatch.setattr("installs.facts.inventory.read_inventory", read)
    tasks.read_inventory(cluster.pk)
    return asked


def test_a_cluster_that_is_read_for_the_first_time_is_not_judged_before(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = judged_cluster("v1.20.4")
    tasks.predict()
    assert _judged_for() == {None}
    bundle = bundle_called("good.v1.1.0")
    assert verdicts([bundle.pk], cluster.pk) == {}
    assert verdicts_of(bundle, cluster.pk) == []
    assert verdicts_of(bundle)
    assert _read(monkeypatch, cluster, None) == ["predict"]
    tasks.predict()
    assert _judged_for() == {None, cluster.pk}
    assert verdicts_of(bundle, cluster.pk)


@pytest.mark.parametrize("error", [Unreachable("no answer"), ValueError("odd")])
def test_a_first_reading_that_fails_is_not_waited_for(
    error: Exception, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = judged_cluster("v1.20.4")
    tasks.predict()
    assert _read(monkeypatch, cluster, error) == ["predict"]
    tasks.predict()
    assert _judged_for() == {None, cluster.pk}
    assert cluster_facts(cluster).namespaces is None
    assert _read(monkeypatch, cluster, error) == []


def test_a_first_reading_that_never_ends_is_waited_for_a_minute(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = judged_cluster("v1.20.4")
    tasks.predict()
    ClusterInventory.objects.update(awaited_since=timezone.now() - timedelta(seconds=61))
    tasks.predict()
    assert _judged_for() == {None, cluster.pk}


def test_a_cluster_that_is_read_while_others_are_judged_is_judged_in_the_same_turn(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = judged_cluster("v1.20.4")
    evaluate_catalog = judge_module.evaluate_catalog

    def judge_and_read(*args: Any) -> Any:
        ClusterInventory.objects.update(awaited_since=None)
        return evaluate_catalog(*args)

    monkeypatch.setattr("installs.facts.evaluate.evaluate_catalog", judge_and_read)
    tasks.predict()
    assert _judged_for() == {None, cluster.pk}
