"""The stream of /api/v1/events, the side of the event loop: responses that follow the log.

Django answers the request first and decides who may read what; its answer names in a header what
to follow. One thread of the process reads new events for all streams together, so that a stream at
rest costs neither a thread nor a query. The newest events are kept in memory. A reader that is
further behind, or slow, reads from the database in portions until it has caught up. The same thread
checks from time to time whether the readers may still read.
"""

import asyncio
import random
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Protocol, TypeVar

import structlog

from olmweb.eventlog.read import Follow, Selection, StreamedEvent
from olmweb.serving import http_metrics
from olmweb.serving.bridge import Receive, Scope, Send, ThreadedWsgi, disconnected, send_response
from olmweb.serving.readers import Reader, reader_of
from olmweb.serving.streams import FOLLOWS, EventStreams, open_headers

log = structlog.get_logger(__name__)

PATH = "/api/v1/events"
FOLLOW = b"olmweb-follow"  # header of Django's answer, for this module alone
READ_SECONDS = 0.25  # between two readings of the log
RETRY_SECONDS = 1.0  # while the database is away
HEARTBEAT_SECONDS = 15.0  # proxies end a response that is silent for 30 s or longer
CHECK_SECONDS = 10.0  # between two checks whether the readers may still read
LIFETIME_SECONDS = 600.0  # then the client connects again
SEND_SECONDS = 30.0  # for a client to take one portion
STREAMS = 500  # of one process
PORTION = 500  # events that are read or sent at once
KEPT = 2000  # events in memory
T = TypeVar("T")


class Feed(Protocol):
    """The log; all methods are called in one thread of its own. None: the database is away."""

    def last(self) -> int | None: ...

    def read(
        self, after: int, limit: int, selection: Selection | None = None
    ) -> Sequence[StreamedEvent] | None: ...

    def close(self) -> None:
        """Called when no stream is open any more."""


