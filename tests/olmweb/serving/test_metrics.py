"""/metrics: what it tells, with which labels, at which cost, to whom."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache.backends.redis import RedisCache
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from installs.models import Action, ActionBatch, Notification
from olmweb import __version__, clusters
from olmweb.clusters import client_for
from olmweb.kube.errors import Internal, KubeError
from olmweb.models import NOT_CONFIGURED, Cluster, ResourceWatch
from olmweb.runtime import beat, counters, leases
from olmweb.serving import http_metrics, metrics
from olmweb.serving.metrics import StateCollector
from tests.factories import (
    make_catalog,
    make_cluster,
    make_component,
    make_operator,
    make_transition,
    make_watch,
)
from tests.kubefake import KubeFake, status_answer
from tests.worlds.rest import World

QUERIES = 14


def samples(response: Any) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    assert response.status_code == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.content.decode())
        for sample in family.samples
    }


class Scrape:
    """`scrape.value("operators", cluster="prod", ...)` of one answer."""

    def __init__(self, client: Client) -> None:
        self.found = samples(client.get("/metrics"))

    def value(self, metric: str, /, **labels: str) -> float:
        return self.found[f"olmweb_{metric}", frozenset(labels.items())]

    def labels(self, metric: str) -> list[dict[str, str]]:
        return [dict(labels) for name, labels in self.found if name == f"olmweb_{metric}"]


@pytest.fixture
def olm(db: None, public: None) -> Cluster:
    """A cluster with two Subscriptions, their ClusterServiceVersions and a CatalogSource."""
    Cluster.objects.all().delete()  # the world that other tests of this file share
    cluster = make_cluster(name="lab")
    for name, phase, reason in (("etcd", "Succeeded", "InstallSucceeded"),
                                ("loki", "Pending", "RequirementsNotMet")):  # fmt: skip
        operator = make_operator(
            cluster=cluster, kind="Subscription", namespace="db", name=name, package=name,
            channel="stable", health="Healthy" if phase == "Succeeded" else "Blocked",
            details={"installed_csv": f"{name}.v1", "approval": "Manual"},
        )  # fmt: skip
        make_component(
            operator=operator, kind="ClusterServiceVersion", namespace="db", name=f"{name}.v1",
            phase=phase, details={"version": "1.0.0", "reason": reason},
        )  # fmt: skip
    make_component(
        cluster=cluster, kind="CatalogSource", namespace="olm", name="community",
        details={"state": "READY"},
    )  # fmt: skip
    make_component(
        cluster=cluster, kind="CatalogSource", namespace="olm", name="broken", details={}
    )
    return cluster


def test_metrics_tell_operators_catalogs_and_syncs(
    world: World, public: None, client: Client, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(QUERIES):
        scrape = Scrape(client)
    value = scrape.value
    assert value(
        "operators", cluster="prod", kind="PlatformOperator", health="Failed",
        finding="allnamespaces-required",
    ) == 1  # fmt: skip
    assert value(
        "operators", cluster="prod", kind="ClusterExtension", health="Healthy", finding=""
    ) == 1  # fmt: skip
    assert value("cluster_reachable", cluster="edge") == 0
    assert value("clusteroperators", cluster="prod", condition="Degraded") == 1
    assert value("findings", cluster="prod", finding="allnamespaces-required") == 1
    assert value("catalog_ready", cluster="-", namespace="", name="from-file") == 1
    assert value("catalog_packages", cluster="prod", namespace="", name="redhat-operators") == 5
    assert value("catalog_sync_age_seconds", cluster="-", namespace="", name="from-file") >= 0
    assert value("sync_failed_runs", kind="cluster", target="prod") == 1
    assert value("sync_failed_runs", kind="cluster", target="edge") == 0
    assert value(
        "operator_abnormal", cluster="edge", kind="PlatformOperator", namespace="",
        name="grafana", version="1.0.0", phase="Degraded", reason="=SUM(A1)",
    ) == 1  # fmt: skip


def test_no_alert_is_about_a_removed_cluster(public: None, client: Client, db: None) -> None:
    removed = make_cluster(name="removed", reachable=None, error_code=NOT_CONFIGURED)
    make_catalog(cluster=removed, name="left", state="failed")
    make_operator(cluster=removed, health="Failed", finding="allnamespaces-required")
    make_watch(cluster=removed)
    text = client.get("/metrics").content.decode()
    for name in (
        *("cluster_reachable", "cluster_sync_age_seconds", "catalog_ready"),
        *("operators", "findings", "operator_abnormal", "feed_state", "feed_age_seconds"),
    ):
        assert not re.search(rf'^olmweb_{name}{{.*cluster="removed"', text, re.MULTILINE), name


def test_whether_a_cluster_answers_has_no_sample_while_that_is_not_known(
    public: None, client: Client, db: None
) -> None:
    make_cluster(name="new", reachable=None)
    make_cluster(name="crashed", reachable=False, error_code=Internal.code)
    make_cluster(name="away", reachable=False, error_code="unreachable")
    text = client.get("/metrics").content.decode()
    samples = re.findall(r'^olmweb_cluster_reachable{cluster="(\w+)"} (\S+)', text, re.MULTILINE)
    assert ("away", "0.0") in samples
    assert not {"new", "crashed"} & set(dict(samples))


def test_olms_own_metrics_have_olms_own_labels(olm: Cluster, client: Client) -> None:
    scrape = Scrape(client)
    place = {"cluster": "lab", "namespace": "db"}
    for name, succeeded in (("etcd.v1", 1), ("loki.v1", 0)):
        assert scrape.value("csv_succeeded", **place, name=name, version="1.0.0") == succeeded
    assert scrape.labels("csv_abnormal") == [
        {**place, "name": "loki.v1", "version": "1.0.0", "phase": "Pending",
         "reason": "RequirementsNotMet"}
    ]  # fmt: skip
    assert scrape.value(
        "subscription", **place, name="etcd", installed="etcd.v1", channel="stable",
        package="etcd", approval_strategy="Manual",
    ) == 1  # fmt: skip
    ready = {"cluster": "lab", "namespace": "olm"}
    assert scrape.value("catalogsource_ready", **ready, name="community") == 1
    assert scrape.value("catalogsource_ready", **ready, name="broken") == 0
    assert scrape.value("objects", cluster="lab", kind="ClusterServiceVersion") == 2


def test_details_of_another_type_than_they_should_be_break_nothing(
    olm: Cluster, client: Client
) -> None:
    make_component(
        cluster=olm, kind="ClusterServiceVersion", name="odd", phase="Failed",
        details={"version": {"a": 1}, "reason": ["x" * 2000]},
    )  # fmt: skip
    odd = next(item for item in Scrape(client).labels("csv_abnormal") if item["name"] == "odd")
    assert (odd["version"], odd["reason"]) == ("", "")


def test_each_feed_tells_how_long_it_was_silent(olm: Cluster, client: Client) -> None:
    now = timezone.now()
    old = now - timedelta(minutes=5)
    make_watch(cluster=olm, kind="Subscription", last_event_at=now, listed_at=old)
    make_watch(cluster=olm, kind="InstallPlan", last_event_at=None, listed_at=old)
    make_watch(cluster=olm, kind="Bundle", state=ResourceWatch.State.ABSENT, last_event_at=None,
                listed_at=None, lists=7)  # fmt: skip
    scrape = Scrape(client)
    assert scrape.value("feed_age_seconds", cluster="lab", feed="Subscription") < 60
    assert 299 < scrape.value("feed_age_seconds", cluster="lab", feed="InstallPlan") < 400
    assert {item["feed"] for item in scrape.labels("feed_age_seconds")} == {
        "Subscription",
        "InstallPlan",
    }
    assert scrape.value("feed_state", cluster="lab", feed="Bundle", state="absent") == 1
    assert scrape.value("feed_lists_total", cluster="lab", feed="Bundle") == 7
    assert scrape.value("feed_watches_total", cluster="lab", feed="Bundle") == 3


def test_notifications_are_counted_by_state_even_when_there_are_none(
    olm: Cluster, client: Client
) -> None:
    operator = make_operator(cluster=olm)
    for state in ("pending", "pending", "given-up"):
        transition = make_transition(subject=operator, type="Health")
        Notification.objects.create(transition=transition, state=state)
    scrape = Scrape(client)
    for state, count in (("pending", 2), ("given-up", 1), ("sent", 0)):
        assert scrape.value("notifications", state=state) == count


def test_series_per_object_are_bounded_and_that_is_told(
    olm: Cluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "SERIES", 3)
    for number in range(5):
        make_operator(cluster=olm, name=f"op{number}", health="Failed", reason="x" * 1000)
    scrape = Scrape(client)
    reported = scrape.labels("operator_abnormal")
    assert len(reported) == 3
    assert {len(item["reason"]) for item in reported if item["kind"] != "Subscription"} == {100}
    assert scrape.value("series_limited", metric="olmweb_operator_abnormal") == 1
    assert scrape.value("series_limited", metric="olmweb_subscription") == 0


def test_the_age_of_open_actions_leaves_out_those_that_wait_for_their_batch(
    olm: Cluster, client: Client
) -> None:
    now = timezone.now()
    user = User.objects.create_user("olivia")
    batch = ActionBatch.objects.create(cluster=olm, user=user)
    open_action(olm, "sent", state="applied", created_at=now - timedelta(hours=2), sent_at=now)
    open_action(olm, "recorded", created_at=now - timedelta(minutes=10))
    open_action(olm, "waiting", created_at=now - timedelta(hours=3), batch=batch)
    open_action(olm, "ended", state="succeeded", created_at=now - timedelta(hours=9))
    scrape = Scrape(client)
    assert scrape.value("actions", cluster="lab", state="pending") == 2
    assert scrape.value("actions", cluster="lab", state="applied") == 1
    assert 600 <= scrape.value("action_age_seconds", cluster="lab", state="pending") < 660
    assert scrape.value("action_age_seconds", cluster="lab", state="applied") < 60


def open_action(cluster: Cluster, name: str, **values: Any) -> Action:
    return Action.objects.create(cluster=cluster, name=name, verb="install", **values)


def test_queues_and_beat_are_reported_where_they_are_other_processes(
    olm: Cluster, client: Client, settings: Any, redis_server: str
) -> None:
    assert Scrape(client).labels("queue_length") == []
    settings.EMBEDDED = False
    settings.REDIS_URL = redis_server
    with redis.Redis.from_url(redis_server) as broker:
        broker.delete("sync")  # other tests use this server, too
        broker.rpush("sync", "one", "two")
    scrape = Scrape(client)
    assert scrape.value("queue_length", queue="sync") == 2
    assert scrape.value("queue_length", queue="actions") == 0
    assert scrape.value("beat_scheduling") == 0
    assert leases.acquire(beat.LEASE, 30)
    assert Scrape(client).value("beat_scheduling") == 1

    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert Scrape(client).labels("queue_length") == []


def test_a_scrape_costs_the_same_queries_however_much_there_is(
    olm: Cluster, client: Client, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(QUERIES):
        client.get("/metrics")
    for number in range(3):
        cluster = make_cluster(name=f"more{number}")
        make_operator(cluster=cluster, health="Failed", finding=f"f{number}")
        make_component(cluster=cluster, kind="ClusterServiceVersion", name="x")
        make_watch(cluster=cluster)
    with django_assert_num_queries(QUERIES):
        client.get("/metrics")


def test_metrics_need_the_same_access_as_reading(
    world: World, client: Client, bob: User, token: str
) -> None:
    refused = client.get("/metrics")
    assert refused.status_code == 401
    assert list(refused.json()) == ["error"]
    wrong = client.get("/metrics", headers={"authorization": "Bearer wrong"})
    assert wrong.status_code == 401
    right = client.get("/metrics", headers={"authorization": f"Bearer {token}"})
    assert right.status_code == 200
    client.force_login(bob)
    assert client.get("/metrics").status_code == 200


def test_requests_to_a_cluster_are_counted_by_verb_and_code(
    olm: Cluster, client: Client, settings: Any, tmp_path: Path
) -> None:
    with KubeFake() as fake:
        settings.KUBECONFIG = str(fake.write_kubeconfig(tmp_path / "kubeconfig", "lab"))
        olm.context = "lab"
        fake.script("GET", "/version", status_answer(503, "no"), status_answer(503, "no"))
        for _ in range(2):
            with client_for(olm) as kube:
                with pytest.raises(KubeError):
                    kube.version()
                kube.discover()
            kube.close()  # a second time: nothing is counted twice
        sent = [received.path for received in fake.requests]
    result = {
        (item["verb"], item["code"]): Scrape(client).value("api_requests_total", **item)
        for item in Scrape(client).labels("api_requests_total")
    }
    assert result == {("GET", "503"): 2, ("GET", "200"): len(sent) - 2}


def test_counting_in_a_cache_that_is_away_breaks_nothing(
    olm: Cluster, client: Client, monkeypatch: pytest.MonkeyPatch, redis_server: str
) -> None:
    shared = RedisCache(redis_server, {})
    monkeypatch.setattr(counters, "cache", shared)
    shared.clear()
    for _ in range(2):
        clusters.count_requests("lab", {("GET", "200"): 2, ("WATCH", "410"): 1})
    assert Scrape(client).value("api_requests_total", cluster="lab", verb="GET", code="200") == 4
    monkeypatch.setattr(counters, "cache", RedisCache("redis://127.0.0.1:1/0", {}))
    clusters.count_requests("lab", {("GET", "200"): 2})
    assert Scrape(client).labels("api_requests_total") == []


def test_the_documentation_names_every_metric_with_its_labels(
    world: World, public: None, client: Client
) -> None:
    text = (settings.BASE_DIR / "docs" / "metrics.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| `(olmweb_\w+)` \| ([\w, ]*?) ?\|", text, re.MULTILINE))
    families: list[Any] = list(StateCollector().collect())
    shown = {
        family.name + ("_total" if family.type == "counter" else ""): ", ".join(family._labelnames)
        for family in families
    }
    shown |= {
        metric._name + ("_total" if metric._type == "counter" else ""): ", ".join(
            metric._labelnames
        )
        for metric in http_metrics.METRICS
    }
    assert documented == shown


POD = {"host": "10.1.2.3:8000"}  # a scrape by address names no host of OLMWEB_HOSTS


def test_a_scrape_by_address_over_http_is_answered_like_a_probe(
    olm: Cluster, client: Client, settings: Any, token: str
) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.PUBLIC_READ = False
    settings.METRICS_TOKEN = "m" * 20
    for bearer in ("m" * 20, token):
        headers = {**POD, "authorization": f"Bearer {bearer}"}
        answer = client.get("/metrics", headers=headers)
        assert answer.status_code == 200
        assert "olmweb_build_info" in answer.content.decode()
        assert answer["X-Content-Type-Options"] == "nosniff"
        head = client.head("/metrics", headers=headers)
        assert (head.status_code, head.content) == (200, b"")
    assert client.get("/metrics", headers=POD).status_code == 401
    wrong = {**POD, "authorization": "Bearer " + "n" * 20}
    assert client.get("/metrics", headers=wrong).status_code == 401
    assert client.post("/metrics", headers=POD).status_code == 405
    settings.PUBLIC_READ = True
    assert client.get("/metrics", headers=POD).status_code == 200


def test_the_token_of_metrics_opens_nothing_else(
    world: World, client: Client, settings: Any
) -> None:
    settings.METRICS_TOKEN = "m" * 20
    headers = {"authorization": "Bearer " + "m" * 20}
    assert client.get("/metrics", headers=headers).status_code == 200
    assert client.get("/api/v1/clusters", headers=headers).status_code == 401
    assert client.get("/operators/", headers=headers).status_code == 302


def test_without_a_token_of_metrics_an_empty_bearer_is_refused(
    world: World, client: Client, settings: Any
) -> None:
    settings.METRICS_TOKEN = ""
    for header in ("Bearer ", "Bearer", "", "Basic m"):
        answer = client.get("/metrics", headers={"authorization": header})
        assert answer.status_code == 401, header


def test_a_session_reads_metrics_under_a_known_host_alone(
    world: World, client: Client, bob: User
) -> None:
    client.force_login(bob)
    assert client.get("/metrics").status_code == 200
    assert client.get("/metrics", headers=POD).status_code == 400


def test_metrics_tell_the_version(olm: Cluster, client: Client) -> None:
    assert Scrape(client).value("build_info", version=__version__) == 1
