"""Routing of the Kubernetes API: paths, verbs, their authorization, health and discovery."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from olmweb.sandbox.apiserver import access, bodies, errors
from olmweb.sandbox.apiserver.bodies import RequestTarget
from olmweb.sandbox.apiserver.http_server import (
    Request,
    Response,
    compressed,
    json_response,
    text_response,
)
from olmweb.sandbox.apiserver.kinds import (
    Object,
    ResourceKind,
    all_kinds,
    by_path,
    served_by,
)
from olmweb.sandbox.apiserver.reads import Reads, Watches
from olmweb.sandbox.apiserver.representations import negotiate, represented
from olmweb.sandbox.apiserver.store import Store
from olmweb.sandbox.apiserver.writes import Writes

_REVIEWS: Mapping[str, Callable[[access.Identity, Object], Object]] = {
    "SelfSubjectAccessReview": access.access_review,
    "SelfSubjectRulesReview": lambda identity, _spec: access.rules_review(identity),
    "SelfSubjectReview": lambda identity, _spec: access.self_review(identity),
}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_HEALTH = ("/livez", "/readyz", "/healthz")


@dataclass(frozen=True, slots=True)
class _Path:
    """The path of a resource, served or not."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> str:
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


class SandboxApi:
    """Answers one request at a time; thread-safe through the store."""

    def __init__(self, store: Store, watches: Watches) -> None:
        self._store = store
        self._reads = Reads(store)
        self._watches = watches
        self._writes = Writes(store)

    def handle(self, request: Request) -> Response:
        """Raises ApiError for refused requests."""
        return compressed(self._respond(request), request)

    def _respond(self, request: Request) -> Response:
        path = _parse(request.path)
        if path is None:
            return _no_resource(request)
        verb = _verb(path, request)
        # The namespace of a request for a Namespace is that Namespace, as in a real server.
        namespace = path.name if path.plural == "namespaces" and not path.group else path.namespace
        access.require(request.identity, verb, path.group, path.resource, namespace, path.name)
        review = access.REVIEWS.get(path.group, {}).get(path.plural)
        if review:
            return _review(review, request)
        kind = by_path(path.group, path.version, path.plural) or self._custom(path, request)
        if kind is None or not _fits(kind, path, request.method):
            return _unserved(path)
        as_kind = negotiate(request.headers.get("accept", ""))
        target = RequestTarget(kind, path.namespace, path.name, path.subresource)
        if request.method in ("GET", "HEAD"):
            return self._read(target, request, as_kind)
        return self._write(target, request, as_kind)

    def _custom(self, path: _Path, request: Request) -> ResourceKind | None:
        """The kind of a CRD that an operator brought. It is read only: no controller of the sandbox
        makes objects of it."""
        crd = self._store.get("CustomResourceDefinition", f"{path.plural}.{path.group}")
        if crd is None or request.method not in ("GET", "HEAD"):
            return None
        return served_by(crd, path.version)

    def _read(self, target: RequestTarget, request: Request, as_kind: str) -> Response:
        kind, query = target.kind, request.query
        if target.name:
            if target.subresource and not (target.status and kind.has_status):
                raise errors.not_found(kind.group, kind.plural, target.name)
            item = self._reads.get(kind, target.namespace, target.name, query)
            return json_response(represented(as_kind, kind, item, query))
        if request.flag("watch"):
            lines = self._watches.lines(
                kind,
                target.namespace,
                query,
                lambda item: represented(as_kind, kind, item, query),
            )
            return Response(200, headers=(("Content-Type", "application/json"),), stream=lines)
        page = self._reads.page(kind, target.namespace, query)
        return json_response(represented(as_kind, kind, page, query))

    def _write(self, target: RequestTarget, request: Request, as_kind: str) -> Response:
        kind, method = target.kind, request.method
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
            deleted = remove(target, request)
            return json_response(represented(as_kind, kind, deleted, request.query))
        actions = {
            "POST": self._writes.create,
            "PUT": self._writes.replace,
            "PATCH": self._writes.patch,
        }
        written = actions[method](target, request)
        document = represented(as_kind, kind, written.object, request.query)
        return json_response(document, written.status, written.warnings)


