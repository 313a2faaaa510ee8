"""The console script in this process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from olmweb.cli.main import run


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
