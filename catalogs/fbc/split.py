"""Splits a decoded catalog into blobs in bounded memory, and indexes them by package.

Reads JSON Lines, concatenated JSON objects (pretty or compact) and YAML documents. Pure.
"""

import hashlib
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from json import JSONDecodeError, JSONDecoder
from typing import BinaryIO, NamedTuple, Protocol

from catalogs.fbc.blob import (
    BUNDLE,
    CHANNEL,
    DECODE_ERRORS,
    BadBlob,
    ContentProblemRow,
    Header,
    content_problem,
    read_header,
    yaml_to_json,
)

BLOB_LIMIT = 32 * 1024 * 1024
CHUNK = 1 << 18
REPORT_BYTES = 1 << 22  # bytes between two progress reports
_YAML_MARK = re.compile(rb"(?:---|\.\.\.)(?:\s|$)")
MAX_UNREADABLE = 1000  # blobs listed of one catalog, so that it does not fill the database
FIRST_READ = 1 << 12  # bytes read of a possible blob of several lines; mostly it is none
# After so many bytes of unreadable blobs in one file, the search for the next blob skips everything
# that was read: many beginnings can lead to the same far end.
WASTE = 32 * 1024 * 1024
# Numbers are skipped, whatever their length.
_raw_decode = JSONDecoder(parse_int=len, parse_float=len).raw_decode
# A possible end of incomplete JSON: a part of a word, a number or an escape.
_BEGUN = re.compile(
    r"\s*(?:t|tr|tru|f|fa|fal|fals|n|nu|nul|N|Na|-?I|-?In|-?Inf|-?Infi|-?Infin|-?Infini|-?Infinit"
    r"|-|\.|[eE][+-]?)?"
)
_ESCAPE = 12  # characters of the longest escape, a pair of surrogates
_TOO_DEEP = "the blob nests too deep to be read; flatten it"


class NotFbc(Exception):
    """The body is no file-based catalog; the message is a sentence without its subject."""


class CutShort(Exception):
    """The body ends in the middle of a blob; the message is a sentence."""


class Piece(NamedTuple):
    """One blob: its own bytes at `offset`, which is in line `line` of its file (from 1), and the
    JSON to read it from (mostly the same bytes)."""

    offset: int
    line: int
    data: bytes
    header: Header
    json: bytes


class _Readable(Protocol):
    def seek(self, offset: int, /) -> int: ...
    def read(self, size: int, /) -> bytes: ...
    def readline(self, size: int, /) -> bytes: ...


