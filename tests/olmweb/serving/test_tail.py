"""Streams follow the log of events, which the test writes, by the server around any application."""

import asyncio
import json
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest

from olmweb.eventlog.read import Follow, Selection, StreamedEvent
from olmweb.models import ApiToken
from olmweb.serving import tail
from olmweb.serving.bridge import ThreadedWsgi
from olmweb.serving.readers import Reader
from olmweb.serving.streams import EventStreams, Hub
from olmweb.serving.tail import EventLog, Tail
from tests.olmweb.serving.serving import BODY_LIMIT, connect, get, serving
from tests.olmweb.serving.test_streams import FeedOfTheTest, wait_for

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class LogOfTheTest:
    """A log in memory that counts its readings."""

    def __init__(self) -> None:
        self.events: list[StreamedEvent] = []
        self.failing = False
        self.reads: list[int] = []
        self.closed = 0

    def add(self, number: int = 1, type_: str = "a") -> None:
        for _ in range(number):
            position = len(self.events) + 1
            block = b"id: %d\nevent: %s\ndata: {}\n\n" % (position, type_.encode())
            self.events.append(StreamedEvent(position, type_, "prod", NOW, block))

    def last(self) -> int | None:
        return None if self.failing else len(self.events)

    def read(
        self, after: int, limit: int, selection: Selection | None = None
    ) -> Sequence[StreamedEvent] | None:
        self.reads.append(after)
        matches = [
            event for event in self.events[after:] if selection is None or selection.matches(event)
        ]
        return None if self.failing else matches[:limit]

    def close(self) -> None:
        self.closed += 1


