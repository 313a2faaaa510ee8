"""A catalog at a URL that an administrator typed.

Whoever types it must not reach with it what only this server can reach: link-local addresses,
cloud metadata and this machine are refused, after each redirect anew, and the connection goes to
the very address that was checked.
"""

import ipaddress
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import SplitResult, urljoin, urlsplit

import urllib3
from urllib3.exceptions import HTTPError
from urllib3.util import Timeout

from catalogs.sources.base import LIMITS, Limits, SourceError
from catalogs.sources.http import Answer, Cut, HttpSource

REDIRECTS = 5
TIMEOUT = Timeout(connect=10, read=60)
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# Metadata services outside the link-local range.
_METADATA = frozenset(
    map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"))
)


def url_source(
    url: str, *, limits: Limits = LIMITS, allow_loopback: bool = False, whole_lines: bool = False
) -> HttpSource:
    """Source for an http(s) URL. Raises SourceError for one that may not be asked.

    `allow_loopback` is for tests; no setting turns it on.
    """
    parts = _parse(url)
    shown = parts._replace(query="", fragment="").geturl()  # a query may hold a token

    @contextmanager
    def opener(headers: dict[str, str]) -> Iterator[Answer]:
        with _open(url, headers, allow_loopback) as answer:
            yield answer

    return HttpSource(shown, opener, limits=limits, whole_lines=whole_lines, way="URL")


def _parse(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise _refused(url, f"is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _refused(url, "is not an http or https address")
    if parts.username is not None or parts.password is not None:
        raise SourceError(
            f"The address at {parts.hostname} holds a user name or password.",
            code="bad-url",
            hint="Leave them out: the address is stored and shown.",
        )
    return parts


def _refused(url: str, why: str) -> SourceError:
    # Without its query, which may hold a token: of a redirect, even one that nobody typed.
    return SourceError(
        f"{url.partition('?')[0][:200]} {why}.",
        code="bad-url",
        hint="Give an http or https address that is not one of this machine or its network link.",
    )


def _check(host: str, port: int, url: str, allow_loopback: bool) -> str:
    """The address to connect to; every address the name has must be allowed."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Cut(
            f"{host} can't be found: {error}.", hint="Check the host name and this server's DNS."
        ) from error
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    for address in addresses:
        plain = _unwrapped(address)
        if plain.is_loopback and allow_loopback:
            continue
        if (
            plain in _METADATA
            or plain.is_link_local
            or plain.is_loopback
            or plain.is_unspecified
            or plain.is_multicast
        ):
            raise _refused(url, f"leads to {address}, which may not be read")
    return str(addresses[0])


def _unwrapped(address: _Address) -> _Address:
    """The IPv4 address inside an IPv6 one, where there is one."""
    if isinstance(address, ipaddress.IPv6Address):
        return address.ipv4_mapped or address.sixtofour or address
    return address


@contextmanager
def _open(url: str, headers: dict[str, str], allow_loopback: bool) -> Iterator[Answer]:
    for _ in range(REDIRECTS + 1):
        parts = _parse(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host = parts.hostname or ""
        address = _check(host, port, url, allow_loopback)
        with _pool(parts.scheme, address, port, host) as pool:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            named = f"[{host}]" if ":" in host else host
            sent = {**headers, "Host": named if parts.port is None else f"{named}:{port}"}
            answer = _request(pool, path, sent, host)
            try:
                location = answer.get_redirect_location()
                if not location:
                    yield _Response(answer)
                    return
                url = urljoin(url, location)
            finally:
                answer.close()
    raise _refused(url, f"redirects more than {REDIRECTS} times")


def _pool(scheme: str, address: str, port: int, host: str) -> urllib3.HTTPConnectionPool:
    if scheme == "http":
        return urllib3.HTTPConnectionPool(address, port, timeout=TIMEOUT, retries=False)
    return urllib3.HTTPSConnectionPool(
        address,
        port,
        timeout=TIMEOUT,
        retries=False,
        server_hostname=host,
        assert_hostname=host,
        cert_reqs="CERT_REQUIRED",
    )


def _request(
    pool: urllib3.HTTPConnectionPool, path: str, headers: dict[str, str], host: str
) -> urllib3.BaseHTTPResponse:
    try:
        return pool.urlopen(
            "GET", path, headers=headers, preload_content=False, redirect=False, retries=False
        )
    except (HTTPError, OSError) as error:
        raise Cut(
            f"{host} does not answer: {error}.",
            hint="Check the address, the network and, for https, the server's certificate.",
        ) from error


class _Response:
    def __init__(self, answer: urllib3.BaseHTTPResponse) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = answer.headers
        self._answer = answer

    def read(self, size: int, /) -> bytes:
        try:
            return self._answer.read(size, decode_content=False)
        except (HTTPError, OSError) as error:
            raise Cut(f"The connection was cut: {error}.", hint="Try again.") from error
