"""Requests and responses as values, so that the API can be written without a socket."""

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from olmweb.sandbox.apiserver.access import Identity
from olmweb.sandbox.apiserver.errors import ApiError

LARGE = 128 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `headers` has lower-case names, `query` the last value of each parameter."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    who: Identity

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").split(";")[0].strip()

    def flag(self, name: str) -> bool:
        return self.query.get(name, "") in ("true", "1")


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: `stream` (chunked) when given, else `body`; headers in the order they are sent.

    With `upgrade` the connection is no HTTP any more after the headers: it gets what the client
    sends, and what sends to it.
    """

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    stream: Iterator[bytes] | None = field(default=None, compare=False)
    upgrade: Callable[[BinaryIO, Callable[[bytes], None]], None] | None = field(
        default=None, compare=False
    )


def encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def json_response(value: object, status: int = 200, warnings: tuple[str, ...] = ()) -> Response:
    headers = [("Content-Type", "application/json")]
    headers += [("Warning", f"299 - {json.dumps(text)}") for text in warnings]
    return Response(status, encoded(value) + b"\n", tuple(headers))


def compressed(response: Response, accept_encoding: str) -> Response:
    """The answer in gzip when the client takes it and it is large enough to be worth it."""
    if len(response.body) < LARGE or "gzip" not in accept_encoding:
        return response
    headers = (*response.headers, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
    return Response(response.status, gzip.compress(response.body, 1), headers)


def text_response(text: str, status: int = 200) -> Response:
    return Response(status, text.encode(), (("Content-Type", "text/plain; charset=utf-8"),))


def refusal(error: ApiError) -> Response:
    """The Status of an error as a response."""
    return json_response(error.status(), error.code)
