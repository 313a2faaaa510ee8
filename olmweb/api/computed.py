"""Lists of the REST API whose rows are worked out, not stored: the same paging and exports.

A resource declares a `ComputedList` and hands over its rows in order, each with a key; a cursor
holds the last key. Knows no model of the apps.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.core import signing
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase

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
from olmweb.api.lists import (
    CHUNK,
    CONTROLS,
    DEFAULT_LIMIT,
    MAX_LIMIT,
    described,
    once,
    read_fields,
    read_limit,
)

Keyed = tuple[tuple[str, int], object]  # keys ascend and are unique
MARKDOWN = "md"
FORMATS = {**MEDIA_TYPES, MARKDOWN: "text/markdown"}
_SALT = "olmweb.api.computed"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter that the resource reads by itself; with `choices` it may be repeated."""

    name: str
    about: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComputedList:
    """A list of the API. `row` is the dataclass of its rows."""

    name: str
    row: type
    parameters: tuple[Parameter, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(field.name for field in dataclasses.fields(self.row))

    def openapi(self) -> dict[str, Any]:
        own = [
            described(one.name, one.about, {"type": "string", "enum": list(one.choices)})
            if one.choices
            else described(one.name, one.about, {})
            for one in self.parameters
        ]
        limit = {
            "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT,
        }  # fmt: skip
        own += [
            described("limit", "Items on one page; caps an export when given.", limit),
            described("cursor", "`next` of the page before.", {}),
            described("fields", f"Only these, comma-separated: {', '.join(self.fields)}.", {}),
            described(
                "format",
                "ndjson, csv and md are the whole result; md is for people.",
                {"type": "string", "enum": list(FORMATS), "default": "json"},
            ),
        ]
        return {"parameters": own}


def check_parameters(request: HttpRequest, spec: ComputedList) -> dict[str, list[str]]:
    """The values of the resource's own parameters by name.

    Raises the 400 that names an unknown, empty or repeated parameter, or a value that is no choice.
    """
    params = request.GET
    known = {one.name: one for one in spec.parameters}
    for name in params:
        if name not in known and name not in CONTROLS:
            raise refuse(
                name[:60],
                f'{spec.name} has no query parameter "{name[:60]}"; it knows '
                f"{', '.join((*known, *CONTROLS))}.",
                code="unknown-parameter",
            )
        if any(value == "" for value in params.getlist(name)):
            raise refuse(name, f"{name} is empty; leave it out or give it a value.")
    values = {name: params.getlist(name) for name in known}
    for name, one in known.items():
        if not one.choices:
            once(params, name)
        for value in values[name]:
            if one.choices and value not in one.choices:
                raise refuse(
                    name, f'{name} must be one of {", ".join(one.choices)}, not "{value[:60]}".'
                )
    return values


def answer_computed(
    request: HttpRequest,
    spec: ComputedList,
    rows: Callable[[], Iterable[Keyed]],
    state: Sequence[object],
    markdown: Callable[[], Iterable[str]],
) -> HttpResponseBase:
    """The list that the query string asks for; call `check_parameters` first.

    `rows` gives every row that matches, in the order of their keys; `markdown` the same as text,
    in pieces. `state` is what changes whenever they do: with the caller's ETag no row is made.
    """
    params = request.GET
    form = once(params, "format") or "json"
    if form not in FORMATS:
        raise refuse("format", f'format must be one of {", ".join(FORMATS)}, not "{form[:60]}".')
    fields = read_fields(once(params, "fields"), spec.fields)
    limit = read_limit(once(params, "limit"))
    seal = _seal(request, spec)
    after = _read_cursor(once(params, "cursor"), seal)
    require_acceptable(request, FORMATS[form])
    etag = make_etag(request, *state)
    unchanged = not_modified(request, etag)
    if unchanged is not None:
        return unchanged
    if form == MARKDOWN:
        return finish(_as_markdown(markdown(), spec.name), etag)
    if form != "json":
        wanted = (row for key, row in rows() if after is None or key > after)
        return finish(stream(_chunks(islice(wanted, limit)), fields, form, spec.name), etag)
    body = _page(rows(), after, limit or DEFAULT_LIMIT, fields, seal)
    return finish(json_response(body), etag)


def _page(
    rows: Iterable[Keyed],
    after: tuple[str, int] | None,
    limit: int,
    fields: Sequence[str],
    seal: str,
) -> Mapping[str, Any]:
    """Keeps no more rows than the page has, however many are counted."""
    count, more = 0, False
    last = after
    items: list[object] = []
    for key, row in rows:
        count += 1
        if after is not None and key <= after:
            continue
        if len(items) < limit:
            items.append(pick(row, fields))
            last = key
        else:
            more = True
    following = signing.dumps([seal, *last], salt=_SALT) if more and last else None
    return {"items": items, "next": following, "count": count}


def _chunks(rows: Iterator[object]) -> Iterator[Sequence[object]]:
    while batch := list(islice(rows, CHUNK)):
        yield batch


def _as_markdown(pieces: Iterable[str], name: str) -> StreamingHttpResponse:
    kind = f"{FORMATS[MARKDOWN]}; charset=utf-8"
    response = StreamingHttpResponse((piece.encode() for piece in pieces), content_type=kind)
    response["Content-Disposition"] = f'attachment; filename="{name}.md"'
    return response


def _seal(request: HttpRequest, spec: ComputedList) -> str:
    """Names the list and its filters; a cursor is good for no other."""
    picked = sorted((one.name, sorted(request.GET.getlist(one.name))) for one in spec.parameters)
    return hashlib.sha256(repr((request.path, picked)).encode()).hexdigest()[:16]


def _read_cursor(value: str, seal: str) -> tuple[str, int] | None:
    if not value:
        return None
    try:
        written, name, number = signing.loads(value, salt=_SALT)
    except (signing.BadSignature, ValueError) as error:
        raise refuse(
            "cursor", "cursor is not one that this API gave out; start again without it."
        ) from error
    if written != seal:
        raise refuse(
            "cursor", "cursor belongs to another list or other filters; start again without it."
        )
    return name, number
