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
from catalogs.rows.process import LENGTH_BYTES
from catalogs.rows.shapes import Asked, PackageRows, Plan
from catalogs.splitter import PackageIndex

PROCESSES = 2
MUCH = 16 * 1024**2  # bytes of blobs; to start a process takes longer than it saves with less
PIPE_BYTES = 1 << 20  # rows that wait in the pipe: a process goes on while others' are written
BLOB_WORK = 25_000  # a blob's rows take as long as so many bytes more of it
_ROOT = Path(__file__).resolve().parent.parent.parent
_decode = msgspec.msgpack.Decoder(Pack | PackageRows).decode


class Broken(RuntimeError):
    """A process ended before it had read all of its packages; the message is a clause that says
    how: its exit code, or minus the signal that killed it."""


class _Process:
    """One process, and how many packages it still owes."""

    def __init__(self, file: int) -> None:
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._program = subprocess.Popen(
            # -P: nothing is imported from the folder that a worker happens to run in.
            [sys.executable, "-P", "-m", "catalogs.rows.process", str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            pass_fds=(file,),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # a terminal's Ctrl-C is its owner's
        )
        assert self._program.stdin is not None  # noqa: S101 - a pipe, as asked
        assert self._program.stdout is not None  # noqa: S101
        self._asked: IO[bytes] = self._program.stdin
        self.answers: IO[bytes] = self._program.stdout
        self.left = 0
        with suppress(OSError):  # more than one user's pipes may have together
            fcntl.fcntl(self.answers, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def ask(self, plan: Plan) -> None:
        self.left = len(plan.packages)
        with suppress(BrokenPipeError):  # told when the first answer is read
            rest = memoryview(msgspec.msgpack.encode(plan))
            while rest:
                rest = rest[self._asked.write(rest) :]
        self._asked.close()

    def answer(self) -> Pack | PackageRows:
        size = int.from_bytes(self._read(LENGTH_BYTES), "big")
        made: Pack | PackageRows = _decode(self._read(size))
        self.left -= isinstance(made, PackageRows)
        return made

    def _read(self, size: int) -> bytearray:
        found = bytearray(size)
        rest = memoryview(found)
        while rest:
            count = self.answers.readinto(rest)  # type: ignore[attr-defined]  # a raw pipe
            if not count:
                code = self._program.wait()
                raise Broken(f"a process that reads its packages ended with {code}")
            rest = rest[count:]
        return found

    def end(self) -> None:
        self._program.kill()
        self._program.wait()
        self._asked.close()
        self.answers.close()


class Pool:
    """Makes the rows of packages of one spool; a context manager, which ends the processes."""

    def __init__(self, file: int, files: Sequence[tuple[int, str]] = ()) -> None:
        self.maker = Maker(file, files)  # in this process
        self._file = file
        self._files = list(files)
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

    def expect(self, size: int) -> None:
        """Starts what so many bytes of blobs need; `make` does, but then has to wait for it."""
        if size >= MUCH and not self._processes:
            self._processes = [_Process(self._file) for _ in range(PROCESSES)]

    def make(self, packages: Sequence[Asked], keep: Keep) -> Iterator[PackageRows]:
        """The rows of each package, in any order; `keep` gets the packs before. Raises Broken."""
        self.expect(sum(map(_size, packages)))
        if not self._processes:
            yield from (self.maker.make(asked, keep) for asked in packages)
            return
        with selectors.DefaultSelector() as answers:
            for process, plan in zip(self._processes, self._plans(packages), strict=True):
                process.ask(plan)
                if process.left:
                    answers.register(process.answers, selectors.EVENT_READ, process)
            while answers.get_map():
                for key, _ in answers.select():
                    made = key.data.answer()
                    if isinstance(made, PackageRows):
                        yield made
                    else:
                        keep(made)
                    if not key.data.left:
                        answers.unregister(key.fileobj)

    def _plans(self, packages: Sequence[Asked]) -> list[Plan]:
        """As much work for each."""
        plans = [Plan(self._files, []) for _ in self._processes]
        loads = [0] * len(plans)
        for asked in sorted(packages, key=_work, reverse=True):
            least = loads.index(min(loads))
            loads[least] += _work(asked)
            plans[least].packages.append(asked)
        return plans


def _size(asked: Asked) -> int:
    return sum(at.length for at in PackageIndex(asked.packed))


def _work(asked: Asked) -> int:
    return _size(asked) + BLOB_WORK * len(PackageIndex(asked.packed))
