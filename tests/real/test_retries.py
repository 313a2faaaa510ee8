"""Remedies of OLM v0's failures that stay, on real OLM v0: the manual steps after a failed upgrade,
and how long a failed resolution stays after its cause is gone."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from installs.actions.objects import apply_step
from installs.actions.retry import plan_retry
from installs.models import Operator
from installs.models.steps import Apply
from installs.state.full_sync import sync_cluster
from olmweb.clusters import client_for
from olmweb.models import Cluster
from tests.peers.client import wait_until
from tests.real.bundles import crd
from tests.real.world import SECONDS, V1ALPHA1, World

pytestmark = [pytest.mark.peers, pytest.mark.django_db]

PLAN_FAILS_SECONDS = 2 * SECONDS  # OLM tries a plan again for a minute before it gives it up
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


def edit_kept(file: Path) -> None:
    """Edits the saved Subscription as the manual steps say."""
    subscription = yaml.safe_load(file.read_text())
    metadata = subscription["metadata"]
    kept = ("name", "namespace", "labels", "annotations")
    subscription["metadata"] = {key: metadata[key] for key in kept if key in metadata}
    subscription.pop("status")
    subscription["spec"].pop("startingCSV")
    file.write_text(yaml.safe_dump(subscription))


def test_the_manual_steps_after_a_failed_upgrade_end_with_the_new_version(
    olm: World, read: Read, kubeconfig: Path, tmp_path: Path
) -> None:
    namespace = olm.own_namespace("failed")
    olm.subscribe(namespace, "tender", installPlanApproval="Manual", startingCSV="tender.v1.0.0")
    olm.approve(olm.install_plan(namespace, "tender.v1.0.0"))
    succeed(olm, namespace, "tender.v1.0.0")
    olm.approve(olm.install_plan(namespace, "tender.v1.1.0"))
    wait_until(
        lambda: olm.install_plan(namespace, "tender.v1.1.0")["status"]["phase"] == "Failed",
        "the InstallPlan Failed",
        PLAN_FAILS_SECONDS,
    )
    plan = plan_retry(read(namespace, "tender"))
    commands = [step for step in plan.by_hand if step.startswith("kubectl ")]
    assert commands, plan.consequences
    monitors = crd("servicemonitors", "ServiceMonitor", "monitoring.coreos.com")
    olm.kubectl.create(monitors)
    try:
        for command in commands:
            environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
            subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environment, check=True)
            if command.endswith("kept.yaml") and ">" in command:
                edit_kept(tmp_path / "kept.yaml")
        olm.approve(olm.install_plan(namespace, "tender.v1.1.0"))
        succeed(olm, namespace, "tender.v1.1.0")
    finally:
        olm.kubectl.delete(monitors)


def resolution_failed(olm: World, namespace: str, name: str) -> str:
    """The message of a failed resolution; empty without one."""
    condition = olm.condition(namespace, name, "ResolutionFailed")
    return condition["message"] if condition and condition["status"] == "True" else ""


def test_a_retry_resolves_again_once_the_version_in_the_way_is_gone(olm: World, read: Read) -> None:
    namespace, csv = olm.own_namespace("orphan"), "gull.v1.0.0"
    olm.subscribe(namespace, "gull")
    succeed(olm, namespace, csv)
    olm.kubectl.delete(olm.subscription(namespace, "gull"))
    olm.subscribe(namespace, "gull")
    message = wait_until(
        lambda: resolution_failed(olm, namespace, "gull"), "ResolutionFailed", SECONDS
    )
    assert f"clusterserviceversion {csv} exists and is not referenced by a subscription" in message

    # OLM may leave the condition for minutes after this deletion.
    olm.kubectl.delete(olm.kubectl.get(V1ALPHA1, "ClusterServiceVersion", csv, namespace))
    operator = read(namespace, "gull")
    plan = plan_retry(operator)
    assert isinstance(plan.main, Apply)
    with client_for(operator.cluster) as client:
        apply_step(client, plan.main, None)
    wait_until(lambda: not resolution_failed(olm, namespace, "gull"), "no failure", SECONDS)
    olm.csv(namespace, csv, "Installing")


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
