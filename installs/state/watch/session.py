"""One session of watching a cluster: from a discovery until a new one is needed.

Each watched resource has a thread that reads it (installs.state.watch.threads). The thread that
runs the session alone writes, in transactions of up to BATCH changes with the positions that they
reach, so a worker may be killed anywhere.
"""

import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import Enum
from typing import TypeVar

import structlog
from django.conf import settings
from django.db import connection
from django.utils import timezone

from installs.state.full_sync import record_failure
from installs.state.pods import refresh_pods
from installs.state.resources import Change, Position
from installs.state.watch import positions
from installs.state.watch.backoff import WatchState
from installs.state.watch.positions import SessionPlan, was_rewound
from installs.state.watch.threads import (
    Done,
    Ended,
    Jobs,
    Listed,
    Message,
    Opened,
    Received,
    WatchThread,
)
from installs.state.write import apply_changes, write_snapshot
from olmweb.errors import DATABASE_AWAY
from olmweb.kube.client import Discovery, KubeClient
from olmweb.kube.errors import (
    Abandoned,
    ConfigError,
    KubeError,
    NotFound,
    Unauthorized,
    Unreachable,
)
from olmweb.kube.resources import ALL
from olmweb.models import Cluster
from olmweb.runtime.leases import LeaseLost

log = structlog.get_logger(__name__)

Result = TypeVar("Result")

BATCH = 3_000  # objects per transaction; of an object that changes often only the last is written
QUEUE = 6_000  # messages that may wait; threads block while it is full
TICK = 0.25
LEASE_CHECK_SECONDS = 2.0  # between two checks of the lease, whose holder every write checks, too
SAVE_SECONDS = 30.0  # maximum age of a saved position while nothing else is written
PODS_SECONDS = 10.0
DISCOVERY_WAITS = (1.0, 3.0, 10.0)  # after a CRD changed: its kind is served a little later
UNKNOWN_WAITS = (2.0, 6.0, 20.0)  # until kinds whose discovery failed are looked up again
CONFIRM_WAITS = (10.0, 30.0)  # shortest and longest until an earlier discovery is confirmed
GIVE_UP = 30.0  # seconds without the cluster; olmweb.clusters.due backs off further
PROBE_LONGEST = 8.0
LOG_SECONDS = 2.0  # in which failures of several watches become one line in the log
JOIN = 2.0
WINDOW = 0.1  # seconds that the first change of a batch waits for others
BURST = 20  # messages in a window that make it worth waiting for another window
BURST_SECONDS = 1.0  # that changes may wait during a burst

_OURS = frozenset((resource.group, resource.kind) for resource in ALL)
_CLUSTER_WIDE = (Unreachable, Unauthorized, ConfigError)


class End(Enum):
    """Why a session is over."""

    TIME = "its time is up, or it was asked to stop"
    AGAIN = "the cluster is another one than at its beginning: begin again"
    LOST = "another worker has the cluster"
    UNREACHABLE = "the cluster could not be reached for a while"


class _SessionOver(Exception):
    def __init__(self, end: End) -> None:
        super().__init__(end)
        self.end = end


