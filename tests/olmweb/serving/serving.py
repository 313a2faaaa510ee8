"""The web server in a thread or a process, around any WSGI application; raw requests to it."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn

from olmweb.serving import server
from olmweb.serving.bridge import ThreadedWsgi
from tests.bench.tools import environment

BODY_LIMIT = 100_000
App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def production_environment(folder: Path, **more: str) -> dict[str, str]:
    """The environment of `manage.py web` with a database in `folder`."""
    return environment(
        folder,
        DATABASE_URL=f"sqlite:///{folder}/db.sqlite3",
        REDIS_URL="redis://127.0.0.1:1/0",  # away: nothing here needs it
        OLMWEB_SECRET_KEY="only for this test " * 4,
        OLMWEB_HOSTS="127.0.0.1",
        **more,
    )


@contextmanager
def running(
    app: App, threads: int = 2, grace: int = 1, listeners: Sequence[socket.socket] = ()
) -> Iterator[int]:
    """Serves `app` in a thread, on loopback unless listeners are given; yields the port."""
    with serving(ThreadedWsgi(app, threads, BODY_LIMIT), grace, listeners) as port:
        yield port


@contextmanager
def serving(
    application: Any, grace: int = 1, listeners: Sequence[socket.socket] = ()
) -> Iterator[int]:
    """The same for an ASGI application."""
    sockets = list(listeners) or [server.listen("127.0.0.1", 0)]
    web = uvicorn.Server(server.configure(application, grace=grace))
    thread = threading.Thread(target=lambda: asyncio.run(web.serve(sockets=sockets)))
    thread.start()
    try:
        yield sockets[0].getsockname()[1]
    finally:
        web.should_exit = True
        thread.join(grace + 10)
        assert not thread.is_alive()


def connect(port: int, sent: bytes = b"", host: str = "127.0.0.1") -> socket.socket:
    connection = socket.create_connection((host, port), timeout=10)
    connection.sendall(sent)
    return connection


def read_all(connection: socket.socket) -> bytes:
    """Everything until the server closes the connection."""
    parts = []
    try:
        while part := connection.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def get(port: int, target: str = "/", headers: str = "", host: str = "127.0.0.1") -> bytes:
    """The whole answer of a GET."""
    head = f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n"
    with connect(port, head.encode("latin1"), host) as connection:
        return read_all(connection)


def seconds_of(port: int, target: str = "/") -> float:
    started = time.monotonic()
    assert b" 200 " in get(port, target).partition(b"\r\n")[0]
    return time.monotonic() - started


def first_answer(port: int) -> bytes:
    """The first answer within a minute: the port is open before a process serves, and a process
    that ends at its start closes the connections that it accepted."""
    deadline, answer = time.monotonic() + 60, b""
    while not answer and time.monotonic() < deadline:
        with (
            suppress(OSError),
            connect(port, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") as connection,
        ):
            connection.settimeout(60)
            answer = read_all(connection)
    return answer
