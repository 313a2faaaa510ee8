"""Plays OLM v0: Subscription -> InstallPlan -> ClusterServiceVersion, a step at a time.

Level-triggered: every step reads only the objects. A Subscription moves if it has no InstallPlan
yet or if its channel has an upgrade from the installed bundle, a step of the graph at a time; the
settled Subscriptions of the scenario stay as they are. The InstallPlan also brings the dependencies
of the bundle, each with a Subscription of its own. Must not know HTTP.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from olmweb.sandbox.apiserver.kinds import Object
from olmweb.sandbox.apiserver.store import Store, copied, owner_reference, timestamp, uid_of
from olmweb.sandbox.controllers import csv_objects, workloads
from olmweb.sandbox.controllers.bundles import BundleContent, Catalogs
from olmweb.sandbox.controllers.csv_objects import API, InstalledBundle, Phase
from olmweb.sandbox.controllers.dependencies import (
    CatalogInUse,
    Dependency,
    Property,
    Unsatisfiable,
    dependencies,
)
from olmweb.sandbox.controllers.workloads import Workload, suffix

_INSTALLING = Phase(
    "Installing", "InstallSucceeded", "waiting for install components to report healthy"
)
GLOBAL_NAMESPACE = "openshift-marketplace"  # its CatalogSources serve every namespace
CLUSTER_OPERATOR = "operator-lifecycle-manager"
_MANUAL, _REQUIRES_APPROVAL = "Manual", "RequiresApproval"


class OlmV0:
    """The catalog operator and the OLM operator of one sandbox cluster."""

    def __init__(self, store: Store, catalogs: Catalogs) -> None:
        self._store = store
        self._catalogs = catalogs

    def step_all(self) -> None:
        """One step for every OperatorGroup, Subscription, InstallPlan and ClusterServiceVersion."""
        with self._store.changed:
            for item in self._store.items("OperatorGroup")[0]:
                self._report_namespaces(item)
            for item in self._store.items("Subscription")[0]:
                self._resolve(item)
            for item in self._store.items("InstallPlan")[0]:
                self._execute(item)
            for item in self._store.items("ClusterServiceVersion")[0]:
                self._finish(item)
            self._report_upgradeable()

    def _report_namespaces(self, group: Object) -> None:
        """Sets status.namespaces of an OperatorGroup: its targets, or "" for all namespaces."""
        namespaces = group.get("spec", {}).get("targetNamespaces") or [""]
        if group.get("status", {}).get("namespaces") != namespaces:
            self._set_status(group, {"namespaces": namespaces})

    def _resolve(self, item: Object) -> None:
        """Chooses a bundle and makes the InstallPlan; sets a condition if there is no bundle."""
        meta, spec, status = item["metadata"], item["spec"], item.get("status", {})
        groups, _version = self._store.items("OperatorGroup", meta["namespace"])
        if len(groups) != 1 or _has_failed(status) or _is_installing(status):
            return
        if self._unpack_failed(item):
            return
        current, installed = status.get("currentCSV", ""), status.get("installedCSV", "")
        try:
            if installed:
                catalog, channel = self._catalogs[spec["source"]], spec.get("channel", "")
                bundle = catalog.successor(spec["name"], channel, installed)
            else:
                bundle = self._bundle(spec, spec.get("startingCSV", ""))
        except KeyError:
            if not current:
                message = unsatisfiable(meta["name"], spec["name"], spec.get("channel", ""))
                self._set_status(item, _unresolved(message, timestamp(self._store.now())))
            return
        if bundle.name == current:
            return
        try:
            required = self._dependencies(item, bundle)
        except Unsatisfiable as error:
            message = f"constraints not satisfiable: {error}, subscription {meta['name']} exists"
            self._set_status(item, _unresolved(message, timestamp(self._store.now())))
            return
        plan = self._plan(item, bundle, required)
        self._store.put(plan)
        self._set_status(
            item,
            {
                "currentCSV": bundle.name,
                "state": "UpgradePending",
                "installPlanRef": _reference(plan),
                "conditions": _pending(spec, timestamp(self._store.now())),
            },
        )

    def _bundle(self, spec: Object, name: str) -> BundleContent:
        """The bundle `name`, "" for the newest, of a Subscription's channel. Raises KeyError."""
        channel = spec.get("channel", "")
        return self._catalogs[spec["source"]].bundle(spec["name"], channel, name)

    def _unpack_failed(self, item: Object) -> bool:
        """Whether unpacking failed; it is not retried while the Job exists."""
        conditions = item.get("status", {}).get("conditions", [])
        failed = any(condition["type"] == "BundleUnpackFailed" for condition in conditions)
        return failed and bool(self._store.items("Job", item["spec"]["sourceNamespace"])[0])

    def _dependencies(self, item: Object, bundle: BundleContent) -> list[Dependency]:
        """The bundles that the bundle of a Subscription requires and its namespace lacks.

        Raises Unsatisfiable.
        """
        namespace, spec = item["metadata"]["namespace"], item["spec"]
        installed: list[Property] = []
        for csv in self._store.items("ClusterServiceVersion", namespace)[0]:
            installed += _properties(csv["metadata"])
        for other in self._store.items("Subscription", namespace)[0]:
            status = other.get("status", {})
            if _is_installing(status):  # its bundle is in an InstallPlan that is not completed yet
                with suppress(KeyError):
                    installed += self._bundle(other["spec"], status["currentCSV"]).properties
        sources = [
            source
            for source in self._store.items("CatalogSource")[0]
            if source["metadata"]["namespace"] in (namespace, GLOBAL_NAMESPACE)
            and source["metadata"]["name"] in self._catalogs
        ]
        own = (spec["sourceNamespace"], spec["source"])
        catalogs = [
            CatalogInUse(source["name"], source["namespace"], self._catalogs[source["name"]])
            for source in (row["metadata"] for row in sorted(sources, key=_search_order(own)))
        ]
        return dependencies(bundle, installed, catalogs)

    def _plan(self, item: Object, bundle: BundleContent, required: list[Dependency]) -> Object:
        meta, spec = item["metadata"], item["spec"]
        manual = spec.get("installPlanApproval") == _MANUAL
        name = f"install-{suffix(meta['uid'], bundle.name)}"
        plan = steps(bundle, spec, "Unknown")
        for dependency in required:
            plan += _dependency_steps(dependency, meta["namespace"])
        return {
            "apiVersion": API,
            "kind": "InstallPlan",
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "uid": uid_of("InstallPlan", meta["namespace"], name),
                "ownerReferences": [owner_reference(item, controller=False)],
            },
            "spec": {
                "approval": spec.get("installPlanApproval", "Automatic"),
                "approved": not manual,
                "clusterServiceVersionNames": [
                    bundle.name,
                    *(dependency.bundle.name for dependency in required),
                ],
                "generation": 1,
            },
            "status": {
                "phase": _REQUIRES_APPROVAL if manual else "Installing",
                "catalogSources": [],
                "plan": plan,
            },
        }

    def _execute(self, plan: Object) -> None:
        """Writes the ClusterServiceVersions of an approved plan and the Subscriptions of its
        dependencies; the plan is Complete then."""
        phase = plan.get("status", {}).get("phase")
        if phase not in (_REQUIRES_APPROVAL, "Installing") or not plan["spec"]["approved"]:
            return
        namespace = plan["metadata"]["namespace"]
        for step in plan["status"].get("plan", []):
            if step["resource"]["kind"] == "Subscription":
                self._subscribe(json.loads(step["resource"]["manifest"]), plan)
        for item in self._store.items("Subscription", namespace)[0]:
            ref = item.get("status", {}).get("installPlanRef", {})
            if ref.get("name") == plan["metadata"]["name"]:
                self._install(item)
        made = copied(plan)
        stamp = timestamp(self._store.now())
        times = {"lastTransitionTime": stamp, "lastUpdateTime": stamp}
        made["status"]["phase"] = "Complete"
        made["status"]["conditions"] = [{"type": "Installed", "status": "True", **times}]
        made["status"]["plan"] = [
            {**step, "status": "Created"} for step in made["status"].get("plan", [])
        ]
        self._store.put(made)

    def _subscribe(self, item: Object, plan: Object) -> None:
        """Creates the Subscription of a dependency, which has its bundle from this plan."""
        meta = item["metadata"]
        if self._store.get("Subscription", meta["name"], meta["namespace"]) is None:
            status = {"currentCSV": item["spec"]["startingCSV"], "state": "UpgradePending"}
            meta["annotations"] = {"olm.generated-by": plan["metadata"]["name"]}
            self._set_status(self._store.put(item), status | {"installPlanRef": _reference(plan)})

    def _install(self, item: Object) -> None:
        spec, current = item["spec"], item["status"]["currentCSV"]
        before = item["status"].get("installedCSV", "")
        namespace = item["metadata"]["namespace"]
        bundle = self._bundle(spec, current)
        installation = self._installation(bundle, namespace)
        if installation is None:
            return
        now = self._store.now()
        csv = csv_objects.csv(installation, now)
        stamp = str(self._store.version)
        csv["metadata"]["uid"] = uid_of("ClusterServiceVersion", namespace, bundle.name, stamp)
        self._store.put(csv)
        for made in csv_objects.crds(installation, {}, now):
            self._store.put(made)
        if before and before != current:
            self._store.delete("ClusterServiceVersion", before, namespace)
        self._set_status(
            item, {"installedCSV": current, "state": "AtLatestKnown", "conditions": []}
        )

    def _installation(self, bundle: BundleContent, namespace: str) -> InstalledBundle | None:
        """The new installation; it has failed if the OperatorGroup is not supported."""
        groups, _version = self._store.items("OperatorGroup", namespace)
        if not groups:
            return None
        targets = groups[0]["spec"].get("targetNamespaces", [])
        modes = {mode["type"]: mode["supported"] for mode in bundle.spec.get("installModes", [])}
        unsupported = not targets and modes.get("AllNamespaces") is False
        phase = csv_objects.GROUP_UNSUPPORTED if unsupported else _INSTALLING
        name = groups[0]["metadata"]["name"]
        return InstalledBundle(bundle, namespace, name, ",".join(targets), phase)

    def _finish(self, csv: Object) -> None:
        """Creates the Deployment of an Installing ClusterServiceVersion and sets it Succeeded."""
        status = csv.get("status", {})
        if status.get("phase") != "Installing":
            return
        meta = csv["metadata"]
        now = self._store.now()
        owner = owner_reference(csv, controller=False)
        labels = {
            "olm.owner": meta["name"],
            "olm.owner.kind": "ClusterServiceVersion",
            "olm.owner.namespace": meta["namespace"],
        }
        for deployment in csv["spec"]["install"]["spec"]["deployments"]:
            name = deployment["name"]
            workload = Workload(meta["namespace"], name, "", workloads.AVAILABLE, labels, owner)
            for made in workloads.objects(workload, now):
                self._store.put(made)
        made = copied(csv)
        succeeded = csv_objects.SUCCEEDED
        made["status"] |= {
            "phase": succeeded.phase,
            "reason": succeeded.reason,
            "message": succeeded.message,
            "lastTransitionTime": timestamp(now),
        }
        self._store.put(made)

    def _report_upgradeable(self) -> None:
        """Sets Upgradeable of the ClusterOperator from the maximum versions of what is installed.

        As in operator-lifecycle-manager pkg/controller/operators/openshift.
        """
        cluster_operator = self._store.get("ClusterOperator", CLUSTER_OPERATOR)
        cluster_version = self._store.get("ClusterVersion", "version")
        if cluster_operator is None or cluster_version is None:
            return
        major, minor, *_ = cluster_version["status"]["desired"]["version"].split(".")
        limits = [
            f"- maximum supported OCP version for {meta['namespace']}/{meta['name']} is {limit}"
            for csv in self._store.items("ClusterServiceVersion")[0]
            if (limit := _max_openshift(meta := csv["metadata"]))
            and tuple(map(int, limit.split("."))) <= (int(major), int(minor))
        ]
        first = f"blocking minor version upgrades to {major}.{int(minor) + 1}.0 or higher:"
        upgradeable = ("True", "AsExpected", "")
        if limits:
            message = "\n".join((f"ClusterServiceVersions {first}", *limits))
            upgradeable = ("False", "IncompatibleOperatorsInstalled", message)
        made = copied(cluster_operator)
        for condition in made["status"]["conditions"]:
            before = tuple(condition.get(name, "") for name in ("status", "reason", "message"))
            if condition["type"] == "Upgradeable" and before != upgradeable:
                condition |= dict(zip(("status", "reason", "message"), upgradeable, strict=True))
                condition["lastTransitionTime"] = timestamp(self._store.now())
                self._store.put(made)

    def _set_status(self, item: Object, changes: dict[str, Any]) -> None:
        made = copied(item)
        stamp = timestamp(self._store.now())
        made["status"] = {**made.get("status", {}), "lastUpdated": stamp, **changes}
        self._store.put(made)


