"""The notifications of the signed-in person, and the bell in the masthead that counts them."""

from datetime import datetime

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import Resolver404, resolve, reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from installs.actions.requests import waiting_for
from installs.models import Action
from installs.queries.activity import later_actions
from installs.queries.notifications import (
    KINDS,
    LIMIT,
    Entry,
    finished_actions,
    notifications,
    read_until,
)
from olmweb.accounts.roles import may_act, person_of, sign_in_required
from olmweb.models import Preferences
from olmweb.web.context import attention, clusters
from olmweb.web.forms import read_page
from olmweb.web.pages import revision_token
from olmweb.web.pagination import PAGE_SIZE, paginate
from olmweb.web.preferences import preferences_of

TOASTS = 3  # at once
ANNOUNCED = "announced"  # in the session: addresses of own actions whose outcome was shown


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@sign_in_required()
def notification_page(request: HttpRequest) -> HttpResponse:
    """What changed since the person last marked all as read; a POST marks what its page showed."""
    if request.method == "POST":
        until = min(_time(request.POST.get("until", "")) or timezone.now(), timezone.now())
        Preferences.objects.update_or_create(
            user=person_of(request), defaults={"notifications_read_at": until}
        )
        messages.success(request, "All notifications marked as read.")
        return redirect("installs:notifications")
    notices: list[str] = []
    now = timezone.now()
    since = read_until(preferences_of(request))
    entries = _entries(request, since)
    order = list(KINDS)
    entries.sort(key=lambda entry: order.index(entry.kind))  # stable: newest first in each
    page = paginate(entries, read_page(request.GET, notices), PAGE_SIZE, notices)
    groups = [
        (kind, heading, rows)
        for kind, heading in KINDS.items()
        if (rows := [entry for entry in page if entry.kind == kind])
    ]
    context = {
        "groups": groups,
        "page": page,
        "total": len(entries),
        "unread": (unread := sum(entry.is_counted for entry in entries)),
        "own": len(entries) - unread,
        "limited": len(entries) == LIMIT,
        "since": since,
        "until": now.isoformat(),
        "notices": notices,
    }
    return render(request, "installs/notifications.html", context)


@never_cache
@require_safe
@sign_in_required()
def bell(request: HttpRequest) -> HttpResponse:
    """The bell with its number, the number of operators that need attention for the navigation, and
    toasts of the own actions and bulk changes that finished since `?at=`, the time of the answer
    before; more than TOASTS share a toast. The bell does not count these as well. 204 while the
    numbers are those of `?rev=` and nothing finished."""
    at = _time(request.GET.get("at", ""))
    now = timezone.now()
    finished = finished_actions(person_of(request), at) if at else []
    if finished:
        announced = request.session.get(ANNOUNCED, [])
        announced = list(dict.fromkeys([*announced, *(entry.url for entry in finished)]))
        request.session[ANNOUNCED] = announced[-LIMIT:]
    entries = _entries(request, read_until(preferences_of(request)))
    count = sum(entry.is_counted for entry in entries)
    needing = sum(attention(request).values())
    token = revision_token(count, needing)
    # The page of the action or bulk change, or of the action that it continues, says the outcome
    # already.
    shown = request.htmx.current_url_abs_path if request.htmx else ""  # type: ignore[attr-defined]
    if not finished and request.GET.get("rev") == token:
        return HttpResponse(status=204)
    if finished and shown:
        here = {shown, *_addresses_of_later_actions(shown)}
        finished = [entry for entry in finished if entry.url not in here]
    actions = sum(entry.actions for entry in finished)
    well = sum(entry.succeeded for entry in finished)
    context = {
        "count": "99+" if count >= LIMIT else count,
        "attention": needing,
        "rev": token,
        "at": now.isoformat(),
        "finished": finished,
        "together": len(finished) > TOASTS,
        "actions": actions,
        "well": well,
        "badly": actions - well,
        "address": reverse("installs:notifications"),
    }
    return render(request, "installs/_bell.html", context)


def _addresses_of_later_actions(address: str) -> list[str]:
    """Of those that the page of an action at this address follows; none for another page."""
    try:
        page = resolve(address)
    except Resolver404:
        return []
    action = None
    if page.view_name == "installs:action":
        action = Action.objects.filter(pk=page.kwargs["id"]).first()
    later = later_actions(action) if action else []
    return [reverse("installs:action", args=(row.pk,)) for row in later]


def _entries(request: HttpRequest, since: datetime) -> list[Entry]:
    user = person_of(request)
    rows = clusters(request)
    announced = frozenset(request.session.get(ANNOUNCED, ()))
    to_decide, acts = waiting_for(user, rows), may_act(user)[0]
    entries = notifications(user, rows, since, to_decide, acts=acts)
    return [entry for entry in entries if entry.url not in announced]


def _time(text: str) -> datetime | None:
    """An ISO time with its zone; None for anything else."""
    try:
        value = parse_datetime(text)
    except ValueError:
        return None
    return value if value and timezone.is_aware(value) else None
