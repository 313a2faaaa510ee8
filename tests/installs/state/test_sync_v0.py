"""Objects of OLM v0, Deployments, pods, CRDs and Events: kept, linked and diagnosed by passes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from installs.models import (
    Component,
    CRDState,
    Event,
    Operator,
    OperatorReference,
    Transition,
    UnknownMessage,
)
from installs.state.full_sync import sync_cluster
from installs.state.pods import refresh_pods
from olmweb.clusters import client_for
from olmweb.kube.resources import (
    CATALOG_SOURCES,
    CLUSTER_SERVICE_VERSIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    INSTALL_PLANS,
    OLM_OPERATORS,
    OPERATOR_CONDITIONS,
    OPERATOR_GROUPS,
    SUBSCRIPTIONS,
    Resource,
)
from olmweb.models import Cluster
from tests.factories import make_catalog, make_package
from tests.kubefake import KubeFake, status_answer
from tests.worlds import cluster_v0 as v0
from tests.worlds.cluster import condition

pytestmark = pytest.mark.usefixtures("recorded")


@pytest.fixture
def installed(fake: KubeFake, cluster: Cluster) -> Cluster:
    v0.put_installed(fake)
    assert sync_cluster(cluster).outcome == "changed"
    return cluster


def the_operator() -> Operator:
    return Operator.objects.get(name="etcd")


def again(fake: KubeFake, cluster: Cluster, resource: Resource, obj: dict[str, Any]) -> None:
    """Puts a changed object under the uid that it has, and reads the cluster."""
    meta = obj["metadata"]
    key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
    meta["uid"] = fake._objects[resource.group, resource.plural][key]["metadata"]["uid"]
    fake.put(resource, obj)
    sync_cluster(cluster)


def test_a_subscription_has_its_columns_and_everything_it_names(installed: Cluster) -> None:
    row = the_operator()
    assert (row.kind, row.package, row.catalog, row.catalog_namespace, row.channel) == (
        "Subscription",
        "etcd",
        "community",
        "olm",
        "stable",
    )
    assert (row.bundle, row.version, row.health, row.upgrade) == (
        "etcd.v1.0.0",
        "1.0.0",
        "Healthy",
        "",
    )
    assert row.details["approval"] == "Manual"
    assert set(row.references.values_list("kind", "namespace", "name")) == {
        ("CatalogSource", "olm", "community"),
        ("InstallPlan", v0.NS, "install-1"),
        ("ClusterServiceVersion", v0.NS, "etcd.v1.0.0"),
        ("OperatorCondition", v0.NS, "etcd.v1.0.0"),
        ("OperatorGroup", v0.NS, "group"),
    }
    assert set(row.components.values_list("kind", flat=True)) == {
        "ClusterServiceVersion",
        "OperatorCondition",
        "Operator",
        "Deployment",
    }
    assert set(Component.objects.filter(operator=None).values_list("kind", flat=True)) == {
        "CatalogSource",
        "InstallPlan",
        "OperatorGroup",
    }


def test_details_are_those_that_pages_and_the_diagnosis_read(installed: Cluster) -> None:
    found = {row.kind: row for row in Component.objects.all()}
    csv = found["ClusterServiceVersion"]
    assert csv.details["deployments"] == ["etcd"]
    assert csv.details["owned_crds"] == ["etcds.example.com"]
    assert csv.details["install_modes"] == {"AllNamespaces": True}
    assert (csv.details["package"], csv.details["provider"]) == ("etcd", "Example")
    assert csv.conditions == []
    plan = found["InstallPlan"]
    assert plan.details["steps"] == [
        {
            "resolving": "etcd.v1.0.0",
            "kind": "CustomResourceDefinition",
            "name": "etcds.example.com",
            "group": "apiextensions.k8s.io",
            "version": "v1",
            "status": "Created",
        }
    ]
    assert plan.details["lookups"][0]["conditions"][0]["reason"] == "JobIncomplete"
    assert found["CatalogSource"].details["state"] == "READY"
    assert found["OperatorGroup"].details["namespaces"] == [""]
    deployment = found["Deployment"]
    assert deployment.details["selector"] == {"matchLabels": {"app": "etcd"}}
    assert (deployment.details["available"], deployment.details["pods"]) == (1, [])
    crd = CRDState.objects.get()
    assert (crd.group, crd.served_kind, crd.owner_name) == ("example.com", "Etcd", "etcd.shop")
    assert (crd.served, crd.defined, crd.stored) == (["v1"], ["v1", "v1beta1"], ["v1"])


def test_an_unchanged_pass_over_all_kinds_is_unchanged(installed: Cluster) -> None:
    assert sync_cluster(installed).outcome == "unchanged"


def test_phases_and_connections_are_history_like_conditions(
    fake: KubeFake, installed: Cluster
) -> None:
    again(fake, installed, CLUSTER_SERVICE_VERSIONS, v0.csv(phase="Failed", reason="OwnerConflict"))
    again(fake, installed, INSTALL_PLANS, v0.plan(phase="Failed"))
    again(fake, installed, CATALOG_SOURCES, v0.catalog_source("TRANSIENT_FAILURE"))
    told = Transition.objects.filter(type__in=("Phase", "Connection")).order_by("id")
    assert [(row.kind, row.type, row.from_status, row.to_status, row.to_reason) for row in told][
        -3:
    ] == [
        ("ClusterServiceVersion", "Phase", "Succeeded", "Failed", "OwnerConflict"),
        ("InstallPlan", "Phase", "Complete", "Failed", ""),
        ("CatalogSource", "Connection", "READY", "TRANSIENT_FAILURE", ""),
    ]


def test_a_csv_that_no_subscription_names_is_an_operator_until_one_does(
    fake: KubeFake, cluster: Cluster
) -> None:
    fake.put(CLUSTER_SERVICE_VERSIONS, v0.csv())
    fake.put(DEPLOYMENTS, v0.deployment())
    sync_cluster(cluster)
    row = Operator.objects.get()
    assert (row.kind, row.name, row.package, row.version) == (
        "ClusterServiceVersion",
        "etcd.v1.0.0",
        "etcd",
        "1.0.0",
    )
    assert row.health == "Healthy"
    assert set(row.components.values_list("kind", flat=True)) == {
        "ClusterServiceVersion",
        "Deployment",
    }
    assert sync_cluster(cluster).outcome == "unchanged"
    fake.put(SUBSCRIPTIONS, v0.subscription(currentCSV="etcd.v1.0.0", installedCSV="etcd.v1.0.0"))
    sync_cluster(cluster)
    row = Operator.objects.get()
    assert (row.kind, row.components.count()) == ("Subscription", 2)
    fake.remove(SUBSCRIPTIONS, "etcd", v0.NS)
    sync_cluster(cluster)
    row = Operator.objects.get()
    assert (row.kind, row.components.count(), row.health) == ("ClusterServiceVersion", 2, "Healthy")


def test_a_csv_that_another_replaces_is_no_operator_of_its_own(
    fake: KubeFake, cluster: Cluster
) -> None:
    fake.put(CLUSTER_SERVICE_VERSIONS, v0.csv("etcd.v1.0.0", "Replacing", "BeingReplaced"))
    fake.put(
        CLUSTER_SERVICE_VERSIONS, v0.csv("etcd.v1.1.0", "Pending", spec={"replaces": "etcd.v1.0.0"})
    )
    sync_cluster(cluster)
    row = Operator.objects.get()
    assert (row.name, row.components.count()) == ("etcd.v1.1.0", 2)
    fake.remove(CLUSTER_SERVICE_VERSIONS, "etcd.v1.1.0", v0.NS)
    sync_cluster(cluster)
    assert Operator.objects.get().name == "etcd.v1.0.0"


def test_copies_of_a_csv_are_never_counted(fake: KubeFake, cluster: Cluster) -> None:
    fake.put(CLUSTER_SERVICE_VERSIONS, v0.csv())
    copied = v0.csv(meta={"namespace": "other", "labels": {"olm.copiedFrom": v0.NS}})
    fake.put(CLUSTER_SERVICE_VERSIONS, copied)
    unlabelled = v0.csv(reason="Copied", meta={"namespace": "third", "labels": {}})
    fake.put(CLUSTER_SERVICE_VERSIONS, unlabelled)
    assert sync_cluster(cluster).kinds["ClusterServiceVersion"]["objects"] == 1
    asked = next(s for s in fake.requests if s.path.endswith("/clusterserviceversions"))
    assert asked.query["labelSelector"] == "!olm.copiedFrom"


@pytest.mark.parametrize(
    ("status", "around", "held"),
    [
        (
            {},
            v0.plan("install-2", "RequiresApproval"),
            "InstallPlan install-2 requires manual approval.",
        ),
        (
            {},
            v0.operator_condition(
                "etcd.v1.0.0", condition("Upgradeable", "False", "Busy", "migrating data")
            ),
            "etcd.v1.0.0 says that it must not be upgraded now: migrating data.",
        ),
        (
            {"conditions": [condition("ResolutionFailed", "True", "X", "no operators found")]},
            None,
            "OLM found no way to it: no operators found.",
        ),
        ({}, None, ""),
    ],
)
def test_an_upgrade_of_a_subscription_says_what_holds_it(
    fake: KubeFake, cluster: Cluster, status, around, held: str
) -> None:
    v0.put_installed(fake)
    fake.put(
        SUBSCRIPTIONS,
        v0.subscription(
            state="UpgradePending",
            currentCSV="etcd.v1.1.0",
            installedCSV="etcd.v1.0.0",
            installPlanRef={"name": "install-2", "namespace": v0.NS},
            **status,
        ),
    )
    if around is not None:
        kind = INSTALL_PLANS if "approval" in around["spec"] else OPERATOR_CONDITIONS
        fake.put(kind, around)
    sync_cluster(cluster)
    row = the_operator()
    assert (row.version, row.upgrade, row.upgrade_held) == ("1.0.0", "1.1.0", held)


def test_a_newer_head_of_the_channel_in_a_known_catalog_is_an_upgrade(
    fake: KubeFake, installed: Cluster
) -> None:
    assert the_operator().upgrade == ""
    catalog = make_catalog(name="community")
    make_package(
        name="etcd",
        catalog=catalog,
        channels={"stable": ("1.0.0", "1.2.0"), "beta": ("1.2.0", "2.0.0")},
        bundles={"1.0.0": {"deprecated": True}},
    )
    sync_cluster(installed)
    row = the_operator()
    assert (row.upgrade, row.upgrade_held, row.deprecated) == ("1.2.0", "", True)
    assert sync_cluster(installed).outcome == "unchanged"


def test_a_subscription_that_says_it_is_deprecated_is(fake: KubeFake, cluster: Cluster) -> None:
    v0.put_installed(fake)
    told = v0.subscription(
        installedCSV="etcd.v1.0.0", conditions=[condition("PackageDeprecated", "True")]
    )
    fake.put(SUBSCRIPTIONS, told)
    sync_cluster(cluster)
    assert the_operator().deprecated


def test_a_change_of_what_an_operator_refers_to_changes_its_health(
    fake: KubeFake, cluster: Cluster
) -> None:
    v0.put_installed(fake)
    fake.remove(CLUSTER_SERVICE_VERSIONS, "etcd.v1.0.0", v0.NS)
    fake.put(
        SUBSCRIPTIONS,
        v0.subscription(
            state="UpgradePending",
            currentCSV="etcd.v1.0.0",
            installPlanRef={"name": "install-1", "namespace": v0.NS},
        ),
    )
    fake.put(INSTALL_PLANS, v0.plan(phase="Installing"))
    sync_cluster(cluster)
    assert the_operator().health == "Installing"
    again(fake, cluster, INSTALL_PLANS, v0.plan(phase="RequiresApproval"))
    assert the_operator().health == "NeedsApproval"


def test_an_operator_group_that_comes_later_is_referred_to(
    fake: KubeFake, installed: Cluster
) -> None:
    fake.put(OPERATOR_GROUPS, v0.operator_group("second"))
    sync_cluster(installed)
    assert OperatorReference.objects.filter(kind="OperatorGroup").count() == 2
    fake.remove(OPERATOR_GROUPS, "group", v0.NS)
    sync_cluster(installed)
    assert OperatorReference.objects.get(kind="OperatorGroup").name == "second"


def test_deployments_belong_to_the_operator_that_owns_their_owner(
    fake: KubeFake, cluster: Cluster
) -> None:
    from tests.worlds import cluster as world

    world.put_installed(fake, "good")
    world.put_cluster_extension(fake, "ext")
    fake.put(DEPLOYMENTS, v0.deployment("a", labels={"core.rukpak.io/owner-name": "good"}))
    fake.put(DEPLOYMENTS, v0.deployment("b", labels={"olm.operatorframework.io/owner-name": "ext"}))
    fake.put(DEPLOYMENTS, v0.deployment("c", labels={"app": "somebody-else's"}))
    fake.put(DEPLOYMENTS, v0.deployment("d", owner="gone.v1.0.0"))
    sync_cluster(cluster)
    found = Component.objects.filter(kind="Deployment").order_by("name")
    assert [(row.name, row.operator and row.operator.name) for row in found] == [
        ("a", "good"),
        ("b", "ext"),
        ("d", None),
    ]
    assert cluster.kinds["Deployment"]["objects"] == 3


def test_a_deployment_that_changes_its_owner_changes_its_feed_and_stays(
    fake: KubeFake, installed: Cluster
) -> None:
    moved = v0.deployment(labels={"olm.operatorframework.io/owner-name": "ext"})
    again(fake, installed, DEPLOYMENTS, moved)
    row = Component.objects.get(kind="Deployment")
    assert (row.owner_kind, row.owner_name, row.operator) == ("ClusterExtension", "ext", None)


def test_pods_are_asked_for_where_a_deployment_is_not_available(
    fake: KubeFake, installed: Cluster
) -> None:
    assert not [s for s in fake.requests if s.path.endswith("/pods")]
    v0.put_pod(fake, "ImagePullBackOff", 'Back-off pulling image "x"')
    again(fake, installed, DEPLOYMENTS, v0.deployment(available=0))
    (asked,) = [s for s in fake.requests if s.path.endswith("/pods")]
    assert (asked.path, asked.query["labelSelector"]) == (
        f"/api/v1/namespaces/{v0.NS}/pods",
        "app=etcd",
    )
    row = Component.objects.get(kind="Deployment")
    assert row.details["pods"] == [
        {
            "name": "etcd-7f",
            "container": "manager",
            "reason": "ImagePullBackOff",
            "message": 'Back-off pulling image "x"',
            "restarts": 3,
        }
    ]
    operator = the_operator()
    assert (operator.health, operator.broken_kind) == ("Degraded", "Pod")
    assert operator.finding
    assert sync_cluster(installed).outcome == "unchanged"
    changed = v0.deployment(available=0)
    changed["status"]["updatedReplicas"] = 1
    again(fake, installed, DEPLOYMENTS, changed)
    assert Component.objects.get(kind="Deployment").details["pods"]
    again(fake, installed, DEPLOYMENTS, v0.deployment(available=1))
    assert Component.objects.get(kind="Deployment").details["pods"] == []
    assert the_operator().health == "Healthy"


def test_pods_that_may_not_be_read_are_left_out(fake: KubeFake, installed: Cluster) -> None:
    fake.put(DEPLOYMENTS, v0.deployment(available=0))
    path = f"/api/v1/namespaces/{v0.NS}/pods"
    fake.script("GET", path, status_answer(403, "no pods"), status_answer(403, "no pods"))
    assert sync_cluster(installed).error == ""
    with client_for(installed) as client:
        assert refresh_pods(installed, client).total == 0
    assert Component.objects.get(kind="Deployment").details["pods"] == []


def test_events_about_our_objects_are_kept_when_the_cluster_forgets_them(
    fake: KubeFake, installed: Cluster
) -> None:
    row = Event.objects.get()
    assert (row.kind, row.namespace, row.name) == ("ClusterServiceVersion", v0.NS, "etcd.v1.0.0")
    assert (row.type, row.reason, row.count) == ("Warning", "InstallCheckFailed", 1)
    assert row.source == "operator-lifecycle-manager"
    assert row.last_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    fake.put(EVENTS, v0.event("etcd.2", "somebody-else"))
    fake.put(EVENTS, v0.event("etcd.1", "etcd.v1.0.0", count=7, meta={"uid": row.uid}))
    assert sync_cluster(installed).kinds["Event"] == {"objects": 2, "written": 1, "deleted": 0}
    assert Event.objects.get().count == 7
    fake.remove(EVENTS, "etcd.1", v0.NS)
    assert sync_cluster(installed).outcome == "unchanged"
    assert Event.objects.count() == 1


def test_olms_own_grouping_without_a_subscription_belongs_to_its_csv(
    fake: KubeFake, cluster: Cluster
) -> None:
    fake.put(CLUSTER_SERVICE_VERSIONS, v0.csv())
    grouping = v0.olm_operator()
    refs = grouping["status"]["components"]["refs"]
    refs[0] = {"kind": "ClusterServiceVersion", "namespace": v0.NS, "name": "etcd.v1.0.0"}
    fake.put(OLM_OPERATORS, grouping)
    sync_cluster(cluster)
    assert Component.objects.get(kind="Operator").operator == Operator.objects.get()


def test_what_nobody_knows_is_counted_once_each_time_an_operator_comes_to_say_it(
    fake: KubeFake, cluster: Cluster
) -> None:
    v0.put_installed(fake)
    odd = {"phase": "Failed", "reason": "InstallCheckFailed"}
    fake.put(CLUSTER_SERVICE_VERSIONS, v0.csv(**odd, message="the moon is in house 7"))
    sync_cluster(cluster)
    sync_cluster(cluster)
    assert the_operator().finding == ""
    row = UnknownMessage.objects.get()
    assert (row.count, row.example) == (1, "prod, shop, etcd")
    assert "the moon" in row.sample
    again(fake, cluster, CLUSTER_SERVICE_VERSIONS, v0.csv(**odd, message="the moon is in house 8"))
    assert UnknownMessage.objects.get().count == 1
    again(fake, cluster, CLUSTER_SERVICE_VERSIONS, v0.csv())
    again(fake, cluster, CLUSTER_SERVICE_VERSIONS, v0.csv(**odd, message="the moon is in house 9"))
    assert UnknownMessage.objects.get().count == 2


def test_a_crd_that_stores_what_it_does_not_define_has_a_finding(
    fake: KubeFake, installed: Cluster
) -> None:
    again(fake, installed, CUSTOM_RESOURCE_DEFINITIONS, v0.crd(stored=("v1alpha1", "v1")))
    row = CRDState.objects.get()
    assert (row.stored, row.details) == (["v1alpha1", "v1"], {})
    assert row.finding
    assert "v1alpha1" in str(row.facts)
    again(fake, installed, CUSTOM_RESOURCE_DEFINITIONS, v0.crd())
    assert CRDState.objects.get().finding == ""


@pytest.mark.parametrize("together", [False, True])
def test_the_removal_of_a_dependency_records_whose_it_was(
    fake: KubeFake, cluster: Cluster, together: bool
) -> None:
    v0.put_installed(fake)
    fake.put(INSTALL_PLANS, v0.plan("install-1", csvs=["etcd.v1.0.0", "tempo.v2.0.0"]))
    note = {"annotations": {"olm.generated-by": "install-1"}}
    name = "tempo-stable-community-olm"
    fake.put(SUBSCRIPTIONS, v0.subscription(name, meta=note, spec={"name": "tempo"}))
    sync_cluster(cluster)
    for removed in (name, "etcd") if together else (name,):
        fake.remove(SUBSCRIPTIONS, removed, v0.NS)
    sync_cluster(cluster)
    deletions = Transition.objects.filter(type="Object", to_status="deleted", kind="Subscription")
    expected = {name: "OLM v0 had installed tempo as a dependency of etcd."}
    expected |= {"etcd": ""} if together else {}
    assert dict(deletions.values_list("name", "message")) == expected


def test_the_selector_of_an_operatorgroup_is_stored_whole_or_not_at_all(
    fake: KubeFake, cluster: Cluster
) -> None:
    def stored(selector: dict[str, Any]) -> Any:
        fake.put(OPERATOR_GROUPS, v0.operator_group(selector=selector, staticProvidedAPIs=True))
        sync_cluster(cluster)
        details = Component.objects.get(kind="OperatorGroup").details
        assert details["selects"]
        assert details["static_apis"]
        return details["selector"]

    selector = {
        "matchLabels": {"team": "a"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["x", "y"]},
            {"key": "old", "operator": "DoesNotExist"},
        ],
    }
    assert stored(selector) == selector
    assert stored({"matchLabels": {f"k{n}": "v" for n in range(501)}}) == {}


def test_a_version_is_missing_only_once_its_kind_was_read(fake: KubeFake, cluster: Cluster) -> None:
    v0.put_installed(fake)
    fake.remove(CLUSTER_SERVICE_VERSIONS, "etcd.v1.0.0", v0.NS)
    refused = status_answer(403, "not allowed")
    fake.script("GET", CLUSTER_SERVICE_VERSIONS.path("v1alpha1"), refused)
    sync_cluster(cluster)
    row = the_operator()
    assert (row.health, row.reason) == ("Unknown", "ClusterServiceVersionNotRead")
    sync_cluster(cluster)
    row = the_operator()
    assert (row.health, row.reason) == ("Failed", "ClusterServiceVersionMissing")
