"""Open pages are told of changes: by the server around any application, with a feed of the test."""

import asyncio
import json
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import pytest

from olmweb.serving import streams
from olmweb.serving.bridge import ThreadedWsgi
from olmweb.serving.streams import EventStreams, Hub, Pace
from tests.olmweb.serving.serving import BODY_LIMIT, connect, get, read_all, serving


class FeedOfTheTest:
    """Says what the test puts into `changed`; counts."""

    synced = '{"prod": "2026-01-01T00:00:00+00:00"}'
    clusters = 1

    def __init__(self) -> None:
        self.changed: set[str] = set()
        self.failing = False
        self.asked: list[set[str]] = []
        self.closed = 0

    def read(self, topics: set[str]) -> set[str] | None:
        self.asked.append(topics)
        if self.failing:
            return None
        changed, self.changed = self.changed, set()
        return changed

    def close(self) -> None:
        self.closed += 1


def page(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Refuses a query with "no"."""
    refused = "no" in environ["QUERY_STRING"]
    start_response(
        "403 Forbidden" if refused else "200 OK", [("Content-Type", "text/event-stream")]
    )
    yield b"retry: 3000\n\n"


class Client:
    """One open page."""

    def __init__(self, port: int, *topics: str) -> None:
        query = "&".join(f"of={topic}" for topic in topics)
        head = f"GET /events/?{query} HTTP/1.1\r\nHost: x\r\n\r\n"
        self.socket = connect(port, head.encode())
        self.text = b""

    def events(self, seconds: float) -> list[str]:
        """The names of the events that arrive within these seconds."""
        before = self.text.count(b"event: ")
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                part = self.socket.recv(65_536)
            except TimeoutError:
                break
            if not part:
                break
            self.text += part
        names = [line[7:].decode() for line in self.text.splitlines() if line[:7] == b"event: "]
        return names[before:]


@pytest.fixture
def feed() -> FeedOfTheTest:
    return FeedOfTheTest()


@pytest.fixture
def port(feed: FeedOfTheTest, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    settings.TRUSTED_PROXIES = []
    monkeypatch.setattr(streams, "READ_SECONDS", 0.02)
    pages = ThreadedWsgi(page, 2, BODY_LIMIT)
    with serving(EventStreams(pages, Hub(feed, lambda: pages.busy_seconds))) as port:
        yield port


def wait_for(condition: Any, seconds: float = 3) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(condition())


def test_a_page_is_told_when_one_of_its_topics_changed(port: int, feed: FeedOfTheTest) -> None:
    one, other = Client(port, "clusters", "actions"), Client(port, "catalogs")
    # Both are told once: what they show may be older than the first reading.
    assert one.events(0.3) == other.events(0.1) == ["changed"]
    assert b"Transfer-Encoding: chunked" in one.text
    assert b"retry: 3000\n\n" in one.text
    feed.changed = {"actions"}
    assert one.events(0.3) == ["changed"]
    data = [json.loads(line[6:]) for line in one.text.splitlines() if line[:6] == b"data: "]
    assert [entry["of"] for entry in data] == [["actions", "clusters"], ["actions"]]
    assert data[1]["synced"] == {"prod": "2026-01-01T00:00:00+00:00"}
    assert other.events(0.1) == []
    assert {"clusters", "actions", "catalogs"} in feed.asked
    one.socket.close()
    other.socket.close()


def test_nothing_is_read_while_no_page_is_open(port: int, feed: FeedOfTheTest) -> None:
    assert b" 200 " in get(port)
    time.sleep(0.1)
    assert feed.asked == []
    with closing(Client(port, "clusters").socket):
        assert wait_for(lambda: feed.asked)
    assert wait_for(lambda: feed.closed == 1)
    asked = len(feed.asked)
    time.sleep(0.1)
    assert len(feed.asked) == asked
    with closing(Client(port, "clusters").socket):  # and again for the next page
        assert wait_for(lambda: len(feed.asked) > asked)


def test_a_new_page_is_not_told_before_a_reading_succeeded(port: int, feed: FeedOfTheTest) -> None:
    feed.failing = True
    client = Client(port, "clusters")
    assert client.events(0.2) == []
    feed.failing = False
    assert client.events(0.2) == ["changed"]
    client.socket.close()


def test_a_quiet_page_gets_a_heartbeat(
    port: int, feed: FeedOfTheTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.2)
    client = Client(port, "clusters")
    events = client.events(0.9)
    assert events[0] == "changed"
    assert 2 <= events.count("synced") <= 4
    client.socket.close()


def test_a_stream_ends_after_its_lifetime(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LIFETIME_SECONDS", 0.2)
    client = Client(port, "clusters")
    client.socket.settimeout(5)
    while not client.text.endswith(b"0\r\n\r\n"):  # the last chunk: the browser connects again
        part = client.socket.recv(65_536)
        assert part
        client.text += part
    client.socket.close()


def test_a_refused_page_gets_the_refusal_and_no_events(port: int, feed: FeedOfTheTest) -> None:
    assert b" 403 " in get(port, "/events/?of=no").partition(b"\r\n")[0]
    assert feed.asked == []


def test_more_open_pages_than_the_limit_are_refused(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "STREAMS", 2)
    held = [Client(port, "clusters") for _ in range(2)]
    for client in held:
        assert client.events(0.2) == ["changed"]
    assert b" 503 " in get(port, "/events/?of=clusters").partition(b"\r\n")[0]
    held[0].socket.close()
    assert wait_for(lambda: _opens(port))
    held[1].socket.close()


def _opens(port: int) -> bool:
    client = Client(port, "clusters")
    with closing(client.socket):
        client.events(0.1)
        return client.text.startswith(b"HTTP/1.1 200")


def test_open_pages_do_not_delay_the_end(feed: FeedOfTheTest, settings: Any) -> None:
    settings.TRUSTED_PROXIES = []
    pages = ThreadedWsgi(page, 2, BODY_LIMIT)
    with serving(EventStreams(pages, Hub(feed, lambda: 0.0)), grace=20) as port:
        held = [Client(port, "clusters") for _ in range(20)]
        assert wait_for(lambda: feed.asked)
        time.sleep(0.2)
        started = time.monotonic()
    assert time.monotonic() - started < 3
    for client in held:
        assert b"HTTP/1.1 200" in read_all(client.socket)
        client.socket.close()


def test_a_page_that_waits_for_its_turn_is_told_once(
    feed: FeedOfTheTest, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty pages of a cluster that changes all the time, on a process that is busy."""
    settings.TRUSTED_PROXIES = []
    monkeypatch.setattr(streams, "READ_SECONDS", 0.02)
    monkeypatch.setattr(streams, "WAIT_SECONDS", 0.05)
    busy = [0.0]

    def busier() -> float:
        busy[0] += 10
        return busy[0]

    with serving(EventStreams(ThreadedWsgi(page, 2, BODY_LIMIT), Hub(feed, busier))) as port:
        clients = [Client(port, "clusters") for _ in range(20)]
        told = [0] * 20
        end = time.monotonic() + 1.2
        while time.monotonic() < end:
            feed.changed = {"clusters"}
            told = [
                count + len(one.events(0.001)) for count, one in zip(told, clients, strict=True)
            ]
        assert 10 <= sum(told) <= 26  # one each 0.05 s at most, also under the highest load
        assert max(told) - min(told) <= 1  # in turn
        for client in clients:
            client.socket.close()


def test_a_page_of_many_clusters_is_told_more_rarely_than_a_page_of_one_of_them(
    port: int, feed: FeedOfTheTest
) -> None:
    feed.clusters = 10  # a page of all of them is told every 0.5 s
    every, single = Client(port, "clusters"), Client(port, "cluster-1")
    assert every.events(0.2) == single.events(0.1) == ["changed"]
    counts = [0, 0]
    for _ in range(10):
        feed.changed = {"clusters", "cluster-1"}
        counts[0] += len(every.events(0.05))
        counts[1] += len(single.events(0.05))
    assert 1 <= counts[0] <= 3
    assert counts[1] >= 5
    feed.changed = {"clusters"}
    assert "changed" in every.events(0.8)  # the last change of a pause
    every.socket.close()
    single.socket.close()


def test_the_pace_follows_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    now, busy = [100.0], [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    pace = Pace(lambda: busy[0])

    def told(seconds: float, cost: float) -> int:
        """Pages told in so many seconds; each keeps a thread busy for `cost` seconds."""
        count = 0
        for _ in range(round(seconds / 0.01)):
            now[0] += 0.01
            if pace.allows():
                count += 1
                busy[0] += cost
        return count

    assert told(10, 0) == 1000  # pages that cost nothing
    burst = told(0.2, 0.1)
    assert 5 <= burst <= 8
    rate = streams.LOAD / 0.1
    assert told(10, 0.1) == pytest.approx(10 * rate, rel=0.2)


def test_clients_that_take_nothing_delay_no_other(
    feed: FeedOfTheTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "READ_SECONDS", 0.02)
    monkeypatch.setattr(streams, "PACE_SECONDS", 0.001)
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(streams, "SEND_SECONDS", 2)
    blocks: list[bytes] = []
    sends = [0]

    async def never(*_: Any) -> Any:
        await asyncio.Event().wait()

    async def take_nothing(_: Any) -> None:
        sends[0] += 1
        await never()

    async def take(message: Any) -> None:
        blocks.append(message["body"])

    async def follow_all() -> None:
        hub = Hub(feed, lambda: 0.0)
        stuck = [
            asyncio.create_task(hub.follow(["clusters"], never, take_nothing)) for _ in range(5)
        ]
        await asyncio.sleep(0)
        other = asyncio.create_task(hub.follow(["clusters"], never, take))
        for _ in range(10):
            feed.changed = {"clusters"}
            await asyncio.sleep(0.05)
        assert b"".join(blocks).count(b"event: changed\n") >= 5
        before = len(blocks)
        await asyncio.sleep(0.5)
        assert any(b"event: synced" in block for block in blocks[before:])
        assert sends == [5], "one event at a time is sent to a client"
        assert await asyncio.gather(*stuck) == [False] * 5, "the server closes the connections"
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
        hub.close()

    asyncio.run(follow_all())


def test_a_client_that_takes_nothing_ends(
    port: int, feed: FeedOfTheTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "SEND_SECONDS", 0.1)
    monkeypatch.setattr(FeedOfTheTest, "synced", "x" * 3_000_000)
    stuck = Client(port, "clusters")
    stuck.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def ended() -> bool:
        feed.changed = {"clusters"}
        return feed.closed > 0

    assert wait_for(ended, 10)
    stuck.socket.close()
