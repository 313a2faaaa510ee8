"""One HTTP exchange with an API server: rate limit, timeouts, retries, errors as sentences.

Sends through the official client's own connection pool (its TLS, proxy and token refresh), not
through its request methods: those take one value per header, and impersonating a user with two
groups needs the header twice.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import urllib3
from kubernetes.client import ApiClient
from urllib3 import HTTPHeaderDict
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)

from olmweb.kube.decode import Decoded, decoded
from olmweb.kube.errors import (
    Abandoned,
    Broken,
    ConfigError,
    KubeError,
    Unreachable,
    from_answer,
    shorten,
)

RETRIES = 3  # of an idempotent read that was answered with 429 or 503 and Retry-After
RETRY_AFTER_LIMIT = 10.0  # seconds; a longer wait is left to the caller's own schedule
ERROR_BODY_LIMIT = 65_536
# Of an answer, uncompressed; a page of 25 definitions or 500 Subscriptions has a few MB.
ANSWER_LIMIT = 256_000_000
_PIECE = 1_000_000


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user that a request impersonates. Raises ConfigError for a name no header can carry."""

    user: str
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (self.user, *self.groups):
            if not name or not name.isprintable() or not name.isascii() or name != name.strip():
                raise ConfigError(
                    f"The name {shorten(repr(name), 80)} can't be sent to a cluster as a user or "
                    "group: it is empty or has characters that a header can't carry.",
                    hint="Map this person to an ASCII user name.",
                )


@dataclass(frozen=True, slots=True)
class Call:
    """A request. `idempotent` reads are retried when the server says when."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    as_user: Impersonation | None = None

    @property
    def idempotent(self) -> bool:
        return self.method == "GET"

    @property
    def verb(self) -> str:
        """For counting: the method, or WATCH."""
        return "WATCH" if ("watch", "1") in self.query else self.method


class TokenBucket:
    """Client-side rate limit, shared by threads: `burst` requests at once, then `rate` a second."""

    def __init__(
        self,
        rate: float = 20,
        burst: int = 40,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._tokens = float(burst)
        self._filled_at = clock()

    def take(self) -> float:
        """Takes one token, sleeping until there is one; returns the seconds waited."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
            self._filled_at = now
            self._tokens -= 1
            # Below zero the token is a reservation: the next caller waits behind this one.
            wait = max(0.0, -self._tokens / self._rate)
        if wait:
            self._sleep(wait)
        return wait


class RawResponse:
    """An open answer whose body is read without content decoding.

    `status` may be any; `error()` gives the KubeError for one that is not a success.
    """

    def __init__(self, answer: Any, transport: "Transport", call: Call) -> None:
        self._answer = answer
        self._transport = transport
        self._call = call
        self.status: int = answer.status
        self.headers: Mapping[str, str] = answer.headers

    def read_some(self, size: int = 65_536) -> bytes:
        """The bytes received so far, at most `size`; waits only while there are none.

        Empty at the end. Raises Unreachable, with the reason `timeout` after the read timeout.
        """
        try:
            data: bytes = self._answer.read1(size, decode_content=False)
        except (HTTPError, OSError, ValueError, AttributeError) as error:
            # The last two: another thread has shut the socket down in the middle of the read.
            raise self._transport.unreachable(error, self._call) from error
        return data

    def error(self) -> KubeError:
        return self._transport.error_of(self._call, self._answer)

    def shutdown(self) -> None:
        """Ends the body for the thread that waits in a read; may be called from any thread."""
        with suppress(OSError, ValueError, RuntimeError):  # it has ended by itself
            self._answer.shutdown()

    def close(self) -> None:
        self._answer.close()


@dataclass(frozen=True, slots=True)
class _Session:
    """Credentials and the connections made with them."""

    api: ApiClient
    pool: urllib3.PoolManager
    server: str
    certificate: bytes  # of the client, as it was when the pool was made


