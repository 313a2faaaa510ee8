"""ClusterCatalogs as real catalogd serves them, from an image registry to rows."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from catalogs.models import Catalog, Package
from catalogs.sources import guard, select
from catalogs.sources.base import SourceError
from catalogs.sources.catalogd import direct_source
from catalogs.sync.catalog import sync_catalog
from catalogs.sync.cluster_catalogs import record_cluster_catalogs
from catalogs.views.presenters import catalog_status
from olmweb.clusters import client_for
from olmweb.kube.resources import CLUSTER_CATALOGS
from olmweb.models import Cluster
from tests.peers import servers
from tests.peers.client import wait_until
from tests.peers.controllers import catalogd, registry
from tests.worlds.fbc import package

pytestmark = [pytest.mark.peers, pytest.mark.django_db]

V1 = "olm.operatorframework.io/v1"
TEAS = tuple(f"1.{minor}.0" for minor in range(8))
LOOPBACK = guard.Rules(loopback=True)


@pytest.fixture(scope="module")
def running(catalogd_is_built, real_etcd) -> Iterator[SimpleNamespace]:
    """An API server, an image registry and catalogd, with two catalogs that are served."""
    with servers.apiserver(real_etcd) as server:
        servers.apply_crds(server, ["clustercatalogs.olm.operatorframework.io"])
        with registry() as images, catalogd(server, images) as serving:
            world = SimpleNamespace(server=server, images=images, catalogd=serving)
            create(world, "teas", content("tea", versions=TEAS))
            create(world, "coffees", content("coffee"))
            yield world


@pytest.fixture
def cluster(running, tmp_path, settings, monkeypatch) -> Cluster:
    monkeypatch.setattr("catalogs.sync.cluster_catalogs.enqueue", lambda *_: None)
    monkeypatch.setattr(select, "RULES", LOOPBACK)
    settings.GRPC_HOSTS = frozenset({"127.0.0.1", "localhost"})  # catalogd runs on this machine
    settings.CATALOGD_CA = str(running.catalogd.ca_file)
    settings.KUBECONFIG = str(running.server.write_kubeconfig(tmp_path / "kubeconfig"))
    settings.REGISTRY_CREDENTIALS = tmp_path / "no-logins.json"
    settings.INSECURE_REGISTRIES = frozenset()
    return Cluster.objects.create(name="real", context="real")


def content(*names: str, versions: tuple[str, ...] = ("1.0.0",)) -> bytes:
    """Pretty-printed, as opm writes it; large enough for catalogd to compress it."""
    blobs = [blob for name in ("etcd", *names) for blob in package(name, versions)]
    return "\n".join(json.dumps(blob, indent=4) for blob in blobs).encode()


def normalised(data: bytes) -> bytes:
    """What catalogd makes of it: a line a blob, keys sorted, nothing between."""
    found, decoder, text = [], json.JSONDecoder(), data.decode()
    while text := text.lstrip():
        blob, end = decoder.raw_decode(text)
        found.append(blob)
        text = text[end:]
    dump = [json.dumps(b, sort_keys=True, separators=(",", ":"), ensure_ascii=False) for b in found]
    return "".join(line + "\n" for line in dump).encode()


def create(world: SimpleNamespace, name: str, data: bytes, tag: str = "v1", **spec: Any) -> None:
    """Applies the ClusterCatalog and waits until catalogd has unpacked just that image."""
    image = world.images.push_catalog(name, tag, data)
    world.server.admin.apply(
        {
            "apiVersion": V1,
            "kind": "ClusterCatalog",
            "metadata": {"name": name},
            "spec": {"source": {"type": "Image", "image": {"ref": image}}, **spec},
        }
    )
    unavailable = spec.get("availabilityMode") == "Unavailable"

    def settled() -> bool:
        found = world.server.admin.get(V1, "ClusterCatalog", name)
        seen = found.get("status", {}).get("conditions", [])
        serving = {(c["type"], c["status"], c["reason"]) for c in seen}
        generation = {c.get("observedGeneration") for c in seen}
        wanted = (
            ("Serving", "False", "UserSpecifiedUnavailable")
            if unavailable
            else ("Serving", "True", "Available")
        )
        return wanted in serving and generation == {found["metadata"]["generation"]}

    wait_until(settled, f"ClusterCatalog {name} settled", seconds=60)


def observe(cluster: Cluster) -> None:
    """As the reading of the cluster's state does."""
    with client_for(cluster) as client:
        (page,) = client.list_pages(CLUSTER_CATALOGS, "v1")
    record_cluster_catalogs(cluster, page.items)


