"""Objects against a new schema of their CustomResourceDefinition, beside what a real API server
says when the same objects are written after the definition was replaced."""

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from catalogs.contents.crd_objects import (
    Misfit,
    Outcome,
    VersionSchema,
    checked_versions,
    schema_of,
)
from installs import tasks
from installs.actions import crd_check
from installs.models import CrdCheck, Operator
from tests.factories import make_catalog, make_cluster, make_operator, make_package
from tests.installs.views.test_crd_safety import ship
from tests.peers.client import ApiRefused, Object, wait_until
from tests.peers.servers import ApiServer
from tests.real.rights import ship_rights

pytestmark = pytest.mark.peers

GROUP, PLURAL = "crdobjects.example.com", "kettles"
PATH = f"/apis/{GROUP}/v1/namespaces/default/{PLURAL}"
RBAC = "rbac.authorization.k8s.io/v1"
CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
KEEP = {"x-kubernetes-preserve-unknown-fields": True}


def box(required: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    more = {"required": list(required)} if required else {}
    return {"type": "object", "properties": fields, **more}


def several(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def mapping(values: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


ADDRESSED = several(
    box(name=TEXT, port=NUMBER) | {"required": ["name"]},
    **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
)
PLAIN = several(box(name=TEXT, port=NUMBER))


@dataclass(frozen=True)
class Case:
    """The schema of `spec.value` before and after, and a value written before."""

    old: dict[str, Any]
    new: dict[str, Any]
    value: Any


CASES = [
    Case(TEXT, NUMBER, "a"),
    Case(NUMBER, {"type": "number"}, 3),
    Case({"type": "number"}, NUMBER, 3.5),
    Case({"type": "number"}, NUMBER, 4.0),
    Case(TEXT, TEXT | {"enum": ["b", "c"]}, "a"),
    Case(TEXT, TEXT | {"enum": ["a"]}, "a"),
    Case(NUMBER, NUMBER | {"maximum": 3}, 3),
    Case(NUMBER, NUMBER | {"maximum": 3, "exclusiveMaximum": True}, 3),
    Case(NUMBER, NUMBER | {"minimum": 4}, 3),
    Case(NUMBER, NUMBER | {"minimum": 3, "exclusiveMinimum": True}, 3),
    Case(NUMBER, NUMBER | {"multipleOf": 2}, 3),
    Case(NUMBER, NUMBER | {"format": "int32"}, 3_000_000_000),
    Case(TEXT, TEXT | {"maxLength": 2}, "äöü"),
    Case(TEXT, TEXT | {"maxLength": 3}, "äöü"),
    Case(TEXT, TEXT | {"minLength": 2}, "a"),
    Case(TEXT, TEXT | {"pattern": "^b"}, "ab"),
    Case(TEXT, TEXT | {"pattern": "b"}, "ab"),
    Case(TEXT, TEXT | {"pattern": r"^\d+$"}, "٣"),
    Case(TEXT, TEXT | {"pattern": r"^\w+$"}, "ä"),
    Case(several(TEXT), several(TEXT, maxItems=1), ["a", "b"]),
    Case(several(TEXT), several(TEXT, minItems=3), ["a", "b"]),
    Case(several(TEXT), several(TEXT | {"maxLength": 1}), ["a", "bc"]),
    Case(several(TEXT), several(TEXT, **{"x-kubernetes-list-type": "set"}), ["a", "a"]),
    Case(several(TEXT), several(TEXT, **{"x-kubernetes-list-type": "set"}), ["a", "b"]),
    Case(PLAIN, ADDRESSED, [{"name": "a"}, {"name": "a", "port": 1}]),
    Case(PLAIN, ADDRESSED, [{"port": 1}]),
    Case(box(a=TEXT), box(("b",), a=TEXT, b=TEXT), {"a": "x"}),
    Case(box(a=TEXT), box(("b",), a=TEXT, b=TEXT | {"default": "y"}), {"a": "x"}),
    Case(box(a=TEXT), box(a=TEXT, b=TEXT | {"default": "y"}), {"a": "x"}),
    Case(box(a=TEXT, b=TEXT), box(a=TEXT), {"a": "x", "b": "y"}),
    Case(box(a=TEXT, b=TEXT), box(a=TEXT) | {"minProperties": 2}, {"a": "x", "b": "y"}),
    Case(box() | KEEP, box(a=TEXT), {"a": "x", "b": {"c": 1}}),
    Case(box() | KEEP, box(a=NUMBER) | KEEP, {"a": "x", "b": {"c": 1}}),
    Case(box(a=TEXT) | KEEP, mapping(TEXT), {"a": "x", "b": 1}),
    Case(mapping(TEXT), mapping(TEXT | {"maxLength": 1}), {"a.b": "xy"}),
    Case(mapping(TEXT), mapping(TEXT) | {"maxProperties": 1}, {"a": "x", "b": "y"}),
    Case(mapping(TEXT), box(a=TEXT), {"a": "x", "b": "y"}),
    Case(TEXT | {"nullable": True}, TEXT, None),
    Case(TEXT | {"nullable": True}, TEXT | {"default": "a"}, None),
    Case(TEXT | {"nullable": True}, TEXT | {"nullable": True, "enum": ["a"]}, None),
    Case(several(TEXT | {"nullable": True}), several(TEXT), ["a", None]),
    Case(mapping(TEXT | {"nullable": True}), mapping(TEXT), {"a": None}),
    Case({"x-kubernetes-int-or-string": True}, NUMBER, "80%"),
    Case(TEXT, {"x-kubernetes-int-or-string": True}, "80%"),
    Case(TEXT, TEXT | {"format": "date-time"}, "yesterday"),
    Case(TEXT, TEXT | {"format": "date-time"}, "2026-01-01T10:00:00Z"),
    Case(TEXT, TEXT | {"format": "date-time"}, "2026-01-01T24:00:00Z"),
    Case(TEXT, TEXT | {"format": "date"}, "2026-02-30"),
    Case(TEXT, TEXT | {"format": "ipv4"}, "10.0.0.256"),
    Case(TEXT, TEXT | {"format": "ipv4"}, "10.0.0.01"),
    Case(TEXT, TEXT | {"format": "ipv6"}, "fe80::1"),
    Case(TEXT, TEXT | {"format": "ipv6"}, "10.0.0.1"),
    Case(TEXT, TEXT | {"format": "cidr"}, "10.0.0.0/33"),
    Case(TEXT, TEXT | {"format": "cidr"}, "fd00::/8"),
    Case(TEXT, TEXT | {"format": "byte"}, "a"),
    Case(TEXT, TEXT | {"format": "byte"}, "YWI="),
    Case(TEXT, TEXT | {"format": "uuid"}, "01234567-89ab-cdef-0123-456789ABCDEF"),
    Case(TEXT, TEXT | {"format": "uuid4"}, "01234567-89ab-cdef-0123-456789ABCDEF"),
    Case(TEXT, TEXT | {"format": "password"}, "a"),
    Case(TEXT, TEXT | {"format": "unheard-of"}, "xyzzy"),
    Case(
        box(a=TEXT, b=TEXT),
        box(a=TEXT, b=TEXT) | {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"a": "x", "b": "y"},
    ),
    Case(
        box(a=TEXT, b=TEXT),
        box(a=TEXT, b=TEXT) | {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"a": "x"},
    ),
    Case(
        box(a=TEXT), box(a=TEXT) | {"not": {"properties": {"a": {"enum": ["x"]}}}}, {"a": "x"}
    ),
    Case(
        TEXT,
        TEXT | {"allOf": [{"minLength": 2}, {"maxLength": 3}]},
        "abcd",
    ),
    Case(
        {"type": "object"} | KEEP,
        {"type": "object", "x-kubernetes-embedded-resource": True} | KEEP,
        {"kind": "Pod"},
    ),
    Case(
        {"type": "object"} | KEEP,
        box(spec=box(a=NUMBER)) | {"x-kubernetes-embedded-resource": True},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"a": 1, "b": 2}},
    ),
]  # fmt: skip


MARKED = next(at for at, case in enumerate(CASES) if case.value == "xyzzy")


def definition(side: str) -> Object:
    """The definition before (`old`) and after (`new`), and after that (`again`)."""
    values = {f"v{at}": case.old if side == "old" else case.new for at, case in enumerate(CASES)}
    if side == "again":
        values[f"v{MARKED}"] = TEXT | {"format": "unheard-of", "enum": ["a"]}
    schema = box(spec={"type": "object", "properties": values})
    return {
        "apiVersion": CRD[0],
        "kind": CRD[1],
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": PLURAL, "kind": "Kettle"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def kettle(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Kettle",
        "metadata": {"name": name},
        "spec": spec,
    }


def is_served(server: ApiServer) -> bool:
    try:
        server.admin.call("GET", PATH)
    except ApiRefused as error:
        if error.status == 404:
            return False
        raise
    return True


def write(server: ApiServer, item: Object) -> tuple[set[str], Object]:
    """The paths that the server refuses a new object with this content for, and the object as it
    would be stored. An update would not tell: since Kubernetes 1.30 an unchanged field passes."""
    again = copy.deepcopy(item)
    again["metadata"] = {"name": f"{item['metadata']['name']}-again"}
    try:
        return set(), server.admin.call("POST", f"{PATH}?dryRun=All", again)
    except ApiRefused as error:
        if error.status != 422:
            raise
        return {_field(cause) for cause in error.body["details"]["causes"]}, {}


def _field(cause: Object) -> str:
    """The path of alternatives and of the range of a format is in the message only."""
    in_message = re.search(r"spec\.v\d+", cause["message"])
    return in_message[0] if cause["field"] == "<nil>" and in_message else cause["field"]


def paths(misfits: tuple[Misfit, ...], outcome: Outcome) -> set[str]:
    return {misfit.path for misfit in misfits if misfit.outcome is outcome}


def normal(path: str) -> str:
    """One notation for the keys of maps."""
    return path.replace("[a.b]", ".a.b")


@pytest.fixture(scope="module")
def objects(apiserver: ApiServer) -> Iterator[list[Object]]:
    """An object for each case, as the server had it before the definition was replaced."""
    apiserver.admin.apply(definition("old"))
    wait_until(lambda: is_served(apiserver), "the CRD being served")
    items = []
    for at, case in enumerate(CASES):
        body = kettle(f"k{at}", **{f"v{at}": copy.deepcopy(case.value)})
        items.append(apiserver.admin.call("POST", PATH, body))
    apiserver.admin.apply(definition("new"))
    # The server takes a moment to serve the new schema; the first case is refused then.
    wait_until(lambda: bool(write(apiserver, items[0])[0]), "the new schema refusing an object")
    yield items
    apiserver.admin.delete(definition("new"))


def test_the_server_refuses_the_objects_that_do_not_fit_and_no_others(
    apiserver: ApiServer, objects: list[Object]
) -> None:
    old, new = definition("old"), definition("new")
    assert checked_versions(old, new) == ["v1"]
    schema = VersionSchema(schema_of(new, "v1"))
    assert schema.unchecked == ()
    wrong = []
    outcomes = {"refused": 0, "accepted": 0, "dropped": 0}
    for at, (case, item) in enumerate(zip(CASES, objects, strict=True)):
        misfits = schema.misfits(item)
        refused, stored = write(apiserver, item)
        ours = paths(misfits, Outcome.REFUSED)
        if bool(ours) != bool(refused) or not {normal(path) for path in refused} <= ours:
            wrong.append((at, case, misfits, refused))
        if not refused:
            lost = paths(misfits, Outcome.DROPPED)
            before, after = item["spec"], stored["spec"]
            gone = {f"spec.{path}" for path in _leaves(before) - _leaves(after)}
            if bool(lost) != bool(gone) or not all(
                any(path == field or path.startswith(f"{field}.") for field in lost)
                for path in gone
            ):
                wrong.append((at, case, misfits, gone))
            outcomes["dropped"] += bool(lost)
        outcomes["refused" if refused else "accepted"] += 1
    assert wrong == []
    assert outcomes == {"refused": 40, "accepted": 26, "dropped": 4}


def _leaves(value: Any, path: str = "") -> set[str]:
    """The paths of the fields that are not null, without the indexes of lists."""
    if isinstance(value, dict):
        found = {f"{path}.{key}".strip(".") for key, inner in value.items() if inner is not None}
        return found.union(
            *(_leaves(inner, f"{path}.{key}".strip(".")) for key, inner in value.items())
        )
    if isinstance(value, list):
        return set().union(*(_leaves(inner, path) for inner in value))
    return set()


def test_an_update_that_leaves_a_misfit_alone_is_accepted(
    apiserver: ApiServer, objects: list[Object]
) -> None:
    schema = VersionSchema(schema_of(definition("new"), "v1"))
    maximum = next(at for at, case in enumerate(CASES) if case.new.get("minimum") == 4)
    item = objects[maximum]
    assert paths(schema.misfits(item), Outcome.REFUSED) == {f"spec.v{maximum}"}
    name = item["metadata"]["name"]
    item["metadata"]["labels"] = {"touched": "yes"}
    written = apiserver.admin.call("PUT", f"{PATH}/{name}", item)
    written["spec"][f"v{maximum}"] = 2
    with pytest.raises(ApiRefused) as refused:
        apiserver.admin.call("PUT", f"{PATH}/{name}", written)
    assert refused.value.status == 422


# -- as the person ---------------------------------------------------------------------------------


@pytest.fixture
def operator(
    db: None, apiserver: ApiServer, tmp_path: Path, settings: Any, objects: list[Object]
) -> Operator:
    """A ClusterExtension of the cluster; the catalog has the new definition in version 1.1.0."""
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    cluster = make_cluster(name="real", context=ship_rights(apiserver, tmp_path / "kubeconfig"))
    catalog = make_catalog(name="tea", cluster=cluster)
    make_package(name="kettle", catalog=catalog, channels={"stable": ("1.0.0", "1.1.0")})
    ship("1.1.0", definition("again"))
    return make_operator(
        cluster=cluster, kind="ClusterExtension", name="kettle", package="kettle", catalog="tea",
        bundle="kettle.v1.0.0", version="1.0.0",
    )  # fmt: skip


def checked(operator: Operator, user: User) -> dict[str, Any]:
    row = crd_check.request_check(user, operator, "kettle.v1.1.0", timezone.now())
    tasks.check_crds(row.pk)
    row.refresh_from_db()
    assert row.error_text == ""
    (crd,) = row.result["crds"]
    return crd


def test_a_check_reads_the_objects_as_the_person_and_stores_none_of_their_values(
    apiserver: ApiServer, operator: Operator, olivia: User
) -> None:
    crd = checked(operator, olivia)
    assert crd["error"].startswith("Cluster real does not let olivia read ")
    assert (crd["objects"], crd["complete"]) == (0, False)
    rules = [
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["get"]},
        {"apiGroups": [GROUP], "resources": [PLURAL], "verbs": ["list"]},
    ]
    role = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "reads-kettles"}}
    binding = {
        **role,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": RBAC.partition("/")[0], "kind": "ClusterRole"}
        | {"name": "reads-kettles"},
        "subjects": [{"kind": "User", "name": "olivia", "apiGroup": RBAC.partition("/")[0]}],
    }
    apiserver.admin.apply({**role, "rules": rules})
    apiserver.admin.apply(binding)
    wait_until(lambda: not checked(operator, olivia)["error"], "the role being in force")
    crd = checked(operator, olivia)
    assert crd["versions"] == ["v1"]
    # The objects that did not fit the schema before it fit this one as little.
    assert (crd["objects"], crd["complete"], crd["refused"]) == (len(CASES), True, 40 + 1)
    by_name = {misfit["name"]: misfit["reasons"] for misfit in crd["misfits"]}
    (reason,) = by_name[f"k{MARKED}"]
    assert (reason["path"], reason["rule"]) == (f"spec.v{MARKED}", "enum")
    # The definition was compared with that of the cluster, which no bundle has.
    assert [change for change in crd["changes"] if change["rule"] != "enum"] == []
    assert "xyzzy" not in json.dumps(CrdCheck.objects.get().result)
    apiserver.admin.delete(binding)
    apiserver.admin.delete(role)
