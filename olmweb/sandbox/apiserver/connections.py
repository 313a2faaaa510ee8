"""HTTP/1.1 on sockets: reads requests, writes answers, plays the scripted faults.

Knows nothing of Kubernetes but that an error is a Status.
"""

import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from olmweb.sandbox.apiserver import access
from olmweb.sandbox.apiserver.errors import ApiError, too_large, unauthorized
from olmweb.sandbox.apiserver.messages import Request, Response, refusal
from olmweb.sandbox.apiserver.script import Script

LARGEST_BODY = 3 * 1024 * 1024
_EXTRA = "impersonate-extra-"
Handle = Callable[[Request], Response]


class Server(ThreadingMixIn, HTTPServer):
    """One thread a connection; `stop` ends all of them at once, watches included."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, port: int, token: str, script: Script, handle: Handle) -> None:
        self.token = token
        self.script = script
        self.handle_api = handle
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", port), Handler)

    def opened(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)

    def stop(self) -> None:
        """Closes the port and every connection, then waits for their threads to notice."""
        self.shutdown()
        self.server_close()
        with self._lock:
            waiting = list(self._open)
        for connection in waiting:
            _hang_up(connection)
        deadline = time.monotonic() + 3
        while self._open and time.monotonic() < deadline:
            time.sleep(0.005)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no event; everything else is a bug and is shown."""
        import sys

        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the client was faster


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 64 * 1024
    server: Server

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
            self.close_connection = True  # the client hung up, or stop() did

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
        planned = script.failure(self.path)
        if planned:
            response = refusal(planned.error)
            extra = (
                (("Retry-After", str(planned.retry_after)),)
                if planned.retry_after is not None
                else ()
            )
            response = Response(response.status, response.body, response.headers + extra)
        else:
            response = self._respond(body)
        self._send(response, script.cut())

    def _refuse_body(self, length: int) -> None:
        """Reads what is coming all the same: a client that is still sending hears no answer."""
        while length > 0:
            length -= len(self.rfile.read(min(length, LARGEST_BODY))) or length
        self._send(refusal(too_large(LARGEST_BODY)), None)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

    def _respond(self, body: bytes) -> Response:
        try:
            who = access.identify(
                self.headers.get("Authorization", ""),
                self.server.token,
                self.headers.get("Impersonate-User", ""),
                self.headers.get_all("Impersonate-Group") or [],
                self.headers.get("Impersonate-Uid", ""),
                [
                    (name.lower().removeprefix(_EXTRA), value)
                    for name, value in self.headers.items()
                    if name.lower().startswith(_EXTRA)
                ],
            )
            if who is None:
                raise unauthorized()
            parts = urlsplit(self.path)
            request = Request(
                method=self.command,
                path=unquote(parts.path),
                query=dict(parse_qsl(parts.query, keep_blank_values=True)),
                headers={name.lower(): value for name, value in self.headers.items()},
                body=body,
                who=who,
            )
            return self.server.handle_api(request)
        except ApiError as error:
            return refusal(error)

    def _send(self, response: Response, cut: int | None) -> None:
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
            self._send_stream(response, cut)
            return
        if response.status != 304:
            self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        if self.command != "HEAD" and response.status != 304:
            self.wfile.write(response.body[:cut])
            self.close_connection = self.close_connection or cut is not None

    def _send_stream(self, response: Response, cut: int | None) -> None:
        self.wfile.flush()
        sent = 0
        for chunk in response.stream or ():
            piece = chunk if cut is None else chunk[: cut - sent]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b"")
            self.wfile.flush()
            sent += len(piece)
            if cut is not None and sent >= cut:
                self.close_connection = True  # without the last chunk: a torn body
                return
        self.wfile.write(b"0\r\n\r\n")

    def version_string(self) -> str:
        return "olmweb-sandbox"
