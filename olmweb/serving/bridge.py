"""Runs the synchronous Django application behind an ASGI server, in a bounded pool of threads.

A thread works on a request from the moment at which its body is complete until its response is
made, and never waits for a client: the event loop reads the body and sends the response. Of a long
response that the disk has no room for, threads make one part after the other, each when the client
has taken the part before. Django's own ASGI handler takes a thread for each request, however many
there are, and with it a database connection.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    MutableMapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from dataclasses import dataclass
from io import BytesIO
from tempfile import SpooledTemporaryFile
from typing import IO, Any, TypeVar
from urllib.parse import unquote_to_bytes

import structlog

from olmweb.serving import http_metrics

log = structlog.get_logger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
WsgiApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
T = TypeVar("T")
InThread = Callable[[Callable[[], int]], Awaitable[int]]  # calls the function in a thread

BODY_SECONDS = 30.0  # for all of a request's body
BODIES_LIMIT = 64_000_000  # bytes of all bodies that a process holds at a time
SEND_SECONDS = 60.0  # for a client to take one block of a response
WAITING = 500  # requests that wait for a thread; more are refused
TARGET_LIMIT = 8190  # bytes of an address: that of a bulk install names each package
SLOWEST = 20_000  # bytes a second that a client takes of a long response
IN_MEMORY = 4_000_000  # bytes of a response; what is longer waits in a temporary file
# Bytes of all temporary files of a process: a catalog of 131 MB whole, and with one process the
# 256 MiB of the chart's web pods. A longer response is made while its client reads it.
ON_DISK = 150_000_000
BLOCK = 65_536


class Disk:
    """The room for the temporary files of all responses; used by all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.used = 0  # bytes

    def reserve(self, size: int) -> bool:
        """Whether there was room for so many more bytes."""
        with self._lock:
            if self.used + size > ON_DISK:
                return False
            self.used += size
            return True

    def release(self, size: int) -> None:
        with self._lock:
            self.used -= size


class Body:
    """The body of a WSGI response: read ahead as far as there is room, then part by part.

    `read_ahead` is called in a thread, not always in the same one: the chunks of an export are made
    by short queries, so that no cursor or transaction is open between two of them.
    """

    def __init__(self, chunks: Iterable[bytes], disk: Disk, in_thread: InThread) -> None:
        self._chunks, self._iterator = chunks, iter(chunks)
        self._disk, self._in_thread = disk, in_thread
        self._file: IO[bytes] = BytesIO()
        self._reserved = 0  # bytes of the disk
        self._next: bytes | None = None  # a chunk that had no room in the file
        self._is_closed = False
        self.is_complete = False  # else there is another part

    def read_ahead(self) -> int:
        """Reads the next part, in place of the last one, and returns its size: all of the rest if
        the disk has room for it, else what fits into IN_MEMORY, or one larger chunk."""
        self._drop()
        self._file = file = SpooledTemporaryFile()  # noqa: SIM115 - closed by _drop
        size = 0
        while (chunk := self._take()) is not None:
            size += len(chunk)
            if size > IN_MEMORY:
                if self._reserve(size):
                    file.rollover()
                elif size > len(chunk):
                    self._next = chunk
                    size -= len(chunk)
                    break
            file.write(chunk)
        else:
            self.is_complete = True
            self._close_chunks()
        file.seek(0)
        return size

    async def read_on(self) -> None:
        """Reads the next part in a thread."""
        await self._in_thread(self.read_ahead)

    def read(self, size: int = -1) -> bytes:
        """The next bytes of this part."""
        return self._file.read(size)

    def close(self) -> None:
        self._drop()
        self._close_chunks()

    def _take(self) -> bytes | None:
        chunk, self._next = self._next, None
        return next(self._iterator, None) if chunk is None else chunk

    def _reserve(self, size: int) -> bool:
        """Whether the disk has room for a file of this size, of which a part may be reserved."""
        if not self._disk.reserve(size - self._reserved):
            return False
        self._reserved = size
        return True

    def _drop(self) -> None:
        self._file.close()
        self._disk.release(self._reserved)
        self._reserved = 0

    def _close_chunks(self) -> None:
        if not self._is_closed and hasattr(self._chunks, "close"):
            self._is_closed = True
            self._chunks.close()


@dataclass(slots=True)
class Response:
    """A response; `body` is read from its start."""

    status: int
    headers: Headers
    body: IO[bytes] | Body


