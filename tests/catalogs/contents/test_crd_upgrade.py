"""Which changes of a CustomResourceDefinition OLM refuses, and at which field."""

import copy
from typing import Any

import pytest

from catalogs.contents.crd_upgrade import CrdFinding, OlmV0, crd_upgrade

Schema = dict[str, Any]


def version(name: str, schema: Schema, *, served: bool = True, storage: bool = True) -> Schema:
    return {
        "name": name,
        "served": served,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
    }


def crd(*versions: Schema, scope: str = "Namespaced", stored: tuple[str, ...] = ("v1",)) -> Schema:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "kettles.tea.example.com"},
        "spec": {"group": "tea.example.com", "scope": scope, "versions": list(versions)},
        "status": {"storedVersions": list(stored)},
    }


def with_size(size: Schema | None, **spec: Any) -> Schema:
    properties = {} if size is None else {"size": size}
    return {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties, **spec}},
    }


def size_findings(old: Schema | None, new: Schema | None, **spec: Any) -> list[CrdFinding]:
    before, after = with_size(old), with_size(new, **spec)
    return list(crd_upgrade(crd(version("v1", before)), crd(version("v1", after))))


RULE = {"rule": "self != ''", "message": "is empty"}
TEXT, NUMBER, LIST = {"type": "string"}, {"type": "integer"}, {"type": "array", "items": {}}


@pytest.mark.parametrize(
    ("old", "new", "rule", "by_v0"),
    [
        (TEXT, NUMBER, "type", OlmV0.OBJECTS),
        (NUMBER, {"type": "number"}, "type", OlmV0.ALLOWS),
        (TEXT, TEXT | {"enum": ["a"]}, "enum", OlmV0.OBJECTS),
        (TEXT | {"enum": ["a", "b"]}, TEXT | {"enum": ["a"]}, "enum", OlmV0.OBJECTS),
        (TEXT | {"enum": ["a"]}, TEXT, "enum", OlmV0.ALLOWS),
        (NUMBER, NUMBER | {"maximum": 0}, "maximum", OlmV0.OBJECTS),
        (NUMBER | {"maximum": 9}, NUMBER | {"maximum": 8}, "maximum", OlmV0.OBJECTS),
        (NUMBER | {"minimum": 0}, NUMBER | {"minimum": 1}, "minimum", OlmV0.OBJECTS),
        (TEXT, TEXT | {"minLength": 2}, "minLength", OlmV0.OBJECTS),
        (TEXT, TEXT | {"maxLength": 2}, "maxLength", OlmV0.OBJECTS),
        (LIST, LIST | {"maxItems": 2}, "maxItems", OlmV0.OBJECTS),
        (LIST, LIST | {"minItems": 2}, "minItems", OlmV0.OBJECTS),
        (TEXT, TEXT | {"pattern": "^a"}, "pattern", OlmV0.OBJECTS),
        (TEXT | {"pattern": "^a"}, TEXT, "pattern", OlmV0.ALLOWS),
        (TEXT, TEXT | {"default": "a"}, "default", OlmV0.ALLOWS),
        (TEXT | {"default": "a"}, TEXT | {"default": "b"}, "default", OlmV0.ALLOWS),
        (TEXT | {"default": ""}, TEXT, "default", OlmV0.ALLOWS),
        (TEXT | {"nullable": True}, TEXT, "nullable", OlmV0.OBJECTS),
        (TEXT, TEXT | {"nullable": True}, "nullable", OlmV0.ALLOWS),
        (TEXT, TEXT | {"format": "date-time"}, "unhandled", OlmV0.OBJECTS),
        (TEXT | {"format": "date-time"}, TEXT, "unhandled", OlmV0.ALLOWS),
        (TEXT, TEXT | {"x-kubernetes-validations": [RULE]}, "unhandled", OlmV0.ALLOWS),
        (TEXT, TEXT | {"title": "Size"}, "unhandled", OlmV0.OBJECTS),
        (TEXT, None, "existingFieldRemoval", OlmV0.ALLOWS),
    ],
)
def test_operator_controller_refuses_a_change_at_the_path_of_the_field(old, new, rule, by_v0):
    [finding] = size_findings(old, new)
    assert (finding.crd, finding.version) == ("kettles.tea.example.com", "v1")
    assert (finding.path, finding.rule) == ("^.spec.size", rule)
    assert (finding.olm_v1, finding.olm_v0) == (True, by_v0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, TEXT | {"enum": ["a"]}),
        (TEXT, TEXT | {"description": "How large it is."}),
        (TEXT | {"enum": ["a"]}, TEXT | {"enum": ["b", "a"]}),
        (NUMBER | {"maximum": 8}, NUMBER | {"maximum": 9}),
        (NUMBER | {"maximum": 8}, NUMBER),
        (NUMBER | {"minimum": 1}, NUMBER | {"minimum": 0}),
        (TEXT | {"nullable": False}, TEXT),
    ],
)
def test_new_fields_wider_limits_and_descriptions_are_no_findings(old, new):
    assert size_findings(old, new) == []


