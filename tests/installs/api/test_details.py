"""Details, authentication, the OpenAPI document and its page."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern
from django.utils import timezone

from catalogs.models import Bundle, Catalog, Prediction, PredictionRun
from olmweb.api import routes
from olmweb.models import ApiToken
from tests.factories import make_prediction
from tests.worlds.rest import BLOB, DETAILS, EVERYTHING, LISTS, MESSAGE, ROOT, World
from tests.worlds.rest_fixtures import Get


def test_the_original_blob_comes_back_byte_for_byte(world: World, get: Get) -> None:
    response = get(DETAILS["fbc"])
    assert response.content == BLOB
    assert response["Content-Type"] == "application/json"
    assert get(DETAILS["fbc"], if_none_match=response["ETag"]).status_code == 304
    assert get(DETAILS["bundle"]).json()["fbc"] == ROOT + DETAILS["fbc"]


def test_a_bundle_tells_what_it_provides_needs_and_pulls(world: World, get: Get) -> None:
    bundle = get(DETAILS["bundle"]).json()
    assert bundle["channels"] == ["alpha", "stable"]
    assert bundle["provides"] == [
        {"group": "etcd.database.coreos.com", "version": "v1beta2", "kind": "EtcdCluster"}
    ]
    assert [gvk["kind"] for gvk in bundle["requires"]] == ["ServiceMonitor"]
    assert bundle["related_images"] == [
        {"name": "", "image": "registry.example/etcd:1"}, {"name": "etcd", "image": ""}
    ]  # fmt: skip


def test_a_package_tells_its_channels_and_their_entries(world: World, get: Get) -> None:
    package = get(DETAILS["package"]).json()
    stable = next(one for one in package["channels"] if one["channel"] == "stable")
    assert stable["default"]
    assert stable["head"] == "etcd.v1.1.0"
    assert [entry["replaces"] for entry in stable["entries"]] == ["", "etcd.v1.0.0"]
    assert package["icon"].startswith("/icons/")
    assert package["installed"] is False  # it was asked for, but failed


def test_a_catalog_tells_its_newest_revisions(world: World, get: Get) -> None:
    catalog = get(DETAILS["catalog"]).json()
    assert [one["revision"] for one in catalog["revisions"]] == [2, 1]
    assert get(DETAILS["local catalog"]).json()["cluster"] == "-"


def test_an_operator_tells_cause_chain_and_what_changed(world: World, get: Get) -> None:
    operator = get(DETAILS["operator"]).json()
    assert operator["finding"]["id"] == "allnamespaces-required"
    assert "kubectl delete platformoperator etcd" in operator["finding"]["remedy"]
    assert operator["finding"]["retryable"] is False
    assert operator["conditions"][0]["message"] == MESSAGE
    assert [(one["kind"], one["name"]) for one in operator["chain"]] == [
        ("PlatformOperator", "etcd"), ("BundleDeployment", "etcd")
    ]  # fmt: skip
    assert sum(one["first_broken"] for one in operator["chain"]) == 1
    assert [one["reason"] for one in operator["events"]] == ["Reconciled"]
    assert operator["requirements"] == operator["notes"] == []
    assert operator["approval"] is None
    assert len(operator["transitions"]) == 7


def test_a_finding_of_another_release_keeps_its_id(world: World, get: Get) -> None:
    finding = get("operators/prod/PlatformOperator/-/old").json()["finding"]
    assert finding["id"] == finding["title"] == "an-id-nobody-knows"


def test_the_aggregated_clusteroperator_names_its_members(world: World, get: Get) -> None:
    row = get(DETAILS["clusteroperator"]).json()
    etcd, gone = row["members"]
    assert etcd["operator"]["health"] == "Failed"
    assert etcd["finding"]["id"] == "allnamespaces-required"
    assert gone == {"name": "gone", "reason": "InstallFailed", "operator": None, "finding": None}
    assert row["problem"] == "They disagree."
    assert row["blocks"] == (
        "It blocks the completion of a cluster installation and the completion of a running update."
    )
    assert row["age"] == ""


def test_status_counts_per_cluster(world: World, get: Get) -> None:
    edge, prod = get("status").json()["items"]
    assert (edge["cluster"], prod["cluster"]) == ("edge", "prod")
    assert prod["operators"]["Failed"] == prod["operators"]["Blocked"] == 1
    assert prod["operators"]["Installing"] == 0
    assert sum(edge["operators"].values()) == 1
    assert prod["clusteroperators"] == {
        "total": 2, "available": 1, "progressing": 0, "degraded": 1
    }  # fmt: skip
    assert prod["catalogs"]["serving"] == 1
    assert prod["watched_resources"] == {
        "watching": 0, "listed": 1, "retrying": 0, "absent": 0, "forbidden": 0
    }  # fmt: skip
    assert prod["crds"] == {"total": 2, "problems": 1}
    assert (prod["upgrades"], prod["approvals"], edge["upgrades"]) == (0, 0, 0)
    assert prod["findings"][0] == {
        "id": "allnamespaces-required",
        "title": "AllNamespaces install mode required by PlatformOperator",
        "count": 1,
    }  # fmt: skip


@pytest.mark.parametrize("path", DETAILS.values(), ids=DETAILS)
def test_a_detail_costs_few_queries_and_a_304_fewer(world: World, get: Get, path: str) -> None:
    get(path)
    with CaptureQueriesContext(connection) as full:
        answer = get(path)
    assert answer.status_code == 200
    assert len(full) <= 10
    if path == DETAILS["openapi"]:
        return
    with CaptureQueriesContext(connection) as short:
        assert get(path, if_none_match=answer["ETag"]).status_code == 304
    assert len(short) <= 4
    assert "Authorization" in answer["Vary"]


def test_the_tag_of_a_bundle_changes_with_its_verdicts_and_the_notes_on_its_catalog(
    world: World, get: Get
) -> None:
    stored = Prediction.objects.exclude(bundle=None).filter(package__name="zulu")
    bundle = Bundle.objects.get(pk__in=stored.values("bundle"))
    path = f"bundles/prod/redhat-operators/zulu/{bundle.name}"
    make_prediction(bundle=bundle, path="ClusterExtension")

    def tag() -> str:
        return str(get(path)["ETag"])

    before = tag()
    PredictionRun.objects.update(changed_at=timezone.now() + timedelta(hours=1))
    evaluated = tag()
    assert evaluated != before
    trouble = {"type": "Serving", "status": "False", "reason": "Unavailable"}
    Catalog.objects.filter(cluster=world.prod).update(
        source_kind="ClusterCatalog", conditions=[trouble]
    )
    assert tag() != evaluated
    verdicts = get(path).json()["verdicts"]
    assert len(verdicts) == 3
    for verdict in verdicts:
        rules = {note["rule"] for note in verdict["notes"]}
        assert ("ce-catalog-down" in rules) == (verdict["method"] == "ClusterExtension")


# --- who may read -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", EVERYTHING.values(), ids=EVERYTHING)
def test_a_read_token_reads_everything(world: World, client: Client, token: str, path: str) -> None:
    assert client.get(ROOT + path, headers=bearer(token)).status_code == 200


@pytest.mark.parametrize("path", EVERYTHING.values(), ids=EVERYTHING)
def test_a_session_reads_everything(world: World, client: Client, bob: User, path: str) -> None:
    client.force_login(bob)
    assert client.get(ROOT + path).status_code == 200


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    "header",
    ["Bearer wrong", "Bearer ", "Bearer", "Basic Ym9iOmJvYg==", "", "x" * 5000, "Bearer \xe9"],
)
def test_a_wrong_authorization_header_is_a_401_even_where_reading_is_public(
    world: World, get: Get, header: str
) -> None:
    response = get("clusters", authorization=header)
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "invalid-token"


def test_an_expired_token_and_a_disabled_user_are_refused(
    world: World, client: Client, bob: User, token: str
) -> None:
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    refused = client.get(ROOT + "clusters", headers=bearer(token))
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "token-expired")
    ApiToken.objects.update(expires_at=None)
    assert client.get(ROOT + "clusters", headers=bearer(token)).status_code == 200
    User.objects.update(is_active=False)
    refused = client.get(ROOT + "clusters", headers=bearer(token))
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "user-disabled")


def test_the_use_of_a_token_is_written_once_a_day(world: World, client: Client, token: str) -> None:
    for written in (1, 0):
        with CaptureQueriesContext(connection) as queries:
            client.get(ROOT + "clusters", headers=bearer(token))
        updates = [one for one in queries.captured_queries if one["sql"].startswith("UPDATE")]
        assert len(updates) == written
    assert ApiToken.objects.get().last_used_on == timezone.now().date()


# --- the document and its page ----------------------------------------------------------------


def test_the_openapi_document_lists_every_route_and_parameter(world: World, get: Get) -> None:
    document = get("openapi.json").json()
    served = {
        "/api/v1/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern))
        for pattern in routes._patterns
        if isinstance(pattern, URLPattern)
    }
    assert set(document["paths"]) == served - {"/api/v1/openapi.json"}
    packages = document["paths"]["/api/v1/packages"]["get"]
    assert {one["name"] for one in packages["parameters"]} >= {
        "cluster", "q", "installed", "limit", "cursor", "fields", "format"
    }  # fmt: skip
    assert set(document["components"]["securitySchemes"]) == {"BearerToken", "Session"}
    assert json.dumps(document)


def test_the_index_names_every_list_and_each_answers(world: World, get: Get) -> None:
    index = get("").json()
    assert index["resources"] == {name: ROOT + name for name in index["resources"]}
    assert set(index["resources"]) >= {"status", "catalogs", "packages", "operators", "actions"}
    assert not set(index["resources"]) & {"", "version", "openapi.json"}
    for name in (*index["resources"].values(), index["openapi"], index["docs"]):
        needs_parameters = name in (f"{ROOT}audit", f"{ROOT}compare")
        assert get(name.removeprefix(ROOT)).status_code == (400 if needs_parameters else 200), name
    about = {"version": settings.VERSION, "api": "v1"}
    assert get("version").json() == about
    assert index.items() >= about.items()


@pytest.mark.parametrize(
    "name", [*LISTS, "package", "bundle", "operator", "cluster", "clusteroperator"]
)
def test_answers_have_exactly_the_fields_of_the_document(world: World, get: Get, name: str) -> None:
    document = get("openapi.json").json()
    address = ROOT + EVERYTHING[name]
    path = next(
        path
        for path in document["paths"]
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), address)
    )
    schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
    check(get(EVERYTHING[name]).json(), schema["schema"], document["components"]["schemas"])


def check(value: Any, schema: dict[str, Any], schemas: dict[str, Any]) -> None:
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        options = [
            schemas.get(part.get("$ref", "").rpartition("/")[2], part) for part in schema["anyOf"]
        ]
        same = [
            part
            for part in options
            if isinstance(value, dict) and [*part.get("properties", ())] == [*value]
        ]
        if value is not None:
            check(value, (same or options)[0], schemas)
        return
    if "properties" in schema:
        assert list(value) == list(schema["properties"])
        for name, part in schema["properties"].items():
            check(value[name], part, schemas)
    if schema.get("type") == "array":
        for item in value:
            check(item, schema.get("items", {}), schemas)


def test_the_docs_page_shows_every_route_with_nothing_from_elsewhere(
    world: World, get: Get
) -> None:
    page = get("docs")
    text = page.content.decode()
    for path, methods in get("openapi.json").json()["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path}" in text
    assert not re.search(r"<script(?![^>]*\bsrc=)|\bstyle=|\son\w+=|<style", text)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text)
    assert "script-src 'self'" in page["Content-Security-Policy"]


def test_the_docs_page_asks_a_stranger_to_sign_in(client: Client, db: None) -> None:
    assert client.get(ROOT + "docs").status_code == 302


def test_the_times_of_a_clusters_kinds_end_with_z(world: World, get: Get) -> None:
    read = {"state": "served", "version": "v1", "synced_at": "2026-11-26T23:13:56.181795+00:00"}
    world.prod.kinds = {"Subscription": read, "Catalog": {"state": "absent"}}
    world.prod.save()
    kinds = get("clusters/prod").json()["kinds"]
    assert kinds["Subscription"]["synced_at"] == "2026-11-26T23:13:56.181795Z"
    assert kinds["Catalog"] == {"state": "absent"}
