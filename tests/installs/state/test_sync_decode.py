"""Decoding: what is kept of each kind, and that nothing a cluster says can break it."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from installs.models import ClusterOperator as ClusterOperatorRow
from installs.models import Component, CRDState, Event, Operator
from installs.state.decode import DECODERS, DecodedObject
from installs.state.decode.common import labelled_owner
from installs.state.pods import selector_text, waiting_of
from installs.state.resources import BY_NAME, WATCHED_RESOURCES, decode
from installs.state.write import table_of
from olmweb.kube.decode import SHAPES, narrow_event, narrow_list
from olmweb.kube.fields import number
from tests.worlds import cluster_v0 as v0

KINDS = sorted(DECODERS)
SECTIONS = (
    *("metadata", "spec", "status", "name", "namespace", "labels", "annotations", "conditions"),
    *("ownerReferences", "source", "catalog", "channels", "history", "plan", "bundleLookups"),
    *("requirementStatus", "dependents", "involvedObject", "versions", "storedVersions"),
    *("components", "refs", "installModes", "customresourcedefinitions", "owned", "selector"),
    *("connectionState", "containerStatuses", "state", "template", "package", "names", "type"),
    *("resourceVersion", "generation", "creationTimestamp", "count", "uid", "replicas"),
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["x\x00y", "é" * 400, "2026-01-02T03:04:05Z", "olm.owner", "True"])
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(SECTIONS) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
OBJECTS = st.fixed_dictionaries(
    {"metadata": st.dictionaries(st.sampled_from(SECTIONS), JSON, max_size=5)},
    optional=dict.fromkeys(("spec", "status", "involvedObject", "apiVersion"), JSON),
)


def fits(result: DecodedObject) -> None:
    """Whatever was kept can be stored: columns hold it, JSON can say it, no NUL."""
    told = msgspec.json.encode((result.conditions, result.details)).decode()
    assert "\\u0000" not in told
    table: Any = Event if result.kind == "Event" else table_of(result.kind)
    values = {**result.columns, "name": result.columns.get("name", result.name), "uid": result.uid}
    for name, value in values.items():
        column = table._meta.get_field(name)
        if isinstance(value, str):
            assert "\x00" not in value
            assert column.max_length is None or len(value) <= column.max_length, name
    assert -(2**63) <= result.generation < 2**63
    assert len(result.digest()) == 64


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(obj=OBJECTS)
def test_no_content_breaks_a_decoder(kind: str, obj: dict[str, Any]) -> None:
    result = DECODERS[kind](obj)
    assert result is None or result.kind == kind
    if result is not None:
        fits(result)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(obj=OBJECTS)
def test_narrowing_leaves_everything_that_is_decoded(kind: str, obj: dict[str, Any]) -> None:
    body = msgspec.json.encode({"metadata": {"resourceVersion": "7"}, "items": [obj]})
    narrowed = narrow_list(body, kind)
    assert narrowed["metadata"] == {"resourceVersion": "7"}
    whole, narrow = DECODERS[kind](obj), DECODERS[kind](narrowed["items"][0])
    assert without_source(whole) == without_source(narrow)
    line = msgspec.json.encode({"type": "MODIFIED", "object": obj})
    assert narrow_event(line, kind) == {"type": "MODIFIED", "object": narrowed["items"][0]}


def without_source(result: DecodedObject | None) -> Any:
    return result and (result.key, result.uid, result.conditions, result.columns, result.details)


REAL = {
    "Subscription": v0.subscription(currentCSV="a", catalogHealth=[{"healthy": True}]),
    "ClusterServiceVersion": v0.csv(),
    "InstallPlan": v0.plan(),
    "CatalogSource": v0.catalog_source(),
    "OperatorGroup": v0.operator_group(targetNamespaces=["a"]),
    "OperatorCondition": v0.operator_condition(overrides=[{"type": "Upgradeable"}]),
    "Operator": v0.olm_operator(),
    "Deployment": v0.deployment(),
    "CustomResourceDefinition": v0.crd(),
    "Event": v0.event("a", "b", meta={"uid": "u"}),
}


@pytest.mark.parametrize("kind", sorted(REAL))
def test_ordinary_objects_are_narrowed_without_a_loss_of_what_is_kept(kind: str) -> None:
    obj = json.loads(json.dumps(REAL[kind]))
    obj["metadata"] |= {"managedFields": [{"x": "y"}], "uid": "u", "annotations": {"other": "z"}}
    body = msgspec.json.encode({"metadata": {}, "items": [obj]})
    (narrowed,) = narrow_list(body, kind)["items"]
    assert "managedFields" not in narrowed["metadata"]
    assert narrowed["metadata"]["annotations"] == {}
    assert without_source(DECODERS[kind](narrowed)) == without_source(DECODERS[kind](obj))


@pytest.mark.parametrize(("value", "kept_out"), [("true", True), ("True", False), (None, False)])
def test_a_group_that_keeps_the_global_catalogs_out_is_known_as_one(
    value: str | None, kept_out: bool
) -> None:
    obj = v0.operator_group()
    annotation = "olm.operatorframework.io/exclude-global-namespace-resolution"
    obj["metadata"] |= {"uid": "u", "annotations": {annotation: value} if value else {}}
    (narrowed,) = narrow_list(msgspec.json.encode({"items": [obj]}), "OperatorGroup")["items"]
    result = DECODERS["OperatorGroup"](narrowed)
    assert result is not None
    assert result.details["own_catalogs_only"] is kept_out


@pytest.mark.parametrize("kind", ["ClusterServiceVersion", "CustomResourceDefinition"])
def test_the_heavy_parts_of_an_object_are_never_decoded(kind: str) -> None:
    body = msgspec.json.encode({"metadata": {}, "items": [REAL[kind]]})
    assert len(msgspec.json.encode(narrow_list(body, kind))) < len(body) / 2


@pytest.mark.data
def test_every_recorded_object_is_the_same_narrowed(shared_data: Path) -> None:
    files = {
        "catalogsources": "CatalogSource",
        "subscriptions": "Subscription",
        "installplans": "InstallPlan",
        "clusterserviceversions": "ClusterServiceVersion",
        "operatorgroups": "OperatorGroup",
        "operators": "Operator",
        "events": "Event",
        "clustercatalogs": "ClusterCatalog",
        "platformoperators": "PlatformOperator",
        "bundledeployments": "BundleDeployment",
        "clusteroperators": "ClusterOperator",
    }
    for name, kind in files.items():
        body = (shared_data / "recorded" / f"{name}.json").read_bytes()
        whole = msgspec.json.decode(body)["items"]
        for one, narrowed in zip(whole, narrow_list(body, kind)["items"], strict=True):
            result = DECODERS[kind](one)
            assert without_source(result) == without_source(DECODERS[kind](narrowed))
            is_copy = "olm.copiedFrom" in one["metadata"].get("labels", {})
            assert (result is None) == is_copy
            if result is not None:
                fits(result)


def test_what_is_no_list_or_event_is_decoded_as_it_is() -> None:
    status = b'{"kind": "Status", "code": 410, "items": {"a": 1}}'
    assert narrow_list(status, "Bundle") == json.loads(status)
    error = b'{"type": "ERROR", "object": {"kind": "Status", "code": 410}}'
    assert narrow_event(error, "Bundle") == json.loads(error)
    bookmark = b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7", "x": 1}}}'
    assert narrow_event(bookmark, "Bundle") == json.loads(bookmark)
    assert narrow_event(b'{"object": 3}', "Bundle") == {"object": 3}
    with pytest.raises(msgspec.DecodeError):
        narrow_list(b"<html>", "Bundle")


def test_every_kind_has_a_shape() -> None:
    assert set(SHAPES) == {feed.kind for feed in WATCHED_RESOURCES} | {"Pod"}


def test_a_feed_takes_only_deployments_of_its_owners() -> None:
    obj = v0.deployment(labels={"olm.operatorframework.io/owner-name": "ext", "olm.owner": "csv"})
    assert decode(BY_NAME["Deployment (olm.operatorframework.io/owner-name)"], obj) is None
    result = decode(BY_NAME["Deployment (olm.owner)"], obj)
    assert result is not None
    assert (result.columns["owner_kind"], result.columns["owner_name"]) == (
        "ClusterServiceVersion",
        "csv",
    )


def test_the_package_of_a_csv_is_in_its_properties_or_else_in_its_label() -> None:
    noted = {"properties": [{"type": "olm.package", "value": {"packageName": "etcd-x"}}]}
    annotations = {"operatorframework.io/properties": json.dumps(noted)}
    for meta, package in (
        ({"annotations": annotations}, "etcd-x"),
        ({"annotations": {"operatorframework.io/properties": "{["}}, "etcd"),
        ({"labels": {}}, ""),
        ({"labels": {"operators.coreos.com/etcd.other": ""}}, ""),
    ):
        result = DECODERS["ClusterServiceVersion"](v0.csv(meta=meta))
        assert result is not None
        assert result.details["package"] == package


def test_long_lists_are_cut_and_keep_what_is_not_satisfied() -> None:
    dependents = [{"status": "Satisfied", "message": str(n)} for n in range(500)]
    dependents.append({"status": "NotSatisfied", "message": "the one"})
    told = v0.csv(status={"requirementStatus": [{"kind": "X", "dependents": dependents}]})
    result = DECODERS["ClusterServiceVersion"](told)
    assert result is not None
    (requirement,) = result.details["requirements"]
    assert len(requirement["dependents"]) == 200
    assert requirement["dependents"][0]["message"] == "the one"
    steps = [{"resolving": str(n), "resource": {"kind": "Role"}} for n in range(1000)]
    plan = v0.plan()
    plan["status"]["plan"] = steps
    result = DECODERS["InstallPlan"](plan)
    assert result is not None
    assert (len(result.details["steps"]), result.details["steps_total"]) == (300, 1000)


def test_events_of_the_newer_form_have_their_times_and_count() -> None:
    obj = {
        "metadata": {"name": "e", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "involvedObject": {"kind": "Deployment", "namespace": "a", "name": "b"},
        "eventTime": "2026-01-02T00:00:00.123456Z",
        "series": {"count": 4, "lastObservedTime": "2026-01-03T00:00:00.5Z"},
        "reportingComponent": "controller",
        "source": None,
    }
    result = DECODERS["Event"](obj)
    assert result is not None
    assert (result.columns["count"], result.columns["source"]) == (4, "controller")
    assert result.columns["first_at"].day == 2
    assert result.columns["last_at"].day == 3
    assert DECODERS["Event"]({**obj, "involvedObject": {}}) is None


def test_owners_and_numbers_are_read_with_care() -> None:
    labels = {"olm.operatorframework.io/owner-kind": "ClusterExtension"}
    assert labelled_owner({"metadata": {"labels": labels}}, "olm.operatorframework.io")[2] == ""
    assert number({"n": True}, "n") == 0
    assert number({"n": 2**80}, "n", default=3) == 3
    revision = {"metadata": {"name": "ext-1"}, "spec": {"revision": 1, "lifecycleState": "Active"}}
    result = DECODERS["ClusterObjectSet"](revision)
    assert result is not None
    assert result.details["lifecycle"] == "Active"


def test_selectors_become_what_a_list_takes() -> None:
    selector = {
        "matchLabels": {"a": "b", "c": "d"},
        "matchExpressions": [
            {"key": "e", "operator": "In", "values": ["1", "2"]},
            {"key": "f", "operator": "NotIn", "values": ["3"]},
            {"key": "g", "operator": "Exists"},
            {"key": "h", "operator": "DoesNotExist"},
            {"key": "i", "operator": "Odd"},
        ],
    }
    assert selector_text(selector) == "a=b,c=d,e in (1,2),f notin (3),g,!h"
    assert selector_text(None) == selector_text({}) == ""


def test_a_pod_tells_what_keeps_it_waiting() -> None:
    status = {
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/3 nodes are available",
            }
        ],
        "initContainerStatuses": [
            {"name": "init", "state": {"terminated": {"reason": "Completed"}}}
        ],
        "containerStatuses": [
            {"name": "ok", "state": {"running": {}}},
            {"name": "bad", "restartCount": 2, "state": {"terminated": {"reason": "OOMKilled"}}},
            {
                "name": "worse",
                "restartCount": 7,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
                "lastState": {"terminated": {"reason": "Error", "exitCode": 2, "message": "no"}},
            },
        ],
    }
    told = waiting_of({"metadata": {"name": "p"}, "status": status})
    assert [(one["container"], one["reason"], one["restarts"]) for one in told] == [
        ("", "Unschedulable", 0),
        ("bad", "OOMKilled", 2),
        ("worse", "CrashLoopBackOff", 7),
    ]
    assert told[2]["message"] == "back-off 5m0s; it ended with Error, exit code 2: no"


def test_each_kind_has_a_table() -> None:
    tables = {kind: table_of(kind) for kind in KINDS}
    assert tables["Subscription"] is tables["PlatformOperator"] is Operator
    assert tables["ClusterOperator"] is ClusterOperatorRow
    assert tables["CustomResourceDefinition"] is CRDState
    assert tables["Operator"] is tables["InstallPlan"] is Component


@pytest.mark.parametrize(
    ("annotations", "values"),
    [
        ({}, None),
        ({"olm.properties": '[{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]'}, ["4.8"]),
        ({"olm.properties": '[{"type": "olm.maxOpenShiftVersion", "value": 4.8}]'}, ["4.8"]),
        ({"operatorframework.io/properties": '{"properties": [{"type": "olm.package"}]}'}, []),
        (
            {
                "operatorframework.io/properties": '{"properties": [{"type": '
                '"olm.maxOpenShiftVersion", "value": "\\"4.9\\""}]}',
                "olm.properties": '[{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]',
            },
            ["4.9"],
        ),
    ],
)
def test_the_maximum_openshift_of_a_csv_is_in_its_properties(
    annotations: dict[str, str], values: list[str] | None
) -> None:
    obj = json.loads(json.dumps(v0.csv()))
    obj["metadata"]["annotations"] = annotations
    result = DECODERS["ClusterServiceVersion"](obj)
    assert result is not None
    assert result.details["max_openshift"] == values


def test_the_parts_that_a_subscription_configures_are_named() -> None:
    obj = v0.subscription(currentCSV="a")
    obj["spec"]["config"] = {"env": [{"name": "A", "value": "secret"}], "tolerations": []}
    result = DECODERS["Subscription"](obj)
    assert result is not None
    assert result.details["config"] == ["env", "tolerations"]


@pytest.mark.parametrize("name", ["a/b", "../../x", ".", "..", "a%2fb"])
def test_names_that_no_object_can_have_are_not_kept(name: str) -> None:
    def decoded(**meta: Any) -> DecodedObject | None:
        return DECODERS["ClusterObjectSet"]({"metadata": {"name": "r1"} | meta})

    owner = {"kind": "ClusterExtension", "controller": True}
    assert decoded(name=name) is None
    assert decoded(namespace=name) is None
    owned, astray = (decoded(ownerReferences=[owner | {"name": each}]) for each in ("e", name))
    assert owned
    assert owned.columns["owner_name"] == "e"
    assert astray
    assert astray.columns["owner_name"] == ""
