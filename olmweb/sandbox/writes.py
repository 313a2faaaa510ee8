"""Create, replace, patch, apply and delete, each also as a dry-run.

Owns validation order and field ownership; must not know HTTP connections or who may do what.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from olmweb.sandbox import apply as ssa
from olmweb.sandbox import errors, schema
from olmweb.sandbox.errors import ApiError, Cause
from olmweb.sandbox.kinds import Kind
from olmweb.sandbox.messages import Request
from olmweb.sandbox.store import Object, Store, copied, timestamp

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_SUBDOMAIN}')"
)
PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
)


@dataclass(frozen=True, slots=True)
class Written:
    """The object after the write, the HTTP status, and warnings for the client."""

    object: Object
    status: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """What a write is about; `status` when it goes to the status subresource."""

    kind: Kind
    namespace: str
    name: str
    status: bool = False


class Writes:
    """The writing verbs on the store. Every method raises ApiError for what is refused."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, target: Target, request: Request) -> Written:
        kind = target.kind
        item, warnings = self._body(target, request)
        metadata = item["metadata"]
        prefix = metadata.pop("generateName", "")
        if not metadata.get("name") and prefix:
            metadata["name"] = prefix + _suffix(prefix, str(self._store.version))
        if kind.has_status:
            item.pop("status", None)
        self._validate(kind, item, None)
        name = metadata["name"]
        with self._store.changed:
            if self._store.get(kind.kind, name, target.namespace):
                raise errors.already_exists(kind.group, kind.plural, name)
            for field in ("uid", "resourceVersion", "creationTimestamp", "generation"):
                metadata.pop(field, None)
            made = ssa.record_update(None, item, kind, _manager(request), self._now())
            return Written(self._keep(made, request), 201, warnings)

    def replace(self, target: Target, request: Request) -> Written:
        item, warnings = self._body(target, request)
        with self._store.changed:
            before = self._existing(target)
            self._check_version(target, before, item)
            return Written(self._update(target, before, item, request), 200, warnings)

    def patch(self, target: Target, request: Request) -> Written:
        if request.media_type not in PATCHES:
            raise errors.unsupported_media_type(PATCHES)
        if request.media_type == "application/apply-patch+yaml":
            return self._apply(target, request)
        change = request.document()
        with self._store.changed:
            before = self._existing(target)
            if request.media_type == "application/merge-patch+json":
                item: Any = _merge_patch(before, change)
            else:
                item = _json_patch(before, change)
            item, warnings = self._pruned(target.kind, self._checked(target, item), request)
            self._check_version(target, before, item)
            return Written(self._update(target, before, item, request), 200, warnings)

    def _apply(self, target: Target, request: Request) -> Written:
        kind = target.kind
        manager = request.query.get("fieldManager", "")
        if not manager:
            raise errors.invalid(
                "PatchOptions",
                "meta.k8s.io",
                "",
                [
                    Cause(
                        "FieldValueRequired",
                        "Required value: is required for apply patch",
                        "fieldManager",
                    )
                ],
            )
        wanted, unknown = self._applied_body(target, request)
        if unknown:
            raise ApiError(
                500,
                "InternalError",
                f"failed to create typed patch object (/{target.name}; {kind.api_version}, "
                f"Kind={kind.kind}): .{unknown[0]}: field not declared in schema",
            )
        with self._store.changed:
            before = self._store.get(kind.kind, target.name, target.namespace)
            if target.status and before is None:
                raise errors.not_found(kind.group, kind.plural, target.name)
            made = ssa.apply(
                before,
                wanted,
                kind,
                manager,
                self._now(),
                force=request.flag("force"),
                subresource="status" if target.status else "",
            )
            made["apiVersion"], made["kind"] = kind.api_version, kind.kind
            made = schema.with_defaults(made, kind.schema)
            self._validate(kind, made, before)
            return Written(self._keep(made, request), 200 if before else 201)

    def _applied_body(self, target: Target, request: Request) -> tuple[Object, list[str]]:
        item = self._object(target, request)
        if target.status:
            item = {
                "metadata": {"name": target.name},
                "status": item.get("status", {}),
            }
        elif target.kind.has_status:
            item.pop("status", None)
        body = {k: v for k, v in item.items() if k not in ("apiVersion", "kind", "metadata")}
        _, unknown = schema.prune(body, target.kind.schema)
        return item, unknown

    def delete(self, target: Target, request: Request) -> Object:
        """The Status of a finished delete; what the object owns goes with it."""
        kind = target.kind
        options = request.document() or {}
        if not isinstance(options, dict):
            raise errors.bad_request("the options of a delete must be an object")
        with self._store.changed:
            before = self._existing(target)
            self._check_preconditions(target, before, options.get("preconditions") or {})
            dry = _is_dry(request, options)
            if not dry:
                self._store.delete(kind.kind, target.name, target.namespace)
        details = {"name": target.name, "kind": kind.plural, "uid": before["metadata"]["uid"]}
        if kind.group:
            details["group"] = kind.group
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        }

    def _check_preconditions(
        self, target: Target, before: Object, wanted: Mapping[str, str]
    ) -> None:
        for field, title in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            actual = before["metadata"][field]
            if wanted.get(field, actual) != actual:
                text = (
                    f"Operation cannot be fulfilled on {target.kind.plural}.{target.kind.group} "
                    f'"{target.name}": the {title} in the precondition ({wanted[field]}) does not '
                    f"match the {title} in record ({actual}). The object might have been deleted "
                    "and then recreated"
                )
                raise ApiError(409, "Conflict", text)

    def _existing(self, target: Target) -> Object:
        kind = target.kind
        found = self._store.get(kind.kind, target.name, target.namespace)
        if found is None:
            raise errors.not_found(kind.group, kind.plural, target.name)
        return found

    def _check_version(self, target: Target, before: Object, item: Object) -> None:
        asked = item["metadata"].get("resourceVersion", "")
        if asked and asked != before["metadata"]["resourceVersion"]:
            raise errors.stale(target.kind.group, target.kind.plural, target.name)

    def _update(self, target: Target, before: Object, item: Object, request: Request) -> Object:
        kind = target.kind
        made = copied(item)
        if target.status:
            made = {**copied(before), "status": made.get("status", {})}
        elif kind.has_status:
            made.pop("status", None)
            if "status" in before:
                made["status"] = copied(before["status"])
        self._validate(kind, made, before)
        manager, sub = _manager(request), "status" if target.status else ""
        made = ssa.record_update(before, made, kind, manager, self._now(), sub)
        return self._keep(made, request)

    def _object(self, target: Target, request: Request) -> Object:
        """The body as an object of the target's kind and name."""
        return self._checked(target, request.document())

    def _checked(self, target: Target, item: Any) -> Object:
        """The item itself once it is sure to be of the target's kind, name and namespace."""
        kind = target.kind
        if not isinstance(item, dict) or not isinstance(item.setdefault("metadata", {}), dict):
            raise errors.bad_request("the object provided is unrecognized (must be an object)")
        item.setdefault("apiVersion", kind.api_version)
        item.setdefault("kind", kind.kind)
        if (item["apiVersion"], item["kind"]) != (kind.api_version, kind.kind):
            raise errors.bad_request(
                f'{item["kind"]} in version "{item["apiVersion"]}" cannot be handled as a '
                f'{kind.kind}: no kind "{item["kind"]}" is registered for this resource'
            )
        metadata = item["metadata"]
        for field, wanted in (("name", target.name), ("namespace", target.namespace)):
            if wanted and metadata.setdefault(field, wanted) != wanted:
                raise errors.bad_request(
                    f"the {field} of the object ({metadata[field]}) does not match the {field} on "
                    f"the URL ({wanted})"
                )
        return item

    def _body(self, target: Target, request: Request) -> tuple[Object, tuple[str, ...]]:
        return self._pruned(target.kind, self._object(target, request), request)

    def _pruned(self, kind: Kind, item: Object, request: Request) -> tuple[Object, tuple[str, ...]]:
        """Unknown fields dropped, defaults set; `fieldValidation=Strict` refuses instead."""
        fixed = {key: item.pop(key) for key in ("apiVersion", "kind", "metadata")}
        kept, unknown = schema.prune(item, kind.schema)
        mode = request.query.get("fieldValidation", "Warn")
        texts = [f'unknown field "{path}"' for path in unknown]
        if texts and mode == "Strict":
            raise errors.bad_request(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                f"strict decoding error: {', '.join(texts)}"
            )
        made = {**fixed, **schema.with_defaults(kept, kind.schema)}
        return made, tuple(texts) if mode == "Warn" else ()

    def _validate(self, kind: Kind, item: Object, before: Object | None) -> None:
        name = item["metadata"].get("name", "")
        causes: list[Cause] = []
        if not name:
            text = "Required value: name or generateName is required"
            causes.append(Cause("FieldValueRequired", text, "metadata.name"))
        elif not re.fullmatch(_SUBDOMAIN, name) or len(name) > 253:
            text = f"Invalid value: {errors.quoted(name)}: {_NAME_RULE}"
            causes.append(Cause("FieldValueInvalid", text, "metadata.name"))
        body = {k: v for k, v in item.items() if k not in ("apiVersion", "kind", "metadata")}
        causes += schema.validate(body, kind.schema, before)
        if causes:
            raise errors.invalid(kind.kind, kind.group, name, causes)

    def _keep(self, item: Object, request: Request) -> Object:
        if _is_dry(request, {}):
            return self._store.prepared(item)
        return self._store.put(item)

    def _now(self) -> str:
        return timestamp(self._store.now())


