"""Reads catalogs from a local file, or from a folder: every file below it that no `.indexignore`
excludes, in opm's order.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

from catalogs.sources.archive import unpacked
from catalogs.sources.base import (
    LIMITS,
    ContentSource,
    Fetched,
    Limits,
    SourceError,
    report_progress,
)
from catalogs.sources.spool import CHUNK, Spool, is_plain, spool, too_large
from catalogs.sources.tree import INDEX_IGNORE_BYTES, bad_link, content_paths, too_many

HASH_CHUNK = 1 << 18  # stays in the processor's cache between reading and hashing


def path_source(path: str | Path, *, limits: Limits = LIMITS) -> ContentSource:
    """ContentSource for the folder or the file that the path names now."""
    kind = DirectorySource if Path(path).is_dir() else FileSource
    return kind(path, limits=limits)


class _PathSource:
    def __init__(self, path: str | Path, *, limits: Limits = LIMITS) -> None:
        self.label = str(path)
        self._path = Path(path)
        self._limits = limits

    def _changed(self, what: str, read: int) -> SourceError:
        return SourceError(
            f"{self.label} changed while it was being read.",
            code="changed-while-reading",
            hint=f"The next attempt reads the new content; replace the {what} by renaming.",
            bytes_read=read,
        )


class FileSource(_PathSource):
    """A file of FBC: JSON Lines, concatenated JSON or YAML, or a tar of a folder of such files,
    plain or compressed.

    A plain file is read in place, without a copy; `Fetched.check` detects a change meanwhile.
    """

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        """`if_modified_since` is the stamp of an earlier fetch; the same stamp skips the read."""
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
            # Non-blocking: opening a pipe without a writer would wait for ever.
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
                error = too_large(self.label, self._limits)
                error.bytes_read = size
                raise error
            report_progress(size, total)
        file.seek(0)

        def check() -> None:
            self._check(file, stamp, size)

        return Fetched(file, digest.hexdigest(), size, size, 0, stamp, check)  # type: ignore[arg-type]

    def _check(self, file: IO[bytes], stamp: str, read: int) -> None:
        if self._stamp(file) != stamp:
            raise self._changed("file", read)

    def _chunks(self, file: IO[bytes], size: int = CHUNK) -> Iterator[bytes]:
        try:
            while chunk := file.read(size):
                yield chunk
        except OSError as error:
            raise SourceError(
                f"{self.label} can't be read: {error.strerror}.", code="unreadable-file"
            ) from error


class DirectorySource(_PathSource):
    """A folder of FBC files. Links to files inside it are followed; links to folders are skipped,
    since their targets are read in place."""

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        """`if_modified_since` is the stamp of an earlier fetch; the same names, sizes and times of
        all files skip the read."""
        try:
            root = os.path.realpath(self._path, strict=True)
        except OSError as error:
            raise self._unreadable(".", error) from error
        files = dict(self._files(root))
        stamp = _stamp(files)
        if stamp == if_modified_since:
            return Fetched(None, last_modified=stamp)
        total = sum(info.st_size for info in files.values())
        with Spool(self.label, limits=self._limits, total=total) as into:
            for path in content_paths(files, lambda path: self._head(root, path)):
                file = self._open(root, path)
                if file is not None:
                    with file:
                        into.add(self._chunks(file, path), path)
            if _stamp(dict(self._files(root))) != stamp:
                raise self._changed("folder", into.read)
            return replace(into.fetched(last_modified=stamp), access_method="directory")

    def _files(self, root: str) -> Iterator[tuple[str, os.stat_result]]:
        """Every file and link below the folder, with its stat."""
        folders, count = [""], 0
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(f"{root}/{folder}") as entries:
                    for entry in entries:
                        count += 1
                        if count > self._limits.files:
                            raise too_many(self.label, self._limits)
                        path = f"{folder}/{entry.name}" if folder else entry.name
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(path)
                        else:
                            yield path, entry.stat(follow_symlinks=False)
            except OSError as error:
                raise self._unreadable(folder or ".", error) from error

    def _open(self, root: str, path: str) -> IO[bytes] | None:
        """The file at the path, None for a folder. Raises SourceError for anything else, and for a
        link that leads out of the folder."""
        try:
            real = os.path.realpath(f"{root}/{path}", strict=True)
            if not real.startswith(root.rstrip("/") + "/"):
                raise bad_link(path, self.label, "leads out of the catalog's folder")
            handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except FileNotFoundError as error:
            if Path(root, path).is_symlink():
                raise bad_link(path, self.label, "leads to nothing") from error
            raise self._changed("folder", 0) from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise bad_link(path, self.label, "leads in a circle") from error
            raise self._unreadable(path, error) from error
        mode = os.fstat(handle).st_mode
        if stat.S_ISREG(mode):
            return os.fdopen(handle, "rb", buffering=0)
        os.close(handle)
        if stat.S_ISDIR(mode):
            return None
        raise SourceError(
            f"{path} in {self.label} is no file, and can't be content of a catalog.",
            code="not-a-file",
            hint="Leave it out of the catalog's folder, or name it in .indexignore.",
        )

    def _head(self, root: str, path: str) -> bytes:
        file = self._open(root, path)
        if file is None:
            return b""
        with file:
            return next(self._chunks(file, path, INDEX_IGNORE_BYTES + 1), b"")

    def _chunks(self, file: IO[bytes], path: str, size: int = CHUNK) -> Iterator[bytes]:
        try:
            while chunk := file.read(size):
                yield chunk
        except OSError as error:
            raise self._unreadable(path, error) from error

    def _unreadable(self, path: str, error: OSError) -> SourceError:
        what = self.label if path == "." else f"{path} in {self.label}"
        return SourceError(
            f"{what} can't be read: {error.strerror}.",
            code="unreadable-file",
            hint="Give a folder that this process may read, with all that is in it.",
        )


def _stamp(files: dict[str, os.stat_result]) -> str:
    digest = hashlib.sha256()
    for path, info in sorted(files.items()):
        digest.update(
            f"{path}\0{info.st_ino}-{info.st_size}-{info.st_mtime_ns}\0".encode(
                "utf-8", "surrogateescape"
            )
        )
    return digest.hexdigest()[:40]
