"""The same objects by Accept: metadata only, or as a table with the CRD's columns."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conformance.server import (
    EXTENSIONS,
    PLANS,
    SUBSCRIPTIONS,
    Object,
    Server,
    condition,
    extension,
    subscription,
)

META = ";v=v1;g=meta.k8s.io"
PARTIAL = f"application/json;as=PartialObjectMetadata{META}"
PARTIALS = f"application/json;as=PartialObjectMetadataList{META}"
TABLE = f"application/json;as=Table{META}"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def path(server: Server, ns: str) -> str:
    """The path of a list with a and b."""
    path = SUBSCRIPTIONS.format(ns)
    for name in ("a", "b"):
        server.made(path, subscription(name, labels={"is": name}))
    return path


def test_metadata_of_one_object(server: Server, path: str) -> None:
    whole = server.get(f"{path}/a").body
    answer = server.call("GET", f"{path}/a", accept=PARTIAL)
    kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    server.same(answer.body, {**kind, "metadata": whole["metadata"]})
    server.same(answer.headers["Content-Type"], "application/json")


def test_metadata_of_a_list_with_pages_and_selectors(server: Server, path: str) -> None:
    whole = server.get(path).body
    body = server.call("GET", path, accept=PARTIALS, limit=1).body
    server.same((body["kind"], body["apiVersion"]), ("PartialObjectMetadataList", "meta.k8s.io/v1"))
    server.same(body["metadata"]["remainingItemCount"], 1)
    token = body["metadata"]["continue"]
    rest = server.call("GET", path, accept=PARTIALS, **{"continue": token}).body
    listed = [item["metadata"] for item in body["items"] + rest["items"]]
    server.same(listed, [item["metadata"] for item in whole["items"]])
    server.same(sorted(rest["items"][0]), ["apiVersion", "kind", "metadata"])
    server.same(rest["metadata"]["resourceVersion"], body["metadata"]["resourceVersion"])
    selected = server.call("GET", path, accept=PARTIALS, labelSelector="is=b").body
    server.same([item["metadata"]["name"] for item in selected["items"]], ["b"])


def test_metadata_of_crds_is_small(server: Server) -> None:
    body = server.call("GET", CRDS, accept=PARTIALS).body
    names = [item["metadata"]["name"] for item in body["items"]]
    server.same("subscriptions.operators.coreos.com" in names, True)
    server.same({item["kind"] for item in body["items"]}, {"PartialObjectMetadata"})


def test_a_watch_of_metadata(server: Server, path: str) -> None:
    version = server.version(path)
    changed = server.merge(f"{path}/a", {"spec": {"channel": "x"}}).body
    [event] = server.watch(path, accept=PARTIAL, resourceVersion=version)
    kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    expected = {"type": "MODIFIED", "object": {**kind, "metadata": changed["metadata"]}}
    server.same(event, expected)


def test_a_write_may_be_answered_with_metadata(server: Server, path: str) -> None:
    answer = server.call(
        "PATCH",
        f"{path}/a",
        {"metadata": {"labels": {"new": "1"}}},
        type="application/merge-patch+json",
        accept=PARTIAL,
    )
    server.same((answer.body["kind"], "spec" in answer.body), ("PartialObjectMetadata", False))
    answer = server.call("DELETE", f"{path}/a", accept=PARTIAL)
    server.same(answer.body["kind"], "Status")


def test_a_list_is_no_single_object(server: Server, path: str) -> None:
    answer = server.call("GET", path, accept=PARTIAL)
    text = (
        "you requested PartialObjectMetadata, but the requested object is a list "
        "(*unstructured.UnstructuredList)"
    )
    server.refused(answer, 406, "NotAcceptable", text)


def test_a_client_may_name_what_it_takes_instead(server: Server, path: str) -> None:
    answer = server.call("GET", path, accept=f"{PARTIALS},application/json")
    server.same(answer.body["kind"], "PartialObjectMetadataList")
    unknown = f"application/json;as=Nope{META},application/json"
    server.same(server.call("GET", path, accept=unknown).body["kind"], "SubscriptionList")


# --- tables


def columns(table: Object) -> list[tuple[str, str, str, int]]:
    return [(c["name"], c["type"], c["format"], c["priority"]) for c in table["columnDefinitions"]]


def test_a_table_has_the_crds_columns_and_a_row_each(server: Server, path: str) -> None:
    whole = server.get(path).body
    body = server.call("GET", path, accept=TABLE).body
    server.same(sorted(body), ["apiVersion", "columnDefinitions", "kind", "metadata", "rows"])
    server.same((body["kind"], body["apiVersion"]), ("Table", "meta.k8s.io/v1"))
    server.same(
        columns(body),
        [
            ("Name", "string", "name", 0),
            ("Package", "string", "", 0),
            ("Source", "string", "", 0),
            ("Channel", "string", "", 0),
        ],
    )
    server.same(
        [row["cells"] for row in body["rows"]],
        [["a", "etcd", "catalog", None], ["b", "etcd", "catalog", None]],
    )
    kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    expected = [{**kind, "metadata": item["metadata"]} for item in whole["items"]]
    server.same([row["object"] for row in body["rows"]], expected)
    server.same(body["metadata"], {"resourceVersion": whole["metadata"]["resourceVersion"]})


def test_a_columns_description_is_its_path(server: Server, path: str) -> None:
    body = server.call("GET", path, accept=TABLE).body
    text = "Custom resource definition column (in JSONPath format): .spec.channel"
    server.same(body["columnDefinitions"][3]["description"], text)


def test_a_kind_without_columns_shows_its_age(server: Server, ns: str) -> None:
    path = f"/apis/operators.coreos.com/v1/namespaces/{ns}/operatorgroups"
    body = {
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OperatorGroup",
        "metadata": {"name": "g"},
    }
    server.made(path, body)
    table = server.call("GET", path, accept=TABLE).body
    server.same(columns(table), [("Name", "string", "name", 0), ("Age", "date", "", 0)])
    [row] = table["rows"]
    server.same((row["cells"][0], row["cells"][1][-1]), ("g", "s"))


def test_a_table_pages_like_a_list(server: Server, path: str) -> None:
    body = server.call("GET", path, accept=TABLE, limit=1).body
    server.same((len(body["rows"]), body["metadata"]["remainingItemCount"]), (1, 1))
    token = body["metadata"]["continue"]
    rest = server.call("GET", path, accept=TABLE, **{"continue": token}).body
    server.same([row["cells"][0] for row in rest["rows"]], ["b"])


def test_one_object_is_a_table_of_one_row(server: Server, path: str) -> None:
    item = server.get(f"{path}/b").body
    body = server.call("GET", f"{path}/b", accept=TABLE).body
    server.same([row["cells"][0] for row in body["rows"]], ["b"])
    server.same(body["metadata"], {"resourceVersion": item["metadata"]["resourceVersion"]})


@pytest.mark.parametrize("include", ["None", "Metadata", "Object"])
def test_a_tables_rows_carry_what_is_asked(server: Server, path: str, include: str) -> None:
    whole = server.get(f"{path}/a").body
    kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    expected: dict[str, Any] = {
        "None": None,
        "Metadata": {**kind, "metadata": whole["metadata"]},
        "Object": whole,
    }
    body = server.call("GET", f"{path}/a", accept=TABLE, includeObject=include).body
    server.same(body["rows"][0]["object"], expected[include])


def test_columns_find_conditions_by_type(server: Server, name: str) -> None:
    server.made(EXTENSIONS, extension(name))
    path = f"{EXTENSIONS}/{name}"
    empty = server.call("GET", path, accept=TABLE).body
    server.same([name for name, *_ in columns(empty)], EXTENSION_COLUMNS)
    server.same(empty["rows"][0]["cells"][:5], [name, None, None, None, None])
    status = {
        "conditions": [condition("Progressing"), condition("Installed", status="False")],
        "install": {"bundle": {"name": "etcd.v1.2.3", "version": "1.2.3"}},
    }
    server.merge(f"{path}/status", {"status": status})
    row = server.call("GET", path, accept=TABLE).body["rows"][0]["cells"]
    server.same(row[:5], [name, "etcd.v1.2.3", "1.2.3", "False", "True"])


EXTENSION_COLUMNS = ["Name", "Installed Bundle", "Version", "Installed", "Progressing", "Age"]


def test_columns_may_be_booleans_and_list_items(server: Server, ns: str) -> None:
    path = PLANS.format(ns)
    spec = {"approval": "Manual", "approved": False, "clusterServiceVersionNames": ["a.v1", "b.v1"]}
    plan = {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan"}
    server.made(path, {**plan, "metadata": {"name": "install-1"}, "spec": spec})
    table = server.call("GET", path, accept=TABLE).body
    server.same(table["rows"][0]["cells"], ["install-1", "a.v1", "Manual", False])
    server.same(
        [type_ for _, type_, _, _ in columns(table)], ["string", "string", "string", "boolean"]
    )


CATALOGS = "/apis/olm.operatorframework.io/v1/clustercatalogs"


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (timedelta(seconds=100), "100s"),
        (timedelta(minutes=5, seconds=30), "5m"),
        (timedelta(minutes=90, seconds=30), "90m"),
        (timedelta(hours=5, minutes=20), "5h20m"),
        (timedelta(hours=20, minutes=20), "20h"),
        (timedelta(days=3, hours=4, minutes=9), "3d4h"),
        (timedelta(days=30, hours=4), "30d"),
        (timedelta(days=900), "2y170d"),
        (timedelta(days=365 * 9), "9y"),
    ],
)
def test_dates_are_told_as_ages(server: Server, name: str, age: timedelta, text: str) -> None:
    body = {
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterCatalog",
        "metadata": {"name": name},
        "spec": {"source": {"type": "Image", "image": {"ref": "example.com/c:v1"}}},
    }
    server.made(CATALOGS, body)
    then = (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%SZ")
    server.merge(f"{CATALOGS}/{name}/status", {"status": {"lastUnpacked": then}})
    cells = server.call("GET", f"{CATALOGS}/{name}", accept=TABLE).body["rows"][0]["cells"]
    # Seconds pass between the write and the read.
    server.same(cells[1] in (text, "101s", "102s", "5m31s", "5m32s", "5m30s"), True)


def test_a_date_that_is_absent_is_nothing(server: Server, name: str) -> None:
    body = {
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterCatalog",
        "metadata": {"name": name},
        "spec": {"source": {"type": "Image", "image": {"ref": "example.com/c:v1"}}},
    }
    server.made(CATALOGS, body)
    cells = server.call("GET", f"{CATALOGS}/{name}", accept=TABLE).body["rows"][0]["cells"]
    server.same(cells[:3], [name, None, None])


def test_a_watch_of_tables_has_a_row_an_event(server: Server, path: str) -> None:
    version = server.version(path)
    server.merge(f"{path}/a", {"spec": {"channel": "x"}})
    [event] = server.watch(path, accept=TABLE, resourceVersion=version)
    server.same((event["type"], event["object"]["kind"]), ("MODIFIED", "Table"))
    server.same([row["cells"] for row in event["object"]["rows"]], [["a", "etcd", "catalog", "x"]])


def test_crds_are_a_table_of_names_and_times(server: Server) -> None:
    name = "subscriptions.operators.coreos.com"
    crd = server.get(f"{CRDS}/{name}").body
    table = server.call("GET", f"{CRDS}/{name}", accept=TABLE).body
    server.same(columns(table), [("Name", "string", "name", 0), ("Created At", "date", "", 0)])
    server.same(table["rows"][0]["cells"], [name, crd["metadata"]["creationTimestamp"]])
