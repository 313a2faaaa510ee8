"""A conversion webhook that goes before its CustomResourceDefinition, on a real API server."""

import json
from pathlib import Path
from typing import Any

import pytest

from installs.actions.removal import ConvertedCrd, converted_crds, keep_objects
from installs.facts.inventory import read_inventory
from installs.models import ClusterInventory, Operator
from installs.queries.leftovers import removed_owners
from installs.state.full_sync import sync_cluster
from olmweb.models import Cluster
from tests.factories import make_cluster, make_component, make_operator
from tests.peers import servers
from tests.peers.client import wait_until
from tests.peers.controllers import ensure_namespace
from tests.real.converted import CRD, GROUP, definition, make_converted, readable, webhook
from tests.real.rights import ship_rights

pytestmark = [pytest.mark.peers, pytest.mark.django_db]
NAMESPACE = "removal-conversion"


@pytest.fixture
def cluster(apiserver: servers.ApiServer, tmp_path: Path, settings: Any) -> Cluster:
    context = ship_rights(apiserver, tmp_path / "kubeconfig")
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    ensure_namespace(apiserver.admin, NAMESPACE)
    return make_cluster(name="real", context=context)


def read_rows(cluster: Cluster) -> list[ConvertedCrd]:
    """What is known of the Subscription `kettle`, of which only the rows exist, after a sync."""
    sync_cluster(cluster)
    operator = make_operator(
        cluster=cluster, kind="Subscription", namespace=NAMESPACE, name="kettle",
        package="kettle", details={"installed_csv": "kettle.v1"},
    )  # fmt: skip
    make_component(
        cluster=cluster, kind="ClusterServiceVersion", namespace=NAMESPACE, name="kettle.v1",
        details={"deployments": ["kettle"]},
    )  # fmt: skip
    return converted_crds(Operator.objects.get(pk=operator.pk))


def test_a_crd_that_the_server_can_not_read_without_its_webhook_is_found_by_a_sync(
    apiserver: servers.ApiServer, cluster: Cluster
) -> None:
    make_converted(apiserver, NAMESPACE, "kettles")
    other = definition("cups", "v1", webhook("elsewhere"))
    apiserver.admin.apply(other)
    (row,) = read_rows(cluster)
    assert (row.crd.name, row.service) == (f"kettles.{GROUP}", f"{NAMESPACE}/kettle-service")
    assert row.crd.stored == ["v1alpha1", "v1"]
    # The command for a removal that keeps the objects makes them readable again.
    (patch,) = [step for step in keep_objects([row]) if step.startswith("kubectl patch")]
    content = patch.partition("-p '")[2].removesuffix("'")
    subject = {"apiVersion": CRD[0], "kind": CRD[1], "metadata": {"name": row.crd.name}}
    apiserver.admin.merge(subject, json.loads(content))
    wait_until(
        lambda: readable(apiserver, NAMESPACE, "kettles", "v1"), "the objects being readable"
    )
    apiserver.admin.delete(subject)
    apiserver.admin.delete(other)


def test_the_server_does_not_delete_a_crd_whose_objects_it_can_not_convert(
    apiserver: servers.ApiServer, cluster: Cluster
) -> None:
    make_converted(apiserver, NAMESPACE, "teapots")
    (row,) = read_rows(cluster)
    subject = {"apiVersion": CRD[0], "kind": CRD[1], "metadata": {"name": row.crd.name}}
    apiserver.admin.delete(subject)

    def stuck() -> bool:
        found = apiserver.admin.get(*CRD, row.crd.name)
        conditions = found.get("status", {}).get("conditions") or ()
        return any(
            c["type"] == "Terminating" and c["reason"] == "InstanceDeletionFailed"
            for c in conditions
        )

    wait_until(stuck, "the deletion of the objects failing")
    apiserver.admin.merge(subject, {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
    wait_until(lambda: apiserver.admin.find(*CRD, row.crd.name) is None, "the CRD being deleted")


def test_webhooks_and_roles_of_a_removed_operator_are_read_with_the_rights_that_are_shipped(
    apiserver: servers.ApiServer, cluster: Cluster
) -> None:
    labels = {
        "olm.owner": "kettle.v1",
        "olm.owner.kind": "ClusterServiceVersion",
        "olm.owner.namespace": NAMESPACE,
    }
    left = [
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "removal-left"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "removal-left"),
    ]
    objects = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": labels}}
        for version, kind, name in left
    ]
    foreign = {**objects[1], "metadata": {"name": "removal-foreign"}}
    for thing in (*objects, foreign):
        apiserver.admin.apply(thing)
    sync_cluster(cluster)
    cluster.refresh_from_db()
    read_inventory(cluster)
    orphans = ClusterInventory.objects.get(cluster=cluster).orphans or {}
    ours = {
        kind: {name: csv for name, csv in names.items() if csv.startswith(f"{NAMESPACE}/")}
        for kind, names in orphans.items()
    }
    assert ours == {
        "ValidatingWebhookConfiguration": {"removal-left": f"{NAMESPACE}/kettle.v1"},
        "ClusterRole": {"removal-left": f"{NAMESPACE}/kettle.v1"},
    }
    (owner,) = [row for row in removed_owners([cluster]) if row.namespace == NAMESPACE]
    assert (owner.kind, owner.name) == ("ClusterServiceVersion", "kettle.v1")
    assert [row.kind for row in owner.leftovers] == [kind for _, kind, _ in left]
    for thing in (*objects, foreign):
        apiserver.admin.delete(thing)