def get(name: str) -> Catalog:
    return Catalog.objects.select_related("cluster").get(name=name)


def names_of(catalog: Catalog) -> list[str]:
    return [*Package.objects.filter(catalog=catalog).values_list("name", flat=True)]


def test_several_catalogs_are_read_each_on_its_own_and_then_not_asked_again(running, cluster):
    observe(cluster)
    for name, packages in (("teas", ["etcd", "tea"]), ("coffees", ["coffee", "etcd"])):
        catalog = get(name)
        first = sync_catalog(catalog)
        assert (first.outcome, first.error, first.requests) == ("changed", "", 1)
        assert names_of(catalog) == packages
        catalog = get(name)
        assert catalog.access_method == "catalogd"
        assert [one["state"] for one in catalog.access_methods] == [
            "used",
            "not possible",
            "not possible",
        ]
        again = sync_catalog(catalog)
        assert (again.outcome, again.requests, again.rows_written) == ("unchanged", 0, 1)
        catalog.synced_digest = ""  # as if the object told no digest: catalogd is asked
        asked = sync_catalog(catalog)
        assert (asked.outcome, asked.requests, asked.bytes_read) == ("unchanged", 1, 0)


def source(world: SimpleNamespace, name: str = "teas", port: int = 0, encoding: str = "") -> Any:
    base = f"https://127.0.0.1:{port or world.catalogd.port}/catalogs/{name}"
    found = direct_source(name, base, ca_file=str(world.catalogd.ca_file), rules=LOOPBACK)
    if encoding:
        opened = found.opener

        def only(headers: dict[str, str]) -> Any:
            return opened({**headers, "Accept-Encoding": encoding})

        found.opener = only
    return found


@pytest.mark.parametrize("encoding", ["zstd", "gzip", "identity"])
def test_the_content_is_the_file_s_after_catalogd_s_normalisation(running, encoding):
    expected = normalised(content("tea", versions=TEAS))
    fetched = source(running, encoding=encoding).fetch()
    assert fetched.body
    with fetched.body as body:
        assert body.read() == expected
    assert (fetched.bytes_read < fetched.size) == (encoding != "identity")
    unchanged = source(running).fetch(if_modified_since=fetched.last_modified)
    assert (unchanged.body, unchanged.bytes_read, unchanged.requests) == (None, 0, 1)


@contextmanager
def cutting(port: int, *after: int) -> Iterator[int]:
    """A proxy to `port` that cuts its first connections after so many bytes each."""
    limits = list(after)
    threads: list[threading.Thread] = []
    ends: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    near, _ = listener.accept()
                    limit = limits.pop(0) if limits else -1
                    far = socket.create_connection(("127.0.0.1", port))
                    ends.extend((near, far))
                    for each in ((near, far, -1), (far, near, limit)):
                        threads.append(threading.Thread(target=pump, args=each, daemon=True))
                        threads[-1].start()

        def pump(source: socket.socket, target: socket.socket, limit: int) -> None:
            with suppress(OSError):
                while limit and (data := source.recv(min(4096, limit) if limit > 0 else 4096)):
                    target.sendall(data)
                    limit -= len(data) if limit > 0 else 0
            for one in (source, target):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for one in ends:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            for each in (thread, *threads):
                each.join(timeout=5)
            for one in ends:
                one.close()


