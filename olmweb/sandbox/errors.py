"""The API server's refusals: each becomes a `Status` object, worded as the real one words it.

Knows HTTP codes and reasons; must not know the store or the HTTP server.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `Status.details.causes`."""

    reason: str
    message: str
    field: str

    def as_json(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}


class ApiError(Exception):
    """A request that is answered with a Status of `code`; `details` as in metav1.StatusDetails."""

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}

    def status(self) -> dict[str, Any]:
        """The Status object that the client reads."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            body["details"] = self.details
        return body


def quoted(value: object) -> str:
    """A value as the API server prints it in `Invalid value: ...`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _named(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def _details(name: str, group: str, plural: str) -> dict[str, Any]:
    details = {"name": name, "kind": plural}
    return details | ({"group": group} if group else {})


def not_found(group: str, plural: str, name: str) -> ApiError:
    text = f'{_named(group, plural)} "{name}" not found'
    return ApiError(404, "NotFound", text, _details(name, group, plural))


def no_such_path() -> ApiError:
    """What an unknown URL answers: the kind isn't served here."""
    text = "the server could not find the requested resource"
    return ApiError(404, "NotFound", text)


def already_exists(group: str, plural: str, name: str) -> ApiError:
    text = f'{_named(group, plural)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, _details(name, group, plural))


def stale(group: str, plural: str, name: str) -> ApiError:
    """A PUT or PATCH that carries an older resourceVersion than the stored object."""
    text = (
        f'Operation cannot be fulfilled on {_named(group, plural)} "{name}": the object has been '
        "modified; please apply your changes to the latest version and try again"
    )
    return ApiError(409, "Conflict", text, _details(name, group, plural))


def invalid(kind: str, group: str, name: str, causes: Iterable[Cause]) -> ApiError:
    """422 with one cause a field."""
    found = list(causes)
    texts = [f"{cause.field}: {cause.message}" for cause in found]
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    title = f"{kind}.{group}" if group else kind
    details = _details(name, group, kind) | {"causes": [cause.as_json() for cause in found]}
    return ApiError(422, "Invalid", f'{title} "{name}" is invalid: {text}', details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def method_not_allowed() -> ApiError:
    text = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", text)


def unsupported_media_type(accepted: Iterable[str]) -> ApiError:
    text = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return ApiError(415, "UnsupportedMediaType", text)


def expired_continue() -> ApiError:
    text = (
        "The provided continue parameter is too old to display a consistent list result. "
        "You can start a new list without the continue parameter."
    )
    return ApiError(410, "Expired", text)


def too_old(asked: int, oldest: int) -> ApiError:
    """A watch from a resourceVersion whose history is gone."""
    return ApiError(410, "Expired", f"too old resource version: {asked} ({oldest})")


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(
    user: str, verb: str, group: str, plural: str, namespace: str = "", name: str = ""
) -> ApiError:
    """RBAC's refusal in its own words."""
    subject = f' "{name}"' if name else ""
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    text = (
        f'{_named(group, plural)}{subject} is forbidden: User "{user}" cannot {verb} resource '
        f'"{plural}" in API group "{group}" {scope}'
    )
    return ApiError(403, "Forbidden", text, _details(name, group, plural))
