"""Cluster operators with their conditions, worst first, and the aggregated one explained."""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from installs.models import ClusterOperator
from installs.presenters.diagnosis import remedy_steps
from installs.presenters.timeline import condition_reports, timeline
from installs.queries import clusteroperators as queries
from installs.queries import operator_detail as detail
from installs.queries.lookup import get_clusteroperator
from installs.queries.operators import finding_of
from installs.queries.overview import is_absent, kinds_of, unreadable_kinds, updates_of
from installs.views.bulk_changes import next_step
from olmweb.accounts.roles import may_act
from olmweb.api.formats import fill
from olmweb.api.lists import StoredRows, export_table
from olmweb.web.context import clusters
from olmweb.web.forms import ChoiceFilter, FilterForm, SortFilter, TextFilter, read_page
from olmweb.web.pages import cluster_revision, cluster_topic, render_live, revision_token, unchanged
from olmweb.web.pagination import PAGE_SIZE, paginate
from olmweb.web.preferences import remember_view

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
    sort = SortFilter(queries.CLUSTEROPERATORS.names)


@dataclass(frozen=True, slots=True)
class ExportRow:
    """A row of the exported table: the fields of a ClusterOperator."""

    name: str
    cluster: str
    version: str
    available: str
    progressing: str
    degraded: str
    upgradeable: str
    reason: str
    message: str


@require_safe
def clusteroperator_export(request: HttpRequest) -> HttpResponseBase:
    """The table as CSV: every matching row, in its order, with the columns shown."""
    chosen = ClusterOperatorsForm.read(request.GET)
    table = queries.CLUSTEROPERATORS.view(request, chosen.pop("sort"))
    source = StoredRows(
        queries.clusteroperators_matching(**chosen),
        table.order,
        lambda rows: [fill(ExportRow, row, cluster=row.cluster.name) for row in rows],
    )
    return export_table(request, table, source)


@remember_view
@require_safe
def clusteroperator_list(request: HttpRequest) -> HttpResponse:
    """One row each with four pills and the reason of the worst."""
    chosen = ClusterOperatorsForm.read(request.GET)
    sort = chosen.pop("sort")
    token = revision_token(cluster_revision(request))
    if (answer := unchanged(request, token)) is not None:
        return answer
    alone = () if len(clusters(request)) > 1 else ("cluster",)
    table = queries.CLUSTEROPERATORS.view(request, sort, without=alone)
    rows = queries.clusteroperators_matching(**chosen).order_by(*table.order)
    notices: list[str] = []
    page = paginate(
        queries.shown_on_page(rows), read_page(request.GET, notices), PAGE_SIZE, notices
    )
    kinds = kinds_of(clusters(request))
    context = {
        "page": page,
        "notices": notices,
        "table": table,
        "rows": [(row, queries.reasons_of(row)) for row in page],
        "total": page.paginator.count,
        "chosen": chosen,
        "states": STATE_WORDS.items(),
        "chips": ClusterOperatorsForm.chips(chosen),
        "unserved": [
            c.name for c in clusters(request) if is_absent(kinds[c.pk], "ClusterOperator")
        ],
        "problems": [
            (c.name, sentence)
            for c in clusters(request)
            for sentence in unreadable_kinds(kinds[c.pk])
            if sentence.startswith("ClusterOperator")
        ],
    }
    return render_live(
        request, "installs/clusteroperators.html", context, token=token, topics=("clusters",)
    )


@require_safe
def clusteroperator_detail(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    """Conditions, members grouped by cause, and the impact on the cluster."""
    row = get_clusteroperator(cluster, name)
    token = revision_token(cluster_revision(request, cluster))
    if (answer := unchanged(request, token)) is not None:
        return answer
    blocks, leaves = queries.impact_of(row)
    groups = queries.members_of(row) if row.aggregated else []
    update = updates_of([row.cluster])[row.cluster_id]
    recovery = update.recovery if update else None
    # Visitors get the links, too: they lead to the sign-in.
    acts = not request.user.is_authenticated or may_act(request.user)[0]
    acts = acts and not row.cluster.removed
    explanation = queries.explanation_of(row, groups) if row.aggregated else None
    key = detail.key_of(row)
    history = detail.history(row.cluster_id, [key])
    context = {
        "row": row,
        "groups": [(group, *(_next_step(row, group) if acts else ("", ""))) for group in groups],
        "member_count": sum(len(group.members) for group in groups),
        "reasons": queries.reasons_of(row),
        "explanation": explanation,
        "blocks": blocks,
        "leaves": leaves,
        "steps": remedy_steps(queries.remedy_of(row)),
        "recovery": recovery if recovery and name in recovery.operators else None,
        "timeline": timeline(key, history, reports=condition_reports([row])),
    }
    topics = (cluster_topic(request, cluster),)
    return render_live(
        request, "installs/clusteroperator.html", context, token=token, topics=topics
    )


def _next_step(row: ClusterOperator, group: queries.MemberGroup) -> tuple[str, str]:
    """Words and address of the next step for these members, as on the overview."""
    operators = [member.operator for member in group.members if member.operator]
    finding = finding_of(operators[0]) if operators else None
    return next_step(finding, [(row.cluster.name, "PlatformOperator")], operators)
