"""A cluster with as many OLM objects as a large one has, written straight into etcd.

The API server would take minutes to create them one by one; what it stores is JSON under known
keys, and it sees what another writer puts there like anything else. Must not know OLM Web.
"""

import base64
import json
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import urllib3

V0 = "operators.coreos.com"
CREATED = "2026-01-01T00:00:00Z"
WRITERS = 4
TXN = 100  # etcd takes at most 128 operations in one transaction


@dataclass(frozen=True, slots=True)
class Size:
    """How many of what: `operators` are Subscriptions with a CSV, `waiting` those without one."""

    operators: int = 3000
    waiting: int = 800
    namespaces: int = 400
    sources: int = 20
    copies: int = 55_800

    @property
    def real(self) -> int:
        """Objects that OLM Web reads: five kinds an operator, two a waiting one."""
        return 6 * self.operators + 2 * self.waiting + self.namespaces + self.sources


def namespace_of(number: int, size: Size) -> str:
    return f"team-{number % size.namespaces:04}"


def real_objects(size: Size) -> Iterator[tuple[str, dict[str, Any]]]:
    """(key below the prefix, object) of everything but the copies."""
    for number in range(size.sources):
        yield _v0("catalogsources", _source(number))
    for number in range(size.namespaces):
        yield _v0("operatorgroups", _group(namespace_of(number, size)))
    for number in range(size.operators + size.waiting):
        namespace = namespace_of(number, size)
        has_csv = number < size.operators
        yield _v0("subscriptions", _subscription(number, namespace, has_csv=has_csv, size=size))
        yield _v0("installplans", _plan(number, namespace, has_csv=has_csv))
        if has_csv:
            yield _v0("clusterserviceversions", csv(number, namespace))
            yield _v0("operatorconditions", _condition(number, namespace))
            yield _v0("operators", _olm_operator(number, namespace))
            yield f"/deployments/{namespace}/op-{number}", _deployment(number, namespace)


def copies(size: Size) -> Iterator[tuple[str, dict[str, Any]]]:
    """Copied CSVs, spread over the operators and over namespaces of their own."""
    for number in range(size.copies):
        origin = number % size.operators
        copied = csv(origin, f"app-{number // size.operators:04}")
        copied["metadata"]["labels"] = {"olm.copiedFrom": namespace_of(origin, size)}
        copied["status"]["reason"] = "Copied"
        yield _v0("clusterserviceversions", copied)


def csv(number: int, namespace: str, phase: str = "Succeeded") -> dict[str, Any]:
    """A ClusterServiceVersion of about 6 kB, most of it what nobody keeps."""
    found = _object("ClusterServiceVersion", namespace, f"op-{number}.v1.0.0", f"csv-{number}")
    found["spec"] = {
        "displayName": f"Operator {number}",
        "version": "1.0.0",
        "description": "What this operator is for. " * 120,
        "installModes": [{"type": "AllNamespaces", "supported": True}],
        "install": {"strategy": "deployment", "spec": {"deployments": [{"name": f"op-{number}"}]}},
        "customresourcedefinitions": {"owned": [{"name": f"things.op{number}.example"}]},
    }
    found["status"] = {
        "phase": phase,
        "reason": {"Succeeded": "InstallSucceeded", "Failed": "ComponentUnhealthy"}[phase],
        "message": "install strategy completed with no errors",
        "lastUpdateTime": CREATED,
        "requirementStatus": [
            {"group": "", "version": "v1", "kind": "ServiceAccount", "name": f"op-{number}",
             "status": "Present", "message": "ServiceAccount is present"},
        ],
        "conditions": [{"phase": "Pending", "reason": "RequirementsUnknown"}] * 8,
    }  # fmt: skip
    return found


class EtcdWriter:
    """Puts objects below one API server's prefix."""

    def __init__(self, url: str, prefix: str) -> None:
        self._url = f"{url}/v3/kv/txn"
        self._prefix = prefix
        self._http = urllib3.PoolManager(maxsize=WRITERS)

    def put(self, objects: Iterable[tuple[str, dict[str, Any]]]) -> int:
        """Writes them all, a hundred a transaction; returns how many. For what nobody watches yet:
        objects of one transaction share a resourceVersion, which no API server lets happen, and a
        watch that is cut between them goes on behind the last one.

        Raises RuntimeError when etcd refuses.
        """
        count, batch = 0, []
        for key, value in objects:
            batch.append((key, value))
            if len(batch) == TXN:
                count += self._send(batch)
                batch = []
        return count + self._send(batch) if batch else count

    def change(self, objects: Iterable[tuple[str, dict[str, Any]]]) -> int:
        """Writes them as an API server does, each for itself; returns how many."""
        with ThreadPoolExecutor(WRITERS) as pool:
            return sum(pool.map(lambda one: self._send([one]), objects))

    def _send(self, batch: list[tuple[str, dict[str, Any]]]) -> int:
        puts = [
            {"requestPut": {"key": _b64(self._prefix + key), "value": _b64(json.dumps(value))}}
            for key, value in batch
        ]
        answer = self._http.request("POST", self._url, json={"success": puts})
        if answer.status != 200:
            raise RuntimeError(f"etcd answered {answer.status}: {answer.data[:200]!r}")
        return len(batch)


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _v0(plural: str, found: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    meta = found["metadata"]
    middle = f"/{meta['namespace']}" if "namespace" in meta else ""
    return f"/{V0}/{plural}{middle}/{meta['name']}", found


def _object(kind: str, namespace: str, name: str, seed: str, version: str = "") -> dict[str, Any]:
    meta: dict[str, Any] = {
        "name": name,
        "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{kind}.{namespace}.{seed}")),
        "creationTimestamp": CREATED,
        "generation": 1,
    }
    meta |= {"namespace": namespace} if namespace else {}
    return {"apiVersion": version or f"{V0}/v1alpha1", "kind": kind, "metadata": meta}


