"""Registry pods of CatalogSources, and the port-forward that leads to them.

A pod here is its object; what answers on its port is a server of the test's own, on loopback. Owns
the websocket of the subresource `portforward` (v4.channel.k8s.io); must not know what is forwarded.
"""

import base64
import hashlib
import re
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from olmweb.sandbox.apiserver import access, errors
from olmweb.sandbox.apiserver.messages import Request, Response
from olmweb.sandbox.apiserver.store import Object, Store, timestamp, uid_of

PORT = 50051
PROTOCOL = "v4.channel.k8s.io"
_PATH = re.compile(r"^/api/v1/namespaces/([^/]+)/pods/([^/]+)/portforward$")
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455
_BINARY, _CLOSE, _PING, _PONG = 2, 8, 9, 10
_LARGEST = 1 << 24
Send = Callable[[bytes], None]


class Registries:
    """Pods with the label `olm.catalogSource`, each with the server that answers for it."""

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

    def answer(self, request: Request) -> Response | None:
        """None for a request that is no port-forward. Raises ApiError."""
        found = _PATH.match(request.path)
        if found is None:
            return None
        namespace, name = found.groups()
        access.require(request.who, "get", "", "pods/portforward", namespace, name)
        if self._store.get("Pod", name, namespace) is None:
            raise errors.not_found("", "pods", name)
        key = request.headers.get("sec-websocket-key", "")
        ports = request.query.get("ports", "")
        if not key or not ports.isdigit():
            raise errors.bad_request("unable to upgrade: a websocket with ports is needed")
        server = self._servers.get((namespace, name)) if int(ports) == PORT else None
        accepted = base64.b64encode(hashlib.sha1((key + _GUID).encode()).digest())  # noqa: S324
        headers = (
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", accepted.decode()),
            ("Sec-WebSocket-Protocol", PROTOCOL),
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
    """Until the client closes, or goes without a word."""
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
    """(kind, data) of one masked frame; None at the end, or for a frame that no client sends."""
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
                    "ports": [{"name": "grpc", "containerPort": PORT}],
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
