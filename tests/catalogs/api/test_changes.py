"""REST of changes: history, one net difference since a revision or time, and comparisons."""

import csv
import io
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from catalogs.api.schemas import CatalogChangeRow, CatalogDifferenceRow
from catalogs.models import Catalog, CatalogChange, CatalogRevision
from olmweb.api import lists
from olmweb.models import Cluster
from tests.factories import make_catalog, make_cluster, make_operator
from tests.worlds.outlines import write_packages
from tests.worlds.rest import lines

pytestmark = pytest.mark.django_db
HISTORY = "catalogs/prod/redhat-operators/changes"
SIDES = {"from": "prod/redhat-operators@1", "to": "prod/redhat-operators"}


@pytest.fixture
def prod() -> Cluster:
    return make_cluster(name="prod")


@pytest.fixture
def catalog(prod: Cluster) -> Catalog:
    found = make_catalog(cluster=prod, revision=0)
    write_packages(found, {"gone": ["1.0.0"], "moved": ["1.0.0", "1.1.0"], "kept": ["1.0.0"]})
    write_packages(found, {"moved": ["1.1.0", "1.2.0"], "kept": ["1.0.0"], "=new|*": ["3.0.0"]})
    return found


EXPECTED = [
    ("package-added", "=new|*", "", "", "=new|*.v3.0.0"),
    ("package-removed", "gone", "", "gone.v1.0.0", ""),
    ("bundle-added", "moved", "moved.v1.2.0", "", "1.2.0"),
    ("bundle-pruned", "moved", "moved.v1.0.0", "1.0.0", ""),
    ("channel-head-moved", "moved", "stable", "moved.v1.1.0", "moved.v1.2.0"),
]
NAMES = ("kind", "package", "subject", "before", "after")


def body_of(response: Any) -> bytes:
    assert response.status_code == 200, response.content
    return b"".join(response.streaming_content) if response.streaming else response.content


def told(items: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [tuple(item[name] for name in NAMES) for item in items]


def test_from_a_revision_is_one_net_difference(catalog: Catalog, get: Any) -> None:
    body = get(HISTORY, {"from": "1"}).json()
    assert list(body) == ["items", "next", "count"]
    assert told(body["items"]) == EXPECTED
    assert (body["count"], body["next"]) == (5, None)
    assert {item["revision"] for item in body["items"]} == {2}
    assert list(body["items"][0]) == list(CatalogChangeRow.__dataclass_fields__)


def test_from_a_time_means_what_was_current_then(catalog: Catalog, get: Any) -> None:
    old = timezone.now() - timedelta(days=9)
    CatalogRevision.objects.filter(number=1).update(created_at=old)
    moment = (timezone.now() - timedelta(days=3)).isoformat()
    assert told(get(HISTORY, {"from": moment}).json()["items"]) == EXPECTED
    assert get(HISTORY, {"from": "2999-01-01"}).json()["items"] == []


def test_without_from_every_change_comes_with_its_revision_and_whom_it_affects(
    catalog: Catalog, prod: Cluster, get: Any
) -> None:
    revision = catalog.revisions.get(number=2)
    CatalogChange.objects.create(revision=revision, kind="package removed", package="gone")
    make_operator(cluster=prod, name="gone")
    (item,) = get(HISTORY).json()["items"]
    assert item["affects"] == ["gone on prod: its package is no longer in the catalog"]
    assert get(HISTORY, {"revision": "1"}).json()["count"] == 0
    assert get(HISTORY, {"revision": "x"}).status_code == 400


def test_two_sides_are_compared_with_the_change_of_each_package(
    catalog: Catalog, prod: Cluster, get: Any
) -> None:
    make_operator(cluster=prod, name="moved", channel="stable")
    items = get("compare", SIDES).json()["items"]
    assert told(items) == EXPECTED
    assert [item["change"] for item in items] == ["added", "removed", *["changed"] * 3]
    assert [len(item["affects"]) for item in items] == [0, 0, 0, 1, 1]
    assert not any(item["affects_if_moved"] for item in items)
    assert list(items[0]) == list(CatalogDifferenceRow.__dataclass_fields__)


def test_between_two_catalogs_the_effects_are_those_of_a_move(
    catalog: Catalog, prod: Cluster, get: Any
) -> None:
    other = make_catalog(name="next", revision=0)
    write_packages(other, {"kept": ["1.0.0"]})
    make_operator(cluster=prod, name="moved", channel="stable")
    sides = {"from": "prod/redhat-operators", "to": "-/next", "package": "moved"}
    (item,) = get("compare", sides).json()["items"]
    sentence = "moved on prod: its package is not in next"
    assert item["affects"] == []
    assert item["affects_if_moved"] == [sentence]
    text = body_of(get("compare", {**sides, "format": "md"})).decode()
    assert f"- **If moved to next**: {sentence}\n" in text
    assert "## moved (only in redhat-operators)\n" in text


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"kind": "package-added"}, 1),
        ({"kind": ["package-added", "bundle-pruned"]}, 2),
        ({"package": "moved"}, 3),
        ({"package": "moved", "kind": "channel-head-moved"}, 1),
        ({"package": "nobody"}, 0),
        ({"package": "kept"}, 0),
    ],
)
@pytest.mark.parametrize("path", [HISTORY, "compare"])
def test_filters_narrow_both(
    catalog: Catalog, get: Any, path: str, query: dict[str, Any], count: int
) -> None:
    asked = {**(SIDES if path == "compare" else {"from": "1"}), **query}
    body = get(path, asked).json()
    assert body["count"] == len(body["items"]) == count


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_walking_the_cursor_gives_the_whole_list_once(
    catalog: Catalog, get: Any, limit: int
) -> None:
    walked: list[dict[str, Any]] = []
    query: dict[str, Any] = {**SIDES, "limit": limit}
    for _ in EXPECTED:
        page = get("compare", query).json()
        assert page["count"] == len(EXPECTED)
        assert 1 <= len(page["items"]) <= limit
        walked += page["items"]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    assert told(walked) == EXPECTED


