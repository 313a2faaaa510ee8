"""The API server's side: discovery, lists, writes, refusals, access, faults."""

import json
import time
from typing import Any

import pytest
import urllib3
import yaml

from olmweb.sandbox.server import Sandbox
from tests.sandbox.conftest import OPERATORS, Client, installed, operator

BUNDLES = "/apis/core.rukpak.io/v1alpha1/bundles"


def test_discovery_lists_every_kind_with_its_scope_and_status(client: Client) -> None:
    groups = {group["name"] for group in client.get("/apis")["groups"]}
    assert {"platform.openshift.io", "olm.operatorframework.io", "authorization.k8s.io"} <= groups
    served = client.get("/apis/operators.coreos.com/v1alpha1")["resources"]
    sources = next(entry for entry in served if entry["name"] == "catalogsources")
    assert (sources["kind"], sources["namespaced"], sources["shortNames"]) == (
        "CatalogSource",
        True,
        ["catsrc"],
    )
    names = {entry["name"] for entry in client.get("/apis/core.rukpak.io/v1alpha1")["resources"]}
    assert {"bundledeployments", "bundledeployments/status", "bundles"} <= names
    assert client.get("/version")["gitVersion"].startswith("v1.25")


def test_pages_of_a_list_hold_every_item_once_although_the_store_changes(
    sandbox: Sandbox, client: Client
) -> None:
    page = client.get(f"{OPERATORS}?limit=30")
    version, names = page["metadata"]["resourceVersion"], []
    assert page["metadata"]["remainingItemCount"] == 39
    sandbox.store.put(operator("aaa-late", "nothing"))
    while True:
        names += [item["metadata"]["name"] for item in page["items"]]
        assert page["metadata"]["resourceVersion"] == version
        token = page["metadata"]["continue"]
        if not token:
            break
        page = client.get(f"{OPERATORS}?limit=30&continue={token}")
    assert len(names) == len(set(names)) == 69
    assert "aaa-late" not in names


def test_an_expired_continue_token_is_410(sandbox: Sandbox, client: Client) -> None:
    token = client.get(f"{OPERATORS}?limit=5")["metadata"]["continue"]
    sandbox.expire_lists()
    status, body = client.call("GET", f"{OPERATORS}?limit=5&continue={token}")
    assert (status, body["reason"]) == (410, "Expired")


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("labelSelector=core.rukpak.io/owner-name%3Ddatagrid", 1),
        ("labelSelector=core.rukpak.io/owner-name+in+(datagrid,eap)", 2),
        ("labelSelector=core.rukpak.io/owner-name!%3Ddatagrid", 68),
        ("labelSelector=!core.rukpak.io/owner-name", 0),
        ("fieldSelector=metadata.name%3Ddatagrid-z28w45", 1),
    ],
)
def test_selectors_choose_bundles(client: Client, query: str, count: int) -> None:
    assert len(client.get(f"{BUNDLES}?{query}")["items"]) == count


def test_a_field_that_cannot_be_selected_is_refused(client: Client) -> None:
    status, body = client.call("GET", f"{BUNDLES}?fieldSelector=spec.type%3Dimage")
    assert (status, body["message"]) == (400, "field label not supported: spec.type")


def test_a_namespaced_kind_is_listed_everywhere_and_read_in_its_namespace(client: Client) -> None:
    root = "/apis/operators.coreos.com/v1alpha1"
    assert len(client.get(f"{root}/catalogsources")["items"]) == 1
    found = client.get(f"{root}/namespaces/openshift-marketplace/catalogsources/redhat-operators")
    assert found["status"]["connectionState"]["lastObservedState"] == "READY"


def test_a_dry_run_answers_like_the_write_and_writes_nothing(
    sandbox: Sandbox, client: Client
) -> None:
    before = sandbox.store.version
    status, body = client.apply(f"{OPERATORS}/tracing-demo", operator("tracing-demo"), dryRun="All")
    assert status == 201
    assert body["metadata"]["uid"]
    assert body["spec"]["package"]["name"] == "tracing-demo"
    path = f"{OPERATORS}/datagrid?dryRun=All"
    assert client.call("DELETE", path)[0] == 200
    assert client.call("POST", f"{OPERATORS}?dryRun=All", operator("x"))[0] == 201
    assert sandbox.store.version == before
    assert client.call("GET", f"{OPERATORS}/tracing-demo")[0] == 404


