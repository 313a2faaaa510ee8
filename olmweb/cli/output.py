"""What commands print: one JSON object, or tables and texts in the manner of kubectl. Pure.

Texts of catalogs and clusters are untrusted: on the way to a terminal they lose their control
characters.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from olmweb.cli.failures import Failure

GAP = 3  # spaces between columns, as kubectl has
NONE = "<none>"  # kubectl's word for an empty cell
MIN_LAST = 20  # characters that the last column has at least on a narrow terminal
COLORS = {
    "Healthy": "green", "installable": "green", "succeeded": "green", "ok": "green",
    "Failed": "red", "Blocked": "red", "Degraded": "red", "not-installable": "red",
    "failed": "red", "refused": "red", "failing": "red",
    "NeedsApproval": "yellow", "Installing": "yellow", "Upgrading": "yellow", "unknown": "yellow",
}  # fmt: skip
WORDS = {"installable": "Installable", "not-installable": "Not installable", "unknown": "Unknown"}
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `value` reads it from a row, by the name of a field or a function."""

    title: str
    value: str | Callable[[Row], Any]

    def text(self, row: Row) -> str:
        value = row[self.value] if isinstance(self.value, str) else self.value(row)
        if isinstance(value, bool):
            value = "true" if value else "false"
        return plain("" if value is None else str(value)) or NONE


def print_json(document: Any) -> None:
    """Prints exactly one JSON object; everything but ASCII is escaped."""
    click.echo(json.dumps(document))


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def print_failure(failure: Failure, *, as_json: bool) -> None:
    """The error object on stdout, or the sentences on stderr."""
    if as_json:
        print_json(failure.as_json())
        return
    click.echo(f"Error: {plain(failure.message)}", err=True)
    for name, sentence in failure.fields.items():
        if sentence not in failure.message:
            click.echo(f"  {plain(name)}: {plain(sentence)}", err=True)
    if failure.hint:
        click.echo(plain(failure.hint), err=True)


def plain(text: str) -> str:
    """The text in one line, without the characters that steer a terminal."""
    words = " ".join(text.split())
    return words if words.isprintable() else "".join(c if c.isprintable() else "?" for c in words)


def table(columns: Sequence[Column], rows: Sequence[Row], *, empty: str) -> Iterator[str]:
    """Upper-case titles and aligned cells; `empty` is the sentence without rows. On a terminal the
    last column is cut at its width."""
    if not rows:
        yield empty
        return
    cells = [[column.text(row) for column in columns] for row in rows]
    titles = [column.title for column in columns]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    room = _terminal_width() - sum(widths[:-1]) - GAP * (len(widths) - 1)
    for number, line in enumerate([titles, *cells]):
        last = line[-1]
        if room > 0 and len(last) > max(room, MIN_LAST):
            last = last[: max(room, MIN_LAST) - 1] + "…"
        shown = [cell.ljust(width + GAP) for cell, width in zip(line[:-1], widths, strict=False)]
        shown.append(last)
        yield "".join(shown if number == 0 else map(_colored, shown)).rstrip()


def details(pairs: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """`Name:   value` for each value that is not empty, aligned, as `kubectl describe` does."""
    shown = [(name, plain(str(value))) for name, value in pairs if value not in (None, "", [])]
    width = max((len(name) for name, _ in shown), default=0) + 1 + GAP
    for name, value in shown:
        yield f"{name + ':':{width}}{_colored(value)}"


def section(title: str, lines: Iterable[str]) -> Iterator[str]:
    """A title and its lines, indented; nothing without lines."""
    body = list(lines)
    if body:
        yield ""
        yield click.style(f"{title}:", bold=_with_colors())
        yield from (f"  {line}" for line in body)


def steps(remedy: Sequence[str]) -> Iterator[str]:
    yield from (f"{number}. {plain(step)}" for number, step in enumerate(remedy, 1))


def age(value: str | None) -> str:
    """How long ago an RFC 3339 time is, as kubectl's AGE: `5d`, `3h`, `12m`, `40s`."""
    if not value:
        return ""
    seconds = max(0, int((datetime.now(UTC) - datetime.fromisoformat(value)).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size or (unit == "d" and seconds >= size):
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _colored(cell: str) -> str:
    color = COLORS.get(cell.strip()) if _with_colors() else None
    return click.style(cell, fg=color) if color else cell


def _on_terminal() -> bool:
    return sys.stdout.isatty()


def _with_colors() -> bool:
    """On a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return _on_terminal() and not os.environ.get("NO_COLOR")


def _terminal_width() -> int:
    """0 where the output is no terminal: nothing is cut."""
    return shutil.get_terminal_size().columns if _on_terminal() else 0
