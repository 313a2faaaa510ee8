"""/livez, /readyz and /metrics.

Probes say whether this process can serve; metrics are read from rows at each scrape, so any web
process answers for the whole installation. Those of requests are of the pod's web processes.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from olmweb.accounts.api_tokens import may_read
from olmweb.api.errors import guard
from olmweb.api.formats import json_response
from olmweb.errors import OlmwebError
from olmweb.serving.http_metrics import HttpCollector
from olmweb.serving.metrics import BROKER_ERRORS, StateCollector, broker


@dataclass(frozen=True, slots=True)
class Check:
    """One condition of being ready; `message` is a sentence."""

    ok: bool
    message: str


@guard
@require_safe
def livez(request: HttpRequest) -> HttpResponseBase:
    """The process is up and answers; touches nothing else.

    The web server calls this once and sends the response from its event loop, see
    olmweb.serving.server.make_application.
    """
    return json_response({"ok": True})


@guard
@require_safe
def readyz(request: HttpRequest) -> HttpResponseBase:
    """200 when every check of CHECKS passes, else 503 with the sentence of the first that failed.

    The broker is reported but not required: without it pages and REST still work.
    """
    checks = {name: check() for name, check in CHECKS.items()}
    failed = [check.message for check in checks.values() if not check.ok]
    checks["broker"] = check_broker()
    response = json_response(
        {"ok": not failed, "message": failed[0] if failed else "Ready.", "checks": checks}
    )
    response.status_code = 503 if failed else 200
    response["Cache-Control"] = "no-store"
    return response


@guard
@require_safe
def metrics(request: HttpRequest) -> HttpResponseBase:
    """Prometheus text, for OLMWEB_METRICS_TOKEN and for whoever may read the pages or the API."""
    if not _has_metrics_token(request) and not may_read(request):
        raise OlmwebError(
            "Metrics need a bearer token.",
            code="unauthorized",
            status=401,
            hint="Send OLMWEB_METRICS_TOKEN, or a token of `olmweb token create`.",
        )
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StateCollector())
    registry.register(HttpCollector())
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def _has_metrics_token(request: HttpRequest) -> bool:
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    expected = settings.METRICS_TOKEN
    return bool(
        expected and scheme.lower() == "bearer" and constant_time_compare(secret.strip(), expected)
    )


def check_database() -> Check:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        if _is_read_only():
            return Check(False, "The database can't be written to; check its disk and its rights.")
    except DatabaseError as error:
        return Check(False, f"The database can't be reached ({type(error).__name__}).")
    return Check(True, "The database answers.")


def _is_read_only() -> bool:
    """Checks without writing: a write would wait for a concurrent writer."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SHOW transaction_read_only")
            return bool(cursor.fetchone()[0] == "on")
    name = str(connection.settings_dict["NAME"])
    return Path(name).is_file() and not os.access(name, os.W_OK)


def check_migrations() -> Check:
    try:
        executor = MigrationExecutor(connection)
        waiting = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    except DatabaseError as error:
        return Check(False, f"Migrations can't be read ({type(error).__name__}).")
    if waiting:
        return Check(False, f"{waiting} migrations are not applied; run `manage.py migrate`.")
    return Check(True, "Every migration is applied.")


def check_broker() -> Check:
    """Names only the class of an error: the client's text may hold the URL with its password."""
    if settings.EMBEDDED:
        return Check(True, "The broker is in this process.")
    try:
        with broker() as client:
            client.ping()
    except BROKER_ERRORS as error:
        return Check(False, f"The broker can't be reached ({type(error).__name__}).")
    return Check(True, "The broker answers.")


class ProbeMiddleware:
    """Answers probes and scrapes before hosts are checked and http is redirected: a kubelet, a
    container engine and Prometheus request them by address, over plain http.

    /metrics with a session's cookie goes the way of a page, because a session belongs to a host.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        probe = PROBES.get(request.path)
        if probe is metrics:
            if settings.SESSION_COOKIE_NAME in request.COOKIES:
                probe = None
            else:
                request.user = AnonymousUser()
        if probe is None:
            return self.get_response(request)
        response = probe(request)
        response["X-Content-Type-Options"] = "nosniff"  # as SecurityMiddleware, which comes later
        return response


PROBES = {"/livez": livez, "/readyz": readyz, "/metrics": metrics}
CHECKS: dict[str, Callable[[], Check]] = {
    "database": check_database,
    "migrations": check_migrations,
}
