"""Create, replace, patch, apply and delete, each also as a dry-run.

Owns the order of the checks; must not know HTTP connections or who may do what.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from olmweb.sandbox.apiserver import apply as ssa
from olmweb.sandbox.apiserver import bodies, errors, metadata, patches, schema
from olmweb.sandbox.apiserver.bodies import Target
from olmweb.sandbox.apiserver.errors import ApiError, Cause
from olmweb.sandbox.apiserver.kinds import Kind
from olmweb.sandbox.apiserver.messages import Request
from olmweb.sandbox.apiserver.reads import selector
from olmweb.sandbox.apiserver.store import Object, Store, copied, timestamp

_SERVERS = (
    "uid",
    "creationTimestamp",
    "generation",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
)
_POLICIES = ("Foreground", "Background", "Orphan")
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, slots=True)
class Written:
    """The object after the write, the HTTP status, and warnings for the client."""

    object: Object
    status: int
    warnings: tuple[str, ...] = ()


class Writes:
    """The writing verbs on the store. Every method raises ApiError for what is refused."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, target: Target, request: Request) -> Written:
        bodies.check_options(request, "CreateOptions")
        kind = target.kind
        body = bodies.created(target, request)
        item, meta = body.object, body.object["metadata"]
        if meta.pop("resourceVersion", ""):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        for field in _SERVERS:
            meta.pop(field, None)
        prefix = meta.get("generateName", "")
        if not meta.get("name") and prefix:
            meta["name"] = prefix + _suffix(prefix, str(self._store.version))
        if kind.has_status:
            item.pop("status", None)
        if kind.kind == "Namespace":
            _furnish(item)
        self._validate(target, item, None)
        with self._store.changed:
            self._check_namespace(target)
            if found := self._store.get(kind.kind, meta["name"], target.namespace):
                going = "deletionTimestamp" in found["metadata"]
                raise errors.already_exists(kind.group, kind.plural, meta["name"], going=going)
            made = ssa.record_update(None, item, kind, _manager(request), self._now())
            warnings = (*body.warnings, *metadata.warnings(meta))
            return Written(self._keep(made, request), 201, warnings)

    def replace(self, target: Target, request: Request) -> Written:
        bodies.check_options(request, "UpdateOptions")
        body = bodies.replaced(target, request)
        with self._store.changed:
            before = self._existing(target)
            asked = body.object["metadata"].get("resourceVersion", "")
            if not asked and target.kind.custom:
                raise _no_version(target)
            return self._update(target, before, body, request)

    def patch(self, target: Target, request: Request) -> Written:
        if request.media_type not in patches.ACCEPTED:
            raise errors.unsupported_media_type(patches.ACCEPTED)
        is_apply = request.media_type == patches.APPLY
        bodies.check_options(request, "PatchOptions", is_apply)
        if is_apply:
            return self._apply(target, request)
        change = patches.decoded(request.media_type, request.body)
        with self._store.changed:
            before = self._existing(target)
            if request.media_type == patches.MERGE:
                item = patches.merged(before, change)
            else:
                item = patches.patched(before, change)
            return self._update(target, before, bodies.changed(target, item, request), request)

    def _apply(self, target: Target, request: Request) -> Written:
        kind = target.kind
        wanted = bodies.applied(target, request)
        asked = wanted["metadata"].pop("resourceVersion", "")
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
            made = ssa.apply(
                before,
                wanted,
                kind,
                request.query["fieldManager"],
                self._now(),
                force=request.flag("force"),
                subresource=target.subresource,
            )
            made["apiVersion"], made["kind"] = kind.api_version, kind.kind
            made = schema.with_defaults(made, kind.schema)
            if before and uid:
                made["metadata"]["uid"] = uid
            self._validate(target, made, before)
            if before and asked not in ("", before["metadata"]["resourceVersion"]):
                raise errors.stale(kind.group, kind.plural, target.name)
            return Written(self._keep(made, request), 200 if before else 201)

    def _update(
        self, target: Target, before: Object, body: bodies.Body, request: Request
    ) -> Written:
        kind = target.kind
        made = copied(body.object)
        asked = made["metadata"].get("resourceVersion", "")
        if asked and asked != before["metadata"]["resourceVersion"]:
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
        made = ssa.record_update(before, made, kind, manager, self._now(), target.subresource)
        return Written(self._keep(made, request), 200, body.warnings)

    def delete(self, target: Target, request: Request) -> Object:
        """The Status of a finished delete, or the object that its finalizers still hold."""
        options = _delete_options(request)
        with self._store.changed:
            before = self._existing(target)
            _check_preconditions(target, before, options.get("preconditions") or {})
            return self._delete(target.kind, before, _is_dry_delete(request, options))

    def delete_all(self, target: Target, request: Request) -> Object:
        """The list of what was deleted, or is going once its finalizers let it."""
        options = _delete_options(request)
        kind = target.kind
        matches = selector(kind, request.query)
        with self._store.changed:
            items, version = self._store.items(kind.kind, target.namespace)
            gone = [item for item in items if matches(item)]
            for item in gone:
                self._delete(kind, item, _is_dry_delete(request, options))
        return {
            "apiVersion": kind.api_version,
            "items": gone,
            "kind": f"{kind.kind}List",
            "metadata": {"continue": "", "resourceVersion": str(version)},
        }

    def _delete(self, kind: Kind, before: Object, dry: bool) -> Object:
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

    def _existing(self, target: Target) -> Object:
        kind = target.kind
        found = self._store.get(kind.kind, target.name, target.namespace)
        if found is None:
            raise errors.not_found(kind.group, kind.plural, target.name)
        return found

    def _check_namespace(self, target: Target) -> None:
        if target.kind.namespaced and self._store.get("Namespace", target.namespace) is None:
            raise errors.not_found("", "namespaces", target.namespace)

    def _validate(self, target: Target, item: Object, before: Object | None) -> None:
        """Raises ApiError 422 with everything that is wrong with the object."""
        kind = target.kind
        found = metadata.causes(kind, item["metadata"])
        if before:
            found += metadata.update_causes(before["metadata"], item["metadata"])
        body = {k: v for k, v in item.items() if k not in ("apiVersion", "kind", "metadata")}
        if target.status:
            # Only the status is checked, and messages begin below it.
            below = kind.schema.get("properties", {}).get("status", {})
            found += [
                Cause(c.reason, c.message, c.field if c.field == "<nil>" else f"status.{c.field}")
                for c in schema.validate(body.get("status", {}), below)
            ]
            if len(found) and schema.blocked(found, kind.schema):
                found.append(schema.UNCHECKED)
        else:
            body.pop("status", None)
            found = schema.validate(body, kind.schema, before, found)
        if found:
            name = item["metadata"].get("name", "")
            raise errors.invalid(kind.kind, kind.group, name, found)

    def _keep(self, item: Object, request: Request) -> Object:
        """Stores the object, unless the request is a dry-run.

        One whose deletion only waited for its last finalizer is gone with it.
        """
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