def test_a_body_that_was_cut_goes_on_where_it_stopped(running):
    expected = normalised(content("tea", versions=TEAS))
    assert len(expected) > 15_000
    with cutting(running.catalogd.port, 8000, 8000) as port:
        fetched = source(running, port=port, encoding="identity").fetch()
    assert fetched.body
    with fetched.body as body:
        assert body.read() == expected
    assert fetched.requests == 3


def test_an_encoded_body_that_was_cut_is_no_catalog(running):
    with (
        cutting(running.catalogd.port, 3200) as port,
        pytest.raises(SourceError, match=r"cut|ended|reset|answer"),
    ):
        source(running, port=port).fetch()


def test_a_catalog_that_points_to_another_image_is_read_anew(running, cluster):
    create(running, "juices", content("apple"))
    observe(cluster)
    sync_catalog(get("juices"))
    before = get("juices")
    create(running, "juices", content("apple", "pear"), tag="v2")
    observe(cluster)
    assert get("juices").resolved_digest != before.resolved_digest
    result = sync_catalog(get("juices"))
    assert (result.outcome, result.counts["added"], result.counts["changed"]) == ("changed", 1, 0)
    assert names_of(before) == ["apple", "etcd", "pear"]


def test_an_unavailable_catalog_keeps_its_content_and_says_so(running, cluster):
    create(running, "waters", content("still"))
    observe(cluster)
    sync_catalog(get("waters"))
    create(running, "waters", content("still"), availabilityMode="Unavailable")
    observe(cluster)
    catalog = get("waters")
    assert (catalog.state, catalog.base_url) == ("disabled", "")
    assert catalog_status(catalog).word == "Disabled"
    assert names_of(catalog) == ["etcd", "still"]
    create(running, "waters", content("still"), availabilityMode="Available")
    observe(cluster)
    assert get("waters").state == "serving"


def test_a_catalog_that_is_not_found_though_it_serves_is_kept_and_says_so(running, cluster):
    observe(cluster)
    sync_catalog(get("teas"))
    catalog = get("teas")
    catalog.synced_digest = ""
    catalog.base_url = catalog.base_url.replace("/teas", "/unknown-to-this-replica")
    result = sync_catalog(catalog)
    assert (result.outcome, result.error_code) == ("failed", "not-ready")
    assert "not ready: the server answered 404" in catalog_status(get("teas")).sentence
    assert names_of(catalog) == ["etcd", "tea"]


def test_a_catalogd_that_is_away_is_replaced_by_the_image_where_we_may_pull_it(
    running, cluster, settings
):
    observe(cluster)
    sync_catalog(get("teas"))
    catalog = get("teas")
    catalog.synced_digest = ""
    catalog.base_url = catalog.base_url.replace(str(running.catalogd.port), "1")
    assert sync_catalog(catalog).error_code == "unreachable"
    settings.INSECURE_REGISTRIES = frozenset({running.images.host})
    result = sync_catalog(catalog)
    assert (result.outcome, result.error) == ("changed", "")
    found = get("teas")
    assert (found.access_method, found.access_methods[0]["state"]) == ("image", "failed")
    assert names_of(found) == ["etcd", "tea"]


def test_a_catalog_that_was_renamed_is_another_one(running, cluster):
    create(running, "milks", content("oat"))
    observe(cluster)
    old = get("milks")
    running.server.admin.delete(running.server.admin.get(V1, "ClusterCatalog", "milks"))
    wait_until(
        lambda: running.server.admin.find(V1, "ClusterCatalog", "milks") is None,
        "the end of the ClusterCatalog",
        seconds=30,
    )
    create(running, "plant-milks", content("oat"))
    observe(cluster)
    assert not Catalog.objects.filter(pk=old.pk).exists()
    assert sync_catalog(get("plant-milks")).outcome == "changed"
