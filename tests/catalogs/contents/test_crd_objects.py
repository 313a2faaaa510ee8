"""Objects against another schema of their CRD; tests/real compares with an API server."""

import pytest

from catalogs.contents.crd_objects import (
    MISFITS,
    Misfit,
    Outcome,
    UnreadableSchema,
    VersionSchema,
    checked_versions,
    schema_of,
)

TEXT = {"type": "string"}


def schema(**fields: object) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": fields}},
    }


def misfits(new: object, **spec: object) -> list[Misfit]:
    item = {"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"}, "spec": spec}
    return list(VersionSchema(new).misfits(item))


def test_reasons_have_the_rule_and_no_value_of_the_object() -> None:
    new = schema(
        a=TEXT | {"pattern": "^b"},
        b=TEXT | {"enum": ["x"]},
        c=TEXT | {"maxLength": 2},
        d={"type": "integer"},
        e={"type": "array", "minItems": 1},
    )
    found = misfits(new, a="hidden", b="hidden", c="hidden", d="hidden", e=[])
    assert [(row.path, row.rule) for row in found] == [
        ("spec.a", "pattern"),
        ("spec.b", "enum"),
        ("spec.c", "maxLength"),
        ("spec.d", "type"),
        ("spec.e", "minItems"),
    ]
    assert [row.note for row in found] == [
        "The value has to match ^b.",
        'Only these values are allowed: "x".',
        "It has to have at most 2 characters.",
        "The type has to be integer.",
        "It has to have at least 1 items.",
    ]


def test_a_default_helps_the_server_but_not_olm_v0() -> None:
    new = schema(a=TEXT | {"default": "x"})
    new["properties"]["spec"]["required"] = ["a"]  # type: ignore[index]
    assert misfits(new) == [Misfit("spec.a", "required", "The field is required.", Outcome.OLM_V0)]


def test_refusals_come_before_lost_values_and_few_are_listed() -> None:
    found = misfits(schema(z={"type": "integer"}), z="x", **{f"a{at}": 1 for at in range(20)})
    assert len(found) == MISFITS
    assert [row.outcome for row in found[:2]] == [Outcome.REFUSED, Outcome.DROPPED]


def test_parts_that_only_a_cluster_evaluates_are_listed() -> None:
    new = schema(
        a=TEXT | {"x-kubernetes-validations": [{"rule": "self != ''"}]},
        b=TEXT | {"format": "email"},
        c=TEXT | {"pattern": "(?i)^a$"},
        d={"type": "array", "items": TEXT | {"format": "hostname"}},
    )
    assert VersionSchema(new).unchecked == (
        "spec.a: 1 CEL rule",
        "spec.b: format email",
        "spec.c: pattern (?i)^a$",
        "spec.d[]: format hostname",
    )
    assert misfits(new, b="no address", c="b", d=["-"]) == []


@pytest.mark.parametrize("bad", [{"required": "a"}, {"type": "unheard-of"}, {"maxLength": -1}])
def test_a_schema_that_no_server_accepts_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(UnreadableSchema):
        VersionSchema(bad)


def test_references_are_not_followed() -> None:
    assert misfits({"$ref": "http://127.0.0.1:1/schema"}, a=1) != []
    assert VersionSchema(schema(a={"$ref": "file:///etc/passwd"})).unchecked == ()


def test_deep_schemas_and_objects_end() -> None:
    deep: dict[str, object] = {}
    for _ in range(300):
        deep = {"type": "object", "properties": {"a": deep}}
    value: dict[str, object] = {}
    for _ in range(2_000):
        value = {"a": value}
    assert VersionSchema(deep).misfits(value) == ()
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    found = VersionSchema({**anything, "enum": [{}]}).misfits(value)
    assert [row.rule for row in found] == ["depth"]


def test_only_served_versions_with_another_schema_are_checked() -> None:
    def crd(**versions: dict[str, object]) -> dict[str, object]:
        rows = [
            {"name": name, "served": name != "v1alpha1", "schema": {"openAPIV3Schema": version}}
            for name, version in versions.items()
        ]
        return {"spec": {"versions": rows}}

    field = schema(description=TEXT | {"description": "A text."})
    same = schema(description=TEXT | {"description": "Another text."})
    renamed = schema(text=TEXT)
    old = crd(v1alpha1=field, v1beta1=field, v1=field, v2=field)
    new = crd(v1alpha1=renamed, v1beta1=renamed, v1=same)
    assert checked_versions(old, new) == ["v1beta1"]
    assert schema_of(new, "v1beta1") == renamed
    assert schema_of(new, "v3") is None
