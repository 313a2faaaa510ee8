"""The interface of sources: results, errors, limits and progress."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import BinaryIO, Protocol


class SourceError(Exception):
    """A source that can't be read, or content that is not a catalog.

    `message` is a sentence with the source and the fault, `hint` the remedy, `code` a slug.
    `requests` and `bytes_read` are the cost of the attempt. `retry_after` is the time in seconds
    that a busy server asks to wait, 0 if it names none.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        hint: str = "",
        requests: int = 0,
        bytes_read: int = 0,
        retry_after: float = 0,
        reason: str = "",
    ) -> None:
        # Foreign names may contain characters that no database stores.
        message = message.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.requests = requests
        self.bytes_read = bytes_read
        self.retry_after = retry_after
        self.reason = reason


class Cut(Exception):
    """The connection was cut before the end of the body, or there was no answer; `reason` is one of
    catalogs.sources.connection.Reason, "" if unknown."""

    def __init__(
        self, message: str, *, code: str = "unreachable", hint: str = "", reason: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one source, in bytes unless noted; beyond them it is refused."""

    body: int = 2 * 1024**3  # decoded
    blob: int = 32 * 1024**2  # one blob; a larger one is left out, the rest is served
    ratio: int = 1000  # decoded to encoded, once `ratio_from` bytes were decoded
    ratio_from: int = 64 * 1024**2
    files: int = 100_000  # in a folder, an archive or one layer of an image
    layers: int = 8 * 1024**3  # all layers of an image, encoded
    unpacked: int = 32 * 1024**3  # all layers of an image, decoded; most of it is skipped
    seconds: int = 600  # for a download; less than a sync may take, which also writes


LIMITS = Limits()
GRACE_SECONDS = 60
MIN_RATE = 64 * 1024  # bytes a second


class Deadline:
    """The time of one download: GRACE_SECONDS, and more while at least MIN_RATE bytes a second
    come, at most `seconds` in all. A server that sends a byte now and then passes every timeout of
    a read."""

    def __init__(
        self, label: str, seconds: float, clock: Callable[[], float] | None = None
    ) -> None:
        self._label = label
        self._seconds = seconds
        self._clock = clock or time.monotonic
        self._started = self._clock()

    def left(self) -> float:
        """Seconds until the longest time of the download is over, at least 0."""
        return max(0.0, self._seconds - (self._clock() - self._started))

    def check(self, received: int) -> None:
        """Raises SourceError when the time for so many bytes is over."""
        elapsed = self._clock() - self._started
        if elapsed > min(self._seconds, GRACE_SECONDS + received / MIN_RATE):
            raise SourceError(
                f"{self._label} is read too slowly: {received:,} bytes came in {elapsed:,.0f} s.",
                code="too-slow",
                hint="Check the network and the load of the server; what was read before stays.",
                bytes_read=received,
            )


def _no_check() -> None:
    """The content of a spool can't change."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of one fetch. `body` is None when the source has not changed.

    `bytes_read` counts encoded bytes, `sha256` is of the decoded body (hexadecimal).
    `last_modified` is the stamp for the next `fetch`. `check` raises SourceError when the body has
    changed meanwhile: call it after the last read of a body that is not a copy. `access_method` is
    the method's name ("file", "image", "gRPC", ...), `digest` that of an image. `exact` is False
    when the blobs were rebuilt from answers and are not the author's bytes. `files` are (offset,
    name) of each file in a body of several, by ascending offset; () for a body of one.
    """

    body: BinaryIO | None
    sha256: str = ""
    size: int = 0
    bytes_read: int = 0
    requests: int = 0
    last_modified: str = ""
    check: Callable[[], None] = _no_check
    access_method: str = ""
    digest: str = ""
    exact: bool = True
    files: tuple[tuple[int, str], ...] = ()


# Called with (bytes read so far, bytes in all or 0); its exceptions end the fetch.
ProgressCallback = Callable[[int, int], None]


def no_progress(_done: int, _total: int) -> None:
    """Ignores the progress."""


_callback: ContextVar[ProgressCallback] = ContextVar("callback", default=no_progress)


@contextmanager
def progress_callback(callback: ProgressCallback) -> Iterator[None]:
    """Calls `callback` with the progress of sources read in this context, after outer callbacks."""
    outer = _callback.get()

    def both(read: int, total: int) -> None:
        outer(read, total)
        callback(read, total)

    token = _callback.set(both)
    try:
        yield
    finally:
        _callback.reset(token)


def report_progress(read: int, total: int = 0) -> None:
    """For sources: `read` bytes so far, of `total` when that is known."""
    _callback.get()(read, total)


class ContentSource(Protocol):
    """The origin of a catalog's content. `label` is its name in sentences.

    A source may also have `resolve() -> str`: the digest of its current content by a cheap request
    (a HEAD of a tag), "" when that is not possible.
    """

    label: str

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        """The whole body in a spool that the caller closes. Raises SourceError."""


@contextmanager
def opened(source: ContentSource, if_modified_since: str = "") -> Iterator[Fetched]:
    """`fetch` whose spool is closed at the end."""
    fetched = source.fetch(if_modified_since=if_modified_since)
    try:
        yield fetched
    finally:
        if fetched.body is not None:
            fetched.body.close()
