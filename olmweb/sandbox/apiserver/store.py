"""Objects by kind and name, one global resourceVersion, the history for watches, the state file.

Owns identity (uid, creationTimestamp, generation), garbage collection by owner and the event log.
Must not know HTTP, schemas or users. Objects handed out must not be changed: write a new one.
"""

import hashlib
import json
import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from olmweb.sandbox.apiserver.kinds import Object, ResourceKind, by_kind

log = logging.getLogger(__name__)

_T = TypeVar("_T")
Key = tuple[str, str, str]  # kind, namespace, name

HISTORY = 5000
_SAFE = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, no characters that look alike
SAVE_SECONDS = 1.0
_UID_ROOT = uuid.UUID("6f6c6d77-6562-4000-8000-73616e64626f")


def timestamp(at: datetime) -> str:
    """A time as Kubernetes writes it: UTC, whole seconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def uid_of(*parts: str) -> str:
    """A uid that is the same at every start for the same object of the scenario."""
    return str(uuid.uuid5(_UID_ROOT, "/".join(parts)))


def safe_suffix(text: str, length: int) -> str:
    """The end of a generated name, derived from `text`, in Kubernetes' alphabet for such names."""
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(_SAFE[byte % len(_SAFE)] for byte in digest[:length])


def owner_reference(owner: Object, *, controller: bool) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": controller,
        "blockOwnerDeletion": controller,
    }


@dataclass(frozen=True, slots=True)
class ChangeEvent:
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
    """The parts of an object that make a write a change (the time in managedFields does not)."""
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
    """The parts that count up the generation: all but metadata and status, and the deletion."""
    spec = {key: value for key, value in item.items() if key not in ("metadata", "status")}
    return spec | {"deleted": item["metadata"].get("deletionTimestamp")}


def _generation(made: Object, before: Object | None) -> int:
    if before is None:
        return 1
    count: int = before["metadata"].get("generation", 1)
    return count + 1 if _spec(before) != _spec(made) else count


def _sorted(items: Mapping[Key, Object], kind: str, namespace: str) -> list[Object]:
    """The objects of a kind by namespace and name; "" is every namespace."""
    keys = [k for k in items if k[0] == kind and (not namespace or k[1] == namespace)]
    keys.sort(key="/".join)  # as etcd orders its keys: "a-b/" comes before "a/"
    return [items[key] for key in keys]


class Store:
    """Thread-safe. `changed` is notified at every write; hold it for consistent reads."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.now = now
        self.changed = threading.Condition(threading.RLock())
        self.version = 1000
        self.oldest = 1000  # watches can resume from here on
        self._dropped = 1000  # events up to here were dropped, also for open watches
        self._items: dict[Key, Object] = {}
        self._events: deque[ChangeEvent] = deque()

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        with self.changed:
            return self._items.get((kind, namespace, name))

    def kinds(self) -> list[str]:
        """The kinds of which objects exist."""
        with self.changed:
            return sorted({key[0] for key in self._items})

    def items(self, kind: str, namespace: str = "") -> tuple[list[Object], int]:
        """Objects by namespace and name, and the version of this view. "" is every namespace."""
        with self.changed:
            return _sorted(self._items, kind, namespace), self.version

    def items_at(self, kind: str, namespace: str, version: int) -> list[Object] | None:
        """Objects as they were at `version`; None if that history was dropped."""
        with self.changed:
            if version < self.oldest:
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
        """Creates or replaces; sets the server's metadata and returns the stored object.

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
        """Removes the object and everything that it owns; None if there is no such object."""
        with self.changed:
            item = self._items.pop((kind, namespace, name), None)
            if item is None:
                return None
            self.version += 1
            last = copied(item)
            last["metadata"]["resourceVersion"] = str(self.version)
            self._record("DELETED", last, item)
            self._collect(item["metadata"]["uid"])
            return last

    def _collect(self, owner_uid: str) -> None:
        """Garbage collection: deletes the objects of a deleted owner."""
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
        self._events.append(ChangeEvent(self.version, type_, item["kind"], item, before))
        while len(self._events) > HISTORY:
            self._dropped = self._events.popleft().version
            self.oldest = max(self.oldest, self._dropped)
        self.changed.notify_all()

    def events_after(
        self, version: int, kind: ResourceKind, *, is_open: bool = False
    ) -> list[ChangeEvent] | None:
        """Changes of a kind after `version`; None if that history was dropped.

        An open watch (`is_open`) is not affected by a compaction.
        """
        with self.changed:
            if version < (self._dropped if is_open else self.oldest):
                return None
            events: list[ChangeEvent] = []
            for event in reversed(self._events):
                if event.version <= version:
                    break
                if event.kind == kind.kind:
                    events.append(event)
            events.reverse()
            return events

    def compact(self) -> None:
        """Drops the history, as etcd's compaction does: older watches get 410."""
        with self.changed:
            self.oldest = self.version

    def snapshot(self) -> dict[str, Any]:
        """All objects, as JSON for the state file."""
        with self.changed:
            return {"version": self.version, "items": list(self._items.values())}

    def restore(self, saved: dict[str, Any]) -> None:
        """Replaces all objects by those of a snapshot and drops the history."""
        with self.changed:
            self._items = {key_of(item): item for item in saved["items"]}
            self.version = self._dropped = int(saved["version"])
            self._events.clear()
            self.compact()
            self.changed.notify_all()


class StateFile:
    """The store on disk: loaded once, saved after changes at most once a second.

    `scenario` identifies the version of the scenario that the objects come from.
    """

    def __init__(self, path: Path, store: Store, scenario: str) -> None:
        self._path = path
        self._store = store
        self._scenario = scenario
        self._saved_version = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sandbox-state", daemon=True)

    def load(self) -> bool:
        """Whether the store now has the saved state.

        A broken file or one of another version of the scenario is ignored with a warning.
        """
        try:
            saved = json.loads(self._path.read_text())
            if saved["scenario"] != self._scenario:
                log.warning("%s is of another version of the scenario: starting anew", self._path)
                return False
            self._store.restore(saved["store"])
        except FileNotFoundError:
            return False
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("%s can't be read (%s): starting anew", self._path, error)
            return False
        self._saved_version = self._store.version
        return True

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=3)
        self.save()

    def save(self) -> None:
        """Writes a new file and renames it over the old one: a crash leaves one of the two."""
        snapshot = self._store.snapshot()
        if snapshot["version"] == self._saved_version:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replacement = self._path.with_name(self._path.name + ".new")
        replacement.write_text(json.dumps({"scenario": self._scenario, "store": snapshot}))
        replacement.replace(self._path)
        self._saved_version = snapshot["version"]

    def _run(self) -> None:
        while not self._stopping.wait(SAVE_SECONDS):
            self.save()
