"""A client of a registry's distribution API for one image.

Follows the OCI distribution specification and Docker's token authentication. Verifies the digest of
every body. Sends credentials to the registry and its token server, never to a redirect's target.
"""

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from email.utils import parsedate_to_datetime
from urllib.parse import urljoin

import urllib3

from catalogs.sources import guard
from catalogs.sources.base import LIMITS, Cut, Deadline, SourceError
from catalogs.sources.http import READ
from catalogs.sources.oci.auth import Challenge, Credentials, fetch_token, read_challenge
from catalogs.sources.oci.manifest import ACCEPT, Descriptor, digest_of
from catalogs.sources.oci.reference import DIGEST, ImageReference

REDIRECTS = 5
TRIES = 4  # of a request with the answer 429, 5xx or none
LONGEST_WAIT = 5  # seconds; a longer wait is left to the caller, and the worker to others
RESUMES = 5
SMALL = 8 * 1024**2  # bytes of a manifest or config
_ERROR_CODE = re.compile(rb'"code"\s*:\s*"([A-Z_]{1,40})"')


class Pace:
    """At most `rate` requests a second to each registry, and none while it asks to wait.

    A burst after a pause is spaced out as well. `clock` is in seconds; `pause` sleeps so many.
    """

    def __init__(
        self,
        rate: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval = 1 / rate
        self._clock = clock
        self._pause = pause
        self._lock = threading.Lock()
        self._next: dict[str, float] = {}  # by registry: when its next request may be sent

    def wait(self, registry: str) -> None:
        """Returns when a request to the registry may be sent."""
        with self._lock:
            now = self._clock()
            at = max(now, self._next.get(registry, now))
            self._next[registry] = at + self._interval
        if at > now:
            self._pause(at - now)

    def hold(self, registry: str, seconds: float) -> None:
        """Holds further requests to the registry back for `seconds`."""
        with self._lock:
            self._next[registry] = max(self._next.get(registry, 0.0), self._clock() + seconds)


class RegistryClient:
    """Reads one image. `requests` and `bytes_read` are the cost so far. With `public_only` neither
    the registry nor its token server may have a private address. `pace` spaces the requests to the
    registry out. `seconds` is the time for all."""

    def __init__(
        self,
        reference: ImageReference,
        credentials: Credentials,
        insecure: frozenset[str],
        *,
        public_only: bool = False,
        pace: Pace | None = None,
        seconds: float = LIMITS.seconds,
    ) -> None:
        self.requests = self.bytes_read = 0
        self._pace = pace
        self._deadline = Deadline(str(reference), seconds)
        self._label = str(reference)
        self._reference = reference
        self._credentials = credentials
        self._rules = guard.Rules(trusted=insecure, public_only=public_only, proxies=True)
        self._authorization = ""
        scheme = "http" if reference.host in insecure else "https"
        self._base = f"{scheme}://{reference.host}/v2/{reference.repository}"

    def resolve(self) -> str:
        """The current digest of the tag; "" if the registry reports none."""
        with self._open("HEAD", f"/manifests/{self._reference.wanted}", accept=ACCEPT) as answer:
            digest = answer.headers.get("Docker-Content-Digest", "")
        return digest if DIGEST.fullmatch(digest) else ""

    def manifest(self, wanted: str) -> tuple[bytes, str]:
        """The manifest with that tag or digest, and its digest. Raises SourceError."""
        with self._open("GET", f"/manifests/{wanted}", accept=ACCEPT) as answer:
            data = self._all(answer, "manifest")
            header = answer.headers.get("Docker-Content-Digest", "")
        named = wanted if DIGEST.fullmatch(wanted) else header if DIGEST.fullmatch(header) else ""
        digest = digest_of(data, named or "sha256:")
        if named and named != digest:
            raise self._wrong_digest("manifest", named, digest)
        return data, digest

    def config(self, descriptor: Descriptor) -> bytes:
        """A small blob in one piece. Raises SourceError."""
        if descriptor.size > SMALL:
            raise self._too_long("config", SMALL)
        return b"".join(self.blob(descriptor, "config"))

    def blob(self, descriptor: Descriptor, what: str) -> Iterator[bytes]:
        """The blob's bytes, in pieces, resumed after a cut. Raises SourceError at the end if the
        digest differs."""
        hashed = hashlib.new(descriptor.digest.partition(":")[0])
        received, resumes = 0, RESUMES
        while received < descriptor.size:
            try:
                for chunk in self._blob_from(descriptor, received):
                    received += len(chunk)
                    self.bytes_read += len(chunk)
                    self._deadline.check(self.bytes_read)
                    if received > descriptor.size:
                        raise self._too_long(what, descriptor.size)
                    hashed.update(chunk)
                    yield chunk
                if received < descriptor.size:
                    raise Cut(
                        f"The {what} of {self._label} is cut short: it ends after {received:,} of "
                        f"{descriptor.size:,} bytes.",
                        code="cut-short",
                        hint="The next attempt reads it again; what was read before stays.",
                    )
            except Cut:
                self._deadline.check(self.bytes_read)
                if not resumes:
                    raise
                resumes -= 1
                time.sleep(0.5)
        digest = f"{descriptor.digest.partition(':')[0]}:{hashed.hexdigest()}"
        if digest != descriptor.digest:
            raise self._wrong_digest(what, descriptor.digest, digest)

    def _blob_from(self, descriptor: Descriptor, start: int) -> Iterator[bytes]:
        wanted = f"bytes={start}-" if start else ""
        path = f"/blobs/{descriptor.digest}"
        with self._open("GET", path, accept="*/*", part=wanted) as answer:
            body = guard.ResponseBody(answer)
            skip = start if answer.status == 200 else 0  # the registry sends everything again
            while chunk := body.read(READ):
                if skip:
                    skipped = min(skip, len(chunk))
                    skip -= skipped
                    chunk = chunk[skipped:]
                if chunk:
                    yield chunk

    def _all(self, answer: urllib3.BaseHTTPResponse, what: str) -> bytes:
        body, data = guard.ResponseBody(answer), b""
        while chunk := body.read(READ):
            data += chunk
            self._deadline.check(self.bytes_read + len(data))
            if len(data) > SMALL:
                raise self._too_long(what, SMALL)
        self._deadline.check(self.bytes_read + len(data))
        self.bytes_read += len(data)
        return data

    @contextmanager
    def _open(
        self, method: str, path: str, *, accept: str, part: str = ""
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """A successful answer. Fetches tokens, follows redirects, retries a busy registry."""
        headers = {"Accept": accept, "Accept-Encoding": "identity"}
        if part:
            headers["Range"] = part
        tries, token_requested = TRIES, False
        while True:
            self._deadline.check(self.bytes_read)
            tries -= 1
            wait = 0.5 * 2 ** (TRIES - tries - 1)
            try:
                with self._follow(method, self._base + path, headers) as answer:
                    if answer.status in (200, 206):
                        yield answer
                        return
                    if answer.status == 401 and not token_requested:
                        challenge = read_challenge(answer.headers.get("WWW-Authenticate", ""))
                        token_requested = True
                        tries += 1
                    else:
                        challenge = None
                        busy = answer.status == 429 or answer.status >= 500
                        requested = _retry_after(answer) if busy else 0.0
                        wait = max(wait, requested)
                        if not (tries and busy) or wait > LONGEST_WAIT:
                            error = self._refused(answer, wait)
                            error.retry_after = requested
                            raise error
            except _Unanswered as unanswered:
                self._deadline.check(self.bytes_read)
                if not tries:
                    raise unanswered.cut from None
                challenge = None
            if challenge is None and self._pace is not None:
                self._pace.hold(self._reference.registry, wait)
            elif challenge is None:
                time.sleep(wait)
            else:
                self._authorization = self._authorize(challenge)

    @contextmanager
    def _follow(
        self, method: str, url: str, headers: dict[str, str]
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        rules = self._rules
        own = guard.parse(url)
        sent = {
            **headers,
            **({"Authorization": self._authorization} if self._authorization else {}),
        }
        if self._pace is not None:
            self._pace.wait(self._reference.registry)
        for _ in range(REDIRECTS + 1):
            self.requests += 1
            with ExitStack() as stack:
                left = self._deadline.left()
                try:
                    answer = stack.enter_context(
                        guard.request(method, url, sent, rules, seconds=left)
                    )
                except Cut as error:
                    raise _Unanswered(error) from error
                location = answer.get_redirect_location()
                if not location:
                    yield answer
                    return
            url = urljoin(url, location)
            # A registry redirects to a store on the Internet, or to itself.
            to = guard.parse(url)
            same = (to.hostname, guard.port_of(to)) == (own.hostname, guard.port_of(own))
            if to.scheme == "http" and own.scheme == "https":
                raise guard.refused(url, "is plain http, to which an https registry redirects")
            rules = self._rules if same else replace(self._rules, public_only=True)
            sent = headers
        raise guard.refused(url, f"redirects more than {REDIRECTS} times")

    def _authorize(self, challenge: Challenge) -> str:
        """The value of Authorization for further requests. Raises SourceError."""
        if challenge.scheme == "basic":
            if not self._credentials.complete:
                raise self._unauthorized(401, "")
            return self._credentials.basic
        if challenge.scheme != "bearer":
            raise self._unauthorized(401, "")
        scope = f"repository:{self._reference.repository}:pull"
        plain = self._base.startswith("http:")
        token_host = guard.parse(challenge.realm).hostname or ""
        own = guard.parse(self._base).hostname or ""
        if self._credentials.complete and not _one_domain(own, token_host):
            raise SourceError(
                f"{self._label} may not be read: its registry asks to send the credentials to "
                f"{token_host[:200]}, which is of another domain.",
                code="token-server",
                hint=f"The credentials are for {own} and are not sent elsewhere; ask whoever runs "
                "the registry for a token server in its domain.",
            )
        self.requests += 1
        status, token = fetch_token(
            challenge,
            scope,
            self._credentials,
            self._rules,
            plain=plain,
            seconds=self._deadline.left(),
        )
        self._deadline.check(self.bytes_read)
        if status in (400, 401, 403):
            raise self._unauthorized(status, "")
        if not token:
            raise SourceError(
                f"{self._label} can't be read: the registry's token server answered {status}.",
                code="http-status",
                hint="Try again; if it lasts, ask whoever runs the registry.",
            )
        return f"Bearer {token}"

    def _refused(self, answer: urllib3.BaseHTTPResponse, wait: float) -> SourceError:
        match = _ERROR_CODE.search(guard.ResponseBody(answer).read(4096))
        detail = f" ({match[1].decode()})" if match else ""
        status = answer.status
        if status in (401, 403):
            return self._unauthorized(status, detail)
        if status == 404:
            return SourceError(
                f"{self._label} is not in its registry: it answered 404{detail}.",
                code="not-found",
                hint="Check repository, tag and digest; some registries answer so to those who "
                "may not read.",
            )
        if status == 429:
            return SourceError(
                f"{self._label} can't be read now: the registry answered 429, too many requests"
                f"{detail}.",
                code="rate-limited",
                hint=f"It asks to wait {wait:,.0f} s. Credentials in the Docker config often raise "
                "the limit.",
            )
        return SourceError(
            f"{self._label} can't be read: the registry answered {status}{detail}.",
            code="http-status",
            hint="Try again; if it lasts, ask whoever runs the registry.",
        )

    def _unauthorized(self, status: int, detail: str) -> SourceError:
        credentials, host = self._credentials, self._reference.registry
        if credentials.complete:
            hint = (
                f"It does not accept the credentials for {host} in {credentials.file}; renew them."
            )
        elif credentials.helper:
            hint = (
                f"{credentials.file} names the credential helper {credentials.helper[:60]} for "
                f"{host}, and no helper is run here: write the credentials into the file's auths."
            )
        elif credentials.file:
            hint = f"{credentials.file} has no credentials for {host}: add them with docker login."
        else:
            hint = "Name a file with credentials by REGISTRY_AUTH_FILE or DOCKER_CONFIG."
        return SourceError(
            f"{self._label} may not be read: the registry answered {status}{detail}.",
            code="forbidden",
            hint=hint,
        )

    def _wrong_digest(self, what: str, wanted: str, digest: str) -> SourceError:
        return SourceError(
            f"The {what} of {self._label} is not what its digest says: {wanted} was asked for, "
            f"{digest} came.",
            code="wrong-digest",
            hint="The registry or something before it changes content; what was read before stays.",
        )

    def _too_long(self, what: str, size: int) -> SourceError:
        return SourceError(
            f"The {what} of {self._label} is longer than the {size:,} bytes it may have.",
            code="too-large",
            hint="The registry sends more than its manifest says; what was read before stays.",
        )


def _one_domain(registry: str, token_server: str) -> bool:
    """Whether both are one host, or names in one domain (registry-1.docker.io, auth.docker.io)."""
    if registry == token_server:
        return True
    domain = registry.split(".")[-2:]
    is_name = len(domain) == 2 and not domain[1].isdecimal() and ":" not in registry
    return is_name and token_server.split(".")[-2:] == domain


class _Unanswered(Exception):
    """There was no answer; a retry may get one."""

    def __init__(self, cut: Cut) -> None:
        super().__init__(str(cut))
        self.cut = cut


def _retry_after(answer: urllib3.BaseHTTPResponse) -> float:
    """The seconds to wait that the answer requests, else 0."""
    value = answer.headers.get("Retry-After", "").strip()
    if value.isdecimal():
        return float(value[:9])
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0
