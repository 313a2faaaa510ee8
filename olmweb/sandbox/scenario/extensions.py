"""The scenario's ClusterExtensions: one healthy, one that can't be resolved, one deprecated, and
one that is installed and doesn't run.

Written as operator-controller leaves them; they stay so until somebody changes them.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from olmweb.sandbox.apiserver.store import Object, timestamp
from olmweb.sandbox.scenario import workloads
from olmweb.sandbox.scenario.content import catalogs
from olmweb.sandbox.scenario.workloads import Happening, Workload

_DEPRECATIONS = ("Deprecated", "PackageDeprecated", "ChannelDeprecated", "BundleDeprecated")
_NOT_DEPRECATED = {
    "Deprecated": "not deprecated",
    "PackageDeprecated": "package not deprecated",
    "ChannelDeprecated": "channel not deprecated",
    "BundleDeprecated": "bundle not deprecated",
}
_RUNNING = {"recipes": "recipes", "queue": "queue-system", "weather": "weather"}  # name: namespace
_CRASHES = "weather"
_Said = dict[str, tuple[str, str, str]]  # condition type -> status, reason, message


def objects(now: datetime) -> list[Object]:
    """All four; their conditions are as old as `now`."""
    return [
        _installed("recipes", "recipes", "recipes-demo", "alpha", "community-operators", now),
        _unresolved("object-store", now),
        _installed("queue", "queue-system", "queue-demo", "old", "redhat-operators", now),
        _installed("weather", "weather", "weather-demo", "stable", "community-operators", now),
    ]


def namespaces() -> list[str]:
    """Where the installed ones run."""
    return list(_RUNNING.values())


def running(then: datetime, now: datetime) -> Iterator[Object]:
    """Deployments of the installed ones, their pods, and an Event about the one that crashes."""
    for name, namespace in _RUNNING.items():
        crashes = name == _CRASHES
        labels = {
            "olm.operatorframework.io/owner-kind": "ClusterExtension",
            "olm.operatorframework.io/owner-name": name,
        }
        wanted = Workload(
            namespace=namespace,
            name=f"{name}-controller",
            image=f"quay.io/olmweb-sandbox/{name}:latest",
            state=workloads.CRASHING if crashes else workloads.AVAILABLE,
            labels=labels,
        )
        deployment, pod = workloads.objects(wanted, then)
        yield deployment
        yield pod
        if crashes:
            text = "Back-off restarting failed container manager in pod"
            happened = Happening("BackOff", text, True, "kubelet", 118, 55)
            yield workloads.event(pod, happened, now)


def _installed(
    name: str, namespace: str, package: str, channel: str, catalog: str, now: datetime
) -> Object:
    bundle = _oldest(catalog, package, channel)
    version = next(
        p["value"]["version"] for p in bundle["properties"] if p["type"] == "olm.package"
    )
    said: _Said = {
        "Installed": ("True", "Succeeded", f"Installed bundle {bundle['image']} successfully"),
        "Progressing": ("True", "Succeeded", "Desired state reached"),
    }
    catalog_spec = {"packageName": package, "channels": [channel], "version": version}
    status = {"install": {"bundle": {"name": bundle["name"], "version": version}}}
    said |= deprecated(catalog, package, channel, bundle["name"])
    return _extension(name, namespace, catalog_spec, said, status, now)


def _oldest(catalog: str, package: str, channel: str) -> dict[str, Any]:
    """The first bundle of a channel: pinned by version, so that an upgrade is there to be shown."""
    blobs = [blob for blob in catalogs()[catalog] if blob.get("package") == package]
    entries = next(
        b["entries"] for b in blobs if (b["schema"], b["name"]) == ("olm.channel", channel)
    )
    return next(b for b in blobs if b["name"] == entries[0]["name"])


def deprecated(catalog: str, package: str, channel: str, bundle: str) -> _Said:
    """The four deprecation conditions; `Deprecated` joins the messages of the other three."""
    entries = [
        entry
        for blob in catalogs()[catalog]
        if blob["schema"] == "olm.deprecations" and blob["package"] == package
        for entry in blob["entries"]
    ]
    wanted = {
        "PackageDeprecated": ("olm.package", None),
        "ChannelDeprecated": ("olm.channel", channel),
        "BundleDeprecated": ("olm.bundle", bundle),
    }
    said: _Said = {
        type_: ("False", "NotDeprecated", _NOT_DEPRECATED[type_]) for type_ in _DEPRECATIONS
    }
    found: list[str] = []
    for type_, (schema, name) in wanted.items():
        for entry in entries:
            reference = entry["reference"]
            if (reference["schema"], reference.get("name")) == (schema, name):
                said[type_] = ("True", "Deprecated", entry["message"])
                found.append(entry["message"])
    if found:
        said["Deprecated"] = ("True", "Deprecated", "\n".join(found))
    return said


def _unresolved(name: str, now: datetime) -> Object:
    package, wanted, channel = "object-store-demo", ">=9.0.0", "stable"
    text = (
        f'no bundles found for package "{package}" matching version "{wanted}" '
        f"in channels [{channel}]"
    )
    said: _Said = {
        "Installed": ("False", "Failed", "No bundle installed"),
        "Progressing": ("True", "Retrying", text),
    }
    said |= deprecated("redhat-operators", package, channel, "")
    said["BundleDeprecated"] = ("Unknown", "Absent", "no bundle installed yet")
    catalog_spec = {"packageName": package, "channels": [channel], "version": wanted}
    return _extension(name, "object-store", catalog_spec, said, {}, now)


def _extension(
    name: str,
    namespace: str,
    catalog: dict[str, Any],
    said: _Said,
    status: dict[str, Any],
    now: datetime,
) -> Object:
    conditions = [
        {
            "type": type_,
            "status": state,
            "reason": reason,
            "message": message,
            "lastTransitionTime": timestamp(now),
            "observedGeneration": 1,
        }
        for type_, (state, reason, message) in said.items()
    ]
    return {
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterExtension",
        "metadata": {"name": name},
        "spec": {
            "namespace": namespace,
            "serviceAccount": {"name": f"{name}-installer"},
            "source": {
                "sourceType": "Catalog",
                "catalog": {"upgradeConstraintPolicy": "CatalogProvided", **catalog},
            },
        },
        "status": {"conditions": conditions, **status},
    }
