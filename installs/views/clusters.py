"""Pages of clusters: the overview, the status report, one cluster, and the
CustomResourceDefinitions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from catalogs.queries import read_states
from installs.actions.requests import waiting_for
from installs.models import CRDState, Operator
from installs.presenters.diagnosis import RemedyStep, remedy_steps
from installs.presenters.status_report import as_markdown, clusters_report, status_report
from installs.queries import crds
from installs.queries import overview as queries
from installs.queries.changes import FailureHistory, Trend, failure_history, recent, trend
from installs.queries.first_steps import FirstSteps, first_steps
from installs.queries.leftovers import removed_owners
from installs.queries.operators import CauseGroup
from installs.queries.watched_resources import watched_resources
from installs.readiness.blockers import read_minor
from installs.readiness.report import named_operators, unnamed_blockers
from installs.views.bulk_changes import next_step
from olmweb.accounts.roles import may_act
from olmweb.api.formats import fill
from olmweb.api.lists import StoredRows, export_table
from olmweb.clusters import get_cluster
from olmweb.models import Cluster
from olmweb.web.context import clusters, clusters_with_kinds
from olmweb.web.forms import ChoiceFilter, FilterForm, SortFilter, TextFilter, read_page
from olmweb.web.pages import (
    cluster_revision,
    cluster_topic,
    render_live,
    render_page,
    revision_token,
    unchanged,
)
from olmweb.web.pagination import PAGE_SIZE, paginate
from olmweb.web.preferences import remember_view

CAUSES_SHOWN = 5  # on the overview of one cluster


class OverviewForm(FilterForm):
    cluster = TextFilter()


class ReportForm(FilterForm):
    cluster = TextFilter()
    format = ChoiceFilter(("md",))


class LeftoversForm(FilterForm):
    cluster = TextFilter()
    q = TextFilter("Text")


class CRDsForm(FilterForm):
    cluster = TextFilter()
    q = TextFilter("Text")
    show = ChoiceFilter(("problems", "all"))
    sort = SortFilter(crds.CRDS.names)


@dataclass(frozen=True, slots=True)
class ExportRow:
    """A row of the exported table of CRDs; `problem` is the title of its finding."""

    name: str
    kind: str
    cluster: str
    stored: list[str]
    served: list[str]
    defined: list[str]
    owner: str
    owner_kind: str
    owner_namespace: str
    problem: str


def _chosen(wanted: str, rows: Sequence[Cluster]) -> list[Cluster]:
    """The cluster of that name, or without a name all of `rows` but the removed ones."""
    return [get_cluster(wanted, rows)] if wanted else [row for row in rows if not row.removed]


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """One cluster in full, several as a table in pages, none as three steps to the first one."""
    wanted = OverviewForm.read(request.GET)["cluster"]
    shown = _chosen(wanted, clusters(request))
    catalogs = read_states(clusters(request))
    requests = waiting_for(request.user, shown)
    token = revision_token(
        cluster_revision(request, wanted),
        queries.catalogs_revision(catalogs),
        [row.pk for row in requests],
    )
    if (answer := unchanged(request, token)) is not None:
        return answer
    several = len(shown) > 1
    history = failure_history(shown)
    notices: list[str] = []
    summaries: Sequence[queries.ClusterSummary] = []
    entries: Sequence[queries.ClusterSummary] = []
    operators: list[Operator] = []
    single = waiting = None
    if several:
        operators = queries.operators_to_approve(shown)
        summaries = queries.summaries(shown)
        waiting = queries.waiting(summaries, operators, requests, history)  # reads what rows need
        page = paginate(summaries, read_page(request.GET, notices), PAGE_SIZE, notices)
        entries = queries.cluster_rows(list(page))
    else:
        if shown:
            operators = queries.shown_operators(shown, names=1)
            [single] = summaries = entries = queries.overview(shown, operators, names=1)
            waiting = queries.waiting(summaries, operators, requests, history)
        page = paginate(entries, read_page(request.GET, notices), PAGE_SIZE, notices)
    update = single.update if single else None
    named = named_operators(single.cluster, update) if single and update else []
    why_no_action = may_act(request.user)[1]
    # Visitors get the links, too: they lead to the sign-in.
    why_not = why_no_action if request.user.is_authenticated else ""
    acts = not why_not
    current = [row for row in shown if not row.removed]
    acts = acts and bool(current)
    causes = _with_changes(single.causes[:CAUSES_SHOWN], offered=bool(current)) if single else []
    context = {
        "page": page,
        "entries": entries,
        "notices": notices,
        "single": single,
        "causes": causes,
        "why_not": why_not if any(url for *_, url in causes) else "",
        "why_no_action": why_no_action,
        "more_causes": len(single.causes[CAUSES_SHOWN:]) if single else 0,
        "following": _following(single),
        "named": named,
        "unnamed": unnamed_blockers(update, named) if update else [],
        "acts": acts,
        "several": several,
        "recent": recent(shown) if shown else None,
        "trend": _trend(summaries, history),
        "catalogs": queries.catalog_summary(catalogs, shown),
        "waiting": waiting if current else None,
        "removed": [] if wanted else [row for row in clusters(request) if row.removed],
        "kinds": queries.installable_kinds(single.cluster) if single else [],
        "first": _first_steps(summaries),
        "silence_shown": _silence_shown(entries, several=several),
    }
    topics = [cluster_topic(request, wanted), "catalogs", "actions"]
    if request.user.is_authenticated:
        topics.append("requests")
    return render_live(request, "installs/overview.html", context, token=token, topics=topics)


def _with_changes(
    causes: Sequence[CauseGroup], *, offered: bool
) -> list[tuple[CauseGroup, str, str]]:
    """The causes of one cluster, each with the words and the address of its next step, or with
    empty ones."""
    return [
        (
            cause,
            *next_step(
                cause.finding,
                [(target.cluster, target.kind) for target in cause.targets if offered],
                cause.operators,
                **{"from": "overview"},
            ),
        )
        for cause in causes
    ]


def _following(entry: queries.ClusterOverview | None) -> str:
    """The next minor version of the cluster, or empty if its version is not known."""
    minor = read_minor(entry.update.version) if entry and entry.update else None
    return str(minor.next()) if minor else ""


def _trend(entries: Sequence[queries.ClusterSummary], history: FailureHistory) -> Trend | None:
    """Of the clusters that were synced; None where they have no operator."""
    synced = [entry for entry in entries if entry.cluster.synced_at]
    if not any(entry.counts.total for entry in synced):
        return None
    return trend(sum(entry.counts.failing for entry in synced), history)


def _first_steps(entries: Sequence[queries.ClusterSummary]) -> FirstSteps | None:
    """Without a cluster, and for a single one that was never read completely."""
    unread = [entry.cluster for entry in entries if entry.cluster.synced_at is None]
    return first_steps(unread) if len(entries) == len(unread) <= 1 else None


def _silence_shown(entries: Sequence[queries.ClusterSummary], *, several: bool) -> list[int]:
    """Ids of the silent clusters that the page itself reports as silent: those of a table, and
    one that was never reached.
    """
    silent = [entry.cluster for entry in entries if entry.cluster.stale]
    return [cluster.pk for cluster in silent if several or cluster.synced_at is None]


@require_safe
def report(request: HttpRequest) -> HttpResponse:
    """The status report of the chosen cluster or of all, for print or as Markdown. A page shows one
    cluster in full and several as a table."""
    chosen = ReportForm.read(request.GET)
    wanted = chosen["cluster"]
    shown = _chosen(wanted, clusters(request))
    requests, now = waiting_for(request.user, shown), timezone.now()
    acts = may_act(request.user)[0]
    notices: list[str] = []
    if len(shown) > 1 and not chosen["format"]:
        table = clusters_report(shown, requests, now, read_page(request.GET, notices), notices)
        context = {"report": table, "page": table.page, "notices": notices, "acts": acts}
        return render_page(request, "installs/report.html", context)
    content = status_report(shown, requests, now)
    if chosen["format"]:
        response = HttpResponse(
            as_markdown(content, acts=acts), content_type="text/markdown; charset=utf-8"
        )
        response["Content-Disposition"] = 'attachment; filename="status-report.md"'
        return response
    return render_page(request, "installs/report.html", {"report": content, "acts": acts})


@require_safe
def cluster_detail(request: HttpRequest, cluster: str) -> HttpResponse:
    """Each watched resource with its state, its last event and a remedy when it can't be read."""
    row = get_cluster(cluster, clusters(request))
    status = watched_resources(row)
    # A watch may be alive without a change of any row.
    reads = [
        (resource.name, resource.state, resource.last_event_at, resource.lists, resource.watches)
        for resource in status.resources
    ]
    token = revision_token(cluster_revision(request, cluster), reads)
    if (answer := unchanged(request, token)) is not None:
        return answer
    context = {"cluster": row, "watched": status, "silence_shown": [row.pk]}
    topics = (cluster_topic(request, cluster), "watches")
    return render_live(request, "installs/cluster.html", context, token=token, topics=topics)


