"""Finds the words without which a pattern can't match, to skip most patterns without trying them.

Looking for a word in a message takes a tenth of the time of a pattern that does not match, and of
hundreds of patterns one matches. The parse tree comes from the standard library's own parser; there
is no public way to get it.
"""

import re
from collections.abc import Iterable
from re import _constants as codes
from re import _parser
from typing import Any

_SHORTEST = 3  # shorter words are in almost every message


def required_literals(pattern: str) -> tuple[str, ...]:
    """Texts of which every match contains at least one; empty if there are none for certain.

    Raises re.error if the pattern is invalid.
    """
    literals = _of_sequence(_parser.parse(pattern))
    return tuple(sorted(literals)) if _weight(literals) >= _SHORTEST else ()


def _of_sequence(items: Iterable[tuple[Any, Any]]) -> frozenset[str]:
    """The best of what each part of the sequence requires."""
    best: frozenset[str] = frozenset()
    run = ""
    for code, value in items:
        if code is codes.LITERAL:
            run += chr(value)
            continue
        best, run = max(best, frozenset({run}), _of_item(code, value), key=_weight), ""
    return max(best, frozenset({run}), key=_weight)


def _of_item(code: Any, value: Any) -> frozenset[str]:
    if code is codes.SUBPATTERN:
        _, added, _, inner = value
        return frozenset() if added & re.IGNORECASE else _of_sequence(inner)
    if code is codes.BRANCH:
        branches = [_of_sequence(branch) for branch in value[1]]
        return frozenset().union(*branches) if all(map(_weight, branches)) else frozenset()
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT) and value[0] > 0:
        return _of_sequence(value[2])
    return frozenset()


def _weight(literals: frozenset[str]) -> int:
    """The length of the shortest text; 0 if nothing is required."""
    return min(map(len, literals), default=0)