class Refused(Exception):
    """A request that is answered without Django: a status, a code and a sentence."""

    def __init__(self, status: int, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.code, self.sentence = status, code, sentence

    def response(self, path: str) -> Response:
        """JSON for the REST API, else text. Ends the connection: a body may not have been read."""
        kind, text = b"text/plain; charset=utf-8", f"{self.sentence}\n"
        if path.startswith("/api/"):
            error = {"code": self.code, "message": self.sentence, "hint": "", "fields": {}}
            kind, text = b"application/json", json.dumps({"error": error})
        body = text.encode()
        headers = [
            (b"content-type", kind), (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"), (b"x-content-type-options", b"nosniff"),
        ]  # fmt: skip
        return Response(self.status, headers, BytesIO(body))


class ThreadedWsgi:
    """A WSGI application as an ASGI one. `body_limit` is in bytes.

    The response to a GET of one of the `constant` paths is made once, here, and is sent without a
    thread.
    """

    def __init__(
        self,
        application: WsgiApplication,
        threads: int,
        body_limit: int,
        constant: Sequence[str] = (),
    ) -> None:
        self._application = application
        self._body_limit = body_limit
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="web")
        self._waiting = 0
        self._held = 0  # bytes of bodies, complete or not
        self.busy_seconds = 0.0  # of all threads together, for responses that are complete
        self.disk = Disk()
        self._constant = {path: self._prepare(path) for path in constant}

    def _prepare(self, path: str) -> tuple[int, Headers, bytes]:
        response = self._call(_get(path), b"")
        with closing(response.body) as body:
            return response.status, response.headers, body.read()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send_response(await self.respond(scope, receive), receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Answers the start and the end of the server, which ends the threads."""
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                self.close()
                return

    async def respond(self, scope: Scope, receive: Receive) -> Response:
        """The application's response, or the refusal of a request that it must not see."""
        with http_metrics.IN_FLIGHT.track_inprogress():
            return await self._respond(scope, receive)

    async def _respond(self, scope: Scope, receive: Receive) -> Response:
        received_at = time.monotonic()
        try:
            self._check_head(scope)
            body = await self._read_body(receive)
        except Refused as refusal:
            return self._refuse(scope, refusal)
        self._waiting += 1
        try:
            if scope["method"] in ("GET", "HEAD") and scope["path"] in self._constant:
                status, headers, content = self._constant[scope["path"]]
                return Response(status, headers, BytesIO(content))
            if self._waiting > WAITING:
                return self.refuse_busy(scope)
            return await self._in_thread(self._call, scope, body, received_at)
        finally:
            self._waiting -= 1
            self._held -= len(body)

    def close(self) -> None:
        """Ends the threads; requests that wait for one are dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _check_head(self, scope: Scope) -> None:
        if len(scope["raw_path"]) + len(scope["query_string"]) > TARGET_LIMIT:
            raise Refused(414, "too-long", f"An address has at most {TARGET_LIMIT} bytes.")
        headers = scope["headers"]
        # Django reads all of them as one value, joined by commas: see make_environ.
        kinds = [value.lower() for name, value in headers if name == b"content-type"]
        if any(b"multipart/" in kind for kind in kinds):
            raise Refused(415, "no-files", "OLM Web takes no files: multipart bodies are refused.")
        length = dict(headers).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._body_limit:
            raise self._too_large()

    def _too_large(self) -> Refused:
        return Refused(413, "too-large", f"A request has at most {self._body_limit} bytes.")

    def refuse_busy(self, scope: Scope) -> Response:
        """The response to a request that there is no room for."""
        return self._refuse(scope, self._busy())

    def _refuse(self, scope: Scope, refusal: Refused) -> Response:
        http_metrics.count_refused(scope["method"], refusal.status)
        return refusal.response(scope["path"])

    def _busy(self) -> Refused:
        return Refused(503, "busy", "OLM Web is busy; try again in a moment.")

    async def _read_body(self, receive: Receive) -> bytes:
        """The complete body, which counts as held until the caller gives it back."""
        parts, size = [], 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "disconnected", "The client went away.")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    self._held += len(parts[-1])
                    if size > self._body_limit:
                        raise self._too_large()
                    if parts[-1] and self._held > BODIES_LIMIT:
                        raise self._busy()
                    if not message.get("more_body"):
                        return b"".join(parts)
        except BaseException as error:
            self._held -= size
            if not isinstance(error, TimeoutError):
                raise
            sentence = f"The body did not arrive within {BODY_SECONDS:g} s."
            raise Refused(408, "too-slow", sentence) from error

    async def _in_thread(self, function: Callable[..., T], *args: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._timed, function, *args)

    def _timed(self, function: Callable[..., T], *args: object) -> T:
        started = time.monotonic()
        try:
            return function(*args)
        finally:
            self.busy_seconds += time.monotonic() - started

    def _call(self, scope: Scope, body: bytes, received_at: float = 0.0) -> Response:
        """Calls the application and reads its response ahead; runs in a thread."""
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(status: str, headers: list[tuple[str, str]], _: Any = None) -> None:
            started.append((status, headers))

        environ = make_environ(scope, body, received_at)
        content = Body(self._application(environ, start_response), self.disk, self._in_thread)
        try:
            size = content.read_ahead()
        except BaseException:
            content.close()
            raise
        status, headers = started[-1]
        has_length = any(name.lower() == "content-length" for name, _ in headers)
        if size and content.is_complete and not has_length:
            headers = [*headers, ("Content-Length", str(size))]
        # Django's cookies begin with a blank, which h11 refuses in a value.
        encoded = [
            (name.lower().encode("latin1"), text.strip().encode("latin1")) for name, text in headers
        ]
        return Response(int(status.split(" ", 1)[0]), encoded, content)


async def send_response(response: Response, receive: Receive, send: Send) -> None:
    """Sends a response block by block. Gives up on a client that takes none for SEND_SECONDS, or
    is behind SLOWEST by more than that."""
    start = {"type": "http.response.start", "status": response.status, "headers": response.headers}
    sent, waited = 0, 0.0
    with closing(response.body) as body:
        await send(start)
        async with aclosing(_blocks(body, receive)) as blocks:
            async for block in blocks:
                left = SEND_SECONDS + sent / SLOWEST - waited
                began = time.monotonic()
                try:
                    async with asyncio.timeout(min(SEND_SECONDS, left)):
                        await send({"type": "http.response.body", "body": block, "more_body": True})
                except TimeoutError:
                    log.info("a client took too long to read its response")
                    return  # the server closes the connection of an incomplete response
                sent += len(block)
                waited += time.monotonic() - began
        await send({"type": "http.response.body", "body": b""})


async def _blocks(body: IO[bytes] | Body, receive: Receive) -> AsyncGenerator[bytes, None]:
    """The blocks of all parts; of further parts only while the client is there."""
    while block := body.read(BLOCK):
        yield block
    if not isinstance(body, Body) or body.is_complete:
        return
    gone = asyncio.create_task(disconnected(receive))
    try:
        while not body.is_complete and not gone.done():
            await body.read_on()
            while block := body.read(BLOCK):
                yield block
    finally:
        gone.cancel()


async def disconnected(receive: Receive) -> None:
    """Returns when the client went away."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _get(path: str) -> Scope:
    """The scope of a GET without a client."""
    return {
        "method": "GET", "raw_path": path.encode(), "query_string": b"", "http_version": "1.1",
        "scheme": "http", "headers": [],
    }  # fmt: skip


def make_environ(scope: Scope, body: bytes, received_at: float = 0.0) -> dict[str, Any]:
    """The WSGI environment (PEP 3333) of an HTTP request in ASGI's form, received at that time.

    A header whose name has an underscore is left out, as nginx does: it would be taken for the one
    with hyphens.
    """
    server, port = scope.get("server") or ("localhost", 80)
    client, client_port = scope.get("client") or ("", 0)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin1"),
        "QUERY_STRING": scope["query_string"].decode("latin1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": server,
        "SERVER_PORT": str(port),
        "REMOTE_ADDR": client,
        "REMOTE_PORT": str(client_port),
        http_metrics.RECEIVED_AT: received_at,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in scope["headers"]:
        if b"_" in name:
            continue
        key = name.decode("latin1").upper().replace("-", "_")
        if key not in ("CONTENT_LENGTH", "CONTENT_TYPE"):
            key = f"HTTP_{key}"
        text = value.decode("latin1")
        joint = "; " if key == "HTTP_COOKIE" else ","
        environ[key] = f"{environ[key]}{joint}{text}" if key in environ else text
    environ["CONTENT_LENGTH"] = str(len(body))  # also of a chunked body, which is complete here
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    return environ
