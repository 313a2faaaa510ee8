"""A pass over objects that real controllers wrote, recorded from a real API server."""

import json
from pathlib import Path

import pytest

from installs.models import ClusterOperator, Component, Operator
from installs.sync import sync_cluster
from olmweb.kube.resources import (
    BUNDLE_DEPLOYMENTS,
    CLUSTER_CATALOGS,
    CLUSTER_OPERATORS,
    PLATFORM_OPERATORS,
    Resource,
)
from olmweb.models import Cluster
from tests.kubefake import KubeFake

pytestmark = pytest.mark.data

FILES: dict[str, Resource] = {
    "platformoperators": PLATFORM_OPERATORS,
    "bundledeployments": BUNDLE_DEPLOYMENTS,
    "clusteroperators": CLUSTER_OPERATORS,
    "clustercatalogs": CLUSTER_CATALOGS,
}


@pytest.fixture
def real(fake: KubeFake, shared_data: Path) -> KubeFake:
    for name, resource in FILES.items():
        document = json.loads((shared_data / "recorded" / f"{name}.json").read_text())
        for item in document["items"]:
            fake.put(resource, item)
    return fake


def test_real_objects_are_kept_linked_and_diagnosed(real: KubeFake, cluster: Cluster) -> None:
    sync_cluster(cluster)
    found = {row.name: (row.health, row.reason) for row in Operator.objects.all()}
    assert found["cat-facts-operator"] == ("Failed", "UnpackFailed")
    assert found["no-such-package"] == ("Failed", "SourceFailed")
    assert {health for health, _ in found.values()} >= {"Failed", "Healthy"}
    assert not Operator.objects.filter(health="Failed", finding="").exists()
    assert not Component.objects.filter(operator=None).exists()
    facts = Operator.objects.get(name="cat-facts-operator")
    assert facts.bundle == "quay.io/community-operator-pipeline-prod/cat-facts-operator:1.1.2"
    assert cluster.catalogs.count() == 3


def test_the_real_aggregated_operator_agrees_with_its_objects(
    real: KubeFake, cluster: Cluster
) -> None:
    sync_cluster(cluster)
    row = ClusterOperator.objects.get(aggregated=True)
    assert (row.severity, row.reason, row.version) == (3, "PlatformOperatorError", "4.12.0")
    members = {member.name: member for member in row.members.all()}
    assert set(members) == {"cat-facts-operator", "infinispan", "no-such-package", "sailoperator"}
    assert all(member.operator for member in members.values())
    assert row.problem == ""
    assert sync_cluster(cluster).outcome == "unchanged"
