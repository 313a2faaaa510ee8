"""A pod's port as a Unix socket of ours, through the API server. Knows nothing of what is said.

The official client's port-forward (a websocket on the pod's `portforward` subresource) gives a
socket object; whoever needs an address to connect to gets one here. The socket lies in a folder
that only we can enter, unlike a port on loopback.
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
CONNECT = 10.0  # seconds until the API server must have opened the way
_STATUS = re.compile(r"Handshake status (\d{3})")


@contextmanager
def forwarded(client: KubeClient, namespace: str, pod: str, port: int) -> Iterator[str]:
    """Path of a Unix socket whose every connection goes to that port of the pod.

    The first way to the pod is opened before anybody connects, so that a refusal is raised here as
    a KubeError. After a cut the next connection opens a way anew. Ends all of them at the end.
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
    """The connections that are open, and the ways that they go."""

    def __init__(self, client: KubeClient, namespace: str, pod: str, port: int) -> None:
        self._client = client
        self._where = namespace, pod
        self._port = port
        self._lock = threading.Lock()
        self._ready: Any = None  # a way that nobody goes yet
        self._open: list[Any] = []
        self._threads: list[threading.Thread] = []

    def open(self) -> None:
        self._ready = self._way()

    def serve(self, listener: socket.socket) -> None:
        """Takes connections until the listener is shut down."""
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                way, self._ready = self._ready or self._way(), None
            except KubeError:
                near.close()
                continue
            far = way.socket(self._port)
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
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=5)
        for one in self._open:
            one.close()

    def _way(self) -> Any:
        namespace, pod = self._where
        websocket.setdefaulttimeout(CONNECT)
        try:
            return portforward(
                CoreV1Api(self._client.transport.api).connect_get_namespaced_pod_portforward,
                pod,
                namespace,
                ports=str(self._port),
            )
        except ApiException as error:
            raise self._refused(str(error.reason)) from None

    def _refused(self, said: str) -> KubeError:
        namespace, pod = self._where
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/portforward"
        status = _STATUS.search(said)
        if status:
            return from_answer(self._client.name, "GET", path, int(status[1]), b"")
        return Unreachable(
            f"Can't open a port-forward to pod {pod} through cluster {self._client.name}.",
            hint="A proxy before the API server must let websockets pass.",
            method="GET",
            path=path,
            reason="websocket",
        )


def _copy(source: Any, target: Any) -> None:
    """All bytes of one direction; its end is the other side's, too."""
    with suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
