"""The software catalog: every package of every catalog merged by name, filtered and counted.

Owns the in-memory index that lists, facets and search read, and the order of results. Knows no
HTTP: `catalogs.forms` turns a query string into `Filters`.

The index is kept per process, not in the shared cache: it is read on every request, and taking
megabytes out of a cache costs more than filtering them. One small query on each request tells
whether it still fits the catalogs.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import get_close_matches
from itertools import groupby
from operator import attrgetter

from django.apps import apps
from django.db.models import Max

from catalogs.models import Catalog, CatalogChange, Package
from olmweb.models import LOCAL

PAGE_SIZE = 48
SORTS = ("relevance", "name", "-name", "updated")
YES, NO = "yes", "no"
FAILED = "failed"  # asked for on a cluster, but no attempt got it installed
ANSWERS = {"deprecated": (YES, NO), "installed": (YES, FAILED, NO)}


@dataclass(frozen=True, slots=True)
class Row:
    """One package of one catalog, with what a card shows."""

    id: int
    name: str
    catalog_id: int
    catalog: str  # slug
    cluster: str  # name, `-` when none
    display_name: str
    summary: str
    provider: str
    default_channel: str
    head_version: str
    icon: str  # sha256, empty when none
    categories: tuple[str, ...]
    keywords: tuple[str, ...]
    capability: str
    install_modes: tuple[str, ...]
    deprecated: bool
    channel_count: int
    bundle_count: int
    text: str  # what search looks in, lower case
    updated: datetime | None  # the last recorded change of this package
    rank: tuple[bool, int, str, str]  # the lowest of a name wins: serving, priority, names
    values: tuple[tuple[str, ...], ...] = ()  # per facet of FACETS

    @property
    def title(self) -> str:
        return self.display_name or self.name


FACETS: dict[str, Callable[[Row], tuple[str, ...]]] = {
    "catalog": lambda row: (row.catalog,),
    "cluster": lambda row: (row.cluster,),
    "category": lambda row: row.categories,
    "provider": lambda row: (row.provider,) if row.provider else (),
    "capability": lambda row: (row.capability,) if row.capability else (),
    "install_mode": lambda row: row.install_modes,
    "deprecated": lambda row: (YES if row.deprecated else NO,),
    "keyword": lambda row: row.keywords,
}
COUNTED = len(FACETS) - 1  # keywords, the last, filter only: there are thousands of them
NOT_INSTALLED = ("Failed", "Blocked")  # values of installs.models.Health
INSTALLED = "installed"  # changes with clusters, not with catalogs: counted apart from the index


@dataclass(frozen=True, slots=True)
class Group:
    """All rows of one package name, the winner first, and per facet the values they have."""

    rows: tuple[Row, ...]
    values: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Index:
    """Every package name with its rows, in the order of names."""

    token: tuple[object, ...]
    groups: tuple[Group, ...]

    @property
    def size(self) -> int:
        return sum(len(group.rows) for group in self.groups)


@dataclass(frozen=True, slots=True)
class Filters:
    """What a person chose. Values of one facet widen the result, facets narrow it."""

    q: str = ""
    chosen: Mapping[str, frozenset[str]] = field(default_factory=dict)  # facet to values
    sort: str = "relevance"

    @property
    def words(self) -> list[str]:
        return self.q.lower().split()

    @property
    def empty(self) -> bool:
        return not self.q and not self.chosen


@dataclass(frozen=True, slots=True)
class Installation:
    """Where a package is installed. `url_namespace` is `-` for objects without a namespace."""

    cluster: str
    kind: str
    namespace: str
    name: str
    version: str
    health: str

    @property
    def url_namespace(self) -> str:
        return self.namespace or "-"


@dataclass(frozen=True, slots=True)
class Match:
    """A package name that passed: the row to show, all its sources, where it is installed."""

    row: Row
    sources: tuple[Row, ...]
    installed: tuple[Installation, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """Every match in order. `counts` maps facet to value to number of package names: what choosing
    the value would show, given the other filters."""

    matches: tuple[Match, ...]
    counts: Mapping[str, Mapping[str, int]]
    names: int  # package names in all catalogs


_lock = threading.Lock()
_index: Index | None = None


def catalog_stamps() -> tuple[tuple[object, ...], ...]:
    """What tells that catalogs or clusters changed since a page was made; one query."""
    return tuple(
        Catalog.objects.order_by("id").values_list(
            *("id", "revision", "content_hash", "changed_at"),
            *("slug", "priority", "state", "cluster__name", "cluster__revision"),
        )
    )


def current_index(stamps: tuple[tuple[object, ...], ...]) -> Index:
    """The index of what `stamps` describe; reads the packages only when a catalog changed."""
    global _index
    token = tuple(stamp[:-1] for stamp in stamps)  # a cluster's state changes no package
    found = _index
    if found is not None and found.token == token:
        return found
    with _lock:
        if _index is None or _index.token != token:
            _index = _read_index(token)
        return _index


def installed_packages() -> dict[str, tuple[Installation, ...]]:
    """Package name to where it is installed; one query.

    The model is looked up by name because catalogs must not import installs.
    """
    operators = apps.get_model("installs", "Operator")
    found = (
        operators._default_manager.exclude(package="")
        .order_by("package", "cluster__name", "kind", "namespace", "name")
        .values_list(
            *("package", "cluster__name", "kind", "namespace", "name", "version", "health")
        )
    )
    return {
        package: tuple(Installation(*fields[1:]) for fields in group)
        for package, group in groupby(found, key=lambda fields: fields[0])
    }


def find_packages(
    index: Index, filters: Filters, installed: Mapping[str, tuple[Installation, ...]]
) -> Result:
    """Applies `filters` in one pass over `index`; counts facets on the way."""
    names = list(FACETS)
    active = [(names.index(key), values) for key, values in filters.chosen.items() if key in FACETS]
    wanted = filters.chosen.get(INSTALLED)
    words = filters.words
    counts: list[dict[str, int]] = [{} for _ in names[:COUNTED]]
    installed_counts = dict.fromkeys(ANSWERS[INSTALLED], 0)
    matches = []
    for group in index.groups:
        here = installed.get(group.rows[0].name, ())
        answer = _installed_answer(here)
        other_answer = wanted is not None and answer not in wanted
        passed, near = _sift(group.rows, words, active)
        if passed:
            installed_counts[answer] += 1
            if not other_answer:
                matches.append(Match(passed[0], group.rows, here))
        if other_answer or not (passed or near):
            continue
        for tally, values in zip(counts, _values(group, passed, near), strict=False):
            for value in values:
                tally[value] = tally.get(value, 0) + 1
    return Result(
        matches=tuple(_ordered(matches, filters)),
        counts={**dict(zip(names, counts, strict=False)), INSTALLED: installed_counts},
        names=len(index.groups),
    )


def _installed_answer(here: Sequence[Installation]) -> str:
    """A failed attempt is not an installation: saying so would hide what needs attention."""
    if not here:
        return NO
    return FAILED if all(each.health in NOT_INSTALLED for each in here) else YES


def nearest_names(index: Index, q: str, limit: int = 5) -> list[Row]:
    """Packages called nearly `q`, best first."""
    spoken: dict[str, Row] = {}
    for group in index.groups:
        spoken.setdefault(group.rows[0].name.lower(), group.rows[0])
        spoken.setdefault(group.rows[0].title.lower(), group.rows[0])
    close = get_close_matches(q.lower()[:60], spoken, n=2 * limit, cutoff=0.55)
    return list(dict.fromkeys(spoken[name] for name in close))[:limit]


def _values(
    group: Group, passed: Sequence[Row], near: Sequence[tuple[int, Row]]
) -> Iterable[Collection[str]]:
    """Per facet the values that the group counts for."""
    if len(passed) == len(group.rows):
        return group.values
    found: list[set[str]] = [set() for _ in group.values]
    for row in passed:
        for position, values in enumerate(row.values):
            found[position].update(values)
    for position, row in near:
        found[position].update(row.values[position])
    return found


def _sift(
    group: tuple[Row, ...], words: list[str], active: list[tuple[int, frozenset[str]]]
) -> tuple[Sequence[Row], list[tuple[int, Row]]]:
    """Rows of `group` that pass, and rows that only one facet (its position is given) refused."""
    if not words and not active:
        return group, []
    passed: list[Row] = []
    near: list[tuple[int, Row]] = []
    for row in group:
        if not all(word in row.text for word in words):
            continue
        refused = [at for at, values in active if values.isdisjoint(row.values[at])]
        if not refused:
            passed.append(row)
        elif len(refused) == 1:
            near.append((refused[0], row))
    return passed, near


def _ordered(matches: list[Match], filters: Filters) -> list[Match]:
    """Relevance without words is the order of names, which the index already has."""
    if filters.sort == "-name":
        return matches[::-1]
    if filters.sort == "updated":
        matches.sort(key=lambda match: _age(match.row.updated))
    elif filters.sort == "relevance" and filters.q:
        asked = " ".join(filters.words)
        matches.sort(key=lambda match: (_distance(match.row, asked), match.row.name))
    return matches


def _age(updated: datetime | None) -> float:
    return -updated.timestamp() if updated else 0.0


def _distance(row: Row, asked: str) -> int:
    """Exact name, then names that begin so, then display names, then the rest."""
    if row.name.lower() == asked:
        return 0
    if row.name.lower().startswith(asked):
        return 1
    if asked in row.display_name.lower():
        return 2
    return 3 if asked in row.name.lower() else 4


def _read_index(token: tuple[object, ...]) -> Index:
    changed = {
        (catalog, package): at
        for catalog, package, at in CatalogChange.objects.order_by()
        .values_list("revision__catalog_id", "package")
        .annotate(at=Max("revision__created_at"))
    }
    catalogs = {catalog.pk: catalog for catalog in Catalog.objects.select_related("cluster").all()}
    rows = sorted(_rows(catalogs, changed), key=attrgetter("name", "rank"))
    groups = (tuple(group) for _, group in groupby(rows, key=attrgetter("name")))
    return Index(token=token, groups=tuple(Group(each, _union(each)) for each in groups))


def _union(rows: tuple[Row, ...]) -> tuple[frozenset[str], ...]:
    return tuple(
        frozenset(value for row in rows for value in row.values[position])
        for position in range(len(FACETS))
    )


def _rows(
    catalogs: Mapping[int, Catalog], changed: Mapping[tuple[int, str], datetime]
) -> Iterable[Row]:
    fields = (
        *("id", "name", "catalog_id", "display_name", "summary", "provider", "default_channel"),
        *("head_version", "icon_id", "categories", "keywords", "capability", "install_modes"),
        *("deprecated", "channel_count", "bundle_count", "search_text"),
    )
    for found in Package.objects.order_by().values(*fields).iterator(chunk_size=2000):
        catalog = catalogs.get(found["catalog_id"])
        if catalog is None:  # synced between the two queries: the next request reads it
            continue
        plain = Row(
            id=found["id"],
            name=found["name"],
            catalog_id=catalog.pk,
            catalog=catalog.slug,
            cluster=catalog.cluster_name,
            display_name=found["display_name"],
            summary=found["summary"],
            provider=found["provider"],
            default_channel=found["default_channel"],
            head_version=found["head_version"],
            icon=found["icon_id"] or "",
            categories=_texts(found["categories"]),
            keywords=_texts(found["keywords"]),
            capability=found["capability"],
            install_modes=_texts(found["install_modes"]),
            deprecated=found["deprecated"],
            channel_count=found["channel_count"],
            bundle_count=found["bundle_count"],
            text=found["search_text"],
            updated=changed.get((catalog.pk, found["name"])),
            rank=(
                catalog.state == Catalog.State.DISABLED,
                -catalog.priority,
                catalog.slug,
                catalog.cluster.name if catalog.cluster else LOCAL,
            ),
        )
        yield replace(plain, values=tuple(values(plain) for values in FACETS.values()))


def _texts(values: object) -> tuple[str, ...]:
    """A JSON list of texts as a tuple without repeats; authors do repeat themselves."""
    if not isinstance(values, list):
        return ()
    return tuple(dict.fromkeys(str(value) for value in values if value))
