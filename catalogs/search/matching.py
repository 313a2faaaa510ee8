"""The packages that match a search, and their scores.

The place of a word decides: a name is worth more than a keyword, a keyword more than a line of the
description. The database's full text index (migration 0001_initial) has the words of descriptions;
names and other fields are matched here, where parts of words count too. A word that no field has
may also be a mistyped name.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from django.db import connection

from catalogs.fbc.package_texts import plain_text
from catalogs.models import Bundle, PackageText
from catalogs.search import images
from catalogs.search.index import Row, SearchIndex, SearchText
from catalogs.search.query import SearchQuery, is_crd_name, provides

_TABLE = "catalogs_packagesearch"
# One row a word, with all ids: reading thousands of rows takes longer than finding them.
_ONE = {
    "sqlite": f"SELECT %s, json_group_array(rowid) FROM {_TABLE}_fts WHERE {_TABLE}_fts MATCH %s",  # noqa: S608
    "postgresql": f"SELECT %s, {_TABLE}_with(%s::tsquery)",
}
# Words are letters and digits only (catalogs.fbc.package_texts): they need no escape.
_IS = {"sqlite": '"{}"', "postgresql": "'{}'"}
_BEGINS = {"sqlite": '"{}"*', "postgresql": "'{}':*"}
SHORT = 2  # characters of a word that must match a whole word: as a prefix it would be everywhere


class WordPlace(IntEnum):
    """The field that has a word, best first."""

    NAME_BEGINS = 0
    NAME = 1
    KEYWORD = 2
    KIND = 3
    PROVIDER = 4
    CATEGORY = 5
    MISTYPED = 6
    DESCRIPTION = 7


class Fit(IntEnum):
    """How the whole search matches a package's names, best first."""

    NAME = 0
    NAME_BEGINS = 1
    TITLE = 2
    TITLE_HAS = 3
    OTHER = 4


Score = tuple[int, ...]  # the lowest is shown first


@dataclass(frozen=True, slots=True)
class Hits:
    """Row id to score of every matching row. `read_as` maps mistyped words, which no field has, to
    the words of names that are searched instead."""

    scores: Mapping[int, Score]
    read_as: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset()  # every GROUP/KIND that `provides:` matches


def find_hits(index: SearchIndex, query: SearchQuery) -> Hits | None:
    """The packages that match; None for an empty search. At most four queries."""
    if query.empty:
        return None
    hits = _with_words(index, query) if query.words else None
    scores = dict(hits.scores) if hits else {row.id: () for row in index.rows}
    kinds: set[str] = set()
    if query.name:
        kinds, named = _with_name(index, query.name)
        if hits and hits.read_as and named:  # it is no typing mistake
            hits, scores = None, {}
        scores |= named
    for kind in query.provides:
        meant = _meant(index, kind)
        scores = _providing(index, meant, scores)
        kinds |= meant
    for image in query.images:
        having = images.packages_with_image(index, image)
        scores = {key: score for key, score in scores.items() if key in having}
    return Hits(scores, hits.read_as if hits else {}, frozenset(kinds))


def _with_words(index: SearchIndex, query: SearchQuery) -> Hits:
    places = {text: [_place(text, word) for word in query.words] for text in index.by_text}
    read_as = _read_mistyped(index, query.words, places)
    described = packages_with(query.words)
    scores: dict[int, Score] = {}
    phrase = query.phrase
    for text, rows in index.by_text.items():
        positions = places[text]
        missing = [described[i] for i, at in enumerate(positions) if at is None]
        if not all(missing):
            continue
        having = set(rows).intersection(*missing) if missing else rows
        if having:
            total = sum(WordPlace.DESCRIPTION if at is None else at for at in positions)
            scores |= dict.fromkeys(having, (_fit(text, phrase), total))
    return Hits(scores, read_as)


def _with_name(index: SearchIndex, name: str) -> tuple[set[str], dict[int, Score]]:
    """Kinds with a CRD of this name and the packages that provide them; without any, the packages
    with a bundle of this name."""
    every = index.providing.keys() | index.provided_before.keys()
    kinds = {kind for kind in every if is_crd_name(name, kind)}
    best: Score = (Fit.NAME, WordPlace.NAME_BEGINS)
    if kinds:
        rows = {row for kind in kinds for row in index.providing.get(kind, ())}
        older = {row for kind in kinds for row in index.provided_before.get(kind, ())}
        return kinds, {row: (*best, 0 if row in rows else 1) for row in rows | older}
    having = Bundle.objects.filter(name=name).order_by().values_list("package_id", flat=True)
    return kinds, dict.fromkeys(having, best)


