"""Requests to addresses from people or other servers, guarded against SSRF.

Refuses link-local addresses, cloud metadata services and this machine, also as an IPv4 address
inside an IPv6 one. Connects to the checked address, so that the name can't resolve to another one
meanwhile. Follows no redirect: each is a new request with a new check. Ends a request that takes
too long as a whole. Behind a proxy, which looks the names up, only literal addresses are checked.
"""

import ipaddress
import socket
import threading
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection, ProxyConfig
from urllib3.exceptions import HTTPError
from urllib3.util import Timeout, make_headers

from catalogs.sources.base import LIMITS, Cut, SourceError
from catalogs.sources.connection import failure_of

TIMEOUT = Timeout(connect=10, read=60)
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# Metadata services outside the link-local range.
_METADATA = frozenset(
    map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"))
)
# Networks whose addresses end with the IPv4 address of the destination: NAT64 (RFC 6052, RFC 8215)
# and the old IPv4-compatible ones.
_ENDS_WITH_IPV4 = tuple(
    map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96", "::/96"))
)
_LOCALHOST = ipaddress.IPv4Address("127.0.0.1")
_THIS_NETWORK = ipaddress.IPv4Network("0.0.0.0/8")


@dataclass(frozen=True, slots=True)
class Rules:
    """`trusted` holds "host:port" of servers that may be on this machine. With `public_only` all
    others must have a public address. `ca_file` has the certificate authorities, "" the usual.
    `proxies`: the variables HTTPS_PROXY, HTTP_PROXY and NO_PROXY count."""

    trusted: frozenset[str] = frozenset()
    public_only: bool = False
    proxies: bool = False
    loopback: bool = False  # for tests; no setting turns it on
    ca_file: str = ""


def parse(url: str) -> SplitResult:
    """The parts of an http(s) URL. Raises SourceError for another text, or one with a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise refused(url, f"is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise refused(url, "is not an http or https address")
    if parts.username is not None or parts.password is not None:
        raise SourceError(
            f"The address at {parts.hostname} holds a user name or password.",
            code="bad-url",
            hint="Leave them out: the address is stored and shown.",
        )
    return parts


def refused(url: str, why: str) -> SourceError:
    """The error for a URL that is not allowed."""
    # Without its query, which may hold a token.
    return SourceError(
        f"{url.partition('?')[0][:200]} {why}.",
        code="bad-url",
        hint="Give an http or https address that is not one of this machine or its network link.",
    )


def port_of(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def host_of(parts: SplitResult) -> str:
    """The host as in an address, an IPv6 address in brackets."""
    return _bracketed(parts.hostname or "")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@contextmanager
def request(
    method: str,
    url: str,
    headers: Mapping[str, str],
    rules: Rules,
    *,
    body: bytes | None = None,
    seconds: float = LIMITS.seconds,
) -> Iterator[urllib3.BaseHTTPResponse]:
    """An open answer, body unread. Its connection is cut `seconds` after the request, with the body
    read or not. Raises SourceError for a forbidden address, Cut without an answer."""
    parts = parse(url)
    port, host = port_of(parts), parts.hostname or ""
    proxy = _proxy_of(parts) if rules.proxies else ""
    if proxy:
        _check_literal(host, url, rules)
        address = host
    else:
        address = checked_address(host, port, url, rules)
    named = host_of(parts)
    sent = {**headers, "Host": named if parts.port is None else f"{named}:{port}"}
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if proxy and parts.scheme == "http":  # the form of a request to a proxy: RFC 9112, 3.2.2
        path = f"http://{named}:{port}{path}"
    watchdog = _Watchdog(seconds)
    with (
        _pool(parts.scheme, address, port, host, rules.ca_file, watchdog, proxy) as pool,
        watchdog,
    ):
        try:
            answer = pool.urlopen(
                method,
                path,
                body=body,
                headers=sent,
                preload_content=False,
                redirect=False,
                retries=False,
                assert_same_host=False,  # the pool of a proxy has the proxy's name
            )
        except (HTTPError, OSError) as error:
            if watchdog.expired:
                raise _too_slow(host) from error
            # Behind a proxy it is the proxy that was connected to.
            if not proxy and (failure := failure_of(host, error)):
                raise Cut(
                    f"{failure.sentence}.", hint=failure.hint, reason=failure.reason
                ) from error
            raise Cut(
                f"{host} does not answer: {error}.",
                hint="Check the address, the network and, for https, the server's certificate.",
            ) from error
        try:
            yield answer
        except Cut as error:
            if watchdog.expired:
                raise _too_slow(host) from error
            raise
        finally:
            answer.close()


def _proxy_of(parts: SplitResult) -> str:
    """The address of the proxy for this one, "" for none. As in Go's httpproxy, which registries'
    clients have, this machine is never behind a proxy. Raises SourceError for an invalid one."""
    host = parts.hostname or ""
    proxies = urllib.request.getproxies_environment()
    proxy = proxies.get(parts.scheme, "") or proxies.get("all", "")
    literal = _literal(host)
    local = host == "localhost" or (literal is not None and unwrapped(literal).is_loopback)
    if not proxy or local or urllib.request.proxy_bypass(parts.netloc):
        return ""
    if not proxy.startswith(("http://", "https://")):
        proxy = f"http://{proxy}"
    if not urllib3.util.parse_url(proxy).host:
        raise SourceError(
            f"The proxy for {parts.scheme} names no host.",
            code="bad-proxy",
            hint="HTTPS_PROXY and HTTP_PROXY have the form http://host:port.",
        )
    return proxy


def _literal(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _check_literal(host: str, url: str, rules: Rules) -> None:
    """Refuses a forbidden address behind a proxy. A name is for the proxy to look up."""
    literal = _literal(host)
    if literal is not None:
        plain = unwrapped(literal)
        trusted = any(name.startswith(f"{host}:") for name in rules.trusted)
        if _ours_alone(plain) or (rules.public_only and not trusted and not plain.is_global):
            raise refused(url, f"leads to {literal}, which may not be read")


def check_host(parts: SplitResult, url: str, trusted: Collection[str] = ()) -> None:
    """Refuses a URL whose host is this machine or a forbidden address, as a request with these
    trusted hosts does, but looks up no name."""
    host = parts.hostname or ""
    literal = _LOCALHOST if host == "localhost" else _literal(host)
    if literal is None:
        return
    plain = unwrapped(literal)
    if plain.is_loopback and _is_trusted(host, port_of(parts), trusted):
        return
    if _ours_alone(plain):
        raise refused(url, f"leads to {literal}, which may not be read")


def _is_trusted(host: str, port: int, trusted: Collection[str]) -> bool:
    return f"{_bracketed(host)}:{port}" in trusted


def _too_slow(host: str) -> Cut:
    return Cut(
        f"{host} does not finish its answer in time.",
        code="too-slow",
        hint="Check the network and the load of the server; what was read before stays.",
    )


def checked_address(host: str, port: int, url: str, rules: Rules) -> str:
    """The address to connect to; every address of the name must be allowed."""
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        if failure := failure_of(host, error):
            raise Cut(f"{failure.sentence}.", hint=failure.hint, reason=failure.reason) from error
        raise Cut(
            f"{host} can't be found: {error}.", hint="Check the host name and this server's DNS."
        ) from error
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in answers]
    trusted = _is_trusted(host, port, rules.trusted)
    for address in addresses:
        plain = unwrapped(address)
        if plain.is_loopback and (rules.loopback or trusted):
            continue
        if _ours_alone(plain) or (rules.public_only and not trusted and not plain.is_global):
            raise refused(url, f"leads to {address}, which may not be read")
    return str(addresses[0])


def _ours_alone(address: _Address) -> bool:
    """Whether the address means this machine, its network link, or no host."""
    return (
        address in _METADATA
        or address.is_link_local
        or address.is_loopback
        or address.is_unspecified
        or address.is_multicast
        or (isinstance(address, ipaddress.IPv4Address) and address in _THIS_NETWORK)
    )


def unwrapped(address: _Address) -> _Address:
    """The IPv4 address inside an IPv6 one, where there is one."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour or address
    if address.teredo:
        return address.teredo[1]
    tail = int(address) & 0xFFFFFFFF
    if tail > 1 and any(address in network for network in _ENDS_WITH_IPV4):
        return ipaddress.IPv4Address(tail)
    return address