class Batch:
    """Changes for one transaction: the last state of each object, and a position per resource."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, str, str, str, str], Change] = {}
        self._positions: dict[str, Position] = {}

    def __len__(self) -> int:
        return len(self._changes)

    def add(
        self, resource: str, change: Change | None, resource_version: str, now: datetime
    ) -> None:
        """Adds an event, which replaces an earlier state of its object in this batch.

        The uid is part of the key: a recreated object is another one, and both changes count.
        """
        if change is not None:
            obj = change.obj
            key = (resource, *obj.key, obj.uid)
            self._changes.pop(key, None)  # to the end: the order is that of the last states
            self._changes[key] = change
        self._positions[resource] = Position(resource_version, now)

    def take(self) -> tuple[Sequence[Change], dict[str, Position]]:
        """Returns changes and positions, and empties the batch."""
        changes, positions = list(self._changes.values()), self._positions
        self._changes, self._positions = {}, {}
        return changes, positions


class Window:
    """How long a batch stays open: `patience` seconds from `now` for a first change, then WINDOW.

    It is extended during a burst: reading and writing at the same time is slower than one after the
    other, and of an object that changes again only the last state is written.
    """

    def __init__(self, now: float, patience: float) -> None:
        self._closes = now + patience
        self._opened: float | None = None
        self._messages = 0

    def wait(self, now: float) -> float:
        """Seconds to wait for the next message; 0 if the window is closed."""
        bursting = self._messages >= BURST
        if now >= self._closes and bursting and self._opened is not None:
            self._closes = min(now + WINDOW, self._opened + BURST_SECONDS)
            self._messages = 0
        return max(0.0, self._closes - now)

    def received(self, now: float, *, changes: bool) -> None:
        """Counts a message; `changes`: the batch is not empty."""
        self._messages += 1
        if changes and self._opened is None:
            self._opened, self._closes = now, now + WINDOW


class WatchSession:
    """`until` is a time of time.monotonic(). `still_ours` is called before every write.

    `recovered`: the cluster was unreachable before. An API server that starts may not serve custom
    resources yet, which changes no CRD, so the kinds are looked up again soon. `confirm`: the
    discovery of the plan is an earlier one, so the kinds are looked up within CONFIRM_WAITS; not
    at the start, as a discovery is a dozen requests and a killed worker leaves many clusters.
    """

    def __init__(
        self,
        cluster: Cluster,
        client: KubeClient,
        plan: SessionPlan,
        *,
        until: float,
        still_ours: Callable[[], bool],
        stop: Callable[[], bool],
        recovered: bool = False,
        confirm: bool = False,
    ) -> None:
        self.rows_written = 0
        self._cluster = cluster
        self._client = client
        self._plan = plan
        self._until = until
        self._still_ours = still_ours
        self._stop = stop
        self._queue: queue.Queue[Message | Done] = queue.Queue(QUEUE)
        self._closed = threading.Event()
        self._jobs = Jobs(self._put)
        self._batch = Batch()
        self._watches = plan.watches
        self._threads: dict[str, WatchThread] = {}
        now = time.monotonic()
        self._saved_at = self._confirmed_at = self._lease_checked_at = now
        self._pods_at: float | None = now
        self._discover_at: list[float] = []
        self._crd_deleted = False  # so kinds that discovery no longer has are absent
        if plan.discovery.failed:
            self._discover_again(UNKNOWN_WAITS)
        elif recovered:
            self._discover_again(DISCOVERY_WAITS)
        elif confirm:
            self._discover_again((random.uniform(*CONFIRM_WAITS),))  # noqa: S311
        self._probe_at: float | None = None
        self._probes = 0
        self._failed: dict[str, list[WatchState]] = {}  # by code, not logged yet
        self._log_at: float | None = None
        self._down_since = 0.0
        self._down: KubeError | None = None  # why the cluster can't be reached

    def run(self) -> End:
        """Raises nothing for failures of the cluster, but those of the database and of bugs."""
        end = End.TIME
        try:
            while time.monotonic() < self._until and not self._stop():
                self._tick(time.monotonic())
                self._gather()
            self._wind_up()
        except _SessionOver as over:
            end = over.end
            if end is not End.LOST:
                self._wind_up()
        finally:
            self._end_threads()
        return end

    # Timers

    def _tick(self, now: float) -> None:
        if now - self._lease_checked_at >= LEASE_CHECK_SECONDS:
            self._with_lease(lambda: None)
        if self._log_at is not None and now >= self._log_at:
            self._log_failures()
        if self._probe_at is not None and now >= self._probe_at:
            self._probe_at = None
            highest = self._plan.highest()
            self._jobs.start("probe", lambda: was_rewound(self._client, self._plan, highest))
        if self._down is not None:
            if now - self._down_since > GIVE_UP:
                raise _SessionOver(End.UNREACHABLE)
            for watch in self._watches.values():
                watch.mark_unreachable(self._down)
            self._save_watches()
            return
        for watch in self._watches.values():
            watch.check_steady(now)
            if not watch.running and now >= watch.retry_at:
                self._start(watch, now)
        if self._discover_at and now >= self._discover_at[0]:
            self._discover_at.pop(0)
            self._jobs.start("discovery", self._client.discover)
        if self._pods_at is not None and now >= self._pods_at:
            self._pods_at = None
            # Checked here and not by the job, which would open a connection to the database.
            if positions.pods_are_needed(self._cluster):
                self._jobs.start("pods", lambda: refresh_pods(self._cluster, self._client))
        self._save(now)

    def _start(self, watch: WatchState, now: float) -> None:
        thread = WatchThread(
            self._client,
            watch.watched,
            self._plan.discovery,
            watch.served,
            watch.position,
            seconds=max(5, round(self._until - now)),
            put=self._put,
        )
        self._threads[watch.watched.name] = thread
        watch.mark_started()
        thread.start()

    def _save(self, now: float) -> None:
        """Saves states when they change, positions and times every SAVE_SECONDS."""
        full = now - self._saved_at >= SAVE_SECONDS
        self._save_watches(counts=full)
        if full:
            self._saved_at = now
            self._client.publish_request_counts()
            self._write(derive=True)  # rules or catalogs may have changed
        is_open = any(watch.opened_at is not None for watch in self._watches.values())
        if is_open and now - self._confirmed_at >= settings.STATE_POLL:
            self._confirmed_at = now
            self._with_lease(lambda: positions.confirm_current(self._cluster, timezone.now()))

    def _save_watches(self, *, counts: bool = False) -> None:
        """Saves the watches whose rows would change; with `counts` also those with new requests."""
        due = [
            watch
            for watch in self._watches.values()
            if watch.saved != (watch.state, watch.error) or (counts and watch.watches)
        ]
        if due:
            self._with_lease(lambda: positions.save_watches(self._cluster, due))

    def _log_failures(self) -> None:
        """Logs one line per error code, as most watches fail at the same time."""
        for code, watches in self._failed.items():
            log.info(
                "watches failed",
                cluster=self._cluster.name,
                code=code,
                feeds=len(watches),
                feed=watches[0].watched.name,
                error=watches[0].error,
            )
        self._failed, self._log_at = {}, None

    # Messages of threads and jobs

    def _put(self, message: Message | Done) -> bool:
        while not self._closed.is_set():
            try:
                self._queue.put(message, timeout=TICK)
            except queue.Full:
                continue
            return True
        return False

    def _gather(self) -> None:
        """Handles messages, and writes when the batch is full or the window closes."""
        window = Window(time.monotonic(), TICK)
        while self._down or len(self._batch) < BATCH:
            wait = window.wait(time.monotonic())
            if not wait:
                break
            try:
                message = self._queue.get(timeout=wait)
            except queue.Empty:
                continue
            self._handle(message)
            window.received(time.monotonic(), changes=bool(self._batch))
        if self._batch and not self._down:
            self._write()

    def _handle(self, message: Message | Done) -> None:
        if isinstance(message, Done):
            self._on_job_done(message)
            return
        if self._threads.get(message.thread.watched.name) is not message.thread:
            return  # of a thread that was abandoned
        watch = self._watches[message.thread.watched.name]
        now = time.monotonic()
        if isinstance(message, Received):
            self._on_event(watch, message)
        elif isinstance(message, Opened):
            watch.mark_opened(now)
        elif isinstance(message, Listed):
            self._on_list(watch, message)
        else:
            self._on_end(watch, message, now)

    def _on_event(self, watch: WatchState, message: Received) -> None:
        watch.position = message.resource_version
        change = message.change
        self._batch.add(watch.watched.name, change, message.resource_version, timezone.now())
        if change is None:
            return
        if watch.watched.kind in ("Deployment", "CatalogSource") and self._pods_at is None:
            self._pods_at = time.monotonic() + 1
        if watch.watched.kind == "CustomResourceDefinition":
            columns = change.obj.columns
            if (columns["group"], columns["served_kind"]) in _OURS:
                self._discover_again(DISCOVERY_WAITS, crd_deleted=change.deleted)

    def _on_list(self, watch: WatchState, message: Listed) -> None:
        self._write()
        written = self._with_lease(lambda: write_snapshot(self._cluster, message.snapshot))
        self.rows_written += written.total
        watch.position = message.snapshot.lists[watch.watched.name].resource_version

    def _on_end(self, watch: WatchState, message: Ended, now: float) -> None:
        error = message.error
        del self._threads[watch.watched.name]
        previous_error = watch.error
        watch.mark_ended(error, now)
        if isinstance(error, _CLUSTER_WIDE) and self._probe_at is None:
            self._probe_at = now
        elif isinstance(error, NotFound) and not self._discover_at:
            self._discover_again((0.0, *DISCOVERY_WAITS))
        if (
            error
            and watch.error not in ("", previous_error)
            and not isinstance(error, _CLUSTER_WIDE)
        ):
            self._failed.setdefault(error.code, []).append(watch)
            self._log_at = self._log_at or now + LOG_SECONDS

    def _on_job_done(self, done: Done) -> None:
        now = time.monotonic()
        error = done.error
        if isinstance(error, Abandoned):
            return
        # The pods' job uses the database, which may be away for a moment.
        if error is not None and not isinstance(error, (KubeError, *DATABASE_AWAY)):
            raise error
        if done.name == "probe":
            self._on_probe(bool(done.result), error, now)
        elif done.name == "pods":
            self._pods_at = now + PODS_SECONDS
        elif error is not None:
            self._discover_at = self._discover_at or [now + UNKNOWN_WAITS[-1]]
        elif isinstance(done.result, Discovery):
            self._on_discovery(done.result)

    def _discover_again(self, waits: Sequence[float], *, crd_deleted: bool = False) -> None:
        """Schedules discoveries, each so many seconds from now, in place of the scheduled ones."""
        now = time.monotonic()
        self._discover_at = [now + wait for wait in waits]
        self._crd_deleted = crd_deleted

    def _on_discovery(self, discovery: Discovery) -> None:
        if self._plan.fits(discovery):
            return
        missing = self._plan.discovery.served.keys() - discovery.served.keys()
        if missing and self._discover_at and not self._crd_deleted:
            return  # an API server that starts may not serve them yet: the next one decides
        log.info("cluster serves other kinds", cluster=self._cluster.name)
        raise _SessionOver(End.AGAIN)

    def _on_probe(self, was_rewound: bool, error: Exception | None, now: float) -> None:
        if isinstance(error, _CLUSTER_WIDE):
            previous, self._down = self._down, error
            if previous is None:
                self._down_since, self._probes = now, 0
            if previous is None or previous.code != error.code:
                self._write()  # changes received before; later this would mark it reachable
                self._fail(error)
            self._probe_later(now)
            return
        if error is not None and self._down is not None:
            # An API server that starts refuses every account until its RBAC caches are filled.
            self._probe_later(now)
            return
        if was_rewound:
            raise _SessionOver(End.AGAIN)  # a new session begins with a full pass
        if self._down is not None:
            self._down = None
            if self._with_lease(lambda: positions.mark_reachable(self._cluster)):
                log.info("cluster reached again", cluster=self._cluster.name)
            for watch in self._watches.values():
                watch.retry_soon(now)

    def _probe_later(self, now: float) -> None:
        self._probes += 1
        self._probe_at = now + min(0.5 * 2**self._probes, PROBE_LONGEST)

    # Writing

    def _write(self, *, derive: bool = False) -> None:
        changes, reached = self._batch.take()
        if changes or reached or derive:
            written = self._with_lease(
                lambda: apply_changes(self._cluster, changes, reached, derive=derive)
            )
            self.rows_written += written.total

    def _fail(self, error: KubeError) -> None:
        self._cluster.refresh_from_db()
        requests = self._client.requests
        self._with_lease(lambda: record_failure(self._cluster, error, timezone.now(), requests))

    def _with_lease(self, work: Callable[[], Result]) -> Result:
        """Calls `work` if the lease is held, and repeats it while the database is away.

        The lease is checked every LEASE_CHECK_SECONDS, so first of all after a pause. In between
        `work` fails if another worker has it: it is a fenced transaction, or asks `still_held`.

        A restart of the database loses nothing, as every write may be repeated. Raises
        _SessionOver if another worker has the lease.
        """
        wait = 0.2
        while True:
            try:
                now = time.monotonic()
                if now - self._lease_checked_at >= LEASE_CHECK_SECONDS:
                    self._lease_checked_at = now
                    if not self._still_ours():
                        raise _SessionOver(End.LOST)
                return work()
            except LeaseLost:
                raise _SessionOver(End.LOST) from None
            except DATABASE_AWAY as error:
                connection.close()
                log.warning("database away", cluster=self._cluster.name, error=type(error).__name__)
                if self._stop() or time.monotonic() > self._until:
                    raise
            time.sleep(wait)
            wait = min(2 * wait, 2.0)

    # The end

    def _wind_up(self) -> None:
        """Lets the threads end, and saves what they have read until then."""
        for thread in self._threads.values():
            thread.close()
        until = time.monotonic() + JOIN
        try:
            while self._threads and (wait := until - time.monotonic()) > 0:
                try:
                    message = self._queue.get(timeout=wait)
                except queue.Empty:
                    break
                if not isinstance(message, Done):
                    self._handle(message)
                if len(self._batch) >= BATCH:
                    self._write()
            self._write()
            self._save_watches(counts=True)
            if self._down is not None:
                self._fail(self._down)  # last, as it sets the time from which `due` measures
        except _SessionOver:
            log.info("cluster lost at the end of a session", cluster=self._cluster.name)

    def _end_threads(self) -> None:
        """Joins the threads; one that still waits for a response is left to end by itself."""
        self._log_failures()
        self._closed.set()
        until = time.monotonic() + JOIN
        for thread in self._threads.values():
            thread.close()
        for thread in self._threads.values():
            thread.join(max(0.0, until - time.monotonic()))
        self._jobs.join(max(0.0, until - time.monotonic()))
