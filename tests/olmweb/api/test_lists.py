"""What every list can do, and each filter by itself."""

import csv
import dataclasses
import io
import json
import re
from typing import Any

import pytest
from django.core.signals import request_finished
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from catalogs.models import Catalog
from installs.api.schemas import OperatorRow
from olmweb.api import lists, routes
from olmweb.api.lists import CONTROLS
from olmweb.models import Cluster
from tests.factories import make_operator, make_package
from tests.worlds.rest import EVERYTHING, LISTS, ROOT, World, lines
from tests.worlds.rest_fixtures import Get


def read_lists() -> tuple[dict[str, tuple[str, ...]], dict[str, set[str]]]:
    """The fields of a row and the filters of each list, by the OpenAPI document."""
    document = routes.openapi_document()
    fields, filters = {}, {}
    for name, path in LISTS.items():
        path = re.sub("/prod/redhat-operators/", "/{cluster}/{catalog}/", ROOT + path)
        operation = document["paths"][path]["get"]
        answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
        page = document["components"]["schemas"][answer["$ref"].rpartition("/")[2]]
        row = page["properties"]["items"]["items"]["$ref"].rpartition("/")[2]
        fields[name] = tuple(document["components"]["schemas"][row]["properties"])
        names = {item["name"] for item in operation["parameters"] if item["in"] == "query"}
        filters[name] = names - {*CONTROLS}
    return fields, filters


SIZES = {
    "status": 2, "clusters": 2, "catalogs": 3, "problems": 2, "changes": 28, "packages": 8,
    "bundles": 16, "operators": 4, "clusteroperators": 2, "crds": 2, "transitions": 7, "actions": 2,
    "requests": 2, "events": 3, "leftovers": 1, "unknown-messages": 1, "tokens": 1,
    "bulk-installs": 1, "catalog-troubles": 0, "readiness": 0, "migrations": 0,
}  # fmt: skip
QUERIES = {
    "status": 12, "packages": 6, "bulk-installs": 5, "leftovers": 11, "catalog-troubles": 9,
    "migrations": 10, "readiness": 16,
}  # fmt: skip
every_list = pytest.mark.parametrize("name", LISTS)
every_long_list = pytest.mark.parametrize("name", [name for name in LISTS if SIZES[name] > 1])


def body_of(response: Any) -> bytes:
    assert response.status_code == 200, response.content
    return b"".join(response.streaming_content) if response.streaming else response.content


def test_every_list_is_tested_here() -> None:
    assert set(LISTS) == set(SIZES)


@every_list
def test_a_list_answers_items_next_and_count(world: World, get: Get, name: str) -> None:
    body = get(LISTS[name]).json()
    assert list(body)[:3] == ["items", "next", "count"]
    assert body["next"] is None
    assert len(body["items"]) == body["count"] == SIZES[name]
    for item in body["items"][:1]:
        assert list(item) == list(read_lists()[0][name])


@every_list
@pytest.mark.parametrize("limit", [1, 3])
def test_walking_the_cursor_gives_the_whole_list_once(
    world: World, get: Get, name: str, limit: int
) -> None:
    whole = get(LISTS[name]).json()["items"]
    walked: list[Any] = []
    query: dict[str, Any] = {"limit": limit}
    for _ in range(SIZES[name] + 1):
        page = get(LISTS[name], query).json()
        assert page["count"] == SIZES[name]
        assert min(1, SIZES[name]) <= len(page["items"]) <= limit
        walked += page["items"]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    assert walked == whole


@every_list
@pytest.mark.parametrize("chunk", [1, 1000])
def test_ndjson_holds_the_whole_list_a_line_an_item(
    world: World, get: Get, monkeypatch: pytest.MonkeyPatch, name: str, chunk: int
) -> None:
    monkeypatch.setattr(lists, "CHUNK", chunk)
    response = get(LISTS[name], {"format": "ndjson"})
    assert response.streaming
    assert response["Content-Type"] == "application/x-ndjson"
    assert lines(body_of(response)) == get(LISTS[name]).json()["items"]


