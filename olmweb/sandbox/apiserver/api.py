"""Routing of the Kubernetes API: which path and verb means what, and who may do it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from olmweb.sandbox.apiserver import access, bodies, discovery, errors, views
from olmweb.sandbox.apiserver.bodies import Target
from olmweb.sandbox.apiserver.kinds import Kind, all_kinds, by_path
from olmweb.sandbox.apiserver.messages import (
    Request,
    Response,
    compressed,
    json_response,
    text_response,
)
from olmweb.sandbox.apiserver.reads import Reads
from olmweb.sandbox.apiserver.store import Store
from olmweb.sandbox.apiserver.watches import Watches
from olmweb.sandbox.apiserver.writes import Writes

_REVIEWS: Mapping[str, Callable[[access.Identity, dict[str, Any]], dict[str, Any]]] = {
    "SelfSubjectAccessReview": access.access_review,
    "SelfSubjectRulesReview": lambda who, _spec: access.rules_review(who),
    "SelfSubjectReview": lambda who, _spec: access.self_review(who),
}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_HEALTH = ("/livez", "/readyz", "/healthz")


@dataclass(frozen=True, slots=True)
class _Path:
    """A path that names a resource, served or not."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> str:
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


class Api:
    """Answers one request at a time; thread-safe through the store."""

    def __init__(self, store: Store, watches: Watches) -> None:
        self._reads = Reads(store)
        self._watches = watches
        self._writes = Writes(store)

    def handle(self, request: Request) -> Response:
        """Raises ApiError for everything that is refused."""
        answer = self._answer(request)
        return compressed(answer, request.headers.get("accept-encoding", ""))

    def _answer(self, request: Request) -> Response:
        path = parse(request.path)
        if path is None:
            return _no_resource(request)
        verb = _verb(path, request)
        # Like a real namespace's own reads and writes, those of `namespaces` are inside it.
        inside = path.name if path.plural == "namespaces" and not path.group else path.namespace
        access.require(request.who, verb, path.group, path.resource, inside, path.name)
        review = dict(discovery.REVIEWS.get(path.group, ())).get(path.plural)
        if review:
            return _review(review, request)
        kind = by_path(path.group, path.version, path.plural)
        if kind is None or not _fits(kind, path, request.method):
            return _unserved(path)
        view = views.negotiate(request.headers.get("accept", ""))
        target = Target(kind, path.namespace, path.name, path.subresource)
        if request.method in ("GET", "HEAD"):
            return self._read(target, request, view)
        return self._write(target, request, view)

    def _read(self, target: Target, request: Request, view: views.View) -> Response:
        kind, query = target.kind, request.query
        if target.name:
            if target.subresource and not (target.status and kind.has_status):
                raise errors.not_found(kind.group, kind.plural, target.name)
            found = self._reads.one(kind, target.namespace, target.name, query)
            return json_response(views.shown(view, kind, found, query))
        if request.flag("watch"):
            lines = self._watches.lines(
                kind, target.namespace, query, lambda item: views.shown(view, kind, item, query)
            )
            return Response(200, headers=(("Content-Type", "application/json"),), stream=lines)
        page = self._reads.page(kind, target.namespace, query)
        return json_response(views.shown(view, kind, page, query))

    def _write(self, target: Target, request: Request, view: views.View) -> Response:
        kind, method = target.kind, request.method
        if method not in _VERBS:
            raise errors.method_not_allowed()
        if target.subresource and (not target.status or not kind.has_status):
            raise errors.not_found(kind.group, kind.plural, target.name)
        if target.status and method in ("POST", "DELETE"):
            raise errors.verb_not_supported(kind.group, kind.plural, _VERBS[method])
        if not target.name and method in ("PUT", "PATCH"):
            raise errors.bad_request("name must be provided")
        if target.name and method == "POST":
            raise errors.method_not_allowed()
        if method == "DELETE":
            remove = self._writes.delete if target.name else self._writes.delete_all
            gone = remove(target, request)
            return json_response(views.shown(view, kind, gone, request.query))
        actions = {
            "POST": self._writes.create,
            "PUT": self._writes.replace,
            "PATCH": self._writes.patch,
        }
        done = actions[method](target, request)
        shown = views.shown(view, kind, done.object, request.query)
        return json_response(shown, done.status, done.warnings)


def parse(path: str) -> _Path | None:
    """The resource that a path names, or None when it is no resource's."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    return _Path(group, version, rest[0], namespace, name, rest[2] if len(rest) > 2 else "")


def _verb(path: _Path, request: Request) -> str:
    """As RBAC calls it."""
    if request.method in ("GET", "HEAD"):
        if path.name:
            return "get"
        return "watch" if request.flag("watch") else "list"
    if request.method == "DELETE" and not path.name:
        return "deletecollection"
    return _VERBS.get(request.method, request.method.lower())


def _fits(kind: Kind, path: _Path, method: str) -> bool:
    """A namespaced kind is listed anywhere and else lives in a namespace; others have none."""
    if path.namespace:
        return kind.namespaced
    return not kind.namespaced or (not path.name and method in ("GET", "HEAD"))


def _unserved(path: _Path) -> Response:
    """Groups that are built in answer with a Status, those of CRDs with plain text."""
    built_in = {(kind.group, kind.version) for kind in all_kinds() if not kind.custom}
    if (path.group, path.version) in built_in:
        raise errors.no_such_resource()
    return _no_page()


def _no_page() -> Response:
    return text_response("404 page not found\n", 404)


def _no_resource(request: Request) -> Response:
    """Health, version and discovery."""
    access.require_path(request.who, request.path)
    found = discovery.document(request.path)
    healthy = request.path in _HEALTH
    if found is None and not healthy:
        return _no_page()
    if request.method not in ("GET", "HEAD"):
        raise errors.method_not_allowed()
    return text_response("ok") if healthy else json_response(found)


def _review(kind: str, request: Request) -> Response:
    if request.method != "POST":
        raise errors.method_not_allowed()
    body = bodies.parsed(kind, request)
    status = _REVIEWS[kind](request.who, body.get("spec") or {})
    return json_response({**body, "kind": kind, "metadata": {}, "status": status}, 201)