def test_changed_formats_and_rules_in_cel_are_named_and_rules_are_not_judged():
    def note(old, new):
        [finding] = size_findings(TEXT | old, TEXT | new)
        return finding.note

    def rules(*made):
        return {"x-kubernetes-validations": list(made)}

    assert note({"format": "date"}, {"format": "ipv4"}) == "The format was date, now ipv4."
    unjudged = "Rules in CEL changed, and are not judged here: "
    other = {"rule": "self.size() < 5"}
    assert note(rules(RULE), rules(other)) == (
        f"{unjudged}now self.size() < 5; no longer self != ''."
    )
    reworded = RULE | {"message": "is missing"}
    assert note(rules(RULE), rules(reworded)) == (
        f"{unjudged}only what is reported when they fail."
    )
    assert size_findings(TEXT | rules(RULE), TEXT | rules(RULE)) == []


def test_a_newly_required_field_is_a_finding_of_its_parent():
    [finding] = size_findings(TEXT, TEXT, required=["size"])
    assert (finding.path, finding.rule) == ("^.spec", "required")
    assert finding.note == "Now required: size."


def test_of_a_removed_object_only_its_own_path_is_named():
    old = {"type": "object", "properties": {"spec": with_size(TEXT)}}
    [finding] = crd_upgrade(
        crd(version("v1", old)), crd(version("v1", {"type": "object", "properties": {}}))
    )
    assert (finding.path, finding.rule) == ("^.spec", "existingFieldRemoval")


def test_a_change_in_additional_properties_counts_at_both_paths():
    def map_of(values: Schema) -> Schema:
        return {"type": "object", "additionalProperties": values}

    findings = size_findings(map_of(TEXT), map_of(NUMBER))
    assert [(finding.path, finding.rule) for finding in findings] == [
        ("^.spec.size", "unhandled"),
        ("^.spec.size.additionalProperties", "type"),
    ]


def test_both_olms_refuse_another_scope_and_the_removal_of_a_stored_version():
    schema = with_size(TEXT)
    old = crd(version("v1alpha1", schema), stored=("v1alpha1",))
    new = crd(version("v1", schema), scope="Cluster")
    assert [(f.rule, f.version, f.olm_v1, f.olm_v0) for f in crd_upgrade(old, new)] == [
        ("scope", "", True, OlmV0.REFUSES),
        ("storedVersionRemoval", "v1alpha1", True, OlmV0.REFUSES),
    ]


def test_a_version_that_no_object_is_stored_as_may_go_but_its_clients_are_named():
    schema = with_size(TEXT)
    old = crd(version("v1", schema), version("v1beta1", schema, storage=False))
    [finding] = crd_upgrade(old, crd(version("v1", schema)))
    assert (finding.rule, finding.version) == ("servedVersionRemoval", "v1beta1")
    assert (finding.olm_v1, finding.olm_v0) == (False, OlmV0.ALLOWS)


def test_olm_v0_reads_no_objects_of_a_version_that_is_not_served():
    old = crd(version("v1", with_size(TEXT), served=False))
    new = crd(version("v1", with_size(NUMBER), served=False))
    [finding] = crd_upgrade(old, new)
    assert (finding.olm_v1, finding.olm_v0) == (True, OlmV0.ALLOWS)


def test_served_versions_have_to_agree_unless_a_webhook_converts_or_they_differed_before():
    v1, v1beta1 = version("v1", with_size(TEXT)), version("v1beta1", with_size(NUMBER))
    alone, both = crd(v1), crd(v1, v1beta1)
    [finding] = crd_upgrade(alone, both)
    assert (finding.version, finding.path) == ("v1beta1 -> v1", "^.spec.size")
    assert crd_upgrade(both, both) == ()
    converted = copy.deepcopy(both)
    converted["spec"]["conversion"] = {"strategy": "Webhook"}
    assert crd_upgrade(alone, converted) == ()


@pytest.mark.parametrize("broken", [None, [], "x", {"properties": ["x"]}, {"items": 3}])
def test_a_schema_of_another_shape_counts_as_absent(broken):
    manifest = crd(version("v1", broken))
    assert crd_upgrade(manifest, manifest) == ()
    assert crd_upgrade({}, {}) == ()
