"""POST /bulk-installs: scopes, verdicts, the key, dry run, progress and stop."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from installs.models import Action, ActionBatch
from olmweb.models import NOT_CONFIGURED, ApiToken, Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_catalog, make_cluster, make_package, make_prediction

pytestmark = pytest.mark.django_db
URL = "/api/v1/bulk-installs"
BODY = {
    "cluster": "prod",
    "packages": ["prod/redhat-operators/acme", "prod/redhat-operators/brisk"],
}
CRANE = "prod/redhat-operators/crane"


@pytest.fixture(autouse=True)
def sandbox(scenario: None, tmp_path: Path, settings: Any) -> Iterator[Sandbox]:
    server = Sandbox(step_seconds=0.02)
    server.start()
    server.write_kubeconfig(tmp_path / "kubeconfig")
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    catalog = make_catalog(cluster=make_cluster(context="sandbox"))
    for name in ("acme", "brisk", "crane"):
        package = make_package(name=name, catalog=catalog)
    crane = package.bundles.get(version="1.1.0")
    make_prediction(bundle=crane, rule="po-install-mode", sentence="OwnNamespace only.")
    yield server
    server.stop()


def post(user: User, body: Any, url: str = URL, *, scope: str = "act", **headers: str) -> Any:
    token, _row = ApiToken.issue(user.pk, scope)
    return Client().post(
        url,
        body,
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}", **headers},
    )


def test_asking_twice_with_a_key_is_asking_once_and_progress_can_be_read(olivia: User) -> None:
    first = post(olivia, BODY, **{"Idempotency-Key": "k"})
    assert first.status_code == 202, first.json()
    told = first.json()
    assert [one["package"] for one in told["actions"]] == ["acme", "brisk"]
    assert (told["total"], told["done"], told["waiting"], told["user"]) == (2, 0, 2, "olivia")
    again = post(olivia, BODY, **{"Idempotency-Key": "k"})
    assert again.json()["id"] == told["id"]
    assert (first["Idempotency-Replayed"], again["Idempotency-Replayed"]) == ("false", "true")
    assert first["Location"] == again["Location"] == f"{URL}/{told['id']}"
    anyway = post(olivia, BODY | {"anyway": True}, **{"Idempotency-Key": "k"})
    assert anyway.json()["error"]["code"] == "key-reused"
    other = post(olivia, BODY | {"packages": [CRANE]}, **{"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["error"]["code"]) == (422, "key-reused")
    assert Action.objects.count() == 2
    Action.objects.filter(name="acme").update(state="succeeded")
    client = Client()
    client.force_login(olivia)
    read = client.get(f"{URL}/{told['id']}").json()
    assert (read["done"], read["actions"][0]["state"]) == (1, "succeeded")
    assert client.get(f"{URL}/999").status_code == 404


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_removed_cluster_is_the_reason_of_the_refusal(olivia: User, dry_run: bool) -> None:
    first = post(olivia, BODY, **{"Idempotency-Key": "k"})
    Cluster.objects.update(error_code=NOT_CONFIGURED)
    refused = post(olivia, BODY | {"dry_run": dry_run})
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (409, NOT_CONFIGURED)
    assert error["message"] == "Cluster prod is no longer named in OLMWEB_CLUSTERS."
    again = post(olivia, BODY, **{"Idempotency-Key": "k"})
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])


def test_what_is_predicted_to_fail_is_left_out_unless_it_is_wanted_anyway(olivia: User) -> None:
    asked = BODY | {"packages": [*BODY["packages"], CRANE]}
    told = post(olivia, asked).json()
    assert told["left_out"] == [{"package": "crane", "reason": "OwnNamespace only."}]
    ActionBatch.objects.all().delete()
    Action.objects.all().delete()
    assert post(olivia, asked | {"anyway": True}).json()["total"] == 3


def test_a_dry_run_records_nothing_and_tells_of_each(olivia: User) -> None:
    asked = BODY | {
        "packages": ["prod/redhat-operators/acme", CRANE, "prod/other/nope"],
        "dry_run": True,
    }
    told = {one["package"]: one for one in post(olivia, asked).json()["packages"]}
    assert told["acme"]["ok"]
    assert told["acme"]["manifests"][0]["kind"] == "PlatformOperator"
    assert (told["crane"]["verdict"], told["crane"]["ok"]) == ("not-installable", False)
    assert "no catalog other" in told["nope"]["reason"]
    assert not ActionBatch.objects.exists()


def test_stop_stops_what_has_not_begun(olivia: User, bob: User) -> None:
    url = f"{URL}/{post(olivia, BODY).json()['id']}/stop"
    assert post(bob, {}, url).status_code == 403
    assert post(olivia, {}, url, scope="read").json()["error"]["code"] == "scope"
    told = post(olivia, {}, url).json()
    assert (told["done"], told["waiting"]) == (2, 0)
    assert {one["state"] for one in told["actions"]} == {"stopped"}
    assert told["stopped_at"]


def test_bulk_installs_are_listed_with_their_progress(olivia: User) -> None:
    first = post(olivia, BODY).json()
    post(olivia, {}, f"{URL}/{first['id']}/stop")
    second = post(olivia, BODY | {"packages": [CRANE], "anyway": True}).json()
    token = ApiToken.issue(olivia.pk, "read")[0]

    def listed(query: str = "") -> Any:
        return Client().get(URL + query, headers={"Authorization": f"Bearer {token}"}).json()

    rows = listed()["items"]
    assert [(row["id"], row["total"], row["done"], row["waiting"]) for row in rows] == [
        (second["id"], 1, 0, 1),
        (first["id"], 2, 2, 0),
    ]
    assert rows == [
        {name: value for name, value in row.items() if name in rows[0]}
        for row in (listed_one(token, row["id"]) for row in rows)
    ]
    for query, count in (
        ("?user=olivia", 2), ("?user=bob", 0), ("?verb=install", 2), ("?verb=remove", 0),
        ("?cluster=edge", 0), ("?since=2999-01-01", 0), ("?until=2999-01-01", 2),
    ):  # fmt: skip
        assert listed(query)["count"] == count, query


def listed_one(token: str, pk: int) -> Any:
    return Client().get(f"{URL}/{pk}", headers={"Authorization": f"Bearer {token}"}).json()


def test_a_token_that_reads_and_a_person_without_rights_are_refused(
    olivia: User, bob: User, tess: User
) -> None:
    assert post(olivia, BODY, scope="read").json()["error"]["code"] == "scope"
    assert post(bob, BODY).status_code == 403
    told = post(tess, BODY)
    assert (told.status_code, told.json()["error"]["code"]) == (409, "nothing-left")
    assert "tess may not install" in told.json()["error"]["message"]
    assert Client().post(URL, BODY, content_type="application/json").status_code == 401
    assert not ActionBatch.objects.exists()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (BODY | {"cluster": "nope"}, 404),
        (BODY | {"method": "Helm"}, 400),
        (BODY | {"packages": []}, 400),
        (BODY | {"packages": [f"c/{number}" for number in range(51)]}, 400),
        (BODY | {"packages": ["etcd"]}, 400),
        (BODY | {"packages": ["prod/redhat-operators/nope"]}, 409),
        (BODY | {"method": "Subscription"}, 409),
        (BODY | {"namespace": "\0"}, 400),
        (BODY | {"extra": 1}, 400),
        ("[]", 400),
    ],
)
def test_what_can_not_be_asked_has_a_sentence(olivia: User, body: Any, status: int) -> None:
    answer = post(olivia, body)
    assert answer.status_code == status, answer.json()
    assert answer.json()["error"]["message"]
    assert not Action.objects.exists()


def test_namespaces_to_watch_may_be_named(olivia: User) -> None:
    body = BODY | {"method": "Subscription", "targets": "team-a,team-b", "dry_run": True}
    answer = post(olivia, body)
    assert answer.status_code == 200, answer.json()
    assert [row["package"] for row in answer.json()["packages"]] == ["acme", "brisk"]
