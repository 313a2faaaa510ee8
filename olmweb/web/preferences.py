"""The preferences of the signed-in person: how pages are shown to them.

They are read with the account of the session (olmweb.accounts.roles.AccountBackend), so they cost
no query of their own. The view of a list that was used last is in a cookie of that list: a GET
writes nothing to the database.
"""

from collections.abc import Callable
from functools import cache, wraps
from time import time
from urllib.parse import parse_qsl, urlencode
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.html import format_html

from olmweb.models import Preferences

VIEW_COOKIE = "olmweb_view_"  # with the name of the list: account, time and query of the last view
OPENED_FILTERED = "This list opened with the filters that you used last."
_NO_FILTERS = ("sort", "view", "columns")
_WHOLE_LISTS = (("show", "actions"), ("show", "syncs"), ("show", "all"))
_SAME_VISIT = 600  # seconds after which the filters of a list may be forgotten
_NOT_REMEMBERED = ("page", "operator")  # what is looked at and ticked
VIEW_LIMIT = 2000  # characters of a query string that is remembered
CLEAR = "filters"
CLEARED = f"{CLEAR}=none"  # query that shows a list without filters, and forgets the view
ZONE_COOKIE = "olmweb_zone"  # the time zone of the browser, written by app.js
# REST answers, the admin pages and metrics are in UTC.
ALWAYS_UTC = ("/api/", "/admin/", "/metrics")
_AREAS = ("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe",
          "Indian", "Pacific")  # fmt: skip


@cache
def time_zones() -> tuple[str, ...]:
    """Names of the IANA database as AREA/CITY, sorted, behind UTC."""
    names = (name for name in available_timezones() if name.partition("/")[0] in _AREAS)
    return ("UTC", *sorted(names))


def preferences_of(request: HttpRequest) -> Preferences:
    """Those of the account of the session, or the defaults."""
    user = getattr(request, "user", None)
    return getattr(user, "preferences", None) or Preferences()


def html_classes(preferences: Preferences) -> str:
    """Classes of the root element: the chosen theme and density."""
    dark = "pf-v6-theme-dark" if preferences.theme == Preferences.Theme.DARK else ""
    chosen = "" if preferences.theme == Preferences.Theme.SYSTEM else "olm-theme-set"
    compact = "olm-compact" if preferences.density == Preferences.Density.COMPACT else ""
    return " ".join(filter(None, (dark, chosen, compact)))


def _zone(request: HttpRequest) -> str:
    name = preferences_of(request).time_zone
    if name == Preferences.BROWSER:
        name = request.COOKIES.get(ZONE_COOKIE, "")
    return name if name in time_zones() else "UTC"


class TimeZoneMiddleware:
    """Absolute times of pages are in the time zone of the person."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith(ALWAYS_UTC):
            return self.get_response(request)
        with timezone.override(ZoneInfo(_zone(request))):
            return self.get_response(request)


def remember_view(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Leads a signed-in person who opens the list without a query to the view that they used last:
    its filters, sort and columns, but not its page and ticks; a message says that it is filtered
    unless they saw it a few minutes ago. A query is taken as it is, and remembered if the view
    accepts it."""

    @wraps(view)
    def wrapped(request: HttpRequest) -> HttpResponseBase:
        if CLEAR in request.GET:
            response: HttpResponseBase = redirect(request.path)
            response.delete_cookie(_view_cookie(request), path=request.path)
            return response
        user = getattr(request, "user", None)
        if user is None or not user.is_authenticated or "rev" in request.GET:
            return view(request)
        stored, _, query = request.COOKIES.get(_view_cookie(request), "").partition(":")
        owner, _, seen_at = stored.partition(".")
        if not request.GET and query and owner == str(user.pk):
            if _filters(query) and not _is_recent(seen_at):
                link = format_html('<a href="{}?{}">Clear filters</a>', request.path, CLEARED)
                messages.info(request, format_html("{} {}", OPENED_FILTERED, link))
            response = redirect(f"{request.path}?{query}")
            # The view stores it again: one that it refuses by now is shown once only.
            response.delete_cookie(_view_cookie(request), path=request.path)
            return response
        response = view(request)
        if request.GET and response.status_code == 200:
            _store_view(request, response, user.pk)
        return response

    return wrapped


def _is_recent(seen_at: str) -> bool:
    """Whether this time, in seconds since the epoch, belongs to the same visit."""
    past = time() - int(seen_at) if seen_at.isdecimal() and len(seen_at) < VIEW_LIMIT else None
    return past is not None and 0 <= past < _SAME_VISIT


def _filters(query: str) -> bool:
    """Whether the query shows a part of the list only."""
    chosen = [(name, value) for name, value in parse_qsl(query) if name not in _NO_FILTERS]
    return any((name, value) not in _WHOLE_LISTS for name, value in chosen)


def _view_cookie(request: HttpRequest) -> str:
    """A name of its own for each list: a browser sends a cookie to all paths below its own."""
    match = request.resolver_match
    return VIEW_COOKIE + (match.url_name or "" if match else "")


def _store_view(request: HttpRequest, response: HttpResponseBase, account: int) -> None:
    lists = request.GET.lists()
    params = {name: values for name, values in lists if name not in _NOT_REMEMBERED}
    query = urlencode({name: values for name, values in params.items() if any(values)}, doseq=True)
    if not query or len(query) > VIEW_LIMIT:
        response.delete_cookie(_view_cookie(request), path=request.path)
        return
    response.set_cookie(
        _view_cookie(request),
        f"{account}.{int(time())}:{query}",
        max_age=settings.SESSION_COOKIE_AGE,
        path=request.path,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
