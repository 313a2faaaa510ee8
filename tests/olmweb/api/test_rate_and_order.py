"""The rate limit of a token, sorted lists, and answers that did not change."""

from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client

from installs.models import Operator
from olmweb.models import ApiToken
from tests.worlds.rest import EVERYTHING, World
from tests.worlds.rest_fixtures import Get

NOON = "2026-01-31T12:00:20Z"


def call(token: str, path: str = "clusters") -> Any:
    return Client().get(f"/api/v1/{path}", headers={"Authorization": f"Bearer {token}"})


def test_a_token_is_limited_in_each_minute_and_others_are_not(
    bob: User, olivia: User, settings: Any
) -> None:
    settings.API_RATE = 2
    token, other = ApiToken.issue(bob.pk, "read")[0], ApiToken.issue(olivia.pk, "read")[0]
    with time_machine.travel(NOON, tick=False) as clock:
        answers = [call(token) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert [answer["RateLimit-Remaining"] for answer in answers] == ["1", "0", "0"]
        assert {answer["RateLimit-Limit"] for answer in answers} == {"2"}
        refused = answers[-1]
        assert (refused["RateLimit-Reset"], refused["Retry-After"]) == ("40", "40")
        assert refused.json()["error"]["code"] == "rate-limited"
        assert call(other).status_code == 200
        clock.shift(40)
        assert call(token).status_code == 200


def test_without_a_limit_there_are_no_headers(bob: User, settings: Any) -> None:
    settings.API_RATE = 0
    answer = call(ApiToken.issue(bob.pk, "read")[0])
    assert answer.status_code == 200
    assert "RateLimit-Limit" not in answer


def test_errors_carry_the_headers_too(bob: User) -> None:
    answer = call(ApiToken.issue(bob.pk, "read")[0], "clusters/nowhere")
    assert (answer.status_code, "RateLimit-Remaining" in answer) == (404, True)


@pytest.mark.parametrize("field", ["name", "package", "kind", "health", "observed_at"])
@pytest.mark.parametrize("sign", ["", "-"])
def test_operators_are_sorted_by_a_field_over_all_pages(
    world: World, get: Get, field: str, sign: str
) -> None:
    query: dict[str, Any] = {"sort": f"{sign}{field}", "limit": 1}
    items: list[dict[str, Any]] = []
    while not items or query["cursor"]:
        page = get("operators", query).json()
        items += page["items"]
        query["cursor"] = page["next"]
    names = [item["name"] for item in items]
    order = (f"{sign}{field}", f"{sign}id")
    assert names == list(Operator.objects.order_by(*order).values_list("name", flat=True))


def test_an_order_has_cursors_of_its_own_and_an_unknown_one_is_refused(
    world: World, get: Get
) -> None:
    cursor = get("operators", {"sort": "name", "limit": 1}).json()["next"]
    assert get("operators", {"sort": "-name", "cursor": cursor}).status_code == 400
    assert get("actions", {"sort": "-created_at"}).json()["count"] == 2
    error = get("operators", {"sort": "message"}).json()["error"]
    assert (error["code"], list(error["fields"])) == ("bad-parameter", ["sort"])


@pytest.mark.parametrize("path", EVERYTHING.values(), ids=EVERYTHING)
def test_every_unchanged_answer_is_304_without_a_body(world: World, get: Get, path: str) -> None:
    answer = get(path)
    again = get(path, **{"if-none-match": answer["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
