"""Metrics of requests, which each web process counts itself.

Of several web processes, each writes its counts to files in a folder of the supervisor that starts
them, so that any of them answers for all (prometheus_client's multiprocess mode). Counts of a
process stay when it ends; its gauges do not. The module is imported before the apps are loaded.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.apps import apps
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    disable_created_metrics,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # of the environment, where prometheus_client looks for it
RECEIVED_AT = "olmweb.received_at"  # of a WSGI environment: time.monotonic() of the complete head
METHODS = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS")
TOKENS = 200  # with a series of their own in one process
OTHER, NONE = "other", "none"
API = "/api/"

disable_created_metrics()  # type: ignore[no-untyped-call]
REGISTRY = CollectorRegistry(auto_describe=False)
REQUESTS = Counter(
    "olmweb_http_requests",
    "Requests; route is the pattern of the address, code the class of the status.",
    ["method", "route", "code"],
    registry=REGISTRY,
)
DURATION = Histogram(
    "olmweb_http_request_duration_seconds",
    "From the head of a request to its response, waiting for a thread included.",
    ["method", "route"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    registry=REGISTRY,
)
IN_FLIGHT = Gauge(
    "olmweb_http_requests_in_flight",
    "Requests that wait for a thread or their response.",
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
STREAMS = Gauge(
    "olmweb_event_streams",
    "Open streams of server-sent events: of pages, or of the log of events.",
    ["stream"],
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
CLIENTS = Counter(
    "olmweb_rest_requests",
    f"Requests of the REST API by client. token is the id of a token, {OTHER} after {TOKENS} ids.",
    ["client", "token", "code"],
    registry=REGISTRY,
)
METRICS = (REQUESTS, DURATION, IN_FLIGHT, STREAMS, CLIENTS)
_tokens: set[str] = set()


class RequestMetricsMiddleware:
    """Counts requests; those of probes and scrapes are answered before."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = request.META.get(RECEIVED_AT) or time.monotonic()
        response = self.get_response(request)
        method, route, code = _method(request.method), _route(request), _code(response.status_code)
        REQUESTS.labels(method, route, code).inc()
        DURATION.labels(method, route).observe(time.monotonic() - started)
        if request.path.startswith(API):
            CLIENTS.labels(*_client(request), code).inc()
        return response


def count_refused(method: str, status: int) -> None:
    """Counts a request that Django did not get."""
    REQUESTS.labels(_method(method), NONE, _code(status)).inc()


@contextmanager
def open_stream(stream: str) -> Iterator[None]:
    """Counts a stream of `pages` or `log` as open in this block."""
    with STREAMS.labels(stream).track_inprogress():
        yield


class HttpCollector(Collector):
    """The metrics of all web processes of this supervisor, or of this process alone."""

    def collect(self) -> Iterable[Metric]:
        folder = os.environ.get(FOLDER)
        if folder:
            collector: Collector = MultiProcessCollector(None, folder)  # type: ignore[no-untyped-call]
            return collector.collect()
        return REGISTRY.collect()


def forget_process(pid: int, folder: str) -> None:
    """Removes the gauges of a process that has ended."""
    mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]


def _method(method: str | None) -> str:
    return method if method in METHODS else OTHER


def _code(status: int) -> str:
    return f"{status // 100}xx"


def _route(request: HttpRequest) -> str:
    """The pattern of the address: addresses have names of objects, and are without number."""
    match: Any = request.resolver_match
    if match is not None:
        return f"/{match.route}"
    prefix = f"/{settings.STATIC_URL.strip('/')}/"
    return prefix if request.path.startswith(prefix) else NONE


def _client(request: HttpRequest) -> tuple[str, str]:
    """The kind of client, and the id of its token."""
    if "Authorization" in request.headers:
        token = getattr(request, "auth", None)
        return "token", _bounded(str(token.pk)) if isinstance(
            token, apps.get_model("olmweb.ApiToken")
        ) else NONE
    user = getattr(request, "user", None)
    return ("browser" if user is not None and user.is_authenticated else "anonymous"), ""


def _bounded(token: str) -> str:
    if token not in _tokens and len(_tokens) >= TOKENS:
        return OTHER
    _tokens.add(token)
    return token