def _max_openshift(meta: Object) -> str:
    """The value of olm.maxOpenShiftVersion of a ClusterServiceVersion, or empty; copies have none.

    `meta` is its metadata.
    """
    properties = _properties(meta)
    values = [item["value"] for item in properties if item["type"] == "olm.maxOpenShiftVersion"]
    return str(values[0]) if values else ""


def _properties(meta: Object) -> list[Property]:
    """What the operator of a ClusterServiceVersion provides and requires; `meta` is its metadata.

    A copy provides nothing in its namespace, as the resolver sees it.
    """
    if "olm.copiedFrom" in meta.get("labels", {}):
        return []
    noted = meta.get("annotations", {}).get("operatorframework.io/properties", "")
    return list(json.loads(noted)["properties"]) if noted else []


def _search_order(own: tuple[str, str]) -> Callable[[Object], tuple[Any, ...]]:
    """The resolver's order of CatalogSources (sortableSnapshots): that of the Subscription, then by
    priority, those of its namespace before the global ones, by name."""

    def key(source: Object) -> tuple[Any, ...]:
        meta = source["metadata"]
        of_subscription = (meta["namespace"], meta["name"]) == own
        priority = source["spec"].get("priority", 0)
        return not of_subscription, -priority, meta["namespace"] == GLOBAL_NAMESPACE, meta["name"]

    return key


