"""ClusterServiceVersions and what comes with them: copies, conditions, CRDs, Operator objects.

Made from a catalog's bundle, in the state in which OLM v0 leaves them. Pure; must not know
Subscriptions.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from olmweb.sandbox.apiserver import definitions
from olmweb.sandbox.apiserver.store import Object, copied, timestamp, uid_of
from olmweb.sandbox.scenario.content import catalogs

API = "operators.coreos.com/v1alpha1"
_CRD_FINE = "CRD is present and Established condition is true"
_NOT_IN_CSV = ("annotations", "crdDescriptions", "apiServiceDefinitions")


@dataclass(frozen=True, slots=True)
class Phase:
    """`status` of a ClusterServiceVersion in OLM's own words."""

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
class Bundle:
    """What of a catalog's bundle a ClusterServiceVersion is made of."""

    name: str
    package: str
    version: str
    image: str
    spec: Mapping[str, Any]
    properties: tuple[Mapping[str, Any], ...] = ()
    replaces: str = ""

    @property
    def crds(self) -> list[Mapping[str, Any]]:
        """name, kind and version of each kind that it provides."""
        return list(self.spec.get("customresourcedefinitions", {}).get("owned", []))


def head(source: str, package: str, channel: str = "", name: str = "") -> Bundle:
    """The newest bundle of a channel, else of the default one, or the one called `name` there.

    KeyError when there is none.
    """
    blobs = [blob for blob in catalogs()[source] if blob.get("package") == package]
    found = [b for b in blobs if b["schema"] == "olm.channel" and channel in ("", b["name"])]
    if not found:
        raise KeyError(f"{package} has no channel {channel} in {source}")
    named = [one for one in found[0]["entries"] if name in ("", one["name"])]
    if not named:
        raise KeyError(f"{package} has no bundle {name} in {source}")
    entry = named[-1]
    blob = next(b for b in blobs if (b["schema"], b["name"]) == ("olm.bundle", entry["name"]))
    return bundle_of(blob, entry.get("replaces", ""))


def bundle_of(blob: Mapping[str, Any], replaces: str = "") -> Bundle:
    """From an olm.bundle blob."""
    properties = blob["properties"]
    return Bundle(
        name=blob["name"],
        package=blob["package"],
        version=next(p["value"]["version"] for p in properties if p["type"] == "olm.package"),
        image=blob["image"],
        spec=_spec(properties),
        properties=tuple(p for p in properties if p["type"] in ("olm.package", "olm.gvk")),
        replaces=replaces,
    )


def _spec(properties: Iterable[Mapping[str, Any]]) -> Object:
    for item in properties:
        if item["type"] == "olm.bundle.object":  # the ClusterServiceVersion is the first of them
            found: Object = json.loads(base64.b64decode(item["value"]["data"]))["spec"]
            return found
        if item["type"] == "olm.csv.metadata":
            value = item["value"]
            made = {key: copied(v) for key, v in value.items() if key not in _NOT_IN_CSV}
            made["customresourcedefinitions"] = copied(value.get("crdDescriptions", {}))
            made["apiservicedefinitions"] = copied(value.get("apiServiceDefinitions", {}))
            return made
    return {}


@dataclass(frozen=True, slots=True)
class Placed:
    """A bundle in a namespace, with the OperatorGroup there and what became of it."""

    bundle: Bundle
    namespace: str
    group: str
    targets: str  # `olm.targetNamespaces`: "" is all of them
    phase: Phase
    missing: Mapping[str, str] = field(default_factory=dict)  # kind, name, version of a CRD

    @property
    def label(self) -> str:
        return f"operators.coreos.com/{self.bundle.package}.{self.namespace}"

    @property
    def deployment(self) -> str:
        return f"{self.bundle.package.removesuffix('-operator')}-operator"


def reference(placed: Placed) -> Object:
    """To own things with."""
    name = placed.bundle.name
    return {
        "apiVersion": API,
        "kind": "ClusterServiceVersion",
        "name": name,
        "uid": uid_of("ClusterServiceVersion", placed.namespace, name),
        "controller": False,
        "blockOwnerDeletion": False,
    }


