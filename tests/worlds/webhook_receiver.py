"""A webhook's receiver on this machine: keeps what it got, answers as a test scripts it."""

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Got:
    path: str
    headers: dict[str, str]
    body: Any  # the decoded JSON
    raw: bytes


@dataclass(frozen=True)
class Reply:
    """An answer, `delay` seconds late."""

    status: int = 200
    body: str = "ok"
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0


class Receiver:
    """`with Receiver() as receiver:`; answers 200 unless `replies` has something else next, or
    `judge` (given the decoded body) says a status."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.got: list[Got] = []
        self.replies: list[Reply] = []
        self.judge = lambda _body: 200
        self._lock = threading.Lock()
        self._server = _Server((address, 0), _handler_for(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> "Receiver":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def host(self) -> str:
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    @property
    def bodies(self) -> list[Any]:
        return [request.body for request in self.got]

    def answer(self, got: Got) -> Reply:
        with self._lock:
            self.got.append(got)
            return self.replies.pop(0) if self.replies else Reply(self.judge(got.body))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A sender that goes away, or speaks TLS, as its test wants."""


def _handler_for(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = receiver.answer(Got(self.path, headers, json.loads(body), body))
            time.sleep(reply.delay)
            data = reply.body.encode()
            try:
                self.send_response(reply.status)
                self.send_header("Content-Length", str(len(data)))
                for name, value in {"Content-Type": "text/plain", **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the sender gave up waiting, as its test wants

        def log_message(self, *_: Any) -> None:
            """Quiet: tests assert on `got`."""

    return Handler
