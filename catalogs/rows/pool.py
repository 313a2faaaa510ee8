"""Making rows beside the one who writes them: in processes where there is much to read, else here.

Reading is Python's work, of which one process does one thing at a time. Knows no database; a
process ends with the pool, or by itself when its owner is gone.
"""

import fcntl
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec

from catalogs.packs import Keep, Pack
from catalogs.rows.package import Maker
from catalogs.rows.process import LENGTH_BYTES, TICKET_BYTES
from catalogs.rows.shapes import Asked, PackageRows, Plan
from catalogs.splitter import PackageIndex

PROCESSES = 2
MUCH = 16 * 1024**2  # bytes of blobs; to start a process takes longer than it saves with less
PIPE_BYTES = 1 << 20  # rows that wait in the pipe: a process goes on while others' are written
BLOB_WORK = 25_000  # a blob's rows take as long as so many bytes more of it
TICKETS = 1000  # packages that may be taken before the first answer; they fit into any pipe
_ROOT = Path(__file__).resolve().parent.parent.parent
_decode = msgspec.msgpack.Decoder(Pack | PackageRows).decode


class Broken(RuntimeError):
    """A process ended before it had read all of its packages; the message is a clause that says
    how: its exit code, or minus the signal that killed it."""


class _Process:
    """One process, which makes the packages whose numbers it takes from `tickets`."""

    def __init__(self, file: int, tickets: int) -> None:
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        program = [sys.executable, "-P", "-m", "catalogs.rows.process", str(file), str(tickets)]
        self._program = subprocess.Popen(
            program,  # -P: nothing is imported from the folder that a worker happens to run in
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            pass_fds=(file, tickets),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # a terminal's Ctrl-C is its owner's
        )
        assert self._program.stdin is not None  # noqa: S101 - a pipe, as asked
        assert self._program.stdout is not None  # noqa: S101
        self._asked: IO[bytes] = self._program.stdin
        self.answers: IO[bytes] = self._program.stdout
        with suppress(OSError):  # more than one user's pipes may have together
            fcntl.fcntl(self.answers, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def ask(self, plan: bytes) -> None:
        with suppress(BrokenPipeError):  # told when the first answer is read
            rest = memoryview(plan)
            while rest:
                rest = rest[self._asked.write(rest) :]
        self._asked.close()

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
            raise Broken(f"a process that reads its packages ended with {code}")
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
        self._asked.close()
        self.answers.close()


class _Tickets:
    """Numbers of packages: a process takes the next one when it is free, so all end together."""

    def __init__(self) -> None:
        taken, given = os.pipe()
        self.taken = os.fdopen(taken, "rb", buffering=0)
        self._given = os.fdopen(given, "wb", buffering=0)
        self._left = range(0)

    def give(self, count: int) -> None:
        self._left = range(count)
        self.more(TICKETS)

    def more(self, most: int = 1) -> None:
        """So many more, and behind the last one the end."""
        if self._given.closed:
            return
        some, self._left = self._left[:most], self._left[most:]
        self._given.write(b"".join(number.to_bytes(TICKET_BYTES, "big") for number in some))
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
        self._tickets: _Tickets | None = None
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
        if self._tickets:
            self._tickets.end()

    def expect(self, size: int) -> None:
        """Starts what so many bytes of blobs need; `make` does, but then has to wait for it."""
        if size >= MUCH and not self._tickets:
            self._tickets = _Tickets()
            taken = self._tickets.taken.fileno()
            for _ in range(PROCESSES):
                self._processes.append(_Process(self._file, taken))

    def make(self, packages: Sequence[Asked], keep: Keep) -> Iterator[PackageRows]:
        """The rows of each package, in any order; `keep` gets the packs before. Raises Broken."""
        self.expect(sum(map(_size, packages)))
        if not self._tickets:
            yield from (self.maker.make(asked, keep) for asked in packages)
            return
        left = len(packages)
        self._ask(packages)
        self._tickets.give(left)
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
            raise Broken(f"the processes that read its packages left out {left}")

    def _ask(self, packages: Sequence[Asked]) -> None:
        """The most work first: what is left for the end, when one has nothing to do, is small."""
        plan = Plan(self._files, sorted(packages, key=_work, reverse=True))
        told = msgspec.msgpack.encode(plan)
        for process in self._processes:
            process.ask(told)


def _size(asked: Asked) -> int:
    return sum(at.length for at in PackageIndex(asked.packed))


def _work(asked: Asked) -> int:
    return _size(asked) + BLOB_WORK * len(PackageIndex(asked.packed))
