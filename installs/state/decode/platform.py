"""PlatformOperators, what rukpak makes of them, and OpenShift's ClusterOperators and version."""

from collections.abc import Mapping
from typing import Any

from installs.diagnosis.aggregated import NAME as AGGREGATED
from installs.diagnosis.aggregated import parse_members
from installs.state.decode.common import (
    Kept,
    Object,
    component,
    controller,
    dig,
    items,
    kept,
    labelled_owner,
    text,
)
from olmweb.kube import conditions as kube_conditions

PLATFORM_CATALOG = "redhat-operators"  # phase 0 of PlatformOperators knows no other
RUKPAK = "core.rukpak.io"
_HISTORY = 5


def platform_operator(obj: Object) -> Kept | None:
    package = text(obj, "spec", "package", "name", limit=253)
    return kept(obj, "PlatformOperator", {"package": package, "catalog": PLATFORM_CATALOG})


def bundle_deployment(obj: Object) -> Kept | None:
    """v1alpha1 keeps the source in a template, v1alpha2 in the spec itself.

    One that nobody controls belongs to the PlatformOperator of its name.
    """
    owner = controller(obj)
    if not owner[2]:
        owner = "PlatformOperator", "", text(obj, "metadata", "name")
    image = text(obj, "spec", "source", "image", "ref") or text(
        obj, "spec", "template", "spec", "source", "image", "ref"
    )
    return kept(obj, "BundleDeployment", component(obj, owner, image=image))


def bundle(obj: Object) -> Kept | None:
    owner = labelled_owner(obj, RUKPAK)
    if not owner[2]:
        owner = controller(obj)
    phase = text(obj, "status", "phase")
    image = text(obj, "spec", "source", "image", "ref")
    return kept(obj, "Bundle", component(obj, owner, phase=phase, image=image))


def cluster_operator(obj: Object) -> Kept | None:
    one = kept(obj, "ClusterOperator", {})
    if one is None:
        return None
    found = one.conditions
    severity, worst = worst_condition(found)
    versions = items(obj, "status", "versions")
    operator = (text(v, "version", limit=200) for v in versions if dig(v, "name") == "operator")
    available = kube_conditions.text(kube_conditions.find(found, "Available"), "message")
    one.columns.update(
        version=next(operator, ""),
        available=kube_conditions.status_of(found, "Available")[:10],
        progressing=kube_conditions.status_of(found, "Progressing")[:10],
        degraded=kube_conditions.status_of(found, "Degraded")[:10],
        upgradeable=kube_conditions.status_of(found, "Upgradeable")[:10],
        severity=severity,
        reason=kube_conditions.text(worst, "reason")[:1024],
        message=kube_conditions.text(worst, "message"),
        aggregated=one.name == AGGREGATED or bool(parse_members(available)),
    )
    return one


def worst_condition(
    conditions: list[dict[str, Any]],
) -> tuple[int, Mapping[str, Any] | None]:
    """(severity, the condition that decides it): 3 unavailable, 2 degraded, 1 to watch, 0 fine.

    What a cluster upgrade minds decides the order: Available, then Degraded, then the rest. An
    operator that does not say whether it is available is one to watch.
    """
    ranks = (
        ("Available", "False", 3),
        ("Degraded", "True", 2),
        ("Upgradeable", "False", 1),
        ("Progressing", "True", 1),
        ("Available", "Unknown", 1),
    )
    for kind, status, severity in ranks:
        if kube_conditions.status_of(conditions, kind) == status:
            return severity, kube_conditions.find(conditions, kind)
    return 0, kube_conditions.find(conditions, "Available")


def cluster_version(obj: Object) -> Kept | None:
    """`details["version"]` is the version last completed, else the one on its way."""
    history = items(obj, "status", "history")
    desired = text(obj, "status", "desired", "version", limit=100)
    done = (text(one, "version", limit=100) for one in history if one.get("state") == "Completed")
    details = {
        "version": next(done, desired),
        "desired": desired,
        "available": [
            text(one, "version", limit=100) for one in items(obj, "status", "availableUpdates")
        ],
        "history": [
            {
                "state": text(one, "state", limit=60),
                "version": text(one, "version", limit=100),
                "started": text(one, "startedTime", limit=60),
                "completed": text(one, "completionTime", limit=60),
            }
            for one in history[:_HISTORY]
        ],
    }
    return kept(obj, "ClusterVersion", component(obj), details)
