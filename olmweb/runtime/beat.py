"""A beat that a clock which is set back does not stop.

Celery's own compares dates and looks at the entry alone that comes next by them: after a jump back
by an hour nothing would be due for an hour, and nobody would take over a killed worker's clusters.
"""

import time
from datetime import datetime, timedelta
from typing import Any

from celery.beat import PersistentScheduler, Scheduler
from celery.schedules import schedule

_SET_BACK = 1.0  # seconds; clocks are corrected by less all the time


class Every(schedule):
    """Every so many seconds; due at once when it ran last in a future that was taken back."""

    def is_due(self, last_run_at: datetime) -> Any:
        now = self.now()
        ahead = self.maybe_make_aware(last_run_at) > now
        return super().is_due(now - timedelta(seconds=self.seconds) if ahead else last_run_at)


class _SetBack:
    """Orders the entries anew once the clock was set back."""

    _seen = 0.0

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        now = time.time()
        if now < self._seen - _SET_BACK:
            self._heap = None
        self._seen = now
        return super().tick(*args, **kwargs)  # type: ignore[misc]  # of the class beside it


class Stored(_SetBack, PersistentScheduler):
    """Remembers in a file what ran when, as `celery beat` does."""


class InMemory(_SetBack, Scheduler):
    """For a beat in one process with all else."""
