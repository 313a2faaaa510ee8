"""Authentication of the API: a bearer token, a session, or nothing where reading is public."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils import timezone
from ninja.errors import HttpError
from ninja.security import SessionAuth
from ninja.security.base import AuthBase

from olmweb.accounts import audit
from olmweb.accounts.roles import sign_in_problem
from olmweb.accounts.throttling import WRONG_TOKENS, check_rate, count, count_request
from olmweb.errors import OlmwebError
from olmweb.models import ApiToken

MAX_TOKEN = 200  # characters; ours have 50


def _refused(code: str, message: str) -> OlmwebError:
    return OlmwebError(
        message,
        code=code,
        status=401,
        hint="Create a new one on the page API tokens, or with `olmweb token create`.",
    )


def token_of(header: str) -> ApiToken:
    """The token row that an `Authorization` header names; writes `last_used_on` once a day.

    Raises OlmwebError (401) for another scheme, an unknown or expired token, a disabled user.
    """
    scheme, _, secret = header.partition(" ")
    secret = secret.strip()
    if scheme.lower() != "bearer" or not secret or len(secret) > MAX_TOKEN:
        raise _refused(
            "invalid-token", "The Authorization header must be `Bearer` and a token of OLM Web."
        )
    rows = ApiToken.objects.select_related("user__oidc_identity")
    row = rows.filter(digest=ApiToken.hash(secret)).first()
    if row is None:
        raise _refused("invalid-token", "This token is not known; it may have been deleted.")
    try:
        _check(row)
    except OlmwebError as error:
        audit.attempt(
            audit.Event.TOKEN_REFUSED, row.user, once=True, token=row.pk, reason=error.code
        )
        raise
    today = timezone.now().date()
    if row.last_used_on != today:
        ApiToken.objects.filter(pk=row.pk).update(last_used_on=today)
    audit.token_used(row)
    return row


def _check(row: ApiToken) -> None:
    if row.ends_at <= timezone.now():
        raise _refused("token-expired", f"This token expired on {row.ends_at:%Y-%m-%d}.")
    if not row.user.is_active:
        raise _refused("user-disabled", f"The user of this token, {row.user}, is disabled.")
    if reason := sign_in_problem(row.user):
        raise _refused("sign-in-over", f"{reason} Tokens of the account are refused until then.")


class BearerToken(AuthBase):
    """`Authorization: Bearer TOKEN`. A wrong header is refused, never ignored."""

    openapi_type = "http"
    openapi_scheme = "bearer"

    def __call__(self, request: HttpRequest) -> Any:
        header = request.headers.get("Authorization")
        if header is None:
            return None
        check_rate(request, WRONG_TOKENS)
        try:
            token = token_of(header)
        except OlmwebError as error:
            if error.code == "invalid-token":
                audit.attempt(audit.Event.TOKEN_REFUSED, once=True, reason=error.code)
                if count(request, WRONG_TOKENS):
                    audit.attempt(audit.Event.TOKEN_REFUSED, reason="too many wrong tokens")
            raise
        request.user = token.user
        rate = count_request(token.pk)
        request.rate = rate  # type: ignore[attr-defined]  # of the headers of the answer
        if rate is not None and rate.used > rate.limit:
            raise OlmwebError(
                f"This token has sent more than {rate.limit:,} requests in a minute.",
                code="rate-limited",
                status=429,
                retryable=True,
                hint=f"Go on in {rate.reset} seconds, as the header Retry-After says.",
            )
        return token


class Session(SessionAuth):
    """A signed-in browser; ninja checks its CSRF token for every method but the safe ones.

    Without a session there is nothing to forge: the request lacks credentials (401, not 403).
    """

    def __call__(self, request: HttpRequest) -> Any:
        if not request.user.is_authenticated:
            return None
        try:
            return super().__call__(request)
        except HttpError as error:
            raise OlmwebError(
                "The CSRF token of the session is missing or wrong.",
                code="csrf",
                status=403,
                hint="Scripts send a bearer token; pages send the header X-CSRFToken.",
            ) from error


class PublicRead:
    """Safe methods without authentication, with OLMWEB_PUBLIC_READ."""

    def __call__(self, request: HttpRequest) -> Any:
        if settings.PUBLIC_READ and request.method in ("GET", "HEAD"):
            return AnonymousUser()
        return None


# Authentication of the routes that show what people did: OLMWEB_PUBLIC_READ does not open them.
PEOPLE_ONLY = (BearerToken(), Session())


def may_read(request: HttpRequest) -> bool:
    """The rule for reading outside the API; raises OlmwebError (401) for a wrong token."""
    if BearerToken()(request):
        return True
    return request.user.is_authenticated or settings.PUBLIC_READ


def token_of_request(request: HttpRequest) -> ApiToken | None:
    """The token that this request of the API was authenticated with; None for a session."""
    token = getattr(request, "auth", None)
    return token if isinstance(token, ApiToken) else None


def require_scope(request: HttpRequest) -> None:
    """Raises OlmwebError (403) for a token that only reads."""
    token = token_of_request(request)
    if token is not None and token.scope != ApiToken.Scope.ACT:
        raise OlmwebError(
            "This token may only read.",
            code="scope",
            status=403,
            hint="Create one that may act on the page API tokens, or with `olmweb token create`.",
        )
