"""Real PostgreSQL and Redis for the tests, private to one run, on free loopback ports."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HOW_TO_GET = {
    "postgres": "PostgreSQL is not installed (Debian: apt-get install postgresql)",
    "redis": "redis-server is not installed (Debian: apt-get install redis-server)",
    "chromium": "Chromium is not installed (Debian: apt-get install chromium)",
    "apiserver": "kube-apiserver and etcd are not built (`make peers` builds them)",
    "opm": "opm is not built (`make peers` builds it)",
    "catalogd": "catalogd or docker-registry is missing (`make peers` gets both)",
    "olm": "OLM is not built (`make peers` builds it)",
    "helm": "helm and kubeconform are not built (`make peers` builds them)",
    "history": "the history of the version before is missing (`git fetch --unshallow --tags`)",
    "zsh": "zsh is not installed (Debian: apt-get install zsh)",
    "fish": "fish is not installed (Debian: apt-get install fish)",
    "promtool": "promtool is not installed (Debian: apt-get install prometheus)",
}


def required() -> set[str]:
    """Components whose absence must fail the run instead of skipping a suite."""
    return {name for name in os.environ.get("OLMWEB_TEST_REQUIRE", "").split(",") if name}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def postgres_bin() -> Path | None:
    """Folder of initdb and postgres: Debian's newest, else wherever PATH has them."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: p.parts[-3])
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    return Path(initdb).parent if initdb else None


def wait_for_port(port: int, process: subprocess.Popen[bytes], what: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"{what} ended with exit code {process.returncode} at its start")
        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"{what} did not open port {port} within 30 s")


def stop(process: subprocess.Popen[bytes], number: int) -> None:
    process.send_signal(number)
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def memory(process: subprocess.Popen[bytes]) -> int:
    """Proportional share of memory of a process and its children, in MB."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    total = 0
    for pid in [str(process.pid), *children]:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total += next(int(line.split()[1]) for line in rollup.splitlines() if "Pss:" in line)
    return total // 1024


class PostgresServer:
    """A PostgreSQL server with data of its own, never run as root; `url` is its DATABASE_URL.

    It can be stopped and started again on the same port with the same data. `runner` is a command
    in front of the server's.
    """

    def __init__(self, runner: Sequence[str] = ()) -> None:
        self._runner = runner
        found = postgres_bin()
        if found is None:
            raise RuntimeError(HOW_TO_GET["postgres"])
        self._bin = found
        self._data = Path(tempfile.mkdtemp(prefix="olmweb-postgres-"))
        self._as_user: list[str] = []
        if os.getuid() == 0:
            shutil.chown(self._data, "postgres", "postgres")
            self._as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        self._port = free_port()
        self.url = f"postgres://olmweb@127.0.0.1:{self._port}/olmweb"
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self._run("initdb", "-D", str(self._data / "db"), "-U", "olmweb", "--auth=trust",
                      "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")  # fmt: skip
            self.start()
            self._run("createdb", *self._at(), "olmweb")
        except BaseException:
            self.remove()
            raise

    def start(self) -> None:
        self.process = subprocess.Popen(
            [*self._runner, *self._as_user, str(self._bin / "postgres"),
             "-D", str(self._data / "db"), "-p", str(self._port),
             "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self._data}",
             "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "log_min_messages=fatal",
             "-c", "max_connections=300"],  # two watchers of 50 clusters, beside all others
            cwd=self._data, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for_port(self._port, self.process, "PostgreSQL")
        # The port is open a moment before the server takes anybody in.
        for _ in range(100):
            ready = [*self._as_user, str(self._bin / "pg_isready"), "-q", *self._at()]
            if subprocess.run(ready, check=False, cwd=self._data).returncode == 0:
                break
            time.sleep(0.1)

    def stop(self, number: int = signal.SIGINT) -> None:
        """Stops the server; SIGINT is its fast shutdown."""
        if self.process is not None:
            stop(self.process, number)
            self.process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._data, ignore_errors=True)

    def _at(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", str(self._port), "-U", "olmweb"]

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as_user, str(self._bin / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self._data)


class RedisServer:
    """A Redis server; `url` is its REDIS_URL. With `folder` it keeps an append-only file there, and
    what is queued survives a restart on the same port, as in compose.yaml. With `certificate`, a
    PEM with the key of `localhost`, it speaks TLS alone."""

    def __init__(self, folder: Path | None = None, certificate: Path | None = None) -> None:
        found = shutil.which("redis-server")
        if found is None:
            raise RuntimeError(HOW_TO_GET["redis"])
        self._port = free_port()
        self._command = [found, "--port", str(self._port), "--bind", "127.0.0.1", "--save", "",
                         "--loglevel", "warning"]  # fmt: skip
        if folder is not None:
            self._command += ["--dir", str(folder), "--appendonly", "yes"]
        self.url = f"redis://127.0.0.1:{self._port}/0"
        if certificate is not None:
            self._command += ["--port", "0", "--tls-port", str(self._port), "--tls-auth-clients",
                              "no", "--tls-cert-file", str(certificate), "--tls-key-file",
                              str(certificate)]  # fmt: skip
            self.url = f"rediss://localhost:{self._port}/0"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        wait_for_port(self._port, self.process, "Redis")

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            stop(self.process, number)
            self.process = None


@contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL server of its own; yields its DATABASE_URL."""
    server = PostgresServer()
    try:
        yield server.url
    finally:
        server.remove()


@contextmanager
def redis() -> Iterator[str]:
    """A Redis server of its own; yields its URL."""
    server = RedisServer()
    try:
        yield server.url
    finally:
        server.stop()
