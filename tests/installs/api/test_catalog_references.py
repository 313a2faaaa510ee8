"""The references of catalogs: every one in every answer resolves, and a filter finds it again."""

from collections.abc import Iterator
from typing import Any

import pytest

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog
from installs.api.actions import find_package
from installs.models import InstallRequest
from tests.factories import make_catalog, make_cluster, make_operator, make_package
from tests.worlds.rest import EVERYTHING, World
from tests.worlds.rest_fixtures import Get

API = "/api/v1/"
JSON = [path for name, path in EVERYTHING.items() if "fbc" not in name and name != "openapi"]


@pytest.fixture
def named(world: World) -> World:
    """Operators, actions and requests whose objects name catalogs in each way."""
    red = world.prod.catalogs.get()
    make_operator(cluster=world.prod, name="by-name", catalog=red.name)
    make_operator(cluster=world.prod, name="of-none", catalog="nobody-knows")
    world.prod.actions.update(catalog=red.name)
    InstallRequest.objects.filter(state="waiting").update(catalog=red, catalog_name=red.name)
    return world


def references(value: Any) -> Iterator[tuple[str, str | None]]:
    """Reference and address of every catalog in an answer, at any depth."""
    match value:
        case dict():
            if isinstance(value.get("catalog"), str):
                yield value["catalog"], value.get("catalog_url")
            for part in value.values():
                yield from references(part)
        case list():
            for part in value:
                yield from references(part)


def test_every_reference_in_every_answer_resolves(named: World, get: Get) -> None:
    by_path = {path: [*references(get(path).json())] for path in JSON}
    assert {path for path, rows in by_path.items() if any(ref for ref, _ in rows)} >= {
        "catalogs", "packages", "bundles", "operators", "actions", "requests", "actions/1",
        "catalogs/prod/redhat-operators", "packages/prod/redhat-operators/etcd",
    }  # fmt: skip
    for path, rows in by_path.items():
        for reference, address in rows:
            if not reference:
                assert address is None, path
                continue
            assert address == f"{API}catalogs/{reference}", path
            answer = get(f"catalogs/{reference}")
            assert (answer.status_code, answer.json()["catalog"]) == (200, reference), path


@pytest.mark.parametrize("path", ["packages", "bundles", "operators"])
def test_a_reference_of_an_answer_is_a_filter_that_finds_its_rows(
    named: World, get: Get, path: str
) -> None:
    items = get(path).json()["items"]
    counts = {item["catalog"] for item in items}
    assert len(counts) > 1
    for reference in counts:
        expected = [item for item in items if item["catalog"] == reference]
        assert get(path, {"catalog": reference or "-"}).json()["items"] == expected


@pytest.mark.parametrize("path", ["packages", "bundles", "operators"])
@pytest.mark.parametrize("value", ["redhat-operators", "prod/", "/redhat-operators", "a/b/c"])
def test_a_filter_that_is_no_reference_is_refused(
    named: World, get: Get, path: str, value: str
) -> None:
    answer = get(path, {"catalog": value})
    assert answer.status_code == 400
    assert "must be CLUSTER/NAME" in answer.json()["error"]["fields"]["catalog"]


@pytest.mark.parametrize(
    ("kind", "namespace", "slug"),
    [
        ("ClusterExtension", "", "v1"),
        ("Subscription", "olm", "v0"),
        ("Subscription", "elsewhere", None),
        ("PlatformOperator", "", "v0"),
    ],
)
def test_of_catalogs_with_one_name_the_kind_and_the_namespace_decide(
    db: None, get: Get, kind: str, namespace: str, slug: str | None
) -> None:
    prod = make_cluster(name="two")
    make_catalog(cluster=prod, name="red", slug="v1", source_kind="ClusterCatalog", namespace="")
    make_catalog(cluster=prod, name="red", slug="v0", source_kind="CatalogSource", namespace="olm")
    make_operator(
        cluster=prod, name="x", kind=kind, namespace="n", catalog="red", catalog_namespace=namespace
    )
    (row,) = get("operators", {"cluster": "two"}).json()["items"]
    assert (row["catalog"], row["catalog_name"]) == (f"two/{slug}" if slug else "", "red")


def test_an_action_names_the_catalog_that_its_package_was_chosen_in(db: None, get: Get) -> None:
    prod = make_cluster(name="two")
    v1 = make_catalog(cluster=prod, name="red", slug="v1", source_kind="ClusterCatalog")
    make_catalog(cluster=prod, name="red", slug="v0", source_kind="CatalogSource", namespace="olm")
    for number, chosen in enumerate((v1, None)):
        prod.actions.create(verb="install", name=f"n{number}", catalog="red", chosen_catalog=chosen)
    rows = get("actions", {"cluster": "two"}).json()["items"]
    assert {row["object"]["name"]: row["catalog"] for row in rows} == {
        "n0": "two/v1", "n1": "two/v0",
    }  # fmt: skip


def test_an_own_catalog_is_named_where_the_cluster_has_none_of_that_name(
    db: None, get: Get
) -> None:
    make_catalog(name="own")
    make_operator(cluster=make_cluster(name="two"), name="x", catalog="own")
    (row,) = get("operators", {"cluster": "two"}).json()["items"]
    assert (row["catalog"], row["catalog_url"]) == ("-/own", f"{API}catalogs/-/own")


@pytest.mark.django_db
def test_without_a_catalog_that_of_the_highest_priority_that_fits_the_method_is_taken() -> None:
    served = {"state": "served", "version": "v1"}
    cluster = make_cluster(
        name="priorities", kinds={"ClusterExtension": served, "Subscription": served}
    )
    low = make_catalog(cluster=cluster, name="a", priority=-100)
    high = make_catalog(cluster=cluster, name="b")
    source = make_catalog(
        cluster=cluster,
        name="c",
        slug="olm.c",
        namespace="olm",
        source_kind="CatalogSource",
        priority=100,
    )
    for catalog in (low, high, source):
        make_package(name="etcd", catalog=catalog)

    def chosen(method: InstallMethod) -> Catalog:
        return find_package(cluster, "etcd", "", method).catalog

    assert chosen(InstallMethod.CLUSTER_EXTENSION) == high
    assert chosen(InstallMethod.SUBSCRIPTION) == source
    Catalog.objects.filter(pk=high.pk).update(state=Catalog.State.DISABLED)
    assert chosen(InstallMethod.CLUSTER_EXTENSION) == low
