"""What every page's shell shows: the clusters, how fresh they are, what needs attention.

At most two queries a request, and none for a fragment that does not use them.
"""

from typing import Any

from django.apps import apps
from django.conf import settings
from django.db.models import Count
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from olmweb.models import Cluster


def clusters(request: HttpRequest) -> list[Cluster]:
    """All clusters by name, read once a request."""
    rows: list[Cluster] | None = getattr(request, "_olmweb_clusters", None)
    if rows is None:
        rows = list(Cluster.objects.order_by("name"))
        request._olmweb_clusters = rows  # type: ignore[attr-defined]
    return rows


def attention(request: HttpRequest) -> dict[int, int]:
    """Cluster id -> number of its operators that need attention, read once a request."""
    counts: dict[int, int] | None = getattr(request, "_olmweb_attention", None)
    if counts is None:
        # By name: pages of catalogs use this module, and catalogs must not import installs.
        installs: Any = apps.get_app_config("installs").models_module
        failing = {"health__in": installs.NEEDS_ATTENTION}
        rows = installs.Operator.objects.filter(**failing).order_by()
        pairs = rows.values_list("cluster").annotate(number=Count("pk"))
        counts = dict(pairs.values_list("cluster", "number"))
        request._olmweb_attention = counts  # type: ignore[attr-defined]
    return counts


def _switcher(request: HttpRequest) -> list[dict[str, Any]]:
    failing = attention(request) if clusters(request) else {}
    return [
        {"cluster": c, "attention": failing.get(c.pk, 0), "state": _state(c, failing.get(c.pk, 0))}
        for c in clusters(request)
    ]


def _state(cluster: Cluster, failing: int) -> str:
    """The dot's word: silent, waiting, attention or healthy."""
    if cluster.stale:
        return "silent"
    if cluster.synced_at is None:
        return "waiting"
    return "attention" if failing else "healthy"


def shell(request: HttpRequest) -> dict[str, Any]:
    """`shell_clusters`: [{cluster, attention, state}]; `shell_attention`: their sum."""
    if not hasattr(request, "user"):
        return {"shell_clusters": [], "shell_attention": 0}
    readable = request.user.is_authenticated or settings.PUBLIC_READ
    rows = SimpleLazyObject(lambda: _switcher(request) if readable else [])
    return {
        "shell_clusters": rows,
        "shell_attention": SimpleLazyObject(lambda: sum(row["attention"] for row in rows)),
        "shell_readable": readable,
    }
