"""The list machinery of the REST API: filters, keyset cursors, chosen fields, whole exports.

A resource declares a `ListOf`; `answer_list` does the rest. Knows no model of the apps.
"""

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from django.core import signing
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.utils.dateparse import parse_date, parse_datetime
from ninja import Schema

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

M = TypeVar("M", bound=Model)
R = TypeVar("R")

DEFAULT_LIMIT, MAX_LIMIT = 100, 500
CHUNK = 1000  # rows read at once for an export
CONTROLS = ("limit", "cursor", "fields", "format")
_SALT = "olmweb.api.cursor"


@dataclass(frozen=True, slots=True)
class Filter:
    """A query parameter that narrows a list. Repeated, its values widen the result (any of them).

    `q` turns one value into a condition and raises ValueError with the rest of the sentence
    "NAME ..." for a value it can't read.
    """

    name: str
    about: str
    q: Callable[[str], Q]
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    """One column of the order of a list. `is_time`: a cursor holds it as ISO text."""

    field: str
    descending: bool = False
    is_time: bool = False


@dataclass(frozen=True, slots=True)
class ListOf(Generic[M]):
    """A list of the API. `order` must end in a unique column; no column of it may be null.

    `rows` turns model instances into rows, a chunk at a time, so that what it looks up for them
    costs a fixed number of queries.
    """

    name: str
    row: type
    order: tuple[Key, ...]
    rows: Callable[[Sequence[M]], Sequence[object]]
    filters: tuple[Filter, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(field.name for field in dataclasses.fields(self.row))

    def openapi(self) -> dict[str, Any]:
        """The query parameters and formats, for the OpenAPI document."""
        parameters = [
            described(item.name, item.about, {"type": "string", "enum": list(item.choices)})
            if item.choices
            else described(item.name, item.about, {"type": "string"})
            for item in self.filters
        ]
        limit = {
            "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT,
        }  # fmt: skip
        parameters += [
            described("limit", "Items on one page; caps an export when given.", limit),
            described("cursor", "`next` of the page before.", {"type": "string"}),
            described("fields", f"Only these, comma-separated: {', '.join(self.fields)}.", {}),
            described(
                "format",
                "ndjson and csv stream the whole result.",
                {"type": "string", "enum": list(MEDIA_TYPES), "default": "json"},
            ),
        ]
        return {"parameters": parameters}


class Page(Schema, Generic[R]):
    """One page of a list. `count` is the number of all items that match; `next` is null at the
    end, else the `cursor` of the next page."""

    items: list[R]
    next: str | None
    count: int


@dataclass(frozen=True, slots=True)
class _Ask:
    """What the query string of one request to a list means."""

    condition: Q
    limit: int | None
    cursor: list[Any] | None
    fields: tuple[str, ...]
    format: str
    seal: str  # names the list and its filters; a cursor is good for no other


def described(name: str, about: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """A query parameter for the OpenAPI document; text when `schema` is empty."""
    return {
        "in": "query",
        "name": name,
        "description": about,
        "required": False,
        "schema": dict(schema) or {"type": "string"},
    }


def answer_list(
    request: HttpRequest,
    spec: ListOf[M],
    queryset: QuerySet[M],
    state: Sequence[object],
) -> HttpResponseBase:
    """The list that the query string asks for.

    `queryset` is everything the list may show; `state` is what changes whenever its rows do (it
    makes the ETag, so that a 304 costs no row). Raises the 400 that names the parameter.
    """
    ask = _read(request.GET, spec, request.path)
    require_acceptable(request, MEDIA_TYPES[ask.format])
    etag = make_etag(request, *state)
    unchanged = not_modified(request, etag)
    if unchanged is not None:
        return unchanged
    matching = queryset.filter(ask.condition)
    if ask.format != "json":
        chunks = _chunks(spec, matching, ask)
        return finish(stream(chunks, ask.fields, ask.format, spec.name), etag)
    limit = ask.limit or DEFAULT_LIMIT
    found = _after(spec, matching, ask.cursor)[: limit + 1]
    batch = list(found)
    more, batch = len(batch) > limit, batch[:limit]
    body = {
        "items": [pick(row, ask.fields) for row in spec.rows(batch)],
        "next": _write_cursor(spec, batch[-1], ask.seal) if more else None,
        "count": matching.count(),
    }
    return finish(json_response(body), etag)


def _chunks(spec: ListOf[M], matching: QuerySet[M], ask: _Ask) -> Iterator[Sequence[object]]:
    """Rows in chunks; each chunk is its own short query, so a slow reader holds no cursor open."""
    left, keys = ask.limit, ask.cursor
    while left is None or left > 0:
        size = CHUNK if left is None else min(CHUNK, left)
        batch = list(_after(spec, matching, keys)[:size])
        if batch:
            yield spec.rows(batch)
        if len(batch) < size:
            return
        keys = [getattr(batch[-1], key.field) for key in spec.order]
        left = None if left is None else left - size


def _after(spec: ListOf[M], queryset: QuerySet[M], keys: list[Any] | None) -> QuerySet[M]:
    """`queryset` in the list's order, beginning after the row whose order columns are `keys`."""
    ordered = queryset.order_by(*(f"{'-' * key.descending}{key.field}" for key in spec.order))
    if keys is None:
        return ordered
    beyond, equal = Q(), Q()
    for key, value in zip(spec.order, keys, strict=True):
        beyond |= equal & Q(**{f"{key.field}__{'lt' if key.descending else 'gt'}": value})
        equal &= Q(**{key.field: value})
    first = spec.order[0]
    # Implied by `beyond`, but only this lets the database start at the right place of its index.
    start = Q(**{f"{first.field}__{'lte' if first.descending else 'gte'}": keys[0]})
    return ordered.filter(start & beyond)


# --- the query string -------------------------------------------------------------------------


def _read(params: QueryDict, spec: ListOf[Any], path: str) -> _Ask:
    known = {item.name: item for item in spec.filters}
    for name in params:
        if name not in known and name not in CONTROLS:
            names = ", ".join((*known, *CONTROLS))
            raise refuse(
                name[:60],
                f'{spec.name} has no query parameter "{name[:60]}"; it knows {names}.',
                code="unknown-parameter",
            )
        if any(value == "" for value in params.getlist(name)):
            raise refuse(name, f"{name} is empty; leave it out or give it a value.")
    condition = Q()
    for item in spec.filters:
        if params.getlist(item.name):
            condition &= _any_of(item, params.getlist(item.name))
    picked = sorted((name, sorted(params.getlist(name))) for name in params if name in known)
    seal = hashlib.sha256(repr((path, picked)).encode()).hexdigest()[:16]
    return _Ask(
        condition=condition,
        limit=read_limit(once(params, "limit")),
        cursor=_read_cursor(spec, once(params, "cursor"), seal),
        fields=read_fields(once(params, "fields"), spec.fields),
        format=read_format(once(params, "format")),
        seal=seal,
    )


def _any_of(item: Filter, values: Sequence[str]) -> Q:
    condition = Q()
    if len(values) > 50:
        raise refuse(item.name, f"{item.name} is given {len(values)} times; at most 50 are read.")
    choices = {choice.lower(): choice for choice in item.choices}
    for text in values:
        value = choices.get(text.lower(), "") if choices else text
        if choices and not value:
            raise refuse(
                item.name,
                f'{item.name} must be one of {", ".join(item.choices)}, not "{text[:60]}".',
            )
        try:
            condition |= item.q(value)
        except ValueError as error:
            raise refuse(item.name, f"{item.name} {error}") from error
    return condition


def once(params: QueryDict, name: str) -> str:
    """The parameter's value, empty when it is not there; raises the 400 when it is repeated."""
    values = params.getlist(name)
    if len(values) > 1:
        raise refuse(name, f"{name} is given {len(values)} times; give it once.")
    return values[0] if values else ""


def read_limit(value: str) -> int | None:
    if not value:
        return None
    if re.fullmatch(r"[0-9]{1,6}", value) and 1 <= int(value) <= MAX_LIMIT:
        return int(value)
    raise refuse(
        "limit", f'limit must be a whole number from 1 to {MAX_LIMIT}, not "{value[:60]}".'
    )


def read_fields(value: str, known: Sequence[str]) -> tuple[str, ...]:
    if not value:
        return tuple(known)
    asked = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
    for field in asked:
        if field not in known:
            raise refuse(
                "fields", f'fields names "{field[:60]}", which is not one of {", ".join(known)}.'
            )
    return asked


def read_format(value: str) -> str:
    if value and value not in MEDIA_TYPES:
        raise refuse(
            "format", f'format must be one of {", ".join(MEDIA_TYPES)}, not "{value[:60]}".'
        )
    return value or "json"


def _write_cursor(spec: ListOf[Any], last: Model, seal: str) -> str:
    values = [getattr(last, key.field) for key in spec.order]
    plain = [value.isoformat() if isinstance(value, datetime) else value for value in values]
    return signing.dumps([seal, *plain], salt=_SALT)


def _read_cursor(spec: ListOf[Any], value: str, seal: str) -> list[Any] | None:
    """The order columns that a cursor of ours holds; signed, so nobody else can make one."""
    if not value:
        return None
    try:
        written, *keys = signing.loads(value, salt=_SALT)
    except signing.BadSignature as error:
        raise refuse(
            "cursor", "cursor is not one that this API gave out; start again without it."
        ) from error
    if written != seal:
        raise refuse(
            "cursor",
            "cursor belongs to another list or other filters; start again without it.",
        )
    return [
        datetime.fromisoformat(part) if key.is_time else part
        for key, part in zip(spec.order, keys, strict=True)
    ]


# --- filters that several lists have ----------------------------------------------------------


def exact(name: str, about: str, field: str) -> Filter:
    return Filter(name, about, lambda value: Q(**{field: value}))


def named_or_none(name: str, about: str, field: str, none: Q) -> Filter:
    """Like `exact`; the value `-` asks for rows that have none."""
    return Filter(name, about, lambda value: none if value == "-" else Q(**{field: value}))


def boolean(name: str, about: str, true: Callable[[], Q]) -> Filter:
    def condition(value: str) -> Q:
        return true() if value == "true" else ~true()

    return Filter(name, about, condition, choices=("true", "false"))


def words(name: str, about: str, fields: Sequence[str]) -> Filter:
    """Every word of the value must occur in one of `fields`, case ignored."""

    def condition(value: str) -> Q:
        every = Q()
        for word in value.split():
            some = Q()
            for field in fields:
                some |= Q(**{f"{field}__icontains": word})
            every &= some
        return every

    return Filter(name, about, condition)


def since(name: str, about: str, field: str) -> Filter:
    return Filter(name, about, lambda value: Q(**{f"{field}__gte": read_moment(value)}))


def read_moment(value: str) -> datetime:
    """An RFC 3339 time or a date (its midnight), UTC when no zone is given; else ValueError."""
    # A plus sign that was not percent-encoded arrives as a space: it was the zone's sign.
    text = re.sub(r"(T.*) ([0-9:]+)$", r"\1+\2", value)
    try:
        moment = parse_datetime(text)
        if moment is None and (day := parse_date(value)):
            moment = datetime(day.year, day.month, day.day, tzinfo=UTC)
        if moment is not None:
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f'must be a time such as 2026-01-31T12:00:00Z, not "{value[:60]}".')
