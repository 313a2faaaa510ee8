"""REST routes of the own API tokens: list, make, revoke. Nobody sees those of others here."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Annotated

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from ninja import Query, Router
from pydantic import Field

from olmweb.accounts.api_tokens import PEOPLE_ONLY, require_scope, token_of_request
from olmweb.accounts.roles import may_issue_act_token, person_of
from olmweb.api.formats import fill, json_response
from olmweb.api.lists import ListParameters, Page, StoredRows, answer_list
from olmweb.api.parameters import OneOf, RequestBody
from olmweb.errors import BadRequest, Missing, OlmwebError
from olmweb.models import ApiToken

Scope = Annotated[str, OneOf(tuple(ApiToken.Scope.values), "TokenScope")]
router = Router(tags=["Tokens"])


@dataclass(frozen=True, slots=True)
class ApiTokenRow:
    """An own token; its secret is shown once, when it is made."""

    id: int
    name: str
    scope: Scope
    created_at: datetime
    expires_at: datetime
    last_used_on: date | None


@dataclass(frozen=True, slots=True)
class NewApiToken(ApiTokenRow):
    """`token` is the secret: it is not stored and can't be read again."""

    token: str


class TokenBody(RequestBody):
    """A new token. It ends with the token that makes it, or earlier."""

    name: Annotated[str, Field(min_length=1, max_length=ApiToken.MAX_NAME)]
    scope: Scope = ApiToken.Scope.READ.value
    days: Annotated[int, Field(ge=1, le=ApiToken.MAX_DAYS)] = 90


def token_row(row: ApiToken) -> ApiTokenRow:
    return fill(ApiTokenRow, row, expires_at=row.ends_at)


@router.get("/tokens", response=Page[ApiTokenRow], auth=PEOPLE_ONLY)
def list_tokens(request: HttpRequest, query: Query[ListParameters]) -> HttpResponseBase:
    """The own tokens, newest first, expired ones too."""
    tokens = ApiToken.objects.filter(user=person_of(request))
    state = [token_row(row) for row in tokens.order_by("id")]
    source = StoredRows(tokens, ("-id",), lambda rows: [token_row(row) for row in rows])
    return answer_list(request, query, "tokens", ApiTokenRow, source, state)


@router.post("/tokens", response={201: NewApiToken}, auth=PEOPLE_ONLY)
def create_token(request: HttpRequest, body: TokenBody) -> HttpResponseBase:
    """Makes a token of the own account. 201 with the secret, which is shown this once. One that is
    made with a token ends with that at the latest. Needs a token with the scope act."""
    require_scope(request)
    user = person_of(request)
    allowed, why_not = may_issue_act_token(user)
    if body.scope == ApiToken.Scope.ACT and not allowed:
        raise OlmwebError(why_not, code="forbidden", status=403)
    days = body.days
    maker = token_of_request(request)
    if maker is not None:
        days = min(days, (maker.ends_at - timezone.now()) // timedelta(days=1))
        if days < 1:
            message = "The token of this request ends within a day; use the page API tokens."
            raise BadRequest(message, code="invalid", days=message)
    secret, row = ApiToken.issue(user.pk, body.scope, days, body.name)
    response = json_response(fill(NewApiToken, token_row(row), token=secret))
    response.status_code = 201
    response["Cache-Control"] = "no-store"
    return response


@router.delete("/tokens/{id}", response={204: None}, auth=PEOPLE_ONLY)
def revoke_token(request: HttpRequest, id: int) -> HttpResponseBase:
    """Revokes an own token, also the one of this request. Needs a token with the scope act."""
    require_scope(request)
    tokens = ApiToken.objects.filter(user=person_of(request))
    row = tokens.filter(pk=id).first() if id < 2**63 else None
    if row is None:
        raise Missing(f"You have no API token {id}.", code="unknown-token")
    row.delete()
    return HttpResponse(status=204)
