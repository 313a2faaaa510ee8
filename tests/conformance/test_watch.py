"""Watches: from where they begin, what a selector makes of a change, how they end."""

from typing import Any

import pytest

from tests.conformance.server import (
    EXTENSIONS,
    MERGE,
    SUBSCRIPTIONS,
    Object,
    Server,
    about,
    cause,
    extension,
    subscription,
)

FROM_THE_START = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}


@pytest.fixture
def path(server: Server, ns: str) -> str:
    """The path of a list with `first` and `second`."""
    path = SUBSCRIPTIONS.format(ns)
    server.made(path, subscription("first", labels={"team": "red"}))
    server.made(path, subscription("second", labels={"team": "blue"}))
    return path


def seen(events: list[Object]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def test_a_watch_from_a_lists_version_tells_nothing_old(server: Server, path: str) -> None:
    version = server.version(path)
    server.same(server.watch(path, resourceVersion=version), [])


def test_a_watch_tells_what_came_after_the_version(server: Server, path: str) -> None:
    version = server.version(path)
    made = server.made(path, subscription("third"))
    changed = server.merge(f"{path}/first", {"spec": {"channel": "stable"}}).body
    server.call("DELETE", f"{path}/second")
    events = server.watch(path, resourceVersion=version)
    server.same(seen(events), [("ADDED", "third"), ("MODIFIED", "first"), ("DELETED", "second")])
    server.same(events[0]["object"], made)
    server.same(events[1]["object"], changed)
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    server.same(versions, sorted(set(versions)))
    server.same(versions[0] > int(version), True)


def test_a_deleted_object_comes_with_its_last_state_and_a_new_version(
    server: Server, path: str
) -> None:
    before = server.get(f"{path}/second").body
    version = server.version(path)
    server.call("DELETE", f"{path}/second")
    [event] = server.watch(path, resourceVersion=version)
    last = event["object"]
    server.same(int(last["metadata"].pop("resourceVersion")) > int(version), True)
    before["metadata"].pop("resourceVersion")
    server.same(last, before)


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}, {"resourceVersion": ""}])
def test_a_watch_without_a_version_begins_with_everything(
    server: Server, path: str, query: dict[str, Any]
) -> None:
    events = server.watch(path, **query)
    server.same(seen(events), [("ADDED", "first"), ("ADDED", "second")])


def test_a_write_that_changes_nothing_is_no_event(server: Server, path: str) -> None:
    version = server.version(path)
    server.merge(f"{path}/first", {"spec": {"name": "etcd"}})
    server.merge(f"{path}/first", {})
    server.same(server.watch(path, resourceVersion=version), [])


def test_a_dry_run_is_no_event(server: Server, path: str) -> None:
    version = server.version(path)
    server.made(path, subscription("third"), dryRun="All")
    server.call("DELETE", f"{path}/first", dryRun="All")
    server.same(server.watch(path, resourceVersion=version), [])


def test_a_status_write_is_an_event(server: Server, path: str) -> None:
    version = server.version(path)
    status = {"status": {"state": "AtLatestKnown", "lastUpdated": "2026-01-02T03:04:05Z"}}
    server.merge(f"{path}/first/status", status)
    [event] = server.watch(path, resourceVersion=version)
    server.same((event["type"], event["object"]["status"]), ("MODIFIED", status["status"]))


def test_a_watch_goes_on_from_any_event_it_told(server: Server, path: str) -> None:
    version = server.version(path)
    for number in range(4):
        server.merge(f"{path}/first", {"spec": {"channel": f"c{number}"}})
    everything = server.watch(path, resourceVersion=version)
    server.same(len(everything), 4)
    for index, event in enumerate(everything):
        at = event["object"]["metadata"]["resourceVersion"]
        rest = server.watch(path, resourceVersion=at)
        server.same(rest, everything[index + 1 :])


def test_a_watch_sees_only_its_namespace(server: Server, path: str, ns: str) -> None:
    everywhere = "/apis/operators.coreos.com/v1alpha1/subscriptions"
    version = server.version(path)
    other = f"{ns}-other"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}
    server.made("/api/v1/namespaces", namespace)
    server.made(SUBSCRIPTIONS.format(other), subscription("elsewhere"))
    server.same(server.watch(path, resourceVersion=version), [])
    events = server.watch(everywhere, resourceVersion=version)
    server.same(seen(events), [("ADDED", "elsewhere")])