def _is_dry(request: Request, options: Mapping[str, Any]) -> bool:
    asked = [request.query["dryRun"]] if "dryRun" in request.query else options.get("dryRun") or []
    if asked and asked != ["All"]:
        text = f'Unsupported value: {errors.quoted(asked[0])}: supported values: "All"'
        cause = Cause("FieldValueNotSupported", text, "dryRun")
        raise errors.invalid("PatchOptions", "meta.k8s.io", "", [cause])
    return bool(asked)


def _manager(request: Request) -> str:
    agent = request.headers.get("user-agent", "unknown").split("/")[0]
    return request.query.get("fieldManager", "") or agent


def _suffix(prefix: str, salt: str) -> str:
    """Five characters of Kubernetes' safe alphabet."""
    alphabet = "bcdfghjklmnpqrstvwxz2456789"
    digest = hashlib.sha256(f"{prefix}{salt}".encode()).digest()
    return "".join(alphabet[byte % len(alphabet)] for byte in digest[:5])


def _merge_patch(value: Any, change: Any) -> Any:
    """RFC 7386."""
    if not isinstance(change, dict):
        return copied(change)
    merged = copied(value) if isinstance(value, dict) else {}
    for key, item in change.items():
        if item is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge_patch(merged.get(key), item)
    return merged


def _json_patch(value: Object, operations: Any) -> Object:
    """RFC 6902's add, replace, remove and test, which is what people use on these kinds."""
    made = copied(value)
    if not isinstance(operations, list):
        raise errors.bad_request("error decoding patch: a JSON patch is a list of operations")
    for step in operations:
        try:
            _patch_step(made, step)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            text = f"the server rejected our request due to an error in our request: {error}"
            raise ApiError(422, "Invalid", text) from error
    return made


def _patch_step(root: Any, step: Mapping[str, Any]) -> None:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
    node = root
    for part in parts[:-1]:
        node = node[int(part)] if isinstance(node, list) else node[part]
    last: Any = parts[-1]
    if isinstance(node, list):
        last = len(node) if last == "-" else int(last)
    operation = step["op"]
    if operation == "test":
        if node[last] != step["value"]:
            raise ValueError(f"testing path {step['path']} failed")
    elif operation == "remove":
        del node[last]
    elif operation == "add" and isinstance(node, list):
        node.insert(last, step["value"])
    elif operation in ("add", "replace"):
        if operation == "replace":
            node[last]  # a missing path is an error
        node[last] = step["value"]
    else:
        raise ValueError(f"unexpected operation {operation}")
