"""A comparison as a page shows it: sections with counts, whom it concerns first, a page of each.

Takes the stream of `revisions.between`; keeps no more packages than are shown, however many differ.
Knows no HTTP.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from catalogs.revisions.affects import Effect, Installed, effects
from catalogs.revisions.between import FATES, PackageDifference
from catalogs.revisions.compare import Change, Kind
from catalogs.revisions.words import Line, count_kinds, count_packages, lines


@dataclass(frozen=True, slots=True)
class Entry:
    """One package as shown; `effects` say whom its changes concern."""

    package: str
    fate: str
    changes: Sequence[Change]
    effects: Sequence[Effect]

    @property
    def lines(self) -> list[Line]:
        return lines(self.changes)


@dataclass(slots=True)
class Section:
    """The packages of one fate: how many, and those kept, the concerned ones first."""

    fate: str
    total: int = 0
    concerned: list[Entry] = field(default_factory=list)
    others: list[Entry] = field(default_factory=list)

    def page(self, start: int, size: int) -> list[Entry]:
        return [*self.concerned, *self.others][start : start + size]


@dataclass(slots=True)
class Report:
    """All sections, how many changes there are of each kind, and what installed things they touch.

    The counts are of what passed the filters."""

    sections: dict[str, Section]
    kinds: Counter[str]
    affected: dict[Installed, None]

    @property
    def total(self) -> int:
        return sum(section.total for section in self.sections.values())

    @property
    def sentence(self) -> str:
        gone, added, changed = (self.sections[fate].total for fate in FATES)
        return count_packages(gone, added, changed, len(self.affected))

    @property
    def details(self) -> str:
        """What changed inside packages, after `sentence` has counted the packages."""
        whole = (Kind.PACKAGE_ADDED, Kind.PACKAGE_REMOVED)
        return count_kinds({kind: n for kind, n in self.kinds.items() if kind not in whole})


def make_report(
    differences: Iterable[PackageDifference],
    installed: Mapping[str, Sequence[Installed]],
    *,
    kinds: frozenset[str] = frozenset(),
    keep: int,
) -> Report:
    """Reads the differences once. `kinds`: only changes of these (none: of all); `keep`: packages
    kept in each section besides the concerned ones, of which there are as many as installed."""
    report = Report({fate: Section(fate) for fate in FATES}, Counter(), {})
    for each in differences:
        changes = [one for one in each.changes if not kinds or one.kind in kinds]
        if not changes:
            continue
        section = report.sections[each.fate]
        section.total += 1
        report.kinds.update(str(change.kind) for change in changes)
        concerned = effects(changes, installed)
        report.affected |= dict.fromkeys(effect.installed for effect in concerned)
        into = section.concerned if concerned else section.others
        if concerned or len(into) < keep:
            into.append(Entry(each.package, each.fate, changes, concerned))
    return report
