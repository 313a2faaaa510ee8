"""The beat goes on when the clock of its machine is set back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from celery import Celery

from olmweb.runtime.worker import Every, InMemoryScheduler

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(
        InMemoryScheduler, "apply_async", lambda _, entry, **__: names.append(entry.name)
    )
    return names


def beat() -> InMemoryScheduler:
    app = Celery("test", broker="memory://", set_as_current=False, timezone="UTC")
    app.conf.beat_schedule = {
        "often": {"task": "often", "schedule": Every(5)},
        "seldom": {"task": "seldom", "schedule": Every(3600)},
    }
    return InMemoryScheduler(app=app, lazy=False)


def ticks(beat: InMemoryScheduler, clock: Any, seconds: int) -> None:
    for _ in range(seconds):
        clock.shift(1)
        for _ in range(3):  # a tick sends one entry
            beat.tick()


def test_what_is_due_every_few_seconds_stays_so_when_the_clock_is_set_back(sent: list[str]) -> None:
    with time_machine.travel(NOON, tick=False) as clock:
        running = beat()
        ticks(running, clock, 12)
        clock.shift(3600)
        ticks(running, clock, 12)
        sent.clear()
        clock.shift(-3600)
        ticks(running, clock, 12)
    assert 2 <= sent.count("often") <= 4


def test_a_clock_set_back_a_little_sends_nothing_more(sent: list[str]) -> None:
    with time_machine.travel(NOON, tick=False) as clock:
        running = beat()
        ticks(running, clock, 6)
        sent.clear()
        clock.shift(-0.5)
        for _ in range(3):
            running.tick()
    assert sent == []


def test_an_entry_that_ran_in_the_future_is_due_now() -> None:
    every = Every(60, app=Celery("test", set_as_current=False))
    with time_machine.travel(NOON, tick=False):
        assert every.is_due(NOON + timedelta(minutes=30)).is_due
        assert not every.is_due(NOON - timedelta(seconds=30)).is_due
