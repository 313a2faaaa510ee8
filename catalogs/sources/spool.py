"""Decodes a stream into a temporary file in bounded memory: plain, gzip, xz or zstd.

The first bytes decide the encoding, never a file name.

Temporary files have no name: the kernel frees them with their process, however it ends, and no
process can remove those of another. `SPACE` limits those of one process together.
"""

import errno
import hashlib
import io
import lzma
import os
import shutil
import tempfile
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

import zstandard

from catalogs.sources.base import LIMITS, Fetched, Limits, SourceError, report_progress

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

CHUNK = 1 << 20  # bytes that one step may decode to
XZ_MEMORY = 256 * 1024**2
ZSTD_WINDOW = 128 * 1024**2
ZSTD_STEP = 1024  # a block of 4 bytes can stand for 128 kB: small steps bound what one decodes to


FREE_FLOOR = 256 * 1024**2  # bytes that stay free on the disk of temporary files
FREE_STEP = 16 * 1024**2  # bytes written between two looks at the disk


class Space:
    """Bytes in the temporary files of this process, at most `limit`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._unseen = FREE_STEP  # bytes since the disk was looked at
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        """Raises OSError (ENOSPC) when there is no room for so many bytes more."""
        with self._lock:
            if self.used + count > self.limit:
                raise OSError(
                    errno.ENOSPC,
                    f"the temporary files of one process may have {self.limit // 1024**2:,} MiB "
                    "(OLMWEB_SPOOL_LIMIT)",
                )
            self._unseen += count
            if self._unseen >= FREE_STEP:
                free = shutil.disk_usage(tempfile.gettempdir()).free
                if free < FREE_FLOOR:
                    raise OSError(errno.ENOSPC, f"the disk has only {free // 1024**2:,} MiB free")
                self._unseen = 0
            self.used += count

    def give_back(self, count: int) -> None:
        with self._lock:
            self.used -= count


SPACE = Space(4 * 1024**3)


class _SpaceFile(io.FileIO):
    """A temporary file without a name, whose bytes are taken from SPACE until it is closed."""

    def __init__(self) -> None:
        self._end = 0
        with tempfile.TemporaryFile(prefix="olmweb-", buffering=0) as unnamed:
            super().__init__(os.dup(unnamed.fileno()), "rb+")

    def write(self, data: "ReadableBuffer", /) -> int:
        end = self.tell() + memoryview(data).nbytes
        if end > self._end:
            SPACE.take(end - self._end)
            self._end = end
        return super().write(data)

    def close(self) -> None:
        if not self.closed:
            SPACE.give_back(self._end)
        super().close()


def temporary_file() -> BinaryIO:
    """A temporary file without a name, within SPACE. Writing raises OSError without room."""
    return io.BufferedRandom(_SpaceFile())


@contextmanager
def room(label: str) -> Iterator[None]:
    """Raises SourceError, about `label`, for an OSError of a temporary file."""
    try:
        yield
    except OSError as error:
        raise SourceError(
            f"{label} can't be kept in {tempfile.gettempdir()}: {error.strerror}.",
            code="no-room",
            hint="Make room there; what was read before stays.",
        ) from error


class _Gzip:
    name = "gzip"

    def __init__(self) -> None:
        self._member = zlib.decompressobj(31)

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._member.eof:
                # Another member may follow; zeros after the last one are padding.
                data = data.lstrip(b"\0")
                if not data:
                    return
                self._member = zlib.decompressobj(31)
            yield self._member.decompress(data, CHUNK)
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail

    def complete(self) -> bool:
        return self._member.eof


class _Xz:
    name = "xz"

    def __init__(self) -> None:
        self._stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, XZ_MEMORY)

    def decode(self, data: bytes) -> Iterator[bytes]:
        while True:
            if self._stream.eof:
                data = data.lstrip(b"\0")
                if not data:
                    return
                self._stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, XZ_MEMORY)
            yield self._stream.decompress(data, CHUNK)
            data = self._stream.unused_data if self._stream.eof else b""
            if not self._stream.eof and self._stream.needs_input:
                return

    def complete(self) -> bool:
        return self._stream.eof


class _Zstd:
    name = "zstd"

    def __init__(self) -> None:
        self._context = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
        self._frame = self._context.decompressobj()

    def decode(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), ZSTD_STEP):
            part = data[start : start + ZSTD_STEP]
            while part:
                if self._frame.eof:
                    self._frame = self._context.decompressobj()
                yield self._frame.decompress(part)
                part = self._frame.unused_data if self._frame.eof else b""

    def complete(self) -> bool:
        return self._frame.eof


# `decode` yields parts of bounded size; after `complete` the stream may end.
_DECODERS: dict[bytes, type[_Gzip] | type[_Xz] | type[_Zstd]] = {
    b"\x1f\x8b": _Gzip,
    b"\xfd7zXZ\x00": _Xz,
    b"\x28\xb5\x2f\xfd": _Zstd,
}
_BROKEN = (zlib.error, lzma.LZMAError, zstandard.ZstdError)


def spool(
    chunks: Iterable[bytes],
    label: str,
    *,
    limits: Limits = LIMITS,
    last_modified: str = "",
    whole_lines: bool = False,
    total: int = 0,
) -> Fetched:
    """Decodes `chunks` into a temporary file that the caller closes.

    With `whole_lines` every blob ends with a newline: a body without one at its end was cut.
    `total` is the expected number of encoded bytes, 0 if unknown. Raises SourceError: empty, cut
    short, broken, too large, expanding too far.
    """
    with Spool(label, limits=limits, total=total) as into:
        into.add(chunks)
        if whole_lines and into.size and into.last != b"\n":
            raise _cut(label, into.read, "catalog")
        return into.fetched(last_modified=last_modified)


class Spool:
    """A temporary file for decoded bodies, one after the other.

    `read` counts encoded bytes, `size` decoded ones. The end of the block closes the file, unless
    `fetched` has returned it, and sets `bytes_read` of a SourceError.
    """

    def __init__(self, label: str, *, limits: Limits = LIMITS, total: int = 0) -> None:
        self.size = self.read = 0
        self.last = b""
        self._label = label
        self._limits = limits
        self._total = total
        self._digest = hashlib.sha256()
        self._files: list[tuple[int, str]] = []
        self._given = False
        with room(self._label):
            self._body = temporary_file()

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        if isinstance(error, SourceError):
            error.bytes_read = self.read
        if not self._given:
            with suppress(OSError):  # what couldn't be written can't be flushed either
                self._body.close()

    def add(self, chunks: Iterable[bytes], name: str = "") -> None:
        """Adds a body. `name` is the name of its file if there are several; each begins a line."""
        if name and self.size and self.last != b"\n":
            self._write(b"\n")
        before = self.size
        what = f"{name} in {self._label}" if name else self._label
        for part in decoded(self._counted(chunks), what):
            self._write(part)
        if name and self.size > before:
            shown = name.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
            self._files.append((before, shown))

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.read += len(chunk)
            yield chunk
            report_progress(self.read, self._total)

    def _write(self, part: bytes) -> None:
        self.size += len(part)
        if self.size > self._limits.body:
            raise too_large(self._label, self._limits)
        check_ratio(self._label, self._limits, self.size, self.read)
        self._digest.update(part)
        with room(self._label):
            self._body.write(part)
        self.last = part[-1:]

    def fetched(self, *, last_modified: str = "") -> Fetched:
        """The file, which the caller closes. Raises SourceError when it is empty."""
        if self.size == 0:
            raise SourceError(
                f"{self._label} is empty.",
                code="empty",
                hint="Check that the catalog was written completely; a catalog has at least one "
                "package.",
            )
        with room(self._label):
            self._body.seek(0)
        self._given = True
        return Fetched(
            self._body,
            self._digest.hexdigest(),
            self.size,
            self.read,
            last_modified=last_modified,
            files=tuple(self._files),
        )


def decoded(chunks: Iterable[bytes], what: str) -> Iterator[bytes]:
    """The chunks decoded, in parts of bounded size. Raises SourceError, about `what`, when they
    are broken or end too early."""
    read = 0
    chunks = _from_magic(chunks)
    first = next(chunks, b"")
    decoder = next((kind() for magic, kind in _DECODERS.items() if first.startswith(magic)), None)
    for chunk in chain((first,) if first else (), chunks):
        read += len(chunk)
        if decoder is None:
            yield chunk
            continue
        try:
            yield from filter(None, decoder.decode(chunk))
        except _BROKEN as error:
            raise SourceError(
                f"{what} is not readable as {decoder.name}: {error}.",
                code="broken-encoding",
                hint="Fetch or write it again; what was read before stays.",
            ) from error
    if decoder is not None and not decoder.complete():
        raise _cut(what, read, f"{decoder.name} data")


def check_ratio(label: str, limits: Limits, size: int, read: int) -> None:
    """Raises SourceError when `read` bytes expanded too far."""
    if size > limits.ratio_from and size > limits.ratio * read:
        raise SourceError(
            f"{label} expands more than {limits.ratio:,} times when decoded.",
            code="expands",
            hint="No real catalog does; check where the file comes from.",
        )


def is_plain(first: bytes) -> bool:
    """Whether a body with this beginning is not compressed."""
    return not first.startswith(tuple(_DECODERS))


def too_large(label: str, limits: Limits) -> SourceError:
    return SourceError(
        f"{label} is larger than {limits.body // 1024**2:,} MiB when decoded.",
        code="too-large",
        hint="Give a smaller catalog, or the part of it that you need.",
    )


def _cut(label: str, read: int, what: str) -> SourceError:
    return SourceError(
        f"{label} is cut short: the {what} ends after {read:,} bytes, before its end.",
        code="cut-short",
        hint="Fetch or write it again; what was read before stays.",
    )


def _from_magic(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks, the first of them long enough to detect the encoding."""
    first = b""
    source = iter(chunks)
    for chunk in source:
        first += chunk
        if len(first) >= 6:
            break
    if first:
        yield first
    yield from source
