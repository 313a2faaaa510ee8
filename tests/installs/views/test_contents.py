"""What will this install, and what changes: the page and the API, from stored rows alone."""

import copy
import re
from typing import Any

import pytest
from django.urls import reverse

from catalogs.models import Bundle
from installs.models import CRDState
from tests.factories import make_bundle, make_catalog, make_cluster, make_operator, make_package
from tests.worlds.bundle_images import CRD, SERVICE, blob, csv

pytestmark = pytest.mark.django_db
EVIL = "<script>alert(1)</script>"


@pytest.fixture
def world() -> tuple[Bundle, Bundle]:
    """kettle 1.0.0 is installed on prod; 2.0.0 needs `lid` and an API that package stove has."""
    prod = make_cluster(name="prod")
    catalog = make_catalog(name="community", cluster=prod)
    package = make_package(name="kettle", catalog=catalog, channels={})
    after: dict[str, Any] = copy.deepcopy(CRD)
    after["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
        "required"
    ].append("lid")
    after["spec"]["names"]["kind"] = EVIL
    needs = {"group": "stove.example.com", "version": "v1", "kind": "Stove"}
    old, new = (
        make_bundle(
            package=package,
            version=version,
            webhooks=1,
            blob=blob(f"kettle.v{version}", csv(), *objects, **more),
            images=[("main", f"registry.example/kettle:{version}")],
        )
        for version, objects, more in (
            ("1.0.0", (CRD, SERVICE), {}),
            ("2.0.0", (after,), {"olm_gvk_required": needs}),
        )
    )
    stove = make_package(name="stove", catalog=catalog, channels={})
    make_bundle(package=stove, provides=[("stove.example.com", "v1", "Stove")])
    make_operator(
        cluster=prod, name="kettle", package="kettle", version="1.0.0", bundle="kettle.v1.0.0",
        health="Healthy",
    )  # fmt: skip
    CRDState.objects.create(
        cluster=prod, kind="CustomResourceDefinition", name="kettles.tea.example.com",
        served=["v1alpha1", "v1"], defined=["v1alpha1", "v1"], stored=["v1alpha1", "v1"],
        owner_kind="Subscription", owner_namespace="tea", owner_name="other",
    )  # fmt: skip
    return old, new


def url(bundle: Bundle, route: str = "installs:contents", **query: str) -> str:
    catalog = bundle.package.catalog
    where = (catalog.cluster_name, catalog.slug, bundle.package.name, bundle.name)
    return reverse(route, args=where) + "".join(f"?{key}={query[key]}" for key in query)


def text_of(response: Any) -> str:
    return re.sub(r"\s+", " ", response.content.decode())


def test_the_page_shows_all_of_it_beside_the_cluster_and_the_installed_version(reader, world):
    response = reader.get(url(world[1]))
    page = text_of(response)
    assert [each.what for each in response.context["wide"]] == ["secrets", "pods"]
    assert "It may read secrets" in page
    assert "Subscription tea/other" in page
    assert "Objects are stored as v1alpha1 here, which the bundle no longer has" in page
    assert "from package stove" in page
    assert "kettle-system (as a PlatformOperator; the bundle suggests none)" in page
    assert "What changes from" in page
    assert ", which is installed" in page
    assert "spec.lid is now required in v1." in page
    assert "Service kettle-metrics (v1)" in page
    assert EVIL not in response.content.decode()


def test_the_bundle_to_compare_with_is_in_the_url(reader, world):
    old, new = world
    page = text_of(reader.get(url(old, **{"from": new.name})))
    assert f'What changes from <a href="{url(new)}">{new.name}' in page
    assert "There is no bundle “nowhere”" in text_of(reader.get(url(old, **{"from": "nowhere"})))
    assert "What changes from" not in text_of(reader.get(url(old)))


def test_what_nobody_knows_is_said_and_not_shown_as_nothing(reader, world):
    new = world[1]
    Bundle.objects.filter(pk=new.pk).update(webhooks=None, blob=None)
    page = text_of(reader.get(url(new)))
    assert "Not inspected" in page
    assert "Cluster-wide permissions" not in page
    assert "This bundle is not inspected" in page


