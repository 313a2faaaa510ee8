"""Limits of failed sign-ins with a password, on django-axes, and of wrong API tokens.

Failures are counted for 15 minutes after the last one, in the database: they hold for all web
processes and without Redis. An account is locked for one address after five failures, so nobody
locks out others by that; an address after 50 and an account, over all addresses, after 100.
Refused attempts are not counted. The addresses of an IPv6 network of 64 bits count as one: that is
what a single client is given.
"""

import ipaddress
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from axes.backends import AxesStandaloneBackend
from axes.handlers.database import AxesDatabaseHandler
from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Sum
from django.http import HttpRequest

from olmweb.accounts import audit
from olmweb.accounts.audit import client_address
from olmweb.errors import OlmwebError

# For an account at an address, an address, and an account: the order of AXES_LOCKOUT_PARAMETERS.
LIMITS = (settings.AXES_FAILURE_LIMIT, 50, 100)
RATE_LIMIT = 60  # wrong tokens, or callbacks of OpenID Connect, of an address in RATE_WINDOW
RATE_WINDOW = 60  # seconds
WRONG_TOKENS = "wrong API tokens"
CALLBACKS = "sign-ins by OpenID Connect"


class FailedSignIns(AxesDatabaseHandler):  # type: ignore[misc]
    """The handler of django-axes with a limit for each kind of count."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """The highest count, scaled to the limit of the first kind."""
        totals = (
            attempts.aggregate(total=Sum("failures_since_start"))["total"] or 0
            for attempts in self.get_user_attempts(request, credentials)
        )
        return max(total * LIMITS[0] // limit for total, limit in zip(totals, LIMITS, strict=True))

    def reset_user_attempts(
        self, request: HttpRequest, credentials: dict[str, Any] | None = None
    ) -> int:
        """Forgets the failures of this account at this address: others stay counted."""
        own = self.filter_user_attempts(request, credentials)[0]
        return int(own.delete()[0])

    def reset_attempts(
        self,
        *,
        ip_address: str | None = None,
        username: str | None = None,
        ip_or_username: bool = False,
    ) -> int:
        """Unlocks by command: everything, or an account, an address, or one of both."""
        ip_address = _counted_as(ip_address) if ip_address else None
        with transaction.atomic():
            deleted: int = super().reset_attempts(
                ip_address=ip_address, username=username, ip_or_username=ip_or_username
            )
            if deleted:
                audit.unlocked(username or "", ip_address or "")
        return deleted


class ThrottledSignIn(AxesStandaloneBackend):  # type: ignore[misc]
    """The first authentication backend: refuses passwords while the account or address is locked.

    Calls without a request (the shell, commands) and OpenID Connect are not counted.
    """

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None
    ) -> None:
        if request is None or AxesProxyHandler.is_allowed(request, {"username": username}):
            return
        request.axes_locked_out = True  # type: ignore[attr-defined]
        request.sign_in_refused = True  # type: ignore[attr-defined]
        raise PermissionDenied


def throttled_address(request: HttpRequest) -> str | None:
    """The address under which failures of this client are counted: of IPv6 its /64 network."""
    address = client_address(request)
    return _counted_as(address) if address else None


def too_many_failures() -> OlmwebError:
    """The error for a locked account or address; the same for a name that nobody has."""
    minutes = settings.AXES_COOLOFF_TIME // timedelta(minutes=1)
    return OlmwebError(
        "Too many failed sign-ins with this user name or from this address.",
        code="sign-in-locked",
        status=429,
        hint=f"Try again in {minutes} minutes, or ask an administrator to unlock it.",
    )


def check_rate(request: HttpRequest, kind: str) -> None:
    """Raises OlmwebError (429) for an address with RATE_LIMIT counts of this kind in a minute."""
    if cache.get(_key(request, kind), 0) >= RATE_LIMIT:
        raise OlmwebError(
            f"Too many {kind} came from this address.",
            code="too-many-attempts",
            status=429,
            retryable=True,
            hint="Try again in a minute.",
        )


def count(request: HttpRequest, kind: str) -> bool:
    """Counts one of this kind for the address and tells whether it reached the limit.

    Without the cache nothing is counted.
    """
    key = _key(request, kind)
    if cache.add(key, 1, RATE_WINDOW):
        return False
    try:
        return cache.incr(key) == RATE_LIMIT
    except ValueError:  # it expired in between, or the cache is away
        return False


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests of an API token in this minute; `reset` is in how many seconds the next begins."""

    limit: int
    used: int
    reset: int

    @property
    def headers(self) -> dict[str, str]:
        """As in draft-ietf-httpapi-ratelimit-headers-07 in its older, widely read form."""
        headers = {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(max(0, self.limit - self.used)),
            "RateLimit-Reset": str(self.reset),
        }
        return headers | ({"Retry-After": str(self.reset)} if self.used > self.limit else {})


def count_request(token_id: int) -> Rate | None:
    """Counts a request of the token; None without a limit (API_RATE). Without the cache each is the
    first."""
    limit = settings.API_RATE
    if not limit:
        return None
    window, since = divmod(int(time.time()), RATE_WINDOW)
    key = f"rate:api-token:{token_id}:{window}"
    used = 1
    if not cache.add(key, 1, RATE_WINDOW):
        with suppress(ValueError):  # the cache is away
            used = cache.incr(key)
    return Rate(limit, used, RATE_WINDOW - since)


def _key(request: HttpRequest, kind: str) -> str:
    return f"rate:{kind.replace(' ', '-')}:{throttled_address(request) or ''}"


def _counted_as(address: str) -> str:
    """The IPv4 address, also when it is written as IPv6, or the first address of the /64 network.

    Anything else is returned unchanged.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed), 64), strict=False).network_address)
