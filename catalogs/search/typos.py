"""Words that are nearly one another: what a person meant who mistyped a package's name.

Pure: words come folded.
"""

from collections.abc import Iterable
from heapq import nlargest

SHORTEST = 4  # characters of a word that may be mistyped: shorter ones are all alike
LONG = 8  # from so many characters on, two mistakes are forgiven


def mistakes(word: str) -> int:
    """How many wrong, missing, extra or swapped characters are forgiven in `word`."""
    if len(word) < SHORTEST:
        return 0
    return 2 if len(word) >= LONG else 1


def distance(one: str, other: str, most: int) -> int:
    """Characters to change, add, drop or swap with the next to turn one into the other.

    Anything above `most` is told as `most + 1`: the rest is not worth counting.
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    above = list(range(len(other) + 1))
    for i, char in enumerate(one, 1):
        row = [i]
        for j, char2 in enumerate(other, 1):
            cost = min(above[j] + 1, row[-1] + 1, above[j - 1] + (char != char2))
            if i > 1 and j > 1 and char == other[j - 2] and one[i - 2] == char2:
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
    """The different words of some texts (words with spaces between), to look for near ones in."""

    def __init__(self, texts: Iterable[str]) -> None:
        words = {word for text in set(texts) for word in text.split()}
        self._pairs = {word: pairs_of(word) for word in sorted(words) if len(word) >= SHORTEST}

    def near(self, word: str) -> tuple[str, ...]:
        """The words that `word` may be a mistyping of: only those with the fewest mistakes."""
        most = mistakes(word)
        if not most:
            return ()
        pairs = pairs_of(word)
        found: dict[int, list[str]] = {}
        for other, others in self._pairs.items():
            # Each mistake spoils three pairs at most (a swap does): cheaper than the distance.
            if abs(len(other) - len(word)) <= most and len(pairs - others) <= 3 * most:
                found.setdefault(distance(word, other, most), []).append(other)
        best = min(found, default=most + 1)
        return tuple(found[best]) if best <= most else ()


def most_alike(asked: str, names: Iterable[str], limit: int, least: float = 0.4) -> list[str]:
    """The `names` that share most pairs with `asked`, best first, down to `least` of 1."""
    pairs = pairs_of(asked)
    scored = []
    for name in names:
        others = pairs_of(name)
        alike = 2 * len(pairs & others) / (len(pairs) + len(others))
        if alike >= least:
            scored.append((alike, name))
    return [name for _, name in nlargest(limit, scored)]
