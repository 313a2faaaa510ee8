"""`q` of packages means what the software catalog shows; what it can't mean is refused."""

import pytest
from django.test import Client

from catalogs.models import PredictionRun
from tests.factories import make_catalog, make_package, make_prediction
from tests.worlds.rest import World
from tests.worlds.rest_fixtures import Get


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


def test_a_filter_that_packages_do_not_have_is_refused_with_the_ones_there_are(
    world: World, get: Get
) -> None:
    response = get("packages", {"path": "yes"})
    assert response.status_code == 400
    assert (
        'no query parameter "path" here; this route reads limit'
        in response.json()["error"]["message"]
    )


def test_packages_are_narrowed_by_what_installs_them_as_the_software_catalog_does(
    world: World, get: Get
) -> None:
    catalog = make_catalog(cluster=world.prod, name="judged")
    for name, alone, here in (
        ("a", "installable", ""),
        ("b", "installable", "not_installable"),
        ("c", "not_installable", "installable"),
        ("d", "unknown", ""),
    ):
        bundle = make_package(catalog=catalog, name=name, channels={"s": ("1.0.0",)}).bundles.get()
        for verdict, cluster in ((alone, None), (here, world.prod)):
            if verdict:
                make_prediction(
                    bundle=bundle,
                    path="Subscription",
                    verdict=verdict,
                    rule="" if verdict == "installable" else "sub-install-mode",
                    cluster=cluster,
                )
    PredictionRun.objects.create(catalog=catalog, rules_version=1, inputs="h")

    def found(*values: str) -> list[str]:
        query = {"catalog": "prod/judged", "installable": list(values)}
        return [row["package"] for row in get("packages", query).json()["items"]]

    assert found("subscription") == ["a", "c"]
    assert found("subscription-unknown") == ["d"]
    assert found("subscription", "subscription-unknown") == ["a", "c", "d"]
    assert found("platformoperator") == []
    [said] = get("packages/prod/judged/b").json()["verdicts"]
    assert (said["verdict"], said["rule"]) == ("not-installable", "sub-install-mode")
    [said] = get("bundles/prod/judged/c/c.v1.0.0").json()["verdicts"]
    assert (said["method"], said["target"], said["verdict"]) == (
        "Subscription",
        "all",
        "installable",
    )
    refused = get("packages", {"installable": "helm"})
    assert refused.status_code == 400
    assert "installable" in refused.json()["error"]["message"]
