"""The catalogd endpoint behind the service proxy: catalogs as JSON lines.

Answers as recorded from catalogd v1.11 (Go's http.ServeContent behind a compressing handler).
Owns catalog bytes; must not know what is in them.
"""

import gzip
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache

import zstandard

from olmweb.sandbox.apiserver.messages import Request, Response

NAMESPACE = "olmv1-system"
SERVICE = "catalogd-service"
PREFIX = f"/api/v1/namespaces/{NAMESPACE}/services/https:{SERVICE}:443/proxy"
CHUNK = 64 * 1024

_PATH = re.compile(r"^/catalogs/([^/]+)/api/v1/all$")
_RANGE = re.compile(r"^bytes=(\d*)-(\d*)$")
_Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Content:
    """A catalog as served: its bytes, their encoded forms and their time."""

    data: bytes
    zstd: bytes
    gzip: bytes
    modified: datetime

    @property
    def digest(self) -> str:
        return "sha256:" + hashlib.sha256(self.data).hexdigest()


@lru_cache(maxsize=8)
def _compressed(data: bytes) -> tuple[bytes, bytes]:
    """As zstd and as gzip; sandboxes of one process serve the same catalogs."""
    return zstandard.ZstdCompressor(level=3).compress(data), gzip.compress(data, mtime=0)


class Catalogd:
    """Catalogs by name. `serving` tells whether the ClusterCatalog is being served now."""

    def __init__(self, serving: Callable[[str], bool]) -> None:
        self._serving = serving
        self._contents: dict[str, Content] = {}

    def publish(self, name: str, data: bytes, modified: datetime) -> Content:
        """Replaces what is served as `name`; the same bytes encode to the same bytes."""
        whole_seconds = modified.astimezone(UTC).replace(microsecond=0)
        content = Content(data, *_compressed(data), whole_seconds)
        self._contents[name] = content
        return content

    def handle(self, request: Request) -> Response:
        """`request.path` is what follows `/proxy`."""
        found = _PATH.match(request.path)
        if not found:
            return _text(404, "404 page not found\n")
        if request.method not in ("GET", "HEAD"):
            return _text(405, "Method Not Allowed\n")
        content = self._contents.get(found[1])
        if content is None or not self._serving(found[1]):
            return _text(404, "404 Not Found\n")
        stamp = format_datetime(content.modified, usegmt=True)
        since = request.headers.get("if-modified-since", "")
        if since and _not_after(content.modified, since):
            return Response(304, b"", (("Last-Modified", stamp), ("Vary", "Accept-Encoding")))
        if "range" in request.headers and _unchanged(request, stamp):
            return _part(content, request.headers["range"], stamp)
        return _whole(content, request, stamp)


def _whole(content: Content, request: Request, stamp: str) -> Response:
    accepted = [
        part.split(";")[0].strip() for part in request.headers.get("accept-encoding", "").split(",")
    ]
    encoding = next((name for name in ("zstd", "gzip") if name in accepted), "")
    common = (
        ("Content-Type", "application/jsonl"),
        ("Last-Modified", stamp),
        ("Vary", "Accept-Encoding"),
    )
    if encoding and request.method == "GET":
        data = content.zstd if encoding == "zstd" else content.gzip
        chunks = (data[i : i + CHUNK] for i in range(0, len(data), CHUNK))
        return Response(200, headers=(("Content-Encoding", encoding), *common), stream=chunks)
    return Response(200, content.data, (("Accept-Ranges", "bytes"), *common))


def _part(content: Content, asked: str, stamp: str) -> Response:
    size = len(content.data)
    found = _RANGE.match(asked)
    if not found or found.groups() == ("", ""):
        return _text(416, "invalid range\n")
    first, last = found.groups()
    start = int(first) if first else max(0, size - int(last))
    end = min(int(last), size - 1) if first and last else size - 1
    if start >= size or end < start:
        headers: _Headers = (("Content-Range", f"bytes */{size}"),)
        return _text(416, "invalid range: failed to overlap\n", headers)
    headers = (
        ("Accept-Ranges", "bytes"),
        ("Content-Range", f"bytes {start}-{end}/{size}"),
        ("Content-Type", "application/jsonl"),
        ("Last-Modified", stamp),
        ("Vary", "Accept-Encoding"),
    )
    return Response(206, content.data[start : end + 1], headers)


def _unchanged(request: Request, stamp: str) -> bool:
    """If-Range: a part only of the file that the client already has a part of."""
    return request.headers.get("if-range", stamp) == stamp


def _not_after(modified: datetime, since: str) -> bool:
    try:
        return modified <= parsedate_to_datetime(since)
    except ValueError:
        return False


def _text(status: int, text: str, headers: _Headers = ()) -> Response:
    common = (
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Vary", "Accept-Encoding"),
        ("X-Content-Type-Options", "nosniff"),
    )
    return Response(status, text.encode(), (*common, *headers))
