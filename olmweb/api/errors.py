"""The one shape of an error in the REST API, and the guard around every route of it.

Knows no resource: only how an exception, a wrong method or an unreadable request becomes
`{"error": {"code", "message", "hint", "fields"}}`.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import msgspec
import structlog
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.urls import URLPattern
from django.views import defaults
from ninja.errors import AuthenticationError, HttpError, ValidationError

from olmweb.accounts.throttling import RATE_WINDOW, Rate
from olmweb.errors import DATABASE_AWAY, BadRequest, Missing, OlmwebError, refuse_nul

log = structlog.get_logger(__name__)

MAX_VALUE = 1000  # characters of one query value; SQLite refuses LIKE patterns far above this
LONG_VALUES = {"cursor": 5000, "fields": 5000}
DOCS_HINT = "The routes and their parameters are listed at /api/v1/docs."

View = Callable[..., HttpResponseBase]


# Fields of the pages' forms that have another name in the API.
_QUERY_CODES = ("bad-parameter", "unknown-parameter", "missing-parameter")
_API_NAMES = {"path": "method", "word": "comment", "take": "force_conflicts"}


def error_response(error: OlmwebError) -> HttpResponse:
    body = {
        "error": {
            "code": error.code,
            "message": error.message,
            "hint": error.hint,
            "fields": error.fields,
        }
    }
    response = HttpResponse(
        msgspec.json.encode(body), status=error.status, content_type="application/json"
    )
    response["Cache-Control"] = "no-store"
    if error.status == 429:
        response["Retry-After"] = str(RATE_WINDOW)
    if error.status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="OLM Web"'
    return response


_CODES = {"query": "bad-parameter", "body": "bad-body"}  # by where the value stands


def _validation_error(error: ValidationError) -> OlmwebError:
    fields = dict(_sentence(item["loc"], item) for item in error.errors)
    source = error.errors[0]["loc"][0]
    return OlmwebError(
        " ".join(fields.values()),
        code=_CODES.get(source, "invalid"),
        status=400,
        hint=DOCS_HINT,
        fields=fields,
    )


def _sentence(location: Sequence[Any], item: Mapping[str, Any]) -> tuple[str, str]:
    """The name of the value that pydantic refused, and a sentence that begins with it."""
    name = next((part for part in reversed(location[1:]) if isinstance(part, str)), "body")[:60]
    match item.get("type"):
        case "missing":
            return name, f"{name} is needed."
        case "value_error":
            return name, f"{name} {item['ctx']['error']}"
        case "literal_error":
            expected = item["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
            return name, f"{name} must be one of {expected}."
    return name, f"{name}: {item['msg']}.".replace(": Input should", " must")


# A 400 of django-ninja itself is a body that is no JSON.
_HTTP_CODES = {400: "bad-body", 401: "unauthorized", 403: "forbidden", 404: "not-found"}


def as_olmweb_error(error: Exception) -> OlmwebError:
    """What `error` means to a caller of the API; an unexpected one is logged and becomes a 500."""
    match error:
        case OlmwebError():
            if error.code not in _QUERY_CODES:  # raised by the rules of the pages' forms
                error.fields = {_API_NAMES.get(k, k): text for k, text in error.fields.items()}
            return error
        case ValidationError():
            return _validation_error(error)
        case AuthenticationError():
            return OlmwebError(
                "This needs a bearer token or a signed-in browser.",
                code="unauthorized",
                status=401,
                hint="Make a token with `olmweb token create USER --name NAME` (`--scope act`, to "
                "change something) and send it as `Authorization: Bearer TOKEN`.",
            )
        case HttpError():
            code = _HTTP_CODES.get(error.status_code, "refused")
            words = "The body is not JSON." if code == "bad-body" else str(error)
            return OlmwebError(words, code=code, status=error.status_code, hint=DOCS_HINT)
        case PermissionDenied():
            return OlmwebError(str(error) or "You may not do this.", code="forbidden", status=403)
        case Http404():
            return Missing("There is nothing at this address.", hint=DOCS_HINT)
        case SuspiciousOperation():
            return BadRequest(f"The request can't be read: {error}.")
        case OperationalError() | InterfaceError():
            log.error("database failed", exc_info=error)
            return _database_error()
    log.error("api request failed", exc_info=error)
    return OlmwebError(
        "OLM Web failed while answering; the details are in its log.",
        code="internal",
        hint="Try again; if it stays, ask whoever runs OLM Web to look at the log.",
    )


def handle_exception(request: HttpRequest, error: Any) -> HttpResponse:
    """The exception handler that the API registers for every kind of error."""
    return error_response(as_olmweb_error(error))


def _refuse_unreadable(request: HttpRequest) -> None:
    """Raises BadRequest for what no database can be asked: NUL characters, endless values."""
    refuse_nul(request, request.GET)
    for name, values in request.GET.lists():
        limit = LONG_VALUES.get(name, MAX_VALUE)
        for value in values:
            if len(value) > limit or len(name) > MAX_VALUE:
                raise BadRequest(
                    f"{name[:60]} has {len(value)} characters; at most {limit} are read."
                )


def _method_not_allowed(request: HttpRequest, refused: HttpResponseBase) -> HttpResponse:
    methods = [method.strip() for method in refused["Allow"].split(",")]
    if "GET" in methods:
        methods.append("HEAD")
    allowed = ", ".join(sorted(methods))
    response = error_response(
        OlmwebError(
            f"{request.method} is not possible here; allowed: {allowed}.",
            code="method-not-allowed",
            status=405,
            hint=DOCS_HINT,
        )
    )
    response["Allow"] = allowed
    return response


def _answer_head(request: HttpRequest, view: View, *args: Any, **kwargs: Any) -> HttpResponseBase:
    """The headers of the GET. The rows of an export are not read."""
    request.method = "GET"
    try:
        response = view(request, *args, **kwargs)
    finally:
        request.method = "HEAD"
    if response.status_code == 405:
        return response
    headers = dict(response.items())
    # Not closed, which would end the request and with it the connection to the database; a stream
    # of which nothing was read holds nothing.
    if not isinstance(response, HttpResponse):  # of unknown length
        return StreamingHttpResponse((), status=response.status_code, headers=headers)
    headers["Content-Length"] = str(len(response.content))
    return HttpResponse(status=response.status_code, headers=headers)


def guard(view: View) -> View:
    """Wraps a view so that whatever it raises or refuses leaves in the API's error shape."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            _refuse_unreadable(request)
            if request.method == "HEAD":
                response = _answer_head(request, view, *args, **kwargs)
            else:
                response = view(request, *args, **kwargs)
        except Exception as error:  # the API's boundary
            response = handle_exception(request, error)
        if response.status_code == 405:
            response = _method_not_allowed(request, response)
        rate: Rate | None = getattr(request, "rate", None)
        for name, value in (rate.headers if rate else {}).items():
            response[name] = value
        return response

    guarded.answers_errors = True  # type: ignore[attr-defined]
    return guarded