class Tail:
    """The open streams of this process. Used in the event loop only.

    `ended` returns those of the readers that may not read any more; called in the feed's thread.
    """

    def __init__(self, feed: Feed, ended: Callable[[Set[Reader]], Set[Reader]]) -> None:
        self._feed, self._ended = feed, ended
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="eventlog")
        self._open: dict[asyncio.Task[None], Reader] = {}  # by what waits for the client to go away
        self._check_at = 0.0  # time of the next check of the readers
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()  # replaced at each reading that has any
        self._recent: list[StreamedEvent] = []
        self._before: int | None = None  # all events after this position are in `_recent`

    @property
    def full(self) -> bool:
        return len(self._open) >= STREAMS

    async def follow(self, follow: Follow, reader: Reader, receive: Receive, send: Send) -> bool:
        """Sends events until the client goes away, the reader may not read any more or the lifetime
        ends; False when the client took none."""
        lifetime = LIFETIME_SECONDS * random.uniform(0.8, 1)  # noqa: S311 - spreads reconnections
        sender = asyncio.create_task(self._send_all(follow, send))
        gone = asyncio.create_task(disconnected(receive))
        self._open[gone] = reader
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        try:
            await asyncio.wait(
                (sender, gone), timeout=lifetime, return_when=asyncio.FIRST_COMPLETED
            )
            if sender.done():  # it ends with an error only
                sender.result()
        except TimeoutError:
            return False
        else:
            return True
        finally:
            del self._open[gone]
            for task in (sender, gone):
                task.cancel()
            await asyncio.gather(sender, gone, return_exceptions=True)

    def close(self) -> None:
        """Ends reading; the server ends the connections."""
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        """Reads new events and checks the readers while a stream is open."""
        self._check_at = time.monotonic() + CHECK_SECONDS
        while self._open:
            try:
                has_read = await self._read()
                await self._check_readers()
            except Exception:
                log.exception("following the log of events failed")
                has_read = False
            await asyncio.sleep(READ_SECONDS if has_read else RETRY_SECONDS)
        self._task, self._recent, self._before = None, [], None
        await self._in_thread(self._feed.close)

    async def _read(self) -> bool:
        if self._before is None:
            self._before = await self._in_thread(self._feed.last)
            self._wake()
            return self._before is not None
        after = self._recent[-1].position if self._recent else self._before
        events = await self._in_thread(self._feed.read, after, PORTION)
        if events:
            self._recent += events
            if surplus := self._recent[: max(0, len(self._recent) - KEPT)]:
                self._before = surplus[-1].position
                del self._recent[: len(surplus)]
            self._wake()
        return events is not None

    async def _check_readers(self) -> None:
        if time.monotonic() < self._check_at:
            return
        ended = await self._in_thread(self._ended, frozenset(self._open.values()))
        for gone, reader in self._open.items():
            if reader in ended:
                gone.cancel()  # as if the client had gone away
        self._check_at = time.monotonic() + CHECK_SECONDS

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _in_thread(self, function: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    async def _send_all(self, follow: Follow, send: Send) -> None:
        """Raises TimeoutError when the client takes nothing."""
        position, quiet_until = follow.after, time.monotonic() + HEARTBEAT_SECONDS
        while True:
            news = self._news  # before looking, so that none is missed
            events, reached = await self._next(position, follow.selection)
            if events:
                await _send(send, b"".join(event.block for event in events))
                quiet_until = time.monotonic() + HEARTBEAT_SECONDS
            elif time.monotonic() >= quiet_until:
                await _send(send, b": heartbeat\n\n")
                quiet_until = time.monotonic() + HEARTBEAT_SECONDS
            if reached > position:
                position = reached
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, quiet_until - time.monotonic())):
                    await news.wait()

    async def _next(
        self, position: int, selection: Selection
    ) -> tuple[Sequence[StreamedEvent], int]:
        """Selected events after this position, and the position up to which there are no others."""
        before = self._before
        if before is None:
            return (), position
        if position >= before:
            start = bisect_right(self._recent, position, key=lambda event: event.position)
            portion = self._recent[start : start + PORTION]
            reached = portion[-1].position if portion else position
            return [event for event in portion if selection.matches(event)], reached
        while (
            events := await self._in_thread(self._feed.read, position, PORTION, selection)
        ) is None:
            await asyncio.sleep(RETRY_SECONDS)
        if len(events) == PORTION:
            return events, events[-1].position
        return events, max(before, events[-1].position if events else 0)


async def _send(send: Send, block: bytes) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await send({"type": "http.response.body", "body": block, "more_body": True})


class EventLog:
    """An ASGI application: `pages` and its streams, whose responses to PATH that name what to
    follow stay open."""

    def __init__(self, streams: EventStreams, pages: ThreadedWsgi, tail: Tail) -> None:
        self._streams, self._pages, self._tail = streams, pages, tail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == PATH and scope["method"] == "GET":
            await self._respond(scope, receive, send)
            return
        await self._streams(scope, receive, send)
        if scope["type"] == "lifespan":
            self._tail.close()

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._pages.respond(scope, receive)
        follow = dict(response.headers).get(FOLLOW)
        if follow is None:
            await send_response(response, receive, send)
            return
        with closing(response.body) as body:
            head = body.read()
        if self._tail.full:
            await send_response(self._pages.refuse_busy(scope), receive, send)
            return
        scope[FOLLOWS] = True
        headers = [
            (name, value) for name, value in open_headers(response.headers) if name != FOLLOW
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": head, "more_body": True})
        with http_metrics.open_stream("log"):
            complete = await self._tail.follow(
                Follow.decode(follow.decode()), reader_of(scope), receive, send
            )
        if complete:
            with suppress(TimeoutError):  # the server closes the connection
                async with asyncio.timeout(SEND_SECONDS):
                    await send({"type": "http.response.body", "body": b""})
