"""Why a catalog is down: on its page, in REST and in the findings of the operators that need it."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from catalogs.models import Catalog
from installs.models import ClusterInventory, Component, Operator
from installs.queries.catalog_troubles import CatalogTrouble, catalog_troubles
from installs.state.full_sync import sync_cluster
from installs.state.pods import refresh_pods
from installs.state.write import WriteResult
from olmweb.clusters import client_for
from olmweb.kube.errors import Forbidden
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_cluster
from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db
LAB = {"kind": "CatalogSource", "namespace": "team-lab", "name": "lab-catalog"}
ADDRESS = "lab-catalog.team-lab.svc:50051"


@pytest.fixture
def prod(sandbox: Sandbox) -> Cluster:
    cluster = make_cluster(name="prod", context="sandbox")
    sync_cluster(cluster)
    cluster.refresh_from_db()
    return cluster


def lab_pod(sandbox: Sandbox) -> Any:
    pods, _ = sandbox.store.items("Pod", "team-lab")
    return next(
        pod for pod in pods if pod["metadata"]["labels"].get("olm.catalogSource") == LAB["name"]
    )


def test_a_sync_reads_the_pods_of_a_catalog_that_is_down_and_finds_the_cause(
    prod: Cluster, django_assert_num_queries: Any
) -> None:
    details = Component.objects.get(cluster=prod, **LAB).details
    assert details["pods_total"] == 1
    assert [pod["container"] for pod in details["pods"]] == ["registry-server"]
    with django_assert_num_queries(3):
        (trouble,) = catalog_troubles([prod])
    assert trouble.finding is not None
    assert (trouble.finding.id, trouble.state) == ("cs-pod-memory", "TRANSIENT_FAILURE")
    assert "14 times" in trouble.finding.cause
    assert "grpcPodConfig" in " ".join(trouble.finding.remedy)
    assert trouble.operators == 2


def test_every_subscription_that_the_catalog_stops_names_the_cause(prod: Cluster) -> None:
    rows = Operator.objects.filter(cluster=prod, namespace="team-lab", kind="Subscription")
    blamed = dict(rows.exclude(finding="").values_list("name", "finding"))
    # The second is of another catalog: the dead one stops the whole namespace.
    assert blamed["chat-demo"] == "cs-pod-memory"
    assert blamed["external-dns-operator"] == "cs-pod-memory"


def test_an_unchanged_pass_writes_nothing_and_a_repaired_catalog_forgets_its_pods(
    prod: Cluster, sandbox: Sandbox
) -> None:
    assert sync_cluster(prod).outcome == "unchanged"
    source = sandbox.store.get(LAB["kind"], LAB["name"], LAB["namespace"])
    assert source is not None
    source = {**source, "status": {**source["status"]}}
    source["status"]["connectionState"] = {
        **source["status"]["connectionState"],
        "lastObservedState": "READY",
    }
    with sandbox.store.changed:
        sandbox.store.put(source)
    sync_cluster(prod)
    assert "pods" not in Component.objects.get(cluster=prod, **LAB).details
    assert catalog_troubles([prod]) == []


def test_the_catalog_page_and_rest_show_cause_pods_and_remedy(
    reader: Client, prod: Cluster
) -> None:
    row, _ = Catalog.objects.get_or_create(
        cluster=prod, source_kind="CatalogSource", namespace="team-lab", name="lab-catalog",
        defaults={"slug": "team-lab.lab-catalog"},
    )  # fmt: skip
    page = assert_page(reader.get(f"/catalogs/prod/{row.slug}"))
    assert "Catalog pod runs out of memory" in page.text
    assert "ended with OOMKilled, exit code 137" in page.text
    assert "patch catalogsource lab-catalog" in page.text
    answer = reader.get("/api/v1/catalog-troubles?cluster=prod").json()
    assert answer["count"] == 1
    item = answer["items"][0]
    assert (item["kind"], item["name"]) == (LAB["kind"], LAB["name"])
    assert item["finding"]["id"] == "cs-pod-memory"
    assert item["pods"][0]["reason"] == "CrashLoopBackOff"
    assert item["operators"] == 2


def connect(sandbox: Sandbox, state: str, *, minutes_ago: int) -> None:
    """OLM's connection to the lab catalog changed to this state; no state is no status at all."""
    source = sandbox.store.get(LAB["kind"], LAB["name"], LAB["namespace"])
    assert source is not None
    at = (timezone.now() - timedelta(minutes=minutes_ago)).isoformat()
    connection = {"address": ADDRESS, "lastObservedState": state, "lastConnect": at}
    with sandbox.store.changed:
        sandbox.store.put({**source, "status": {"connectionState": connection} if state else {}})


def lab_trouble(prod: Cluster) -> CatalogTrouble | None:
    return next((row for row in catalog_troubles([prod]) if row.catalog.name == LAB["name"]), None)


