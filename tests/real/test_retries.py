"""What it takes on real OLM v0 until it tries again: a failed resolution, a failed InstallPlan."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from installs.actions.objects import apply_step
from installs.actions.retry import plan_retry
from installs.models import Operator
from installs.models.steps import Apply, Delete
from installs.state.full_sync import sync_cluster
from olmweb.clusters import client_for
from olmweb.models import Cluster
from tests.peers.client import wait_until
from tests.real.world import SECONDS, V1ALPHA1, World

pytestmark = [pytest.mark.peers, pytest.mark.django_db]

QUIET_SECONDS = 5

Read = Callable[[str, str], Operator]


@pytest.fixture
def kubeconfig(olm: World, tmp_path: Path, settings: Any) -> Path:
    path = olm.server.write_kubeconfig(tmp_path / "kubeconfig")
    settings.KUBECONFIG, settings.CLUSTERS = str(path), ["real"]
    return path


@pytest.fixture
def read(kubeconfig: Path, db: None) -> Read:
    """The row of a Subscription after one more pass over the cluster."""
    cluster = Cluster.objects.create(name="real", context="real")

    def look(namespace: str, name: str) -> Operator:
        assert not sync_cluster(cluster).error
        return Operator.objects.get(kind="Subscription", namespace=namespace, name=name)

    return look


def succeed(olm: World, namespace: str, csv: str) -> None:
    """The pods come up until the version has succeeded."""
    olm.csv(namespace, csv, "Installing")

    def has_succeeded() -> bool:
        olm.play_node(namespace)
        current = olm.kubectl.get(V1ALPHA1, "ClusterServiceVersion", csv, namespace)
        return bool(current["status"]["phase"] == "Succeeded")

    wait_until(has_succeeded, f"{csv} Succeeded", SECONDS, pause=1)


def resolution_failed(olm: World, namespace: str, name: str) -> str:
    """The message of a failed resolution; empty without one."""
    condition = olm.condition(namespace, name, "ResolutionFailed")
    return condition["message"] if condition and condition["status"] == "True" else ""


def remove_csv(olm: World, namespace: str, csv: str) -> None:
    olm.kubectl.delete(olm.kubectl.get(V1ALPHA1, "ClusterServiceVersion", csv, namespace))
    wait_until(
        lambda: olm.kubectl.find(V1ALPHA1, "ClusterServiceVersion", csv, namespace) is None,
        f"{csv} gone",
        SECONDS,
    )


def at_rest(olm: World, namespace: str, name: str) -> str:
    """Waits until OLM has not written the Subscription for QUIET_SECONDS; its resourceVersion."""
    seen, since = "", 0.0

    def is_quiet() -> str:
        nonlocal seen, since
        version: str = olm.subscription(namespace, name)["metadata"]["resourceVersion"]
        if version != seen:
            seen, since = version, time.monotonic()
        return version if time.monotonic() - since > QUIET_SECONDS else ""

    return wait_until(is_quiet, f"{name} at rest", SECONDS)


def orphan(olm: World, namespace: str, package: str) -> None:
    """Leaves the installed version of a Subscription behind and subscribes again, which fails.

    The first Subscription has to be at rest, with its InstallPlan complete. OLM executes an
    unfinished plan again and so makes a deleted version anew (syncInstallPlans); and OLM writes the
    status that it took from the deleted Subscription into a new one of that name
    (updateSubscriptionStatuses compares no uid). Both in operator-lifecycle-manager 0.42,
    pkg/controller/operators/catalog/operator.go.
    """
    csv = f"{package}.v1.0.0"
    olm.subscribe(namespace, package)
    succeed(olm, namespace, csv)
    olm.tied(namespace, package, csv)
    wait_until(
        lambda: all(
            plan.get("status", {}).get("phase") == "Complete"
            for plan in olm.kubectl.list(V1ALPHA1, "InstallPlan", namespace)
        ),
        "the InstallPlan Complete",
        SECONDS,
    )
    at_rest(olm, namespace, package)
    olm.kubectl.delete(olm.subscription(namespace, package))
    olm.subscribe(namespace, package)
    message = wait_until(
        lambda: resolution_failed(olm, namespace, package), "ResolutionFailed", SECONDS
    )
    assert f"clusterserviceversion {csv} exists and is not referenced by a subscription" in message


def is_made_again(olm: World, namespace: str, package: str) -> bool:
    """Whether OLM took the failure back and made the version."""
    csv = f"{package}.v1.0.0"
    there = olm.kubectl.find(V1ALPHA1, "ClusterServiceVersion", csv, namespace)
    return there is not None and not resolution_failed(olm, namespace, package)


def test_olm_resolves_by_itself_when_the_version_in_the_way_owned_an_api(olm: World) -> None:
    """Its deletion takes the API out of the annotation olm.providedAPIs of the OperatorGroup, and
    OLM resolves a namespace whose OperatorGroup changes."""
    namespace = olm.own_namespace("owner")
    orphan(olm, namespace, "gull")
    remove_csv(olm, namespace, "gull.v1.0.0")
    wait_until(lambda: is_made_again(olm, namespace, "gull"), "a new resolution", SECONDS)


def test_one_retry_resolves_again_once_the_version_in_the_way_is_gone(
    olm: World, read: Read
) -> None:
    """OLM looks at no deletion of a ClusterServiceVersion, and this one changes nothing else."""
    namespace = olm.own_namespace("orphan")
    orphan(olm, namespace, "lantern")
    version = at_rest(olm, namespace, "lantern")
    remove_csv(olm, namespace, "lantern.v1.0.0")
    assert at_rest(olm, namespace, "lantern") == version, "OLM did not notice the deletion"
    assert resolution_failed(olm, namespace, "lantern")

    operator = read(namespace, "lantern")
    plan = plan_retry(operator)
    assert isinstance(plan.main, Apply)
    with client_for(operator.cluster) as client:
        apply_step(client, plan.main, None)
    wait_until(lambda: is_made_again(olm, namespace, "lantern"), "a new resolution", SECONDS)


def test_olm_takes_a_failed_resolution_back_once_the_subscription_in_the_way_is_gone(
    olm: World,
) -> None:
    namespace = olm.own_namespace("beside")
    olm.subscribe(namespace, "gull")
    succeed(olm, namespace, "gull.v1.0.0")
    broken = olm.subscribe(namespace, "winch", startingCSV="winch.v9.9.9")
    wait_until(
        lambda: resolution_failed(olm, namespace, "gull"),
        "ResolutionFailed on the healthy Subscription, too",
        SECONDS,
    )
    olm.kubectl.delete(broken)
    wait_until(lambda: not resolution_failed(olm, namespace, "gull"), "no failure", SECONDS)


def fail(olm: World, namespace: str, name: str, csv: str) -> str:
    """The plan for `csv` fails before any step, as OLM 0.18 to 0.24 let it fail with the job that
    unpacks for it; the name of the plan."""
    plan = olm.install_plan(namespace, csv)
    message = "bundle unpacking failed. Reason: DeadlineExceeded, and Message: Job was active ..."
    installed = {
        "type": "Installed",
        "status": "False",
        "reason": "InstallCheckFailed",
        "message": message,
    }
    status = {**plan["status"], "phase": "Failed", "conditions": [installed]}
    olm.kubectl.set_status({"apiVersion": V1ALPHA1, "kind": "InstallPlan", **plan}, status)

    def is_reported() -> bool:
        condition = olm.condition(namespace, name, "InstallPlanFailed")
        return condition is not None and condition["status"] == "True"

    wait_until(is_reported, "InstallPlanFailed", SECONDS)
    return str(plan["metadata"]["name"])


@pytest.mark.parametrize("upgrade", [False, True])
def test_olm_plans_again_when_a_failed_plan_without_its_version_is_deleted_and_not_before(
    olm: World, read: Read, upgrade: bool
) -> None:
    namespace = olm.own_namespace("failing")
    first, csv = "anchor.v1.0.0", "anchor.v1.1.0" if upgrade else "anchor.v1.0.0"
    olm.subscribe(namespace, "anchor", startingCSV=first, installPlanApproval="Manual")
    if upgrade:
        olm.approve(olm.install_plan(namespace, first))
        succeed(olm, namespace, first)
    failed = fail(olm, namespace, "anchor", csv)
    operator = read(namespace, "anchor")
    uid = operator.uid
    plan = plan_retry(operator)
    assert isinstance(plan.main, Apply)
    assert [(step.kind, step.name) for step in plan.steps if isinstance(step, Delete)] == [
        ("InstallPlan", failed)
    ]

    with client_for(operator.cluster) as client:
        apply_step(client, plan.main, None)
        at_rest(olm, namespace, "anchor")
        assert plan_of(olm, namespace) == failed, "the annotation alone changes nothing"
        olm.kubectl.delete(olm.kubectl.get(V1ALPHA1, "InstallPlan", failed, namespace))
        apply_step(client, plan.main, None)
    wait_until(lambda: plan_of(olm, namespace) not in ("", failed), "another InstallPlan", SECONDS)
    assert olm.install_plan(namespace, csv)["metadata"]["name"] == plan_of(olm, namespace)
    after = olm.subscription(namespace, "anchor")
    assert after["metadata"]["uid"] == uid
    assert (after["status"].get("installedCSV") == first) is upgrade


def plan_of(olm: World, namespace: str) -> str:
    """The name of the InstallPlan that the Subscription refers to."""
    status = olm.subscription(namespace, "anchor").get("status", {})
    return str(status.get("installPlanRef", {}).get("name", ""))
