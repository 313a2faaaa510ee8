"""Downloads that are cut at every tenth of the file, in every shape a server sends them."""

import gzip
import lzma
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import zstandard

from catalogs.models import Catalog, Package
from catalogs.sources.base import SourceError, opened
from catalogs.sources.http import url_source
from catalogs.sync.catalog import sync_catalog
from tests.worlds.fbc import jsonl, package

BODY = jsonl([blob for name in ("etcd", "redis", "kafka") for blob in package(name)])
OLD = jsonl(package("before"))
MODIFIED = "Sat, 21 Nov 2026 02:56:28 GMT"
TENTHS = range(10)
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
}


class Cutter:
    """Serves `body`, encoded, and breaks the connection of the next `cuts` answers there."""

    def __init__(self) -> None:
        self.body = BODY
        self.encoding = ""
        self.chunked = False
        self.headers = {"Last-Modified": MODIFIED}
        self.cuts: list[int] = []
        self.ranges: list[str] = []
        cutter = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                cutter.answer(self)

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/all"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        data = ENCODERS[self.encoding](self.body)
        wanted = request.headers.get("Range", "")
        self.ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        request.send_response(206 if wanted else 200)
        for name, value in self.headers.items():
            request.send_header(name, value)
        if wanted:
            request.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if self.encoding:
            request.send_header("Content-Encoding", self.encoding)
        end = self.cuts.pop(0) if self.cuts else len(data)
        if self.chunked:
            request.send_header("Transfer-Encoding", "chunked")
            request.end_headers()
            part = data[start:end]
            request.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if part else b"")
            request.wfile.write(b"0\r\n\r\n" if end == len(data) else b"")
        else:
            request.send_header("Content-Length", str(len(data) - start))
            request.end_headers()
            request.wfile.write(data[start:end])
        request.close_connection = True


@pytest.fixture
def cutter() -> Iterator[Cutter]:
    with cutting() as running:
        yield running


@contextmanager
def cutting() -> Iterator[Cutter]:
    running = Cutter()
    thread = threading.Thread(target=running.server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield running
    finally:
        running.server.shutdown()
        running.server.server_close()
        thread.join()


def catalog_with_content(url: str) -> Catalog:
    """A catalog that was read well once, from elsewhere."""
    catalog = Catalog.objects.create(name="c", slug="c", source_kind="URL", source=url)
    with cutting() as before:
        before.body = OLD
        good = sync_catalog(catalog, source=url_source(before.url, allow_loopback=True))
    assert (good.outcome, good.packages) == ("changed", 1)
    return catalog


@pytest.mark.django_db
@pytest.mark.parametrize("chunked", [False, True], ids=["Content-Length", "chunked"])
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_an_encoded_body_cut_anywhere_leaves_the_last_good_content(cutter, encoding, chunked):
    catalog = catalog_with_content(cutter.url)
    cutter.encoding, cutter.chunked = encoding, chunked
    whole = len(ENCODERS[encoding](BODY))
    for tenth in TENTHS:
        cutter.cuts = [whole * tenth // 10]
        result = sync_catalog(catalog, source=url_source(cutter.url, allow_loopback=True))
        assert (result.outcome, result.requests) == ("failed", 1)
        assert result.error.startswith("The connection was cut"), tenth
        assert (catalog.error_code, catalog.state) == ("unreachable", "failed")
        assert list(Package.objects.values_list("name", flat=True)) == ["before"]
    result = sync_catalog(catalog, source=url_source(cutter.url, allow_loopback=True))
    assert (result.outcome, result.packages, catalog.error_code) == ("changed", 3, "")


@pytest.mark.parametrize("chunked", [False, True], ids=["Content-Length", "chunked"])
@pytest.mark.parametrize(
    "headers", [{"Last-Modified": MODIFIED}, {"ETag": '"v1"'}], ids=["by time", "by ETag"]
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, zstandard.compress])
def test_a_body_sent_as_it_is_goes_on_where_it_was_cut(cutter, chunked, headers, pack):
    cutter.body, cutter.chunked, cutter.headers = pack(BODY), chunked, headers
    whole = len(cutter.body)
    for tenth in TENTHS[1:]:
        cutter.cuts, cutter.ranges = [whole * tenth // 10], []
        with opened(url_source(cutter.url, allow_loopback=True)) as fetched:
            assert fetched.body is not None
            assert fetched.body.read() == BODY
            assert (fetched.requests, fetched.bytes_read) == (2, whole)
        assert cutter.ranges == ["", f"bytes={whole * tenth // 10}-"]


def test_a_body_is_gone_on_with_three_times_and_no_more(cutter):
    whole = len(BODY)
    cutter.cuts = [whole // 5, whole * 2 // 5, whole * 3 // 5]
    with opened(url_source(cutter.url, allow_loopback=True)) as fetched:
        assert (fetched.size, fetched.requests) == (whole, 4)
    cutter.cuts = [whole * part // 6 for part in (1, 2, 3, 4)]
    with pytest.raises(SourceError) as caught:
        url_source(cutter.url, allow_loopback=True).fetch()
    assert caught.value.requests == 4


@pytest.mark.parametrize("tenth", TENTHS)
def test_a_body_that_names_no_version_can_not_be_gone_on_with(cutter, tenth):
    cutter.headers, cutter.cuts = {"ETag": 'W/"weak"'}, [len(BODY) * tenth // 10]
    with pytest.raises(SourceError) as caught:
        url_source(cutter.url, allow_loopback=True).fetch()
    assert (caught.value.code, caught.value.requests) == ("unreachable", 1)
