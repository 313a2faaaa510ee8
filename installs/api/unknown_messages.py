"""REST route of the messages that the knowledge base does not explain."""

from typing import Annotated

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import FilterLookup, Query, Router

from installs.api.schemas import UnknownMessageRow, unknown_message_row
from installs.models import UnknownMessage
from installs.queries.unknown_messages import unknown_rows
from olmweb.api.lists import ListParameters, Page, StoredRows, answer_list
from olmweb.api.parameters import Values, values

router = Router(tags=["Operators"])


class UnknownMessageParameters(ListParameters):
    kind: Annotated[Values, FilterLookup("kind__in")] = values("Kind of the object.")


@router.get("/unknown-messages", response=Page[UnknownMessageRow])
def list_unknown_messages(
    request: HttpRequest, query: Query[UnknownMessageParameters]
) -> HttpResponseBase:
    """Messages of operators without an explanation, their names masked."""
    messages = UnknownMessage.objects.all()
    source = StoredRows(
        query.filter(messages),
        ("kind", "id"),
        lambda rows: [unknown_message_row(row) for row in unknown_rows(rows)],
    )
    state = list(messages.order_by("id").values_list("id", "count", "last_at"))
    return answer_list(request, query, "unknown-messages", UnknownMessageRow, source, state)
