"""Routing of the Kubernetes API: which path and verb means what, and who may do it."""

from collections.abc import Callable, Mapping

from olmweb.sandbox import access, discovery, errors
from olmweb.sandbox.kinds import Kind, by_path
from olmweb.sandbox.messages import Request, Response, json_response
from olmweb.sandbox.reads import Lists, Watches
from olmweb.sandbox.store import Store
from olmweb.sandbox.writes import Target, Writes

_REVIEWS: Mapping[str, Callable[[Request, dict[str, object]], dict[str, object]]] = {
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": lambda request, spec: (
        access.access_review(request.who, spec)
    ),
    "/apis/authentication.k8s.io/v1/selfsubjectreviews": lambda request, _spec: access.self_review(
        request.who
    ),
}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Api:
    """Answers one request at a time; thread-safe through the store."""

    def __init__(self, store: Store, watches: Watches) -> None:
        self._store = store
        self.lists = Lists(store)
        self._watches = watches
        self._writes = Writes(store)

    def handle(self, request: Request) -> Response:
        """Raises ApiError for everything that is refused."""
        if request.path in ("/livez", "/readyz", "/healthz"):
            return Response(200, b"ok", (("Content-Type", "text/plain; charset=utf-8"),))
        if request.path in _REVIEWS:
            return self._review(request)
        found = discovery.document(request.path)
        if found is not None:
            if request.method != "GET":
                raise errors.method_not_allowed()
            return json_response(found)
        target = parse(request.path)
        if target is None:
            raise errors.no_such_path()
        if request.method in ("GET", "HEAD"):
            return self._read(target, request)
        return self._write(target, request)

    def _review(self, request: Request) -> Response:
        if request.method != "POST":
            raise errors.method_not_allowed()
        body = request.document()
        if not isinstance(body, dict):
            raise errors.bad_request("the object provided is unrecognized (must be an object)")
        status = _REVIEWS[request.path](request, body.get("spec") or {})
        return json_response({**body, "metadata": {}, "status": status}, 201)

    def _read(self, target: Target, request: Request) -> Response:
        kind = target.kind
        if target.name:
            access.require(request.who, "get", kind, target.namespace, target.name)
            found = self._store.get(kind.kind, target.name, target.namespace)
            if found is None:
                raise errors.not_found(kind.group, kind.plural, target.name)
            return json_response(found)
        if request.flag("watch"):
            access.require(request.who, "watch", kind, target.namespace)
            lines = self._watches.lines(kind, target.namespace, request.query)
            return Response(200, headers=(("Content-Type", "application/json"),), stream=lines)
        access.require(request.who, "list", kind, target.namespace)
        return json_response(self.lists.page(kind, target.namespace, request.query))

    def _write(self, target: Target, request: Request) -> Response:
        verb = _VERBS.get(request.method, "")
        on_collection = verb == "create"
        if not verb or on_collection == bool(target.name):
            raise errors.method_not_allowed()
        kind = target.kind
        if kind.namespaced and not target.namespace:
            raise errors.method_not_allowed()
        access.require(request.who, verb, kind, target.namespace, target.name)
        if verb == "delete":
            return json_response(self._writes.delete(target, request))
        actions = {
            "create": self._writes.create,
            "update": self._writes.replace,
            "patch": self._writes.patch,
        }
        done = actions[verb](target, request)
        return json_response(done.object, done.status, done.warnings)


def parse(path: str) -> Target | None:
    """The resource that a path names, or None when nothing of it is served."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] != "status":
        namespace, rest = rest[1], rest[2:]
    kind = by_path(group, version, rest[0])
    if kind is None or len(rest) > 3 or not _fits(kind, namespace, len(rest) > 1):
        return None
    if len(rest) == 3 and (rest[2] != "status" or not kind.has_status):
        return None
    return Target(kind, namespace, rest[1] if len(rest) > 1 else "", len(rest) == 3)


def _fits(kind: Kind, namespace: str, named: bool) -> bool:
    """A namespaced kind is read by name only inside its namespace; others have none."""
    return kind.namespaced if namespace else not (kind.namespaced and named)
