"""The audit page: pickers, donut, buckets, table, what came true; and its REST route."""

import csv
import io
from typing import Any

import pytest
from django.test import Client

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, PredictionRun
from installs.audit.audit import audit
from installs.models import Operator
from olmweb.models import Cluster
from tests.factories import (
    make_catalog,
    make_cluster,
    make_component,
    make_operator,
    make_package,
    make_prediction,
    make_watch,
)
from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db
URL = "/audit/"
API = "/api/v1/audit"
OWN = "It supports OwnNamespace only."


@pytest.fixture
def catalog() -> Catalog:
    """Of cluster prod: `good` and `torn` are called installable, `own` not, `odd` is unknown."""
    cluster = make_cluster()
    catalog = make_catalog(cluster=cluster, package_count=4)
    counts = {"PlatformOperator": {"installable": 2, "not_installable": 1, "unknown": 1}}
    for of in (None, cluster):
        PredictionRun.objects.create(
            catalog=catalog, cluster=of, revision=1, rules_version=1, inputs="h", counts=counts
        )
    for name, rule, verdict in (
        ("good", "", "installable"),
        ("torn", "", "installable"),
        ("own", "po-install-mode", "not_installable"),
        ("odd", "po-webhook", "unknown"),
    ):
        package = make_package(catalog=catalog, name=name, channels={"stable": ("1.0.0",)})
        sentence = OWN if rule == "po-install-mode" else ""
        make_prediction(bundle=package.bundles.get(), rule=rule, verdict=verdict, sentence=sentence)
    return catalog


@pytest.fixture
def prod(catalog: Catalog) -> Cluster:
    assert catalog.cluster is not None
    for name, health in (
        ("good", "Healthy"),
        ("torn", "Failed"),
        ("own", "Failed"),
        ("odd", "Failed"),
    ):
        make_operator(cluster=catalog.cluster, name=name, package=name, health=health)
    return catalog.cluster


def _packages(response: Any) -> list[str]:
    return [row.package for row in response.context["page"].object_list]


def test_an_audited_operator_names_rule_and_finding_in_words(reader: Client, prod: Cluster) -> None:
    Operator.objects.filter(name="own").update(finding="allnamespaces-required")
    page = assert_page(reader.get(URL, {"cluster": prod.name}))
    assert "Not installable Bundle lacks install mode AllNamespaces Failed" in page.text
    assert "Failed AllNamespaces install mode required by PlatformOperator" in page.text


def test_without_a_catalog_the_page_says_what_it_needs(reader: Client) -> None:
    assert "No catalog to audit yet" in reader.get(URL).content.decode()


def test_a_catalog_that_was_not_judged_says_so(reader: Client) -> None:
    make_catalog()
    assert "Not evaluated yet" in reader.get(URL).content.decode()


def test_a_catalog_without_content_leads_to_its_page_instead_of_waiting(reader: Client) -> None:
    make_catalog()
    make_catalog(name="broken", synced_at=None, state="failed")
    page = reader.get(URL, {"catalog": "-/broken"}).content.decode()
    assert "No content of this catalog was read yet" in page
    assert 'href="/catalogs/-/broken"' in page
    assert "Not evaluated yet" not in page


def test_counts_buckets_and_packages_are_shown(reader: Client, catalog: Catalog) -> None:
    response = reader.get(URL)
    page = response.content.decode()
    assert "2 of 4 packages installable, 1 not installable, 1 unknown" in page
    assert page.count("No blocking rule found<") == 1, "the bar of what is installable"
    assert _packages(response) == ["good", "odd", "own", "torn"]
    assert [(one["key"], one["count"]) for one in response.context["buckets"]] == [
        ("installable", 2),
        ("po-install-mode", 1),
        ("po-webhook", 1),
    ]
    assert OWN in page
    assert "style=" not in page


def test_of_twins_the_cluster_catalog_is_audited_unless_another_is_asked_for(
    reader: Client, prod: Cluster, catalog: Catalog
) -> None:
    kind = Catalog.SourceKind.CATALOG_SOURCE
    catalog.refresh_from_db()
    count = catalog.package_count
    make_catalog(name="a-twin", cluster=prod, source_kind=kind, package_count=count)
    assert reader.get(URL).context["catalog_key"] == f"prod/{catalog.slug}"
    asked = reader.get(URL, {"catalog": "prod/a-twin"})
    assert asked.context["catalog_key"] == "prod/a-twin"