def guard_patterns(patterns: list[Any]) -> list[Any]:
    """Guards every route of a NinjaAPI: its own handlers see only what an operation raises."""
    for pattern in patterns:
        if isinstance(pattern, URLPattern):
            pattern.callback = guard(pattern.callback)
    return patterns


@guard
def unknown_route(request: HttpRequest, rest: str = "") -> HttpResponseBase:
    raise Missing(f"{request.path[:200]} is not a route of the API.", hint=DOCS_HINT)


def server_error(request: HttpRequest) -> HttpResponse:
    """The answer to an exception of a view or middleware: a 503 if the database failed, else a 500;
    an error of the API under its address, else a page. Calls no database."""
    error = sys.exc_info()[1]
    if request.path.startswith("/api/") and isinstance(error, Exception):
        return handle_exception(request, error)
    if isinstance(error, DATABASE_AWAY):
        log.error("database failed", exc_info=error)
        # Without the request, as the shell of a page reads the database.
        page = render_to_string("503.html", {"error": _database_error()})
        return HttpResponse(page, status=503)
    return defaults.server_error(request)


def _database_error() -> OlmwebError:
    return OlmwebError(
        "The database can't be used right now, so nothing can be read or saved.",
        code="database",
        status=503,
        hint="Try again in a moment; /readyz tells whoever runs OLM Web what is wrong.",
    )


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The 400 of a request that Django refuses before any view, such as one for an unknown host:
    an error of the API under its address, else a page."""
    if request.path.startswith("/api/"):
        return handle_exception(request, exception)
    return defaults.bad_request(request, exception)
