"""Positions of faults in a catalog: the byte of the field, the file, the line, the text around it.

Pure. Never raises for content: a fault whose field is not found keeps the offset of its blob.
"""

import re
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from json import JSONDecodeError
from json.decoder import JSONDecoder

import yaml

from catalogs.fbc.blob import ContentProblemRow
from catalogs.fbc.split import BlobAt

Read = Callable[[int, int], bytes]  # (offset, length)
Step = str | int
BEFORE, AFTER = 40, 120  # bytes around a position that are shown
BUDGET = 256 * 1024**2  # bytes that may be searched for fields in one run; YAML counts as more
YAML_COST = 40
_STEP = re.compile(r"\[([0-9]+)\]|([^.\[]+)")
_SPACE = re.compile(r"[ \t\n\r]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_COUNTED = 1 << 20
_raw_decode = JSONDecoder(parse_int=len, parse_float=len).raw_decode  # skips numbers


class Positions:
    """Adds positions to the problems of one catalog. `files` as in `sources.base.Fetched`."""

    def __init__(self, read: Read, files: Sequence[tuple[int, str]] = ()) -> None:
        self._read = read
        self._starts = [start for start, _ in files]
        self._names = [name for _, name in files]
        self._lines: list[tuple[int, int]] = []  # (offset, line), by offset
        self._budget = BUDGET
        self._blob = (-1, b"")
        self._node: tuple[int, yaml.Node | None] = (-1, None)

    def fill(
        self, problems: Sequence[ContentProblemRow], blobs: Iterable[BlobAt] = ()
    ) -> list[ContentProblemRow]:
        """The problems with offset, file, line and excerpt; `blobs` contain most of them."""
        by_offset = {blob.offset: blob for blob in blobs} if problems else {}
        return [self._fill(problem, by_offset) for problem in problems]

    def _fill(self, problem: ContentProblemRow, blobs: Mapping[int, BlobAt]) -> ContentProblemRow:
        if problem.offset is None:
            return problem
        start, at = problem.offset, 0
        i = bisect_right(self._starts, start) - 1
        if blob := blobs.get(start):
            if problem.field and self._budget > 0:
                at = self._locate(start, blob.length, problem.field)
            line = blob.line + (self._data(start, blob.length).count(b"\n", 0, at) if at else 0)
        else:
            line = self._count_to(start, self._starts[i] if i >= 0 else 0)
        return problem._replace(
            offset=start + at,
            file=self._names[i] if i >= 0 else "",
            line=line,
            excerpt=self._excerpt(start, at, blob.length if blob else None),
        )

    def _data(self, start: int, length: int) -> bytes:
        if self._blob[0] != start:
            self._blob = (start, self._read(start, length))
        return self._blob[1]

    def _locate(self, start: int, length: int, field: str) -> int:
        data = self._data(start, length)
        steps = read_steps(field)
        if data[:1] == b"{":
            self._budget -= length
            return locate_json(data, steps)
        if self._node[0] != start:
            self._budget -= length * YAML_COST
            self._node = (start, _compose(data))
        return _locate_node(self._node[1], steps, data)

    def _excerpt(self, start: int, at: int, length: int | None) -> str:
        first = max(0, at - BEFORE)
        size = at - first + AFTER
        if length is not None:
            size = min(size, length - first)
        text = self._read(start + first, size).decode(errors="replace").strip("\ufffd")
        text = _CONTROL.sub(" ", text).strip()
        cut = length is not None and first + size < length
        return f"{'…' if first else ''}{text}{'…' if cut else ''}"

    def _count_to(self, offset: int, begin: int) -> int:
        """The line, from 1, in the file that begins at `begin`; counts from the last known line."""
        i = bisect_right(self._lines, (offset, 1 << 62)) - 1
        place, line = self._lines[i] if i >= 0 else (begin, 1)
        if place < begin:
            place, line = begin, 1
        while place < offset:
            chunk = self._read(place, min(_COUNTED, offset - place))
            if not chunk:
                break
            line += chunk.count(b"\n")
            place += len(chunk)
        insort(self._lines, (offset, line))
        return line


def read_steps(field: str) -> list[Step]:
    """`entries[3].skips[0]` as ["entries", 3, "skips", 0]."""
    return [
        int(number) if number and len(number) < 10 else word or number
        for number, word in _STEP.findall(field)
    ]


def locate_json(data: bytes, steps: Sequence[Step]) -> int:
    """Offset in `data` of the value at `steps`, or of its deepest existing parent."""
    # Latin-1 makes one character of each byte, so positions are byte offsets.
    text = data.decode("latin-1")
    at = _space(text, 0)
    try:
        for step in steps:
            position = _item(text, at, step) if isinstance(step, int) else _member(text, at, step)
            if position < 0:
                break
            at = position
    except (JSONDecodeError, RecursionError, IndexError):
        pass
    return at


def _space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _member(text: str, at: int, name: str) -> int:
    """Position of the key's value in the object at `at`; -1 without the key."""
    if text[at] != "{":
        return -1
    at = _space(text, at + 1)
    while text[at] == '"':
        key, at = _raw_decode(text, at)
        value = _space(text, _space(text, at) + 1)  # past the colon
        if key.lower() == name.lower():
            return value
        _, at = _raw_decode(text, value)
        at = _space(text, at)
        if text[at] != ",":
            break
        at = _space(text, at + 1)
    return -1


def _item(text: str, at: int, index: int) -> int:
    """Position of the item in the array at `at`; -1 without the item."""
    if text[at] != "[":
        return -1
    at = _space(text, at + 1)
    while text[at] != "]":
        if index == 0:
            return at
        index -= 1
        _, at = _raw_decode(text, at)
        at = _space(text, at)
        if text[at] != ",":
            break
        at = _space(text, at + 1)
    return -1


def _compose(data: bytes) -> yaml.Node | None:
    try:
        return yaml.compose(data, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _locate_node(node: yaml.Node | None, steps: Sequence[Step], data: bytes) -> int:
    if node is None:
        return 0
    for step in steps:
        child: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode) and isinstance(step, str):
            child = next(
                (
                    value
                    for key, value in node.value
                    if isinstance(key, yaml.ScalarNode) and key.value.lower() == step.lower()
                ),
                None,
            )
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            child = node.value[step] if step < len(node.value) else None
        if child is None:
            break
        node = child
    characters = node.start_mark.index
    return len(data.decode(errors="replace")[:characters].encode())
