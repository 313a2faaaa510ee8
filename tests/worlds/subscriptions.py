"""Worlds of OLM v0: Subscriptions with what they name, as rows that a finished sync leaves."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from installs.models import Component, Operator
from olmweb.models import Cluster
from tests.factories import (
    make_component,
    make_event,
    make_operator,
    make_reference,
    make_transition,
)

NAMESPACE = "openshift-operators"
MARKETPLACE = "openshift-marketplace"
CATALOG = "community-operators"


def make_subscription(
    cluster: Cluster,
    name: str = "grafana",
    *,
    namespace: str = NAMESPACE,
    installed: str = "1.0.0",
    current: str = "1.0.0",
    **fields: Any,
) -> Operator:
    """A healthy Subscription and its CatalogSource reference; versions, empty for none."""
    details = {
        "approval": "Automatic",
        "state": "AtLatestKnown",
        "current_csv": f"{name}.v{current}" if current else "",
        "installed_csv": f"{name}.v{installed}" if installed else "",
        "starting_csv": "",
        "plan": "",
        "plan_namespace": "",
        "generated_by": "",
        "catalog_health": [{"name": CATALOG, "namespace": MARKETPLACE, "healthy": True}],
        **fields.pop("details", {}),
    }
    values = {
        "kind": "Subscription",
        "namespace": namespace,
        "catalog": CATALOG,
        "catalog_namespace": MARKETPLACE,
        "channel": "stable",
        "version": installed or current,
        "bundle": f"{name}.v{installed or current}",
        "reason": "AtLatestKnown",
        "details": details,
        "created_at": timezone.now() - timedelta(days=3),
        **fields,
    }
    row = make_operator(cluster=cluster, name=name, **values)
    make_reference(operator=row, kind="CatalogSource", namespace=MARKETPLACE, name=CATALOG)
    for csv in sorted({details["current_csv"], details["installed_csv"]} - {""}):
        make_reference(operator=row, kind="ClusterServiceVersion", namespace=namespace, name=csv)
    return row


def make_catalog_source(cluster: Cluster, name: str = CATALOG, **details: Any) -> Component:
    """A CatalogSource that is connected; the one there is when it was made before."""
    known = Component.objects.filter(cluster=cluster, kind="CatalogSource", name=name).first()
    return known or make_component(
        cluster=cluster,
        kind="CatalogSource",
        namespace=MARKETPLACE,
        name=name,
        details={
            "type": "grpc",
            "image": "registry.example/community:v4.16",
            "address": f"{name}.{MARKETPLACE}.svc:50051",
            "priority": -400,
            "display_name": "Community Operators",
            "state": "READY",
            "last_connect": "2026-11-20T10:00:00Z",
            "reason": "",
            "message": "",
            "last_poll": "2026-11-21T08:00:00Z",
            **details,
        },
    )


def make_csv(
    operator: Operator, version: str = "1.0.0", phase: str = "Succeeded", **details: Any
) -> Component:
    """A ClusterServiceVersion of the operator."""
    name = f"{operator.name}.v{version}"
    return make_component(
        operator=operator,
        kind="ClusterServiceVersion",
        namespace=operator.namespace,
        name=name,
        phase=phase,
        details={
            "reason": "InstallSucceeded" if phase == "Succeeded" else "",
            "message": "",
            "display_name": operator.name.title(),
            "version": version,
            "replaces": "",
            "provider": "Example",
            "package": operator.package,
            "last_update": "",
            "requirements": [],
            "deployments": [f"{operator.name}-controller"],
            "owned_crds": [f"{operator.name}s.example.com"],
            "required_crds": [],
            "install_modes": {"AllNamespaces": True, "OwnNamespace": False},
            **details,
        },
    )


def make_plan(
    operators: list[Operator],
    csvs: list[str],
    *,
    name: str = "",
    phase: str = "Complete",
    **details: Any,
) -> Component:
    """An InstallPlan that all these Subscriptions name; its steps are its CSVs and their CRDs."""
    first = operators[0]
    name = name or f"install-{first.name}"
    steps = []
    for csv in csvs:
        package = csv.partition(".v")[0]
        for kind, group, version, called in (
            ("ClusterServiceVersion", "operators.coreos.com", "v1alpha1", csv),
            ("CustomResourceDefinition", "apiextensions.k8s.io", "v1", f"{package}s.example.com"),
            ("ServiceAccount", "", "v1", f"{package}-controller"),
            ("ClusterRole", "rbac.authorization.k8s.io", "v1", f"{csv}-abc12"),
        ):
            steps.append(
                {
                    "resolving": csv,
                    "kind": kind,
                    "name": called,
                    "group": group,
                    "version": version,
                    "status": "Created" if phase == "Complete" else "Unknown",
                }
            )
    waits = phase == "RequiresApproval"
    row = make_component(
        cluster=first.cluster,
        kind="InstallPlan",
        namespace=first.namespace,
        name=name,
        phase=phase,
        details={
            "approval": "Manual" if waits else "Automatic",
            "approved": not waits,
            "csvs": csvs,
            "generation": 2,
            "message": "",
            "start_time": "",
            "steps": steps,
            "steps_total": len(steps),
            "lookups": [],
            "subscriptions": [one.name for one in operators],
            **details,
        },
    )
    for operator in operators:
        make_reference(operator=operator, kind="InstallPlan", namespace=first.namespace, name=name)
        operator.details = {
            **operator.details,
            "plan": name,
            "plan_namespace": first.namespace,
        }
        operator.save()
    return row


def make_deployment(
    operator: Operator, *, ready: int = 1, pods: list[dict[str, Any]] | None = None
) -> Component:
    """The Deployment of the operator's CSV."""
    return make_component(
        operator=operator,
        kind="Deployment",
        namespace=operator.namespace,
        name=f"{operator.name}-controller",
        owner_kind="ClusterServiceVersion",
        owner_namespace=operator.namespace,
        owner_name=operator.bundle,
        conditions=[
            {
                "type": "Available",
                "status": "True" if ready else "False",
                "reason": "MinimumReplicasAvailable" if ready else "MinimumReplicasUnavailable",
                "message": "",
            }
        ],
        details={
            "replicas": 1,
            "ready": ready,
            "available": ready,
            "unavailable": 1 - ready,
            "updated": 1,
            "observed_generation": 1,
            "selector": {"app": operator.name},
            "pods": pods or [],
        },
    )


