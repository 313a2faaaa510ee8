"""Changes as text: sentences that count them, the lines of a package, Markdown.

Pages, feeds and exports share these texts. They are plain, not escaped, but for `markdown`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from catalogs.revisions.compare import Change, Kind
from catalogs.revisions.differences import PackageDifference
from catalogs.revisions.effects import InstalledOperator, effects

# Kind to (singular, plural) after a number, in the order of a sentence.
_COUNTED = {
    Kind.PACKAGE_REMOVED: ("package gone", "packages gone"),
    Kind.PACKAGE_ADDED: ("package added", "packages added"),
    Kind.CHANNEL_REMOVED: ("channel gone", "channels gone"),
    Kind.BUNDLE_REMOVED: ("bundle gone", "bundles gone"),
    Kind.BUNDLE_PRUNED: ("bundle pruned", "bundles pruned"),
    Kind.DEPRECATED: ("deprecation", "deprecations"),
    Kind.HEAD_MOVED: ("head moved", "heads moved"),
    Kind.DEFAULT_CHANNEL_CHANGED: ("default channel changed", "default channels changed"),
    Kind.CHANNEL_ADDED: ("channel added", "channels added"),
    Kind.CHANNEL_CHANGED: ("change inside channels", "changes inside channels"),
    Kind.BUNDLE_ADDED: ("bundle added", "bundles added"),
    Kind.IMAGES_CHANGED: ("bundle with other images", "bundles with other images"),
    Kind.BUNDLE_CHANGED: ("bundle with another content", "bundles with another content"),
    Kind.UNDEPRECATED: ("deprecation taken back", "deprecations taken back"),
}
_TITLES = {
    Kind.PACKAGE_REMOVED: "Package gone",
    Kind.PACKAGE_ADDED: "Package added",
    Kind.CHANNEL_REMOVED: "Channel gone",
    Kind.BUNDLE_REMOVED: "Gone",
    Kind.BUNDLE_PRUNED: "Pruned",
    Kind.DEPRECATED: "Deprecated",
    Kind.HEAD_MOVED: "Head moved",
    Kind.DEFAULT_CHANNEL_CHANGED: "Default channel",
    Kind.CHANNEL_ADDED: "Channel added",
    Kind.CHANNEL_CHANGED: "Inside channels",
    Kind.BUNDLE_ADDED: "Added",
    Kind.IMAGES_CHANGED: "Other images",
    Kind.BUNDLE_CHANGED: "Other content",
    Kind.UNDEPRECATED: "Not deprecated any more",
}


@dataclass(frozen=True, slots=True)
class Line:
    """Changes of one kind in one package; `items` describe each in a few words."""

    kind: str
    title: str
    items: Sequence[str]


def lines(changes: Iterable[Change]) -> list[Line]:
    """The changes of one package by kind, what may hurt first."""
    items: dict[str, list[str]] = {}
    for change in changes:
        items.setdefault(change.kind, []).append(item(change))
    return [Line(kind, _TITLES[kind], items[kind]) for kind in _TITLES if kind in items]


def item(change: Change) -> str:
    """Describes a change of known kind; may be empty for a package without a head."""
    before, after, subject = change.before, change.after, change.subject
    match change.kind:
        case Kind.PACKAGE_REMOVED | Kind.PACKAGE_ADDED:
            return before or after
        case Kind.BUNDLE_ADDED | Kind.BUNDLE_REMOVED | Kind.BUNDLE_PRUNED:
            version = before or after
            return subject if not version or subject.endswith(version) else f"{subject} ({version})"
        case Kind.IMAGES_CHANGED if before or after:
            return f"{subject}: {before or 'none'} → {after or 'none'}"
        case Kind.CHANNEL_ADDED | Kind.CHANNEL_REMOVED:
            head = before or after
            return f"{subject} (head {head})" if head else subject
        case Kind.CHANNEL_CHANGED if before:
            return f"{subject} lost {before}"
        case Kind.CHANNEL_CHANGED if after:
            return f"{subject} got {after}"
        case Kind.CHANNEL_CHANGED:
            return f"{subject}: other upgrade paths"
        case Kind.HEAD_MOVED:
            return f"{subject}: {before or 'none'} → {after or 'none'}"
        case Kind.DEFAULT_CHANNEL_CHANGED:
            return f"{before or 'none'} → {after or 'none'}"
        case Kind.DEPRECATED | Kind.UNDEPRECATED:
            what = after or before
            return f"{what} {subject}" if subject else "the package itself"
    return subject


def count_kinds(counts: Mapping[str, int]) -> str:
    """Counts of changes by kind: "1 package gone, 14 bundles added"; empty when there are none."""
    parts = [
        f"{counts[kind]:,} {nouns[counts[kind] != 1]}"
        for kind, nouns in _COUNTED.items()
        if counts.get(kind)
    ]
    return ", ".join(parts)


def count_packages(gone: int, added: int, changed: int, affected: int) -> str:
    """The sentence over a comparison: "12 packages gone, 9 added, 4 changed; ..."."""
    if not (gone or added or changed):
        return "No package differs."
    noun = "package" if gone == 1 else "packages"
    concerned = {
        0: "none of your installed operators is affected",
        1: "1 of your installed operators is affected",
    }
    tail = concerned.get(affected, f"{affected:,} of your installed operators are affected")
    return f"{gone:,} {noun} gone, {added:,} added, {changed:,} changed; {tail}."


_SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\`*_[]<>#|&!"})


def markdown(
    title: str,
    differences: Iterable[PackageDifference],
    installed: Mapping[str, Sequence[InstalledOperator]],
) -> Iterator[str]:
    """A comparison as Markdown, in pieces, package by package; names can't become markup."""
    yield f"# {plain(title)}\n"
    empty = True
    for difference in differences:
        empty = False
        yield f"\n## {plain(difference.package)} ({difference.fate})\n\n"
        for effect in effects(difference.changes, installed):
            operator = f"{plain(effect.installed.name)} on {plain(effect.installed.cluster)}"
            yield f"- **Affects you**: {operator}: {plain(effect.text)}\n"
        for line in lines(difference.changes):
            yield f"- {line.title}: {plain(', '.join(line.items)) or '-'}\n"
    if empty:
        yield "\nNo package differs.\n"


def plain(text: str) -> str:
    """Text on one line in which no character has a meaning in Markdown."""
    return " ".join(text.split()).translate(_SPECIAL)
