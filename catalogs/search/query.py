"""The text of a search: its words, `provides:` and `image:`; and words that may be mistyped.

Pure. No text is an error: quotes, operators and other signs only separate words.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest

from catalogs.fbc.package_texts import fold, words_of

MAX_WORDS = 10  # of a search that count
SHORTEST = 4  # characters of a word that may be mistyped: shorter ones are too alike
LONG = 8  # characters from which on two mistakes are allowed
PROVIDES, IMAGE = "provides:", "image:"
_NAME = re.compile(r"[\w-]+(\.[\w+~-]+)+", re.ASCII)  # one word with dots


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """`words` are folded and distinct; `provides` and `images` are as written."""

    words: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    ignored: bool = False  # whether there were more than MAX_WORDS
    name: str = ""  # the search as written if it may be the name of a CRD or a bundle

    @property
    def empty(self) -> bool:
        return not (self.words or self.provides or self.images)

    @property
    def phrase(self) -> str:
        """The words in the form of SearchText: a space before each."""
        return "".join(f" {word}" for word in self.words)


def parse_query(text: str) -> SearchQuery:
    """Parses a search; a prefix without a value is left out."""
    plain: list[str] = []
    marked: dict[str, list[str]] = {PROVIDES: [], IMAGE: []}
    for part in text.split():
        prefix = next((prefix for prefix in marked if part.lower().startswith(prefix)), "")
        value = part[len(prefix) :].strip("\"'") if prefix else ""
        if value:
            marked[prefix].append(value)
        elif not prefix:
            plain += words_of(part)
    words = tuple(dict.fromkeys(plain))
    return SearchQuery(
        words=words[:MAX_WORDS],
        provides=tuple(dict.fromkeys(marked[PROVIDES]))[:MAX_WORDS],
        images=tuple(dict.fromkeys(marked[IMAGE]))[:MAX_WORDS],
        ignored=len(words) > MAX_WORDS,
        name=text.strip() if words and _NAME.fullmatch(text.strip()) else "",
    )


def provides(value: str, kind: str) -> bool:
    """Whether `provides:value` matches GROUP/KIND `kind`: by its kind, its group, both, or the name
    of its CRD."""
    wanted, (group, _, name) = fold(value), fold(kind).rpartition("/")
    return wanted in (name, group, f"{group}/{name}") or is_crd_name(value, kind)


def is_crd_name(value: str, kind: str) -> bool:
    """Whether PLURAL.GROUP `value` is the name of the CRD of GROUP/KIND `kind`.

    Catalogs have kinds without plurals: PLURAL is compared with those that are guessed as in
    apimachinery (UnsafeGuessKindToResource), and with the kind itself.
    """
    plural, _, wanted = fold(value).partition(".")
    group, _, name = fold(kind).rpartition("/")
    plurals = (name, f"{name}s", f"{name}es", f"{name.removesuffix('y')}ies")
    return bool(group) and wanted == group and plural in plurals


def mistakes(word: str) -> int:
    """How many wrong, missing, extra or swapped characters are allowed in `word`."""
    if len(word) < SHORTEST:
        return 0
    return 2 if len(word) >= LONG else 1


def distance(word: str, other: str, most: int) -> int:
    """Characters to change, add, drop or swap with the next to turn one word into the other; `most
    + 1` for any distance above `most`."""
    if abs(len(word) - len(other)) > most:
        return most + 1
    before: list[int] = []
    above = list(range(len(other) + 1))
    for i, char in enumerate(word, 1):
        row = [i]
        for j, char2 in enumerate(other, 1):
            cost = min(above[j] + 1, row[-1] + 1, above[j - 1] + (char != char2))
            if i > 1 and j > 1 and char == other[j - 2] and word[i - 2] == char2:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
        before, above = above, row
    return min(above[-1], most + 1)


def pairs_of(word: str) -> frozenset[str]:
    """Its pairs of neighbouring characters, the ends marked."""
    marked = f"^{word}$"
    return frozenset(marked[i : i + 2] for i in range(len(marked) - 1))


class Vocabulary:
    """The distinct words of some texts (words separated by spaces), searched for near ones."""

    def __init__(self, texts: Iterable[str]) -> None:
        words = {word for text in set(texts) for word in text.split()}
        self._by_length: dict[int, dict[str, frozenset[str]]] = {}  # with the pairs of each
        for word in sorted(words):
            if len(word) >= SHORTEST:
                self._by_length.setdefault(len(word), {})[word] = pairs_of(word)

    def near(self, word: str) -> tuple[str, ...]:
        """The words that `word` may stand for: only those with the fewest mistakes."""
        most = mistakes(word)
        if not most:
            return ()
        pairs = pairs_of(word)
        by_distance: dict[int, list[str]] = {}
        for length in range(len(word) - most, len(word) + most + 1):
            for other, others in self._by_length.get(length, {}).items():
                # Each mistake spoils three pairs at most (a swap does): cheaper than the distance.
                if len(pairs - others) <= 3 * most:
                    by_distance.setdefault(distance(word, other, most), []).append(other)
        best = min(by_distance, default=most + 1)
        return tuple(sorted(by_distance[best])) if best <= most else ()


def most_alike(
    text: str, names: Mapping[str, frozenset[str]], limit: int, least: float = 0.4
) -> list[str]:
    """The `names` (each with its pairs) that share most pairs with `text`, best first, down to
    `least` of 1."""
    pairs = pairs_of(text)
    scored = []
    for name, others in names.items():
        alike = 2 * len(pairs & others) / (len(pairs) + len(others))
        if alike >= least:
            scored.append((alike, name))
    return [name for _, name in nlargest(limit, scored)]
