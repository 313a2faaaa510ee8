"""The web server: uvicorn with limits on connections, the same embedded and in production.

uvicorn ends an idle connection after a response, but waits without end for the head of a first
request; `Protocol` ends those, too.
"""

import asyncio
import errno
import os
import signal
import socket
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from django.apps import apps
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.urls import get_resolver
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from olmweb.serving import http_metrics, streams
from olmweb.serving.bridge import ThreadedWsgi
from olmweb.serving.streams import EventStreams, Hub

if TYPE_CHECKING:
    from olmweb.serving.tail import EventLog

HEAD_SECONDS = 15.0  # for the head of a request, from its first byte or the connection
IDLE_SECONDS = 65  # between two requests; longer than most proxies', which then close first
HEAD_LIMIT = 32_768  # bytes of a request's head
CONNECTIONS = 4000  # of one process
BACKLOG = 1024
GRACE_SECONDS = 3  # for requests under way when the process is told to end
PRODUCTION_GRACE_SECONDS = 20
ANSWER_SECONDS = 10  # until uvicorn replaces a process that does not answer it; imports take some
FAILED_STARTS = 5  # web processes in a row that ended before they served
APPLICATION = "olmweb.asgi:application"


class Protocol(H11Protocol):
    """HTTP/1.1 with a limit on connections and on the time for the head of a request."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            transport.close()
            return
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Ends the connection at once if its request is not complete or its response is a stream of
        events; it would use up the grace."""
        follows = self.cycle is not None and (
            self.scope["path"] == streams.PATH or streams.FOLLOWS in self.scope
        )
        super().shutdown()
        if follows or self.conn.their_state is h11.SEND_BODY:
            self.transport.close()

    def _watch_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def make_application() -> "EventLog":
    """Django with the settings' number of threads. The apps must be loaded.

    What the first pages would load, for seconds, is loaded now: a new process answers its probes at
    once, and a rolling update sends people to it.
    """
    from olmweb.eventlog.read import EventFeed  # these need the apps
    from olmweb.serving.events import StampFeed
    from olmweb.serving.readers import ended_readers
    from olmweb.serving.tail import EventLog, Tail

    _ = get_resolver().url_patterns  # imports all views
    for app in apps.get_app_configs():
        if prepare := getattr(app, "prepare_pages", None):
            prepare()
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    # A failing liveness probe restarts the process. While all threads wait, for a database that is
    # away or under too much load, that would only add the start to the load: /livez needs no
    # thread. /readyz does, so a process whose threads are all stuck gets no requests any more.
    pages = ThreadedWsgi(WSGIHandler(), settings.WEB_THREADS, limit, constant=("/livez",))
    streams_of_pages = EventStreams(pages, Hub(StampFeed(), lambda: pages.busy_seconds))
    return EventLog(streams_of_pages, pages, Tail(EventFeed(), ended_readers))


class StartError(Exception):
    """No process of the web server can be started; the text is a sentence for a person."""


class Workers(Multiprocess):
    """Several web processes that count requests in one folder, see olmweb.serving.http_metrics.

    The folder is in the environment before they start, as prometheus_client reads it when it is
    imported. uvicorn replaces a process that ended, even if each one fails in the same way at its
    start; here it gives up after FAILED_STARTS of them if no process serves.
    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self._failed_starts = 0  # since a process served
        self._served = set[int | None]()  # process ids
        self._gave_up = False

    def run(self) -> None:
        """Raises StartError."""
        with TemporaryDirectory(prefix="olmweb-metrics-") as folder:
            os.environ[http_metrics.FOLDER] = self._folder = folder
            super().run()
        if self._gave_up:
            raise StartError(
                "The web server ended: its processes fail at their start, again and again. The "
                "messages above name the reason."
            )

    def keep_subprocess_alive(self) -> None:
        if self.should_exit.is_set():
            return
        before = list(self.processes)
        super().keep_subprocess_alive()
        for process in before:
            given_up = self.should_exit.is_set() and process.exitcode is not None
            if process not in self.processes or given_up:
                http_metrics.forget_process(process.pid or 0, self._folder)
                self._failed_starts += process.pid not in self._served
            # One that answered uvicorn a moment ago does not keep this process waiting.
            elif process.pid in self._served or process.is_ready():
                self._served.add(process.pid)
                self._failed_starts = 0
        self._served &= {process.pid for process in self.processes}
        if self._failed_starts >= FAILED_STARTS:
            self.should_exit.set()
        self._gave_up = self.should_exit.is_set()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError when the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    listener.set_inheritable(True)
    return listener


def listen_everywhere(port: int) -> list[socket.socket]:
    """Listening sockets for all IPv4 addresses and, where the machine has any, all IPv6 addresses.

    One socket for both would show IPv4 clients as ::ffff:10.0.0.1, which is in no IPv4 network of
    OLMWEB_TRUSTED_PROXIES. Raises OSError when the port is taken.
    """
    listeners = [listen("0.0.0.0", port)]  # noqa: S104 - the web server of a container
    try:
        listeners.append(listen("::", port))
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            raise
    return listeners


def configure(application: Any, grace: int) -> uvicorn.Config:
    """uvicorn's settings for `application`, an ASGI application or its import path."""
    return uvicorn.Config(
        application,
        http=Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.TRUSTED_PROXIES),
        forwarded_allow_ips=settings.TRUSTED_PROXIES,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=grace,
        timeout_worker_healthcheck=ANSWER_SECONDS,
        h11_max_incomplete_event_size=HEAD_LIMIT,
    )


def end_on_signals(web: uvicorn.Server) -> None:
    """Ends `web` on SIGTERM and Ctrl-C, also when the signal arrives before it runs.

    uvicorn raises the signal that ended it once more when it is done; by then this is harmless.
    """

    def end(*_: object) -> None:
        web.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


def serve(host: str, port: int, processes: int) -> None:
    """Serves in production until SIGTERM or Ctrl-C, on all addresses when `host` is empty.

    Raises OSError when the port is taken, and StartError.
    """
    listeners = [listen(host, port)] if host else listen_everywhere(port)
    config = configure(APPLICATION, PRODUCTION_GRACE_SECONDS)
    if processes == 1:
        web = uvicorn.Server(config)
        end_on_signals(web)
        web.run(sockets=listeners)
    else:
        config.workers = processes
        Workers(config, sockets=listeners).run()
