"""The threads of a session: one per watched resource, and jobs for single requests.

A watch thread lists its resource if needed and then reads one watch. It only reads and decodes:
what it gets goes into the session's queue. It must not use the database.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db import connection

from installs.state.listing import Snapshot, internal_error, list_resources
from installs.state.resources import Change, WatchedResource, decode
from olmweb.kube.client import Discovery, KubeClient
from olmweb.kube.errors import Abandoned, KubeError
from olmweb.kube.resources import EVENTS, Served
from olmweb.kube.watch import BOOKMARK, SILENCE, Watch


@dataclass(frozen=True, slots=True)
class Listed:
    """The resource was listed; events since the list follow."""

    thread: "WatchThread"
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Opened:
    """The cluster accepted the watch."""

    thread: "WatchThread"


@dataclass(frozen=True, slots=True)
class Received:
    """A watch event; `change` is None for bookmarks and objects outside the selection."""

    thread: "WatchThread"
    change: Change | None
    resource_version: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The last message of a thread; `error` is None for an ordinary end."""

    thread: "WatchThread"
    error: KubeError | None


Message = Listed | Opened | Received | Ended


class WatchThread(threading.Thread):
    """Reads one list, if `position` is empty, and one watch of `seconds`.

    `put` blocks while the queue is full, which slows reading down to what can be written, and
    returns False once the session is over.
    """

    def __init__(
        self,
        client: KubeClient,
        watched: WatchedResource,
        discovery: Discovery,
        served: Served,
        position: str,
        *,
        seconds: int,
        put: Callable[[Message], bool],
    ) -> None:
        super().__init__(name=f"watch {client.name} {watched.name}", daemon=True)
        self.watched = watched
        self._client = client
        self._discovery = discovery
        self._served = served
        self._position = position
        self._seconds = seconds
        self._put = put
        self._lock = threading.Lock()
        self._watch: Watch | None = None
        self._closed = False

    def close(self) -> None:
        """Ends the thread soon; what it has read until then may still be put."""
        with self._lock:
            self._closed = True
            watch = self._watch
        if watch is not None:
            watch.close()

    def run(self) -> None:
        error: KubeError | None = None
        try:
            with suppress(Abandoned):  # this process ends
                self._follow()
        except KubeError as caught:
            error = caught
        except Exception as caught:  # the boundary of the thread; the other threads go on
            error = internal_error(self._client, self.watched, caught)
        self._put(Ended(self, error))

    def _follow(self) -> None:
        position = self._position or self._list()
        if not position:
            return
        watch = Watch(
            self._client,
            self._served,
            position,
            seconds=self._seconds,
            # Watches of Events have no bookmarks, so long silence is normal.
            silence=self._seconds + 15 if self.watched.resource is EVENTS else SILENCE,
            label_selector=self.watched.label_selector,
            field_selector=self.watched.field_selector,
        )
        with self._lock:
            self._watch = watch
            if self._closed:
                return
        watch.open()
        if not self._put(Opened(self)):
            return
        for event in watch:
            decoded = None if event.type == BOOKMARK else decode(self.watched, event.object)
            deleted = event.type == "DELETED"
            change = None if decoded is None else Change(self.watched.name, deleted, decoded)
            if not self._put(Received(self, change, event.resource_version)):
                return

    def _list(self) -> str:
        """Lists the resource; returns the position from which to watch."""
        snapshot = list_resources(self._client, (self.watched,), self._discovery)
        read = snapshot.lists[self.watched.name]
        if read.cause is not None:
            raise read.cause
        self._put(Listed(self, snapshot))
        return read.resource_version


# -- jobs ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Done:
    """The outcome of a job: `result`, or the error that ended it."""

    name: str
    result: Any
    error: Exception | None


class Jobs:
    """Runs at most one job of each name at a time and puts the outcomes into a queue."""

    def __init__(self, put: Callable[[Done], bool]) -> None:
        self._put = put
        self._threads: dict[str, threading.Thread] = {}

    def start(self, name: str, work: Callable[[], Any]) -> None:
        """Does nothing while a job of this name is under way."""
        running = self._threads.get(name)
        if running is None or not running.is_alive():
            thread = threading.Thread(target=self._run, args=(name, work), name=name, daemon=True)
            self._threads[name] = thread
            thread.start()

    def join(self, seconds: float) -> None:
        for thread in self._threads.values():
            thread.join(seconds)

    def _run(self, name: str, work: Callable[[], Any]) -> None:
        try:
            done = Done(name, work(), None)
        except Exception as error:  # the boundary of the thread: the session raises it
            done = Done(name, None, error)
        finally:
            connection.close()
        self._put(done)
