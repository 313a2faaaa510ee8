"""Operators of OLM v0, watched resources and CRDs in the REST API: the same as their pages say."""

from typing import Any

import pytest

from installs.models import Component, CRDState, Operator
from tests.factories import make_cluster, make_event, make_transition, make_watch
from tests.worlds.rest import World
from tests.worlds.rest_fixtures import Get
from tests.worlds.subscriptions import NAMESPACE, make_orphan, make_pending_approval

GRAFANA = f"operators/prod/Subscription/{NAMESPACE}/grafana"


@pytest.fixture
def grafana(world: World) -> Operator:
    """Waits for an approval; its version misses a permission."""
    operator = make_pending_approval(world.prod)
    csv = Component.objects.get(kind="ClusterServiceVersion", name="grafana.v1.0.0")
    csv.details["requirements"] = [
        {"kind": "ServiceAccount", "name": "grafana", "status": "PresentNotSatisfied",
         "dependents": [{"status": "NotSatisfied", "message": "a rule"}]},
    ]  # fmt: skip
    csv.save()
    make_event(subject=csv, type="Warning", reason="InstallCheckFailed", count=3)
    make_transition(subject=operator, type="Health", to_status="NeedsApproval")
    return operator


def test_what_approving_changes_is_told(grafana: Operator, get: Get) -> None:
    approval = get(GRAFANA).json()["approval"]
    assert approval["install_plan"] == "install-grafana"
    assert approval["changes"][0] == {
        "csv": "grafana.v1.1.0", "action": "upgrade", "subscription": "grafana",
        "package": "grafana", "replaces": "grafana.v1.0.0",
    }  # fmt: skip
    assert approval["others"] == ["loki.v2.1.0"]
    assert approval["objects"]["CustomResourceDefinition"] == 2
    assert approval["command"].startswith("kubectl -n openshift-operators patch installplan")


def test_chain_requirements_events_and_changes_are_those_of_the_page(
    grafana: Operator, get: Get
) -> None:
    found = get(GRAFANA).json()
    assert [(one["kind"], one["state"]) for one in found["chain"]] == [
        ("Subscription", "ok"), ("CatalogSource", "ok"), ("InstallPlan", "waiting"),
        ("ClusterServiceVersion", "ok"),
    ]  # fmt: skip
    required = found["requirements"][0]
    assert (required["csv"], required["met"]) == ("grafana.v1.0.0", False)
    assert required["rules"] == ["a rule"]
    event = found["events"][0]
    assert (event["kind"], event["type"], event["count"]) == ("ClusterServiceVersion", "Warning", 3)
    assert found["transitions"][0]["to_status"] == "NeedsApproval"
    assert found["upgrade_held"] == "An InstallPlan requires manual approval."


def test_a_csv_without_a_subscription_is_an_operator_with_a_note(world: World, get: Get) -> None:
    make_orphan(world.prod)
    row = get("operators", {"kind": "ClusterServiceVersion"}).json()["items"][0]
    assert row["name"] == "mongodb.v0.3.0"
    found = get(f"operators/prod/ClusterServiceVersion/legacy/{row['name']}").json()
    assert [note["id"] for note in found["notes"]] == ["csv-without-subscription"]
    assert found["approval"] is None


def test_the_fullest_detail_costs_few_queries(
    grafana: Operator, get: Get, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(10):
        get(GRAFANA)


def test_status_counts_what_waits_and_what_is_read(grafana: Operator, get: Get) -> None:
    make_watch(cluster=grafana.cluster, state="forbidden")
    prod = get("status", {"cluster": "prod"}).json()["items"][0]
    assert (prod["upgrades"], prod["approvals"]) == (1, 2)
    assert prod["watched_resources"]["forbidden"] == 1


def test_the_state_of_an_interrupted_watch_is_documented(get: Get) -> None:
    make_watch(cluster=make_cluster(name="late", reachable=False, error_text="connection refused"))
    rows = get("clusters/late").json()["watched_resources"]
    row = next(row for row in rows if row["resource"] == "Subscription")
    assert row["state"] == "interrupted"
    schemas = get("openapi.json").json()["components"]["schemas"]
    assert row["state"] in schemas["WatchState"]["enum"]


def test_a_cluster_has_its_watched_resources_and_the_rules_that_are_missing(
    world: World, get: Get
) -> None:
    make_watch(cluster=world.prod, state="forbidden")
    cluster = get("clusters/prod").json()
    assert [(row["resource"], row["state"]) for row in cluster["watched_resources"]] == [
        ("Subscription", "forbidden"), ("ClusterOperator", "listed"),
        ("PlatformOperator", "listed"),
    ]  # fmt: skip
    assert "resources: [subscriptions]" in cluster["missing_rules"]
    etag = get("clusters/prod")["ETag"]
    world.prod.watches.update(lists=77)
    assert get("clusters/prod")["ETag"] != etag


def test_a_crd_tells_its_versions_its_owner_and_its_problem(world: World, get: Get) -> None:
    sound, broken = get("crds").json()["items"]
    assert sound["owner"] == {"kind": "Subscription", "namespace": "apps", "name": "etcd"}
    assert (sound["kind"], sound["stored"], sound["finding"]) == ("=gear", ["v1"], None)
    assert broken["finding"]["id"] == "crd-stored-version-gone"
    assert broken["owner"] is None
    crd = CRDState.objects.get(cluster=world.prod, name=broken["name"])
    for kind, shown in (
        ("BundleDeployment", "PlatformOperator"),
        ("ClusterExtension", "ClusterExtension"),
        ("Gardener", "Gardener"),
    ):
        crd.owner_kind, crd.owner_name = kind, "etcd"
        crd.save()
        crd.cluster.save()
        owner = next(row for row in get("crds").json()["items"] if row["name"] == crd.name)["owner"]
        assert owner == {"kind": shown, "namespace": "", "name": "etcd"}
