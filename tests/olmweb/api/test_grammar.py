"""The rules of docs/api.md, tested on every route of the OpenAPI document."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoDbBlocker

from catalogs.models import Bundle, BundleInspection
from installs.models import ActionBatch, InstallRequest
from olmweb.api.routes import openapi_document
from olmweb.models import Cluster
from tests.worlds.rest import ROOT, World, add_troubles, lines
from tests.worlds.rest_fixtures import Get, rows_of_module

DOCUMENT = openapi_document()
SCHEMAS = DOCUMENT["components"]["schemas"]
GETS = {path: methods["get"] for path, methods in DOCUMENT["paths"].items() if "get" in methods}
NAMES = {
    "cluster": "prod", "catalog": "redhat-operators", "package": "etcd", "bundle": "etcd.v1.1.0",
    "kind": "PlatformOperator", "namespace": "-", "id": "1",
}  # fmt: skip
# Values of the parameters without which a route answers 400.
NEEDED = {
    "/audit": {"catalog": "prod/redhat-operators", "method": "PlatformOperator"},
    "/compare": {"from": "prod/redhat-operators@1", "to": "prod/redhat-operators@2"},
    "/bundles/{cluster}/{catalog}/{package}/{bundle}/difference": {"from": "kettle.v1.0.0"},
    "/bundles/{cluster}/{catalog}/{package}/{bundle}/crd-changes": {"from": "kettle.v1.0.0"},
    "/packages/{cluster}/{catalog}/{package}/resolve": {"method": "PlatformOperator"},
}
# Answered to the person who had the check made, and to nobody else.
PERSONAL = f"{ROOT}crd-checks/{{cluster}}/{{kind}}/{{namespace}}/{{name}}/{{bundle}}"
# Filters that select by more than one field, or by what a field lists.
OTHER_FILTERS = {
    "since", "until", "q", "sort", "after", "problem", "next_catalog", "from", "to", "channel",
    "provides", "image", "category", "keyword", "install_mode", "infrastructure_feature",
    "installable", "catalogs", "versions", "upgrade_path",
}  # fmt: skip
SINGLE = {"since", "until", "sort", "after", "from", "to", "next_catalog"}
GIVEN_ONCE = {("readiness", "q"), ("migrations", "q"), ("compare", "package")}  # as documented
CONTROLS = {"limit", "cursor", "fields", "format"}
OWN = re.compile(r"[a-z0-9]+([-.][a-z0-9]+)*")
KUBERNETES = re.compile(r"[A-Z][A-Za-z]+")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*")


@pytest.fixture(scope="module")
def stored_troubles(stored_world: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with rows_of_module(django_db_blocker, complete_world):
        yield


@pytest.fixture(autouse=True)
def complete(stored_troubles: None, world: World) -> None:
    """Every list has a row, and the image of the bundle of NAMES is inspected."""


def complete_world() -> None:
    add_troubles(Cluster.objects.get(name="prod"))
    bundle = Bundle.objects.get(
        name=NAMES["bundle"], package__catalog__slug=NAMES["catalog"], package__name="etcd"
    )
    BundleInspection.objects.create(image=bundle.image)


def query_names(operation: dict[str, Any]) -> dict[str, dict[str, Any]]:
    parameters = operation["parameters"]
    return {item["name"]: item["schema"] for item in parameters if item["in"] == "query"}


def is_list(operation: dict[str, Any]) -> bool:
    return "cursor" in query_names(operation)


def resolve(schema: dict[str, Any]) -> dict[str, Any]:
    return SCHEMAS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def item_of(operation: dict[str, Any]) -> dict[str, Any]:
    page = operation["responses"]["200"]["content"]["application/json"]["schema"]
    return resolve(resolve(page)["properties"]["items"]["items"])


READS = [path for path in GETS if path != PERSONAL]
LISTS = [path for path, operation in GETS.items() if is_list(operation)]
every_read = pytest.mark.parametrize("path", READS)
every_list = pytest.mark.parametrize("path", LISTS)


def address(path: str) -> tuple[str, dict[str, Any]]:
    """The route about something that is stored, below ROOT, and the query that it needs."""
    names = {**NAMES, "name": "prod" if "clusters/" in path else "etcd"}
    if "/clusteroperators/" in path:
        names["name"] = "dns"
    if path.endswith(("/difference", "/crd-changes")):
        names |= {"package": "kettle", "bundle": "kettle.v2.0.0"}
    if path.endswith("/export"):
        names["package"] = "argocd"  # nothing would choose a bundle of the other
    if "/requests/" in path:
        names["id"] = str(InstallRequest.objects.earliest("pk").pk)
    if "/bulk-installs/" in path:
        names["id"] = str(ActionBatch.objects.earliest("pk").pk)
    query = NEEDED.get(path.removeprefix(ROOT[:-1]), {})
    return path.removeprefix(ROOT).format_map(names), dict(query)


def test_resources_and_parameters_are_lower_case_words() -> None:
    for path, methods in DOCUMENT["paths"].items():
        segments = re.sub(r"\{\w+\}", "", path.removeprefix(ROOT)).split("/")
        assert all(re.fullmatch(r"([a-z]+(-[a-z]+)*)?", segment) for segment in segments), path
        for operation in methods.values():
            names = {item["name"] for item in operation["parameters"] if item["in"] != "header"}
            assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in names), path


def test_fields_are_named_by_the_grammar() -> None:
    for schema_name, schema in SCHEMAS.items():
        for name, part in schema.get("properties", {}).items():
            where = f"{schema_name}.{name}"
            assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name), where
            formats = {option.get("format") for option in (part, *part.get("anyOf", ()))}
            if "date-time" in formats:
                assert name.endswith(("_at", "_since")), where
            assert name not in ("path", "asked_by", "requested_by", "username", "word"), where
            if "catalog_url" in schema["properties"]:
                assert "catalog" in schema["properties"], where


def test_values_of_enums_are_all_of_kubernetes_or_all_own() -> None:
    for name, schema in SCHEMAS.items():
        values = schema.get("enum", ())
        assert all(map(OWN.fullmatch, values)) or all(map(KUBERNETES.fullmatch, values)), name


@every_list
def test_every_list_has_rows_to_test(world: World, get: Get, path: str) -> None:
    name, query = address(path)
    assert get(name, query).json()["items"]


@every_list
def test_filters_are_named_as_fields_and_may_be_repeated(path: str) -> None:
    fields = {*item_of(GETS[path])["properties"]}
    for name, schema in query_names(GETS[path]).items():
        if name in CONTROLS:
            continue
        assert name in fields | OTHER_FILTERS, name
        if name not in SINGLE and (path.rpartition("/")[2], name) not in GIVEN_ONCE:
            assert schema["type"] == "array", name


@every_read
def test_a_get_has_an_etag_a_304_and_a_head(world: World, get: Get, path: str) -> None:
    name, query = address(path)
    answer = get(name, query)
    assert answer.status_code == 200, answer.content
    unchanged = get(name, query, if_none_match=answer["ETag"])
    assert (unchanged.status_code, unchanged.content) == (304, b"")


@every_read
def test_head_answers_where_get_does(world: World, client: Client, token: str, path: str) -> None:
    name, query = address(path)
    answer = client.head(ROOT + name, query, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    assert answer["ETag"]


def moments(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """The texts that are times, with the names of their fields."""
    match value:
        case dict():
            for key, part in value.items():
                yield from moments(part, key)
        case list():
            for part in value:
                yield from moments(part, name)
        case str() if MOMENT.fullmatch(value):
            yield name, value


@every_read
def test_times_are_in_utc_with_z(world: World, get: Get, path: str) -> None:
    if "application/json" not in GETS[path]["responses"]["200"]["content"] or "fbc" in path:
        return
    name, query = address(path)
    for field, moment in moments(get(name, query).json()):
        assert moment.endswith("Z"), field
        assert field.endswith(("_at", "_since")), field


@every_read
def test_an_answer_has_the_fields_of_its_schema_and_no_others(
    world: World, get: Get, path: str
) -> None:
    content = GETS[path]["responses"]["200"]["content"]
    if "application/json" not in content or "fbc" in path:
        return
    name, query = address(path)
    require_fields(get(name, query).json(), content["application/json"]["schema"])


def require_fields(value: Any, schema: dict[str, Any]) -> None:
    schema = resolve(schema)
    if "anyOf" in schema:
        options = [resolve(option) for option in schema["anyOf"]]
        schema = next(
            (
                option
                for option in options
                if isinstance(value, dict) and {*option.get("properties", {})} == {*value}
            ),
            next((option for option in options if type_matches(value, option)), {"never": True}),
        )
        assert "never" not in schema, value
    assert type_matches(value, schema), (value, schema)
    if "enum" in schema:
        assert value in schema["enum"]
    if "properties" in schema:
        assert {*value} == {*schema["properties"]}
        for name, part in schema["properties"].items():
            require_fields(value[name], part)
    if schema.get("type") == "array":
        for item in value:
            require_fields(item, schema.get("items", {}))


def type_matches(value: Any, schema: dict[str, Any]) -> bool:
    types = {
        "string": str, "integer": int, "boolean": bool, "array": list, "object": dict,
        "null": type(None),
    }  # fmt: skip
    kind = types.get(schema.get("type", ""), object)
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else [value])
    return isinstance(value, kind) and value in values


@every_list
def test_a_list_is_also_json_lines_and_csv_by_accept(world: World, get: Get, path: str) -> None:
    name, query = address(path)
    items = get(name, query).json()["items"]
    rows = get(name, query, accept="application/x-ndjson")
    assert lines(b"".join(rows.streaming_content)) == items
    table = b"".join(get(name, query, accept="text/csv").streaming_content).decode()
    assert table.splitlines()[0].split(",") == [*item_of(GETS[path])["properties"]]


@every_read
def test_an_unknown_parameter_is_a_400(world: World, get: Get, path: str) -> None:
    name, query = address(path)
    answer = get(name, {**query, "nonsense": "x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unknown-parameter")


@every_read
def test_a_value_that_is_none_of_an_enum_is_a_400_that_names_the_parameter(
    world: World, get: Get, path: str
) -> None:
    name, query = address(path)
    for parameter, schema in query_names(GETS[path]).items():
        if "enum" in resolve(schema.get("items", schema)) or schema.get("type") == "integer":
            answer = get(name, {**query, parameter: "nonsense"})
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (400, "bad-parameter"), parameter
            assert {*error["fields"]} == {parameter}


@every_list
def test_an_unknown_name_in_a_filter_is_an_empty_list(world: World, get: Get, path: str) -> None:
    name, query = address(path)
    for parameter, schema in query_names(GETS[path]).items():
        items = resolve(schema.get("items", {}))
        if items.get("type") != "string" or "enum" in items:
            continue
        unknown = {"catalog": "prod/nothing", "revision": "99", "provides": "no.example/Nothing"}
        answer = get(name, {**query, parameter: [unknown.get(parameter, "nothing-of-this-name")]})
        assert (answer.status_code, answer.json()["count"]) == (200, 0), parameter


@every_read
def test_an_unknown_name_in_the_address_is_a_404_with_its_code(
    world: World, get: Get, path: str
) -> None:
    for parameter in re.findall(r"\{(\w+)\}", path):
        if parameter == "namespace":
            continue  # as the name: an operator that is not known
        name, query = address(path)
        value = "99999999" if parameter == "id" else "nothing-of-this-name"
        known = {**NAMES, "name": name.rpartition("/")[2], "id": name.rpartition("/")[2]}
        answer = get(path.removeprefix(ROOT).format_map({**known, parameter: value}), query)
        assert answer.status_code == 404, parameter
        assert answer.json()["error"]["code"].startswith("unknown-"), parameter


@every_list
@pytest.mark.parametrize(
    ("parameter", "value"),
    [("limit", "0"), ("limit", "501"), ("limit", ""), ("cursor", "x"), ("fields", "x")],
)
def test_paging_and_fields_refuse_what_they_can_not_read(
    world: World, get: Get, path: str, parameter: str, value: str
) -> None:
    name, query = address(path)
    answer = get(name, {**query, parameter: value})
    assert answer.status_code == 400
    assert {*answer.json()["error"]["fields"]} == {parameter}
    assert {*answer.json()["error"]} == {"code", "message", "hint", "fields"}
