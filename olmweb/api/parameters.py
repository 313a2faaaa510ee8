"""Query parameters and bodies of the REST API: what every schema of them refuses.

The schemas of the routes derive from `Parameters`, those of lists from `ListParameters` in
olmweb.api.lists, those of bodies from `RequestBody`. django-ninja reads, checks and documents them.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import Annotated, Any, ClassVar

import msgspec
from django.db.models import Q
from django.http import HttpRequest
from django.utils.dateparse import parse_date, parse_datetime
from ninja import Schema
from ninja.parser import Parser
from ninja.signature.details import is_collection_type
from ninja.types import DictStrAny
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from olmweb.api.formats import refuse, refuse_parameters
from olmweb.api.openapi import ENUM_NAME
from olmweb.errors import BadRequest

BODY_LIMIT = 64 * 1024
MAX_VALUES = 50  # of one filter
Values = list[str] | None  # of a filter; None without the parameter


def own_value(stored: str) -> str:
    """A stored value of OLM Web's own enums as the API writes it: words joined by hyphens. Values
    of Kubernetes (kinds, health, reasons) have neither spaces nor underscores."""
    return stored.replace("_", "-").replace(" ", "-")


@dataclass(frozen=True, slots=True)
class OneOf:
    """Annotates a text that is one of `values`, as `own_value` writes them, and documents them. A
    parameter becomes the stored value. `name` is that of the schema in the OpenAPI document, which
    every parameter and field of this type refers to; empty for a type of one parameter."""

    values: tuple[str, ...]
    name: str = ""

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        stored = {own_value(value): value for value in self.values}
        return core_schema.no_info_after_validator_function(
            stored.__getitem__, core_schema.literal_schema(list(stored))
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(schema) | ({ENUM_NAME: self.name} if self.name else {})


class Parameters(Schema):
    """The query parameters of a route. Others are refused, and repeated ones that hold one value.

    Raises OlmwebError (400) that names the parameter.
    """

    empty_allowed: ClassVar[bool] = True

    @model_validator(mode="before")
    @classmethod
    def refuse_odd(cls, data: Any, info: ValidationInfo) -> Any:
        request = (info.context or {})["request"]
        fields = {field.alias or name: field for name, field in cls.model_fields.items()}
        refuse_parameters(request, fields)
        for name, values in request.GET.lists():
            if len(values) > 1 and not is_collection_type(fields[name].annotation):
                raise refuse(name, f"{name} is given {len(values)} times; give it once.")
            if "" in values and not cls.empty_allowed:
                raise refuse(name, f"{name} is empty; leave it out or give it a value.")
        return data


class BodyParser(Parser):
    """Decodes JSON bodies strictly: UTF-8 only, and no lone surrogates, which no database stores.

    The default parser of django-ninja accepts both. It turns the errors raised here into 400.
    """

    def parse_body(self, request: HttpRequest) -> DictStrAny:
        decoded: DictStrAny = msgspec.json.decode(request.body)
        return decoded


class RequestBody(Schema):
    """A JSON body, whose values are not converted to other types.

    Raises BadRequest for a body that is too large, has a NUL or an unknown key.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def refuse_unreadable(cls, data: Any, info: ValidationInfo) -> Any:
        body = (info.context or {})["request"].body
        if len(body) > BODY_LIMIT:
            raise BadRequest(f"The body may have {BODY_LIMIT} bytes.", code="too-large")
        if b"\\u0000" in body:
            raise BadRequest("No value may hold a NUL character.", code="bad-body")
        return data


def text(about: str, **extra: Any) -> Any:
    """An optional text that is empty without the parameter."""
    return Field("", description=about, **extra)


def values(about: str) -> Any:
    """A filter that may be repeated: its values widen the result."""
    return Field(None, description=about, max_length=MAX_VALUES)


def any_of(matching: Iterable[Any] | None, condition: Callable[[Any], Q]) -> Q:
    """Rows that fulfil the condition of any of these values; all rows without values."""
    return reduce(or_, map(condition, matching or ()), Q())


def none_for_dash(value: str) -> str:
    """`-` asks for rows that have none, which are stored with an empty text."""
    return "" if value == "-" else value


def read_moment(value: str) -> datetime:
    """An RFC 3339 time or a date (its midnight), UTC when no zone is given; else ValueError."""
    # A plus sign that was not percent-encoded arrives as a space: it was the zone's sign.
    spaced = re.sub(r"(T.*) ([0-9:]+)$", r"\1+\2", value)
    try:
        moment = parse_datetime(spaced)
        if moment is None and (day := parse_date(value)):
            moment = datetime(day.year, day.month, day.day, tzinfo=UTC)
        if moment is not None:
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f'must be a time such as 2026-01-31T12:00:00Z, not "{value[:60]}".')


# A filter by time, such as `since` and `until`.
Moment = Annotated[datetime, BeforeValidator(read_moment)] | None
SINCE = "At or after this time (RFC 3339) or day."
UNTIL = "Before this time (RFC 3339) or day."


def at_or_after(field: str, moment: datetime | None) -> Q:
    """Rows whose `field` is at or after the moment; all rows without one."""
    return Q() if moment is None else Q(**{f"{field}__gte": moment})


def before(field: str, moment: datetime | None) -> Q:
    """Rows whose `field` is before the moment; all rows without one."""
    return Q() if moment is None else Q(**{f"{field}__lt": moment})
