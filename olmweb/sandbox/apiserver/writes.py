"""Create, update, patch, apply and delete, each also as a dry-run, and the two patch formats.

Owns the order of the checks; must not know HTTP connections or authorization.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from olmweb.sandbox.apiserver import bodies, errors, server_side_apply, validation
from olmweb.sandbox.apiserver.bodies import RequestTarget
from olmweb.sandbox.apiserver.errors import ApiError, StatusCause, bad_request
from olmweb.sandbox.apiserver.http_server import Request
from olmweb.sandbox.apiserver.kinds import Object, ResourceKind
from olmweb.sandbox.apiserver.reads import selector
from olmweb.sandbox.apiserver.store import Store, copied, safe_suffix, timestamp

_SERVER_FIELDS = (
    "uid",
    "creationTimestamp",
    "generation",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
)
_POLICIES = ("Foreground", "Background", "Orphan")
_MERGE_PATCH = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"
_ACCEPTED_PATCHES = (_JSON_PATCH, _MERGE_PATCH, _APPLY_PATCH)


@dataclass(frozen=True, slots=True)
class _Written:
    """The object after the write, the HTTP status, and warnings for the client."""

    object: Object
    status: int
    warnings: tuple[str, ...] = ()


class Writes:
    """The writing verbs. Every method raises ApiError for a refused request."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, target: RequestTarget, request: Request) -> _Written:
        bodies.check_options(request, "CreateOptions")
        kind = target.kind
        body = bodies.created(target, request)
        item, meta = body.object, body.object["metadata"]
        if meta.pop("resourceVersion", ""):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        for field in _SERVER_FIELDS:
            meta.pop(field, None)
        prefix = meta.get("generateName", "")
        if not meta.get("name") and prefix:
            meta["name"] = prefix + safe_suffix(f"{prefix}{self._store.version}", 5)
        if kind.has_status:
            item.pop("status", None)
        if kind.kind == "Namespace":
            _complete_namespace(item)
        self._validate(target, item, None)
        with self._store.changed:
            self._check_namespace(target)
            if existing := self._store.get(kind.kind, meta["name"], target.namespace):
                raise errors.already_exists(
                    kind.group,
                    kind.plural,
                    meta["name"],
                    deleting="deletionTimestamp" in existing["metadata"],
                )
            made = server_side_apply.record_update(None, item, kind, _manager(request), self._now())
            warnings = (*body.warnings, *validation.metadata_warnings(meta))
            return _Written(self._stored(made, request), 201, warnings)

    def replace(self, target: RequestTarget, request: Request) -> _Written:
        bodies.check_options(request, "UpdateOptions")
        body = bodies.replaced(target, request)
        with self._store.changed:
            before = self._existing(target)
            if target.kind.custom and not body.object["metadata"].get("resourceVersion"):
                raise _no_version(target)
            return self._update(target, before, body, request)

    def patch(self, target: RequestTarget, request: Request) -> _Written:
        if request.media_type not in _ACCEPTED_PATCHES:
            raise errors.unsupported_media_type(_ACCEPTED_PATCHES)
        is_apply = request.media_type == _APPLY_PATCH
        bodies.check_options(request, "PatchOptions", is_apply)
        if is_apply:
            return self._apply(target, request)
        change = _decoded_patch(request.media_type, request.body)
        with self._store.changed:
            before = self._existing(target)
            if request.media_type == _MERGE_PATCH:
                item = _merged(before, change)
            else:
                item = _patched(before, change)
            return self._update(target, before, bodies.changed(target, item, request), request)

    def _apply(self, target: RequestTarget, request: Request) -> _Written:
        kind = target.kind
        wanted = bodies.applied(target, request)
        version = wanted["metadata"].pop("resourceVersion", "")
        uid = wanted["metadata"].pop("uid", "")
        if target.status:
            wanted = {"metadata": {"name": target.name}, "status": wanted.get("status", {})}
        elif kind.has_status:
            wanted.pop("status", None)
        with self._store.changed:
            self._check_namespace(target)
            before = self._store.get(kind.kind, target.name, target.namespace)
            if target.status and before is None:
                raise errors.not_found(kind.group, kind.plural, target.name)
            made = server_side_apply.apply(
                before,
                wanted,
                kind,
                request.query["fieldManager"],
                self._now(),
                force=request.flag("force"),
                subresource=target.subresource,
            )
            made["apiVersion"], made["kind"] = kind.api_version, kind.kind
            made = validation.with_defaults(made, kind.schema)
            if before and uid:
                made["metadata"]["uid"] = uid
            self._validate(target, made, before)
            if before and version not in ("", before["metadata"]["resourceVersion"]):
                raise errors.stale(kind.group, kind.plural, target.name)
            return _Written(self._stored(made, request), 200 if before else 201)

    def _update(
        self, target: RequestTarget, before: Object, body: bodies.DecodedBody, request: Request
    ) -> _Written:
        kind = target.kind
        made = copied(body.object)
        version = made["metadata"].get("resourceVersion", "")
        if version and version != before["metadata"]["resourceVersion"]:
            raise errors.stale(kind.group, kind.plural, target.name)
        if target.status:
            made = {**copied(before), "status": made.get("status", {})}
        elif kind.has_status:
            made.pop("status", None)
            if "status" in before:
                made["status"] = copied(before["status"])
        self._validate(target, made, before)
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            made["metadata"].pop(field, None)
            if field in before["metadata"]:
                made["metadata"][field] = before["metadata"][field]
        manager = _manager(request)
        made = server_side_apply.record_update(
            before, made, kind, manager, self._now(), target.subresource
        )
        return _Written(self._stored(made, request), 200, body.warnings)

    def delete(self, target: RequestTarget, request: Request) -> Object:
        """The Status of a finished delete, or the object if its finalizers still hold it."""
        options = _delete_options(request)
        with self._store.changed:
            before = self._existing(target)
            _check_preconditions(target, before, options.get("preconditions") or {})
            return self._delete(target.kind, before, _is_dry_delete(request, options))

    def delete_all(self, target: RequestTarget, request: Request) -> Object:
        """The list of the objects that were deleted or wait for their finalizers."""
        options = _delete_options(request)
        kind = target.kind
        matches = selector(kind, request.query)
        with self._store.changed:
            items, version = self._store.items(kind.kind, target.namespace)
            deleted = [item for item in items if matches(item)]
            for item in deleted:
                self._delete(kind, item, _is_dry_delete(request, options))
        return {
            "apiVersion": kind.api_version,
            "items": deleted,
            "kind": f"{kind.kind}List",
            "metadata": {"continue": "", "resourceVersion": str(version)},
        }

    def _delete(self, kind: ResourceKind, before: Object, dry: bool) -> Object:
        meta = before["metadata"]
        if meta.get("finalizers"):
            made = copied(before)
            made["metadata"].setdefault("deletionTimestamp", self._now())
            made["metadata"]["deletionGracePeriodSeconds"] = 0
            return self._store.prepared(made) if dry else self._store.put(made)
        if not dry:
            self._store.delete(kind.kind, meta["name"], meta.get("namespace", ""))
        named = {"name": meta["name"], "group": kind.group, "kind": kind.plural, "uid": meta["uid"]}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {key: value for key, value in named.items() if value},
        }

    def _existing(self, target: RequestTarget) -> Object:
        kind = target.kind
        item = self._store.get(kind.kind, target.name, target.namespace)
        if item is None:
            raise errors.not_found(kind.group, kind.plural, target.name)
        return item

    def _check_namespace(self, target: RequestTarget) -> None:
        if target.kind.namespaced and self._store.get("Namespace", target.namespace) is None:
            raise errors.not_found("", "namespaces", target.namespace)

    def _validate(self, target: RequestTarget, item: Object, before: Object | None) -> None:
        """Raises ApiError 422 with every fault of the object."""
        kind = target.kind
        causes = validation.metadata_causes(kind, item["metadata"])
        if before:
            causes += validation.metadata_update_causes(before["metadata"], item["metadata"])
        body = {k: v for k, v in item.items() if k not in ("apiVersion", "kind", "metadata")}
        if target.status:
            # Only the status is checked, and messages begin below it.
            below = kind.schema.get("properties", {}).get("status", {})
            causes += [
                StatusCause(
                    c.reason, c.message, c.field if c.field == "<nil>" else f"status.{c.field}"
                )
                for c in validation.validate(body.get("status", {}), below)
            ]
            if validation.blocked(causes, kind.schema):
                causes.append(validation.UNCHECKED)
        else:
            body.pop("status", None)
            causes = validation.validate(body, kind.schema, before, causes)
        if causes:
            name = item["metadata"].get("name", "")
            raise errors.invalid(kind.kind, kind.group, name, causes)

    def _stored(self, item: Object, request: Request) -> Object:
        """Stores the object, or deletes it without its last finalizer; a dry-run does neither."""
        if "dryRun" in request.query:
            return self._store.prepared(item)
        meta = item["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            last = self._store.prepared(item)
            self._store.delete(item["kind"], meta["name"], meta.get("namespace", ""))
            return last
        return self._store.put(item)

    def _now(self) -> str:
        return timestamp(self._store.now())


def _complete_namespace(namespace: Object) -> None:
    """Sets what the server sets on every new namespace."""
    meta = namespace["metadata"]
    if name := meta.get("name"):
        meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": name}
    namespace.setdefault("spec", {"finalizers": ["kubernetes"]})
    namespace["status"] = {"phase": "Active"}


def _no_version(target: RequestTarget) -> ApiError:
    text = "Invalid value: 0: must be specified for an update"
    cause = StatusCause("FieldValueInvalid", text, "metadata.resourceVersion")
    return errors.invalid(target.kind.plural, target.kind.group, target.name, [cause])


def _delete_options(request: Request) -> Mapping[str, Any]:
    """The options of the body. Raises ApiError 400 or 422."""
    bodies.check_options(request, "DeleteOptions")
    options: dict[str, Any] = {}
    if request.body:
        prefix = "couldn't get version/kind; json parse error: "
        try:
            options = json.loads(request.body)
        except ValueError as error:
            raise errors.bad_request(f"{prefix}{error}") from error
        if not isinstance(options, dict):
            raise errors.bad_request(f"{prefix}{type(options).__name__} is no object")
    # Options in the body replace those in the query.
    policy = (options if request.body else request.query).get("propagationPolicy") or ""
    if policy and policy not in _POLICIES:
        cause = errors.unsupported("propagationPolicy", policy, (*_POLICIES, "nil"))
        raise errors.bad_option("DeleteOptions", cause)
    return options


def _check_preconditions(target: RequestTarget, before: Object, wanted: Mapping[str, str]) -> None:
    endings = {
        "uid": ("UID", "deleted and then recreated"),
        "resourceVersion": ("ResourceVersion", "modified"),
    }
    for field, (title, ending) in endings.items():
        actual = before["metadata"][field]
        if wanted.get(field, actual) != actual:
            why = (
                f"the {title} in the precondition ({wanted[field]}) does not match the {title} in "
                f"record ({actual}). The object might have been {ending}"
            )
            raise errors.conflict(target.kind.group, target.kind.kind, target.name, why)


def _is_dry_delete(request: Request, options: Mapping[str, Any]) -> bool:
    """Options in the body replace those in the query."""
    return bool(options.get("dryRun")) if request.body else "dryRun" in request.query


def _manager(request: Request) -> str:
    agent = request.headers.get("user-agent", "unknown").split("/")[0]
    return request.query.get("fieldManager", "") or agent


# --- patches


def _decoded_patch(media_type: str, body: bytes) -> Any:
    """The patch of a request. Raises ApiError 400 if its type does not fit `media_type`."""
    wanted = list if media_type == _JSON_PATCH else dict
    try:
        patch = json.loads(body)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from error
    if not isinstance(patch, wanted):
        raise bad_request(f"error decoding patch: {type(patch).__name__} is no {wanted.__name__}")
    return patch


def _merged(value: Any, change: Any) -> Any:
    """A JSON merge patch (RFC 7386)."""
    if not isinstance(change, dict):
        return copied(change)
    made = copied(value) if isinstance(value, dict) else {}
    for key, item in change.items():
        if item is None:
            made.pop(key, None)
        else:
            made[key] = _merged(made.get(key), item)
    return made


def _patched(value: Object, steps: list[Any]) -> Object:
    """A JSON patch (RFC 6902). Raises ApiError 422 for a step that cannot be applied."""
    made = copied(value)
    try:
        for step in steps:
            _apply_step(made, step)
    except (KeyError, IndexError, ValueError, TypeError) as error:
        text = "the server rejected our request due to an error in our request"
        raise ApiError(422, "Invalid", text, {}) from error
    return made


def _apply_step(root: Any, step: Mapping[str, Any]) -> None:
    operation, path = step["op"], step["path"]
    if operation == "test":
        if _value_at(root, path) != step["value"]:
            raise ValueError("the test failed")
    elif operation == "remove":
        _remove(root, path)
    elif operation == "add":
        _add(root, path, step["value"])
    elif operation == "replace":
        _replace(root, path, step["value"])
    elif operation == "copy":
        _add(root, path, copied(_value_at(root, step["from"])))
    elif operation == "move":
        value = _value_at(root, step["from"])
        _remove(root, step["from"])
        _add(root, path, value)
    else:
        raise ValueError(f"unexpected operation {operation}")


def _parts(path: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _value_at(root: Any, path: str) -> Any:
    node = root
    for part in _parts(path):
        node = node[int(part)] if isinstance(node, list) else node[part]
    return node


def _parent(root: Any, path: str) -> tuple[Any, Any]:
    """The map or list that holds the last part, and that part as its key or index."""
    *above, last = _parts(path)
    node = root
    for part in above:
        node = node[int(part)] if isinstance(node, list) else node[part]
    if isinstance(node, list):
        return node, len(node) if last == "-" else int(last)
    return node, last


def _remove(root: Any, path: str) -> None:
    node, last = _parent(root, path)
    del node[last]


def _add(root: Any, path: str, value: Any) -> None:
    node, last = _parent(root, path)
    if not isinstance(node, list):
        node[last] = value
    elif last <= len(node):
        node.insert(last, value)
    else:
        raise IndexError(path)


def _replace(root: Any, path: str, value: Any) -> None:
    node, last = _parent(root, path)
    node[last] = value  # creates a missing field, as the real server's library does
