"""Changes as text: sentences that count them, the lines of a package, Markdown.

Pages, feeds and exports share these texts. They are plain, not escaped, but for `markdown`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from catalogs.revisions.compare import ChangeKind, PackageChange
from catalogs.revisions.differences import FATE_LABELS, PackageDifference
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
    ChangeKind.CHANNEL_CHANGED: ("change inside channels", "changes inside channels"),
    ChangeKind.BUNDLE_ADDED: ("bundle added", "bundles added"),
    ChangeKind.IMAGES_CHANGED: ("bundle with other images", "bundles with other images"),
    ChangeKind.BUNDLE_CHANGED: ("bundle with another content", "bundles with another content"),
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
    ChangeKind.CHANNEL_CHANGED: "Inside channels",
    ChangeKind.BUNDLE_ADDED: "Added",
    ChangeKind.IMAGES_CHANGED: "Other images",
    ChangeKind.BUNDLE_CHANGED: "Other content",
    ChangeKind.UNDEPRECATED: "No longer deprecated",
}


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """Changes of one kind in one package; `items` describe each in a few words."""

    kind: str
    title: str
    items: Sequence[str]


def lines(changes: Iterable[PackageChange]) -> list[ChangeLine]:
    """The changes of one package by kind, what may hurt first."""
    items: dict[str, list[str]] = {}
    for change in changes:
        items.setdefault(change.kind, []).append(item(change))
    return [ChangeLine(kind, _TITLES[kind], items[kind]) for kind in _TITLES if kind in items]


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
            return f"{subject}: other upgrade paths"
        case ChangeKind.HEAD_MOVED:
            return f"{subject}: {before or 'none'} → {after or 'none'}"
        case ChangeKind.DEFAULT_CHANNEL_CHANGED:
            return f"{before or 'none'} → {after or 'none'}"
        case ChangeKind.DEPRECATED | ChangeKind.UNDEPRECATED:
            what = after or before
            return f"{what} {subject}" if subject else "the package itself"
    return subject


def count_kinds(counts: Mapping[str, int]) -> str:
    """Counts of changes by kind: "1 package removed, 14 bundles added"; empty without changes."""
    parts = [
        f"{counts[kind]:,} {nouns[counts[kind] != 1]}"
        for kind, nouns in _COUNTED.items()
        if counts.get(kind)
    ]
    return ", ".join(parts)


def count_packages(gone: int, added: int, changed: int, affected: int, move_to: str = "") -> str:
    """The sentence over a comparison: "12 packages removed, 9 added, 4 changed; ...". `move_to` is
    the other catalog, which affects an installed operator only if that moves."""
    if not (gone or added or changed):
        return "No package differs."
    noun = "package" if gone == 1 else "packages"
    if move_to:
        count = f"{affected:,}" if affected else "none"
        tail = f"a move to {move_to} would affect {count} of your installed operators"
    elif affected == 1:
        tail = "1 of your installed operators is affected"
    elif affected:
        tail = f"{affected:,} of your installed operators are affected"
    else:
        tail = "none of your installed operators is affected"
    return f"{gone:,} {noun} removed, {added:,} added, {changed:,} changed; {tail}."


_SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\`*_[]<>#|&!"})


def markdown(
    title: str,
    differences: Iterable[PackageDifference],
    installed: Mapping[str, Sequence[AffectedOperator]],
    move_to: str = "",
) -> Iterator[str]:
    """A comparison as Markdown, in pieces, package by package; names can't become markup.
    `move_to` is the other catalog, which affects an installed operator only if that moves."""
    label = f"If moved to {plain(move_to)}" if move_to else "Affects you"
    yield f"# {plain(title)}\n"
    empty = True
    for difference in differences:
        empty = False
        yield f"\n## {plain(difference.package)} ({FATE_LABELS[difference.fate]})\n\n"
        for effect in effects(difference.changes, installed):
            operator = f"{plain(effect.installed.name)} on {plain(effect.installed.cluster)}"
            yield f"- **{label}**: {operator}: {plain(effect.text)}\n"
        for line in lines(difference.changes):
            yield f"- {line.title}: {plain(', '.join(line.items)) or '-'}\n"
    if empty:
        yield "\nNo package differs.\n"


def plain(text: str) -> str:
    """Text on one line in which no character has a meaning in Markdown."""
    return " ".join(text.split()).translate(_SPECIAL)
