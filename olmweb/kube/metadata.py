"""Lists and watches of metadata only, where whole objects would be a waste. Pure of policy.

The API server itself leaves spec and status out (PartialObjectMetadata); the caller's own Struct
says which of the rest is kept, so labels and annotations that nobody reads are dropped at decode.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from olmweb.kube.client import KubeClient
from olmweb.kube.errors import Gone, KubeError, from_answer
from olmweb.kube.nesting import decoded
from olmweb.kube.resources import Resource
from olmweb.kube.transport import Call, Impersonation

_PARTIAL = "application/json;as={};g=meta.k8s.io;v=v1"
_LIST = (("Accept", _PARTIAL.format("PartialObjectMetadataList")),)
_WATCH = (("Accept", _PARTIAL.format("PartialObjectMetadata")),)
SILENCE = 15.0  # seconds that a server may take to end a watch whose time is over
LINE_LIMIT = 4_000_000

Meta = TypeVar("Meta")


class _Item(msgspec.Struct, Generic[Meta]):
    metadata: Meta


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)
    remaining_item_count: int | None = None


class _List(msgspec.Struct, Generic[Meta]):
    metadata: _ListMeta
    items: list[_Item[Meta]] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    code: int = 0


@dataclass(frozen=True, slots=True)
class MetadataPage(Generic[Meta]):
    """As olmweb.kube.client.Page, of the caller's Struct. `more`: another page would follow."""

    items: list[Meta]
    resource_version: str
    more: bool
    restart: bool = False


def metadata_pages(
    client: KubeClient,
    resource: Resource,
    version: str,
    keep: type[Meta],
    *,
    namespace: str = "",
    label_selector: str = "",
    limit: int = 500,
) -> Iterator[MetadataPage[Meta]]:
    """The metadata of all objects, or those of a namespace, `limit` a page, decoded as `keep`.

    Raises KubeError.

    A continue token that expired meanwhile starts the list again once, as `list_pages` does.
    """
    decoder = msgspec.json.Decoder(_List[keep])  # type: ignore[valid-type]
    base = [("limit", str(limit))]
    base += [("labelSelector", label_selector)] if label_selector else []
    token, restarts, fresh = "", 0, False
    while True:
        query = (*base, ("continue", token)) if token else tuple(base)
        call = Call("GET", resource.path(version, namespace), query, headers=_LIST)
        try:
            page = decoded(decoder.decode, client.transport.send(call))
        except Gone:
            if not token or restarts:
                raise
            token, restarts, fresh = "", 1, True
            continue
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise client.transport.broken_answer(call, "something that is not a list") from None
        token = page.metadata.continue_ or ""
        items = [item.metadata for item in page.items or ()]
        yield MetadataPage(items, page.metadata.resource_version, bool(token), restart=fresh)
        fresh = False
        if not token:
            return


class _Named(msgspec.Struct):
    name: str = ""


def count_objects(
    client: KubeClient, resource: Resource, version: str, *, as_user: Impersonation | None = None
) -> int:
    """How many objects of a kind there are in all namespaces, in one request. Raises KubeError.

    A server says how many are left after the first one unless a list has a selector
    (kubernetes apimachinery pkg/apis/meta/v1, ListMeta.remainingItemCount).
    """
    call = Call("GET", resource.path(version), (("limit", "1"),), headers=_LIST, as_user=as_user)
    try:
        page = decoded(msgspec.json.Decoder(_List[_Named]).decode, client.transport.send(call))
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise client.transport.broken_answer(call, "something that is not a list") from None
    return len(page.items or ()) + (page.metadata.remaining_item_count or 0)


def watch_metadata(
    client: KubeClient,
    resource: Resource,
    version: str,
    keep: type[Meta],
    *,
    resource_version: str,
    seconds: int,
    label_selector: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[str, Meta]]:
    """(type, metadata) of what is ADDED, MODIFIED or DELETED during `seconds`, in order.

    Raises KubeError, for an ERROR event too, and when the stream is cut in the middle of an object.
    """
    decoder = msgspec.json.Decoder(_Item[keep])  # type: ignore[valid-type]
    event_decoder = msgspec.json.Decoder(_Event)
    query = [("watch", "1"), ("resourceVersion", resource_version)]
    query += [("timeoutSeconds", str(seconds))]
    query += [("labelSelector", label_selector)] if label_selector else []
    call = Call("GET", resource.path(version), tuple(query), headers=_WATCH)
    deadline = clock() + seconds
    answer = client.transport.open_raw(call, silence=seconds + SILENCE)
    try:
        if answer.status != 200:
            raise answer.error()
        rest = b""
        while clock() < deadline:
            chunk = answer.read_some()
            if not chunk:
                if rest:  # the end of the body, but not of a line
                    raise client.transport.unreachable(EOFError(), call)
                return
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LINE_LIMIT:
                raise client.transport.broken_answer(call, "a line that does not end")
            for line in lines:
                try:
                    event = decoded(event_decoder.decode, line)
                    if event.type == "ERROR":
                        raise _told(client, call, bytes(event.object))
                    if event.type != "BOOKMARK":
                        yield event.type, decoder.decode(event.object).metadata
                except (msgspec.DecodeError, UnicodeDecodeError):
                    raise client.transport.broken_answer(
                        call, "something that is not an event"
                    ) from None
    finally:
        answer.close()


def _told(client: KubeClient, call: Call, status: bytes) -> KubeError:
    """The error that an ERROR event's Status stands for."""
    code = msgspec.json.decode(status, type=_Status).code or 500
    return from_answer(client.transport.name, call.method, call.path, code, status)
