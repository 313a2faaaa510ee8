"""Celery's worker and beat: the request to stop, the heartbeat file, the way back to a broker that
was away, and schedules that survive a clock set back.

Celery's own beat compares dates and looks only at the entry that is next by them: after a jump back
by an hour nothing would be due for an hour, and nobody would take over a killed worker's clusters.
"""

import mmap
import os
import signal
import tempfile
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from celery import current_app
from celery.app.amqp import AMQP
from celery.beat import Scheduler
from celery.schedules import schedule
from kombu import Connection
from kombu.exceptions import OperationalError as BrokerError

# A worker that stops waits for its tasks. Those of a prefork pool run in other processes, so the
# flag lies in anonymous shared memory: children forked later see every change.
_stop = mmap.mmap(-1, 1)


def request_stop() -> None:
    """Asks the long tasks of this worker to end soon."""
    _stop[0] = 1


def clear_stop() -> None:
    """Call when a new worker starts in this process."""
    _stop[0] = 0


def stop_requested() -> bool:
    """Long tasks check this between two steps."""
    return _stop[0] == 1


def limit_stop(seconds: float) -> None:
    """Ends a worker that still waits for tasks after so many seconds, as a second signal does.

    Messages are acknowledged late, so another worker gets those of the tasks that are cut off.
    """
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGQUIT))
    timer.daemon = True
    timer.start()


class SteadyConnection(Connection):
    """Tries a broker that is away again every RECONNECT_SECONDS.

    A worker of Celery waits two seconds longer each time, up to 30, and would stand still for that
    long when the broker is back. No setting changes it.
    """

    RECONNECT_SECONDS = 2

    def ensure_connection(self, *args: Any, **options: Any) -> Any:
        options.setdefault("interval_max", self.RECONNECT_SECONDS)
        return super().ensure_connection(*args, **options)


class Broker(AMQP):
    """For the parameter `amqp` of the Celery application."""

    Connection = SteadyConnection


def broker_answers() -> bool:
    """Whether the broker can be reached; takes a few seconds at most."""
    try:
        with current_app.connection_for_write() as broker:
            broker.ensure_connection(max_retries=1, interval_start=0, timeout=2)
    except (OSError, BrokerError):
        return False
    return True


# Its time says that the main loop of a worker or beat goes on; for one of them in a container. A
# ping through the broker would fail while Redis is away, and a restart would not help.
HEARTBEAT_FILE = Path(tempfile.gettempdir(), "olmweb-heartbeat")
_HEARTBEAT_SECONDS = 2.0
_touched_at = 0.0


def touch_heartbeat() -> None:
    """Sets the time of the file, at most every two seconds."""
    global _touched_at
    now = time.monotonic()
    if now - _touched_at >= _HEARTBEAT_SECONDS:
        _touched_at = now
        HEARTBEAT_FILE.touch(mode=0o600)


def seconds_since_heartbeat() -> float:
    """Of this process; many before the first."""
    return time.monotonic() - _touched_at


def heartbeat_age() -> float:
    """Seconds since the last heartbeat; infinite when there was none."""
    try:
        return max(0.0, time.time() - HEARTBEAT_FILE.stat().st_mtime)
    except FileNotFoundError:
        return float("inf")


_SET_BACK = 1.0  # seconds; clocks are corrected by less all the time


class Every(schedule):
    """Every so many seconds; due at once when its last run is in the future."""

    def is_due(self, last_run_at: datetime) -> Any:
        now = self.now()
        ahead = self.maybe_make_aware(last_run_at) > now
        return super().is_due(now - timedelta(seconds=self.seconds) if ahead else last_run_at)


class ClockAware:
    """Rebuilds the order of the entries when the clock was set back."""

    _last_tick = 0.0

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        now = time.time()
        if now < self._last_tick - _SET_BACK:
            self._heap = None
        self._last_tick = now
        return super().tick(*args, **kwargs)  # type: ignore[misc]  # of the Scheduler


class InMemoryScheduler(ClockAware, Scheduler):
    """For a beat in the embedded server's process."""
