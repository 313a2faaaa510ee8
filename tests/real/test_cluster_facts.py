"""The facts of a real API server that verdicts need, read with the rights that the project ships.

PriorityClasses are the API server's own kind; those of OpenShift get CRDs here.
"""

import io
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

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
from tests.worlds.verdicts import monitored_catalog

pytestmark = [pytest.mark.peers, pytest.mark.django_db]
PLACE = "surface-olmv1"  # a namespace
OF_OPENSHIFT = tuple(kind for kind in SHIPPED_CLUSTER_WIDE if kind.kind != "PriorityClass")
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


def _crd(resource: Resource) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": resource.plural, "kind": resource.kind, "singular": resource.kind.lower()}
    version = {"name": resource.versions[0], "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Cluster",
            "names": names,
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def _object(resource: Resource, name: str, meta: dict[str, Any]) -> Object:
    more = {"value": 7} if resource.kind == "PriorityClass" else {}
    api_version = f"{resource.group}/{resource.versions[0]}"
    return {
        "apiVersion": api_version,
        "kind": resource.kind,
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
    created = [_crd(resource) for resource in OF_OPENSHIFT]
    owners = {"of-helm": HELM, "of-olm": EXTENSION, "of-nobody": {}}
    try:
        for crd in created:
            admin.apply(crd)
        wait_until(
            lambda: all(_is_listed(admin, resource) for resource in OF_OPENSHIFT),
            "every kind being served",
            seconds=90,
        )
        for resource in SHIPPED_CLUSTER_WIDE:
            for name, meta in owners.items():
                created.append(_object(resource, name, meta))
                admin.apply(created[-1])
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE}}
        admin.apply(namespace)
        created.append(_deployment(PLACE))
        admin.apply(created[-1])
        yield apiserver
    finally:
        for obj in reversed(created):
            with suppress(ApiRefused):
                admin.delete(obj)


def _is_listed(admin: Client, resource: Resource) -> bool:
    """Whether discovery has the resource and its objects may be listed."""
    path = f"/apis/{resource.group}/{resource.versions[0]}"
    try:
        served = admin.call("GET", path)["resources"]
        admin.call("GET", f"{path}/{resource.plural}?limit=1")
    except ApiRefused:
        return False
    return resource.plural in {entry["name"] for entry in served}


@pytest.fixture
def cluster(openshift: servers.ApiServer, tmp_path: Path) -> Cluster:
    """As it was read with the rights that are shipped."""
    context = ship_rights(openshift, tmp_path / "kubeconfig")
    cluster = make_cluster(name="real", context=context)
    owner = {"owner_kind": "Subscription", "owner_name": "logs"}
    for name in ("consoleplugins.console.openshift.io", "consolelinks.console.openshift.io"):
        make_crd(cluster=cluster, name=name, **owner)
    make_crd(cluster=cluster, name="configmaps.", **owner, group="")  # as any kind that is not ours
    with open_client(context, str(tmp_path / "kubeconfig")) as client:
        assert read_inventory(cluster, client)
        assert not read_inventory(cluster, client), "nothing changed since"
    return cluster


def test_objects_of_cluster_wide_kinds_are_read_with_their_owners(cluster: Cluster) -> None:
    shared = ClusterInventory.objects.get(cluster=cluster).shared
    assert shared is not None
    for resource in OF_OPENSHIFT:
        assert shared[resource.kind] == {
            "of-helm": "ns/logs",
            "of-olm": "ClusterExtension/logs",
            "of-nobody": "",
        }
    classes = shared["PriorityClass"]
    assert (classes["of-olm"], classes["system-node-critical"]) == ("ClusterExtension/logs", "")
    assert {"ClusterRole", "ClusterRoleBinding"} < set(shared)


def test_a_bundle_that_ships_one_of_them_is_predicted_to_fail(cluster: Cluster) -> None:
    facts = cluster_facts(cluster)
    for resource in SHIPPED_CLUSTER_WIDE:
        kind = ApiKind(resource.group, resource.versions[0], resource.kind)
        bundle = Contents(package="logs", shipped=(Shipped(kind, "of-helm"),))
        rules = {
            result.rule
            for result in predict(bundle, InstallMethod.CLUSTER_EXTENSION, cluster=facts).results
        }
        assert "ce-object-owned" in rules
        own = Contents(package="logs", shipped=(Shipped(kind, "of-olm"),))
        rules = {
            result.rule
            for result in predict(own, InstallMethod.CLUSTER_EXTENSION, cluster=facts).results
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


def _audit(path: str) -> dict[str, Any]:
    """The counts of verdicts and the rules of the buckets, of a catalog with the package m."""
    out = io.StringIO()
    call_command("audit", "demo", "--path", path, "--cluster", "real", "--json", stdout=out)
    result = json.loads(out.getvalue())
    rules = [bucket["rule"] for bucket in result["buckets"]]
    return {**result["counts"], "rules": rules}


@pytest.mark.parametrize(
    ("path", "rule"),
    [("Subscription", "sub-kind-unserved"), ("ClusterExtension", "ce-kind-unserved")],
)
def test_a_package_with_kinds_of_others_is_unknown_until_sync_cluster_has_read_the_facts(
    openshift: servers.ApiServer, tmp_path: Path, settings: Any, path: str, rule: str
) -> None:
    context = ship_rights(openshift, tmp_path / "kubeconfig")
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    settings.CLUSTERS = [f"real={context}"]
    make_cluster(name="real", context=context)
    monitored_catalog(tmp_path)
    assert _audit(path)["unknown"] == 1, "no fact of the cluster was read"

    call_command("sync_cluster", "real", stdout=io.StringIO())
    verdict = _audit(path)
    assert (verdict["not-installable"], verdict["rules"]) == (1, [rule])

    service_monitors = Resource(
        "monitoring.coreos.com", ("v1",), "servicemonitors", "ServiceMonitor", namespaced=True
    )
    crd = _crd(service_monitors)
    openshift.admin.apply(crd)
    try:
        wait_until(
            lambda: _is_listed(openshift.admin, service_monitors), "the kind being served", 60
        )
        call_command("sync_cluster", "real", stdout=io.StringIO())
        assert rule not in _audit(path)["rules"]
        assert _audit(path)["unknown"] == 0
    finally:
        openshift.admin.delete(crd)
    Cluster.objects.update(reachable=False)
    ClusterInventory.objects.all().delete()
    assert _audit(path)["unknown"] == 1, "the facts are missing again"