def test_an_apply_conflict_names_the_other_manager_and_force_takes_the_field(
    client: Client,
) -> None:
    path = f"{OPERATORS}/tracing-demo"
    assert client.apply(path, operator("tracing-demo"), fieldManager="argocd")[0] == 201
    wanted = operator("tracing-demo", "object-store-demo")
    status, body = client.apply(path, wanted)
    assert (status, body["reason"]) == (409, "Conflict")
    assert body["message"] == (
        'Apply failed with 1 conflict: conflict with "argocd": .spec.package.name'
    )
    assert body["details"]["causes"][0]["reason"] == "FieldManagerConflict"
    assert body["details"]["causes"][0]["field"] == ".spec.package.name"
    status, body = client.apply(path, wanted, force="true")
    assert status == 200
    managers = {entry["manager"] for entry in body["metadata"]["managedFields"]}
    assert managers == {"olmweb"}
    assert body["metadata"]["generation"] == 2


def test_a_field_that_a_manager_stops_applying_goes_away(client: Client) -> None:
    path = f"{OPERATORS}/tracing-demo"
    labelled = operator("tracing-demo")
    labelled["metadata"]["labels"] = {"team": "blue"}
    assert client.apply(path, labelled)[1]["metadata"]["labels"] == {"team": "blue"}
    assert "labels" not in client.apply(path, operator("tracing-demo"))[1]["metadata"]


def test_the_same_apply_twice_changes_nothing(client: Client) -> None:
    path = f"{OPERATORS}/3scale-operator"
    first = client.apply(path, operator("3scale-operator"))[1]
    second = client.apply(path, operator("3scale-operator"))[1]
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    assert installed(second)["status"] == "True"


def test_apply_needs_a_field_manager_and_declared_fields(client: Client) -> None:
    path = f"{OPERATORS}/x"
    patch = "application/apply-patch+yaml"
    status, body = client.call("PATCH", path, operator("x"), content_type=patch)
    assert (status, body["details"]["causes"][0]["field"]) == (422, "fieldManager")
    odd = operator("x")
    odd["spec"]["chanel"] = "stable"
    status, body = client.apply(path, odd)
    assert status == 500
    assert ".spec.chanel: field not declared in schema" in body["message"]


@pytest.mark.parametrize(
    ("spec", "message", "reason", "field"),
    [
        ({}, "Required value", "FieldValueRequired", "spec.package"),
        ({"package": {}}, "Required value", "FieldValueRequired", "spec.package.name"),
        (
            {"package": {"name": "x" * 57}},
            "Too long: may not be more than 56 bytes",
            "FieldValueTooLong",
            "spec.package.name",
        ),
        (
            {"package": {"name": "__"}},
            'Invalid value: "__": spec.package.name in body should match '
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?'",
            "FieldValueInvalid",
            "spec.package.name",
        ),
        (
            {"package": {"name": 7}},
            'Invalid value: "integer": spec.package.name in body must be of type string: "integer"',
            "FieldValueTypeInvalid",
            "spec.package.name",
        ),
    ],
)
def test_a_spec_that_the_crd_refuses_is_422_with_its_field(
    client: Client, spec: dict[str, object], message: str, reason: str, field: str
) -> None:
    status, body = client.apply(f"{OPERATORS}/bad", {**operator("bad"), "spec": spec})
    assert (status, body["reason"]) == (422, "Invalid")
    assert body["details"]["causes"] == [{"reason": reason, "message": message, "field": field}]
    assert body["message"] == (
        f'PlatformOperator.platform.openshift.io "bad" is invalid: {field}: {message}'
    )


def test_an_enum_and_an_immutable_field_are_checked(client: Client) -> None:
    path = "/apis/olm.operatorframework.io/v1/clusterextensions/recipes"
    change = {"spec": {"source": {"catalog": {"upgradeConstraintPolicy": "Wild"}}}}
    merge = "application/merge-patch+json"
    body = client.call("PATCH", path, change, content_type=merge)[1]
    assert body["details"]["causes"][0]["message"] == (
        'Unsupported value: "Wild": supported values: "CatalogProvided", "SelfCertified"'
    )
    body = client.call("PATCH", path, {"spec": {"namespace": "other"}}, content_type=merge)[1]
    assert "namespace is immutable" in body["message"]


