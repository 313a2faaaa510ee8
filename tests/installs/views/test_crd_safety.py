"""The CRD changes that an upgrade form shows before it is reviewed."""

import base64
import json
import sys
from typing import Any

import pytest
from django.test import Client

from catalogs.models import Bundle, Catalog, Package
from installs.actions.crd_safety import crd_safety
from installs.facts import crd_schemas
from installs.models import CRDState, Operator
from installs.state.full_sync import sync_cluster
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_blob, make_cluster, make_crd, make_operator, make_package
from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db
PACKAGE = "kettle"
CRD = "kettles.tea.example.com"
EXTENSION = f"/operators/prod/ClusterExtension/-/{PACKAGE}/upgrade"
SUBSCRIPTION = f"/operators/prod/Subscription/apps/{PACKAGE}/upgrade"
SIZE = {"type": "integer"}


@pytest.fixture
def prod(sandbox: Sandbox) -> Cluster:
    """A cluster with kettle 1.0.0 as ClusterExtension and as Subscription; 1.1.0 is offered."""
    found = make_cluster(name="prod", context="sandbox")
    sync_cluster(found)
    found.refresh_from_db()
    catalog = Catalog.objects.get(cluster=found, name="redhat-operators", namespace="")
    make_package(name=PACKAGE, catalog=catalog, channels={"stable": ("1.0.0", "1.1.0")})
    names: dict[str, Any] = {"name": PACKAGE, "package": PACKAGE, "catalog": "redhat-operators"}
    make_operator(
        cluster=found, kind="ClusterExtension", bundle=f"{PACKAGE}.v1.0.0", version="1.0.0", **names
    )
    details = {"installed_csv": f"{PACKAGE}.v1.0.0", "current_csv": f"{PACKAGE}.v1.0.0"}
    make_operator(
        cluster=found, kind="Subscription", namespace="apps", channel="stable", details=details,
        **names,
    )  # fmt: skip
    return found


@pytest.fixture
def writer(client: Client, olivia: Any) -> Client:
    client.force_login(olivia)
    return client


def crd(size: dict[str, Any], *versions: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": size}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD},
        "spec": {
            "group": "tea.example.com",
            "scope": "Namespaced",
            "versions": [
                {"name": name, "served": True, "schema": {"openAPIV3Schema": schema}}
                for name in versions or ("v1",)
            ],
        },
    }