def test_a_catalog_of_no_cluster_is_looked_at_beside_the_one_asked_for(reader, world):
    make_cluster(name="edge")
    package = make_package(name="kettle", catalog=make_catalog(name="file"), channels={})
    bundle = make_bundle(package=package, webhooks=1, blob=blob("kettle.v1.0.0", csv(), CRD))
    assert "On edge" in text_of(reader.get(url(bundle)))
    assert "Subscription tea/other" in text_of(reader.get(url(bundle, cluster="prod")))
    assert "There is no cluster “x”" in text_of(reader.get(url(bundle, cluster="x")))


def test_the_page_costs_few_queries(reader, world, django_assert_max_num_queries):
    reader.get(url(world[1]))
    with django_assert_max_num_queries(28):
        assert reader.get(url(world[1])).status_code == 200


def api(bundle: Bundle, what: str) -> str:
    return f"{url(bundle, 'api:get_bundle')}/{what}"


def test_the_api_tells_the_same(reader, world):
    old, new = world
    found = reader.get(api(new, "contents")).json()
    assert (found["known"], found["cluster"], found["inspection"]) == (True, "prod", "")
    assert found["permissions"][0]["level"] == "danger"
    assert found["crds"][0]["owner"] == "Subscription tea/other"
    assert found["needs"] == [
        {"what": "API Stove (stove.example.com/v1)", "providers": ["stove"], "installed": [],
         "more": 0}
    ]  # fmt: skip
    changes = reader.get(api(new, "difference")).json()
    assert (changes["before"], changes["after"]) == (old.name, new.name)
    assert "CRDs and their schemas" in [each["title"] for each in changes["sections"]]
    assert reader.get(api(old, "difference?from=" + new.name)).json()["before"] == new.name


def test_dependencies_are_met_as_the_resolver_of_olm_v0_decides(reader, world):
    new = world[1]
    prod, package = new.package.catalog.cluster, new.package
    required = {"packageName": "stove", "versionRange": ">=2.0.0"}
    constraint = {"package": {"packageName": "lid", "versionRange": ">=1.0.0"}}
    properties = {"olm_package_required": required, "olm_constraint": constraint}
    bundle = make_bundle(
        package=package, version="3.0.0", webhooks=1,
        blob=blob("kettle.v3.0.0", csv(), CRD, **properties),
    )  # fmt: skip
    for namespace in ("tea", "coffee"):
        catalog = make_catalog(cluster=prod, name=namespace, namespace=namespace)
        make_package(name="lid", catalog=catalog, channels={"stable": ("1.0.0",)})
    stove = {"what": "Package stove >=2.0.0", "providers": [], "installed": [], "more": 0}
    lid = {"what": "Package lid >=1.0.0", "providers": ["lid"], "installed": [], "more": 0}

    def needs() -> Any:
        return reader.get(api(bundle, "contents")).json()["needs"]

    assert needs() == [stove, lid], "version 1.0.0 of stove is not in the range"
    of_stove = {"cluster": prod, "package": "stove", "name": "stove", "version": "2.1.0"}
    make_operator(kind="ClusterExtension", **of_stove)
    assert needs() == [stove, lid], "the resolver knows no operators of OLM v1"
    make_operator(kind="Subscription", namespace="n", **of_stove)
    assert needs() == [{**stove, "installed": ["stove"]}, lid]
    package.catalog.namespace = "kitchen"
    package.catalog.save()
    assert needs()[1]["providers"] == [], "no namespace can use catalogs of two other namespaces"


@pytest.mark.parametrize(
    ("what", "status", "words"),
    [
        ("contents?x=1", 400, "no query parameter"),
        ("contents?cluster=edge", 400, "of cluster prod"),
        ("difference?from=nowhere", 404, "no bundle “nowhere”"),
    ],
)
def test_the_api_refuses_in_a_sentence(reader, world, what, status, words):
    response = reader.get(api(world[1], what))
    assert (response.status_code, words in response.json()["error"]["message"]) == (status, True)


def test_the_api_says_null_for_what_nobody_knows(reader, world):
    new = world[1]
    Bundle.objects.filter(pk=new.pk).update(webhooks=None, blob=None)
    found = reader.get(api(new, "contents")).json()
    assert (found["known"], found["permissions"], found["webhooks"]) == (False, None, None)
    assert reader.get(api(new, "difference")).json()["error"]["code"] == "not-inspected"
