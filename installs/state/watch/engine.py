"""One session of watching a cluster: from the discovery until something calls for a new one.

One thread a feed reads (installs.state.watch.streams). The thread that runs the session handles
what they tell, and alone writes it: in transactions of up to BATCH changes, each with the positions
that it reaches, so that a worker may be killed anywhere. Must not know who starts it.
"""

import queue
import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from django.utils import timezone

from installs.state.full_sync import apply_changes, record_failure, refresh_pods, write_snapshot
from installs.state.watch import rows
from installs.state.watch.backoff import Course
from installs.state.watch.batch import Batch, Window
from installs.state.watch.jobs import Done, Jobs
from installs.state.watch.plan import Plan, went_back
from installs.state.watch.streams import Ended, Heard, Listed, Message, Opened, Stream
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

log = structlog.get_logger(__name__)

Result = TypeVar("Result")

BATCH = 3_000  # objects in one transaction: the more, the more of a burst is only its last state
QUEUE = 6_000  # messages that may wait; streams read no further while it is full
TICK = 0.25
ASK_SECONDS = 2.0  # while nothing is written, between two questions whether we have the cluster
SAVE_SECONDS = 30.0  # how old a saved position may get while nothing is written anyway
PODS_SECONDS = 10.0
DISCOVERY_WAITS = (1.0, 3.0, 10.0)  # after a CRD changed: served some time after it is there
UNKNOWN_SECONDS = 20.0  # until what discovery could not tell is asked again
GIVE_UP = 30.0  # seconds without the cluster; whoever starts sessions backs off further
PROBE_LONGEST = 8.0
TELL_SECONDS = 2.0  # in which failures of several feeds become one line in the log
JOIN = 2.0

_OURS = frozenset((one.group, one.kind) for one in ALL)
_CLUSTER_WIDE = (Unreachable, Unauthorized, ConfigError)


class End(Enum):
    """Why a session is over."""

    TIME = "its time is up, or it was asked to stop"
    AGAIN = "the cluster is another one than at its beginning: begin again"
    LOST = "another worker has the cluster"
    UNREACHABLE = "the cluster could not be reached for a while"


class _Over(Exception):
    def __init__(self, end: End) -> None:
        super().__init__(end)
        self.end = end


