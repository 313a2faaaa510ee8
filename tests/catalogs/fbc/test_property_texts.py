"""Properties of bundles in words."""

import json

import pytest

from catalogs.fbc.properties import DEEPEST, ConstraintText, describe_properties

COMPOUND = {
    "failureMessage": "needs Kafka",
    "all": {
        "constraints": [
            {"package": {"packageName": "kafka", "versionRange": ">=1.0.0"}},
            {"not": {"constraints": [{"gvk": {"group": "g", "version": "v1", "kind": "K"}}]}},
            {"any": {"constraints": [{"cel": {"rule": "true"}, "failureMessage": "no"}, {}]}},
        ]
    },
}


def told(kind, value):
    (item,) = describe_properties(
        json.dumps({"schema": "s", "properties": [{"type": kind, "value": value}]}).encode()
    )
    return item


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("olm.package", {"packageName": "p", "version": "1.0.0"}, "p 1.0.0"),
        (
            "olm.package",
            {"packageName": "p", "version": "1.0.0", "release": "2"},
            "p 1.0.0 release 2",
        ),
        ("olm.gvk", {"group": "g", "version": "v1", "kind": "K"}, "K g/v1"),
        ("olm.gvk.required", {"group": "g", "version": "v1", "kind": "K"}, "K g/v1"),
        ("olm.package.required", {"packageName": "p", "versionRange": ">1.0.0"}, "p >1.0.0"),
        ("olm.bundle.object", {"data": "e30="}, ""),
        (
            "olm.bundle.object",
            {"data": "a2luZDogQ29uZmlnTWFwCm1ldGFkYXRhOiB7bmFtZTogeH0K"},
            "ConfigMap x",
        ),
        ("olm.bundle.object", {"data": "e"}, "illegal base64 data at input byte 0"),
        ("olm.csv.metadata", {"displayName": "Etcd"}, "Etcd"),
        ("olm.channel", {"channelName": "stable"}, "stable"),
        ("olm.label", {"label": "l"}, "l"),
        ("olm.label.required", {"label": "l"}, "l"),
        ("olm.deprecated", {}, "OLM v0 does not install it"),
        ("olm.maxOpenShiftVersion", "4.16", "4.16"),
        ("olm.maxOpenShiftVersion", '"4.16"', "4.16"),
        ("olm.maxOpenShiftVersion", {"bad": 1}, ""),
        ("search.x", {"any": [1]}, ""),
        ("olm.gvk", "no object", ""),
        ("olm.package", None, ""),
    ],
)
def test_each_type_of_property_says_what_it_means(kind, value, text):
    item = told(kind, value)
    assert item.text == text
    assert item.meaning if kind.startswith("olm.") else not item.meaning
    assert json.loads(item.raw) == value


def test_a_constraint_is_a_tree_of_sentences():
    assert told("olm.constraint", COMPOUND).rule == ConstraintText(
        "all of: (or else: needs Kafka)",
        [
            ConstraintText("package kafka >=1.0.0"),
            ConstraintText("none of:", [ConstraintText("API K g/v1")]),
            ConstraintText(
                "any of:",
                [ConstraintText("CEL rule true (or else: no)"), ConstraintText("unknown: {}")],
            ),
        ],
    )


def test_constraints_nest_only_so_deep_on_a_page():
    value: dict = {"cel": {"rule": "true"}}
    for _ in range(50):
        value = {"all": {"constraints": [value]}}
    rule = told("olm.constraint", value).rule
    depth = 0
    while rule and rule.parts:
        rule, depth = rule.parts[0], depth + 1
    assert depth == DEEPEST


def test_the_properties_of_a_yaml_blob_are_told_too():
    blob = b"schema: olm.bundle\nproperties:\n- type: olm.label\n  value: {label: l}\n- null\n"
    assert [item.text for item in describe_properties(blob)] == ["l", ""]
