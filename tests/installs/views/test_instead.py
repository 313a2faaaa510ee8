"""A failed operator's page links to the install that its remedy names, and to no refusal."""

from typing import Any

import pytest
from django.db.models import F
from django.test import Client

from catalogs.models import Catalog, Package
from installs.actions.buttons import rights_of
from installs.models import AccessAnswer, Operator
from olmweb.models import Cluster
from tests.factories import (
    SERVED,
    make_catalog,
    make_cluster,
    make_component,
    make_operator,
    make_package,
    make_prediction,
)
from tests.installs.actions.test_permissions import keep, sent  # noqa: F401 - a fixture
from tests.worlds.html import Page, assert_page
from tests.worlds.operators import MODE, WEBHOOK, make_failing

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sent")]
FORM = "/software/prod/redhat-operators/etcd/install?path="
SUBSCRIPTION, EXTENSION = FORM + "Subscription", FORM + "ClusterExtension"
KINDS = {
    **SERVED,
    "Subscription": {"state": "served", "version": "v1alpha1"},
    "ClusterExtension": {"state": "served", "version": "v1"},
}


@pytest.fixture
def writer(client: Client, olivia: Any) -> Client:
    client.force_login(olivia)
    return client


@pytest.fixture
def prod() -> Cluster:
    return make_cluster(kinds=KINDS)


@pytest.fixture
def package(prod: Cluster) -> Package:
    """One that both other paths could install: a ClusterCatalog and a CatalogSource of its name."""
    make_source(prod, "redhat-operators")
    return make_package(
        catalog=make_catalog(cluster=prod), install_modes=["OwnNamespace", "SingleNamespace"]
    )


def make_source(cluster: Cluster, name: str, state: str = "READY") -> None:
    make_component(
        cluster=cluster, kind="CatalogSource", namespace="openshift-marketplace", name=name,
        details={"state": state},
    )  # fmt: skip


def page_of(client: Client, operator: Operator) -> Page:
    return assert_page(client.get(f"/operators/prod/{operator.kind}/-/{operator.name}"))


def forms(client: Client, operator: Operator) -> list[str]:
    return [link for link in page_of(client, operator).links if "/install?" in link]


def test_the_path_that_the_remedy_names_is_a_link_to_its_form(
    writer: Client, prod: Cluster, package: Package
) -> None:
    page = page_of(writer, make_failing(prod, "etcd", MODE))
    assert [link for link in page.links if "/install?" in link] == [SUBSCRIPTION]
    assert "mostly its own namespace. Install as Subscription" in page.text
    form = assert_page(writer.get(SUBSCRIPTION))
    assert "Name of the Subscription" in form.text
    assert "targetNamespaces:" in form.text


def test_why_it_is_to_be_deleted_stands_before_the_command(writer: Client, prod: Cluster) -> None:
    text = page_of(writer, make_failing(prod, "etcd", MODE)).text
    assert (
        "Then delete the PlatformOperator: as long as it fails, it keeps the "
        "ClusterOperator platform-operators-aggregated unavailable. "
        "kubectl delete platformoperator etcd"
    ) in text


def test_every_path_that_is_named_has_a_link(
    writer: Client, prod: Cluster, package: Package
) -> None:
    assert forms(writer, make_failing(prod, "etcd", WEBHOOK)) == [SUBSCRIPTION, EXTENSION]


def test_a_failure_whose_remedy_names_no_other_path_has_none(
    writer: Client, prod: Cluster, package: Package
) -> None:
    assert forms(writer, make_operator(cluster=prod, health="Failed", message="odd")) == []


def test_a_path_that_the_cluster_does_not_serve_is_not_offered(
    writer: Client, prod: Cluster, package: Package
) -> None:
    Cluster.objects.update(kinds=SERVED | {"ClusterExtension": KINDS["ClusterExtension"]})
    assert forms(writer, make_failing(prod, "etcd", WEBHOOK)) == [EXTENSION]


def test_a_package_that_no_catalog_of_the_cluster_offers_has_no_form(
    writer: Client, prod: Cluster, package: Package
) -> None:
    operator = make_failing(prod, "etcd", MODE)
    Catalog.objects.update(state=Catalog.State.DISABLED)
    assert forms(writer, operator) == []
    Catalog.objects.update(cluster=make_cluster(name="lab", kinds=KINDS))
    assert forms(writer, operator) == []


def test_another_catalog_is_named_where_the_own_one_is_none_for_the_path(
    writer: Client, prod: Cluster, package: Package
) -> None:
    Catalog.objects.update(name="community", slug="community")
    make_source(prod, "community")
    operator = make_failing(prod, "etcd", MODE)
    assert forms(writer, operator) == ["/software/prod/community/etcd/install?path=Subscription"]