# --- selectors


def test_an_object_that_enters_or_leaves_a_selection_is_added_or_deleted(
    server: Server, path: str
) -> None:
    version = server.version(path)
    for team in ("blue", "blue-2", "blue", "red", "blue"):
        server.merge(f"{path}/first", {"metadata": {"labels": {"team": team}}})
    server.merge(f"{path}/first", {"spec": {"channel": "x"}})
    events = server.watch(path, resourceVersion=version, labelSelector="team=blue")
    server.same(
        [kind for kind, _name in seen(events)],
        ["ADDED", "DELETED", "ADDED", "DELETED", "ADDED", "MODIFIED"],
    )
    server.same({name for _kind, name in seen(events)}, {"first"})


def test_an_object_that_left_is_told_as_it_was_with_the_version_of_now(
    server: Server, path: str
) -> None:
    version = server.version(path)
    changed = server.merge(f"{path}/first", {"metadata": {"labels": {"team": "gone"}}}).body
    [event] = server.watch(path, resourceVersion=version, labelSelector="team=red")
    metadata = event["object"]["metadata"]
    server.same((event["type"], metadata["labels"]), ("DELETED", {"team": "red"}))
    server.same(metadata["resourceVersion"], changed["metadata"]["resourceVersion"])


def test_the_delete_of_an_object_outside_the_selection_is_no_event(
    server: Server, path: str
) -> None:
    version = server.version(path)
    server.call("DELETE", f"{path}/second")
    server.same(server.watch(path, resourceVersion=version, labelSelector="team=red"), [])


def test_a_watch_of_one_object_by_name(server: Server, path: str) -> None:
    version = server.version(path)
    server.merge(f"{path}/first", {"spec": {"channel": "x"}})
    server.merge(f"{path}/second", {"spec": {"channel": "x"}})
    selector = "metadata.name=second"
    events = server.watch(path, resourceVersion=version, fieldSelector=selector)
    server.same(seen(events), [("MODIFIED", "second")])
    server.same(seen(server.watch(path, fieldSelector=selector)), [("ADDED", "second")])


# --- bookmarks and the first events


def test_a_bookmark_comes_before_the_end_and_a_watch_goes_on_from_it(
    server: Server, path: str, name: str
) -> None:
    query = {"allowWatchBookmarks": "true", "timeoutSeconds": 4}
    events = server.follow(path, resourceVersion=server.version(path), **query)
    server.made(path, subscription("third"))
    server.same(seen([next(events)]), [("ADDED", "third")])
    # A real server tells a bookmark only when it knows of a newer version: of another kind's
    # write it hears through a list.
    server.made(EXTENSIONS, extension(name))
    version = server.version(path)
    mark = next(events)
    newest = mark["object"]["metadata"].pop("resourceVersion")
    expected = {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription"}
    server.same(mark, {"type": "BOOKMARK", "object": {**expected, "metadata": {}}})
    server.same(int(newest) >= int(version), True)
    server.same({event["type"] for event in events} <= {"BOOKMARK"}, True)
    server.same(server.watch(path, resourceVersion=newest), [])


def test_there_is_no_bookmark_without_asking(server: Server, path: str) -> None:
    version = server.version(path)
    server.same(server.watch(path, resourceVersion=version, timeoutSeconds=3), [])


def test_the_first_events_end_with_a_marked_bookmark(server: Server, path: str) -> None:
    query = FROM_THE_START | {"allowWatchBookmarks": "true"}
    *events, mark = server.watch(path, **query)
    server.same(seen(events), [("ADDED", "first"), ("ADDED", "second")])
    server.same(mark["type"], "BOOKMARK")
    server.same(mark["object"]["metadata"]["annotations"], {"k8s.io/initial-events-end": "true"})
    version = mark["object"]["metadata"]["resourceVersion"]
    server.same(server.watch(path, resourceVersion=version), [])


def test_the_first_events_follow_the_selection(server: Server, path: str) -> None:
    query = FROM_THE_START | {"labelSelector": "team=blue"}
    server.same(seen(server.watch(path, **query)), [("ADDED", "second")])


@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        (
            {"watch": "true", "sendInitialEvents": "true"},
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            {"watch": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "5"},
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (
            {"sendInitialEvents": "true"},
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        ),
    ],
)
def test_options_that_exclude_each_other_are_422(
    server: Server, path: str, query: dict[str, str], field: str, message: str
) -> None:
    expected = cause("FieldValueForbidden", f"Forbidden: {message}", field)
    text = f'ListOptions.meta.k8s.io "" is invalid: {field}: Forbidden: {message}'
    details = about("", "meta.k8s.io", "ListOptions", expected)
    server.refused(server.get(path, timeoutSeconds=1, **query), 422, "Invalid", text, details)


