"""Where a request may go that a person or another server named."""

import ipaddress
import socket

import pytest

from catalogs.sources import guard
from catalogs.sources.base import SourceError, opened
from catalogs.sources.http import url_source
from tests.worlds.catalogd_fake import catalog_fake
from tests.worlds.fbc import jsonl, package

BODY = jsonl(package())


@pytest.fixture
def names(monkeypatch):
    """What host names stand for: a list of answers, one per question. Counts the questions."""
    names: dict[str, list[list[str]]] = {}
    requested: list[str] = []
    real = socket.getaddrinfo

    def look_up(host, port, *args, **kwargs):
        if host not in names:
            return real(host, port, *args, **kwargs)
        requested.append(host)
        result = names[host].pop(0) if len(names[host]) > 1 else names[host][0]
        family = [socket.AF_INET6 if ":" in at else socket.AF_INET for at in result]
        return [
            (f, socket.SOCK_STREAM, 6, "", (at, port)) for f, at in zip(family, result, strict=True)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    names["asked"] = [requested]
    return names


def refusal(url: str, rules: guard.Rules | None = None) -> str:
    rules = rules or guard.Rules()
    with pytest.raises(SourceError) as caught, guard.request("GET", url, {}, rules):
        pass
    assert caught.value.code == "bad-url"
    return caught.value.message


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("169.254.1.1", id="link-local"),
        pytest.param("fe80::1", id="link-local of IPv6"),
        pytest.param("169.254.169.254", id="metadata"),
        pytest.param("100.100.100.200", id="metadata of a cloud outside link-local"),
        pytest.param("fd00:ec2::254", id="metadata over IPv6"),
        pytest.param("::ffff:169.254.169.254", id="IPv4-mapped"),
        pytest.param("::ffff:0:169.254.169.254", id="IPv4-translated"),
        pytest.param("::169.254.169.254", id="IPv4-compatible"),
        pytest.param("64:ff9b::a9fe:a9fe", id="NAT64"),
        pytest.param("64:ff9b:1::a9fe:a9fe", id="NAT64 of a local prefix"),
        pytest.param("2002:a9fe:a9fe::1", id="6to4"),
        pytest.param("2001:0:1234::5601:5601", id="Teredo"),
        pytest.param("64:ff9b::7f00:1", id="loopback by NAT64"),
        pytest.param("127.8.9.1", id="loopback"),
        pytest.param("::1", id="loopback of IPv6"),
        pytest.param("0.0.0.0", id="unspecified"),
        pytest.param("0.1.2.3", id="this network"),
        pytest.param("::", id="unspecified of IPv6"),
        pytest.param("224.0.0.1", id="multicast"),
    ],
)
def test_a_name_that_stands_for_what_only_this_server_reaches_is_refused(names, address):
    names["catalog.example"] = [[address]]
    message = refusal("https://catalog.example/all?token=hush")
    shown = ipaddress.ip_address(address)
    assert message == f"https://catalog.example/all leads to {shown}, which may not be read."
    host = f"[{address}]" if ":" in address else address
    assert f"leads to {shown}" in refusal(f"http://{host}/")


@pytest.mark.parametrize(
    ("address", "plain"),
    [
        ("64:ff9b::808:808", "8.8.8.8"),
        ("2002:808:808::", "8.8.8.8"),
        ("::ffff:8.8.8.8", "8.8.8.8"),
        ("2606:4700::1111", "2606:4700::1111"),
        ("10.0.0.7", "10.0.0.7"),
    ],
)
def test_addresses_that_others_have_too_may_be_read(names, address, plain):
    assert str(guard.unwrapped(ipaddress.ip_address(address))) == plain
    names["catalog.example"] = [[address]]
    result = guard.checked_address("catalog.example", 443, "https://x", guard.Rules())
    assert result == str(ipaddress.ip_address(address))


def test_one_forbidden_address_of_several_is_enough(names):
    names["catalog.example"] = [["93.184.216.34", "169.254.169.254"]]
    assert "leads to 169.254.169.254" in refusal("http://catalog.example/")


def test_a_name_that_changes_its_mind_is_asked_once(names):
    with catalog_fake() as fake:
        fake.body = BODY
        names["rebinding.example"] = [["127.0.0.1"], ["169.254.169.254"]]
        url = fake.url.replace("127.0.0.1", "rebinding.example")
        with opened(url_source(url, allow_loopback=True)) as fetched:
            assert fetched.size == len(BODY)
        assert names["asked"] == [["rebinding.example"]]
        assert fake.seen[0]["host"].startswith("rebinding.example:")


def test_a_redirect_to_a_name_is_looked_at_again(names):
    with catalog_fake() as fake:
        names["inner.example"] = [["64:ff9b::a9fe:a9fe"]]
        fake.script = ["http://inner.example/latest/meta-data/?token=hush"]
        with pytest.raises(SourceError) as caught:
            url_source(fake.url, allow_loopback=True).fetch()
    assert caught.value.message == (
        "http://inner.example/latest/meta-data/ leads to 64:ff9b::a9fe:a9fe, which may not be read."
    )


def test_public_only_means_public_or_trusted(names):
    names["store.example"] = [["10.0.0.7"]]
    rules = guard.Rules(public_only=True, trusted=frozenset(["other.example:443"]))
    assert "leads to 10.0.0.7" in refusal("https://store.example/", rules)
    rules = guard.Rules(public_only=True, trusted=frozenset(["store.example:443"]))
    assert guard.checked_address("store.example", 443, "https://x", rules) == "10.0.0.7"


def test_a_trusted_server_may_be_on_this_machine_but_nowhere_worse(names):
    names["here.example"] = [["127.0.0.1"]]
    names["worse.example"] = [["169.254.169.254"]]
    rules = guard.Rules(trusted=frozenset(["here.example:5000", "worse.example:5000"]))
    assert guard.checked_address("here.example", 5000, "http://x", rules) == "127.0.0.1"
    assert "leads to 127.0.0.1" in refusal("http://here.example:5001/", rules)
    assert "leads to 169.254.169.254" in refusal("http://worse.example:5000/", rules)


def test_a_name_that_nobody_knows_is_told(names, monkeypatch):
    def nobody(*_args, **_kwargs):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    with pytest.raises(SourceError) as caught:
        url_source("https://nobody.example/").fetch()
    assert "nobody.example can't be found" in caught.value.message
    assert caught.value.code == "unreachable"
