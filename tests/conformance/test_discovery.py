"""Discovery: which groups, versions and kinds are there, and what an unknown path answers."""

from typing import Any

import pytest

from olmweb.sandbox.apiserver.kinds import all_kinds, crd_manifest
from tests.conformance.server import Object, Server

NO_PAGE = b"404 page not found\n"
PLATFORM = "/apis/platform.openshift.io/v1alpha1"
COREOS = "/apis/operators.coreos.com"


def entry(server: Server, path: str, name: str) -> Object:
    """The resource `name` of a resource list; what only a stored kind's hash says is left out."""
    resource: Object = next(e for e in server.get(path).body["resources"] if e["name"] == name)
    resource.pop("storageVersionHash", None)
    return resource


def test_the_core_versions_are_listed(server: Server) -> None:
    body = server.get("/api").body
    server.same((body["kind"], body["versions"]), ("APIVersions", ["v1"]))
    server.same("apiVersion" in body, False)


def test_groups_are_listed_with_their_versions(server: Server) -> None:
    body = server.get("/apis").body
    server.same((body["kind"], body["apiVersion"]), ("APIGroupList", "v1"))
    groups = {group["name"]: group for group in body["groups"]}
    for name in ("apps", "apiextensions.k8s.io", "authorization.k8s.io", "authentication.k8s.io"):
        server.same(groups[name]["preferredVersion"]["version"], "v1")
    server.same(
        groups["platform.openshift.io"],
        {
            "name": "platform.openshift.io",
            "versions": [{"groupVersion": "platform.openshift.io/v1alpha1", "version": "v1alpha1"}],
            "preferredVersion": {
                "groupVersion": "platform.openshift.io/v1alpha1",
                "version": "v1alpha1",
            },
        },
    )


def test_stable_and_newer_versions_of_a_group_come_first(server: Server) -> None:
    body = server.get(COREOS).body
    server.same((body["kind"], body["apiVersion"]), ("APIGroup", "v1"))
    server.same([version["version"] for version in body["versions"]], ["v2", "v1", "v1alpha1"])
    server.same(body["preferredVersion"]["groupVersion"], "operators.coreos.com/v2")


def test_a_group_version_lists_its_kinds(server: Server) -> None:
    body = server.get(f"{COREOS}/v1alpha1").body
    server.same(
        (body["kind"], body["apiVersion"], body["groupVersion"]),
        ("APIResourceList", "v1", "operators.coreos.com/v1alpha1"),
    )
    plurals = ("catalogsources", "clusterserviceversions", "installplans", "subscriptions")
    server.same(
        sorted(item["name"] for item in body["resources"]),
        sorted([*plurals, *(f"{plural}/status" for plural in plurals)]),
    )


VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def test_an_entry_says_scope_kind_verbs_and_names(server: Server) -> None:
    resource = entry(server, f"{COREOS}/v1alpha1", "subscriptions")
    resource["verbs"].sort()
    server.same(
        resource,
        {
            "name": "subscriptions",
            "singularName": "subscription",
            "namespaced": True,
            "kind": "Subscription",
            "verbs": VERBS,
            "shortNames": ["sub", "subs"],
            "categories": ["olm"],
        },
    )
    resource = entry(server, PLATFORM, "platformoperators")
    server.same("shortNames" in resource, False)
    server.same(resource["namespaced"], False)


