"""The page that documents the REST API: the OpenAPI document as plain server-rendered HTML.

Knows the OpenAPI document only, no route of its own: what it shows can't differ from what is
served.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils.html import format_html, format_html_join
from django.views.decorators.http import require_safe

EXAMPLES = {
    "cluster": "prod",
    "catalog": "redhat-operators",
    "package": "etcd",
    "bundle": "etcdoperator.v0.9.4",
    "kind": "PlatformOperator",
    "namespace": "-",
    "name": "etcd",
    "id": "1",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    where: str
    about: str
    values: str


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route; `anchor` names it in the page, `fields` are those of the answer (of an item)."""

    anchor: str
    method: str
    path: str
    about: str
    is_list: bool
    parameters: tuple[Parameter, ...]
    fields: tuple[Field, ...]
    example: str


def docs_view(document: Callable[[], Mapping[str, Any]]) -> Callable[..., HttpResponseBase]:
    """The view of the docs page; the same people may see it as may read."""

    @require_safe
    def api_docs(request: HttpRequest) -> HttpResponseBase:
        if not (request.user.is_authenticated or settings.PUBLIC_READ):
            return redirect_to_login(request.get_full_path())
        context = {"groups": groups(document()), "origin": request.build_absolute_uri("/")[:-1]}
        return TemplateResponse(request, "api_docs.html", context)

    return api_docs


def groups(document: Mapping[str, Any]) -> list[tuple[str, list[Endpoint]]]:
    """Endpoints by tag, in the document's order."""
    endpoints: dict[str, list[Endpoint]] = {}
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            endpoint = _endpoint(path, method, operation, schemas)
            endpoints.setdefault(operation["tags"][0], []).append(endpoint)
    return list(endpoints.items())


def _endpoint(
    path: str, method: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]
) -> Endpoint:
    good = (answer for code, answer in operation["responses"].items() if int(code) < 300)
    contents = next((answer["content"] for answer in good if "content" in answer), None)
    # JSON but for FBC as text; a deletion answers nothing.
    answer = next(iter(contents.values()))["schema"] if contents else {}
    schema = _resolve(answer, schemas)
    items = schema.get("properties", {}).get("items")
    shown = _resolve(items["items"], schemas) if items else schema
    return Endpoint(
        anchor=operation["operationId"],
        method=method.upper(),
        path=path,
        about=_with_code(operation.get("description", "")),
        is_list=items is not None,
        parameters=tuple(
            _parameter(parameter, schemas) for parameter in operation.get("parameters", ())
        ),
        fields=tuple(
            Field(name, _type_name(part)) for name, part in shown.get("properties", {}).items()
        ),
        example=path.format_map(EXAMPLES),
    )


def _parameter(described: Mapping[str, Any], schemas: Mapping[str, Any]) -> Parameter:
    schema = described["schema"]
    schema = next((s for s in schema.get("anyOf", ()) if s.get("type") != "null"), schema)
    schema = _resolve(schema.get("items", schema), schemas)
    values = ", ".join(map(str, schema.get("enum", ()))) or schema.get("type", "")
    if "maximum" in schema:
        values = f"{schema['minimum']} to {schema['maximum']}"
    about = _with_code(described.get("description", ""))
    return Parameter(described["name"], described["in"], about, values)


def _with_code(description: str) -> str:
    """A description as HTML: the words between backticks, Markdown in OpenAPI, are code."""
    parts = enumerate(description.split("`"))
    return format_html_join(
        "", "{}", ((_code(part) if index % 2 else part,) for index, part in parts)
    )


def _code(word: str) -> str:
    return format_html("<code>{}</code>", word)


def _resolve(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref", "")
    target: Mapping[str, Any] = schemas[reference.rpartition("/")[2]] if reference else schema
    return target


def _type_name(schema: Mapping[str, Any]) -> str:
    """A short name for a property's type: `string`, `list of EntryRow`, `integer or null`."""
    if "anyOf" in schema:
        return " or ".join(_type_name(part) for part in schema["anyOf"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2].removesuffix("Row")
    if schema.get("type") == "array":
        return f"list of {_type_name(schema['items'])}" if schema.get("items") else "list"
    return str(schema.get("format") or schema.get("type") or "any")
