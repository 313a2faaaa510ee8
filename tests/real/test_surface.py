"""What a real API server says of the kinds that bundles ship once in a cluster, with the rights
that the project ships: PriorityClasses are its own, those of OpenShift come with CRDs made here."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from catalogs.contents.bundle_facts import ApiKind, Contents, Shipped
from catalogs.install_methods import InstallMethod
from catalogs.verdicts.evaluate import predict
from installs.facts.cluster_facts import cluster_facts
from installs.facts.inventory import NAME, read_inventory
from installs.models import ClusterInventory
from olmweb.kube.resources import SHIPPED_CLUSTER_WIDE, Resource
from olmweb.kube.session import open_client
from olmweb.models import Cluster
from tests.factories import make_cluster, make_crd
from tests.peers import servers
from tests.peers.client import ApiRefused, Client, Object, wait_until
from tests.real.rights import ship_rights

pytestmark = [pytest.mark.peers, pytest.mark.django_db]
PLACE = "surface-olmv1"  # a namespace
OF_OPENSHIFT = tuple(each for each in SHIPPED_CLUSTER_WIDE if each.kind != "PriorityClass")
HELM: dict[str, Any] = {
    "labels": {"app.kubernetes.io/managed-by": "Helm"},
    "annotations": {"meta.helm.sh/release-name": "logs", "meta.helm.sh/release-namespace": "ns"},
}
EXTENSION: dict[str, Any] = {
    "labels": {
        "olm.operatorframework.io/owner-kind": "ClusterExtension",
        "olm.operatorframework.io/owner-name": "logs",
    }
}


def _crd(each: Resource) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": each.plural, "kind": each.kind, "singular": each.kind.lower()}
    version = {"name": each.versions[0], "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{each.plural}.{each.group}"},
        "spec": {
            "group": each.group,
            "scope": "Cluster",
            "names": names,
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def _object(each: Resource, name: str, meta: dict[str, Any]) -> Object:
    more = {"value": 7} if each.kind == "PriorityClass" else {}
    api_version = f"{each.group}/{each.versions[0]}"
    return {
        "apiVersion": api_version,
        "kind": each.kind,
        "metadata": {"name": name, **meta},
        **more,
    }


def _deployment(namespace: str) -> Object:
    labels = {"app": NAME}
    container = {
        "name": "manager",
        "image": "operator-controller",
        "args": ["--leader-elect", "--feature-gates=WebhookProviderCertManager=true,A=false"],
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


@pytest.fixture(scope="module")
def openshift(apiserver: servers.ApiServer) -> Iterator[servers.ApiServer]:
    """With the CRDs of OpenShift's kinds, and of each kind one object of a release, one of a
    ClusterExtension and one of nobody."""
    admin = apiserver.admin
    made = [_crd(each) for each in OF_OPENSHIFT]
    owners = {"of-helm": HELM, "of-olm": EXTENSION, "of-nobody": {}}
    try:
        for crd in made:
            admin.apply(crd)
        wait_until(lambda: _all_told(admin), "every kind being served", seconds=90)
        for each in SHIPPED_CLUSTER_WIDE:
            for name, meta in owners.items():
                made.append(_object(each, name, meta))
                admin.apply(made[-1])
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE}}
        admin.apply(namespace)
        made.append(_deployment(PLACE))
        admin.apply(made[-1])
        yield apiserver
    finally:
        for one in reversed(made):
            with suppress(ApiRefused):
                admin.delete(one)


def _all_told(admin: Client) -> bool:
    """Whether discovery tells all the kinds, each of which may be listed."""
    for each in OF_OPENSHIFT:
        path = f"/apis/{each.group}/{each.versions[0]}"
        try:
            resources = admin.call("GET", path)["resources"]
            admin.call("GET", f"{path}/{each.plural}?limit=1")
        except ApiRefused:
            return False
        if each.plural not in {one["name"] for one in resources}:
            return False
    return True


@pytest.fixture
def cluster(openshift: servers.ApiServer, tmp_path: Path) -> Cluster:
    """As it was read with the rights that are shipped."""
    context = ship_rights(openshift, tmp_path / "kubeconfig")
    found = make_cluster(name="real", context=context)
    made = {"owner_kind": "Subscription", "owner_name": "logs"}
    for name in ("consoleplugins.console.openshift.io", "consolelinks.console.openshift.io"):
        make_crd(cluster=found, name=name, **made)
    make_crd(cluster=found, name="configmaps.", **made, group="")  # as any kind that is not ours
    with open_client(context, str(tmp_path / "kubeconfig")) as client:
        assert read_inventory(found, client)
        assert not read_inventory(found, client), "the same again"
    return found


def test_objects_of_cluster_wide_kinds_are_read_with_their_owners(cluster: Cluster) -> None:
    shared = ClusterInventory.objects.get(cluster=cluster).shared
    assert shared is not None
    for each in OF_OPENSHIFT:
        assert shared[each.kind] == {
            "of-helm": "ns/logs",
            "of-olm": "ClusterExtension/logs",
            "of-nobody": "",
        }
    classes = shared["PriorityClass"]
    assert (classes["of-olm"], classes["system-node-critical"]) == ("ClusterExtension/logs", "")
    assert {"ClusterRole", "ClusterRoleBinding"} < set(shared)


def test_a_bundle_that_ships_one_of_them_is_predicted_to_fail(cluster: Cluster) -> None:
    facts = cluster_facts(cluster)
    for each in SHIPPED_CLUSTER_WIDE:
        kind = ApiKind(each.group, each.versions[0], each.kind)
        bundle = Contents(package="logs", shipped=(Shipped(kind, "of-helm"),))
        rules = {
            one.rule
            for one in predict(bundle, InstallMethod.CLUSTER_EXTENSION, cluster=facts).results
        }
        assert "ce-object-owned" in rules
        own = Contents(package="logs", shipped=(Shipped(kind, "of-olm"),))
        rules = {
            one.rule for one in predict(own, InstallMethod.CLUSTER_EXTENSION, cluster=facts).results
        }
        assert "ce-object-owned" not in rules
        assert "ce-kind-unserved" not in rules


def test_gates_and_the_number_of_objects_are_read_where_rights_allow(cluster: Cluster) -> None:
    facts = cluster_facts(cluster)
    assert facts.gates == {"WebhookProviderCertManager": True, "A": False}
    assert ClusterInventory.objects.get(cluster=cluster).instances == {
        "consoleplugins.console.openshift.io": 3,
        "consolelinks.console.openshift.io": 3,
    }
