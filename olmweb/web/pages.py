"""Renders pages: whole, as the fragment that htmx asks for, or live.

A live page asks its own address with `rev=TOKEN`, a token of its content: 204 while the content is
unchanged, 286 once it is final. The answer costs one query (the clusters), because every write to a
cluster's rows increases the revision of the cluster. It asks when it is told that one of its topics
changed (olmweb.serving.events), and every few seconds where no events arrive.
"""

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, cast

from django.http import HttpRequest, HttpResponse
from django.template.backends.django import Template
from django.template.context import make_context
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.utils.cache import patch_vary_headers
from django_htmx.middleware import HtmxDetails

from olmweb.models import Cluster
from olmweb.web.context import clusters

SECONDS = 1.2  # between two polls where no events arrive: the page is at most 2 s late
STOP_POLLING = 286  # htmx: swap this and ask no more
VARY = ("HX-Request", "HX-Boosted", "HX-History-Restore-Request")


def revision_token(*parts: object) -> str:
    """A short token that differs whenever one of the parts does."""
    text = "\x1f".join(str(part) for part in parts)
    return blake2b(text.encode(), digest_size=9).hexdigest()


def cluster_stamp(cluster: Cluster) -> str:
    """Differs when a row of the cluster, or the freshness that pages show, changed."""
    return f"{cluster.pk}:{cluster.revision}:{cluster.reachable}:{cluster.stale}"


def cluster_revision(request: HttpRequest, name: str = "") -> str:
    """The stamp of the cluster of that name, or of all clusters where there is none."""
    return ";".join(cluster_stamp(cluster) for cluster in _named(request, name))


def cluster_topic(request: HttpRequest, name: str = "") -> str:
    """The topic of a page about the cluster of that name, or about all clusters."""
    named = _named(request, name)
    return f"cluster-{named[0].pk}" if name and len(named) == 1 else "clusters"


def _named(request: HttpRequest, name: str) -> list[Cluster]:
    every = clusters(request)
    return [cluster for cluster in every if cluster.name == name] or every


def unchanged(request: HttpRequest, token: str) -> HttpResponse | None:
    """204 when the poll names the current token, else None.

    The response also carries the time of the last sync of each cluster for the masthead.
    """
    if not wants_fragment(request) or request.GET.get("rev") != token:
        return None
    response = HttpResponse(status=204)
    response["Vary"] = ", ".join(VARY)
    add_sync_times(request, response)
    return response


def add_sync_times(request: HttpRequest, response: HttpResponse) -> None:
    """Adds the event `olm:seen` {cluster name: ISO time of its last complete pass} for app.js."""
    synced = {c.name: c.synced_at.isoformat() for c in clusters(request) if c.synced_at}
    if synced:
        response["HX-Trigger"] = json.dumps({"olm:seen": synced})


class HtmxRequest(HttpRequest):
    """A request as django-htmx's middleware leaves it."""

    htmx: HtmxDetails


def wants_fragment(request: HttpRequest) -> bool:
    """True for htmx's own requests; false for plain, boosted and history-restoring ones."""
    details: HtmxDetails | None = getattr(request, "htmx", None)
    return bool(details) and not details.boosted and not details.history_restore_request  # type: ignore[union-attr]


class PageResponse(TemplateResponse):
    """A TemplateResponse that frees its context once it is rendered.

    The context of django.template.context.make_context refers to itself: all that a page shows
    would wait for the garbage collector, which would then delay a later page.
    """

    @property
    def rendered_content(self) -> str:
        template = cast(Template, self.resolve_template(self.template_name))
        context = make_context(
            self.resolve_context(self.context_data),
            self._request,
            autoescape=template.backend.engine.autoescape,
        )
        try:
            return template.template.render(context)
        finally:
            context.dicts.clear()


def render_page(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    partial: str | None = None,
    status: int = 200,
) -> PageResponse:
    """The whole page, or `template#partial` for a request of htmx. Adds `fragment` (bool), by which
    a template with an empty `partial` leaves out the shell itself."""
    fragment = partial is not None and wants_fragment(request)
    name = f"{template}#{partial}" if fragment and partial else template
    response = PageResponse(request, name, {**context, "fragment": fragment}, status=status)
    patch_vary_headers(response, VARY)
    return response


def render_live(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    token: str,
    topics: Iterable[str],
    partial: str = "live",
    final: bool = False,
) -> HttpResponse:
    """The page, or its live fragment. `topics` are those of olmweb.serving.events whose rows it
    shows.

    A fragment that answers a filter (not a poll) gives the browser the clean address. `final` ends
    polling: nothing will change any more.
    """
    response = render_page(
        request, template, {**context, "rev": token, "topics": topics}, partial=partial
    )
    if not response.context_data or not response.context_data["fragment"]:
        return response
    add_sync_times(request, response)
    response.add_post_render_callback(lambda rendered: _add_banner(request, rendered))
    if "rev" in request.GET:
        if final:
            response.status_code = STOP_POLLING
    else:
        response["HX-Push-Url"] = clean_address(request)
    return response


def _add_banner(request: HttpRequest, response: HttpResponse) -> None:
    """Adds the banner of a removed cluster, which stands outside of the live element."""
    response.content += render_to_string("_removed_banner.html", {"oob": True}, request).encode()


def clean_address(request: HttpRequest) -> str:
    """The address of the page without empty parameters and without those of polling."""
    params = request.GET.copy()
    params.pop("rev", None)
    for name in [name for name in params if not any(params.getlist(name))]:
        del params[name]
    query = params.urlencode()
    return f"{request.path}?{query}" if query else request.path
