"""Label and field selectors of list and watch requests. Pure: text in, predicate out.

The label grammar and its faults are those of k8s.io/apimachinery's parser, token by token.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from olmweb.sandbox.apiserver.errors import ApiError, bad_request, quoted
from olmweb.sandbox.apiserver.kinds import Kind

Selector = Callable[[Mapping[str, Any]], bool]
_Test = Callable[[Mapping[str, str]], bool]

_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+|$)")
_SYMBOLS = frozenset(["=", "==", "!=", "!", "(", ")", ",", "<", ">", ""])
_NAME_PART = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")
NAME_PART_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_METADATA = ("metadata.name", "metadata.namespace")


def label_name_fault(key: str) -> str:
    """What is wrong with the name of a label (its part after the `/`), or ""."""
    return "" if _NAME_PART.match(key.rsplit("/", 1)[-1]) else NAME_PART_RULE


def label_selector(text: str) -> Selector:
    """`a=b,c!=d,e in (f,g),!h,i,n>1`; an unreadable one raises ApiError 400."""
    tests = _Parser(text).parse()

    def matches(item: Mapping[str, Any]) -> bool:
        labels = item["metadata"].get("labels") or {}
        return all(test(labels) for test in tests)

    return matches


class _Parser:
    """Recursive descent over the tokens of a label selector."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [found for found in _TOKEN.findall(text) if found] + [""]
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _next(self) -> str:
        word = self._peek()
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return word

    def parse(self) -> list[_Test]:
        tests: list[_Test] = []
        while True:
            word = self._peek()
            if not word:
                return tests
            if word in _SYMBOLS and word != "!":
                text = f"found '{word}', expected: !, identifier, or 'end of string'"
                raise bad_request(text)
            tests.append(self._requirement())
            word = self._next()
            if not word:
                return tests
            if word != ",":
                raise bad_request(f"found '{word}', expected: ',' or 'end of string'")
            if self._peek() in _SYMBOLS - {"!"}:
                raise bad_request(f"found '{self._peek()}', expected: identifier after ','")

    def _requirement(self) -> _Test:
        absent = self._peek() == "!"
        if absent:
            self._next()
        key = self._next()
        if key in _SYMBOLS:
            raise _unreadable(f"found '{key}', expected: identifier")
        if fault := label_name_fault(key):
            raise _unreadable(f"<nil>: Invalid value: {quoted(key)}: {fault}")
        if absent:
            return lambda labels: key not in labels
        if self._peek() in ("", ","):
            return lambda labels: key in labels
        return self._comparison(key, self._next())

    def _comparison(self, key: str, operator: str) -> _Test:
        if operator in ("in", "notin"):
            values = self._values()
            if operator == "in":
                return lambda labels: labels.get(key) in values
            return lambda labels: labels.get(key) not in values
        if operator not in ("=", "==", "!=", "<", ">"):
            text = f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt"
            raise _unreadable(text)
        wanted = "" if self._peek() in ("", ",") else self._next()
        if wanted in _SYMBOLS and wanted:
            raise _unreadable(f"found '{wanted}', expected: identifier")
        if operator in ("=", "=="):
            return lambda labels: labels.get(key) == wanted
        if operator == "!=":
            return lambda labels: labels.get(key) != wanted
        limit = _integer(wanted)
        if limit is None:
            raise _unreadable(
                f"values[0]: Invalid value: {quoted(wanted)}: for 'Gt', 'Lt' operators, the value "
                "must be an integer"
            )
        return lambda labels: _beyond(labels.get(key, ""), limit, above=operator == ">")

    def _values(self) -> set[str]:
        """`(a,b)`; nothing before or after a comma is the empty value."""
        word = self._next()
        if word != "(":
            raise _unreadable(f"found '{word}' expected: '('")
        values: set[str] = set()
        expecting = True
        while (word := self._next()) != ")":
            if word == ",":
                values |= {""} if expecting else set()
                expecting = True
            elif word in _SYMBOLS or not expecting:
                raise _unreadable(f"found '{word}', expected: ',' or ')'")
            else:
                values.add(word)
                expecting = False
        return values | ({""} if expecting else set())


def _unreadable(text: str) -> ApiError:
    return bad_request(f"unable to parse requirement: {text}")


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else None


def _beyond(text: str, limit: int, *, above: bool) -> bool:
    value = _integer(text)
    if value is None:
        return False
    return value > limit if above else value < limit


def field_selector(text: str, kind: Kind) -> Selector:
    """`metadata.name=x,type!=y`: which fields there are depends on the kind. ApiError 400."""
    tests: list[Selector] = []
    for part in filter(None, text.split(",")):
        found = re.match(r"^([^=!]+)(==|!=|=)(.*)$", part)
        if not found:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        field, operator, wanted = found.groups()
        _check_field(field, kind)
        tests.append(_field_test(_path(field), operator != "!=", wanted))
    return lambda item: all(test(item) for test in tests)


def _check_field(field: str, kind: Kind) -> None:
    if field == "metadata.name" or field in kind.fields:
        return
    if field == "metadata.namespace" and (kind.namespaced or not kind.custom):
        return
    if kind.custom or not kind.group:
        raise bad_request(f"field label not supported: {field}")
    known = ", ".join(f'"{name}"' for name in _METADATA)
    raise bad_request(f'"{field}" is not a known field selector: only {known}')


def _path(field: str) -> tuple[str, ...]:
    return ("source", "component") if field == "source" else tuple(field.split("."))


def _field_test(path: tuple[str, ...], equal: bool, wanted: str) -> Selector:
    def test(item: Mapping[str, Any]) -> bool:
        node: Any = item
        for key in path:
            node = node.get(key, "") if isinstance(node, Mapping) else ""
        return bool(node == wanted) == equal

    return test
