"""Who watches which cluster for how long: leases, and turns where workers are fewer than clusters.

A turn goes on for minutes while nobody waits. When clusters wait, because every place of the watch
queue is taken, the turns end after MIN_TURN seconds, as many as are waited for; each resumes where
it stood when the queue comes back to it. So every cluster is served, and a turn is then what a
poll would be, but without a list.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

import structlog
from celery import current_app
from django.conf import settings
from django.core.cache import cache
from django.db import DatabaseError, connection
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError

from olmweb.clusters import WATCHED_AT_ONCE, due
from olmweb.models import Cluster
from olmweb.runtime import stopping
from olmweb.runtime.leases import held_names

log = structlog.get_logger(__name__)

MIN_TURN = 10.0
LOOK_SECONDS = 2.0
QUEUED = 15
_QUEUED = "watch-queued:{}"
_WATCH = "cluster:"
_places = threading.BoundedSemaphore(WATCHED_AT_ONCE)


def cluster_lease(cluster_id: int) -> str:
    """Name of the lease that the worker that watches this cluster holds."""
    return f"{_WATCH}{cluster_id}"


def pass_lease(cluster_id: int) -> str:
    """Name of the lease of a full pass: not for safety, but because one at a time is enough."""
    return f"pass:{cluster_id}"


def watched() -> set[int]:
    """Ids of the clusters that some worker watches."""
    return {int(name.removeprefix(_WATCH)) for name in held_names(_WATCH)}


def waiting(clusters: Sequence[Cluster], now: datetime) -> list[Cluster]:
    """Those that are due and that nobody watches, the longest forgotten first."""
    busy = watched()
    free = [one for one in clusters if one.pk not in busy and due(one, now)]
    return sorted(free, key=lambda one: (one.checked_at is not None, one.checked_at or now))


def enqueue(cluster_id: int, send: Callable[[int], object]) -> None:
    """Puts a cluster into the queue, unless it is there already.

    Where clusters wait for a place, each tick would add them all once more. A message that got
    lost is sent again after QUEUED seconds.
    """
    if cache.add(_QUEUED.format(cluster_id), True, QUEUED):
        send(cluster_id)


def dequeued(cluster_id: int) -> None:
    cache.delete(_QUEUED.format(cluster_id))


@contextmanager
def place() -> Iterator[bool]:
    """Whether this process watches one more cluster.

    An embedded worker has one pool for all tasks, of which watches take a part only. In production
    the watch queue has workers of its own, whose size is the limit.
    """
    if not settings.EMBEDDED:
        yield True
        return
    free = _places.acquire(blocking=False)
    try:
        yield free
    finally:
        if free:
            _places.release()


class Turn:
    """One task's time with one cluster."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._clock = clock
        self._chance = chance
        self._began = self._looked = clock()

    def is_over(self) -> bool:
        """The worker is asked to end, or others have waited for a place; cheap to ask often."""
        if stopping.asked():
            return True
        now = self._clock()
        if now - self._began < MIN_TURN or now - self._looked < LOOK_SECONDS:
            return False
        self._looked = now
        try:
            return self._makes_room()
        except DatabaseError:
            connection.close()  # whoever writes next tells about it
            return False

    def _makes_room(self) -> bool:
        now = timezone.now()
        busy = watched()
        # Whoever has been due for less than that takes a place that is free.
        late = now - timedelta(seconds=max(MIN_TURN, 2 * settings.STATE_POLL))
        left = Cluster.objects.exclude(pk__in=busy).exclude(error_code="not-configured")
        count = sum(
            1
            for one in left
            if (one.checked_at is None or one.checked_at < late) and due(one, late)
        )
        # Of several turns only as many as are needed end, whoever it hits.
        if not count or self._chance() >= count / max(1, len(busy)):
            return False
        return _broker_works()


def _broker_works() -> bool:
    """Without it no other turn could begin, nor this one be taken up again."""
    try:
        with current_app.connection_for_write() as broker:
            broker.ensure_connection(max_retries=1, interval_start=0, timeout=2)
    except (OSError, BrokerError):
        return False
    return True
