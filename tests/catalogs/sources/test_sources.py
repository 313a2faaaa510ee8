"""Opening catalogs from files, URLs and catalogd: what is read, and what is refused with words."""

import gzip
import lzma
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import zstandard

from catalogs.sources.base import Limits, SourceError, opened, progress_callback
from catalogs.sources.catalogd import catalogd_source, proxy_path
from catalogs.sources.file import FileSource
from catalogs.sources.http import url_source
from olmweb.kube.errors import Unreachable
from tests.worlds.catalogd_fake import CatalogFake, catalog_fake
from tests.worlds.fbc import jsonl, package
from tests.worlds.image_registry_fake import endless, tar

BODY = jsonl(package())


@pytest.fixture
def fake() -> Iterator[CatalogFake]:
    with catalog_fake() as server:
        server.body = BODY
        yield server


def read(source, **options) -> bytes:
    with opened(source, **options) as fetched:
        assert fetched.body is not None
        return fetched.body.read()


def failure(source, **options) -> SourceError:
    with pytest.raises(SourceError) as caught, opened(source, **options):
        pass
    return caught.value


ENCODED = {
    "plain": BODY,
    "gzip": gzip.compress(BODY),
    "xz": lzma.compress(BODY),
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress(BODY),
    "two gzip members": gzip.compress(BODY[:50]) + gzip.compress(BODY[50:]),
    "two zstd frames": zstandard.compress(BODY[:50]) + zstandard.compress(BODY[50:]),
    "two xz streams": lzma.compress(BODY[:50]) + lzma.compress(BODY[50:]),
}


@pytest.mark.parametrize("encoding", ENCODED)
def test_the_encoding_of_a_file_is_told_by_its_bytes_not_its_name(tmp_path, encoding):
    path = tmp_path / "catalog.txt"
    path.write_bytes(ENCODED[encoding])
    assert read(FileSource(path)) == BODY


@pytest.mark.parametrize("encoding", ["gzip", "xz", "zstd"])
@pytest.mark.parametrize("kept", [0.3, 0.999])
def test_a_truncated_file_is_refused_in_one_sentence(tmp_path, encoding, kept):
    path = tmp_path / "catalog"
    data = ENCODED[encoding]
    path.write_bytes(data[: int(len(data) * kept)])
    error = failure(FileSource(path))
    assert error.code == "cut-short"
    assert error.message.startswith(f"{path} is cut short: the {encoding} data ends after")


@pytest.mark.parametrize("encoding", ["gzip", "xz", "zstd"])
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path, encoding):
    path = tmp_path / "catalog"
    data = bytearray(ENCODED[encoding])
    data[len(data) // 2 : len(data) // 2 + 8] = b"\xff" * 8
    path.write_bytes(data)
    error = failure(FileSource(path))
    assert error.code in ("broken-encoding", "cut-short")
    assert str(path) in error.message


@pytest.mark.parametrize("data", [b"", gzip.compress(b"")], ids=["nothing", "empty gzip"])
def test_an_empty_catalog_is_refused(tmp_path, data):
    path = tmp_path / "catalog"
    path.write_bytes(data)
    assert failure(FileSource(path)).message == f"{path} is empty."


def test_what_is_no_file_is_refused(tmp_path):
    assert "can't be opened: No such file" in failure(FileSource(tmp_path / "no")).message
    assert failure(FileSource(tmp_path)).message == f"{tmp_path} is not a file."
    os.mkfifo(tmp_path / "pipe")
    assert "is not a file" in failure(FileSource(tmp_path / "pipe")).message


@pytest.mark.parametrize("encoding", ["plain", "gzip", "xz", "zstd"])
def test_a_body_over_the_cap_is_refused(tmp_path, encoding):
    path = tmp_path / "catalog"
    path.write_bytes(ENCODED[encoding])
    error = failure(FileSource(path, limits=Limits(body=1000)))
    assert (error.code, "larger than" in error.message) == ("too-large", True)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, zstandard.compress])
def test_a_compression_bomb_is_refused(tmp_path, compress):
    path = tmp_path / "catalog"
    path.write_bytes(compress(b"\0" * 3_000_000))
    error = failure(FileSource(path, limits=Limits(ratio=100, ratio_from=1_000_000)))
    assert error.code == "expands"


