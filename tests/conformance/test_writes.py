"""Create, update, the patches and dry-runs: what is stored, what is refused, what counts up."""

import copy
from typing import Any

import pytest

from tests.conformance.server import (
    EXTENSIONS,
    JSON_PATCH,
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

GROUP = "olm.operatorframework.io"
RESOURCE = f"clusterextensions.{GROUP}"
MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


@pytest.fixture
def path(server: Server, name: str) -> str:
    """A ClusterExtension that is there."""
    server.made(EXTENSIONS, extension(name))
    return f"{EXTENSIONS}/{name}"


def stored(server: Server, path: str) -> Object:
    item: Object = server.get(path).body
    return item


def immutable(server: Server, answer: Answer, name: str, field: str, message: str) -> None:
    # Metadata of an update is checked twice, and its causes are told twice.
    expected = cause("FieldValueInvalid", message, field)
    details = about(name, GROUP, "ClusterExtension", expected, expected)
    text = f'ClusterExtension.{GROUP} "{name}" is invalid: {field}: {message}'
    server.refused(answer, 422, "Invalid", text, details)


# --- create


def test_a_create_gives_the_stored_object(server: Server, name: str) -> None:
    body = server.made(EXTENSIONS, extension(name))
    server.same(sorted(body), ["apiVersion", "kind", "metadata", "spec"])
    server.same(body["metadata"]["generation"], 1)
    server.same(len(body["metadata"]["uid"]), 36)
    server.same(stored(server, f"{EXTENSIONS}/{name}"), body)


def test_the_server_fills_in_its_own_metadata(server: Server, name: str) -> None:
    given = extension(name)
    claimed = {
        "uid": "11",
        "generation": 9,
        "creationTimestamp": "2020-01-01T00:00:00Z",
        "selfLink": "x",
        "namespace": "ignored",
        "deletionTimestamp": "2020-01-01T00:00:00Z",
    }
    given["metadata"] |= claimed
    made = server.made(EXTENSIONS, given)["metadata"]
    server.same((made["generation"], made["creationTimestamp"][:3]), (1, "202"))
    server.same(made["creationTimestamp"] != claimed["creationTimestamp"], True)
    server.same(made["uid"] != "11", True)
    for field in ("selfLink", "namespace", "deletionTimestamp"):
        server.same(field in made, False)


def test_a_status_given_at_create_is_dropped(server: Server, name: str) -> None:
    made = server.made(EXTENSIONS, {**extension(name), "status": {"conditions": [condition("A")]}})
    server.same("status" in made, False)


def test_a_generated_name_begins_with_its_prefix(server: Server) -> None:
    body = extension("")
    body["metadata"] = {"generateName": "gen-"}
    made = server.made(EXTENSIONS, body)["metadata"]
    server.same((made["name"][:4], len(made["name"]), made["generateName"]), ("gen-", 9, "gen-"))


def test_creating_twice_is_a_conflict(server: Server, path: str, name: str) -> None:
    answer = server.call("POST", EXTENSIONS, extension(name))
    text = f'{RESOURCE} "{name}" already exists'
    details = about(name, GROUP, "clusterextensions")
    server.refused(answer, 409, "AlreadyExists", text, details)


def test_a_create_must_not_carry_a_version(server: Server, name: str) -> None:
    body = extension(name)
    body["metadata"]["resourceVersion"] = "7"
    text = "resourceVersion should not be set on objects to be created"
    server.refused(server.call("POST", EXTENSIONS, body), 500, "", text)


def test_a_namespaced_object_is_created_in_its_namespace(server: Server, ns: str) -> None:
    path = SUBSCRIPTIONS.format(ns)
    server.same(server.made(path, subscription("s"))["metadata"]["namespace"], ns)
    answer = server.call("POST", path, subscription("t", namespace="other"))
    text = "the namespace of the provided object does not match the namespace sent on the request"
    server.refused(answer, 400, "BadRequest", text)


def test_a_namespaced_object_is_not_created_without_namespace(server: Server) -> None:
    everywhere = "/apis/operators.coreos.com/v1alpha1/subscriptions"
    answer = server.call("POST", everywhere, subscription("s"))
    server.same((answer.status, answer.data), (404, b"404 page not found\n"))


def test_the_namespace_of_a_new_object_must_be_there(server: Server) -> None:
    answer = server.call("POST", SUBSCRIPTIONS.format("nowhere"), subscription("s"))
    details = about("nowhere", "", "namespaces")
    server.refused(answer, 404, "NotFound", 'namespaces "nowhere" not found', details)


def test_a_new_namespace_is_labelled_with_its_name(server: Server, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    made = server.made("/api/v1/namespaces", body)
    server.same(made["metadata"]["labels"], {"kubernetes.io/metadata.name": name})
    server.same(
        (made["spec"], made["status"]), ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    )
    server.same("generation" in made["metadata"], False)


# --- update


def test_an_update_replaces_the_object(server: Server, path: str) -> None:
    body = stored(server, path)
    body["spec"]["source"]["catalog"]["version"] = "1.0.0"
    body["metadata"]["annotations"] = {"why": "test"}
    answer = server.call("PUT", path, body)
    server.same(answer.status, 200)
    server.same(answer.body["spec"], body["spec"])
    server.same(answer.body["metadata"]["annotations"], {"why": "test"})
    server.same(answer.body["metadata"]["generation"], 2)
    server.same(stored(server, path), answer.body)
    del body["spec"]["source"]["catalog"]["version"]
    body["metadata"]["resourceVersion"] = answer.body["metadata"]["resourceVersion"]
    again = server.call("PUT", path, body).body
    server.same("version" in again["spec"]["source"]["catalog"], False)


def test_an_update_without_change_keeps_the_version(server: Server, path: str) -> None:
    body = stored(server, path)
    answer = server.call("PUT", path, body)
    server.same((answer.status, answer.body), (200, body))


def test_an_update_of_an_old_version_is_a_conflict(server: Server, path: str, name: str) -> None:
    body = stored(server, path)
    server.merge(path, {"metadata": {"labels": {"a": "b"}}})
    answer = server.call("PUT", path, body)
    text = f'Operation cannot be fulfilled on {RESOURCE} "{name}": {MODIFIED}'
    details = about(name, GROUP, "clusterextensions")
    server.refused(answer, 409, "Conflict", text, details)


def test_an_update_of_a_custom_object_needs_a_version(server: Server, path: str, name: str) -> None:
    message, field = "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
    expected = cause("FieldValueInvalid", message, field)
    details = about(name, GROUP, "clusterextensions", expected)
    text = f'{RESOURCE} "{name}" is invalid: {field}: {message}'
    answer = server.call("PUT", path, extension(name))
    server.refused(answer, 422, "Invalid", text, details)


def test_an_update_of_a_built_in_object_needs_none(server: Server, ns: str) -> None:
    path = f"/api/v1/namespaces/{ns}"
    labels = {"kubernetes.io/metadata.name": ns, "a": "b"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns, "labels": labels}}
    answer = server.call("PUT", path, body)
    server.same((answer.status, answer.body["metadata"]["labels"]), (200, labels))


def test_an_update_of_nothing_is_404(server: Server, name: str) -> None:
    text = f'{RESOURCE} "{name}" not found'
    details = about(name, GROUP, "clusterextensions")
    answer = server.call("PUT", f"{EXTENSIONS}/{name}", extension(name))
    server.refused(answer, 404, "NotFound", text, details)


def test_the_name_of_an_update_is_the_paths(server: Server, path: str, name: str) -> None:
    text = f"the name of the object (other) does not match the name on the URL ({name})"
    answer = server.call("PUT", path, extension("other"))
    server.refused(answer, 400, "BadRequest", text)
    text = f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
    answer = server.call("PUT", path, {**extension(name), "metadata": {}})
    server.refused(answer, 400, "BadRequest", text)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_collection_is_not_updated(server: Server, method: str) -> None:
    type_ = JSON_PATCH if method == "PATCH" else "application/json"
    answer = server.call(method, EXTENSIONS, [] if method == "PATCH" else {}, type=type_)
    server.refused(answer, 400, "BadRequest", "name must be provided")


# --- generation, uid and status


def test_metadata_does_not_count_up_the_generation(server: Server, path: str) -> None:
    body = server.merge(path, {"metadata": {"annotations": {"a": "b"}, "labels": {"c": "d"}}}).body
    server.same(body["metadata"]["generation"], 1)


def test_generation_and_creation_are_the_servers(server: Server, path: str) -> None:
    before = stored(server, path)["metadata"]
    change = {"generation": 77, "creationTimestamp": "2020-01-01T00:00:00Z"}
    after = server.merge(path, {"metadata": change}).body["metadata"]
    server.same(
        [after[field] for field in ("generation", "creationTimestamp", "resourceVersion")],
        [before[field] for field in ("generation", "creationTimestamp", "resourceVersion")],
    )


def test_a_uid_cannot_be_changed(server: Server, path: str, name: str) -> None:
    answer = server.merge(path, {"metadata": {"uid": "other"}})
    text = 'Invalid value: "other": field is immutable'
    immutable(server, answer, name, "metadata.uid", text)


def test_a_status_write_leaves_spec_and_metadata_alone(server: Server, path: str) -> None:
    before = stored(server, path)
    status = {"conditions": [condition("Installed")]}
    change = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"namespace": "changed"},
        "status": status,
    }
    after = server.merge(f"{path}/status", change, fieldManager="ctl").body
    server.same((after["spec"], after["status"]), (before["spec"], status))
    server.same(("labels" in after["metadata"], "annotations" in after["metadata"]), (False, False))
    server.same(after["metadata"]["generation"], 1)
    server.same([(m, s) for m, _, s, _ in owners(after) if s], [("ctl", "status")])
    server.same(after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"], True)


def test_a_spec_write_leaves_the_status_alone(server: Server, path: str) -> None:
    status = {"conditions": [condition("Installed")]}
    server.merge(f"{path}/status", {"status": status})
    body = stored(server, path)
    body["status"] = {"conditions": []}
    body["spec"]["source"]["catalog"]["version"] = "1"
    after = server.call("PUT", path, body).body
    server.same((after["status"], after["metadata"]["generation"]), (status, 2))
    after = server.merge(path, {"status": None}).body
    server.same((after["status"], after["metadata"]["generation"]), (status, 2))


def test_a_status_is_replaced_with_a_put(server: Server, path: str) -> None:
    server.merge(f"{path}/status", {"status": {"conditions": [condition("Installed")]}})
    body = stored(server, path)
    install = {"install": {"bundle": {"name": "b", "version": "1"}}}
    body["status"] = install
    answer = server.call("PUT", f"{path}/status", body)
    server.same((answer.status, answer.body["status"]), (200, install))


def test_a_status_put_of_an_old_version_is_a_conflict(server: Server, path: str, name: str) -> None:
    body = stored(server, path)
    server.merge(path, {"metadata": {"labels": {"a": "b"}}})
    text = f'Operation cannot be fulfilled on {RESOURCE} "{name}": {MODIFIED}'
    details = about(name, GROUP, "clusterextensions")
    server.refused(server.call("PUT", f"{path}/status", body), 409, "Conflict", text, details)


@pytest.mark.parametrize(("method", "verb"), [("POST", "create"), ("DELETE", "delete")])
def test_a_status_is_neither_created_nor_deleted(
    server: Server, path: str, name: str, method: str, verb: str
) -> None:
    body = extension(name) if method == "POST" else None
    text = f'{verb} is not supported on resources of kind "{RESOURCE}"'
    details = about("", GROUP, "clusterextensions")
    answer = server.call(method, f"{path}/status", body)
    server.refused(answer, 405, "MethodNotAllowed", text, details)


# --- patches


def test_a_merge_patch_merges_maps_and_replaces_lists(server: Server, path: str) -> None:
    catalog = {"version": "1", "channels": ["a", "b"]}
    server.merge(path, {"spec": {"source": {"catalog": catalog}}})
    change = {"spec": {"source": {"catalog": {"version": None, "channels": ["c"]}}}}
    merged = server.merge(path, change).body["spec"]["source"]["catalog"]
    server.same(
        merged,
        {"packageName": "etcd", "channels": ["c"], "upgradeConstraintPolicy": "CatalogProvided"},
    )


def test_a_json_patch_changes_what_it_names(server: Server, path: str) -> None:
    steps = [
        {"op": "test", "path": "/spec/namespace", "value": "somewhere"},
        {"op": "add", "path": "/metadata/labels", "value": {"a/b": "1"}},
        {"op": "add", "path": "/spec/source/catalog/channels", "value": ["x", "z"]},
        {"op": "add", "path": "/spec/source/catalog/channels/1", "value": "y"},
        {"op": "add", "path": "/spec/source/catalog/channels/-", "value": "end"},
        {"op": "replace", "path": "/spec/source/catalog/channels/0", "value": "first"},
        {"op": "copy", "from": "/metadata/labels/a~1b", "path": "/metadata/labels/copy"},
        {"op": "move", "from": "/metadata/labels/a~1b", "path": "/metadata/labels/moved"},
    ]
    answer = server.call("PATCH", path, steps, type=JSON_PATCH)
    server.same(answer.status, 200)
    server.same(answer.body["metadata"]["labels"], {"copy": "1", "moved": "1"})
    channels = answer.body["spec"]["source"]["catalog"]["channels"]
    server.same(channels, ["first", "y", "z", "end"])
    step = [{"op": "remove", "path": "/spec/source/catalog/channels"}]
    answer = server.call("PATCH", path, step, type=JSON_PATCH)
    server.same("channels" in answer.body["spec"]["source"]["catalog"], False)


@pytest.mark.parametrize(
    "step",
    [
        {"op": "test", "path": "/spec/namespace", "value": "other"},
        {"op": "remove", "path": "/spec/nope"},
        {"op": "add", "path": "/nope/deeper", "value": 1},
        {"op": "bogus", "path": "/spec", "value": 1},
        {"op": "add", "path": "/spec/source/catalog/channels/7", "value": "x"},
    ],
)
def test_a_json_patch_that_does_not_fit_is_422(
    server: Server, path: str, step: dict[str, Any]
) -> None:
    before = stored(server, path)
    text = "the server rejected our request due to an error in our request"
    answer = server.call("PATCH", path, [step], type=JSON_PATCH)
    server.refused(answer, 422, "Invalid", text, {})
    server.same(stored(server, path), before)


@pytest.mark.parametrize("body", [b"{}", b"7", b'[{"op":'])
def test_a_json_patch_is_a_list(server: Server, path: str, body: bytes) -> None:
    answer = server.call("PATCH", path, body, type=JSON_PATCH)
    server.begins(answer, 400, "BadRequest", "error decoding patch: ")


@pytest.mark.parametrize("body", [b"[]", b"7", b"{"])
def test_a_merge_patch_is_an_object(server: Server, path: str, body: bytes) -> None:
    answer = server.call("PATCH", path, body, type="application/merge-patch+json")
    server.begins(answer, 400, "BadRequest", "error decoding patch: ")


def test_a_patch_of_nothing_is_404(server: Server, name: str) -> None:
    text = f'{RESOURCE} "{name}" not found'
    details = about(name, GROUP, "clusterextensions")
    path = f"{EXTENSIONS}/{name}"
    server.refused(server.merge(path, {}), 404, "NotFound", text, details)
    answer = server.call("PATCH", path, [], type=JSON_PATCH)
    server.refused(answer, 404, "NotFound", text, details)


def test_a_patch_that_names_an_old_version_is_a_conflict(
    server: Server, path: str, name: str
) -> None:
    text = f'Operation cannot be fulfilled on {RESOURCE} "{name}": {MODIFIED}'
    details = about(name, GROUP, "clusterextensions")
    answer = server.merge(path, {"metadata": {"resourceVersion": "1"}})
    server.refused(answer, 409, "Conflict", text, details)


def test_a_patch_cannot_rename(server: Server, path: str, name: str) -> None:
    text = f"the name of the object (other) does not match the name on the URL ({name})"
    answer = server.merge(path, {"metadata": {"name": "other"}})
    server.refused(answer, 400, "BadRequest", text)


def test_a_patch_cannot_change_the_kind(server: Server, path: str, name: str) -> None:
    message = 'Invalid value: "Other": must be ClusterExtension'
    expected = cause("FieldValueInvalid", message, "kind")
    text = f'Other.{GROUP} "{name}" is invalid: kind: {message}'
    details = about(name, GROUP, "Other", expected)
    server.refused(server.merge(path, {"kind": "Other"}), 422, "Invalid", text, details)


# --- dry-run


def test_a_dry_run_of_each_verb_answers_and_stores_nothing(
    server: Server, path: str, name: str
) -> None:
    before, version = stored(server, path), server.version(EXTENSIONS)
    other = f"{name}-new"
    made = server.made(EXTENSIONS, extension(other), dryRun="All")
    server.same(sorted(made["metadata"]), DRY_METADATA)
    answer = server.apply(f"{EXTENSIONS}/{other}", extension(other), dryRun="All")
    server.same((answer.status, sorted(answer.body["metadata"])), (201, DRY_METADATA))
    changed = copy.deepcopy(before)
    changed["spec"]["source"]["catalog"]["version"] = "1"
    metadata = server.call("PUT", path, changed, dryRun="All").body["metadata"]
    server.same(metadata["generation"], 2)
    server.same(metadata["resourceVersion"], before["metadata"]["resourceVersion"])
    patched = server.merge(path, {"spec": {"source": {"catalog": {"version": "2"}}}}, dryRun="All")
    server.same(patched.body["spec"]["source"]["catalog"]["version"], "2")
    status = {"status": {"conditions": [condition("Installed")]}}
    server.same(
        server.merge(f"{path}/status", status, dryRun="All").body["status"], status["status"]
    )
    server.same(server.call("DELETE", path, dryRun="All").body["status"], "Success")
    server.same(stored(server, path), before)
    server.same(server.get(f"{EXTENSIONS}/{other}").status, 404)
    server.same(server.watch(EXTENSIONS, resourceVersion=version), [])


DRY_METADATA = ["creationTimestamp", "generation", "managedFields", "name", "uid"]


def test_a_dry_run_is_refused_as_the_write_would_be(server: Server, path: str, name: str) -> None:
    answer = server.call("POST", EXTENSIONS, extension(name), dryRun="All")
    server.same((answer.status, answer.body["reason"]), (409, "AlreadyExists"))
    answer = server.apply(path, extension(name, namespace="other"), dryRun="All")
    server.same((answer.status, answer.body["reason"]), (409, "Conflict"))
    answer = server.call("DELETE", f"{EXTENSIONS}/{name}-none", dryRun="All")
    server.same((answer.status, answer.body["reason"]), (404, "NotFound"))
    bad = extension("Bad_Name")
    answer = server.call("POST", EXTENSIONS, bad, dryRun="All")
    server.same((answer.status, answer.body["reason"]), (422, "Invalid"))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("POST", "CreateOptions"),
        ("PUT", "UpdateOptions"),
        ("PATCH", "PatchOptions"),
        ("DELETE", "DeleteOptions"),
    ],
)
def test_a_dry_run_is_all_or_nothing(
    server: Server, path: str, name: str, method: str, options: str
) -> None:
    message = 'Unsupported value: ["Some"]: supported values: "All"'
    expected = cause("FieldValueNotSupported", message, "dryRun")
    text = f'{options}.meta.k8s.io "" is invalid: dryRun: {message}'
    target = EXTENSIONS if method == "POST" else path
    type_ = "application/merge-patch+json" if method == "PATCH" else "application/json"
    body = None if method == "DELETE" else extension(name)
    answer = server.call(method, target, body, type=type_, dryRun="Some")
    server.refused(answer, 422, "Invalid", text, about("", "meta.k8s.io", options, expected))
