"""One watch request on a scripted server: what it gives, how it ends, where it goes on."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from olmweb.kube import watch
from olmweb.kube.client import KubeClient
from olmweb.kube.errors import Broken, Forbidden, Gone, Unauthorized, Unreachable
from olmweb.kube.resources import PLATFORM_OPERATORS as PO
from olmweb.kube.resources import Served
from olmweb.kube.transport import TokenBucket
from olmweb.kube.watch import Watch, WatchEvent
from tests.kubefake import TOKEN, Answer, KubeFake, status_answer, watch_answer

PATH = "/apis/platform.openshift.io/v1alpha1/platformoperators"
SERVED = Served(PO, "v1alpha1")


def po(name: str, version: int, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)},
        **more,
    }


def bookmark(version: int) -> tuple[str, dict[str, Any]]:
    return "BOOKMARK", {"kind": "PlatformOperator", "metadata": {"resourceVersion": str(version)}}


def status(code: int, message: str = "because") -> tuple[str, dict[str, Any]]:
    return "ERROR", {"kind": "Status", "code": code, "message": message, "reason": "Moon"}


def start(client: KubeClient, position: str = "5", **more: Any) -> Watch:
    return Watch(client, SERVED, position, **{"seconds": 60, "silence": 5.0, **more})


def told(events: list[WatchEvent]) -> list[tuple[str, str]]:
    return [(event.type, event.resource_version) for event in events]


def read_until(error: type[Exception], stream: Watch) -> tuple[list[WatchEvent], Exception]:
    """The events before the error, and the error."""
    events: list[WatchEvent] = []
    with pytest.raises(error) as caught:
        events.extend(stream)
    return events, caught.value


def test_a_watch_asks_for_changes_since_its_position(fake: KubeFake, client: KubeClient) -> None:
    fake.script("GET", PATH, watch_answer())
    stream = start(client, "1234", seconds=77, label_selector="!a", field_selector="b=c")
    assert list(stream) == []
    (request,) = fake.requests
    assert request.query == {
        "watch": "1",
        "resourceVersion": "1234",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "77",
        "labelSelector": "!a",
        "fieldSelector": "b=c",
    }
    assert client.counts() == {("WATCH", "200"): 1}


def test_events_come_in_order_and_move_the_position(fake: KubeFake, client: KubeClient) -> None:
    fake.script(
        "GET",
        PATH,
        watch_answer(("ADDED", po("a", 6)), ("MODIFIED", po("a", 7)), ("DELETED", po("a", 9))),
    )
    stream = start(client)
    received = []
    for event in stream:
        assert stream.position == event.resource_version
        received.append(event)
    assert told(received) == [("ADDED", "6"), ("MODIFIED", "7"), ("DELETED", "9")]
    assert received[0].object["metadata"]["name"] == "a"
    assert stream.position == "9"


def test_a_bookmark_moves_the_position_and_the_next_watch_resumes_there(
    fake: KubeFake, client: KubeClient
) -> None:
    fake.script("GET", PATH, watch_answer(("ADDED", po("a", 6)), bookmark(40)), watch_answer())
    stream = start(client)
    assert told(list(stream)) == [("ADDED", "6"), ("BOOKMARK", "40")]
    list(start(client, stream.position))
    assert fake.requests[-1].query["resourceVersion"] == "40"


def test_fields_that_nobody_reads_are_dropped(fake: KubeFake, client: KubeClient) -> None:
    item = po("a", 6, spec={"package": {"name": "etcd"}, "junk": "x" * 1000})
    item["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    fake.script("GET", PATH, watch_answer(("ADDED", item)))
    (event,) = start(client)
    assert event.object["spec"] == {"package": {"name": "etcd"}}
    assert "managedFields" not in event.object["metadata"]


def test_an_object_nested_deeper_than_we_decode_is_an_event_like_any(
    fake: KubeFake, client: KubeClient
) -> None:
    deep = b"[" * 9_000 + b"]" * 9_000
    item = b'{"spec":{"junk":%s,"package":{"name":"etcd"}},"metadata":{"resourceVersion":"6"}}'
    line = b'{"type":"ADDED","object":%s}\n' % (item % deep)
    fake.script("GET", PATH, watch_answer(line, ("MODIFIED", po("b", 7))))
    first, second = start(client)
    assert first.object["spec"] == {"package": {"name": "etcd"}}
    assert second.resource_version == "7"


def test_an_event_arrives_while_the_stream_stays_open(fake: KubeFake, client: KubeClient) -> None:
    more = threading.Event()
    fake.script("GET", PATH, watch_answer(("ADDED", po("a", 6)), more, ("ADDED", po("b", 7))))
    events = iter(start(client))
    assert next(events).resource_version == "6"
    more.set()
    assert next(events).resource_version == "7"


def test_an_object_in_many_pieces_and_several_in_one_are_told_apart(
    fake: KubeFake, client: KubeClient
) -> None:
    big = json.dumps({"type": "ADDED", "object": po("a", 6, junk="ä" * 100_000)}).encode() + b"\n"
    two = b"".join(
        json.dumps({"type": "ADDED", "object": po("b", version)}).encode() + b"\n"
        for version in (7, 8)
    )
    cuts = [big[start : start + 30_000] for start in range(0, len(big), 30_000)]
    fake.script("GET", PATH, watch_answer(*cuts, b"\n", two))
    assert told(list(start(client))) == [("ADDED", "6"), ("ADDED", "7"), ("ADDED", "8")]


def test_silence_longer_than_the_limit_ends_the_watch(fake: KubeFake, client: KubeClient) -> None:
    never = threading.Event()
    fake.script("GET", PATH, watch_answer(("ADDED", po("a", 6)), never))
    stream = start(client, silence=0.2)
    began = time.monotonic()
    assert told(list(stream)) == [("ADDED", "6")]
    assert 0.15 < time.monotonic() - began < 2
    assert stream.position == "6"
    never.set()


def test_what_is_heard_now_and_then_does_not_count_as_silence(
    fake: KubeFake, client: KubeClient
) -> None:
    beats = [step for version in range(6, 12) for step in (0.1, bookmark(version))]
    fake.script("GET", PATH, watch_answer(*beats))
    stream = start(client, silence=0.3)
    assert len(list(stream)) == 6
    assert stream.position == "11"


def test_the_limit_is_longer_than_a_quiet_server_may_be() -> None:
    # kube-apiserver 1.36 sends the first bookmark of a watch after up to two minutes.
    assert watch.SILENCE > 125


@pytest.mark.parametrize("cut", [True, False])
def test_a_cut_in_the_middle_of_an_object_keeps_what_came_before(
    fake: KubeFake, client: KubeClient, cut: bool
) -> None:
    half = json.dumps({"type": "ADDED", "object": po("b", 7)}).encode()[:40]
    fake.script("GET", PATH, watch_answer(("ADDED", po("a", 6)), half, cut=cut))
    stream = start(client)
    events, error = read_until(Unreachable, stream)
    assert told(events) == [("ADDED", "6")]
    assert isinstance(error, Unreachable)
    assert error.reason == "cut"
    assert stream.position == "6"


def test_a_cut_between_two_objects_is_told_too(fake: KubeFake, client: KubeClient) -> None:
    fake.script("GET", PATH, watch_answer(("ADDED", po("a", 6)), cut=True))
    events, _ = read_until(Unreachable, start(client))
    assert told(events) == [("ADDED", "6")]


@pytest.mark.parametrize(
    "line",
    [
        b"<html>sign in</html>",
        b"[]",
        b'"ADDED"',
        b'{"type": "ADDED"}',
        b'{"type": "ADDED", "object": []}',
        b'{"type": "ADDED", "object": {"metadata": {}}}',
        b'{"type": "ADDED", "object": {"metadata": null}}',
        b'{"type": "ERROR", "object": 5}',
        b"\xff\xfe",
    ],
)
def test_a_line_that_is_no_event_is_told_and_keeps_the_position(
    fake: KubeFake, client: KubeClient, line: bytes
) -> None:
    fake.script("GET", PATH, watch_answer(("ADDED", po("a", 6)), line + b"\n"))
    stream = start(client)
    events, error = read_until(Broken, stream)
    assert told(events) == [("ADDED", "6")]
    assert "a line that is no event of a watch" in str(error)
    assert stream.position == "6"


def test_a_line_without_an_end_does_not_fill_the_memory(
    fake: KubeFake, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LINE_LIMIT", 100_000)
    fake.script("GET", PATH, watch_answer(*[b"x" * 50_000] * 4))
    with pytest.raises(Broken, match="a line that does not end"):
        list(start(client))


def test_an_unknown_type_of_event_is_skipped(
    fake: KubeFake, client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    fake.script("GET", PATH, watch_answer(("RENAMED", po("a", 6)), ("ADDED", po("b", 7))))
    assert told(list(start(client))) == [("ADDED", "7")]
    assert "unknown watch event" in caplog.text


@pytest.mark.parametrize(
    "answer",
    [
        watch_answer(status(410, "too old resource version: 5 (900)")),
        status_answer(410, "too old resource version: 5 (900)", "Expired"),
    ],
    ids=["event", "status"],
)
def test_a_position_that_is_too_old_is_gone_however_it_is_told(
    fake: KubeFake, client: KubeClient, answer: Answer
) -> None:
    fake.script("GET", PATH, answer)
    with pytest.raises(Gone, match="too old resource version"):
        list(start(client))


@pytest.mark.parametrize(
    ("code", "error"), [(403, Forbidden), (500, Broken), (401, Unauthorized), (None, Broken)]
)
def test_an_error_event_is_the_error_that_its_status_names(
    fake: KubeFake, client: KubeClient, code: Any, error: type[Exception]
) -> None:
    fake.script("GET", PATH, watch_answer(("ADDED", po("a", 6)), status(code)))
    events, caught = read_until(error, start(client))
    assert told(events) == [("ADDED", "6")]
    assert "because" in str(caught)


def test_a_refusal_is_its_error(fake: KubeFake, client: KubeClient) -> None:
    fake.script("GET", PATH, status_answer(403, "no right"))
    with pytest.raises(Forbidden, match="no right"):
        list(start(client))
    assert client.counts() == {("WATCH", "403"): 1}


def test_new_credentials_are_read_when_the_old_ones_are_refused(
    fake: KubeFake, client: KubeClient, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    text = kubeconfig.read_text()
    kubeconfig.write_text(text.replace(TOKEN, "the-next-token"))
    refused = status_answer(401, "Unauthorized")
    fake.script("GET", PATH, refused, watch_answer(("ADDED", po("a", 6))), watch_answer())
    assert told(list(start(client))) == [("ADDED", "6")]
    list(start(client))
    sent = [request.header("Authorization") for request in fake.requests]
    assert sent == [[f"Bearer {TOKEN}"], ["Bearer the-next-token"], ["Bearer the-next-token"]]


def test_credentials_that_are_refused_twice_are_told(
    fake: KubeFake, client: KubeClient, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kubeconfig.read_text().replace(TOKEN, "the-next-token"))
    refused = status_answer(401, "Unauthorized")
    fake.script("GET", PATH, refused, refused, watch_answer())
    with pytest.raises(Unauthorized):
        list(start(client))
    assert len(fake.requests) == 2


def test_the_same_credentials_are_not_tried_twice(fake: KubeFake, client: KubeClient) -> None:
    fake.script("GET", PATH, status_answer(401, "Unauthorized"), watch_answer())
    with pytest.raises(Unauthorized):
        list(start(client))
    assert len(fake.requests) == 1


@pytest.fixture
def quiet(fake: KubeFake) -> Iterator[None]:
    """The server says one thing, then nothing until the test is over."""
    over = threading.Event()
    fake.script("GET", PATH, watch_answer(("ADDED", po("a", 6)), over))
    yield
    over.set()


@pytest.mark.usefixtures("quiet")
def test_closing_from_another_thread_ends_the_watch_at_once(client: KubeClient) -> None:
    stream = start(client)
    events: list[WatchEvent] = []
    first = threading.Event()

    def read() -> None:
        for event in stream:
            events.append(event)
            first.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert first.wait(2)
    began = time.monotonic()
    stream.close()
    thread.join(2)
    assert not thread.is_alive()
    assert time.monotonic() - began < 0.5
    assert told(events) == [("ADDED", "6")]


@pytest.mark.usefixtures("quiet")
def test_a_watch_closed_before_it_is_read_gives_nothing_more(client: KubeClient) -> None:
    stream = start(client)
    stream.close()
    assert len(list(stream)) <= 1  # what had come already may still be told


def test_no_answer_at_all_is_unreachable(fake: KubeFake, client: KubeClient) -> None:
    fake.script("GET", PATH, Answer(drop=True), Answer(drop=True))
    with pytest.raises(Unreachable):
        list(start(client))


def test_streams_of_one_client_share_the_limit_of_the_cluster(
    fake: KubeFake, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    bucket = TokenBucket(10, 2, clock=lambda: 0.0, sleep=waits.append)
    monkeypatch.setattr(client.transport, "_limiter", bucket)
    fake.script("GET", PATH, *[watch_answer()] * 4)
    threads = [threading.Thread(target=list, args=(start(client),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(waits) == [0.1, 0.2]
