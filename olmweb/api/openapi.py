"""Completes the OpenAPI document that django-ninja makes: errors, headers, formats, names.

Pure: works on the document alone. What every route answers by the frame of the API (errors, 304,
headers, the formats of a list) is added here, once.
"""

import re
from typing import Any

# Every `code` of an error, as `docs/api.md` promises: a closed list.
CODES = (
    "already-so", "bad-answer", "bad-body", "bad-clusters-setting", "bad-cursor", "bad-filter",
    "bad-key", "bad-link", "bad-name", "bad-parameter", "bad-path", "bad-proxy",
    "bad-reference", "bad-request", "bad-source", "bad-url", "blocked", "broken-encoding",
    "busy", "cancelled", "carries-more", "catalog-address", "catalog-gone", "changed",
    "config-kept",
    "changed-while-reading", "climbs-out", "cluster-broken", "cluster-error", "conflict",
    "credentials-file", "csrf", "cut-short", "database", "decided", "empty", "events-expired",
    "expands", "export-too-large", "forbidden", "gone", "http-status",
    "impersonation-forbidden", "indexignore", "internal", "interrupted", "invalid",
    "invalid-token", "key-reused", "kubeconfig", "local-sign-in-off", "method-not-allowed",
    "missing-parameter", "name-taken", "needs-approval", "no-answer", "no-configs-folder",
    "no-configs-label", "no-manifests", "no-outcome", "no-pod", "no-revision", "no-room",
    "no-such-field", "no-version", "no-way", "none-selected", "not-a-file", "not-acceptable",
    "not-allowed", "not-an-image", "not-checked", "not-configured", "not-fbc", "not-found",
    "not-inspected", "not-listed",
    "not-own", "not-pinned", "not-ready", "not-removable", "not-reviewed", "not-sent",
    "not-served", "not-sure", "not-synced", "not-upgradable", "not-waiting",
    "nothing-chosen", "nothing-left",
    "nothing-to-inspect", "oidc-broken", "oidc-down", "oidc-off", "oidc-refused", "oidc-stale",
    "other-version", "path-too-long", "plan-failed", "plan-waiting", "predicted-to-fail",
    "rate-limited", "refused", "registries-conf", "replaced", "scope", "several-catalogs",
    "several-clusters", "sign-in-locked", "sign-in-over", "source-kind", "taken", "tar-headers",
    "token-expired", "token-name-taken", "token-server", "too-large", "too-many",
    "too-many-attempts", "too-many-files", "too-many-requests", "too-many-tokens", "too-slow",
    "unauthorized", "unknown-action", "unknown-batch", "unknown-bundle", "unknown-catalog",
    "unknown-cluster", "unknown-clusteroperator", "unknown-icon", "unknown-object",
    "unknown-operator", "unknown-package", "unknown-parameter", "unknown-plan",
    "unknown-request", "unknown-token", "unreachable", "unreadable-file",
    "unsupported-media-type", "user-disabled", "vanished", "webhook-in-use", "wrong-digest",
)  # fmt: skip
ERROR = "Error"
ERROR_CODE = "ErrorCode"
ENUM_NAME = "x-enum-name"  # in a schema: the name of the shared one that it becomes
_TEXT = {"type": "string"}
_HEADERS: dict[str, dict[str, Any]] = {
    "ETag": {"description": "Of this answer, for If-None-Match.", "schema": _TEXT},
    "Location": {"description": "Address of the object.", "schema": _TEXT},
    "Idempotency-Replayed": {
        "description": "Whether an earlier request with the key was answered.",
        "schema": {"type": "string", "enum": ["true", "false"]},
    },
    "WWW-Authenticate": {"description": "Bearer.", "schema": _TEXT},
    "RateLimit-Limit": {
        "description": "Requests of the token in a minute.",
        "schema": {"type": "integer"},
    },
    "RateLimit-Remaining": {
        "description": "Those that are left in this minute.",
        "schema": {"type": "integer"},
    },
    "RateLimit-Reset": {
        "description": "Seconds until the next minute begins.",
        "schema": {"type": "integer"},
    },
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}},
}
_RATE = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
_ERRORS = {
    400: "A parameter or the body can't be read.",
    401: "No credentials, or wrong ones.",
    403: "The role or the scope of the token is not sufficient.",
    404: "A name is not known.",
    405: "The method is not possible here.",
    406: "The Accept header refuses the answer.",
    410: "What follows the id was deleted.",
    409: "The state of the object does not allow it.",
    422: "The object does not accept it, or it is predicted to fail.",
    429: "Too many requests.",
    500: "OLM Web failed.",
    503: "The cluster or the database does not answer.",
}
_READING = (400, 401, 403, 404, 405, 406, 429, 500, 503)
_CHANGING = (*_READING, 409, 422)
_MORE = {"get_export": (409,), "list_events": (410,)}
_KEYED = ("create_action", "create_bulk_install")
_DRY_RUNS = {
    "create_action": "PlannedAction",
    "approve_request": "PlannedAction",
    "create_bulk_install": "PlannedBulkInstall",
}
_LOCATED = (*_KEYED, "approve_request", "create_request", "create_catalog", "change_catalog")
_LIST_NAME = re.compile(r"^Page_(\w+?)(Row|Summary)?_$")
# Classes that are named for readers of their package.
_NAMES = {
    "LoggedEvent": "Event",
    "Difference": "BundleDifferenceLine",
    "DifferenceSection": "BundleDifferenceSection",
    "Kinds": "BundleObjects",
    "CrdHere": "BundleCRD",
    "Need": "BundleDependency",
    "UsedImage": "BundleImage",
    "Webhook": "BundleWebhook",
    "Permission": "BundlePermission",
    "Level": "PermissionLevel",
}
# Fields of events whose enums belong to an app.
_EVENT_ENUMS = {
    ("LoggedEvent", "type"): "EventType",
    ("HealthData", "health"): "Health",
    ("ActionData", "verb"): "ActionVerb",
    ("ActionData", "state"): "ActionState",
    ("RequestData", "state"): "InstallRequestState",
    ("ActionData", "outcome_code"): "OutcomeCode",
}
_EMPTY_AT_FIRST = (("ActionData", "outcome_code"),)


