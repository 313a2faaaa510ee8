"""OLM v0's side of the scenario: each way to go wrong is there, and hangs together."""

from collections import Counter
from typing import Any

import pytest

from olmweb.sandbox.apiserver.kinds import Object
from olmweb.sandbox.cluster import Sandbox
from olmweb.sandbox.controllers.bundles import BundleContent, FileBasedCatalog
from olmweb.sandbox.controllers.dependencies import CatalogInUse, Unsatisfiable, dependencies
from tests.olmweb.sandbox.conftest import Client

V1ALPHA1 = "/apis/operators.coreos.com/v1alpha1"


def everything(client: Client, plural: str, query: str = "") -> dict[tuple[str, str], Object]:
    items = client.get(f"{V1ALPHA1}/{plural}{query}")["items"]
    return {(i["metadata"]["namespace"], i["metadata"]["name"]): i for i in items}


def conditions(item: Object) -> dict[str, tuple[str, str]]:
    entries = item["status"]["conditions"]
    return {c["type"]: (c["status"], c.get("reason", "")) for c in entries}


def test_every_subscription_says_that_its_catalogs_are_well(client: Client) -> None:
    subscriptions = everything(client, "subscriptions")
    assert len(subscriptions) == 10
    for item in subscriptions.values():
        condition = conditions(item)["CatalogSourcesUnhealthy"]
        assert condition == ("False", "AllCatalogSourcesHealthy")
        assert all(source["healthy"] for source in item["status"]["catalogHealth"])
    dead = client.get(f"{V1ALPHA1}/namespaces/team-lab/catalogsources/lab-catalog")
    assert dead["status"]["connectionState"]["lastObservedState"] == "TRANSIENT_FAILURE"


@pytest.mark.parametrize(
    ("key", "phase", "reason"),
    [
        (("openshift-logging", "cluster-logging.v5.5.3"), "Succeeded", "InstallSucceeded"),
        (("openshift-operators", "quay-bridge-operator.v3.7.8"), "Succeeded", "InstallSucceeded"),
        (("openshift-operators", "jaeger-product.v1.38.0-2"), "Succeeded", "InstallSucceeded"),
        (("openshift-operators", "mtv-operator.v2.3.2"), "Failed", "UnsupportedOperatorGroup"),
        (("team-blue", "ledger-demo.v4.2.0"), "Pending", "RequirementsNotMet"),
        (("tools", "ceiling-demo.v1.0.0"), "Succeeded", "InstallSucceeded"),
        (
            ("openshift-operator-lifecycle-manager", "packageserver"),
            "Succeeded",
            "InstallSucceeded",
        ),
    ],
)
def test_the_service_versions_are_in_their_phases(
    client: Client, key: tuple[str, str], phase: str, reason: str
) -> None:
    originals = everything(client, "clusterserviceversions", "?labelSelector=!olm.copiedFrom")
    assert len(originals) == 7
    status = originals[key]["status"]
    assert (status["phase"], status["reason"]) == (phase, reason)
    assert status["conditions"][-1]["reason"] == reason


def test_only_what_watches_everything_is_copied_and_everywhere(client: Client) -> None:
    copies = everything(client, "clusterserviceversions", "?labelSelector=olm.copiedFrom")
    namespaces = len(client.get("/api/v1/namespaces")["items"])
    assert Counter(name for _, name in copies) == {
        "quay-bridge-operator.v3.7.8": namespaces - 1,
        "jaeger-product.v1.38.0-2": namespaces - 1,
    }
    assert {item["status"]["reason"] for item in copies.values()} == {"Copied"}


def test_every_reference_of_a_subscription_leads_somewhere(client: Client) -> None:
    plans = everything(client, "installplans")
    csvs = everything(client, "clusterserviceversions")
    sources = everything(client, "catalogsources")
    for (namespace, _name), item in everything(client, "subscriptions").items():
        spec, status = item["spec"], item["status"]
        assert (spec["sourceNamespace"], spec["source"]) in sources
        if reference := status.get("installPlanRef"):
            plan = plans[namespace, reference["name"]]
            assert plan["metadata"]["uid"] == reference["uid"]
            assert status["currentCSV"] in plan["spec"]["clusterServiceVersionNames"]
        if installed := status.get("installedCSV"):
            assert (namespace, installed) in csvs


