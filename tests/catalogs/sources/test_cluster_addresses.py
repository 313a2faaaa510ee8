"""Where addresses of a CatalogSource and a ClusterCatalog may lead: no connection is opened to any
other place."""

import socket

import certifi
import pytest
from urllib3.exceptions import HTTPError

from catalogs.models import Catalog
from catalogs.sources import guard, select
from catalogs.sources.access_methods import CATALOGD, GRPC, AccessMethod
from catalogs.sources.base import SourceError
from olmweb.kube.session import IN_CLUSTER
from olmweb.models import Cluster

INSIDE, OUTSIDE = IN_CLUSTER, "prod"


def direct(address: str, context: str = INSIDE) -> AccessMethod:
    return access_method(GRPC, "CatalogSource", address, context)


def catalogd(base: str, context: str = INSIDE) -> AccessMethod:
    return access_method(CATALOGD, "ClusterCatalog", base, context)


def access_method(name: str, kind: str, address: str, context: str) -> AccessMethod:
    catalog = Catalog(
        cluster=Cluster(name="prod", context=context), name="teas", namespace="team",
        source_kind=kind, source=address, base_url=address,
    )  # fmt: skip
    methods = select.source_of(catalog)._methods  # type: ignore[attr-defined]
    (method,) = (method for method in methods if method.name == name)
    assert isinstance(method, AccessMethod)
    return method


@pytest.fixture
def lookups(monkeypatch):
    """Hosts that were looked up; all have the address 10.0.0.1."""
    hosts: list[str] = []

    def look_up(host, port, **_):
        hosts.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return hosts


@pytest.mark.parametrize("context", [INSIDE, OUTSIDE])
def test_an_address_in_the_private_network_sees_no_connection(context, monkeypatch):
    monkeypatch.setattr(select, "RULES", guard.Rules(loopback=True))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.3)
        port = listener.getsockname()[1]
        method = direct(f"127.0.0.1:{port}", context)
        if method.open is not None:
            with pytest.raises(SourceError):
                method.open().fetch()
        with pytest.raises(TimeoutError):
            listener.accept()
    assert method.open is None
    assert f"127.0.0.1:{port} is neither a Service of the cluster" in method.why
    assert "OLMWEB_GRPC_HOSTS" in method.why


@pytest.mark.parametrize(
    "address",
    ["db.corp.example:5432", "10.0.0.1:50051", "[fd00::1]:50051", "a.b:50051", "a.b.svcs:1",
     "x.svc:50051", "a.b.c.svc:1"],
)  # fmt: skip
def test_only_services_and_allowed_hosts_are_addresses(address, settings, lookups):
    assert direct(address).open is None
    settings.GRPC_HOSTS = frozenset({address.rpartition(":")[0]})
    assert direct(address).open is not None
    settings.GRPC_HOSTS = frozenset({address})
    assert direct(address, OUTSIDE).open is not None
    assert lookups == []


@pytest.mark.parametrize("suffix", ["", ".cluster.local", ".evil.example"])
def test_a_service_is_looked_up_in_its_own_cluster_whatever_follows_its_name(suffix, lookups):
    method = direct(f"teas.team.svc{suffix}:50051")
    assert method.open is not None
    with method.open().open_target() as target:  # type: ignore[attr-defined]
        assert target == "ipv4:10.0.0.1:50051"
    assert lookups == ["teas.team.svc"]
    assert direct(f"teas.team.svc{suffix}:50051", OUTSIDE).why == select.ELSEWHERE


def test_an_allowed_host_may_not_lead_to_metadata(settings, monkeypatch):
    settings.GRPC_HOSTS = frozenset({"registry.example"})
    answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 50051))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answer)
    method = direct("registry.example:50051")
    assert method.open is not None
    with pytest.raises(SourceError, match=r"169\.254\.169\.254"):
        method.open().fetch()


@pytest.mark.parametrize("context", [INSIDE, OUTSIDE])
def test_a_base_url_in_the_private_network_sees_no_connection(context, monkeypatch):
    monkeypatch.setattr(select, "RULES", guard.Rules(loopback=True))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.3)
        base = f"http://127.0.0.1:{listener.getsockname()[1]}/catalogs/teas"
        method = catalogd(base, context)
        with pytest.raises(TimeoutError):
            listener.accept()
    assert method.open is None
    assert f"{base} is neither a Service of the cluster" in method.why
    assert "OLMWEB_GRPC_HOSTS" in method.why


@pytest.mark.parametrize(
    "host", ["db.corp.example", "10.0.0.1:8080", "[fd00::1]:8080", "a.b", "a.b.svcs", "a.b.c.svc"]
)
def test_only_services_and_allowed_hosts_are_base_urls(host, settings, lookups):
    base = f"https://{host}/catalogs/teas"
    assert catalogd(base).open is None
    settings.GRPC_HOSTS = frozenset({host.removesuffix(":8080")})
    assert catalogd(base).open is not None
    settings.GRPC_HOSTS = frozenset({host if ":" in host else f"{host}:443"})
    assert catalogd(base, OUTSIDE).open is not None
    assert catalogd("https://other.example/catalogs/teas", OUTSIDE).open is None
    assert lookups == []


@pytest.mark.parametrize("base", ["https://[", "https://a.b.svc:x/", "ftp://a.b.svc/", "teas"])
def test_a_base_url_that_is_no_address_is_refused(base, lookups):
    method = catalogd(base)
    if method.open is not None:
        with pytest.raises(SourceError):
            method.open().fetch()
    assert lookups == []


@pytest.mark.parametrize("suffix", ["", ".cluster.local", ".evil.example"])
def test_a_base_url_leads_to_the_service_of_its_own_cluster(suffix, settings, lookups, monkeypatch):
    def refuse(_pool, address, *_, **__):
        raise HTTPError("refused by the test")

    monkeypatch.setattr("urllib3.HTTPConnectionPool.urlopen", refuse)
    base = f"https://catalogd.olm.svc{suffix}/catalogs/teas"
    assert "OLMWEB_CATALOGD_CA" in catalogd(base).why
    settings.CATALOGD_CA = certifi.where()
    method = catalogd(base)
    assert method.open is not None
    with pytest.raises(SourceError, match=r"catalogd\.olm\.svc does not answer"):
        method.open().fetch()
    assert set(lookups) == {"catalogd.olm.svc"}
    assert catalogd(base, OUTSIDE).why == select.ELSEWHERE
