"""Redis stops and comes back: the cache counts as empty, tasks are not sent, pages are shown."""

import json
import pickle
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.cache import caches
from django.test import Client
from kombu.exceptions import OperationalError

from installs.models import AccessAnswer
from olmweb import celery_app, tasks
from olmweb.errors import Outage
from olmweb.runtime.cache import TolerantRedisCache
from olmweb.runtime.env import Env
from olmweb.serving import metrics
from tests.certificates import certificate
from tests.conftest import need
from tests.factories import make_cluster, make_operator
from tests.services import RedisServer, free_port

EXPLOITED: list[str] = []


@pytest.fixture
def server() -> Iterator[RedisServer]:
    need("redis", shutil.which("redis-server") is not None)
    running = RedisServer()
    yield running
    running.stop()


@pytest.fixture
def shared(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> TolerantRedisCache:
    monkeypatch.setattr(Outage, "PAUSE", 0.2)
    return TolerantRedisCache(server.url, {})


@pytest.fixture
def no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_outage", Outage("broker away"))


def use_all(store: TolerantRedisCache) -> dict[str, Any]:
    """Every operation of the cache once; name -> result."""
    results = {
        "add": store.add("added", True, 20),
        "get": store.get("number", "default"),
        "touch": store.touch("number", 20),
        "has": store.has_key("number"),
        "get_many": store.get_many(["number", "text"]),
        "delete": store.delete("number"),
    }
    store.set("number", 1, 20)
    store.set_many({"text": "x"}, 20)
    store.delete_many(["text"])
    return results


def test_every_operation_is_a_miss_while_redis_is_away_and_works_when_it_is_back(
    server: RedisServer, shared: TolerantRedisCache, caplog: pytest.LogCaptureFixture
) -> None:
    use_all(shared)
    assert use_all(shared) == {
        "add": False, "get": 1, "touch": True, "has": True, "get_many": {"number": 1},
        "delete": True,
    }  # fmt: skip
    server.stop()
    missing = {
        "add": True, "get": "default", "touch": False, "has": False, "get_many": {},
        "delete": False,
    }  # fmt: skip
    assert use_all(shared) == missing
    with pytest.raises(ValueError, match="number"):
        shared.incr("number")
    shared.clear()
    time.sleep(0.3)
    assert use_all(shared) == missing
    assert caplog.text.count("cache away") == 1, "logged once a minute"
    server.start()
    time.sleep(0.3)
    use_all(shared)
    assert use_all(shared)["get"] == 1


def test_a_redis_that_does_not_answer_costs_a_page_seconds_once(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = TolerantRedisCache(server.url, {})
    shared.set("number", 1)
    assert server.process
    server.process.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        for _ in range(50):
            assert shared.get("number") is None
        assert time.monotonic() - began < 4
    finally:
        server.process.send_signal(signal.SIGCONT)


class Exploit:
    def __reduce__(self) -> Any:
        return EXPLOITED.append, ("by pickle",)


def test_a_pickle_in_redis_is_a_miss_and_is_not_executed(
    server: RedisServer, shared: TolerantRedisCache
) -> None:
    client = redis.Redis.from_url(server.url)
    client.set(shared.make_key("evil"), pickle.dumps(Exploit()))
    assert shared.get("evil", "default") == "default"
    assert EXPLOITED == []
    # The other values are there at once: nothing is wrong with Redis.
    shared.set("progress", ("reading", 1, 2), 20)
    assert shared.get("progress") == ["reading", 1, 2]
    assert json.loads(client.get(shared.make_key("progress")) or b"") == ["reading", 1, 2]


def test_production_uses_this_cache_and_json_alone() -> None:
    conf = celery_app.conf
    assert list(conf.accept_content) == ["json"]
    assert conf.result_accept_content is None, "as accept_content"
    assert (conf.task_serializer, conf.result_serializer, conf.event_serializer) == ("json",) * 3
    assert celery_app.control.mailbox.accept == ["json"]  # type: ignore[attr-defined]
    assert django_settings.SESSION_ENGINE == "django.contrib.sessions.backends.db"


def producer(url: str) -> Any:
    """A task of a broker at `url`, with the settings of the product."""
    app = Celery("test", broker=url, set_as_current=False)
    app.conf.broker_transport_options = celery_app.conf.broker_transport_options
    app.conf.task_publish_retry = celery_app.conf.task_publish_retry

    @app.task(base=tasks.Task, name="tests.nothing", ignore_result=True)
    def nothing() -> None:
        """Never runs."""

    return nothing


def test_a_task_is_not_sent_while_redis_is_away_and_nothing_is_raised(
    server: RedisServer,
    no_outage: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(Outage, "PAUSE", 0.0)
    task = producer(server.url)
    assert task.delay() is not None
    server.stop()
    began = time.monotonic()
    for _ in range(5):
        assert task.delay() is None
    assert time.monotonic() - began < 5
    assert caplog.text.count("broker away") == 1, "logged once a minute"
    server.start()
    assert task.delay() is not None


def test_a_broker_that_does_not_answer_holds_a_request_for_seconds_once(
    server: RedisServer, no_outage: None
) -> None:
    task = producer(server.url)
    assert task.delay() is not None
    assert server.process
    server.process.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        for _ in range(20):
            assert task.delay() is None
        assert time.monotonic() - began < 10
    finally:
        server.process.send_signal(signal.SIGCONT)


@pytest.mark.django_db(transaction=True)
def test_the_page_of_an_operator_is_shown_without_redis(
    server: RedisServer,
    no_outage: None,
    olivia: User,
    client: Client,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.CACHES = {
        "default": {
            "BACKEND": "olmweb.runtime.cache.TolerantRedisCache",
            "LOCATION": server.url,
        }
    }
    sent = []

    def away(*args: Any, **_: Any) -> None:
        sent.append(args)
        raise OperationalError("no redis")

    monkeypatch.setattr("celery.app.task.Task.apply_async", away)
    server.stop()
    make_operator(cluster=make_cluster(name="prod"), kind="PlatformOperator", name="etcd")
    client.force_login(olivia)
    began = time.monotonic()
    for _ in range(3):
        response = client.get("/operators/prod/PlatformOperator/-/etcd")
        assert response.status_code == 200
    assert time.monotonic() - began < 5
    assert len(sent) == 1
    assert isinstance(caches["default"], TolerantRedisCache)
    assert AccessAnswer.objects.count() == 0


def test_a_worker_looks_for_its_broker_every_two_seconds_without_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Enough(Exception):
        pass

    waits: list[float] = []

    def on_error(error: Exception, seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 150:
            raise Enough

    monkeypatch.setattr("kombu.utils.functional.sleep", lambda _: None)
    tries = celery_app.conf.broker_connection_max_retries
    nobody = f"redis://127.0.0.1:{free_port()}/0"
    with celery_app.connection_for_read(nobody) as connection, pytest.raises(Enough):
        connection.ensure_connection(on_error, tries)  # as celery.worker.consumer calls it
    assert set(waits) == {2}


@pytest.mark.parametrize("trusted", [True, False])
def test_every_client_verifies_the_certificate_of_redis(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    need("redis", shutil.which("redis-server") is not None)
    file = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file if trusted else certificate(tmp_path)))
    server = RedisServer(certificate=file)
    address = Env({"REDIS_URL": server.url}, "OLMWEB_", ignore="").redis_url("REDIS_URL")
    settings.REDIS_URL = address
    cache = TolerantRedisCache(address, {})
    try:
        cache.set("number", 1, 20)
        assert (cache.get("number") == 1) is trusted
        for connect in (
            lambda: Celery(broker=address).connection_for_write().ensure_connection(max_retries=1),
            lambda: metrics.broker().ping(),
        ):
            if trusted:
                connect()
            else:
                with pytest.raises((OperationalError, redis.ConnectionError), match="CERTIFICATE"):
                    connect()
    finally:
        server.stop()
