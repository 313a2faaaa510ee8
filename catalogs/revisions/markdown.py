"""A comparison as Markdown, for a ticket or a change review: differences in, text out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from catalogs.revisions.affects import Installed, effects
from catalogs.revisions.between import PackageDifference
from catalogs.revisions.words import lines

_SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\`*_[]<>#|&!"})


def markdown(
    title: str,
    differences: Iterable[PackageDifference],
    installed: Mapping[str, Sequence[Installed]],
) -> Iterator[str]:
    """The text in pieces, package by package; names can't become markup."""
    yield f"# {plain(title)}\n"
    empty = True
    for each in differences:
        empty = False
        yield f"\n## {plain(each.package)} ({each.fate})\n\n"
        for effect in effects(each.changes, installed):
            who = f"{plain(effect.installed.name)} on {plain(effect.installed.cluster)}"
            yield f"- **Affects you**: {who}: {plain(effect.words)}\n"
        for line in lines(each.changes):
            yield f"- {line.title}: {plain(', '.join(line.items)) or '-'}\n"
    if empty:
        yield "\nNo package differs.\n"


def plain(text: str) -> str:
    """Text on one line in which no character means anything to Markdown."""
    return " ".join(text.split()).translate(_SPECIAL)