def test_what_is_looked_at_for_a_form_is_bounded(
    writer: Client, prod: Cluster, package: Package, django_assert_max_num_queries: Any
) -> None:
    operator = make_failing(prod, "etcd", WEBHOOK)
    with django_assert_max_num_queries(61):
        assert len(forms(writer, operator)) == 2
    for name in ("one", "two"):
        make_component(cluster=prod, kind="OperatorGroup", namespace="etcd", name=name)
    for number in range(20):
        make_source(prod, f"community-{number}")
        make_package(catalog=make_catalog(name=f"community-{number}", cluster=prod))
    with django_assert_max_num_queries(101):
        assert forms(writer, operator) == [EXTENSION]


@pytest.mark.revisions
def test_plans_are_made_anew_when_the_cluster_or_a_catalog_changed(
    writer: Client, prod: Cluster, package: Package, django_assert_max_num_queries: Any
) -> None:
    operator = make_failing(prod, "etcd", WEBHOOK)
    assert forms(writer, operator) == [SUBSCRIPTION, EXTENSION]
    with django_assert_max_num_queries(12):
        assert forms(writer, operator) == [SUBSCRIPTION, EXTENSION]
    conditions = [{"type": "Serving", "status": "False", "reason": "Unavailable"}]
    Catalog.objects.update(conditions=conditions)
    assert forms(writer, operator) == [SUBSCRIPTION]
    Catalog.objects.update(conditions=[])
    assert forms(writer, operator) == [SUBSCRIPTION, EXTENSION]
    make_operator(cluster=prod, name="etcd", kind="Subscription", namespace="elsewhere")
    Cluster.objects.update(revision=F("revision") + 1)
    assert forms(writer, operator) == [EXTENSION]
    make_prediction(
        bundle=package.bundles.get(version="1.1.0"), cluster=prod, path="ClusterExtension",
        rule="v1-webhooks", verdict="not_installable", sentence="It has webhooks.",
    )  # fmt: skip
    assert forms(writer, operator) == []


@pytest.mark.parametrize("verdict", ["not_installable", "unknown"])
def test_what_is_predicted_to_fail_is_not_offered(
    writer: Client, prod: Cluster, package: Package, verdict: str
) -> None:
    make_prediction(
        bundle=package.bundles.get(version="1.1.0"), cluster=prod, path="Subscription",
        target="own", rule="sub-dependencies", verdict=verdict, sentence="Nothing provides it.",
    )  # fmt: skip
    expected = [] if verdict == "not_installable" else [SUBSCRIPTION]
    assert forms(writer, make_failing(prod, "etcd", MODE)) == expected


def test_a_namespace_or_a_catalog_that_takes_nothing_is_not_offered(
    writer: Client, prod: Cluster, package: Package
) -> None:
    operator = make_failing(prod, "etcd", WEBHOOK)
    for name in ("one", "two"):
        make_component(cluster=prod, kind="OperatorGroup", namespace="etcd", name=name)
    assert forms(writer, operator) == [EXTENSION]
    conditions = [{"type": "Serving", "status": "False", "reason": "Unavailable"}]
    Catalog.objects.update(conditions=conditions)
    assert forms(writer, operator) == []


def test_nothing_is_offered_where_a_catalog_in_sight_keeps_everything_from_being_resolved(
    writer: Client, prod: Cluster, package: Package
) -> None:
    make_source(prod, "community", state="TRANSIENT_FAILURE")
    assert forms(writer, make_failing(prod, "etcd", MODE)) == []


def test_what_is_installed_by_that_path_already_is_not_offered(
    writer: Client, prod: Cluster, package: Package
) -> None:
    make_operator(cluster=prod, name="etcd", kind="Subscription", namespace="elsewhere")
    assert forms(writer, make_failing(prod, "etcd", MODE)) == []


def test_who_may_not_act_is_offered_nothing_and_who_is_not_signed_in_may_try(
    client: Client, bob: Any, prod: Cluster, package: Package, settings: Any
) -> None:
    settings.PUBLIC_READ = True
    operator = make_failing(prod, "etcd", MODE)
    assert forms(client, operator) == [SUBSCRIPTION]
    client.force_login(bob)
    assert forms(client, operator) == []


def test_what_the_cluster_would_refuse_the_person_is_not_offered(
    writer: Client, olivia: Any, prod: Cluster, package: Package
) -> None:
    operator = make_failing(prod, "etcd", MODE)
    for right in rights_of("install", "Subscription", "etcd"):
        keep(olivia, prod, right, allowed=False, age=5)
    assert forms(writer, operator) == []
    AccessAnswer.objects.update(allowed=True)
    assert forms(writer, operator) == [SUBSCRIPTION]