class Session:
    """`until`: a time of time.monotonic(). `still_ours` is asked before every write."""

    def __init__(
        self,
        cluster: Cluster,
        client: KubeClient,
        plan: Plan,
        *,
        until: float,
        still_ours: Callable[[], bool],
        stop: Callable[[], bool],
    ) -> None:
        self.rows_written = 0
        self._cluster = cluster
        self._client = client
        self._plan = plan
        self._until = until
        self._still_ours = still_ours
        self._stop = stop
        self._queue: queue.Queue[Message | Done] = queue.Queue(QUEUE)
        self._deaf = threading.Event()
        self._jobs = Jobs(self._put)
        self._batch = Batch()
        self._courses = plan.courses
        self._stream_rows = rows.StreamRows(cluster, plan.rows)
        self._streams: dict[str, Stream] = {}
        now = time.monotonic()
        self._saved_at = self._heard_at = self._asked_at = now
        self._pods_at: float | None = now
        self._discover_at = [now + UNKNOWN_SECONDS] if plan.discovery.failed else []
        self._probe_at: float | None = None
        self._probes = 0
        self._failed: dict[str, list[Course]] = {}  # by code, not logged yet
        self._tell_at: float | None = None
        self._down_since = 0.0
        self._down: KubeError | None = None  # why the cluster can't be reached

    def run(self) -> End:
        """Never raises for what the cluster does; raises what our own code or database does."""
        end = End.TIME
        try:
            while time.monotonic() < self._until and not self._stop():
                self._tick(time.monotonic())
                self._gather()
            self._wind_up()
        except _Over as over:
            end = over.end
            if end is not End.LOST:
                self._wind_up()
        finally:
            self._end_threads()
        return end

    # What is due

    def _tick(self, now: float) -> None:
        if now - self._asked_at >= ASK_SECONDS:
            self._checked(lambda: None)
        if self._tell_at is not None and now >= self._tell_at:
            self._tell_failed()
        if self._probe_at is not None and now >= self._probe_at:
            self._probe_at = None
            highest = self._plan.highest()
            self._jobs.start("probe", lambda: went_back(self._client, self._plan, highest))
        if self._down is not None:
            if now - self._down_since > GIVE_UP:
                raise _Over(End.UNREACHABLE)
            for course in self._courses.values():
                course.misses(self._down)
            self._save_streams()
            return
        for course in self._courses.values():
            course.settles(now)
            if not course.running and now >= course.retry_at:
                self._start(course, now)
        if self._discover_at and now >= self._discover_at[0]:
            self._discover_at.pop(0)
            self._jobs.start("discovery", self._client.discover)
        if self._pods_at is not None and now >= self._pods_at:
            self._pods_at = None
            self._jobs.start("pods", self._pods)
        self._save(now)

    def _start(self, course: Course, now: float) -> None:
        stream = Stream(
            self._client,
            course.feed,
            self._plan.discovery,
            course.served,
            course.position,
            seconds=max(5, round(self._until - now)),
            put=self._put,
        )
        self._streams[course.feed.name] = stream
        course.starts()
        stream.start()

    def _save(self, now: float) -> None:
        """States when they change, positions and times now and then."""
        full = now - self._saved_at >= SAVE_SECONDS
        self._save_streams(counts=full)
        if full:
            self._saved_at = now
            self._client.publish_request_counts()
            self._write(always=True)  # what rules and catalogs make of the rows may be new too
        is_open = any(course.opened_at is not None for course in self._courses.values())
        if is_open and now - self._heard_at >= settings.STATE_POLL:
            self._heard_at = now
            self._checked(lambda: rows.heard(self._cluster, timezone.now()))

    def _save_streams(self, *, counts: bool = False) -> None:
        if due := self._stream_rows.due(self._courses.values(), counts=counts):
            self._checked(lambda: self._stream_rows.save(due))

    def _tell_failed(self) -> None:
        """A line for each sort of failure: what one feed meets, most meet at the same time."""
        for code, courses in self._failed.items():
            log.info(
                "watches failed",
                cluster=self._cluster.name,
                code=code,
                feeds=len(courses),
                feed=courses[0].feed.name,
                error=courses[0].error,
            )
        self._failed, self._tell_at = {}, None

    def _pods(self) -> bool:
        """Looks after the pods of Deployments that wait for some; returns whether any still do."""
        if not rows.deployments_wait(self._cluster):
            return False
        refresh_pods(self._cluster, self._client)
        return True

    # What the streams and jobs tell

    def _put(self, message: Message | Done) -> bool:
        while not self._deaf.is_set():
            try:
                self._queue.put(message, timeout=TICK)
            except queue.Full:
                continue
            return True
        return False

    def _gather(self) -> None:
        """Handles what comes, and writes it when there is enough or the window closes."""
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
            window.came(time.monotonic(), changes=bool(self._batch))
        if self._batch and not self._down:
            self._write()

    def _handle(self, message: Message | Done) -> None:
        if isinstance(message, Done):
            self._job_done(message)
            return
        if self._streams.get(message.stream.feed.name) is not message.stream:
            return  # of a stream that has been given up
        course = self._courses[message.stream.feed.name]
        now = time.monotonic()
        if isinstance(message, Heard):
            self._heard(course, message)
        elif isinstance(message, Opened):
            course.opened(now)
        elif isinstance(message, Listed):
            self._listed(course, message)
        else:
            self._ended(course, message, now)

    def _heard(self, course: Course, message: Heard) -> None:
        course.position = message.resource_version
        change = message.change
        self._batch.add(course.feed.name, change, message.resource_version, timezone.now())
        if change is None:
            return
        if course.feed.kind == "Deployment" and self._pods_at is None:
            self._pods_at = time.monotonic() + 1
        if course.feed.kind == "CustomResourceDefinition":
            columns = change.kept.columns
            if (columns["group"], columns["served_kind"]) in _OURS:
                now = time.monotonic()
                self._discover_at = [now + wait for wait in DISCOVERY_WAITS]

    def _listed(self, course: Course, message: Listed) -> None:
        self._write()
        written = self._checked(lambda: write_snapshot(self._cluster, message.snapshot))
        self.rows_written += written.total
        course.position = message.snapshot.feeds[course.feed.name].resource_version

    def _ended(self, course: Course, message: Ended, now: float) -> None:
        error = message.error
        del self._streams[course.feed.name]
        told = course.error
        course.ended(error, now)
        if isinstance(error, _CLUSTER_WIDE) and self._probe_at is None:
            self._probe_at = now
        elif isinstance(error, NotFound) and not self._discover_at:
            self._discover_at = [now]
        if error and course.error not in ("", told) and not isinstance(error, _CLUSTER_WIDE):
            self._failed.setdefault(error.code, []).append(course)
            self._tell_at = self._tell_at or now + TELL_SECONDS

    def _job_done(self, done: Done) -> None:
        now = time.monotonic()
        error = done.error
        if isinstance(error, Abandoned):
            return
        # The pods' job uses the database, which may be away for a moment.
        if error is not None and not isinstance(error, KubeError | OperationalError):
            raise error
        if done.name == "probe":
            self._probed(bool(done.result), error, now)
        elif done.name == "pods":
            if done.result or error:
                self._pods_at = now + PODS_SECONDS
        elif error is not None:
            self._discover_at = self._discover_at or [now + UNKNOWN_SECONDS]
        elif isinstance(done.result, Discovery) and not self._plan.fits(done.result):
            log.info("cluster serves other kinds", cluster=self._cluster.name)
            raise _Over(End.AGAIN)

    def _probed(self, went_back: bool, error: Exception | None, now: float) -> None:
        if isinstance(error, _CLUSTER_WIDE):
            told, self._down = self._down, error
            if told is None:
                self._down_since, self._probes = now, 0
            if told is None or told.code != error.code:
                self._write()  # what came before; later than this it would say "reachable"
                self._fail(error)
            self._probes += 1
            self._probe_at = now + min(0.5 * 2**self._probes, PROBE_LONGEST)
            return
        if went_back:
            raise _Over(End.AGAIN)  # a new session begins with a pass over everything
        if self._down is not None:
            self._down = None
            if self._checked(lambda: rows.reached(self._cluster)):
                log.info("cluster reached again", cluster=self._cluster.name)
            for course in self._courses.values():
                course.hurry(now)

    # Writing

    def _write(self, *, always: bool = False) -> None:
        changes, positions = self._batch.take()
        if changes or positions or always:
            written = self._checked(lambda: apply_changes(self._cluster, changes, positions))
            self.rows_written += written.total

    def _fail(self, error: KubeError) -> None:
        self._cluster.refresh_from_db()
        requests = self._client.requests
        self._checked(lambda: record_failure(self._cluster, error, timezone.now(), requests))

    def _checked(self, work: Callable[[], Result]) -> Result:
        """Does it if the cluster is still ours, as soon as the database lets us.

        A database that restarts costs nothing: what is to be written waits, and every write may
        be repeated. Raises _Over when another worker has the cluster.
        """
        wait = 0.2
        while True:
            try:
                self._asked_at = time.monotonic()
                if not self._still_ours():
                    raise _Over(End.LOST)
                return work()
            except (OperationalError, InterfaceError) as error:
                connection.close()
                log.warning("database away", cluster=self._cluster.name, error=type(error).__name__)
                if self._stop() or time.monotonic() > self._until:
                    raise
            time.sleep(wait)
            wait = min(2 * wait, 2.0)

    # The end

    def _wind_up(self) -> None:
        """Lets the streams end, and saves what they have told until then."""
        for stream in self._streams.values():
            stream.close()
        until = time.monotonic() + JOIN
        try:
            while self._streams and (wait := until - time.monotonic()) > 0:
                try:
                    message = self._queue.get(timeout=wait)
                except queue.Empty:
                    break
                if not isinstance(message, Done):
                    self._handle(message)
                if len(self._batch) >= BATCH:
                    self._write()
            self._write()
            self._save_streams(counts=True)
            if self._down is not None:
                self._fail(self._down)  # last: now begins the waiting that `due` measures
        except _Over:
            log.info("cluster lost at the end of a session", cluster=self._cluster.name)

    def _end_threads(self) -> None:
        """A thread that still waits for a first answer is left behind: it will find nobody."""
        self._tell_failed()
        self._deaf.set()
        until = time.monotonic() + JOIN
        for stream in self._streams.values():
            stream.close()
        for stream in self._streams.values():
            stream.join(max(0.0, until - time.monotonic()))
        self._jobs.join(max(0.0, until - time.monotonic()))
