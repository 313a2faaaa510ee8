"""The report of copies on a real API server, with the copies that the real OLM makes."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from installs import tasks
from installs.models import CopyReport
from installs.reports import copied_csvs
from olmweb.clusters import client_for
from olmweb.kube.resources import CLUSTER_SERVICE_VERSIONS
from olmweb.models import Cluster
from tests.peers.client import wait_until
from tests.peers.controllers import ensure_namespace, olm_v0
from tests.peers.servers import ApiServer, Etcd, apiserver, apply_crds

pytestmark = pytest.mark.peers
V1ALPHA1, CSV = "operators.coreos.com/v1alpha1", "ClusterServiceVersion"

NAMESPACES = ("home", "one", "two", "three")
COPIES = "?labelSelector=olm.copiedFrom"


class Meta(msgspec.Struct):
    name: str
    namespace: str


def csv(name: str, namespace: str) -> dict[str, Any]:
    modes = ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
    return {
        "apiVersion": V1ALPHA1,
        "kind": CSV,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "displayName": name,
            "description": "word " * 1000,
            "install": {"strategy": "deployment", "spec": {"deployments": []}},
            "installModes": [{"type": mode, "supported": True} for mode in modes],
        },
    }


@pytest.fixture(scope="module")
def server(olm_is_built: None, real_etcd: Etcd) -> Iterator[ApiServer]:
    """OLM at work, and an operator for all namespaces that it has copied."""
    with apiserver(real_etcd) as running:
        apply_crds(running)
        admin = running.admin
        for name in NAMESPACES:
            ensure_namespace(admin, name)
        with olm_v0(running):
            admin.create(
                {"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                 "metadata": {"name": "global", "namespace": "home"}, "spec": {}}
            )  # fmt: skip
            admin.create(csv("etcd.v1.0.0", "home"))
            others = {"olm", "default", "kube-system", "kube-public", "kube-node-lease"}
            expected = {*NAMESPACES, *others} - {"home"}
            wait_until(lambda: places(running) == expected, "OLM copying the operator", 60)
            yield running


def places(server: ApiServer) -> set[str]:
    listed = server.admin.list(V1ALPHA1, CSV, query=COPIES)
    return {one["metadata"]["namespace"] for one in listed}


@pytest.fixture
def cluster(server: ApiServer, tmp_path: Path, settings: Any, db: None) -> Cluster:
    settings.KUBECONFIG = str(server.write_kubeconfig(tmp_path / "kubeconfig", "real"))
    return Cluster.objects.create(name="real", context="real")


def made(cluster: Cluster) -> dict[str, Any]:
    report = CopyReport.objects.create(cluster=cluster)
    tasks.count_copies(report.pk)
    report.refresh_from_db()
    assert report.error_text == ""
    return report.result


def test_what_olm_copied_is_counted_weighed_and_watched(
    server: ApiServer, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copied_csvs, "WATCH_SECONDS", 4)
    admin = server.admin
    copy = admin.get(V1ALPHA1, CSV, "etcd.v1.0.0", "one")
    stop = threading.Event()

    def meddle() -> None:
        """Another controller that writes to a copy again and again: OLM puts it right each time."""
        number = 0
        while not stop.wait(0.2):
            number += 1
            admin.merge(copy, {"metadata": {"labels": {"meddled": str(number)}}})

    meddler = threading.Thread(target=meddle)
    meddler.start()
    try:
        result = made(cluster)
    finally:
        stop.set()
        meddler.join()
    etcd = result["operators"][0]
    assert (result["originals"], etcd["name"], etcd["namespace"]) == (1, "etcd.v1.0.0", "home")
    assert (etcd["copies"], etcd["all_namespaces"], etcd["orphan"]) == (8, True, False)
    assert {one["namespace"] for one in result["namespaces"]} == places(server)
    assert len("word " * 1000) < etcd["bytes_each"] < 20_000
    assert etcd["updates"] >= 5
    assert result["watch"]["modified"] >= etcd["updates"]
    assert 3.5 < result["watch"]["seconds"] < 8
    assert (result["setting"]["state"], result["setting"]["copies"]) == ("on", 8)
    assert result["requests"] < 10


def test_a_cluster_whose_olm_makes_no_copies_says_so(
    server: ApiServer, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copied_csvs, "WATCH_SECONDS", 1)
    before = places(server)
    switch(server, off=True)
    try:
        wait_until(lambda: not places(server), "OLM deleting its copies", 60)
        result = made(cluster)
    finally:
        switch(server, off=False)
    assert (result["originals"], result["copies"], result["bytes"]) == (1, 0, None)
    assert result["setting"]["state"] == "off"
    wait_until(lambda: places(server) == before, "OLM copying again", 60)
    assert made(cluster)["setting"]["state"] == "on"


def switch(server: ApiServer, *, off: bool) -> None:
    server.admin.apply(
        {"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig",
         "metadata": {"name": "cluster"}, "spec": {"features": {"disableCopiedCSVs": off}}}
    )  # fmt: skip


def test_pages_of_metadata_are_the_whole_list_without_what_objects_hold(
    server: ApiServer, cluster: Cluster
) -> None:
    with client_for(cluster) as client:
        pages = list(
            client.list_metadata(
                CLUSTER_SERVICE_VERSIONS,
                "v1alpha1",
                Meta,
                label_selector=copied_csvs.COPIED,
                limit=3,
            )
        )
    assert [len(page.items) for page in pages] == [3, 3, 2]
    assert [bool(page.continue_token) for page in pages] == [True, True, False]
    assert {one.namespace for page in pages for one in page.items} == places(server)
    assert len({page.resource_version for page in pages}) == 1
