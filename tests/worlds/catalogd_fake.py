"""A small HTTP server that answers as catalogd does, and as badly as the tests ask it to."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import zstandard


class CatalogFake:
    """Serves `body` at any path. `script` holds what the next answers do instead:
    a status, `cut` (the connection ends half-way), or a `Location` to redirect to."""

    def __init__(self) -> None:
        self.body = b""
        self.last_modified = "Sat, 21 Nov 2026 02:56:28 GMT"
        self.encodings: tuple[str, ...] = ()
        self.script: list[int | str] = []
        self.seen: list[dict[str, str]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                fake.answer(self)

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/catalogs/x/api/v1/all"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.seen.append({name.lower(): value for name, value in request.headers.items()})
        step = self.script.pop(0) if self.script else 200
        if isinstance(step, int) and step != 200:
            return self._send(request, step, b"no", {})
        if step not in (200, "cut"):
            return self._send(request, 302, b"", {"Location": str(step)})
        if request.headers.get("If-Modified-Since") == self.last_modified:
            return self._send(request, 304, b"", {"Last-Modified": self.last_modified})
        headers = {"Last-Modified": self.last_modified}
        body, status = self.body, 200
        wanted = request.headers.get("Range", "")
        if wanted and request.headers.get("If-Range") == self.last_modified:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
            body, status = body[start:], 206
        elif "zstd" in self.encodings and "zstd" in request.headers.get("Accept-Encoding", ""):
            body, headers["Content-Encoding"] = zstandard.compress(body), "zstd"
        elif "gzip" in self.encodings and "gzip" in request.headers.get("Accept-Encoding", ""):
            body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
        return self._send(request, status, body, headers, cut=step == "cut")

    @staticmethod
    def _send(
        request: BaseHTTPRequestHandler,
        status: int,
        body: bytes,
        headers: dict[str, str],
        *,
        cut: bool = False,
    ) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        if status != 304:
            request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: len(body) // 2] if cut else body)
        request.close_connection = cut


@contextmanager
def catalog_fake() -> Iterator[CatalogFake]:
    fake = CatalogFake()
    fake.start()
    try:
        yield fake
    finally:
        fake.stop()
