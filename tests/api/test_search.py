"""`q` of packages means what the software catalog shows; what it can't mean is refused."""

import pytest
from django.test import Client

from tests.api.conftest import Get
from tests.api.world import World


@pytest.mark.parametrize(
    "q",
    ["etcd", "ectd", "cncf", "a", "provides:EtcdCluster", "image:registry.example", "etcd zebra"],
)
def test_a_search_finds_the_packages_that_the_page_shows(
    world: World, get: Get, client: Client, q: str
) -> None:
    items = get("packages", {"q": q}).json()["items"]
    cards = client.get("/software/", {"q": q}).context["cards"]
    assert {item["package"] for item in items} == {card.row.name for card in cards}


@pytest.mark.parametrize("q", ['"', "provides:", "image:", "%"])
def test_a_search_that_says_nothing_is_refused_with_a_sentence(
    world: World, get: Get, q: str
) -> None:
    response = get("packages", {"q": q})
    assert response.status_code == 400
    assert "q needs a word to look for" in response.json()["error"]["message"]


@pytest.mark.parametrize("name", ["installable", "path"])
def test_filters_that_come_later_are_refused_with_the_ones_there_are(
    world: World, get: Get, name: str
) -> None:
    response = get("packages", {name: "yes"})
    assert response.status_code == 400
    assert f'no query parameter "{name}"; it knows' in response.json()["error"]["message"]
