"""Version ranges of ClusterExtensions and of FBC's skipRange, as the controllers here read them.

A small part of what Masterminds and blang allow: comparisons, partial versions, `~`, `^`, AND by
space or comma, OR by `||`. Pure; must not know catalogs.
"""

import re
from typing import Any

from olmweb.sandbox.controllers.rules import parse_version

_PART = re.compile(r"\s*(>=|<=|!=|==|=|>|<|~|\^)?\s*v?([0-9][0-9A-Za-z.+-]*)[\s,]*")
_LAST = 3  # parts of a full version
_Key = tuple[Any, ...]  # as rules.parse_version makes it; longer or shorter where it is a bound


def matches(text: str, version: str) -> bool:
    """Whether the version is in the range; everything is in an empty one.

    Raises ValueError for a range, or a version, that can't be read.
    """
    wanted = parse_version(version)
    if wanted is None:
        raise ValueError(f"{version} is no semantic version")
    return not text.strip() or any(_all(one, wanted) for one in text.split("||"))


def _all(text: str, version: _Key) -> bool:
    at, holds = 0, True
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            raise ValueError(f"improper constraint: {text.strip()}")
        at = found.end()
        low, high = _bounds(found[1] or "", found[2])
        holds = holds and _within(found[1] or "=", version, low, high)
    return holds


def _within(sign: str, version: _Key, low: _Key, high: _Key) -> bool:
    """`low` is the first version that the text means, `high` the first after all of them."""
    inside = low <= version < high
    return {
        ">": version >= high,
        ">=": version >= low,
        "<": version < low,
        "<=": version < high,
        "!=": not inside,
    }.get(sign, inside)


def _bounds(sign: str, text: str) -> tuple[_Key, _Key]:
    parts = [one for one in text.split("-")[0].split("+")[0].split(".") if one not in ("x", "X")]
    if not all(part.isdigit() for part in parts) or len(parts) > _LAST:
        raise ValueError(f"improper constraint: {sign}{text}")
    numbers = [int(part) for part in parts]
    padded = numbers + [0] * (_LAST - len(numbers))
    low: _Key = parse_version(text) or (*padded, 1, ())
    if sign == "^":
        upto = next((i for i, n in enumerate(padded) if n), _LAST - 1)
    elif sign == "~":
        upto = min(1, len(numbers) - 1)
    elif len(numbers) == _LAST:
        return low, (*low[:-1], (*low[-1], (-1, 0, "")))
    else:
        upto = len(numbers) - 1
    above = [*padded[:upto], padded[upto] + 1, *([0] * (_LAST - 1 - upto))]
    return low, (*above, 0, ())
