"""Forms of the other paths and of changes: every field is there; no cluster is asked."""

from typing import Any

import pytest
from django.test import Client

from catalogs.models import Catalog
from tests.factories import make_catalog, make_cluster, make_component, make_operator, make_package
from tests.web.html import assert_page

pytestmark = pytest.mark.django_db
KINDS = {
    kind: {"state": "served", "version": version}
    for kind, version in (
        ("PlatformOperator", "v1alpha1"),
        ("ClusterExtension", "v1"),
        ("Subscription", "v1alpha1"),
    )
}


@pytest.fixture
def writer(client: Client, olivia: Any) -> Client:
    client.force_login(olivia)
    return client


def test_each_path_has_its_fields_and_its_manifests(writer: Client) -> None:
    prod = make_cluster(kinds=KINDS)
    catalog = make_catalog(cluster=prod, source_kind=Catalog.SourceKind.CLUSTER_CATALOG)
    make_package(catalog=catalog)
    make_component(
        cluster=prod, kind="CatalogSource", name=catalog.name, namespace="openshift-marketplace"
    )
    address = "/software/prod/redhat-operators/etcd/install"
    page = assert_page(writer.get(address, {"path": "Subscription", "approval": "Manual"}))
    assert "installPlanApproval: Manual" in page.text
    assert "kind: OperatorGroup" in page.text
    page = assert_page(writer.get(address, {"path": "ClusterExtension", "channel": "stable"}))
    assert "kind: ClusterExtension" in page.text
    bad = writer.get(address, {"path": "ClusterExtension", "version": "no range"})
    assert 'id="field-version-error"' in bad.content.decode()


def test_an_upgrade_and_an_approval_are_shown_in_full(writer: Client) -> None:
    prod = make_cluster(kinds=KINDS)
    make_package(catalog=make_catalog(cluster=prod))
    make_operator(
        cluster=prod,
        kind="Subscription",
        namespace="apps",
        name="etcd",
        package="etcd",
        channel="stable",
        details={"installed_csv": "etcd.v1.0.0", "current_csv": "etcd.v1.1.0"},
    )
    page = assert_page(writer.get("/operators/prod/Subscription/apps/etcd/upgrade"))
    assert "etcd.v1.1.0" in page.text
    make_component(
        cluster=prod,
        kind="InstallPlan",
        name="install-x",
        namespace="apps",
        phase="RequiresApproval",
        details={"csvs": ["etcd.v1.1.0"], "steps": [], "approved": False},
    )
    page = assert_page(writer.get("/installplans/prod/apps/install-x/approve"))
    assert "upgrades etcd.v1.0.0 to etcd.v1.1.0" in page.text
    assert "approved: true" in page.text
