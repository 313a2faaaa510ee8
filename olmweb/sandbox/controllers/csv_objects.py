"""ClusterServiceVersions and their companions: copies, conditions, CRDs, Operator objects.

Made from a catalog's bundle, in the state in which OLM v0 leaves them. Pure; must not know
Subscriptions.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from olmweb.sandbox.apiserver.kinds import FREE, Object, crd_names, crd_status, crd_version, new_crd
from olmweb.sandbox.apiserver.store import copied, timestamp, uid_of
from olmweb.sandbox.controllers.bundles import BundleContent

API = "operators.coreos.com/v1alpha1"
_CRD_FINE = "CRD is present and Established condition is true"
_PROPERTIES = ("olm.package", "olm.gvk", "olm.maxOpenShiftVersion")


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a ClusterServiceVersion, worded as in OLM."""

    phase: str
    reason: str
    message: str


SUCCEEDED = Phase("Succeeded", "InstallSucceeded", "install strategy completed with no errors")
GROUP_UNSUPPORTED = Phase(
    "Failed",
    "UnsupportedOperatorGroup",
    "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces",
)
REQUIREMENTS_NOT_MET = Phase(
    "Pending", "RequirementsNotMet", "one or more requirements couldn't be found"
)
_BEFORE: Mapping[str, tuple[Phase, ...]] = {
    "Succeeded": (
        Phase("Pending", "RequirementsUnknown", "requirements not yet checked"),
        Phase("InstallReady", "AllRequirementsMet", "all requirements found, attempting install"),
        Phase("Installing", "InstallSucceeded", "waiting for install components to report healthy"),
    ),
    "Pending": (Phase("Pending", "RequirementsUnknown", "requirements not yet checked"),),
}


@dataclass(frozen=True, slots=True)
class InstalledBundle:
    """A bundle in a namespace, with the OperatorGroup there and the phase it has reached."""

    bundle: BundleContent
    namespace: str
    group: str
    targets: str  # olm.targetNamespaces; "" is all namespaces
    phase: Phase
    missing: Mapping[str, str] = field(
        default_factory=dict
    )  # kind, name and version of a required CRD

    @property
    def label(self) -> str:
        return f"operators.coreos.com/{self.bundle.package}.{self.namespace}"

    @property
    def deployment(self) -> str:
        return f"{self.bundle.package.removesuffix('-operator')}-operator"


def reference(installation: InstalledBundle) -> Object:
    """An owner reference to the ClusterServiceVersion."""
    name = installation.bundle.name
    return {
        "apiVersion": API,
        "kind": "ClusterServiceVersion",
        "name": name,
        "uid": uid_of("ClusterServiceVersion", installation.namespace, name),
        "controller": False,
        "blockOwnerDeletion": False,
    }


def csv(installation: InstalledBundle, now: datetime) -> Object:
    """The ClusterServiceVersion itself."""
    bundle = installation.bundle
    spec = {**copied(dict(bundle.spec)), "version": bundle.version}
    spec["install"] = {"strategy": "deployment", "spec": {"deployments": [_strategy(installation)]}}
    spec.setdefault("displayName", bundle.package)
    if bundle.replaces:
        spec["replaces"] = bundle.replaces
    if installation.missing:
        crds = spec.setdefault("customresourcedefinitions", {})
        crds["required"] = [dict(installation.missing)]
    published = [item for item in bundle.properties if item["type"] in _PROPERTIES]
    properties = json.dumps({"properties": published}, separators=(",", ":"))
    return {
        "apiVersion": API,
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": bundle.name,
            "namespace": installation.namespace,
            "labels": {"olm.managed": "true", installation.label: ""},
            "annotations": {
                "olm.operatorGroup": installation.group,
                "olm.operatorNamespace": installation.namespace,
                "olm.targetNamespaces": installation.targets,
                "operatorframework.io/properties": properties,
            },
        },
        "spec": spec,
        "status": _status(installation, now),
    }


