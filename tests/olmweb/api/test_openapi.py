"""The OpenAPI document: complete, and true for generated requests and a generated client."""

import ast
import inspect
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
import schemathesis
from django.conf import settings
from django.contrib.auth.models import User
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from olmweb.api.openapi import CODES
from olmweb.api.routes import openapi_document
from olmweb.models import ApiToken
from tests.worlds.generated_client import GeneratedClient, generated_client
from tests.worlds.rest import LISTS, World

CHECKS = (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
EXAMPLES = 12  # generated requests of each operation
KNOWN = {
    "cluster": "prod", "catalog": "redhat-operators", "package": "etcd", "bundle": "etcd.v1.1.0",
    "kind": "PlatformOperator", "namespace": "-", "name": "etcd", "id": 1,
}  # fmt: skip
DRY_RUNS = ("create_action", "create_bulk_install")
OPERATIONS = {
    operation["operationId"]: (path, method)
    for path, methods in openapi_document()["paths"].items()
    for method, operation in methods.items()
}
READS = sorted(name for name, (_, method) in OPERATIONS.items() if method == "get")
load_all_checks()


def codes_in(path: Path) -> Iterator[str]:
    """The constants that calls in the file give as `code`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                value = keyword.value
                if keyword.arg == "code" and isinstance(value, ast.Constant) and value.value:
                    yield str(value.value)


def test_every_code_of_an_error_is_in_the_closed_list() -> None:
    files = [
        path
        for app in ("olmweb", "catalogs", "installs")
        for path in (settings.BASE_DIR / app).rglob("*.py")
        if not {"sandbox", "cli", "migrations"} & {*path.parts}
    ]
    codes = {code for path in files for code in codes_in(path)}
    assert len(codes) > 100
    assert codes <= {*CODES}, "add new codes to olmweb.api.openapi.CODES"
    assert sorted({*CODES}) == sorted(CODES)


def test_every_operation_has_its_errors_headers_and_a_name_that_a_person_would_choose() -> None:
    document = openapi_document()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            codes = {*operation["responses"]}
            assert {"400", "401", "403", "404", "406", "429"} <= codes, path
            assert ("304" in codes) == (method == "get"), path
            assert "WWW-Authenticate" in operation["responses"]["401"]["headers"]
            assert "Retry-After" in operation["responses"]["429"]["headers"]
            names = {parameter["name"] for parameter in operation["parameters"]}
            assert ("If-None-Match" in names) == (method == "get"), path
            for parameter in operation["parameters"]:
                assert parameter["schema"].get("type") != "null"
                assert parameter["schema"].get("default") != ""
    names = document["components"]["schemas"]
    assert not [name for name in names if name.startswith("Page_") or name.endswith("Parameters")]
    assert {"OperatorList", "Operator", "OperatorDetail", "CatalogList", "Action", "Error"} <= {
        *names
    }


def test_every_description_names_its_subject_and_asks_no_question() -> None:
    for path, methods in openapi_document()["paths"].items():
        for operation in methods.values():
            words = operation["description"].split()
            assert words[0] not in {"How", "What", "When", "Where", "Which", "Who", "Why"}, path


def test_every_enum_is_one_schema_and_every_state_is_an_enum() -> None:
    document = openapi_document()
    schemas = document["components"]["schemas"]
    assert {"Health", "ActionState", "ActionVerb", "EventType", "ErrorCode"} <= {*schemas}
    by_values: dict[tuple[str, ...], list[str]] = {}
    for name, schema in schemas.items():
        if "enum" in schema:
            by_values.setdefault(tuple(schema["enum"]), []).append(name)
        for field, part in schema.get("properties", {}).items():
            options = [*part.get("anyOf", ()), part, part.get("items", {})]
            assert not [option for option in options if "enum" in option], (name, field)
            # The states of Kubernetes objects are as their controllers write them.
            if field in ("state", "verb", "health", "severity") and name != "CatalogTrouble":
                assert "$ref" in part, (name, field)
    assert [names for names in by_values.values() if len(names) > 1] == []
    health = document["paths"]["/api/v1/operators"]["get"]["parameters"]
    (parameter,) = (item for item in health if item["name"] == "health")
    assert parameter["schema"]["items"] == {"$ref": "#/components/schemas/Health"}
    assert "x-enum-name" not in msgspec.json.encode(document).decode()


@pytest.mark.parametrize(
    ("schema", "field", "enum"),
    [
        ("ResolutionCandidate", "code", "RejectionCode"),
        ("Resolution", "blocked_by", "ResolutionBlocker"),
        ("Action", "outcome_code", "OutcomeCode"),
        ("ActionData", "outcome_code", "OutcomeCode"),
        ("DryRunResult", "code", "ErrorCode"),
    ],
)
def test_codes_are_closed_enums_or_empty(schema: str, field: str, enum: str) -> None:
    part = openapi_document()["components"]["schemas"][schema]["properties"][field]
    reference, empty = part["anyOf"]
    assert reference == {"$ref": f"#/components/schemas/{enum}"}
    assert empty["const"] == ""


@pytest.fixture
def token(olivia: User) -> str:
    return ApiToken.issue(olivia.pk, "act")[0]


@pytest.fixture(scope="module")
def schema() -> Any:
    return schemathesis.openapi.from_dict(openapi_document())


@pytest.mark.parametrize("name", [*READS, *DRY_RUNS])
def test_generated_requests_get_documented_answers(
    world: World, server: str, token: str, schema: Any, name: str
) -> None:
    path, method = OPERATIONS[name]
    operation = schema[path][method.upper()]
    numbers = count()

    @given(case=operation.as_strategy())
    @hypothesis_settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(case: Any) -> None:
        if name in DRY_RUNS and isinstance(case.body, dict):
            case.body["dry_run"] = True
        if next(numbers) % 2:  # half of them about what is stored
            for part in {*KNOWN} & {*(case.path_parameters or {})}:
                case.path_parameters[part] = KNOWN[part]
        case.headers = {**(case.headers or {}), "Accept": "application/json, */*;q=0.5"}
        response = case.call(
            base_url=server, headers={"Authorization": f"Bearer {token}"}, timeout=20
        )
        assert response.status_code < 500 or response.status_code == 503, response.text
        case.validate_response(response, checks=CHECKS)

    check()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GeneratedClient]:
    document = msgspec.json.encode(openapi_document())
    with generated_client(document, tmp_path_factory.mktemp("client")) as client:
        yield client


def test_a_generated_client_reads_every_list_also_with_selected_fields(
    world: World, server: str, token: str, client: GeneratedClient
) -> None:
    lists = [
        name for name in READS if OPERATIONS[name][0].removeprefix("/api/v1/") in LISTS.values()
    ]
    assert len(lists) > 8
    empty: set[str] = set()
    with client.connect(server, token) as caller:
        for name in lists:
            function = client.function(name)
            answer = function(client=caller)
            assert answer.status_code == 200, name
            assert answer.parsed.count == len(answer.parsed.items), name
            if not answer.parsed.items:
                empty.add(name)
                continue
            first = next(iter(answer.parsed.items[0].to_dict()))
            selected = function(client=caller, fields=first)
            assert [{*item.to_dict()} for item in selected.parsed.items] == [
                {first} for _ in answer.parsed.items
            ], name
    assert empty <= {"list_catalog_troubles", "list_readiness", "list_migrations"}


def test_a_generated_client_reads_one_object_and_gets_typed_errors(
    world: World, server: str, token: str, client: GeneratedClient
) -> None:
    with client.connect(server, token) as caller:
        detail = client.function("get_catalog")("prod", "redhat-operators", client=caller)
        missing = client.function("get_catalog")("prod", "nothing", client=caller)
    assert detail.parsed.catalog == "prod/redhat-operators"
    assert (missing.status_code, missing.parsed.error.code) == (404, "unknown-catalog")
    with client.connect(server, "wrong") as stranger:
        assert client.function("list_operators")(client=stranger).status_code == 401
    assert "etag" in detail.headers
    assert inspect.signature(client.function("list_operators")).parameters["health"]
