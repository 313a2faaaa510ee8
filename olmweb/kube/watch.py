"""One watch request: the changes of a kind, from a resourceVersion on, as they happen.

The official client's own Watch is not used: it repeats a request that is too old with the same
version, and breaks on ERROR events. Knows nothing of what becomes of the events, nor when to ask
again: a watch that ends is its caller's to reopen from `position`. No database.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import structlog

from olmweb.kube.client import KubeClient
from olmweb.kube.errors import KubeError, Unreachable, from_answer
from olmweb.kube.nesting import decoded
from olmweb.kube.resources import Served
from olmweb.kube.shapes import narrow_event
from olmweb.kube.transport import Call, RawResponse

log = structlog.get_logger(__name__)

CHANGES = ("ADDED", "MODIFIED", "DELETED")
BOOKMARK = "BOOKMARK"
# A quiet stream is told apart from a dead one by its bookmarks. kube-apiserver 1.36 sends one a
# minute, the first after up to two.
SILENCE = 150.0
# etcd holds no object of more than 1.5 MB, as it is there; JSON may take a few times that.
LINE_LIMIT = 16_000_000


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """`type` is one of CHANGES, or BOOKMARK: then nothing happened up to `resource_version`."""

    type: str
    object: dict[str, Any]
    resource_version: str


class Watch:
    """One watch request; iterate over it in one thread, close it from any.

    It ends without an error when the server ends it (after `seconds`), when it was silent for
    longer than `silence` seconds, or when it was closed. `position` is then the resourceVersion to
    go on from: that of the last event, bookmarks included, at first the one given.

    Iterating raises Gone when the position is too old, whether the server says so by the status of
    its answer or by an ERROR event; Unreachable when there is no answer or the stream is cut, even
    in the middle of an object; Broken for a line that is no event; the KubeError of any other
    refusal. Events of an unknown type are skipped.
    """

    def __init__(
        self,
        client: KubeClient,
        served: Served,
        position: str,
        *,
        seconds: int,
        silence: float = SILENCE,
        label_selector: str = "",
        field_selector: str = "",
    ) -> None:
        query = [("watch", "1"), ("resourceVersion", position), ("allowWatchBookmarks", "true")]
        query += [("timeoutSeconds", str(seconds))]
        query += [("labelSelector", label_selector)] if label_selector else []
        query += [("fieldSelector", field_selector)] if field_selector else []
        path = served.resource.path(served.version)
        self._call = Call("GET", path, tuple(query), headers=(("Accept", "application/json"),))
        self._transport = client.transport
        self._kind = served.resource.kind
        self._silence = silence
        self._lock = threading.Lock()
        self._response: RawResponse | None = None
        self._closed = False
        self.position = position

    def open(self) -> RawResponse:
        """Sends the request; iterating does it when it was not done. Raises KubeError."""
        response = self._transport.open_raw(self._call, silence=self._silence)
        if not 200 <= response.status < 300:
            try:
                raise response.error()
            finally:
                response.close()
        with self._lock:
            self._response = response
            closed = self._closed
        if closed:
            response.shutdown()
        return response

    def close(self) -> None:
        """Ends the iteration at once, unless it still waits for the server's first answer."""
        with self._lock:
            self._closed = True
            response = self._response
        if response is not None:
            response.shutdown()

    def __iter__(self) -> Iterator[WatchEvent]:
        response = self._response or self.open()
        try:
            for line in self._lines(response):
                event = self._event(line)
                if event is not None:
                    self.position = event.resource_version
                    yield event
        finally:
            response.close()

    def _lines(self, response: RawResponse) -> Iterator[bytes]:
        pending = bytearray()
        while data := self._read(response):
            start = len(pending)
            pending += data
            while (end := pending.find(b"\n", start)) >= 0:
                line = bytes(pending[:end])
                del pending[: end + 1]
                start = 0
                if line.strip():
                    yield line
            if len(pending) > LINE_LIMIT:
                raise self._transport.broken_answer(self._call, "a line that does not end")
        if pending and not self._closed:
            # The end of the body, but not of a line: a proxy in between gave up.
            raise self._transport.unreachable(EOFError(), self._call)

    def _read(self, response: RawResponse) -> bytes:
        """Empty at the end, after silence and after close()."""
        try:
            return response.read_some()
        except Unreachable as error:
            if self._closed:
                return b""
            if error.reason == "timeout":
                log.debug("watch was silent", cluster=self._transport.name, kind=self._kind)
                return b""
            raise

    def _event(self, line: bytes) -> WatchEvent | None:
        try:
            document = decoded(partial(narrow_event, kind=self._kind), line)
            type_, item = document["type"], document["object"]
            if type_ == "ERROR":
                raise self._told(item)
            if type_ not in CHANGES and type_ != BOOKMARK:
                log.warning("unknown watch event", cluster=self._transport.name, kind=self._kind)
                return None
            version = item["metadata"]["resourceVersion"]
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
            raise self._transport.broken_answer(
                self._call, "a line that is no event of a watch"
            ) from None
        return WatchEvent(type_, item, str(version))

    def _told(self, status: dict[str, Any]) -> KubeError:
        """The error of an ERROR event, whose object is a Status."""
        code = status.get("code")
        return from_answer(
            self._transport.name,
            self._call.method,
            self._call.path,
            code if isinstance(code, int) else 0,
            msgspec.json.encode(status),
        )
