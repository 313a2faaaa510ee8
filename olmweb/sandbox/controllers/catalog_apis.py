"""The APIs that serve catalog contents: registry pods, catalogd and PackageManifests.

Registry pods are reached by the websocket of the subresource `portforward` (v4.channel.k8s.io);
catalogd through the service proxy; PackageManifests as OLM's packageserver serves them.
"""

import base64
import gzip
import hashlib
import re
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache
from typing import BinaryIO

import zstandard

from olmweb.sandbox.apiserver import access, errors
from olmweb.sandbox.apiserver.http_server import Request, Response, compressed, json_response
from olmweb.sandbox.apiserver.kinds import Object
from olmweb.sandbox.apiserver.store import Store, timestamp, uid_of
from olmweb.sandbox.controllers.bundles import BundleContent, Catalogs, FileBasedCatalog

# --- registry pods

_PORT = 50051
_PROTOCOL = "v4.channel.k8s.io"
_PORTFORWARD_PATH = re.compile(r"^/api/v1/namespaces/([^/]+)/pods/([^/]+)/portforward$")
_WEBSOCKET_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455
_BINARY, _CLOSE, _PING, _PONG = 2, 8, 9, 10
_LARGEST = 1 << 24
Send = Callable[[bytes], None]


class Registries:
    """Registry pods of CatalogSources; a server on loopback answers for each of them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._servers: dict[tuple[str, str], tuple[str, int]] = {}

    def add(self, namespace: str, source: str, server: tuple[str, int], digest: str) -> str:
        """A ready pod of the CatalogSource; its port 50051 leads to `server`. Returns its name."""
        name = f"{source}-{digest.removeprefix('sha256:')[:5]}"
        self._servers[namespace, name] = server
        with self._store.changed:
            self._store.put(_pod(namespace, name, source, digest, timestamp(self._store.now())))
        return name

    def respond(self, request: Request) -> Response | None:
        """None for a request other than a port-forward. Raises ApiError."""
        match = _PORTFORWARD_PATH.match(request.path)
        if match is None:
            return None
        namespace, name = match.groups()
        access.require(request.identity, "get", "", "pods/portforward", namespace, name)
        if self._store.get("Pod", name, namespace) is None:
            raise errors.not_found("", "pods", name)
        key = request.headers.get("sec-websocket-key", "")
        ports = request.query.get("ports", "")
        if not key or not ports.isdigit():
            raise errors.bad_request("unable to upgrade: a websocket with ports is needed")
        server = self._servers.get((namespace, name)) if int(ports) == _PORT else None
        accepted = base64.b64encode(hashlib.sha1((key + _WEBSOCKET_GUID).encode()).digest())  # noqa: S324
        headers = (
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", accepted.decode()),
            ("Sec-WebSocket-Protocol", _PROTOCOL),
        )
        return Response(101, headers=headers, upgrade=_forward(server, int(ports)))


def _forward(server: tuple[str, int] | None, port: int) -> Callable[[BinaryIO, Send], None]:
    def run(received: BinaryIO, send: Send) -> None:
        number = struct.pack("<H", port)
        _send(send, b"\0" + number)
        _send(send, b"\1" + number)
        try:
            if server is None:
                raise ConnectionRefusedError
            pod = socket.create_connection(server, timeout=5)
        except OSError:
            _send(send, b"\1" + b"error forwarding port: connection refused")
            _send(send, b"", _CLOSE)
            return
        pod.settimeout(None)
        back = threading.Thread(target=_from_pod, args=(pod, send), daemon=True)
        back.start()
        try:
            _to_pod(received, pod, send)
        finally:
            with suppress(OSError):
                pod.shutdown(socket.SHUT_RDWR)
            back.join(timeout=5)
            pod.close()

    return run


def _from_pod(pod: socket.socket, send: Send) -> None:
    with suppress(OSError):
        while data := pod.recv(32_768):
            _send(send, b"\0" + data)
        _send(send, b"", _CLOSE)


def _to_pod(received: BinaryIO, pod: socket.socket, send: Send) -> None:
    """Forwards data until the client closes the websocket or disconnects."""
    with suppress(OSError):
        while (frame := _read(received)) is not None:
            kind, data = frame
            if kind == _CLOSE:
                return
            if kind == _PING:
                _send(send, data, _PONG)
            elif kind == _BINARY and data[:1] == b"\0":
                pod.sendall(data[1:])


def _send(send: Send, data: bytes, kind: int = _BINARY) -> None:
    """One unmasked frame, as servers send them."""
    size = len(data)
    if size < 126:
        head = struct.pack("!BB", 0x80 | kind, size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | kind, 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | kind, 127, size)
    send(head + data)


def _read(received: BinaryIO) -> tuple[int, bytes] | None:
    """(kind, data) of a masked frame; None at the end or for a frame that no client may send."""
    head = received.read(2)
    if len(head) < 2:
        return None
    size = head[1] & 0x7F
    if size > 125:
        width = 2 if size == 126 else 8
        size = int.from_bytes(received.read(width), "big")
    if size > _LARGEST or not head[1] & 0x80:
        return None
    mask = received.read(4)
    data = received.read(size)
    if len(data) < size:
        return None
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
    return head[0] & 0x0F, (int.from_bytes(data, "big") ^ key).to_bytes(size, "big")


def _pod(namespace: str, name: str, source: str, digest: str, at: str) -> Object:
    image = f"registry.example.com/catalogs/{source}@{digest}"
    container = {"name": "registry-server", "image": image, "imageID": image, "ready": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid_of("Pod", namespace, name),
            "labels": {"olm.catalogSource": source},
        },
        "spec": {
            "containers": [
                {
                    "name": "registry-server",
                    "image": image,
                    "ports": [{"name": "grpc", "containerPort": _PORT}],
                }
            ]
        },
        "status": {
            "phase": "Running",
            "startTime": at,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at}],
            "containerStatuses": [{**container, "restartCount": 0, "state": {"running": {}}}],
        },
    }


# --- catalogd

_PROXY = "/api/v1/namespaces/olmv1-system/services/https:catalogd-service:443/proxy"
_CHUNK = 64 * 1024

_CATALOG_PATH = re.compile(r"^/catalogs/([^/]+)/api/v1/all$")
_RANGE = re.compile(r"^bytes=(\d*)-(\d*)$")
_Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Content:
    """A catalog as served: its bytes, as they are and compressed, and their time."""

    data: bytes
    zstd: bytes
    gzip: bytes
    modified: datetime


@lru_cache(maxsize=8)
def _encodings(data: bytes) -> tuple[bytes, bytes]:
    """The data as zstd and as gzip; all sandboxes of a process serve the same catalogs."""
    return zstandard.ZstdCompressor(level=3).compress(data), gzip.compress(data, mtime=0)


class Catalogd:
    """Serves catalogs by name, as long as `serving` is true for the ClusterCatalog.

    Responses are as recorded from catalogd v1.11 (Go's http.ServeContent behind a compressing
    handler).
    """

    def __init__(self, serving: Callable[[str], bool]) -> None:
        self._serving = serving
        self._contents: dict[str, _Content] = {}

    def publish(self, name: str, data: bytes, modified: datetime) -> None:
        """Sets the content of a catalog."""
        whole_seconds = modified.astimezone(UTC).replace(microsecond=0)
        self._contents[name] = _Content(data, *_encodings(data), whole_seconds)

    def respond(self, request: Request) -> Response | None:
        """None for a request other than one to the service proxy."""
        if not request.path.startswith(f"{_PROXY}/"):
            return None
        match = _CATALOG_PATH.match(request.path.removeprefix(_PROXY))
        if not match:
            return _text(404, "404 page not found\n")
        if request.method not in ("GET", "HEAD"):
            return _text(405, "Method Not Allowed\n")
        content = self._contents.get(match[1])
        if content is None or not self._serving(match[1]):
            return _text(404, "404 Not Found\n")
        stamp = format_datetime(content.modified, usegmt=True)
        since = request.headers.get("if-modified-since", "")
        if since and _not_after(content.modified, since):
            return Response(304, b"", (("Last-Modified", stamp), ("Vary", "Accept-Encoding")))
        if "range" in request.headers and _unchanged(request, stamp):
            return _part(content, request.headers["range"], stamp)
        return _whole(content, request, stamp)


def _whole(content: _Content, request: Request, stamp: str) -> Response:
    accepted = [part.split(";")[0].strip() for part in request.accept_encoding.split(",")]
    encoding = next((name for name in ("zstd", "gzip") if name in accepted), "")
    common = (
        ("Content-Type", "application/jsonl"),
        ("Last-Modified", stamp),
        ("Vary", "Accept-Encoding"),
    )
    if encoding and request.method == "GET":
        data = content.zstd if encoding == "zstd" else content.gzip
        chunks = (data[i : i + _CHUNK] for i in range(0, len(data), _CHUNK))
        return Response(200, headers=(("Content-Encoding", encoding), *common), stream=chunks)
    return Response(200, content.data, (("Accept-Ranges", "bytes"), *common))


def _part(content: _Content, requested: str, stamp: str) -> Response:
    size = len(content.data)
    match = _RANGE.match(requested)
    if not match or match.groups() == ("", ""):
        return _text(416, "invalid range\n")
    first, last = match.groups()
    start = int(first) if first else max(0, size - int(last))
    end = min(int(last), size - 1) if first and last else size - 1
    if start >= size or end < start:
        headers: _Headers = (("Content-Range", f"bytes */{size}"),)
        return _text(416, "invalid range: failed to overlap\n", headers)
    headers = (
        ("Accept-Ranges", "bytes"),
        ("Content-Range", f"bytes {start}-{end}/{size}"),
        ("Content-Type", "application/jsonl"),
        ("Last-Modified", stamp),
        ("Vary", "Accept-Encoding"),
    )
    return Response(206, content.data[start : end + 1], headers)


def _unchanged(request: Request, stamp: str) -> bool:
    """If-Range: parts are served only of the version that the client has a part of."""
    return request.headers.get("if-range", stamp) == stamp


def _not_after(modified: datetime, since: str) -> bool:
    try:
        return modified <= parsedate_to_datetime(since)
    except ValueError:
        return False


def _text(status: int, text: str, headers: _Headers = ()) -> Response:
    common = (
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Vary", "Accept-Encoding"),
        ("X-Content-Type-Options", "nosniff"),
    )
    return Response(status, text.encode(), (*common, *headers))


# --- PackageManifests

_GROUP, _PLURAL = "packages.operators.coreos.com", "packagemanifests"
_ROOT = f"/apis/{_GROUP}/v1"


class PackageManifests:
    """The PackageManifests of `catalogs` by the name of their CatalogSource.

    As the real API: one list without pages or watch, no edges of the upgrade graph, no icons; a
    CatalogSource without a connection has no packages.
    """

    def __init__(self, store: Store, catalogs: Catalogs) -> None:
        self._store = store
        self._catalogs = catalogs
        self._made: dict[str, list[Object]] = {}

    def respond(self, request: Request) -> Response | None:
        """None for a request to another API. Raises ApiError."""
        if request.path not in (_ROOT, f"{_ROOT}/{_PLURAL}"):
            return None
        if request.method != "GET":
            raise errors.method_not_allowed()
        if request.path == _ROOT:
            access.require_path(request.identity, request.path)
            return json_response(_discovery())
        access.require(request.identity, "list", _GROUP, _PLURAL)
        wanted = dict(
            pair.split("=", 1)
            for pair in request.query.get("labelSelector", "").split(",")
            if "=" in pair
        )
        items = [
            item
            for source in self._store.items("CatalogSource")[0]
            for item in self._of(source)
            if wanted.items() <= item["metadata"]["labels"].items()
        ]
        listed = {
            "kind": "PackageManifestList",
            "apiVersion": f"{_GROUP}/v1",
            "metadata": {},
            "items": items,
        }
        return compressed(json_response(listed), request)

    def _of(self, source: Object) -> list[Object]:
        name = source["metadata"]["name"]
        state = source.get("status", {}).get("connectionState", {}).get("lastObservedState")
        if state != "READY" or name not in self._catalogs:
            return []
        if name not in self._made:
            self._made[name] = _manifests(source, self._catalogs[name])
        return self._made[name]


def _discovery() -> Object:
    resource = {
        "name": _PLURAL,
        "singularName": "",
        "namespaced": True,
        "kind": "PackageManifest",
        "verbs": ["get", "list"],
    }
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{_GROUP}/v1",
        "resources": [resource],
    }


def _manifests(source: Object, catalog: FileBasedCatalog) -> list[Object]:
    metadata, spec = source["metadata"], source["spec"]
    return [
        {
            "metadata": {
                "name": blob["name"],
                "namespace": metadata["namespace"],
                "creationTimestamp": metadata["creationTimestamp"],
                "labels": {"catalog": metadata["name"], "catalog-namespace": metadata["namespace"]},
            },
            "spec": {},
            "status": {
                "catalogSource": metadata["name"],
                "catalogSourceDisplayName": spec.get("displayName", ""),
                "catalogSourceNamespace": metadata["namespace"],
                "catalogSourcePublisher": spec.get("publisher", ""),
                "packageName": blob["name"],
                "defaultChannel": blob["defaultChannel"],
                "channels": _channels(catalog, blob["name"]),
            },
        }
        for blob in catalog.blobs
        if blob["schema"] == "olm.package"
    ]


def _channels(catalog: FileBasedCatalog, package: str) -> list[Object]:
    bundles = {bundle.name: bundle for bundle in catalog.bundles(package)}
    channels = []
    for channel in catalog.channels(package):
        entries = channel["entries"]
        superseded = {
            name for entry in entries for name in (entry.get("replaces"), *entry.get("skips", ()))
        }
        names = [entry["name"] for entry in entries]
        head = next(bundles[name] for name in names if name not in superseded)
        channels.append(
            {
                "name": channel["name"],
                "currentCSV": head.name,
                "currentCSVDesc": _description(head),
                "entries": [{"name": name, "version": bundles[name].version} for name in names],
            }
        )
    return channels


def _description(head: BundleContent) -> Object:
    """The fields of a ClusterServiceVersion that a PackageManifest has."""
    omitted = ("labels", "icon", "install", "replaces")
    return {
        **{key: value for key, value in head.spec.items() if value and key not in omitted},
        "annotations": head.annotations,
        "relatedImages": list(head.related_images),
        "version": head.version,
    }
