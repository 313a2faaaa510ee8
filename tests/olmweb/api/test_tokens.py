"""The own API tokens over REST: list, make, revoke."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from olmweb.models import ApiToken

pytestmark = pytest.mark.django_db
URL = "/api/v1/tokens"


def call(token: str, method: str = "GET", url: str = URL, body: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    return Client().generic(method, url, body or "", "application/json", headers=headers)


def test_a_token_lists_those_of_its_account_alone(bob: User, olivia: User) -> None:
    token, row = ApiToken.issue(bob.pk, "read", 30, "report")
    ApiToken.issue(olivia.pk, "read", 30, "other")
    (item,) = call(token).json()["items"]
    assert (item["id"], item["name"], item["scope"]) == (row.pk, "report", "read")
    assert item["expires_at"].endswith("Z")
    assert token not in call(token).content.decode()


def test_a_new_token_works_and_ends_with_the_one_that_made_it(olivia: User) -> None:
    maker, row = ApiToken.issue(olivia.pk, "act", 10)
    answer = call(maker, "POST", body=b'{"name": "job", "days": 90}')
    assert (answer.status_code, answer["Cache-Control"]) == (201, "no-store")
    made = answer.json()
    assert call(made["token"]).json()["count"] == 2
    assert ApiToken.objects.get(pk=made["id"]).ends_at <= row.ends_at
    again = call(maker, "POST", body=b'{"name": "job"}')
    assert (again.status_code, list(again.json()["error"]["fields"])) == (409, ["name"])


def test_a_token_that_ends_within_a_day_makes_none(olivia: User) -> None:
    maker, row = ApiToken.issue(olivia.pk, "act", 10)
    ApiToken.objects.filter(pk=row.pk).update(expires_at=timezone.now() + timedelta(hours=20))
    assert call(maker, "POST", body=b'{"name": "job"}').status_code == 400


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"name": ""}', "name"),
        (b'{"name": "a", "days": 0}', "days"),
        (b'{"name": "a", "days": 366}', "days"),
        (b'{"name": "a", "scope": "all"}', "scope"),
        (b"{}", "name"),
    ],
)
def test_a_wrong_field_is_named(olivia: User, body: bytes, field: str) -> None:
    answer = call(ApiToken.issue(olivia.pk, "act")[0], "POST", body=body)
    assert (answer.status_code, list(answer.json()["error"]["fields"])) == (400, [field])


def test_an_account_without_role_makes_no_token_that_acts_and_a_reading_token_makes_none(
    bob: User,
) -> None:
    acts, reads = ApiToken.issue(bob.pk, "act")[0], ApiToken.issue(bob.pk, "read")[0]
    body = b'{"name": "a", "scope": "act"}'
    assert call(acts, "POST", body=body).status_code == 201, "a viewer may send requests"
    bob.groups.clear()
    answer = call(acts, "POST", body=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    assert call(reads, "POST", body=b'{"name": "a"}').json()["error"]["code"] == "scope"


def test_a_revoked_token_is_refused_and_that_of_another_is_not_found(
    bob: User, olivia: User
) -> None:
    token, row = ApiToken.issue(bob.pk, "act")
    other = ApiToken.issue(olivia.pk, "act")[1]
    answer = call(token, "DELETE", f"{URL}/{other.pk}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown-token")
    assert call(token, "DELETE", f"{URL}/{2**70}").status_code == 404
    assert call(token, "DELETE", f"{URL}/{row.pk}").status_code == 204
    assert call(token).status_code == 401
