"""Signing in and out: local accounts, and OpenID Connect where it is set up.

The GETs of OpenID Connect are the only ones that call another server.
"""

from typing import Any
from urllib.parse import urlencode, urlsplit

import structlog
from django.conf import settings
from django.contrib import auth
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from mozilla_django_oidc.views import (
    OIDCAuthenticationCallbackView,
    OIDCAuthenticationRequestView,
)

from olmweb.accounts import oidc
from olmweb.errors import OlmwebError

log = structlog.get_logger(__name__)

# A group taken away at the provider is taken away here within a working day.
OIDC_SESSION = 8 * 3600


class SignIn(LoginView):
    """User name and password; beside it the provider's button."""

    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(**kwargs)
        config = settings.OIDC
        context["oidc_host"] = urlsplit(config.issuer).netloc if config else ""
        return context


class SignOut(LogoutView):
    """Ends our session; a page then links to the provider's own sign-out where it has one."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        address = request.session.get("oidc_end_session", "")
        if not address:
            return super().post(request, *args, **kwargs)
        client_id = oidc.configured().client_id
        auth.logout(request)
        back = request.build_absolute_uri(reverse("login"))
        query = urlencode({"client_id": client_id, "post_logout_redirect_uri": back})
        joint = "&" if "?" in address else "?"
        context = {"address": f"{address}{joint}{query}", "host": urlsplit(address).netloc}
        return render(request, "registration/signed_out.html", context)


@method_decorator(never_cache, name="dispatch")
class OidcStart(OIDCAuthenticationRequestView):  # type: ignore[misc]
    """To the provider, with state, nonce and PKCE kept in the session."""

    def __init__(self, **kwargs: Any) -> None:
        super(OIDCAuthenticationRequestView, self).__init__(**kwargs)

    def get(self, request: HttpRequest) -> HttpResponse:
        config = oidc.configured()
        try:
            self.OIDC_OP_AUTH_ENDPOINT = oidc.discover(config.issuer).authorization_endpoint
        except OlmwebError as error:
            return _failed(request, error)
        self.OIDC_RP_CLIENT_ID = config.client_id
        response: HttpResponse = super().get(request)
        return response


@method_decorator(never_cache, name="dispatch")
class OidcCallback(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    """Back from the provider: signed in, or the sign-in page with a sentence."""

    def get(self, request: HttpRequest) -> HttpResponseBase:
        oidc.configured()
        try:
            response: HttpResponse = super().get(request)
        except SuspiciousOperation:
            return _failed(request, _stale())
        except OlmwebError as error:
            log.info("oidc sign-in refused", reason=error.message)
            return _failed(request, error)
        return response

    def login_success(self) -> HttpResponse:
        end_session = self.request.session.get("oidc_end_session", "")
        response: HttpResponse = super().login_success()
        self.request.session["oidc_end_session"] = end_session
        self.request.session.set_expiry(OIDC_SESSION)
        return response

    def login_failure(self) -> HttpResponse:
        if self.request.GET.get("error"):
            code = self.request.GET["error"][:60]
            reason = "access was denied" if code == "access_denied" else f"the error {code}"
            raise OlmwebError(
                f"The sign-in provider ended the sign-in: {reason}.",
                code="oidc-refused",
                status=403,
                hint="Sign in again, or ask whoever runs the provider.",
            )
        raise _stale()


def _stale() -> OlmwebError:
    return OlmwebError(
        "This sign-in was not started in this browser, or is finished already.",
        code="oidc-stale",
        status=403,
        hint="Start it again.",
    )


def _failed(request: HttpRequest, error: OlmwebError) -> HttpResponse:
    """The sign-in page with the sentence, still usable."""
    view = SignIn.as_view(redirect_authenticated_user=False, extra_context={"problem": error})
    response: Any = view(request)
    response.status_code = error.status
    return response.render()  # type: ignore[no-any-return]
