"""Builds rows of packages in other processes; small catalogs are read in the writer.

Threads would not run in parallel. A process has no database; it ends with the pool, or by itself
when the writer has ended.

`concurrent.futures.ProcessPoolExecutor` needs less code, but for the first sync of a catalog of
130 MB on SQLite 18 % more CPU time and 85 MB over idle instead of 58: it pickles a complete result
before it sends it. It also refuses to start in a prefork worker of Celery, whose processes are
daemons to `multiprocessing`.
"""

import fcntl
import os
import select
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec

from catalogs.fbc.split import PackageIndex
from catalogs.storage.packs import Pack, PackSink
from catalogs.sync.package_rows import Files, PackageJob, PackageRows, RowBuilder
from catalogs.sync.pool_process import LENGTH_BYTES, MEMORY_LIMIT, TICKET, OutOfMemory

PROCESSES = 2
MIN_BYTES = 16 * 1024**2  # of blobs: with less, starting a process costs more than it saves
PIPE_BYTES = 1 << 20  # of rows in the pipe: a process continues while those of others are written
BLOB_COST = 25_000  # the rows of a blob take as long as so many more bytes of it
# Tickets written before the first result; a write of so many is atomic.
TICKETS = select.PIPE_BUF // TICKET.size
_ROOT = Path(__file__).resolve().parent.parent.parent
_decode = msgspec.msgpack.Decoder(Pack | PackageRows | OutOfMemory).decode


