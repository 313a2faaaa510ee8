"""Two beats: one schedules, the other waits, and takes over from one that died or was paused."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
import time_machine
from celery import Celery
from celery.apps.beat import Beat
from celery.beat import Scheduler, Service
from django.db import DatabaseError
from django.utils import timezone

from olmweb.models import Lease
from olmweb.runtime import beat, probe, worker
from olmweb.runtime.beat import LeaderScheduler
from olmweb.runtime.worker import Every
from tests.conftest import ROOT
from tests.migrated import fill_database
from tests.olmweb.runtime import test_redis_worker
from tests.olmweb.runtime.test_redis_worker import count

database = test_redis_worker.database


@pytest.fixture(autouse=True)
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in (worker, probe):
        monkeypatch.setattr(module, "HEARTBEAT_FILE", tmp_path / "heartbeat")
    monkeypatch.setattr(worker, "_touched_at", 0.0)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, str]]:
    """(scheduler, name of the entry)"""
    names: list[tuple[object, str]] = []
    monkeypatch.setattr(
        LeaderScheduler,
        "apply_async",
        lambda self, entry, **__: names.append((self, entry.name)),
    )
    monkeypatch.setattr(beat, "CHECK_SECONDS", 0.0)
    return names


def scheduler() -> LeaderScheduler:
    app = Celery("test", broker="memory://", set_as_current=False, timezone="UTC")
    app.conf.beat_schedule = {
        "often": {"task": "often", "schedule": Every(5)},
        "seldom": {"task": "seldom", "schedule": Every(3600)},
    }
    return LeaderScheduler(app=app, lazy=False)


def ticks(*schedulers: LeaderScheduler) -> None:
    for _ in range(4):  # a tick sends one entry
        for running in schedulers:
            running.tick()


def expire() -> None:
    Lease.objects.update(expires_at=timezone.now() - timedelta(seconds=1))


@pytest.mark.django_db
def test_one_schedules_everything_at_its_start_and_the_other_nothing(sent: Any) -> None:
    first, second = scheduler(), scheduler()
    ticks(first, second)
    assert sorted(name for _, name in sent) == ["often", "seldom"]
    assert {leader for leader, _ in sent} == {first}


@pytest.mark.django_db
def test_the_other_takes_over_when_the_lease_ends_and_a_resumed_one_sends_nothing(
    sent: Any,
) -> None:
    first, second = scheduler(), scheduler()
    ticks(first, second)
    expire()  # the first is paused
    sent.clear()
    ticks(second)
    assert [leader for leader, _ in sent] == [second, second]
    with time_machine.travel(timezone.now() + timedelta(seconds=30), tick=True):
        sent.clear()
        first.tick()
        assert sent == []


@pytest.mark.django_db
def test_one_that_ends_hands_over_at_once(sent: Any) -> None:
    first, second = scheduler(), scheduler()
    ticks(first, second)
    first.close()
    sent.clear()
    ticks(second)
    assert {leader for leader, _ in sent} == {second}


@pytest.mark.django_db
def test_nothing_is_sent_without_the_database_and_the_loop_goes_on(
    sent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = scheduler()

    def away(*_: Any) -> None:
        raise DatabaseError

    with monkeypatch.context() as patched:
        patched.setattr(beat, "acquire", away)
        patched.setattr("olmweb.runtime.beat.connection.close", lambda: None)
        ticks(running)
    assert sent == []
    assert probe.main("beat") == 0
    ticks(running)
    assert len(sent) == 2


@pytest.mark.django_db
def test_the_probe_tells_a_waiting_beat_from_a_dead_one(
    sent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert probe.main("beat") == 1, "never started"
    first, second = scheduler(), scheduler()
    ticks(first)
    worker.HEARTBEAT_FILE.unlink()
    monkeypatch.setattr(worker, "_touched_at", 0.0)
    ticks(second)
    assert probe.main("beat") == 0
    old = time.time() - 61
    os.utime(worker.HEARTBEAT_FILE, (old, old))
    assert probe.main("beat") == 1


def test_the_probe_of_a_worker_does_not_fail_while_redis_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker.touch_heartbeat()
    assert probe.main("worker") == 0
    old = time.time() - 61
    os.utime(worker.HEARTBEAT_FILE, (old, old))
    monkeypatch.setattr(probe, "broker_answers", lambda: False)
    assert probe.main("worker") == 0
    monkeypatch.setattr(probe, "broker_answers", lambda: True)
    assert probe.main("worker") == 1


class InterruptedScheduler(Scheduler):
    """Its first tick is in a function that SQLite calls when the signal arrives."""

    number = signal.SIGTERM
    ticks = 0

    def tick(self, *_: Any, **__: Any) -> float:
        self.ticks += 1
        if self.ticks == 1:
            with closing(sqlite3.connect(":memory:")) as connection:
                interrupt = partial(os.kill, os.getpid(), self.number)
                connection.create_function("interrupt", 0, interrupt)
                with suppress(sqlite3.Error):
                    connection.execute("select interrupt()")
        return 0.001 if self.ticks < 100 else pytest.fail("the signal got lost")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_inside_a_callback_stops_beat(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InterruptedScheduler, "number", number)
    monkeypatch.setattr("olmweb.celery.end_beat", lambda service: None)  # of the tests' process
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    service = Service(Celery("test", set_as_current=False), scheduler_cls=InterruptedScheduler)
    Beat(app=service.app).install_sync_handler(service)  # Celery's, which beat_init replaces
    try:
        service.start()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    scheduler: Any = service.scheduler
    assert scheduler.ticks == 1


HANGING = """
import time
from celery import Celery
from celery.beat import Scheduler, Service
import olmweb.celery
class Hanging(Scheduler):
    def tick(self, *args, **options):
        print("hangs", flush=True)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            time.sleep(1)
    def close(self):
        print("closed", flush=True)