def complete(document: dict[str, Any], dry_runs: dict[str, Any]) -> dict[str, Any]:
    """The document with what django-ninja does not know. `dry_runs` are the schemas of the answers
    to dry runs, by name."""
    schemas = document["components"]["schemas"]
    for name, schema in dry_runs.items():
        schemas.update(schema.get("$defs", {}))
        schemas[name] = {key: part for key, part in schema.items() if key != "$defs"}
    for name in [name for name in schemas if name.endswith("Parameters")]:
        del schemas[name]  # of queries, whose parameters are in the operations
    schemas[ERROR] = _error_schema()
    schemas[ERROR_CODE] = {"type": "string", "enum": sorted(CODES)}
    for (name, field), enum in _EVENT_ENUMS.items():
        values: dict[str, Any] = _reference(enum)
        if (name, field) in _EMPTY_AT_FIRST:
            values = {"anyOf": [values, {"type": "string", "const": ""}]}
        schemas[name]["properties"][field] = values
    for methods in document["paths"].values():
        for method, operation in methods.items():
            _complete_operation(method, operation, schemas)
    enums: dict[str, Any] = {}
    shared: dict[str, Any] = _with_shared_enums(document, enums)
    shared["components"]["schemas"] |= enums
    complete_document: dict[str, Any] = _renamed(shared, _names(shared["components"]["schemas"]))
    return complete_document


def _with_shared_enums(value: Any, enums: dict[str, Any]) -> Any:
    """The document with a reference in the place of each schema that ENUM_NAME marks, which goes
    to `enums`. What a schema says beside its type stays."""
    if isinstance(value, list):
        return [_with_shared_enums(part, enums) for part in value]
    if not isinstance(value, dict):
        return value
    if ENUM_NAME not in value:
        return {key: _with_shared_enums(part, enums) for key, part in value.items()}
    name = value[ENUM_NAME]
    values = value["enum"] if "enum" in value else [value["const"]]
    enums[name] = {"type": "string", "enum": values}
    beside = {
        key: part
        for key, part in value.items()
        if key not in (ENUM_NAME, "type", "enum", "const", "title")
    }
    return beside | ({"allOf": [_reference(name)]} if beside else _reference(name))


def _error_schema() -> dict[str, Any]:
    error = {
        "type": "object",
        "required": ["code", "message", "hint", "fields"],
        "properties": {
            "code": _reference(ERROR_CODE),
            "message": {**_TEXT, "description": "What is wrong, and where."},
            "hint": {**_TEXT, "description": "What to do; may be empty."},
            "fields": {
                "type": "object",
                "additionalProperties": _TEXT,
                "description": "A sentence for each parameter or field that is wrong.",
            },
        },
    }
    return {"type": "object", "required": ["error"], "properties": {"error": error}}


