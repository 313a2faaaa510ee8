"""What the views of this app share: rendering a live page, clean addresses, rows' revisions."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse

from olmweb.web.htmx import render_page
from olmweb.web.polling import STOP_POLLING, tell_seen


def render_live(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    token: str,
    partial: str = "live",
    final: bool = False,
) -> HttpResponse:
    """The page, or its live fragment with the poll's companions.

    A fragment that answers a filter (not a poll) gives the browser the clean address. `final` ends
    polling: nothing will change any more.
    """
    response = render_page(request, template, {**context, "rev": token}, partial=partial)
    if not response.context_data or not response.context_data["fragment"]:
        return response
    tell_seen(request, response)
    if "rev" in request.GET:
        if final:
            response.status_code = STOP_POLLING
    else:
        response["HX-Push-Url"] = clean_address(request)
    return response


def clean_address(request: HttpRequest) -> str:
    """The page's address without empty parameters and without what only polling needs."""
    params = request.GET.copy()
    params.pop("rev", None)
    for name in [name for name in params if not any(params.getlist(name))]:
        del params[name]
    query = params.urlencode()
    return f"{request.path}?{query}" if query else request.path
