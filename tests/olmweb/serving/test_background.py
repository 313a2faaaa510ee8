"""The worker of the embedded server: each queue has threads of its own."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from olmweb.celery import app
from olmweb.runtime.worker import InMemoryScheduler
from olmweb.serving.embedded import THREADS, Background, threads_by_queue


class Probes:
    """Two tasks: one that blocks until `over`, one that reports that it ran."""

    def __init__(self) -> None:
        self.reset("")

        @app.task(name="tests.block", ignore_result=True)
        def block(test: str) -> None:
            if test == self.test:  # those of an earlier test end at once
                over = self.over
                self.blocked.release()
                over.wait(30)

        @app.task(name="tests.report", ignore_result=True)
        def report() -> None:
            self.ran.set()

        self.block: Any = block
        self.report: Any = report

    def reset(self, test: str) -> None:
        self.test = test
        self.over, self.ran = threading.Event(), threading.Event()
        self.blocked = threading.Semaphore(0)


@pytest.fixture(scope="module")
def background() -> Iterator[Probes]:
    """A worker without a schedule, started when the probes are there: it looks for tasks once."""
    probes = Probes()
    with app.connection_for_write() as broker:  # other tests leave messages in this process
        channel: Any = broker.default_channel
        for queue in threads_by_queue():
            channel.queue_purge(queue)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InMemoryScheduler, "setup_schedule", lambda _: None)
        running = Background()
        running.start()
        yield probes
        running.stop()
    del app.tasks["tests.block"], app.tasks["tests.report"]


@pytest.mark.parametrize("busy", ["sync", "reports", "watch"])
def test_an_action_runs_while_every_slot_of_another_queue_is_busy(
    background: Probes, busy: str
) -> None:
    background.reset(busy)
    slots = {**THREADS, "watch": 1}[busy]  # type: ignore[index]
    try:
        for _ in range(slots + 8):
            background.block.apply_async((busy,), queue=busy)
        for _ in range(slots):
            assert background.blocked.acquire(timeout=20)
        background.report.apply_async(queue="actions")
        assert background.ran.wait(20)
        assert not background.blocked.acquire(timeout=0.2), "more run than the queue has threads"
    finally:
        background.over.set()
