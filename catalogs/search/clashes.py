"""Whether packages of one name in several catalogs are the same package.

Pure. Two catalogs of different releases hold the same package with other versions and other words;
a package of somebody else's has another provider, bundles of another name, or speaks of another
thing.
"""

import re
from collections.abc import Sequence
from typing import Protocol

from catalogs.fbc.search_words import words_of

_VERSION = re.compile(r"[.-]?v?\d+\.\d+.*$", re.DOTALL)
_COMPANY = {"inc", "llc", "ltd", "gmbh", "ag", "corp", "corporation", "limited", "co", "the", "by"}
LEAST_COMMON = 0.2  # of two summaries' words, for them to speak of one thing


class Described(Protocol):
    """What is compared of a package."""

    @property
    def provider(self) -> str: ...
    @property
    def head_bundle(self) -> str: ...
    @property
    def summary(self) -> str: ...


def bundle_stem(bundle: str) -> str:
    """A bundle's name without its version: `etcdoperator.v0.9.4` -> `etcdoperator`."""
    return _VERSION.sub("", bundle).lower() or bundle.lower()


def differences(rows: Sequence[Described]) -> tuple[str, ...]:
    """In what the rows differ that should be the same: provider, bundles, description."""
    if len(rows) < 2:
        return ()
    first, others = rows[0], rows[1:]
    found = []
    providers = {frozenset(words_of(row.provider)) - _COMPANY for row in rows}
    if len(providers - {frozenset()}) > 1 and not frozenset.intersection(*providers):
        found.append("provider")
    if len({bundle_stem(row.head_bundle) for row in rows if row.head_bundle}) > 1:
        found.append("bundles")
    if any(not _alike(first.summary, other.summary) for other in others):
        found.append("description")
    return tuple(found)


def _alike(one: str, other: str) -> bool:
    """An empty text contradicts nothing."""
    words, others = set(words_of(one)), set(words_of(other))
    return not words or not others or len(words & others) >= LEAST_COMMON * len(words | others)