class Transport:
    """The connection pool of one cluster; threads may share it, and with it the rate limit.

    `renew` reads the credentials again; it is called when the cluster refuses the current ones, and
    the refused request is then sent once more. While `abandon` is true every request raises
    Abandoned instead of being sent.
    """

    def __init__(
        self,
        api: ApiClient,
        *,
        name: str,
        timeout: tuple[float, float],
        sleep: Callable[[float], None] = time.sleep,
        renew: Callable[[], ApiClient] | None = None,
        abandon: Callable[[], bool] = lambda: False,
    ) -> None:
        self._abandon = abandon
        self._session = _session(api)
        self._timeout = timeout
        self._limiter = TokenBucket(sleep=sleep)
        self._sleep = sleep
        self._renew = renew
        self._renewing = threading.Lock()
        self._counting = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self.name = name or self.server

    @property
    def server(self) -> str:
        return self._session.server

    @property
    def api(self) -> ApiClient:
        """The official client with the current credentials, for other than plain requests."""
        return self._session.api

    @property
    def requests(self) -> int:
        """Requests that went out, retries included."""
        with self._counting:
            return self._counts.total()

    def counts(self) -> Counter[tuple[str, str]]:
        """Requests by (verb, status); the verb of a GET that watches is WATCH, the status of a
        request that got no answer is `none`."""
        with self._counting:
            return Counter(self._counts)

    def send(self, call: Call) -> bytes:
        """The body of a 2xx answer, decoded. Raises the KubeError of any other outcome."""
        attempt = 0
        while True:
            answer = self._open(call, (("Accept-Encoding", "gzip"),))
            try:
                if 200 <= answer.status < 300:
                    return self._read_all(answer, call)
                error = self.error_of(call, answer)
            finally:
                # A fully read connection is back in the pool by now; any other must go.
                answer.close()
            attempt += 1
            wait = error.retry_after
            if (
                not call.idempotent
                or answer.status not in (429, 503)
                or wait is None
                or wait > RETRY_AFTER_LIMIT
                or attempt > RETRIES
            ):
                raise error
            self._sleep(wait)

    def open_raw(self, call: Call, *, silence: float | None = None) -> RawResponse:
        """`silence`: seconds that a read may wait, if not the usual read timeout."""
        return RawResponse(self._open(call, (), silence=silence), self, call)

    def close(self) -> None:
        self._session.pool.clear()

    def _headers(
        self, session: _Session, call: Call, extra: Iterable[tuple[str, str]]
    ) -> HTTPHeaderDict:
        headers = HTTPHeaderDict()
        for name, value in (*extra, *call.headers):
            headers.add(name, value)
        if call.as_user:
            headers.add("Impersonate-User", call.as_user.user)
            for group in call.as_user.groups:
                headers.add("Impersonate-Group", group)
        try:
            # Read at each request: here the official client renews short-lived tokens.
            for setting in session.api.configuration.auth_settings().values():
                if setting["value"]:
                    headers[setting["key"]] = setting["value"]
        except (OSError, ValueError, KeyError) as error:
            raise ConfigError(
                f"The credentials for cluster {self.name} can't be read any more.",
                hint="Check the token file or credential plugin that the kubeconfig names.",
            ) from error
        headers["User-Agent"] = "olmweb"
        return headers

    def _open(
        self, call: Call, extra: Iterable[tuple[str, str]], *, silence: float | None = None
    ) -> Any:
        session = self._session
        headers = self._headers(session, call, extra)
        answer = self._request(session, call, headers, silence)
        if answer.status == 401:
            renewed = self._renewed(session)
            new_headers = self._headers(renewed, call, extra)
            # The same credentials would be refused again.
            if new_headers != headers or renewed.certificate != session.certificate:
                answer.close()
                answer = self._request(renewed, call, new_headers, silence)
        return answer

    def _renewed(self, refused: _Session) -> _Session:
        """Reads the credentials again, once for all threads that were refused at the same time.

        Raises ConfigError.
        """
        with self._renewing:
            if self._session is refused and self._renew is not None:
                self._session = _session(self._renew())
            return self._session

    def _request(
        self, session: _Session, call: Call, headers: HTTPHeaderDict, silence: float | None
    ) -> Any:
        url = session.server + call.path + (f"?{urlencode(call.query)}" if call.query else "")
        connect, read = self._timeout
        for last in (not call.idempotent, True):
            self._limiter.take()
            if self._abandon():
                raise Abandoned
            status = "none"
            try:
                answer = session.pool.request(
                    call.method,
                    url,
                    body=call.body,
                    headers=headers,
                    timeout=urllib3.Timeout(connect=connect, read=silence or read),
                    retries=False,
                    redirect=False,
                    preload_content=False,
                )
                status = str(answer.status)
                return answer
            except ProtocolError as error:
                # The server closed an idle connection meanwhile: a read is tried again.
                if last:
                    raise self.unreachable(error, call) from error
            except (HTTPError, OSError) as error:
                raise self.unreachable(error, call) from error
            finally:
                with self._counting:
                    self._counts[call.verb, status] += 1
        raise AssertionError("the last attempt returns or raises")

    def _read_all(self, answer: Any, call: Call) -> bytes:
        """Reads in pieces: a small answer may decompress to gigabytes."""
        pieces, size = [], 0
        try:
            while piece := answer.read(_PIECE, decode_content=True):
                pieces.append(piece)
                size += len(piece)
                if size > ANSWER_LIMIT:
                    limit = f"more than {ANSWER_LIMIT // 1_000_000} MB"
                    raise self.broken_answer(call, limit)
        except (HTTPError, OSError) as error:
            raise self.unreachable(error, call) from error
        return b"".join(pieces)

    def error_of(self, call: Call, answer: Any) -> KubeError:
        """The error of a non-2xx answer; reads a bounded part of its body."""
        try:
            body = answer.read(ERROR_BODY_LIMIT, decode_content=True)
        except (HTTPError, OSError):
            body = b""  # the status alone has to do
        after = answer.headers.get("Retry-After", "")
        return from_answer(
            self.name,
            call.method,
            call.path,
            answer.status,
            body,
            retry_after=float(after) if after.isascii() and after.isdigit() else None,
        )

    def decode(
        self, call: Call, decoder: Callable[[bytes], Decoded], body: bytes, expected: str
    ) -> Decoded:
        """The body of the answer to `call`. Raises Broken when it is not `expected`."""
        try:
            return decoded(decoder, body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self.broken_answer(call, f"something that is not {expected}") from None

    def broken_answer(self, call: Call, what: str) -> Broken:
        return Broken(
            f"Cluster {self.name} answered {call.method} {call.path} with {what}.",
            hint="Check that the address is that of a Kubernetes API server, not of a proxy or "
            "sign-in page before it.",
            status=200,
            reason="bad-answer",
        )

    def unreachable(self, error: Exception, call: Call) -> Unreachable:
        fault = _network_fault(error)
        return Unreachable(
            f"Can't reach cluster {self.name} at {self.server}: {fault.message}.",
            hint=fault.hint,
            reason=fault.reason,
        )


def _session(api: ApiClient) -> _Session:
    configuration = api.configuration
    certificate = Path(configuration.cert_file).read_bytes() if configuration.cert_file else b""
    server = str(configuration.host).rstrip("/")
    return _Session(api, api.rest_client.pool_manager, server, certificate)


class _Fault(NamedTuple):
    reason: str
    message: str
    hint: str


def _network_fault(error: Exception) -> _Fault:
    """Explains a network error by its type only: urllib3's texts quote whole URLs."""
    if isinstance(error, NameResolutionError):
        return _Fault("dns", "its host name can't be resolved", "Check the address and the DNS.")
    if isinstance(error, ConnectTimeoutError) and not isinstance(error, NewConnectionError):
        return _Fault("timeout", "no connection in time", "Check the address, firewall and VPN.")
    if isinstance(error, ReadTimeoutError | TimeoutError):
        return _Fault(
            "timeout", "no answer in time", "Check the API server's load and the network."
        )
    if isinstance(error, SSLError):
        return _Fault(
            "tls",
            f"its certificate was not accepted ({_certificate_fault(error)})",
            "Check the certificate authority in the kubeconfig and that https is spoken there.",
        )
    if isinstance(error, NewConnectionError) and "refused" in str(error):
        return _Fault(
            "refused",
            "connection refused",
            "Check that the API server runs and that the address in the kubeconfig is right.",
        )
    if isinstance(error, ProtocolError | EOFError):
        return _Fault(
            "cut", "the connection was cut", "Check the network and any proxy in between."
        )
    return _Fault("network", "the network failed", "Check the address, proxy, firewall and VPN.")


def _certificate_fault(error: SSLError) -> str:
    inner = error.args[0] if error.args else error
    text = getattr(inner, "verify_message", "") or getattr(inner, "reason", "") or "TLS failed"
    return shorten(str(text), 120)
