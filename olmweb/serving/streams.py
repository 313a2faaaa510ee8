"""Server-sent events, the side of the event loop: responses that stay open and tell of changes.

The answer of a page to an event is the request of a whole fragment. So events are paced by the load
that they make: a few pages are told at once, and of many pages that show the same busy cluster one
after the other. A page that waits for its turn is told once, however much has changed meanwhile.
A page of all clusters changes with each of them, so it waits longer the more clusters there are.
"""

import asyncio
import json
import math
import random
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import parse_qs

import structlog

from olmweb.serving import http_metrics
from olmweb.serving.bridge import Headers, Receive, Scope, Send, ThreadedWsgi, send_response

log = structlog.get_logger(__name__)

PATH = "/events/"
ALL_CLUSTERS = "clusters"  # topic of a page of all clusters
FOLLOWS = "olmweb.follows"  # in the scope of another request whose response is a stream
READ_SECONDS = 0.15  # between two readings of the feed
PACE_SECONDS = 0.025  # between two pages that are told
LOAD = 0.25  # threads that may be busy on average when a page is told
CLUSTER_SECONDS = 0.05  # between two events of a page of all clusters, for each cluster
BURST_SECONDS = 0.5  # time of threads that may be used at once after a calm
WAIT_SECONDS = 0.5  # between two pages that are told under a higher load
HEARTBEAT_SECONDS = 15.0  # proxies end a response that is silent for 30 s or longer
LIFETIME_SECONDS = 600.0  # then the browser connects again, and its right to read is checked again
SEND_SECONDS = 1.0  # for a client to take one event
STREAMS = 2000  # of one process


class Feed(Protocol):
    """What the hub tells of; both methods are called in one thread of its own."""

    synced: str  # JSON: cluster name -> ISO time of its last complete pass
    clusters: int  # how many there are

    def read(self, topics: set[str]) -> set[str] | None:
        """Those of the topics that changed since the last reading; None when it failed."""

    def close(self) -> None:
        """Called when no page is open any more."""


@dataclass(slots=True, eq=False)
class Stream:
    """An open page. `last_at` is the time of its last event, `changed_at` that of its last
    `changed`."""

    topics: frozenset[str]
    send: Send
    limit: asyncio.Timeout | None = None
    last_at: float = field(default_factory=time.monotonic)
    changed_at: float = -math.inf
    sending: asyncio.Task[None] | None = None  # one event at a time
    stuck: bool = False


class Pace:
    """Whether one more page may be told, by the time for which threads were busy so far."""

    def __init__(self, busy_seconds: Callable[[], float]) -> None:
        self._busy_seconds = busy_seconds
        self._seen = busy_seconds()  # as of the last look
        self._at = self._told = time.monotonic()
        self._left = BURST_SECONDS

    def allows(self) -> bool:
        busy, now = self._busy_seconds(), time.monotonic()
        left = self._left + LOAD * (now - self._at) - (busy - self._seen)
        self._left = min(BURST_SECONDS, max(-BURST_SECONDS, left))
        self._seen, self._at = busy, now
        if self._left < 0 and now - self._told < WAIT_SECONDS:
            return False
        self._told = now
        return True


