"""The page of messages that the knowledge base does not explain."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from installs.queries.unknown_messages import matching, unknown_rows
from olmweb.web.forms import FilterForm, TextFilter, read_page
from olmweb.web.pages import render_page
from olmweb.web.pagination import PAGE_SIZE, paginate


class UnknownMessagesForm(FilterForm):
    q = TextFilter("Text")


@require_safe
def unknown_messages(request: HttpRequest) -> HttpResponse:
    """Messages without an explanation, the most frequent ones first, with a text to report each."""
    chosen = UnknownMessagesForm.read(request.GET)
    notices: list[str] = []
    page = paginate(matching(chosen["q"]), read_page(request.GET, notices), PAGE_SIZE, notices)
    context = {
        "page": page,
        "notices": notices,
        "rows": unknown_rows(list(page)),
        "total": page.paginator.count,
        "chosen": chosen,
        "chips": UnknownMessagesForm.chips(chosen),
    }
    return render_page(request, "installs/unknown_messages.html", context, partial="live")