def test_exports_are_the_whole_comparison(catalog: Catalog, get: Any) -> None:
    response = get("compare", {**SIDES, "format": "csv"})
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(body_of(response).decode())))
    assert len(rows) == len(EXPECTED)
    assert rows[0]["package"] == "'=new|*", "no spreadsheet takes it for a formula"
    assert told(lines(body_of(get("compare", {**SIDES, "format": "ndjson"})))) == EXPECTED
    some = lines(body_of(get(HISTORY, {"from": "1", "format": "ndjson", "fields": "package"})))
    assert some == [{"package": row[1]} for row in EXPECTED]
    assert len(lines(body_of(get("compare", {**SIDES, "format": "ndjson", "limit": 2})))) == 2


def test_markdown_is_for_people_and_no_name_becomes_markup(
    catalog: Catalog, prod: Cluster, get: Any
) -> None:
    make_operator(cluster=prod, name="gone")
    response = get("compare", {**SIDES, "format": "md"})
    assert response["Content-Type"] == "text/markdown; charset=utf-8"
    text = body_of(response).decode()
    assert text.startswith("# From prod/redhat-operators@1 to prod/redhat-operators@2\n")
    assert "## =new\\|\\* (added)\n" in text
    assert "- **Affects you**: gone on prod: its package is no longer in the catalog\n" in text
    assert "- Pruned: moved.v1.0.0\n" in text
    nothing = get("compare", {**SIDES, "from": SIDES["to"], "format": "md"})
    assert "No package differs." in body_of(nothing).decode()


def test_markdown_without_an_account_is_bounded_as_other_exports_are(
    catalog: Catalog, get: Any, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = {**SIDES, "format": "md"}
    monkeypatch.setattr(lists, "PUBLIC_EXPORT", len(EXPECTED))
    whole = body_of(get("compare", query))
    monkeypatch.setattr(lists, "PUBLIC_EXPORT", len(EXPECTED) - 1)
    refused = get("compare", query)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "export-too-large")
    assert body_of(get("compare", query, Authorization=f"Bearer {token}")) == whole