def _has_failed(status: Object) -> bool:
    conditions = status.get("conditions", [])
    return any(condition["type"] == "ResolutionFailed" for condition in conditions)


def _is_installing(status: Object) -> bool:
    current = status.get("currentCSV")
    return bool(current) and status.get("installedCSV") != current


def _reference(plan: Object) -> Object:
    meta = plan["metadata"]
    named = {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}
    return {"apiVersion": API, "kind": "InstallPlan", **named}


def _pending(spec: Object, stamp: str) -> list[Object]:
    if spec.get("installPlanApproval") != _MANUAL:
        return []
    pending = {"type": "InstallPlanPending", "status": "True", "reason": _REQUIRES_APPROVAL}
    return [{**pending, "lastTransitionTime": stamp}]


def _unresolved(message: str, stamp: str) -> Object:
    failed = {
        "type": "ResolutionFailed",
        "status": "True",
        "reason": "ConstraintsNotSatisfiable",
        "message": message,
    }
    return {"conditions": [{**failed, "lastTransitionTime": stamp}]}


def unsatisfiable(subscription: str, package: str, channel: str) -> str:
    """The message of a Subscription whose channel or package does not exist."""
    return (
        f"constraints not satisfiable: no operators found in channel {channel} of package "
        f"{package} in the catalog referenced by subscription {subscription}, subscription "
        f"{subscription} exists"
    )


