"""catalogd before v1: ClusterCatalog and Catalog v1alpha1, read as `all.json`."""

from typing import Any

import pytest

from catalogs.models import Catalog
from catalogs.sources.catalogd import content_path, proxy_path
from catalogs.sync.catalog import sync_catalog
from catalogs.sync.cluster_catalogs import record_cluster_catalogs
from installs.state.decode import DECODERS
from olmweb.kube.resources import CATALOGS, CLUSTER_CATALOGS
from olmweb.models import Cluster
from olmweb.sandbox.apiserver.http_server import Request, Response
from olmweb.sandbox.cluster import Sandbox
from tests.worlds.fbc import jsonl, package

pytestmark = pytest.mark.django_db

CONTENT = jsonl(package("tea"))
ADDRESS = "http://catalogd-catalogserver.olmv1-system.svc/catalogs/teas/all.json"
PROXY = "/api/v1/namespaces/olmv1-system/services/http:catalogd-catalogserver:80/proxy"


def old_catalog(kind: str, group: str, digest: str = "1") -> dict[str, Any]:
    image = {"ref": "registry.example/teas:v1"}
    resolved = {**image, "resolvedRef": f"registry.example/teas@sha256:{digest * 64}"}
    return {
        "apiVersion": f"{group}/v1alpha1",
        "kind": kind,
        "metadata": {"name": "teas"},
        "spec": {"source": {"type": "image", "image": image}},
        "status": {
            "contentURL": ADDRESS,
            "resolvedSource": {"type": "image", "image": resolved},
            "phase": "Unpacked",
        },
    }


OLD = (
    old_catalog("ClusterCatalog", "olm.operatorframework.io"),
    old_catalog("Catalog", "catalogd.operatorframework.io"),
)


@pytest.fixture
def cluster(tmp_path, settings, monkeypatch):
    """The sandbox, whose service proxy also has the server of those days."""
    monkeypatch.setattr("catalogs.sync.cluster_catalogs.enqueue", lambda *_: None)
    sandbox = Sandbox()
    newer = sandbox._server.handle_api

    def answer(request: Request) -> Response:
        if request.path == f"{PROXY}/catalogs/teas/all.json":
            return Response(200, CONTENT, (("Content-Type", "application/json"),))
        return newer(request)

    sandbox._server.handle_api = answer
    sandbox.start()
    try:
        path = tmp_path / "kubeconfig"
        sandbox.write_kubeconfig(path, context="sandbox")
        settings.KUBECONFIG = str(path)
        settings.REGISTRY_CREDENTIALS = tmp_path / "no-logins.json"
        yield Cluster.objects.create(name="sandbox", context="sandbox")
    finally:
        sandbox.stop()


@pytest.mark.parametrize("found", OLD, ids=lambda one: one["kind"])
def test_a_catalog_of_an_older_generation_is_recorded_and_read(cluster, found):
    assert record_cluster_catalogs(cluster, [found]) == 1
    catalog = Catalog.objects.select_related("cluster").get(name="teas")
    assert (catalog.source_kind, catalog.base_url) == ("ClusterCatalog", ADDRESS)
    assert catalog.resolved_digest.endswith("1" * 64)
    result = sync_catalog(catalog)
    assert (result.outcome, result.error, result.packages) == ("changed", "", 1)
    assert Catalog.objects.get(name="teas").access_method == "catalogd through the API server"


def test_the_address_of_the_content_is_taken_as_it_is():
    assert proxy_path(ADDRESS) == f"{PROXY}/catalogs/teas/all.json"
    assert content_path("https://catalogd.x.svc/catalogs/teas/") == "/catalogs/teas/api/v1/all"


@pytest.mark.parametrize(
    ("found", "decode"),
    list(zip(OLD, (DECODERS["ClusterCatalog"], DECODERS["Catalog"]), strict=True)),
)
def test_the_state_of_the_cluster_has_it_too(found, decode):
    kept = decode(found)
    assert (kept.kind, kept.details["base_url"]) == (found["kind"], ADDRESS)
    assert kept.details["digest"].endswith("1" * 64)


def test_both_generations_are_asked_for():
    assert CLUSTER_CATALOGS.versions == ("v1", "v1alpha1")
    assert CATALOGS.path("v1alpha1") == "/apis/catalogd.operatorframework.io/v1alpha1/catalogs"
