"""One search over everything that has a page: operators, packages, bundles, APIs, CRDs, cluster
operators, clusters, catalogs and the pages themselves.

Every group is bounded. Packages and APIs come from the index of packages in memory; the other
groups are one query each. Names that equal the text come first, then those that begin with it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from django.db.models import Case, IntegerField, Model, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from catalogs.models import Bundle, Catalog, distinct_catalogs
from catalogs.search.find import find_rows
from catalogs.search.index import PackageGroup, Row, catalog_stamps, current_index
from catalogs.search.matching import find_hits
from catalogs.search.query import IMAGE, parse_query
from catalogs.views.presenters import bundle_url, package_url
from installs.diagnosis.approvals import listing
from installs.models import ClusterOperator, CRDState, Operator
from installs.queries import search
from olmweb.models import Cluster
from olmweb.web.pages import render_page

Named = TypeVar("Named", bound=Model)  # with a field `name`

SHOWN = 6  # of each group
SHOWN_TYPED = 3  # below the search box, while one types
TYPED_TARGET = "search-results"  # the element below the box; see static/src/search.js
TEXT_LIMIT = 200  # characters of the text
BUNDLES_OF = 50  # packages whose bundles are searched
CATALOGS_NAMED = 3  # of a package; of more the number
# (words, address) of the pages of the navigation and the menu.
PAGES = (
    ("Overview", "overview"),
    ("Status report", "installs:report"),
    ("Software catalog", "catalogs:software"),
    ("Installed operators", "installs:operators"),
    ("Cluster operators", "installs:clusteroperators"),
    ("Upgrade readiness", "installs:readiness"),
    ("Migration from OLM v0 to OLM v1", "installs:takeover"),
    ("CRDs: CustomResourceDefinitions", "installs:crds"),
    ("Audit of a catalog", "installs:audit"),
    ("Catalogs", "catalogs:catalog-list"),
    ("Compare catalogs", "catalogs:compare"),
    ("Activity: actions, install requests and sync runs", "installs:activity"),
    ("Install requests", "installs:requests"),
    ("Copied CSVs: ClusterServiceVersions", "installs:copies"),
    ("Preferences", "account"),
    ("API tokens", "account-tokens"),
    ("Help", "help"),
)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One result: its name, more about it, its page, and the health of an operator."""

    name: str
    more: str
    url: str
    health: str = ""


@dataclass(frozen=True, slots=True)
class ResultGroup:
    """The first SHOWN results of one kind; `all_url` is the list of all when there are more."""

    title: str
    results: tuple[SearchResult, ...]
    all_url: str = ""


@require_safe
def search_page(request: HttpRequest) -> HttpResponse:
    """The results by group; for the search box of a page the first of each group, as options."""
    text = request.GET.get("q", "").strip()[:TEXT_LIMIT]
    typed = request.headers.get("HX-Target") == TYPED_TARGET
    groups = search_everything(text, SHOWN_TYPED if typed else SHOWN)
    context = {
        "q": text,
        "groups": groups,
        "total": sum(len(group.results) for group in groups),
        "software_url": reverse("catalogs:software", query={"q": _software_query(text)}),
    }
    return render_page(
        request, "installs/search.html", context, partial="typed" if typed else "results"
    )


def _software_query(text: str) -> str:
    """The same search in the software catalog, which finds images only by their prefix."""
    is_image = " " not in text and ("/" in text or text.startswith("sha256:"))
    return f"{IMAGE}{text}" if is_image else text


def search_everything(text: str, most: int = SHOWN) -> list[ResultGroup]:
    """The groups with results, `most` (up to SHOWN) of each; nothing for an empty text. At most
    nine queries."""
    text = " ".join(text.split())
    if not text:
        return []
    groups = [
        _operators(text),
        *_of_catalogs(text),
        _cluster_operators(text),
        _crds(text),
        _clusters(text),
        _catalogs(text),
        _pages(text),
    ]
    return [replace(group, results=group.results[:most]) for group in groups if group.results]


