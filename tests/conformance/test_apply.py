"""Server-side apply: who owns what, what an apply removes, how a conflict is told."""

import json

import pytest

from tests.conformance.server import (
    EXTENSIONS,
    SUBSCRIPTIONS,
    Answer,
    Object,
    Server,
    about,
    cause,
    condition,
    extension,
    owners,
    subscription,
)

GVK = "olm.operatorframework.io/v1, Kind=ClusterExtension"


@pytest.fixture
def path(name: str) -> str:
    """Where the test's ClusterExtension is to be."""
    return f"{EXTENSIONS}/{name}"


def conflict(server: Server, answer: Answer, message: str, *fields: tuple[str, str]) -> None:
    causes = [
        cause("FieldManagerConflict", f"conflict with {manager}", field)
        for manager, field in fields
    ]
    text = f"Apply failed with {message}"
    server.refused(answer, 409, "Conflict", text, {"causes": causes})


def test_an_apply_creates_what_is_not_there(server: Server, path: str, name: str) -> None:
    answer = server.apply(path, extension(name))
    server.same(answer.status, 201)
    body = answer.body
    server.same(body["metadata"]["generation"], 1)
    server.same(body["spec"]["source"]["catalog"]["upgradeConstraintPolicy"], "CatalogProvided")
    source: Object = {"f:sourceType": {}, "f:catalog": {"f:packageName": {}}}
    fields = {"f:spec": {"f:namespace": {}, "f:source": source}}
    server.same(owners(body), [("olmweb", "Apply", "", json.dumps(fields, sort_keys=True))])
    server.same(server.get(path).body, body)


def test_the_same_apply_again_changes_nothing(server: Server, path: str, name: str) -> None:
    first = server.apply(path, extension(name)).body
    again = server.apply(path, extension(name))
    server.same((again.status, again.body), (200, first))


def test_an_apply_changes_what_it_owns(server: Server, path: str, name: str) -> None:
    before = server.apply(path, extension(name)).body
    body = server.apply(path, extension(name, install={"preflight": PREFLIGHT})).body
    server.same(body["spec"]["install"]["preflight"], PREFLIGHT)
    server.same(body["metadata"]["generation"], 2)
    server.same(body["metadata"]["uid"], before["metadata"]["uid"])
    server.same(
        int(body["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"]), True
    )


PREFLIGHT = {"crdUpgradeSafety": {"enforcement": "Strict"}}


def test_what_a_manager_stops_applying_goes_away(server: Server, path: str, name: str) -> None:
    labelled = extension(name, install={"preflight": PREFLIGHT})
    labelled["metadata"]["labels"] = {"team": "blue"}
    server.same(server.apply(path, labelled).body["metadata"]["labels"], {"team": "blue"})
    body = server.apply(path, extension(name)).body
    server.same("labels" in body["metadata"], False)
    server.same("install" in body["spec"], False)


def test_what_another_manager_owns_too_stays(server: Server, path: str, name: str) -> None:
    labelled = extension(name)
    labelled["metadata"]["labels"] = {"team": "blue"}
    server.apply(path, labelled)
    server.same(server.apply(path, labelled, manager="argocd").status, 200)
    body = server.apply(path, extension(name)).body
    server.same(body["metadata"]["labels"], {"team": "blue"})
    server.same([(m, o) for m, o, _, _ in owners(body)], [("argocd", "Apply"), ("olmweb", "Apply")])


def test_a_conflict_names_the_other_manager_and_the_field(
    server: Server, path: str, name: str
) -> None:
    server.apply(path, extension(name), manager="argocd")
    answer = server.apply(path, extension(name, namespace="other"))
    field = ".spec.namespace"
    text = f'1 conflict: conflict with "argocd": {field}'
    conflict(server, answer, text, ('"argocd"', field))
    server.same(server.get(path).body["spec"]["namespace"], "somewhere")


