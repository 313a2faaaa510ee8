"""One search over everything: groups, order, bounds, rights."""

from typing import Any

import pytest
from django.test import Client

from catalogs.models import Catalog
from olmweb.models import Cluster
from tests.factories import (
    make_catalog,
    make_cluster,
    make_crd,
    make_operator,
    make_package,
)
from tests.worlds.html import Page, assert_fragment, assert_page
from tests.worlds.operators import make_clusteroperator

pytestmark = pytest.mark.django_db
URL = "/search/"
EVIL = '"><script>alert(1)'


def found(client: Client, text: str) -> dict[str, list[str]]:
    """Title of a group -> names of its results."""
    groups = client.get(URL, {"q": text}).context["groups"]
    return {group.title: [result.name for result in group.results] for group in groups}


@pytest.fixture
def world(prod: Cluster) -> Catalog:
    """Everything is named after etcd."""
    catalog = make_catalog(cluster=prod, name="etcd-catalog", slug="etcd-catalog")
    make_package(name="etcd", catalog=catalog, display_name="etcd")
    make_package(name="my-etcd-backup", catalog=catalog)
    make_operator(cluster=prod, name="etcd", kind="Subscription", namespace="databases")
    make_operator(cluster=prod, name="an-etcd", kind="PlatformOperator", health="Failed")
    make_clusteroperator(prod, "etcd")
    make_crd(cluster=prod, name="etcdclusters.etcd.database.coreos.com", served_kind="EtcdCluster")
    make_cluster(name="etcd-lab")
    return catalog


def test_everything_that_has_the_name_is_found_in_groups(reader: Client, world: Catalog) -> None:
    groups = found(reader, "etcd")
    assert list(groups)[:2] == ["Installed operators", "Packages"]
    assert groups["Installed operators"] == ["etcd", "an-etcd"], "the exact name first"
    assert groups["Packages"][0] == "etcd"
    assert "etcd.v1.1.0" in groups["Bundles"]
    assert groups["Cluster operators"] == ["etcd"]
    assert groups["CRDs"] == ["etcdclusters.etcd.database.coreos.com"]
    assert groups["Clusters"] == ["etcd-lab"]
    assert groups["Catalogs"] == ["etcd-catalog"]
    page: Page = assert_page(reader.get(URL, {"q": "etcd"}))
    for link in (
        "/operators/prod/Subscription/databases/etcd",
        "/software/prod/etcd-catalog/etcd",
        "/cluster-operators/prod/etcd",
        "/crds/?cluster=prod&q=etcdclusters.etcd.database.coreos.com",
        "/clusters/etcd-lab",
        "/catalogs/prod/etcd-catalog",
    ):
        assert link in page.links
    for link in set(page.links):
        if link.startswith("/") and "etcd" in link:
            assert reader.get(link).status_code == 200, link


def test_apis_are_found_by_kind_and_lead_to_the_package_or_packages_that_provide_them(
    reader: Client, prod: Cluster
) -> None:
    catalog = make_catalog(cluster=prod)
    both = ("example.com", "v1", "Table")
    provides = {"provides": [("example.com", "v1", "Database"), both]}
    make_package(name="db", catalog=catalog, bundles={"1.1.0": provides})
    make_package(name="other", catalog=catalog, bundles={"1.1.0": {"provides": [both]}})
    assert found(reader, "database")["APIs"] == ["Database"]
    page = assert_page(reader.get(URL, {"q": "Database"}))
    assert f"example.com, provided by db in {catalog.slug}" in page.text
    assert f"/software/prod/{catalog.slug}/db" in page.links
    page = assert_page(reader.get(URL, {"q": "Table"}))
    assert "example.com, provided by 2 packages" in page.text
    assert "/software/?provides=example.com%2FTable" in page.links
    assert "db" in assert_page(reader.get("/software/?provides=example.com/Database")).text


def test_pages_are_found_by_their_words(reader: Client) -> None:
    assert found(reader, "upgrade readi")["Pages"] == ["Upgrade readiness"]
    assert "CRDs: CustomResourceDefinitions" in found(reader, "crd")["Pages"]


