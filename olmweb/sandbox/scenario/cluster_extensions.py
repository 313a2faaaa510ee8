"""The demo's ClusterExtensions: two healthy ones, an unresolved one and one that crashes.

Written as operator-controller leaves them; they stay so until somebody changes them.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from olmweb.sandbox.apiserver.kinds import Object
from olmweb.sandbox.apiserver.store import timestamp
from olmweb.sandbox.controllers import workloads
from olmweb.sandbox.controllers.olm_v1 import (
    Conditions,
    ExtensionCondition,
    condition_object,
    deprecation_conditions,
    owner_labels,
    succeeded,
)
from olmweb.sandbox.controllers.workloads import Occurrence, Workload
from olmweb.sandbox.scenario.catalogs import catalogs

_NAMESPACES = {"recipes": "recipes", "queue": "queue-system", "weather": "weather"}  # by name
_CRASHES = "weather"


def objects(now: datetime) -> list[Object]:
    """All four; their conditions are as old as `now`."""
    return [
        _installed("recipes", "recipes-demo", "alpha", "community-operators", now),
        _unresolved("object-store", now),
        _installed("queue", "queue-demo", "old", "redhat-operators", now),
        _installed("weather", "weather-demo", "stable", "community-operators", now),
    ]


def namespaces() -> list[str]:
    """The namespaces of the installed extensions."""
    return list(_NAMESPACES.values())


def running(then: datetime, now: datetime) -> Iterator[Object]:
    """Deployments and pods of the installed extensions, and an Event about the crash."""
    for name, namespace in _NAMESPACES.items():
        crashes = name == _CRASHES
        workload = Workload(
            namespace=namespace,
            name=f"{name}-controller",
            image=f"quay.io/olmweb-sandbox/{name}:latest",
            state=workloads.CRASHING if crashes else workloads.AVAILABLE,
            labels=owner_labels(name),
        )
        deployment, pod = workloads.objects(workload, then)
        yield deployment
        yield pod
        if crashes:
            text = "Back-off restarting failed container manager in pod"
            occurrence = Occurrence("BackOff", text, True, "kubelet", 118, 55)
            yield workloads.event(pod, occurrence, now)


def _installed(name: str, package: str, channel: str, catalog: str, now: datetime) -> Object:
    """Installed in the oldest version of the channel, so that there is an upgrade."""
    contents = catalogs()[catalog]
    entries = next(
        blob["entries"] for blob in contents.channels(package) if blob["name"] == channel
    )
    bundle = contents.bundle(package, channel, entries[0]["name"])
    deprecations = deprecation_conditions(contents, package, channel, bundle.name)
    conditions = succeeded(bundle.image) | deprecations
    source = {"packageName": package, "channels": [channel], "version": bundle.version}
    status = {"install": {"bundle": {"name": bundle.name, "version": bundle.version}}}
    return _extension(name, _NAMESPACES[name], source, conditions, status, now)


def _unresolved(name: str, now: datetime) -> Object:
    package, version, channel = "object-store-demo", ">=9.0.0", "stable"
    text = (
        f'no bundles found for package "{package}" matching version "{version}" '
        f"in channels [{channel}]"
    )
    conditions = {
        "Installed": ExtensionCondition("False", "Failed", "No bundle installed"),
        "Progressing": ExtensionCondition("True", "Retrying", text),
        **deprecation_conditions(catalogs()["redhat-operators"], package, channel, ""),
        "BundleDeprecated": ExtensionCondition("Unknown", "Absent", "no bundle installed yet"),
    }
    source = {"packageName": package, "channels": [channel], "version": version}
    return _extension(name, "object-store", source, conditions, {}, now)


def _extension(
    name: str,
    namespace: str,
    source: dict[str, Any],
    conditions: Conditions,
    status: dict[str, Any],
    now: datetime,
) -> Object:
    stamp = timestamp(now)
    return {
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterExtension",
        "metadata": {"name": name},
        "spec": {
            "namespace": namespace,
            "serviceAccount": {"name": f"{name}-installer"},
            "source": {
                "sourceType": "Catalog",
                "catalog": {"upgradeConstraintPolicy": "CatalogProvided", **source},
            },
        },
        "status": {
            "conditions": [
                condition_object(type_, condition, stamp, 1)
                for type_, condition in conditions.items()
            ],
            **status,
        },
    }