class Hub:
    """The open pages of this process. Used in the event loop only.

    `busy_seconds` returns the time for which all threads together were busy so far.
    """

    def __init__(self, feed: Feed, busy_seconds: Callable[[], float]) -> None:
        self._feed = feed
        self._pace = Pace(busy_seconds)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="events")
        self._streams: set[Stream] = set()
        self._new: set[Stream] = set()  # not told yet
        # With the topics that changed for each, in the order of their turns.
        self._due: dict[Stream, set[str]] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def full(self) -> bool:
        return len(self._streams) >= STREAMS

    async def follow(self, topics: Iterable[str], receive: Receive, send: Send) -> bool:
        """Sends events until the client goes away or the lifetime ends; False when the client took
        none. A new page is told once: what it shows may be older than the first reading."""
        stream = Stream(frozenset(topics), send)
        lifetime = LIFETIME_SECONDS * random.uniform(0.8, 1)  # noqa: S311 - spreads reconnections
        with suppress(TimeoutError):
            async with asyncio.timeout(lifetime) as stream.limit:
                self._streams.add(stream)
                self._new.add(stream)
                if self._task is None:
                    self._task = asyncio.create_task(self._run())
                try:
                    while (await receive())["type"] != "http.disconnect":
                        pass
                finally:
                    self._streams.discard(stream)
                    self._new.discard(stream)
                    self._due.pop(stream, None)
                    if stream.sending is not None:
                        stream.sending.cancel()
                        stream.stuck = True
        return not stream.stuck

    def close(self) -> None:
        """Ends reading; the server ends the connections."""
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        """Reads and tells while a page is open."""
        while self._streams:
            try:
                await self._read()
                await self._tell()
            except Exception:
                log.exception("telling open pages failed")
                await asyncio.sleep(READ_SECONDS)
        self._task = None  # in one step with the last look at the streams
        await asyncio.get_running_loop().run_in_executor(self._thread, self._feed.close)

    async def _read(self) -> None:
        new = set(self._new)
        topics = {topic for stream in self._streams for topic in stream.topics}
        loop = asyncio.get_running_loop()
        changed = await loop.run_in_executor(self._thread, self._feed.read, topics)
        if changed is None:
            return
        self._new -= new
        for stream in self._streams:
            of = stream.topics if stream in new else changed & stream.topics
            if of:
                self._due.setdefault(stream, set()).update(of)

    async def _tell(self) -> None:
        """Tells pages in their order until the next reading, and sends heartbeats."""
        end = time.monotonic() + READ_SECONDS
        quiet = time.monotonic() - HEARTBEAT_SECONDS
        for stream in [
            stream
            for stream in self._streams
            if stream.last_at < quiet and stream not in self._new and stream.sending is None
        ]:
            self._send(stream, "synced")
            await asyncio.sleep(0)
        for stream in [stream for stream in self._due if self._rested(stream)]:
            if time.monotonic() >= end or not self._pace.allows():
                break
            if of := self._due.pop(stream, None):  # else the client went away
                stream.changed_at = time.monotonic()
                self._send(stream, "changed", of)
                await asyncio.sleep(PACE_SECONDS)
        await asyncio.sleep(max(0.0, end - time.monotonic()))

    def _rested(self, stream: Stream) -> bool:
        """Whether a page that is due may be told again."""
        if stream.sending is not None:
            return False
        if ALL_CLUSTERS not in stream.topics:
            return True
        pause = CLUSTER_SECONDS * self._feed.clusters
        return time.monotonic() - stream.changed_at >= pause

    def _send(self, stream: Stream, event: str, of: Iterable[str] = ()) -> None:
        """Starts to send: a client that does not take its event keeps no other waiting."""
        stream.last_at = time.monotonic()
        data = f'{{"synced": {self._feed.synced}, "of": {json.dumps(sorted(of))}}}'
        block = f"event: {event}\ndata: {data}\n\n".encode()
        stream.sending = asyncio.create_task(_send_block(stream, block))


async def _send_block(stream: Stream, block: bytes) -> None:
    """Ends the stream when the client does not take the block in time."""
    try:
        async with asyncio.timeout(SEND_SECONDS):
            await stream.send({"type": "http.response.body", "body": block, "more_body": True})
    except TimeoutError:
        stream.stuck = True
        if stream.limit is not None:
            stream.limit.reschedule(0)  # ends it now
    except Exception:
        log.exception("sending an event to an open page failed")
    finally:
        stream.sending = None


class EventStreams:
    """An ASGI application: Django's, whose responses to PATH stay open.

    Django answers the request first and decides by that who may read.
    """

    def __init__(self, pages: ThreadedWsgi, hub: Hub) -> None:
        self._pages, self._hub = pages, hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == PATH and scope["method"] == "GET":
            await self._respond(scope, receive, send)
            return
        await self._pages(scope, receive, send)
        if scope["type"] == "lifespan":
            self._hub.close()

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._hub.full:
            await send_response(self._pages.refuse_busy(scope), receive, send)
            return
        response = await self._pages.respond(scope, receive)
        if response.status != 200:
            await send_response(response, receive, send)
            return
        with closing(response.body) as body:
            head = body.read()
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": open_headers(response.headers),
            }
        )
        await send({"type": "http.response.body", "body": head, "more_body": True})
        topics = parse_qs(scope["query_string"].decode("latin1"))["of"]
        with http_metrics.open_stream("pages"):
            complete = await self._hub.follow(topics, receive, send)
        if complete:
            await send({"type": "http.response.body", "body": b""})


def open_headers(headers: Headers) -> Headers:
    """Those of a response whose length is not known."""
    return [(name, value) for name, value in headers if name != b"content-length"]