class _Watchdog:
    """Cuts the connection of a request after `seconds`.

    The timeout of a socket begins anew with each byte, and one read of http.client may take any
    number of them: a server that dribbles headers, the size of a chunk or trailers holds it for
    ever.
    """

    def __init__(self, seconds: float) -> None:
        self.expired = False
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(max(seconds, 0), self._cut)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def watch(self, connected: socket.socket) -> None:
        """Called with the connected socket, by the thread that will read from it."""
        self._socket = connected
        if self.expired:
            self._cut()

    def _cut(self) -> None:
        self.expired = True
        if self._socket is not None:
            with suppress(OSError):  # closed meanwhile
                # Not SSLSocket.shutdown, which takes the TLS layer from the thread that reads.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _Connection(HTTPConnection):
    def __init__(self, *args: Any, watchdog: _Watchdog, **options: Any) -> None:
        super().__init__(*args, **options)
        self._watchdog = watchdog

    def connect(self) -> None:
        super().connect()
        self._watchdog.watch(self.sock)

    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]
        response = super().getresponse()
        if self._watchdog.expired:  # http.client takes the cut for the end of the headers
            response.close()
            raise TimeoutError("the time of the request is over")
        return response


class _TlsConnection(_Connection, HTTPSConnection):
    """HTTPSConnection with a watchdog."""


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


def _pool(
    scheme: str,
    address: str,
    port: int,
    host: str,
    ca_file: str,
    watchdog: _Watchdog,
    proxy: str = "",
) -> urllib3.HTTPConnectionPool:
    """A pool for one request, as urllib3's ProxyManager makes it where there is a proxy."""
    options: dict[str, Any] = {"timeout": TIMEOUT, "watchdog": watchdog}
    if proxy:
        at = urllib3.util.parse_url(proxy)
        options["_proxy"] = at
        options["_proxy_headers"] = make_headers(proxy_basic_auth=unquote(at.auth or "") or None)
        options["_proxy_config"] = ProxyConfig(None, False, None, None)
        if scheme == "http":
            kind = _TlsPool if at.scheme == "https" else _Pool
            return kind(at.host or "", at.port, **options)
    if scheme == "http":
        return _Pool(address, port, **options)
    return _TlsPool(
        address,
        port,
        server_hostname=host,
        assert_hostname=host,
        cert_reqs="CERT_REQUIRED",
        ca_certs=ca_file or None,
        **options,
    )


class ResponseBody:
    """The body of an answer without content decoding; a broken connection raises Cut."""

    def __init__(self, answer: urllib3.BaseHTTPResponse) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = answer.headers
        self._answer = answer

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, empty at the end."""
        try:
            # read1: read() waits for `size` bytes, and a cut would lose those received.
            return self._answer.read1(size, decode_content=False)
        except (HTTPError, OSError) as error:
            raise Cut(f"The connection was cut: {error}.", hint="Try again.") from error
