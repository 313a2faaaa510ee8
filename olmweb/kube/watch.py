"""Watch requests: the changes of a kind, from a resourceVersion on, as they happen.

The official client's own Watch is not used: it repeats a request that is too old with the same
version, and breaks on ERROR events. The caller reopens a watch that has ended from its `position`.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
import structlog

from olmweb.kube.client import KubeClient
from olmweb.kube.decode import EVENT, decoded, narrow_event
from olmweb.kube.errors import KubeError, Unreachable, from_answer
from olmweb.kube.resources import Served
from olmweb.kube.transport import Call, RawResponse

log = structlog.get_logger(__name__)

CHANGES = ("ADDED", "MODIFIED", "DELETED")
BOOKMARK = "BOOKMARK"
# Bookmarks tell a quiet stream from a dead one. kube-apiserver 1.36 sends one a minute, the first
# after up to two.
SILENCE = 150.0
# etcd holds no object of more than 1.5 MB in its own encoding; JSON may take a few times that.
LINE_LIMIT = 16_000_000

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[Item]):
    """`type` is one of CHANGES, or BOOKMARK: no change up to `resource_version`."""

    type: str
    object: Item
    resource_version: str


class _WatchStream(ABC, Generic[Item]):
    """One watch request; iterate over it in one thread, close it from any.

    It ends without an error when the server ends it (after `seconds`), when it is closed, or when
    it was silent for longer than `silence` seconds. `position` is then the resourceVersion to
    continue from: that of the last event, bookmarks included, at first the given one.

    Iterating raises Gone when the position is too old, reported by the answer's status or by an
    ERROR event; Unreachable when there is no answer or the stream is cut; Broken for a line that is
    not an event; the KubeError of any other refusal. Events of an unknown type are skipped.
    """

    _accept: ClassVar[str]
    _bookmarks: ClassVar[bool]

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
        query = [("watch", "1"), ("resourceVersion", position)]
        query += [("allowWatchBookmarks", "true")] if self._bookmarks else []
        query += [("timeoutSeconds", str(seconds))]
        query += [("labelSelector", label_selector)] if label_selector else []
        query += [("fieldSelector", field_selector)] if field_selector else []
        path = served.resource.path(served.version)
        self._call = Call("GET", path, tuple(query), headers=(("Accept", self._accept),))
        self._transport = client.transport
        self._kind = served.resource.kind
        self._silence = silence
        self._lock = threading.Lock()
        self._response: RawResponse | None = None
        self._closed = False
        self.position = position

    def open(self) -> RawResponse:
        """Sends the request; iterating does so unless it was sent. Raises KubeError."""
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

    def __iter__(self) -> Iterator[WatchEvent[Item]]:
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
            # The end of the body in the middle of a line: a proxy in between gave up.
            raise self._transport.unreachable(EOFError(), self._call)

    def _read(self, response: RawResponse) -> bytes:
        """Empty at the end, after silence and after close()."""
        try:
            return response.read_some()
        except Unreachable as error:
            if self._closed:
                return b""
            if error.reason == "timeout" and self._bookmarks:
                log.debug("watch was silent", cluster=self._transport.name, kind=self._kind)
                return b""
            raise

    def _event(self, line: bytes) -> WatchEvent[Item] | None:
        try:
            event = decoded(self._decode, line)
            if event.type == "ERROR":
                raise self._error(event.object)
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
            raise self._transport.broken_answer(
                self._call, "a line that is no event of a watch"
            ) from None
        if event.type not in CHANGES and event.type != BOOKMARK:
            log.warning("unknown watch event", cluster=self._transport.name, kind=self._kind)
            return None
        return event

    @abstractmethod
    def _decode(self, line: bytes) -> WatchEvent[Any]:
        """An event whose object is an Item, or a dict when its type is not one of CHANGES."""

    def _error(self, status: Any) -> KubeError:
        """The error of an ERROR event, whose object is a Status."""
        code = status.get("code")
        return from_answer(
            self._transport.name,
            self._call.method,
            self._call.path,
            code if isinstance(code, int) else 0,
            msgspec.json.encode(status),
        )


class Watch(_WatchStream[dict[str, Any]]):
    """A watch of objects with the fields of olmweb.kube.decode.SHAPES."""

    _accept = "application/json"
    _bookmarks = True

    def _decode(self, line: bytes) -> WatchEvent[Any]:
        document = narrow_event(line, self._kind)
        type_, item = document["type"], document["object"]
        if type_ not in CHANGES and type_ != BOOKMARK:
            return WatchEvent(type_, item, "")
        return WatchEvent(type_, item, str(item["metadata"]["resourceVersion"]))


class _VersionedMeta(msgspec.Struct):
    resourceVersion: str = ""


class _MetadataObject(msgspec.Struct, Generic[Item]):
    metadata: Item


_VERSIONED = msgspec.json.Decoder(_MetadataObject[_VersionedMeta])


class MetadataWatch(_WatchStream[Item]):
    """A watch of the metadata of objects, decoded as the Struct `fields`.

    The API server leaves out spec and status (PartialObjectMetadata). Requests no bookmarks, so
    silence means that nothing changed; a server silent for longer than `silence` seconds raises
    Unreachable.
    """

    _accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    _bookmarks = False

    def __init__(
        self,
        client: KubeClient,
        served: Served,
        fields: type[Item],
        position: str,
        *,
        seconds: int,
        silence: float,
        label_selector: str = "",
    ) -> None:
        super().__init__(
            client,
            served,
            position,
            seconds=seconds,
            silence=silence,
            label_selector=label_selector,
        )
        self._decoder = msgspec.json.Decoder(_MetadataObject[fields])  # type: ignore[valid-type]

    def _decode(self, line: bytes) -> WatchEvent[Any]:
        event = EVENT.decode(line)
        if event.type == "ERROR":
            return WatchEvent(event.type, msgspec.json.decode(event.object), "")
        version = _VERSIONED.decode(event.object).metadata.resourceVersion
        if event.type not in CHANGES:
            return WatchEvent(event.type, msgspec.json.decode(event.object), version)
        return WatchEvent(event.type, self._decoder.decode(event.object).metadata, version)