def _read_mistyped(
    index: SearchIndex, words: tuple[str, ...], places: Mapping[SearchText, list[int | None]]
) -> dict[str, tuple[str, ...]]:
    """Near words for words that no row has; rows with a near word get a place for it."""
    read_as = {}
    for i, word in enumerate(words):
        if any(positions[i] is not None for positions in places.values()):
            continue
        near = index.vocabulary.near(word)
        if near:
            read_as[word] = near
            for text, positions in places.items():
                if _says(text, near):
                    positions[i] = WordPlace.MISTYPED
    return read_as


def _place(text: SearchText, word: str) -> int | None:
    begin = f" {word}"
    part = begin if len(word) <= SHORT else word  # inside of words it is everywhere
    if text.name.startswith(begin):
        return WordPlace.NAME_BEGINS
    if part in text.name or part in text.title:
        return WordPlace.NAME
    if part in text.keywords:
        return WordPlace.KEYWORD
    if part in text.kinds:
        return WordPlace.KIND
    if part in text.provider:
        return WordPlace.PROVIDER
    return WordPlace.CATEGORY if part in text.categories else None


def _says(text: SearchText, words: tuple[str, ...]) -> bool:
    words_of_text = f"{text.name}{text.title}{text.keywords} "
    return any(f" {word} " in words_of_text for word in words)


def _fit(text: SearchText, phrase: str) -> Fit:
    if text.name == phrase:
        return Fit.NAME
    if text.name.startswith(phrase):
        return Fit.NAME_BEGINS
    if text.title == phrase:
        return Fit.TITLE
    return Fit.TITLE_HAS if phrase in text.title else Fit.OTHER


def _meant(index: SearchIndex, kind: str) -> set[str]:
    """Every GROUP/KIND that `kind` asks for; when nothing is exactly that, kinds that begin so."""
    every = index.providing.keys() | index.provided_before.keys()
    meant = {name for name in every if provides(kind, name)}
    if not meant:
        begin = kind.lower()
        meant = {name for name in every if name.rpartition("/")[2].lower().startswith(begin)}
    return meant


def kind_named(index: SearchIndex, query: SearchQuery) -> str:
    """The kind that a search of a single plain word names, as a package spells it; else empty."""
    if len(query.words) != 1 or query.provides or query.images:
        return ""
    return index.kinds_by_word.get(query.words[0], "")


def _providing(
    index: SearchIndex, meant: Collection[str], scores: Mapping[int, Score]
) -> dict[int, Score]:
    """Those of `scores` that provide a matching kind, by their newest version first."""
    now = {row for kind in meant for row in index.providing.get(kind, ())}
    before = {row for kind in meant for row in index.provided_before.get(kind, ())}
    return {
        row: (*score, 0 if row in now else 1)
        for row, score in scores.items()
        if row in now or row in before
    }


def unplaced_words(row: Row, words: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `words` that only the description of `row` can have."""
    return tuple(word for word in words if _place(row.search_text, word) is None)


def packages_with(words: Sequence[str]) -> list[set[int]]:
    """Per word of `words` (folded) the ids of packages with a word that begin so, or for a short
    one with that very word; one query."""
    if not words:
        return []
    vendor = connection.vendor
    parameters: list[int | str] = []
    for i, word in enumerate(words):
        parameters += (i, (_IS if len(word) <= SHORT else _BEGINS)[vendor].format(word))
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join([_ONE[vendor]] * len(words)), parameters)
        rows = dict(cursor.fetchall())
    results = (rows[i] or () for i in range(len(words)))  # PostgreSQL gives a list or nothing
    return [set(json.loads(ids) if isinstance(ids, str) else ids) for ids in results]


def descriptions_of(packages: Collection[int]) -> dict[int, str]:
    """Package id to its whole description as plain text in one line; one query."""
    if not packages:
        return {}
    texts = PackageText.objects.filter(package__in=packages)
    return {
        package: plain_text(html)
        for package, html in texts.values_list("package_id", "description_html")
    }
