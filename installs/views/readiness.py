"""Upgrade readiness: blockers of the next minor of each cluster, worst first, with remedies."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.core.paginator import Page
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from installs.readiness import TITLES, Readiness, ReadinessRow
from installs.readiness.request import (
    ReadinessRequest,
    catalogs_state,
    catalogs_to_follow,
    needs_catalog,
    read_catalogs,
    read_following,
    requested_readiness,
    tone,
    unread_catalogs,
    verdict,
)
from installs.readiness.v1_migration_report import narrowed, v1_migrations
from olmweb.accounts.roles import may_act
from olmweb.clusters import get_cluster
from olmweb.web.context import clusters, clusters_with_kinds
from olmweb.web.forms import ChoiceFilter, FilterForm, TextFilter, read_page
from olmweb.web.pages import cluster_revision, cluster_topic, render_live, revision_token, unchanged
from olmweb.web.pagination import PAGE_SIZE, paginate
from olmweb.web.preferences import remember_view

WORDS = {
    "blocks": "Blocks the update",
    "completion": "Prevents completion",
    "holds": "Holds back an operator",
    "unknown": "Unknown",
    "plan": "Plan ahead",
}
FATES = {
    "no": "Not migratable",
    "unknown": "Unknown",
    "changes": "With changes",
    "ready": "Ready",
}
FORMATS = (("CSV", "csv"), ("JSON", "ndjson"), ("Markdown", "md"))


class ReadinessForm(FilterForm):
    cluster = TextFilter()
    weight = ChoiceFilter(WORDS, label="Only")
    code = ChoiceFilter(TITLES, label="Kind")
    q = TextFilter("Text")
    next = TextFilter()


class MigrationForm(FilterForm):
    cluster = TextFilter()
    fate = ChoiceFilter(FATES, label="Only")
    q = TextFilter("Text")


@remember_view
@require_safe
def readiness_page(request: HttpRequest) -> HttpResponse:
    """The verdict on each cluster in a sentence, then every blocker with its remedy."""
    chosen = ReadinessForm.read(request.GET)
    if chosen["cluster"]:
        get_cluster(chosen["cluster"], clusters(request))
    catalogs = read_catalogs()
    token = revision_token(cluster_revision(request, chosen["cluster"]), catalogs_state(catalogs))
    if (same := unchanged(request, token)) is not None:
        return same
    query = ReadinessRequest(
        cluster=chosen["cluster"],
        weights=(chosen["weight"],) if chosen["weight"] else (),
        codes=(chosen["code"],) if chosen["code"] else (),
        q=chosen["q"],
        following=read_following(chosen["next"], catalogs),
    )
    results = [
        _matching(result, query, unread_catalogs(result, catalogs))
        for result in requested_readiness(clusters(request), query)
    ]
    total = sum(len(result.rows) for result in results)
    notices: list[str] = []
    page = paginate(range(total), read_page(request.GET, notices), PAGE_SIZE, notices)
    context = {
        "shown": _shown(results, page),
        "page": page,
        "notices": notices,
        "total": total,
        "chosen": chosen,
        "weights": WORDS.items(),
        "codes": TITLES.items(),
        "catalogs": catalogs_to_follow(catalogs),
        "chips": ReadinessForm.chips(chosen),
        "exports": [(label, _api_url("readiness", chosen, form)) for label, form in FORMATS],
        # Visitors get the links, too: they lead to the sign-in.
        "acts": not request.user.is_authenticated or may_act(request.user)[0],
    }
    topics = (cluster_topic(request, chosen["cluster"]), "catalogs")
    return render_live(request, "installs/readiness.html", context, token=token, topics=topics)


@remember_view
@require_safe
def takeover_page(request: HttpRequest) -> HttpResponse:
    """Each Subscription: whether a ClusterExtension can take over, and the steps."""
    chosen = MigrationForm.read(request.GET)
    if chosen["cluster"]:
        get_cluster(chosen["cluster"], clusters(request))
    token = revision_token(
        cluster_revision(request, chosen["cluster"]), catalogs_state(read_catalogs())
    )
    if (same := unchanged(request, token)) is not None:
        return same
    chosen_clusters = [
        cluster
        for cluster in clusters_with_kinds(request)
        if chosen["cluster"] in ("", cluster.name)
    ]
    every = v1_migrations(chosen_clusters)
    matches = narrowed(every, [chosen["fate"]] if chosen["fate"] else [], chosen["q"])
    order = tuple(FATES)
    matches.sort(key=lambda migration: -order.index(migration.fate))
    notices: list[str] = []
    page = paginate(matches, read_page(request.GET, notices), PAGE_SIZE, notices)
    context = {
        "rows": page.object_list,
        "page": page,
        "notices": notices,
        "total": len(matches),
        "counts": [
            (fate, title, sum(migration.fate == fate for migration in every))
            for fate, title in reversed(FATES.items())
        ],
        "chosen": chosen,
        "fates": FATES.items(),
        "chips": MigrationForm.chips(chosen),
        "exports": [(label, _api_url("migrations", chosen, form)) for label, form in FORMATS],
    }
    topics = (cluster_topic(request, chosen["cluster"]), "catalogs")
    return render_live(
        request, "installs/olm_v1_migration.html", context, token=token, topics=topics
    )


@dataclass(frozen=True, slots=True)
class _ShownCluster:
    """A cluster with its matching rows. `unread` are its catalogs that are still to be read for the
    first time; the `pending` rows that may be due to that are left out."""

    readiness: Readiness
    rows: list[ReadinessRow]
    unread: list[str]
    pending: int

    @property
    def sentence(self) -> str:
        return verdict(self.readiness, reading=bool(self.unread))

    @property
    def tone(self) -> str:
        return tone(self.readiness, reading=bool(self.unread))


def _matching(report: Readiness, query: ReadinessRequest, unread: list[str]) -> _ShownCluster:
    rows = [row for row in report.rows if not (unread and needs_catalog(row))]
    matches = [row for row in rows if query.matches(row)]
    return _ShownCluster(report, matches, unread, len(report.rows) - len(rows))


def _shown(results: Sequence[_ShownCluster], page: Page[int]) -> list[_ShownCluster]:
    """The clusters on the page with its rows. Rows are numbered across clusters; a cluster without
    rows is on the page of the row before it."""
    first, last = page.start_index() - 1, page.end_index()
    shown, begin = [], 0
    for result in results:
        on_page = result.rows[max(0, first - begin) : max(0, last - begin)]
        follows = first < begin <= last or (begin == 0 and page.number == 1)
        if on_page or (not result.rows and follows):
            shown.append(replace(result, rows=on_page))
        begin += len(result.rows)
    return shown


# Parameters of the API that have another name than those of the pages.
API_NAMES = {"weight": "severity", "next": "next_catalog", "fate": "verdict"}


def _api_url(name: str, chosen: dict[str, str], form: str) -> str:
    params = [(API_NAMES.get(key, key), value) for key, value in chosen.items() if value]
    return f"{reverse(f'api:list_{name}')}?{urlencode([*params, ('format', form)])}"
