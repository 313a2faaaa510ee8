"""CustomResourceDefinitions: problems first, the steps in order, filters."""

from typing import Any

import pytest
from django.test import Client

from installs.diagnosis.entries import knowledge
from olmweb.models import Cluster
from olmweb.web.pagination import PAGE_SIZE
from tests.factories import make_cluster, make_crd
from tests.worlds.html import assert_fragment, assert_page

pytestmark = pytest.mark.django_db
EVIL = '"><img src=x onerror=alert(1)>'
KNOWN = next(entry for entry in knowledge() if entry.id == "crd-cannot-remove-stored")


@pytest.fixture
def prod() -> Cluster:
    return make_cluster(
        name="prod", kinds={"CustomResourceDefinition": {"state": "served", "version": "v1"}}
    )


def make_broken(cluster: Cluster, name: str = "widgets.example.com", **fields: Any) -> None:
    make_crd(cluster=cluster, name=name, stored=["v1alpha1", "v1"], finding=KNOWN.id, **fields)


def test_problems_come_first_with_their_steps_in_order(reader: Client, prod: Cluster) -> None:
    make_crd(cluster=prod, name="apples.example.com")
    make_broken(prod)
    page = assert_page(reader.get("/crds/"))
    assert "2 CRDs" in page.text
    assert page.text.index("widgets.example.com") < page.text.index("apples.example.com")
    assert "Widget v1alpha1, v1 v1 v1" in page.text
    assert KNOWN.title in page.text
    assert "Remedy" in page.text


def test_a_finding_of_another_release_keeps_its_id(reader: Client, prod: Cluster) -> None:
    make_crd(cluster=prod, finding="an-id-nobody-knows")
    assert "an-id-nobody-knows" in assert_page(reader.get("/crds/")).text


@pytest.mark.parametrize(
    ("owner", "link"),
    [
        ({"owner_kind": "Operator", "owner_name": "grafana.apps"},
         "/operators/?view=all&cluster=prod&namespace=apps&package=grafana"),
        ({"owner_kind": "ClusterExtension", "owner_name": "argocd"},
         "/operators/prod/ClusterExtension/-/argocd"),
        ({"owner_kind": "BundleDeployment", "owner_name": "etcd"},
         "/operators/prod/PlatformOperator/-/etcd"),
    ],
)  # fmt: skip
def test_its_owner_is_linked(
    reader: Client, prod: Cluster, owner: dict[str, str], link: str
) -> None:
    make_crd(cluster=prod, **owner)
    assert link in assert_page(reader.get("/crds/")).links


def test_an_owner_that_has_no_name_is_none(reader: Client, prod: Cluster) -> None:
    make_crd(cluster=prod, owner_kind="Operator", owner_name="")
    make_crd(cluster=prod, name="b.example.com", owner_kind="Operator", owner_name="odd")
    assert_page(reader.get("/crds/"))


def test_filters_narrow(reader: Client, prod: Cluster) -> None:
    other = make_cluster(name="edge")
    make_broken(prod)
    make_crd(cluster=other, name="gears.example.com", owner_name="argocd")
    for params, shown, hidden in (
        ({"cluster": "edge"}, "gears", "widgets"),
        ({"q": "argo"}, "gears", "widgets"),
        ({"q": "widget example"}, "widgets", "gears"),
        ({"show": "problems"}, "widgets", "gears"),
    ):
        text = assert_page(reader.get("/crds/", params)).text
        assert f"{shown}.example.com" in text
        assert f"{hidden}.example.com" not in text
    assert "No results found" in assert_page(reader.get("/crds/", {"q": "nothing"})).text
    assert_page(reader.get("/crds/", {"show": "some"}), 400)


def test_without_any_it_says_why(reader: Client) -> None:
    assert "No cluster yet" in assert_page(reader.get("/crds/")).text
    make_cluster(name="lab", kinds={"CustomResourceDefinition": {"state": "served"}})
    assert "No CRDs found" in assert_page(reader.get("/crds/")).text
    make_cluster(name="prod", kinds={"CustomResourceDefinition": {"state": "forbidden"}})
    assert "No CRD was read yet" in assert_page(reader.get("/crds/")).text


def test_pages_neither_repeat_nor_lose_a_row(reader: Client, prod: Cluster) -> None:
    for number in range(PAGE_SIZE + 10):
        make_crd(cluster=prod, name=f"a{number:02}.example.com", finding="x" * (number % 2))
    first = assert_page(reader.get("/crds/"))
    following = next(link for link in first.links if "page=2" in link)
    second = assert_page(reader.get("/crds/" + following))
    assert f"{PAGE_SIZE + 1} to {PAGE_SIZE + 10} of {PAGE_SIZE + 10}" in second.text
    told = f"{first.text} {second.text}"
    assert all(told.count(f"a{number:02}.example.com") == 1 for number in range(PAGE_SIZE + 10))


def test_hostile_texts_are_escaped(reader: Client, prod: Cluster) -> None:
    make_crd(
        cluster=prod, name=EVIL, stored=[EVIL, 3, None], served=[EVIL], defined=[],
        owner_kind=EVIL, owner_name=EVIL, finding=KNOWN.id, facts={"crd": EVIL, "n": 3},
    )  # fmt: skip
    page = assert_page(reader.get("/crds/"))
    assert "img" not in page.tags[page.tags.index("main") :]


def test_it_costs_few_queries_and_polls_with_a_fragment(
    reader: Client, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    for number in range(60):
        make_broken(prod, f"w{number}.example.com")
    with django_assert_max_num_queries(6):  # session, user, clusters, their kinds, count, rows
        reader.get("/crds/")
    fragment = reader.get("/crds/", headers={"HX-Request": "true"})
    assert_fragment(fragment)
    rev = fragment.content.decode().split("rev=")[1][:18]
    again = reader.get("/crds/", {"rev": rev}, headers={"HX-Request": "true"})
    assert again.status_code == 204
