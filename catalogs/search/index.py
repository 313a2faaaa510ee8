"""The index of every package of every catalog, in memory, for lists, facets and search.

Each process has its own index instead of one in the shared cache: every request reads it, and
taking megabytes out of a cache costs more than filtering them. One small query on each request
tells whether it is still current; only the catalogs that changed are read again. Packages of one
name are one group, with the fields in which they differ when they are not the same package.
"""

import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property
from itertools import chain
from operator import attrgetter
from sys import intern
from typing import Any, NamedTuple, Protocol, TypeVar

from django.db.models import F, Max, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Coalesce

from catalogs.fbc.package_texts import fold, words_of
from catalogs.install_methods import InstallMethod
from catalogs.models import (
    Catalog,
    CatalogChange,
    Package,
    Prediction,
    PredictionRun,
    distinct_catalogs,
    source_slugs,
)
from catalogs.search.query import Vocabulary, pairs_of
from catalogs.sources.access_methods import PACKAGE_MANIFEST
from catalogs.verdicts.read import TARGETS, MethodVerdict, over_targets
from catalogs.verdicts.rules import Verdict
from olmweb.models import LOCAL

YES, NO = "yes", "no"
SOME = "some"  # catalogs mark the package as deprecated, others don't
SEVERAL, SINGLE = "several", "single"
MANY = "3-or-more"
# Upgrades by OLM v0 in the default channel: one step from each version that has any, over
# intermediate versions from some, not from any, not known.
DIRECT, INTERMEDIATE, NO_UPGRADE, UNKNOWN_UPGRADE = "direct", "intermediate", "none", "unknown"
_VERSION = re.compile(r"[.-]?v?\d+\.\d+.*$", re.DOTALL)
_COMPANY = {"inc", "llc", "ltd", "gmbh", "ag", "corp", "corporation", "limited", "co", "the", "by"}
CONTENTS_AT_ONCE = 2000  # packages in one query
LEAST_COMMON = 0.2  # share of common words in two summaries of one package
Key = TypeVar("Key")


class CatalogStamp(NamedTuple):
    """What tells whether the rows of a catalog are current, and where the catalog belongs."""

    pk: int
    revision: int
    content_hash: str
    changed_at: str | None  # as text, which is only compared: a date takes longer to read
    verdicts_changed_at: str | None  # of the verdicts that rows have
    slug: str
    name: str
    namespace: str
    source_kind: str
    priority: int
    state: str
    access_method: str
    cluster_id: int | None
    cluster: str  # name, `-` when none
    cluster_revision: int | None

    @property
    def content(self) -> tuple[object, ...]:
        """What the rows of the catalog are made from, but for the verdicts."""
        return (
            *(self.revision, self.content_hash, self.changed_at),
            *(self.slug, self.priority, self.disabled, self.cluster),
        )

    @property
    def disabled(self) -> bool:
        return self.state == Catalog.State.DISABLED


