"""Objects of OLM v0 as its controllers write them, as plain dicts and for the fake API server."""

from typing import Any

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
    PODS,
    SUBSCRIPTIONS,
)
from tests.kubefake import KubeFake
from tests.worlds.cluster import condition

NS = "shop"


def subscription(name: str = "etcd", **status: Any) -> dict[str, Any]:
    """On channel stable of the CatalogSource `community`; `spec` replaces fields of the spec."""
    spec = status.pop("spec", {})
    meta = status.pop("meta", {})
    return {
        "metadata": {"name": name, "namespace": NS, "generation": 1, **meta},
        "spec": {
            "name": name,
            "channel": "stable",
            "source": "community",
            "sourceNamespace": "olm",
            "installPlanApproval": "Manual",
            **spec,
        },
        "status": status,
    }


def csv(
    name: str = "etcd.v1.0.0",
    phase: str = "Succeeded",
    reason: str = "InstallSucceeded",
    **more: Any,
) -> dict[str, Any]:
    """A ClusterServiceVersion; `spec`, `status` and `meta` complete theirs."""
    package, _, version = name.partition(".v")
    return {
        "metadata": {
            "name": name,
            "namespace": NS,
            "labels": {f"operators.coreos.com/{package}.{NS}": ""},
            **more.get("meta", {}),
        },
        "spec": {
            "displayName": package.title(),
            "version": version,
            "description": "x" * 1000,
            "icon": [{"base64data": "x" * 1000}],
            "provider": {"name": "Example"},
            "installModes": [{"type": "AllNamespaces", "supported": True}],
            "install": {"spec": {"deployments": [{"name": package, "spec": {"replicas": 1}}]}},
            "customresourcedefinitions": {"owned": [{"name": f"{package}s.example.com"}]},
            **more.get("spec", {}),
        },
        "status": {
            "phase": phase,
            "reason": reason,
            "message": more.get("message", "as it says"),
            "conditions": [{"phase": "Pending", "reason": "RequirementsUnknown"}],
            **more.get("status", {}),
        },
    }


def plan(name: str = "install-1", phase: str = "Complete", **more: Any) -> dict[str, Any]:
    owner = {"kind": "Subscription", "name": "etcd", "uid": "x", "controller": False}
    return {
        "metadata": {"name": name, "namespace": NS, "ownerReferences": [owner]},
        "spec": {
            "approval": "Manual",
            "approved": phase != "RequiresApproval",
            "clusterServiceVersionNames": more.get("csvs", ["etcd.v1.0.0"]),
            "generation": 1,
        },
        "status": {
            "phase": phase,
            "plan": [
                {
                    "resolving": "etcd.v1.0.0",
                    "status": "Created",
                    "resource": {
                        "kind": "CustomResourceDefinition",
                        "name": "etcds.example.com",
                        "group": "apiextensions.k8s.io",
                        "version": "v1",
                        "manifest": "{" + "x" * 1000,
                    },
                }
            ],
            "bundleLookups": [
                {
                    "identifier": "etcd.v1.0.0",
                    "catalogSourceRef": {"name": "community", "namespace": "olm"},
                    "conditions": [condition("BundleLookupPending", "True", "JobIncomplete")],
                }
            ],
        },
    }


def catalog_source(state: str = "READY", name: str = "community") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "olm"},
        "spec": {"sourceType": "grpc", "image": "quay.io/x/catalog:latest", "priority": 5},
        "status": {"connectionState": {"lastObservedState": state, "address": "a:1"}},
    }


def operator_group(name: str = "group", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": NS},
        "spec": spec,
        "status": {"namespaces": [""]},
    }


def operator_condition(
    name: str = "etcd.v1.0.0", *conditions: dict[str, str], **spec: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": NS},
        "spec": spec,
        "status": {"conditions": list(conditions)},
    }


def olm_operator(package: str = "etcd") -> dict[str, Any]:
    refs = [
        {"kind": "Subscription", "namespace": NS, "name": package},
        {"kind": "CustomResourceDefinition", "name": f"{package}s.example.com"},
    ]
    return {
        "metadata": {"name": f"{package}.{NS}"},
        "status": {"components": {"refs": refs}},
    }


def deployment(
    name: str = "etcd",
    available: int = 1,
    owner: str = "etcd.v1.0.0",
    labels: dict[str, str] | None = None,
) -> dict[str, Any]:
    owners = {
        "olm.owner": owner,
        "olm.owner.kind": "ClusterServiceVersion",
        "olm.owner.namespace": NS,
    }
    return {
        "metadata": {"name": name, "namespace": NS, "labels": labels or owners},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}},
        "status": {
            "availableReplicas": available,
            "unavailableReplicas": 1 - available,
            "conditions": [
                condition("Available", "True" if available else "False", "MinimumReplicas")
            ],
        },
    }


def pod(name: str, app: str, reason: str, message: str = "") -> dict[str, Any]:
    waiting = {"waiting": {"reason": reason, "message": message}}
    return {
        "metadata": {"name": name, "namespace": NS, "labels": {"app": app}},
        "spec": {"containers": [{"name": "manager"}]},
        "status": {
            "phase": "Pending",
            "containerStatuses": [{"name": "manager", "restartCount": 3, "state": waiting}],
        },
    }


def crd(name: str = "etcds.example.com", stored: tuple[str, ...] = ("v1",)) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {f"operators.coreos.com/etcd.{NS}": ""}},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Etcd", "plural": "etcds"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"x": "y" * 1000}},
                {"name": "v1beta1", "served": False, "storage": False},
            ],
        },
        "status": {
            "conditions": [condition("Established", "True", "InitialNamesAccepted")],
            "storedVersions": list(stored),
        },
    }


def event(name: str, about: str, kind: str = "ClusterServiceVersion", **more: Any) -> Any:
    return {
        "metadata": {"name": name, "namespace": NS, **more.pop("meta", {})},
        "involvedObject": {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": kind,
            "namespace": NS,
            "name": about,
        },
        "type": "Warning",
        "reason": "InstallCheckFailed",
        "message": "install timeout",
        "count": 1,
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "source": {"component": "operator-lifecycle-manager"},
        **more,
    }


def put_installed(fake: KubeFake) -> None:
    """An installed Subscription with everything around it."""
    fake.put(CATALOG_SOURCES, catalog_source())
    fake.put(OPERATOR_GROUPS, operator_group())
    fake.put(
        SUBSCRIPTIONS,
        subscription(
            state="AtLatestKnown",
            currentCSV="etcd.v1.0.0",
            installedCSV="etcd.v1.0.0",
            installPlanRef={"name": "install-1", "namespace": NS},
            conditions=[condition("CatalogSourcesUnhealthy", "False", "AllCatalogSourcesHealthy")],
        ),
    )
    fake.put(INSTALL_PLANS, plan())
    fake.put(CLUSTER_SERVICE_VERSIONS, csv())
    fake.put(OPERATOR_CONDITIONS, operator_condition())
    fake.put(OLM_OPERATORS, olm_operator())
    fake.put(DEPLOYMENTS, deployment())
    fake.put(CUSTOM_RESOURCE_DEFINITIONS, crd())
    fake.put(EVENTS, event("etcd.1", "etcd.v1.0.0"))


def put_pod(fake: KubeFake, reason: str, message: str = "") -> None:
    fake.put(PODS, pod("etcd-7f", "etcd", reason, message))
