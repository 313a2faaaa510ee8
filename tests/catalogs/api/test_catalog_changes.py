"""REST routes that sync a catalog now and delete one of a person."""

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


def send(user: User, method: str, path: str, *, scope: str = "act") -> Any:
    token, _row = ApiToken.issue(user.pk, scope)
    return Client().generic(method, path, headers={"Authorization": f"Bearer {token}"})


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