@every_list
def test_csv_holds_the_whole_list_a_row_an_item(
    world: World, get: Get, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(lists, "CHUNK", 2)
    response = get(LISTS[name], {"format": "csv"})
    assert response.streaming
    assert f'filename="{name}.csv"' in response["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(body_of(response).decode(), newline="")))
    items = get(LISTS[name]).json()["items"]
    assert len(rows) == len(items)
    for row, item in zip(rows[:1], items, strict=False):
        assert list(row) == list(item)
    for row, item in zip(rows, items, strict=True):
        for field, value in item.items():
            if isinstance(value, dict | list):
                assert json.loads(row[field]) == value
            if isinstance(value, str):
                assert row[field].removeprefix("'") == value
            assert not row[field].startswith(("=", "+", "-", "@"))


@every_list
@pytest.mark.parametrize(
    ("accept", "form"),
    [("text/csv", "csv"), ("application/x-ndjson", "ndjson"), ("*/*", "json"),
     ("text/csv;q=0.5, application/json", "json"), ("text/html, */*;q=0.8", "json")],
)  # fmt: skip
def test_the_accept_header_chooses_the_format(
    world: World, get: Get, name: str, accept: str, form: str
) -> None:
    answer, explicit = get(LISTS[name], accept=accept), get(LISTS[name], {"format": form})
    assert answer["Content-Type"] == explicit["Content-Type"]
    assert body_of(answer) == body_of(explicit)
    assert "Accept" in answer["Vary"].split(", ")
    if form != "json":
        assert get(LISTS[name], accept="application/json")["ETag"] != answer["ETag"]
        assert get(LISTS[name], {"format": "json"}, accept=accept).status_code == 406


@pytest.mark.parametrize("path", EVERYTHING.values(), ids=EVERYTHING)
def test_head_answers_the_headers_of_get(
    world: World, client: Client, token: str, path: str
) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    whole = client.get(ROOT + path, headers=headers)
    head = client.head(ROOT + path, headers=headers)
    assert body_of(head) == b""
    for header in ("Content-Type", "ETag", "Cache-Control", "Content-Length"):
        assert head.headers.get(header) == whole.headers.get(header)


@pytest.mark.parametrize("path", ["operators", "operators?format=csv"])
def test_head_ends_a_request_once(world: World, client: Client, token: str, path: str) -> None:
    """Its end closes the connection to the database."""
    ended: list[object] = []

    def count(sender: object, **_: object) -> None:
        ended.append(sender)

    request_finished.connect(count)
    try:
        body_of(client.head(ROOT + path, headers={"Authorization": f"Bearer {token}"}))
    finally:
        request_finished.disconnect(count)
    assert len(ended) == 1


@pytest.mark.parametrize(
    ("value", "cell"),
    [("=1+1", "'=1+1"), ("+1", "'+1"), ("-1", "'-1"), ("@x", "'@x"), ("\tx", "'\tx"),
     ("a=b", "a=b"), (-1, "-1"), (None, ""), (True, "true"), (["=x"], '["=x"]')],
)  # fmt: skip
def test_no_cell_of_text_is_taken_for_a_formula(value: object, cell: str) -> None:
    from olmweb.api.formats import csv_cell

    assert csv_cell(value) == cell


@every_long_list
@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_limit_and_cursor_hold_for_exports_too(
    world: World, get: Get, name: str, form: str
) -> None:
    first = get(LISTS[name], {"limit": 1}).json()
    whole = get(LISTS[name]).json()["items"]
    rest = get(LISTS[name], {"cursor": first["next"], "format": "ndjson"})
    assert lines(body_of(rest)) == whole[1:]
    header = 1 if form == "csv" else 0
    capped = body_of(get(LISTS[name], {"limit": 1, "format": form})).decode()
    assert len(list(csv.reader(io.StringIO(capped)))) == 1 + header


@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_an_export_without_an_account_is_bounded(
    world: World, get: Get, token: str, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    whole = body_of(get("operators", {"format": form}))
    monkeypatch.setattr(lists, "PUBLIC_EXPORT", SIZES["operators"])
    assert body_of(get("operators", {"format": form})) == whole
    monkeypatch.setattr(lists, "PUBLIC_EXPORT", SIZES["operators"] - 1)
    refused = get("operators", {"format": form})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "export-too-large")
    assert get("operators", {"format": form, "limit": 2}).status_code == 200
    signed_in = get("operators", {"format": form}, Authorization=f"Bearer {token}")
    assert body_of(signed_in) == whole


@every_list
def test_fields_picks_columns_in_the_order_asked(world: World, get: Get, name: str) -> None:
    fields = read_lists()[0][name]
    last, first = fields[-1], fields[0]
    items = get(LISTS[name], {"fields": f"{last},{first}"}).json()["items"]
    assert all(list(item) == [last, first] for item in items)
    header = body_of(get(LISTS[name], {"fields": last, "format": "csv"})).splitlines()[0]
    assert header.decode() == last


@every_list
def test_if_none_match_gives_304_without_reading_a_row(world: World, get: Get, name: str) -> None:
    answer = get(LISTS[name])
    with CaptureQueriesContext(
        connection,
    ) as queries:
        again = get(LISTS[name], if_none_match=answer["ETag"])
    assert again.status_code == 304
    assert again.content == b""
    assert again["ETag"] == answer["ETag"]
    assert len(queries) <= 3
    assert get(LISTS[name], {"limit": 1})["ETag"] != answer["ETag"]
    assert get(LISTS[name], {"limit": 1}, if_none_match=answer["ETag"]).status_code == 200
    assert get(LISTS[name], if_none_match="*").status_code == 304
    assert get(LISTS[name], if_none_match=answer["ETag"].removeprefix("W/")).status_code == 304


@pytest.mark.parametrize("name", ["operators", "clusteroperators", "transitions", "status"])
def test_a_change_of_the_cluster_changes_the_etag(world: World, get: Get, name: str) -> None:
    before = get(LISTS[name])["ETag"]
    Cluster.objects.filter(pk=world.prod.pk).update(revision=77)
    assert get(LISTS[name])["ETag"] != before


@pytest.mark.parametrize("name", ["packages", "bundles", "problems", "changes", "catalogs"])
def test_a_new_revision_of_the_catalog_changes_the_etag(world: World, get: Get, name: str) -> None:
    before = get(LISTS[name])["ETag"]
    Catalog.objects.update(revision=77)
    assert get(LISTS[name])["ETag"] != before


@every_list
def test_a_list_costs_the_same_few_queries_however_long_it_is(
    world: World, get: Get, name: str
) -> None:
    get(LISTS[name])
    with CaptureQueriesContext(connection) as before:
        get(LISTS[name])
    red = Catalog.objects.get(slug="redhat-operators")
    for number in range(5):
        make_package(name=f"more-{number}", catalog=red)
        make_operator(cluster=world.prod, name=f"more-{number}", finding="deprecated-entry")
        Cluster.objects.create(name=f"more-{number}")
    with CaptureQueriesContext(connection) as after:
        get(LISTS[name])
    assert len(after) == len(before)
    assert len(after) <= QUERIES.get(name, 4)


FILTERS: list[tuple[str, dict[str, Any], int]] = [
    ("status", {"cluster": "prod"}, 1),
    ("catalogs", {"cluster": "-"}, 1),
    ("catalogs", {"cluster": "edge"}, 1),
    ("catalogs", {"state": "failed"}, 0),
    ("problems", {"severity": "warning"}, 1),
    ("problems", {"package": "etcd"}, 1),
    ("problems", {"subject": "stable"}, 0),
    ("problems", {"code": "no-head"}, 2),
    ("changes", {"kind": "package-added"}, 2),
    ("changes", {"package": "nothing"}, 0),
    ("changes", {"revision": "2"}, 14),
    ("changes", {"since": "2001-01-01", "until": "2999-01-01"}, 28),
    ("changes", {"since": "2999-01-01"}, 0),
    ("packages", {"cluster": "prod"}, 5),
    ("packages", {"cluster": "-"}, 1),
    ("packages", {"cluster": ["-", "edge"]}, 3),
    ("packages", {"catalog": "edge/community-operators"}, 2),
    ("packages", {"q": "etcd"}, 3),
    ("packages", {"q": "ETCD cncf"}, 1),
    ("packages", {"q": "100%"}, 0),
    ("packages", {"q": "ectd"}, 3),
    ("packages", {"q": "provides:EtcdCluster"}, 1),
    ("packages", {"q": "image:registry.example/etcd:1"}, 3),
    ("packages", {"q": ["grafana", "argocd"]}, 2),
    ("packages", {"provides": "etcd.database.coreos.com/EtcdCluster"}, 1),
    ("packages", {"provides": "etcdcluster"}, 0),
    ("packages", {"infrastructure_feature": "disconnected"}, 0),
    ("packages", {"category": "Big Data"}, 1),
    ("packages", {"category": "Big"}, 0),
    ("packages", {"keyword": 'quo"te'}, 1),
    ("packages", {"capability": "Full Lifecycle"}, 1),
    ("packages", {"provider": "CNCF"}, 1),
    ("packages", {"install_mode": "OwnNamespace"}, 2),
    ("packages", {"installable": "subscription"}, 1),
    ("packages", {"deprecated": "true"}, 1),
    ("packages", {"deprecated": "false"}, 7),
    ("packages", {"installed": "true"}, 2),
    ("packages", {"installed": "false"}, 6),
    ("packages", {"installed": "true", "cluster": "edge"}, 1),
    ("packages", {"catalogs": "several"}, 3),
    ("packages", {"catalogs": ["several", "single"]}, 8),
    ("packages", {"versions": "2"}, 8),
    ("packages", {"versions": ["3-or-more", "1"]}, 0),
    ("packages", {"upgrade_path": "direct"}, 8),
    ("packages", {"upgrade_path": ["intermediate", "none"]}, 0),
    ("bundles", {"catalog": "prod/redhat-operators", "package": "etcd"}, 2),
    ("bundles", {"channel": "alpha"}, 1),
    ("bundles", {"channel": "stable", "package": "etcd", "cluster": "prod"}, 2),
    ("bundles", {"version": "1.0.0"}, 8),
    ("bundles", {"provides": "etcd.database.coreos.com/EtcdCluster"}, 1),
    ("bundles", {"provides": "monitoring.coreos.com/ServiceMonitor"}, 0),
    ("bundles", {"cluster": "-"}, 2),
    ("bundles", {"image": "registry.example/etcd:1"}, 1),
    ("bundles", {"image": "registry.example/etcd"}, 6),
    ("bundles", {"image": "0" * 64}, 16),
    ("bundles", {"image": "f" * 64}, 0),
    ("operators", {"cluster": "edge"}, 1),
    ("operators", {"kind": "ClusterExtension"}, 1),
    ("operators", {"namespace": "argo"}, 1),
    ("operators", {"namespace": "-"}, 3),
    ("operators", {"health": "Failed"}, 1),
    ("operators", {"health": ["Failed", "Blocked"]}, 2),
    ("operators", {"reason": "InstallFailed"}, 1),
    ("operators", {"finding": "an-id-nobody-knows"}, 1),
    ("operators", {"finding": "-"}, 2),
    ("operators", {"package": "etcd"}, 1),
    ("operators", {"q": "convert"}, 1),
    ("operators", {"upgrade": "true"}, 0),
    ("operators", {"upgrade": "false"}, 4),
    ("operators", {"catalog": "-"}, 4),
    ("operators", {"catalog": "prod/nothing"}, 0),
    ("operators", {"version": "-"}, 0),
    ("operators", {"version": "1.0.0"}, 4),
    ("operators", {"version": "9.9.9"}, 0),
    ("operators", {"since": "2999-01-01"}, 0),
    ("operators", {"until": "2999-01-01"}, 4),
    ("operators", {"until": "2001-01-01"}, 0),
    ("operators", {"since": "2001-01-01"}, 4),
    ("crds", {"cluster": "edge"}, 0),
    ("crds", {"finding": "-"}, 1),
    ("crds", {"problem": "true"}, 1),
    ("crds", {"problem": "false"}, 1),
    ("crds", {"q": "widget example"}, 1),
    ("clusteroperators", {"cluster": "edge"}, 0),
    ("clusteroperators", {"q": "aggregated"}, 1),
    ("transitions", {"name": "etcd", "kind": "PlatformOperator", "cluster": "prod"}, 7),
    ("transitions", {"kind": "ClusterExtension"}, 0),
    ("transitions", {"namespace": "argo"}, 0),
    ("transitions", {"namespace": "-"}, 7),
    ("transitions", {"type": "Installed"}, 7),
    ("transitions", {"since": "2999-01-01"}, 0),
    ("transitions", {"until": "2999-01-01"}, 7),
    ("transitions", {"until": "2001-01-01"}, 0),
    ("transitions", {"since": "2001-01-01T00:00:00+02:00"}, 7),
    ("actions", {"state": "succeeded"}, 2),
    ("actions", {"cluster": "edge"}, 0),
    ("actions", {"verb": "install"}, 2),
    ("actions", {"verb": "remove"}, 0),
    ("actions", {"package": "etcd"}, 2),
    ("actions", {"user": "nobody"}, 0),
    ("actions", {"since": "2999-01-01"}, 0),
    ("actions", {"until": "2999-01-01"}, 2),
    ("actions", {"until": "2001-01-01"}, 0),
    ("actions", {"since": "2001-01-01"}, 2),
    ("requests", {"since": "2999-01-01"}, 0),
    ("requests", {"until": "2999-01-01"}, 2),
    ("requests", {"until": "2001-01-01"}, 0),
    ("requests", {"since": "2001-01-01"}, 2),
    ("requests", {"cluster": "edge"}, 0),
    ("requests", {"package": "etcd"}, 2),
    ("requests", {"state": "declined"}, 1),
    ("requests", {"user": "nobody"}, 0),
    ("events", {"type": "operator.deleted"}, 1),
    ("events", {"cluster": "prod"}, 2),
    ("events", {"since": "2999-01-01"}, 0),
    ("events", {"until": "2999-01-01"}, 3),
    ("events", {"until": "2001-01-01"}, 0),
    ("events", {"after": 1}, 2),
    ("leftovers", {"cluster": "prod"}, 1),
    ("leftovers", {"cluster": "edge"}, 0),
    ("catalog-troubles", {"cluster": "prod"}, 0),
    ("unknown-messages", {"kind": "Subscription"}, 1),
    ("unknown-messages", {"kind": "PlatformOperator"}, 0),
    ("bulk-installs", {"cluster": "edge"}, 0),
    ("bulk-installs", {"verb": "install"}, 1),
    ("bulk-installs", {"verb": "migrate"}, 0),
    ("bulk-installs", {"user": "nobody"}, 0),
    ("bulk-installs", {"since": "2999-01-01"}, 0),
    ("bulk-installs", {"until": "2999-01-01"}, 1),
    # Their rows are tested in tests/installs/readiness.
    ("readiness", {"cluster": "prod", "severity": "blocks", "q": "x"}, 0),
    ("readiness", {"code": "max-openshift"}, 0),
    ("readiness", {"next_catalog": "prod/redhat-operators"}, 2),
    ("migrations", {"cluster": "prod", "verdict": "ready", "q": "x"}, 0),
]


@pytest.mark.parametrize(("name", "query", "count"), FILTERS)
def test_a_filter_keeps_what_it_says(
    world: World, get: Get, name: str, query: dict[str, Any], count: int
) -> None:
    body = get(LISTS[name], query).json()
    assert body["count"] == len(body["items"]) == count
    assert len(lines(body_of(get(LISTS[name], {**query, "format": "ndjson"})))) == count


def test_every_filter_is_tested_above() -> None:
    declared = {(name, item) for name, filters in read_lists()[1].items() for item in filters}
    declared -= {("operators", "sort"), ("actions", "sort")}  # no filter
    declared -= {("changes", "from")}  # another list: tests of changes
    assert {(name, item) for name, query, _ in FILTERS for item in query} == declared


def test_installed_says_whether_the_package_is_on_its_own_cluster(world: World, get: Get) -> None:
    items = get("packages", {"installed": "true"}).json()["items"]
    assert {(item["cluster"], item["package"]) for item in items} == {
        ("prod", "argocd"),
        ("edge", "grafana"),
    }  # fmt: skip - etcd was asked for, but failed
    assert all(item["installed"] for item in items)
    others = get("packages", {"installed": "false"}).json()["items"]
    assert not any(item["installed"] for item in others)


def test_the_fields_of_a_row_are_the_interface() -> None:
    assert tuple(field.name for field in dataclasses.fields(OperatorRow)) == (
        "cluster", "kind", "namespace", "name", "package", "catalog", "catalog_url",
        "catalog_name", "channel", "version", "bundle", "health", "reason", "message", "finding",
        "health_since", "observed_at", "deprecated", "upgrade", "upgrade_held",
    )  # fmt: skip
