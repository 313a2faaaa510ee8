"""What real OLM v0 does, on the cluster alone: the facts that the rest of the stories stand on."""

import pytest

from tests.peers.client import Object, wait_until
from tests.real.bundles import GROUP, Bundle
from tests.real.world import SECONDS, V1, V1ALPHA1, World

pytestmark = pytest.mark.peers

HEALTH = "CatalogSourcesUnhealthy"


def resolution_failed(olm: World, namespace: str, name: str) -> Object:
    def look() -> Object | None:
        found = olm.condition(namespace, name, "ResolutionFailed")
        return found if found and found["status"] == "True" else None

    return wait_until(look, f"ResolutionFailed of {name}", SECONDS)


def wait_for_no_group(olm: World, namespace: str, found: int = 0) -> None:
    """Until OLM logs that the namespace has not one OperatorGroup but `found`."""
    words = f'sync \\"/{namespace}\\" failed: found {found} operatorGroups, expected 1'
    wait_until(lambda: words in olm.olm.catalog.log.read_text(), "OLM missing the group", SECONDS)


def test_a_manual_subscription_waits_for_approval_at_every_version(olm: World) -> None:
    namespace = olm.own_namespace("manual")
    olm.subscribe(namespace, "anchor", installPlanApproval="Manual", startingCSV="anchor.v1.0.0")
    plan = olm.install_plan(namespace, "anchor.v1.0.0")
    assert plan["spec"]["approved"] is False
    assert olm.kubectl.find(V1ALPHA1, "ClusterServiceVersion", "anchor.v1.0.0", namespace) is None

    olm.approve(plan)
    waiting = olm.csv(namespace, "anchor.v1.0.0", "Installing", "InstallWaiting")
    assert "waiting for deployment anchor-controller" in waiting["status"]["message"]
    olm.play_node(namespace)
    olm.csv(namespace, "anchor.v1.0.0", "Succeeded", "InstallSucceeded")

    upgrade = olm.install_plan(namespace, "anchor.v1.1.0")
    assert upgrade["spec"]["approved"] is False

    def is_offered() -> bool:
        status = olm.subscription(namespace, "anchor")["status"]
        versions = (status["installedCSV"], status["currentCSV"], status["state"])
        return versions == ("anchor.v1.0.0", "anchor.v1.1.0", "UpgradePending")

    wait_until(is_offered, "the Subscription naming the upgrade", SECONDS)


def test_a_bundle_for_one_namespace_fails_where_the_group_asks_for_all(olm: World) -> None:
    namespace = olm.all_namespaces("modes")
    olm.subscribe(namespace, "mooring")
    failed = olm.csv(namespace, "mooring.v1.0.0", "Failed", "UnsupportedOperatorGroup")
    assert failed["status"]["message"].startswith("AllNamespaces InstallModeType not supported")


def test_the_same_bundle_installs_in_a_group_of_its_own_namespace(olm: World) -> None:
    namespace = olm.own_namespace("own")
    olm.subscribe(namespace, "mooring")
    olm.csv(namespace, "mooring.v1.0.0", "Installing", "InstallWaiting")


def test_a_required_crd_that_nobody_provides_is_named_in_the_requirements(olm: World) -> None:
    namespace = olm.own_namespace("needs")
    olm.subscribe(namespace, "beacon")
    pending = olm.csv(namespace, "beacon.v1.0.0", "Pending", "RequirementsNotMet")
    missing = [
        requirement["name"]
        for requirement in pending["status"]["requirementStatus"]
        if requirement["status"] == "NotPresent"
        and requirement["kind"] == "CustomResourceDefinition"
    ]
    assert missing == [f"lamps.{GROUP}"]


def test_a_catalog_that_died_stops_resolution_while_its_health_says_all_is_well(olm: World) -> None:
    namespace = olm.own_namespace("dead")
    with olm.dead_catalog("fading", namespace, Bundle("buoy", "1.0.0")):
        olm.subscribe(namespace, "buoy", source="fading", sourceNamespace=namespace)
        told = resolution_failed(olm, namespace, "buoy")
        assert told["reason"] == "ErrorPreventedResolution"
        assert f"error using catalogsource {namespace}/fading" in told["message"]
        health = wait_until(
            lambda: olm.condition(namespace, "buoy", HEALTH), "a condition", SECONDS
        )
        assert health["status"] == "False"


def test_a_version_that_no_catalog_has_can_not_be_resolved(olm: World) -> None:
    namespace = olm.own_namespace("nowhere")
    olm.subscribe(namespace, "winch", startingCSV="winch.v9.9.9")
    told = resolution_failed(olm, namespace, "winch")
    assert told["reason"] == "ConstraintsNotSatisfiable"
    assert "winch" in told["message"]


def test_a_version_without_its_subscription_is_not_adopted_by_another(olm: World) -> None:
    namespace = olm.own_namespace("orphan")
    first = olm.subscribe(namespace, "winch")
    csv = olm.csv(namespace, "winch.v1.0.0", "Installing", "InstallWaiting")
    olm.kubectl.delete(first)
    wait_until(
        lambda: olm.kubectl.find(V1ALPHA1, "Subscription", "winch", namespace) is None,
        "the Subscription gone",
        SECONDS,
    )
    olm.subscribe(namespace, "winch", startingCSV="winch.v1.0.0")
    told = resolution_failed(olm, namespace, "winch")
    orphan = "clusterserviceversion winch.v1.0.0 exists and is not referenced by a subscription"
    assert told["reason"] == "ConstraintsNotSatisfiable"
    assert orphan in told["message"]
    kept = olm.kubectl.get(V1ALPHA1, "ClusterServiceVersion", "winch.v1.0.0", namespace)
    assert kept["metadata"]["uid"] == csv["metadata"]["uid"]


