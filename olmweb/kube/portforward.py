"""Forwards a Unix socket to a pod's port through the API server.

The official client's port-forward (a websocket on the pod's `portforward` subresource) gives a
socket object; gRPC needs an address. The Unix socket lies in a folder that only this user can
enter, unlike a port on loopback.
"""

import re
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import websocket
from kubernetes.client import CoreV1Api
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import portforward

from olmweb.kube.client import KubeClient
from olmweb.kube.errors import KubeError, Unreachable, from_answer

CHUNK = 1 << 16
CONNECT = 10.0  # seconds in which the API server must open a tunnel
_STATUS = re.compile(r"Handshake status (\d{3})")


@contextmanager
def forwarded(client: KubeClient, namespace: str, pod: str, port: int) -> Iterator[str]:
    """Path of a Unix socket whose connections go to that port of the pod.

    The first tunnel is opened before the first connection, so that a refusal is raised here as a
    KubeError. After a cut the next connection opens a new one. All are closed at the end.
    """
    with tempfile.TemporaryDirectory(prefix="olmweb-") as folder:
        path = str(Path(folder, "pod"))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            running = _Forwarding(client, namespace, pod, port)
            running.open()
            thread = threading.Thread(target=running.serve, args=(listener,), daemon=True)
            thread.start()
            try:
                yield path
            finally:
                with suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)
                running.close()
                thread.join(timeout=5)


class _Forwarding:
    """The open connections and their tunnels."""

    def __init__(self, client: KubeClient, namespace: str, pod: str, port: int) -> None:
        self._client = client
        self._namespace = namespace
        self._pod = pod
        self._port = port
        self._lock = threading.Lock()
        self._ready: Any = None  # a tunnel that no connection uses yet
        self._open: list[Any] = []
        self._threads: list[threading.Thread] = []

    def open(self) -> None:
        self._ready = self._tunnel()

    def serve(self, listener: socket.socket) -> None:
        """Takes connections until the listener is shut down."""
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                tunnel, self._ready = self._ready or self._tunnel(), None
            except KubeError:
                near.close()
                continue
            far = tunnel.socket(self._port)
            with self._lock:
                self._open += [near, far]
            for pair in ((near, far), (far, near)):
                thread = threading.Thread(target=_copy, args=pair, daemon=True)
                self._threads.append(thread)
                thread.start()

    def close(self) -> None:
        if self._ready is not None:
            self._ready.close()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=5)
        for connection in self._open:
            connection.close()

    def _tunnel(self) -> Any:
        websocket.setdefaulttimeout(CONNECT)
        try:
            return portforward(
                CoreV1Api(self._client.transport.api).connect_get_namespaced_pod_portforward,
                self._pod,
                self._namespace,
                ports=str(self._port),
            )
        except ApiException as error:
            raise self._refused(str(error.reason)) from None

    def _refused(self, reason: str) -> KubeError:
        path = f"/api/v1/namespaces/{self._namespace}/pods/{self._pod}/portforward"
        status = _STATUS.search(reason)
        if status:
            return from_answer(self._client.name, "GET", path, int(status[1]), b"")
        return Unreachable(
            f"Can't open a port-forward to pod {self._pod} through cluster {self._client.name}.",
            hint="A proxy before the API server must let websockets pass.",
            reason="websocket",
        )


def _copy(source: Any, target: Any) -> None:
    """Copies one direction to its end, then shuts down both sides."""
    with suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
    for connection in (source, target):
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
