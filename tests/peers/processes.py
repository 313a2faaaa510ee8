"""Child processes that can't outlive the tests: own session, killed at exit or with the parent."""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

_running: set[int] = set()
# The kernel's "parent" is a thread. This one lives as long as we do, whoever asks for a server.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="servers")


@atexit.register
def _kill_all() -> None:
    for group in _running:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def with_parent(command: list[str]) -> list[str]:
    """`command`, killed by the kernel when the thread that starts it ends."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--", *command] if setpriv else command


class Server:
    """One server process that can be started again with the same data and the same ports."""

    def __init__(
        self,
        name: str,
        command: list[str],
        folder: Path,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.command = command
        self.log = folder / f"{name}.log"
        self.environment = environment or {}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process
        return self.process.pid

    def launch(self) -> None:
        """Starts the process; does not wait for it to answer."""
        self.process = _starter.submit(self._popen).result()
        _running.add(self.process.pid)

    def _popen(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                with_parent(self.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **self.environment},
                cwd=self.log.parent,
            )

    def check(self) -> None:
        """Raises RuntimeError with the end of its log when the process has ended."""
        if self.process is None or self.process.poll() is not None:
            code = self.process.returncode if self.process else None
            raise RuntimeError(f"{self.name} ended (exit code {code}):\n{self.last_words()}")

    def last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])

    def end(self, number: signal.Signals) -> None:
        """Sends the signal to the process and its children and waits; kills after 10 s."""
        if self.process is None:
            return
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        _running.discard(self.process.pid)
        self.process = None

    def kill(self) -> None:
        """As a crash or a power cut: SIGKILL."""
        self.end(signal.SIGKILL)

    def stop(self) -> None:
        """As `kubectl delete pod`: SIGTERM, and SIGKILL after 10 s."""
        self.end(signal.SIGTERM)


@contextmanager
def folder(name: str) -> Iterator[Path]:
    """A folder of its own for a server's data, removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix=f"olmweb-{name}-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
