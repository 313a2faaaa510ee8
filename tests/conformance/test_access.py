"""Who a request is, what RBAC lets them do, and how a refusal is worded."""

from typing import Any

import pytest

from tests.conformance.server import (
    APPLY,
    EXTENSIONS,
    MERGE,
    Answer,
    Object,
    Server,
    about,
    cause,
)

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
CLUSTER_OPERATORS = "/apis/config.openshift.io/v1/clusteroperators"
OPERATORS = "/apis/platform.openshift.io/v1alpha1/platformoperators"
PLATFORM = "platform.openshift.io"


def operator(name: str) -> Object:
    return {
        "apiVersion": f"{PLATFORM}/v1alpha1",
        "kind": "PlatformOperator",
        "metadata": {"name": name},
        "spec": {"package": {"name": "etcd"}},
    }


def identity_of(server: Server, **options: Any) -> Object:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = server.call("POST", WHO, body, **options)
    server.same(answer.status, 201)
    info: Object = answer.body["status"]["userInfo"]
    return info


# --- authentication


def test_a_bad_token_is_401(server: Server) -> None:
    answer = server.call("GET", EXTENSIONS, token="bad")
    server.refused(answer, 401, "Unauthorized", "Unauthorized")
    server.same(server.call("GET", "/version", token="bad").status, 401)


def test_without_a_token_one_is_anonymous(server: Server) -> None:
    text = (
        'clusterextensions.olm.operatorframework.io is forbidden: User "system:anonymous" cannot '
        'list resource "clusterextensions" in API group "olm.operatorframework.io" at the cluster '
        "scope"
    )
    details = about("", "olm.operatorframework.io", "clusterextensions")
    server.refused(server.call("GET", EXTENSIONS, token=""), 403, "Forbidden", text, details)
    server.same(server.call("GET", "/version", token="").status, 200)
    server.same(server.call("GET", "/readyz", token="").status, 200)
    text = 'forbidden: User "system:anonymous" cannot get path "/apis"'
    server.refused(server.call("GET", "/apis", token=""), 403, "Forbidden", text, {})


def test_the_administrator_is_one_of_the_masters(server: Server) -> None:
    server.same(identity_of(server)["groups"], ["system:masters", "system:authenticated"])


# --- impersonation


def test_an_impersonated_user_has_exactly_the_groups_of_the_headers(server: Server) -> None:
    info = identity_of(server, user="vera", groups=("a", "b"))
    server.same(info, {"username": "vera", "groups": ["a", "b", "system:authenticated"]})
    info = identity_of(server, user="vera")
    server.same(info, {"username": "vera", "groups": ["system:authenticated"]})


def test_groups_in_one_header_are_one_group(server: Server) -> None:
    info = identity_of(server, user="vera", groups=("a,b",))
    server.same(info["groups"], ["a,b", "system:authenticated"])


def test_every_user_is_authenticated_once(server: Server) -> None:
    info = identity_of(server, user="vera", groups=("system:authenticated", "z"))
    server.same(info["groups"], ["system:authenticated", "z"])


def test_a_service_account_brings_its_groups(server: Server) -> None:
    info = identity_of(server, user="system:serviceaccount:olm:installer")
    groups = ["system:serviceaccounts", "system:serviceaccounts:olm", "system:authenticated"]
    server.same(info["groups"], groups)


def test_a_uid_and_extras_are_taken_over(server: Server) -> None:
    headers = {"Impersonate-Uid": "u1", "Impersonate-Extra-Team": "red"}
    info = identity_of(server, user="vera", headers=headers)
    server.same((info["uid"], info["extra"]), ("u1", {"team": ["red"]}))


def test_groups_without_a_user_are_a_bad_request(server: Server) -> None:
    answer = server.call("GET", EXTENSIONS, groups=("a",))
    text = (
        'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"a"}, '
        "Extra:map[string][]string(nil)} without impersonating a user name"
    )
    server.refused(answer, 400, "BadRequest", text)


# --- authorization


def forbidden(
    server: Server, answer: Answer, verb: str, name: str = "", resource: str = ""
) -> None:
    """RBAC's refusal of vera for PlatformOperators."""
    subject = f' "{name}"' if name else ""
    text = (
        f'platformoperators.{PLATFORM}{subject} is forbidden: User "vera" cannot {verb} resource '
        f'"{resource or "platformoperators"}" in API group "{PLATFORM}" at the cluster scope'
    )
    details = about(name, PLATFORM, "platformoperators")
    server.refused(answer, 403, "Forbidden", text, details)


