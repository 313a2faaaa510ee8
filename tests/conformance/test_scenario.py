"""Every sort of object in the sandbox's scenario is one that a real API server would store."""

from collections.abc import Iterator
from typing import Any

import pytest

from olmweb.sandbox.apiserver.kinds import Object, ResourceKind, by_kind
from olmweb.sandbox.cluster import Sandbox
from tests.conformance.server import Server

OF_THE_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
# Copies of one another: some of each kind are enough.
MANY = {"PlatformOperator", "BundleDeployment", "Bundle", "ClusterOperator", "Namespace"}
ENOUGH = 3


def scenario() -> Iterator[tuple[str, Object]]:
    sandbox = Sandbox()
    try:
        for kind in sandbox.store.kinds():
            if kind == "CustomResourceDefinition":  # compared in test_discovery
                continue
            items = sandbox.store.items(kind)[0]
            chosen = [i for i in items if "olm.copiedFrom" not in i["metadata"].get("labels", {})]
            for item in chosen[: ENOUGH if kind in MANY else None]:
                yield f"{kind} {item['metadata']['name']}", item
    finally:
        sandbox.close()


def renewed(item: Object, namespace: str, name: str) -> Object:
    """The object as one would create it, elsewhere and under another name."""
    own = {k: v for k, v in item["metadata"].items() if k not in OF_THE_SERVER}
    metadata: dict[str, Any] = {**own, "name": name}
    if "namespace" in metadata:
        metadata["namespace"] = namespace
    made = {**item, "metadata": metadata}
    if item["kind"] == "Event":
        made["involvedObject"] = {**item["involvedObject"], "namespace": namespace}
    return made


def path_of(kind: ResourceKind, namespace: str) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    inside = f"/namespaces/{namespace}" if kind.namespaced else ""
    return f"{root}{inside}/{kind.plural}"


@pytest.mark.parametrize("item", [pytest.param(item, id=name) for name, item in scenario()])
def test_an_object_of_the_scenario_is_stored_as_it_is(
    server: Server, ns: str, name: str, item: Object
) -> None:
    kind = by_kind(item["kind"])
    body = renewed(item, ns, name)
    path = path_of(kind, ns)
    answer = server.call("POST", path, body)
    server.same((answer.status, answer.headers.get("Warning")), (201, None))
    if kind.custom:
        server.same(answer.body.get("spec"), item.get("spec"))
    if "status" in item:
        given = {**answer.body, "status": item["status"]}
        answer = server.call("PUT", f"{path}/{name}/status", given)
        server.same(answer.status, 200)
        if kind.custom:
            server.same(answer.body["status"], item["status"])
    if item["metadata"].get("finalizers"):
        server.merge(f"{path}/{name}", {"metadata": {"finalizers": None}})
