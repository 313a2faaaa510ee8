"""Images of registry+v1 bundles for tests, and what is in them."""

import base64
import gzip
import json
from typing import Any

import yaml

from tests.worlds.image_registry_fake import OCI, RegistryFake, tar

MANIFESTS = "operators.operatorframework.io.bundle.manifests.v1"
METADATA = "operators.operatorframework.io.bundle.metadata.v1"
LABELS = {MANIFESTS: "manifests/", METADATA: "metadata/"}
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "kettles.tea.example.com"},
    "spec": {
        "group": "tea.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Kettle", "plural": "kettles"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {"type": "integer"},
                                    "lid": {"type": "string"},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
SERVICE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "kettle-metrics"},
}
ANNOTATIONS = {"annotations": {"operators.operatorframework.io.bundle.package.v1": "kettle"}}
Files = dict[str, Any]


def csv(**spec: Any) -> dict[str, Any]:
    """The ClusterServiceVersion kettle.v1.0.0 that asks for secrets of the whole cluster."""
    defaults: dict[str, Any] = {
        "installModes": [{"type": "AllNamespaces", "supported": True}],
        "webhookdefinitions": [
            {
                "type": "ValidatingAdmissionWebhook",
                "generateName": "vkettle.example.com",
                "failurePolicy": "Fail",
                "rules": [
                    {
                        "apiGroups": ["tea.example.com"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["kettles"],
                    }
                ],
            }
        ],
        "customresourcedefinitions": {
            "owned": [{"name": "kettles.tea.example.com", "version": "v1", "kind": "Kettle"}]
        },
        "install": {
            "strategy": "deployment",
            "spec": {
                "clusterPermissions": [
                    {
                        "serviceAccountName": "kettle",
                        "rules": [
                            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
                            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
                        ],
                    }
                ],
                "permissions": [
                    {
                        "serviceAccountName": "kettle",
                        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}],
                    }
                ],
                "deployments": [
                    {
                        "name": "kettle",
                        "spec": {
                            "template": {
                                "spec": {
                                    "containers": [
                                        {"name": "main", "image": "registry.example/kettle:1"}
                                    ]
                                }
                            }
                        },
                    }
                ],
            },
        },
    }
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "kettle.v1.0.0", "annotations": {}},
        "spec": {**defaults, **spec},
    }


def blob(name: str, *objects: dict[str, Any], **more: Any) -> bytes:
    """An olm.bundle blob of the package kettle with these objects and further properties."""
    properties = [
        {"type": "olm.bundle.object", "value": {"data": base64.b64encode(text).decode()}}
        for text in (json.dumps(item).encode() for item in objects)
    ]
    for kind, value in more.items():
        properties.append({"type": kind.replace("_", "."), "value": value})
    return json.dumps(
        {"schema": "olm.bundle", "name": name, "package": "kettle", "properties": properties}
    ).encode()


def files(*objects: dict[str, Any], **named: bytes) -> list[tuple[str, bytes]]:
    """Members of the layers: objects as YAML under manifests/, more by name, the annotations."""
    found = [
        (f"manifests/{number}-{each['kind'].lower()}.yaml", yaml.safe_dump(each).encode())
        for number, each in enumerate(objects)
    ]
    found += [(f"manifests/{name}.yaml", data) for name, data in named.items()]
    return [*found, ("metadata/annotations.yaml", yaml.safe_dump(ANNOTATIONS).encode())]


def bundle_image(
    fake: RegistryFake,
    *layers: bytes,
    tag: str = "v1",
    labels: dict[str, str] | None = LABELS,
    history: list[str] | None = None,
) -> str:
    """An image of these layers (tars), or of the usual files; returns the manifest's digest."""
    layers = layers or (tar(*files(csv(), CRD, SERVICE)),)
    config: dict[str, Any] = {"config": {"Labels": labels}}
    if history is not None:
        config["history"] = [{"created_by": step} for step in history]
        config["history"].append({"created_by": "LABEL a=b", "empty_layer": True})
    media = f"{OCI}.layer.v1.tar+gzip"
    return fake.put(
        tag,
        {
            "config": fake.blob(json.dumps(config).encode(), f"{OCI}.config.v1+json"),
            "layers": [fake.blob(gzip.compress(layer), media) for layer in layers],
        },
    )