def test_conflicts_with_one_manager_are_a_list(server: Server, path: str, name: str) -> None:
    server.apply(path, extension(name), manager="argocd")
    changed = extension(name, "other", namespace="other")
    fields = (".spec.namespace", ".spec.source.catalog.packageName")
    text = f'2 conflicts: conflicts with "argocd":\n- {fields[0]}\n- {fields[1]}'
    expected = [('"argocd"', field) for field in fields]
    conflict(server, server.apply(path, changed), text, *expected)


def test_conflicts_with_two_managers_are_told_by_manager(
    server: Server, path: str, name: str
) -> None:
    for manager in ("argocd", "flux"):
        server.apply(path, extension(name), manager=manager)
    field = ".spec.namespace"
    text = f'2 conflicts: conflicts with "argocd":\n- {field}\nconflicts with "flux":\n- {field}'
    answer = server.apply(path, extension(name, namespace="other"))
    conflict(server, answer, text, ('"argocd"', field), ('"flux"', field))


def test_a_conflict_with_an_update_names_its_version(server: Server, path: str, name: str) -> None:
    labelled = extension(name)
    labelled["metadata"]["labels"] = {"team": "blue"}
    server.apply(path, labelled)
    server.merge(path, {"metadata": {"labels": {"team": "red"}}}, fieldManager="kubectl-label")
    manager = '"kubectl-label" using olm.operatorframework.io/v1'
    field = ".metadata.labels.team"
    text = f"1 conflict: conflict with {manager}: {field}"
    conflict(server, server.apply(path, labelled), text, (manager, field))


def test_force_takes_the_fields(server: Server, path: str, name: str) -> None:
    first = server.apply(path, extension(name), manager="argocd").body
    changed = extension(name)
    changed["spec"]["source"]["catalog"]["version"] = "1.0.0"
    server.apply(path, changed, manager="flux")
    changed["spec"]["source"]["catalog"]["version"] = "2.0.0"
    answer = server.apply(path, changed, force="true")
    server.same((answer.status, answer.body["metadata"]["generation"]), (200, 3))
    server.same(answer.body["spec"]["source"]["catalog"]["version"], "2.0.0")
    server.same(answer.body["metadata"]["uid"], first["metadata"]["uid"])
    flux = next(fields for manager, _, _, fields in owners(answer.body) if manager == "flux")
    server.same("f:version" in flux, False)


def test_equal_values_are_shared_without_conflict(server: Server, path: str, name: str) -> None:
    server.apply(path, extension(name), manager="argocd")
    answer = server.apply(path, extension(name))
    server.same(answer.status, 200)
    fields = {text for _, _, _, text in owners(answer.body)}
    server.same((len(owners(answer.body)), len(fields)), (2, 1))


def test_an_update_takes_fields_from_those_who_applied_them(
    server: Server, path: str, name: str
) -> None:
    changed = extension(name)
    changed["spec"]["source"]["catalog"]["version"] = "1.0.0"
    server.apply(path, changed)
    change = {"spec": {"source": {"catalog": {"version": "1.1.0"}}}}
    body = server.merge(path, change, fieldManager="kubectl-edit").body
    fields_of = {manager: fields for manager, _, _, fields in owners(body)}
    server.same("f:version" in fields_of["olmweb"], False)
    version: Object = {"f:spec": {"f:source": {"f:catalog": {"f:version": {}}}}}
    server.same(json.loads(fields_of["kubectl-edit"]), version)


def test_a_create_owns_every_field_and_every_map(server: Server, path: str, name: str) -> None:
    labelled = extension(name)
    labelled["metadata"] |= {"labels": {"a": "b"}, "finalizers": ["example.com/hold"]}
    body = server.made(EXTENSIONS, labelled, fieldManager="kubectl-create")
    catalog: Object = {".": {}, "f:packageName": {}, "f:upgradeConstraintPolicy": {}}
    source = {".": {}, "f:catalog": catalog, "f:sourceType": {}}
    fields = {
        "f:metadata": {
            "f:labels": {".": {}, "f:a": {}},
            "f:finalizers": {".": {}, 'v:"example.com/hold"': {}},
        },
        "f:spec": {".": {}, "f:namespace": {}, "f:source": source},
    }
    expected = json.dumps(fields, sort_keys=True)
    server.same(owners(body), [("kubectl-create", "Update", "", expected)])
    server.merge(path, {"metadata": {"finalizers": None}})


