"""From OLM v0 to v1: each thing that stands in the way of a ClusterExtension, one sentence each."""

from typing import Any

import pytest
from django.test import Client

from catalogs.models import Catalog
from installs.models import Component, Operator
from installs.readiness.v1_migration_report import V1Migration, v1_migrations
from olmweb.models import Cluster
from tests.factories import make_catalog, make_cluster, make_component, make_operator, make_package
from tests.worlds.html import assert_fragment, assert_page
from tests.worlds.subscriptions import NAMESPACE, make_subscription

pytestmark = pytest.mark.django_db
FINE: dict[str, Any] = {
    "install_modes": {"AllNamespaces": True, "OwnNamespace": False},
    "webhooks": 0,
    "conversion_webhooks": 0,
    "api_services": 0,
    "owned_crds": [],
    "required_crds": [],
    "dependencies": [],
}


@pytest.fixture
def prod() -> Cluster:
    return make_cluster(name="prod", kinds={"ClusterExtension": {"state": "served"}})


@pytest.fixture
def catalog(prod: Cluster) -> Catalog:
    catalog = make_catalog(name="operatorhub", cluster=prod)
    make_package(name="grafana", catalog=catalog)
    return catalog


@pytest.fixture
def row(prod: Cluster, catalog: Catalog) -> Operator:
    row = make_subscription(prod)
    row.components.all().delete()
    make_csv(row)
    make_group(prod)
    return row


def make_csv(row: Operator, **details: Any) -> None:
    row.components.filter(kind="ClusterServiceVersion").delete()
    make_component(
        operator=row, kind="ClusterServiceVersion", namespace=row.namespace,
        name=row.bundle, details={**FINE, **details},
    )  # fmt: skip


def make_group(cluster: Cluster, name: str = "global", **details: Any) -> None:
    make_component(
        cluster=cluster, kind="OperatorGroup", namespace=NAMESPACE, name=name,
        details={"namespaces": [""], "targets": [], "service_account": "", **details},
    )  # fmt: skip


def the_one(cluster: Cluster) -> V1Migration:
    found = [one for one in v1_migrations([cluster]) if one.name == "grafana"]
    assert len(found) == 1
    return found[0]


def test_what_nothing_hinders_is_ready_with_the_steps_and_its_version(
    row: Operator, prod: Cluster
) -> None:
    found = the_one(prod)
    assert (found.fate, found.reasons, found.catalog) == ("ready", (), "operatorhub")
    assert "ClusterServiceVersion grafana.v1.0.0" in found.steps[0]
    assert found.steps[-1].endswith("of catalog operatorhub, pinned to 1.0.0.")


@pytest.mark.parametrize(
    ("details", "code", "fate"),
    [
        ({"install_modes": {"OwnNamespace": True}}, "ce-install-mode", "no"),
        ({"api_services": 1}, "ce-api-service", "no"),
        ({"dependencies": ["olm.gvk.required"]}, "ce-dependency", "no"),
        ({"webhooks": 2}, "ce-webhook", "unknown"),
    ],
)
def test_what_operator_controller_refuses_is_told_by_the_rules_of_prediction(
    row: Operator, prod: Cluster, details: dict[str, Any], code: str, fate: str
) -> None:
    make_csv(row, **details)
    found = the_one(prod)
    assert (found.fate, found.codes) == (fate, (code,))
    assert bool(found.steps) == (fate != "no")


def test_without_olm_v1_or_without_the_package_there_is_nothing_to_take_over_with(
    row: Operator, prod: Cluster, catalog: Catalog
) -> None:
    catalog.packages.all().delete()
    assert the_one(prod).codes == ("no-cluster-catalog",)
    prod.kinds = {}
    assert the_one(prod).codes == ("not-served",)


def test_a_version_that_no_cluster_catalog_has_would_change(
    row: Operator, prod: Cluster, catalog: Catalog
) -> None:
    catalog.packages.get().bundles.filter(version="1.0.0").delete()
    found = the_one(prod)
    assert (found.fate, found.codes) == ("changes", ("version-not-offered",))
    assert "its default channel is at 1.1.0" in found.reasons[0]


def test_a_narrowed_operator_group_and_its_service_account_are_told(
    row: Operator, prod: Cluster
) -> None:
    Component.objects.filter(kind="OperatorGroup").delete()
    make_group(prod, namespaces=["apps", "tools"], service_account="scoped")
    found = the_one(prod)
    assert found.codes == ("operator-group", "scoped-permissions")
    assert "limits it to apps, tools" in found.reasons[0]
    make_group(prod, name="second")
    assert "has 2 OperatorGroups" in the_one(prod).reasons[0]


