"""Worlds for the page tests: rows as a finished sync of a failing cluster leaves them."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from installs.diagnosis.chains import diagnose
from installs.diagnosis.types import Condition, Observation
from installs.models import (
    Action,
    ClusterOperator,
    ClusterOperatorMember,
    Component,
    Operator,
    Transition,
)
from installs.models.steps import Apply, to_json
from olmweb.models import Cluster
from tests.factories import make_operator

UNPACK = "Failed to unpack the {0}-bundle Bundle: convert registry+v1 bundle to plain+v0 bundle: "
MODE = UNPACK + "AllNamespace install mode must be enabled"
WEBHOOK = UNPACK + "webhookDefiniions are not supported"
OWNED = (
    "rendered manifests contain a resource that already exists. Unable to continue with install: "
    'Role "leader-election" in namespace "openshift-operators" exists and cannot be imported into '
    "the current release: invalid ownership metadata; annotation validation error: key "
    '"meta.helm.sh/release-name" must equal "{0}": current value is "other"'
)
STRANGE = "the flux capacitor of {0} lost its charge"


def make_failing(
    cluster: Cluster, name: str, message: str, reason: str = "UnpackFailed", **fields: Any
) -> Operator:
    """A PlatformOperator that failed with `message` ({0} is its name) and its BundleDeployment."""
    told = message.format(name)
    now = timezone.now()
    conditions = [_condition("Installed", "False", reason, told)]
    subject = _observe("PlatformOperator", name, conditions)
    below = _observe(
        "BundleDeployment", name, [_condition("HasValidBundle", "False", reason, told)]
    )
    verdict = diagnose(subject, [below])
    operator = make_operator(
        cluster=cluster,
        name=name,
        since=now - timedelta(hours=2),
        **{
            "catalog": "redhat-operators",
            "health": verdict.health,
            "reason": verdict.reason,
            "message": verdict.message,
            "finding": verdict.finding.id if verdict.finding else "",
            "facts": dict(verdict.finding.facts) if verdict.finding else {},
            "conditions": conditions,
            "created_at": now - timedelta(hours=2, seconds=14),
            **fields,
        },
    )
    Component.objects.create(
        cluster=cluster,
        operator=operator,
        kind="BundleDeployment",
        name=name,
        conditions=[_condition("HasValidBundle", "False", reason, told)],
        created_at=now - timedelta(hours=2, seconds=13),
    )
    rows = [
        ("Object", "", "", "", "appeared", timedelta(hours=2, seconds=14)),
        ("Health", "", "", "Installing", "", timedelta(hours=2, seconds=14)),
        ("Health", "Installing", "", verdict.health, reason, timedelta(hours=2)),
    ]
    for type_, before, before_reason, after, after_reason, past in rows:
        Transition.objects.create(
            cluster=cluster,
            kind="PlatformOperator",
            name=name,
            type=type_,
            from_status=before,
            from_reason=before_reason,
            to_status=after,
            to_reason=after_reason,
            at=now - past,
        )
    return operator


def make_failing_world(cluster: Cluster, *, modes: int = 3, webhooks: int = 2) -> None:
    """Failures of several causes, healthy ones, and the aggregated ClusterOperator over them."""
    for number in range(modes):
        make_failing(cluster, f"mode-{number:02}", MODE)
    for number in range(webhooks):
        make_failing(cluster, f"webhook-{number:02}", WEBHOOK)
    make_failing(cluster, "collision", OWNED, "InstallFailed")
    make_failing(cluster, "strange", STRANGE, "InstallFailed")
    make_operator(
        cluster=cluster, name="fine", upgrade="1.1.0", catalog="redhat-operators",
        conditions=[_condition("Installed", "True", "InstallSuccessful", "")],
    )  # fmt: skip
    make_operator(cluster=cluster, name="coming", health="Installing", reason="InstallPending")
    listed = list(Operator.objects.filter(cluster=cluster, kind="PlatformOperator"))
    failing = [row for row in listed if row.health != "Healthy"]
    row = make_clusteroperator(
        cluster,
        "platform-operators-aggregated",
        available="False",
        reason="PlatformOperatorError",
        message="encountered the failing platform operators",
        aggregated=True,
        severity=3,
        problem="",
    )
    for operator in failing:
        ClusterOperatorMember.objects.create(
            cluster_operator=row, name=operator.name, reason=operator.reason, operator=operator
        )
    make_clusteroperator(cluster, "dns")
    make_clusteroperator(
        cluster, "monitoring", degraded="True", severity=2, reason="SlowDisk", message="too slow"
    )


def make_clusteroperator(cluster: Cluster, name: str, **fields: Any) -> ClusterOperator:
    """A healthy ClusterOperator unless the fields say otherwise; its conditions follow them."""
    values = {
        "available": "True",
        "progressing": "False",
        "degraded": "False",
        "upgradeable": "True",
        "version": "4.16.3",
        **fields,
    }
    types = ("available", "progressing", "degraded", "upgradeable")
    conditions = [
        _condition(
            kind.capitalize(), values[kind], values.get("reason", ""), values.get("message", "")
        )
        for kind in types
    ]
    return ClusterOperator.objects.create(
        cluster=cluster, kind="ClusterOperator", name=name, conditions=conditions, **values
    )


def make_action(cluster: Cluster, name: str = "etcd", **fields: Any) -> Action:
    """An installation that somebody asked for and the cluster took."""
    manifest = {
        "apiVersion": "platform.openshift.io/v1alpha1",
        "kind": "PlatformOperator",
        "metadata": {"name": name},
        "spec": {"package": {"name": name}},
    }
    values = {
        "verb": "install",
        "package": name,
        "catalog": "redhat-operators",
        "state": "applied",
        "as_user": "olivia",
        "stored_steps": to_json([Apply(manifest, main=True)]),
        "dry_run": {"ok": True, "message": "", "fields": {}},
        "sent_at": timezone.now(),
        **fields,
    }
    return Action.objects.create(cluster=cluster, name=name, **values)


def _condition(type_: str, status: str, reason: str, message: str) -> dict[str, str]:
    at = (timezone.now() - timedelta(hours=2)).isoformat(timespec="seconds")
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": at,
    }


def _observe(kind: str, name: str, conditions: list[dict[str, str]]) -> Observation:
    return Observation(
        kind=kind,
        namespace="",
        name=name,
        conditions=tuple(
            Condition(one["type"], one["status"], one["reason"], one["message"])
            for one in conditions
        ),
    )