def test_the_same_comparison_is_answered_by_304(
    catalog: Catalog, get: Any, django_assert_max_num_queries: Any
) -> None:
    etag = get("compare", SIDES)["ETag"]
    with django_assert_max_num_queries(8):
        assert get("compare", SIDES, **{"if-none-match": etag}).status_code == 304
    write_packages(catalog, {"moved": ["9.0.0"]})
    assert get("compare", SIDES, **{"if-none-match": etag}).status_code == 200
    etag = get(HISTORY, {"from": "1"})["ETag"]
    Cluster.objects.update(revision=77)
    assert get(HISTORY, {"from": "1"}, **{"if-none-match": etag}).status_code == 200, (
        "what is installed may have changed, and so whom it affects"
    )


@pytest.mark.parametrize(
    ("path", "query", "status", "field", "words"),
    [
        ("compare", {"to": "-/x"}, 400, "from", "from is needed"),
        ("compare", {**SIDES, "to": "x"}, 400, "to", "names no catalog"),
        ("compare", {**SIDES, "to": "-/x"}, 404, "to", "There is no catalog “x” outside"),
        ("compare", {**SIDES, "to": "prod/redhat-operators@9"}, 404, "to", "is not stored"),
        ("compare", {**SIDES, "kind": "x"}, 400, "kind", "kind must be one of"),
        ("compare", {**SIDES, "more": "x"}, 400, "more", 'no query parameter "more"'),
        ("compare", {**SIDES, "package": ""}, 400, "package", "package is empty"),
        ("compare", {**SIDES, "from": ["-/a", "-/b"]}, 400, "from", "from is given 2 times"),
        (
            "compare",
            {**SIDES, "format": "xml"},
            400,
            "format",
            "must be one of json, ndjson, csv",
        ),
        ("compare", {**SIDES, "limit": "0"}, 400, "limit", "limit must be"),
        ("compare", {**SIDES, "fields": "x"}, 400, "fields", "which is not one of"),
        ("compare", {**SIDES, "cursor": "x"}, 400, "cursor", "not one of this list"),
        (HISTORY, {"from": "soon"}, 400, "from", "the number of a revision or a time"),
        (HISTORY, {"from": "9"}, 404, "", "Revision 9 of catalog"),
    ],
)
def test_what_can_not_be_read_is_refused_in_a_sentence(
    catalog: Catalog,
    get: Any,
    path: str,
    query: dict[str, Any],
    status: int,
    field: str,
    words: str,
) -> None:
    response = get(path, query)
    error = response.json()["error"]
    assert (response.status_code, words in error["message"]) == (status, True), error
    assert set(error["fields"]) == ({field} if field else set())
    assert status != 400 or error["code"] in ("bad-parameter", "unknown-parameter")


def test_a_cursor_is_good_for_its_own_comparison_only(catalog: Catalog, get: Any) -> None:
    cursor = get("compare", {**SIDES, "limit": 1}).json()["next"]
    other = get("compare", {**SIDES, "kind": "bundle-added", "cursor": cursor})
    assert "not one of this list" in other.json()["error"]["message"]


def test_both_are_documented_with_their_own_parameters(catalog: Catalog, get: Any) -> None:
    paths = get("openapi.json").json()["paths"]
    history = paths["/api/v1/catalogs/{cluster}/{catalog}/changes"]["get"]["parameters"]
    names = [one["name"] for one in history]
    assert {"from", "since", "until", "kind", "package", "revision", "cursor", "format"} <= set(
        names
    )
    assert len(names) == len(set(names))
    compare = paths["/api/v1/compare"]["get"]["parameters"]
    assert {"from", "to", "kind", "package", "limit"} <= {one["name"] for one in compare}
    changes, differences = (
        {*row.__dataclass_fields__} for row in (CatalogChangeRow, CatalogDifferenceRow)
    )
    assert changes - differences == {"revision", "created_at"}


def test_comparing_needs_a_token_unless_reading_is_public(client: Any, catalog: Catalog) -> None:
    assert client.get("/api/v1/compare", SIDES).status_code == 401
