"""Errors with a sentence for a person, the middleware that shows them as error pages, and servers
that do not answer."""

import re
import threading
import time
from collections.abc import Callable, Mapping

import structlog
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, QueryDict

log = structlog.get_logger(__name__)

# Raised while the database restarts or can't be reached.
DATABASE_AWAY = (OperationalError, InterfaceError)


class OlmwebError(Exception):
    """An error with a sentence for a person and a stable slug for machines.

    `message` says what is wrong and where; `hint` what to do; `fields` maps a form field or query
    parameter to its own sentence. Shown in pages, the API, logs and stored in SyncRun.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int = 500,
        retryable: bool = False,
        hint: str = "",
        fields: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.retryable = retryable
        self.hint = hint
        self.fields = dict(fields or {})

    @property
    def further_fields(self) -> dict[str, str]:
        """The fields whose sentence, but for punctuation, is not in the message already."""
        message = _words_of(self.message)
        return {
            name: sentence
            for name, sentence in self.fields.items()
            if _words_of(sentence) not in message
        }


def _words_of(text: str) -> str:
    """Between spaces, so that no part of a word is found."""
    words = " ".join(re.findall(r"\w+", text.lower()))
    return f" {words} "


class Outage:
    """Keeps a process from asking a server again that did not answer a moment ago.

    `event` is logged with the class of the error, at most every LOG_SECONDS, and not with its text:
    that may hold the address of the server with its password.
    """

    PAUSE = 5.0  # seconds without a request after a failure
    LOG_SECONDS = 60.0

    def __init__(self, event: str) -> None:
        self._event = event
        self._until = 0.0
        self._logged_at = -self.LOG_SECONDS
        self._lock = threading.Lock()

    @property
    def is_on(self) -> bool:
        return time.monotonic() < self._until

    def begin(self, error: Exception) -> None:
        self._until = time.monotonic() + self.PAUSE
        self.log(error)

    def log(self, error: Exception) -> None:
        with self._lock:
            now = time.monotonic()
            if now - self._logged_at < self.LOG_SECONDS:
                return
            self._logged_at = now
        log.warning(self._event, error=type(error).__name__)


class BadRequest(OlmwebError):
    """A parameter in the URL or body that can't be read; answered with 400."""

    def __init__(self, message: str, *, code: str = "bad-request", hint: str = "", **fields: str):
        super().__init__(message, code=code, status=400, hint=hint, fields=fields)


class Missing(OlmwebError):
    """The object that the URL names does not exist; answered with 404."""

    def __init__(self, message: str, *, code: str = "not-found", hint: str = ""):
        super().__init__(message, code=code, status=404, hint=hint)


def refuse_nul(request: HttpRequest, *parameters: QueryDict) -> None:
    """Raises BadRequest for a NUL character in the path or `parameters`: PostgreSQL refuses those.

    Called for every page and every route of the API, so that nothing behind them checks again.
    """
    if "\0" in request.path:
        raise BadRequest("The address contains a NUL character.")
    lists = (item for part in parameters for item in part.lists())
    if any("\0" in text for name, values in lists for text in (name, *values)):
        raise BadRequest("A parameter contains a NUL character.")


class ErrorPageMiddleware:
    """Shows an OlmwebError as the error page with a sentence.

    A view that answers its errors itself has the attribute `answers_errors`.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., object], *_: object
    ) -> HttpResponse | None:
        if getattr(view, "answers_errors", False):
            return None
        try:
            refuse_nul(request, request.GET, request.POST)
        except BadRequest as error:
            return self.process_exception(request, error)
        return None

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, OlmwebError):
            return None
        from django.template.response import TemplateResponse

        return TemplateResponse(
            request, "error.html", {"error": error}, status=error.status
        ).render()
