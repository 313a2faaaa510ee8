"""The schemas of the kinds that OLM Web installs, as stored from their definitions."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db import connection
from django.test.utils import CaptureQueriesContext

from installs.models import CRDState
from installs.state.decode.schemas import required_fields
from installs.state.decode.workloads import custom_resource_definition
from installs.state.full_sync import sync_cluster
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox

SUBSCRIPTIONS = "subscriptions.operators.coreos.com"


def crd(config: dict[str, Any] | None, *, name: str = SUBSCRIPTIONS) -> dict[str, Any]:
    properties = {"name": {"type": "string"}} | ({"config": config} if config else {})
    spec = {"type": "object", "required": ["name"], "properties": properties}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1alpha1", "served": True, "schema": {"openAPIV3Schema": schema}}
    return {"metadata": {"name": name}, "spec": {"versions": [version, {"name": "v0"}]}}


def columns_of(obj: dict[str, Any]) -> dict[str, Any]:
    decoded = custom_resource_definition(obj)
    assert decoded is not None
    return decoded.columns


def test_the_schema_of_a_served_version_is_stored_without_descriptions() -> None:
    config = {
        "type": "object",
        "description": "Long.",
        "properties": {
            "description": {"type": "string", "description": "A field of this name stays."},
            "env": {"type": "array", "items": {"type": "object", "description": "One."}},
        },
    }
    assert columns_of(crd(config))["config_schemas"] == {
        "v1alpha1": {
            "type": "object",
            "properties": {
                "description": {"type": "string"},
                "env": {"type": "array", "items": {"type": "object"}},
            },
        }
    }


def test_a_definition_without_configuration_and_one_of_another_kind_have_no_schema() -> None:
    assert columns_of(crd(None))["config_schemas"] == {"v1alpha1": None}
    other = crd({"type": "object"}, name="widgets.example.com")
    assert columns_of(other)["config_schemas"] is None


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    "config",
    [
        deep(2000),
        {"type": "object", "properties": {f"field{i}": {"type": "string"} for i in range(20_000)}},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "\x00"}}},
        "object",
    ],
    ids=["deep", "large", "nul", "no schema"],
)
def test_a_hostile_schema_is_not_stored(config: Any) -> None:
    assert columns_of(crd(config))["config_schemas"] == {"v1alpha1": None}


def test_the_required_fields_are_those_of_the_specification() -> None:
    schema = crd({"type": "object"})["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert required_fields(schema) == ["spec.name"]
    assert required_fields({"required": ["spec"]}) == []


@pytest.mark.django_db
def test_a_pass_stores_the_schema_once_and_an_equal_one_writes_nothing(sandbox: Sandbox) -> None:
    cluster = Cluster.objects.create(name="prod", context="sandbox")
    sync_cluster(cluster)
    row = CRDState.objects.get(name=SUBSCRIPTIONS)
    assert list(row.config_schemas or ()) == ["v1alpha1"]
    with CaptureQueriesContext(connection) as queries:
        sync_cluster(cluster)
    written = [query["sql"] for query in queries if "installs_crdstate" in query["sql"]]
    assert not [sql for sql in written if not sql.startswith("SELECT")]


def test_the_definitions_that_olm_ships_have_schemas_of_a_few_kilobytes(shared_data: Path) -> None:
    text = (shared_data / "crds" / f"{SUBSCRIPTIONS}.yaml").read_text()
    subscription = yaml.load(text, Loader=yaml.CSafeLoader)
    schema = columns_of(subscription)["config_schemas"]["v1alpha1"]
    assert {"env", "envFrom", "resources", "tolerations", "volumeMounts"} <= set(
        schema["properties"]
    )
    assert len(str(schema)) < 40_000
    name = "clusterextensions.olm.operatorframework.io"
    text = (shared_data / "crds" / f"{name}.yaml").read_text()
    extension = yaml.load(text, Loader=yaml.CSafeLoader)
    schema = extension["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert columns_of(extension)["config_schemas"] == {"v1": None}, "experimental in 1.11"
    assert required_fields(schema) == ["spec.namespace", "spec.source"]
