"""The workers of the embedded server: each queue has threads of its own."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from olmweb.celery import app
from olmweb.runtime.worker import InMemoryScheduler
from olmweb.serving.embedded import THREADS, Background, threads_by_queue


@pytest.fixture
def probes() -> Iterator[Any]:
    """Two tasks: one that blocks until the end of the test, one that reports that it ran."""
    over, blocked, ran = threading.Event(), threading.Semaphore(0), threading.Event()

    @app.task(name="tests.block", ignore_result=True)
    def block() -> None:
        blocked.release()
        over.wait(30)

    @app.task(name="tests.report", ignore_result=True)
    def report() -> None:
        ran.set()

    yield block, report, blocked, ran
    over.set()
    del app.tasks["tests.block"], app.tasks["tests.report"]


@pytest.fixture
def background(probes: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Background]:
    """Started without a schedule, when the probes are there: a worker looks for tasks once."""
    monkeypatch.setattr(InMemoryScheduler, "setup_schedule", lambda _: None)
    with app.connection_for_write() as broker:  # other tests leave messages in this process
        channel: Any = broker.default_channel
        for queue in threads_by_queue():
            channel.queue_purge(queue)
    running = Background()
    running.start()
    yield running
    running.stop()


@pytest.mark.parametrize("busy", ["sync", "reports", "watch"])
def test_an_action_runs_while_every_slot_of_another_queue_is_busy(
    probes: Any, background: Background, busy: str
) -> None:
    block, report, blocked, ran = probes
    slots = {**THREADS, "watch": 1}[busy]  # type: ignore[index]
    for _ in range(slots + 8):
        block.apply_async(queue=busy)
    for _ in range(slots):
        assert blocked.acquire(timeout=10)
    report.apply_async(queue="actions")
    assert ran.wait(10)
    assert not blocked.acquire(timeout=0.2), "more run than the queue has threads"