def _furnish(namespace: Object) -> None:
    """What the server gives every new namespace."""
    meta = namespace["metadata"]
    if name := meta.get("name"):
        meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": name}
    namespace.setdefault("spec", {"finalizers": ["kubernetes"]})
    namespace["status"] = {"phase": "Active"}


def _no_version(target: Target) -> ApiError:
    text = "Invalid value: 0: must be specified for an update"
    cause = Cause("FieldValueInvalid", text, "metadata.resourceVersion")
    return errors.invalid(target.kind.plural, target.kind.group, target.name, [cause])


def _delete_options(request: Request) -> Mapping[str, Any]:
    """The options of the body. Raises ApiError 400 or 422."""
    bodies.check_options(request, "DeleteOptions")
    options: Any = {}
    if request.body:
        prefix = "couldn't get version/kind; json parse error: "
        try:
            options = json.loads(request.body)
        except ValueError as error:
            raise errors.bad_request(f"{prefix}{error}") from error
        if not isinstance(options, dict):
            raise errors.bad_request(f"{prefix}{type(options).__name__} is no object")
    told = options if request.body else request.query
    policy = told.get("propagationPolicy") or ""
    if policy and policy not in _POLICIES:
        cause = errors.unsupported("propagationPolicy", policy, (*_POLICIES, "nil"))
        raise errors.bad_option("DeleteOptions", cause)
    found: Mapping[str, Any] = options
    return found


def _check_preconditions(target: Target, before: Object, wanted: Mapping[str, str]) -> None:
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
    """Options in the body make those in the query count for nothing."""
    return bool(options.get("dryRun")) if request.body else "dryRun" in request.query


def _manager(request: Request) -> str:
    agent = request.headers.get("user-agent", "unknown").split("/")[0]
    return request.query.get("fieldManager", "") or agent


def _suffix(prefix: str, salt: str) -> str:
    """Five characters of Kubernetes' safe alphabet."""
    digest = hashlib.sha256(f"{prefix}{salt}".encode()).digest()
    return "".join(_SAFE[byte % len(_SAFE)] for byte in digest[:5])