def test_an_unchanged_file_is_not_read_again(tmp_path):
    path = tmp_path / "catalog"
    path.write_bytes(BODY)
    with opened(FileSource(path)) as first:
        stamp = first.last_modified
    with opened(FileSource(path), stamp) as second:
        assert second.body is None
    path.write_bytes(BODY + b"\n")
    assert read(FileSource(path), if_modified_since=stamp) == BODY + b"\n"


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path):
    path = tmp_path / "catalog"
    path.write_bytes(BODY)
    with opened(FileSource(path)) as fetched:
        fetched.check()
        path.write_bytes(BODY[:10])
        with pytest.raises(SourceError, match="changed while it was being read"):
            fetched.check()


@pytest.mark.parametrize("encoding", ["gzip", "xz", "zstd"])
def test_a_compressed_file_that_changes_while_it_is_read_is_noticed(tmp_path, encoding):
    path = tmp_path / "catalog"
    path.write_bytes(ENCODED[encoding])
    with progress_callback(lambda *_: path.write_bytes(ENCODED[encoding] * 2)):
        assert failure(FileSource(path)).code == "changed-while-reading"


def test_a_file_that_vanishes_while_it_is_read_is_read_to_its_end(tmp_path):
    path = tmp_path / "catalog"
    path.write_bytes(BODY)
    with opened(FileSource(path)) as fetched:
        path.unlink()
        assert fetched.body is not None
        assert fetched.body.read() == BODY
        fetched.check()
    assert "can't be opened: No such file" in failure(FileSource(path)).message


@pytest.mark.parametrize(("pack", "encodings"), [(gzip.compress, ()), (bytes, ("zstd",))])
def test_a_url_of_a_tar_is_a_folder(fake, pack, encodings):
    fake.body, fake.encodings = pack(tar(("b.json", BODY), ("a/c.json", BODY))), encodings
    with opened(url_source(fake.url, allow_loopback=True)) as fetched:
        assert fetched.body is not None
        assert fetched.body.read() == BODY + BODY
        assert [name for _, name in fetched.files] == ["a/c.json", "b.json"]
        assert (fetched.access_method, fetched.last_modified) == ("URL", fake.last_modified)


def test_a_url_without_an_end_is_not_read_to_it(fake):
    fake.answer = endless(b'{"schema":"olm.package"}\n' * 5000)
    error = failure(url_source(fake.url, allow_loopback=True, limits=Limits(body=5_000_000)))
    assert error.code == "too-large"
    assert error.bytes_read < 6_000_000


@pytest.mark.parametrize("encodings", [(), ("zstd",), ("gzip",)])
def test_a_url_is_read_in_each_encoding(fake, encodings):
    fake.encodings = encodings
    source = url_source(fake.url, allow_loopback=True)
    with opened(source) as fetched:
        assert fetched.body is not None
        assert fetched.body.read() == BODY
        assert (fetched.requests, fetched.last_modified) == (1, fake.last_modified)
        assert (fetched.bytes_read == len(BODY)) is (encodings == ())


def test_304_gives_no_body(fake):
    with opened(url_source(fake.url, allow_loopback=True), fake.last_modified) as fetched:
        assert (fetched.body, fetched.requests) == (None, 1)


@pytest.mark.parametrize(
    ("status", "code"),
    [(404, "not-ready"), (503, "not-ready"), (403, "forbidden"), (500, "http-status")],
)
def test_a_refusal_says_the_status(fake, status, code):
    fake.script = [status]
    error = failure(url_source(fake.url, allow_loopback=True))
    assert error.code == code
    assert f"answered {status}" in error.message


def test_a_cut_download_goes_on_where_it_stopped(fake):
    fake.script = ["cut"]
    with opened(url_source(fake.url, allow_loopback=True)) as fetched:
        assert fetched.body is not None
        assert fetched.body.read() == BODY
        assert fetched.requests == 2
    assert fake.seen[1]["range"] == f"bytes={len(BODY) // 2}-"


def test_a_cut_download_of_changed_content_is_refused(fake):
    fake.script = ["cut"]
    answer = fake.answer

    def changing(request):
        answer(request)
        fake.last_modified = "Sat, 21 Nov 2026 04:00:00 GMT"

    fake.answer = changing
    error = failure(url_source(fake.url, allow_loopback=True))
    assert error.code == "changed-while-reading"


