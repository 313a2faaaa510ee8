"""A scripted HTTP server that answers like a Kubernetes API server, for tests of our client.

Serves discovery, paged lists and reads of the objects put into it; any request may be scripted to
be answered otherwise. A real `kubernetes` client talks to it over a real socket.
"""

import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from olmweb.kube.resources import ALL, Resource

TOKEN = "not-a-real-token"


@dataclass
class Seen:
    """A request as the server saw it."""

    method: str
    path: str
    query: dict[str, str]
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass
class Answer:
    """A scripted answer, `delay` seconds late. `cut` sends half of the body, `drop` nothing.

    With `steps` the body is sent as it comes: bytes at once, a number is a pause in seconds, an
    Event is waited for; `cut` then leaves out the end.
    """

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0
    cut: bool = False
    drop: bool = False
    steps: tuple[bytes | float | threading.Event, ...] = ()

    def raw(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def status_answer(status: int, message: str, reason: str = "", **more: Any) -> Answer:
    """An answer whose body is a Kubernetes Status; `details` and `headers` may be given."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}
    body |= {"message": message, "reason": reason, "details": more.get("details", {})}
    return Answer(status, body, more.get("headers", {}))


def watch_answer(*events: Any, cut: bool = False) -> Answer:
    """A watch: a tuple is an event (its type, its object); all else as in `Answer.steps`."""
    steps = tuple(
        json.dumps({"type": one[0], "object": one[1]}).encode() + b"\n"
        if isinstance(one, tuple)
        else one
        for one in events
    )
    return Answer(steps=steps or (b"",), cut=cut)


class KubeFake:
    """`with KubeFake() as fake:`; serves every kind we know until `hide` removes it."""

    def __init__(self) -> None:
        self.requests: list[Seen] = []
        self.version = "v1.25.4"
        self._served = {(r.group, v, r.plural) for r in ALL for v in r.versions}
        self._objects: dict[tuple[str, str], dict[str, dict[str, Any]]] = defaultdict(dict)
        self._script: dict[tuple[str, str], list[Answer]] = defaultdict(list)
        self._counter = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> "KubeFake":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def write_kubeconfig(self, path: Path, context: str = "prod") -> Path:
        return write_kubeconfig(path, self.url, context)

    def hide(self, resource: Resource, version: str = "") -> None:
        """The cluster no longer serves this kind (in this version)."""
        for one in (version,) if version else resource.versions:
            self._served.discard((resource.group, one, resource.plural))

    def show(self, resource: Resource) -> None:
        self._served |= {(resource.group, one, resource.plural) for one in resource.versions}

    def put(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        """Creates or replaces an object; fills uid, resourceVersion, creationTimestamp."""
        self._counter += 1
        meta = obj["metadata"]
        meta.setdefault("uid", f"uid-{self._counter}")
        meta.setdefault("creationTimestamp", "2026-01-02T03:04:05Z")
        meta["resourceVersion"] = str(self._counter)
        obj.setdefault("kind", resource.kind)
        group = f"{resource.group}/" if resource.group else ""
        obj.setdefault("apiVersion", f"{group}{resource.versions[0]}")
        name = _key(meta["name"], meta.get("namespace", ""))
        self._objects[resource.group, resource.plural][name] = obj
        return obj

    def remove(self, resource: Resource, name: str, namespace: str = "") -> None:
        self._counter += 1
        del self._objects[resource.group, resource.plural][_key(name, namespace)]

    def script(self, method: str, path: str, *answers: Answer) -> None:
        """The next requests to exactly this path get these answers, in order."""
        self._script[method, path].extend(answers)

    def answer(self, seen: Seen) -> Answer:
        self.requests.append(seen)
        queue = self._script.get((seen.method, seen.path))
        if queue:
            return queue.pop(0)
        if seen.method != "GET":
            return status_answer(405, "not scripted", "MethodNotAllowed")
        if seen.path == "/version":
            return Answer(200, {"gitVersion": self.version})
        root, *parts = seen.path.strip("/").split("/")
        if root == "api":
            parts = ["", *parts]  # the core group has no name
        namespace = ""
        if parts[2:3] == ["namespaces"] and len(parts) > 4:
            namespace = parts[3]
            del parts[2:4]
        if root not in ("api", "apis") or len(parts) < 2:
            parts = []
        if len(parts) == 2:
            return self._discovery(parts[0], parts[1])
        if len(parts) in (3, 4) and tuple(parts[:3]) in self._served:
            return self._read(seen, parts, namespace)
        return status_answer(404, "the server could not find the requested resource", "NotFound")

    def _discovery(self, group: str, version: str) -> Answer:
        plurals = sorted(p for g, v, p in self._served if (g, v) == (group, version))
        if not plurals:
            return Answer(404, b"404 page not found\n")
        return Answer(
            200, {"kind": "APIResourceList", "resources": [{"name": plural} for plural in plurals]}
        )

    def _read(self, seen: Seen, parts: list[str], namespace: str) -> Answer:
        objects = self._objects[parts[0], parts[2]]
        if len(parts) == 4:
            name = _key(parts[3], namespace)
            if name in objects:
                return Answer(200, objects[name])
            return status_answer(404, f'{parts[2]}.{parts[0]} "{parts[3]}" not found', "NotFound")
        start = int(seen.query.get("continue", "0"))
        limit = int(seen.query.get("limit", "500"))
        names = sorted(
            name
            for name, obj in objects.items()
            if (not namespace or obj["metadata"].get("namespace") == namespace)
            and _selected(obj, seen.query)
        )
        more = str(start + limit) if start + limit < len(names) else ""
        return Answer(
            200,
            {
                "kind": "List",
                "metadata": {"resourceVersion": str(self._counter), "continue": more},
                "items": [objects[name] for name in names[start : start + limit]],
            },
        )


def _key(name: str, namespace: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _selected(obj: dict[str, Any], query: dict[str, str]) -> bool:
    """The forms of selectors that we send: `key`, `!key`, `key=value`; fields by their path."""
    labels = obj["metadata"].get("labels") or {}
    for term in filter(None, query.get("labelSelector", "").split(",")):
        key, equals, value = term.partition("=")
        if key.startswith("!"):
            fits = key[1:] not in labels
        else:
            fits = labels.get(key) == value if equals else key in labels
        if not fits:
            return False
    for term in filter(None, query.get("fieldSelector", "").split(",")):
        path, _, value = term.partition("=")
        found: Any = obj
        for part in path.split("."):
            found = found.get(part) or "" if isinstance(found, dict) else ""
        if found != value:
            return False
    return True


def write_kubeconfig(path: Path, server: str, context: str = "prod") -> Path:
    """A kubeconfig with one context that points at `server` with a bearer token."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def _handler_for(fake: KubeFake) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body go in two writes: with Nagle's algorithm each answer would take 40 ms.
        disable_nagle_algorithm = True

        def _handle(self) -> None:
            split = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            answer = fake.answer(
                Seen(
                    self.command,
                    split.path,
                    dict(parse_qsl(split.query)),
                    list(self.headers.items()),
                    self.rfile.read(length),
                )
            )
            time.sleep(answer.delay)
            if answer.drop:
                self.close_connection = True
                return
            if answer.steps:
                self._send_steps(answer)
                return
            body = answer.raw()
            try:
                self.send_response(answer.status)
                self.send_header("Content-Length", str(len(body)))
                for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if answer.cut else body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client gave up waiting, as its test wants
            if answer.cut:
                self.close_connection = True

        def _send_steps(self, answer: Answer) -> None:
            self.close_connection = answer.cut
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                for step in answer.steps:
                    if isinstance(step, threading.Event):
                        step.wait(10)
                    elif isinstance(step, bytes):
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(step), step) if step else b"")
                    else:
                        time.sleep(step)
                self.wfile.write(b"" if answer.cut else b"0\r\n\r\n")
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client closed the watch, as its test wants

        do_GET = do_POST = do_PATCH = do_DELETE = _handle

        def log_message(self, *_: Any) -> None:
            """Quiet: tests assert on `requests`."""

    return Handler
