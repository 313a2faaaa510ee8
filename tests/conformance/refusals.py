"""A 422 of a custom object as both servers must tell it."""

from typing import Any

from tests.conformance.server import Object, Server, about, cause

# Where a CRD has CEL rules, faults of these sorts keep them from being checked, and that is told.
BLOCKING = {
    "FieldValueRequired",
    "FieldValueNotSupported",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
}
UNCHECKED = cause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
    "<nil>",
)


def refuse(
    server: Server, path: str, body: Object, name: str, *causes: Object, **query: Any
) -> None:
    """A create, a dry-run and a server-side apply of `body` are refused for these causes."""
    group = body["apiVersion"].split("/")[0]
    has_rules = body["kind"] in ("ClusterExtension", "ClusterObjectSet")
    if has_rules and BLOCKING & {cause["reason"] for cause in causes}:
        causes = (*causes, UNCHECKED)
    texts = [f"{cause['field']}: {cause['message']}" for cause in causes]
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    title = f'{body["kind"]}.{group} "{name}" is invalid: {text}'
    details = about(name, group, body["kind"], *causes)
    answer = server.call("POST", path, body, **query)
    server.refused(answer, 422, "Invalid", title, details)
    if name and "/" not in name and not query:
        answer = server.apply(f"{path}/{name}", body, dryRun="All")
        server.same(answer.status, 422)
