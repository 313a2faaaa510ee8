"""Objects of OLM v0 as the diagnosis sees them, for its tests: sound ones unless told otherwise."""

from datetime import UTC, datetime
from typing import Any

from installs.diagnosis.types import ChainLink, Condition, Diagnosis, Observation

NS = "shop"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
REFUSED = (
    "error using catalogsource olm/community: failed to list bundles: rpc error: code = "
    'Unavailable desc = connection error: desc = "transport: Error while dialing: dial tcp '
    '10.0.0.1:50051: connect: connection refused"'
)
NO_MONITOR = (
    "api-server resource not found installing ServiceMonitor etcd-monitor: GroupVersionKind "
    "monitoring.coreos.com/v1, Kind=ServiceMonitor not found on the cluster. This API may have "
    "been deprecated and removed"
)


def conditions(*raw_conditions: tuple[str, ...]) -> tuple[Condition, ...]:
    """Conditions as (type, status, reason, message)."""
    return tuple(Condition(*raw) for raw in raw_conditions)


def subscription(
    *raw_conditions: tuple[str, ...], name: str = "etcd", **details: Any
) -> Observation:
    """Of the package etcd in the catalog olm/community; named by `current_csv`, `plan`, ..."""
    return Observation(
        "Subscription",
        NS,
        name,
        conditions(*raw_conditions),
        extra={"package": "etcd", "catalog": "community", "catalog_namespace": "olm"},
        details={"approval": "Automatic", **details},
    )


def installed(*raw_conditions: tuple[str, ...], **details: Any) -> Observation:
    """A Subscription whose version etcd.v1 is there."""
    named = {"current_csv": "etcd.v1", "installed_csv": "etcd.v1", "plan": "install-1"}
    return subscription(*raw_conditions, **{**named, **details})


def catalog(state: str = "READY", **details: Any) -> Observation:
    return Observation("CatalogSource", "olm", "community", details={"state": state, **details})


def plan(
    phase: str = "Complete",
    *raw_conditions: tuple[str, ...],
    name: str = "install-1",
    csvs: tuple[str, ...] = ("etcd.v1",),
    **details: Any,
) -> Observation:
    return Observation(
        "InstallPlan",
        NS,
        name,
        conditions(*raw_conditions),
        phase=phase,
        details={"csvs": list(csvs), "approved": True, **details},
    )


def csv(
    phase: str = "Succeeded",
    reason: str = "InstallSucceeded",
    message: str = "",
    *,
    name: str = "etcd.v1",
    **details: Any,
) -> Observation:
    raw_details = {"reason": reason, "message": message, **details}
    return Observation("ClusterServiceVersion", NS, name, phase=phase, details=raw_details)


def missing(
    kind: str, name: str, message: str, status: str = "NotPresent", **more: Any
) -> dict[str, Any]:
    """One requirement that is not met."""
    return {"kind": kind, "name": name, "status": status, "message": message, **more}


def deployment(
    available: str = "True",
    *raw_conditions: tuple[str, ...],
    pods: tuple[dict[str, Any], ...] = (),
    name: str = "etcd-operator",
    namespace: str = NS,
    **details: Any,
) -> Observation:
    reason = f"MinimumReplicas{'Available' if available == 'True' else 'Unavailable'}"
    message = "" if available == "True" else "Deployment does not have minimum availability."
    return Observation(
        "Deployment",
        namespace,
        name,
        conditions(("Available", available, reason, message), *raw_conditions),
        details={"replicas": 1, "pods": list(pods), **details},
    )


def pod(reason: str, message: str = "", container: str = "manager") -> dict[str, Any]:
    return {
        "name": "etcd-operator-7d9f8",
        "container": container,
        "reason": reason,
        "message": message,
        "restarts": 3,
    }


def broken(diagnosis: Diagnosis) -> tuple[str, str]:
    """Kind and name of the first broken link; there is at most one."""
    links: list[ChainLink] = [link for link in diagnosis.chain if link.first_broken]
    assert len(links) <= 1
    return (links[0].kind, links[0].name) if links else ("", "")


def finding_id(diagnosis: Diagnosis) -> str:
    return diagnosis.finding.id if diagnosis.finding else ""