class Splitter:
    """Iterates over the blobs of `spool` once; unusable ones are appended to `problems`.

    `start` is the offset of the file called `name` in a spool of several files. Raises CutShort
    when the last blob is incomplete.
    """

    def __init__(
        self,
        spool: _Readable,
        problems: list[ContentProblemRow],
        *,
        limit: int = BLOB_LIMIT,
        start: int = 0,
        name: str = "the catalog",
    ) -> None:
        self._problems = problems
        self._spool = spool
        self._limit = limit
        self._start = start
        self._name = name
        self._wasted = 0

    def __iter__(self) -> Iterator[Piece]:
        start = self._skip_blank()
        number = 1 + self._pass(self._start, start)
        first = self._spool.read(1)
        self._spool.seek(start)
        if first in (b"{", b"["):
            return self._json(start, number)
        return self._yaml(start, number)

    def _skip_blank(self) -> int:
        """Offset of the first byte that is neither white space nor a byte order mark."""
        offset = self._start
        self._spool.seek(offset)
        if self._spool.read(3) == b"\xef\xbb\xbf":
            offset += 3
        self._spool.seek(offset)
        while chunk := self._spool.read(CHUNK):
            rest = chunk.lstrip()
            if rest:
                return offset + len(chunk) - len(rest)
            offset += len(chunk)
        return offset

    def _pass(self, offset: int, end: int) -> int:
        """The number of line breaks from `offset` to `end`; leaves the spool there."""
        self._spool.seek(offset)
        count = 0
        while offset < end and (chunk := self._spool.read(min(CHUNK, end - offset))):
            count += chunk.count(b"\n")
            offset += len(chunk)
        return count

    def _json(self, offset: int, number: int) -> Iterator[Piece]:
        limit, readline = self._limit, self._spool.readline
        while line := readline(limit + 1):
            end = offset + len(line)
            lines = 1
            if len(line) > limit and line[-1:] != b"\n":
                end = self._too_large(offset, end)
                lines = self._pass(offset, end)
            elif (data := line.strip()) != b"":
                at = offset + line.index(data[:1])
                try:
                    header, source = read_header(data)
                    yield Piece(at, number, data, header, source)
                except BadBlob as error:
                    self._report(error.code, str(error), at)
                except RecursionError:
                    self._report("too-deep", _TOO_DEEP, at)
                except DECODE_ERRORS:
                    # Several objects on one line, or the first line of a longer one.
                    piece, end = self._object(at, number, end)
                    if piece is not None:
                        yield piece
                    lines = self._pass(offset, end)
            offset = end
            number += lines

    def _object(self, offset: int, number: int, line_end: int) -> tuple[Piece | None, int]:
        """The JSON value that starts at `offset`, and the offset after it."""
        self._spool.seek(offset)
        buffer, want = b"", FIRST_READ
        while True:
            more = self._spool.read(want)
            buffer += more
            # Latin-1 makes one character of each byte, so positions are byte offsets.
            text = buffer.decode("latin-1")
            try:
                _, length = _raw_decode(text)
            except RecursionError:
                self._report("too-deep", _TOO_DEEP, offset)
                return None, self._after(offset, len(buffer), line_end)
            except JSONDecodeError as error:
                incomplete = _may_go_on(error, text)
                if incomplete and not more:
                    raise CutShort(
                        f"{self._name} ends in the middle of the blob at byte "
                        f"{offset - self._start:,}"
                    ) from error
                if not incomplete:
                    where = offset + error.pos - self._start
                    self._report(
                        "not-json", f"not valid JSON at byte {where:,}: {error.msg}", offset
                    )
                    return None, self._after(offset, error.pos, line_end)
                if len(buffer) > self._limit:
                    return None, self._too_large(offset, offset + len(buffer), line_end)
                # Doubles at least, so that a large blob is scanned a few times only.
                want = max(CHUNK, len(buffer))
                continue
            return self._piece(offset, number, buffer[:length]), offset + length

    def _piece(self, offset: int, number: int, data: bytes) -> Piece | None:
        if len(data) > self._limit:
            self._report_size(offset)
            return None
        try:
            header, source = read_header(data)
        except BadBlob as error:
            self._report(error.code, str(error), offset)
        except DECODE_ERRORS as error:
            self._report("not-json", f"the blob can't be read: {error}", offset)
        else:
            return Piece(offset, number, data, header, source)
        return None

    def _too_large(self, offset: int, end: int, line_end: int | None = None) -> int:
        """Reports the blob; returns the offset of the next one."""
        self._report_size(offset)
        return self._next_object(end if line_end is None else line_end)

    def _report_size(self, offset: int) -> None:
        self._report(
            "blob-too-large",
            f"the blob is larger than the {_size(self._limit)} that one blob may have; "
            "it is left out",
            offset,
        )

    def _after(self, offset: int, read: int, line_end: int) -> int:
        """Offset of the blob after an unreadable one, of which `read` bytes were read. It may begin
        in the next line, as the unreadable one may be cut off."""
        self._wasted += read
        return self._next_object(line_end if self._wasted < WASTE else max(offset + read, line_end))

    def _next_object(self, end: int) -> int:
        """Offset of the first line from `end` on that begins with an opening brace."""
        position, size = end - 1, FIRST_READ
        self._spool.seek(position)
        tail = b""
        while chunk := self._spool.read(size):
            size = min(2 * size, CHUNK)
            line_break = (tail + chunk).find(b"\n{")
            if line_break >= 0:
                return position - len(tail) + line_break + 1
            position += len(chunk)
            tail = chunk[-1:]
        return position

    def _yaml(self, offset: int, number: int) -> Iterator[Piece]:
        lines: list[bytes] = []
        start, first, size = offset, number, 0
        while line := self._spool.readline(self._limit + 1):
            offset += len(line)
            number += line[-1:] == b"\n"
            if _YAML_MARK.match(line):
                yield from self._document(start, first, lines, size)
                rest = line[3:] if line.startswith(b"--- ") and line[3:].strip() else b""
                start, lines, size = offset - len(rest), [rest], len(rest)
                first = number - rest.count(b"\n")
                continue
            size += len(line)
            if size > self._limit:
                lines = []
            else:
                lines.append(line)
        yield from self._document(start, first, lines, size)

    def _document(self, offset: int, number: int, lines: list[bytes], size: int) -> Iterator[Piece]:
        if size > self._limit:
            self._report_size(offset)
            return
        data = b"".join(lines).rstrip()
        if not data.strip():
            return
        try:
            header, source = read_blob(data)
            if source != b"null":
                yield Piece(offset, number, data, header, source)
        except BadBlob as error:
            self._report(error.code, str(error), offset)
        except DECODE_ERRORS as error:
            self._report("not-an-object", f"the document is not a mapping: {error}", offset)

    def _report(self, code: str, message: str, offset: int) -> None:
        _append(self._problems, content_problem(code, message, offset))


