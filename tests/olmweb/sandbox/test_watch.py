"""The sandbox's own part of watches: how often bookmarks come, and the end of the server."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import urllib3

from olmweb.sandbox.cluster import Sandbox
from tests.olmweb.sandbox.conftest import OPERATORS, Client, operator


def watch(client: Client, query: str, path: str = OPERATORS) -> Iterator[dict[str, Any]]:
    """Events until the server ends the stream."""
    answer = client.raw("GET", f"{path}?watch=true&{query}", preload_content=False)
    rest = b""
    for piece in answer.stream(65536):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield json.loads(line)
    assert rest == b""


def test_the_controllers_moves_are_told(sandbox: Sandbox, client: Client) -> None:
    version = client.get(OPERATORS)["metadata"]["resourceVersion"]
    sandbox.store.put(operator("new", "no-such"))
    events = list(watch(client, f"resourceVersion={version}&timeoutSeconds=1"))
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED"]


def test_bookmarks_come_regularly_and_know_of_other_kinds(sandbox: Sandbox, client: Client) -> None:
    version = client.get(OPERATORS)["metadata"]["resourceVersion"]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other-kind"}}
    sandbox.store.put(namespace)
    query = f"resourceVersion={version}&timeoutSeconds=1&allowWatchBookmarks=true"
    marks = [event for event in watch(client, query) if event["type"] == "BOOKMARK"]
    assert len(marks) >= 3
    assert int(marks[-1]["object"]["metadata"]["resourceVersion"]) > int(version)


def test_a_watch_that_is_open_goes_on_after_a_compaction(sandbox: Sandbox, client: Client) -> None:
    version = client.get(OPERATORS)["metadata"]["resourceVersion"]
    events = watch(client, f"resourceVersion={version}&timeoutSeconds=5")
    sandbox.store.put(operator("first", "no-such"))
    assert next(events)["object"]["metadata"]["name"] == "first"
    sandbox.store.compact()
    sandbox.store.put(operator("second", "no-such"))
    names = [next(events)["object"]["metadata"]["name"] for _ in range(2)]
    assert "second" in names


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
