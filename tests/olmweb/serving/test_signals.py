"""A signal ends the web server within its grace, at whatever moment under load it arrives."""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bench.tools import environment
from tests.conftest import ROOT
from tests.migrated import fill_database
from tests.olmweb.serving.serving import first_answer

SIGNALS = (signal.SIGTERM, signal.SIGINT)
COUNT = int(os.environ.get("OLMWEB_TEST_SIGNALS", "100"))
AT_ONCE = 5  # servers
# Each line of its input is a number of servers to start: forks, as the imports take longer than
# everything else. Lines of its output: process id and port of each, then id and status of each.
FORKS = """
import os, sys
for line in sys.stdin:
    for _ in range(int(line)):
        if os.fork() == 0:
            serve(lambda port: os.write(1, b"%d %d\\n" % (os.getpid(), port)))
            os._exit(0)
    for _ in range(int(line)):
        pid, status = os.wait()
        os.write(1, b"%d %d\\n" % (pid, status))
"""
WEB = """
import signal
from django.conf import settings
settings.configure(TRUSTED_PROXIES=[])
import uvicorn
from olmweb.serving import server
from olmweb.serving.bridge import ThreadedWsgi

def app(environ, start_response):
    start_response("200 OK", [])
    return [b"x" * 10_000]

def serve(announce):
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    listener = server.listen("127.0.0.1", 0)
    web = uvicorn.Server(server.configure(ThreadedWsgi(app, 4, 1000), 3))
    announce(listener.getsockname()[1])
    web.run(sockets=[listener])
"""
EMBEDDED = """
import django
django.setup(set_prefix=False)
from olmweb.serving import embedded, server
server.make_application()  # imports all views
listen = server.listen

def serve(announce):
    listener = listen("127.0.0.1", 0)
    server.listen = lambda *_: listener
    embedded.serve(0, lambda: announce(listener.getsockname()[1]))
"""


@dataclass(frozen=True, slots=True)
class Served:
    """A running server."""

    pid: int
    port: int


class Forks:
    """The process that forks the servers."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def start(self, number: int) -> list[Served]:
        assert self._process.stdin
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        return [Served(*self._numbers()) for _ in range(number)]

    def statuses(self, number: int) -> dict[int, int]:
        """The exit status of so many servers by process id; fails after ten seconds."""
        timer = threading.Timer(10, os.killpg, (self._process.pid, signal.SIGKILL))
        timer.start()
        try:
            return dict(self._numbers() for _ in range(number))
        finally:
            timer.cancel()

    def _numbers(self) -> tuple[int, int]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "a server did not end, or not start"
        pid, number = line.split()
        return int(pid), int(number)


@contextmanager
def forks(code: str, environ: dict[str, str] | None = None) -> Iterator[Forks]:
    process = subprocess.Popen(
        [sys.executable, "-c", code + FORKS], cwd=ROOT, env=environ, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    with process:
        try:
            yield Forks(process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def load(ports: list[int], clients: int, target: str = "/") -> Iterator[None]:
    """So many clients of each port, which send requests one connection after the other."""
    over = threading.Event()
    threads = [
        threading.Thread(target=_request, args=(port, target, over))
        for port in ports
        for _ in range(clients)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _request(port: int, target: str, over: threading.Event) -> None:
    request = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    while not over.is_set():
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
                connection.sendall(request * 3)
                connection.recv(5)
        except OSError:
            time.sleep(0.01)


@pytest.mark.slow
def test_a_hundred_signals_at_any_moment_under_load_end_the_server() -> None:
    """The server before this one lost signals that arrived while it handled a socket."""
    moments = random.Random(20261123)
    with forks(WEB) as servers:
        for _ in range(0, COUNT, AT_ONCE):
            batch = servers.start(AT_ONCE)
            with load([served.port for served in batch], clients=3):
                for served in batch:
                    assert first_answer(served.port)  # before that nothing handles a signal
                for served in batch:
                    time.sleep(moments.random() * 0.05)
                    os.kill(served.pid, moments.choice(SIGNALS))
                started = time.monotonic()
                statuses = servers.statuses(AT_ONCE)
                assert time.monotonic() - started < 5
            assert statuses == {served.pid: 0 for served in batch}


@pytest.mark.slow
def test_signals_at_any_moment_under_load_end_the_embedded_server(tmp_path: Path) -> None:
    """Web server, worker and beat in one process, as `manage.py serve` runs them."""
    moments = random.Random(20261124)
    environ = environment(tmp_path, DATABASE_URL=f"sqlite:///{tmp_path}/db.sqlite3")
    fill_database(environ["DATABASE_URL"])
    with forks(EMBEDDED, environ) as servers:
        for number in SIGNALS * 3:
            [served] = servers.start(1)
            with load([served.port], clients=4, target="/login/"):
                assert first_answer(served.port)
                time.sleep(moments.random())
                started = time.monotonic()
                os.kill(served.pid, number)
                assert servers.statuses(1) == {served.pid: 0}
                assert time.monotonic() - started < 10