olmweb.celery.BEAT_STOP_SECONDS = 1
Service(Celery("test"), scheduler_cls=Hanging).start()
"""


@pytest.mark.parametrize("signals", [1, 2], ids=["the time is over", "a second signal"])
def test_a_beat_whose_tick_hangs_ends_and_gives_its_lease_up(signals: int) -> None:
    code = HANGING if signals == 1 else HANGING.replace("SECONDS = 1", "SECONDS = 60")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT) as beat:
        assert beat.stdout
        assert beat.stdout.readline() == b"hangs\n"
        for _ in range(signals):
            beat.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        assert beat.wait(20) == 1
        assert beat.stdout.read() == b"closed\n"


# -- processes -------------------------------------------------------------------------------------


class Beats:
    def __init__(self, folder: Path, url: str, database: str) -> None:
        self.database = database
        self.redis = redis.Redis.from_url(url)
        self.redis.flushdb()
        self.environ = {
            **os.environ,
            "REDIS_URL": url,
            "DATABASE_URL": database,
            "OLMWEB_DATA_DIR": str(folder),
            "OLMWEB_SECRET_KEY": "only for this test " * 4,
            "OLMWEB_HOSTS": "olmweb.example",
            "TMPDIR": str(folder),
        }
        fill_database(database)

    def start(self, stack: ExitStack) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "olmweb", "beat", "--loglevel", "error"],
            cwd=ROOT, env=self.environ,
        )  # fmt: skip
        stack.callback(process.wait, timeout=20)
        stack.callback(process.kill)
        return process

    def leads(self, process: subprocess.Popen[bytes]) -> bool:
        owner = f"%:{process.pid}:%"
        query = f"select count(*) from olmweb_lease where name='beat' and owner like '{owner}'"  # noqa: S608
        return bool(count(self.database, query))

    def sent_in(self, seconds: float) -> int:
        """Messages of what is due every two seconds."""
        self.redis.delete("actions")
        time.sleep(seconds)
        queued: Any = self.redis.lrange("actions", 0, -1)
        return sum(b"installs.sync_clusters" in message for message in queued)


@pytest.fixture
def beats(tmp_path: Path, redis_server: str, database: str) -> Beats:
    return Beats(tmp_path, redis_server, database)


def eventually(true: Any, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.2)
    return False


@pytest.mark.peers  # a minute of real processes: not among the quick tests
def test_a_beat_that_is_killed_or_paused_is_replaced_within_thirty_seconds(beats: Beats) -> None:
    with ExitStack() as stack:
        first = beats.start(stack)
        assert eventually(lambda: beats.leads(first), 30)
        second = beats.start(stack)
        assert 5 <= beats.sent_in(13) <= 8, "two beats send as often as one"
        first.kill()
        assert eventually(lambda: beats.leads(second), 30)
        assert 5 <= beats.sent_in(13) <= 8
        third = beats.start(stack)
        second.send_signal(signal.SIGSTOP)
        assert eventually(lambda: beats.leads(third), 40)
        second.send_signal(signal.SIGCONT)
        assert 5 <= beats.sent_in(13) <= 9, "a resumed beat sends one round at most"
        assert beats.leads(third)
        third.send_signal(signal.SIGTERM)
        assert eventually(lambda: beats.leads(second), 10), "handed over at once"
