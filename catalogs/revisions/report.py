"""Changes grouped for pages: the report of a comparison, the recorded changes of revisions.

A report reads the stream of `differences` and retains only the packages that are shown, those with
affected operators first. The changes of a revision are its CatalogChange rows: they exist for every
retained revision, also for those that can't be compared any more.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from django.db.models import Count, Q, QuerySet

from catalogs.models import CatalogChange, CatalogRevision
from catalogs.revisions.compare import ChangeKind, PackageChange, Sides
from catalogs.revisions.differences import CHANGED, FATES, PackageDifference, fate_label, fate_of
from catalogs.revisions.effects import AffectedOperator, Effect, effects
from catalogs.revisions.text import ChangeLine, count_kinds, count_packages, lines

_CHANNEL_KINDS = {
    ChangeKind.CHANNEL_ADDED,
    ChangeKind.CHANNEL_REMOVED,
    ChangeKind.CHANNEL_CHANGED,
    ChangeKind.HEAD_MOVED,
    ChangeKind.DEFAULT_CHANNEL_CHANGED,
}


@dataclass(frozen=True, slots=True)
class PackageEntry:
    """One package as shown, with the effects of its changes on installed operators.
    `same_channels`: both of two catalogs have its channels with the same content and heads."""

    package: str
    fate: str
    changes: Sequence[PackageChange]
    effects: Sequence[Effect]
    sides: Sides | None = None
    same_channels: bool = False

    @property
    def lines(self) -> list[ChangeLine]:
        return lines(self.changes, self.sides)


@dataclass(slots=True)
class FateSection:
    """The packages of one fate: how many, and the retained ones, those with effects first."""

    fate: str
    sides: Sides | None
    total: int = 0
    concerned: list[PackageEntry] = field(default_factory=list)
    others: list[PackageEntry] = field(default_factory=list)

    @property
    def label(self) -> str:
        return fate_label(self.fate, self.sides)

    @property
    def entries(self) -> list[PackageEntry]:
        return [*self.concerned, *self.others]


@dataclass(slots=True)
class ChangeReport:
    """Counts of the packages and changes that pass the filters, and the affected operators.

    `sides` are the catalogs of a comparison, None for one catalog: only operators that move to the
    second are affected.
    """

    sections: dict[str, FateSection]
    kinds: Counter[str]
    affected: dict[AffectedOperator, None]
    sides: Sides | None

    @property
    def total(self) -> int:
        return sum(section.total for section in self.sections.values())

    @property
    def sentence(self) -> str:
        gone, added, changed = (self.sections[fate].total for fate in FATES)
        return count_packages(gone, added, changed, len(self.affected), self.sides)

    @property
    def details(self) -> str:
        """The changes inside packages, counted; `sentence` counts the packages."""
        whole = (ChangeKind.PACKAGE_ADDED, ChangeKind.PACKAGE_REMOVED)
        inside = {kind: count for kind, count in self.kinds.items() if kind not in whole}
        return count_kinds(inside, self.sides)


def make_report(
    differences: Iterable[PackageDifference],
    installed: Mapping[str, Sequence[AffectedOperator]],
    *,
    kinds: frozenset[str] = frozenset(),
    keep: int,
    sides: Sides | None = None,
) -> ChangeReport:
    """Reads the differences once. `kinds`: only changes of these (empty: of all); `keep`: packages
    retained in each section besides those with effects; `sides`: as in ChangeReport."""
    sections = {fate: FateSection(fate, sides) for fate in FATES}
    report = ChangeReport(sections, Counter(), {}, sides)
    for difference in differences:
        changes = [change for change in difference.changes if not kinds or change.kind in kinds]
        if not changes:
            continue
        section = report.sections[difference.fate]
        section.total += 1
        report.kinds.update(str(change.kind) for change in changes)
        concerned = effects(changes, installed, sides)
        report.affected |= dict.fromkeys(effect.installed for effect in concerned)
        into = section.concerned if concerned else section.others
        if concerned or len(into) < keep:
            same = difference.fate == CHANGED and sides is not None
            same = same and not _CHANNEL_KINDS & {change.kind for change in difference.changes}
            entry = PackageEntry(
                difference.package, difference.fate, changes, concerned, sides, same
            )
            into.append(entry)
    return report


@dataclass(slots=True)
class RevisionChanges:
    """One revision: its changes by kind, the number of changed packages, and some of these, those
    with effects first."""

    revision: CatalogRevision
    kinds: Counter[str] = field(default_factory=Counter)
    packages: int = 0
    entries: list[PackageEntry] = field(default_factory=list)

    @property
    def first(self) -> bool:
        """Whether it is the catalog's first content, with nothing to compare it with."""
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
    """The changes of one revision by package; one query, read lazily."""
    rows = _matching(kinds, package).filter(revision=revision).order_by("package", "id")
    fields = ("kind", "package", "subject", "before", "after")
    plain = (PackageChange(*row) for row in rows.values_list(*fields).iterator(chunk_size=1000))
    for name, group in groupby(plain, key=lambda change: change.package):
        changes = list(group)
        yield PackageDifference(name, fate_of(changes), changes)


def changes_of_revisions(
    revisions: Sequence[CatalogRevision],
    installed: Mapping[int, Mapping[str, Sequence[AffectedOperator]]],
    *,
    kinds: Iterable[str] = (),
    package: str = "",
    most: int,
) -> list[RevisionChanges]:
    """The changes of each revision, with at most `most` packages besides those with effects.

    `installed` is by catalog id. Three queries, however many revisions.
    """
    by_id = {revision.pk: RevisionChanges(revision) for revision in revisions}
    matching = _matching(kinds, package).filter(revision__in=by_id)
    by_kind = matching.order_by().values_list("revision_id", "kind").annotate(count=Count("id"))
    for revision_id, kind, count in by_kind:
        by_id[revision_id].kinds[kind] = count
    names: dict[int, list[str]] = defaultdict(list)
    pairs = matching.order_by().values_list("revision_id", "package").distinct()
    for revision_id, name in sorted(pairs):
        by_id[revision_id].packages += 1
        names[revision_id].append(name)
    wanted = Q()
    for revision_id, listed in names.items():
        here = installed.get(by_id[revision_id].revision.catalog_id, {})
        chosen = [name for name in listed if name in here]
        chosen += [name for name in listed if name not in here][:most]
        wanted |= Q(revision=revision_id, package__in=chosen)
    if wanted:
        _add_entries(by_id, matching.filter(wanted), installed)
    return list(by_id.values())


def _add_entries(
    by_id: Mapping[int, RevisionChanges],
    rows: QuerySet[CatalogChange],
    installed: Mapping[int, Mapping[str, Sequence[AffectedOperator]]],
) -> None:
    fields = ("revision_id", "kind", "package", "subject", "before", "after")
    ordered = rows.order_by("revision_id", "package", "id").values_list(*fields)
    for (revision_id, name), group in groupby(ordered, key=lambda row: (row[0], row[2])):
        changes = [PackageChange(*row[1:]) for row in group]
        here = installed.get(by_id[revision_id].revision.catalog_id, {})
        entry = PackageEntry(name, fate_of(changes), changes, effects(changes, here))
        by_id[revision_id].entries.append(entry)
    for revision_changes in by_id.values():
        revision_changes.entries.sort(key=lambda entry: not entry.effects)


def _matching(kinds: Iterable[str], package: str) -> QuerySet[CatalogChange]:
    rows = CatalogChange.objects.all()
    if kinds:
        rows = rows.filter(kind__in=kinds)
    return rows.filter(package=package) if package else rows
