"""Real PostgreSQL and Redis for the tests, private to one run, on free loopback ports."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
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


@contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL server of its own, never run as root; yields its DATABASE_URL."""
    folder = postgres_bin()
    if folder is None:
        raise RuntimeError(HOW_TO_GET["postgres"])
    data = Path(tempfile.mkdtemp(prefix="olmweb-postgres-"))
    as_user: list[str] = []
    if os.getuid() == 0:
        shutil.chown(data, "postgres", "postgres")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    port = free_port()
    try:
        subprocess.run(
            [*as_user, str(folder / "initdb"), "-D", str(data / "db"), "-U", "olmweb",
             "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"],
            check=True, stdout=subprocess.DEVNULL, cwd=data,
        )  # fmt: skip
        server = subprocess.Popen(
            [*as_user, str(folder / "postgres"), "-D", str(data / "db"), "-p", str(port),
             "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={data}",
             "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "log_min_messages=fatal"],
            cwd=data, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_for_port(port, server, "PostgreSQL")
            at = ["-h", "127.0.0.1", "-p", str(port), "-U", "olmweb"]
            # The port is open a moment before the server takes anybody in.
            for _ in range(100):
                ready = [*as_user, str(folder / "pg_isready"), "-q", *at]
                if subprocess.run(ready, check=False, cwd=data).returncode == 0:
                    break
                time.sleep(0.1)
            subprocess.run(
                [*as_user, str(folder / "createdb"), *at, "olmweb"], check=True, cwd=data
            )
            yield f"postgres://olmweb@127.0.0.1:{port}/olmweb"
        finally:
            stop(server, 2)  # SIGINT: fast shutdown
    finally:
        shutil.rmtree(data, ignore_errors=True)


@contextmanager
def redis() -> Iterator[str]:
    """A Redis server of its own; yields its URL."""
    server_path = shutil.which("redis-server")
    if server_path is None:
        raise RuntimeError(HOW_TO_GET["redis"])
    port = free_port()
    server = subprocess.Popen(
        [server_path, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--loglevel",
         "warning"],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for_port(port, server, "Redis")
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        stop(server, 15)
