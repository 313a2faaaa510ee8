"""Rendering a page or, for htmx, only its fragment. The one place that looks at htmx's headers."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.cache import patch_vary_headers
from django_htmx.middleware import HtmxDetails

VARY = ("HX-Request", "HX-Boosted", "HX-History-Restore-Request")


class HtmxRequest(HttpRequest):
    """A request as django-htmx's middleware leaves it."""

    htmx: HtmxDetails


def wants_fragment(request: HttpRequest) -> bool:
    """True for htmx's own requests; false for plain, boosted and history-restoring ones."""
    details: HtmxDetails | None = getattr(request, "htmx", None)
    return bool(details) and not details.boosted and not details.history_restore_request  # type: ignore[union-attr]


def render_page(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    partial: str = "",
    status: int = 200,
) -> TemplateResponse:
    """The whole page, or `template#partial` when htmx asks. The context gets `fragment` (bool)."""
    fragment = bool(partial) and wants_fragment(request)
    name = f"{template}#{partial}" if fragment else template
    response = TemplateResponse(request, name, {**context, "fragment": fragment}, status=status)
    patch_vary_headers(response, VARY)
    return response
