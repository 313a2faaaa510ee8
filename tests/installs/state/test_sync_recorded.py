"""Passes over objects that real controllers wrote, recorded from real API servers."""

import json
from pathlib import Path

import pytest

from installs.models import ClusterOperator, Component, Event, Operator, OperatorReference
from installs.state.full_sync import sync_cluster
from installs.state.observation import diagnose_row
from olmweb.kube.resources import (
    BUNDLE_DEPLOYMENTS,
    CATALOG_SOURCES,
    CLUSTER_CATALOGS,
    CLUSTER_OPERATORS,
    CLUSTER_SERVICE_VERSIONS,
    EVENTS,
    INSTALL_PLANS,
    OLM_OPERATORS,
    OPERATOR_GROUPS,
    PLATFORM_OPERATORS,
    SUBSCRIPTIONS,
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
    "catalogsources": CATALOG_SOURCES,
    "subscriptions": SUBSCRIPTIONS,
    "installplans": INSTALL_PLANS,
    "clusterserviceversions": CLUSTER_SERVICE_VERSIONS,
    "operatorgroups": OPERATOR_GROUPS,
    "operators": OLM_OPERATORS,
    "events": EVENTS,
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
    owned = ("BundleDeployment", "Bundle", "ClusterServiceVersion", "Operator")
    assert not Component.objects.filter(kind__in=owned, operator=None).exists()
    facts = Operator.objects.get(name="cat-facts-operator")
    assert facts.bundle == "quay.io/community-operator-pipeline-prod/cat-facts-operator:1.1.2"
    assert cluster.catalogs.count() == 6  # ClusterCatalogs and CatalogSources


def test_the_real_objects_of_olm_v0_are_three_subscriptions_with_all_that_they_name(
    real: KubeFake, cluster: Cluster
) -> None:
    assert sync_cluster(cluster).kinds["ClusterServiceVersion"]["objects"] == 3  # 24 are copies
    rows = {row.name: row for row in Operator.objects.filter(kind="Subscription")}
    assert not Operator.objects.filter(kind="ClusterServiceVersion").exists()
    assert {name: (row.health, row.version, row.reason) for name, row in rows.items()} == {
        "good": ("Healthy", "1.1.0", "InstallSucceeded"),
        "own": ("Blocked", "1.0.0", "UnsupportedOperatorGroup"),
        "needs": ("Blocked", "1.0.0", "RequirementsNotMet"),
    }
    assert all(row.finding for row in rows.values() if row.health != "Healthy")
    good = rows["good"]
    assert (good.package, good.catalog, good.catalog_namespace) == ("good", "tiny", "olm")
    csv = good.components.get(kind="ClusterServiceVersion")
    assert (csv.phase, csv.details["package"], csv.details["replaces"]) == (
        "Succeeded",
        "good",
        "good.v1.0.0",
    )
    assert csv.details["requirements"]
    named = set(OperatorReference.objects.filter(operator=good).values_list("kind", "name"))
    assert named >= {
        ("InstallPlan", "install-jl6b2"),
        ("CatalogSource", "tiny"),
        ("OperatorGroup", "global"),
        ("ClusterServiceVersion", "good.v1.1.0"),
    }
    plan = Component.objects.get(kind="InstallPlan", name="install-jl6b2")
    assert (plan.phase, plan.details["subscriptions"]) == ("Complete", ["good"])
    assert plan.details["steps_total"] == len(plan.details["steps"]) > 3
    assert Event.objects.filter(kind="ClusterServiceVersion", name="good.v1.1.0").exists()
    assert not Event.objects.filter(kind="Namespace").exists()
    assert not Operator.objects.filter(health="Unknown").exists()


def test_a_second_pass_over_the_real_objects_writes_nothing(
    real: KubeFake, cluster: Cluster
) -> None:
    sync_cluster(cluster)
    sync_cluster(cluster)  # the catalogs of the first have no content yet
    assert sync_cluster(cluster).outcome == "unchanged"


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


def test_a_failed_resolution_of_the_real_upgrade_is_over_when_its_old_version_is_gone(
    real: KubeFake, cluster: Cluster, shared_data: Path
) -> None:
    """The recorded upgrade, with what OLM tells of it while good.v1.0.0 still goes."""
    document = json.loads((shared_data / "recorded" / "subscriptions.json").read_text())
    good = next(item for item in document["items"] if item["metadata"]["name"] == "good")
    told = (
        "constraints not satisfiable: @existing/t1//good.v1.0.0 and @existing/t1//good.v1.1.0 "
        "originate from package good, clusterserviceversion good.v1.0.0 exists and is not "
        "referenced by a subscription, subscription good exists"
    )
    failed = {"type": "ResolutionFailed", "status": "True", "reason": "ConstraintsNotSatisfiable"}
    good["status"]["conditions"].append({**failed, "message": told})
    real.put(SUBSCRIPTIONS, good)
    sync_cluster(cluster)
    row = Operator.objects.get(name="good")
    assert (row.health, row.finding) == ("Healthy", "")
    assert [note.id for note in diagnose_row(row, row.components.all()).notes] == [
        "resolution-failed-before"
    ]
