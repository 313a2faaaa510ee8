"""GET /api/v1/events: the list, the head of a stream, and what is refused."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from olmweb.api.routes import openapi_document
from olmweb.eventlog.read import Follow, Selection
from olmweb.eventlog.record import publish
from olmweb.eventlog.types import DATA_TYPES, EventType
from olmweb.models import ChangeEvent, Cluster, EventCounter
from tests.factories import make_cluster

pytestmark = pytest.mark.django_db
STREAM = {"Accept": "text/event-stream"}
NOW = timezone.now()


@pytest.fixture
def reader(client: Client, bob: Any) -> Client:
    client.force_login(bob)
    return client


@pytest.fixture
def events(db: None) -> None:
    """Six events, an hour apart, of two clusters and a catalog without one."""
    clusters = [make_cluster(name=name) for name in ("prod", "edge")]
    of: list[tuple[str, Cluster | None]] = [
        ("operator.health", clusters[0]),
        ("operator.condition", clusters[1]),
        ("catalog.revision", None),
        ("operator.health", clusters[1]),
        ("cluster.unreachable", clusters[0]),
        ("operator.health", clusters[0]),
    ]
    for number, (type_, cluster) in enumerate(of):
        ChangeEvent.objects.create(
            type=type_, at=NOW - timedelta(hours=10 - number), cluster=cluster, kind="Kind",
            name=f"n{number + 1}", data={"reason": "r"},
        )  # fmt: skip
    publish()


def get(reader: Client, query: str = "", **headers: str) -> Any:
    return reader.get(f"/api/v1/events{query}", headers=headers)


def ids(reader: Client, query: str = "") -> list[int]:
    return [item["id"] for item in get(reader, query).json()["items"]]


def time(hours: float) -> str:
    return (NOW - timedelta(hours=hours)).isoformat().replace("+00:00", "Z")


def test_the_list_is_oldest_first_and_names_the_object(reader: Client, events: None) -> None:
    body = get(reader).json()
    assert [item["id"] for item in body["items"]] == [1, 2, 3, 4, 5, 6]
    assert body["items"][0] == {
        "id": 1, "type": "operator.health", "happened_at": time(10), "cluster": "prod",
        "kind": "Kind", "namespace": "", "name": "n1", "catalog": "", "data": {"reason": "r"},
    }  # fmt: skip
    assert body["items"][2]["cluster"] is None


def test_filters_narrow_the_list(reader: Client, events: None) -> None:
    assert ids(reader, "?type=operator.health") == [1, 4, 6]
    assert ids(reader, "?type=operator.health&type=cluster.unreachable&cluster=prod") == [1, 5, 6]
    assert ids(reader, f"?since={time(8)}") == [3, 4, 5, 6]
    assert ids(reader, f"?since={time(8)}&until={time(6)}") == [3, 4]
    assert ids(reader, "?after=4") == [5, 6]
    assert ids(reader, "?after=6") == []


def test_a_cursor_walks_the_list_while_it_grows(reader: Client, events: None) -> None:
    first = get(reader, "?limit=4").json()
    ChangeEvent.objects.create(type="operator.deleted", at=NOW, kind="Kind", name="n7")
    publish()
    second = get(reader, f"?limit=4&cursor={first['next']}").json()
    assert [item["id"] for item in first["items"] + second["items"]] == [1, 2, 3, 4, 5, 6, 7]
    assert second["next"] is None


def test_an_event_that_is_not_published_is_in_no_list(reader: Client, events: None) -> None:
    before = get(reader)
    ChangeEvent.objects.create(type="operator.deleted", at=NOW, kind="Kind", name="n7")
    assert get(reader).json()["count"] == 6
    assert get(reader, **{"If-None-Match": before["ETag"]}).status_code == 304
    publish()
    assert get(reader, **{"If-None-Match": before["ETag"]}).json()["count"] == 7


def test_lists_leave_as_lines_and_as_a_table(reader: Client, events: None) -> None:
    lines = b"".join(get(reader, "?format=ndjson&after=4")).decode().splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["n5", "n6"]
    table = b"".join(get(reader, "?format=csv&fields=id,type")).decode().splitlines()
    assert table[:2] == ["id,type", "1,operator.health"]


def test_the_number_of_queries_does_not_grow_with_the_page(reader: Client, events: None) -> None:
    def queries(limit: int) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert get(reader, f"?limit={limit}").status_code == 200
        return len(captured)

    assert queries(1) == queries(6)


def follow(reader: Client, query: str = "", **headers: str) -> Follow:
    response = get(reader, query, **STREAM, **headers)
    assert response.status_code == 200, response.content
    assert response["Content-Type"] == "text/event-stream"
    assert response.content == b"retry: 3000\n\n"
    return Follow.decode(response["Olmweb-Follow"])


def test_a_stream_begins_now_or_where_it_is_told(reader: Client, events: None) -> None:
    everything = Selection()
    assert follow(reader) == Follow(6, everything)
    assert follow(reader, "?after=2") == Follow(2, everything)
    # The address of a client that connects again is still that of its first request.
    assert follow(reader, "?after=2", **{"Last-Event-ID": "5"}) == Follow(5, everything)
    since = follow(reader, f"?since={time(8)}&type=operator.health&cluster=edge")
    assert (since.after, since.selection.types, since.selection.clusters) == (
        2, ("operator.health",), ("edge",),
    )  # fmt: skip
    assert since.selection.since == NOW - timedelta(hours=8)
    assert follow(reader, f"?since={time(0)}").after == 6


@pytest.mark.parametrize("query", ["?limit=5", "?cursor=x", "?fields=id", "?until=2026-01-01"])
def test_a_stream_refuses_the_parameters_of_lists(reader: Client, events: None, query: str) -> None:
    response = get(reader, query, **STREAM)
    assert response.status_code == 400
    assert list(response.json()["error"]["fields"]) == [query[1:].partition("=")[0]]


def test_events_that_were_deleted_are_refused_with_410(reader: Client, events: None) -> None:
    ChangeEvent.objects.filter(position__lte=3).delete()
    EventCounter.objects.update(pruned=3)
    for query, headers in (("?after=2", {}), ("?after=2", STREAM), ("", {**STREAM, "Last-Event-ID": "2"})):  # fmt: skip  # noqa: E501
        response = get(reader, query, **headers)
        assert (response.status_code, response.json()["error"]["code"]) == (410, "events-expired")
    assert follow(reader, "?after=3").after == 3
    assert ids(reader, "?after=3") == [4, 5, 6]


@pytest.mark.parametrize("last", ["x", "-1", "7", "9" * 5000, "1" * 16, "²"])
def test_a_last_id_that_is_none_of_the_log_is_refused(
    reader: Client, events: None, last: str
) -> None:
    response = get(reader, **STREAM, **{"Last-Event-ID": last})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "bad-parameter")


def test_an_unknown_type_is_refused_and_an_unknown_cluster_has_no_events(
    reader: Client, events: None
) -> None:
    assert get(reader, "?type=operator.exploded").status_code == 400
    assert ids(reader, "?cluster=nowhere") == []


def test_the_log_is_not_public(client: Client, settings: Any) -> None:
    settings.PUBLIC_READ = True
    assert get(client).status_code == get(client, **STREAM).status_code == 401


def test_every_type_has_data_and_is_in_the_document() -> None:
    assert set(DATA_TYPES) == set(EventType)
    document = openapi_document()
    operation = document["paths"]["/api/v1/events"]["get"]
    assert set(operation["responses"]["200"]["content"]) == {
        *("application/json", "application/x-ndjson", "text/csv", "text/event-stream")
    }
    names = {parameter["name"] for parameter in operation["parameters"]}
    assert {"type", "cluster", "since", "until", "after", "limit", "Last-Event-ID"} <= names
    data = document["components"]["schemas"]["Event"]["properties"]["data"]
    named = {option["$ref"].rpartition("/")[2] for option in data["anyOf"]}
    assert named == {data_type.__name__ for data_type in DATA_TYPES.values()}
