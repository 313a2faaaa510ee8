"""Lists of the REST API: keyset cursors, chosen fields, 304s, whole exports; and those of pages.

A route declares its parameters as a `ListParameters` and answers with `answer_list`, from stored
rows or computed ones. Knows no model of the apps.

Paging is not django-ninja's: an export needs the same cursors, and its CursorPagination makes none
that are signed or belong to one list and its filters. Items are dataclasses that msgspec encodes:
the response model of django-ninja takes twice as long (2.6 ms, not 1.4 ms, for 500 packages) and
can't leave out fields. The OpenAPI document is made from the same dataclasses.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Annotated, Any, ClassVar, Generic, Protocol, TypeVar

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from ninja import FilterSchema, Schema
from pydantic import Field

from olmweb.api.formats import (
    MEDIA_TYPES,
    finish,
    json_response,
    make_etag,
    not_modified,
    pick,
    refuse,
    require_acceptable,
    stream,
)
from olmweb.api.parameters import OneOf, Parameters, text
from olmweb.errors import OlmwebError
from olmweb.web import pagination
from olmweb.web.tables import TableView

M = TypeVar("M", bound=Model)
R = TypeVar("R")

DEFAULT_LIMIT, MAX_LIMIT = 100, 500
CHUNK = 1000  # rows read at once for an export
PUBLIC_EXPORT = 2000  # rows of an export for readers without an account
CONTROLS = ("limit", "cursor", "fields", "format")
MARKDOWN = "md"
FORMATS = {**MEDIA_TYPES, MARKDOWN: "text/markdown"}


class ListParameters(Parameters, FilterSchema):
    """The parameters of every list. Those that a subclass adds are filters."""

    empty_allowed: ClassVar[bool] = False

    limit: int | None = Field(
        None, ge=1, le=MAX_LIMIT,
        description=f"Items on one page ({DEFAULT_LIMIT} without it); caps an export when given.",
    )  # fmt: skip
    cursor: str = text("`next` of the page before.")
    fields: str = text("Only these fields of the items, comma-separated.")
    format: Annotated[str, OneOf(tuple(MEDIA_TYPES))] = Field(
        "json",
        description="ndjson and csv stream the whole result. Absent: by the Accept header.",
    )

    def no_condition(self, _: object) -> Q:
        return Q()

    filter_limit = filter_cursor = filter_fields = filter_format = no_condition


SORT = "Order of the list: the name of a field, `-` before it for the reverse."


def order_of(sort: str, default: Sequence[str]) -> Sequence[str]:
    """The order of a list that is sorted by one field, with the id for equal values."""
    if not sort:
        return default
    return (sort, "-id" if sort.startswith("-") else "id")


class ReportParameters(ListParameters):
    """The parameters of a list that is also written as Markdown."""

    format: Annotated[str, OneOf(tuple(FORMATS))] = Field(
        "json",
        description="ndjson, csv and md are the whole result; md is for people. Absent: by the "
        "Accept header.",
    )


class Page(Schema, Generic[R]):
    """One page of a list. `count` is the number of all items that match; `next` is null at the
    end, else the `cursor` of the next page."""

    items: list[R]
    next: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows of one page. `last` is the key of the last one; None at the end of the list."""

    rows: Sequence[object]
    last: Sequence[Any] | None
    count: int


class RowSource(Protocol):
    """The rows of a list in their order; `after` is the key of the row before the first one."""

    def page(self, after: Sequence[Any] | None, limit: int) -> Slice: ...

    def chunks(
        self, after: Sequence[Any] | None, limit: int | None
    ) -> Iterator[Sequence[object]]: ...


@dataclass(frozen=True, slots=True)
class StoredRows(Generic[M]):
    """Rows of a queryset. `order` is one of olmweb.web.pagination.

    `rows` converts model instances, a chunk at a time, so that what it looks up for them costs a
    fixed number of queries.
    """

    queryset: QuerySet[M]
    order: Sequence[str]
    rows: Callable[[Sequence[M]], Sequence[object]]

    def page(self, after: Sequence[Any] | None, limit: int) -> Slice:
        batch = list(pagination.rows_after(self.queryset, self.order, after)[: limit + 1])
        more, batch = len(batch) > limit, batch[:limit]
        last = pagination.key_of(batch[-1], self.order) if more else None
        return Slice(self.rows(batch), last, self.queryset.count())

    def chunks(self, after: Sequence[Any] | None, limit: int | None) -> Iterator[Sequence[object]]:
        """Each chunk is its own short query, so a slow reader holds no database cursor open."""
        while limit is None or limit > 0:
            size = CHUNK if limit is None else min(CHUNK, limit)
            batch = list(pagination.rows_after(self.queryset, self.order, after)[:size])
            if batch:
                yield self.rows(batch)
            if len(batch) < size:
                return
            after = pagination.key_of(batch[-1], self.order)
            limit = None if limit is None else limit - size


@dataclass(frozen=True, slots=True)
class Keyed:
    """A computed row; keys ascend as Python compares them and are unique. The collation of a
    database may order texts differently, so the source sorts them itself."""

    key: tuple[str, int]
    row: object