@require_safe
def crd_export(request: HttpRequest) -> HttpResponseBase:
    """The table of CRDs as CSV: every matching row, in its order, with the columns shown."""
    chosen = CRDsForm.read(request.GET)
    show = chosen.pop("show")
    table = crds.CRDS.view(request, chosen.pop("sort"))
    rows = crds.sorted_crds(table.order, **chosen, problems=show == "problems")
    return export_table(request, table, StoredRows(rows, table.order, _export_rows))


def _export_rows(rows: Sequence[CRDState]) -> list[ExportRow]:
    return [
        fill(
            ExportRow,
            crd.row,
            cluster=crd.row.cluster.name,
            kind=crd.row.served_kind,
            owner=crd.owner,
            owner_kind=crd.owner_kind,
            owner_namespace=crd.owner_namespace,
            problem=crd.finding.title if crd.finding else crd.row.finding,
        )
        for crd in map(crds.crd_row, rows)
    ]


@remember_view
@require_safe
def crd_list(request: HttpRequest) -> HttpResponse:
    """Stored versions beside served and defined ones, the owner, and the problem."""
    chosen = CRDsForm.read(request.GET)
    show, sort = chosen.pop("show"), chosen.pop("sort")
    token = revision_token(cluster_revision(request))
    if (answer := unchanged(request, token)) is not None:
        return answer
    alone = () if len(clusters(request)) > 1 else ("cluster",)
    table = crds.CRDS.view(request, sort, without=alone)
    rows = crds.sorted_crds(table.order, **chosen, problems=show == "problems")
    notices: list[str] = []
    page = paginate(rows, read_page(request.GET, notices), PAGE_SIZE, notices)
    crd_rows = [crds.crd_row(row) for row in page]
    kinds = queries.kinds_of(clusters(request))
    chips = CRDsForm.chips(chosen)
    if show == "problems":
        chips.append(("show", "Only", "with a problem"))
    context = {
        "page": page,
        "notices": notices,
        "table": table,
        "rows": _with_remedies(crd_rows),
        "total": page.paginator.count,
        "chosen": chosen,
        "show": show,
        "chips": chips,
        "unread": [
            cluster.name
            for cluster in clusters(request)
            if not queries.is_served(kinds[cluster.pk], "CustomResourceDefinition")
        ],
    }
    return render_live(request, "installs/crds.html", context, token=token, topics=("clusters",))