def steps(bundle: BundleContent, spec: Object, status: str, account: str = "") -> list[Object]:
    """The steps of an InstallPlan: the ClusterServiceVersion, its CRDs, a ServiceAccount.

    `spec` is the Subscription's.
    """
    crd = {"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition"}
    group, version = API.split("/")
    resources = [
        {"group": group, "version": version, "kind": "ClusterServiceVersion", "name": bundle.name},
        *({**crd, "name": owned["name"]} for owned in bundle.crds),
    ]
    if account:
        resources.append({"group": "", "version": "v1", "kind": "ServiceAccount", "name": account})
    origin = {"sourceName": spec["source"], "sourceNamespace": spec["sourceNamespace"]}
    return [
        {
            "resolving": bundle.name,
            "resource": {**resource, **origin, "manifest": "{}"},
            "status": status,
        }
        for resource in resources
    ]


def _dependency_steps(dependency: Dependency, namespace: str) -> list[Object]:
    """The steps of a dependency, with its generated Subscription."""
    bundle = dependency.bundle
    spec = {
        "channel": dependency.channel,
        "installPlanApproval": "Automatic",
        "name": bundle.package,
        "source": dependency.source,
        "sourceNamespace": dependency.source_namespace,
        "startingCSV": bundle.name,
    }
    subscription = {
        "apiVersion": API,
        "kind": "Subscription",
        "metadata": {"name": dependency.subscription, "namespace": namespace},
        "spec": spec,
    }
    group, version = API.split("/")
    resource = {
        "group": group,
        "version": version,
        "kind": "Subscription",
        "name": dependency.subscription,
        "sourceName": dependency.source,
        "sourceNamespace": dependency.source_namespace,
        "manifest": json.dumps(subscription),
    }
    step = {"resolving": bundle.name, "resource": resource, "status": "Unknown"}
    return [*steps(bundle, spec, "Unknown"), step]
