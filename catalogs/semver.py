"""Versions and version ranges as OLM reads them. Pure.

Three grammars: strict semantic versions (as `blang`: three numbers, no leading `v`), `blang` ranges
(an entry's skipRange, olm.package.required) and `Masterminds` ranges (a ClusterExtension's
spec.source.catalog.version). Only the latter have commas, `~`, `^` and hyphens, and exclude
pre-releases.
"""

import re
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from operator import eq, ge, gt, le, lt, ne
from typing import Any

KEY_LENGTH = 400  # longest result of sort_key(); cut keys of two versions may become equal
RELEASE_LENGTH = 20  # longest build metadata that operator-controller reads as a release
LONGEST_RANGE = 2_000  # characters of a Masterminds range; its API takes 64
LARGEST = 2**64 - 1  # numbers are unsigned 64 bit in blang and Masterminds

Range = Callable[["Version"], bool]
Identifier = tuple[int, int | str]
Key = tuple[Any, ...]

_NUMBER = r"(0|[1-9][0-9]*)"
_STRICT = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?"
)


@total_ordering
class _Ordered(ABC):
    """Compares and hashes by `key`."""

    __slots__ = ()

    @property
    @abstractmethod
    def key(self) -> Key: ...

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, type(self)) else NotImplemented

    def __lt__(self, other: "_Ordered") -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, slots=True, eq=False)
class Version(_Ordered):
    """A semantic version. Comparison and hash exclude build metadata, as the standard requires."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()
    build: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """A tuple that compares as the version does: a release is above its pre-releases."""
        return (self.major, self.minor, self.patch, not self.pre, identifiers_key(self.pre))

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.pre:
            text += "-" + ".".join(self.pre)
        return text + ("+" + ".".join(self.build) if self.build else "")


@dataclass(frozen=True, slots=True, eq=False)
class VersionRelease(_Ordered):
    """A bundle's version and release in the order of operator-controller; release may be ""."""

    version: Version
    release: str = ""

    @property
    def key(self) -> Key:
        """No release sorts below any release of the same version."""
        return (self.version.key, identifiers_key(tuple(self.release.split("."))))