VIEWER: dict[str, Any] = {"user": "vera", "groups": ("people", "olmweb-viewers")}


def test_a_viewer_reads(server: Server, name: str) -> None:
    server.made(OPERATORS, operator(name))
    server.same(server.call("GET", OPERATORS, **VIEWER).status, 200)
    server.same(server.call("GET", f"{OPERATORS}/{name}", **VIEWER).status, 200)
    answer = server.call("GET", OPERATORS, watch="true", timeoutSeconds=1, **VIEWER)
    server.same(answer.status, 200)


def test_a_viewer_does_not_write(server: Server, name: str) -> None:
    server.made(OPERATORS, operator(name))
    path, body = f"{OPERATORS}/{name}", operator(name)
    forbidden(server, server.call("POST", OPERATORS, body, **VIEWER), "create")
    forbidden(server, server.call("PUT", path, body, **VIEWER), "update", name)
    answer = server.call("PATCH", path, body, type=APPLY, fieldManager="t", **VIEWER)
    forbidden(server, answer, "patch", name)
    forbidden(server, server.call("DELETE", path, **VIEWER), "delete", name)
    forbidden(server, server.call("DELETE", OPERATORS, **VIEWER), "deletecollection")
    answer = server.call("PATCH", f"{path}/status", {}, type=MERGE, **VIEWER)
    forbidden(server, answer, "patch", name, "platformoperators/status")
    answer = server.call("POST", OPERATORS, body, dryRun="All", **VIEWER)
    forbidden(server, answer, "create")


def test_who_is_not_let_in_does_not_learn_what_is_there(server: Server, name: str) -> None:
    stranger: dict[str, Any] = {"user": "vera"}
    for path in (f"{OPERATORS}/none", f"{OPERATORS}/{name}"):
        answer = server.call("GET", path, **stranger)
        forbidden(server, answer, "get", path.rsplit("/", 1)[1])
    forbidden(server, server.call("GET", OPERATORS, **stranger), "list")
    forbidden(server, server.call("GET", OPERATORS, watch="true", **stranger), "watch")


def test_an_operator_writes_what_the_role_names_and_no_more(server: Server, name: str) -> None:
    otto: dict[str, Any] = {"user": "otto", "groups": ("olmweb-operators",)}
    body = operator(name)
    answer = server.call("PATCH", f"{OPERATORS}/{name}", body, type=APPLY, fieldManager="t", **otto)
    server.same(answer.status, 201)
    answer = server.call("PATCH", f"{OPERATORS}/{name}/status", {}, type=MERGE, **otto)
    server.same((answer.status, answer.body["reason"]), (403, "Forbidden"))
    answer = server.call("DELETE", f"{CLUSTER_OPERATORS}/{name}", **otto)
    server.same((answer.status, answer.body["reason"]), (403, "Forbidden"))
    server.same(server.call("DELETE", f"{OPERATORS}/{name}", **otto).status, 200)


@pytest.mark.parametrize(
    ("path", "message", "details"),
    [
        (
            "/apis/operators.coreos.com/v1alpha1/namespaces/default/subscriptions",
            'subscriptions.operators.coreos.com is forbidden: User "vera" cannot list resource '
            '"subscriptions" in API group "operators.coreos.com" in the namespace "default"',
            about("", "operators.coreos.com", "subscriptions"),
        ),
        (
            "/api/v1/namespaces/default/pods",
            'pods is forbidden: User "vera" cannot list resource "pods" in API group "" in the '
            'namespace "default"',
            about("", "", "pods"),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments/x",
            'deployments.apps "x" is forbidden: User "vera" cannot get resource "deployments" in '
            'API group "apps" in the namespace "default"',
            about("x", "apps", "deployments"),
        ),
        (
            "/api/v1/namespaces/default",
            'namespaces "default" is forbidden: User "vera" cannot get resource "namespaces" in '
            'API group "" in the namespace "default"',
            about("default", "", "namespaces"),
        ),
        (
            "/apis/nope.example.com/v1/things",
            'things.nope.example.com is forbidden: User "vera" cannot list resource "things" in '
            'API group "nope.example.com" at the cluster scope',
            about("", "nope.example.com", "things"),
        ),
        ("/nothing", 'forbidden: User "vera" cannot get path "/nothing"', {}),
    ],
)
def test_a_refusal_names_scope_and_group(
    server: Server, path: str, message: str, details: dict[str, Any]
) -> None:
    server.refused(server.call("GET", path, user="vera"), 403, "Forbidden", message, details)


