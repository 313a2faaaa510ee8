"""Beat of which several may run: one has the lease and schedules, the others wait for it."""

import time
from typing import Any

import structlog
from celery.beat import Scheduler
from django.db import DatabaseError, connection

from olmweb.runtime.leases import Held, acquire, release
from olmweb.runtime.worker import ClockAware, touch_heartbeat

log = structlog.get_logger(__name__)

LEASE = "beat"
LEASE_SECONDS = 15  # a beat that dies is replaced after that time and CHECK_SECONDS
CHECK_SECONDS = 3.0


class LeaderScheduler(ClockAware, Scheduler):
    """Sends what is due while this process holds the lease.

    Stores no times: a beat that takes over sends everything once, which does no harm, as a task may
    run twice. A beat that was paused checks its lease before it sends, so it doubles one message at
    most.
    """

    max_interval: Any = CHECK_SECONDS
    producer: Any = (
        None  # the app's pool: a beat of its own connection would wait for Redis for ever
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._held: Held | None = None
        self._checked_at = 0.0
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        touch_heartbeat()
        return super().tick(*args, **kwargs) if self._leads() else CHECK_SECONDS

    def _leads(self) -> bool:
        now = time.monotonic()
        if self._held is not None and now - self._checked_at < CHECK_SECONDS:
            return True
        try:
            if self._held is not None and not self._held.renew(LEASE_SECONDS):
                log.warning("another beat took over")
                self._held = None
            if self._held is None and (held := acquire(LEASE, LEASE_SECONDS)):
                self._held = held
                self._make_due()
                log.info("this beat schedules")
        except DatabaseError as error:
            # Whether the lease is still ours is unknown.
            log.warning("beat waits for the database", error=type(error).__name__)
            connection.close()
            return False
        self._checked_at = now
        return self._held is not None

    def _make_due(self) -> None:
        for entry in self.schedule.values():
            schedule: Any = entry.schedule  # an Every
            entry.last_run_at = entry.default_now() - schedule.run_every
        self._heap = None

    def close(self) -> None:
        super().close()
        if self._held is not None:
            try:
                release(self._held)
            except DatabaseError as error:
                log.warning("lease of beat not released", error=type(error).__name__)
            self._held = None
