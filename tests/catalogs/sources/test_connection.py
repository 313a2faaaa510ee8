"""Why a catalog's server can't be reached, told apart on real sockets with real certificates."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from urllib3.util import Timeout

from catalogs.sources import connection, guard
from catalogs.sources.access_methods import CATALOGD, GRPC, AccessMethod, FallbackSource
from catalogs.sources.base import LIMITS, SourceError
from catalogs.sources.catalogd import direct_source
from catalogs.sources.connection import Reason, probe_plaintext
from catalogs.sources.registry.calls import Timeouts
from catalogs.sources.registry.source import RegistrySource
from tests.certificates import certificate

Handle = Callable[[socket.socket], None]


@contextmanager
def listening(handle: Handle) -> Iterator[int]:
    """A port where every connection is given to `handle`, then closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        stopped = threading.Event()

        def serve() -> None:
            server.settimeout(0.05)
            while not stopped.is_set():
                with suppress(TimeoutError):
                    connected, _ = server.accept()
                    with connected, suppress(OSError):
                        connected.settimeout(5)
                        handle(connected)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            stopped.set()
            thread.join()


def answer_plainly(connected: socket.socket) -> None:
    connected.recv(4096)
    connected.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def be_silent(connected: socket.socket) -> None:
    """Until the other side closes."""
    while connected.recv(4096):
        pass


def with_tls(file: Path, *, demand: bool = False) -> Handle:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    if demand:
        context.verify_mode = ssl.CERT_REQUIRED

    def handle(connected: socket.socket) -> None:
        with context.wrap_socket(connected, server_side=True) as encrypted:
            answer_plainly(encrypted)

    return handle


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def catalogd_error(port: int, ca_file: Path | str, host: str = "localhost") -> SourceError:
    """The error of a catalog that is read from catalogd at this port."""
    base = f"https://{host}:{port}/catalogs/teas"
    rules = guard.Rules(loopback=True)
    source = direct_source("ClusterCatalog teas", base, ca_file=str(ca_file), rules=rules)
    with pytest.raises(SourceError) as caught:
        source.fetch()
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("name", "days", "trusts", "reason"),
    [
        ("localhost", 1, "another", Reason.AUTHORITY),
        ("localhost", -1, "its own", Reason.EXPIRED),
        ("catalogd-service.olmv1-system.svc", 1, "its own", Reason.CERTIFICATE_NAME),
    ],
)
def test_certificates_of_catalogd_that_are_not_accepted(
    tmp_path: Path, name: str, days: int, trusts: str, reason: Reason
) -> None:
    file = certificate(tmp_path, name, days)
    ca_file = file if trusts == "its own" else certificate(tmp_path)
    with listening(with_tls(file)) as port:
        error = catalogd_error(port, ca_file)
    assert (error.reason, error.code) == (reason, "unreachable")
    assert error.message.startswith("The certificate of localhost")


def test_a_certificate_that_is_accepted_leads_to_the_http_status(tmp_path: Path) -> None:
    file = certificate(tmp_path)
    with listening(with_tls(file)) as port:
        error = catalogd_error(port, file)
    assert (error.reason, error.code) == ("", "http-status")
    assert "answered 400" in error.message


def test_a_server_that_demands_a_certificate(tmp_path: Path) -> None:
    file = certificate(tmp_path)
    with listening(with_tls(file, demand=True)) as port:
        error = catalogd_error(port, file)
    assert error.reason == Reason.TLS
    assert "client certificate" in error.hint


def test_a_port_that_speaks_no_tls_or_says_nothing_or_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "TIMEOUT", Timeout(connect=1, read=1))
    file = certificate(tmp_path)
    with listening(answer_plainly) as port:
        assert catalogd_error(port, file).reason == Reason.NO_TLS
    with listening(be_silent) as port:
        assert catalogd_error(port, file).reason == Reason.TIMEOUT
    assert catalogd_error(closed_port(), file).reason == Reason.REFUSED
    unknown = catalogd_error(443, file, host="catalogd.invalid")
    assert unknown.reason == Reason.NAME
    assert "catalogd.invalid can't be found" in unknown.message


def test_a_service_without_endpoints_behind_the_api_server() -> None:
    body = b'{"message":"no endpoints available for service \\"https:catalogd-service:443\\""}'
    head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    def refuse(connected: socket.socket) -> None:
        connected.recv(4096)
        connected.sendall(head + body)

    rules = guard.Rules(loopback=True)
    with listening(refuse) as port:
        source = direct_source("ClusterCatalog teas", f"http://localhost:{port}/c", rules=rules)
        with pytest.raises(SourceError) as caught:
            source.fetch()
    assert (caught.value.code, caught.value.reason) == ("not-ready", Reason.NO_ENDPOINT)
    assert "no pod serves it" in caught.value.message


# -- gRPC -------------------------------------------------------------------------------------


def grpc_source(port: int) -> RegistrySource:
    @contextmanager
    def target() -> Iterator[str]:
        yield f"ipv4:127.0.0.1:{port}"

    short = Timeouts(connect=1, stream=1, answer=1)
    return RegistrySource("CatalogSource teas", target, timeouts=short)


def test_what_is_wrong_with_the_port_of_a_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PROBE_SECONDS", 1)

    def reason(port: int) -> str:
        with pytest.raises(SourceError) as caught:
            grpc_source(port).fetch()
        assert caught.value.code == "unreachable"
        assert f"127.0.0.1:{port}" in caught.value.message
        return caught.value.reason

    file = certificate(tmp_path)
    with listening(with_tls(file)) as port:
        assert reason(port) == Reason.ONLY_TLS
    with listening(with_tls(file, demand=True)) as port:
        assert reason(port) == Reason.ONLY_TLS
    with listening(answer_plainly) as port:
        assert reason(port) == Reason.NO_GRPC
    with listening(be_silent) as port:
        assert reason(port) == Reason.NO_GRPC
    assert reason(closed_port()) == Reason.REFUSED


def test_a_port_that_drops_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a NetworkPolicy: a listener whose queue is full answers no further connection."""
    monkeypatch.setattr(connection, "PROBE_SECONDS", 0.3)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
        failure = probe_plaintext("127.0.0.1", port)
        for client in waiting:
            client.close()
    assert failure.reason == Reason.TIMEOUT
    assert "NetworkPolicies" in failure.hint


def test_the_reason_is_kept_with_the_outcome_of_the_access_method(tmp_path: Path) -> None:
    port = closed_port()
    base = f"https://localhost:{port}/catalogs/teas"
    rules = guard.Rules(loopback=True)
    methods = [
        AccessMethod(CATALOGD, lambda: direct_source("teas", base, limits=LIMITS, rules=rules)),
        AccessMethod(GRPC, why="the CatalogSource has no address yet"),
    ]
    source = FallbackSource("teas", methods)
    with pytest.raises(SourceError):
        source.fetch()
    assert [outcome.get("reason") for outcome in source.outcomes] == [Reason.REFUSED, None]
