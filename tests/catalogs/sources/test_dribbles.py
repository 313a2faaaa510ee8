"""Servers that send a little now and then, for ever: every download ends by its own time."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import pytest
from kubernetes.client import ApiClient, Configuration

from catalogs.sources.access_methods import PROXIED
from catalogs.sources.base import Cut, Limits, SourceError
from catalogs.sources.catalogd import cluster_source
from catalogs.sources.http import url_source
from catalogs.sources.oci.auth import Credentials
from catalogs.sources.oci.client import RegistryClient
from catalogs.sources.oci.manifest import Descriptor, digest_of
from catalogs.sources.oci.reference import parse_reference
from catalogs.sources.registry.calls import TIMEOUTS, Timeouts
from catalogs.sources.registry.source import RegistrySource
from olmweb.kube.client import KubeClient
from tests.worlds.registry_grpc_fake import bundle, registry_fake

LIMITS = Limits(seconds=1)
SOON = 6  # seconds, of which a client waits some between its attempts
OK = b"HTTP/1.1 200 OK\r\n"
# What is sent first, and then again and again.
DRIBBLES = {
    "header": (OK + b"X-Long: ", b"x"),
    "headers": (OK, b"X: y\r\n"),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": (OK + b"Content-Length: 100000\r\n\r\n", b"x"),
    "body without a length": (OK + b"Connection: close\r\n\r\n", b"x"),
    "size of a chunk": (OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x"),
    "trailers": (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", b"X: y\r\n"),
    "challenge": (b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: ", b"x"),
    "silence": (b"", b""),
}


@contextmanager
def server(first: bytes, again: bytes) -> Iterator[int]:
    """Answers each connection with `first`, and then with `again` ten times a second."""
    stopped = threading.Event()

    def answer(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.recv(65536)
            connection.sendall(first)
            while not stopped.wait(0.1):
                connection.sendall(again)

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            stopped.set()
            listener.shutdown(socket.SHUT_RDWR)


def error_of(download: Callable[[], object]) -> SourceError | Cut:
    """The error with which the download ends, in a thread, so that one without an end fails."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            download()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SOON)
    assert not thread.is_alive(), "nothing ends the download"
    (error,) = errors
    assert isinstance(error, SourceError | Cut), error
    return error


def client(host: str, *others: str) -> RegistryClient:
    reference = parse_reference(f"{host}/olm/teas:v1")
    return RegistryClient(
        reference, Credentials(), frozenset([host, *others]), seconds=LIMITS.seconds
    )


@pytest.mark.parametrize("dribble", DRIBBLES)
def test_a_download_from_a_url_ends(dribble: str) -> None:
    with server(*DRIBBLES[dribble]) as port:
        url = f"http://127.0.0.1:{port}/"
        source = url_source(url, limits=LIMITS, allow_loopback=True)
        assert error_of(source.fetch).code == "too-slow"


@pytest.mark.parametrize("dribble", ["body", "body without a length"])
def test_a_download_through_an_api_server_ends(dribble: str) -> None:
    """The API server reads the headers of the Service, and sends the body on as it arrives."""
    with server(*DRIBBLES[dribble]) as port:
        configuration = Configuration(host=f"http://127.0.0.1:{port}")
        source = cluster_source(
            "ClusterCatalog teas",
            "/api/v1/namespaces/teas/services/https:teas:443/proxy/all.json",
            lambda: KubeClient(ApiClient(configuration)),
            access_method=PROXIED,
            limits=LIMITS,
        )
        assert error_of(source.fetch).code == "too-slow"


@pytest.mark.parametrize("dribble", DRIBBLES)
def test_a_blob_of_an_image_ends(dribble: str) -> None:
    blob = Descriptor(digest_of(b"y" * 100_000, "sha256:"), 100_000)
    with server(*DRIBBLES[dribble]) as port:
        read = client(f"127.0.0.1:{port}").blob(blob, "layer 1")
        assert error_of(lambda: list(read)).code == "too-slow"


@pytest.mark.parametrize("dribble", DRIBBLES)
def test_a_manifest_of_an_image_ends(dribble: str) -> None:
    with server(*DRIBBLES[dribble]) as port:
        read = client(f"127.0.0.1:{port}")
        assert error_of(lambda: read.manifest("v1")).code == "too-slow"


@pytest.mark.parametrize("dribble", DRIBBLES)
def test_the_token_of_a_registry_ends(dribble: str) -> None:
    with server(*DRIBBLES[dribble]) as tokens:
        challenge = (
            b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n"
            b'WWW-Authenticate: Bearer realm="http://127.0.0.1:%d/"\r\n\r\n' % tokens
        )
        with server(challenge, b"") as port:
            read = client(f"127.0.0.1:{port}", f"127.0.0.1:{tokens}")
            assert error_of(lambda: read.manifest("v1")).code == "too-slow"


def catalog(target: str, timeouts: Timeouts) -> RegistrySource:
    return RegistrySource(
        "CatalogSource teas", lambda: nullcontext(target), limits=LIMITS, timeouts=timeouts
    )


@pytest.mark.parametrize("method", ["ListPackages", "ListBundles", "GetPackage", "GetBundle"])
def test_a_registry_that_never_answers_ends(method: str) -> None:
    with registry_fake() as registry:
        registry.serve_channel(bundle("etcd.v1.0.0"))
        registry.silent = {method}
        source = catalog(registry.target, Timeouts(stream=1, answer=1))
        error = error_of(source.fetch)
        assert (error.code, method in str(error)) == ("timeout", True)


def test_a_stream_of_small_messages_without_an_end_ends() -> None:
    with registry_fake() as registry:
        registry.serve_channel(bundle("etcd.v1.0.0"))
        registry.bundles = dribbled(registry.bundles[0])  # type: ignore[assignment]
        error = error_of(catalog(registry.target, TIMEOUTS).fetch)
        assert error.code == "too-slow"


def dribbled(message: Any) -> Iterator[Any]:
    for _ in range(10 * SOON):
        yield message
        time.sleep(0.1)


@pytest.mark.parametrize("first", [b"", b"\0\0\6\4\0\0\0\0\0"])
def test_a_registry_that_dribbles_frames_ends(first: bytes) -> None:
    """The second one sends an empty SETTINGS frame, and then bytes of no frame."""
    with server(first, b"\0") as port:
        source = catalog(f"127.0.0.1:{port}", Timeouts(connect=1, stream=1, answer=1))
        assert error_of(source.fetch).code in ("unreachable", "timeout")
