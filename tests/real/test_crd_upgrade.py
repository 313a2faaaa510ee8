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
            return None if error.status == 404 else False
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
