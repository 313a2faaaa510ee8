"""Filtering, counting and ordering packages: one pass over the index.

Packages of one name in several catalogs are one match; the catalog with the best rank is shown.
`catalogs.views.forms` turns a query string into `Filters`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from django.apps import apps
from django.db.models import QuerySet

from catalogs.install_methods import InstallMethod
from catalogs.search.index import (
    COUNTED,
    DIRECT,
    FACETS,
    INTERMEDIATE,
    MANY,
    NO,
    NO_UPGRADE,
    OF_PASSED,
    PACKAGE_FACETS,
    SEVERAL,
    SINGLE,
    SOME,
    UNKNOWN_UPGRADE,
    YES,
    PackageGroup,
    Row,
    SearchIndex,
)
from catalogs.search.matching import Hits, Score
from catalogs.search.query import SearchQuery, most_alike, parse_query
from olmweb.models import Cluster
from olmweb.web.revisions import PerRevision

PAGE_SIZE = 18
SORTS = (
    *("relevance", "name", "-name", "updated"),
    *("-channels", "channels", "-versions", "versions"),
)
_COUNTS: dict[str, Callable[[Row], int]] = {
    "channels": lambda row: row.channel_count,
    "versions": lambda row: row.bundle_count,
}
FAILED = "failed"  # asked for on a cluster, but no attempt got it installed
ANSWERS = {
    "installable": tuple(f"{path}{mark}" for mark in ("", "-unknown") for path in InstallMethod),
    "catalogs": (SEVERAL, SINGLE),
    "versions": (MANY, "2", "1", "0"),
    "upgrade_path": (DIRECT, INTERMEDIATE, NO_UPGRADE, UNKNOWN_UPGRADE),
    "deprecated": (YES, SOME, NO),
    "installed": (YES, FAILED, NO),
}
# Values of installs.models.Health: a failed attempt is not an installation, it needs attention.
NOT_INSTALLED = frozenset({"Failed", "Blocked"})
INSTALLED = "installed"  # changes with clusters, not with catalogs: counted apart from the index


@dataclass(frozen=True, slots=True)
class Filters:
    """The chosen filters. Values of one facet widen the result, facets narrow it."""

    q: str = ""
    chosen: Mapping[str, frozenset[str]] = field(default_factory=dict)  # facet to values
    sort: str = "relevance"

    @property
    def query(self) -> SearchQuery:
        return parse_query(self.q)

    @property
    def empty(self) -> bool:
        return not self.q and not self.chosen


class OperatorState(NamedTuple):
    """Health of an operator, and the catalog that it names; empty for an unknown catalog, the
    namespace also where the object has none."""

    health: str
    catalog: str
    catalog_namespace: str


@dataclass(frozen=True, slots=True)
class Installation:
    """Where a package is installed. `url_namespace` is `-` for objects without a namespace."""

    cluster: str
    kind: str
    namespace: str
    name: str
    version: str
    health: str
    bundle: str
    channel: str
    catalog: str
    catalog_namespace: str

    @property
    def url_namespace(self) -> str:
        return self.namespace or "-"


@dataclass(frozen=True, slots=True)
class PackageMatch:
    """A package name that passed: the row to show, all its sources, and the fields in which the
    sources differ when they are not the same package."""

    row: Row
    sources: tuple[Row, ...]
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """Every match in order. `counts` maps facet to value to the number of package names that
    choosing the value would show, given the other filters."""

    matches: tuple[PackageMatch, ...]
    counts: Mapping[str, Mapping[str, int]]
    names: int  # package names in all catalogs


def _operators(*packages: str) -> QuerySet[Any]:
    """Operators with a package, or with one of these. By the app registry: catalogs must not import
    installs."""
    rows = apps.get_model("installs", "Operator")._default_manager.order_by()
    return rows.filter(package__in=packages) if packages else rows.exclude(package="")


def installed_packages(clusters: Iterable[Cluster]) -> dict[str, str]:
    """Package name -> YES or FAILED, of those that any of the clusters has."""
    answers: dict[str, str] = {}
    for packages in _STATES.of(clusters).values():
        for package, states in packages.items():
            if answers.get(package) != YES:
                failed = all(state.health in NOT_INSTALLED for state in states)
                answers[package] = FAILED if failed else YES
    return answers


def installed_states(
    clusters: Sequence[Cluster], names: Iterable[str]
) -> dict[str, dict[OperatorState, list[str]]]:
    """Package name -> state -> names of the clusters that report it, of these packages; the
    clusters are in the order given."""
    packages = _STATES.of(clusters)
    states: dict[str, dict[OperatorState, list[str]]] = {}
    for cluster in clusters:
        for name in names:
            for state in sorted(packages[cluster.pk].get(name, ())):
                states.setdefault(name, {}).setdefault(state, []).append(cluster.name)
    return states


def _read_states(ids: Collection[int]) -> dict[int, dict[str, set[OperatorState]]]:
    """Cluster id -> package name -> states of its operators of the package; one query."""
    states: dict[int, dict[str, set[OperatorState]]] = {pk: {} for pk in ids}
    rows = _operators().filter(cluster__in=ids)
    for cluster, package, *state in rows.values_list("cluster", "package", *OperatorState._fields):
        states[cluster].setdefault(package, set()).add(OperatorState(*state))
    return states


_STATES = PerRevision(_read_states)


def installations_of(package: str) -> tuple[Installation, ...]:
    """Where a package is installed; one query."""
    fields = (
        "cluster__name",
        "kind",
        "namespace",
        "name",
        "version",
        "health",
        "bundle",
        "channel",
        "catalog",
        "catalog_namespace",
    )
    rows = _operators(package).order_by(*fields[:4]).values_list(*fields)
    return tuple(Installation(*values) for values in rows)


def find_packages(
    index: SearchIndex,
    filters: Filters,
    installed: Mapping[str, str],
    hits: Hits | None = None,
) -> Result:
    """Packages that pass `filters` and are among `hits` (None: all), with the facets' counts.
    `installed` is that of installed_packages."""
    names = list(FACETS)
    chosen = dict(filters.chosen)
    if "catalog" in chosen:
        chosen["catalog"] = frozenset(index.sources.get(slug, slug) for slug in chosen["catalog"])
    active = [(names.index(key), values) for key, values in chosen.items() if key in FACETS]
    wanted = {key: values for key, values in chosen.items() if key not in FACETS}
    scores = hits.scores if hits else None
    every = scores is None and not filters.chosen  # the index has the counts
    counted: list[list[Iterable[str]]] = [[] for _ in range(COUNTED)]
    of_packages = {name: Counter[str]() for name in (INSTALLED, *PACKAGE_FACETS)}
    of_packages[INSTALLED].update(dict.fromkeys(ANSWERS[INSTALLED], 0))
    matches = []
    for group in index.groups:
        varies = bool(wanted) and not group.varying.isdisjoint(wanted)
        passed, near = _sift(group, scores, active, every=varies)
        if not (passed or near):
            continue
        of_package = group.package_values_of(passed) if passed else group.package_values
        answers = {INSTALLED: installed.get(group.rows[0].name, NO), **of_package}
        refusing = [name for name, values in wanted.items() if answers[name] not in values]
        if passed and len(refusing) < 2:
            for name in refusing or answers:
                of_packages[name][answers[name]] += 1
        if passed and not refusing:
            matches.append(PackageMatch(passed[0], group.rows, group.differs))
        if every or any(not varies or name not in OF_PASSED for name in refusing):
            continue
        if varies:
            _count_by_value(counted, group, passed, near, wanted)
        else:
            _count(counted, group, passed, near)
    counts: Sequence[Mapping[str, int]] = (
        index.counts if every else [Counter(chain.from_iterable(tally)) for tally in counted]
    )
    return Result(
        matches=tuple(_ordered(matches, filters.sort, scores)),
        counts={**dict(zip(names, counts, strict=False)), **of_packages},
        names=len(index.groups),
    )


def find_rows(index: SearchIndex, hits: Hits | None) -> list[Row]:
    """The rows that `find_packages` shows for a search without filters, most relevant first; no
    facet is counted."""
    scores = hits.scores if hits else None
    matches = [
        PackageMatch(passed[0], group.rows)
        for group in index.groups
        if (passed := _sift(group, scores, [])[0])
    ]
    return [match.row for match in _ordered(matches, SORTS[0], scores)]


def nearest_names(index: SearchIndex, words: Sequence[str], limit: int = 5) -> list[Row]:
    """Packages with names similar to `words`, best first."""
    if not words:
        return []
    rows = [index.by_words[name] for name in most_alike(" ".join(words), index.pairs, 2 * limit)]
    return list({row.id: row for row in rows}.values())[:limit]


def _count(
    counted: Sequence[list[Iterable[str]]],
    group: PackageGroup,
    passed: Sequence[Row],
    near: Sequence[tuple[int, Row]],
) -> None:
    """Appends the values for which the group counts, per counted facet."""
    if len(passed) == len(group.rows):
        for tally, values in zip(counted, group.values, strict=True):
            tally.append(values)
        return
    by_position: dict[int, set[str]] = {}
    for row in passed:
        for position, row_values in enumerate(row.values[:COUNTED]):
            by_position.setdefault(position, set()).update(row_values)
    for position, row in near:
        if position < COUNTED:
            by_position.setdefault(position, set()).update(row.values[position])
    for position, group_values in by_position.items():
        counted[position].append(group_values)


def _count_by_value(
    counted: Sequence[list[Iterable[str]]],
    group: PackageGroup,
    passed: Sequence[Row],
    near: Sequence[tuple[int, Row]],
    wanted: Mapping[str, frozenset[str]],
) -> None:
    """As `_count`, where the value that is chosen decides which rows pass, and these the values of
    OF_PASSED, of which some are `wanted`."""
    passing = {row.id for row in passed}
    refused_at = {row.id: position for position, row in near}
    for position, tally in enumerate(counted):
        by_value: dict[str, list[Row]] = {}
        for row in group.rows:
            if row.id in passing or refused_at.get(row.id) == position:
                for value in row.values[position]:
                    by_value.setdefault(value, []).append(row)
        tally.append(
            value
            for value, rows in by_value.items()
            if all(OF_PASSED[name](rows) in wanted[name] for name in OF_PASSED if name in wanted)
        )


def _sift(
    group: PackageGroup,
    scores: Mapping[int, Score] | None,
    active: list[tuple[int, frozenset[str]]],
    *,
    every: bool = False,
) -> tuple[Sequence[Row], Sequence[tuple[int, Row]]]:
    """Rows that pass, and rows that only one facet (its position is given) refused; of these one
    where all rows of the group have the same values in that facet, unless `every` is wanted."""
    rows: Sequence[Row] = group.rows
    # Copies of a catalog repeat one another: where all rows are alike, one decides for all.
    refused = [
        at for at, values in active if at in group.alike and values.isdisjoint(rows[0].values[at])
    ]
    if len(refused) > 1:
        return (), ()
    if scores is not None:
        rows = [row for row in rows if row.id in scores]
    varied = [(at, values) for at, values in active if at not in group.alike]
    if not (refused or varied):
        return rows, ()
    passed: list[Row] = []
    near: list[tuple[int, Row]] = []
    for row in rows:
        refusing = refused + [at for at, values in varied if values.isdisjoint(row.values[at])]
        if not refusing:
            passed.append(row)
        elif len(refusing) == 1:
            near.append((refusing[0], row))
            if refused and not every:
                break
    return passed, near


def _ordered(
    matches: list[PackageMatch], sort: str, scores: Mapping[int, Score] | None
) -> list[PackageMatch]:
    """Relevance without a search is the order of names, which the index already has."""
    if sort == "-name":
        return matches[::-1]
    if sort == "updated":
        matches.sort(key=lambda m: -m.row.updated.timestamp() if m.row.updated else 0.0)
    elif sort.lstrip("-") in _COUNTS:
        count = _COUNTS[sort.lstrip("-")]
        matches.sort(key=lambda match: count(match.row), reverse=sort.startswith("-"))
    elif sort == "relevance" and scores is not None:
        # The best score of all sources: the shown catalog may have shorter texts.
        matches.sort(
            key=lambda match: (
                min(scores[row.id] for row in match.sources if row.id in scores),
                match.row.name,
            )
        )
    return matches
