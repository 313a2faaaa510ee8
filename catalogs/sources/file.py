"""A catalog in a local file, or in the folder that a path turns out to be."""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

from catalogs.sources.archive import unpacked
from catalogs.sources.base import LIMITS, Fetched, Limits, Source, SourceError, report_progress
from catalogs.sources.directory import DirectorySource
from catalogs.sources.spool import CHUNK, is_plain, spool, too_large

HASH_CHUNK = 1 << 18  # stays in the processor's cache between reading and hashing


def path_source(path: str | Path, *, limits: Limits = LIMITS) -> Source:
    """Source for what the path names now: a folder, or a file."""
    return (
        DirectorySource(path, limits=limits)
        if Path(path).is_dir()
        else FileSource(path, limits=limits)
    )


class FileSource:
    """A file of FBC: JSON Lines, concatenated JSON or YAML, or a tar of a folder of such files,
    plain or compressed.

    A plain file is read where it lies, without a copy; `Fetched.check` notices a change meanwhile.
    """

    def __init__(self, path: str | Path, *, limits: Limits = LIMITS) -> None:
        self.label = str(path)
        self._path = Path(path)
        self._limits = limits

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        """`if_modified_since` is the stamp of an earlier fetch: same stamp, nothing is read."""
        file = self._open()
        try:
            stamp = self._stamp(file)
            if stamp == if_modified_since:
                file.close()
                return Fetched(None, last_modified=stamp)
            return replace(
                unpacked(self._body(file, stamp), self.label, self._limits), access_method="file"
            )
        except BaseException:
            file.close()
            raise

    def _body(self, file: IO[bytes], stamp: str) -> Fetched:
        first = os.pread(file.fileno(), 6, 0)
        if first and is_plain(first):
            return self._in_place(file, stamp)
        total = os.fstat(file.fileno()).st_size
        with file:
            chunks = self._chunks(file)
            fetched = spool(
                chunks, self.label, limits=self._limits, last_modified=stamp, total=total
            )
            try:
                self._check(file, stamp, fetched.bytes_read)
            except SourceError:
                if fetched.body is not None:
                    fetched.body.close()
                raise
            return fetched

    def _open(self) -> IO[bytes]:
        try:
            # Non-blocking, so that opening a pipe nobody writes to doesn't wait for ever.
            handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise SourceError(
                f"{self.label} can't be opened: {error.strerror}.",
                code="unreadable-file",
                hint="Give the path of a file that this process may read.",
            ) from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise SourceError(
                f"{self.label} is not a file.",
                code="not-a-file",
                hint="Give the path of a file that holds the whole catalog, or of its folder.",
            )
        return os.fdopen(handle, "rb", buffering=HASH_CHUNK)

    @staticmethod
    def _stamp(file: IO[bytes]) -> str:
        info = os.fstat(file.fileno())
        return f"{info.st_ino}-{info.st_size}-{info.st_mtime_ns}"

    def _in_place(self, file: IO[bytes], stamp: str) -> Fetched:
        digest, size, total = hashlib.sha256(), 0, os.fstat(file.fileno()).st_size
        for chunk in self._chunks(file, HASH_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            if size > self._limits.body:
                raise too_large(self.label, self._limits, 0, size)
            report_progress(size, total)
        file.seek(0)

        def check() -> None:
            self._check(file, stamp, size)

        return Fetched(file, digest.hexdigest(), size, size, 0, stamp, check)  # type: ignore[arg-type]

    def _check(self, file: IO[bytes], stamp: str, read: int) -> None:
        if self._stamp(file) != stamp:
            raise SourceError(
                f"{self.label} changed while it was being read.",
                code="changed-while-reading",
                hint="The next attempt reads the new content; replace the file by renaming.",
                bytes_read=read,
            )

    def _chunks(self, file: IO[bytes], size: int = CHUNK) -> Iterator[bytes]:
        try:
            while chunk := file.read(size):
                yield chunk
        except OSError as error:
            raise SourceError(
                f"{self.label} can't be read: {error.strerror}.", code="unreadable-file"
            ) from error