def _complete_operation(method: str, operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    name, reads = operation["operationId"], method == "get"
    parameters = operation.setdefault("parameters", [])
    for parameter in parameters:
        parameter["schema"] = _plain_parameter(parameter["schema"])
    responses = {int(code): answer for code, answer in operation["responses"].items()}
    if reads:
        parameters.append(_header("If-None-Match", "The ETag of an earlier answer."))
        responses[304] = {"description": "Unchanged.", "headers": _headers("ETag")}
        responses[200].setdefault("headers", {}).update(_headers("ETag"))
        _add_formats(operation, responses[200], schemas)
    if name in _KEYED:
        parameters.append(_header("Idempotency-Key", "Repeated requests with it act once."))
    if schema := _DRY_RUNS.get(name):
        content = {"application/json": {"schema": _reference(schema)}}
        responses[200] = {"description": "What a dry run found.", "content": content}
    for code, answer in responses.items():
        if 200 < code < 300 and name in _LOCATED:
            names = ("Location", "Idempotency-Replayed") if code == 202 else ("Location",)
            answer["headers"] = _headers(*names)
    for code in (*(_READING if reads else _CHANGING), *_MORE.get(name, ())):
        answer = {
            "description": _ERRORS[code],
            "content": {"application/json": {"schema": _reference(ERROR)}},
        }
        if code in (401, 429):
            answer["headers"] = _headers("WWW-Authenticate" if code == 401 else "Retry-After")
        responses.setdefault(code, answer)
    for answer in responses.values():
        answer["headers"] = answer.get("headers", {}) | _headers(*_RATE)
    operation["responses"] = {str(code): responses[code] for code in sorted(responses)}


def _plain_parameter(schema: dict[str, Any]) -> dict[str, Any]:
    """Without null and empty defaults: a parameter is absent instead, and an empty one refused."""
    parts = [part for part in schema.get("anyOf", ()) if part.get("type") != "null"]
    if "anyOf" in schema and len(parts) == 1:
        schema = {**{k: v for k, v in schema.items() if k != "anyOf"}, **parts[0]}
    if schema.get("default") in ("", None):
        schema.pop("default", None)
    schema.pop("title", None)
    return schema


def _header(name: str, about: str) -> dict[str, Any]:
    return {
        "in": "header", "name": name, "required": False, "schema": dict(_TEXT), "description": about
    }  # fmt: skip


def _headers(*names: str) -> dict[str, Any]:
    return {name: _HEADERS[name] for name in names}


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _add_formats(
    operation: dict[str, Any], answer: dict[str, Any], schemas: dict[str, Any]
) -> None:
    """The formats beside JSON that the parameter `format` names. Items of a list have the fields
    that `fields` selects: none of them is required."""
    contents = answer.get("content", {})
    reference = contents.get("application/json", {}).get("schema", {}).get("$ref", "")
    page = schemas.get(reference.rpartition("/")[2], {}).get("properties", {})
    forms = [
        form
        for parameter in operation["parameters"]
        if parameter["name"] == "format"
        for form in parameter["schema"]["enum"]
    ]
    if "items" in page and "next" in page:
        schemas[page["items"]["items"]["$ref"].rpartition("/")[2]].pop("required", None)
    for form, kind in (
        ("ndjson", "application/x-ndjson"), ("csv", "text/csv"), ("md", "text/markdown")
    ):  # fmt: skip
        if form in forms:
            contents.setdefault(kind, {"schema": dict(_TEXT)})


def _names(schemas: dict[str, Any]) -> dict[str, str]:
    """Old name -> new name: a list of operators is OperatorList, its items are Operator."""
    names: dict[str, str] = {}
    for name in schemas:
        listed = _LIST_NAME.match(name)
        plain = listed[1] if listed else name.removesuffix("Row")
        new = _NAMES.get(plain, plain) + ("List" if listed else "")
        if new != name and new not in schemas and new not in names.values():
            names[name] = new
    return names


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """The document with the schemas under their new names."""
    if isinstance(value, list):
        return [_renamed(part, names) for part in value]
    if not isinstance(value, dict):
        return value
    result: dict[str, Any] = {}
    for key, part in value.items():
        if key == "$ref":
            prefix, _, name = part.rpartition("/")
            result[key] = f"{prefix}/{names.get(name, name)}"
        elif key == "schemas":
            result[key] = {
                names.get(name, name): _renamed(
                    schema | ({"title": names[name]} if name in names else {}), names
                )
                for name, schema in part.items()
            }
        else:
            result[key] = _renamed(part, names)
    return result