def test_one_install_plan_waits_with_two_operators_and_one_with_an_update(client: Client) -> None:
    waiting = {
        namespace: plan
        for (namespace, _), plan in everything(client, "installplans").items()
        if plan["status"]["phase"] == "RequiresApproval"
    }
    assert sorted(waiting) == ["openshift-devspaces", "tools"]
    assert waiting["tools"]["spec"]["clusterServiceVersionNames"] == ["ceiling-demo.v1.1.0"]
    plan = waiting["openshift-devspaces"]
    assert plan["spec"]["clusterServiceVersionNames"] == [
        "devspaces.v3.2.0",
        "devworkspace-operator.v0.15.3",
    ]
    assert plan["spec"]["approved"] is False
    assert {step["status"] for step in plan["status"]["plan"]} == {"Unknown"}


def test_a_failed_resolution_is_told_on_every_subscription_of_its_namespace(
    client: Client,
) -> None:
    items = everything(client, "subscriptions")
    reported = {
        key: next(
            (c["message"] for c in item["status"]["conditions"] if c["type"] == "ResolutionFailed"),
            "",
        )
        for key, item in items.items()
    }
    lab = {text for (namespace, _), text in reported.items() if namespace == "team-lab"}
    assert len(lab) == 1
    assert lab.pop().startswith("error using catalogsource team-lab/lab-catalog: ")
    assert (
        "in channel stable-8 of package rhsso-operator" in reported["team-green", "rhsso-operator"]
    )


def pods_of(client: Client, deployment: Object) -> list[dict[str, Any]]:
    labels = deployment["spec"]["selector"]["matchLabels"]
    query = ",".join(f"{key}%3D{value}" for key, value in labels.items())
    namespace = deployment["metadata"]["namespace"]
    items = client.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={query}")["items"]
    return list(items)


def test_deployments_find_their_pods_and_two_are_not_available(client: Client) -> None:
    waiting = {}
    for deployment in client.get("/apis/apps/v1/deployments")["items"]:
        pods = pods_of(client, deployment)
        assert len(pods) == deployment["spec"]["replicas"]
        [state] = {
            container["state"].get("waiting", {}).get("reason", "")
            for pod in pods
            for container in pod["status"]["containerStatuses"]
        }
        available = deployment["status"].get("availableReplicas", 0)
        assert bool(available) == (not state)
        if state:
            waiting[deployment["metadata"]["name"]] = state
    assert waiting == {
        "jaeger-product-operator": "ImagePullBackOff",
        "weather-controller": "CrashLoopBackOff",
    }


def test_one_definition_still_stores_a_version_that_it_no_longer_has(client: Client) -> None:
    crds = client.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    left = {}
    for crd in crds:
        versions = {version["name"] for version in crd["spec"]["versions"]}
        if more := set(crd["status"]["storedVersions"]) - versions:
            left[crd["metadata"]["name"]] = more
    assert left == {"clusterlogforwarders.logging.openshift.io": {"v1alpha0"}}


def test_events_are_about_objects_that_are_there(client: Client) -> None:
    plurals = {
        "Pod": "/api/v1/namespaces/{}/pods",
        "ClusterServiceVersion": V1ALPHA1 + "/namespaces/{}/clusterserviceversions",
        "Namespace": "/api/v1/namespaces",
    }
    events = client.get("/api/v1/events")["items"]
    assert Counter(event["type"] for event in events) == {"Warning": 6, "Normal": 4}
    for event in events:
        about = event["involvedObject"]
        path = plurals[about["kind"]].format(about.get("namespace", ""))
        item = client.get(f"{path}/{about['name']}")
        assert item["metadata"]["uid"] == about["uid"]
        assert event["firstTimestamp"] <= event["lastTimestamp"]


def test_an_installed_version_holds_the_next_minor_of_the_cluster(client: Client) -> None:
    path = "/apis/config.openshift.io/v1/clusteroperators/operator-lifecycle-manager"
    item = client.get(path)
    assert conditions(item)["Upgradeable"] == ("False", "IncompatibleOperatorsInstalled")
    message = next(c["message"] for c in item["status"]["conditions"] if c["type"] == "Upgradeable")
    assert message.endswith("- maximum supported OCP version for tools/ceiling-demo.v1.0.0 is 4.12")