def _append(problems: list[ContentProblemRow], problem: ContentProblemRow) -> None:
    if len(problems) < MAX_UNREADABLE:
        problems.append(problem)
    elif len(problems) == MAX_UNREADABLE:
        message = (
            f"the catalog has more blobs that can't be read than the {MAX_UNREADABLE} "
            "that are listed"
        )
        problems.append(content_problem("more", message, problem.offset))


def _may_go_on(error: JSONDecodeError, text: str) -> bool:
    """Whether `text` is valid JSON up to its end, but incomplete."""
    if "Unterminated string" in error.msg:
        return True
    if error.msg.startswith("Invalid \\"):
        return len(text) - error.pos < _ESCAPE
    return _BEGUN.fullmatch(text, error.pos) is not None


_ENTRY = struct.Struct("<QII??32s")  # the fields of BlobAt


class BlobAt(NamedTuple):
    """The position of a blob in the spool, and its identity."""

    offset: int
    length: int
    line: int  # of its first byte, from 1
    bundle: bool  # schema olm.bundle
    plain: bool  # JSON with keys in the format's spelling: can be decoded directly
    digest: bytes

    @property
    def sha256(self) -> str:
        return self.digest.hex()


@dataclass(slots=True)
class PackageIndex:
    """The blobs of one package in catalog order, packed: large catalogs have 100,000 of them."""

    packed: bytearray = field(default_factory=bytearray)

    def __iter__(self) -> Iterator[BlobAt]:
        return map(BlobAt._make, _ENTRY.iter_unpack(self.packed))

    def __getitem__(self, position: int) -> BlobAt:
        return BlobAt(*_ENTRY.unpack_from(self.packed, position * _ENTRY.size))

    def __len__(self) -> int:
        return len(self.packed) // _ENTRY.size

    def content_hash(self, salt: bytes) -> str:
        """sha256 over the identities of the blobs in order, hexadecimal."""
        hashed = hashlib.sha256(salt)
        for entry in _ENTRY.iter_unpack(self.packed):
            hashed.update(entry[-1])
        return hashed.hexdigest()


@dataclass(frozen=True, slots=True)
class CatalogIndex:
    """The usable blobs of a catalog by package ("" for blobs without one)."""

    packages: dict[str, PackageIndex]
    problems: tuple[ContentProblemRow, ...]


class _Section:
    """The part of a spool that is one file: reading ends at `end`, where the next one begins."""

    def __init__(self, spool: BinaryIO, end: int) -> None:
        self._spool = spool
        self._end = end

    def seek(self, offset: int, /) -> int:
        return self._spool.seek(offset)

    def read(self, size: int, /) -> bytes:
        return self._spool.read(max(0, min(size, self._end - self._spool.tell())))

    def readline(self, size: int, /) -> bytes:
        return self._spool.readline(max(0, min(size, self._end - self._spool.tell())))