def test_what_only_olm_v0_does_is_told(row: Operator, prod: Cluster) -> None:
    row.details |= {"approval": "Manual", "config": ["env"], "generated_by": "install-abc"}
    row.save()
    make_component(
        operator=row, kind="OperatorCondition", namespace=NAMESPACE, name=row.bundle,
        details={"spec_conditions": [{"type": "Upgradeable", "status": "True"}]},
    )  # fmt: skip
    found = the_one(prod)
    assert found.fate == "changes"
    assert set(found.codes) == {"dependency", "operator-conditions", "config", "manual-approval"}
    (dependency,) = (text for text in found.reasons if "as a dependency" in text)
    assert "as a dependency of another operator (InstallPlan install-abc):" in dependency


def test_a_dependency_is_that_of_the_package_requested_in_its_install_plan(
    row: Operator, prod: Cluster
) -> None:
    row.details |= {"generated_by": "install-abc"}
    row.save()
    for namespace in (NAMESPACE, "elsewhere"):
        make_operator(
            cluster=prod, kind="Subscription", namespace=namespace, name=f"tempo-{namespace}",
            package="tempo", details={"installed_csv": "tempo.v1"},
        )  # fmt: skip
    make_component(
        operator=row, kind="InstallPlan", namespace=NAMESPACE, name="install-abc",
        details={"csvs": ["tempo.v1", row.bundle]},
    )  # fmt: skip
    migration = next(entry for entry in v1_migrations([prod]) if entry.name == row.name)
    assert migration.codes == ("dependency",)
    assert "as a dependency of tempo (InstallPlan install-abc):" in migration.reasons[0]


def test_an_operator_that_another_needs_can_not_go(row: Operator, prod: Cluster) -> None:
    make_csv(row, owned_crds=["grafanas.example.com"])
    other = make_operator(cluster=prod, kind="Subscription", namespace="apps", name="other")
    make_component(
        operator=other, kind="ClusterServiceVersion", namespace="apps", name="other.v1",
        details={**FINE, "required_crds": ["grafanas.example.com"]},
    )  # fmt: skip
    found = the_one(prod)
    assert (found.fate, found.codes) == ("no", ("dependents",))
    assert "other.v1 needs its APIs" in found.reasons[0]


def test_without_a_csv_the_catalog_tells_and_what_it_can_not_tell_is_unknown(
    row: Operator, prod: Cluster
) -> None:
    row.components.all().delete()
    found = the_one(prod)
    assert (found.fate, set(found.codes)) == ("unknown", {"ce-api-service", "ce-webhook"})


def test_the_number_of_queries_does_not_grow_with_subscriptions(
    row: Operator, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    for number in range(5):
        make_subscription(prod, name=f"op-{number}")
    with django_assert_max_num_queries(7):
        assert len(v1_migrations([prod])) == 6


def test_the_page_and_the_api_tell_the_same(reader: Client, row: Operator) -> None:
    make_csv(row, api_services=1, owned_crds=["a.example.com"])
    page = assert_page(reader.get("/readiness/olm-v1/"))
    assert "1 Subscription: 0 ready, 0 with changes, 0 unknown, 1 not migratable" in page.text
    assert "the bundle owns 1 APIService" in page.text
    found = reader.get("/api/v1/migrations?verdict=no&q=grafana").json()
    assert (found["count"], found["items"][0]["codes"]) == (1, ["ce-api-service"])
    assert reader.get("/api/v1/migrations?verdict=ready").json()["count"] == 0
    text = b"".join(reader.get("/api/v1/migrations?format=md")).decode()
    assert "(no)" in text


def test_filters_and_polls_of_the_page(reader: Client, row: Operator) -> None:
    assert "No Subscription matches" in assert_page(reader.get("/readiness/olm-v1/?fate=no")).text
    assert reader.get("/readiness/olm-v1/?fate=maybe").status_code == 400
    assert reader.get("/readiness/olm-v1/?cluster=gone").status_code == 404
    headers = {"HX-Request": "true", "HX-Target": "live"}
    first = reader.get("/readiness/olm-v1/?fate=", headers=headers)
    assert_fragment(first)
    assert first.context_data is not None
    rev = first.context_data["rev"]
    assert reader.get("/readiness/olm-v1/", {"rev": rev}, headers=headers).status_code == 204


def test_without_subscriptions_the_page_says_so(reader: Client, prod: Cluster) -> None:
    assert "No Subscriptions" in assert_page(reader.get("/readiness/olm-v1/")).text


def test_of_what_is_not_installed_yet_nothing_else_is_told(row: Operator, prod: Cluster) -> None:
    row.details |= {"installed_csv": "", "approval": "Manual"}
    row.save()
    found = the_one(prod)
    assert (found.fate, found.codes, found.steps) == ("no", ("not-installed",), ())
    assert not found.version, "the version that waits for approval is not an installed one"
