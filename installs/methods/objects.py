"""The manifests of a choice, in the order in which they are applied, the main object last. Pure.

Each holds only the fields that OLM Web means to own under its field manager.
"""

from collections.abc import Sequence
from typing import Any

import yaml

from catalogs.install_methods import InstallMethod
from installs.methods.choice import AUTOMATIC, CATALOG_PROVIDED, Choice

Manifest = dict[str, Any]
# Label that catalogd puts on every ClusterCatalog with its own name
# (operator-controller internal/catalogd/webhook/cluster_catalog_webhook.go).
CATALOG_LABEL = "olm.operatorframework.io/metadata.name"
_API = {
    InstallMethod.PLATFORM_OPERATOR: "platform.openshift.io/v1alpha1",
    InstallMethod.CLUSTER_EXTENSION: "olm.operatorframework.io/v1",
    InstallMethod.SUBSCRIPTION: "operators.coreos.com/v1alpha1",
}
_GROUP_API = "operators.coreos.com/v1"


def objects_for(path: InstallMethod, choice: Choice) -> list[Manifest]:
    """Every object that installs the choice by `path`, in order of application.

    PlatformOperator: itself. ClusterExtension: Namespace and ServiceAccount where they are wanted,
    then itself. Subscription: Namespace and OperatorGroup where they are wanted, then itself.
    """
    if path == InstallMethod.PLATFORM_OPERATOR:
        return [_object(choice, path, {"package": {"name": choice.package}})]
    before = [_namespace(choice.namespace)] if choice.make_namespace else []
    if path == InstallMethod.CLUSTER_EXTENSION:
        if choice.service_account and choice.has("spec.serviceAccount.name"):
            before.append(_service_account(choice))
        return [*before, _object(choice, path, _extension_spec(choice))]
    if choice.make_group:
        before.append(_operator_group(choice))
    return [*before, _object(choice, path, _subscription_spec(choice), choice.namespace)]


def main_object(manifests: Sequence[Manifest]) -> Manifest:
    """The one that the others are for; raises IndexError when there is none."""
    return manifests[-1]


def as_yaml(manifest: Manifest | Sequence[Manifest]) -> str:
    """One manifest, or several as documents, as a person would write them."""
    if isinstance(manifest, dict):
        return yaml.safe_dump(manifest, sort_keys=False)
    return "---\n".join(yaml.safe_dump(one, sort_keys=False) for one in manifest)


def _object(
    choice: Choice, kind: InstallMethod, spec: dict[str, Any], namespace: str = ""
) -> Manifest:
    group, _, usual = _API[kind].rpartition("/")
    metadata = {"name": choice.name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": f"{group}/{choice.api_version or usual}",
        "kind": kind.value,
        "metadata": metadata,
        "spec": spec,
    }


def _namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _service_account(choice: Choice) -> Manifest:
    metadata = {"name": choice.service_account, "namespace": choice.namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def _operator_group(choice: Choice) -> Manifest:
    """Named as the namespace: one group a namespace is all that OLM v0 allows."""
    return {
        "apiVersion": _GROUP_API,
        "kind": "OperatorGroup",
        "metadata": {"name": choice.namespace, "namespace": choice.namespace},
        "spec": {"targetNamespaces": list(choice.targets)} if choice.targets else {},
    }


def _extension_spec(choice: Choice) -> dict[str, Any]:
    catalog: dict[str, Any] = {"packageName": choice.package}
    if choice.catalog and choice.has("spec.source.catalog.selector"):
        catalog["selector"] = {"matchLabels": {CATALOG_LABEL: choice.catalog}}
    if choice.channel and choice.has("spec.source.catalog.channels"):
        catalog["channels"] = [choice.channel]
    if choice.version and choice.has("spec.source.catalog.version"):
        catalog["version"] = choice.version
    policy = "spec.source.catalog.upgradeConstraintPolicy"
    if choice.policy != CATALOG_PROVIDED and choice.has(policy):
        catalog["upgradeConstraintPolicy"] = choice.policy
    spec: dict[str, Any] = {"namespace": choice.namespace}
    if choice.service_account and choice.has("spec.serviceAccount.name"):
        spec["serviceAccount"] = {"name": choice.service_account}
    spec["source"] = {"sourceType": "Catalog", "catalog": catalog}
    if choice.crd_safety and choice.has("spec.install.preflight.crdUpgradeSafety.enforcement"):
        spec["install"] = {"preflight": {"crdUpgradeSafety": {"enforcement": choice.crd_safety}}}
    return spec


def _subscription_spec(choice: Choice) -> dict[str, Any]:
    spec = {
        "name": choice.package,
        "source": choice.catalog,
        "sourceNamespace": choice.catalog_namespace,
        "channel": choice.channel,
        "startingCSV": choice.version,
        "installPlanApproval": choice.approval or AUTOMATIC,
    }
    return {key: value for key, value in spec.items() if value}
