"""REST routes that add, change, sync and delete a catalog of no cluster."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from catalogs.models import Catalog, Package
from olmweb.models import ApiToken
from tests.factories import make_catalog, make_cluster, make_package

pytestmark = pytest.mark.django_db
OWN = "/api/v1/catalogs/-/mine"


@pytest.fixture
def mine() -> Catalog:
    catalog = make_catalog(name="mine", cluster=None, source_kind="File")
    make_package(name="etcd", catalog=catalog)
    return catalog


def send(user: User, method: str, path: str, body: Any = None, *, scope: str = "act") -> Any:
    token, _row = ApiToken.issue(user.pk, scope)
    text = json.dumps(body) if body is not None else ""
    headers = {"Authorization": f"Bearer {token}"}
    return Client().generic(method, path, text, "application/json", headers=headers)


NEW = {"name": "added", "source_kind": "URL", "source": "https://a.example/catalog.json"}


def test_a_catalog_is_added_and_read(db: None, alice: User) -> None:
    answer = send(alice, "POST", "/api/v1/catalogs", NEW)
    assert (answer.status_code, answer.json()["catalog"]) == (201, "-/added")
    assert answer["Location"] == answer.json()["catalog_url"] == "/api/v1/catalogs/-/added"
    assert Catalog.objects.get().sync_requested_at is not None
    again = send(alice, "POST", "/api/v1/catalogs", NEW)
    assert (again.status_code, list(again.json()["error"]["fields"])) == (400, ["name"])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "../x"}, "name"),
        ({"source_kind": "Git"}, "source_kind"),
        ({"source": "ftp://a.example/x"}, "source"),
        ({"priority": "high"}, "priority"),
        ({"cluster": "prod"}, "cluster"),
    ],
)
def test_a_catalog_that_can_not_be_one_is_refused_by_field(
    db: None, alice: User, change: dict[str, Any], field: str
) -> None:
    answer = send(alice, "POST", "/api/v1/catalogs", NEW | change)
    assert (answer.status_code, list(answer.json()["error"]["fields"])) == (400, [field])
    assert not Catalog.objects.exists()


def test_a_source_is_changed_and_what_is_absent_stays(db: None, alice: User, olivia: User) -> None:
    make_catalog(name="mine", cluster=None, source_kind="URL", source=NEW["source"], priority=7)
    assert send(olivia, "PATCH", OWN, {"priority": 1}).status_code == 403
    answer = send(alice, "PATCH", OWN, {"source": "https://b.example/catalog.json"})
    assert (answer.status_code, answer.json()["source"]) == (200, "https://b.example/catalog.json")
    assert (answer.json()["priority"], answer.json()["source_kind"]) == (7, "URL")


def test_the_catalog_of_a_cluster_is_not_changed(alice: User) -> None:
    make_catalog(name="redhat", cluster=make_cluster(name="prod"))
    answer = send(alice, "PATCH", "/api/v1/catalogs/prod/redhat", {"priority": 1})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not-own")


def test_an_own_catalog_is_deleted_with_its_content(mine: Catalog, alice: User) -> None:
    answer = send(alice, "DELETE", OWN)
    assert (answer.status_code, answer.content) == (204, b"")
    assert not Catalog.objects.exists()
    assert not Package.objects.exists()
    assert send(alice, "DELETE", OWN).status_code == 404


def test_the_catalog_of_a_cluster_is_not_deleted(alice: User) -> None:
    make_catalog(name="redhat", cluster=make_cluster(name="prod"))
    answer = send(alice, "DELETE", "/api/v1/catalogs/prod/redhat")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not-own")
    assert Catalog.objects.exists()


def test_a_sync_is_requested(mine: Catalog, alice: User) -> None:
    answer = send(alice, "POST", f"{OWN}/sync")
    assert (answer.status_code, answer.json()["name"]) == (202, "mine")
    mine.refresh_from_db()
    assert mine.sync_requested_at is not None


def test_only_admins_may_and_only_with_a_token_that_acts(
    mine: Catalog, alice: User, olivia: User
) -> None:
    for method, path in (("DELETE", OWN), ("POST", f"{OWN}/sync")):
        assert send(alice, method, path, scope="read").json()["error"]["code"] == "scope"
        refused = send(olivia, method, path)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not-allowed")
    mine.refresh_from_db()
    assert mine.sync_requested_at is None