def _source(number: int) -> dict[str, Any]:
    found = _object("CatalogSource", "olm", f"source-{number}", str(number))
    found["spec"] = {"sourceType": "grpc", "address": "127.0.0.1:50051"}
    found["status"] = {"connectionState": {"lastObservedState": "READY"}}
    return found


def _group(namespace: str) -> dict[str, Any]:
    found = _object("OperatorGroup", namespace, "group", namespace, f"{V0}/v1")
    return found | {"spec": {}, "status": {"namespaces": [""], "lastUpdated": CREATED}}


def _subscription(number: int, namespace: str, *, has_csv: bool, size: Size) -> dict[str, Any]:
    found = _object("Subscription", namespace, f"op-{number}", str(number))
    found["spec"] = {
        "name": f"op-{number}",
        "channel": "stable",
        "source": f"source-{number % size.sources}",
        "sourceNamespace": "olm",
        "installPlanApproval": "Automatic" if has_csv else "Manual",
    }
    name = f"op-{number}.v1.0.0"
    waiting = {"type": "InstallPlanPending", "status": "True", "reason": "RequiresApproval"}
    healthy = {"type": "CatalogSourcesUnhealthy", "status": "False"}
    found["status"] = {
        "state": "AtLatestKnown" if has_csv else "UpgradePending",
        "currentCSV": name,
        "installPlanRef": {"kind": "InstallPlan", "namespace": namespace, "name": f"in-{number}"},
        "lastUpdated": CREATED,
        "conditions": [
            {**healthy, "reason": "AllCatalogSourcesHealthy", "lastTransitionTime": CREATED},
            *([] if has_csv else [{**waiting, "lastTransitionTime": CREATED}]),
        ],
    }
    found["status"] |= {"installedCSV": name} if has_csv else {}
    return found


def _plan(number: int, namespace: str, *, has_csv: bool) -> dict[str, Any]:
    found = _object("InstallPlan", namespace, f"in-{number}", str(number))
    names = [f"op-{number}.v1.0.0"]
    found["spec"] = {
        "approval": "Automatic" if has_csv else "Manual",
        "approved": has_csv,
        "clusterServiceVersionNames": names,
        "generation": 1,
    }
    step = {"group": V0, "version": "v1alpha1", "kind": "ClusterServiceVersion", "name": names[0]}
    step |= {"manifest": "{}", "sourceName": "source-0", "sourceNamespace": "olm"}
    found["status"] = {
        "phase": "Complete" if has_csv else "RequiresApproval",
        "catalogSources": ["source-0"],
        "plan": [{"resolving": names[0], "status": "Created", "resource": step}],
    }
    return found


def _condition(number: int, namespace: str) -> dict[str, Any]:
    found = _object("OperatorCondition", namespace, f"op-{number}.v1.0.0", "", f"{V0}/v2")
    return found | {"spec": {}, "status": {"conditions": []}}


def _olm_operator(number: int, namespace: str) -> dict[str, Any]:
    name = f"op-{number}.{namespace}"
    return _object("Operator", "", name, name, f"{V0}/v1") | {"spec": {}, "status": {}}


def _deployment(number: int, namespace: str) -> dict[str, Any]:
    found = _object("Deployment", namespace, f"op-{number}", str(number), "apps/v1")
    found["metadata"]["labels"] = {
        "olm.owner": f"op-{number}.v1.0.0",
        "olm.owner.kind": "ClusterServiceVersion",
        "olm.owner.namespace": namespace,
    }
    labels = {"app": f"op-{number}"}
    found["spec"] = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "strategy": {"type": "RollingUpdate"},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "manager", "image": "registry.example/op:1"}]},
        },
    }
    available = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}
    found["status"] = {
        "observedGeneration": 1,
        "replicas": 1,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "updatedReplicas": 1,
        "conditions": [{**available, "lastTransitionTime": CREATED, "lastUpdateTime": CREATED}],
    }
    return found
