"""Signing in and out: local accounts, and OpenID Connect where it is set up.

The GETs of OpenID Connect are the only ones that call another server.
"""

import copy
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib import admin, auth
from django.contrib.auth.views import LoginView, LogoutView, redirect_to_login
from django.core import signing
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.generic import View
from mozilla_django_oidc.views import OIDCAuthenticationRequestView

from olmweb.accounts import audit, oidc, throttling
from olmweb.accounts.roles import changes_clusters
from olmweb.errors import OlmwebError

# Absolute ends of sessions. A group removed at the provider is removed here within a working day.
OIDC_SESSION = timedelta(hours=8)
LOCAL_SESSION = timedelta(hours=12)
FLOW_COOKIE = "olmweb_oidc"
FLOW_AGE = 600  # seconds from the start of a sign-in to its callback


class SignIn(LoginView):
    """User name and password; beside it the provider's button."""

    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not settings.LOCAL_SIGN_IN:
            return _failed(
                request,
                OlmwebError(
                    "Sign-in with a password is switched off here.",
                    code="local-sign-in-off",
                    status=403,
                    hint="Sign in with the provider.",
                ),
            )
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():  # no sign-in without its audit event
            response = super().form_valid(form)
        self.request.session.set_expiry(timezone.now() + LOCAL_SESSION)
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(**kwargs)
        config = settings.OIDC
        context["oidc_host"] = urlsplit(config.issuer).netloc if config else ""
        context["local_sign_in"] = settings.LOCAL_SIGN_IN
        context["to_change"] = changes_clusters(urlsplit(self.get_redirect_url()).path)
        return context


def locked_out(request: HttpRequest, *_: Any) -> HttpResponse:
    """The sign-in page for a locked account or address; called by django-axes."""
    return _failed(request, throttling.too_many_failures())


@never_cache
def admin_sign_in(request: HttpRequest) -> HttpResponse:
    """Leads to our sign-in page, so that the admin pages have the same limits.

    Raises OlmwebError (403) for a signed-in person who may not open them.
    """
    if admin.site.has_permission(request):
        return redirect("admin:index")
    if request.user.is_authenticated:
        raise OlmwebError(
            "Your account may not open the admin pages.",
            code="not-allowed",
            status=403,
            hint="Ask an administrator of OLM Web for the role admin.",
        )
    return redirect_to_login(request.GET.get("next") or reverse("admin:index"))


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


class _Flow(dict[str, Any]):
    """Stands for the session in mozilla-django-oidc, which stores state, nonce and PKCE there."""


@method_decorator(never_cache, name="dispatch")
class OidcStart(OIDCAuthenticationRequestView):  # type: ignore[misc]
    """To the provider, with state, nonce and PKCE in a signed cookie: no session is touched."""

    def __init__(self, **kwargs: Any) -> None:
        super(OIDCAuthenticationRequestView, self).__init__(**kwargs)

    def get(self, request: HttpRequest) -> HttpResponse:
        config = oidc.configured()
        try:
            self.OIDC_OP_AUTH_ENDPOINT = oidc.discover(config.issuer).authorization_endpoint
        except OlmwebError as error:
            return _failed(request, error)
        self.OIDC_RP_CLIENT_ID = config.client_id
        started, flow = copy.copy(request), _Flow()
        started.session = flow  # type: ignore[assignment]
        response: HttpResponse = super().get(started)
        response.set_cookie(
            FLOW_COOKIE,
            signing.dumps(flow, salt=FLOW_COOKIE),
            max_age=FLOW_AGE,
            path=reverse("oidc_start"),
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )
        return response


@method_decorator(never_cache, name="dispatch")
class OidcCallback(View):
    """Back from the provider: signed in, or the sign-in page with a sentence.

    A running session stays as it is until the sign-in succeeded.
    """

    def get(self, request: HttpRequest) -> HttpResponse:
        oidc.configured()
        try:
            response = self._sign_in(request)
        except OlmwebError as error:
            audit.attempt(
                audit.Event.SIGN_IN_FAILED, once=True, method=audit.OIDC, reason=error.message
            )
            response = _failed(request, error)
        response.delete_cookie(FLOW_COOKIE, path=reverse("oidc_start"))
        return response

    def _sign_in(self, request: HttpRequest) -> HttpResponse:
        flow = _flow_of(request)
        state = flow.get("oidc_states", {}).get(request.GET.get("state", ""))
        if state is None:
            raise _stale()
        if "error" in request.GET:
            code = request.GET["error"]
            denied = "access was denied" if code == "access_denied" else "it reported an error"
            raise OlmwebError(
                f"The sign-in provider ended the sign-in: {denied}.",
                code="oidc-refused",
                status=403,
                hint="Sign in again, or ask whoever runs the provider.",
            )
        if "code" not in request.GET:
            raise _stale()
        throttling.check_rate(request, throttling.CALLBACKS)
        throttling.count(request, throttling.CALLBACKS)
        user = auth.authenticate(
            request, nonce=state["nonce"], code_verifier=state["code_verifier"]
        )
        if user is None:
            raise _stale()
        with transaction.atomic():
            auth.login(request, user)
        request.session.cycle_key()  # login does not where the same person was signed in
        request.session["oidc_end_session"] = getattr(request, "oidc_end_session", "")
        request.session.set_expiry(timezone.now() + OIDC_SESSION)
        return redirect(flow.get("oidc_login_next") or settings.LOGIN_REDIRECT_URL)


def _flow_of(request: HttpRequest) -> dict[str, Any]:
    """The content of the cookie of a started sign-in; empty without a valid one."""
    try:
        flow = signing.loads(
            request.COOKIES.get(FLOW_COOKIE, ""), salt=FLOW_COOKIE, max_age=FLOW_AGE
        )
    except signing.BadSignature:
        return {}
    return flow if isinstance(flow, dict) else {}


def _stale() -> OlmwebError:
    return OlmwebError(
        "This sign-in was not started in this browser, or is finished already.",
        code="oidc-stale",
        status=403,
        hint="Start it again.",
    )


def _failed(request: HttpRequest, error: OlmwebError) -> HttpResponse:
    """The sign-in page with the sentence, still usable."""
    view = SignIn(extra_context={"problem": error})
    view.setup(request)
    form = view.get_form_class()(request)
    response: Any = view.render_to_response(view.get_context_data(form=form), status=error.status)
    return response.render()  # type: ignore[no-any-return]
