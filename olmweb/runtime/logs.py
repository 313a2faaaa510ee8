"""structlog set-up and the request id that follows a request into the log."""

import logging
import time
import uuid
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse

log = structlog.get_logger(__name__)


def configure_logging(log_format: str) -> None:
    """Sends structlog and the standard library to stderr, as `json` lines or readable `text`."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=False)
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        foreign_pre_chain=shared,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.root.handlers = [handler]
    logging.root.setLevel(logging.INFO)
    for noisy in (
        "celery.utils.functional",
        "celery.app.trace",
        "celery.worker.strategy",
        "kombu",
        "urllib3",
        "axes",
        "uvicorn.error",
        "celery.beat",
        "celery.redirected",
    ):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


class RequestLogMiddleware:
    """Binds a request id and logs failed or slow requests (never a body, cookie or token)."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.monotonic()
        with structlog.contextvars.bound_contextvars(request_id=uuid.uuid4().hex[:12]):
            response = self.get_response(request)
            took_ms = round((time.monotonic() - started) * 1000)
            if response.status_code >= 500 or took_ms > 1000:
                log.warning(
                    "request",
                    method=request.method,
                    path=request.path,
                    status=response.status_code,
                    ms=took_ms,
                )
        return response
