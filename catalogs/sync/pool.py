"""Making rows beside the one who writes them: in processes where there is much to read, else here.

Reading is Python's work, of which one process does one thing at a time. Knows no database; a
process ends with the pool, or by itself when its owner is gone.
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
from types import TracebackType
from typing import IO

import msgspec

from catalogs.fbc.split import PackageIndex
from catalogs.storage.packs import Keep, Pack
from catalogs.sync.package_rows import Maker
from catalogs.sync.process import LENGTH_BYTES, TICKET
from catalogs.sync.row_types import Asked, Files, PackageRows

PROCESSES = 2
MUCH = 16 * 1024**2  # bytes of blobs; to start a process takes longer than it saves with less
PIPE_BYTES = 1 << 20  # rows that wait in the pipe: a process goes on while others' are written
BLOB_WORK = 25_000  # a blob's rows take as long as so many bytes more of it
# Packages that may be taken before the first answer; written at once or not at all.
TICKETS = select.PIPE_BUF // TICKET.size
_ROOT = Path(__file__).resolve().parent.parent.parent
_decode = msgspec.msgpack.Decoder(Pack | PackageRows).decode


class Broken(RuntimeError):
    """Not all packages could be read; the message is a clause that says why, `hint` a sentence that
    says what helps."""

    def __init__(self, code: str, why: str, hint: str) -> None:
        super().__init__(why)
        self.code = code
        self.hint = hint


def _ended(why: str) -> Broken:
    return Broken("reader-ended", why, "Most likely the worker is short of memory: give it more.")


class _Plan:
    """What is to be read, in a file that all processes read: they hold one package at a time."""

    def __init__(self, files: Files) -> None:
        self._file = tempfile.TemporaryFile(prefix="olmweb-", suffix=".plan")  # noqa: SIM115
        self._end = 0
        self.files_size = self.add(files)[1]
        self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

    def add(self, what: Files | Asked) -> tuple[int, int]:
        """Where it stands: offset and length."""
        told = msgspec.msgpack.encode(what)
        self._file.write(told)
        start, self._end = self._end, self._end + len(told)
        return start, len(told)

    def flush(self) -> None:
        self._file.flush()

    def end(self) -> None:
        self._file.close()


class _Process:
    """One process, which makes the packages whose tickets it takes."""

    def __init__(self, spool: int, plan: _Plan, tickets: int) -> None:
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        files = (spool, plan.fileno(), tickets)
        program = [sys.executable, "-P", "-m", "catalogs.sync.process"]
        self._program = subprocess.Popen(
            # -P: nothing is imported from the folder that a worker happens to run in
            [*program, *map(str, files), str(plan.files_size)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            bufsize=0,
            pass_fds=files,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # a terminal's Ctrl-C is its owner's
        )
        assert self._program.stdout is not None  # noqa: S101 - a pipe, as asked
        self.answers: IO[bytes] = self._program.stdout
        with suppress(OSError):  # more than one user's pipes may have together
            fcntl.fcntl(self.answers, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def answer(self) -> Pack | PackageRows | None:
        """What it made next; None when it has ended as it should."""
        head = self._read(LENGTH_BYTES)
        if len(head) == LENGTH_BYTES:
            size = int.from_bytes(head, "big")
            body = self._read(size)
            if len(body) == size:
                made: Pack | PackageRows = _decode(body)
                return made
        code = self._program.wait()
        if code or head:
            raise _ended(f"a process that reads its packages ended with {code}")
        return None

    def _read(self, size: int) -> memoryview:
        found = memoryview(bytearray(size))
        done = 0
        while done < size:
            count = self.answers.readinto(found[done:])  # type: ignore[attr-defined]  # a raw pipe
            if not count:
                break
            done += count
        return found[:done]

    def end(self) -> None:
        self._program.kill()
        self._program.wait()
        self.answers.close()


class _Tickets:
    """Where packages stand in the plan: a process takes the next when it is free, so all end
    together.

    Nobody waits for room in their pipe, which may be as small as a page: the processes would wait
    for their answers to be read meanwhile.
    """

    def __init__(self) -> None:
        taken, given = os.pipe()
        os.set_blocking(given, False)
        self.taken = os.fdopen(taken, "rb", buffering=0)
        self._given = os.fdopen(given, "wb", buffering=0)
        self._left: list[tuple[int, int]] = []  # the next one last
        self._due = 0

    def give(self, places: Iterable[tuple[int, int]]) -> None:
        self._left = list(places)[::-1]
        self.more(TICKETS)

    def more(self, most: int = 1) -> None:
        """So many more, now or with a later call, and behind the last one the end."""
        if self._given.closed:
            return
        self._due = min(self._due + most, len(self._left))
        some = self._left[: -self._due - 1 : -1]
        if some and self._given.write(b"".join(TICKET.pack(*place) for place in some)) is None:
            return  # the pipe is full
        del self._left[len(self._left) - self._due :]
        self._due = 0
        if not self._left:
            self._given.close()

    def end(self) -> None:
        self._given.close()
        self.taken.close()


class Pool:
    """Makes the rows of packages of one spool; a context manager, which ends the processes."""

    def __init__(self, file: int, files: Sequence[tuple[int, str]] = ()) -> None:
        self.maker = Maker(file, files)  # in this process
        self._file = file
        self._files = list(files)
        self._plan: _Plan | None = None
        self._tickets = _Tickets()
        self._processes: list[_Process] = []

    def __enter__(self) -> "Pool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.end()
        self._tickets.end()
        if self._plan:
            self._plan.end()

    def expect(self, size: int) -> None:
        """Starts what so many bytes of blobs need; `make` does, but then has to wait for it.
        Raises Broken."""
        if size < MUCH or self._plan:
            return
        with _room():
            self._plan = _Plan(self._files)
        taken = self._tickets.taken.fileno()
        for _ in range(PROCESSES):
            self._processes.append(_Process(self._file, self._plan, taken))

    def make(self, packages: Sequence[Asked], keep: Keep) -> Iterator[PackageRows]:
        """The rows of each package, in any order; `keep` gets the packs before. Raises Broken."""
        self.expect(sum(map(_size, packages)))
        if not self._plan:
            yield from (self.maker.make(asked, keep) for asked in packages)
            return
        left = len(packages)
        self._ask(packages, self._plan)
        with selectors.DefaultSelector() as answers:
            for process in self._processes:
                answers.register(process.answers, selectors.EVENT_READ, process)
            while answers.get_map():
                for key, _ in answers.select():
                    made = key.data.answer()
                    if isinstance(made, PackageRows):
                        self._tickets.more()
                        left -= 1
                        yield made
                    elif made is not None:
                        keep(made)
                    else:
                        answers.unregister(key.fileobj)
        if left:
            raise _ended(f"the processes that read its packages left out {left}")

    def _ask(self, packages: Sequence[Asked], plan: _Plan) -> None:
        """The most work first: what is left for the end, when one has nothing to do, is small."""
        with _room():
            places = [plan.add(asked) for asked in sorted(packages, key=_work, reverse=True)]
            plan.flush()
        self._tickets.give(places)


@contextmanager
def _room() -> Iterator[None]:
    """Raises Broken where there is no room for what is written."""
    try:
        yield
    except OSError as error:
        raise Broken(
            "no-room",
            f"what is to be read can't be kept in {tempfile.gettempdir()}: {error.strerror}",
            "Make room there.",
        ) from error


def _size(asked: Asked) -> int:
    return sum(at.length for at in PackageIndex(asked.packed))


def _work(asked: Asked) -> int:
    return _size(asked) + BLOB_WORK * len(PackageIndex(asked.packed))