def test_what_differs_from_what_happened_comes_first(reader: Client, prod: Cluster) -> None:
    response = reader.get(URL)
    actual = response.context["audit"].actual
    assert [(one.name, one.agrees) for one in actual] == [
        ("torn", False),
        ("odd", None),
        ("good", True),
        ("own", True),
    ]
    assert "1 prediction differs from what happened" in response.content.decode()


def test_the_catalog_alone_is_compared_with_nothing(reader: Client, prod: Cluster) -> None:
    response = reader.get(URL, {"cluster": "-"})
    assert response.context["audit"].actual == ()
    assert "what happened" not in response.content.decode()


def test_facts_of_the_cluster_replace_those_of_the_catalog(reader: Client, prod: Cluster) -> None:
    catalog = prod.catalogs.get()
    bundle = catalog.packages.get(name="good").bundles.get()
    make_prediction(bundle=bundle, rule="po-crd-owned", sentence="Taken.", cluster=prod)
    assert reader.get(URL).context["audit"].counts["installable"] == 1
    assert reader.get(URL, {"cluster": "-"}).context["audit"].counts["installable"] == 2


@pytest.mark.parametrize(
    ("params", "left"),
    [
        ({"bucket": "po-webhook"}, ["odd"]),
        ({"bucket": "installable"}, ["good", "torn"]),
        ({"q": "ownnamespace"}, ["own"]),
        ({"q": "o", "bucket": "installable"}, ["good", "torn"]),
        ({"bucket": "no-such-rule"}, []),
    ],
)
def test_filters_are_in_the_url(
    reader: Client, catalog: Catalog, params: dict[str, str], left: list[str]
) -> None:
    assert _packages(reader.get(URL, params)) == left


@pytest.mark.parametrize(
    ("params", "notice"),
    [
        ({"catalog": "-/gone"}, "There is no catalog “gone”"),
        ({"catalog": "x"}, "There is no catalog “x”"),
        ({"cluster": "gone"}, "There is no cluster “gone”"),
        ({"path": "helm"}, "“path” can be PlatformOperator"),
        ({"watch": "none"}, "“watch” can be any, all, own"),
        ({"page": "x"}, "Pages are counted from 1"),
    ],
)
def test_a_bookmark_to_what_is_gone_shows_another_and_says_so(
    reader: Client, catalog: Catalog, params: dict[str, str], notice: str
) -> None:
    response = reader.get(URL, params)
    assert response.status_code == 200
    assert any(notice in each for each in response.context["notices"])


def test_the_history_has_every_outcome(reader: Client, catalog: Catalog) -> None:
    counts = {"PlatformOperator": {"installable": 1}}
    PredictionRun.objects.create(
        catalog=catalog, cluster=catalog.cluster, revision=2, rules_version=2, inputs="i",
        counts=counts,
    )  # fmt: skip
    found = reader.get(URL).context["audit"]
    assert [(one.revision, one.counts["installable"]) for one in found.history] == [(2, 1), (1, 2)]
    assert found.rules_version == 2


def test_the_history_leaves_out_what_changed_on_other_ways_only(catalog: Catalog) -> None:
    PredictionRun.objects.filter(catalog=catalog).delete()
    told = {"PlatformOperator": {"installable": 2}, "Subscription": {"installable": 1}}
    for number in range(3):
        counts = told | {"Subscription-any": {"installable": number}}
        PredictionRun.objects.create(
            catalog=catalog, revision=1, rules_version=1, counts=counts, inputs=str(number)
        )
    oldest = PredictionRun.objects.earliest("id")
    [past] = audit(catalog, InstallMethod.PLATFORM_OPERATOR).history
    assert (past.at, past.counts["installable"]) == (oldest.at, 2)
    assert len(audit(catalog, InstallMethod.SUBSCRIPTION).history) == 3


