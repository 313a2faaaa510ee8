"""Deletes: preconditions, finalizers, options, whole collections."""

from typing import Any

import pytest

from tests.conformance.server import (
    EXTENSIONS,
    SUBSCRIPTIONS,
    Object,
    Server,
    about,
    cause,
    extension,
    subscription,
)

GROUP = "olm.operatorframework.io"
FINALIZER = "example.com/hold"


@pytest.fixture
def path(server: Server, name: str) -> str:
    """A ClusterExtension that is there."""
    server.made(EXTENSIONS, extension(name))
    return f"{EXTENSIONS}/{name}"


@pytest.fixture
def held(server: Server, name: str) -> str:
    """One with a finalizer."""
    body = extension(name)
    body["metadata"]["finalizers"] = [FINALIZER]
    server.made(EXTENSIONS, body)
    return f"{EXTENSIONS}/{name}"


def success(name: str, uid: str) -> Object:
    details = {"name": name, "group": GROUP, "kind": "clusterextensions", "uid": uid}
    kind = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
    return {**kind, "status": "Success", "details": details}


def test_a_delete_says_what_is_gone(server: Server, path: str, name: str) -> None:
    uid = server.get(path).body["metadata"]["uid"]
    answer = server.call("DELETE", path)
    server.same((answer.status, answer.body), (200, success(name, uid)))
    server.same(server.get(path).status, 404)


def test_an_object_made_again_is_another_one(server: Server, path: str, name: str) -> None:
    before = server.get(path).body["metadata"]
    server.call("DELETE", path)
    after = server.made(EXTENSIONS, extension(name))["metadata"]
    server.same((before["uid"] == after["uid"], after["generation"]), (False, 1))


def test_a_delete_of_nothing_is_404(server: Server, name: str) -> None:
    text = f'clusterextensions.{GROUP} "{name}" not found'
    details = about(name, GROUP, "clusterextensions")
    server.refused(server.call("DELETE", f"{EXTENSIONS}/{name}"), 404, "NotFound", text, details)


def test_a_delete_of_another_uid_is_a_conflict(server: Server, path: str, name: str) -> None:
    uid = server.get(path).body["metadata"]["uid"]
    text = (
        f'Operation cannot be fulfilled on ClusterExtension.{GROUP} "{name}": the UID in the '
        f"precondition (other) does not match the UID in record ({uid}). The object might have "
        "been deleted and then recreated"
    )
    details = about(name, GROUP, "ClusterExtension")
    for wanted in ({"uid": "other"}, {"uid": "other", "resourceVersion": "1"}):
        answer = server.call("DELETE", path, {"preconditions": wanted})
        server.refused(answer, 409, "Conflict", text, details)
    server.same(server.get(path).status, 200)


def test_a_delete_of_another_version_is_a_conflict(server: Server, path: str, name: str) -> None:
    version = server.get(path).body["metadata"]["resourceVersion"]
    text = (
        f'Operation cannot be fulfilled on ClusterExtension.{GROUP} "{name}": the ResourceVersion '
        f"in the precondition (1) does not match the ResourceVersion in record ({version}). The "
        "object might have been modified"
    )
    details = about(name, GROUP, "ClusterExtension")
    answer = server.call("DELETE", path, {"preconditions": {"resourceVersion": "1"}})
    server.refused(answer, 409, "Conflict", text, details)


def test_preconditions_that_hold_delete(server: Server, path: str) -> None:
    metadata = server.get(path).body["metadata"]
    wanted = {field: metadata[field] for field in ("uid", "resourceVersion")}
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": wanted}
    server.same(server.call("DELETE", path, options).status, 200)
    server.same(server.get(path).status, 404)


@pytest.mark.parametrize(
    "options",
    [
        {"propagationPolicy": "Background"},
        {"propagationPolicy": "Background", "gracePeriodSeconds": "0"},
        {"orphanDependents": "false"},
    ],
)
def test_options_are_taken_from_the_query(
    server: Server, path: str, options: dict[str, Any]
) -> None:
    server.same(server.call("DELETE", path, **options).status, 200)
    server.same(server.get(path).status, 404)


def test_options_are_taken_from_the_body(server: Server, path: str) -> None:
    answer = server.call("DELETE", path, {"dryRun": ["All"]})
    server.same((answer.status, answer.body["status"]), (200, "Success"))
    server.same(server.get(path).status, 200)
    server.same(server.call("DELETE", path, {"propagationPolicy": "Background"}).status, 200)
    server.same(server.get(path).status, 404)


def test_an_unknown_policy_is_422(server: Server, path: str) -> None:
    message = (
        'Unsupported value: "Bogus": supported values: "Foreground", "Background", "Orphan", "nil"'
    )
    field = "propagationPolicy"
    expected = cause("FieldValueNotSupported", message, field)
    text = f'DeleteOptions.meta.k8s.io "" is invalid: {field}: {message}'
    details = about("", "meta.k8s.io", "DeleteOptions", expected)
    answer = server.call("DELETE", path, propagationPolicy="Bogus")
    server.refused(answer, 422, "Invalid", text, details)


@pytest.mark.parametrize("body", [b"[1]", b"{", b"7"])
def test_options_that_cannot_be_read_are_refused(server: Server, path: str, body: bytes) -> None:
    answer = server.call("DELETE", path, body)
    text = "couldn't get version/kind; json parse error: "
    server.begins(answer, 400, "BadRequest", text)
    server.same(server.get(path).status, 200)


