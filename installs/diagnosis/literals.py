"""Texts without which a pattern of the knowledge base can't match, which are faster to look for."""

import re
from collections import deque

_SHORTEST = 3  # shorter texts are in almost every message
_PIECES = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P<\w+>|\(\?(?:[a-z]*:|<?[=!])|[*+?]\??|\{\d*,?\d*\}\??|.",
    re.DOTALL,
)
_QUANTIFIER = re.compile(r"[*+?]\??|\{\d*,?\d*\}\??")
_ESCAPES = {"\\n": "\n", "\\t": "\t"}


def required_literals(pattern: str) -> tuple[str, ...]:
    """Texts of which every match contains at least one; empty if there are none for certain.

    Looking for a text in a message takes a tenth of the time of a pattern that does not match, and
    of hundreds of patterns one matches. Reads the syntax that the entries use: flags only as
    (?i:...), no verbose patterns. Splits the pattern itself, as the standard library has no public
    parser: the tree of `re._parser` is private and differs between releases of Python.
    """
    literals = _of_branches(deque(_PIECES.findall(pattern)))
    return tuple(sorted(literals)) if _shortest(literals) >= _SHORTEST else ()


def _of_branches(pieces: deque[str]) -> frozenset[str]:
    """What one of the branches requires, up to the end of their group, which is taken off, too."""
    branches = [_of_sequence(pieces)]
    while pieces and pieces.popleft() == "|":
        branches.append(_of_sequence(pieces))
    return frozenset().union(*branches) if all(map(_shortest, branches)) else frozenset()


def _of_sequence(pieces: deque[str]) -> frozenset[str]:
    """The best of what each part of the sequence requires."""
    best: frozenset[str] = frozenset()
    run = ""
    while pieces and pieces[0] not in ("|", ")"):
        piece = pieces.popleft()
        inside = _of_branches(pieces) if piece.startswith("(") else frozenset[str]()
        # Lookarounds match no text, and with (?i:...) the case is open.
        certain = piece in ("(", "(?:") or piece.startswith("(?P<")
        repeated = pieces.popleft() if pieces and _QUANTIFIER.fullmatch(pieces[0]) else ""
        optional = repeated.startswith(("*", "?", "{0", "{,"))
        text = _literal(piece)
        if text and not optional:
            run += text
        if text and not repeated:
            continue
        parts = (best, frozenset({run}), inside if certain and not optional else frozenset())
        best, run = max(parts, key=_shortest), ""
    return max(best, frozenset({run}), key=_shortest)


def _literal(piece: str) -> str:
    """The character that the piece stands for; empty if it stands for several or for none."""
    if piece.startswith("\\"):
        return _ESCAPES.get(piece, "" if piece[1].isalnum() else piece[1])
    return piece if len(piece) == 1 and piece not in ".^$(" else ""


def _shortest(literals: frozenset[str]) -> int:
    """The length of the shortest text; 0 if nothing is required."""
    return min(map(len, literals), default=0)
