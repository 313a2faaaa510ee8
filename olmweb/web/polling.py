"""Live pages: a token for what a page showed, 204 while it is still true, 286 when it is final.

Pages poll their own URL with `rev=TOKEN`. Answering costs one query (the clusters), because every
write to a cluster's rows moves that cluster's revision.
"""

import json
import secrets
from hashlib import blake2b

from django.http import HttpRequest, HttpResponse

from olmweb.web.context import clusters
from olmweb.web.htmx import VARY, wants_fragment

SECONDS = 1.2  # with the way from the cluster to the rows, an open page is at most 2 s late
STOP_POLLING = 286  # htmx: swap this and ask no more


def revision_token(*parts: object) -> str:
    """A short token that differs whenever one of the parts does."""
    text = "\x1f".join(str(part) for part in parts)
    return blake2b(text.encode(), digest_size=9).hexdigest()


def cluster_revision(request: HttpRequest) -> str:
    """What moves when any row of any cluster, or what a page says of its freshness, changed."""
    return ";".join(f"{c.pk}:{c.revision}:{c.reachable}:{c.stale}" for c in clusters(request))


def unchanged(request: HttpRequest, token: str) -> HttpResponse | None:
    """204 when the poll names the token that is still true, else None: render the fragment.

    The answer also carries when each cluster was last heard from, so that the masthead stays true.
    """
    if not wants_fragment(request) or request.GET.get("rev") != token:
        return None
    response = HttpResponse(status=204)
    response["Vary"] = ", ".join(VARY)
    tell_seen(request, response)
    return response


def tell_seen(request: HttpRequest, response: HttpResponse) -> None:
    """Adds the event `olm:seen` {cluster name: ISO time of its last complete pass} for app.js."""
    seen = {c.name: c.synced_at.isoformat() for c in clusters(request) if c.synced_at}
    if seen:
        response["HX-Trigger"] = json.dumps({"olm:seen": seen})


def every(seconds: float = SECONDS) -> str:
    """An htmx trigger with up to a fifth of jitter: pages opened together don't ask together."""
    return f"every {seconds * (0.9 + secrets.randbelow(200) / 1000):.2f}s"
