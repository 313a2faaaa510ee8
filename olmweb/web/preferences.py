"""The preferences of the signed-in person: how pages are shown to them.

They are read with the account of the session (olmweb.accounts.roles.AccountBackend), so they cost
no query of their own.
"""

from collections.abc import Callable
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from olmweb.models import Preferences

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
