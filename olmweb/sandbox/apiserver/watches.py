"""Watches: the store's history as a stream of events. Reads the store only."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from olmweb.sandbox.apiserver.errors import ApiError, too_old
from olmweb.sandbox.apiserver.kinds import Kind
from olmweb.sandbox.apiserver.messages import encoded
from olmweb.sandbox.apiserver.reads import check_match, number, selector, version_fault
from olmweb.sandbox.apiserver.selectors import Selector
from olmweb.sandbox.apiserver.store import Event, Object, Store

BEFORE_THE_END = 2.0  # seconds; then a last bookmark is told
_FIRST_EVENTS_END = {"k8s.io/initial-events-end": "true"}
Shown = Callable[[Object], Object]


@dataclass(frozen=True, slots=True)
class _Asked:
    """One watch, as its query says."""

    kind: Kind
    namespace: str
    matches: Selector
    version: int
    ends: float
    bookmarks: bool
    marks_the_first: bool
    shown: Shown


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
        self, kind: Kind, namespace: str, query: Mapping[str, str], shown: Shown
    ) -> Iterator[bytes]:
        """`{"type":..., "object":...}` lines; a version that is too old gives one ERROR line.

        `shown` is what the client asked to see of an object. Raises ApiError 400, 422 or, for a
        version that is no number, 500: all before the first line.
        """
        check_match(query, watch=True)
        if fault := version_fault(query.get("resourceVersion", "")):
            raise ApiError(500, "", fault)
        first = query.get("sendInitialEvents", "") in ("true", "1")
        asked = _Asked(
            kind=kind,
            namespace=namespace,
            matches=selector(kind, query),
            version=0 if first else int(query.get("resourceVersion", "") or 0),
            ends=time.monotonic() + number(query, "timeoutSeconds", 1800),
            bookmarks=query.get("allowWatchBookmarks", "") in ("true", "1"),
            marks_the_first=first,
            shown=shown,
        )
        return self._run(asked)

    def _run(self, asked: _Asked) -> Iterator[bytes]:
        position = asked.version
        if not position:
            items, position = self._store.items(asked.kind.kind, asked.namespace)
            yield from (_line("ADDED", asked.shown(i)) for i in items if asked.matches(i))
            if asked.marks_the_first and asked.bookmarks:
                yield _bookmark(asked.kind, position, {"annotations": _FIRST_EVENTS_END})
        next_bookmark, is_open = self._next_bookmark(asked), False
        while not self._stopped:
            events, newest, oldest = self._wait(asked, position, next_bookmark, is_open=is_open)
            is_open = True
            if events is None:
                yield _line("ERROR", too_old(position, oldest).status())
                return
            for event in events:
                yield from _told(event, asked)
            position = max(position, newest)
            now = time.monotonic()
            if asked.bookmarks and now >= next_bookmark:
                yield _bookmark(asked.kind, position, {})
                next_bookmark = self._next_bookmark(asked)
            if now >= asked.ends:
                return

    def _next_bookmark(self, asked: _Asked) -> float:
        """The next regular one, but one shortly before the end in any case."""
        now = time.monotonic()
        last = asked.ends - BEFORE_THE_END
        regular = now + self._bookmark_seconds
        return min(regular, last) if last > now else regular

    def _wait(
        self, asked: _Asked, position: int, next_bookmark: float, *, is_open: bool
    ) -> tuple[list[Event] | None, int, int]:
        """Changes after `position`, waiting for one; None when that history is gone."""
        with self._store.changed:
            events = self._store.events_after(position, asked.kind, is_open=is_open)
            if events == [] and not self._stopped:
                until = min(asked.ends, next_bookmark if asked.bookmarks else asked.ends)
                self._store.changed.wait(max(0.0, until - time.monotonic()))
                events = self._store.events_after(position, asked.kind, is_open=True)
            return events, self._store.version, self._store.oldest


def _told(event: Event, asked: _Asked) -> Iterator[bytes]:
    """What the change is for this watch: an object that stops matching is DELETED for it."""
    if asked.namespace and event.object["metadata"].get("namespace") != asked.namespace:
        return
    was = event.before is not None and asked.matches(event.before)
    is_now = event.type != "DELETED" and asked.matches(event.object)
    if was and is_now:
        yield _line("MODIFIED", asked.shown(event.object))
    elif is_now:
        yield _line("ADDED", asked.shown(event.object))
    elif was and event.before is not None:
        yield _line("DELETED", asked.shown(_last_state(event)))


def _last_state(event: Event) -> Object:
    """The object as it last matched, with the version of the change that took it away."""
    if event.type == "DELETED" or event.before is None:
        return event.object
    version = event.object["metadata"]["resourceVersion"]
    return {**event.before, "metadata": {**event.before["metadata"], "resourceVersion": version}}


def _line(type_: str, item: dict[str, Any]) -> bytes:
    return encoded({"type": type_, "object": item}) + b"\n"


def _bookmark(kind: Kind, version: int, metadata: dict[str, Any]) -> bytes:
    marker = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {**metadata, "resourceVersion": str(version)},
    }
    return _line("BOOKMARK", marker)