def all_may_read(_: Set[Reader]) -> Set[Reader]:
    return frozenset()


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Follows the types of the query after the number in Last-Event-ID; a list without one."""
    last = environ.get("HTTP_LAST_EVENT_ID")
    if last is None:
        start_response("200 OK", [("Content-Type", "application/json")])
        return [b"[]"]
    types = tuple(part for part in environ["QUERY_STRING"].split("&") if part)
    follow = Follow(int(last), Selection(types)).encode()
    start_response("200 OK", [("Content-Type", "text/event-stream"), ("Olmweb-Follow", follow)])
    return [b"retry: 3000\n\n"]


class Client:
    """A reader of the stream."""

    def __init__(self, port: int, last: int = 0, query: str = "", headers: str = "") -> None:
        headers = f"Host: x\r\nLast-Event-ID: {last}\r\n{headers}"
        head = f"GET /api/v1/events?{query} HTTP/1.1\r\n{headers}\r\n"
        self.socket = connect(port, head.encode())
        self.text = b""
        self.ended = False

    def ids(self, number: int, seconds: float = 20) -> list[int]:
        """The ids received so far, at least `number` unless the time is over."""
        end = time.monotonic() + seconds
        while len(self._ids()) < number and not self.ended:
            self.socket.settimeout(max(0.01, end - time.monotonic()))
            try:
                part = self.socket.recv(65_536)
            except TimeoutError:
                break
            self.ended = not part
            self.text += part
        return self._ids()

    def _ids(self) -> list[int]:
        # The last line may be incomplete.
        lines = self.text.split(b"\n")[:-1]
        return [int(line[4:]) for line in lines if line.startswith(b"id: ")]


@pytest.fixture
def log() -> LogOfTheTest:
    return LogOfTheTest()


@pytest.fixture
def port(log: LogOfTheTest, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    settings.TRUSTED_PROXIES = []
    monkeypatch.setattr(tail, "READ_SECONDS", 0.02)
    monkeypatch.setattr(tail, "RETRY_SECONDS", 0.02)
    pages = ThreadedWsgi(application, 2, BODY_LIMIT)
    streams = EventStreams(pages, Hub(FeedOfTheTest(), lambda: pages.busy_seconds))
    with serving(EventLog(streams, pages, Tail(log, all_may_read))) as port:
        yield port


def test_a_reader_that_is_behind_gets_everything_once_and_then_what_happens(
    port: int, log: LogOfTheTest
) -> None:
    log.add(1700)
    with closing((client := Client(port, 3)).socket):
        assert client.ids(1697) == list(range(4, 1701))
        log.add(5)
        assert client.ids(1702) == list(range(4, 1706))
        assert b"Transfer-Encoding: chunked" in client.text
        assert b"olmweb-follow" not in client.text.lower()


def test_a_filter_holds_for_old_and_new_events(port: int, log: LogOfTheTest) -> None:
    for _ in range(600):
        log.add(1, "a")
        log.add(1, "b")
    with closing((client := Client(port, query="b")).socket):
        assert client.ids(600) == list(range(2, 1201, 2))
        log.add(1, "a")
        log.add(1, "b")
        assert client.ids(601)[-1] == 1202


def test_one_reading_serves_all_streams_and_a_stream_at_rest_costs_none(
    port: int, log: LogOfTheTest
) -> None:
    log.add(10)
    clients = [Client(port, 10) for _ in range(20)]
    assert wait_for(lambda: len(log.reads) > 3)
    before = len(log.reads)
    started = time.monotonic()
    time.sleep(0.4)
    # One reader for all: as many readings as one stream would cause.
    assert len(log.reads) - before <= (time.monotonic() - started) / 0.02 + 2
    log.add(3)
    for client in clients:
        assert client.ids(3) == [11, 12, 13]
        client.socket.close()
    assert wait_for(lambda: log.closed == 1)
    reads = len(log.reads)
    time.sleep(0.1)
    assert len(log.reads) == reads


def test_a_list_at_the_same_address_is_answered_at_once(port: int) -> None:
    assert get(port, "/api/v1/events").endswith(b"[]")


def test_a_silent_stream_sends_comments(
    port: int, log: LogOfTheTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "HEARTBEAT_SECONDS", 0.1)
    with closing((client := Client(port)).socket):
        client.ids(1, 0.5)
        assert client.text.count(b": heartbeat\n\n") >= 2
        log.add()
        assert client.ids(1) == [1]


def test_streams_go_on_when_the_database_is_back(port: int, log: LogOfTheTest) -> None:
    log.add(2)
    with closing((client := Client(port, 2)).socket):
        assert wait_for(lambda: log.reads)
        log.failing = True
        with closing((late := Client(port, 0)).socket):
            log.add(2)
            assert client.ids(1, 0.2) == late.ids(1, 0.2) == []
            log.failing = False
            assert client.ids(2) == [3, 4]
            assert late.ids(4) == [1, 2, 3, 4]


def test_more_streams_than_the_limit_are_refused(
    port: int, log: LogOfTheTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "STREAMS", 2)
    clients = [Client(port), Client(port)]
    assert wait_for(lambda: log.reads)
    refused = get(port, "/api/v1/events", "Last-Event-ID: 0\r\n")
    assert b" 503 " in refused.partition(b"\r\n")[0]
    assert json.loads(refused.rpartition(b"\r\n")[2])["error"]["code"] == "busy"
    clients[0].socket.close()
    log.add()
    assert wait_for(lambda: b" 200 " in _head(port))
    clients[1].socket.close()


def _head(port: int) -> bytes:
    with closing((client := Client(port)).socket):
        client.ids(1, 0.3)
        return client.text.partition(b"\r\n")[0]


def test_a_stream_ends_after_its_lifetime(
    port: int, log: LogOfTheTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "LIFETIME_SECONDS", 0.2)
    with closing((client := Client(port)).socket):
        client.ids(1, 3)
        assert client.text.endswith(b"0\r\n\r\n"), "the response ended"


def test_a_stream_ends_when_its_reader_may_not_read_any_more(
    log: LogOfTheTest, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TRUSTED_PROXIES = []
    monkeypatch.setattr(tail, "READ_SECONDS", 0.02)
    monkeypatch.setattr(tail, "CHECK_SECONDS", 0.2)
    checks: list[Set[Reader]] = []
    ended: set[Reader] = set()

    def ended_of(readers: Set[Reader]) -> Set[Reader]:
        checks.append(readers)
        return ended

    pages = ThreadedWsgi(application, 2, BODY_LIMIT)
    streams = EventStreams(pages, Hub(FeedOfTheTest(), lambda: 0.0))
    with serving(EventLog(streams, pages, Tail(log, ended_of))) as port:
        close = "Connection: close\r\n"
        signed_in = Client(port, headers=f"Cookie: a=1; olmweb_session=abc\r\n{close}")
        bearers = [f"Authorization: Bearer {name}\r\n{close}" for name in "xyy"]
        clients = [Client(port, headers=headers) for headers in bearers]
        readers = {Reader(session="abc"), *(Reader(token=ApiToken.hash(name)) for name in "xy")}
        assert wait_for(lambda: checks and checks[-1] == readers, 20)
        before, started = len(checks), time.monotonic()
        log.add(2)
        assert clients[0].ids(2) == [1, 2]
        ended |= {Reader(token=ApiToken.hash("y")), Reader(session="abc")}
        for client in (signed_in, *clients[1:]):
            client.ids(9)
            assert client.text.endswith(b"0\r\n\r\n"), "the response ended"
            client.socket.close()
        log.add()
        assert clients[0].ids(3) == [1, 2, 3]
        # One check for all, however many readings and streams there are.
        assert len(checks) - before <= (time.monotonic() - started) / tail.CHECK_SECONDS + 1
        clients[0].socket.close()


def test_a_client_that_takes_nothing_is_given_up_and_delays_no_other(
    log: LogOfTheTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "READ_SECONDS", 0.02)
    monkeypatch.setattr(tail, "SEND_SECONDS", 0.3)
    log.add(700)
    blocks: list[bytes] = []

    async def never(*_: Any) -> Any:
        await asyncio.Event().wait()

    async def take(message: Any) -> None:
        blocks.append(message["body"])

    async def follow_both() -> bool:
        streams = Tail(log, all_may_read)
        other = asyncio.create_task(streams.follow(Follow(0, Selection()), Reader(), never, take))
        is_complete = await streams.follow(Follow(0, Selection()), Reader(), never, never)
        assert b"".join(blocks).count(b"id: ") == 700
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
        streams.close()
        return is_complete

    assert not asyncio.run(follow_both()), "the server closes the connection"
