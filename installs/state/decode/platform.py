"""Decodes PlatformOperators, rukpak's objects, and OpenShift's ClusterOperators and version."""

from collections.abc import Mapping
from typing import Any

from installs.diagnosis.aggregated import NAME as AGGREGATED
from installs.diagnosis.aggregated import parse_members
from installs.state.decode.common import (
    LISTED,
    DecodedObject,
    component_columns,
    controller,
    decoded_object,
    labelled_owner,
)
from olmweb.kube.conditions import find, status_of
from olmweb.kube.fields import Object, dig, https_address, items, text

PLATFORM_CATALOG = "redhat-operators"  # the only one in phase 0 of PlatformOperators
RUKPAK = "core.rukpak.io"
_HISTORY = 5


def platform_operator(obj: Object) -> DecodedObject | None:
    package = text(obj, "spec", "package", "name", limit=253)
    return decoded_object(
        obj, "PlatformOperator", {"package": package, "catalog": PLATFORM_CATALOG}
    )


def bundle_deployment(obj: Object) -> DecodedObject | None:
    """v1alpha1 has the source in a template, v1alpha2 in the spec itself.

    One without a controller belongs to the PlatformOperator of the same name.
    """
    owner = controller(obj)
    if not owner[2]:
        owner = "PlatformOperator", "", text(obj, "metadata", "name")
    image = text(obj, "spec", "source", "image", "ref") or text(
        obj, "spec", "template", "spec", "source", "image", "ref"
    )
    return decoded_object(obj, "BundleDeployment", component_columns(obj, owner, image=image))


def bundle(obj: Object) -> DecodedObject | None:
    owner = labelled_owner(obj, RUKPAK)
    if not owner[2]:
        owner = controller(obj)
    phase = text(obj, "status", "phase")
    image = text(obj, "spec", "source", "image", "ref")
    return decoded_object(obj, "Bundle", component_columns(obj, owner, phase=phase, image=image))


def cluster_operator(obj: Object) -> DecodedObject | None:
    decoded = decoded_object(obj, "ClusterOperator", {})
    if decoded is None:
        return None
    conditions = decoded.conditions
    severity, worst = worst_condition(conditions)
    versions = items(obj, "status", "versions", limit=LISTED)
    operator = (text(v, "version", limit=200) for v in versions if dig(v, "name") == "operator")
    available = text(find(conditions, "Available"), "message")
    decoded.columns.update(
        version=next(operator, ""),
        available=status_of(conditions, "Available")[:10],
        progressing=status_of(conditions, "Progressing")[:10],
        degraded=status_of(conditions, "Degraded")[:10],
        upgradeable=status_of(conditions, "Upgradeable")[:10],
        severity=severity,
        reason=text(worst, "reason")[:1024],
        message=text(worst, "message"),
        aggregated=decoded.name == AGGREGATED or bool(parse_members(available)),
    )
    return decoded


def worst_condition(conditions: list[dict[str, Any]]) -> tuple[int, Mapping[str, Any] | None]:
    """(severity, the condition that decides it): 3 unavailable, 2 degraded, 1 to watch, 0 fine.

    The order is that of cluster upgrades: Available, then Degraded, then the rest.
    """
    ranks = (
        ("Available", "False", 3),
        ("Degraded", "True", 2),
        ("Upgradeable", "False", 1),
        ("Progressing", "True", 1),
        ("Available", "Unknown", 1),
    )
    for kind, status, severity in ranks:
        if status_of(conditions, kind) == status:
            return severity, find(conditions, kind)
    return 0, find(conditions, "Available")


def cluster_version(obj: Object) -> DecodedObject | None:
    """`details["version"]` is the last completed version, else the desired one."""
    history = items(obj, "status", "history", limit=LISTED)
    desired = text(obj, "status", "desired", "version", limit=100)
    done = (
        text(entry, "version", limit=100) for entry in history if entry.get("state") == "Completed"
    )
    details = {
        "version": next(done, desired),
        "desired": desired,
        "available": [
            text(update, "version", limit=100)
            for update in items(obj, "status", "availableUpdates", limit=LISTED)
        ],
        "history": [
            {
                "state": text(entry, "state", limit=60),
                "version": text(entry, "version", limit=100),
                "started": text(entry, "startedTime", limit=60),
                "completed": text(entry, "completionTime", limit=60),
            }
            for entry in history[:_HISTORY]
        ],
    }
    return decoded_object(obj, "ClusterVersion", component_columns(obj), details)


def console(obj: Object) -> DecodedObject | None:
    """`details["address"]` is that of the OpenShift Console; empty if it is not plain https."""
    address = https_address(text(obj, "status", "consoleURL", limit=500))
    return decoded_object(obj, "Console", component_columns(obj), {"address": address})
