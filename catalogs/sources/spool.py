"""Decoding a stream into a temporary file in bounded memory: plain, gzip, xz or zstd.

The encoding is told by the first bytes, never by a name. Knows no source but its label.
"""

import hashlib
import lzma
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Protocol

import zstandard

from catalogs.sources.base import LIMITS, Fetched, Limits, SourceError

CHUNK = 1 << 20  # bytes that one step may decode to
XZ_MEMORY = 256 * 1024**2
ZSTD_WINDOW = 128 * 1024**2
ZSTD_STEP = 1024  # a block of 4 bytes can stand for 128 kB: small steps bound what one decodes to


class _Decoder(Protocol):
    name: str

    def decode(self, data: bytes) -> Iterator[bytes]: ...

    def complete(self) -> bool:
        """Whether the stream so far ends where it may."""


class _Plain:
    name = "plain"

    def decode(self, data: bytes) -> Iterator[bytes]:
        yield data

    def complete(self) -> bool:
        return True


class _Gzip:
    name = "gzip"

    def __init__(self) -> None:
        self._member = zlib.decompressobj(31)
        self._started = False

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
        self._stream = self._new()

    @staticmethod
    def _new() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=XZ_MEMORY)

    def decode(self, data: bytes) -> Iterator[bytes]:
        while True:
            if self._stream.eof:
                data = data.lstrip(b"\0")
                if not data:
                    return
                self._stream = self._new()
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


_MAGIC: tuple[tuple[bytes, type[_Gzip] | type[_Xz] | type[_Zstd]], ...] = (
    (b"\x1f\x8b", _Gzip),
    (b"\xfd7zXZ\x00", _Xz),
    (b"\x28\xb5\x2f\xfd", _Zstd),
)
_BROKEN = (zlib.error, lzma.LZMAError, zstandard.ZstdError)


def _decoder_for(first: bytes) -> _Decoder:
    for magic, decoder in _MAGIC:
        if first.startswith(magic):
            return decoder()
    return _Plain()


def spool(
    chunks: Iterable[bytes],
    label: str,
    *,
    limits: Limits = LIMITS,
    requests: int = 0,
    last_modified: str = "",
    whole_lines: bool = False,
) -> Fetched:
    """Decodes `chunks` into a temporary file that the caller closes.

    `whole_lines` for a source that ends every blob with a newline: a body without one at its end
    was cut. Raises SourceError: empty, cut short, broken, too large, expanding too far.
    """
    body = tempfile.TemporaryFile(prefix="olmweb-", suffix=".fbc")  # noqa: SIM115 - given away
    try:
        digest, size, read, last = _fill(body, chunks, label, limits, requests)
        if size == 0:
            raise SourceError(
                f"{label} is empty.",
                code="empty",
                hint="Check that the catalog was written completely; a catalog has at least one "
                "package.",
                requests=requests,
                bytes_read=read,
            )
        if whole_lines and last != b"\n":
            raise _cut(label, requests, read)
    except BaseException:
        body.close()
        raise
    body.seek(0)
    return Fetched(body, digest, size, read, requests, last_modified)


def _fill(
    body: BinaryIO, chunks: Iterable[bytes], label: str, limits: Limits, requests: int
) -> tuple[str, int, int, bytes]:
    """Writes the decoded bytes; returns (sha256, decoded bytes, encoded bytes, last byte)."""
    digest = hashlib.sha256()
    size = read = 0
    last = b""
    decoder: _Decoder | None = None
    for chunk in _from_magic(chunks):
        read += len(chunk)
        decoder = decoder or _decoder_for(chunk)
        try:
            for part in decoder.decode(chunk):
                if not part:
                    continue
                size += len(part)
                if size > limits.body:
                    raise too_large(label, limits, requests, read)
                if size > limits.ratio_from and size > limits.ratio * read:
                    raise SourceError(
                        f"{label} expands more than {limits.ratio:,} times when decoded.",
                        code="expands",
                        hint="No real catalog does; check where the file comes from.",
                        requests=requests,
                        bytes_read=read,
                    )
                digest.update(part)
                body.write(part)
                last = part[-1:]
        except _BROKEN as error:
            raise SourceError(
                f"{label} is not readable as {decoder.name}: {error}.",
                code="broken-encoding",
                hint="Fetch or write it again; what was read before stays.",
                requests=requests,
                bytes_read=read,
            ) from error
    if decoder is not None and not decoder.complete():
        raise _cut(label, requests, read, decoder.name)
    return digest.hexdigest(), size, read, last


def is_plain(first: bytes) -> bool:
    """Whether a body that begins so is not compressed."""
    return not first.startswith(tuple(magic for magic, _ in _MAGIC))


def too_large(label: str, limits: Limits, requests: int, read: int) -> SourceError:
    return SourceError(
        f"{label} is larger than {limits.body // 1024**2:,} MiB when decoded.",
        code="too-large",
        hint="Give a smaller catalog, or the part of it that you need.",
        requests=requests,
        bytes_read=read,
    )


def _cut(label: str, requests: int, read: int, encoding: str = "") -> SourceError:
    what = f"{encoding} data" if encoding else "catalog"
    return SourceError(
        f"{label} is cut short: the {what} ends after {read:,} bytes, before its end.",
        code="cut-short",
        hint="Fetch or write it again; what was read before stays.",
        requests=requests,
        bytes_read=read,
    )


def _from_magic(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks, the first one long enough to tell an encoding by."""
    first = b""
    source = iter(chunks)
    for chunk in source:
        first += chunk
        if len(first) >= 6:
            break
    if first:
        yield first
    yield from source
