"""Cluster operators with their conditions, worst first, and the aggregated one explained."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from installs.presenters.timeline import condition_reports, timeline
from installs.queries import clusteroperators as queries
from installs.queries import operator_detail as detail
from installs.queries.lookup import get_clusteroperator
from installs.queries.overview import unreadable_kinds
from olmweb.web.context import clusters
from olmweb.web.forms import ChoiceFilter, FilterForm, TextFilter
from olmweb.web.pages import cluster_revision, cluster_topic, render_live, revision_token, unchanged

STATE_WORDS = {
    "unavailable": "Unavailable",
    "degraded": "Degraded",
    "progressing": "Progressing",
    "blocked": "Cannot update",
}


class ClusterOperatorsForm(FilterForm):
    cluster = TextFilter()
    state = ChoiceFilter(STATE_WORDS)
    q = TextFilter("Text")


@require_safe
def clusteroperator_list(request: HttpRequest) -> HttpResponse:
    """One row each with four pills and the reason of the worst."""
    chosen = ClusterOperatorsForm.read(request.GET)
    token = revision_token(cluster_revision(request))
    if (answer := unchanged(request, token)) is not None:
        return answer
    page = queries.clusteroperator_page(**chosen, cursor=request.GET.get("cursor", ""))
    context = {
        "page": page,
        "rows": [(row, queries.reasons_of(row)) for row in page.rows],
        "total": page.total,
        "chosen": chosen,
        "states": STATE_WORDS.items(),
        "chips": ClusterOperatorsForm.chips(chosen),
        "unserved": [c.name for c in clusters(request) if _not_served(c.kinds)],
        "problems": [
            (c.name, sentence)
            for c in clusters(request)
            for sentence in unreadable_kinds(c)
            if sentence.startswith("ClusterOperator")
        ],
    }
    return render_live(
        request, "installs/clusteroperators.html", context, token=token, topics=("clusters",)
    )


def _not_served(kinds: dict[str, dict[str, str]]) -> bool:
    return kinds.get("ClusterOperator", {}).get("state") == "absent"


@require_safe
def clusteroperator_detail(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    """Conditions, members grouped by cause, and the impact on the cluster."""
    row = get_clusteroperator(cluster, name)
    token = revision_token(cluster_revision(request, cluster))
    if (answer := unchanged(request, token)) is not None:
        return answer
    blocks, leaves = queries.impact_of(row)
    groups = queries.members_of(row) if row.aggregated else []
    explanation = queries.explanation_of(row, groups) if row.aggregated else None
    key = detail.key_of(row)
    history = detail.history(row.cluster_id, [key])
    context = {
        "row": row,
        "groups": groups,
        "member_count": sum(len(group.members) for group in groups),
        "reasons": queries.reasons_of(row),
        "explanation": explanation,
        "blocks": blocks,
        "leaves": leaves,
        "timeline": timeline(key, history, reports=condition_reports([row])),
    }
    topics = (cluster_topic(request, cluster),)
    return render_live(
        request, "installs/clusteroperator.html", context, token=token, topics=topics
    )
