"""Objects as the real controllers write them, for the fake API server."""

from typing import Any

from olmweb.kube.resources import (
    BUNDLE_DEPLOYMENTS,
    BUNDLES,
    CLUSTER_EXTENSIONS,
    CLUSTER_OPERATORS,
    CLUSTER_VERSIONS,
    PLATFORM_OPERATORS,
)
from tests.kubefake import KubeFake

FAILURE = "convert registry+v1 bundle to plain+v0 bundle: AllNamespace install mode must be enabled"


def condition(type_: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }


def put_platform_operator(
    fake: KubeFake, name: str, *conditions: dict[str, str], **meta: Any
) -> dict[str, Any]:
    return fake.put(
        PLATFORM_OPERATORS,
        {
            "metadata": {"name": name, "generation": 1, **meta},
            "spec": {"package": {"name": name}},
            "status": {"conditions": list(conditions), "activeBundleDeployment": {"name": name}},
        },
    )


def put_installed(fake: KubeFake, name: str) -> None:
    done = condition("Installed", "True", "InstallSuccessful", "Successfully applied")
    put_platform_operator(fake, name, done)
    put_bundle_deployment(
        fake,
        name,
        condition("HasValidBundle", "True", "UnpackSuccessful"),
        condition("Installed", "True", "InstallationSucceeded"),
    )


def put_failed(fake: KubeFake, name: str, reason: str = "UnpackFailed") -> None:
    put_platform_operator(fake, name, condition("Installed", "False", reason, FAILURE))
    put_bundle_deployment(fake, name, condition("HasValidBundle", "False", reason, FAILURE))


def put_bundle_deployment(fake: KubeFake, name: str, *conditions: dict[str, str]) -> None:
    owner = {"kind": "PlatformOperator", "name": name, "controller": True, "uid": "x"}
    fake.put(
        BUNDLE_DEPLOYMENTS,
        {
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {"source": {"type": "image", "image": {"ref": f"quay.io/x/{name}@sha256:1"}}},
            "status": {"conditions": list(conditions)},
        },
    )


def put_bundle(fake: KubeFake, owner: str, phase: str, *conditions: dict[str, str]) -> None:
    labels = {
        "core.rukpak.io/owner-kind": "BundleDeployment",
        "core.rukpak.io/owner-name": owner,
    }
    fake.put(
        BUNDLES,
        {
            "metadata": {"name": f"{owner}-7d4c", "labels": labels},
            "spec": {"source": {"type": "image", "image": {"ref": "quay.io/x/y@sha256:1"}}},
            "status": {"phase": phase, "conditions": list(conditions)},
        },
    )


def put_aggregated(fake: KubeFake, *members: tuple[str, str]) -> None:
    """The aggregated ClusterOperator with these failing (name, reason)."""
    items = [
        f'encountered the failing {name} platform operator with reason "{reason}"'
        for name, reason in members
    ]
    message = items[0] if len(items) == 1 else f"[{', '.join(items)}]"
    available = (
        condition("Available", "False", "PlatformOperatorError", message)
        if items
        else condition("Available", "True", "AsExpected", "All platform operators are fine")
    )
    put_cluster_operator(
        fake,
        "platform-operators-aggregated",
        condition("Progressing", "True" if items else "False"),
        condition("Degraded", "False"),
        available,
    )


def put_cluster_operator(fake: KubeFake, name: str, *conditions: dict[str, str]) -> None:
    fake.put(
        CLUSTER_OPERATORS,
        {
            "metadata": {"name": name},
            "status": {
                "conditions": list(conditions),
                "versions": [{"name": "operator", "version": "4.12.0"}],
            },
        },
    )


def put_cluster_extension(fake: KubeFake, name: str, *conditions: dict[str, str]) -> None:
    fake.put(
        CLUSTER_EXTENSIONS,
        {
            "metadata": {"name": name},
            "spec": {
                "namespace": "ns",
                "source": {
                    "sourceType": "Catalog",
                    "catalog": {
                        "packageName": f"{name}-package",
                        "version": ">=1.0.0",
                        "channels": ["stable", "beta"],
                        "selector": {
                            "matchLabels": {"olm.operatorframework.io/metadata.name": "community"}
                        },
                    },
                },
            },
            "status": {
                "conditions": list(conditions),
                "install": {"bundle": {"name": f"{name}.v1.2.3", "version": "1.2.3"}},
            },
        },
    )


def put_cluster_version(fake: KubeFake) -> None:
    fake.put(
        CLUSTER_VERSIONS,
        {
            "metadata": {"name": "version"},
            "status": {
                "desired": {"version": "4.13.0"},
                "history": [
                    {"state": "Partial", "version": "4.13.0"},
                    {"state": "Completed", "version": "4.12.7"},
                ],
            },
        },
    )


def fill(fake: KubeFake) -> None:
    """Three PlatformOperators (one failed), their components, one extension, two operators."""
    put_installed(fake, "good")
    put_installed(fake, "fine")
    put_failed(fake, "bad")
    put_bundle(fake, "bad", "Failing", condition("Unpacked", "False", "UnpackFailed", FAILURE))
    put_cluster_extension(
        fake,
        "ext",
        condition("Installed", "True", "Succeeded"),
        condition("Progressing", "True", "Succeeded", "Desired state reached"),
    )
    put_aggregated(fake, ("bad", "UnpackFailed"))
    put_cluster_operator(fake, "dns", condition("Available", "True", "AsExpected", "fine"))
    put_cluster_version(fake)
