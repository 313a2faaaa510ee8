"""Label and field selectors of list and watch requests. Pure: text in, predicate out."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from olmweb.sandbox.errors import bad_request

Selector = Callable[[Mapping[str, Any]], bool]

_SET = re.compile(r"^([\w./-]+)\s+(in|notin)\s+\(([^)]*)\)$")
_EQUAL = re.compile(r"^([\w./-]+)\s*(==|!=|=)\s*([\w.-]*)$")
_EXISTS = re.compile(r"^(!?)\s*([\w./-]+)$")
_FIELDS = ("metadata.name", "metadata.namespace")


def label_selector(text: str) -> Selector:
    """`a=b,c!=d,e in (f,g),!h,i`; an unreadable one raises ApiError 400."""
    tests = [_label_test(part.strip()) for part in re.split(r",(?![^(]*\))", text) if part.strip()]

    def matches(item: Mapping[str, Any]) -> bool:
        labels = item["metadata"].get("labels") or {}
        return all(test(labels) for test in tests)

    return matches


def _label_test(part: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _SET.match(part):
        key, operator, listed = found.groups()
        values = {value.strip() for value in listed.split(",")}
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(part):
        key, operator, wanted = found.groups()
        if operator == "!=":
            return lambda labels: labels.get(key) != wanted
        return lambda labels: labels.get(key) == wanted
    if found := _EXISTS.match(part):
        absent, key = bool(found[1]), found[2]
        return lambda labels: (key in labels) != absent
    raise bad_request(f'unable to parse requirement: "{part}"')


def field_selector(text: str) -> Selector:
    """`metadata.name=x`, `metadata.namespace!=y`: the only fields custom resources support."""
    tests: list[Selector] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        found = re.match(r"^([\w.]+)(==|!=|=)(.*)$", part)
        if not found:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        field, operator, wanted = found.groups()
        if field not in _FIELDS:
            raise bad_request(f"field label not supported: {field}")
        tests.append(_field_test(field.removeprefix("metadata."), operator != "!=", wanted))
    return lambda item: all(test(item) for test in tests)


def _field_test(key: str, equal: bool, wanted: str) -> Selector:
    return lambda item: (item["metadata"].get(key, "") == wanted) == equal
