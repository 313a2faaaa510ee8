"""JSON nested deeper than its decoder goes, cut until it can be decoded. Pure.

A cluster takes documents of up to 10,000 levels (Go's encoding/json), such as an example in a
CustomResourceDefinition's schema; decoding here ends at Python's recursion limit, about a tenth of
that. Nothing that is kept of an object lies anywhere near.
"""

import re
from collections.abc import Callable
from typing import TypeVar

DEPTH = 100  # arrays and objects around a value that stays
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)

Found = TypeVar("Found")


def decoded(decode: Callable[[bytes], Found], document: bytes) -> Found:
    """`decode(document)`, or of its `shallow` form where that is nested too deep. Raises as it."""
    try:
        return decode(document)
    except RecursionError:
        return decode(shallow(document))


def shallow(document: bytes) -> bytes:
    """The same JSON with null for each array and object inside DEPTH others, in linear time."""
    kept, start, depth = [], 0, 0
    for token in _TOKEN.finditer(document):
        sign = token[0]
        if sign in (b"{", b"["):
            depth += 1
            if depth == DEPTH + 1:
                kept += [document[start : token.start()], b"null"]
        elif sign in (b"}", b"]"):
            if depth == DEPTH + 1:
                start = token.end()
            depth -= 1
    if depth <= DEPTH:
        kept.append(document[start:])
    return b"".join(kept)