def test_without_an_operatorgroup_a_subscription_waits_in_silence(olm: World) -> None:
    namespace = olm.namespace("groupless")
    olm.subscribe(namespace, "winch")
    # OLM logs every attempt and tells the cluster nothing: no condition, no plan, no Event.
    wait_for_no_group(olm, namespace)
    wait_until(lambda: olm.condition(namespace, "winch", HEALTH), "a condition", SECONDS)
    status = olm.subscription(namespace, "winch")["status"]
    assert [c["type"] for c in status["conditions"]] == [HEALTH]
    assert "state" not in status
    assert not olm.kubectl.list(V1ALPHA1, "InstallPlan", namespace)
    assert not olm.kubectl.list("v1", "Event", namespace)

    olm.operator_group(namespace, [namespace])
    olm.csv(namespace, "winch.v1.0.0", "Installing", "InstallWaiting")


def test_two_operatorgroups_block_a_namespace_and_only_they_say_so(olm: World) -> None:
    namespace = olm.own_namespace("two")
    olm.operator_group(namespace, [namespace], name="second")

    def reasons() -> list[str]:
        groups = olm.kubectl.list(V1, "OperatorGroup", namespace)
        conditions = [c for g in groups for c in g.get("status", {}).get("conditions") or []]
        return [c["reason"] for c in conditions if c["status"] == "True"]

    both = ["MultipleOperatorGroupsFound"] * 2
    wait_until(lambda: reasons() == both, "both groups saying so", SECONDS)
    olm.subscribe(namespace, "winch")
    wait_for_no_group(olm, namespace, found=2)
    wait_until(lambda: olm.condition(namespace, "winch", HEALTH), "a condition", SECONDS)
    status = olm.subscription(namespace, "winch")["status"]
    assert [c["type"] for c in status["conditions"]] == [HEALTH]
    assert "state" not in status


def test_a_plan_that_was_approved_after_its_group_went_waits_and_says_why(olm: World) -> None:
    namespace = olm.own_namespace("ungrouped")
    olm.subscribe(namespace, "anchor", installPlanApproval="Manual")
    plan = olm.install_plan(namespace, "anchor.v1.1.0")
    olm.kubectl.delete(olm.group_of(namespace))
    olm.subscribe(namespace, "winch")  # makes OLM look at the namespace again
    wait_for_no_group(olm, namespace)
    olm.approve(plan)

    def refused() -> Object | None:
        status = olm.install_plan(namespace, "anchor.v1.1.0").get("status", {})
        failed = (c for c in status.get("conditions") or [] if c["reason"] == "InstallCheckFailed")
        return next(failed, None)

    told = wait_until(refused, "InstallCheckFailed", SECONDS)
    assert told["message"] == "no operator group found that is managing this namespace"
    olm.operator_group(namespace, [namespace])
    olm.csv(namespace, "anchor.v1.1.0", "Installing", "InstallWaiting")


def test_a_workload_that_stops_takes_the_operator_with_it_and_brings_it_back(olm: World) -> None:
    namespace = olm.own_namespace("weak")
    olm.subscribe(namespace, "winch")
    olm.csv(namespace, "winch.v1.0.0", "Installing")
    olm.play_node(namespace)
    olm.csv(namespace, "winch.v1.0.0", "Succeeded")
    olm.play_node(namespace, available=False)
    # Failed lasts a moment: OLM installs anew at once and waits for the Deployment again.
    again = olm.csv(namespace, "winch.v1.0.0", "Installing")
    reasons = [one["reason"] for one in again["status"]["conditions"]]
    assert "ComponentUnhealthy" in reasons[reasons.index("InstallSucceeded") :]
    olm.play_node(namespace)
    olm.csv(namespace, "winch.v1.0.0", "Succeeded")


def test_an_operator_for_all_namespaces_is_copied_into_each_and_marked_so(olm: World) -> None:
    elsewhere = olm.namespace("elsewhere")
    namespace = olm.all_namespaces("copied")
    olm.subscribe(namespace, "tern")
    olm.csv(namespace, "tern.v1.0.0", "Installing")
    olm.play_node(namespace)
    olm.csv(namespace, "tern.v1.0.0", "Succeeded")

    def copy() -> Object | None:
        return olm.kubectl.find(V1ALPHA1, "ClusterServiceVersion", "tern.v1.0.0", elsewhere)

    copied = wait_until(copy, "a copied CSV", SECONDS)
    assert copied["metadata"]["labels"]["olm.copiedFrom"] == namespace
    own = "?labelSelector=!olm.copiedFrom"
    assert not olm.kubectl.list(V1ALPHA1, "ClusterServiceVersion", elsewhere, own)


def test_olm_keeps_an_operator_object_that_names_what_belongs_to_it(olm: World) -> None:
    namespace = olm.own_namespace("named")
    olm.subscribe(namespace, "winch")
    olm.csv(namespace, "winch.v1.0.0", "Installing")

    def kinds() -> set[str]:
        found = olm.kubectl.find(V1, "Operator", f"winch.{namespace}") or {}
        components = found.get("status", {}).get("components", {}).get("refs", [])
        return {one["kind"] for one in components}

    expected = {"Subscription", "ClusterServiceVersion", "Deployment"}
    wait_until(lambda: kinds() >= expected, f"components {expected}", SECONDS)
