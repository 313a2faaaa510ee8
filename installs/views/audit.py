"""The audit: the share of a catalog that a cluster can install, and the outcomes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from catalogs import lookup
from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog
from catalogs.verdicts.facts import WatchTarget
from catalogs.verdicts.read import ANY_TARGET
from catalogs.views import forms, presenters
from catalogs.views.forms import ALONE
from installs.audit.audit import WATCHES, Audit, AuditRow, NamespaceChecks, audit, read_watch
from installs.audit.report import TITLES, agreement
from installs.queries.overview import arcs_of
from olmweb.accounts.roles import may_act
from olmweb.errors import Missing
from olmweb.models import LOCAL, Cluster
from olmweb.web.context import clusters
from olmweb.web.forms import OptionField, QueryForm, TextField, read_page
from olmweb.web.pages import render_page
from olmweb.web.pagination import paginate

ROWS = 20  # of the table on one page
ACTUAL = 10  # operators beside their predictions
OK = "installable"  # the bucket without a rule
WORDS = {
    None: "all namespaces or its own",
    WatchTarget.ALL: "all namespaces",
    WatchTarget.OWN: "its own namespace",
    WatchTarget.SINGLE: "another namespace",
    WatchTarget.MULTI: "several namespaces",
    WatchTarget.MIXED: "its own and other namespaces",
}
ARCS = {"installable": "healthy", "not_installable": "failed", "unknown": "unknown"}


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """The parameters of the audit."""

    catalog: Catalog
    path: InstallMethod
    cluster: Cluster | None
    target: WatchTarget | None
    namespace: str
    bucket: str
    q: str


@require_safe
def audit_page(request: HttpRequest) -> HttpResponse:
    """Pickers as a plain GET form; filters by bucket and text in the URL."""
    # Catalogs of no cluster come last in every database: the first catalog is the default. Of twins
    # the ClusterCatalog comes first: a CatalogSource may tell its channels' heads alone.
    catalogs = list(
        Catalog.objects.filter(revision__gt=0)
        .select_related("cluster")
        .order_by(F("cluster__name").asc(nulls_last=True), "-package_count", "-source_kind", "slug")
    )
    notices: list[str] = []
    context: dict[str, Any] = {
        "notices": notices,
        "catalogs": catalogs,
        "methods": tuple(InstallMethod),
    }
    if catalogs:
        query = read_query_string(request, catalogs, notices)
        clusters_offered = (None, query.catalog.cluster_id, query.cluster and query.cluster.pk)
        context["catalogs"] = [row for row in catalogs if row.cluster_id in clusters_offered]
        context |= _context(request, query, notices)
    return render_page(request, "installs/audit.html", context)


class AuditForm(QueryForm):
    catalog = TextField()
    path = OptionField("path", tuple(InstallMethod))
    cluster = TextField()
    watch = OptionField("watch", WATCHES)
    namespace = TextField(max_length=63)
    bucket = TextField()
    q = TextField(max_length=forms.MAX_QUERY)


def read_query_string(
    request: HttpRequest, catalogs: Sequence[Catalog], notices: list[str]
) -> AuditQuery:
    """The parameters; an unknown catalog or cluster becomes a notice."""
    values = AuditForm(request.GET, notices).cleaned_data
    catalog = _catalog(values["catalog"], catalogs, notices)
    by_name = {cluster.name: cluster for cluster in clusters(request)}
    name = values["cluster"] or (catalog.cluster.name if catalog.cluster else ALONE)
    if catalog.cluster and name in by_name:  # a cluster has verdicts of its own catalogs
        own = (by_name[name].pk, catalog.slug)
        catalog = next((row for row in catalogs if (row.cluster_id, row.slug) == own), catalog)
    if name != ALONE and name not in by_name:
        notices.append(f"There is no cluster “{name[:60]}”: verdicts are those without a cluster.")
    return AuditQuery(
        catalog,
        InstallMethod(values["path"]),
        by_name.get(name),
        read_watch(values["watch"]),
        values["namespace"],
        values["bucket"],
        values["q"],
    )


def _catalog(name: str, catalogs: Sequence[Catalog], notices: list[str]) -> Catalog:
    cluster, _, slug = name.rpartition("/")
    if name:
        try:
            wanted = lookup.get_catalog(cluster or LOCAL, slug)
        except Missing as error:
            notices.append(f"{error.message} {catalogs[0]} is shown.")
        else:
            return next((catalog for catalog in catalogs if catalog.pk == wanted.pk), wanted)
    return catalogs[0]


def _context(request: HttpRequest, query: AuditQuery, notices: list[str]) -> dict[str, Any]:
    result = audit(
        query.catalog,
        query.path,
        cluster=query.cluster,
        target=query.target,
        namespace=query.namespace,
    )
    rows = _narrow(result, query)
    page = paginate(rows, read_page(request.GET, notices), ROWS, notices)
    agreed = agreement(result)
    return {
        "query": query,
        "audit": result,
        "arcs": arcs_of([(TITLES[key], ARCS[key], n) for key, n in result.counts.items() if n]),
        "buckets": _buckets(result),
        "page": page,
        "urls": {row.package: _url(query.catalog, row.package) for row in page},
        "agreed": agreed,
        "compared": bool(result.actual),
        "differing": [outcome for outcome in result.actual if outcome.agrees is False][:ACTUAL],
        "actual_shown": result.actual[:ACTUAL],
        "clusters": clusters(request),
        "exports": _exports(query),
        "may_install": query.cluster is not None and may_act(request.user)[0],
        "catalog_key": f"{query.catalog.cluster_name}/{query.catalog.slug}",
        "groups": _groups(query),
        "watches": {watch: WORDS[read_watch(watch)] for watch in WATCHES},
        "watch": query.target.value if query.target else ANY_TARGET,
        "group_words": WORDS[result.target],
        "filtered": bool(query.bucket or query.q),
    }


def _groups(query: AuditQuery) -> list[tuple[str, str]]:
    """(namespace, words) of the OperatorGroups of the cluster and of the requested namespace."""
    if query.cluster is None or query.path != InstallMethod.SUBSCRIPTION:
        return []
    checks = NamespaceChecks(query.cluster)
    groups = {namespace: checks.of(namespace) for namespace in (*checks.groups, query.namespace)}
    return [
        (name, f"{name} ({WORDS[check.target]})" if check.target else f"{name} (none that counts)")
        for name, check in sorted(groups.items())
        if name
    ]


def _narrow(result: Audit, query: AuditQuery) -> list[AuditRow]:
    rule = "" if query.bucket == OK else query.bucket
    words = query.q.lower()
    return [
        row
        for row in result.rows
        if (not query.bucket or row.prediction.rule == rule)
        and (not words or words in f"{row.package} {row.prediction.sentence}".lower())
    ]


def _buckets(result: Audit) -> list[dict[str, Any]]:
    most = max((len(bucket.packages) for bucket in result.buckets), default=1)
    return [
        {
            "bucket": bucket,
            "key": bucket.rule or OK,
            "count": len(bucket.packages),
            "width": f"{max(1, len(bucket.packages) * 100 / most):.1f}",
            "css": ARCS[bucket.verdict.value],
        }
        for bucket in result.buckets
    ]


def _url(catalog: Catalog, package: str) -> str:
    return presenters.package_url(catalog.cluster_name, catalog.slug, package)


def _exports(query: AuditQuery) -> list[tuple[str, str]]:
    """(name, query string) of the same audit from the REST interface."""
    params = {"catalog": str(query.catalog), "method": query.path.value}
    params |= {"cluster": query.cluster.name} if query.cluster else {}
    if query.path == InstallMethod.SUBSCRIPTION:
        of = {"namespace": query.namespace} if query.namespace and query.cluster else {}
        params |= of or {"target": query.target.value if query.target else ANY_TARGET}
    return [
        (name, urlencode({**params, "format": form}))
        for name, form in (("CSV", "csv"), ("JSON", "json"), ("Markdown", "md"))
    ]