def _with_remedies(
    rows: Sequence[crds.OwnedCRD],
) -> list[tuple[crds.OwnedCRD, list[RemedyStep], crds.OwnedCRD | None]]:
    """Each row with the steps of its remedy, or with the row above it that has the same ones: the
    same CRD of several clusters."""
    first: dict[tuple[str, ...], crds.OwnedCRD] = {}
    shown = []
    for row in rows:
        remedy = tuple(row.finding.remedy) if row.finding else ()
        above = first.setdefault(remedy, row) if remedy else row
        steps = remedy_steps(remedy) if above is row else []
        shown.append((row, steps, None if above is row else above))
    return shown


@require_safe
def leftovers(request: HttpRequest) -> HttpResponse:
    """What removed operators left behind, by operator, with the order of deletion."""
    chosen = LeftoversForm.read(request.GET)
    shown = clusters_with_kinds(request)
    shown = [get_cluster(chosen["cluster"], shown)] if chosen["cluster"] else shown
    words = chosen["q"].lower()
    owners = [
        owner
        for owner in removed_owners(shown)
        if not words or any(words in name.lower() for name in (owner.name, *owner.all_names))
    ]
    notices: list[str] = []
    page = paginate(owners, read_page(request.GET, notices), PAGE_SIZE, notices)
    context = {
        "page": page,
        "notices": notices,
        "rows": [(owner, remedy_steps(owner.steps)) for owner in page],
        "total": page.paginator.count,
        "acts": may_act(request.user)[0],
        "chosen": chosen,
        "chips": LeftoversForm.chips(chosen),
    }
    return render_page(request, "installs/leftovers.html", context, partial="live")