def test_the_page_costs_a_fixed_number_of_queries(
    reader: Client, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    for number in range(30):
        package = make_package(
            catalog=prod.catalogs.get(), name=f"p{number}", channels={"stable": ("1.0.0",)}
        )
        make_prediction(bundle=package.bundles.get())
    # session, user and their permissions (2), clusters, catalogs, packages, runs,
    # operators, what the cluster's catalogs say of themselves
    with django_assert_max_num_queries(11):
        reader.get(URL)


def test_the_api_answers_the_same(reader: Client, prod: Cluster) -> None:
    params = {"catalog": "prod/redhat-operators", "method": "platformoperator", "cluster": "prod"}
    response = reader.get(API, params)
    found = response.json()
    assert found["counts"] == {"installable": 2, "not-installable": 1, "unknown": 1}
    assert (found["buckets"][0]["rule"], found["buckets"][0]["count"]) == ("", 2)
    assert (found["actual"]["agree"], found["actual"]["disagree"]) == (2, 1)
    assert found["actual"]["operators"][0]["name"] == "torn"
    first = found["actual"]["by_rule"][0]
    assert (first["rule"], first["count"], first["agrees"]) == ("", 1, False)
    assert found["history"][0]["revision"] == 1
    assert reader.get(API, params, headers={"If-None-Match": response["ETag"]}).status_code == 304
    rows = list(
        csv.DictReader(io.StringIO(reader.get(API, {**params, "format": "csv"}).content.decode()))
    )
    assert [row["package"] for row in rows] == ["good", "odd", "own", "torn"]
    text = reader.get(API, {**params, "format": "md"}).content.decode()
    assert "2 installable, 1 not installable, 1 unknown" in text
    assert "| torn | Failed | installable |  |" in text


def _group(cluster: Cluster, namespace: str, *selects: str) -> None:
    make_component(
        cluster=cluster,
        kind="OperatorGroup",
        namespace=namespace,
        name=f"{namespace}-group",
        details={"namespaces": list(selects)},
    )


def test_a_namespace_of_the_cluster_is_judged_by_its_operator_group(
    reader: Client, prod: Cluster
) -> None:
    make_watch(cluster=prod, kind="OperatorGroup", resource="OperatorGroup")
    _group(prod, "blue", "blue")
    catalog = prod.catalogs.get()
    for target, rule in (("all", "sub-install-mode"), ("own", "")):
        bundle = catalog.packages.get(name="own").bundles.get()
        make_prediction(bundle=bundle, rule=rule, path="Subscription", target=target)
    params = {"path": "subscription", "namespace": "blue"}
    response = reader.get(URL, params)
    page = response.content.decode()
    assert response.context["audit"].counts["installable"] == 1
    assert "blue (its own namespace)" in page
    assert "selects its own namespace" in page
    missing = reader.get(URL, {**params, "namespace": "red"})
    assert "Nothing is resolved in namespace red" in missing.content.decode()
    assert missing.context["audit"].counts["not_installable"] == 1
    asked = {
        "method": "subscription",
        "namespace": "blue",
        "catalog": "prod/redhat-operators",
        "cluster": "prod",
    }
    found = reader.get(API, asked).json()
    assert (found["namespace"], found["target"]) == ("blue", "own")
    assert reader.get(API, {**asked, "namespace": "red"}).json()["buckets"][0]["rule"] == (
        "sub-one-group"
    )


@pytest.mark.parametrize(
    ("params", "status", "words"),
    [
        ({"catalog": "-/x", "method": "subscription", "namespace": "n"}, 400, "namespace is of"),
        ({"method": "subscription"}, 400, "catalog is needed"),
        ({"catalog": "prod/redhat-operators"}, 400, "method is needed"),
        (
            {"catalog": "prod/redhat-operators", "method": "helm"},
            400,
            "is no install method: use PlatformOperator",
        ),
        ({"catalog": "prod/redhat-operators", "method": "subscription", "x": "1"}, 400, "no query"),
        ({"catalog": "-/gone", "method": "subscription"}, 404, "no catalog"),
        (
            {"catalog": "prod/redhat-operators", "method": "subscription", "cluster": "x"},
            404,
            "no cluster x",
        ),
    ],
)
def test_the_api_says_what_is_wrong(
    reader: Client, catalog: Catalog, params: dict[str, str], status: int, words: str
) -> None:
    response = reader.get(API, params)
    assert response.status_code == status
    assert words in response.json()["error"]["message"]


def test_texts_of_a_catalog_are_neither_formulas_nor_markup_in_exports(
    reader: Client, catalog: Catalog
) -> None:
    package = make_package(catalog=catalog, name="=cmd", channels={"stable": ("1.0.0",)})
    make_prediction(bundle=package.bundles.get(), rule="po-webhook", sentence="a | <b>\n# c")
    params = {"catalog": "prod/redhat-operators", "method": "platformoperator"}
    assert "\n'=cmd," in reader.get(API, {**params, "format": "csv"}).content.decode()
    assert r"a \| \<b\> \# c" in reader.get(API, {**params, "format": "md"}).content.decode()


def test_a_catalog_of_a_cluster_is_audited_before_one_of_no_cluster(
    reader: Client, catalog: Catalog
) -> None:
    make_catalog(name="team-files", source_kind="File")
    assert reader.get(URL).context["query"].catalog == catalog
