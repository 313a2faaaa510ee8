"""Gets, lists and watches: selectors, pages of a list, and the store's history as event streams.

Only reads the store. The grammar of label selectors and its errors are those of
k8s.io/apimachinery's parser, token by token.
"""

import base64
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from olmweb.sandbox.apiserver import errors
from olmweb.sandbox.apiserver.errors import ApiError, StatusCause, bad_request, quoted
from olmweb.sandbox.apiserver.http_server import encoded
from olmweb.sandbox.apiserver.kinds import Object, ResourceKind
from olmweb.sandbox.apiserver.store import ChangeEvent, Store
from olmweb.sandbox.apiserver.validation import label_name_fault

# --- selectors

Selector = Callable[[Mapping[str, Any]], bool]
_Test = Callable[[Mapping[str, str]], bool]

_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+|$)")
_SYMBOLS = frozenset(["=", "==", "!=", "!", "(", ")", ",", "<", ">", ""])
_METADATA = ("metadata.name", "metadata.namespace")


def _label_selector(text: str) -> Selector:
    """`a=b,c!=d,e in (f,g),!h,i,n>1`; a syntax error raises ApiError 400."""
    tests = _Parser(text).parse()

    def matches(item: Mapping[str, Any]) -> bool:
        labels = item["metadata"].get("labels") or {}
        return all(test(labels) for test in tests)

    return matches


class _Parser:
    """Recursive descent over the tokens of a label selector."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [token for token in _TOKEN.findall(text) if token] + [""]
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


def _field_selector(text: str, kind: ResourceKind) -> Selector:
    """`metadata.name=x,type!=y`; the kind decides which fields are supported. ApiError 400."""
    tests: list[Selector] = []
    for part in filter(None, text.split(",")):
        match = re.match(r"^([^=!]+)(==|!=|=)(.*)$", part)
        if not match:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        field, operator, wanted = match.groups()
        _check_field(field, kind)
        tests.append(_field_test(_path(field), operator != "!=", wanted))
    return lambda item: all(test(item) for test in tests)


def _check_field(field: str, kind: ResourceKind) -> None:
    if field == "metadata.name" or field in kind.fields:
        return
    if field == "metadata.namespace" and (kind.namespaced or not kind.custom):
        return
    if kind.custom or not kind.group:
        raise bad_request(f"field label not supported: {field}")
    supported = ", ".join(f'"{name}"' for name in _METADATA)
    raise bad_request(f'"{field}" is not a known field selector: only {supported}')


def _path(field: str) -> tuple[str, ...]:
    return ("source", "component") if field == "source" else tuple(field.split("."))


def _field_test(path: tuple[str, ...], equal: bool, wanted: str) -> Selector:
    def test(item: Mapping[str, Any]) -> bool:
        node: Any = item
        for key in path:
            node = node.get(key, "") if isinstance(node, Mapping) else ""
        return bool(node == wanted) == equal

    return test


# --- gets and lists

_MATCHES = ("Exact", "NotOlderThan", "")
_INCONSISTENT = -1  # as a continue token's version: continue with the current objects


def selector(kind: ResourceKind, query: Mapping[str, str]) -> Selector:
    """The query's label and field selectors as one predicate. Raises ApiError 400."""
    labels = _label_selector(query.get("labelSelector", ""))
    fields = _field_selector(query.get("fieldSelector", ""), kind)
    return lambda item: labels(item) and fields(item)


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    """A parameter as an integer. Raises ApiError 400."""
    text = query.get(name, "")
    if not text:
        return default
    if not re.fullmatch(r"-?\d+", text):
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _version_fault(text: str) -> str:
    """The fault of a resourceVersion, or ""."""
    if text.isdigit() or not text:
        return ""
    fault = f'strconv.ParseUint: parsing "{text}": invalid syntax'
    return f'resourceVersion: Invalid value: "{text}": {fault}'


def _check_match(query: Mapping[str, str], *, watch: bool) -> None:
    """Raises ApiError 422 for an invalid resourceVersionMatch or sendInitialEvents."""
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    initial = "sendInitialEvents" in query
    if match not in _MATCHES:
        cause = errors.unsupported("resourceVersionMatch", match, _MATCHES)
        raise errors.bad_option("ListOptions", cause)
    if initial and not watch:
        raise _forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if watch and initial and match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise _forbidden("resourceVersionMatch", text)
    if watch and match and not initial:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise _forbidden("resourceVersionMatch", text)
    if match and not version and not watch:
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise _forbidden("resourceVersionMatch", text)
    if match == "Exact" and version == "0":
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise _forbidden("resourceVersionMatch", text)


