"""Context of the page shell: the clusters, their last sync, and their need for attention.

One query a request, and none for a fragment that does not use them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from django.apps import apps
from django.conf import settings
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from olmweb.models import CLUSTER_STATES, Cluster
from olmweb.web.preferences import html_classes, preferences_of

MENU_CLUSTERS = 12  # in the menu of every page
MENU_WORST = 4  # of more clusters than that
STATE_WORDS = {
    "silent": "not synced",
    "attention": "needing attention",
    "waiting": "in first sync",
    "healthy": "healthy",
    "removed": "removed from the configuration",
}


def clusters(request: HttpRequest) -> list[Cluster]:
    """All clusters by name without `kinds`, read once a request."""
    return _read(request)[0]


def clusters_with_kinds(request: HttpRequest) -> list[Cluster]:
    """`clusters` with `kinds`; one more query."""
    rows = clusters(request)
    kinds = dict(Cluster.objects.order_by().values_list("pk", "kinds"))
    for row in rows:
        row.kinds = kinds.get(row.pk, {})
    return rows


def attention(request: HttpRequest) -> dict[int, int]:
    """Cluster id -> number of its operators that need attention, read once a request."""
    return _read(request)[1]


def _read(request: HttpRequest) -> tuple[list[Cluster], dict[int, int]]:
    """The clusters by name, and `attention`; those without any, and removed ones, are left out of
    it."""
    result: tuple[list[Cluster], dict[int, int]] | None = getattr(request, "_olmweb_clusters", None)
    if result is None:
        rows = _with_attention().all()
        needing = [row for row in rows if row.attention and not row.removed]
        result = list(rows), {row.pk: row.attention for row in needing}
        request._olmweb_clusters = result  # type: ignore[attr-defined]
    return result


@cache
def _with_attention() -> QuerySet[Any]:
    """The clusters by name, with `attention`. Every page reads them: building this takes longer
    than reading."""
    # By name: pages of catalogs use this module, and catalogs must not import installs.
    installs: Any = apps.get_app_config("installs").models_module
    failing = installs.Operator.objects.filter(
        cluster=OuterRef("pk"), health__in=installs.NEEDS_ATTENTION
    )
    # COUNT(*): that of a column would read every row and not the index alone.
    number = failing.order_by().values("cluster").annotate(number=Count("*")).values("number")
    clusters = Cluster.objects.defer("kinds")  # decoding it takes as long as the rest
    return clusters.annotate(attention=Subquery(number)).order_by("name")


def default_cluster(request: HttpRequest) -> str:
    """The name of the person's default cluster; empty without one that is configured."""
    name = preferences_of(request).cluster
    return name if name and any(row.name == name for row in clusters(request)) else ""


def _switcher(request: HttpRequest) -> list[dict[str, Any]]:
    failing = attention(request)
    rows = []
    for cluster in clusters(request):
        count = failing.get(cluster.pk, 0)
        state = cluster.state(count)
        words = "unreachable" if cluster.unreachable else STATE_WORDS[state]
        rows.append({"cluster": cluster, "attention": count, "state": state, "words": words})
    return rows


def _query(cluster: str) -> str:
    return f"?{urlencode({'cluster': cluster}, quote_via=quote)}" if cluster else ""


def _menu(rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Those of the rows that the menu of clusters lists: all by name, or the worst of many."""
    if len(rows) <= MENU_CLUSTERS:
        return rows
    worst = sorted(rows, key=lambda row: (CLUSTER_STATES.index(row["state"]), -row["attention"]))
    return worst[:MENU_WORST]


def _states(rows: Iterable[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """(state, its words, how many clusters are in it), worst first."""
    counts = Counter(row["state"] for row in rows)
    return [(state, STATE_WORDS[state], counts[state]) for state in CLUSTER_STATES if counts[state]]


def _removed(request: HttpRequest, rows: Iterable[dict[str, Any]]) -> list[Cluster]:
    """The removed clusters that the path or the filter of the page names."""
    match = request.resolver_match
    names = {*request.GET.getlist("cluster"), match.kwargs.get("cluster") if match else None}
    of_page = (row["cluster"] for row in rows if row["cluster"].name in names)
    return [cluster for cluster in of_page if cluster.removed]


def shell(request: HttpRequest) -> dict[str, Any]:
    """`shell_clusters`: [{cluster, attention, state, words}]; `shell_cluster_choices`: (name, name)
    of the options of a select; `shell_menu`: those of the menu of clusters;
    `shell_attention`: how many operators need attention;
    `shell_states`: [(state, words, how many clusters)], worst first;
    `shell_silent`: the silent ones;
    `shell_removed`: those that the page is about and that are no longer configured;
    `shell_awaited`: whether clusters are configured: one without a row awaits its first sync;
    `shell_query`: the query string of the default cluster, for pages that take one;
    `shell_watcher_hint`: what to check about a cluster that is not synced and answered last;
    `shell_preferences`: of the person, `shell_classes`: of the root element for them;
    `shell_demo`: (name, password) of the accounts of a demo."""
    if not hasattr(request, "user"):
        names = ("clusters", "cluster_choices", "menu", "states", "silent", "removed")
        return {f"shell_{name}": [] for name in names} | {"shell_attention": 0}
    readable = request.user.is_authenticated or settings.PUBLIC_READ
    preferences = preferences_of(request)
    rows = SimpleLazyObject(lambda: _switcher(request) if readable else [])
    return {
        "shell_clusters": rows,
        "shell_cluster_choices": SimpleLazyObject(
            lambda: [(row["cluster"].name, row["cluster"].name) for row in rows]
        ),
        "shell_menu": SimpleLazyObject(lambda: _menu(list(rows))),
        "shell_attention": SimpleLazyObject(lambda: sum(row["attention"] for row in rows)),
        "shell_silent": SimpleLazyObject(lambda: [r for r in rows if r["state"] == "silent"]),
        "shell_removed": SimpleLazyObject(lambda: _removed(request, rows)),
        "shell_awaited": bool(settings.CLUSTERS),
        "shell_states": SimpleLazyObject(lambda: _states(rows)),
        "shell_query": SimpleLazyObject(lambda: _query(default_cluster(request))),
        "shell_watcher_hint": "The log of OLM Web says more."
        if settings.EMBEDDED
        else "Check that the watcher runs.",
        "shell_preferences": preferences,
        "shell_classes": html_classes(preferences),
        "shell_readable": readable,
        "shell_version": settings.VERSION,
        "shell_demo": settings.DEMO_LOGINS,
    }
