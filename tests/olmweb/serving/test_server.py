"""The web server: slow clients hold no thread, and what it takes and sends has limits."""

import asyncio
import errno
import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import urllib3
from django.core.handlers.wsgi import WSGIHandler

from olmweb.celery import app as celery_app
from olmweb.serving import bridge, embedded, server
from olmweb.serving.bridge import ThreadedWsgi
from tests.conftest import ROOT
from tests.olmweb.serving.serving import (
    BODY_LIMIT,
    connect,
    first_answer,
    get,
    production_environment,
    read_all,
    running,
    seconds_of,
    serving,
)
from tests.olmweb.serving.test_streams import wait_for
from tests.services import free_port, wait_for_port

POST = b"POST / HTTP/1.1\r\nHost: x\r\n"


def echo(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain"), ("Set-Cookie", " a=1; Path=/")])
    names = ("PATH_INFO", "REMOTE_ADDR", "wsgi.url_scheme", "HTTP_X_REAL", "HTTP_COOKIE")
    yield repr({name: environ.get(name) for name in names}).encode()
    yield environ["wsgi.input"].read()


def test_slow_clients_hold_no_thread(settings: Any) -> None:
    settings.TRUSTED_PROXIES = []
    with running(echo, threads=1) as port:
        held = [connect(port, POST[:10]) for _ in range(200)]
        held += [connect(port, POST + b"Content-Length: 50\r\n\r\nsome") for _ in range(200)]
        held += [connect(port) for _ in range(50)]
        time.sleep(0.2)
        assert max(seconds_of(port) for _ in range(5)) < 0.5
        for connection in held:
            connection.close()


def test_a_head_that_does_not_come_ends_the_connection(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TRUSTED_PROXIES = []
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.3)
    with running(echo) as port:
        for sent in (b"", POST):
            with connect(port, sent) as connection:
                assert read_all(connection) == b""
        with connect(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") as idle:
            time.sleep(0.6)  # longer than for a head: between two requests there is more time
            idle.sendall(b"GET /again HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert b"/again" in read_all(idle)


def test_a_body_that_does_not_come_is_a_408(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.TRUSTED_PROXIES = []
    monkeypatch.setattr(bridge, "BODY_SECONDS", 0.3)
    with running(echo) as port, connect(port, POST + b"Content-Length: 9\r\n\r\nabc") as slow:
        assert read_all(slow).startswith(b"HTTP/1.1 408 ")


def test_bodies_that_do_not_come_do_not_delay_the_end(settings: Any) -> None:
    settings.TRUSTED_PROXIES = []
    with running(echo, grace=20) as port:
        held = [connect(port, POST + b"Content-Length: 50\r\n\r\nsome") for _ in range(50)]
        time.sleep(0.2)
        started = time.monotonic()
    assert time.monotonic() - started < 5
    for connection in held:
        connection.close()


def test_more_connections_than_the_limit_are_closed(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TRUSTED_PROXIES = []
    monkeypatch.setattr(server, "CONNECTIONS", 5)
    with running(echo) as port:
        held = [connect(port) for _ in range(5)]
        time.sleep(0.1)
        with connect(port) as refused:
            assert read_all(refused) == b""
        for connection in held:
            connection.close()


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        (b"Content-Length: 300000000\r\n", b"x" * 1000, b"413"),
        (b"Transfer-Encoding: chunked\r\n", b"4000\r\n" + b"x" * 0x4000 + b"\r\n", b"413"),
        (b"Content-Type: Multipart/form-data; boundary=b\r\nContent-Length: 900\r\n",
         b"--b", b"415"),
        (b"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 300000000\r\n",
         b"--b", b"415"),
        (b"Content-Type: multipart/form-data; boundary=b\r\nContent-Type: text/plain\r\n"
         b"Content-Length: 900\r\n", b"--b", b"415"),
        (b"Content-Type: text/plain\r\nContent-Type: \t multipart/form-data; boundary=b\r\n"
         b"Content-Length: 900\r\n", b"--b", b"415"),
    ],
)  # fmt: skip
def test_a_body_that_is_too_large_or_a_file_is_refused_unread(
    settings: Any, head: bytes, body: bytes, status: bytes
) -> None:
    settings.TRUSTED_PROXIES = []
    seen: list[str] = []

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        seen.append(environ["PATH_INFO"])
        return echo(environ, start_response)

    with running(app) as port, connect(port, POST + head + b"\r\n") as connection:
        answer, sent = b"", 0
        connection.settimeout(0.05)
        while not answer and sent < 50_000_000:  # a client that sends on as long as it can
            try:
                sent += connection.send(body)
                answer = connection.recv(65_536)
            except TimeoutError:
                continue
            except OSError:
                break
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert b"connection: close" in answer
        assert sent < 20 * BODY_LIMIT
        assert seen == []


def test_a_body_within_the_limit_arrives_whole(settings: Any) -> None:
    settings.TRUSTED_PROXIES = []
    body = os.urandom(BODY_LIMIT)
    with running(echo) as port:
        head = f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        with connect(port, POST + head + body) as connection:
            assert read_all(connection).endswith(body)
        chunks = b"".join(
            b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:5000], body[5000:])
        )
        head = b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        with connect(port, POST + head + chunks + b"0\r\n\r\n") as connection:
            assert read_all(connection).endswith(body)


def test_the_bodies_of_all_requests_have_a_limit_together(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TRUSTED_PROXIES = []
    monkeypatch.setattr(bridge, "BODIES_LIMIT", 5 * BODY_LIMIT, raising=False)
    part = b"Content-Length: %d\r\n\r\n" % BODY_LIMIT + b"x" * (BODY_LIMIT - 1000)
    small = POST + b"Content-Length: 2000\r\nConnection: close\r\n\r\n" + b"y" * 2000
    with running(echo) as port:
        held = [connect(port, POST + part) for _ in range(5)]
        time.sleep(0.2)
        with connect(port, POST + part) as refused:
            assert read_all(refused).startswith(b"HTTP/1.1 503 ")
        assert get(port).startswith(b"HTTP/1.1 200 ")  # a request without a body is answered
        for connection in held:
            connection.close()
        time.sleep(0.2)
        for _ in range(300):  # what was received is counted once, and given back
            with connect(port, small) as served:
                assert read_all(served).endswith(b"y" * 2000)


def test_a_refusal_below_the_api_is_json_and_an_address_has_a_limit(settings: Any) -> None:
    settings.TRUSTED_PROXIES = []
    with running(echo) as port:
        answer = get(port, "/api/v1/status?q=" + "x" * bridge.TARGET_LIMIT)
        assert answer.startswith(b"HTTP/1.1 414 ")
        assert b'"code": "too-long"' in answer
        assert get(port, "/" + "x" * (bridge.TARGET_LIMIT - 10)).startswith(b"HTTP/1.1 200 ")
        # A head that does not end, in more pieces than the server reads at once.
        with connect(port, b"GET / HTTP/1.1\r\nX-A: ") as endless:
            assert _sent_until_refused(endless, b"a" * server.HEAD_LIMIT) < 5_000_000


def _sent_until_refused(connection: socket.socket, part: bytes) -> int:
    """Bytes that the server took before it ended the connection, 50 MB at most."""
    sent = 0
    try:
        while sent < 50_000_000:
            sent += connection.send(part)
    except OSError:
        pass
    return sent


def test_a_client_that_reads_slowly_holds_no_thread(settings: Any) -> None:
    settings.TRUSTED_PROXIES = []
    size = 30_000_000

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [])
        length = size if environ["PATH_INFO"] == "/large" else 1
        return (b"x" * min(1_000_000, length) for _ in range(max(1, length // 1_000_000)))

    with running(app, threads=1) as port:
        slow = connect(port, b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert slow.recv(10)
        assert seconds_of(port) < 1
        assert len(read_all(slow)) > size
        slow.close()


class LongResponse:
    """An application whose responses to /long have `count` chunks of CHUNK bytes; counts them."""

    CHUNK = 50_000

    def __init__(self, count: int) -> None:
        self.count, self.made, self.ended = count, 0, 0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return self._chunks() if environ["PATH_INFO"] == "/long" else [b"short"]

    def _chunks(self) -> Iterator[bytes]:
        try:
            for number in range(self.count):
                self.made += 1
                yield bytes([number % 256]) * self.CHUNK
        finally:
            self.ended += 1


LONG = b"GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def _slow_client(port: int) -> socket.socket:
    """A client of /long that takes little at a time."""
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.settimeout(20)
    slow.connect(("127.0.0.1", port))
    slow.sendall(LONG)
    return slow


def test_responses_that_wait_for_their_clients_have_limited_room_on_disk(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TRUSTED_PROXIES = []
    monkeypatch.setattr(bridge, "IN_MEMORY", 200_000)
    monkeypatch.setattr(bridge, "ON_DISK", 1_000_000)
    app = LongResponse(400)  # 20 MB
    pages = ThreadedWsgi(app, 1, BODY_LIMIT)
    with serving(pages) as port:
        held = [_slow_client(port) for _ in range(4)]
        assert wait_for(lambda: app.made >= 4, 20)
        assert get(port).endswith(b"short")  # the only thread does not wait for them
        time.sleep(0.3)
        # Of 1,600: what fits on the disk and into memory, and into the buffers of the sockets.
        assert app.made < 800
        assert 0 < pages.disk.used <= bridge.ON_DISK
        whole = b"".join(bytes([number % 256]) * app.CHUNK for number in range(400))
        answer = urllib3.request("GET", f"http://127.0.0.1:{port}/long", retries=False)
        assert answer.data == whole
        assert "Content-Length" not in answer.headers
        for client in held[:2]:
            client.close()
        assert wait_for(
            lambda: app.ended == 3, 20
        )  # that of a client that went away is not made on
        for client in held[2:]:
            client.settimeout(20)
            assert len(read_all(client)) > len(whole)
            client.close()
        assert wait_for(lambda: pages.disk.used == 0, 20)
        assert app.ended == 5


def test_a_response_that_fits_on_disk_is_made_at_once_and_has_a_length(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TRUSTED_PROXIES = []
    monkeypatch.setattr(bridge, "IN_MEMORY", 200_000)
    app = LongResponse(200)
    pages = ThreadedWsgi(app, 1, BODY_LIMIT)
    with serving(pages) as port, _slow_client(port) as slow:
        assert wait_for(lambda: app.ended == 1, 20)
        assert app.made == 200
        assert pages.disk.used == 200 * app.CHUNK
        head, _, body = read_all(slow).partition(b"\r\n\r\n")
        assert b"content-length: %d" % len(body) in head
        assert len(body) == 200 * app.CHUNK
        assert wait_for(lambda: pages.disk.used == 0, 20)


def test_a_client_that_takes_a_long_response_too_slowly_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bridge, "SEND_SECONDS", 0.5)

    async def never() -> Any:
        await asyncio.Event().wait()

    def taken(slowest: int) -> list[Any]:
        """The messages that a client took who needs 50 ms for each of 20 blocks."""
        monkeypatch.setattr(bridge, "SLOWEST", slowest)
        messages = []

        async def send(message: Any) -> None:
            await asyncio.sleep(0.05)
            messages.append(message)

        body = io.BytesIO(b"x" * 20 * bridge.BLOCK)
        asyncio.run(bridge.send_response(bridge.Response(200, [], body), never, send))
        return messages

    assert len(taken(bridge.BLOCK)) == 22
    cut = taken(1_000_000_000)
    assert 2 < len(cut) < 15
    assert cut[-1]["more_body"], "the server closes the connection"


def test_livez_answers_while_all_threads_are_busy_and_the_queue_is_full(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TRUSTED_PROXIES = []
    monkeypatch.setattr(bridge, "WAITING", 2)
    over = threading.Event()

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/busy":
            over.wait(20)
        return echo(environ, start_response)

    with serving(ThreadedWsgi(app, 1, BODY_LIMIT, constant=("/livez",))) as port:
        head = b"GET /busy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        held = [connect(port, head) for _ in range(2)]
        try:
            time.sleep(0.1)
            assert get(port).startswith(b"HTTP/1.1 503 ")
            assert get(port, "/livez").startswith(b"HTTP/1.1 200 ")
        finally:
            over.set()
        for connection in held:
            assert read_all(connection).startswith(b"HTTP/1.1 200 ")
            connection.close()


@pytest.mark.django_db
def test_livez_answers_every_method_as_django_does(settings: Any) -> None:
    settings.TRUSTED_PROXIES = []

    def answers(**options: Any) -> list[list[bytes]]:
        with serving(ThreadedWsgi(WSGIHandler(), 1, BODY_LIMIT, **options)) as port:
            answers = []
            for method in ("GET", "HEAD", "POST", "OPTIONS"):
                head = f"{method} /livez HTTP/1.1\r\nHost: 10.0.0.7\r\nConnection: close\r\n\r\n"
                with connect(port, head.encode()) as connection:
                    lines = read_all(connection).split(b"\r\n")
                answers.append(sorted(line for line in lines if not line.startswith(b"date: ")))
            return answers

    constant = answers(constant=("/livez",))
    assert constant == answers()
    for lines, status in zip(constant, (b"200 OK", b"200 OK", b"405 ", b"405 "), strict=True):
        assert any(line.startswith(b"HTTP/1.1 " + status) for line in lines)
    assert b'{"ok":true}' in constant[0]
    assert b'{"ok":true}' not in constant[1]
    assert any(line.startswith(b"content-security-policy: ") for line in constant[0])


def test_the_clients_address_comes_from_a_trusted_proxy_only(settings: Any) -> None:
    forwarded = "X-Forwarded-For: 203.0.113.9, 198.51.100.7\r\nX-Forwarded-Proto: https\r\n"
    settings.TRUSTED_PROXIES = []
    with running(echo) as port:
        answer = get(port, headers=forwarded)
        assert b"'REMOTE_ADDR': '127.0.0.1', 'wsgi.url_scheme': 'http'" in answer
    settings.TRUSTED_PROXIES = ["127.0.0.0/8", "198.51.100.0/24"]
    with running(echo) as port:
        answer = get(port, headers=forwarded)
        assert b"'REMOTE_ADDR': '203.0.113.9', 'wsgi.url_scheme': 'https'" in answer


def test_without_an_address_ipv4_and_ipv6_are_served_and_trusted_alike(settings: Any) -> None:
    settings.TRUSTED_PROXIES = ["127.0.0.0/8", "::1/128"]
    listeners = server.listen_everywhere(free_port())
    hosts = ["127.0.0.1", "::1"][: len(listeners)]
    assert len(hosts) == 1 + Path("/proc/net/if_inet6").exists()
    with running(echo, listeners=listeners) as port:
        for host in hosts:
            assert f"'REMOTE_ADDR': '{host}'".encode() in get(port, host=host)
            answer = get(port, headers="X-Forwarded-For: 203.0.113.9\r\n", host=host)
            assert b"'REMOTE_ADDR': '203.0.113.9'" in answer


def test_without_ipv6_ipv4_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    listen = server.listen

    def without_ipv6(host: str, port: int) -> socket.socket:
        if ":" in host:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return listen(host, port)

    monkeypatch.setattr(server, "listen", without_ipv6)
    [listener] = server.listen_everywhere(free_port())
    listener.close()


def test_the_environment_is_that_of_a_wsgi_server(settings: Any) -> None:
    settings.TRUSTED_PROXIES = []
    headers = "X_Real: 1\r\nX-Real: 2\r\nCookie: a=1\r\nCookie: b=2\r\n"
    with running(echo) as port:
        answer = get(port, "/caf%C3%A9/%ff", headers=headers).decode()
        assert f"'PATH_INFO': {'/café/'.encode().decode('latin1') + 'ÿ'!r}" in answer
        assert "'HTTP_X_REAL': '2'" in answer
        assert "'HTTP_COOKIE': 'a=1; b=2'" in answer


def test_a_crash_of_the_application_is_a_500(settings: Any) -> None:
    settings.TRUSTED_PROXIES = []

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        raise RuntimeError("no")

    with running(app) as port:
        assert get(port).startswith(b"HTTP/1.1 500 ")


@pytest.mark.django_db
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_web_server_runs_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    ends: list[str] = []

    class SignalledAtStart:
        def start(self) -> None:
            signal.raise_signal(number)

        def stop(self) -> None:
            ends.append("stopped")

    def give_up() -> None:
        ends.append("lost")
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(embedded, "Background", SignalledAtStart)
    monkeypatch.setattr(celery_app, "send_task", lambda *_, **__: None)
    handlers = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    timer = threading.Timer(5, give_up)
    timer.start()
    try:
        embedded.serve(0, lambda: None)
    finally:
        timer.cancel()
        for name, handler in handlers.items():
            signal.signal(name, handler)
    assert ends == ["stopped"]


# Each start of a web process counts itself; the first ones fail when they import the application.
APPLICATION = """
import pathlib
starts = pathlib.Path(__file__).parent / "starts"
starts.open("a").write("x")
if len(starts.read_text()) <= {failures}:
    raise RuntimeError("the application is broken")

async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({{"type": message["type"] + ".complete"}})
        await send({{"type": message["type"] + ".complete"}})
        return
    await send({{"type": "http.response.start", "status": 200, "headers": []}})
    await send({{"type": "http.response.body", "body": b"served"}})
"""
COMMAND = """
import sys
from django.core.management import execute_from_command_line
from olmweb.serving import server
server.APPLICATION = "application:application"
execute_from_command_line(["manage.py", "web", "--host", "127.0.0.1", "--port", sys.argv[1]])
"""


def test_a_process_serves_once_the_first_page_has_nothing_to_load(tmp_path: Path) -> None:
    code = """if True:
        import sys
        import olmweb.asgi
        from installs.diagnosis.entries import knowledge
        print(knowledge.cache_info().currsize, "installs.views.clusters" in sys.modules)
    """
    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=production_environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert process.stdout.split() == ["1", "True"], process.stderr[-2000:]


def test_a_busy_node_leaves_a_web_process_time_for_its_imports(settings: Any) -> None:
    """A process that is replaced before it answers would be replaced again and again."""
    settings.TRUSTED_PROXIES = []
    assert server.configure(echo, 3).timeout_worker_healthcheck >= 10


@pytest.mark.slow
@pytest.mark.parametrize("failures", [server.FAILED_STARTS - 1, 1000])
def test_web_processes_that_fail_at_each_start_end_the_server(
    tmp_path: Path, failures: int
) -> None:
    (tmp_path / "application.py").write_text(APPLICATION.format(failures=failures))
    port = free_port()
    environ = production_environment(
        tmp_path,
        OLMWEB_WEB_PROCESSES="2",
        PYTHONPATH=f"{ROOT}:{tmp_path}",
    )
    log = tmp_path / "log"
    with log.open("wb") as output:
        web = subprocess.Popen(
            [sys.executable, "-c", COMMAND, str(port)], cwd=ROOT, env=environ, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    try:
        if failures < server.FAILED_STARTS:
            wait_for_port(port, web, "web")
            assert b"served" in first_answer(port)
            web.terminate()
            assert web.wait(30) == 0
            return
        assert web.wait(60) == 1
    finally:
        with suppress(ProcessLookupError):
            os.killpg(web.pid, signal.SIGKILL)  # also the web processes
        web.wait()
    *_, last = log.read_text().splitlines()
    assert last == (
        "CommandError: The web server ended: its processes fail at their start, again and again. "
        "The messages above name the reason."
    )
    assert "RuntimeError: the application is broken" in log.read_text()
    starts = len((tmp_path / "starts").read_text())
    assert starts <= server.FAILED_STARTS + 2  # two more may have begun meanwhile