def _parse(path: str) -> _Path | None:
    """The resource of a path, or None for a non-resource path."""
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
    """The verb of a request in RBAC."""
    if request.method in ("GET", "HEAD"):
        if path.name:
            return "get"
        return "watch" if request.flag("watch") else "list"
    if request.method == "DELETE" and not path.name:
        return "deletecollection"
    return _VERBS[request.method]


def _fits(kind: ResourceKind, path: _Path, method: str) -> bool:
    """Whether the path has a namespace exactly if the kind needs one; lists need none."""
    if path.namespace:
        return kind.namespaced
    return not kind.namespaced or (not path.name and method in ("GET", "HEAD"))


def _unserved(path: _Path) -> Response:
    """Built-in groups answer with a Status, those of CRDs with plain text."""
    built_in = {(kind.group, kind.version) for kind in all_kinds() if not kind.custom}
    if (path.group, path.version) in built_in:
        raise errors.no_such_resource()
    return _no_page()


def _no_page() -> Response:
    return text_response("404 page not found\n", 404)


def _no_resource(request: Request) -> Response:
    """Health, version and discovery."""
    access.require_path(request.identity, request.path)
    document = _discovery(request.path)
    is_health = request.path in _HEALTH
    if document is None and not is_health:
        return _no_page()
    if request.method not in ("GET", "HEAD"):
        raise errors.method_not_allowed()
    return text_response("ok") if is_health else json_response(document)


def _review(kind: str, request: Request) -> Response:
    if request.method != "POST":
        raise errors.method_not_allowed()
    body = bodies.parsed(kind, request)
    status = _REVIEWS[kind](request.identity, body.get("spec") or {})
    return json_response({**body, "kind": kind, "metadata": {}, "status": status}, 201)


# --- discovery

_VERSION = {
    "major": "1",
    "minor": "25",
    "gitVersion": "v1.25.2+sandbox",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_RESOURCE_VERBS = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
]
_STABILITY = {"": 2, "beta": 1, "alpha": 0}


def _discovery(path: str) -> Object | None:
    """The discovery document at `path`, or None for other paths."""
    parts = path.strip("/").split("/")
    if parts == ["version"]:
        return _VERSION
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if parts == ["apis"]:
        groups = [_group(name) for name in _groups()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if parts == ["api", "v1"]:
        return _resources("", "v1")
    if parts[0] == "apis" and len(parts) == 2 and parts[1] in _groups():
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1])}
    if parts[0] == "apis" and len(parts) == 3 and parts[2] in _versions(parts[1]):
        return _resources(parts[1], parts[2])
    return None


def _groups() -> list[str]:
    return sorted({kind.group for kind in all_kinds() if kind.group} | set(access.REVIEWS))


def _versions(group: str) -> list[str]:
    """The versions of a group, the preferred version first."""
    served = {kind.version for kind in all_kinds() if kind.group == group}
    if group in access.REVIEWS:
        served.add("v1")
    return sorted(served, key=_priority, reverse=True)


def _priority(version: str) -> tuple[int, int, int]:
    """Stable before beta before alpha, then the higher number."""
    match = re.match(r"^v(\d+)(?:(alpha|beta)(\d+))?$", version)
    if not match:
        return -1, 0, 0
    return _STABILITY[match[2] or ""], int(match[1]), int(match[3] or 0)


def _group(name: str) -> Object:
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version} for version in _versions(name)
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(group: str, version: str) -> Object:
    served: list[Object] = []
    for kind in all_kinds():
        if (kind.group, kind.version) == (group, version):
            served += _entries(kind)
    for plural, name in access.REVIEWS.get(group, {}).items():
        served.append(
            {
                "name": plural,
                "singularName": name.lower(),
                "namespaced": False,
                "kind": name,
                "verbs": ["create"],
            }
        )
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": served,
    }


def _entries(kind: ResourceKind) -> list[Object]:
    entry: Object = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _RESOURCE_VERBS,
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if not kind.has_status:
        return [entry]
    status = {
        "name": f"{kind.plural}/status",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": ["get", "patch", "update"],
    }
    return [entry, status]
