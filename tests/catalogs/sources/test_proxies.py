"""Registries behind a proxy of the usual variables, by plain HTTP and through a tunnel."""

import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest

from catalogs.sources import guard
from catalogs.sources.base import Cut, SourceError
from catalogs.sources.oci.source import BundleSource, RegistryAccess
from tests.certificates import certificate
from tests.worlds.bundle_images import bundle_image
from tests.worlds.image_registry_fake import RegistryFake, registry_fake

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
RULES = guard.Rules(proxies=True)


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def fake() -> Iterator[RegistryFake]:
    with registry_fake() as fake:
        yield fake


def test_an_image_is_pulled_through_a_proxy_that_looks_its_registry_up(
    fake: RegistryFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://ann:s%3Acret@{fake.host}")
    image = f"registry.invalid:5000/olm/kettle@{bundle_image(fake)}"
    access = RegistryAccess(frozenset(["registry.invalid:5000"]), named_by_others=True)
    files = BundleSource(image, access=access).fetch()
    assert files.requests == len(fake.seen) == 3
    for _, path, headers in fake.seen:
        assert path.startswith("http://registry.invalid:5000/v2/olm/kettle/")
        assert headers["host"] == "registry.invalid:5000"
        assert headers["proxy-authorization"] == "Basic YW5uOnM6Y3JldA=="


@pytest.mark.parametrize(
    ("variable", "value"), [("NO_PROXY", ".invalid"), ("NO_PROXY", "*"), ("HTTPS_PROXY", "x")]
)
def test_a_registry_that_no_proxy_is_for_is_asked_itself(
    fake: RegistryFake, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    if variable == "NO_PROXY":
        monkeypatch.setenv("HTTP_PROXY", f"http://{fake.host}")
    monkeypatch.setenv(variable, value)
    with (
        pytest.raises(Cut, match="can't be found"),
        guard.request("GET", "http://registry.invalid/", {}, RULES),
    ):
        pass
    assert not fake.seen


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "10.0.0.1"])
def test_a_proxy_is_not_asked_for_a_forbidden_address(
    fake: RegistryFake, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://{fake.host}")
    rules = guard.Rules(proxies=True, public_only=True)
    with (
        pytest.raises(SourceError, match="may not be read"),
        guard.request("GET", f"http://{host}/", {}, rules),
    ):
        pass
    assert not fake.seen


def test_this_machine_is_never_behind_a_proxy(
    fake: RegistryFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with registry_fake() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.host}")
        image = f"{fake.host}/olm/kettle@{bundle_image(fake)}"
        BundleSource(image, access=RegistryAccess(frozenset([fake.host]))).fetch()
        assert not proxy.seen


def test_other_addresses_do_not_go_through_the_proxy(
    fake: RegistryFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://{fake.host}")
    with pytest.raises(Cut), guard.request("GET", "http://catalog.invalid/", {}, guard.Rules()):
        pass
    assert not fake.seen


# -- https: a tunnel -------------------------------------------------------------------------


class Tunnel(BaseRequestHandler):
    """A proxy that connects every CONNECT to `target`."""

    target: tuple[str, int]
    heads: list[bytes]

    def handle(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.request.recv(4096)
        self.heads.append(head)
        with socket.create_connection(self.target) as other:
            self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=relay, args=(other, self.request))
            back.start()
            relay(self.request, other)
            back.join()


def relay(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def test_https_goes_through_a_tunnel_to_the_named_server(
    fake: RegistryFake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = certificate(tmp_path, "registry.invalid")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    fake._server.socket = context.wrap_socket(fake._server.socket, server_side=True)
    host, _, port = fake.host.partition(":")
    assert ipaddress.ip_address(host).is_loopback
    Tunnel.target, Tunnel.heads = (host, int(port)), []
    with ThreadingTCPServer(("127.0.0.1", 0), Tunnel) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.02,))
        thread.start()
        try:
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.server_address[1]}")
            rules = guard.Rules(proxies=True, public_only=True, ca_file=str(file))
            digest = bundle_image(fake)
            url = f"https://registry.invalid/v2/olm/kettle/manifests/{digest}"
            with guard.request("GET", url, {}, rules) as answer:
                assert answer.status == 200
                assert guard.ResponseBody(answer).read(10**6) == fake.manifests[digest][1]
            with (
                pytest.raises(Cut, match="does not answer"),
                guard.request("GET", url.replace("registry", "other"), {}, rules),
            ):
                pass
        finally:
            proxy.shutdown()
            thread.join()
    assert Tunnel.heads[0].startswith(b"CONNECT registry.invalid:443 ")
    [(_, path, headers)] = fake.seen
    assert path == f"/v2/olm/kettle/manifests/{digest}"
    assert "proxy-authorization" not in headers