def test_a_name_that_is_no_subdomain_is_422(client: Client) -> None:
    status, body = client.call("POST", OPERATORS, operator("Bad_Name", "x"))
    assert status == 422
    assert body["details"]["causes"][0]["field"] == "metadata.name"
    assert "a lowercase RFC 1123 subdomain must consist of" in body["message"]


def test_unknown_fields_are_pruned_with_a_warning_or_refused_when_strict(client: Client) -> None:
    odd = operator("odd", "x")
    odd["spec"]["extra"] = 1
    answer = client.raw(
        "POST",
        f"{OPERATORS}?dryRun=All",
        {"Content-Type": "application/json"},
        body=json.dumps(odd),
    )
    assert answer.headers["Warning"] == '299 - "unknown field \\"spec.extra\\""'
    assert "extra" not in answer.json()["spec"]
    status, body = client.call("POST", f"{OPERATORS}?fieldValidation=Strict", odd)
    assert status == 400
    assert 'strict decoding error: unknown field "spec.extra"' in body["message"]


def test_creating_twice_and_replacing_a_stale_object_are_conflicts(client: Client) -> None:
    status, body = client.call("POST", OPERATORS, operator("eap"))
    assert (status, body["reason"]) == (409, "AlreadyExists")
    assert body["message"] == 'platformoperators.platform.openshift.io "eap" already exists'
    stale = client.get(f"{OPERATORS}/eap")
    stale["metadata"]["resourceVersion"] = "1"
    status, body = client.call("PUT", f"{OPERATORS}/eap", stale)
    assert (status, body["reason"]) == (409, "Conflict")
    assert "the object has been modified" in body["message"]


def test_a_generated_name_starts_with_its_prefix(client: Client) -> None:
    body = operator("", "no-such")
    body["metadata"] = {"generateName": "try-"}
    status, made = client.call("POST", OPERATORS, body)
    assert status == 201
    assert made["metadata"]["name"].startswith("try-")


def test_status_is_written_only_through_its_subresource(client: Client) -> None:
    path = "/apis/config.openshift.io/v1/clusteroperators/dns"
    merge = "application/merge-patch+json"
    change: dict[str, Any] = {"status": {"versions": []}}
    client.call("PATCH", path, change, content_type=merge)
    assert client.get(path)["status"]["versions"]
    status, body = client.call("PATCH", f"{path}/status", change, content_type=merge)
    assert (status, body["status"]["versions"]) == (200, [])


def test_a_json_patch_changes_what_it_names(client: Client) -> None:
    steps: list[dict[str, Any]] = [
        {"op": "test", "path": "/spec/package/name", "value": "eap"},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
    ]
    kind = "application/json-patch+json"
    assert client.call("PATCH", f"{OPERATORS}/eap", steps, content_type=kind)[0] == 200
    assert client.get(f"{OPERATORS}/eap")["metadata"]["labels"] == {"a": "b"}
    steps[0]["value"] = "other"
    assert client.call("PATCH", f"{OPERATORS}/eap", steps, content_type=kind)[0] == 422


def test_wrong_paths_methods_and_media_types_are_refused_as_statuses(client: Client) -> None:
    assert client.call("GET", "/apis/nothing.example.com/v1/things")[0] == 404
    assert client.call("GET", f"{OPERATORS}/none")[1]["message"] == (
        'platformoperators.platform.openshift.io "none" not found'
    )
    assert client.call("PUT", OPERATORS, operator("x"))[1]["reason"] == "MethodNotAllowed"
    strategic = "application/strategic-merge-patch+json"
    status, body = client.call("PATCH", f"{OPERATORS}/eap", {}, content_type=strategic)
    assert (status, body["reason"]) == (415, "UnsupportedMediaType")


def test_bodies_that_are_no_such_object_are_bad_requests(client: Client) -> None:
    merge = "application/merge-patch+json"
    for method, path, body, kind in (
        ("POST", OPERATORS, ["a", "list"], "application/json"),
        ("POST", OPERATORS, {**operator("x"), "kind": "Bundle"}, "application/json"),
        ("POST", OPERATORS, {"metadata": 3}, "application/json"),
        ("PATCH", f"{OPERATORS}/eap", 7, merge),
        ("PATCH", f"{OPERATORS}/eap", {"metadata": {"name": "other"}}, merge),
        ("DELETE", f"{OPERATORS}/eap", ["x"], "application/json"),
    ):
        status, answer = client.call(method, path, body, content_type=kind)
        assert (status, answer["reason"]) == (400, "BadRequest"), (method, body)
    sources = "/apis/operators.coreos.com/v1alpha1/catalogsources"
    assert client.call("POST", sources, {"metadata": {"name": "x"}})[0] == 405