@lru_cache(maxsize=4096)
def identifiers_key(identifiers: tuple[str, ...]) -> tuple[Identifier, ...]:
    """Dot-separated identifiers as tuples that compare: numbers by value, below any word."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in identifiers if part)


@lru_cache(maxsize=16384)
def parse(text: str) -> Version:
    """Reads a strict semantic version. Raises ValueError with a sentence."""
    match = _STRICT.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{_shown(text)} is not a semantic version: write three numbers without leading zeros,"
            " such as 1.2.3 or 1.2.3-rc.1, and no leading v."
        )
    major, minor, patch, pre, build = match.groups()
    return Version(
        _number(major, text),
        _number(minor, text),
        _number(patch, text),
        _identifiers(pre, text, numeric=True) if pre else (),
        _identifiers(build, text, numeric=False) if build else (),
    )


def read_version(text: str) -> Version | None:
    """As `parse`, None for an invalid version: catalogs contain what their authors wrote."""
    try:
        return parse(text)
    except ValueError:
        return None


def sort_key(text: str) -> str:
    """A text that sorts as the version does, for a database column (at most 400 characters).

    It has decimal digits only, so it sorts right in byte order ("C") and in language collations,
    but not in one that compares runs of digits as numbers (ICU `kn`). Text that is no version
    becomes "0", below every version. Build metadata is ignored.
    """
    try:
        version = parse(text)
    except ValueError:
        return "0"
    parts = ["1", _digits(version.major), _digits(version.minor), _digits(version.patch)]
    if not version.pre:
        return "".join(parts) + "9"
    for identifier in version.pre:
        if identifier.isdigit():
            parts.append("1" + _digits(int(identifier)))
        else:
            # ord - 35: "-" is 10 and "z" is 87, so two digits each and "00" ends the word
            parts.append("2" + "".join(str(ord(char) - 35) for char in identifier) + "00")
    return ("".join(parts) + "0")[:KEY_LENGTH]


@lru_cache(maxsize=16384)
def version_release(text: str) -> VersionRelease:
    """Splits a bundle's version as operator-controller does (bundleutil, release feature off).

    Build metadata with the form of a release (at most 20 characters, no number with a leading zero)
    becomes the release; other build metadata is ignored. Raises ValueError as parse().
    """
    version = parse(text)
    build = ".".join(version.build)
    if not build or len(build) > RELEASE_LENGTH or any(map(_leading_zero, version.build)):
        return VersionRelease(version)
    return VersionRelease(Version(version.major, version.minor, version.patch, version.pre), build)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")


def _number(digits: str, text: str) -> int:
    if len(digits) < 20:  # always fits
        return int(digits)
    if len(digits) > 20 or int(digits) > LARGEST:
        raise ValueError(f"A number in {_shown(text)} is too large: 64 bits is the limit.")
    return int(digits)


def _leading_zero(identifier: str) -> bool:
    return len(identifier) > 1 and identifier[0] == "0" and identifier.isdigit()


def _identifiers(joined: str, text: str, *, numeric: bool) -> tuple[str, ...]:
    parts = tuple(joined.split("."))
    for part in parts:
        if not part:
            raise ValueError(f"{_shown(text)} has an empty part between two dots.")
        if numeric and part.isdigit():
            if _leading_zero(part):
                raise ValueError(f"The pre-release number {part[:20]} has a leading zero.")
            _number(part, text)
    return parts


def _digits(number: int) -> str:
    digits = str(number)
    return f"{len(digits):02}{digits}"


# -- blang ranges ---------------------------------------------------------------------------------

_COMPARE: dict[str, Callable[[Key, Key], bool]] = {
    "=": eq,
    "!=": ne,
    ">": gt,
    ">=": ge,
    "<": lt,
    "<=": le,
}
_BLANG_ALIASES = {"": "=", "==": "=", "!": "!="}
_BLANG_TERM = re.compile(r"([^0-9]*)(.*)", re.DOTALL)
_AFTER_OPERATOR = re.compile(r"([<>=]) +")
Test = tuple[str, Key]


@lru_cache(maxsize=4096)
def blang_range(text: str) -> Range:
    """Compiles a blang range: AND is a space, OR is `||`, a last `x` is a wildcard.

    Pre-releases are ordinary versions: `<1.0.0` contains 1.0.0-rc.1. Raises ValueError with a
    sentence for an invalid range, which opm refuses and OLM ignores in a skipRange.
    """
    groups = _blang_groups(text)

    def contains(version: Version) -> bool:
        key = version.key
        return any(all(_COMPARE[op](key, bound) for op, bound in group) for group in groups)

    return contains


def blang_spans(text: str, keys: Sequence[Key]) -> list[tuple[int, int]]:
    """Positions of the sorted version `keys` in a blang range, as ascending spans [first, end)
    that don't overlap, by a few binary searches. Raises ValueError as blang_range.
    """
    matches: list[tuple[int, int]] = []
    for group in _blang_groups(text):
        low, high, but = 0, len(keys), []
        for operator, bound in group:
            left, right = bisect_left(keys, bound), bisect_right(keys, bound)
            if operator == "!=":
                but.append((left, right))
            if operator in ("=", ">", ">="):
                low = max(low, right if operator == ">" else left)
            if operator in ("=", "<", "<="):
                high = min(high, left if operator == "<" else right)
        for left, right in sorted(but):
            matches.append((low, min(left, high)))
            low = max(low, right)
        matches.append((low, high))
    spans: list[tuple[int, int]] = []
    reached = 0
    for low, high in sorted(matches):  # alternatives may overlap
        if max(low, reached) < high:
            spans.append((max(low, reached), high))
            reached = high
    return spans


@lru_cache(maxsize=4096)
def _blang_groups(text: str) -> tuple[tuple[Test, ...], ...]:
    """The alternatives, each a conjunction of tests."""
    groups: list[list[Test]] = [[]]
    for term in _AFTER_OPERATOR.sub(r"\1", text).split(" "):
        if term == "||":
            if not groups[-1]:
                raise ValueError(f"Nothing stands before a || in the range {_shown(text)}.")
            groups.append([])
        elif term:
            groups[-1].extend(_blang_term(term, text))
    if not groups[-1]:
        raise ValueError(f"The range {_shown(text)} is empty or ends with ||.")
    return tuple(map(tuple, groups))


def _blang_term(term: str, text: str) -> list[Test]:
    match = _BLANG_TERM.fullmatch(term)
    written, number = match.groups() if match else ("", "")
    if not number:
        where = "" if term == text.strip() else f" in the range {_shown(text)}"
        raise ValueError(f"{_shown(term)}{where} is neither a version nor a range of versions.")
    operator = _BLANG_ALIASES.get(written, written)
    if operator not in _COMPARE:
        raise ValueError(
            f"{_shown(written)} in the range {_shown(text)} is no comparison: use one of"
            " = != > >= < <=, spaces between terms, and neither commas nor ^ nor ~."
        )
    if number.split(".")[-1] != "x":
        return [(operator, parse(number).key)]
    low, high = _wildcard(number, text)
    return {
        ">": [(">=", high)],
        ">=": [(">=", low)],
        "<": [("<", low)],
        "<=": [("<", high)],
        "=": [(">=", low), ("<", high)],
        # Never true together: so does the library with a negated wildcard.
        "!=": [("<", low), (">=", high)],
    }[operator]


def _wildcard(number: str, text: str) -> tuple[Key, Key]:
    """The bounds of 1.x, 1.x.x or 1.2.x: the first version in it and the first after it."""
    parts = number.split(".")
    fixed = [part for part in parts if part != "x"]
    if len(parts) not in (2, 3) or fixed != parts[: len(fixed)] or not fixed:
        raise ValueError(f"{_shown(number)} in the range {_shown(text)} is no wildcard version.")
    numbers = parse(".".join([*fixed, "0", "0"][:3]))
    if len(fixed) == 1:
        return numbers.key, Version(numbers.major + 1, 0, 0).key
    return numbers.key, Version(numbers.major, numbers.minor + 1, 0).key


# -- Masterminds ranges ---------------------------------------------------------------------------

_LOOSE = (
    r"v?([0-9]+|[xX*])(?:\.([0-9]+|[xX*]))?(?:\.([0-9]+|[xX*]))?"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)
_OPERATOR = r"(!=|>=|=>|<=|=<|~>|=|>|<|~|\^)?"
_MASTERMINDS_TERM = re.compile(rf"\s*{_OPERATOR}\s*{_LOOSE}(?:\s*,\s*|\s+|$)")
_HYPHEN = re.compile(r"([0-9xX*v][0-9A-Za-z.*+-]*)\s+-\s+([0-9xX*v][0-9A-Za-z.*+-]*)")
_MASTERMINDS_ALIASES = {None: "=", "=>": ">=", "=<": "<=", "~>": "~"}


@dataclass(frozen=True, slots=True)
class _RangeTerm:
    operator: str
    bound: Version
    given: int  # how many of the three numbers were written and not a wildcard


@lru_cache(maxsize=4096)
def masterminds_range(text: str) -> Range:
    """Compiles a Masterminds range: `,` or space is AND, `||` OR, with ~ ^ x * and hyphens.

    Only an OR-group with a pre-release in some term contains pre-releases. An empty range contains
    every release. Raises ValueError with a sentence for an invalid range.
    """
    if len(text) > LONGEST_RANGE:  # parsing takes quadratic time
        raise ValueError(
            f"The version range {_shown(text)} is longer than {LONGEST_RANGE:,} characters."
        )
    groups = [
        _masterminds_group(part, text) for part in _HYPHEN.sub(r">=\1, <=\2", text).split("||")
    ]

    def contains(version: Version) -> bool:
        return any(
            (not version.pre or any(term.bound.pre for term in group))
            and all(_satisfies(version, term) for term in group)
            for group in groups
        )

    return contains


def _masterminds_group(part: str, text: str) -> list[_RangeTerm]:
    terms: list[_RangeTerm] = []
    position = 0
    part = part.rstrip()
    while position < len(part):
        match = _MASTERMINDS_TERM.match(part, position)
        if match is None or (match.end() == len(part) and part.endswith(",")):
            raise ValueError(
                f"{_shown(part[position:].strip())} in the version range {_shown(text)} can't be"
                " read: write terms such as >=1.2.0, <2.0.0 or ~1.2 or 1.x, with || between"
                " alternatives."
            )
        operator, major, minor, patch, pre = match.groups()
        numbers: list[str] = []
        for number in (major, minor, patch):
            if number is None or number in "xX*":
                break
            numbers.append(str(_number(number.lstrip("0") or "0", text)))
        written = ".".join([*numbers, "0", "0", "0"][:3]) + (f"-{pre}" if pre else "")
        name = _MASTERMINDS_ALIASES.get(operator, operator)
        terms.append(_RangeTerm(name, parse(written), len(numbers)))
        position = match.end()
    return terms or [_RangeTerm("=", Version(0, 0, 0), 0)]


def _satisfies(version: Version, term: _RangeTerm) -> bool:
    bound, given = term.bound, term.given
    same_major = version.major == bound.major
    same_minor = same_major and version.minor == bound.minor
    # Numbers that were left out make the term mean the whole series it names
    in_series = given == 0 or (same_major and (given == 1 or same_minor))
    match term.operator:
        case "=":
            return version == bound if given == 3 else version >= bound and in_series
        case "!=":
            return version != bound if given == 3 or given == 0 else not in_series
        case ">":
            return version > bound and (given in (0, 3) or not in_series)
        case ">=":
            return version >= bound
        case "<":
            return version < bound
        case "<=":
            return version <= bound or (given < 3 and in_series)
        case "~":
            everything = given == 3 and (bound.major, bound.minor, bound.patch) == (0, 0, 0)
            return version >= bound and (
                everything or in_series if given < 3 else everything or same_minor
            )
        case _:
            return version >= bound and _within_caret(version, term)


def _within_caret(version: Version, term: _RangeTerm) -> bool:
    """^ keeps the leftmost number that isn't zero; ^0.0.3 is that one version."""
    bound = term.bound
    if bound.major > 0 or term.given == 1:
        return version.major == bound.major
    if version.major > 0:
        return False
    if bound.minor > 0 or term.given == 2:
        return version.minor == bound.minor
    return version.minor == 0 and version.patch == bound.patch
