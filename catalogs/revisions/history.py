"""The changes that were told of each revision when it was read, grouped as they are shown.

Reads CatalogChange rows: they are there for every revision kept, whatever can still be compared.
Knows no HTTP.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from django.db.models import Count, Q, QuerySet

from catalogs.models import CatalogChange, CatalogRevision
from catalogs.revisions.affects import Effect, Installed, effects
from catalogs.revisions.between import PackageDifference, fate_of
from catalogs.revisions.compare import Change
from catalogs.revisions.report import Entry
from catalogs.revisions.words import count_kinds


@dataclass(slots=True)
class Told:
    """One revision: its changes by kind, some packages of it, whom it concerns.

    `entries` are the concerned packages first; `packages` is how many there are in all.
    """

    revision: CatalogRevision
    kinds: Counter[str] = field(default_factory=Counter)
    packages: int = 0
    entries: list[Entry] = field(default_factory=list)

    @property
    def first(self) -> bool:
        """It is the catalog's first content: there was nothing to compare with."""
        return self.revision.number == 1

    @property
    def effects(self) -> list[Effect]:
        return [effect for entry in self.entries for effect in entry.effects]

    @property
    def sentence(self) -> str:
        return count_kinds(self.kinds)

    @property
    def more(self) -> int:
        return self.packages - len(self.entries)


def changes_of(
    revision: CatalogRevision, kinds: Iterable[str] = (), package: str = ""
) -> Iterator[PackageDifference]:
    """The changes of one revision by package; one query, read as it is used."""
    rows = _matching(kinds, package).filter(revision=revision).order_by("package", "id")
    fields = ("kind", "package", "subject", "before", "after")
    plain = (Change(*row) for row in rows.values_list(*fields).iterator(chunk_size=1000))
    for name, group in groupby(plain, key=lambda change: change.package):
        changes = list(group)
        yield PackageDifference(name, fate_of(changes), changes)


def tell(
    revisions: Sequence[CatalogRevision],
    installed: Mapping[int, Mapping[str, Sequence[Installed]]],
    *,
    kinds: Iterable[str] = (),
    package: str = "",
    most: int,
) -> list[Told]:
    """What each revision changed, with at most `most` packages besides the concerned ones.

    `installed` is by catalog id. Three queries, whatever the revisions.
    """
    told = {each.pk: Told(each) for each in revisions}
    matching = _matching(kinds, package).filter(revision__in=told)
    by_kind = matching.order_by().values_list("revision_id", "kind").annotate(count=Count("id"))
    for revision_id, kind, count in by_kind:
        told[revision_id].kinds[kind] = count
    names: dict[int, list[str]] = defaultdict(list)
    pairs = matching.order_by().values_list("revision_id", "package").distinct()
    for revision_id, name in sorted(pairs):
        told[revision_id].packages += 1
        names[revision_id].append(name)
    wanted = Q()
    for revision_id, listed in names.items():
        here = installed.get(told[revision_id].revision.catalog_id, {})
        chosen = [name for name in listed if name in here]
        chosen += [name for name in listed if name not in here][:most]
        wanted |= Q(revision=revision_id, package__in=chosen)
    if wanted:
        _add_entries(told, matching.filter(wanted), installed)
    return list(told.values())


def _add_entries(
    told: Mapping[int, Told],
    rows: QuerySet[CatalogChange],
    installed: Mapping[int, Mapping[str, Sequence[Installed]]],
) -> None:
    fields = ("revision_id", "kind", "package", "subject", "before", "after")
    ordered = rows.order_by("revision_id", "package", "id").values_list(*fields)
    for (revision_id, name), group in groupby(ordered, key=lambda row: (row[0], row[2])):
        changes = [Change(*row[1:]) for row in group]
        here = installed.get(told[revision_id].revision.catalog_id, {})
        entry = Entry(name, fate_of(changes), changes, effects(changes, here))
        told[revision_id].entries.append(entry)
    for each in told.values():
        each.entries.sort(key=lambda entry: not entry.effects)


def _matching(kinds: Iterable[str], package: str) -> QuerySet[CatalogChange]:
    rows = CatalogChange.objects.all()
    if kinds:
        rows = rows.filter(kind__in=kinds)
    return rows.filter(package=package) if package else rows