def test_the_next_minor_is_open_once_the_update_is_approved() -> None:
    sandbox = Sandbox()
    store = sandbox.store
    [plan] = store.items("InstallPlan", "tools")[0]
    store.put({**plan, "spec": {**plan["spec"], "approved": True}})
    for _ in range(3):
        sandbox.step_all()
    sandbox.close()
    assert store.get("ClusterServiceVersion", "ceiling-demo.v1.1.0", "tools")
    assert not store.get("ClusterServiceVersion", "ceiling-demo.v1.0.0", "tools")
    item = store.get("ClusterOperator", "operator-lifecycle-manager")
    assert item
    assert conditions(item)["Upgradeable"] == ("True", "AsExpected")
    messages = [c.get("message", "") for c in item["status"]["conditions"]]
    assert not [text for text in messages if "maximum supported" in text]


def subscribe(sandbox: Sandbox, approval: str) -> None:
    """Creates a Subscription to backup-demo 1.0.1 in a namespace of its own; one step."""
    store = sandbox.store
    store.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "backup"}})
    group = {
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OperatorGroup",
        "metadata": {"name": "backup", "namespace": "backup"},
        "spec": {"targetNamespaces": ["backup"]},
    }
    store.put(group)
    spec = {
        "name": "backup-demo",
        "channel": "stable",
        "source": "redhat-operators",
        "sourceNamespace": "openshift-marketplace",
        "startingCSV": "backup-demo.v1.0.1",
        "installPlanApproval": approval,
    }
    item = {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "spec": spec}
    store.put({**item, "metadata": {"name": "backup-demo", "namespace": "backup"}})
    sandbox.step_all()


DEPENDENCY = "object-store-demo-stable-redhat-operators-openshift-marketplace"


def test_an_install_plan_brings_the_dependencies_of_its_bundle() -> None:
    sandbox = Sandbox()
    store = sandbox.store
    subscribe(sandbox, "Manual")
    [plan] = store.items("InstallPlan", "backup")[0]
    names = ["backup-demo.v1.0.1", "object-store-demo.v2.1.0"]
    assert plan["spec"]["clusterServiceVersionNames"] == names
    assert [
        (step["resolving"], step["resource"]["kind"], step["resource"]["name"])
        for step in plan["status"]["plan"]
        if step["resource"]["kind"] != "CustomResourceDefinition"
    ] == [
        (names[0], "ClusterServiceVersion", names[0]),
        (names[1], "ClusterServiceVersion", names[1]),
        (names[1], "Subscription", DEPENDENCY),
    ]
    assert not store.get("Subscription", DEPENDENCY, "backup")  # approved first
    store.put({**plan, "spec": {**plan["spec"], "approved": True}})
    for _ in range(4):
        sandbox.step_all()
    generated = store.get("Subscription", DEPENDENCY, "backup")
    assert generated
    assert generated["spec"]["startingCSV"] == names[1]
    assert generated["spec"]["installPlanApproval"] == "Automatic"
    assert generated["status"]["installedCSV"] == names[1]
    assert generated["status"]["installPlanRef"]["name"] == plan["metadata"]["name"]
    assert generated["metadata"]["annotations"]["olm.generated-by"] == plan["metadata"]["name"]
    [group] = store.items("OperatorGroup", "backup")[0]
    assert group["status"]["namespaces"] == ["backup"]
    csvs, _version = store.items("ClusterServiceVersion", "backup")
    phases = {csv["metadata"]["name"]: csv["status"]["phase"] for csv in csvs}
    assert phases == dict.fromkeys(names, "Succeeded")
    # The update of the dependent finds its dependency installed.
    plans = store.items("InstallPlan", "backup")[0]
    brought = sorted(row["spec"]["clusterServiceVersionNames"] for row in plans)
    assert brought == [names, ["backup-demo.v1.1.0"]]
    sandbox.close()


def test_a_dependency_that_no_catalog_offers_fails_the_resolution() -> None:
    wanted = {"packageName": "store", "versionRange": ">=2.0.0"}
    properties = ({"type": "olm.package.required", "value": wanted},)
    bundle = BundleContent("app.v1.0.0", "app", "1.0.0", "", {}, {}, properties=properties)
    empty = CatalogInUse("empty", "openshift-marketplace", FileBasedCatalog(()))
    with pytest.raises(Unsatisfiable, match="requires an operator with package: store and with"):
        dependencies(bundle, [], [empty])
    present = {"type": "olm.package", "value": {"packageName": "store", "version": "2.4.0"}}
    assert dependencies(bundle, [present], [empty]) == []
