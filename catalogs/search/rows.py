"""What lists, facets and search read: every package of every catalog, in memory.

Owns the index and how it is read; knows neither queries nor results. The index is kept per process,
not in the shared cache: it is read on every request, and taking megabytes out of a cache costs more
than filtering them. One small query on each request tells whether it still fits the catalogs.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, groupby
from operator import attrgetter
from sys import intern
from typing import TypeVar

from django.db.models import F, Max, Q

from catalogs.fbc.search_words import words_of
from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, CatalogChange, Package, Prediction, PredictionRun
from catalogs.search.clashes import differences
from catalogs.search.typos import Vocabulary
from catalogs.verdicts.engine import Verdict
from catalogs.verdicts.stored import TARGETS, MethodVerdict, over_targets
from olmweb.models import LOCAL

YES, NO = "yes", "no"
Key = TypeVar("Key")
Stamps = tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Spoken:
    """What a package says, as words after a space each; the same object for equal packages."""

    name: str
    title: str
    keywords: str
    kinds: str
    provider: str
    categories: str


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
    spoken: Spoken
    updated: datetime | None  # the last recorded change of this package
    rank: tuple[bool, int, str, str]  # the lowest of a name wins: serving, priority, names
    verdicts: tuple[MethodVerdict, ...] = ()  # on the bundle that each install method would choose
    values: tuple[tuple[str, ...], ...] = ()  # per facet of FACETS

    @property
    def title(self) -> str:
        return self.display_name or self.name


def installable(row: Row) -> tuple[str, ...]:
    """Paths that install it, and `PATH-unknown` where that is not known."""
    marks = {Verdict.INSTALLABLE.value: "", Verdict.UNKNOWN.value: "-unknown"}
    return tuple(each.path + marks[each.verdict] for each in row.verdicts if each.verdict in marks)


FACETS: dict[str, Callable[[Row], tuple[str, ...]]] = {
    "installable": installable,
    "catalog": lambda row: (row.catalog,),
    "cluster": lambda row: (row.cluster,),
    "category": lambda row: row.categories,
    "provider": lambda row: (row.provider,) if row.provider else (),
    "capability": lambda row: (row.capability,) if row.capability else (),
    "install_mode": lambda row: row.install_modes,
    "infrastructure_feature": lambda row: row.infrastructure_features,
    "deprecated": lambda row: (YES if row.deprecated else NO,),
    "keyword": lambda row: row.keywords,
    "provides": lambda row: row.provides + row.provided_before,
}
UNCOUNTED = ("keyword", "provides")  # the last: these filter only, there are thousands of values
COUNTED = len(FACETS) - len(UNCOUNTED)


@dataclass(frozen=True, slots=True)
class Group:
    """All rows of one package name, the winner first; per facet the values they have; in what
    their contents differ when they are not the same package."""

    rows: tuple[Row, ...]
    values: tuple[frozenset[str], ...]
    differs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """Every package name with its rows, in the order of names."""

    token: tuple[object, ...]
    groups: tuple[Group, ...]
    vocabulary: Vocabulary  # of names, titles and keywords
    # What searches begin with: the ids of the rows that say, provide or use something.
    saying: Mapping[Spoken, Sequence[int]]
    providing: Mapping[str, Sequence[int]]  # by GROUP/KIND; the rows whose head does
    provided_before: Mapping[str, Sequence[int]]
    using: Mapping[str, Sequence[int]]  # by repository in lower case

    @property
    def rows(self) -> Iterator[Row]:
        return chain.from_iterable(group.rows for group in self.groups)


_lock = threading.Lock()
_index: Index | None = None


def catalog_stamps() -> Stamps:
    """What tells that catalogs or clusters changed since a page was made; one query."""
    return tuple(
        Catalog.objects.order_by("id")
        .annotate(judged=Max("prediction_runs__judged_at"))
        .values_list(
            *("id", "revision", "content_hash", "changed_at", "judged"),
            *("slug", "priority", "state", "cluster__name", "cluster__revision"),
        )
    )


def current_index(stamps: Stamps) -> Index:
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


def _read_index(token: tuple[object, ...]) -> Index:
    changed = {
        (catalog, package): at
        for catalog, package, at in CatalogChange.objects.order_by()
        .values_list("revision__catalog_id", "package")
        .annotate(at=Max("revision__created_at"))
    }
    catalogs = {catalog.pk: catalog for catalog in Catalog.objects.select_related("cluster").all()}
    return index_of(_rows(catalogs, changed, _verdicts()), token)


def _verdicts() -> dict[int, tuple[MethodVerdict, ...]]:
    """Package -> the verdict on the bundle that each install method would choose; nothing where
    the catalog was not evaluated for its cluster yet."""
    here = Q(cluster=None) | Q(cluster=F("package__catalog__cluster"))
    evaluated = PredictionRun.objects.filter(cluster=F("catalog__cluster")).values("catalog")
    known = Q(package__catalog__cluster=None) | Q(package__catalog__in=evaluated)
    rows = Prediction.objects.filter(here, known, chosen=True, target__in=TARGETS)
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


def index_of(rows: Iterable[Row], token: tuple[object, ...] = ()) -> Index:
    """The rows in groups of one name."""
    rows = sorted(rows, key=attrgetter("name", "rank"))
    groups = (tuple(group) for _, group in groupby(rows, key=attrgetter("name")))
    saying = _ids(rows, lambda row: (row.spoken,))
    return Index(
        token=token,
        groups=tuple(Group(each, _union(each), differences(each)) for each in groups),
        vocabulary=Vocabulary(f"{said.name}{said.title}{said.keywords}" for said in saying),
        saying=saying,
        providing=_ids(rows, lambda row: row.provides),
        provided_before=_ids(rows, lambda row: row.provided_before),
        using=_ids(rows, lambda row: {each.lower() for each in row.repositories}),
    )


def _ids(rows: Iterable[Row], keys: Callable[[Row], Iterable[Key]]) -> dict[Key, list[int]]:
    found: dict[Key, list[int]] = {}
    for row in rows:
        for key in keys(row):
            found.setdefault(key, []).append(row.id)
    return found


def _union(rows: tuple[Row, ...]) -> tuple[frozenset[str], ...]:
    """Per facet that is counted."""
    return tuple(
        frozenset(value for row in rows for value in row.values[position])
        for position in range(COUNTED)
    )


def _rows(
    catalogs: Mapping[int, Catalog],
    changed: Mapping[tuple[int, str], datetime],
    verdicts: Mapping[int, tuple[MethodVerdict, ...]],
) -> Iterable[Row]:
    fields = (
        *("id", "name", "catalog_id", "display_name", "summary", "provider", "default_channel"),
        *("head_bundle", "head_version", "icon_id", "categories", "keywords", "capability"),
        *("install_modes", "infrastructure_features", "deprecated", "channel_count"),
        *("bundle_count", "search__provides", "search__provided_before", "search__repositories"),
    )
    same: dict[object, object] = {}  # catalogs repeat one another: equal values are kept once
    for found in Package.objects.order_by().values(*fields).iterator(chunk_size=2000):
        catalog = catalogs.get(found["catalog_id"])
        if catalog is None:  # synced between the two queries: the next request reads it
            continue
        plain = _row(found, catalog, same, changed.get((catalog.pk, found["name"])))
        yield with_values(replace(plain, verdicts=verdicts.get(plain.id, ())))


def with_values(row: Row) -> Row:
    """The row with its values of every facet, which are looked at on every request."""
    return replace(row, values=tuple(values(row) for values in FACETS.values()))


def _row(
    found: Mapping[str, object],
    catalog: Catalog,
    same: dict[object, object],
    updated: datetime | None,
) -> Row:
    def text(name: str) -> str:
        return intern(str(found[name] or ""))

    def texts(name: str) -> tuple[str, ...]:
        """A JSON list of texts without repeats; authors do repeat themselves."""
        listed = found[name]
        if not isinstance(listed, list):
            return ()
        values = tuple(dict.fromkeys(intern(str(value)) for value in listed if value))
        return same.setdefault(values, values)  # type: ignore[return-value]

    keywords, categories = texts("keywords"), texts("categories")
    provides = texts("search__provides")
    kinds = [each.rpartition("/")[2] for each in provides]
    names, provider = ([text("name")], [text("display_name")]), [text("provider")]
    spoken = spoken_of(*names, keywords, kinds, provider, categories)
    return Row(
        id=int(str(found["id"])),
        name=text("name"),
        catalog_id=catalog.pk,
        catalog=catalog.slug,
        cluster=catalog.cluster_name,
        display_name=text("display_name"),
        summary=text("summary"),
        provider=text("provider"),
        default_channel=text("default_channel"),
        head_bundle=text("head_bundle"),
        head_version=text("head_version"),
        icon=text("icon_id"),
        categories=categories,
        keywords=keywords,
        capability=text("capability"),
        install_modes=texts("install_modes"),
        infrastructure_features=texts("infrastructure_features"),
        deprecated=bool(found["deprecated"]),
        channel_count=int(str(found["channel_count"])),
        bundle_count=int(str(found["bundle_count"])),
        provides=provides,
        provided_before=texts("search__provided_before"),
        repositories=texts("search__repositories"),
        spoken=same.setdefault(spoken, Spoken(*spoken)),  # type: ignore[arg-type]
        updated=updated,
        rank=(
            catalog.state == Catalog.State.DISABLED,
            -catalog.priority,
            catalog.slug,
            catalog.cluster.name if catalog.cluster else LOCAL,
        ),
    )


def spoken_of(*fields: Sequence[str]) -> tuple[str, ...]:
    """The fields of a Spoken: each list of texts as words after a space each."""
    return tuple(
        "".join(f" {word}" for part in parts for word in words_of(part)) for parts in fields
    )
