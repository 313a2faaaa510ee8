"""A catalog in a local file."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from catalogs.sources.base import LIMITS, Fetched, Limits, SourceError
from catalogs.sources.spool import CHUNK, spool


class FileSource:
    """A file of FBC: JSON Lines, concatenated JSON or YAML, plain or compressed."""

    def __init__(self, path: str | Path, *, limits: Limits = LIMITS) -> None:
        self.label = str(path)
        self._path = Path(path)
        self._limits = limits

    def fetch(self, *, if_modified_since: str = "") -> Fetched:
        """Reads the file; a file is always read, so `if_modified_since` says nothing here."""
        try:
            # Non-blocking, so that opening a pipe nobody writes to doesn't wait for ever.
            handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise SourceError(
                f"{self.label} can't be opened: {error.strerror}.",
                code="unreadable-file",
                hint="Give the path of a file that this process may read.",
            ) from error
        with os.fdopen(handle, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise SourceError(
                    f"{self.label} is not a file.",
                    code="not-a-file",
                    hint="Give the path of one file that holds the whole catalog.",
                )
            return spool(self._chunks(file), self.label, limits=self._limits)

    def _chunks(self, file: IO[bytes]) -> Iterator[bytes]:
        read = file.read
        try:
            while chunk := read(CHUNK):
                yield chunk
        except OSError as error:
            raise SourceError(
                f"{self.label} can't be read: {error.strerror}.", code="unreadable-file"
            ) from error
