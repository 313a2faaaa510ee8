"""The console script in this process, on the test's database or over a web server of it."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connections

from olmweb.cli.main import run
from tests.olmweb.serving.serving import running


@dataclass(frozen=True, slots=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON object of the output."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


Olmweb = Callable[..., Result]


@pytest.fixture
def olmweb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Olmweb:
    for name in ("OLMWEB_SERVER", "OLMWEB_TOKEN", "OLMWEB_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: str) -> Result:
        capsys.readouterr()
        code = run(list(words))
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


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
