"""Metrics of requests, actions and receivers: their labels, and counts of several web processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import urllib3
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from installs.actions.execute import finish
from installs.models import Action, WebhookDelivery, WebhookReceiver
from olmweb.models import ApiToken, ChangeEvent, EventCounter
from olmweb.runtime import counters
from olmweb.serving import http_metrics, tail
from olmweb.serving.bridge import ThreadedWsgi
from olmweb.serving.streams import EventStreams, Hub
from olmweb.serving.tail import EventLog, Tail
from tests.conftest import ROOT
from tests.factories import make_cluster
from tests.migrated import fill_database
from tests.olmweb.serving.serving import (
    BODY_LIMIT,
    connect,
    get,
    production_environment,
    read_all,
    running,
    serving,
)
from tests.olmweb.serving.test_metrics import Scrape
from tests.olmweb.serving.test_streams import FeedOfTheTest, wait_for
from tests.olmweb.serving.test_tail import Client as Reader
from tests.olmweb.serving.test_tail import LogOfTheTest, all_may_read, application
from tests.services import free_port, stop, wait_for_port
from tests.worlds.rest import World

Series = Callable[..., float]


@pytest.fixture
def added() -> Series:
    """What a series of this process has more than when the test began."""

    def values() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in http_metrics.HttpCollector().collect()
            for sample in family.samples
        }

    before = values()

    def value(name: str, /, **labels: str) -> float:
        key = (f"olmweb_{name}", frozenset(labels.items()))
        return values().get(key, 0) - before.get(key, 0)

    return value


def test_requests_are_counted_by_the_pattern_of_their_address_and_the_class_of_the_status(
    world: World, public: None, client: Client, added: Series
) -> None:
    for name in ("etcd", "argocd", "missing"):
        client.get(f"/operators/prod/PlatformOperator/-/{name}")
    client.get("/no-such-page/with-a-name")
    client.generic("BREW", "/api/v1/operators")
    route = "/operators/<str:cluster>/<str:kind>/<str:namespace>/<str:name>"
    assert added("http_requests_total", method="GET", route=route, code="2xx") == 1
    assert added("http_requests_total", method="GET", route=route, code="4xx") == 2
    assert added("http_requests_total", method="GET", route="none", code="4xx") == 1
    assert added("http_request_duration_seconds_count", method="GET", route=route) == 3
    assert 0 < added("http_request_duration_seconds_sum", method="GET", route=route) < 60
    api = "/api/v1/operators"
    assert added("http_requests_total", method="other", route=api, code="4xx") == 1


def test_probes_and_scrapes_are_not_counted(
    world: World, public: None, client: Client, added: Series
) -> None:
    for path in ("/livez", "/readyz", "/metrics"):
        client.get(path)
        for route in ("none", path):
            assert added("http_requests_total", method="GET", route=route, code="2xx") == 0


def test_rest_requests_are_counted_by_token_without_names_of_people(
    world: World, public: None, client: Client, bob: User, token: str, added: Series,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(http_metrics, "_tokens", set())  # other tests may have used all series
    row = ApiToken.objects.get(user=bob)
    api = "/api/v1/operators"
    client.get(api, headers={"authorization": f"Bearer {token}"})
    client.get(api, headers={"authorization": "Bearer wrong"})
    client.get(api)
    client.force_login(bob)
    client.get(api)
    counted = "rest_requests_total"
    assert added(counted, client="token", token=str(row.pk), code="2xx") == 1
    assert added(counted, client="token", token="none", code="4xx") == 1
    assert added(counted, client="anonymous", token="", code="2xx") == 1
    assert added(counted, client="browser", token="", code="2xx") == 1
    assert "bob" not in client.get("/metrics").content.decode()

    monkeypatch.setattr(http_metrics, "TOKENS", 0)
    http_metrics._tokens.clear()
    Client().get(api, headers={"authorization": f"Bearer {token}"})
    assert added(counted, client="token", token="other", code="2xx") == 1


def test_requests_under_way_open_streams_and_refusals_are_counted(
    settings: Any, added: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TRUSTED_PROXIES = []
    monkeypatch.setattr(tail, "READ_SECONDS", 0.02)
    pages = ThreadedWsgi(application, 2, BODY_LIMIT)
    streams = EventStreams(pages, Hub(FeedOfTheTest(), lambda: pages.busy_seconds))
    with serving(EventLog(streams, pages, Tail(LogOfTheTest(), all_may_read))) as port:
        with closing(Reader(port).socket):
            assert wait_for(lambda: added("event_streams", stream="log") == 1)
        assert wait_for(lambda: added("event_streams", stream="log") == 0)
        waiting = connect(port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc")
        with waiting:
            assert wait_for(lambda: added("http_requests_in_flight") == 1)
        assert wait_for(lambda: added("http_requests_in_flight") == 0)
        head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n"
        with connect(port, head.encode()) as large:
            assert b" 413 " in read_all(large)
    assert added("http_requests_total", method="POST", route="none", code="4xx") == 2


def test_the_duration_includes_the_wait_for_a_thread(settings: Any) -> None:
    settings.TRUSTED_PROXIES = []
    received: list[float] = []

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        received.append(environ[http_metrics.RECEIVED_AT])
        start_response("200 OK", [])
        return [b""]

    with running(app) as port:
        for _ in range(2):
            get(port)
    assert 0 < received[0] < received[1]


def test_actions_that_end_are_counted_by_result_with_their_duration(
    world: World, public: None, client: Client, django_capture_on_commit_callbacks: Any
) -> None:
    cluster = make_cluster(name="lab")
    begun = timezone.now() - timedelta(seconds=20)
    labels = {"verb": "install", "method": "PlatformOperator"}
    with django_capture_on_commit_callbacks(execute=True):
        for name, state in (("a", Action.State.SUCCEEDED), ("b", Action.State.NO_CHANGE)):
            action = Action.objects.create(
                cluster=cluster, name=name, path="PlatformOperator", verb="install",
                created_at=begun,
            )  # fmt: skip
            finish(action, state, "It is there.")
            finish(action, Action.State.FAILED, "It is late.")  # it has ended: not counted
    scrape = Scrape(client)
    for result in ("succeeded", "no-change"):
        assert scrape.value("actions_finished_total", **labels, result=result) == 1
    assert len(scrape.labels("actions_finished_total")) == 2
    buckets = {
        item["le"]: scrape.value("action_duration_seconds_bucket", **item)
        for item in scrape.labels("action_duration_seconds_bucket")
    }
    assert (buckets["15"], buckets["30"], buckets["1800"], buckets["+Inf"]) == (0, 2, 2, 2)
    assert scrape.value("action_duration_seconds_count", **labels) == 2
    assert 40 <= scrape.value("action_duration_seconds_sum", **labels) < 60


def test_receivers_have_the_age_of_what_waits_and_their_deliveries(
    world: World, public: None, client: Client
) -> None:
    ChangeEvent.objects.all().delete()
    EventCounter.objects.update_or_create(pk=EventCounter.ONLY, defaults={"position": 9})
    now = timezone.now()
    for position, minutes in ((8, 30), (9, 10)):
        ChangeEvent.objects.create(
            position=position, type="object.appeared", at=now - timedelta(minutes=minutes),
            kind="Deployment", name="d",
        )  # fmt: skip
    WebhookReceiver.objects.create(name="done", position=9)
    WebhookReceiver.objects.create(name="behind", position=8)
    failing = WebhookReceiver.objects.create(name="failing", position=9, error="It is away.")
    WebhookReceiver.objects.create(name="off", position=0, enabled=False)
    for state, hours in (("failing", 2), ("given-up", 5)):
        WebhookDelivery.objects.create(
            receiver=failing, state=state, created_at=now - timedelta(hours=hours)
        )
    counters.add(counters.DELIVERIES, {("failing", "given-up"): 1})
    scrape = Scrape(client)
    ages = {
        item["receiver"]: round(scrape.value("receiver_pending_age_seconds", **item) / 600)
        for item in scrape.labels("receiver_pending_age_seconds")
    }
    assert ages == {"done": 0, "behind": 1, "failing": 12}
    assert scrape.value("receiver_failing", receiver="failing") == 1
    assert scrape.value("receiver_failing", receiver="done") == 0
    deliveries = "receiver_deliveries_total"
    assert scrape.value(deliveries, receiver="failing", result="given-up") == 1
    assert scrape.value(deliveries, receiver="done", result="given-up") == 0


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """`manage.py web` with three processes: its address, and the supervisor."""
    port = free_port()
    environ = production_environment(
        tmp_path,
        OLMWEB_HTTPS="false",
        OLMWEB_PUBLIC_READ="true",
        OLMWEB_WEB_PROCESSES="3",
        TMPDIR=str(tmp_path),
    )
    fill_database(environ["DATABASE_URL"])
    process = subprocess.Popen(
        [sys.executable, "manage.py", "web", "--host", "127.0.0.1", "--port", str(port)],
        cwd=ROOT, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for_port(port, process, "web")
        yield f"http://127.0.0.1:{port}", process
    finally:
        stop(process, signal.SIGTERM)
    assert not list(tmp_path.glob("olmweb-metrics-*"))


@pytest.mark.slow
def test_any_of_several_web_processes_answers_with_the_counts_of_all(
    web: tuple[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    address, supervisor = web
    requests = 0

    def files() -> set[str]:
        return {path.name for path in tmp_path.glob("olmweb-metrics-*/counter_*.db")}

    def answered_by_two_processes() -> bool:
        # The first process that has started answers all requests until the others have, too.
        nonlocal requests
        with ThreadPoolExecutor(10) as pool:
            for answer in pool.map(_get, [f"{address}/api/v1/version"] * 10):
                assert answer.status == 200
                requests += 1
        return len(files()) > 1

    assert wait_for(answered_by_two_processes, 60)
    labels = {"method": "GET", "route": "/api/v1/version", "code": "2xx"}
    # An answer is read before its process has counted it.
    assert wait_for(lambda: _scrape(address, "olmweb_http_requests_in_flight", {}) == 1)
    counted = {_scrape(address, "olmweb_http_requests_total", labels) for _ in range(10)}
    assert counted == {requests}
    assert {_scrape(address, "olmweb_http_requests_in_flight", {}) for _ in range(3)} == {1}

    killed = int(sorted(files())[0].removeprefix("counter_").removesuffix(".db"))
    os.kill(killed, signal.SIGKILL)
    live = next(iter(tmp_path.glob("olmweb-metrics-*"))) / f"gauge_livesum_{killed}.db"
    assert wait_for(lambda: not live.exists(), 20)
    assert wait_for(lambda: _get(f"{address}/livez").status == 200, 20)
    assert _scrape(address, "olmweb_http_requests_total", labels) == requests
    assert supervisor.poll() is None


def _get(address: str) -> urllib3.BaseHTTPResponse:
    headers = {"Connection": "close"}
    return urllib3.request("GET", address, headers=headers, retries=3, timeout=20)


def _scrape(address: str, name: str, labels: dict[str, str]) -> float:
    answer = _get(f"{address}/metrics")
    assert answer.status == 200
    return next(
        sample.value
        for family in text_string_to_metric_families(answer.data.decode())
        for sample in family.samples
        if (sample.name, sample.labels) == (name, labels)
    )
