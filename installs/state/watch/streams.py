"""The thread of one feed: lists it if need be, then hands every event of one watch over.

Only reads and decodes; whatever it finds goes into the queue of the cluster's own thread, which
decides what to write and when to ask again. Must not touch the database.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from installs.state.read import Snapshot, our_fault, read_feeds
from installs.state.resources import Change, Feed, decode
from olmweb.kube.client import Discovery, KubeClient
from olmweb.kube.errors import Abandoned, KubeError
from olmweb.kube.resources import EVENTS, Served
from olmweb.kube.watch import BOOKMARK, SILENCE, Watch


@dataclass(frozen=True, slots=True)
class Listed:
    """The feed was listed; what follows are the changes since."""

    stream: "Stream"
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Opened:
    """The cluster accepted the watch."""

    stream: "Stream"


@dataclass(frozen=True, slots=True)
class Heard:
    """One event; `change` is None for a bookmark, and for an object of which nothing is kept."""

    stream: "Stream"
    change: Change | None
    resource_version: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The stream's last message: None is an ordinary end."""

    stream: "Stream"
    error: KubeError | None


Message = Listed | Opened | Heard | Ended


class Stream(threading.Thread):
    """One list, where `position` is empty, and one watch of `seconds`.

    `put` waits while the queue is full, which slows the cluster down to what we can write, and
    returns False when nobody listens any more.
    """

    def __init__(
        self,
        client: KubeClient,
        feed: Feed,
        discovery: Discovery,
        served: Served,
        position: str,
        *,
        seconds: int,
        put: Callable[[Message], bool],
    ) -> None:
        super().__init__(name=f"watch {client.name} {feed.name}", daemon=True)
        self.feed = feed
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
        """Ends the stream soon; what it has read until then may still be put."""
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
        except Exception as caught:  # the edge of the thread; the cluster's other feeds go on
            error = our_fault(self._client, self.feed, caught)
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
            # Events come straight from etcd, without bookmarks: quiet is all that can be heard.
            silence=self._seconds + 15 if self.feed.resource is EVENTS else SILENCE,
            label_selector=self.feed.label_selector,
            field_selector=self.feed.field_selector,
        )
        with self._lock:
            self._watch = watch
            if self._closed:
                return
        watch.open()
        if not self._put(Opened(self)):
            return
        for event in watch:
            kept = None if event.type == BOOKMARK else decode(self.feed, event.object)
            gone = event.type == "DELETED"
            change = None if kept is None else Change(self.feed.name, gone, kept)
            if not self._put(Heard(self, change, event.resource_version)):
                return

    def _list(self) -> str:
        """Lists the feed; returns where a watch goes on from."""
        snapshot = read_feeds(self._client, (self.feed,), self._discovery)
        read = snapshot.feeds[self.feed.name]
        if read.cause is not None:
            raise read.cause
        self._put(Listed(self, snapshot))
        return read.resource_version