def test_the_status_subresource_has_an_entry_of_its_own(server: Server) -> None:
    server.same(
        entry(server, PLATFORM, "platformoperators/status"),
        {
            "name": "platformoperators/status",
            "singularName": "",
            "namespaced": False,
            "kind": "PlatformOperator",
            "verbs": ["get", "patch", "update"],
        },
    )


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        ("/api/v1", "namespaces", {"namespaced": False, "kind": "Namespace", "shortNames": ["ns"]}),
        ("/api/v1", "events", {"namespaced": True, "kind": "Event", "shortNames": ["ev"]}),
        ("/api/v1", "pods", {"namespaced": True, "kind": "Pod", "categories": ["all"]}),
        ("/apis/apps/v1", "deployments", {"kind": "Deployment", "shortNames": ["deploy"]}),
        (
            "/apis/apiextensions.k8s.io/v1",
            "customresourcedefinitions",
            {
                "namespaced": False,
                "kind": "CustomResourceDefinition",
                "shortNames": ["crd", "crds"],
                "categories": ["api-extensions"],
            },
        ),
        (
            "/apis/authorization.k8s.io/v1",
            "selfsubjectaccessreviews",
            {"kind": "SelfSubjectAccessReview", "namespaced": False, "verbs": ["create"]},
        ),
    ],
)
def test_built_in_kinds_are_discovered(
    server: Server, path: str, name: str, expected: dict[str, Any]
) -> None:
    resource = entry(server, path, name)
    server.same({key: resource.get(key) for key in expected}, expected)


def test_the_version_has_the_usual_fields(server: Server) -> None:
    body = server.get("/version").body
    wanted = "major minor gitVersion gitCommit gitTreeState buildDate goVersion compiler platform"
    server.same(set(wanted.split()) <= set(body), True)
    server.same((body["major"], body["gitVersion"][0]), ("1", "v"))


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
def test_health_is_a_plain_ok(server: Server, path: str) -> None:
    answer = server.get(path)
    server.same((answer.status, answer.data), (200, b"ok"))
    server.same(answer.headers["Content-Type"], "text/plain; charset=utf-8")


@pytest.mark.parametrize(
    "path",
    [
        "/apis/nothing.example.com",
        "/apis/nothing.example.com/v1",
        "/apis/nothing.example.com/v1/things",
        "/apis/platform.openshift.io/v9",
        "/apis/platform.openshift.io/v9/platformoperators",
        f"{PLATFORM}/things",
        f"{PLATFORM}/namespaces/default/platformoperators",
        f"{COREOS}/v1alpha1/subscriptions/without-namespace",
        "/nothing",
    ],
)
def test_what_no_group_serves_is_a_plain_404(server: Server, path: str) -> None:
    answer = server.get(path)
    server.same((answer.status, answer.data), (404, NO_PAGE))
    server.same(answer.headers["Content-Type"], "text/plain; charset=utf-8")


@pytest.mark.parametrize("path", ["/api/v1/things", "/apis/apps/v1/things"])
def test_an_unknown_kind_of_a_built_in_group_is_a_status(server: Server, path: str) -> None:
    text = "the server could not find the requested resource"
    server.refused(server.get(path), 404, "NotFound", text, {})


def test_discovery_only_answers_to_get(server: Server) -> None:
    text = "the server does not allow this method on the requested resource"
    server.refused(server.call("DELETE", "/version"), 405, "MethodNotAllowed", text, {})
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    server.refused(server.get(path), 405, "MethodNotAllowed", text, {})


def test_a_crd_tells_what_it_serves(server: Server) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    crd = server.get(f"{path}/subscriptions.operators.coreos.com").body
    server.same(crd["spec"]["scope"], "Namespaced")
    server.same(crd["spec"]["names"], crd["status"]["acceptedNames"])
    server.same(crd["spec"]["names"]["listKind"], "SubscriptionList")
    server.same(crd["status"]["storedVersions"], ["v1alpha1"])
    conditions = {c["type"]: (c["status"], c["reason"]) for c in crd["status"]["conditions"]}
    server.same(conditions["Established"], ("True", "InitialNamesAccepted"))
    server.same(conditions["NamesAccepted"], ("True", "NoConflicts"))
    [version] = crd["spec"]["versions"]
    server.same((version["name"], version["served"], version["storage"]), ("v1alpha1", True, True))
    server.same(version["subresources"], {"status": {}})
    columns = [column["name"] for column in version["additionalPrinterColumns"]]
    server.same(columns, ["Package", "Source", "Channel"])


def test_every_crd_has_the_sandboxs_own_spec(server: Server) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    stored = {crd["metadata"]["name"]: crd["spec"] for crd in server.get(path).body["items"]}
    for kind in all_kinds():
        if kind.custom:
            server.same(stored[kind.resource], crd_manifest(kind)["spec"])