@dataclass(frozen=True, slots=True)
class ComputedRows:
    """Rows that are computed at each request."""

    rows: Callable[[], Iterable[Keyed]]

    def page(self, after: Sequence[Any] | None, limit: int) -> Slice:
        """Holds no more rows than the page has, however many are counted."""
        count = 0
        more = False
        batch: list[Keyed] = []
        for item in self.rows():
            count += 1
            if after is not None and item.key <= tuple(after):
                continue
            if len(batch) < limit:
                batch.append(item)
            else:
                more = True
        return Slice([item.row for item in batch], batch[-1].key if more else None, count)

    def chunks(self, after: Sequence[Any] | None, limit: int | None) -> Iterator[Sequence[object]]:
        items = (item for item in self.rows() if after is None or item.key > tuple(after))
        rows = (item.row for item in islice(items, limit))
        while batch := list(islice(rows, CHUNK)):
            yield batch


def answer_list(
    request: HttpRequest,
    query: ListParameters,
    name: str,
    row: type,
    source: RowSource,
    state: Sequence[object],
    markdown: Callable[[], Iterable[str]] = tuple,
    about: Mapping[str, object] | None = None,
) -> HttpResponseBase:
    """The part of `source` that the query selects.

    `row` is the dataclass of its rows; `name` that of an exported file. `state` is what changes
    whenever the rows do: it makes the ETag, so that a 304 makes no row. `markdown` gives the whole
    as text, in pieces. `about` are fields of the JSON body beside those of `Page`. Raises the 400
    that names the parameter, and OlmwebError (403) for an export with too many rows without an
    account.
    """
    names = read_fields(query.fields, row)
    seal = _seal(request)
    after = _read_cursor(query.cursor, seal)
    form = _read_format(request, query)
    etag = make_etag(request, form, *state, *(about or {}).items())
    unchanged = not_modified(request, etag)
    if unchanged is not None:
        return unchanged
    if form == MARKDOWN:
        if not request.user.is_authenticated:
            _require_few(source.chunks(None, None))  # its text has all rows
        return finish(_as_markdown(markdown(), name), etag)
    if form != "json":
        chunks = source.chunks(after, query.limit)
        if not request.user.is_authenticated:
            chunks = _require_few(chunks)
        return finish(stream(chunks, names, form, name), etag)
    page = source.page(after, query.limit or DEFAULT_LIMIT)
    body = {
        "items": [pick(item, names) for item in page.rows],
        "next": pagination.write_cursor(page.last, seal) if page.last is not None else None,
        "count": page.count,
        **(about or {}),
    }
    return finish(json_response(body), etag)


def _read_format(request: HttpRequest, query: ListParameters) -> str:
    """The format that the parameter names, else the one that the Accept header prefers. Raises
    OlmwebError (406) when the header refuses it."""
    form = query.format
    if "format" not in request.GET:
        offered = FORMATS if isinstance(query, ReportParameters) else MEDIA_TYPES
        preferred = request.get_preferred_type(list(offered.values()))
        form = next((name for name, kind in offered.items() if kind == preferred), form)
    require_acceptable(request, FORMATS[form])
    return form


def export_table(
    request: HttpRequest, table: TableView, source: RowSource
) -> StreamingHttpResponse:
    """All rows of a list of the pages as CSV, with the columns that `table` shows. Raises
    OlmwebError (403) for too many rows without an account."""
    chunks: Iterable[Sequence[object]] = source.chunks(None, None)
    if not request.user.is_authenticated:
        chunks = _require_few(chunks)
    return stream(chunks, table.exported, "csv", table.table.name)


def _require_few(chunks: Iterable[Sequence[object]]) -> Iterator[Sequence[object]]:
    """The chunks. Raises OlmwebError (403) when they are more than PUBLIC_EXPORT rows: whoever has
    no account must not make a worker of the web server read whole tables again and again."""
    read: list[Sequence[object]] = []
    count = 0
    for rows in chunks:
        read.append(rows)
        count += len(rows)
        if count > PUBLIC_EXPORT:
            raise export_too_large(
                f"{PUBLIC_EXPORT:,} rows", "narrow the filters, or read it page by page"
            )
    return iter(read)


def export_too_large(limit: str, otherwise: str) -> OlmwebError:
    """The refusal (403) of an export beyond `limit` to readers without an account. `otherwise` says
    how else they get the rest."""
    return OlmwebError(
        f"Without signing in, an export has at most {limit}; this one has more.",
        code="export-too-large",
        status=403,
        hint=f"Sign in or send a token, {otherwise}.",
    )


def read_fields(value: str, row: type) -> tuple[str, ...]:
    """The chosen fields of `row`; all of them for an empty value."""
    names = tuple(field.name for field in fields(row))
    if not value:
        return names
    chosen = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
    for field in chosen:
        if field not in names:
            raise refuse(
                "fields", f'fields names "{field[:60]}", which is not one of {", ".join(names)}.'
            )
    return chosen


def _read_cursor(cursor: str, seal: str) -> Sequence[Any] | None:
    try:
        return pagination.read_cursor(cursor, seal) if cursor else None
    except pagination.BadCursor as error:
        message = "cursor is not one of this list and these filters; start again without it."
        raise refuse("cursor", message) from error


def _seal(request: HttpRequest) -> str:
    """Names the list and its filters; a cursor is good for no other."""
    filters = sorted((k, sorted(v)) for k, v in request.GET.lists() if k not in CONTROLS)
    return hashlib.sha256(repr((request.path, filters)).encode()).hexdigest()[:16]


def _as_markdown(pieces: Iterable[str], name: str) -> StreamingHttpResponse:
    kind = f"{FORMATS[MARKDOWN]}; charset=utf-8"
    response = StreamingHttpResponse((piece.encode() for piece in pieces), content_type=kind)
    response["Content-Disposition"] = f'attachment; filename="{name}.md"'
    return response