def test_a_cut_encoded_download_is_refused(fake):
    fake.encodings, fake.script = ("zstd",), ["cut"]
    assert failure(url_source(fake.url, allow_loopback=True)).code == "unreachable"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost:8000/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://0.0.0.0/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fe80::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://100.100.100.200/",
        "http://[fd00:ec2::254]/",
        "http://2130706433/",
    ],
)
def test_an_address_only_this_server_can_reach_is_refused(url):
    error = failure(url_source(url))
    assert (error.code, "which may not be read" in error.message) == ("bad-url", True)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://example.org/x", "example.org", "http://", "http://a:b/"]
)
def test_what_is_no_http_address_is_refused(url):
    with pytest.raises(SourceError) as caught:
        url_source(url)
    assert caught.value.code == "bad-url"


def test_a_password_in_an_address_is_refused_and_not_repeated():
    with pytest.raises(SourceError) as caught:
        url_source("https://me:secret@example.org/x")
    assert "secret" not in caught.value.message


def test_each_redirect_is_checked(fake):
    fake.script = ["http://169.254.169.254/latest/"]
    error = failure(url_source(fake.url, allow_loopback=True))
    assert "leads to 169.254.169.254" in error.message
    fake.script = ["/elsewhere"]
    assert read(url_source(fake.url, allow_loopback=True)) == BODY
    fake.script = ["/again"] * 6
    assert (
        "redirects more than 5 times" in failure(url_source(fake.url, allow_loopback=True)).message
    )


def test_a_refused_redirect_is_told_without_its_query(fake):
    fake.script = ["http://169.254.169.254/latest/?token=hush"]
    error = failure(url_source(fake.url, allow_loopback=True))
    assert "http://169.254.169.254/latest/ leads to" in error.message
    assert "hush" not in error.message


def test_a_query_is_sent_but_not_shown(fake):
    source = url_source(fake.url + "?token=hush", allow_loopback=True)
    assert "hush" not in source.label
    assert read(source) == BODY


@pytest.mark.parametrize(
    ("base", "path"),
    [
        (
            "https://catalogd-service.olmv1-system.svc/catalogs/a.b",
            "/api/v1/namespaces/olmv1-system/services/https:catalogd-service:443/proxy"
            "/catalogs/a.b/api/v1/all",
        ),
        (
            "http://s.n.svc.cluster.local:8080/",
            "/api/v1/namespaces/n/services/http:s:8080/proxy/api/v1/all",
        ),
        ("https://s.n", "/api/v1/namespaces/n/services/https:s:443/proxy/api/v1/all"),
    ],
)
def test_the_proxy_path_names_service_namespace_and_port(base, path):
    assert proxy_path(base) == path


@pytest.mark.parametrize(
    "base",
    [
        "https://localhost:18443/catalogs/x",
        "https://s.n.example.org/x",
        "https://s.n.svc/../../secrets",
        "https://s.n.svc/a/..",
        "https://s.n.svc/a%2f..",
        "https://s.n.svc/a?b=c",
        "https://u@s.n.svc/a",
        "ftp://s.n.svc/a",
        "https://s.n.svc:x/a",
    ],
)
def test_an_address_that_names_no_service_is_refused(base):
    with pytest.raises(SourceError) as caught:
        proxy_path(base)
    assert caught.value.code == "catalog-address"


def test_a_catalog_without_an_address_is_not_ready():
    with pytest.raises(SourceError) as caught:
        proxy_path("")
    assert caught.value.code == "not-ready"


class _Client:
    """Stands for the kube client: one answer from memory."""

    def __init__(self, body: bytes, *, error: Exception | None = None) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.path = ""
        self._body = body
        self._error = error

    @contextmanager
    def stream(self, path, headers=None, query=()):
        self.path = path
        yield self

    def read_some(self, size=65536):
        if self._error:
            raise self._error
        part, self._body = self._body[:size], self._body[size:]
        return part

    @contextmanager
    def opened(self):
        yield self


BASE = "https://catalogd.olm.svc/catalogs/x"


def test_catalogd_is_read_through_the_proxy():
    client = _Client(BODY)
    assert read(catalogd_source("x", BASE, client.opened)) == BODY
    assert client.path == proxy_path(BASE)


def test_a_body_of_catalogd_without_its_last_newline_was_cut():
    assert failure(catalogd_source("x", BASE, _Client(BODY[:-1]).opened)).code == "cut-short"


def test_an_error_of_the_cluster_keeps_its_sentence():
    client = _Client(BODY, error=Unreachable("prod does not answer.", hint="Wait."))
    error = failure(catalogd_source("x", BASE, client.opened))
    assert (error.code, error.message, error.hint) == (
        "unreachable",
        "prod does not answer.",
        "Wait.",
    )
