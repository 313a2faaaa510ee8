"""Why OLM is not connected to a CatalogSource: its pods, before the state of the connection."""

from typing import Any

import pytest

from installs.diagnosis.catalog_pods import catalog_pod_line, catalogd_line
from installs.diagnosis.chains import diagnose
from installs.diagnosis.evaluate import ReportedMessage, evaluate_catalog_source, finding_of
from installs.diagnosis.knowledge import find
from installs.diagnosis.states import BROKEN, State
from installs.diagnosis.types import Observation
from tests.worlds.observations import NS, catalog, conditions, finding_id

KILLED = "back-off 5m0s; it ended with OOMKilled, exit code 137"
DOWN = "TRANSIENT_FAILURE"
UNAVAILABLE = "failed to list bundles: rpc error: code = Unavailable"


def entry(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    container = "" if reason == "Unschedulable" else "registry-server"
    return {
        "name": "community-x7k2p",
        "container": container,
        "reason": reason,
        "message": message,
        "restarts": 4,
        **more,
    }


def source(*pods: dict[str, Any], total: int = 1, state: str = DOWN, **details: Any) -> Observation:
    return catalog(state, pods=list(pods), pods_total=total, **details)


def cause(obj: Observation) -> tuple[str, str]:
    """Id and title of the finding about the CatalogSource."""
    message = evaluate_catalog_source(obj).message
    finding = finding_of(obj, [ReportedMessage.of(obj, message)])
    return (finding.id, finding.cause) if finding else ("", "")


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([entry("CrashLoopBackOff", KILLED)], "cs-pod-memory"),
        ([entry("NotReady", "it ended with OOMKilled, exit code 137")], "cs-pod-memory"),
        ([entry("OOMKilled")], "cs-pod-memory"),
        ([entry("ImagePullBackOff", 'Back-off pulling image "x"')], "cs-pod-image"),
        ([entry("Unschedulable", "0/3 nodes are available")], "cs-pod-unscheduled"),
        ([entry("CrashLoopBackOff", "back-off; it ended with Error, exit code 1")], "cs-pod-crash"),
        ([entry("NotReady")], "cs-pod-not-ready"),
        ([entry("CreateContainerConfigError", "runAsNonRoot")], "cs-pod-start"),
        ([entry("NotReady"), entry("CrashLoopBackOff", KILLED)], "cs-pod-memory"),
    ],
)  # fmt: skip
def test_the_pods_of_a_catalog_say_why_it_is_down(
    pods: list[dict[str, Any]], expected: str
) -> None:
    assert cause(source(*pods))[0] == expected
    assert cause(source(*pods, state="CONNECTING"))[0] == expected


def test_without_a_pod_or_with_running_pods_the_cause_is_elsewhere() -> None:
    assert cause(source(total=0))[0] == "cs-no-pod"
    identity, text = cause(source())
    assert identity == "cs-network"
    assert "community.olm.svc:50051" in text
    assert cause(source(address="registry.example.com:50051"))[0] == "cs-address"


def test_what_is_not_known_or_only_begins_changes_nothing() -> None:
    assert catalog_pod_line(catalog(DOWN)) == "", "pods were not read"
    assert cause(catalog(DOWN))[0] == ""
    creating = source(entry("ContainerCreating"))
    assert catalog_pod_line(creating) == ""
    ready = source(entry("NotReady"), state="READY")
    assert evaluate_catalog_source(ready).state is State.HEALTHY
    connecting = source(state="CONNECTING")
    assert evaluate_catalog_source(connecting).message == ""


@pytest.mark.parametrize(
    ("details", "expected", "says"),
    [
        ({"state": "", "total": 0}, "cs-no-state", "neither status.connectionState nor a pod"),
        ({"state": ""}, "cs-no-state", "has no status.connectionState"),
        ({"state": "CONNECTING", "total": 0}, "cs-no-pod", "No pod with the label"),
        ({"state": "CONNECTING", "endpoints": 0}, "cs-no-endpoint", "its Service leads to none"),
        ({"state": "CONNECTING", "endpoints": 1}, "cs-network", "has been CONNECTING for more"),
        ({"state": "IDLE", "endpoints": 1}, "cs-network", "has been IDLE for more"),
        ({"state": "CONNECTING", "address": "r:1"}, "cs-address", "has been CONNECTING for more"),
        ({"state": "IDLE", "address": "r:1"}, "cs-address", "has been IDLE for more"),
    ],
)
def test_a_connection_that_is_overdue_is_a_trouble_with_a_cause(
    details: dict[str, Any], expected: str, says: str
) -> None:
    assert evaluate_catalog_source(source(**details)).state not in BROKEN
    overdue = source(overdue=True, **details)
    assert evaluate_catalog_source(overdue).state in BROKEN
    identity, text = cause(overdue)
    assert (identity, says in text) == (expected, True), text


def test_a_pod_that_is_being_created_is_the_cause_of_a_connection_that_is_overdue() -> None:
    creating = entry("ContainerCreating")
    assert cause(source(creating, state="CONNECTING"))[0] == ""
    assert cause(source(creating, state="CONNECTING", overdue=True))[0] == "cs-pod-creating"
    killed = entry("CrashLoopBackOff", KILLED)
    assert cause(source(creating, killed, overdue=True))[0] == "cs-pod-memory"


def subscription(*raw_conditions: tuple[str, ...], **details: Any) -> Observation:
    return Observation(
        "Subscription",
        NS,
        "etcd",
        conditions(*raw_conditions),
        details=details,
        extra={"catalog": "community", "catalog_namespace": "olm"},
    )


def test_a_subscription_of_a_dead_catalog_names_the_cause_and_its_remedy() -> None:
    diagnosis = diagnose(subscription(), (source(entry("CrashLoopBackOff", KILLED)),))
    assert finding_id(diagnosis) == "cs-pod-memory"
    assert diagnosis.finding is not None
    remedy = " ".join(diagnosis.finding.remedy)
    assert "-n olm patch catalogsource community" in remedy
    assert '{"spec":{"grpcPodConfig":{"memoryTarget":"400Mi"}}}' in remedy
    assert "4 times" in diagnosis.finding.cause


def test_a_failed_resolution_is_explained_by_the_pods_of_the_catalog_that_it_blames() -> None:
    other = Observation(
        "CatalogSource", "olm", "other",
        details={"state": DOWN, "pods": [entry("ImagePullBackOff")], "pods_total": 1},
    )  # fmt: skip
    message = f"error using catalogsource olm/other: {UNAVAILABLE}"
    failed = subscription(("ResolutionFailed", "True", "ErrorPreventedResolution", message))
    assert finding_id(diagnose(failed, (catalog(), other))) == "cs-pod-image"
    assert finding_id(diagnose(failed, (catalog(),))) == "sub-catalog-list-failed"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"pods": [entry("CrashLoopBackOff", KILLED)], "pods_total": 1}, "cc-catalogd-memory"),
        ({"pods": [entry("CreateContainerError", "no")], "pods_total": 1}, "cc-catalogd-pod"),
        ({"replicas": 0}, "cc-catalogd-absent"),
        ({"pods": [], "pods_total": 0}, "cc-catalogd-absent"),
        ({}, "cc-catalogd-absent"),
        ({"available": 1}, ""),
    ],
)
def test_catalogd_says_why_it_serves_no_catalog(more: dict[str, Any], expected: str) -> None:
    line = catalogd_line({"namespace": "olmv1-system", "replicas": 1, "available": 0} | more)
    match = find(line, kind="ClusterCatalog") if line else None
    assert (match.entry.id if match else "") == expected
    assert catalogd_line({}) == ""