# --- finalizers


def test_a_finalizer_keeps_the_object_with_the_time_of_its_deletion(
    server: Server, held: str
) -> None:
    before = server.get(held).body["metadata"]
    answer = server.call("DELETE", held)
    metadata = answer.body["metadata"]
    server.same((answer.status, answer.body["kind"]), (200, "ClusterExtension"))
    server.same(metadata["finalizers"], [FINALIZER])
    server.same(metadata["deletionGracePeriodSeconds"], 0)
    server.same(metadata["deletionTimestamp"] >= before["creationTimestamp"], True)
    server.same(metadata["generation"], 2)
    server.same(server.get(held).body, answer.body)
    # A second delete changes nothing.
    server.same(server.call("DELETE", held).body, answer.body)


def test_the_object_goes_with_its_last_finalizer(server: Server, held: str, name: str) -> None:
    server.call("DELETE", held)
    version = server.version(EXTENSIONS)
    answer = server.merge(held, {"metadata": {"finalizers": None}})
    server.same((answer.status, "finalizers" in answer.body["metadata"]), (200, False))
    server.same(server.get(held).status, 404)
    events = server.watch(EXTENSIONS, resourceVersion=version)
    server.same([(e["type"], e["object"]["metadata"]["name"]) for e in events], [("DELETED", name)])


def test_removing_finalizers_without_a_delete_deletes_nothing(server: Server, held: str) -> None:
    server.merge(held, {"metadata": {"finalizers": None}})
    server.same(server.get(held).status, 200)


def test_an_object_that_is_being_deleted_can_still_be_written(server: Server, held: str) -> None:
    server.call("DELETE", held)
    change = {"spec": {"source": {"catalog": {"version": "1"}}}}
    answer = server.merge(held, change)
    server.same((answer.status, answer.body["metadata"]["generation"]), (200, 3))


def test_an_object_that_is_being_deleted_is_in_the_way(
    server: Server, held: str, name: str
) -> None:
    server.call("DELETE", held)
    text = f'object is being deleted: clusterextensions.{GROUP} "{name}" already exists'
    details = about(name, GROUP, "clusterextensions")
    answer = server.call("POST", EXTENSIONS, extension(name))
    server.refused(answer, 409, "AlreadyExists", text, details)


def test_an_object_that_is_being_deleted_takes_no_new_finalizer(
    server: Server, held: str, name: str
) -> None:
    server.call("DELETE", held)
    message = (
        "Forbidden: no new finalizers can be added if the object is being deleted, found new "
        'finalizers []string{"example.com/more"}'
    )
    field = "metadata.finalizers"
    expected = cause("FieldValueForbidden", message, field)
    text = f'ClusterExtension.{GROUP} "{name}" is invalid: {field}: {message}'
    details = about(name, GROUP, "ClusterExtension", expected, expected)
    answer = server.merge(held, {"metadata": {"finalizers": [FINALIZER, "example.com/more"]}})
    server.refused(answer, 422, "Invalid", text, details)


def test_a_dry_run_shows_the_finalizer_and_deletes_nothing(server: Server, held: str) -> None:
    before = server.get(held).body
    answer = server.call("DELETE", held, dryRun="All")
    server.same("deletionTimestamp" in answer.body["metadata"], True)
    server.same(server.get(held).body, before)


def test_options_in_a_body_make_those_in_the_query_count_for_nothing(
    server: Server, name: str
) -> None:
    made = server.made(EXTENSIONS, extension(name))
    path, options = f"{EXTENSIONS}/{name}", {"preconditions": {"uid": made["metadata"]["uid"]}}
    answer = server.call("DELETE", path, {**options, "dryRun": ["All"]}, dryRun="All")
    server.same((answer.status, server.get(path).status), (200, 200))
    answer = server.call("DELETE", path, options, dryRun="All")
    server.same((answer.status, server.get(path).status), (200, 404))


def test_a_finalizer_without_a_domain_is_warned_about(server: Server, name: str) -> None:
    body = extension(name)
    body["metadata"]["finalizers"] = ["hold"]
    answer = server.call("POST", EXTENSIONS, body)
    text = (
        'metadata.finalizers: \\"hold\\": prefer a domain-qualified finalizer name to avoid '
        "accidental conflicts with other finalizer writers"
    )
    server.same((answer.status, answer.headers["Warning"]), (201, f'299 - "{text}"'))


# --- collections


def test_a_collection_is_deleted_by_selector(server: Server, ns: str) -> None:
    path = SUBSCRIPTIONS.format(ns)
    for name in ("a", "b", "c"):
        server.made(path, subscription(name, labels={"keep": "yes" if name == "c" else "no"}))
    answer = server.call("DELETE", path, labelSelector="keep=no")
    server.same((answer.status, answer.body["kind"]), (200, "SubscriptionList"))
    server.same(answer.names, ["a", "b"])
    server.same(server.get(path).names, ["c"])


def test_a_dry_run_of_a_collection_deletes_nothing(server: Server, ns: str) -> None:
    path = SUBSCRIPTIONS.format(ns)
    server.made(path, subscription("a"))
    answer = server.call("DELETE", path, dryRun="All")
    server.same((answer.status, answer.names), (200, ["a"]))
    server.same(server.get(path).names, ["a"])