def nested(levels: int, leaf: str = "string") -> dict[str, Any]:
    """A schema of objects in objects, in JSON twice as deep."""
    schema: dict[str, Any] = {"type": leaf}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def as_json(value: Any) -> bytes:
    """The JSON of a value that may be nested deeper than Python's encoders go."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        return json.dumps(value).encode()
    finally:
        sys.setrecursionlimit(limit)


def store(cluster: Cluster, manifest: dict[str, Any]) -> None:
    """Stores the schema of the CRD as the worker that reads it does."""
    crd_schemas.store(cluster, CRD, manifest)


def ship(version: str, manifest: dict[str, Any]) -> None:
    """Gives the bundle of kettle in this version its CRD, as a catalog with olm.bundle.object
    does."""
    data = base64.b64encode(as_json(manifest)).decode()
    blob = {
        "schema": "olm.bundle",
        "name": f"{PACKAGE}.v{version}",
        "package": PACKAGE,
        "properties": [{"type": "olm.bundle.object", "value": {"data": data}}],
    }
    bundle = Bundle.objects.get(package__name=PACKAGE, version=version)
    bundle.blob = make_blob(data=json.dumps(blob).encode())
    bundle.save()


def test_a_change_that_operator_controller_refuses_is_named_with_its_field(
    writer: Client, prod: Cluster
) -> None:
    ship("1.0.0", crd(SIZE))
    ship("1.1.0", crd({"type": "integer", "maximum": 5}))
    page = assert_page(writer.get(EXTENSION, {"version": "1.1.0"}))
    assert (
        "Would be refused operator-controller refuses the upgrade from kettle.v1.0.0" in page.text
    )
    assert f"{CRD} v1 ^.spec.size maximum is 5 now; there was none. Refused" in page.text
    assert "crdUpgradeSafety.enforcement" in page.text


def test_of_a_subscription_the_same_change_depends_on_the_objects(
    writer: Client, prod: Cluster
) -> None:
    ship("1.0.0", crd(SIZE))
    ship("1.1.0", crd({"type": "integer", "maximum": 5}))
    page = assert_page(writer.get(SUBSCRIPTION))
    assert "OLM refuses the upgrade from kettle.v1.0.0 to kettle.v1.1.0 if an existing" in page.text
    assert "Refused if an object does not fit" in page.text


def test_a_version_that_the_cluster_stores_may_not_go(writer: Client, prod: Cluster) -> None:
    ship("1.0.0", crd(SIZE, "v1", "v1beta1"))
    ship("1.1.0", crd(SIZE, "v1"))
    assert "Allowed OLM allows these changes" in assert_page(writer.get(SUBSCRIPTION)).text
    CRDState.objects.create(cluster=prod, name=CRD, uid="u", stored=["v1", "v1beta1"])
    page = assert_page(writer.get(SUBSCRIPTION))
    assert "Would be refused OLM refuses the upgrade from kettle.v1.0.0" in page.text
    assert "Version v1beta1 is gone, and objects may be stored as v1beta1." in page.text


def test_compatible_crds_are_said_to_be_so_and_no_upgrade_compares_nothing(
    writer: Client, prod: Cluster
) -> None:
    ship("1.0.0", crd(SIZE))
    ship("1.1.0", crd(SIZE))
    page = assert_page(writer.get(EXTENSION, {"version": "1.1.0"}))
    assert "Compatible No CRD changes from kettle.v1.0.0 to kettle.v1.1.0" in page.text
    Operator.objects.filter(kind="Subscription").update(details={})
    assert "CRD changes" not in assert_page(writer.get(SUBSCRIPTION)).text


def test_the_schema_that_the_cluster_has_is_compared_and_not_that_of_the_bundle(
    writer: Client, prod: Cluster
) -> None:
    ship("1.0.0", crd(SIZE))
    ship("1.1.0", crd(SIZE))
    CRDState.objects.create(cluster=prod, name=CRD, uid="u", stored=["v1"])
    page = assert_page(writer.get(EXTENSION, {"version": "1.1.0"}))
    assert "Compatible" in page.text
    assert f"where the schema on the cluster was not read yet: {CRD}." in page.text
    by_hand = crd({"type": "string"})
    store(prod, by_hand)
    page = assert_page(writer.get(EXTENSION, {"version": "1.1.0"}))
    assert f"{CRD} v1 ^.spec.size The type was string, now integer. Refused" in page.text
    assert "The new CRDs are compared with those of prod." in page.text
    CRDState.objects.all().delete()
    assert "Compatible" in assert_page(writer.get(EXTENSION, {"version": "1.1.0"})).text


def test_a_crd_that_only_the_new_bundle_and_the_cluster_have_is_compared(
    prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    ship("1.0.0", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}})
    ship("1.1.0", crd({"type": "integer", "maximum": 5}))
    CRDState.objects.create(
        cluster=prod, name=CRD, uid="u", stored=["v1"], owner_kind="ClusterExtension",
        owner_name="teapot",
    )  # fmt: skip
    store(prod, crd(SIZE))
    operator = Operator.objects.get(kind="ClusterExtension", name=PACKAGE)
    package = Package.objects.get(name=PACKAGE)
    with django_assert_max_num_queries(7):
        safety = crd_safety(operator, package, f"{PACKAGE}.v1.1.0")
    assert safety is not None
    assert [finding.path for finding in safety.refused] == ["^.spec.size"]
    assert [row.note for row in safety.differences] == [
        "The installed bundle does not have it: it came to the cluster in another way.",
        "It belongs to ClusterExtension teapot on the cluster.",
    ]


@pytest.mark.parametrize("levels", [60, 400, 480, 900])
def test_schemas_that_are_nested_too_deep_are_compared_to_the_depth_that_is_named(
    writer: Client, prod: Cluster, levels: int
) -> None:
    """In JSON twice as deep: 960 levels exceed Python's limit in a view, and a cluster accepts
    10,000."""
    make_crd(cluster=prod, name=CRD)
    ship("1.0.0", crd(SIZE))
    new = crd(nested(levels), "v1")
    ship("1.1.0", new)
    page = assert_page(writer.get(EXTENSION, {"version": "1.1.0"}))
    words = "Not complete Schemas are compared to a depth of 100 levels; these are deeper:"
    assert f"{words} {CRD}." in page.text
    assert f"{CRD} v1 ^.spec.size The type was integer, now object. Refused" in page.text
    store(prod, crd(nested(levels, "integer")))
    page = assert_page(writer.get(EXTENSION, {"version": "1.1.0"}))
    assert f"{words} {CRD}." in page.text
    assert "Compatible" not in page.text
    assert "Would be refused" not in page.text


def test_bundles_without_stored_crds_lead_to_their_inspection(
    writer: Client, prod: Cluster
) -> None:
    ship("1.1.0", crd(SIZE))
    page = assert_page(writer.get(EXTENSION, {"version": "1.1.0"}))
    assert "Not compared The catalog does not have the CRDs of kettle.v1.0.0" in page.text
    link = "/software/prod/redhat-operators/kettle/kettle.v1.0.0#inspection"
    assert link in page.links


def test_a_crd_of_the_cluster_that_is_not_that_of_the_bundle_is_said_to_differ(
    writer: Client, prod: Cluster
) -> None:
    ship("1.0.0", crd(SIZE, "v1", "v1beta1"))
    ship("1.1.0", crd(SIZE, "v1", "v1beta1"))
    same = {"served": ["v1", "v1beta1"], "defined": ["v1", "v1beta1"], "stored": ["v1"]}
    owned = {"owner_kind": "ClusterExtension", "owner_name": PACKAGE}
    row = CRDState.objects.create(cluster=prod, name=CRD, uid="u", **same, **owned)
    page = assert_page(writer.get(EXTENSION, {"version": "1.1.0"}))
    assert "Differs on the cluster" not in page.text
    row.served, row.defined = ["v1"], ["v1", "v1alpha1"]
    row.owner_kind, row.owner_name = "Operator", "teapot.tea"
    row.save()
    page = assert_page(writer.get(EXTENSION, {"version": "1.1.0"}))
    assert "Differs on the cluster The CRDs of prod are not those of kettle.v1.0.0" in page.text
    for note in (
        "The cluster defines v1, v1alpha1, the bundle v1, v1beta1.",
        "The cluster serves v1, the bundle v1, v1beta1.",
        "It belongs to Subscription teapot in namespace tea on the cluster.",
    ):
        assert f"{CRD} {note}" in page.text
    assert f"where the schema on the cluster was not read yet: {CRD}." in page.text
