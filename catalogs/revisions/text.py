"""Changes as text: sentences that count them, the lines of a package, Markdown.

Pages, feeds and exports share these texts. They are plain, not escaped, but for `markdown`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from catalogs import semver
from catalogs.revisions.compare import ChangeKind, PackageChange, Sides
from catalogs.revisions.differences import FATES, PackageDifference, fate_label
from catalogs.revisions.effects import AffectedOperator, effects

# Kind to (singular, plural) after a number, in the order of a sentence.
_COUNTED = {
    ChangeKind.PACKAGE_REMOVED: ("package removed", "packages removed"),
    ChangeKind.PACKAGE_ADDED: ("package added", "packages added"),
    ChangeKind.CHANNEL_REMOVED: ("channel removed", "channels removed"),
    ChangeKind.BUNDLE_REMOVED: ("bundle removed", "bundles removed"),
    ChangeKind.BUNDLE_PRUNED: ("bundle pruned", "bundles pruned"),
    ChangeKind.DEPRECATED: ("deprecation", "deprecations"),
    ChangeKind.HEAD_MOVED: ("head moved", "heads moved"),
    ChangeKind.DEFAULT_CHANNEL_CHANGED: ("default channel changed", "default channels changed"),
    ChangeKind.CHANNEL_ADDED: ("channel added", "channels added"),
    ChangeKind.CHANNEL_CHANGED: (
        "change in the content of channels",
        "changes in the content of channels",
    ),
    ChangeKind.BUNDLE_ADDED: ("bundle added", "bundles added"),
    ChangeKind.IMAGES_CHANGED: ("bundle with changed images", "bundles with changed images"),
    ChangeKind.BUNDLE_CHANGED: ("bundle with changed content", "bundles with changed content"),
    ChangeKind.UNDEPRECATED: ("deprecation withdrawn", "deprecations withdrawn"),
}
_TITLES = {
    ChangeKind.PACKAGE_REMOVED: "Package removed",
    ChangeKind.PACKAGE_ADDED: "Package added",
    ChangeKind.CHANNEL_REMOVED: "Channel removed",
    ChangeKind.BUNDLE_REMOVED: "Removed",
    ChangeKind.BUNDLE_PRUNED: "Pruned",
    ChangeKind.DEPRECATED: "Deprecated",
    ChangeKind.HEAD_MOVED: "Head moved",
    ChangeKind.DEFAULT_CHANNEL_CHANGED: "Default channel",
    ChangeKind.CHANNEL_ADDED: "Channel added",
    ChangeKind.CHANNEL_CHANGED: "Content of channels",
    ChangeKind.BUNDLE_ADDED: "Added",
    ChangeKind.IMAGES_CHANGED: "Images changed",
    ChangeKind.BUNDLE_CHANGED: "Content changed",
    ChangeKind.UNDEPRECATED: "No longer deprecated",
}

# The same between two catalogs, where nothing moves; `A` and `B` stand for their names.
_COUNTED_BETWEEN = {
    ChangeKind.CHANNEL_REMOVED: ("channel only in A", "channels only in A"),
    ChangeKind.CHANNEL_ADDED: ("channel only in B", "channels only in B"),
    ChangeKind.BUNDLE_REMOVED: ("bundle only in A", "bundles only in A"),
    ChangeKind.BUNDLE_PRUNED: ("older bundle only in A", "older bundles only in A"),
    ChangeKind.BUNDLE_ADDED: ("bundle only in B", "bundles only in B"),
    ChangeKind.DEPRECATED: ("deprecation only in B", "deprecations only in B"),
    ChangeKind.UNDEPRECATED: ("deprecation only in A", "deprecations only in A"),
    ChangeKind.HEAD_MOVED: ("channel with different heads", "channels with different heads"),
    ChangeKind.DEFAULT_CHANNEL_CHANGED: (
        "package with different default channels",
        "packages with different default channels",
    ),
    ChangeKind.CHANNEL_CHANGED: (
        "difference in the content of channels",
        "differences in the content of channels",
    ),
    ChangeKind.IMAGES_CHANGED: ("bundle with different images", "bundles with different images"),
    ChangeKind.BUNDLE_CHANGED: (
        "bundle with different requirements or APIs",
        "bundles with different requirements or APIs",
    ),
    ChangeKind.DISPLAY_NAME_CHANGED: (
        "bundle with different display names",
        "bundles with different display names",
    ),
}
_TITLES_BETWEEN = {
    ChangeKind.PACKAGE_REMOVED: "Packages only in A",
    ChangeKind.PACKAGE_ADDED: "Packages only in B",
    ChangeKind.CHANNEL_REMOVED: "Channels only in A",
    ChangeKind.CHANNEL_ADDED: "Channels only in B",
    ChangeKind.BUNDLE_REMOVED: "Bundles only in A",
    ChangeKind.BUNDLE_PRUNED: "Older bundles only in A",
    ChangeKind.BUNDLE_ADDED: "Bundles only in B",
    ChangeKind.DEPRECATED: "Deprecated in B",
    ChangeKind.UNDEPRECATED: "Deprecated in A",
    ChangeKind.HEAD_MOVED: "Channel heads differ",
    ChangeKind.DEFAULT_CHANNEL_CHANGED: "Default channels differ",
    ChangeKind.CHANNEL_CHANGED: "Content of channels differs",
    ChangeKind.IMAGES_CHANGED: "Images differ",
    ChangeKind.BUNDLE_CHANGED: "Requirements or APIs differ",
    ChangeKind.DISPLAY_NAME_CHANGED: "Display names differ",
}
# Only in one catalog: the section says so already, the line has the head of the default channel.
_WHOLE = (ChangeKind.PACKAGE_REMOVED, ChangeKind.PACKAGE_ADDED)
# Kinds whose changes of several bundles may say the same.
_OF_BUNDLES = (
    ChangeKind.IMAGES_CHANGED,
    ChangeKind.BUNDLE_CHANGED,
    ChangeKind.DISPLAY_NAME_CHANGED,
)
SUBJECTS_NAMED = 10
_SIDE = re.compile(r"\b[AB]\b")


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """Changes of one kind in one package; `items` describe each in a few words."""

    kind: str
    title: str
    items: Sequence[str]

    @property
    def listed(self) -> bool:
        """Whether each item is a sentence of its own, shown on a line of its own."""
        return len(self.items) > 1 and any(": " in text for text in self.items)

    @property
    def separator(self) -> str:
        """Between the items, some of which have commas of their own."""
        return "; " if any(", " in text for text in self.items) else ", "


def lines(changes: Iterable[PackageChange], sides: Sides | None = None) -> list[ChangeLine]:
    """The changes of one package by kind, what may hurt first; of two catalogs with `sides`."""
    items: dict[str, list[str]] = {}
    for change in _merged(changes) if sides else changes:
        text = item_between(change, sides) if sides else item(change)
        items.setdefault(change.kind, []).append(text)
    titles = (
        {**_TITLES_BETWEEN, **dict.fromkeys(_WHOLE, "Default channel head")} if sides else _TITLES
    )
    return [
        ChangeLine(kind, _named(titles[kind], sides), items[kind])
        for kind in titles
        if kind in items
    ]


def _merged(changes: Iterable[PackageChange]) -> list[PackageChange]:
    """The changes, with one for all bundles of the package that differ in the same way."""
    subjects: dict[PackageChange, list[str]] = {}
    for change in changes:
        same = change._replace(subject="") if change.kind in _OF_BUNDLES else change
        subjects.setdefault(same, []).append(change.subject)
    return [change._replace(subject=_names_of_bundles(names)) for change, names in subjects.items()]


def _names_of_bundles(names: Sequence[str]) -> str:
    """`a.v1`, `2 versions (a.v1, a.v2)`; at most SUBJECTS_NAMED are named."""
    if len(names) == 1:
        return names[0]
    more = f" and {len(names) - SUBJECTS_NAMED} more" if len(names) > SUBJECTS_NAMED else ""
    return f"{len(names)} versions ({', '.join(names[:SUBJECTS_NAMED])}{more})"


def kind_label(kind: str, sides: Sides | None = None) -> str:
    """The name of a kind of changes; of two catalogs with `sides`."""
    return _named(_TITLES_BETWEEN[ChangeKind(kind)], sides) if sides else kind.capitalize()


def _named(text: str, sides: Sides | None) -> str:
    """The text with the names of the catalogs for A and B."""
    if sides is None:
        return text
    return _SIDE.sub(lambda side: sides.before if side[0] == "A" else sides.after, text)


def item_between(change: PackageChange, sides: Sides) -> str:
    """`item` of a difference between two catalogs."""
    before, after, subject = change.before, change.after, change.subject
    both = ", ".join(
        f"{value} in {side}" if value else f"missing in {side}"
        for value, side in zip((before, after), sides, strict=True)
    )
    match change.kind:
        case ChangeKind.CHANNEL_CHANGED if not (before or after):
            return f"{subject}: different upgrade paths in {sides.before} and {sides.after}"
        case ChangeKind.CHANNEL_CHANGED:
            return f"{subject}: {before or after} only in {sides.before if before else sides.after}"
        case ChangeKind.HEAD_MOVED:
            old, new = (_version(change.package, bundle) for bundle in (before, after))
            newer = ""
            if old is not None and new is not None and old != new:
                newer = f" (newer in {sides.after if new > old else sides.before})"
            return f"{subject}: {both}{newer}"
        case ChangeKind.DEFAULT_CHANNEL_CHANGED:
            return both
        case (
            ChangeKind.IMAGES_CHANGED | ChangeKind.BUNDLE_CHANGED | ChangeKind.DISPLAY_NAME_CHANGED
        ) if before or after:
            if not (before and after):
                side = sides.before if before else sides.after
                return f"{subject}: {before or after} only in {side}"
            return f"{subject}: {both}"
        case ChangeKind.IMAGES_CHANGED:
            return f"{subject}: related images"
    return item(change)


def _version(package: str, bundle: str) -> semver.Version | None:
    """The version in the usual name of a bundle, PACKAGE.vVERSION."""
    text = bundle.removeprefix(package).removeprefix(".").removeprefix("v")
    return semver.read_version(text)


def item(change: PackageChange) -> str:
    """Describes a change of known kind; may be empty for a package without a head."""
    before, after, subject = change.before, change.after, change.subject
    match change.kind:
        case ChangeKind.PACKAGE_REMOVED | ChangeKind.PACKAGE_ADDED:
            return before or after
        case ChangeKind.BUNDLE_ADDED | ChangeKind.BUNDLE_REMOVED | ChangeKind.BUNDLE_PRUNED:
            version = before or after
            return subject if not version or subject.endswith(version) else f"{subject} ({version})"
        case ChangeKind.IMAGES_CHANGED if before or after:
            return f"{subject}: {before or 'none'} → {after or 'none'}"
        case ChangeKind.CHANNEL_ADDED | ChangeKind.CHANNEL_REMOVED:
            head = before or after
            return f"{subject} (head {head})" if head else subject
        case ChangeKind.CHANNEL_CHANGED if before:
            return f"{subject}: {before} removed"
        case ChangeKind.CHANNEL_CHANGED if after:
            return f"{subject}: {after} added"
        case ChangeKind.CHANNEL_CHANGED:
            return f"{subject}: upgrade paths changed"
        case ChangeKind.HEAD_MOVED:
            return f"{subject}: {before or 'none'} → {after or 'none'}"
        case ChangeKind.DEFAULT_CHANNEL_CHANGED:
            return f"{before or 'none'} → {after or 'none'}"
        case ChangeKind.DEPRECATED | ChangeKind.UNDEPRECATED:
            what = after or before
            return f"{what} {subject}" if subject else "the package itself"
    return subject


def count_kinds(counts: Mapping[str, int], sides: Sides | None = None) -> str:
    """Counts of changes by kind: "1 package removed, 14 bundles added"; empty without changes."""
    nouns = _COUNTED_BETWEEN if sides else _COUNTED
    parts = [
        f"{counts[kind]:,} {_named(nouns[kind][counts[kind] != 1], sides)}"
        for kind in nouns
        if counts.get(kind)
    ]
    return ", ".join(parts)


def count_packages(
    gone: int, added: int, changed: int, affected: int, sides: Sides | None = None
) -> str:
    """The sentence over a comparison: "12 packages removed, 9 added, 4 changed; ...". With two
    catalogs: "12 packages only in redhat-operators, 9 only in next, 4 in both with
    differences; ...". Zeros are left out."""
    if not (gone or added or changed):
        return "No package differs."
    counts = zip((gone, added, changed), FATES, strict=True)
    parts = [(count, fate_label(fate, sides)) for count, fate in counts if count]
    noun = "package" if parts[0][0] == 1 else "packages"
    numbers = ", ".join(f"{count:,} {words}" for count, words in parts)
    numbers = numbers.replace(" ", f" {noun} ", 1)
    if sides:
        count = f"{affected:,}" if affected else "none"
        tail = f"a move to {sides.after} would affect {count} of your installed operators"
    elif affected == 1:
        tail = "1 of your installed operators is affected"
    elif affected:
        tail = f"{affected:,} of your installed operators are affected"
    else:
        tail = "none of your installed operators is affected"
    return f"{numbers}; {tail}."


_SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\`*_[]<>#|&!"})


def markdown(
    title: str,
    differences: Iterable[PackageDifference],
    installed: Mapping[str, Sequence[AffectedOperator]],
    sides: Sides | None = None,
) -> Iterator[str]:
    """A comparison as Markdown, in pieces, package by package; names can't become markup."""
    label = f"If moved to {plain(sides.after)}" if sides else "Affects you"
    yield f"# {plain(title)}\n"
    empty = True
    for difference in differences:
        empty = False
        yield f"\n## {plain(difference.package)} ({plain(fate_label(difference.fate, sides))})\n\n"
        for effect in effects(difference.changes, installed, sides):
            operator = f"{plain(effect.installed.name)} on {plain(effect.installed.cluster)}"
            yield f"- **{label}**: {operator}: {plain(effect.text)}\n"
        for line in lines(difference.changes, sides):
            yield f"- {plain(line.title)}: {plain(line.separator.join(line.items)) or '-'}\n"
    if empty:
        yield "\nNo package differs.\n"


def plain(text: str) -> str:
    """Text on one line in which no character has a meaning in Markdown."""
    return " ".join(text.split()).translate(_SPECIAL)