def _first(
    title: str, results: Iterable[SearchResult], all_page: str = "", **params: str
) -> ResultGroup:
    """The first of the results, which are one more than shown if there are more."""
    rows = tuple(results)
    more = len(rows) > SHOWN and all_page
    return ResultGroup(title, rows[:SHOWN], reverse(all_page, query=params) if more else "")


def _ranked(rows: QuerySet[Named], text: str) -> QuerySet[Named]:
    """The first rows: those whose name is the text, those that begin with it, then the others."""
    rank = Case(
        When(name__iexact=text, then=Value(0)),
        When(name__istartswith=text, then=Value(1)),
        default=Value(2),
        output_field=IntegerField(),
    )
    return rows.order_by(rank, "name", "pk")[: SHOWN + 1]


def _operators(text: str) -> ResultGroup:
    rows = search(Operator.objects.all(), text, "name", "package", "namespace")
    return _first(
        "Installed operators",
        (
            SearchResult(
                row.name,
                " ".join(filter(None, (row.kind, row.namespace, f"on {row.cluster.name}"))),
                reverse(
                    "installs:operator",
                    args=(row.cluster.name, row.kind, row.namespace or "-", row.name),
                ),
                row.health,
            )
            for row in _ranked(rows.select_related("cluster"), text)
        ),
        "installs:operators",
        view="all",
        q=text,
    )


def _of_catalogs(text: str) -> list[ResultGroup]:
    """Packages, their bundles, the APIs that packages provide, and the comparisons of packages of
    several catalogs; two queries."""
    index = current_index(catalog_stamps())
    rows = find_rows(index, find_hits(index, parse_query(text)))
    sources = _sources(rows[: SHOWN + 1], index.groups)
    return [
        _first(
            "Packages",
            (
                SearchResult(
                    row.title,
                    _of(row, sources[row.name]),
                    package_url(row.cluster, row.catalog, row.name),
                )
                for row in rows[: SHOWN + 1]
            ),
            "catalogs:software",
            q=text,
        ),
        _bundles(text, rows),
        _apis(text, index.groups),
        _comparisons([row.name for row in rows[:SHOWN]], sources),
    ]


def _of(row: Row, sources: Sequence[Row]) -> str:
    name = f"{row.name} " if row.title != row.name else ""
    return f"{name}{row.head_version} in {_catalogs_of(sources)}"


def _sources(rows: Iterable[Row], groups: Iterable[PackageGroup]) -> dict[str, list[Row]]:
    """Name of a package -> its rows, one of each catalog."""
    names = {row.name for row in rows}
    sources: dict[str, list[Row]] = defaultdict(list)
    for group in groups:
        if group.rows[0].name in names:
            sources[group.rows[0].name] += _one_of_each_catalog(group.rows)
    return sources


def _bundles(text: str, packages: list[Row]) -> ResultGroup:
    ids = [row.id for row in packages[:BUNDLES_OF]]
    rows = Bundle.objects.filter(package__in=ids, name__icontains=text)
    rows = rows.select_related("package__catalog__cluster").only(
        "name", "version", "package__name", "package__catalog"
    )
    return _first(
        "Bundles",
        (
            SearchResult(
                row.name,
                f"{row.version} in {row.package.catalog.slug}",
                bundle_url(row.package, row.name),
            )
            for row in _ranked(rows, text)
        ),
    )


def _apis(text: str, groups: Iterable[PackageGroup]) -> ResultGroup:
    """APIs by kind or by the name of the group. The result leads to the package that provides the
    API and names every catalog that has it with the API; of several packages it says the number,
    and leads to their list."""
    wanted = text.casefold()
    providers: dict[str, list[Row]] = defaultdict(list)
    for group in groups:
        # Sources of one package mostly provide the same: each API is compared with the text once.
        of_group = set(chain.from_iterable({row.provides for row in group.rows}))
        for api in [api for api in of_group if wanted in api.casefold()]:
            rows = (row for row in group.rows if api in row.provides)
            providers[api] += _one_of_each_catalog(rows)

    def order(api: str) -> tuple[bool, str]:
        return not api.rpartition("/")[2].casefold().startswith(wanted), api

    return _first(
        "APIs",
        (_api(api, providers[api]) for api in sorted(providers, key=order)[:SHOWN]),
    )


