"""The REST route of the log of events: a list to read in pages, and a stream to follow."""

from typing import Annotated

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import FilterLookup, Query, Router
from pydantic import Field

from olmweb.accounts.api_tokens import PEOPLE_ONLY
from olmweb.api.formats import MEDIA_TYPES, refuse
from olmweb.api.lists import CONTROLS, ListParameters, Page, StoredRows, answer_list
from olmweb.api.parameters import (
    SINCE,
    UNTIL,
    Moment,
    OneOf,
    Values,
    at_or_after,
    before,
    values,
)
from olmweb.eventlog import read
from olmweb.eventlog.read import Follow, Selection
from olmweb.eventlog.types import EventType, LoggedEvent

STREAM = "text/event-stream"
RETRY_MILLISECONDS = 3000  # after which a client connects again
LAST_ID = "Last-Event-ID"
MAX_POSITION = 2**53 - 1  # integers that every JSON parser reads exactly
EventTypeName = Annotated[str, OneOf(tuple(EventType), "EventType")]
router = Router(tags=["Events"])


class EventParameters(ListParameters):
    type: Annotated[list[EventTypeName] | None, FilterLookup("type__in")] = values(
        "Type of the event."
    )
    cluster: Annotated[Values, FilterLookup("cluster__name__in")] = values("Name of the cluster.")
    since: Moment = Field(None, description=SINCE)
    until: Moment = Field(None, description=f"{UNTIL} Not for streams.")
    after: int | None = Field(
        None, ge=0, le=MAX_POSITION,
        description="Id of an event: only those that follow it. 410 if some of them were deleted.",
    )  # fmt: skip

    def filter_since(self, moment: Moment) -> Q:
        return at_or_after("at", moment)

    def filter_until(self, moment: Moment) -> Q:
        return before("at", moment)

    def filter_after(self, after: int | None) -> Q:
        return Q() if after is None else Q(position__gt=after)


_RESPONSES = {
    "responses": {
        200: {
            "content": {
                STREAM: {
                    "schema": {
                        "type": "string",
                        "description": "Server-sent events: `id` and `event` are the id and the "
                        "type of a LoggedEvent, `data` is its JSON. A comment every 15 s.",
                    }
                }
            }
        }
    },
    "parameters": [
        {
            "in": "header",
            "name": LAST_ID,
            "required": False,
            "schema": {"type": "integer", "minimum": 0},
            "description": "Of a stream: the id of the last event received, as `after`.",
        }
    ],
}


@router.get("/events", response=Page[LoggedEvent], auth=PEOPLE_ONLY, openapi_extra=_RESPONSES)
def list_events(request: HttpRequest, query: Query[EventParameters]) -> HttpResponseBase:
    """The events, oldest first: changes of operators and their objects, actions, install
    requests, catalogs and clusters.

    Ids grow in the order of the list, also over pages and time: a client that requests the events
    after its last id misses none. With `Accept: text/event-stream` the answer stays open for
    minutes and sends events as they happen, from the one after `Last-Event-ID` or `after`, the
    first at or after `since`, else from now on.
    """
    if request.get_preferred_type([*MEDIA_TYPES.values(), STREAM]) == STREAM:
        return _stream(request, query)
    if query.after is not None:
        read.require_available(query.after, parameter="after")
    events = StoredRows(
        query.filter(read.published()),
        ("position",),
        lambda rows: [read.as_logged(row) for row in rows],
    )
    return answer_list(request, query, "events", LoggedEvent, events, read.ends())


def _stream(request: HttpRequest, query: EventParameters) -> HttpResponseBase:
    """The head of a stream; olmweb.serving.tail sends what follows it."""
    for name in (*CONTROLS, "until"):
        if name in request.GET:
            raise refuse(name, f"{name} is of lists; a stream of events has no {name}.")
    after, parameter = query.after, "after"
    if LAST_ID in request.headers:  # of a client that connects again, whose address is unchanged
        after, parameter = _last_id(request.headers[LAST_ID]), LAST_ID
    if after is not None:
        read.require_available(after, parameter=parameter)
    elif query.since is not None:
        after = read.position_before(query.since)
    else:
        after = read.ends()[1]
    selection = Selection(tuple(query.type or ()), tuple(query.cluster or ()), query.since)
    follow = Follow(after, selection)
    response = HttpResponse(f"retry: {RETRY_MILLISECONDS}\n\n", content_type=STREAM)
    response["Cache-Control"] = "no-store, no-transform"
    response["X-Accel-Buffering"] = "no"  # nginx
    response["Olmweb-Follow"] = follow.encode()
    return response


def _last_id(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_POSITION)):
        raise refuse(LAST_ID, f'{LAST_ID} is the id of an event, a number, not "{text[:40]}".')
    return int(text)
