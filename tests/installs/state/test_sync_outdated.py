"""A failed resolution that OLM v0 leaves behind, from the cluster's objects to rows and pages."""

from typing import Any

import pytest

from installs.models import Operator, OperatorReference
from installs.queries.operator_detail import parts_of
from installs.state.full_sync import sync_cluster
from installs.state.observation import diagnose_row
from olmweb.kube.resources import CLUSTER_SERVICE_VERSIONS, SUBSCRIPTIONS
from olmweb.models import Cluster
from tests.factories import make_package
from tests.kubefake import KubeFake
from tests.worlds import cluster_v0 as v0
from tests.worlds.cluster import condition

pytestmark = pytest.mark.usefixtures("recorded")
OLD, NEW = "etcd.v1.0.0", "etcd.v1.1.0"
TOLD = (
    f"constraints not satisfiable: @existing/{v0.NS}//{OLD} and @existing/{v0.NS}//{NEW} originate "
    f"from package etcd, clusterserviceversion {OLD} exists and is not referenced by a "
    f"subscription, subscription etcd requires @existing/{v0.NS}//{NEW}, subscription etcd exists"
)
FAILED = condition("ResolutionFailed", "True", "ConstraintsNotSatisfiable", TOLD)


def _subscribed(fake: KubeFake, name: str, version: str, **more: Any) -> None:
    """As OLM writes it: the condition has no time."""
    failed = {key: value for key, value in FAILED.items() if key != "lastTransitionTime"}
    status = {"currentCSV": version, "installedCSV": version, "conditions": [failed], **more}
    fake.put(SUBSCRIPTIONS, v0.subscription(name, state="AtLatestKnown", **status))


@pytest.fixture
def upgraded(fake: KubeFake, cluster: Cluster) -> KubeFake:
    """etcd goes from OLD to NEW beside kafka; OLD is still there."""
    v0.put_installed(fake)
    fake.put(CLUSTER_SERVICE_VERSIONS, v0.csv(OLD, "Replacing", "BeingReplaced"))
    fake.put(CLUSTER_SERVICE_VERSIONS, v0.csv(NEW, spec={"replaces": OLD}))
    fake.put(CLUSTER_SERVICE_VERSIONS, v0.csv("kafka.v3.0.0"))
    _subscribed(fake, "etcd", NEW)
    _subscribed(fake, "kafka", "kafka.v3.0.0")
    sync_cluster(cluster)
    return fake


def _rows() -> dict[str, Operator]:
    return {row.name: row for row in Operator.objects.all()}


def _notes(row: Operator) -> list[str]:
    return [note.id for note in diagnose_row(row, parts_of(row).components).notes]


def test_every_subscription_of_the_namespace_is_well_once_the_old_version_is_gone(
    upgraded: KubeFake, cluster: Cluster
) -> None:
    rows = _rows()
    assert (rows["etcd"].health, rows["kafka"].health) == ("Upgrading", "Degraded")
    upgraded.remove(CLUSTER_SERVICE_VERSIONS, OLD, v0.NS)
    sync_cluster(cluster)
    rows = _rows()
    assert {name: row.health for name, row in rows.items()} == {
        "etcd": "Healthy",
        "kafka": "Healthy",
    }
    for row in rows.values():
        assert _notes(row) == ["resolution-failed-before"]
        assert row.finding == ""
        named = {one.name for one in parts_of(row).absent}
        assert OLD not in named


def test_versions_that_the_failure_names_stay_with_their_own_subscription(
    upgraded: KubeFake, cluster: Cluster
) -> None:
    kafka, etcd = _rows()["kafka"], _rows()["etcd"]
    named = OperatorReference.objects.filter(operator=kafka, kind="ClusterServiceVersion")
    assert set(named.values_list("name", flat=True)) == {OLD, NEW, "kafka.v3.0.0"}
    own = etcd.components.filter(kind="ClusterServiceVersion").values_list("name", flat=True)
    assert set(own) == {OLD, NEW}
    assert kafka.components.get(kind="ClusterServiceVersion").name == "kafka.v3.0.0"


def test_an_orphan_that_a_failure_names_is_an_operator_of_its_own_and_keeps_it(
    upgraded: KubeFake, cluster: Cluster
) -> None:
    upgraded.remove(SUBSCRIPTIONS, "etcd", v0.NS)
    upgraded.remove(CLUSTER_SERVICE_VERSIONS, NEW, v0.NS)
    created = {"creationTimestamp": "2026-01-02T03:04:05Z"}
    upgraded.put(CLUSTER_SERVICE_VERSIONS, v0.csv(OLD, meta=created))
    told = TOLD.replace(f" and @existing/{v0.NS}//{NEW}", " and community/olm/stable/etcd.v9")
    told = told.replace(f"@existing/{v0.NS}//{NEW}", "community/olm/stable/etcd.v9")
    failed = {**FAILED, "message": told}
    _subscribed(upgraded, "kafka", "kafka.v3.0.0", conditions=[failed])
    sync_cluster(cluster)
    rows = _rows()
    assert (rows[OLD].kind, rows[OLD].health) == ("ClusterServiceVersion", "Healthy")
    assert rows["kafka"].health == "Degraded"


def test_an_upgrade_is_not_said_to_be_held_by_a_failure_that_is_over(
    upgraded: KubeFake, cluster: Cluster
) -> None:
    upgraded.remove(CLUSTER_SERVICE_VERSIONS, OLD, v0.NS)
    catalog = cluster.catalogs.get(name="community")
    cluster.catalogs.update(revision=1)
    make_package(name="etcd", catalog=catalog, channels={"stable": ("1.1.0", "1.2.0")})
    sync_cluster(cluster)
    row = _rows()["etcd"]
    assert (row.upgrade, row.upgrade_held) == ("1.2.0", "")
