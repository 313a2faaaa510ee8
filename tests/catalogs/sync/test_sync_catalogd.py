"""ClusterCatalogs of the sandbox, read through its service proxy by the real client."""

import pytest

from catalogs.models import Catalog, Package
from catalogs.sync.catalog import sync_catalog
from catalogs.sync.cluster_catalogs import record_cluster_catalogs
from olmweb.clusters import client_for
from olmweb.kube.resources import CLUSTER_CATALOGS
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(tmp_path, settings):
    sandbox = Sandbox()
    sandbox.start()
    try:
        path = tmp_path / "kubeconfig"
        sandbox.write_kubeconfig(path, context="sandbox")
        settings.KUBECONFIG = str(path)
        yield Cluster.objects.create(name="sandbox", context="sandbox")
    finally:
        sandbox.stop()


def test_the_catalogs_of_a_cluster_are_read_through_its_service_proxy(cluster, monkeypatch):
    monkeypatch.setattr("catalogs.sync.cluster_catalogs.enqueue", lambda *_: None)
    with client_for(cluster) as client:
        (page,) = client.list_pages(CLUSTER_CATALOGS, CLUSTER_CATALOGS.versions[0])
    record_cluster_catalogs(cluster, page.items)
    for catalog in Catalog.objects.select_related("cluster"):
        result = sync_catalog(catalog)
        assert (result.outcome, result.error, result.requests) == ("changed", "", 1)
        assert result.bundles >= result.packages > 0
        again = sync_catalog(catalog)
        assert (again.outcome, again.requests, again.rows_written) == ("unchanged", 0, 1)
        cluster.reachable = False  # its digest may be another by now
        catalog.cluster = cluster
        tried = sync_catalog(catalog)
        assert (tried.outcome, tried.requests) == ("unchanged", 1)
        catalog.synced_digest = ""  # as if the digest were not known: the server is asked
        asked = sync_catalog(catalog)
        assert (asked.outcome, asked.requests, asked.bytes_read) == ("unchanged", 1, 0)
    assert Package.objects.filter(catalog__name="redhat-operators").count() >= 69
