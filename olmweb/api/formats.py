"""How answers of the REST API leave: JSON, JSON Lines, CSV, and 304 for what did not change.

Rows are dataclasses; nothing here knows what they mean.
"""

import csv
import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from datetime import date, datetime
from typing import Any, TypeVar

import msgspec
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags

from olmweb.errors import OlmwebError

R = TypeVar("R", bound=HttpResponseBase)
Row = TypeVar("Row")

MEDIA_TYPES = {"json": "application/json", "ndjson": "application/x-ndjson", "csv": "text/csv"}
# Raised when the same rows are written differently, so that no client keeps the old writing.
SHAPE = "1"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def make_etag(request: HttpRequest, *state: object) -> str:
    """A weak tag over the address, the query and `state` (what changes when the rows do)."""
    query = sorted((name, value) for name, values in request.GET.lists() for value in values)
    seed = repr((SHAPE, request.path, query, state))
    return f'W/"{hashlib.sha256(seed.encode()).hexdigest()[:32]}"'


def not_modified(request: HttpRequest, etag: str) -> HttpResponse | None:
    """The 304 when If-None-Match names `etag` (weakly compared, as for every GET)."""
    tags = parse_etags(request.headers.get("If-None-Match", ""))
    if "*" in tags or etag.removeprefix("W/") in (tag.removeprefix("W/") for tag in tags):
        return finish(HttpResponse(status=304), etag)
    return None


def finish(response: R, etag: str) -> R:
    """Headers of every answer that may be kept: only after asking again, and per caller."""
    response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ("Accept", "Authorization", "Cookie"))
    return response


def require_acceptable(request: HttpRequest, media_type: str) -> None:
    """Raises OlmwebError (406) when the Accept header leaves no room for `media_type`."""
    if not request.accepts(media_type):
        raise OlmwebError(
            f"This answer is {media_type}, which the Accept header refuses.",
            code="not-acceptable",
            status=406,
            hint=f"Send `Accept: {media_type}` or `*/*`; lists are also application/x-ndjson "
            "and text/csv.",
        )


def refuse(name: str, message: str, *, code: str = "bad-parameter") -> OlmwebError:
    """The 400 that names the query parameter `name`."""
    return OlmwebError(message, code=code, status=400, fields={name: message})


def refuse_parameters(request: HttpRequest, names: Iterable[str] = ()) -> None:
    """Raises the 400 that names the first query parameter that is none of `names`."""
    names = tuple(names)
    reads = ", ".join(names) or "none"
    for name in request.GET:
        if name not in names:
            raise refuse(
                name[:60],
                f'There is no query parameter "{name[:60]}" here; this route reads {reads}.',
                code="unknown-parameter",
            )


def answer_one(
    request: HttpRequest,
    state: Sequence[object],
    build: Callable[[], object],
    query: object = None,
) -> HttpResponseBase:
    """One thing as JSON: 304 when `state` is what the caller has, else `build()` encoded.

    `query` are the parameters of the route; one without any refuses all.
    """
    if query is None:
        refuse_parameters(request)
    require_acceptable(request, MEDIA_TYPES["json"])
    etag = make_etag(request, *state)
    return not_modified(request, etag) or finish(json_response(build()), etag)


def json_response(body: object) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(body), content_type=MEDIA_TYPES["json"])


def fill(row_type: type[Row], source: object, **values: Any) -> Row:
    """A `row_type`: `values`, and for its other fields the attributes of `source` by that name."""
    names = (field.name for field in fields(row_type) if field.name not in values)  # type: ignore[arg-type]
    return row_type(**{name: getattr(source, name) for name in names}, **values)


def pick(row: object, fields: Sequence[str]) -> dict[str, Any]:
    return {field: getattr(row, field) for field in fields}


def ndjson_chunks(chunks: Iterable[Sequence[object]], fields: Sequence[str]) -> Iterator[bytes]:
    """One JSON object a line, a chunk of rows at a time."""
    encoder = msgspec.json.Encoder()
    for rows in chunks:
        yield encoder.encode_lines([pick(row, fields) for row in rows])


def csv_chunks(chunks: Iterable[Sequence[object]], fields: Sequence[str]) -> Iterator[bytes]:
    """A header line, then a line a row; nested values are JSON text."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(fields)
    for rows in chunks:
        writer.writerows([csv_cell(getattr(row, field)) for field in fields] for row in rows)
        yield buffer.getvalue().encode()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue().encode()


def csv_cell(value: object) -> str:
    """Text of a cell that no spreadsheet takes for a formula."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case str():
            return f"'{value}" if value.startswith(_FORMULA) else value
    return msgspec.json.encode(value).decode()


def stream(
    chunks: Iterable[Sequence[object]], fields: Sequence[str], form: str, name: str
) -> StreamingHttpResponse:
    """The rows of `chunks` as `form` (ndjson or csv), written while they are read."""
    write = csv_chunks if form == "csv" else ndjson_chunks
    kind = MEDIA_TYPES[form] + ("; charset=utf-8" if form == "csv" else "")
    response = StreamingHttpResponse(write(chunks, fields), content_type=kind)
    response["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    return response