def make_pending_approval(cluster: Cluster) -> Operator:
    """Grafana waits for a person to approve an InstallPlan that upgrades loki as well."""
    make_catalog_source(cluster)
    grafana = make_subscription(
        cluster, installed="1.0.0", current="1.1.0", health="NeedsApproval",
        reason="RequiresApproval", upgrade="1.1.0", finding="approval-required",
        upgrade_held="An InstallPlan requires manual approval.",
        details={"approval": "Manual", "state": "UpgradePending"},
    )  # fmt: skip
    loki = make_subscription(
        cluster, "loki", installed="2.0.0", current="2.1.0", health="NeedsApproval",
        reason="RequiresApproval", details={"state": "UpgradePending"},
    )  # fmt: skip
    make_csv(grafana)
    make_csv(loki, "2.0.0")
    make_plan([grafana, loki], ["grafana.v1.1.0", "loki.v2.1.0"], phase="RequiresApproval")
    return grafana


def make_unmet_requirements(cluster: Cluster) -> Operator:
    """A CSV that waits for a CRD and for a ServiceAccount's permissions."""
    make_catalog_source(cluster)
    tempo = make_subscription(
        cluster, "tempo", installed="", current="0.9.0", health="Blocked",
        reason="RequirementsNotMet", message="one or more requirements couldn't be found",
    )  # fmt: skip
    csv = make_csv(
        tempo, "0.9.0", "Pending", reason="RequirementsNotMet",
        message="one or more requirements couldn't be found",
        requirements=[
            {
                "group": "operators.coreos.com", "version": "v1alpha1",
                "kind": "ClusterServiceVersion", "name": "tempo.v0.9.0", "status": "Present",
                "message": "CSV minKubeVersion (1.16.0) less than server version (v1.29.4)",
                "dependents": [],
            },
            {
                "group": "apiextensions.k8s.io", "version": "v1",
                "kind": "CustomResourceDefinition", "name": "certificates.cert-manager.io",
                "status": "NotPresent", "message": "CRD is not present", "dependents": [],
            },
            {
                "group": "", "version": "v1", "kind": "ServiceAccount", "name": "tempo-controller",
                "status": "PresentNotSatisfied", "message": "Policy rule not satisfied",
                "dependents": [
                    {
                        "group": "rbac.authorization.k8s.io", "version": "v1", "kind": "PolicyRule",
                        "status": "NotSatisfied",
                        "message": 'cluster rule:{"verbs":["get"],"resources":["nodes"]}',
                    }
                ],
            },
        ],
    )  # fmt: skip
    make_plan([tempo], [csv.name])
    now = timezone.now()
    make_transition(
        subject=tempo, type="Health", to_status="Installing", at=now - timedelta(minutes=20)
    )
    make_transition(
        subject=tempo, type="Health", from_status="Installing", to_status="Blocked",
        to_reason="RequirementsNotMet", message="one or more requirements couldn't be found",
        at=now - timedelta(minutes=18),
    )  # fmt: skip
    make_event(
        subject=csv, type="Warning", reason="RequirementsNotMet",
        message="requirements not met", count=12, first_at=now - timedelta(minutes=18),
        last_at=now - timedelta(minutes=1),
    )  # fmt: skip
    make_event(subject=csv, reason="RequirementsUnknown", last_at=now - timedelta(minutes=19))
    return tempo


def make_crashing(cluster: Cluster) -> Operator:
    """Installed, and its pod can't pull its image."""
    make_catalog_source(cluster)
    jaeger = make_subscription(
        cluster, "jaeger", health="Degraded", reason="ImagePullBackOff",
        message='Back-off pulling image "quay.example/jaeger:1"',
    )  # fmt: skip
    make_csv(jaeger)
    make_plan([jaeger], ["jaeger.v1.0.0"])
    make_deployment(
        jaeger,
        ready=0,
        pods=[
            {
                "name": "jaeger-controller-5d9c7-abcde",
                "container": "manager",
                "reason": "ImagePullBackOff",
                "message": 'Back-off pulling image "quay.example/jaeger:1"',
                "restarts": 0,
            }
        ],
    )
    return jaeger


def make_orphan(cluster: Cluster) -> Operator:
    """A ClusterServiceVersion that no Subscription names."""
    row = make_operator(
        cluster=cluster,
        kind="ClusterServiceVersion",
        namespace="legacy",
        name="mongodb.v0.3.0",
        package="mongodb",
        version="0.3.0",
        bundle="mongodb.v0.3.0",
        reason="InstallSucceeded",
    )
    make_component(
        operator=row, kind="ClusterServiceVersion", namespace="legacy", name=row.name,
        phase="Succeeded", details={"version": "0.3.0", "reason": "InstallSucceeded"},
    )  # fmt: skip
    return row
