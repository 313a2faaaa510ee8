"""A web server of the test's database, for the console script and for clients of the REST API."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connections

from tests.olmweb.serving.serving import running


@pytest.fixture
def server(db: None) -> Iterator[str]:
    """The address of a web server that sees the rows of the test's transaction."""
    connection = connections["default"]
    django = WSGIHandler()

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        connections["default"] = connection
        return django(environ, start_response)

    connection.inc_thread_sharing()
    for signal in (request_started, request_finished):  # it would end the test's transaction
        signal.disconnect(close_old_connections)
    try:
        with running(app, threads=1) as port:
            yield f"http://127.0.0.1:{port}"
    finally:
        for signal in (request_started, request_finished):
            signal.connect(close_old_connections)
        connection.dec_thread_sharing()
