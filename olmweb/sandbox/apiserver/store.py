"""Objects by kind and name, one global resourceVersion, and the history that watches replay.

Owns identity (uid, creationTimestamp, generation), garbage collection by owner and the event log.
Must not know HTTP, schemas or who asks. Objects handed out must not be changed: write a new one.
"""

import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from olmweb.sandbox.apiserver.kinds import Kind, by_kind

_T = TypeVar("_T")
Object = dict[str, Any]
Key = tuple[str, str, str]  # kind, namespace, name

HISTORY = 5000
_UID_ROOT = uuid.UUID("6f6c6d77-6562-4000-8000-73616e64626f")


def timestamp(at: datetime) -> str:
    """Kubernetes' time text: UTC, whole seconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def uid_of(*parts: str) -> str:
    """A uid that is the same at every start for the same object of the scenario."""
    return str(uuid.uuid5(_UID_ROOT, "/".join(parts)))


@dataclass(frozen=True, slots=True)
class Event:
    """One change: `type` is ADDED, MODIFIED or DELETED; `before` is None for ADDED."""

    version: int
    type: str
    kind: str
    object: Object
    before: Object | None


_NESTED = (dict, list)


def copied(value: _T) -> _T:
    """A deep copy of JSON values; several times faster than copy.deepcopy."""
    made: Any = value
    # Most values are leaves, and no call is made for those.
    if isinstance(value, dict):
        made = {k: copied(v) if isinstance(v, _NESTED) else v for k, v in value.items()}
    elif isinstance(value, list):
        made = [copied(v) if isinstance(v, _NESTED) else v for v in value]
    result: _T = made
    return result


def key_of(item: Object) -> Key:
    metadata = item["metadata"]
    return item["kind"], metadata.get("namespace", ""), metadata["name"]


def _content(item: Object) -> Object:
    """What decides whether a write changes anything (a new managedFields time does not)."""
    metadata = {
        key: value
        for key, value in item["metadata"].items()
        if key not in ("managedFields", "resourceVersion", "generation")
    }
    owned = [
        {key: value for key, value in entry.items() if key != "time"}
        for entry in item["metadata"].get("managedFields", [])
    ]
    return {**item, "metadata": metadata, "owned": owned}


def _spec(item: Object) -> Object:
    """What counts up the generation: everything but metadata and status, and the deletion."""
    found = {key: value for key, value in item.items() if key not in ("metadata", "status")}
    return found | {"deleted": item["metadata"].get("deletionTimestamp")}


def _generation(made: Object, before: Object | None) -> int:
    if before is None:
        return 1
    count: int = before["metadata"].get("generation", 1)
    return count + 1 if _spec(before) != _spec(made) else count


def _sorted(items: Mapping[Key, Object], kind: str, namespace: str) -> list[Object]:
    """Those of a kind by namespace and name; "" is every namespace."""
    keys = [k for k in items if k[0] == kind and (not namespace or k[1] == namespace)]
    keys.sort(key="/".join)  # as etcd orders its keys: "a-b/" comes before "a/"
    return [items[key] for key in keys]


class Store:
    """Thread-safe. `changed` is notified at every write; hold it to read several things at once."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.now = now
        self.changed = threading.Condition(threading.RLock())
        self.version = 1000
        self.oldest = 1000  # watches can resume from here on
        self._dropped = 1000  # changes up to here are not held any more, for no watch
        self._oldest_list = 0  # lists of older versions are refused, watches are not
        self._items: dict[Key, Object] = {}
        self._events: deque[Event] = deque()

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        with self.changed:
            return self._items.get((kind, namespace, name))

    def kinds(self) -> list[str]:
        """The kinds that there are objects of."""
        with self.changed:
            return sorted({key[0] for key in self._items})

    def items(self, kind: str, namespace: str = "") -> tuple[list[Object], int]:
        """Objects by namespace and name, and the version of this view. "" is every namespace."""
        with self.changed:
            return _sorted(self._items, kind, namespace), self.version

    def items_at(self, kind: str, namespace: str, version: int) -> list[Object] | None:
        """Objects as they were at `version`; None when that history is gone."""
        with self.changed:
            if version < max(self.oldest, self._oldest_list):
                return None
            then = {key: item for key, item in self._items.items() if key[0] == kind}
            for event in reversed(self._events):
                if event.version <= version:
                    break
                if event.kind != kind:
                    continue
                key = key_of(event.object)
                if event.before is None:
                    then.pop(key, None)
                else:
                    then[key] = event.before
            return _sorted(then, kind, namespace)

    def put(self, item: Object) -> Object:
        """Creates or replaces; fills in the server's metadata and gives the stored object.

        A write that changes nothing keeps the resourceVersion and makes no event.
        """
        with self.changed:
            stored = self.prepared(item)
            key = key_of(stored)
            before = self._items.get(key)
            if before is not None and _content(before) == _content(stored):
                return before
            self.version += 1
            stored["metadata"]["resourceVersion"] = str(self.version)
            self._items[key] = stored
            self._record("MODIFIED" if before else "ADDED", stored, before)
            return stored

    def prepared(self, item: Object) -> Object:
        """The object as `put` would store it, without storing it (dry-run)."""
        made = copied(item)
        metadata = made["metadata"]
        before = self._items.get(key_of(made))
        if before is None:
            metadata.setdefault("uid", str(uuid.uuid4()))
            metadata.setdefault("creationTimestamp", timestamp(self.now()))
        else:
            for field in ("uid", "creationTimestamp", "resourceVersion"):
                metadata[field] = before["metadata"][field]
        if by_kind(made["kind"]).has_generation:
            metadata["generation"] = _generation(made, before)
        else:
            metadata.pop("generation", None)
        return made

    def delete(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """Removes the object and everything that it owns; None when there is none."""
        with self.changed:
            gone = self._items.pop((kind, namespace, name), None)
            if gone is None:
                return None
            self.version += 1
            last = copied(gone)
            last["metadata"]["resourceVersion"] = str(self.version)
            self._record("DELETED", last, gone)
            self._collect(gone["metadata"]["uid"])
            return last

    def _collect(self, owner_uid: str) -> None:
        """Garbage collection: an object goes when its owner is gone."""
        orphans = [
            key
            for key, item in self._items.items()
            if any(
                owner["uid"] == owner_uid for owner in item["metadata"].get("ownerReferences", [])
            )
        ]
        for kind, namespace, name in orphans:
            self.delete(kind, name, namespace)

    def _record(self, type_: str, item: Object, before: Object | None) -> None:
        self._events.append(Event(self.version, type_, item["kind"], item, before))
        while len(self._events) > HISTORY:
            self._dropped = self._events.popleft().version
            self.oldest = max(self.oldest, self._dropped)
        self.changed.notify_all()

    def events_after(
        self, version: int, kind: Kind, *, is_open: bool = False
    ) -> list[Event] | None:
        """Changes of a kind after `version`; None when that history is gone.

        A watch that is open (`is_open`) has its changes coming whatever history forgets meanwhile.
        """
        with self.changed:
            if version < (self._dropped if is_open else self.oldest):
                return None
            found: list[Event] = []
            for event in reversed(self._events):
                if event.version <= version:
                    break
                if event.kind == kind.kind:
                    found.append(event)
            found.reverse()
            return found

    def compact(self) -> None:
        """Forgets the history, as etcd's compaction does: older watches get 410."""
        with self.changed:
            self.oldest = self.version

    def expire_lists(self) -> None:
        """Refuses lists of every version so far; watches go on."""
        with self.changed:
            self._oldest_list = self.version + 1

    def snapshot(self) -> dict[str, Any]:
        """Everything, as JSON for the state file."""
        with self.changed:
            return {"version": self.version, "items": list(self._items.values())}

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over a snapshot; history starts anew."""
        with self.changed:
            self._items = {key_of(item): item for item in saved["items"]}
            self.version = self._dropped = int(saved["version"])
            self._events.clear()
            self.compact()
            self.changed.notify_all()
