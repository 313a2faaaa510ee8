"""Deployments and their pods in every chain: installed is not the same as running."""

import pytest

from installs.diagnosis.chains import diagnose
from installs.diagnosis.knowledge import find
from installs.diagnosis.states import BROKEN, STATES
from tests.worlds.observations import (
    broken,
    catalog,
    csv,
    deployment,
    finding_id,
    installed,
    plan,
    pod,
)


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        ("ImagePullBackOff", 'Back-off pulling image "quay.io/x:1"', "pod-image-pull"),
        ("CrashLoopBackOff", "back-off 5m0s restarting failed container", "pod-crash-loop"),
        ("CreateContainerConfigError", 'secret "x" not found', "pod-config-missing"),
        ("Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.",
         "pod-unschedulable-resources"),
        ("SomethingNew", "never heard of it", ""),
    ],
)  # fmt: skip
def test_installed_and_not_running_is_degraded_and_the_pod_says_why(
    reason: str, message: str, expected: str
) -> None:
    down = deployment("False", pods=(pod(reason, message),))
    diagnosis = diagnose(installed(), (catalog(), plan(), csv(), down))
    assert (diagnosis.health, diagnosis.reason) == ("Degraded", reason)
    assert diagnosis.message == f"Installed, not running: {reason}: {message}"
    assert (broken(diagnosis), finding_id(diagnosis)) == (
        ("Pod", "etcd-operator-7d9f8"), expected,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"), [("ErrImagePull", "ImagePullBackOff"), ("Error", "CrashLoopBackOff")]
)
def test_a_pod_that_goes_back_and_forth_has_one_reason(one: str, other: str) -> None:
    told = []
    for reason in (one, other):
        down = deployment("False", pods=(pod(reason, "words"),))
        diagnosis = diagnose(installed(), (catalog(), plan(), csv(), down))
        assert [link.reason for link in diagnosis.chain if link.kind == "Pod"] == [reason]
        told.append((diagnosis.health, diagnosis.reason, finding_id(diagnosis)))
    assert told[0] == told[1]
    assert told[0][1] == other


def test_a_pod_that_only_starts_is_no_cause() -> None:
    down = deployment("False", pods=(pod("ContainerCreating"),))
    diagnosis = diagnose(installed(), (catalog(), plan(), csv(), down))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Degraded", "deployment-unavailable")
    assert broken(diagnosis) == ("Deployment", "etcd-operator")
    starting = csv("Installing", "InstallWaiting")
    assert diagnose(installed(), (catalog(), plan(), starting, down)).health == "Installing"


def test_an_installation_whose_pods_can_not_start_has_failed_already() -> None:
    starting = csv(
        "Installing",
        "InstallWaiting",
        "installing: waiting for deployment etcd-operator to become ready: not available",
    )
    down = deployment("False", pods=(pod("ImagePullBackOff", "Back-off"),))
    diagnosis = diagnose(installed(), (catalog(), plan(), starting, down))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "pod-image-pull")
    assert diagnosis.message == "Back-off"
    gave_up = csv("Failed", "InstallCheckFailed", "install timeout")
    diagnosis = diagnose(installed(), (catalog(), plan(), gave_up, down))
    assert (diagnosis.health, broken(diagnosis)[0]) == ("Failed", "Pod")


def test_an_upgrade_whose_pods_can_not_start_degrades_while_the_old_version_runs() -> None:
    old = csv("Replacing", "BeingReplaced")
    new = csv("Installing", "InstallWaiting", name="etcd.v2")
    down = deployment("False", pods=(pod("ImagePullBackOff", "Back-off"),))
    subject = installed(current_csv="etcd.v2", installed_csv="etcd.v2")
    diagnosis = diagnose(subject, (catalog(), plan(csvs=("etcd.v2",)), old, new, down))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Degraded", "pod-image-pull")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (("Progressing", "False", "ProgressDeadlineExceeded",
          'ReplicaSet "etcd-7d9f8" has timed out progressing.'), "deployment-progress-deadline"),
        (("ReplicaFailure", "True", "FailedCreate",
          'pods "x-" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=10, '
          "limited: pods=10"), "api-quota"),
        (("ReplicaFailure", "True", "FailedCreate", 'pods "x-" is forbidden: violates PodSecurity '
          '"restricted:latest": privileged'), "api-podsecurity"),
        (("ReplicaFailure", "True", "FailedCreate", 'pods "x-" is forbidden: error looking up '
          'service account shop/etcd: serviceaccount "etcd" not found'),
         "deployment-service-account-missing"),
        (("ReplicaFailure", "True", "FailedCreate", "something odd"), "deployment-failed-create"),
    ],
)  # fmt: skip
def test_a_deployment_whose_pods_are_not_made_says_why_itself(
    condition: tuple[str, ...], expected: str
) -> None:
    diagnosis = diagnose(installed(), (catalog(), plan(), csv(), deployment("False", condition)))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Degraded", expected)
    assert broken(diagnosis) == ("Deployment", "etcd-operator")
    assert diagnosis.message.startswith(f"Installed, not running: {condition[2]}: ")


def test_a_deployment_that_somebody_scaled_to_zero_does_not_run() -> None:
    diagnosis = diagnose(installed(), (catalog(), plan(), csv(), deployment(replicas=0)))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Degraded", "deployment-scaled-to-zero")


def test_a_pod_stands_behind_its_own_deployment() -> None:
    down = deployment("False", name="a", pods=(pod("CrashLoopBackOff"),))
    diagnosis = diagnose(installed(), (catalog(), plan(), csv(), deployment(name="b"), down))
    assert [link.kind for link in diagnosis.chain[-3:]] == ["Deployment", "Pod", "Deployment"]
    assert diagnosis.chain[-1].name == "b"


def test_one_deployment_of_several_that_does_not_run_is_enough() -> None:
    parts = (catalog(), plan(), csv(), deployment(name="a"), deployment("False", name="b"))
    diagnosis = diagnose(installed(), parts)
    assert broken(diagnosis) == ("Deployment", "b")
    assert [link.name for link in diagnosis.chain[-2:]] == ["a", "b"]


def test_a_deployment_of_the_version_that_is_replaced_is_not_blamed() -> None:
    new = csv("Succeeded", name="etcd.v2", deployments=["etcd-operator"])
    old = deployment("False", name="etcd-v1-operator")
    subject = installed(current_csv="etcd.v2", installed_csv="etcd.v2")
    diagnosis = diagnose(subject, (catalog(), plan(csvs=("etcd.v2",)), new, deployment(), old))
    assert diagnosis.health == "Healthy"
    assert [link.name for link in diagnosis.chain if link.kind == "Deployment"] == ["etcd-operator"]


@pytest.mark.parametrize(
    "reason",
    [row[3] for row, state in STATES.items() if row[0] == "Pod" and state in BROKEN],
)
def test_every_reason_of_a_pod_that_is_an_error_has_its_cause(reason: str) -> None:
    assert find(f"pod shop/x container y: {reason}: words", kind="Pod") is not None
    assert find(reason, kind="Pod") is not None
