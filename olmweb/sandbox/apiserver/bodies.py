"""Decodes and checks the body of a request as an object of the target's kind.

Must not know the store.
"""

import json
from dataclasses import dataclass
from typing import Any

import yaml

from olmweb.kube.documents import KubernetesLoader
from olmweb.sandbox.apiserver import errors, validation
from olmweb.sandbox.apiserver.errors import ApiError
from olmweb.sandbox.apiserver.http_server import Request
from olmweb.sandbox.apiserver.kinds import Object, ResourceKind, Schema

ACCEPTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_SHOWN = 30  # characters of the body in a message
_NO_NAME = "the name of the object ({0} based on URL) was undeterminable: name must be provided"


def _yaml(body: bytes) -> Any:
    return yaml.load(body, KubernetesLoader)  # noqa: S506 - a CSafeLoader


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The resource of a request; `subresource` is "" for the object itself."""

    kind: ResourceKind
    namespace: str
    name: str
    subresource: str = ""

    @property
    def status(self) -> bool:
        return self.subresource == "status"


@dataclass(frozen=True, slots=True)
class DecodedBody:
    """The object of a body without undeclared fields, and the warnings about those fields."""

    object: Object
    warnings: tuple[str, ...] = ()


def created(target: RequestTarget, request: Request) -> DecodedBody:
    """The object of a POST, of the right kind and namespace. Raises ApiError."""
    item = _decoded(target.kind, request)
    _check_kind(target.kind, item)
    _settle_namespace(target, item["metadata"])
    return _pruned(target.kind, item, request)


def replaced(target: RequestTarget, request: Request) -> DecodedBody:
    """The object of a PUT, with the name of the path. Raises ApiError."""
    item = _decoded(target.kind, request)
    _check_name(target, item["metadata"])
    _check_kind(target.kind, item)
    _settle_namespace(target, item["metadata"])
    return _pruned(target.kind, item, request)


def changed(target: RequestTarget, item: Object, request: Request) -> DecodedBody:
    """A patched object, which must keep its kind and name. Raises ApiError."""
    _check_types(target.kind, item)
    _check_name(target, item["metadata"])
    _check_kind(target.kind, item)
    return _pruned(target.kind, item, request)


def applied(target: RequestTarget, request: Request) -> Object:
    """The body of a server-side apply: every field must be declared. Raises ApiError."""
    kind = target.kind
    try:
        item = _yaml(request.body)
    except (ValueError, yaml.YAMLError) as error:
        text = f"error decoding YAML: error converting YAML to JSON: {error}"
        raise errors.bad_request(text) from error
    if not isinstance(item, dict):
        raise errors.bad_request("error decoding YAML: error unmarshaling JSON: no object")
    version, name = item.get("apiVersion", ""), item.get("kind", "")
    if (version, name) != (kind.api_version, kind.kind):
        text = f"invalid object type: {version or '/'}, Kind={name}"
        raise errors.bad_request(text)
    _check_types(kind, item)
    _check_name(target, item["metadata"])
    if item["metadata"].get("managedFields") is not None:
        raise errors.bad_request("metadata.managedFields must be nil")
    fault = validation.typed_fault(
        {k: v for k, v in item.items() if k not in ("apiVersion", "kind")}, _rooted(kind)
    )
    if fault:
        given = item["metadata"].get("namespace", "")
        title = f"{given}/{target.name}; {kind.api_version}, Kind={kind.kind}"
        raise ApiError(500, "", f"failed to create typed patch object ({title}): {fault}")
    _settle_namespace(target, item["metadata"])
    return item


def _rooted(kind: ResourceKind) -> Schema:
    """The kind's schema with metadata's; a built-in kind allows every other field."""
    properties = {**kind.schema.get("properties", {}), "metadata": validation.METADATA_SCHEMA}
    return {**kind.schema, "properties": properties}


def _decoded(kind: ResourceKind, request: Request) -> Object:
    item = parsed(kind.kind, request)
    if kind.custom:
        if not item.get("kind"):
            body = request.body.decode(errors="replace")
            raise _unrecognized(kind.kind, request, f"Object 'Kind' is missing in '{body}'")
        if item.get("apiVersion") != kind.api_version:
            raise errors.bad_request(
                f"the API version in the data ({item.get('apiVersion', '')}) does not match the "
                f"expected API version ({kind.api_version})"
            )
    else:
        item.setdefault("kind", kind.kind)
        item.setdefault("apiVersion", kind.api_version)
    item.setdefault("metadata", {})
    _check_types(kind, item)
    return item


def parsed(kind: str, request: Request) -> Object:
    """The body decoded from JSON or YAML. Raises ApiError 400, or 415 for another media type."""
    if request.media_type not in ("", *ACCEPTED[:2]):
        raise errors.unsupported_media_type(ACCEPTED)
    is_yaml = request.media_type == ACCEPTED[1]
    try:
        item = _yaml(request.body) if is_yaml else json.loads(request.body)
    except (ValueError, yaml.YAMLError) as error:
        prefix = "" if is_yaml else "couldn't get version/kind; json parse error: "
        raise _unrecognized(kind, request, f"{prefix}{error}") from error
    if not isinstance(item, dict):
        fault = f"couldn't get version/kind; json parse error: {type(item).__name__} is no object"
        raise _unrecognized(kind, request, fault)
    return item


def _unrecognized(kind: str, request: Request, fault: str) -> ApiError:
    shown = request.body[:_SHOWN].decode(errors="replace") if request.body else "<empty>"
    shown += " ..." if len(request.body) > _SHOWN else ""
    text = f"the object provided is unrecognized (must be of type {kind}): {fault} ({shown})"
    return errors.bad_request(text)


def _check_types(kind: ResourceKind, item: Object) -> None:
    fault = validation.metadata_type_fault(item.setdefault("metadata", {}))
    if fault:
        raise errors.bad_request(f"{_cannot(kind, kind.kind)}: {fault}")


def _cannot(kind: ResourceKind, given: str) -> str:
    return f'{given} in version "{kind.version}" cannot be handled as a {kind.kind}'


def _check_kind(kind: ResourceKind, item: Object) -> None:
    given = item["kind"]
    if given == kind.kind:
        return
    if not kind.custom:
        text = f'no kind "{given}" is registered for version "{kind.api_version}"'
        raise errors.bad_request(f"{_cannot(kind, given)}: {text}")
    text = f"Invalid value: {errors.quoted(given)}: must be {kind.kind}"
    cause = errors.StatusCause("FieldValueInvalid", text, "kind")
    raise errors.invalid(given, kind.group, item["metadata"].get("name", ""), [cause])


def _check_name(target: RequestTarget, given: Object) -> None:
    """Raises ApiError 400 when the metadata names another object than the path."""
    name = given.get("name", "")
    if not name:
        raise errors.bad_request(_NO_NAME.format(target.name))
    if name != target.name:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )


def _settle_namespace(target: RequestTarget, given: Object) -> None:
    if not target.kind.namespaced:
        given.pop("namespace", None)
    elif given.setdefault("namespace", target.namespace) != target.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _pruned(kind: ResourceKind, item: Object, request: Request) -> DecodedBody:
    """Drops undeclared fields and sets defaults; `fieldValidation=Strict` raises ApiError 400."""
    fixed = {key: item[key] for key in ("apiVersion", "kind")}
    rest = {key: value for key, value in item.items() if key not in ("apiVersion", "kind")}
    declared, undeclared = validation.prune(rest, _rooted(kind))
    mode = request.query.get("fieldValidation", "") or "Warn"
    texts = [f'unknown field "{path}"' for path in undeclared]
    if texts and mode == "Strict":
        listed = ", ".join(texts)
        raise errors.bad_request(f"{_cannot(kind, kind.kind)}: strict decoding error: {listed}")
    made = {**fixed, **validation.with_defaults(declared, kind.schema)}
    return DecodedBody(made, tuple(texts) if mode == "Warn" else ())


def check_options(request: Request, options: str, apply: bool = False) -> None:
    """Checks the parameters of a write. Raises ApiError 422; `options` is their kind."""
    mode = request.query.get("fieldValidation", "")
    if mode not in _VALIDATIONS:
        cause = errors.unsupported("fieldValidation", mode, _VALIDATIONS)
        raise errors.bad_option(options, cause)
    if request.query.get("dryRun", "All") != "All":
        cause = errors.unsupported("dryRun", [request.query["dryRun"]], ["All"])
        raise errors.bad_option(options, cause)
    manager = request.query.get("fieldManager", "")
    if apply and not manager:
        text = "Required value: is required for apply patch"
        cause = errors.StatusCause("FieldValueRequired", text, "fieldManager")
        raise errors.bad_option(options, cause)
    if len(manager) > 128:
        text = "Too long: may not be more than 128 bytes"
        raise errors.bad_option(
            options, errors.StatusCause("FieldValueTooLong", text, "fieldManager")
        )
