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
from catalogs.search.rows import Index, Row, Spoken


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
    places = {said: [_place(said, word) for word in asked.words] for said in index.saying}
    read_as = _read_mistyped(index, asked.words, places)
    described = fulltext.packages_with(asked.words)
    scores: dict[int, Score] = {}
    for said, rows in index.saying.items():
        total = sum(Place.DESCRIPTION if at is None else at for at in places[said])
        missing = [described[i] for i, at in enumerate(places[said]) if at is None]
        score = (_fit(said, asked.phrase), total)
        scores |= dict.fromkeys(set(rows).intersection(*missing), score)
    return Hits(scores, read_as)


def _read_mistyped(
    index: Index, words: tuple[str, ...], places: Mapping[Spoken, list[int | None]]
) -> dict[str, tuple[str, ...]]:
    """For words that have no place anywhere: the near words, whose rows get a place for them."""
    read_as = {}
    for i, word in enumerate(words):
        if any(found[i] is not None for found in places.values()):
            continue
        near = index.vocabulary.near(word)
        if near:
            read_as[word] = near
            for said, found in places.items():
                if _says(said, near):
                    found[i] = Place.MISTYPED
    return read_as


def _place(spoken: Spoken, word: str) -> int | None:
    begins = f" {word}"
    part = begins if len(word) <= fulltext.SHORT else word  # inside of words it is everywhere
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
    said = f"{spoken.name}{spoken.title}{spoken.keywords} "
    return any(f" {word} " in said for word in words)


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
    every = index.providing.keys() | index.provided_before.keys()
    meant = {each for each in every if provides(kind, each)}
    if not meant:
        begin = kind.lower()
        meant = {each for each in every if each.rpartition("/")[2].lower().startswith(begin)}
    return meant


def _providing(
    index: Index, meant: Collection[str], scores: Mapping[int, Score]
) -> dict[int, Score]:
    """Those of `scores` that provide what is meant: the newest version's comes first."""
    now = {row for kind in meant for row in index.providing.get(kind, ())}
    before = {row for kind in meant for row in index.provided_before.get(kind, ())}
    return {
        row: (*score, 0 if row in now else 1)
        for row, score in scores.items()
        if row in now or row in before
    }


def unplaced_words(row: Row, words: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `words` that nothing but the description of `row` can have."""
    return tuple(word for word in words if _place(row.spoken, word) is None)