def test_the_manager_of_an_update_is_the_user_agents_first_word(
    server: Server, path: str, name: str
) -> None:
    answer = server.call(
        "POST", EXTENSIONS, extension(name), headers={"User-Agent": "kubectl/v1.30 (linux)"}
    )
    server.same([manager for manager, *_ in owners(answer.body)], ["kubectl"])


# --- status


def test_an_apply_to_the_status_owns_conditions_by_type(
    server: Server, path: str, name: str
) -> None:
    server.apply(path, extension(name))
    for type_, manager in (("Installed", "one"), ("Progressing", "two")):
        status = {"status": {"conditions": [condition(type_)]}}
        answer = server.apply(f"{path}/status", {**extension(name), **status}, manager=manager)
        server.same(answer.status, 200)
    server.same(
        [c["type"] for c in answer.body["status"]["conditions"]], ["Installed", "Progressing"]
    )
    server.same(answer.body["metadata"]["generation"], 1)
    fields: Object = {f"f:{key}": {} for key in condition("x")} | {".": {}}
    mine = {"f:status": {"f:conditions": {'k:{"type":"Progressing"}': fields}}}
    expected = ("two", "Apply", "status", json.dumps(mine, sort_keys=True))
    server.same(expected in owners(answer.body), True)


def test_a_conflict_in_a_status_names_the_subresource(server: Server, path: str, name: str) -> None:
    server.apply(path, extension(name))
    server.merge(
        f"{path}/status", {"status": {"conditions": [condition("Installed")]}}, fieldManager="ctl"
    )
    status = {"status": {"conditions": [condition("Installed", reason="Other")]}}
    answer = server.apply(f"{path}/status", {**extension(name), **status})
    manager = '"ctl" with subresource "status" using olm.operatorframework.io/v1'
    field = '.status.conditions[type="Installed"].reason'
    conflict(server, answer, f"1 conflict: conflict with {manager}: {field}", (manager, field))


def test_an_apply_to_the_object_leaves_the_status_alone(
    server: Server, path: str, name: str
) -> None:
    status = {"status": {"conditions": [condition("Installed")]}}
    body = server.apply(path, {**extension(name), **status}).body
    server.same("status" in body, False)
    server.merge(f"{path}/status", status)
    other = {"status": {"conditions": [condition("Installed", reason="Other")]}}
    answer = server.apply(path, {**extension(name), **other})
    server.same((answer.status, answer.body["status"]), (200, status["status"]))


def test_an_apply_to_the_status_of_nothing_is_404(server: Server, path: str, name: str) -> None:
    answer = server.apply(f"{path}/status", {**extension(name), "status": {}})
    text = f'clusterextensions.olm.operatorframework.io "{name}" not found'
    details = about(name, "olm.operatorframework.io", "clusterextensions")
    server.refused(answer, 404, "NotFound", text, details)


# --- refused


def not_typed(server: Server, answer: Answer, title: str, fault: str) -> None:
    """The body is no typed patch: an error of the server's own, without a reason."""
    text = f"failed to create typed patch object ({title}): {fault}"
    server.refused(answer, 500, "", text)


def option_error(server: Server, answer: Answer, reason: str, message: str) -> None:
    field = "fieldManager"
    details = about("", "meta.k8s.io", "PatchOptions", cause(reason, message, field))
    text = f'PatchOptions.meta.k8s.io "" is invalid: {field}: {message}'
    server.refused(answer, 422, "Invalid", text, details)


def test_an_apply_needs_a_field_manager(server: Server, path: str, name: str) -> None:
    text = "Required value: is required for apply patch"
    answer = server.apply(path, extension(name), manager="")
    option_error(server, answer, "FieldValueRequired", text)


def test_a_field_manager_has_a_longest_name(server: Server, path: str, name: str) -> None:
    text = "Too long: may not be more than 128 bytes"
    answer = server.apply(path, extension(name), manager="x" * 129)
    option_error(server, answer, "FieldValueTooLong", text)


