"""The production shape on this machine: PostgreSQL, Redis and every process of compose.yaml.

Each process can be killed, paused and started again. Must not know what is measured.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

import urllib3
import yaml

from tests.bench.tools import ROOT, environment
from tests.migrated import fill_database
from tests.services import PostgresServer, RedisServer, free_port

CELERY = (sys.executable, "-m", "celery", "-A", "olmweb")
READY_SECONDS = 60
CPU_GROUPS = Path("/sys/fs/cgroup/cpu")  # cgroups(7), version 1
DEFAULT_SHARES = 1024  # of a container whose service names no cpu_shares
CLIENT_SHARES = 16_384  # of what measures: a person's browser has a machine of its own


def cpu_shares() -> dict[str, int]:
    """The weight of each service of compose.yaml, for a CPU that is wanted by several."""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    return {name: item.get("cpu_shares", DEFAULT_SHARES) for name, item in services.items()}


def in_group(name: str, shares: int) -> list[str]:
    """The command in front of another that runs it, and its children, in a CPU group of its own.

    A container engine does the same. Without the right to make groups, and with version 2 of
    cgroups, all processes weigh the same.
    """
    group = _make_group(name, shares)
    if group is None:
        return []
    return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]


@contextmanager
def client_group() -> Iterator[None]:
    """Runs this process in a CPU group of CLIENT_SHARES, so that a page's time is the server's."""
    group = _make_group("client", CLIENT_SHARES)
    if group is None:
        yield
        return
    (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    try:
        yield
    finally:
        (CPU_GROUPS / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def _make_group(name: str, shares: int) -> Path | None:
    """The folder of a CPU group, or None without the right to make it."""
    group = CPU_GROUPS / f"olmweb-soak-{os.getpid()}-{name}"
    try:
        group.mkdir(exist_ok=True)
        (group / "cpu.shares").write_text(str(shares), encoding="ascii")
    except OSError:
        return None
    return group


def remove_groups() -> None:
    """Removes the CPU groups of processes that ended."""
    for group in CPU_GROUPS.glob(f"olmweb-soak-{os.getpid()}-*"):
        with suppress(OSError):  # a process of it is still ending
            group.rmdir()


def start_process(name: str, command: list[str], shares: int, **options: Any) -> Popen[Any]:
    """Starts a process in a session of its own, with that weight beside all others."""
    return Popen([*in_group(name, shares), *command], cwd=ROOT, start_new_session=True, **options)


@dataclass(slots=True)
class Process:
    """A process of the product, and the file of everything that it wrote."""

    name: str
    command: list[str]
    environ: dict[str, str]
    log: Path
    shares: int
    popen: Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.popen = start_process(
                self.name, self.command, self.shares,
                env=self.environ, stdout=output, stderr=output,
            )  # fmt: skip

    def signal(self, number: int) -> None:
        """Sends a signal to the process and its children: they are one container."""
        assert self.popen
        os.killpg(self.popen.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._wait(5)

    def end(self, seconds: float = 60) -> None:
        if self.popen is None or self.popen.poll() is not None:
            return
        self.popen.terminate()
        try:
            self._wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def _wait(self, seconds: float) -> None:
        assert self.popen
        self.popen.wait(timeout=seconds)


class Stack:
    """PostgreSQL, Redis with an append-only file, and the processes by the names of compose.yaml.

    `clusters` are contexts of `folder`/kubeconfig. Each process that another one replaces
    when its lease ends runs twice, and so does web (`web-0`, `web-1`). There is no proxy: clients
    know both addresses.
    """

    def __init__(self, folder: Path, clusters: list[str], **settings: str) -> None:
        self.folder = folder
        self._shares = cpu_shares()
        self.postgres = PostgresServer(in_group("postgres", self._shares["postgres"]))
        (folder / "redis").mkdir()
        self.redis = RedisServer(folder / "redis")
        self.ports = [free_port(), free_port()]
        self.environ = environment(
            folder,
            DATABASE_URL=self.postgres.url,
            REDIS_URL=self.redis.url,
            KUBECONFIG=str(folder / "kubeconfig"),
            OLMWEB_SECRET_KEY="only for this measurement " * 3,
            OLMWEB_HOSTS="127.0.0.1",
            OLMWEB_HTTPS="false",
            OLMWEB_CLUSTERS=",".join(f"{name}={name}" for name in clusters),
            OLMWEB_WRITE_AS="service-account",
            OLMWEB_PUBLIC_READ="true",
            OLMWEB_WEB_PROCESSES="1",
            **settings,
        )
        self.processes = {made.name: made for made in self._processes(len(clusters))}

    def _processes(self, clusters: int) -> Iterator[Process]:
        manage = [sys.executable, "manage.py"]
        worker = [*CELERY, "worker", "--loglevel", "warning", "--queues"]
        watcher = [*worker, "watch", "--pool", "threads", "--concurrency"]
        commands = {
            f"web-{number}": [*manage, "web", "--port", str(port)]
            for number, port in enumerate(self.ports)
        }
        commands |= {
            "worker-actions-0": [*worker, "actions", "--concurrency", "4"],
            "worker-actions-1": [*worker, "actions", "--concurrency", "4"],
            "worker-sync": [*worker, "sync", "--concurrency", "2"],
            "worker-reports": [*worker, "reports", "--concurrency", "1"],
            "watcher-0": [*watcher, str(clusters + 4)],
            "watcher-1": [*watcher, str(clusters + 4)],
            "beat-0": [*CELERY, "beat", "--schedule", str(self.folder / "beat-0")],
            "beat-1": [*CELERY, "beat", "--schedule", str(self.folder / "beat-1")],
        }
        for name, command in commands.items():
            # Celery names a worker after its host: two on one machine need two names.
            named = [*command, "--hostname", f"{name}@soak"] if "worker" in command else command
            log = self.folder / f"{name}.log"
            yield Process(name, named, self.environ, log, self._shares[service_of(name)])

    def start(self) -> None:
        fill_database(self.postgres.url)
        self.manage("collectstatic", "--noinput", "--verbosity", "0")
        for process in self.processes.values():
            process.start()
        for port in self.ports:
            wait_for_answer(port)

    def stop(self) -> None:
        for process in self.processes.values():
            if process.popen is not None and process.popen.poll() is None:
                process.signal(signal.SIGCONT)
                process.popen.terminate()
        for process in self.processes.values():
            process.end()
        self.redis.stop()
        self.postgres.remove()

    def manage(self, *arguments: str, **more: str) -> str:
        """Output of a management command, which runs beside a worker of syncs and weighs the same.

        Raises CalledProcessError.
        """
        command = [sys.executable, "manage.py", *arguments]
        process = start_process(
            "manage", command, self._shares["worker-sync"],
            env=self.environ | more, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        output = process.communicate(timeout=600)[0]
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        return str(output)

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports]


def service_of(name: str) -> str:
    """The service of compose.yaml of a process: `web` of `web-0`, `worker-sync` of itself."""
    return re.sub(r"-\d+$", "", name)


def wait_for_answer(port: int) -> None:
    """Waits until a web process is ready. Raises TimeoutError."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        try:
            if (
                urllib3.request("GET", f"http://127.0.0.1:{port}/readyz", retries=False).status
                == 200
            ):
                return
        except urllib3.exceptions.HTTPError:
            pass
        time.sleep(0.1)
    raise TimeoutError(f"nothing is ready on port {port} after {READY_SECONDS} s")


@contextmanager
def stack(folder: Path, clusters: list[str], **settings: str) -> Iterator[Stack]:
    made = Stack(folder, clusters, **settings)
    try:
        made.start()
        yield made
    finally:
        made.stop()