def test_a_group_is_bounded_and_leads_to_all(
    reader: Client, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    make_package(name="queue-packaged", catalog=make_catalog(name="shelf"))
    for number in range(9):
        make_operator(cluster=prod, name=f"queue-{number}")
    reader.get(URL, {"q": "queue"})  # reads the index of packages
    with django_assert_max_num_queries(11):
        response = reader.get(URL, {"q": "queue"})
    page = assert_page(response)
    assert "queue-packaged" in page.text
    assert len(found(reader, "queue")["Installed operators"]) == 6
    assert "/operators/?view=all&q=queue" in page.links


@pytest.mark.parametrize("text", ["", "   ", "nothing-has-this", EVIL, "%_\\", "a" * 500, "\x01"])
def test_any_text_is_answered(reader: Client, world: Catalog, text: str) -> None:
    page = assert_page(reader.get(URL, {"q": text}))
    assert "results shown" in page.text or "Search everything" in page.text


def test_names_are_text(reader: Client, prod: Cluster) -> None:
    make_operator(cluster=prod, name="evil", package=EVIL)
    make_operator(cluster=prod, name=EVIL)
    response = reader.get(URL, {"q": "script"})
    assert_page(response)
    assert EVIL not in response.content.decode()


def test_it_needs_the_right_to_read(client: Client, settings: Any) -> None:
    settings.PUBLIC_READ = False
    assert client.get(URL)["Location"].startswith("/login/?next=")
    settings.PUBLIC_READ = True
    assert_page(client.get(URL, {"q": "help"}))


def test_the_search_box_of_every_page_leads_there(reader: Client) -> None:
    text = reader.get("/").content.decode()
    form = text[text.index('class="olm-search"') :].partition("</form>")[0]
    assert 'action="/search/"' in form
    assert 'name="q"' in form


def test_while_one_types_the_first_results_of_each_group_are_options(
    reader: Client, prod: Cluster, world: Catalog, django_assert_max_num_queries: Any
) -> None:
    for number in range(5):
        make_operator(cluster=prod, name=f"etcd-{number}")
    typing = {"HX-Request": "true", "HX-Target": "search-results"}
    reader.get(URL, {"q": "etcd"}, headers=typing)  # reads the index of packages
    with django_assert_max_num_queries(11):
        response = reader.get(URL, {"q": "etcd"}, headers=typing)
    page, text = assert_fragment(response), response.content.decode()
    assert text.count('role="option"') == len(page.links)
    assert len({*page.ids}) == len(page.links), "an id for each, which the box refers to"
    assert sum(link.startswith("/operators/") for link in page.links) == 3
    assert page.links[0] == "/operators/prod/Subscription/databases/etcd"
    assert page.links[-1] == "/search/?q=etcd"
    none = reader.get(URL, {"q": "nothing-has-this"}, headers=typing)
    assert "No results found" in assert_fragment(none).text
    assert assert_fragment(reader.get(URL, {"q": " "}, headers=typing)).links == []


def test_a_package_of_many_catalogs_names_their_number(reader: Client, prod: Cluster) -> None:
    for number in range(4):
        slug = f"catalog-{number}"
        make_package(name="db", catalog=make_catalog(cluster=prod, name=slug, slug=slug))
    assert "1.1.0 in 4 catalogs" in assert_page(reader.get(URL, {"q": "db"})).text


def test_an_api_names_each_catalog_of_its_package_and_leads_to_their_comparison(
    reader: Client, prod: Cluster
) -> None:
    provides = {"1.1.0": {"provides": [("example.com", "v1", "Database")]}}
    for slug in ("alpha", "beta"):
        make_package(
            name="db", catalog=make_catalog(cluster=prod, name=slug, slug=slug), bundles=provides
        )
    page = assert_page(reader.get(URL, {"q": "database"}))
    assert "example.com, provided by db in alpha and beta" in page.text
    assert "1.1.0 in alpha and beta" in assert_page(reader.get(URL, {"q": "db"})).text
    assert "Compare db in alpha and beta" in page.text
    assert "/catalogs/compare?from=prod%2Falpha&to=prod%2Fbeta&package=db" in page.links


def test_an_api_names_a_catalog_of_lower_rank_that_alone_provides_it(
    reader: Client, prod: Cluster
) -> None:
    first = make_catalog(cluster=prod, name="alpha", slug="alpha")
    make_package(name="db", catalog=first)
    second = make_catalog(cluster=prod, name="beta", slug="beta")
    provides = {"1.1.0": {"provides": [("example.com", "v1", "Database")]}}
    make_package(name="db", catalog=second, bundles=provides)
    page = assert_page(reader.get(URL, {"q": "example.com"}))
    assert "example.com, provided by db in beta" in page.text


def test_two_access_methods_of_one_catalog_are_not_compared(reader: Client, prod: Cluster) -> None:
    for kind in (Catalog.SourceKind.CLUSTER_CATALOG, Catalog.SourceKind.CATALOG_SOURCE):
        catalog = make_catalog(cluster=prod, name="alpha", slug=f"alpha-{kind}", source_kind=kind)
        make_package(name="db", catalog=catalog)
    assert "Comparisons" not in found(reader, "db")


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("nothing-has-this", "nothing-has-this"),
        ("quay.io/nobody/nothing", "image%3Aquay.io%2Fnobody%2Fnothing"),
    ],
)
def test_without_results_the_software_catalog_searches_for_the_same(
    reader: Client, text: str, query: str
) -> None:
    assert f"/software/?q={query}" in assert_page(reader.get(URL, {"q": text})).links