# --- ends


def test_a_watch_ends_cleanly_when_its_time_is_over(server: Server, path: str) -> None:
    version = server.version(path)
    answer = server.get(path, watch="true", resourceVersion=version, timeoutSeconds=1)
    server.same((answer.status, answer.data), (200, b""))
    server.same(answer.headers["Content-Type"], "application/json")
    server.same(answer.headers["Transfer-Encoding"], "chunked")


def test_events_come_while_the_watch_is_open(server: Server, path: str) -> None:
    events = server.follow(path, resourceVersion=server.version(path))
    # The request goes out with the first `next`: what is written before is told as well.
    server.made(path, subscription("third"))
    server.same(seen([next(events)]), [("ADDED", "third")])
    server.call("PATCH", f"{path}/third", {"spec": {"channel": "x"}}, type=MERGE)
    server.same(seen([next(events)]), [("MODIFIED", "third")])
    server.call("DELETE", f"{path}/third")
    server.same(seen([next(events)]), [("DELETED", "third")])
    events.close()


def test_a_version_that_is_too_old_is_an_error_event_with_status_200(
    server: Server, path: str
) -> None:
    # Both forms are one: the answer has begun when the server finds out.
    [event] = server.watch(path, resourceVersion="1")
    text = event["object"].pop("message")
    server.same(
        event,
        {
            "type": "ERROR",
            "object": {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "reason": "Expired",
                "code": 410,
            },
        },
    )
    server.same(text.split("(")[0], "too old resource version: 1 ")


def test_a_version_of_before_the_compaction_is_an_error_event(server: Server, path: str) -> None:
    version = server.version(path)
    for number in range(3):
        server.merge(f"{path}/first", {"spec": {"channel": f"c{number}"}})
    server.forget()
    [event] = server.uncached().watch(path, resourceVersion=version)
    server.same(event["type"], "ERROR")
    item = event["object"]
    # The texts differ between the real server's watch cache and its etcd, so neither is asserted.
    server.same((item["kind"], item["code"], item["reason"]), ("Status", 410, "Expired"))


def test_a_version_of_the_future_waits_for_it(server: Server, path: str) -> None:
    server.same(server.watch(path, resourceVersion="99999999"), [])


def test_a_version_that_is_no_number_is_refused_before_the_stream(
    server: Server, path: str
) -> None:
    text = 'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'
    answer = server.get(path, watch="true", resourceVersion="abc")
    server.refused(answer, 500, "", text)


def test_selectors_are_refused_before_the_stream(server: Server, path: str) -> None:
    answer = server.get(path, watch="true", fieldSelector="spec.x=1")
    server.refused(answer, 400, "BadRequest", "field label not supported: spec.x")


def test_one_object_is_not_watched_but_read(server: Server, path: str) -> None:
    answer = server.get(f"{path}/first", watch="true", timeoutSeconds=1)
    server.same((answer.status, answer.body["metadata"]["name"]), (200, "first"))


def test_a_cluster_scoped_kind_is_watched_the_same_way(server: Server, name: str) -> None:
    version = server.version(EXTENSIONS)
    server.made(EXTENSIONS, extension(name))
    server.same(seen(server.watch(EXTENSIONS, resourceVersion=version)), [("ADDED", name)])


@pytest.mark.parametrize("path", ["/api/v1/namespaces"])
def test_a_built_in_kind_is_watched_the_same_way(server: Server, path: str, name: str) -> None:
    version = server.version(path)
    server.made(path, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    events = server.watch(path, resourceVersion=version)
    server.same(seen(events), [("ADDED", name)])
    server.same(
        (events[0]["object"]["kind"], events[0]["object"]["apiVersion"]), ("Namespace", "v1")
    )