def finding_of(prod: Cluster) -> str:
    trouble = lab_trouble(prod)
    return trouble.finding.id if trouble and trouble.finding else ""


def with_ready_pod(sandbox: Sandbox) -> None:
    pod = lab_pod(sandbox)
    container = {"name": "registry-server", "ready": True, "restartCount": 0}
    running = {**container, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    with sandbox.store.changed:
        sandbox.store.put({**pod, "status": {"phase": "Running", "containerStatuses": [running]}})


@pytest.mark.parametrize("state", ["CONNECTING", "IDLE"])
def test_a_connection_that_is_made_for_long_is_a_trouble_everywhere(
    reader: Client, prod: Cluster, sandbox: Sandbox, state: str
) -> None:
    connect(sandbox, "READY", minutes_ago=60)
    with_ready_pod(sandbox)
    sync_cluster(prod)
    connect(sandbox, state, minutes_ago=4)
    sync_cluster(prod)
    assert lab_trouble(prod) is None, "OLM is still connecting"
    connect(sandbox, state, minutes_ago=6)
    sync_cluster(prod)
    assert finding_of(prod) == "cs-network"
    assert sync_cluster(prod).outcome == "unchanged"

    row, _ = Catalog.objects.get_or_create(
        cluster=prod, source_kind="CatalogSource", namespace="team-lab", name="lab-catalog",
        defaults={"slug": "team-lab.lab-catalog"},
    )  # fmt: skip
    page = assert_page(reader.get(f"/catalogs/prod/{row.slug}"))
    assert "Catalog pod runs and OLM can't connect to it" in page.text
    (item,) = reader.get("/api/v1/catalog-troubles?cluster=prod").json()["items"]
    assert (item["finding"]["id"], item["state"]) == ("cs-network", state)
    rows = Operator.objects.filter(cluster=prod, namespace="team-lab", kind="Subscription")
    assert rows.get(name="chat-demo").finding == "cs-network"
    connect(sandbox, "READY", minutes_ago=0)
    sync_cluster(prod)
    assert lab_trouble(prod) is None


def test_the_wait_counts_from_its_first_state_whatever_olm_writes_later(
    prod: Cluster, sandbox: Sandbox
) -> None:
    """OLM writes lastConnect anew when the state of another catalog changed."""
    connect(sandbox, "READY", minutes_ago=60)
    with_ready_pod(sandbox)
    sync_cluster(prod)
    connect(sandbox, "IDLE", minutes_ago=4)
    sync_cluster(prod)
    began = Component.objects.get(cluster=prod, **LAB).details["unconnected_since"]
    connect(sandbox, "CONNECTING", minutes_ago=1)
    sync_cluster(prod)
    assert Component.objects.get(cluster=prod, **LAB).details["unconnected_since"] == began
    assert lab_trouble(prod) is None


def test_an_attempt_after_one_that_failed_does_not_hide_the_trouble(
    prod: Cluster, sandbox: Sandbox
) -> None:
    with_ready_pod(sandbox)
    sync_cluster(prod)
    connect(sandbox, "READY", minutes_ago=2)
    sync_cluster(prod)
    for state in ("TRANSIENT_FAILURE", "CONNECTING", "IDLE", "CONNECTING"):
        connect(sandbox, state, minutes_ago=0)
        sync_cluster(prod)
        assert finding_of(prod) == "cs-network", state


def test_a_catalog_that_olm_never_takes_up_is_a_trouble_after_minutes(
    prod: Cluster, sandbox: Sandbox
) -> None:
    pod = lab_pod(sandbox)
    with sandbox.store.changed:
        sandbox.store.delete("Pod", pod["metadata"]["name"], "team-lab")
    connect(sandbox, "READY", minutes_ago=1)
    sync_cluster(prod)
    connect(sandbox, "", minutes_ago=0)
    sync_cluster(prod)
    trouble = lab_trouble(prod)
    assert trouble is not None
    assert trouble.finding is not None
    assert trouble.finding.id == "cs-no-state"
    assert "neither status.connectionState nor a pod" in trouble.finding.cause
    assert trouble.state == "no connectionState"

    source = sandbox.store.get(LAB["kind"], LAB["name"], LAB["namespace"])
    assert source is not None
    named = {field: source["metadata"][field] for field in ("name", "namespace")}
    with sandbox.store.changed:
        sandbox.store.delete(LAB["kind"], LAB["name"], LAB["namespace"])
        sandbox.store.put({**source, "metadata": named})
    sync_cluster(prod)
    assert lab_trouble(prod) is None, "another object of the name, made just now"


def test_a_wait_is_noticed_without_a_change_and_without_the_right_to_read_pods(
    prod: Cluster, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(sandbox, "READY", minutes_ago=60)
    sync_cluster(prod)
    connect(sandbox, "CONNECTING", minutes_ago=4)
    with client_for(prod) as client:

        def refused(*args: Any, **kwargs: Any) -> Any:
            raise Forbidden("no pods")

        monkeypatch.setattr(client, "list_pages", refused)
        monkeypatch.setattr("installs.state.full_sync.refresh_pods", lambda *_: WriteResult())
        sync_cluster(prod)
        assert not refresh_pods(prod, client).changed
        later = timezone.now() + timedelta(minutes=2)
        monkeypatch.setattr("installs.state.pods.timezone.now", lambda: later)
        assert refresh_pods(prod, client).changed
        assert not refresh_pods(prod, client).changed
    assert finding_of(prod) == "cs-not-connected"


def test_a_catalog_that_is_served_shows_nothing(reader: Client, prod: Cluster) -> None:
    row = Catalog.objects.filter(cluster=prod, source_kind="ClusterCatalog").first()
    assert row is not None
    assert "Remedy" not in assert_page(reader.get(f"/catalogs/prod/{row.slug}")).text


def test_pods_are_asked_for_with_the_label_of_olm(prod: Cluster, sandbox: Sandbox) -> None:
    pod = lab_pod(sandbox)
    with sandbox.store.changed:
        sandbox.store.delete("Pod", pod["metadata"]["name"], "team-lab")
    with client_for(prod) as client:
        assert refresh_pods(prod, client).changed
        assert not refresh_pods(prod, client).changed
    assert Component.objects.get(cluster=prod, **LAB).details["pods_total"] == 0
    (trouble,) = catalog_troubles([prod])
    assert trouble.finding is not None
    assert trouble.finding.id == "cs-no-pod"


def test_catalogd_that_does_not_run_stops_every_cluster_catalog(
    reader: Client, prod: Cluster
) -> None:
    pod = {"name": "catalogd-x2", "container": "manager", "reason": "CrashLoopBackOff"}
    end = {"message": "back-off; it ended with OOMKilled, exit code 137", "restarts": 7}
    catalogd = {"namespace": "olmv1-system", "replicas": 1, "available": 0, "pods_total": 1}
    ClusterInventory.objects.create(cluster=prod, catalogd=catalogd | {"pods": [pod | end]})
    troubles = [row for row in catalog_troubles([prod]) if row.catalog.kind == "ClusterCatalog"]
    catalogs = Component.objects.filter(cluster=prod, kind="ClusterCatalog")
    assert len(troubles) == catalogs.count() > 0
    assert {row.finding.id for row in troubles if row.finding} == {"cc-catalogd-memory"}
    row = Catalog.objects.filter(cluster=prod, source_kind="ClusterCatalog").first()
    assert row is not None
    page = assert_page(reader.get(f"/catalogs/prod/{row.slug}"))
    assert "Pod of catalogd runs out of memory" in page.text
    assert "catalogd-x2" in page.text


def test_an_extension_that_catalogd_stops_names_its_cause_on_its_page_in_rest_and_in_the_report(
    reader: Client, prod: Cluster, sandbox: Sandbox
) -> None:
    row = Operator.objects.filter(cluster=prod, kind="ClusterExtension").order_by("name").first()
    assert row is not None
    obj = sandbox.store.get("ClusterExtension", row.name, "")
    assert obj is not None
    error = 'error walking catalogs: error getting package "p" from catalog "operatorhubio": '
    progressing = {
        "type": "Progressing",
        "status": "True",
        "reason": "Retrying",
        "message": error + 'cache for catalog "operatorhubio" not found',
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    with sandbox.store.changed:
        sandbox.store.put({**obj, "status": {"conditions": [progressing]}})
    sync_cluster(prod)
    row.refresh_from_db()
    assert row.finding == "ce-catalog-cache"
    pod = {"name": "catalogd-x2", "container": "manager", "reason": "CrashLoopBackOff"}
    end = {"message": "back-off; it ended with OOMKilled, exit code 137", "restarts": 7}
    catalogd = {"namespace": "olmv1-system", "replicas": 1, "available": 0, "pods_total": 1}
    ClusterInventory.objects.create(cluster=prod, catalogd=catalogd | {"pods": [pod | end]})
    Cluster.objects.filter(pk=prod.pk).update(assessed="")  # as after a reading
    sync_cluster(prod)
    row.refresh_from_db()
    assert row.finding == "cc-catalogd-memory", "nothing but catalogd changed"
    address = f"/operators/prod/ClusterExtension/-/{row.name}"
    page = assert_page(reader.get(address))
    assert "Pod of catalogd runs out of memory" in page.text
    assert "catalogd-x2" in page.text
    item = reader.get(f"/api/v1{address}").json()
    assert item["finding"]["id"] == "cc-catalogd-memory"
    broken = [link for link in item["chain"] if link["first_broken"]]
    assert [link["name"] for link in broken] == ["catalogd-controller-manager"]
    report = reader.get("/report/", {"cluster": "prod"}).content.decode()
    assert "Pod of catalogd runs out of memory" in report
