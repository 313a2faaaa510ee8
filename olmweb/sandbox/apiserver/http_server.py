"""HTTP/1.1 on sockets: requests and responses as values, the server, and scripted faults.

Knows nothing of Kubernetes except that an error is a Status.
"""

import gzip
import json
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, unquote, urlsplit

from olmweb.sandbox.apiserver import access
from olmweb.sandbox.apiserver.access import Identity
from olmweb.sandbox.apiserver.errors import ApiError, too_large, unauthorized

LARGEST_BODY = 3 * 1024 * 1024
_WORTH_COMPRESSING = 128 * 1024
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `headers` has lower-case names, `query` the last value of each parameter."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    identity: Identity

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").split(";")[0].strip()

    @property
    def accept_encoding(self) -> str:
        return self.headers.get("accept-encoding", "")

    def flag(self, name: str) -> bool:
        return self.query.get(name, "") in ("true", "1")


@dataclass(frozen=True, slots=True)
class Response:
    """A response with `stream` (sent in chunks) or else `body`; headers are sent in their order.

    `upgrade` takes over the connection after the headers: it is called with the file that the
    client writes to and the function that sends bytes to the client.
    """

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    stream: Iterator[bytes] | None = field(default=None, compare=False)
    upgrade: Callable[[BinaryIO, Callable[[bytes], None]], None] | None = field(
        default=None, compare=False
    )


Handle = Callable[[Request], Response]


def encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def json_response(value: object, status: int = 200, warnings: tuple[str, ...] = ()) -> Response:
    headers = [("Content-Type", "application/json")]
    headers += [("Warning", f"299 - {json.dumps(text)}") for text in warnings]
    return Response(status, encoded(value) + b"\n", tuple(headers))


def compressed(response: Response, request: Request) -> Response:
    """The response in gzip when the client accepts gzip and the body is large."""
    if len(response.body) < _WORTH_COMPRESSING or "gzip" not in request.accept_encoding:
        return response
    headers = (*response.headers, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
    return Response(response.status, gzip.compress(response.body, 1), headers)


def text_response(text: str, status: int = 200) -> Response:
    return Response(status, text.encode(), (("Content-Type", "text/plain; charset=utf-8"),))


def error_response(error: ApiError) -> Response:
    """The Status of an error as a response."""
    return json_response(error.status(), error.code)


# --- scripted faults


@dataclass(slots=True)
class _Failure:
    status: int
    remaining: int
    retry_after: int | None
    path_prefix: str

    def response(self) -> Response:
        reason = _REASONS.get(self.status, "InternalError")
        response = error_response(ApiError(self.status, reason, "a fault scripted by the test"))
        if self.retry_after is None:
            return response
        headers = (*response.headers, ("Retry-After", str(self.retry_after)))
        return Response(response.status, response.body, headers)


class Script:
    """Makes the next requests fail or be late, and records all requests. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: list[_Failure] = []
        self._delays: deque[float] = deque()
        self.requests: deque[tuple[str, str]] = deque(maxlen=10_000)  # (method, path with query)

    def fail_next(
        self,
        status: int,
        count: int = 1,
        retry_after: int | None = None,
        path_prefix: str = "",
    ) -> None:
        """The next `count` requests below `path_prefix` get `status`, with Retry-After seconds."""
        with self._lock:
            self._failures.append(_Failure(status, count, retry_after, path_prefix))

    def delay_next(self, seconds: float) -> None:
        """The next request is answered only after `seconds`."""
        with self._lock:
            self._delays.append(seconds)

    def failure(self, path: str) -> Response | None:
        """Returns the scripted failure of a request to `path` and counts it as used."""
        with self._lock:
            for failure in self._failures:
                if failure.remaining and path.startswith(failure.path_prefix):
                    failure.remaining -= 1
                    return failure.response()
        return None

    def delay(self) -> float:
        with self._lock:
            return self._delays.popleft() if self._delays else 0.0


# --- sockets


class ApiServer(ThreadingMixIn, HTTPServer):
    """One thread per connection; `stop` ends all of them at once, watches included."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self, port: int, token: str, script: Script, handle: Handle, *, require_token: bool
    ) -> None:
        self.token = token
        self.require_token = require_token
        self.script = script
        self.handle_api = handle
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", port), RequestHandler)

    def opened(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)

    def stop(self) -> None:
        """Closes the port and every connection, then waits for their threads to end."""
        self.shutdown()
        self.server_close()
        with self._lock:
            waiting = list(self._open)
        for connection in waiting:
            with suppress(OSError):  # the client closed first
                connection.shutdown(socket.SHUT_RDWR)
        deadline = time.monotonic() + 3
        while self._open and time.monotonic() < deadline:
            time.sleep(0.005)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that disconnect; every other exception is a bug and is printed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class RequestHandler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 64 * 1024
    server: ApiServer

    def setup(self) -> None:
        super().setup()
        self.server.opened(self.connection)

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            self.server.closed(self.connection)

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True  # the client disconnected, or stop() closed the socket

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: tests read `script.requests` instead."""

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > LARGEST_BODY:
            self._refuse_body(length)
            return
        body = self.rfile.read(length)
        script = self.server.script
        script.requests.append((self.command, self.path))
        if delay := script.delay():
            time.sleep(delay)
        self._send(script.failure(self.path) or self._respond(body))

    def _refuse_body(self, length: int) -> None:
        """Reads the body before answering: a client that is still sending reads no response."""
        while length > 0:
            length -= len(self.rfile.read(min(length, LARGEST_BODY))) or length
        self._send(error_response(too_large(LARGEST_BODY)))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

    def _respond(self, body: bytes) -> Response:
        try:
            identity = access.identify(
                self.headers, self.server.token, require_token=self.server.require_token
            )
            if identity is None:
                raise unauthorized()
            parts = urlsplit(self.path)
            request = Request(
                method=self.command,
                path=unquote(parts.path),
                query=dict(parse_qsl(parts.query, keep_blank_values=True)),
                headers={name.lower(): value for name, value in self.headers.items()},
                body=body,
                identity=identity,
            )
            return self.server.handle_api(request)
        except ApiError as error:
            return error_response(error)

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        for name, value in response.headers:
            self.send_header(name, value)
        if response.upgrade is not None:
            self.end_headers()
            self.wfile.flush()
            self.close_connection = True
            response.upgrade(self.rfile, self.connection.sendall)  # type: ignore[arg-type]
            return
        if response.stream is not None:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self._send_stream(response.stream)
            return
        if response.status != 304:
            self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        if self.command != "HEAD" and response.status != 304:
            self.wfile.write(response.body)

    def _send_stream(self, stream: Iterator[bytes]) -> None:
        self.wfile.flush()
        for chunk in stream:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def version_string(self) -> str:
        return "olmweb-sandbox"
