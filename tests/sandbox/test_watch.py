"""Watches: resume, bookmarks, selectors, the end of history and of the server."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import urllib3

from olmweb.sandbox.server import Sandbox
from tests.sandbox.conftest import OPERATORS, Client, operator


def watch(client: Client, query: str, path: str = OPERATORS) -> Iterator[dict[str, Any]]:
    """Events until the server ends the stream."""
    answer = client.raw("GET", f"{path}?watch=true&{query}", preload_content=False)
    rest = b""
    for piece in answer.stream(65536):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield json.loads(line)
    assert rest == b""


def test_a_watch_from_a_version_tells_only_what_came_after(
    sandbox: Sandbox, client: Client
) -> None:
    version = client.get(OPERATORS)["metadata"]["resourceVersion"]
    sandbox.store.put(operator("new", "no-such"))
    events = watch(client, f"resourceVersion={version}&timeoutSeconds=1")
    first = next(events)
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "new")
    assert int(first["object"]["metadata"]["resourceVersion"]) > int(version)
    types = [event["type"] for event in events]
    assert "ADDED" not in types
    assert "MODIFIED" in types  # the controller wrote its status


def test_a_watch_without_a_version_begins_with_everything(client: Client) -> None:
    events = list(watch(client, "timeoutSeconds=1"))
    assert [event["type"] for event in events] == ["ADDED"] * 69


def test_a_delete_is_told_with_the_last_state(sandbox: Sandbox, client: Client) -> None:
    version = client.get(OPERATORS)["metadata"]["resourceVersion"]
    sandbox.store.delete("PlatformOperator", "eap")
    event = next(watch(client, f"resourceVersion={version}&timeoutSeconds=1"))
    assert (event["type"], event["object"]["spec"]["package"]["name"]) == ("DELETED", "eap")


def test_bookmarks_carry_a_version_from_which_a_watch_can_go_on(
    sandbox: Sandbox, client: Client
) -> None:
    version = client.get(OPERATORS)["metadata"]["resourceVersion"]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other-kind"}}
    sandbox.store.put(namespace)
    query = f"resourceVersion={version}&timeoutSeconds=1&allowWatchBookmarks=true"
    marks = [event for event in watch(client, query) if event["type"] == "BOOKMARK"]
    newest = marks[-1]["object"]["metadata"]["resourceVersion"]
    assert int(newest) > int(version)
    assert list(watch(client, f"resourceVersion={newest}&timeoutSeconds=1")) == []


def test_a_version_older_than_the_history_is_an_error_event(
    sandbox: Sandbox, client: Client
) -> None:
    version = client.get(OPERATORS)["metadata"]["resourceVersion"]
    sandbox.store.delete("PlatformOperator", "eap")
    sandbox.store.compact()
    events = list(watch(client, f"resourceVersion={version}&timeoutSeconds=1"))
    assert [event["type"] for event in events] == ["ERROR"]
    assert (events[0]["object"]["code"], events[0]["object"]["reason"]) == (410, "Expired")


def test_an_object_that_stops_matching_is_deleted_for_the_watcher(
    sandbox: Sandbox, client: Client
) -> None:
    path = "/api/v1/namespaces"
    made = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "n", "labels": {"a": "1"}},
    }
    version = client.get(path)["metadata"]["resourceVersion"]
    sandbox.store.put(made)
    sandbox.store.put({**made, "metadata": {"name": "n", "labels": {"a": "2"}}})
    query = f"resourceVersion={version}&timeoutSeconds=1&labelSelector=a%3D1"
    assert [event["type"] for event in watch(client, query, path)] == ["ADDED", "DELETED"]


def test_stopping_the_sandbox_ends_an_open_watch_at_once(client: Client) -> None:
    ended = threading.Event()

    def follow() -> None:
        # Torn or clean, both are an end.
        with contextlib.suppress(urllib3.exceptions.HTTPError):
            for _event in watch(client, "timeoutSeconds=60"):
                pass
        ended.set()

    thread = threading.Thread(target=follow)
    thread.start()
    time.sleep(0.2)
    started = time.monotonic()
    client.sandbox.stop()
    assert ended.wait(3)
    thread.join()
    assert time.monotonic() - started < 3
    client.sandbox.stop()  # the fixture stops it once more: that must be harmless
