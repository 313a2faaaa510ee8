"""Findings of a new CustomResourceDefinition beside what a real API server answers to it."""

import itertools
from typing import Any

import pytest

from catalogs.contents.crd_upgrade import OlmV0, crd_upgrade
from tests.peers.client import ApiRefused, wait_until
from tests.peers.servers import ApiServer

pytestmark = pytest.mark.peers

Schema = dict[str, Any]
_numbers = itertools.count()
TEXT, NUMBER, LIST = (
    {"type": "string"},
    {"type": "integer"},
    {"type": "array", "items": {"type": "string"}},
)


# Names of crdify's validations that compare the schema of a field.
RULES = frozenset(
    {
        *("existingFieldRemoval", "required", "type", "enum", "pattern", "default", "nullable"),
        *("maximum", "maxLength", "maxItems", "maxProperties", "oneOf"),
        *("minimum", "minLength", "minItems", "minProperties"),
    }
)


def crd(plural: str, *versions: str, scope: str = "Namespaced", **size: Any) -> Schema:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"size": size} if size else {},
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.crdsafety.example.com"},
        "spec": {
            "group": "crdsafety.example.com",
            "scope": scope,
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": [
                {
                    "name": name,
                    "served": True,
                    "storage": at == 0,
                    "schema": {"openAPIV3Schema": schema},
                }
                for at, name in enumerate(versions or ("v1",))
            ],
        },
    }


def installed(server: ApiServer, manifest: Schema) -> Schema:
    """Applies a CRD and returns it as the server has it, once it serves objects."""
    server.admin.apply(manifest)
    name = manifest["metadata"]["name"]

    def established() -> Schema | None:
        found = server.admin.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", name)
        conditions = found.get("status", {}).get("conditions") or ()
        ready = any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
        return found if ready else None

    return wait_until(established, "the CRD being served")


def is_accepted(server: ApiServer, plural: str, value: Any) -> bool:
    """Whether the server creates an object with this size; it deletes it again."""
    path = f"/apis/crdsafety.example.com/v1/namespaces/default/{plural}"
    body = {
        "apiVersion": "crdsafety.example.com/v1",
        "kind": plural.capitalize(),
        "metadata": {"name": "old"},
        "spec": {"size": value},
    }

    def answer() -> bool | None:
        try:
            server.admin.call("POST", path, body)
        except ApiRefused as error:
            # While the kind begins to be served or its schema is exchanged, it answers otherwise.
            return False if error.status in (400, 422) else None
        server.admin.call("DELETE", f"{path}/old")
        return True

    result: list[bool] = []

    def answered() -> bool:
        if (now := answer()) is not None:
            result.append(now)
        return bool(result)

    wait_until(answered, f"{plural} being served")
    return result[0]


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        (TEXT, NUMBER, "a"),
        (NUMBER, {"type": "number"}, 3),
        (TEXT, TEXT | {"enum": ["b"]}, "a"),
        (TEXT | {"enum": ["a", "b"]}, TEXT | {"enum": ["b"]}, "a"),
        (TEXT | {"enum": ["a"]}, TEXT, "a"),
        (NUMBER, NUMBER | {"maximum": 2}, 3),
        (NUMBER | {"minimum": 1}, NUMBER | {"minimum": 4}, 3),
        (TEXT, TEXT | {"minLength": 2}, "a"),
        (TEXT, TEXT | {"maxLength": 1}, "ab"),
        (LIST, LIST | {"maxItems": 1}, ["a", "b"]),
        (LIST, LIST | {"minItems": 3}, ["a", "b"]),
        (TEXT, TEXT | {"pattern": "^b"}, "a"),
        (TEXT | {"pattern": "^a"}, TEXT, "a"),
        (TEXT, TEXT | {"default": "b"}, "a"),
        (TEXT, TEXT | {"nullable": True}, "a"),
        (TEXT, TEXT | {"format": "date-time"}, "a"),
        (TEXT, {}, "a"),
    ],
)
def test_objects_that_the_new_schema_rejects_are_those_that_a_finding_warns_of(
    apiserver, old, new, value
):
    plural = f"crdsafe{next(_numbers)}"
    before = installed(apiserver, crd(plural, **old))
    assert is_accepted(apiserver, plural, value)
    after = crd(plural, **new)
    findings = crd_upgrade(before, after)
    assert findings
    installed(apiserver, after)
    may_refuse = any(finding.olm_v0 is OlmV0.OBJECTS for finding in findings)
    if may_refuse:
        # The server takes a moment to serve the new schema.
        wait_until(
            lambda: not is_accepted(apiserver, plural, value), "the new schema refusing the object"
        )
    else:
        assert is_accepted(apiserver, plural, value)


