"""What every source gives back, and the errors that say why it gave nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import BinaryIO, Protocol


class SourceError(Exception):
    """A source that can't be read, or content that is no catalog.

    `message` is a sentence naming the source and the fault, `hint` what to do, `code` a slug.
    `requests` and `bytes_read` are what the attempt cost.
    """

    def __init__(
        self, message: str, *, code: str, hint: str = "", requests: int = 0, bytes_read: int = 0
    ) -> None:
        # Names from outside may hold what no database stores.
        message = message.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.requests = requests
        self.bytes_read = bytes_read


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes; what a source may cost before it is refused."""

    body: int = 2 * 1024**3  # decoded
    blob: int = 32 * 1024**2  # one blob; a larger one is left out, the rest is served
    ratio: int = 1000  # decoded to encoded, once `ratio_from` bytes were decoded
    ratio_from: int = 64 * 1024**2
    files: int = 100_000  # in a folder, an archive or one layer of an image
    layers: int = 8 * 1024**3  # all layers of an image, as they come
    unpacked: int = 32 * 1024**3  # all layers of an image, decoded; most of it is passed over


LIMITS = Limits()


def _nothing() -> None:
    """A spool of our own can't change."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one attempt got. `body` is None when the source says it hasn't changed.

    `bytes_read` counts encoded bytes, `sha256` is of the decoded body (hexadecimal).
    `last_modified` is what to give to the next `fetch`. `check` raises SourceError when the body
    is no longer what it was: call it after the last reading of a body that is not our own copy.
    `way` names how it was read ("file", "image", "gRPC", ...), `digest` is the source's own name
    for this content when it has one (an image's digest). `exact` is False when the blobs were
    built from answers, so that they are not their author's bytes. `files` says where each file
    begins in a body made of several: (offset, name) by ascending offset; () for a body of one.
    """

    body: BinaryIO | None
    sha256: str = ""
    size: int = 0
    bytes_read: int = 0
    requests: int = 0
    last_modified: str = ""
    check: Callable[[], None] = _nothing
    way: str = ""
    digest: str = ""
    exact: bool = True
    files: tuple[tuple[int, str], ...] = ()


# Told (bytes read so far, bytes in all or 0) as a source reads; what it raises ends the reading.
Heard = Callable[[int, int], None]


def _unheard(_read: int, _total: int) -> None:
    """Nobody listens."""


_listener: ContextVar[Heard] = ContextVar("listener", default=_unheard)


@contextmanager
def listening(heard: Heard) -> Iterator[None]:
    """`heard` is told how far the sources that are read in this context got, besides who listens
    already."""
    before = _listener.get()

    def both(read: int, total: int) -> None:
        before(read, total)
        heard(read, total)

    token = _listener.set(both)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(read: int, total: int = 0) -> None:
    """For sources: how many bytes were read so far, of how many when that is known."""
    _listener.get()(read, total)


class Source(Protocol):
    """A place to read a catalog from. `label` names it in sentences.

    A source may also have `resolve() -> str`: the digest of its content now, asked for cheaply
    (a HEAD of a tag), "" when it can't be told.
    """

    label: str

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        """The whole body in a spool that the caller closes. Raises SourceError."""


@contextmanager
def opened(source: Source, if_modified_since: str = "") -> Iterator[Fetched]:
    """`fetch` whose spool is closed at the end."""
    fetched = source.fetch(if_modified_since=if_modified_since)
    try:
        yield fetched
    finally:
        if fetched.body is not None:
            fetched.body.close()