class PoolError(RuntimeError):
    """Not all packages could be read; the message is a clause, `hint` a sentence."""

    def __init__(self, code: str, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.code = code
        self.hint = hint


def _process_ended(reason: str) -> PoolError:
    return PoolError(
        "reader-ended",
        reason,
        "Most likely the worker is short of memory: give it more; or a package takes more than the "
        f"{MEMORY_LIMIT // 1024**2:,} MiB that a reading process may use.",
    )


def _too_much_memory(package: str) -> PoolError:
    return PoolError(
        "out-of-memory",
        f"package {package[:200]} takes more than {MEMORY_LIMIT // 1024**2:,} MiB of memory",
        "No real package does; check where the catalog comes from.",
    )


class _JobFile:
    """The packages to read, in a file shared by all processes: each loads one at a time."""

    def __init__(self, files: Files) -> None:
        self._file = tempfile.TemporaryFile(prefix="olmweb-", suffix=".jobs")  # noqa: SIM115
        self._end = 0
        self.files_size = self.add(files)[1]
        self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

    def add(self, item: Files | PackageJob) -> tuple[int, int]:
        """Offset and length of the item in the file."""
        data = msgspec.msgpack.encode(item)
        self._file.write(data)
        start, self._end = self._end, self._end + len(data)
        return start, len(data)

    def flush(self) -> None:
        self._file.flush()

    def end(self) -> None:
        self._file.close()


class _Process:
    """One process, which builds the packages whose tickets it takes."""

    def __init__(self, spool: int, jobs: _JobFile, tickets: int) -> None:
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        files = (spool, jobs.fileno(), tickets)
        program = [sys.executable, "-P", "-m", "catalogs.sync.pool_process"]
        self._program = subprocess.Popen(
            # -P: import nothing from the current folder of the worker
            [*program, *map(str, files), str(jobs.files_size), str(MEMORY_LIMIT)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            bufsize=0,
            pass_fds=files,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # Ctrl-C in a terminal is for the owner only
        )
        assert self._program.stdout is not None  # noqa: S101 - stdout=PIPE
        self.results: IO[bytes] = self._program.stdout
        with suppress(OSError):  # beyond the limit of all pipes of a user
            fcntl.fcntl(self.results, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def receive(self) -> Pack | PackageRows | None:
        """The next result; None when the process has ended normally. Raises PoolError."""
        head = self._read(LENGTH_BYTES)
        if len(head) == LENGTH_BYTES:
            size = int.from_bytes(head, "big")
            body = self._read(size)
            if len(body) == size:
                result: Pack | PackageRows | OutOfMemory = _decode(body)
                if isinstance(result, OutOfMemory):
                    raise _too_much_memory(result.name)
                return result
        code = self._program.wait()
        if code or head:
            raise _process_ended(f"a process that reads its packages ended with {code}")
        return None

    def _read(self, size: int) -> memoryview:
        buffer = memoryview(bytearray(size))
        done = 0
        while done < size:
            count = self.results.readinto(buffer[done:])  # type: ignore[attr-defined]  # a raw pipe
            if not count:
                break
            done += count
        return buffer[:done]

    def end(self) -> None:
        self._program.kill()
        self._program.wait()
        self.results.close()


class _Tickets:
    """A pipe of positions in the file of jobs: a free process takes the next one, so that all
    processes end together.

    Writing never blocks, as the processes would wait for their results to be read; the pipe may be
    as small as a page.
    """

    def __init__(self) -> None:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        self.reader = os.fdopen(reader, "rb", buffering=0)
        self._writer = os.fdopen(writer, "wb", buffering=0)
        self._left: list[tuple[int, int]] = []  # in reverse order
        self._due = 0

    def start(self, positions: Iterable[tuple[int, int]]) -> None:
        self._left = list(positions)[::-1]
        self.write(TICKETS)

    def write(self, count: int = 1) -> None:
        """Writes `count` more tickets, now or with a later call; closes the pipe after the last."""
        if self._writer.closed:
            return
        self._due = min(self._due + count, len(self._left))
        batch = self._left[: -self._due - 1 : -1]
        tickets = b"".join(TICKET.pack(*position) for position in batch)
        if batch and self._writer.write(tickets) is None:
            return  # the pipe is full
        del self._left[len(self._left) - self._due :]
        self._due = 0
        if not self._left:
            self._writer.close()

    def end(self) -> None:
        self._writer.close()
        self.reader.close()


class Pool:
    """Builds the rows of packages of one spool; a context manager, which ends the processes."""

    def __init__(self, file: int, files: Sequence[tuple[int, str]] = ()) -> None:
        self.builder = RowBuilder(file, files)  # in this process
        self._file = file
        self._files = list(files)
        self._jobs: _JobFile | None = None
        self._tickets = _Tickets()
        self._processes: list[_Process] = []

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.end()
        self._tickets.end()
        if self._jobs:
            self._jobs.end()

    def expect(self, size: int) -> None:
        """Starts the processes for so many bytes of blobs before `build` needs them. Raises
        PoolError."""
        if size < MIN_BYTES or self._jobs:
            return
        with _disk_errors():
            self._jobs = _JobFile(self._files)
        tickets = self._tickets.reader.fileno()
        for _ in range(PROCESSES):
            self._processes.append(_Process(self._file, self._jobs, tickets))

    def build(self, packages: Sequence[PackageJob], store_pack: PackSink) -> Iterator[PackageRows]:
        """The rows of each package, in any order; `store_pack` receives the packs before. Raises
        PoolError."""
        self.expect(sum(map(_size, packages)))
        if not self._jobs:
            yield from (self.builder.build(job, store_pack) for job in packages)
            return
        left = len(packages)
        # The largest packages first: near the end, when a process may be idle, jobs are small.
        with _disk_errors():
            by_cost = sorted(packages, key=_cost, reverse=True)
            positions = [self._jobs.add(job) for job in by_cost]
            self._jobs.flush()
        self._tickets.start(positions)
        with selectors.DefaultSelector() as selector:
            for process in self._processes:
                selector.register(process.results, selectors.EVENT_READ, process)
            while selector.get_map():
                for key, _ in selector.select():
                    result = key.data.receive()
                    if isinstance(result, PackageRows):
                        self._tickets.write()
                        left -= 1
                        yield result
                    elif result is not None:
                        store_pack(result)
                    else:
                        selector.unregister(key.fileobj)
        if left:
            raise _process_ended(f"the processes that read its packages left out {left}")


@contextmanager
def _disk_errors() -> Iterator[None]:
    """Raises PoolError when the temporary file can't be written."""
    try:
        yield
    except OSError as error:
        raise PoolError(
            "no-room",
            f"what is to be read can't be kept in {tempfile.gettempdir()}: {error.strerror}",
            "Make room there.",
        ) from error


def _size(job: PackageJob) -> int:
    return sum(at.length for at in PackageIndex(job.packed))


def _cost(job: PackageJob) -> int:
    return _size(job) + BLOB_COST * len(PackageIndex(job.packed))