Stamps = tuple[CatalogStamp, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SearchText:
    """The searched texts of a package, words with a space before each; shared by equal packages."""

    name: str
    title: str
    keywords: str
    kinds: str
    provider: str
    categories: str


class Content(NamedTuple):
    """Tells packages apart that are read alike."""

    hash: str
    access_method: str  # of the catalog


@dataclass(frozen=True, slots=True)
class Row:
    """One package of one catalog, with what a card shows."""

    id: int
    name: str
    content: Content
    catalog_id: int
    catalog: str  # slug
    source: str  # slug that stands for all access methods of the catalog
    cluster: str  # name, `-` when none
    display_name: str
    summary: str
    provider: str
    default_channel: str
    head_bundle: str
    head_version: str
    icon: str  # sha256, empty when none
    categories: tuple[str, ...]
    keywords: tuple[str, ...]
    capability: str
    install_modes: tuple[str, ...]
    infrastructure_features: tuple[str, ...]
    deprecated: bool
    channel_count: int
    bundle_count: int
    provides: tuple[str, ...]  # GROUP/KIND of the head bundle
    provided_before: tuple[str, ...]  # GROUP/KIND of other bundles only
    repositories: tuple[str, ...]  # of all images of all bundles
    # Versions of the longest series of upgrades in the default channel; None if not known.
    upgrade_path: tuple[str, ...] | None
    search_text: SearchText
    updated: datetime | None  # the last recorded change of this package
    rank: tuple[bool, int, str, str]  # the lowest of a name wins: serving, priority, names
    verdicts: tuple[MethodVerdict, ...] = ()  # on the bundle that each install method would choose
    values: tuple[tuple[str, ...], ...] = ()  # per facet of FACETS, read by every request

    def __post_init__(self) -> None:
        if not self.values:
            values = tuple(values(self) for values in FACETS.values())
            object.__setattr__(self, "values", values)

    @property
    def title(self) -> str:
        return self.display_name or self.name


def installable(row: Row) -> tuple[str, ...]:
    """Install methods whose verdict is installable, and `METHOD-unknown` for unknown verdicts."""
    marks = {Verdict.INSTALLABLE.value: "", Verdict.UNKNOWN.value: "-unknown"}
    return tuple(
        stored.path + marks[stored.verdict] for stored in row.verdicts if stored.verdict in marks
    )


FACETS: dict[str, Callable[[Row], tuple[str, ...]]] = {
    "installable": installable,
    "catalog": lambda row: (row.source,),
    "cluster": lambda row: (row.cluster,),
    "category": lambda row: row.categories,
    "provider": lambda row: (row.provider,) if row.provider else (),
    "capability": lambda row: (row.capability,) if row.capability else (),
    "install_mode": lambda row: row.install_modes,
    "infrastructure_feature": lambda row: row.infrastructure_features,
    "keyword": lambda row: row.keywords,
    "provides": lambda row: row.provides + row.provided_before,
}
UNCOUNTED = ("keyword", "provides")  # the last: these filter only, there are thousands of values
COUNTED = len(FACETS) - len(UNCOUNTED)
_INSTALLABLE = list(FACETS).index("installable")


def _is_deprecated(rows: Sequence[Row]) -> str:
    marked = [row.deprecated for row in rows]
    return YES if all(marked) else SOME if any(marked) else NO


def _versions(row: Row) -> str:
    return MANY if row.bundle_count > 2 else str(row.bundle_count)


def full_path(rows: Sequence[Row]) -> tuple[str, ...] | None:
    """The upgrade path of the first row. The PackageManifest API has no upgrade graph: it is that
    of the ClusterCatalog that serves the same catalog, if that is among the rows and has as many
    versions and the same head."""
    first = rows[0]
    if first.upgrade_path is not None:
        return first.upgrade_path
    same = (first.cluster, first.source, first.source, first.head_bundle, first.bundle_count)
    return next(
        (
            row.upgrade_path
            for row in rows
            if (row.cluster, row.source, row.catalog, row.head_bundle, row.bundle_count) == same
        ),
        None,
    )


def upgrades(rows: Sequence[Row]) -> str:
    """The upgrades of the first row, as `full_path` reads them."""
    path = full_path(rows)
    if path is None:
        return UNKNOWN_UPGRADE
    return INTERMEDIATE if len(path) > 2 else DIRECT if path else NO_UPGRADE


# Each package has one value of each: of all rows of its name, or of those that pass the facets of
# rows, of which the first, with the best rank, is shown.
OF_NAME: dict[str, Callable[[Sequence[Row]], str]] = {
    "catalogs": lambda rows: SEVERAL if len({row.source for row in rows}) > 1 else SINGLE,
}
OF_PASSED: dict[str, Callable[[Sequence[Row]], str]] = {
    "versions": lambda rows: _versions(rows[0]),
    "upgrade_path": upgrades,
    "deprecated": _is_deprecated,
}
PACKAGE_FACETS = OF_NAME | OF_PASSED


@dataclass(frozen=True)
class PackageGroup:
    """All rows of one package name, the best rank first; their values per facet; the fields in
    which they differ when they are not the same package. `source_rows` are the rows of the catalogs
    from which `rows` were made."""

    rows: tuple[Row, ...]
    values: tuple[frozenset[str], ...]
    differs: tuple[str, ...]
    source_rows: tuple[Row, ...]

    @cached_property
    def package_values(self) -> Mapping[str, str]:
        """The value of each of PACKAGE_FACETS if all rows pass."""
        return {name: value(self.rows) for name, value in PACKAGE_FACETS.items()}

    @cached_property
    def varying(self) -> frozenset[str]:
        """Those of OF_PASSED whose value depends on the rows that pass."""
        return frozenset(
            name
            for name, value in OF_PASSED.items()
            if len({value((row,)) for row in self.rows}) > 1
        )

    def package_values_of(self, passed: Sequence[Row]) -> Mapping[str, str]:
        """The value of each of PACKAGE_FACETS if these rows pass."""
        if len(passed) == len(self.rows) or not self.varying:
            return self.package_values
        return {**self.package_values, **{name: OF_PASSED[name](passed) for name in self.varying}}

    @cached_property
    def alike(self) -> frozenset[int]:
        """The positions of the facets in which all rows have the same values."""
        first, *others = (row.values for row in self.rows)
        return frozenset(
            position
            for position, values in enumerate(first)
            if all(other[position] == values for other in others)
        )


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """The rows of one catalog, with the verdicts of that time. `content` is that of its stamp
    and its source."""

    content: tuple[object, ...]
    verdicts_changed_at: str | None
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class SearchIndex:
    """Every package name with its rows, in the order of names. The lookups of searches are built at
    the first search, as most readers of an index only list its packages."""

    token: tuple[tuple[object, ...], ...]
    groups: tuple[PackageGroup, ...]
    catalogs: int  # each counted once, however many access methods it has
    empty_catalogs: int  # of these, those without packages
    sources: Mapping[str, str]  # slug of a catalog to the source of its rows
    parts: Mapping[int, CatalogRows]  # by id of the catalog

    @property
    def rows(self) -> Iterator[Row]:
        """Those of the groups: without the verdicts that another source settles."""
        return chain.from_iterable(group.rows for group in self.groups)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Of names, titles and keywords."""
        return Vocabulary(f"{text.name}{text.title}{text.keywords}" for text in self.by_text)

    @cached_property
    def by_words(self) -> Mapping[str, Row]:
        """Best row by the words of its name and by those of its title."""
        by_words: dict[str, Row] = {}
        for group in self.groups:
            for name in (group.rows[0].name, group.rows[0].title):
                by_words.setdefault(" ".join(words_of(name)), group.rows[0])
        return by_words

    @cached_property
    def pairs(self) -> Mapping[str, frozenset[str]]:
        """Pairs of characters of each key of `by_words`."""
        return {words: pairs_of(words) for words in self.by_words}

    @cached_property
    def counts(self) -> Sequence[Mapping[str, int]]:
        """Per counted facet and value the number of package names that have it."""
        return [
            Counter(chain.from_iterable(group.values[position] for group in self.groups))
            for position in range(COUNTED)
        ]

    @cached_property
    def by_text(self) -> Mapping[SearchText, Sequence[int]]:
        """Ids of the rows that have the text; likewise below."""
        return self._ids(lambda row: (row.search_text,))

    @cached_property
    def providing(self) -> Mapping[str, Sequence[int]]:
        """By GROUP/KIND that the head provides."""
        return self._ids(lambda row: row.provides)

    @cached_property
    def provided_before(self) -> Mapping[str, Sequence[int]]:
        """By GROUP/KIND that other bundles provide."""
        return self._ids(lambda row: row.provided_before)

    @cached_property
    def kinds_by_word(self) -> Mapping[str, str]:
        """Folded name of a kind -> the kind as a package spells it, of several the first."""
        kinds = {name.rpartition("/")[2] for name in (*self.providing, *self.provided_before)}
        return {fold(kind): kind for kind in sorted(kinds, reverse=True)}

    @cached_property
    def using(self) -> Mapping[str, Sequence[int]]:
        """By repository in lower case."""
        return self._ids(lambda row: {group.lower() for group in row.repositories})

    def _ids(self, keys: Callable[[Row], Iterable[Key]]) -> dict[Key, list[int]]:
        ids: dict[Key, list[int]] = {}
        for row in self.rows:
            for key in keys(row):
                ids.setdefault(key, []).append(row.id)
        return ids


# Fields of a Row that a package has as texts by the same names.
_TEXTS = (
    *("name", "display_name", "summary", "provider", "default_channel"),
    *("head_bundle", "head_version", "capability"),
)
_SHARED = (
    *("categories", "keywords", "install_modes", "infrastructure_features"),
    *("provides", "provided_before", "repositories"),
)
_FIELDS = (
    *_TEXTS,
    *("id", "icon_id", "categories", "keywords", "install_modes", "infrastructure_features"),
    *("deprecated", "channel_count", "bundle_count", "search__provides"),
    *("search__provided_before", "search__repositories", "search__upgrade_path"),
)
_SEARCHED = ("name", "display_name", "keywords", "provides", "provider", "categories")
_lock = threading.Lock()
_index: SearchIndex | None = None


def catalog_stamps() -> Stamps:
    """Stamps that change whenever catalogs or clusters change; one query."""
    return tuple(CatalogStamp(*row) for row in _stamped().all())


@cache
def _stamped() -> QuerySet[Catalog, tuple[Any, ...]]:
    """The fields of the stamps. Every page of catalogs reads them: building this takes as long as
    reading."""
    cluster = Coalesce("cluster__name", Value(LOCAL))
    shown = Q(prediction_runs__cluster=None) | Q(prediction_runs__cluster=F("cluster"))
    rows = Catalog.objects.order_by("id").annotate(
        changed=Cast("changed_at", TextField()),
        verdicts_changed=Cast(Max("prediction_runs__changed_at", filter=shown), TextField()),
        of_cluster=cluster,
    )
    return rows.values_list(
        *("pk", "revision", "content_hash", "changed", "verdicts_changed"),
        *("slug", "name", "namespace", "source_kind", "priority", "state", "access_method"),
        *("cluster_id", "of_cluster", "cluster__revision"),
    )


def current_index(stamps: Stamps) -> SearchIndex:
    """The index for `stamps`; reads the packages only when a catalog changed."""
    global _index
    # A cluster's state changes no package, nor does the state of a catalog that is read.
    token = tuple((stamp.pk, stamp.verdicts_changed_at, *stamp.content) for stamp in stamps)
    current = _index
    if current is not None and current.token == token:
        return current
    with _lock:
        if _index is None or _index.token != token:
            _index = _read_index(stamps, token, _index)
        return _index


def _read_index(
    stamps: Stamps, token: tuple[tuple[object, ...], ...], before: SearchIndex | None
) -> SearchIndex:
    distinct = distinct_catalogs(stamps)
    sources = source_slugs(stamps)
    parts: dict[int, CatalogRows] = {}
    changed: list[CatalogStamp] = []
    with_new_verdicts: list[CatalogStamp] = []
    for stamp in stamps:
        part = before.parts.get(stamp.pk) if before else None
        if part is None or part.content != (*stamp.content, sources[stamp.pk]):
            changed.append(stamp)
            continue
        parts[stamp.pk] = part
        if part.verdicts_changed_at != stamp.verdicts_changed_at:
            with_new_verdicts.append(stamp)
    rows: dict[int, list[Row]] = {stamp.pk: [] for stamp in (*changed, *with_new_verdicts)}
    verdicts = _verdicts(rows) if rows else {}
    earlier = before.parts.values() if before else ()
    for row in _rows(changed, sources, verdicts, chain.from_iterable(p.rows for p in earlier)):
        rows[row.catalog_id].append(row)
    for stamp in with_new_verdicts:
        rows[stamp.pk] = [
            _with_verdicts(row, verdicts.get(row.id, ())) for row in parts[stamp.pk].rows
        ]
    for stamp in (*changed, *with_new_verdicts):
        parts[stamp.pk] = CatalogRows(
            (*stamp.content, sources[stamp.pk]), stamp.verdicts_changed_at, tuple(rows[stamp.pk])
        )
    empty = sum(not any(parts[row.pk].rows for row in entries) for entries in distinct)
    return index_of(parts, token, before, catalogs=len(distinct), empty_catalogs=empty)


def _with_verdicts(row: Row, verdicts: tuple[MethodVerdict, ...]) -> Row:
    """The row itself if it has these verdicts: its group then stays as it is."""
    return row if row.verdicts == verdicts else replace(row, verdicts=verdicts, values=())


def _changes(catalogs: Iterable[int]) -> dict[tuple[int, str], datetime]:
    """Catalog and package -> the last recorded change."""
    rows = CatalogChange.objects.filter(revision__catalog__in=catalogs).order_by()
    names = rows.values_list("revision__catalog_id", "package")
    return {
        (catalog, package): at
        for catalog, package, at in names.annotate(at=Max("revision__created_at"))
    }


def _verdicts(catalogs: Iterable[int]) -> dict[int, tuple[MethodVerdict, ...]]:
    """Package -> the verdict on the bundle that each install method would choose; nothing where
    the catalog was not evaluated for its cluster yet."""
    here = Q(cluster=None) | Q(cluster=F("package__catalog__cluster"))
    evaluated = PredictionRun.objects.filter(cluster=F("catalog__cluster")).values("catalog")
    usable = Q(package__catalog__cluster=None) | Q(package__catalog__in=evaluated)
    rows = Prediction.objects.filter(
        here, usable, package__catalog__in=catalogs, chosen=True, target__in=TARGETS
    )
    by_target: dict[int, dict[str, dict[str, MethodVerdict]]] = {}
    ordered = rows.order_by(F("cluster").asc(nulls_first=True))  # a cluster's replace the others
    for package, *values in ordered.values_list("package_id", "path", "target", "verdict", "rule"):
        row = MethodVerdict(*map(intern, values))
        by_target.setdefault(package, {}).setdefault(row.path, {})[row.target] = row
    return {
        package: tuple(
            over_targets(methods[path].values())[0] for path in InstallMethod if path in methods
        )
        for package, methods in by_target.items()
    }


def index_of(
    parts: Mapping[int, CatalogRows],
    token: tuple[tuple[object, ...], ...] = (),
    before: SearchIndex | None = None,
    *,
    catalogs: int = 0,
    empty_catalogs: int = 0,
) -> SearchIndex:
    """The rows in groups of one name. `before` has the groups of the names that no part changed."""
    earlier = before.parts if before else {}
    pks = [pk for pk in {**earlier, **parts} if parts.get(pk) is not earlier.get(pk)]
    changed: dict[str, list[Row]] = {}
    for pk in pks:
        old, new = _by_identity(earlier.get(pk)), _by_identity(parts.get(pk))
        # Verdicts are evaluated again far more often than they change.
        for key in old.keys() ^ new.keys():
            changed[(old.get(key) or new[key]).name] = []
    for pk in pks:
        for row in parts[pk].rows if pk in parts else ():
            if row.name in changed:
                changed[row.name].append(row)
    replaced = set(pks)
    groups: dict[str, PackageGroup] = {}
    for group in before.groups if before else ():
        name = group.rows[0].name
        if name in changed:
            changed[name] += (row for row in group.source_rows if row.catalog_id not in replaced)
        else:
            groups[name] = group
    for name, members in changed.items():
        if members:
            of_name = tuple(sorted(members, key=attrgetter("rank")))
            shown = _one_verdict(of_name)
            groups[name] = PackageGroup(shown, _union(shown), differences(of_name), of_name)
    return SearchIndex(
        token=token,
        groups=tuple(groups[name] for name in sorted(groups)),
        catalogs=catalogs,
        empty_catalogs=empty_catalogs,
        sources={part.rows[0].catalog: part.rows[0].source for part in parts.values() if part.rows},
        parts=parts,
    )


def _by_identity(part: CatalogRows | None) -> dict[int, Row]:
    return {id(row): row for row in part.rows} if part is not None else {}


def _union(rows: tuple[Row, ...]) -> tuple[frozenset[str], ...]:
    """Per facet that is counted."""
    by_facet = list(zip(*(row.values for row in rows), strict=True))
    return tuple(frozenset(chain.from_iterable(values)) for values in by_facet[:COUNTED])


def _rows(
    catalogs: Collection[CatalogStamp],
    sources: Mapping[int, str],
    verdicts: Mapping[int, tuple[MethodVerdict, ...]],
    known: Iterable[Row],
) -> Iterator[Row]:
    """The rows of these catalogs. Packages with the content of a `known` row or of one another, as
    in copies of a catalog and in its next revision, are read once. Three queries, two without new
    content, one more for each CONTENTS_AT_ONCE of it."""
    if not catalogs:
        return
    stamps = {stamp.pk: stamp for stamp in catalogs}
    changes = _changes(stamps)
    listed = Package.objects.filter(catalog__in=stamps).order_by()
    packages = [
        (pk, stamps[catalog], name, Content(content_hash, stamps[catalog].access_method))
        for pk, catalog, name, content_hash in listed.values_list(
            "id", "catalog_id", "name", "content_hash"
        )
    ]
    rows = {row.content: row for row in known}
    unread = {
        pk: (stamp, content)
        for content, (pk, stamp) in {row[3]: row[:2] for row in packages}.items()
        if content not in rows
    }
    same = _shared(rows.values()) if unread else {}
    keys = list(unread)
    for start in range(0, len(keys), CONTENTS_AT_ONCE):
        of_keys = Package.objects.filter(pk__in=keys[start : start + CONTENTS_AT_ONCE]).order_by()
        for values in of_keys.values(*_FIELDS):
            stamp, content = unread[values["id"]]
            rows[content] = _row(values, content, stamp, same)
    for pk, stamp, name, content in packages:
        if content in rows:  # else a sync replaced it meanwhile
            yield replace(
                rows[content],
                id=pk,
                name=intern(name),
                catalog_id=stamp.pk,
                catalog=stamp.slug,
                source=sources[stamp.pk],
                cluster=stamp.cluster,
                updated=changes.get((stamp.pk, name)),
                rank=(stamp.disabled, -stamp.priority, stamp.slug, stamp.cluster),
                verdicts=verdicts.get(pk, ()),
                values=(),
            )


def _shared(rows: Iterable[Row]) -> dict[object, object]:
    """The values that rows share: catalogs repeat one another, so equal ones are stored once."""
    same: dict[object, object] = {}
    for row in {(row.search_text, row.head_bundle): row for row in rows}.values():
        for name in _SHARED:
            values = getattr(row, name)
            same[values] = values
        same[tuple(getattr(row, name) for name in _SEARCHED)] = row.search_text
    return same


def _one_verdict(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows without the unknown verdicts on install methods that install the package from
    another source: a package counts for one verdict of each method."""
    installing = set(chain.from_iterable([row.values[_INSTALLABLE] for row in rows]))
    settled = {f"{value}-unknown" for value in installing} & installing
    if not settled:
        return rows
    return tuple(_without(row, settled) for row in rows)


def _without(row: Row, marks: Set[str]) -> Row:
    """The row without these marks of `installable`. Most rows have none of them, and a copy takes
    as long as all else of a row."""
    installing = row.values[_INSTALLABLE]
    if marks.isdisjoint(installing):
        return row
    values = list(row.values)
    values[_INSTALLABLE] = tuple(mark for mark in installing if mark not in marks)
    return replace(row, values=tuple(values))


def _row(
    values: Mapping[str, object],
    content: Content,
    catalog: CatalogStamp,
    same: dict[object, object],
) -> Row:
    """The row of a package as if it were the only one: without its source, last change, verdicts
    and rank."""

    def text(name: str) -> Any:
        return intern(str(values[name] or ""))

    def texts(name: str) -> tuple[str, ...]:
        """A JSON list of texts, without duplicates."""
        listed = values[name]
        if not isinstance(listed, list):
            return ()
        unique = tuple(dict.fromkeys(intern(str(value)) for value in listed if value))
        return same.setdefault(unique, unique)  # type: ignore[return-value]

    keywords, categories = texts("keywords"), texts("categories")
    provides = texts("search__provides")
    listed = values["search__upgrade_path"]
    # An API's list of several versions has no edges.
    if int(str(values["bundle_count"])) > 1 and content.access_method == PACKAGE_MANIFEST:
        listed = None
    # Bundles of one version each count.
    path = tuple(intern(str(version)) for version in listed) if isinstance(listed, list) else None
    name, title, provider = text("name"), text("display_name"), text("provider")
    searched = (name, title, keywords, provides, provider, categories)  # as in _SEARCHED
    if searched not in same:
        kinds = [gvk.rpartition("/")[2] for gvk in provides]
        words = search_texts([name], [title], keywords, kinds, [provider], categories)
        same[searched] = SearchText(*words)
    return Row(
        **{name: text(name) for name in _TEXTS},
        id=int(str(values["id"])),
        content=content,
        catalog_id=catalog.pk,
        catalog=catalog.slug,
        source="",
        cluster=catalog.cluster,
        icon=text("icon_id"),
        categories=categories,
        keywords=keywords,
        install_modes=texts("install_modes"),
        infrastructure_features=texts("infrastructure_features"),
        deprecated=bool(values["deprecated"]),
        channel_count=int(str(values["channel_count"])),
        bundle_count=int(str(values["bundle_count"])),
        provides=provides,
        provided_before=texts("search__provided_before"),
        repositories=texts("search__repositories"),
        upgrade_path=path,
        search_text=same[searched],  # type: ignore[arg-type]
        updated=None,
        rank=(False, 0, "", ""),
    )


def search_texts(*fields: Sequence[str]) -> tuple[str, ...]:
    """The fields of a SearchText: each list of texts as words with a space before each."""
    return tuple(
        "".join(f" {word}" for part in parts for word in words_of(part)) for parts in fields
    )


class Described(Protocol):
    """The compared fields of a package."""

    @property
    def provider(self) -> str: ...
    @property
    def head_bundle(self) -> str: ...
    @property
    def summary(self) -> str: ...


def bundle_stem(bundle: str) -> str:
    """A bundle's name without its version: `etcdoperator.v0.9.4` -> `etcdoperator`."""
    return _VERSION.sub("", bundle).lower() or bundle.lower()


def differences(rows: Sequence[Described]) -> tuple[str, ...]:
    """The fields (provider, bundles, description) that make rows of one name different packages:
    another provider, bundles of another name, an unrelated description. Catalogs of different
    releases hold one package with other versions and texts."""
    # Copies of a catalog on many clusters repeat one another.
    rows = list({(row.provider, row.head_bundle, row.summary): row for row in rows}.values())
    if len(rows) < 2:
        return ()
    first, others = rows[0], rows[1:]
    fields = []
    providers = {frozenset(words_of(row.provider)) - _COMPANY for row in rows}
    if len(providers - {frozenset()}) > 1 and not frozenset.intersection(*providers):
        fields.append("provider")
    if len({bundle_stem(row.head_bundle) for row in rows if row.head_bundle}) > 1:
        fields.append("bundles")
    if any(not _alike(first.summary, other.summary) for other in others):
        fields.append("description")
    return tuple(fields)


def _alike(text: str, other: str) -> bool:
    """Whether two descriptions share enough words; an empty one is like any."""
    words, others = set(words_of(text)), set(words_of(other))
    return not words or not others or len(words & others) >= LEAST_COMMON * len(words | others)
