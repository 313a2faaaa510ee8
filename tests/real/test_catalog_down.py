"""Why a catalog is down, on real components: a real API server with pods whose statuses are those
that a kubelet writes, and real OLM v0 with servers at spec.address that don't serve gRPC."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from catalogs.models import Catalog
from installs.queries.catalog_troubles import CatalogTrouble, catalog_troubles
from installs.state.full_sync import sync_cluster
from olmweb.models import Cluster
from tests.factories import make_cluster
from tests.peers import servers
from tests.peers.client import wait_until
from tests.peers.controllers import ensure_namespace
from tests.real.rights import ship_rights
from tests.real.world import SECONDS, V1ALPHA1, World
from tests.worlds.pod_statuses import CASES, RUNNING, SCHEDULED, condition, container, pod

pytestmark = [pytest.mark.peers, pytest.mark.django_db]
NAMESPACE = "catalogs-down"
READY = {
    "phase": "Running",
    "conditions": [SCHEDULED, condition("Ready", "True")],
    "containerStatuses": [container(RUNNING, ready=True)],
}
SLICE = "discovery.k8s.io/v1"


def make_source(server: servers.ApiServer, name: str, state: str = "TRANSIENT_FAILURE") -> None:
    """A CatalogSource that OLM is not connected to; without a state OLM never saw it."""
    meta = {"name": name, "namespace": NAMESPACE}
    spec = {"sourceType": "grpc", "image": "quay.io/operatorhubio/catalog:latest"}
    source = {"apiVersion": V1ALPHA1, "kind": "CatalogSource", "metadata": meta, "spec": spec}
    server.admin.create(source)
    if state:
        connection = {"address": f"{name}.{NAMESPACE}.svc:50051", "lastObservedState": state}
        server.admin.set_status(source, {"connectionState": connection})


def make_pod(server: servers.ApiServer, name: str, source: str, status: dict[str, Any]) -> None:
    made = pod(name, NAMESPACE, source, status)
    server.admin.create({key: value for key, value in made.items() if key != "status"})
    server.admin.set_status(made, status)


def make_slice(server: servers.ApiServer, source: str, *ready: bool) -> None:
    """What the endpoint controller makes of the Service of a catalog."""
    meta = {
        "name": f"{source}-1",
        "namespace": NAMESPACE,
        "labels": {"kubernetes.io/service-name": source},
    }
    endpoints = [
        {"addresses": [f"10.1.0.{number}"], "conditions": {"ready": state}}
        for number, state in enumerate(ready, 1)
    ]
    server.admin.create(
        {
            "apiVersion": SLICE,
            "kind": "EndpointSlice",
            "metadata": meta,
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"name": "grpc", "port": 50051, "protocol": "TCP"}],
        }
    )


def by_name(cluster: Cluster) -> dict[str, CatalogTrouble]:
    return {trouble.catalog.name: trouble for trouble in catalog_troubles([cluster])}


def assert_names(trouble: CatalogTrouble, finding: str, says: tuple[str, ...]) -> None:
    assert trouble.finding is not None, trouble.catalog.name
    text = " ".join((trouble.finding.cause, *trouble.finding.remedy))
    assert trouble.finding.id == finding, (trouble.catalog.name, trouble.message)
    assert [words for words in says if words not in text] == [], trouble.catalog.name


def test_pods_of_catalogs_on_a_real_server_say_why_they_are_down(
    fresh_apiserver: servers.ApiServer,
    tmp_path: Path,
    settings: Any,
    reader: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = fresh_apiserver
    servers.apply_crds(server)
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    cluster = make_cluster(name="real", context=ship_rights(server, tmp_path / "kubeconfig"))
    ensure_namespace(server.admin, NAMESPACE)
    expected = {f"case-{number}": case for number, case in enumerate(CASES)}
    for name, case in expected.items():
        make_source(server, name)
        make_pod(server, f"{name}-x7k2p", name, case.status)
    make_source(server, "no-pod")
    for name, endpoints in (("no-endpoint", ()), ("unready", (False,)), ("behind-a-wall", (True,))):
        make_source(server, name)
        make_pod(server, f"{name}-x7k2p", name, READY)
        make_slice(server, name, *endpoints)
    # An evicted pod beside the one that replaced it is not the cause.
    make_source(server, "replaced")
    evicted = next(case.status for case in CASES if case.title == "evicted")
    make_pod(server, "replaced-a", "replaced", evicted)
    make_pod(server, "replaced-b", "replaced", READY)
    make_slice(server, "replaced", True)
    for name, state in (("connecting", "CONNECTING"), ("idle", "IDLE")):
        make_source(server, name, state)
        make_pod(server, f"{name}-x7k2p", name, READY)
        make_slice(server, name, True)
    make_source(server, "unseen", "")
    young = {"connecting", "idle", "unseen"}

    assert sync_cluster(cluster).error == ""
    assert young.isdisjoint(by_name(cluster))
    later = timezone.now() + timedelta(minutes=6)
    monkeypatch.setattr("installs.state.pods.timezone.now", lambda: later)
    assert sync_cluster(cluster).error == ""
    troubles = by_name(cluster)
    for name, case in expected.items():
        assert_names(troubles[name], case.finding, case.says)
    assert_names(troubles["no-pod"], "cs-no-pod", ("ResourceQuota",))
    for name in ("no-endpoint", "unready"):
        assert_names(troubles[name], "cs-no-endpoint", (f"{name}.{NAMESPACE}.svc:50051",))
    for name in ("behind-a-wall", "replaced"):
        assert_names(troubles[name], "cs-network", ("nc -zv",))
    assert_names(troubles["connecting"], "cs-network", ("has been CONNECTING for more",))
    assert_names(troubles["idle"], "cs-network", ("has been IDLE for more",))
    assert_names(troubles["unseen"], "cs-no-state", ("neither", "app=catalog-operator"))

    rows = reader.get("/api/v1/catalog-troubles?limit=100").json()["items"]
    shown = {row["name"]: row for row in rows}
    assert shown.keys() == troubles.keys()
    for name, trouble in troubles.items():
        assert trouble.finding is not None
        assert shown[name]["finding"]["id"] == trouble.finding.id
        row = Catalog.objects.get(cluster=cluster, namespace=NAMESPACE, name=name)
        page = reader.get(f"/catalogs/real/{row.slug}").content.decode()
        assert escape(trouble.finding.title) in page, name


# -- servers at spec.address -----------------------------------------------------------------------


def end_as_tls(connection: socket.socket, context: ssl.SSLContext) -> None:
    try:
        context.wrap_socket(connection, server_side=True).recv(1)
    except OSError:
        connection.close()


def answer_http(connection: socket.socket) -> None:
    connection.recv(100)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    connection.close()


def never_answer(connection: socket.socket) -> None:
    with connection, suppress(OSError):
        while connection.recv(4096):
            pass


@contextmanager
def listening(handle: Callable[[socket.socket], Any]) -> Iterator[str]:
    """The address of a server whose connections `handle` gets."""
    server = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=handle, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def test_real_olm_reports_why_the_server_at_an_address_does_not_answer(
    olm: World, tmp_path: Path, settings: Any, reader: Client
) -> None:
    """No CatalogSource says more than TRANSIENT_FAILURE: the Subscriptions have the error."""
    settings.KUBECONFIG = str(olm.server.write_kubeconfig(tmp_path / "kubeconfig"))
    cluster = make_cluster(name="real", context="real")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        closed = f"127.0.0.1:{unused.getsockname()[1]}"
    with ExitStack() as stack:
        tls = stack.enter_context(listening(lambda connection: end_as_tls(connection, context)))
        http = stack.enter_context(listening(answer_http))
        silent = stack.enter_context(listening(never_answer))
        causes = {
            "name": ("no-such-host.invalid:50051", "is not resolved on the cluster"),
            "closed": (closed, "the connection is refused"),
            "tls": (tls, "a server that demands TLS"),
            "http": (http, "speaks HTTP/1.1 and not gRPC"),
            "silent": (silent, "does not answer on it within 20 seconds"),
        }
        sources = []
        for name, (address, _) in causes.items():
            namespace = olm.own_namespace(f"down-{name}")
            meta = {"name": name, "namespace": namespace}
            spec = {"sourceType": "grpc", "address": address}
            source = {"apiVersion": V1ALPHA1, "kind": "CatalogSource", "metadata": meta}
            sources.append(olm.kubectl.create({**source, "spec": spec}))
            olm.subscribe(namespace, "winch", source=name, sourceNamespace=namespace)

        def unexplained() -> dict[str, str]:
            assert sync_cluster(cluster).error == ""
            troubles = by_name(cluster)
            return {
                name: troubles[name].message if name in troubles else "connected"
                for name, (_, words) in causes.items()
                if name not in troubles or words not in cause_of(troubles[name])
            }

        def cause_of(trouble: CatalogTrouble) -> str:
            return trouble.finding.cause if trouble.finding else ""

        wait_until(lambda: not unexplained(), "a cause for each catalog", SECONDS)
        rows = reader.get("/api/v1/catalog-troubles").json()["items"]
        assert {row["name"]: row["finding"]["id"] for row in rows} == dict.fromkeys(
            causes, "cs-address"
        )
        for source in sources:  # OLM would go on trying
            olm.kubectl.delete(source)
