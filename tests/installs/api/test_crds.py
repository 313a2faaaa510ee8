"""REST routes of CRD checks and of the changes of CRDs between two bundles."""

from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from installs import tasks
from installs.actions import crd_check
from installs.models import CrdCheck, CRDState
from olmweb.models import ApiToken, Cluster
from tests.factories import make_catalog, make_package
from tests.installs.views.test_crd_check import (
    BUNDLE,
    SMALL,
    FakeClient,
    kettle,
    named,
    prod,
    woken,
)
from tests.installs.views.test_crd_safety import CRD, SIZE, crd, nested, ship, store

__all__ = ["prod", "woken"]
pytestmark = pytest.mark.django_db
CHECK = f"/api/v1/crd-checks/prod/ClusterExtension/-/kettle/{BUNDLE}"
CHANGES = f"/api/v1/bundles/prod/tea/kettle/{BUNDLE}/crd-changes"


def headers(user: User, scope: str = "act") -> Any:
    token, _ = ApiToken.issue(user.pk, scope)
    return {"Authorization": f"Bearer {token}"}


def test_a_check_is_started_and_read_by_its_person(
    prod: Cluster,
    client: Client,
    olivia: User,
    alice: User,
    woken: Mock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = headers(olivia)
    none = client.get(CHECK, headers=mine)
    assert (none.status_code, none.json()["error"]["code"]) == (404, "not-checked")
    read_only = client.post(CHECK, headers=headers(olivia, "read"))
    assert read_only.status_code == 403
    made = client.post(CHECK, headers=mine)
    assert (made.status_code, made.json()["state"]) == (202, "pending"), made.json()
    assert made["Location"] == CHECK
    woken.assert_called_once_with()
    cluster = FakeClient(named(crd(SIZE)), v1=[[kettle("a", 3), kettle("b", 987_654)]])
    monkeypatch.setattr(crd_check, "client_for", lambda _: cluster)
    tasks.check_crds(CrdCheck.objects.get().pk)
    answer = client.get(made["Location"], headers=mine).json()
    assert (answer["state"], answer["bundle"], answer["error"]) == ("done", BUNDLE, None)
    (row,) = answer["crds"]
    assert (row["name"], row["objects"], row["refused"], row["already"]) == (CRD, 2, 1, 0)
    assert row["misfits"] == [
        {
            "namespace": "apps",
            "name": "b",
            "version": "v1",
            "outcome": "refused",
            "already": False,
            "reasons": [
                {
                    "field": "spec.size",
                    "rule": "maximum",
                    "note": "The value has to be at most 5.",
                    "outcome": "refused",
                    "already": False,
                }
            ],
        }
    ]
    assert [(change["field"], change["outcome"]) for change in row["changes"]] == [
        ("^.spec.size", "refused")
    ]
    assert client.get(CHECK, headers=headers(alice)).status_code == 404
    CrdCheck.objects.update(error_text="No.", result={})
    failed = client.get(CHECK, headers=mine).json()
    assert (failed["state"], failed["error"]["message"]) == ("failed", "No.")


def test_the_changes_of_crds_between_two_bundles(
    prod: Cluster, client: Client, olivia: User
) -> None:
    mine = headers(olivia, "read")
    unknown = client.get(CHANGES, headers=mine)
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not-inspected")
    assert "kettle.v1.0.0" in unknown.json()["error"]["message"]
    ship("1.0.0", crd(SIZE, "v1", "v1beta1"))
    CRDState.objects.create(cluster=prod, name=CRD, stored=["v1", "v1beta1"])
    ship("1.1.0", crd(SMALL))
    answer = client.get(CHANGES, {"from": "kettle.v1.0.0"}, headers=mine).json()
    assert (answer["before"], answer["after"], answer["cluster"]) == (
        "kettle.v1.0.0",
        BUNDLE,
        "prod",
    )
    rows = [(row["version"], row["field"], row["olm_v0"]) for row in answer["changes"]]
    assert ("v1", "^.spec.size", "objects") in rows
    assert any(olm_v0 == "refuses" for _version, _field, olm_v0 in rows), rows
    assert all(row["olm_v1_refuses"] for row in answer["changes"])
    (compared,) = answer["crds"]
    assert (compared["name"], compared["compared_with"], compared["complete"]) == (
        CRD,
        "bundle",
        True,
    )


def test_the_changes_from_the_crds_that_the_cluster_has(
    prod: Cluster, client: Client, olivia: User
) -> None:
    def answer(**parameters: str) -> Any:
        query = {"against": "cluster", **parameters}
        return client.get(CHANGES, query, headers=headers(olivia, "read"))

    def code(response: Any) -> tuple[int, str, list[str]]:
        error = response.json()["error"]
        return response.status_code, error["code"], list(error["fields"])

    assert code(answer()) == (404, "not-listed", [])
    assert code(answer(**{"from": "kettle.v1.0.0"})) == (400, "bad-parameter", ["from"])
    prod.watches.create(kind="CustomResourceDefinition", listed_at=timezone.now())
    assert answer().json() == {
        "before": None, "after": BUNDLE, "cluster": "prod", "crds": [], "changes": []
    }  # fmt: skip
    owner = {"owner_kind": "Operator", "owner_name": "teapot.tea"}
    CRDState.objects.create(cluster=prod, name=CRD, stored=["v1", "v1beta1"], **owner)
    crds = {
        **{"name": CRD, "owner_kind": "Subscription"},
        **{"owner_namespace": "tea", "owner_name": "teapot"},
    }
    unread = answer().json()
    assert unread["crds"] == [{**crds, "compared_with": "nothing", "complete": False}]
    assert unread["changes"] == []
    store(prod, crd(SIZE, "v1", "v1beta1"))
    read = answer().json()
    assert read["crds"] == [{**crds, "compared_with": "cluster", "complete": True}]
    rows = [(row["version"], row["field"], row["olm_v0"]) for row in read["changes"]]
    assert rows == [("v1", "^.spec.size", "objects"), ("v1beta1", "", "refuses")]
    store(prod, crd(nested(480)))
    ship("1.1.0", crd(nested(480)))
    (deep,) = answer().json()["crds"]
    assert (deep["compared_with"], deep["complete"]) == ("cluster", False)


def test_a_catalog_of_no_cluster_is_compared_with_the_named_one(
    prod: Cluster, client: Client, olivia: User
) -> None:
    catalog = make_catalog(name="own", cluster=None)
    make_package(name="cup", catalog=catalog, channels={"stable": ("1.0.0",)})
    address = "/api/v1/bundles/-/own/cup/cup.v1.0.0/crd-changes"
    mine = headers(olivia, "read")
    missing = client.get(address, {"against": "cluster"}, headers=mine)
    assert missing.json()["error"]["code"] == "missing-parameter"
    assert list(missing.json()["error"]["fields"]) == ["cluster"]
    prod.watches.create(kind="CustomResourceDefinition", listed_at=timezone.now())
    query = {"against": "cluster", "cluster": "prod"}
    unknown = client.get(address, query, headers=mine)
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not-inspected")