def _api(api: str, providers: Sequence[Row]) -> SearchResult:
    group, _, kind = api.rpartition("/")
    names = {row.name for row in providers}
    if len(names) == 1:
        row = providers[0]
        words = f"{group}, provided by {row.name} in {_catalogs_of(providers)}"
        return SearchResult(kind, words, package_url(row.cluster, row.catalog, row.name))
    words = f"{group}, provided by {len(names)} packages"
    return SearchResult(kind, words, reverse("catalogs:software", query={"provides": api}))


def _comparisons(names: Iterable[str], sources: Mapping[str, Sequence[Row]]) -> ResultGroup:
    """The comparison of each of these packages in the first two catalogs that have it."""
    several = [name for name in names if len(sources[name]) > 1]
    return _first(
        "Comparisons",
        (
            SearchResult(
                f"Compare {name}",
                f"in {first.catalog} and {second.catalog}",
                reverse(
                    "catalogs:compare",
                    query={"from": _address(first), "to": _address(second), "package": name},
                ),
            )
            for name in several
            for first, second in [sources[name][:2]]
        ),
    )


def _one_of_each_catalog(rows: Iterable[Row]) -> list[Row]:
    """The rows of one package, one of each catalog whatever its access methods, in their order."""
    by_source: dict[str, Row] = {}
    for row in rows:
        by_source.setdefault(row.source, row)
    return list(by_source.values())


def _catalogs_of(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(row.catalog for row in rows))
    return listing(names) if len(names) <= CATALOGS_NAMED else f"{len(names)} catalogs"


def _address(row: Row) -> str:
    """The catalog as `Catalog.__str__` writes it."""
    return f"{row.cluster}/{row.catalog}"


def _cluster_operators(text: str) -> ResultGroup:
    rows = search(ClusterOperator.objects.all(), text, "name")
    return _first(
        "Cluster operators",
        (
            SearchResult(
                row.name,
                f"on {row.cluster.name}",
                reverse("installs:clusteroperator", args=(row.cluster.name, row.name)),
            )
            for row in _ranked(rows.select_related("cluster"), text)
        ),
        "installs:clusteroperators",
        q=text,
    )


def _crds(text: str) -> ResultGroup:
    rows = search(CRDState.objects.all(), text, "name", "served_kind")
    return _first(
        "CRDs",
        (
            SearchResult(
                row.name,
                f"{row.served_kind} on {row.cluster.name}",
                reverse("installs:crds", query={"cluster": row.cluster.name, "q": row.name}),
            )
            for row in _ranked(rows.select_related("cluster"), text)
        ),
        "installs:crds",
        q=text,
    )


def _clusters(text: str) -> ResultGroup:
    rows = search(Cluster.objects.all(), text, "name")
    return _first(
        "Clusters",
        (
            SearchResult(row.name, row.version, reverse("installs:cluster", args=(row.name,)))
            for row in _ranked(rows, text)
        ),
        "overview",
    )


def _catalogs(text: str) -> ResultGroup:
    """Each catalog once, also if the cluster serves it as a ClusterCatalog and a CatalogSource."""
    found = search(Catalog.objects.all(), text, "name", "slug").select_related("cluster")
    places = {row: place for place, row in enumerate(_ranked(found, text))}
    groups = sorted(distinct_catalogs(places), key=lambda group: min(places[row] for row in group))
    return _first("Catalogs", map(_catalog, groups), "catalogs:catalog-list")


def _catalog(group: Sequence[Catalog]) -> SearchResult:
    row = group[-1]  # the ClusterCatalog, if there is one: all its content can be read
    kinds = " and ".join(dict.fromkeys(entry.source_kind for entry in reversed(group)))
    return SearchResult(
        row.name,
        f"{kinds} on {row.cluster_name}" if row.cluster else kinds,
        reverse("catalogs:catalog", args=(row.cluster_name, row.slug)),
    )


def _pages(text: str) -> ResultGroup:
    words = text.casefold().split()
    return _first(
        "Pages",
        (
            SearchResult(name, "", reverse(route))
            for name, route in PAGES
            if all(word in name.casefold() for word in words)
        ),
    )