def _forbidden(field: str, text: str) -> ApiError:
    cause = StatusCause("FieldValueForbidden", f"Forbidden: {text}", field)
    return errors.bad_option("ListOptions", cause)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Items at one version, and the key at which the page begins."""

    items: list[Object]
    version: int
    start: str = ""


class Reads:
    """Gets and lists. The continue token of a page has the version and the next key."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(
        self, kind: ResourceKind, namespace: str, name: str, query: Mapping[str, str]
    ) -> Object:
        """Raises ApiError 404, 504 for a future resourceVersion, 500 for an invalid one."""
        text = query.get("resourceVersion", "")
        if fault := _version_fault(text):
            raise ApiError(500, "", fault)
        self._check_reached(int(text or 0))
        item = self._store.get(kind.kind, name, namespace)
        if item is None:
            raise errors.not_found(kind.group, kind.plural, name)
        return item

    def page(self, kind: ResourceKind, namespace: str, query: Mapping[str, str]) -> dict[str, Any]:
        """A `...List` object. Raises ApiError 400, 410, 422 or 504."""
        limit = max(0, _number(query, "limit", 0))
        matches = selector(kind, query)
        snapshot = self._snapshot(kind, namespace, query, limit)
        if query.get("resourceVersion") == "0":
            limit = 0
        chosen = [
            item
            for item in snapshot.items
            if matches(item) and _key(item, namespace) >= snapshot.start
        ]
        shown = chosen[:limit] if limit else chosen
        metadata: dict[str, Any] = {"continue": "", "resourceVersion": str(snapshot.version)}
        if len(shown) < len(chosen):
            metadata["continue"] = _token(snapshot.version, _key(shown[-1], namespace) + "\0")
            if not (query.get("labelSelector") or query.get("fieldSelector")):
                metadata["remainingItemCount"] = len(chosen) - len(shown)
        return {
            "apiVersion": kind.api_version,
            "items": shown,
            "kind": f"{kind.kind}List",
            "metadata": metadata,
        }

    def _snapshot(
        self, kind: ResourceKind, namespace: str, query: Mapping[str, str], limit: int
    ) -> _Snapshot:
        _check_match(query, watch=False)
        text, token = query.get("resourceVersion", ""), query.get("continue", "")
        if fault := _version_fault(text):
            raise errors.bad_request(f"invalid resource version: {fault}")
        if token:
            if text not in ("", "0"):
                text = "specifying resource version is not allowed when using continue"
                raise errors.bad_request(text)
            return self._resumed(kind, namespace, token)
        version = int(text or 0)
        self._check_reached(version)
        match = query.get("resourceVersionMatch", "")
        if version and (match == "Exact" or (limit and not match)):
            items = self._store.items_at(kind.kind, namespace, version)
            if items is None:
                raise errors.expired_version()
            return _Snapshot(items, version)
        return _Snapshot(*self._store.items(kind.kind, namespace))

    def _resumed(self, kind: ResourceKind, namespace: str, token: str) -> _Snapshot:
        version, start = _read_token(token)
        if version == _INCONSISTENT:
            items, newest = self._store.items(kind.kind, namespace)
            return _Snapshot(items, newest, start)
        past = self._store.items_at(kind.kind, namespace, version)
        if past is None:
            raise errors.expired_continue(_token(_INCONSISTENT, start))
        return _Snapshot(past, version, start)

    def _check_reached(self, version: int) -> None:
        if version > self._store.version:
            raise errors.too_new(version, self._store.version)


def _key(item: Object, namespace: str) -> str:
    """The sort key of an object in a list of `namespace`, "" for all."""
    metadata = item["metadata"]
    inside = "" if namespace else metadata.get("namespace", "")
    return f"{inside}/{metadata['name']}" if inside else f"/{metadata['name']}"


def _token(version: int, start: str) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        saved = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(saved["rv"]), str(saved["start"])
    except (ValueError, KeyError, TypeError) as error:
        text = f"invalid continue token: continue key is not valid: {error}"
        raise errors.bad_request(text) from error


# --- watches

_LAST_BOOKMARK = 2.0  # seconds before the end of a watch
_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}
Represent = Callable[[Object], Object]


@dataclass(frozen=True, slots=True)
class _WatchRequest:
    """The parameters of one watch; `ends` is a time of time.monotonic()."""

    kind: ResourceKind
    namespace: str
    matches: Selector
    version: int
    ends: float
    bookmarks: bool
    marks_initial_events: bool
    represent: Represent


