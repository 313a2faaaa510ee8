"""Which packages a search means, and how well each fits.

Where a word stands decides: a name is worth more than a keyword, a keyword more than a line of the
description. The database knows the words of descriptions; names and the like are looked at here,
where parts of words count too. A word that none of them has is taken for a mistyped name as well.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from catalogs.search import fulltext, images
from catalogs.search.asked import Asked, provides
from catalogs.search.rows import FACETS, Index, Row, Spoken

PROVIDED = list(FACETS).index("provides")
SHORT = 2  # characters of a word that must begin a word: inside of words it would be everywhere


class Place(IntEnum):
    """Where a word was found, best first."""

    NAME_BEGINS = 0
    NAME = 1
    KEYWORD = 2
    KIND = 3
    PROVIDER = 4
    CATEGORY = 5
    MISTYPED = 6
    DESCRIPTION = 7


class Fit(IntEnum):
    """How the whole search stands to a package's names, best first."""

    NAME = 0
    NAME_BEGINS = 1
    TITLE = 2
    TITLE_HAS = 3
    OTHER = 4


Score = tuple[int, ...]  # the lowest is shown first


@dataclass(frozen=True, slots=True)
class Hits:
    """Row id to score of every row that fits. `read_as` says for words that no name, keyword or
    the like has, which words of names were taken for them."""

    scores: Mapping[int, Score]
    read_as: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset()  # every GROUP/KIND that is meant by `provides:`


def find_hits(index: Index, asked: Asked) -> Hits | None:
    """None when nothing is asked: every package fits. At most three queries."""
    if asked.nothing:
        return None
    hits = _with_words(index, asked) if asked.words else None
    scores = dict(hits.scores) if hits else {row.id: () for row in index.rows}
    kinds: set[str] = set()
    for kind in asked.provides:
        meant = _meant(index, kind)
        scores = _providing(index, meant, scores)
        kinds |= meant
    for image in asked.images:
        having = images.packages_with(index, image)
        scores = {key: score for key, score in scores.items() if key in having}
    return Hits(scores, hits.read_as if hits else {}, frozenset(kinds))


def _with_words(index: Index, asked: Asked) -> Hits:
    described = fulltext.packages_with(asked.words)
    seen: dict[Spoken, list[int | None]] = {}
    for row in index.rows:
        if row.spoken not in seen:
            seen[row.spoken] = [_place(row.spoken, word) for word in asked.words]
    read_as = {}
    for i, word in enumerate(asked.words):
        if all(places[i] is None for places in seen.values()):
            read_as[word] = index.vocabulary.near(word)
            for spoken, places in seen.items():
                if _says(spoken, read_as[word]):
                    places[i] = Place.MISTYPED
    fits = {spoken: _fit(spoken, asked.phrase) for spoken in seen}
    scores = {}
    for row in index.rows:
        total = 0
        for having, place in zip(described, seen[row.spoken], strict=True):
            if place is not None:
                total += place
            elif row.id in having:
                total += Place.DESCRIPTION
            else:
                break
        else:
            scores[row.id] = (fits[row.spoken], total)
    return Hits(scores, {word: near for word, near in read_as.items() if near})


def _place(spoken: Spoken, word: str) -> int | None:
    begins = f" {word}"
    part = begins if len(word) <= SHORT else word
    if spoken.name.startswith(begins):
        return Place.NAME_BEGINS
    if part in spoken.name or part in spoken.title:
        return Place.NAME
    if part in spoken.keywords:
        return Place.KEYWORD
    if part in spoken.kinds:
        return Place.KIND
    if part in spoken.provider:
        return Place.PROVIDER
    return Place.CATEGORY if part in spoken.categories else None


def _says(spoken: Spoken, words: tuple[str, ...]) -> bool:
    return any(f" {word} " in f"{spoken.name}{spoken.title} " for word in words)


def _fit(spoken: Spoken, phrase: str) -> Fit:
    if spoken.name == phrase:
        return Fit.NAME
    if spoken.name.startswith(phrase):
        return Fit.NAME_BEGINS
    if spoken.title == phrase:
        return Fit.TITLE
    return Fit.TITLE_HAS if phrase in spoken.title else Fit.OTHER


def _meant(index: Index, kind: str) -> set[str]:
    """Every GROUP/KIND that `kind` asks for; when nothing is exactly that, kinds that begin so."""
    every = {each for row in index.rows for each in row.values[PROVIDED]}
    meant = {each for each in every if provides(kind, each)}
    if not meant:
        begin = kind.lower()
        meant = {each for each in every if each.rpartition("/")[2].lower().startswith(begin)}
    return meant


def _providing(
    index: Index, meant: Collection[str], scores: Mapping[int, Score]
) -> dict[int, Score]:
    """Those of `scores` that provide what is meant: the newest version's comes first."""
    found = {}
    for row in index.rows:
        if row.id in scores:
            now = any(each in meant for each in row.provides)
            if now or any(each in meant for each in row.provided_before):
                found[row.id] = (*scores[row.id], 0 if now else 1)
    return found


def unplaced_words(row: Row, words: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `words` that nothing but the description of `row` can have."""
    return tuple(word for word in words if _place(row.spoken, word) is None)