def test_deleting_takes_what_is_owned_along(client: Client) -> None:
    status, body = client.call("DELETE", f"{OPERATORS}/datagrid")
    assert (status, body["status"], body["details"]["name"]) == (200, "Success", "datagrid")
    assert client.call("GET", f"{BUNDLES}/datagrid-z28w45")[0] == 404
    deployments = "/apis/core.rukpak.io/v1alpha1/bundledeployments"
    assert client.call("GET", f"{deployments}/datagrid")[0] == 404


def test_a_delete_with_another_uid_is_a_conflict(client: Client) -> None:
    status, body = client.call("DELETE", f"{OPERATORS}/eap", {"preconditions": {"uid": "other"}})
    assert (status, body["reason"]) == (409, "Conflict")


def test_a_wrong_token_is_unauthorized_and_the_kubeconfig_has_the_right_one(
    sandbox: Sandbox, client: Client, tmp_path
) -> None:
    answer = client.pool.request("GET", sandbox.url + OPERATORS)
    assert (answer.status, answer.json()["reason"]) == (401, "Unauthorized")
    sandbox.write_kubeconfig(tmp_path / "sub" / "kubeconfig", context="demo")
    config = yaml.safe_load((tmp_path / "sub" / "kubeconfig").read_text())
    assert config["clusters"][0]["cluster"]["server"] == sandbox.url
    token = config["users"][0]["user"]["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert client.pool.request("GET", sandbox.url + OPERATORS, headers=headers).status == 200


def test_a_viewer_reads_and_an_operator_writes(client: Client) -> None:
    viewer = client.as_user("vera", "olmweb-viewers")
    assert client.call("GET", OPERATORS, headers=viewer)[0] == 200
    status, body = client.call("POST", OPERATORS, operator("x"), headers=viewer)
    assert (status, body["reason"]) == (403, "Forbidden")
    assert body["message"] == (
        'platformoperators.platform.openshift.io is forbidden: User "vera" cannot create resource '
        '"platformoperators" in API group "platform.openshift.io" at the cluster scope'
    )
    someone = client.as_user("otto", "people", "olmweb-operators")
    assert client.call("POST", OPERATORS, operator("x"), headers=someone)[0] == 201
    stranger = client.as_user("nobody")
    assert client.call("GET", OPERATORS, headers=stranger)[0] == 403


def test_access_reviews_answer_for_the_impersonated_user(client: Client) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    wanted = {
        "verb": "delete",
        "group": "platform.openshift.io",
        "resource": "platformoperators",
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": wanted},
    }
    viewer = client.as_user("vera", "olmweb-viewers")
    assert client.call("POST", path, review, headers=viewer)[1]["status"] == {"allowed": False}
    writer = client.as_user("otto", "olmweb-operators")
    status, body = client.call("POST", path, review, headers=writer)
    assert status == 201
    assert body["status"]["allowed"] is True
    assert 'to Group "olmweb-operators"' in body["status"]["reason"]
    who = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    info = client.call("POST", who, {}, headers=client.as_user("vera", "a", "b"))[1]
    assert info["status"]["userInfo"] == {
        "username": "vera",
        "groups": ["a", "b", "system:authenticated"],
    }


def test_scripted_faults_happen_once(sandbox: Sandbox, client: Client) -> None:
    sandbox.script.fail_next(429, retry_after=7, path_prefix="/apis")
    answer = client.raw("GET", OPERATORS)
    assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
    assert client.raw("GET", OPERATORS).status == 200
    sandbox.script.cut_next(100)
    with pytest.raises((urllib3.exceptions.ProtocolError, urllib3.exceptions.IncompleteRead)):
        client.raw("GET", OPERATORS)
    sandbox.script.delay_next(0.2)
    started = time.monotonic()
    assert client.raw("GET", "/version").status == 200
    assert time.monotonic() - started >= 0.2
    assert ("GET", "/version") in sandbox.script.requests