def whole(plural: str, spec: Schema) -> Schema:
    """A CRD whose objects have this schema at spec."""
    manifest = crd(plural)
    [version] = manifest["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = {"type": "object"} | spec
    return manifest


def fields(**properties: Schema) -> Schema:
    return {"properties": properties}


A = fields(a=TEXT)
CEL = {"x-kubernetes-validations": [{"rule": "self != 'old'", "message": "not old"}]}
# Class of change -> the schemas before and after at spec, the object before, and what the server
# does with it afterwards: the spec that it keeps, None if it refuses it.
CLASSES: dict[str, tuple[Schema, Schema, Schema, Schema | None]] = {
    "existingFieldRemoval": (fields(a=TEXT, b=TEXT), A, {"a": "x", "b": "y"}, {"a": "x"}),
    "required": (A, A | {"required": ["b"]} | fields(a=TEXT, b=TEXT), {"a": "x"}, None),
    "type": (A, fields(a=NUMBER), {"a": "x"}, None),
    "enum": (A, fields(a=TEXT | {"enum": ["y"]}), {"a": "x"}, None),
    "maximum": (fields(a=NUMBER), fields(a=NUMBER | {"maximum": 1}), {"a": 2}, None),
    "minimum": (fields(a=NUMBER), fields(a=NUMBER | {"minimum": 3}), {"a": 2}, None),
    "maxLength": (A, fields(a=TEXT | {"maxLength": 1}), {"a": "xy"}, None),
    "minLength": (A, fields(a=TEXT | {"minLength": 3}), {"a": "xy"}, None),
    "maxItems": (fields(a=LIST), fields(a=LIST | {"maxItems": 1}), {"a": ["x", "y"]}, None),
    "minItems": (fields(a=LIST), fields(a=LIST | {"minItems": 3}), {"a": ["x", "y"]}, None),
    "maxProperties": (A, A | {"maxProperties": 0}, {"a": "x"}, None),
    "minProperties": (A, A | {"minProperties": 2}, {"a": "x"}, None),
    "pattern": (A, fields(a=TEXT | {"pattern": "^y"}), {"a": "x"}, None),
    "default": (
        fields(a=TEXT, b=TEXT),
        fields(a=TEXT, b=TEXT | {"default": "z"}),
        {"a": "x"},
        {"a": "x", "b": "z"},
    ),
    "nullable": (fields(a=TEXT | {"nullable": True}), A, {"a": None}, {}),
    "oneOf": (A, A | {"oneOf": [{"required": ["b"]}, {"required": ["c"]}]}, {"a": "x"}, None),
    "format": (A, fields(a=TEXT | {"format": "date-time"}), {"a": "x"}, None),
    "unknown format": (A, fields(a=TEXT | {"format": "tea"}), {"a": "x"}, {"a": "x"}),
    "rules in CEL": (A, fields(a=TEXT | CEL), {"a": "old"}, None),
    "multipleOf": (fields(a=NUMBER), fields(a=NUMBER | {"multipleOf": 3}), {"a": 2}, None),
    "uniqueness": (
        fields(a=LIST), fields(a=LIST | {"x-kubernetes-list-type": "set"}), {"a": ["x", "x"]}, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CLASSES)
def test_an_old_object_is_written_back_under_the_new_crd(apiserver, change):
    old, new, spec, expected = CLASSES[change]
    plural = f"crdsafe{next(_numbers)}"
    before = installed(apiserver, whole(plural, old))
    path = f"/apis/crdsafety.example.com/v1/namespaces/default/{plural}"
    subject = {
        "apiVersion": "crdsafety.example.com/v1",
        "kind": plural.capitalize(),
        "metadata": {"name": "old"},
    }

    def written() -> Schema | str | None:
        """What the server keeps of the object, or why it refuses it; None while it has no such
        kind."""
        try:
            kept = apiserver.admin.call("POST", path, subject | {"spec": spec})
        except ApiRefused as error:
            return None if error.status == 404 else str(error)
        apiserver.admin.call("DELETE", f"{path}/old")
        return {"kept": kept["spec"]}

    first = wait_until(written, f"{plural} being served")
    assert first == {"kept": spec}
    after = whole(plural, new)
    findings = crd_upgrade(before, after)
    rule = change if change in RULES else "unhandled"
    assert rule in {finding.rule for finding in findings}
    assert all(finding.path.startswith("^.spec") and finding.crd for finding in findings)
    installed(apiserver, after)

    def settled() -> Schema | str | None:
        answer = written()
        done = isinstance(answer, str) if expected is None else answer == {"kept": expected}
        return answer if done else None

    wait_until(settled, f"the new schema of {plural}")
    # OLM v0 refuses for an object what the server refuses, save for rules in CEL, which it does not
    # evaluate, and nulls and unknown formats, which the server forgives.
    may_refuse = any(finding.olm_v0 is OlmV0.OBJECTS for finding in findings)
    if change == "rules in CEL":
        assert not may_refuse
        assert "not judged here" in findings[0].note
    elif change in ("nullable", "unknown format"):
        assert may_refuse
    else:
        assert may_refuse == (expected is None)


def test_the_server_drops_a_null_that_olm_v0_would_refuse(apiserver):
    plural = f"crdsafe{next(_numbers)}"
    before = installed(apiserver, crd(plural, **TEXT, nullable=True))
    after = crd(plural, **TEXT)
    assert [finding.olm_v0 for finding in crd_upgrade(before, after)] == [OlmV0.OBJECTS]
    installed(apiserver, after)
    assert is_accepted(apiserver, plural, None)


def test_the_server_refuses_another_scope_and_the_removal_of_a_stored_version(apiserver):
    plural = f"crdsafe{next(_numbers)}"
    before = installed(apiserver, crd(plural, "v1alpha1", **TEXT))
    for after, rule in (
        (crd(plural, "v1alpha1", scope="Cluster", **TEXT), "scope"),
        (crd(plural, "v1", **TEXT), "storedVersionRemoval"),
    ):
        findings = [f for f in crd_upgrade(before, after) if f.olm_v0 is OlmV0.REFUSES]
        assert [finding.rule for finding in findings] == [rule]
        with pytest.raises(ApiRefused) as refused:
            apiserver.admin.apply(after)
        assert refused.value.status == 422