def _strategy(installation: InstalledBundle) -> Object:
    labels = {"name": installation.deployment}
    container = {"name": "manager", "image": installation.bundle.image, "command": ["/manager"]}
    template = {
        "metadata": {"labels": labels},
        "spec": {"serviceAccountName": installation.deployment, "containers": [container]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"name": installation.deployment, "spec": spec}


def _status(installation: InstalledBundle, now: datetime) -> Object:
    stamp, last = timestamp(now), installation.phase
    times = {"lastTransitionTime": stamp, "lastUpdateTime": stamp}
    history = [
        {"phase": p.phase, "reason": p.reason, "message": p.message, **times}
        for p in (*_BEFORE.get(last.phase, ()), last)
    ]
    status: Object = {
        "phase": last.phase,
        "reason": last.reason,
        "message": last.message,
        **times,
        "cleanup": {},
        "conditions": history,
    }
    if last.phase != "Failed":
        status["requirementStatus"] = _requirements(installation)
    return status


def _requirements(installation: InstalledBundle) -> list[Object]:
    crd = {"group": "apiextensions.k8s.io", "kind": "CustomResourceDefinition", "version": "v1"}
    requirements: list[Object] = [
        {
            **crd,
            "name": owned["name"],
            "status": "Present",
            "message": _CRD_FINE,
            "uuid": uid_of("CustomResourceDefinition", "", owned["name"]),
        }
        for owned in installation.bundle.crds
    ]
    if installation.missing:
        text = "CRD is not present"
        requirements.append(
            {**crd, "name": installation.missing["name"], "status": "NotPresent", "message": text}
        )
    account = {
        "group": "",
        "kind": "ServiceAccount",
        "version": "v1",
        "name": installation.deployment,
    }
    return [*requirements, {**account, "status": "Present", "message": ""}]


def copies(original: Object, namespaces: Iterable[str]) -> list[Object]:
    """The copies that an OperatorGroup for all namespaces gets in every other namespace."""
    home = original["metadata"]["namespace"]
    text = f"The operator is running in {home} but is managing this namespace"
    annotations = {
        key: value
        for key, value in original["metadata"]["annotations"].items()
        if key != "olm.targetNamespaces"
    }
    return [
        {
            **original,
            "metadata": {
                "name": original["metadata"]["name"],
                "namespace": namespace,
                "labels": {"olm.copiedFrom": home, "olm.managed": "true"},
                "annotations": annotations,
            },
            "status": {**original["status"], "reason": "Copied", "message": text},
        }
        for namespace in namespaces
        if namespace != home
    ]


def operator_condition(installation: InstalledBundle) -> Object:
    """The OperatorCondition, in which the operator has not reported anything yet."""
    return {
        "apiVersion": "operators.coreos.com/v2",
        "kind": "OperatorCondition",
        "metadata": {
            "name": installation.bundle.name,
            "namespace": installation.namespace,
            "ownerReferences": [reference(installation)],
        },
        "spec": {
            "deployments": [installation.deployment],
            "serviceAccounts": [installation.deployment],
        },
        "status": {"conditions": []},
    }


def crds(
    installation: InstalledBundle, stored: Mapping[str, list[str]], now: datetime
) -> list[Object]:
    """The CRDs of the bundle; `stored` overrides status.storedVersions by name."""
    return [
        _crd(installation, owned, stored.get(owned["name"]), now)
        for owned in installation.bundle.crds
    ]


def _crd(
    installation: InstalledBundle, owned: Mapping[str, Any], stored: list[str] | None, now: datetime
) -> Object:
    plural, group = owned["name"].split(".", 1)
    names = crd_names(owned["kind"], plural)
    made = new_crd(group, names, crd_version(owned["version"], dict(FREE)))
    made["metadata"]["labels"] = {"olm.managed": "true", installation.label: ""}
    made["status"] = crd_status(names, stored or [owned["version"]], timestamp(now))
    return made


def operator(installation: InstalledBundle, now: datetime) -> Object:
    """The Operator object that lists the components of the installation."""
    last = installation.phase
    condition = {
        "type": last.phase,
        "status": "True",
        "reason": last.reason,
        "message": last.message,
        "lastTransitionTime": timestamp(now),
        "lastUpdateTime": timestamp(now),
    }
    refs: list[Object] = [
        {
            "apiVersion": API,
            "kind": "ClusterServiceVersion",
            "name": installation.bundle.name,
            "namespace": installation.namespace,
            "conditions": [condition],
        }
    ]
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    refs += [{**crd, "name": owned["name"]} for owned in installation.bundle.crds]
    selector = {"matchExpressions": [{"key": installation.label, "operator": "Exists"}]}
    return {
        "apiVersion": "operators.coreos.com/v1",
        "kind": "Operator",
        "metadata": {"name": f"{installation.bundle.package}.{installation.namespace}"},
        "spec": {},
        "status": {"components": {"labelSelector": selector, "refs": refs}},
    }
