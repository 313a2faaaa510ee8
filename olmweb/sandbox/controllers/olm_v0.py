"""Plays OLM v0: Subscription -> InstallPlan -> ClusterServiceVersion, a step at a time.

Level-triggered: every step looks at the objects only. What the scenario left settled stays so: a
Subscription moves when it has no InstallPlan yet or another channel than the one installed. Must
not know HTTP, nor how OLM Web predicts.
"""

from typing import Any

from olmweb.sandbox.apiserver.store import Object, Store, copied, timestamp, uid_of
from olmweb.sandbox.scenario import csvs, workloads
from olmweb.sandbox.scenario.csvs import API, Bundle, Phase, Placed
from olmweb.sandbox.scenario.workloads import Workload, suffix

_INSTALLING = Phase(
    "Installing", "InstallSucceeded", "waiting for install components to report healthy"
)
_MANUAL, _WAITS = "Manual", "RequiresApproval"


class OlmV0:
    """The catalog operator and the OLM operator of one sandbox cluster."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def step_all(self) -> None:
        """One step for every Subscription, InstallPlan and ClusterServiceVersion."""
        with self._store.changed:
            for item in self._store.items("Subscription")[0]:
                self._resolve(item)
            for item in self._store.items("InstallPlan")[0]:
                self._carry_out(item)
            for item in self._store.items("ClusterServiceVersion")[0]:
                self._finish(item)

    def _resolve(self, item: Object) -> None:
        """Chooses a bundle and makes the InstallPlan; says so when there is none."""
        meta, spec, status = item["metadata"], item["spec"], item.get("status", {})
        groups, _version = self._store.items("OperatorGroup", meta["namespace"])
        if len(groups) != 1 or _failed(status) or _under_way(status):
            return
        if self._unpack_failed(item):
            return
        now, installed = status.get("currentCSV", ""), status.get("installedCSV", "")
        first = "" if installed else spec.get("startingCSV", "")
        try:
            found = csvs.head(spec["source"], spec["name"], spec.get("channel", ""), first)
        except KeyError:
            if not now:
                self._say(item, _unresolved(item, timestamp(self._store.now())))
            return
        if found.name == now:
            return
        plan = self._plan(item, found)
        self._store.put(plan)
        self._say(
            item,
            {
                "currentCSV": found.name,
                "state": "UpgradePending",
                "installPlanRef": _reference(plan),
                "conditions": _pending(spec, timestamp(self._store.now())),
            },
        )

    def _unpack_failed(self, item: Object) -> bool:
        """Whether it gave up unpacking; it does not try again while the Job is there."""
        conditions = item.get("status", {}).get("conditions", [])
        failed = any(one["type"] == "BundleUnpackFailed" for one in conditions)
        return failed and bool(self._store.items("Job", item["spec"]["sourceNamespace"])[0])

    def _plan(self, item: Object, bundle: Bundle) -> Object:
        meta, spec = item["metadata"], item["spec"]
        waits = spec.get("installPlanApproval") == _MANUAL
        name = f"install-{suffix(meta['uid'], bundle.name)}"
        return {
            "apiVersion": API,
            "kind": "InstallPlan",
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "uid": uid_of("InstallPlan", meta["namespace"], name),
                "ownerReferences": [
                    {
                        "apiVersion": API,
                        "kind": "Subscription",
                        "name": meta["name"],
                        "uid": meta["uid"],
                        "controller": False,
                        "blockOwnerDeletion": False,
                    }
                ],
            },
            "spec": {
                "approval": spec.get("installPlanApproval", "Automatic"),
                "approved": not waits,
                "clusterServiceVersionNames": [bundle.name],
                "generation": 1,
            },
            "status": {
                "phase": _WAITS if waits else "Installing",
                "catalogSources": [],
                "plan": [_step(bundle, spec, *one) for one in _written(bundle)],
            },
        }

    def _carry_out(self, plan: Object) -> None:
        """An approved plan writes its ClusterServiceVersion; that makes it Complete."""
        phase = plan.get("status", {}).get("phase")
        if phase not in (_WAITS, "Installing") or not plan["spec"]["approved"]:
            return
        namespace = plan["metadata"]["namespace"]
        for item in self._store.items("Subscription", namespace)[0]:
            ref = item.get("status", {}).get("installPlanRef", {})
            if ref.get("name") == plan["metadata"]["name"]:
                self._install(item)
        made = copied(plan)
        made["status"]["phase"] = "Complete"
        made["status"]["plan"] = [
            {**step, "status": "Created"} for step in made["status"].get("plan", [])
        ]
        self._store.put(made)

    def _install(self, item: Object) -> None:
        spec, current = item["spec"], item["status"]["currentCSV"]
        before = item["status"].get("installedCSV", "")
        namespace = item["metadata"]["namespace"]
        bundle = csvs.head(spec["source"], spec["name"], spec.get("channel", ""), current)
        placed = self._placed(bundle, namespace)
        if placed is None:
            return
        now = self._store.now()
        csv = csvs.csv(placed, now)
        stamp = str(self._store.version)
        csv["metadata"]["uid"] = uid_of("ClusterServiceVersion", namespace, bundle.name, stamp)
        self._store.put(csv)
        for made in csvs.crds(placed, {}, now):
            self._store.put(made)
        if before and before != current:
            self._store.delete("ClusterServiceVersion", before, namespace)
        self._say(item, {"installedCSV": current, "state": "AtLatestKnown", "conditions": []})

    def _placed(self, bundle: Bundle, namespace: str) -> Placed | None:
        """Where it goes; refused at once where the group asks for what it does not support."""
        groups, _version = self._store.items("OperatorGroup", namespace)
        if not groups:
            return None
        targets = groups[0]["spec"].get("targetNamespaces", [])
        modes = {one["type"]: one["supported"] for one in bundle.spec.get("installModes", [])}
        refused = not targets and modes.get("AllNamespaces") is False
        phase = csvs.GROUP_UNSUPPORTED if refused else _INSTALLING
        name = groups[0]["metadata"]["name"]
        return Placed(bundle, namespace, name, ",".join(targets), phase)

    def _finish(self, csv: Object) -> None:
        """What is Installing gets its Deployment and has Succeeded."""
        status = csv.get("status", {})
        if status.get("phase") != "Installing":
            return
        meta = csv["metadata"]
        now = self._store.now()
        owner = {
            "apiVersion": API,
            "kind": "ClusterServiceVersion",
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": False,
            "blockOwnerDeletion": False,
        }
        labels = {
            "olm.owner": meta["name"],
            "olm.owner.kind": "ClusterServiceVersion",
            "olm.owner.namespace": meta["namespace"],
        }
        for one in csv["spec"]["install"]["spec"]["deployments"]:
            wanted = Workload(
                meta["namespace"], one["name"], "", workloads.AVAILABLE, labels, owner
            )
            for made in workloads.objects(wanted, now):
                self._store.put(made)
        made = copied(csv)
        done = csvs.SUCCEEDED
        made["status"] |= {"phase": done.phase, "reason": done.reason, "message": done.message}
        made["status"]["lastTransitionTime"] = timestamp(now)
        self._store.put(made)

    def _say(self, item: Object, more: dict[str, Any]) -> None:
        made = copied(item)
        stamp = timestamp(self._store.now())
        made["status"] = {**made.get("status", {}), "lastUpdated": stamp, **more}
        self._store.put(made)


def _failed(status: Object) -> bool:
    conditions = status.get("conditions", [])
    return any(one["type"] == "ResolutionFailed" for one in conditions)


def _under_way(status: Object) -> bool:
    current = status.get("currentCSV")
    return bool(current) and status.get("installedCSV") != current


def _reference(plan: Object) -> Object:
    meta = plan["metadata"]
    named = {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}
    return {"apiVersion": API, "kind": "InstallPlan", **named}


def _pending(spec: Object, stamp: str) -> list[Object]:
    if spec.get("installPlanApproval") != _MANUAL:
        return []
    pending = {"type": "InstallPlanPending", "status": "True", "reason": _WAITS}
    return [{**pending, "lastTransitionTime": stamp}]


def _unresolved(item: Object, stamp: str) -> Object:
    spec, name = item["spec"], item["metadata"]["name"]
    text = (
        f"constraints not satisfiable: no operators found in channel {spec.get('channel', '')} of "
        f"package {spec['name']} in the catalog referenced by subscription {name}, subscription "
        f"{name} exists"
    )
    failed = {"type": "ResolutionFailed", "status": "True", "message": text}
    reason = "ConstraintsNotSatisfiable"
    return {"conditions": [{**failed, "reason": reason, "lastTransitionTime": stamp}]}


def _written(bundle: Bundle) -> list[tuple[str, str, str, str]]:
    return [
        ("operators.coreos.com", "v1alpha1", "ClusterServiceVersion", bundle.name),
        *(
            ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", owned["name"])
            for owned in bundle.crds
        ),
    ]


def _step(bundle: Bundle, spec: Object, group: str, version: str, kind: str, name: str) -> Object:
    origin = {"sourceName": spec["source"], "sourceNamespace": spec["sourceNamespace"]}
    resource = {"group": group, "version": version, "kind": kind, "name": name}
    return {
        "resolving": bundle.name,
        "resource": {**resource, **origin, "manifest": "{}"},
        "status": "Unknown",
    }