def csv(placed: Placed, now: datetime) -> Object:
    """The ClusterServiceVersion itself."""
    bundle = placed.bundle
    spec = {**copied(dict(bundle.spec)), "version": bundle.version}
    spec["install"] = {"strategy": "deployment", "spec": {"deployments": [_strategy(placed)]}}
    spec.setdefault("displayName", bundle.package)
    if bundle.replaces:
        spec["replaces"] = bundle.replaces
    if placed.missing:
        crds = spec.setdefault("customresourcedefinitions", {})
        crds["required"] = [dict(placed.missing)]
    properties = json.dumps({"properties": list(bundle.properties)}, separators=(",", ":"))
    return {
        "apiVersion": API,
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": bundle.name,
            "namespace": placed.namespace,
            "labels": {"olm.managed": "true", placed.label: ""},
            "annotations": {
                "olm.operatorGroup": placed.group,
                "olm.operatorNamespace": placed.namespace,
                "olm.targetNamespaces": placed.targets,
                "operatorframework.io/properties": properties,
            },
        },
        "spec": spec,
        "status": _status(placed, now),
    }


def _strategy(placed: Placed) -> Object:
    labels = {"name": placed.deployment}
    container = {"name": "manager", "image": placed.bundle.image, "command": ["/manager"]}
    template = {
        "metadata": {"labels": labels},
        "spec": {"serviceAccountName": placed.deployment, "containers": [container]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"name": placed.deployment, "spec": spec}


def _status(placed: Placed, now: datetime) -> Object:
    stamp, last = timestamp(now), placed.phase
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
        status["requirementStatus"] = _requirements(placed)
    return status


def _requirements(placed: Placed) -> list[Object]:
    crd = {"group": "apiextensions.k8s.io", "kind": "CustomResourceDefinition", "version": "v1"}
    found: list[Object] = [
        {
            **crd,
            "name": owned["name"],
            "status": "Present",
            "message": _CRD_FINE,
            "uuid": uid_of("CustomResourceDefinition", "", owned["name"]),
        }
        for owned in placed.bundle.crds
    ]
    if placed.missing:
        text = "CRD is not present"
        found.append(
            {**crd, "name": placed.missing["name"], "status": "NotPresent", "message": text}
        )
    account = {"group": "", "kind": "ServiceAccount", "version": "v1", "name": placed.deployment}
    return [*found, {**account, "status": "Present", "message": ""}]


def copies(original: Object, namespaces: Iterable[str]) -> list[Object]:
    """What an OperatorGroup that watches everything puts into every other namespace."""
    home = original["metadata"]["namespace"]
    text = f"The operator is running in {home} but is managing this namespace"
    kept = {
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
                "annotations": kept,
            },
            "status": {**original["status"], "reason": "Copied", "message": text},
        }
        for namespace in namespaces
        if namespace != home
    ]


def operator_condition(placed: Placed) -> Object:
    """Where an operator says whether it may be upgraded; this one says nothing yet."""
    return {
        "apiVersion": "operators.coreos.com/v2",
        "kind": "OperatorCondition",
        "metadata": {
            "name": placed.bundle.name,
            "namespace": placed.namespace,
            "ownerReferences": [reference(placed)],
        },
        "spec": {"deployments": [placed.deployment], "serviceAccounts": [placed.deployment]},
        "status": {"conditions": []},
    }


def crds(placed: Placed, stored: Mapping[str, list[str]], now: datetime) -> list[Object]:
    """The CRDs that the bundle brought; `stored` overrides status.storedVersions by name."""
    return [_crd(placed, owned, stored.get(owned["name"]), now) for owned in placed.bundle.crds]


def _crd(
    placed: Placed, owned: Mapping[str, Any], stored: list[str] | None, now: datetime
) -> Object:
    plural, group = owned["name"].split(".", 1)
    names = {
        "plural": plural,
        "singular": owned["kind"].lower(),
        "kind": owned["kind"],
        "listKind": f"{owned['kind']}List",
    }
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": owned["version"], "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": owned["name"],
            "labels": {"olm.managed": "true", placed.label: ""},
        },
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced",
            "conversion": {"strategy": "None"},
            "versions": [{**version, "schema": {"openAPIV3Schema": free}}],
        },
        "status": definitions.accepted(names, stored or [owned["version"]], timestamp(now)),
    }


def operator(placed: Placed, now: datetime) -> Object:
    """The Operator object that lists what belongs together."""
    last = placed.phase
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
            "name": placed.bundle.name,
            "namespace": placed.namespace,
            "conditions": [condition],
        }
    ]
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    refs += [{**crd, "name": owned["name"]} for owned in placed.bundle.crds]
    selector = {"matchExpressions": [{"key": placed.label, "operator": "Exists"}]}
    return {
        "apiVersion": "operators.coreos.com/v1",
        "kind": "Operator",
        "metadata": {"name": f"{placed.bundle.package}.{placed.namespace}"},
        "spec": {},
        "status": {"components": {"labelSelector": selector, "refs": refs}},
    }
