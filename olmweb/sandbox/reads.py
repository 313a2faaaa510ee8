"""Lists in pages and watches. Reads the store only."""

import base64
import json
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from olmweb.sandbox.errors import bad_request, expired_continue, too_old
from olmweb.sandbox.kinds import Kind
from olmweb.sandbox.messages import encoded
from olmweb.sandbox.selectors import Selector, field_selector, label_selector
from olmweb.sandbox.store import Event, Object, Store

SNAPSHOTS = 64


def _selector(query: Mapping[str, str]) -> Selector:
    labels = label_selector(query.get("labelSelector", ""))
    fields = field_selector(query.get("fieldSelector", ""))
    return lambda item: labels(item) and fields(item)


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not text.isdigit():
        raise bad_request(f'strconv.ParseUint: parsing "{text}": invalid syntax ({name})')
    return int(text)


class Lists:
    """Answers lists; remembers what a started paged list saw so that its pages fit together."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: OrderedDict[tuple[str, str, int], list[Object]] = OrderedDict()

    def expire(self) -> None:
        """Makes every continue token too old (410)."""
        self._seen.clear()

    def page(self, kind: Kind, namespace: str, query: Mapping[str, str]) -> dict[str, Any]:
        """A `...List` object. Raises ApiError 400 or 410."""
        limit = _number(query, "limit", 0)
        token = query.get("continue", "")
        if token:
            items, version, start = self._resume(kind, namespace, token)
        else:
            items, version = self._store.items(kind.kind, namespace)
            matches = _selector(query)
            items, start = [item for item in items if matches(item)], 0
        end = start + limit if limit else len(items)
        metadata: dict[str, Any] = {"resourceVersion": str(version), "continue": ""}
        if end < len(items):
            with self._store.changed:
                self._seen[kind.kind, namespace, version] = items
                while len(self._seen) > SNAPSHOTS:
                    self._seen.popitem(last=False)
            text = json.dumps({"v": version, "start": end})
            metadata["continue"] = base64.urlsafe_b64encode(text.encode()).decode()
            metadata["remainingItemCount"] = len(items) - end
        return {
            "apiVersion": kind.api_version,
            "kind": f"{kind.kind}List",
            "metadata": metadata,
            "items": items[start:end],
        }

    def _resume(self, kind: Kind, namespace: str, token: str) -> tuple[list[Object], int, int]:
        try:
            saved = json.loads(base64.urlsafe_b64decode(token))
            version, start = int(saved["v"]), int(saved["start"])
        except (ValueError, KeyError, TypeError) as error:
            raise bad_request("continue key is not valid: encoded key is not readable") from error
        items = self._seen.get((kind.kind, namespace, version))
        if items is None:
            raise expired_continue()
        return items, version, start


class Watches:
    """Streams changes as JSON lines until the timeout, the client or the server ends it."""

    def __init__(self, store: Store, bookmark_seconds: float) -> None:
        self._store = store
        self._bookmark_seconds = bookmark_seconds
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        with self._store.changed:
            self._store.changed.notify_all()

    def lines(self, kind: Kind, namespace: str, query: Mapping[str, str]) -> Iterator[bytes]:
        """`{"type":..., "object":...}` lines; a version that is too old gives one ERROR line."""
        matches = _selector(query)
        asked = _number(query, "resourceVersion", 0)
        ends = time.monotonic() + _number(query, "timeoutSeconds", 1800)
        bookmarks = query.get("allowWatchBookmarks", "") in ("true", "1")
        return self._run(kind, namespace, matches, asked, ends, bookmarks)

    def _run(
        self,
        kind: Kind,
        namespace: str,
        matches: Selector,
        asked: int,
        ends: float,
        bookmarks: bool,
    ) -> Iterator[bytes]:
        position = asked
        if not asked:
            items, position = self._store.items(kind.kind, namespace)
            for item in items:
                if matches(item):
                    yield _line("ADDED", item)
        next_bookmark = time.monotonic() + self._bookmark_seconds
        while not self._stopped:
            with self._store.changed:
                events = self._store.events_after(position, kind)
                if events == []:
                    pause = min(ends, next_bookmark if bookmarks else ends) - time.monotonic()
                    self._store.changed.wait(max(0.0, min(pause, 1.0)))
                    events = self._store.events_after(position, kind)
                newest, oldest = self._store.version, self._store.oldest
            if events is None:
                yield _line("ERROR", too_old(position, oldest).status())
                return
            for event in events:
                position = event.version
                if namespace and event.object["metadata"].get("namespace") != namespace:
                    continue
                if type_ := _seen_type(event, matches):
                    yield _line(type_, event.object)
            position = max(position, newest)
            now = time.monotonic()
            if bookmarks and now >= min(next_bookmark, ends):
                yield _bookmark(kind, position)
                next_bookmark = now + self._bookmark_seconds
            if now >= ends:
                return


def _seen_type(event: Event, matches: Selector) -> str:
    """What the change is for this selector: an object that stops matching is DELETED for it."""
    was = event.before is not None and matches(event.before)
    is_now = event.type != "DELETED" and matches(event.object)
    if was and is_now:
        return "MODIFIED"
    return "ADDED" if is_now else "DELETED" if was else ""


def _line(type_: str, item: dict[str, Any]) -> bytes:
    return encoded({"type": type_, "object": item}) + b"\n"


def _bookmark(kind: Kind, version: int) -> bytes:
    marker = {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": {"resourceVersion": str(version), "creationTimestamp": None},
    }
    return _line("BOOKMARK", marker)