def test_discovery_is_open_to_everybody_who_signed_in(server: Server) -> None:
    for path in ("/apis", "/api/v1", "/apis/operators.coreos.com/v1alpha1", "/version", "/livez"):
        server.same(server.call("GET", path, user="vera").status, 200)


# --- reviews


def review(server: Server, spec: Object, **options: Any) -> Answer:
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    return server.call("POST", REVIEWS, {**body, "spec": spec}, **options)


def attributes(verb: str, **more: str) -> Object:
    wanted = {"verb": verb, "group": PLATFORM, "resource": "platformoperators", **more}
    return {"resourceAttributes": wanted}


ALLOWED = 'RBAC: allowed by ClusterRoleBinding "{0}" of ClusterRole "{0}" to Group "{1}"'


@pytest.mark.parametrize(
    ("verb", "groups", "status"),
    [
        ("delete", ("olmweb-viewers",), {"allowed": False}),
        (
            "list",
            ("olmweb-viewers",),
            {"allowed": True, "reason": ALLOWED.format("olmweb-view", "olmweb-viewers")},
        ),
        (
            "patch",
            ("people", "olmweb-operators"),
            {"allowed": True, "reason": ALLOWED.format("olmweb-operate", "olmweb-operators")},
        ),
        ("*", ("olmweb-operators",), {"allowed": False}),
        ("get", (), {"allowed": False}),
        ("delete", ("system:masters",), {"allowed": True}),
    ],
)
def test_a_review_answers_for_the_impersonated_user(
    server: Server, verb: str, groups: tuple[str, ...], status: Object
) -> None:
    answer = review(server, attributes(verb), user="vera", groups=groups)
    server.same((answer.status, answer.body["kind"]), (201, "SelfSubjectAccessReview"))
    server.same(answer.body["status"], status)
    server.same(answer.body["spec"], attributes(verb))


def test_a_review_knows_subresources_and_namespaces(server: Server) -> None:
    otto: dict[str, Any] = {"user": "otto", "groups": ("olmweb-operators",)}
    spec = attributes("patch", subresource="status", name="x")
    server.same(review(server, spec, **otto).body["status"], {"allowed": False})
    spec = attributes("patch", namespace="default")
    server.same(review(server, spec, **otto).body["status"]["allowed"], True)


def test_a_review_of_the_administrator_needs_no_reason(server: Server) -> None:
    server.same(review(server, attributes("delete")).body["status"], {"allowed": True})


def test_a_review_may_ask_about_a_path(server: Server) -> None:
    spec = {"nonResourceAttributes": {"path": "/version", "verb": "get"}}
    server.same(review(server, spec, user="vera").body["status"]["allowed"], True)
    spec = {"nonResourceAttributes": {"path": "/nothing", "verb": "get"}}
    server.same(review(server, spec, user="vera").body["status"], {"allowed": False})


def test_a_review_asks_about_something(server: Server) -> None:
    message = (
        "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be "
        "specified"
    )
    field = "spec.resourceAttributes"
    expected = cause("FieldValueInvalid", message, field)
    text = f'.authorization.k8s.io "" is invalid: {field}: {message}'
    details = about("", "authorization.k8s.io", "", expected)
    server.refused(review(server, {}), 422, "Invalid", text, details)


def test_the_rules_of_a_viewer_in_a_namespace(server: Server) -> None:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": "default"},
    }
    answer = server.call("POST", RULES, body, **VIEWER)
    status = answer.body["status"]
    server.same((answer.status, status["incomplete"]), (201, False))
    decisions = sorted(
        (sorted(rule["verbs"]), rule["apiGroups"], rule["resources"])
        for rule in status["resourceRules"]
    )
    reviews = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    expected = [
        (["create"], ["authentication.k8s.io"], ["selfsubjectreviews"]),
        (["create"], ["authorization.k8s.io"], reviews),
        (["get", "list", "watch"], ["*"], ["*"]),
    ]
    server.same(decisions, expected)
