"""Reads and lists in pages, at the version that the query asks for. Reads the store only."""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from olmweb.sandbox.apiserver import errors
from olmweb.sandbox.apiserver.errors import ApiError, Cause
from olmweb.sandbox.apiserver.kinds import Kind
from olmweb.sandbox.apiserver.selectors import Selector, field_selector, label_selector
from olmweb.sandbox.apiserver.store import Object, Store

_MATCHES = ("Exact", "NotOlderThan", "")
_INCONSISTENT = -1  # as a continue token's version: go on with what is there now


def selector(kind: Kind, query: Mapping[str, str]) -> Selector:
    """The query's label and field selectors as one predicate. Raises ApiError 400."""
    labels = label_selector(query.get("labelSelector", ""))
    fields = field_selector(query.get("fieldSelector", ""), kind)
    return lambda item: labels(item) and fields(item)


def number(query: Mapping[str, str], name: str, default: int) -> int:
    """A parameter as an integer. Raises ApiError 400."""
    text = query.get(name, "")
    if not text:
        return default
    if not re.fullmatch(r"-?\d+", text):
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def version_fault(text: str) -> str:
    """What is wrong with a resourceVersion, or ""."""
    if text.isdigit() or not text:
        return ""
    fault = f'strconv.ParseUint: parsing "{text}": invalid syntax'
    return f'resourceVersion: Invalid value: "{text}": {fault}'


def check_match(query: Mapping[str, str], *, watch: bool) -> None:
    """Raises ApiError 422 for a resourceVersionMatch or sendInitialEvents that makes no sense."""
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    first = "sendInitialEvents" in query
    if match not in _MATCHES:
        cause = errors.unsupported("resourceVersionMatch", match, _MATCHES)
        raise errors.bad_option("ListOptions", cause)
    if first and not watch:
        raise _forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if watch and first and match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise _forbidden("resourceVersionMatch", text)
    if watch and match and not first:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise _forbidden("resourceVersionMatch", text)
    if match and not version and not watch:
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise _forbidden("resourceVersionMatch", text)
    if match == "Exact" and version == "0":
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise _forbidden("resourceVersionMatch", text)


def _forbidden(field: str, text: str) -> ApiError:
    cause = Cause("FieldValueForbidden", f"Forbidden: {text}", field)
    return errors.bad_option("ListOptions", cause)


@dataclass(frozen=True, slots=True)
class _View:
    """Items of one version, and the key at which the page begins."""

    items: list[Object]
    version: int
    start: str = ""


class Reads:
    """Answers reads and lists. A page's token says the version and where to go on."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def one(self, kind: Kind, namespace: str, name: str, query: Mapping[str, str]) -> Object:
        """Raises ApiError 404, 504 for a version of the future, 500 for one that is no number."""
        asked = query.get("resourceVersion", "")
        if fault := version_fault(asked):
            raise ApiError(500, "", fault)
        self._check_reached(int(asked or 0))
        found = self._store.get(kind.kind, name, namespace)
        if found is None:
            raise errors.not_found(kind.group, kind.plural, name)
        return found

    def page(self, kind: Kind, namespace: str, query: Mapping[str, str]) -> dict[str, Any]:
        """A `...List` object. Raises ApiError 400, 410, 422 or 504."""
        limit = max(0, number(query, "limit", 0))
        matches = selector(kind, query)
        view = self._view(kind, namespace, query, limit)
        if query.get("resourceVersion") == "0":
            limit = 0
        chosen = [
            item for item in view.items if matches(item) and _key(item, namespace) >= view.start
        ]
        shown = chosen[:limit] if limit else chosen
        metadata: dict[str, Any] = {"continue": "", "resourceVersion": str(view.version)}
        if len(shown) < len(chosen):
            metadata["continue"] = _token(view.version, _key(shown[-1], namespace) + "\0")
            if not (query.get("labelSelector") or query.get("fieldSelector")):
                metadata["remainingItemCount"] = len(chosen) - len(shown)
        return {
            "apiVersion": kind.api_version,
            "items": shown,
            "kind": f"{kind.kind}List",
            "metadata": metadata,
        }

    def _view(self, kind: Kind, namespace: str, query: Mapping[str, str], limit: int) -> _View:
        check_match(query, watch=False)
        text, token = query.get("resourceVersion", ""), query.get("continue", "")
        if fault := version_fault(text):
            raise errors.bad_request(f"invalid resource version: {fault}")
        if token:
            if text not in ("", "0"):
                text = "specifying resource version is not allowed when using continue"
                raise errors.bad_request(text)
            return self._resumed(kind, namespace, token)
        asked = int(text or 0)
        self._check_reached(asked)
        match = query.get("resourceVersionMatch", "")
        if asked and (match == "Exact" or (limit and not match)):
            then = self._store.items_at(kind.kind, namespace, asked)
            if then is None:
                raise errors.expired_version()
            return _View(then, asked)
        return _View(*self._store.items(kind.kind, namespace))

    def _resumed(self, kind: Kind, namespace: str, token: str) -> _View:
        version, start = _read_token(token)
        if version == _INCONSISTENT:
            items, now = self._store.items(kind.kind, namespace)
            return _View(items, now, start)
        then = self._store.items_at(kind.kind, namespace, version)
        if then is None:
            raise errors.expired_continue(_token(_INCONSISTENT, start))
        return _View(then, version, start)

    def _check_reached(self, version: int) -> None:
        if version > self._store.version:
            raise errors.too_new(version, self._store.version)


def _key(item: Object, namespace: str) -> str:
    """Where an object is in a list of `namespace`, "" for all."""
    metadata = item["metadata"]
    inside = "" if namespace else metadata.get("namespace", "")
    return f"{inside}/{metadata['name']}" if inside else f"/{metadata['name']}"


def _token(version: int, start: str) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        saved = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(saved["rv"]), str(saved["start"])
    except (ValueError, KeyError, TypeError) as error:
        text = f"invalid continue token: continue key is not valid: {error}"
        raise errors.bad_request(text) from error
