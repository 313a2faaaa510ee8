"""Requests that the cluster's own thread must not wait for, each in a thread of its own."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import connection


@dataclass(frozen=True, slots=True)
class Done:
    """A job's outcome: `result`, or the error that ended it."""

    name: str
    result: Any
    error: Exception | None


class Jobs:
    """At most one job of each name at a time; their outcomes are put into a queue."""

    def __init__(self, put: Callable[[Done], bool]) -> None:
        self._put = put
        self._threads: dict[str, threading.Thread] = {}

    def start(self, name: str, work: Callable[[], Any]) -> None:
        """Does nothing while a job of this name is under way."""
        running = self._threads.get(name)
        if running is None or not running.is_alive():
            thread = threading.Thread(target=self._run, args=(name, work), name=name, daemon=True)
            self._threads[name] = thread
            thread.start()

    def join(self, seconds: float) -> None:
        for thread in self._threads.values():
            thread.join(seconds)

    def _run(self, name: str, work: Callable[[], Any]) -> None:
        try:
            done = Done(name, work(), None)
        except Exception as error:  # the edge of the thread: raised again by the one that listens
            done = Done(name, None, error)
        finally:
            connection.close()
        self._put(done)
