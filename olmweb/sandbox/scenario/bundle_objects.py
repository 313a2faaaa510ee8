"""The manifests of a bundle, as its image and a catalog's `olm.bundle.object` properties hold them.

A catalog of 4.12 carries them whole: the ClusterServiceVersion, the CRDs, and what else a bundle
ships. Pure and deterministic; must not know catalogs, nor who installs.
"""

import base64
import json
from typing import Any

from olmweb.sandbox.scenario.facts import Crd, Facts, number

Blob = dict[str, Any]
_OPERANDS = ("deployments", "statefulsets")
_LEADER = "leader-election"


def properties(facts: Facts, version: str, name: str, replaces: str, metadata: Blob) -> list[Blob]:
    """One property for each manifest, the ClusterServiceVersion first.

    `metadata` is the value that `olm.csv.metadata` would have, `replaces` the bundle before.
    """
    manifests = [
        _csv(facts, version, name, replaces, metadata),
        *(_crd(facts, crd) for crd in facts.kinds),
        *(_role(role) for role in facts.roles),
    ]
    return [{"type": "olm.bundle.object", "value": {"data": _encoded(one)}} for one in manifests]


def _encoded(manifest: Blob) -> str:
    text = json.dumps(manifest, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(text.encode()).decode()


def _csv(facts: Facts, version: str, name: str, replaces: str, metadata: Blob) -> Blob:
    spec: Blob = {
        "displayName": metadata["displayName"],
        "description": metadata["description"],
        "version": version,
        "installModes": metadata["installModes"],
        "keywords": metadata["keywords"],
        "links": metadata["links"],
        "maintainers": metadata["maintainers"],
        "maturity": metadata["maturity"],
        "minKubeVersion": metadata["minKubeVersion"],
        "provider": metadata["provider"],
        "customresourcedefinitions": metadata["crdDescriptions"],
        "install": {"strategy": "deployment", "spec": _strategy(facts, metadata)},
    }
    if services := metadata["apiServiceDefinitions"]:
        spec["apiservicedefinitions"] = services
    if facts.webhook:
        spec["webhookdefinitions"] = [_webhook(facts)]
    if replaces:
        spec["replaces"] = replaces
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "annotations": metadata["annotations"]},
        "spec": spec,
    }


def _strategy(facts: Facts, metadata: Blob) -> Blob:
    """A Deployment, and what its ServiceAccount may do: its own kinds, and what it runs them by."""
    account, labels = f"{facts.name}-controller", {"name": f"{facts.name}-controller"}
    container = {
        "name": "manager",
        "image": metadata["annotations"]["containerImage"],
        "command": ["/manager"],
    }
    template = {
        "metadata": {"labels": labels},
        "spec": {"serviceAccountName": account, "containers": [container]},
    }
    deployment = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    watched = ["configmaps", "services"] + (["secrets"] if number("rbac", facts.name) % 3 else [])
    rules = [
        {"apiGroups": sorted({crd.group for crd in facts.kinds}), "resources": ["*"]},
        {"apiGroups": ["apps"], "resources": list(_OPERANDS)},
        {"apiGroups": [""], "resources": watched},
    ]
    granted = [{**rule, "verbs": ["create", "delete", "get", "list", "watch"]} for rule in rules]
    return {
        "deployments": [{"name": account, "spec": deployment}],
        "clusterPermissions": [{"serviceAccountName": account, "rules": granted}],
    }


def _webhook(facts: Facts) -> Blob:
    kind = facts.kinds[0]
    rule = {
        "apiGroups": [kind.group],
        "apiVersions": [kind.version],
        "operations": ["CREATE", "UPDATE"],
        "resources": [kind.plural],
    }
    return {
        "type": "ValidatingAdmissionWebhook",
        "generateName": f"v{kind.kind.lower()}.{facts.name}.example.com",
        "admissionReviewVersions": ["v1"],
        "containerPort": 443,
        "targetPort": 9443,
        "deploymentName": f"{facts.name}-controller",
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "webhookPath": f"/validate-{kind.kind.lower()}",
        "rules": [rule],
    }


def _crd(facts: Facts, crd: Crd) -> Blob:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {
        "type": "object",
        "description": f"One {crd.kind} of {facts.title}.",
        "properties": {"spec": free, "status": free},
    }
    version = {"name": crd.version, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": crd.name},
        "spec": {
            "group": crd.group,
            "names": {
                "plural": crd.plural,
                "singular": crd.kind.lower(),
                "kind": crd.kind,
                "listKind": f"{crd.kind}List",
            },
            "scope": "Namespaced",
            "conversion": {"strategy": "None"},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def _role(name: str) -> Blob:
    """Without a namespace, as bundles ship it: it lands where the installer's release lives."""
    verbs = ["create", "get", "list", "update", "watch"]
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/component": _LEADER}},
        "rules": [rule],
    }
