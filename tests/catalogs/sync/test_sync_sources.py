"""CatalogSources of the sandbox: by port-forward, through PackageManifests, and what is chosen."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from catalogs.models import Catalog, Channel, ContentProblem, Package
from catalogs.sources import select
from catalogs.sync.catalog import sync_catalog
from catalogs.sync.cluster_catalogs import record_catalog_sources, record_cluster_catalogs
from olmweb.clusters import client_for
from olmweb.kube.errors import KubeError
from olmweb.kube.portforward import forwarded
from olmweb.kube.resources import CATALOG_SOURCES, CLUSTER_CATALOGS
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.worlds.registry_grpc_fake import bundle, registry_fake

pytestmark = pytest.mark.django_db
MARKET = "openshift-marketplace"
ONE, TWO = (f"sha256:{digit * 64}" for digit in "12")


@pytest.fixture
def sandbox():
    running = Sandbox()
    running.start()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def cluster(sandbox, tmp_path, settings, monkeypatch):
    monkeypatch.setattr("catalogs.sync.cluster_catalogs.enqueue", lambda *_: None)
    path = tmp_path / "kubeconfig"
    sandbox.write_kubeconfig(path, context="sandbox")
    settings.KUBECONFIG = str(path)
    settings.REGISTRY_CREDENTIALS = tmp_path / "no-logins.json"
    made = Cluster.objects.create(name="sandbox", context="sandbox")
    with client_for(made) as client:
        (catalogs,) = client.list_pages(CLUSTER_CATALOGS, "v1")
        (sources,) = client.list_pages(CATALOG_SOURCES, "v1alpha1")
    record_cluster_catalogs(made, catalogs.items)
    record_catalog_sources(made, sources.items)
    return made


@pytest.fixture
def registry():
    with registry_fake() as running:
        running.serve_channel(bundle("etcd.v1.0.0"), bundle("etcd.v1.1.0", replaces="etcd.v1.0.0"))
        yield running


def source(cluster, name="community-operators") -> Catalog:
    return Catalog.objects.select_related("cluster").get(
        cluster=cluster, source_kind="CatalogSource", name=name
    )


def states(catalog: Catalog) -> dict[str, str]:
    return {one["way"]: one["state"] for one in catalog.access_methods}


def test_names_that_clash_get_slugs_with_the_namespace(cluster):
    slugs = cluster.catalogs.values_list("source_kind", "slug")
    assert sorted(slugs) == [
        ("CatalogSource", "lab-catalog"),
        ("CatalogSource", "openshift-marketplace.community-operators"),
        ("CatalogSource", "openshift-marketplace.redhat-operators"),
        ("ClusterCatalog", "community-operators"),
        ("ClusterCatalog", "redhat-operators"),
    ]


def test_a_registry_is_read_by_port_forward_and_its_pod_tells_when_nothing_changed(
    sandbox, cluster, registry
):
    pod = sandbox.registries.add(MARKET, "community-operators", ("127.0.0.1", registry.port), ONE)
    catalog = source(cluster)
    first = sync_catalog(catalog)
    assert (first.outcome, first.error, first.bundles) == ("changed", "", 2)
    catalog.refresh_from_db()
    assert (catalog.access_method, catalog.synced_digest) == ("gRPC by port-forward", ONE)
    assert states(catalog) == {
        "image": "not possible",
        "gRPC": "not possible",
        "gRPC by port-forward": "used",
        "PackageManifest": "not tried",
    }
    assert catalog.access_methods[0]["why"] == "no pull credentials for registry.redhat.io"
    asked = len(registry.calls)
    sandbox.script.requests.clear()
    again = sync_catalog(catalog)
    assert (again.outcome, again.rows_written, len(registry.calls)) == ("unchanged", 1, asked)
    (request,) = sandbox.script.requests
    assert "pods?" in request[1]
    sandbox.store.delete("Pod", pod, MARKET)
    sandbox.registries.add(MARKET, "community-operators", ("127.0.0.1", registry.port), TWO)
    registry.bundles.append(bundle("etcd.v1.2.0", replaces="etcd.v1.1.0"))
    assert sync_catalog(source(cluster)).bundles == 3
    assert source(cluster).synced_digest == TWO


def test_a_large_answer_passes_the_port_forward_whole(sandbox, cluster, registry):
    text = json.dumps(
        {"metadata": {"name": "etcd.v1.1.0"}, "spec": {"description": "x" * 3_000_000}}
    )
    registry.csvs["etcd.v1.1.0"] = text
    sandbox.registries.add(MARKET, "community-operators", ("127.0.0.1", registry.port), ONE)
    result = sync_catalog(source(cluster))
    assert (result.outcome, result.error) == ("changed", "")
    assert result.bytes_read > 3_000_000


def test_without_a_pod_the_package_manifests_tell_what_they_know(sandbox, cluster):
    catalog = source(cluster)
    result = sync_catalog(catalog)
    assert (result.outcome, result.error, result.requests) == ("changed", "", 1)
    catalog.refresh_from_db()
    assert catalog.access_method == "PackageManifest"
    assert states(catalog)["gRPC by port-forward"] == "failed"
    assert not ContentProblem.objects.filter(catalog=catalog).exists()
    real = Catalog.objects.get(cluster=cluster, slug="community-operators")
    assert sync_catalog(real).outcome == "changed"
    shown = ("name", "default_channel", "head_bundle", "head_version", "display_name", "provider")
    assert [*catalog.packages.values_list(*shown)] == [*real.packages.values_list(*shown)]
    heads = ("package__name", "name", "head", "head_version", "entry_count")
    told, there = (
        [*Channel.objects.filter(package__catalog=one).values_list(*heads)]
        for one in (catalog, real)
    )
    assert told == there
    assert sync_catalog(source(cluster)).outcome == "unchanged"


def test_a_catalog_that_the_package_manifests_leave_out_is_not_gone(sandbox, cluster):
    catalog = source(cluster)
    sync_catalog(catalog)
    with sandbox.store.changed:
        found = sandbox.store.get("CatalogSource", "community-operators", MARKET)
        state = {**found["status"]["connectionState"], "lastObservedState": "TRANSIENT_FAILURE"}
        sandbox.store.put({**found, "status": {**found["status"], "connectionState": state}})
    result = sync_catalog(source(cluster))
    assert (result.outcome, result.error_code) == ("failed", "no-pod")
    catalog.refresh_from_db()
    assert "lists no package" in catalog.access_methods[-1]["why"]
    assert Package.objects.filter(catalog=catalog).count() == catalog.package_count > 0


def test_a_registry_that_is_away_for_a_while_does_not_cost_the_graph(sandbox, cluster, registry):
    pod = sandbox.registries.add(MARKET, "community-operators", ("127.0.0.1", registry.port), ONE)
    sync_catalog(source(cluster))
    sandbox.store.delete("Pod", pod, MARKET)
    result = sync_catalog(source(cluster))
    catalog = source(cluster)
    assert (result.outcome, result.error_code) == ("failed", "no-pod")
    assert catalog.access_methods[-1]["why"] == "it tells less than the content that is shown"
    assert [*catalog.packages.values_list("name", flat=True)] == ["etcd"]
    catalog.failing_since = timezone.now() - select.KEEP - timedelta(minutes=1)
    assert sync_catalog(catalog).outcome == "changed"
    assert source(cluster).access_method == "PackageManifest"


def test_no_way_to_a_catalog_says_why_of_each(sandbox, cluster):
    catalog = source(cluster, "lab-catalog")
    result = sync_catalog(catalog)
    assert result.outcome == "failed"
    assert "no registry pod that is ready" in result.error
    assert source(cluster, "lab-catalog").state == Catalog.State.FAILED


def test_a_port_forward_to_a_pod_that_is_not_there_is_refused(cluster):
    with (
        client_for(cluster) as client,
        pytest.raises(KubeError, match="404"),
        forwarded(client, MARKET, "nobody", 50051),
    ):
        pass


def test_a_port_forward_that_the_pod_does_not_answer_fails(sandbox, cluster, registry):
    registry.stop()
    sandbox.registries.add(MARKET, "community-operators", ("127.0.0.1", registry.port), ONE)
    catalog = source(cluster)
    sync_catalog(catalog)
    assert source(cluster).access_methods[2]["state"] == "failed"
    assert source(cluster).access_method == "PackageManifest"
