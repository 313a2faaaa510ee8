"""Reads catalogs over HTTP: conditional, streamed, resumed after a cut."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol
from urllib.parse import urljoin

from catalogs.sources import guard
from catalogs.sources.archive import unpacked
from catalogs.sources.base import LIMITS, Cut, Deadline, Fetched, Limits, SourceError
from catalogs.sources.connection import Reason
from catalogs.sources.spool import spool

READ = 1 << 18
_ERROR_BODY = 4096
# kubernetes 1.36 pkg/registry/core/service/storage/storage.go, ResourceLocation.
NO_ENDPOINTS = "no endpoints available for service"
RESUMES = 3
REDIRECTS = 5


class StreamedAnswer(Protocol):
    """An open answer whose body is read without content decoding."""

    status: int
    headers: Mapping[str, str]

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, empty at the end. Raises Cut."""


# Opens the one resource with these request headers. Raises Cut when there is no answer.
Opener = Callable[[dict[str, str]], AbstractContextManager[StreamedAnswer]]


@dataclass(slots=True)
class HttpSource:
    """One resource. `whole_lines` for a server whose every blob ends with a newline (catalogd);
    `access_method` as in `Fetched`."""

    label: str
    opener: Opener
    limits: Limits = LIMITS
    whole_lines: bool = False
    access_method: str = ""
    requests: int = 0

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        """See ContentSource. 404 and 503 mean "not ready"."""
        headers = {"Accept-Encoding": "zstd, gzip", "Accept": "*/*"}
        if if_modified_since:
            headers["If-Modified-Since"] = if_modified_since
        self.requests = 0
        deadline = Deadline(self.label, self.limits.seconds)
        with ExitStack() as stack:
            try:
                answer = self._ask(stack, headers)
                modified = answer.headers.get("Last-Modified", "")
                if answer.status == 304 and if_modified_since:
                    return Fetched(None, requests=self.requests, last_modified=modified)
                if answer.status != 200:
                    raise self._refused(answer.status, _start_of(answer))
                fetched = spool(
                    self._body(stack, answer, deadline),
                    self.label,
                    limits=self.limits,
                    last_modified=modified[:60],
                    whole_lines=self.whole_lines,
                    total=_length(answer),
                )
                fetched = unpacked(fetched, self.label, self.limits)
            except Cut as error:
                raise SourceError(
                    str(error),
                    code=error.code,
                    hint=error.hint,
                    reason=error.reason,
                    requests=self.requests,
                ) from error
            except SourceError as error:
                error.requests = self.requests
                raise
        return replace(fetched, requests=self.requests, access_method=self.access_method)

    def _ask(self, stack: ExitStack, headers: dict[str, str]) -> StreamedAnswer:
        self.requests += 1
        return stack.enter_context(self.opener(headers))

    def _body(
        self, stack: ExitStack, answer: StreamedAnswer, deadline: Deadline
    ) -> Iterator[bytes]:
        """The body as sent. Resumes after a cut if the resource is still the same; an encoded body
        is made anew for each answer and can't be resumed."""
        identity = answer.headers.get("Content-Encoding", "identity") == "identity"
        same_as = _validator(answer)
        received, resumes = 0, RESUMES
        while True:
            try:
                while chunk := answer.read(READ):
                    received += len(chunk)
                    deadline.check(received)
                    yield chunk
                deadline.check(received)  # a body without a length ends where it is cut
                return
            except Cut:
                deadline.check(received)
                if not (identity and same_as and resumes and received):
                    raise
                resumes -= 1
            headers = {
                "Range": f"bytes={received}-",
                "If-Range": same_as,
                "Accept-Encoding": "identity",
            }
            answer = self._ask(stack, headers)
            begins = answer.headers.get("Content-Range", "").startswith(f"bytes {received}-")
            if answer.status != 206 or not begins or _validator(answer) != same_as:
                raise SourceError(
                    f"{self.label} changed while it was being read.",
                    code="changed-while-reading",
                    hint="The next attempt reads the new content.",
                )

    def _refused(self, status: int, body: str) -> SourceError:
        if status == 503 and NO_ENDPOINTS in body:
            return SourceError(
                f"{self.label} can't be reached: its Service has no endpoint, so no pod serves it.",
                code="not-ready",
                hint="Check the pods behind the Service, of a ClusterCatalog those of catalogd: "
                "kubectl get pods,endpointslices in its namespace.",
                reason=Reason.NO_ENDPOINT,
            )
        if status in (404, 503):
            return SourceError(
                f"{self.label} is not ready: the server answered {status}.",
                code="not-ready",
                hint="A catalog that was just created or whose server restarted takes a moment; "
                "what was read before stays.",
            )
        if status in (401, 403):
            return SourceError(
                f"{self.label} may not be read: the server answered {status}.",
                code="forbidden",
                hint="Allow it: reading through a cluster needs get on services/proxy.",
            )
        return SourceError(
            f"{self.label} can't be read: the server answered {status}.",
            code="http-status",
            hint="Check the address, and the log of the server behind it.",
        )


def _start_of(answer: StreamedAnswer) -> str:
    """The first bytes of an error's body, which may say more; empty if there are none."""
    try:
        return answer.read(_ERROR_BODY).decode("utf-8", "replace")
    except Cut:
        return ""


def _validator(answer: StreamedAnswer) -> str:
    """A value for `If-Range`: a strong ETag, else the time of the last change, else ""."""
    tag = answer.headers.get("ETag", "")
    return tag if tag.startswith('"') else answer.headers.get("Last-Modified", "")


def _length(answer: StreamedAnswer) -> int:
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() else 0


def url_source(
    url: str, *, limits: Limits = LIMITS, allow_loopback: bool = False, whole_lines: bool = False
) -> HttpSource:
    """Source for an http(s) URL. Raises SourceError for an address that is not allowed.

    `allow_loopback` is for tests; no setting turns it on.
    """
    parts = guard.parse(url)
    shown = parts._replace(query="", fragment="").geturl()  # a query may hold a token
    opener = partial(_open, url, guard.Rules(loopback=allow_loopback), limits.seconds)
    return HttpSource(shown, opener, limits=limits, whole_lines=whole_lines, access_method="URL")


@contextmanager
def _open(
    url: str, rules: guard.Rules, seconds: float, headers: dict[str, str]
) -> Iterator[StreamedAnswer]:
    deadline = Deadline(url.partition("?")[0], seconds)
    for _ in range(REDIRECTS + 1):
        with guard.request("GET", url, headers, rules, seconds=deadline.left()) as answer:
            location = answer.get_redirect_location()
            if not location:
                yield guard.ResponseBody(answer)
                return
            url = urljoin(url, location)
    raise guard.refused(url, f"redirects more than {REDIRECTS} times")
