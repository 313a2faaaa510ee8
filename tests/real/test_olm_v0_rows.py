"""What OLM Web says of real OLM v0: the row of the Subscription after each of the cluster's steps.

The same stories as in test_olm_v0.py, where what the cluster says is asserted.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from installs.models import Health, Operator, Transition
from installs.state.full_sync import sync_cluster
from olmweb.models import Cluster
from tests.peers.client import wait_until
from tests.real.bundles import GROUP, Bundle, crd
from tests.real.world import SECONDS, World

pytestmark = [pytest.mark.peers, pytest.mark.django_db]

Seen = Callable[[str, str], Operator]


@pytest.fixture
def cluster(olm: World, tmp_path: Path, settings: Any, db: None) -> Cluster:
    """The cluster with real OLM on it, never read so far."""
    settings.KUBECONFIG = str(olm.server.write_kubeconfig(tmp_path / "kubeconfig"))
    settings.CLUSTERS = ["real"]
    return Cluster.objects.create(name="real", context="real")


@pytest.fixture
def seen(cluster: Cluster) -> Seen:
    """The row of a Subscription after one more pass over the cluster."""

    def look(namespace: str, name: str) -> Operator:
        report = sync_cluster(cluster)
        assert not report.error
        return Operator.objects.get(kind="Subscription", namespace=namespace, name=name)

    return look


def with_finding(seen: Seen, namespace: str, name: str) -> Operator:
    """The row as soon as it has a finding: OLM needs a moment to tie its objects together."""

    def look() -> Operator | None:
        row = seen(namespace, name)
        return row if row.finding else None

    return wait_until(look, f"a finding for {name}", SECONDS)


def test_a_manual_subscription_is_followed_from_approval_to_health(olm: World, seen: Seen) -> None:
    namespace = olm.own_namespace("manual")
    olm.subscribe(namespace, "anchor", installPlanApproval="Manual", startingCSV="anchor.v1.0.0")
    plan = olm.install_plan(namespace, "anchor.v1.0.0")
    waiting = with_finding(seen, namespace, "anchor")
    assert (waiting.health, waiting.finding) == (Health.NEEDS_APPROVAL, "plan-needs-approval")
    assert waiting.broken_name == plan["metadata"]["name"]
    assert "anchor.v1.0.0" in waiting.message

    olm.approve(plan)
    olm.csv(namespace, "anchor.v1.0.0", "Installing", "InstallWaiting")
    with olm.paused(olm.olm.catalog):  # which offers the upgrade as soon as it may
        installing = seen(namespace, "anchor")
        assert (installing.health, installing.finding) == (Health.INSTALLING, "")
        assert "waiting for deployment anchor-controller" in installing.message

        olm.play_node(namespace)
        olm.csv(namespace, "anchor.v1.0.0", "Succeeded")
        assert seen(namespace, "anchor").health == Health.HEALTHY
        assert seen(namespace, "anchor").version == "1.0.0"

    olm.install_plan(namespace, "anchor.v1.1.0")
    wait_until(lambda: seen(namespace, "anchor").upgrade == "1.1.0", "the upgrade", SECONDS)
    history = Transition.objects.filter(namespace=namespace, name="anchor", type="Health")
    told = [one.to_status for one in history.order_by("id")]
    first_three = [Health.NEEDS_APPROVAL, Health.INSTALLING, Health.HEALTHY]
    assert told[told.index(Health.NEEDS_APPROVAL) :][:3] == first_three


def test_an_unsupported_operatorgroup_is_the_finding_with_the_modes_that_would_do(
    olm: World, seen: Seen
) -> None:
    namespace = olm.all_namespaces("modes")
    olm.subscribe(namespace, "mooring")
    olm.csv(namespace, "mooring.v1.0.0", "Failed", "UnsupportedOperatorGroup")
    row = with_finding(seen, namespace, "mooring")
    assert (row.health, row.finding) == (Health.BLOCKED, "csv-installmode-unsupported")
    assert row.reason == "UnsupportedOperatorGroup"
    assert (row.broken_kind, row.broken_name) == ("ClusterServiceVersion", "mooring.v1.0.0")
    assert row.facts["og"] == "group"
    assert row.facts["modes"] == "OwnNamespace, SingleNamespace"


def test_a_missing_crd_is_named_and_no_longer_once_somebody_provides_it(
    olm: World, seen: Seen
) -> None:
    namespace = olm.own_namespace("needs")
    olm.subscribe(namespace, "beacon")
    olm.csv(namespace, "beacon.v1.0.0", "Pending", "RequirementsNotMet")

    def missing_lamps() -> Operator | None:
        # OLM's cache may lack the CRD that the InstallPlan has just made: it is missing as well
        # then, until OLM looks again.
        row = with_finding(seen, namespace, "beacon")
        if row.facts.get("crd") == f"lamps.{GROUP}":
            return row
        olm.csv_again(namespace, "beacon.v1.0.0")
        return None

    row = wait_until(missing_lamps, "the CRD that nobody provides", SECONDS)
    assert (row.health, row.finding) == (Health.BLOCKED, "csv-req-crd-missing")
    assert (row.broken_kind, row.broken_name) == ("CustomResourceDefinition", f"lamps.{GROUP}")

    lamps = olm.kubectl.create(crd("lamps", "Needed"))
    # OLM looks at the CSV when the CRD appears, at times before its cache has the CRD; the next
    # look is then minutes away.
    olm.csv_again(namespace, "beacon.v1.0.0")
    try:
        olm.csv(namespace, "beacon.v1.0.0", "Installing", "InstallWaiting")
        row = seen(namespace, "beacon")
        assert (row.health, row.finding) == (Health.INSTALLING, "")
    finally:
        olm.kubectl.delete(lamps)


def test_a_catalog_that_died_is_the_cause_although_olm_calls_it_healthy(
    olm: World, seen: Seen
) -> None:
    namespace = olm.own_namespace("dead")
    with olm.dead_catalog("fading", namespace, Bundle("buoy", "1.0.0")):
        olm.subscribe(namespace, "buoy", source="fading", sourceNamespace=namespace)
        row = with_finding(seen, namespace, "buoy")
        assert (row.broken_kind, row.broken_name) == ("CatalogSource", "fading")
        wait_until(
            lambda: olm.condition(namespace, "buoy", "ResolutionFailed"), "the failure", SECONDS
        )
        row = seen(namespace, "buoy")
        # The second one when OLM has noticed that the connection is down.
        assert row.health == Health.FAILED
        assert row.finding in ("sub-catalog-list-failed", "cs-address")
        assert (row.broken_kind, row.broken_name) == ("CatalogSource", "fading")
        assert row.facts["object_namespace"] == namespace


def test_a_workload_that_stops_makes_its_operator_degraded_before_olm_notices(
    olm: World, seen: Seen
) -> None:
    namespace = olm.own_namespace("weak")
    olm.subscribe(namespace, "winch")
    olm.csv(namespace, "winch.v1.0.0", "Installing")
    olm.play_node(namespace)
    olm.csv(namespace, "winch.v1.0.0", "Succeeded")
    assert seen(namespace, "winch").health == Health.HEALTHY
    with olm.paused():
        olm.play_node(namespace, available=False)
        row = seen(namespace, "winch")
    assert (row.health, row.finding) == (Health.DEGRADED, "deployment-unavailable")
    assert (row.broken_kind, row.broken_name) == ("Deployment", "winch-controller")


def test_copied_csvs_are_nobodys_operator(olm: World, seen: Seen) -> None:
    olm.namespace("elsewhere")
    namespace = olm.all_namespaces("copied")
    olm.subscribe(namespace, "gull")
    olm.csv(namespace, "gull.v1.0.0", "Installing")
    olm.play_node(namespace)
    olm.csv(namespace, "gull.v1.0.0", "Succeeded")
    seen(namespace, "gull")
    assert Operator.objects.filter(package="gull").count() == 1


def test_a_pass_over_a_cluster_at_rest_writes_nothing(
    olm: World, seen: Seen, cluster: Cluster
) -> None:
    namespace = olm.own_namespace("rest")
    olm.subscribe(namespace, "winch")
    olm.csv(namespace, "winch.v1.0.0", "Installing")
    with olm.paused():
        sync_cluster(cluster)
        cluster.refresh_from_db()
        before = cluster.revision
        assert before
        assert sync_cluster(cluster).outcome == "unchanged"
    cluster.refresh_from_db()
    assert cluster.revision == before