def _pieces(
    spool: BinaryIO,
    limit: int,
    files: tuple[tuple[int, str], ...],
    problems: list[ContentProblemRow],
) -> Iterator[Piece]:
    """The blobs of every file. A file is JSON or YAML, and no blob continues in the next file."""
    if not files:
        yield from Splitter(spool, problems, limit=limit)
        return
    ends = [start for start, _ in files[1:]] + [spool.seek(0, 2)]
    for (start, name), end in zip(files, ends, strict=True):
        yield from Splitter(_Section(spool, end), problems, limit=limit, start=start, name=name)


def index_spool(
    spool: BinaryIO,
    *,
    limit: int = BLOB_LIMIT,
    files: tuple[tuple[int, str], ...] = (),
    progress: Callable[[int], None] | None = None,
) -> CatalogIndex:
    """Reads the spool once. `files` has the offset and the name of each file in a spool of several;
    `progress` receives the number of bytes read. Raises NotFbc when no blob is usable, CutShort
    when the end of a file is cut."""
    problems: list[ContentProblemRow] = []
    packages: dict[str, PackageIndex] = {}
    pack, sha256 = _ENTRY.pack, hashlib.sha256
    reported = -REPORT_BYTES
    for piece in _pieces(spool, limit, files, problems):
        header, data = piece.header, piece.data
        if progress is not None and piece.offset - reported >= REPORT_BYTES:
            reported = piece.offset
            progress(reported)
        owner = header.owner
        if (fault := _unstorable(piece)) is not None:
            _append(problems, fault)
            continue
        package = packages.get(owner)
        if package is None:
            package = packages[owner] = PackageIndex()
        package.packed += pack(
            piece.offset,
            len(data),
            piece.line,
            header.schema == BUNDLE,
            piece.json is data,
            sha256(data).digest(),
        )
    if not packages:
        first = problems[0].message if problems else "it is blank"
        raise NotFbc(f'holds no JSON object or YAML document with a "schema" ({first})')
    return CatalogIndex(packages, tuple(problems))


# Longest names that can be stored; real ones have a fifth of that.
_LONGEST = {"package": 253, "schema": 253, CHANNEL: 300}
_LONGEST_NAME = 500
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def _unstorable(piece: Piece) -> ContentProblemRow | None:
    """The reason why the blob can't become rows: a name too long for a key, or a NUL."""
    header = piece.header
    schema, name = header.schema or "", header.name or ""
    longest = _LONGEST.get(schema, _LONGEST_NAME)
    if (
        len(name) > longest
        or len(schema) > _LONGEST["schema"]
        or len(header.owner) > _LONGEST["package"]
    ):
        return content_problem(
            "name-too-long",
            f'the {_shown(schema[:100])} blob "{_shown(name[:100])}…" of package '
            f'"{_shown(header.owner[:100])}" has a name too long to be stored; it is left out',
            piece.offset,
            _shown(name[:100]),
        )
    # The plain search is fast and nearly always finds nothing.
    if b"\\u0000" in piece.json and _NUL.search(piece.json):
        return content_problem(
            "nul",
            f'the {_shown(schema)} blob of package "{_shown(header.owner)}" holds a NUL character, '
            "which can't be stored; it is left out",
            piece.offset,
        )
    return None


def _shown(text: str) -> str:
    return text.replace("\0", "\ufffd")


def read_blob(data: bytes) -> tuple[Header, bytes]:
    """Header and JSON of a JSON object or YAML document; b"null" for an empty document. Raises
    BadBlob or one of DECODE_ERRORS.

    A YAML document may begin like JSON: `{schema: olm.package}`.
    """
    if data[:1] == b"{":
        with suppress(BadBlob, *DECODE_ERRORS):
            return read_header(data)
    source = yaml_to_json(data)
    return (Header(), source) if source == b"null" else read_header(source)


def _size(limit: int) -> str:
    return f"{limit // 1_048_576} MiB" if limit >= 1_048_576 else f"{limit:,} bytes"
