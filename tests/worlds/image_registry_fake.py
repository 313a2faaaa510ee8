"""An image registry for tests: honest until a test asks it to be something else.

Images are put together in memory. `wrong` changes one answer for good, `script` holds what the next
answers do instead, `seen` every request.
"""

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

LABEL = "operators.operatorframework.io.index.configs.v1"
OCI = "application/vnd.oci.image"
DOCKER = "application/vnd.docker"
MANIFEST, INDEX = f"{OCI}.manifest.v1+json", f"{OCI}.index.v1+json"
DOCKER_MANIFEST = f"{DOCKER}.distribution.manifest.v2+json"
DOCKER_LIST = f"{DOCKER}.distribution.manifest.list.v2+json"
Answer = Callable[[BaseHTTPRequestHandler], None]


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def tar(*members: tuple[str, bytes] | tarfile.TarInfo) -> bytes:
    """A tar of files (name, content) and of whatever else."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as packed:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                packed.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                packed.addfile(info, io.BytesIO(member[1]))
    return data.getvalue()


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


class RegistryFake:
    """Serves blobs and manifests of any repository. `users` turns on basic authentication,
    `tokens` also the detour over a token server (this one)."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}  # by tag and by digest
        self.script: list[Answer] = []
        self.wrong: dict[str, Answer] = {}  # by the last part of the path
        self.users: dict[str, str] = {}
        self.tokens: dict[str, str] = {}  # token -> scope
        self.bearer = False
        self.realm = ""
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                fake.answer(self)

            do_HEAD = do_POST = do_GET

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def blob(self, data: bytes, media_type: str = "", **more: Any) -> dict[str, Any]:
        """Keeps the blob; returns its descriptor."""
        self.blobs[digest(data)] = data
        return {"mediaType": media_type, "digest": digest(data), "size": len(data), **more}

    def put(self, tag: str, manifest: dict[str, Any], media_type: str = MANIFEST) -> str:
        """Keeps a manifest under a tag and its digest; returns that."""
        data = json.dumps({"schemaVersion": 2, "mediaType": media_type, **manifest}).encode()
        self.manifests[tag] = self.manifests[digest(data)] = (media_type, data)
        return digest(data)

    def image(
        self,
        *layers: bytes,
        tag: str = "v1",
        label: str | None = "/configs",
        media_type: str = f"{OCI}.layer.v1.tar+gzip",
        pack: Callable[[bytes], bytes] = gzip.compress,
    ) -> str:
        """An image of these layers (tars); returns the manifest's digest."""
        config = {"config": {"Labels": {LABEL: label} if label is not None else None}}
        return self.put(
            tag,
            {
                "config": self.blob(json.dumps(config).encode(), f"{OCI}.config.v1+json"),
                "layers": [self.blob(pack(layer), media_type) for layer in layers],
            },
        )

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append((request.command, request.path, headers))
        parts = urlsplit(request.path)
        if parts.path == "/token":
            return self._token(request, parts.query)
        if self.script:
            return self.script.pop(0)(request)
        if not self._allowed(headers.get("authorization", "")):
            realm = self.realm or f"http://{self.host}/token"
            name = f'Bearer realm="{realm}",service="fake"' if self.bearer else 'Basic realm="x"'
            return send(request, 401, b"{}", {"WWW-Authenticate": name})
        wanted = parts.path.rpartition("/")[2]
        if wanted in self.wrong:
            return self.wrong[wanted](request)
        if "/manifests/" in parts.path and wanted in self.manifests:
            media_type, data = self.manifests[wanted]
            told = {"Content-Type": media_type, "Docker-Content-Digest": digest(data)}
            return send(request, 200, data, told)
        if "/blobs/" in parts.path and wanted in self.blobs:
            return send(request, 200, self.blobs[wanted], {}, ranges=True)
        body = b'{"errors":[{"code":"NAME_UNKNOWN","message":"secret <b>text</b>"}]}'
        return send(request, 404, body, {})

    def _allowed(self, authorization: str) -> bool:
        if self.bearer:
            return authorization.removeprefix("Bearer ") in self.tokens
        return not self.users or authorization in self.users

    def _token(self, request: BaseHTTPRequestHandler, query: str) -> None:
        length = int(request.headers.get("Content-Length", 0))
        form = parse_qs(request.rfile.read(length).decode() or query)
        who = request.headers.get("Authorization") or form.get("refresh_token", [""])[0]
        if self.users and who not in self.users:
            return send(request, 401, b"{}", {})
        token = f"token-{len(self.tokens)}"
        self.tokens[token] = f"{form['service'][0]} {form['scope'][0]}"
        return send(request, 200, json.dumps({"token": token}).encode(), {})


def send(
    request: BaseHTTPRequestHandler,
    status: int,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    *,
    ranges: bool = False,
    length: int | None = None,
) -> None:
    """One answer. `length` is told instead of the body's own."""
    wanted = request.headers.get("Range", "") if ranges else ""
    headers = dict(headers or {})
    if wanted:
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        status, body = 206, body[start:]
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(body) if length is None else length))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)
    request.close_connection = length is not None


def status(code: int, **headers: str) -> Answer:
    """An answer of this status; `Retry_After` becomes Retry-After."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: send(request, code, b"{}", named)


def cut(data: bytes, end: int) -> Answer:
    """The first `end` bytes of what was to be all of `data`."""
    return lambda request: send(request, 200, data[:end], length=len(data))


def endless(part: bytes) -> Answer:
    """The same bytes until the other side has enough."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        request.close_connection = True
        try:
            while True:
                request.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        except OSError:
            pass

    return answer


@contextmanager
def registry_fake() -> Iterator[RegistryFake]:
    fake = RegistryFake()
    try:
        yield fake
    finally:
        fake.stop()
