"""Which worker watches which cluster for how long: leases, and time slices if workers are scarce.

A watch task runs for minutes if no cluster waits. If clusters wait because all slots of the watch
queue are taken, as many tasks end after MIN_SLICE seconds as clusters wait; each watch resumes from
its position when the queue comes back to its cluster. A watcher with more clusters than its fair
share, because another one was started later, gives them up in the same way, one at a time.
"""

import math
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.core.cache import cache
from django.db import DatabaseError, connection
from django.utils import timezone

from olmweb.clusters import due
from olmweb.models import Cluster, configured_clusters
from olmweb.runtime.leases import Held, acquire, holders, release, this_process
from olmweb.runtime.worker import broker_answers, seconds_since_heartbeat, stop_requested

log = structlog.get_logger(__name__)

MIN_SLICE = 10.0
CHECK_SECONDS = 2.0
RENEW_SECONDS = 1.0  # between two renewals of a registration
QUEUED = 5
_QUEUED = "watch-queued:{}"
WATCH_LEASE = 3  # seconds; with RENEW_SECONDS, how long a killed worker's cluster stays alone
HEARTBEAT_LIMIT = 5  # seconds without a heartbeat, which comes every 2, of a worker that is stuck
_WATCH = "cluster:"
_WATCHER = "watcher:"


def cluster_lease(cluster_id: int) -> str:
    """Name of the lease that the worker that watches this cluster holds."""
    return f"{_WATCH}{cluster_id}"


def pass_lease(cluster_id: int) -> str:
    """Name of the lease of a full pass, which avoids needless concurrent passes."""
    return f"pass:{cluster_id}"


def watched() -> set[int]:
    """Ids of the clusters that some worker watches."""
    return {_cluster_id(name) for name in holders(_WATCH)}


def _cluster_id(lease: str) -> int:
    return int(lease.removeprefix(_WATCH))


class Registration:
    """Counts this process among the watchers that can follow so many clusters, from `start` until
    the worker is asked to stop. Not while it gets no messages, as those of others would return to
    them. A registered watcher queues the clusters that nobody watches, by `send`, so that those of
    a killed watcher do not wait behind the actions of the queue that beat sends to.

    A thread with a connection of its own renews the lease, and takes it again after an outage.
    """

    def __init__(self, slots: int, send: Callable[[int], object]) -> None:
        self._name = f"{_WATCHER}{slots}:{uuid.uuid4().hex}"
        self._send = send
        self._held: Held | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="registration", daemon=True).start()

    def _run(self) -> None:
        while not stop_requested():
            self.renew()
            time.sleep(RENEW_SECONDS)
        if self._held is not None:
            with suppress(DatabaseError):  # it ends by itself
                release(self._held)
        connection.close()

    def renew(self) -> None:
        if seconds_since_heartbeat() > HEARTBEAT_LIMIT:
            return
        try:
            if self._held is None or not self._held.renew(WATCH_LEASE):
                self._held = acquire(self._name, WATCH_LEASE)
            clusters = list(Cluster.objects.filter(configured_clusters()))
            for cluster in waiting(clusters, timezone.now()):
                enqueue(cluster.pk, self._send)
        except DatabaseError as error:
            log.warning("watcher not registered", error=type(error).__name__)
            connection.close()


def surplus(watchers: Sequence[str]) -> float:
    """The share of its clusters, from 0 to 1, that this process should leave to other watchers.

    `watchers`: the process that watches each cluster. 0 unless others have free slots and fewer
    than a fair share, and this one more.
    """
    slots = {
        process: int(name.removeprefix(_WATCHER).partition(":")[0])
        for name, process in holders(_WATCHER).items()
    }
    watches = Counter(watchers)
    ours = watches[this_process()]
    if not ours or this_process() not in slots:
        return 0.0
    fair, rest = divmod(watches.total(), len(slots))
    # As many for each as all can have; then the rest, for some.
    for share in range(fair, fair + bool(rest) + 1):
        room = sum(max(0, min(share, slots[name]) - watches[name]) for name in slots)
        spare = sum(max(0, watches[name] - share) for name in slots)
        if room and ours > share:
            return (ours - share) * min(1.0, room / spare) / ours
    return 0.0


def waiting(clusters: Sequence[Cluster], now: datetime) -> list[Cluster]:
    """The clusters that are due and not watched, the least recently checked first."""
    busy = watched()
    free = [cluster for cluster in clusters if cluster.pk not in busy and due(cluster, now)]
    return sorted(
        free, key=lambda cluster: (cluster.checked_at is not None, cluster.checked_at or now)
    )


def enqueue(cluster_id: int, send: Callable[[int], object]) -> None:
    """Sends a cluster to the queue unless it is queued already.

    Without this, every tick would queue the waiting clusters again. A message that a worker lost
    when it was killed is sent again after QUEUED seconds.
    """
    if cache.add(_QUEUED.format(cluster_id), True, QUEUED):
        send(cluster_id)


def dequeued(cluster_id: int) -> None:
    cache.delete(_QUEUED.format(cluster_id))


class Demand:
    """The share of the watches of this process that should end for others, from 0 to 1.

    All time slices of the process ask the database together, at most every CHECK_SECONDS.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._share = 0.0
        self._counted_at = -math.inf

    def share(self, now: float) -> float:
        """`now`: in the seconds of the clock of all callers. No caller waits for the one that
        counts: they get the share before. Raises DatabaseError; the share is 0 until the next
        count then."""
        if now - self._counted_at >= CHECK_SECONDS and self._lock.acquire(blocking=False):
            share = 0.0
            try:
                if now - self._counted_at < CHECK_SECONDS:  # counted before the lock was free
                    share = self._share
                else:
                    self._counted_at = now
                    share = _demanded_share()
            finally:
                self._share = share
                self._lock.release()
        return self._share


def _demanded_share() -> float:
    now = timezone.now()
    watchers = holders(_WATCH)
    busy = {_cluster_id(name) for name in watchers}
    # Clusters that are due for less than that get a free slot.
    late = now - timedelta(seconds=max(MIN_SLICE, 2 * settings.STATE_POLL))
    left = Cluster.objects.filter(configured_clusters()).exclude(pk__in=busy)
    count = sum(
        1
        for cluster in left
        if (cluster.checked_at is None or cluster.checked_at < late) and due(cluster, late)
    )
    if count:
        return count / max(1, len(busy))
    # One at a time: a new watch costs dozens of requests, so many at once would delay one another
    # and the clusters that stay. All clusters are watched meanwhile.
    names = list(watchers.values())
    return min(surplus(names), 1 / max(1, names.count(this_process())))


_demand = Demand()


class TimeSlice:
    """The time that one task may watch one cluster."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        demand: Demand = _demand,
    ) -> None:
        self._clock = clock
        self._chance = chance
        self._demand = demand
        self._began = self._checked_at = clock()

    def is_over(self) -> bool:
        """Whether the worker is stopping or waiting clusters need the slot; cheap to call often."""
        if stop_requested():
            return True
        now = self._clock()
        if now - self._began < MIN_SLICE or now - self._checked_at < CHECK_SECONDS:
            return False
        self._checked_at = now
        try:
            share = self._demand.share(now)
        except DatabaseError:
            connection.close()  # the next write reports it
            return False
        # Only as many tasks end as slots are needed, chosen at random. Without the broker no other
        # task would start.
        return self._chance() < share and broker_answers()
