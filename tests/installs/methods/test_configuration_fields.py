"""The form fields of a configuration: what they make, and that nothing is lost on the way back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogs.install_methods import InstallMethod
from installs.methods.configuration_fields import (
    FORM_FIELDS,
    form_field,
    form_problems,
    from_values,
    offered_fields,
    to_values,
)

SUBSCRIPTION, EXTENSION = InstallMethod.SUBSCRIPTION, InstallMethod.CLUSTER_EXTENSION
LINES = {
    "config_env": "LOG_LEVEL = debug\nURL=https://a/?b=c\n\nEMPTY=",
    "config_node_selector": "node-role.kubernetes.io/infra=",
    "config_tolerations": "infra:NoSchedule\ndedicated=ops:NoExecute\nany",
    "config_requests_cpu": "100m",
    "config_limits_memory": " 512Mi ",
    "config_more": "envFrom: [{secretRef: {name: proxy}}]\nresources: {limits: {gpu: 1}}",
}
FIELDS: dict[str, Any] = {
    "env": [
        {"name": "LOG_LEVEL", "value": "debug"},
        {"name": "URL", "value": "https://a/?b=c"},
        {"name": "EMPTY", "value": ""},
    ],
    "nodeSelector": {"node-role.kubernetes.io/infra": ""},
    "tolerations": [
        {"key": "infra", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "dedicated", "operator": "Equal", "value": "ops", "effect": "NoExecute"},
        {"key": "any", "operator": "Exists"},
    ],
    "resources": {"requests": {"cpu": "100m"}, "limits": {"gpu": 1, "memory": "512Mi"}},
    "envFrom": [{"secretRef": {"name": "proxy"}}],
}


def test_lines_and_yaml_make_one_configuration() -> None:
    read = from_values(SUBSCRIPTION, LINES)
    assert (read.problems, read.config) == ({}, FIELDS)
    more = f"deploymentConfig: {{{LINES['config_more'].replace(chr(10), ', ')}}}"
    values = LINES | {"config_watch_namespace": "apps", "config_more": more}
    read = from_values(EXTENSION, values)
    assert read.problems == {}
    assert read.config == {
        "configType": "Inline",
        "inline": {"watchNamespace": "apps", "deploymentConfig": FIELDS},
    }
    assert from_values(EXTENSION, {}).config == from_values(SUBSCRIPTION, {}).config == {}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("config_env", "LOG_LEVEL debug", "is not NAME=value"),
        ("config_env", "A=1\nA=2", "A is there twice"),
        ("config_node_selector", "infra", "is not LABEL=value"),
        ("config_tolerations", "infra:Never", "where EFFECT is NoSchedule,"),
        ("config_tolerations", "=a:NoSchedule", "is not KEY=VALUE:EFFECT"),
        ("config_more", "- a", "A configuration is a mapping"),
    ],
)
def test_a_line_that_cant_be_read_is_refused_at_its_field(name: str, text: str, words: str) -> None:
    problems = from_values(SUBSCRIPTION, {name: text}).problems
    assert list(problems) == [name]
    assert words in problems[name]


@pytest.mark.parametrize(
    ("name", "text", "more"),
    [
        ("config_env", "A=1", "env: []"),
        ("config_limits_cpu", "1", "resources: {limits: {cpu: 2}}"),
    ],
)
def test_a_field_is_in_one_place_only(name: str, text: str, more: str) -> None:
    problems = from_values(SUBSCRIPTION, {name: text, "config_more": more}).problems
    assert list(problems) == ["config_more"]


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
CONFIGS = st.dictionaries(
    st.sampled_from(["env", "envFrom", "nodeSelector", "tolerations", "resources", "volumes"]),
    VALUES
    | st.lists(
        st.fixed_dictionaries({"name": st.text(max_size=5), "value": st.text(max_size=5)}),
        max_size=3,
    )
    | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)
    | st.fixed_dictionaries({"limits": st.dictionaries(st.sampled_from(["cpu", "a"]), LEAVES)}),
    max_size=4,
)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@given(CONFIGS)
def test_an_existing_configuration_survives_the_form(config: dict[str, Any]) -> None:
    config = without_nulls(config)
    if "\x00" in str(config) or "\\x00" in repr(config):
        return
    whole = {"configType": "Inline", "inline": {"deploymentConfig": config}} if config else {}
    for method, expected in ((SUBSCRIPTION, config), (EXTENSION, whole)):
        read = from_values(method, to_values(method, expected))
        if not read.problems:
            assert read.config == expected
        else:
            # Text that YAML can't carry unchanged is refused, never altered.
            assert list(read.problems) == ["config_more"]


def test_problems_are_placed_at_the_field_that_holds_the_value() -> None:
    assert form_field("config.env[0].name") == "config_env"
    assert form_field("config.inline.deploymentConfig.resources.limits.cpu") == "config_limits_cpu"
    assert form_field("config.inline.watchNamespace") == "config_watch_namespace"
    assert form_field("config.volumes[0]") == "config_more"
    assert form_field("namespace") == "namespace"
    placed = form_problems(
        {"config.env[0].name": "a.", "config.foo": "b.", "namespace": "c."}, {"config_more": "x"}
    )
    assert placed == {"config_more": "a. b.", "namespace": "c."}
    placed = form_problems({"config.env[0].name": "a."}, {"config_env": "x"})
    assert placed == {"config_env": "a."}


def test_only_what_the_cluster_serves_is_offered() -> None:
    assert offered_fields(SUBSCRIPTION, None) == frozenset()
    served = frozenset({"spec.config", "spec.config.env"})
    assert offered_fields(SUBSCRIPTION, served) == {"config_env", "config_more"}
    assert offered_fields(EXTENSION, frozenset({"spec.config"})) == set(FORM_FIELDS)
