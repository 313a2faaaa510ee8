"""The page of results of one search over everything."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from installs.presenters.everything import TEXT_LIMIT, search_everything
from olmweb.web.pages import render_page


@require_safe
def everything(request: HttpRequest) -> HttpResponse:
    """The results by group."""
    text = request.GET.get("q", "").strip()[:TEXT_LIMIT]
    groups = search_everything(text)
    context = {
        "q": text,
        "groups": groups,
        "total": sum(len(group.results) for group in groups),
    }
    return render_page(request, "installs/everything.html", context, partial="results")
