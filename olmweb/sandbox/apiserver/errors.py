"""The API server's errors: each becomes a `Status` object with the wording of the real server.

Knows HTTP codes and reasons; must not know the store or the HTTP server. tests/conformance compares
every wording with a real API server's.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_TOO_OLD_TO_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class StatusCause:
    """One entry of `Status.details.causes`."""

    reason: str
    message: str
    field: str

    def as_json(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}


class ApiError(Exception):
    """A request that is answered with a Status of `code`.

    `details` as in metav1.StatusDetails; None leaves the field out. A `reason` of "" is left out as
    well, as the real server does for internal errors. `token` continues an expired list.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.token = token

    def status(self) -> dict[str, Any]:
        """The Status object."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.token} if self.token else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return body | {"code": self.code}


def quoted(value: object) -> str:
    """A value as the API server prints it in `Invalid value: ...`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def named(group: str, plural: str) -> str:
    """`plural.group`, as messages name a resource or a kind."""
    return f"{plural}.{group}" if group else plural


def _details(name: str, group: str, plural: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": plural}
    return {key: value for key, value in details.items() if value}


def not_found(group: str, plural: str, name: str) -> ApiError:
    text = f'{named(group, plural)} "{name}" not found'
    return ApiError(404, "NotFound", text, _details(name, group, plural))


def no_such_resource() -> ApiError:
    """A kind that a built-in group does not serve."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(group: str, plural: str, name: str, *, deleting: bool) -> ApiError:
    """`deleting`: the existing object is being deleted."""
    text = f'{named(group, plural)} "{name}" already exists'
    if deleting:
        text = f"object is being deleted: {text}"
    return ApiError(409, "AlreadyExists", text, _details(name, group, plural))


def conflict(group: str, plural: str, name: str, why: str) -> ApiError:
    text = f'Operation cannot be fulfilled on {named(group, plural)} "{name}": {why}'
    return ApiError(409, "Conflict", text, _details(name, group, plural))


def stale(group: str, plural: str, name: str) -> ApiError:
    """A PUT or PATCH that carries an older resourceVersion than the stored object."""
    why = (
        "the object has been modified; please apply your changes to the latest version and try "
        "again"
    )
    return conflict(group, plural, name, why)


def invalid(kind: str, group: str, name: str, causes: Iterable[StatusCause]) -> ApiError:
    """The message has every cause once, the details have duplicates as well."""
    entries = list(causes)
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in entries))
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details = _details(name, group, kind) | {"causes": [cause.as_json() for cause in entries]}
    return ApiError(422, "Invalid", f'{named(group, kind)} "{name}" is invalid: {text}', details)


def bad_option(options: str, cause: StatusCause) -> ApiError:
    """422 of one of the query's parameters; `options` is its kind, such as `PatchOptions`."""
    return invalid(options, "meta.k8s.io", "", [cause])


def unsupported(field: str, value: object, choices: Iterable[str]) -> StatusCause:
    listed = ", ".join(quoted(choice) for choice in choices)
    text = f"Unsupported value: {quoted(value)}: supported values: {listed}"
    return StatusCause("FieldValueNotSupported", text, field)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def method_not_allowed() -> ApiError:
    text = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", text, {})


def verb_not_supported(group: str, plural: str, verb: str) -> ApiError:
    """A verb that a subresource lacks."""
    text = f'{verb} is not supported on resources of kind "{named(group, plural)}"'
    return ApiError(405, "MethodNotAllowed", text, _details("", group, plural))


def not_acceptable(message: str) -> ApiError:
    return ApiError(406, "NotAcceptable", message)


def unsupported_media_type(accepted: Iterable[str]) -> ApiError:
    text = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return ApiError(415, "UnsupportedMediaType", text)


def too_large(limit: int) -> ApiError:
    text = f"Request entity too large: limit is {limit}"
    return ApiError(413, "RequestEntityTooLarge", text)


def expired_continue(token: str) -> ApiError:
    """`token` continues the list with the current objects."""
    return ApiError(410, "Expired", _TOO_OLD_TO_CONTINUE, token=token)


def expired_version() -> ApiError:
    return ApiError(410, "Expired", "The resourceVersion for the provided list is too old.")


def too_old(version: int, oldest: int) -> ApiError:
    """A watch from a resourceVersion whose history was dropped."""
    return ApiError(410, "Expired", f"too old resource version: {version} ({oldest})")


def too_new(version: int, newest: int) -> ApiError:
    """A resourceVersion that this server has not reached."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    text = f"Timeout: Too large resource version: {version}, current: {newest}"
    return ApiError(504, "Timeout", text, {"causes": [cause], "retryAfterSeconds": 1})


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(
    user: str, verb: str, group: str, resource: str, namespace: str = "", name: str = ""
) -> ApiError:
    """RBAC's refusal; `resource` may be `plural/subresource`."""
    plural = resource.split("/", 1)[0]
    subject = f' "{name}"' if name else ""
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    text = (
        f'{named(group, plural)}{subject} is forbidden: User "{user}" cannot {verb} resource '
        f'"{resource}" in API group "{group}" {scope}'
    )
    return ApiError(403, "Forbidden", text, _details(name, group, plural))


def forbidden_path(user: str, path: str) -> ApiError:
    return ApiError(403, "Forbidden", f'forbidden: User "{user}" cannot get path "{path}"', {})