class Watches:
    """Streams changes as JSON lines until the timeout, the client or the server ends it."""

    def __init__(self, store: Store, bookmark_seconds: float) -> None:
        self._store = store
        self._bookmark_seconds = bookmark_seconds
        self._stopped = False

    def stop(self) -> None:
        with self._store.changed:
            self._stopped = True
            self._store.changed.notify_all()

    def lines(
        self, kind: ResourceKind, namespace: str, query: Mapping[str, str], represent: Represent
    ) -> Iterator[bytes]:
        """`{"type":..., "object":...}` lines; a version that is too old gives one ERROR line.

        `represent` makes the requested representation of an object. Before the first line, raises
        ApiError 400, 422 or, for an invalid resourceVersion, 500.
        """
        _check_match(query, watch=True)
        if fault := _version_fault(query.get("resourceVersion", "")):
            raise ApiError(500, "", fault)
        initial = query.get("sendInitialEvents", "") in ("true", "1")
        watch = _WatchRequest(
            kind=kind,
            namespace=namespace,
            matches=selector(kind, query),
            version=0 if initial else int(query.get("resourceVersion", "") or 0),
            ends=time.monotonic() + _number(query, "timeoutSeconds", 1800),
            bookmarks=query.get("allowWatchBookmarks", "") in ("true", "1"),
            marks_initial_events=initial,
            represent=represent,
        )
        return self._run(watch)

    def _run(self, watch: _WatchRequest) -> Iterator[bytes]:
        position = watch.version
        if not position:
            items, position = self._store.items(watch.kind.kind, watch.namespace)
            yield from (_line("ADDED", watch.represent(i)) for i in items if watch.matches(i))
            if watch.marks_initial_events and watch.bookmarks:
                yield _bookmark(watch.kind, position, {"annotations": _INITIAL_EVENTS_END})
        next_bookmark, is_open = self._next_bookmark(watch), False
        while not self._stopped:
            events, newest, oldest = self._wait(watch, position, next_bookmark, is_open=is_open)
            is_open = True
            if events is None:
                yield _line("ERROR", errors.too_old(position, oldest).status())
                return
            for event in events:
                yield from _event_lines(event, watch)
            position = max(position, newest)
            now = time.monotonic()
            if watch.bookmarks and now >= next_bookmark:
                yield _bookmark(watch.kind, position, {})
                next_bookmark = self._next_bookmark(watch)
            if now >= watch.ends:
                return

    def _next_bookmark(self, watch: _WatchRequest) -> float:
        """The time of the next regular bookmark, or of the last one shortly before the end."""
        now = time.monotonic()
        last = watch.ends - _LAST_BOOKMARK
        regular = now + self._bookmark_seconds
        return min(regular, last) if last > now else regular

    def _wait(
        self, watch: _WatchRequest, position: int, next_bookmark: float, *, is_open: bool
    ) -> tuple[list[ChangeEvent] | None, int, int]:
        """Waits for changes after `position`; None if that history was dropped."""
        with self._store.changed:
            events = self._store.events_after(position, watch.kind, is_open=is_open)
            if events == [] and not self._stopped:
                until = min(watch.ends, next_bookmark if watch.bookmarks else watch.ends)
                self._store.changed.wait(max(0.0, until - time.monotonic()))
                events = self._store.events_after(position, watch.kind, is_open=True)
            return events, self._store.version, self._store.oldest


def _event_lines(event: ChangeEvent, watch: _WatchRequest) -> Iterator[bytes]:
    """The change as this watch sees it: an object that stops matching is DELETED."""
    if watch.namespace and event.object["metadata"].get("namespace") != watch.namespace:
        return
    matched = event.before is not None and watch.matches(event.before)
    matches = event.type != "DELETED" and watch.matches(event.object)
    if matched and matches:
        yield _line("MODIFIED", watch.represent(event.object))
    elif matches:
        yield _line("ADDED", watch.represent(event.object))
    elif matched and event.before is not None:
        yield _line("DELETED", watch.represent(_last_state(event)))


def _last_state(event: ChangeEvent) -> Object:
    """The object as it last matched, with the resourceVersion of the change."""
    if event.type == "DELETED" or event.before is None:
        return event.object
    version = event.object["metadata"]["resourceVersion"]
    return {**event.before, "metadata": {**event.before["metadata"], "resourceVersion": version}}


def _line(type_: str, item: dict[str, Any]) -> bytes:
    return encoded({"type": type_, "object": item}) + b"\n"


def _bookmark(kind: ResourceKind, version: int, metadata: dict[str, Any]) -> bytes:
    marker = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {**metadata, "resourceVersion": str(version)},
    }
    return _line("BOOKMARK", marker)
