"""Configurations: reading text, and what the served schema refuses of them."""

from typing import Any

import pytest

from catalogs.install_methods import InstallMethod
from installs.methods.configuration import (
    PROBLEMS_SHOWN,
    SIZE_LIMIT,
    config_problems,
    normalized,
    read_config,
    schema_for,
)
from installs.state.decode.schemas import config_schema
from olmweb.sandbox.apiserver.kinds import by_kind, crd_manifest

# Of operator-controller 1.11's experimental definition.
EXTENSION: dict[str, Any] = {
    "type": "object",
    "required": ["configType"],
    "properties": {
        "configType": {"type": "string", "enum": ["Inline"]},
        "inline": {
            "type": "object",
            "minProperties": 1,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
}


def subscription() -> dict[str, Any]:
    version = crd_manifest(by_kind("Subscription"))["spec"]["versions"][0]
    schema = config_schema(version["schema"]["openAPIV3Schema"])
    assert schema is not None
    return schema


def problems(text: str, schema: dict[str, Any] | None = None) -> dict[str, str]:
    found = config_problems(read_config(text), schema or subscription())
    return {problem.path.removeprefix("config"): problem.sentence for problem in found}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "env: [{name: LOG_LEVEL, value: debug}]",
        "env:\nnodeSelector: {kubernetes.io/os: linux}",
        "resources: {requests: {cpu: 2, memory: 512Mi}, limits: {cpu: 500m}}",
        "tolerations: [{key: infra, operator: Exists, tolerationSeconds: 30}]",
        "volumes: [{name: ca, configMap: {name: trusted, items: [{key: a, path: b}]}}]",
        '{"envFrom": [{"secretRef": {"name": "proxy"}}], "annotations": {"a": "2020-01-01"}}',
    ],
)
def test_a_configuration_that_fits_has_no_problem(text: str) -> None:
    assert problems(text) == {}


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("env: {A: b}", ".env", "Expected a list, but this is a mapping"),
        ("env: [{name: A, value: 1}]", ".env[0].value", "“1” is a number; put it in quotes"),
        ("env: [{value: a}]", ".env[0].name", "This field is missing; add name."),
        ("nodeSelector: {a: true}", ".nodeSelector.a", "“true” is true or false; put it in quotes"),
        ("resources: {limits: {cpu: 1 core}}", ".resources.limits.cpu", "“1 core” is no quantity"),
        ("resources: [cpu]", ".resources", "Expected a mapping of names to values"),
        ("toleration: []", ".toleration", "did you mean tolerations?"),
        ("foo: 1", ".foo", "remove it, or use one of affinity, annotations, env,"),
        ("volumes: [{name: a, configMap: {item: []}}]", ".volumes[0].configMap.item", "items?"),
        ("tolerations: [{tolerationSeconds: x}]", ".tolerations[0].tolerationSeconds", "whole"),
        ("resources: {claims: [{name: a}, {name: a}]}", ".resources.claims[1]", "a is in this"),
    ],
)
def test_a_problem_has_its_path_and_says_what_to_do(text: str, path: str, words: str) -> None:
    found = problems(text)
    assert list(found) == [path]
    assert words in found[path]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a", "A configuration is a mapping of fields to values, but this is a list."),
        ("a: &b [1]\nc: *b", "aliases (*name) are not read"),
        ("a: 1\na: 2", "the field a is there twice"),
        ("[" * 100_000, "nested more than 30 levels deep"),
        ("a: !!python/object:x {}", "could not determine a constructor"),
        ("a: !!binary aGk=", "is not JSON; put it in quotes"),
        ("1: a", "1 is a field name, so put it in quotes"),
        ("a: .inf", "no infinite numbers"),
        ("a: [", "This is not valid YAML"),
        ("a: " + "b" * SIZE_LIMIT, f"and may have {SIZE_LIMIT}; move large values"),
        ("a: 1\n---\nb: 2", "but found another document in line 2"),
    ],
)
def test_a_text_that_is_no_configuration_is_refused_in_a_sentence(text: str, words: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the words are checked below
        read_config(text)
    assert words in str(error.value)


def test_a_hostile_schema_neither_crashes_nor_leads_to_a_request() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(2000):
        deep = {"type": "object", "properties": {"a": deep}}
    assert [problem.path for problem in config_problems({"a": 1}, deep)] == ["config.a"]
    pattern = {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}
    assert config_problems({"a": "x"}, pattern) == []
    away = {"type": "object", "properties": {"a": {"$ref": "http://example.com/schema.json"}}}
    assert config_problems({"a": 1}, away) == []
    slow = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    assert len(config_problems({"a": "a" * 50_000 + "b"}, slow)) == 1
    assert len(config_problems({str(i): 1 for i in range(1000)}, subscription())) == PROBLEMS_SHOWN


def test_fields_without_a_value_are_left_out_as_the_api_server_does() -> None:
    assert normalized({"env": None, "resources": {"limits": None}}) == {"resources": {}}


def test_a_required_field_with_a_default_need_not_be_given() -> None:
    name = {"type": "string", "default": ""}
    schema = {"type": "object", "required": ["name"], "properties": {"name": name}}
    assert config_problems({}, schema) == []
    del name["default"]
    assert [problem.path for problem in config_problems({}, schema)] == ["config.name"]


def test_the_inline_configuration_of_a_clusterextension_is_checked_as_far_as_it_is_known() -> None:
    schema = dict(schema_for(InstallMethod.CLUSTER_EXTENSION, EXTENSION, subscription()))
    good = "configType: Inline\ninline: {watchNamespace: a, deploymentConfig: {env: []}, own: 1}"
    assert problems(good, schema) == {}
    assert list(problems("configType: Inline", schema)) == [".inline"]
    assert list(problems("inline: {watchNamespace: a}", schema)) == [".configType"]
    assert list(problems("configType: Inline\ninline: {}", schema)) == [".inline"]
    bad = "configType: Inline\ninline: {watchNamespace: 1, deploymentConfig: {selector: {}}}"
    assert sorted(problems(bad, schema)) == [
        ".inline.deploymentConfig.selector", ".inline.watchNamespace",
    ]  # fmt: skip
    # A cluster without Subscriptions: the fields are known, their content is not.
    alone = dict(schema_for(InstallMethod.CLUSTER_EXTENSION, EXTENSION))
    assert list(problems(bad, alone)) == list(problems(bad, schema))
    limits = "configType: Inline\ninline: {deploymentConfig: {resources: {limits: {cpu: x}}}}"
    assert (len(problems(limits, schema)), problems(limits, alone)) == (1, {})
