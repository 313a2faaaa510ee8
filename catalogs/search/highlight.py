"""Marking the words of a search in texts of a catalog, which are untrusted.

Pure. A text is escaped piece by piece; the only markup is our own `<mark>`.
"""

import re
from functools import lru_cache
from html import escape

from django.utils.safestring import SafeString

from catalogs.fbc.package_texts import fold

_RUN = re.compile(r"([\x00-\x7f]+)|.", re.DOTALL)
AROUND = 90  # characters of a snippet before and after the match


@lru_cache(maxsize=256)
def pattern_of(words: tuple[str, ...]) -> re.Pattern[str] | None:
    """What marks any of `words` (folded), preferring where a word begins; None for no words."""
    if not words:
        return None
    parts = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(rf"(?<![^\W_])(?:{parts})")


def mark(text: str, words: tuple[str, ...]) -> SafeString:
    """`text` escaped, with `words` marked where a word begins with them, else anywhere."""
    spans = _spans(text, words)
    if not spans:
        return SafeString(escape(text))
    out, at = [], 0
    for start, end in spans:
        out.append(f"{escape(text[at:start])}<mark>{escape(text[start:end])}</mark>")
        at = end
    return SafeString("".join(out) + escape(text[at:]))


def snippet(text: str, words: tuple[str, ...]) -> SafeString:
    """The part of `text` around the first of `words` in it, marked; empty when none is in it."""
    spans = _spans(text, words)
    if not spans:
        return SafeString("")
    start, end = max(0, spans[0][0] - AROUND), min(len(text), spans[0][1] + AROUND)
    if start:
        start = text.find(" ", start, spans[0][0]) + 1 or start
    if end < len(text):
        end = max(text.rfind(" ", spans[0][1], end), spans[0][1])
    marked = mark(text[start:end], words)
    return SafeString(f"{'… ' if start else ''}{marked}{' …' if end < len(text) else ''}")


def has_word(text: str, word: str) -> bool:
    """Whether a word of `text` begins with `word` (folded)."""
    pattern = pattern_of((word,))
    return pattern is not None and pattern.search(fold(text)) is not None


def _spans(text: str, words: tuple[str, ...]) -> list[tuple[int, int]]:
    pattern = pattern_of(words)
    if pattern is None:
        return []
    folded, places = _folded(text)
    spans = [match.span() for match in pattern.finditer(folded)]
    if not spans:
        anywhere = [word for word in words if word in folded]
        spans = sorted((folded.index(word), folded.index(word) + len(word)) for word in anywhere)
    apart: list[tuple[int, int]] = []
    for start, end in spans:
        if not apart or places[start] >= apart[-1][1]:  # else it begins inside the one before
            apart.append((places[start], places[end - 1] + 1))
    return apart


def _folded(text: str) -> tuple[str, range | list[int]]:
    """`text` folded, and for each character of that its place in `text`."""
    if text.isascii():
        return text.lower(), range(len(text))
    parts: list[str] = []
    places: list[int] = []
    for match in _RUN.finditer(text):
        start, end = match.span()
        if match[1]:
            parts.append(match[1].lower())
            places.extend(range(start, end))
        else:
            parts.append(fold(match[0]))
            places.extend([start] * len(parts[-1]))
    return "".join(parts), places