@pytest.mark.parametrize("where", ["spec.chanel", "bogus", "spec.source.catalog.chanels"])
def test_a_field_that_the_schema_lacks_is_an_error_without_reason(
    server: Server, path: str, name: str, where: str
) -> None:
    body = extension(name)
    node: Object = body
    *parents, last = where.split(".")
    for parent in parents:
        node = node[parent]
    node[last] = "x"
    text = f".{where}: field not declared in schema"
    not_typed(server, server.apply(path, body), f"/{name}; {GVK}", text)


def test_the_typed_patch_error_names_the_namespace(server: Server, ns: str) -> None:
    body = subscription("s", namespace=ns)
    body["spec"]["chanel"] = "x"
    gvk = "operators.coreos.com/v1alpha1, Kind=Subscription"
    answer = server.apply(f"{SUBSCRIPTIONS.format(ns)}/s", body)
    text = ".spec.chanel: field not declared in schema"
    not_typed(server, answer, f"{ns}/s; {gvk}", text)


def test_a_wrong_type_is_an_error_of_the_typed_patch(server: Server, path: str, name: str) -> None:
    answer = server.apply(path, extension(name, namespace=7))
    fault = ".spec.namespace: expected string, got &value.valueUnstructured{Value:7}"
    not_typed(server, answer, f"/{name}; {GVK}", fault)


def test_the_body_must_be_of_the_kind_and_name_of_the_path(
    server: Server, path: str, name: str
) -> None:
    good = extension(name)
    other = {**good, "metadata": {"name": "other"}}
    text = f"the name of the object (other) does not match the name on the URL ({name})"
    server.refused(server.apply(path, other), 400, "BadRequest", text)
    text = f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
    server.refused(server.apply(path, {**good, "metadata": {}}), 400, "BadRequest", text)
    text = "invalid object type: olm.operatorframework.io/v1, Kind=Other"
    server.refused(server.apply(path, {**good, "kind": "Other"}), 400, "BadRequest", text)
    text = "invalid object type: /, Kind="
    bare = {key: good[key] for key in ("metadata", "spec")}
    server.refused(server.apply(path, bare), 400, "BadRequest", text)


def test_managed_fields_are_the_servers(server: Server, path: str, name: str) -> None:
    body = extension(name)
    body["metadata"]["managedFields"] = []
    text = "metadata.managedFields must be nil"
    server.refused(server.apply(path, body), 400, "BadRequest", text)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"a: [b", "error decoding YAML: "),
        (b"[]", "error decoding YAML: "),
        (b"7", "error decoding YAML: "),
    ],
)
def test_a_body_that_is_no_object_is_refused(
    server: Server, path: str, body: bytes, message: str
) -> None:
    server.begins(server.apply(path, body), 400, "BadRequest", message)


def test_yaml_is_applied(server: Server, path: str, name: str) -> None:
    text = f"""
apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
metadata: {{name: {name}}}
spec:
  namespace: somewhere
  source: {{sourceType: Catalog, catalog: {{packageName: etcd}}}}
"""
    answer = server.apply(path, text.encode())
    server.same((answer.status, answer.body["spec"]["namespace"]), (201, "somewhere"))


def test_an_old_version_is_a_conflict(server: Server, path: str, name: str) -> None:
    server.apply(path, extension(name))
    body = extension(name, namespace="somewhere")
    body["metadata"]["resourceVersion"] = "1"
    body["metadata"]["labels"] = {"a": "b"}
    text = (
        f'Operation cannot be fulfilled on clusterextensions.olm.operatorframework.io "{name}": '
        "the object has been modified; please apply your changes to the latest version and try "
        "again"
    )
    details = about(name, "olm.operatorframework.io", "clusterextensions")
    server.refused(server.apply(path, body), 409, "Conflict", text, details)


def test_a_namespace_must_be_there(server: Server) -> None:
    path = SUBSCRIPTIONS.format("no-such-namespace")
    text = 'namespaces "no-such-namespace" not found'
    details = about("no-such-namespace", "", "namespaces")
    answer = server.apply(f"{path}/s", subscription("s"))
    server.refused(answer, 404, "NotFound", text, details)
