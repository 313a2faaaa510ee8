"""CustomResourceDefinitions: those that will block an upgrade first, with the steps in order."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from installs.presenters.chain import steps
from installs.queries import crds as queries
from installs.queries.filters import read_choice, read_value
from installs.views.live import render_live
from olmweb.web.context import clusters
from olmweb.web.polling import cluster_revision, revision_token, unchanged

SHOWS = ("problems", "all")


@require_safe
def crd_list(request: HttpRequest) -> HttpResponse:
    """Stored versions beside served and defined ones, who owns it, and what is wrong."""
    chosen = {name: read_value(request.GET, name) for name in ("cluster", "q")}
    show = read_choice(request.GET, "show", SHOWS)
    token = revision_token(cluster_revision(request))
    if (answer := unchanged(request, token)) is not None:
        return answer
    page = queries.crd_page(
        **chosen, problems=show == "problems", cursor=request.GET.get("cursor", "")
    )
    found = [queries.crd_row(row) for row in page.rows]
    words = {"cluster": "Cluster", "q": "Text"}
    chips = [(name, words[name], value) for name, value in chosen.items() if value]
    if show == "problems":
        chips.append(("show", "Only", "with a problem"))
    context = {
        "page": page,
        "rows": [(one, steps(one.finding.remedy) if one.finding else []) for one in found],
        "total": page.total,
        "chosen": chosen,
        "show": show,
        "chips": chips,
        "cluster_names": [one.name for one in clusters(request)],
        "unread": [one.name for one in clusters(request) if not _is_read(one.kinds)],
    }
    return render_live(request, "installs/crds.html", context, token=token)


def _is_read(kinds: dict[str, dict[str, str]]) -> bool:
    told = kinds.get("CustomResourceDefinition")
    return isinstance(told, dict) and told.get("state") == "served"
