"""A catalog in a folder: every file below it that no `.indexignore` names, in opm's order."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from catalogs.sources.base import LIMITS, Fetched, Limits, SourceError
from catalogs.sources.spool import CHUNK, Spool
from catalogs.sources.tree import INDEX_IGNORE_BYTES, content_paths, too_many


class DirectorySource:
    """A folder of FBC files. Links inside it are followed as long as they stay inside; a link to
    a folder is passed over, since what it leads to is read where it lies."""

    def __init__(self, path: str | Path, *, limits: Limits = LIMITS) -> None:
        self.label = str(path)
        self._path = Path(path)
        self._limits = limits

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        """`if_modified_since` is the stamp of an earlier fetch: same names, sizes and times of all
        files, nothing is read."""
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
                raise self._changed(into.read)
            return replace(into.fetched(last_modified=stamp), access_method="directory")

    def _files(self, root: str) -> Iterator[tuple[str, os.stat_result]]:
        """Every entry below the folder that is no folder, with its (its target's) stat."""
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

    def _open(self, root: str, path: str) -> BinaryIO | None:
        """The file that the path leads to, None for a folder. Raises SourceError for what is
        neither, or lies elsewhere."""
        try:
            real = os.path.realpath(f"{root}/{path}", strict=True)
            if not real.startswith(root.rstrip("/") + "/"):
                raise self._bad_link(path, "leads out of the catalog's folder")
            handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except FileNotFoundError as error:
            if Path(root, path).is_symlink():
                raise self._bad_link(path, "leads to nothing") from error
            raise self._changed(0) from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise self._bad_link(path, "leads in a circle") from error
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

    def _chunks(self, file: BinaryIO, path: str, size: int = CHUNK) -> Iterator[bytes]:
        try:
            while chunk := file.read(size):
                yield chunk
        except OSError as error:
            raise self._unreadable(path, error) from error

    def _bad_link(self, path: str, why: str) -> SourceError:
        return SourceError(
            f"{path} in {self.label} is a link that {why}.",
            code="bad-link",
            hint="Put the file itself into the catalog's folder.",
        )

    def _changed(self, read: int) -> SourceError:
        return SourceError(
            f"{self.label} changed while it was being read.",
            code="changed-while-reading",
            hint="The next attempt reads the new content; replace the folder by renaming.",
            bytes_read=read,
        )

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
