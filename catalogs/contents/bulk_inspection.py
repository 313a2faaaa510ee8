"""Inspects many bundle images, several at a time, and spares their registries.

Threads pull; the calling thread alone uses the database, so that a run needs one connection and
SQLite one writer. An image is inspected under its lease. A registry gets one image until it has
answered, then a few at a time, so many requests a second, and the time that it asks to wait.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import structlog
from django.conf import settings
from django.db.models import Sum

from catalogs.contents import inspection
from catalogs.contents.stored import inspected_images
from catalogs.models import BundleInspection, BundleManifests
from catalogs.sources.base import SourceError
from catalogs.sources.oci.client import Pace
from catalogs.sources.oci.source import RegistryAccess
from olmweb.runtime.leases import renewed_lease

log = structlog.get_logger(__name__)
THREADS = 8
SILENT_LIMIT = 3  # failures of a registry in a row; then its other images are left out
WAITS = 5  # times in a row that a registry may ask to wait
TICK = 1.0  # seconds between two looks at `stop` and two calls of `progress` at least
UNREACHABLE, IN_PROGRESS, RATE_LIMITED = "unreachable", "in-progress", "rate-limited"
CANCELLED, BUDGET, WAITING = "cancelled", "budget", "waiting"  # why a run stopped
# Failures of a registry, not of an image: another attempt may succeed.
SILENT = (UNREACHABLE, "http-status", RATE_LIMITED, "too-slow")
# Codes of SourceError that are a reason under another name.
_REASONS = {"forbidden": "no-credentials", "token-server": "no-credentials"}


@dataclass(slots=True)
class Summary:
    """The outcome of a run. `wanted` images are `reused` (their objects were stored), `inspected`,
    or `failed`, by reason; `requests` were sent and `bytes` received for both.

    `waiting` maps registries to the seconds that they ask to wait. `stopped` is why images are
    left: CANCELLED, BUDGET, WAITING or what `stop` returned. `left_out` are the registries whose
    images were left out.
    """

    wanted: int
    inspected: int = 0
    reused: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    requests: int = 0
    waiting: dict[str, float] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)
    stopped: str = ""

    @property
    def left(self) -> int:
        """The number of images that were not looked at."""
        return self.wanted - self.inspected - self.reused - self.failed.total()


@dataclass(slots=True)
class _Registry:
    name: str
    images: deque[str] = field(default_factory=deque)
    running: int = 0
    answered: bool = False
    failures: int = 0  # in a row
    waits: int = 0  # in a row
    waits_until: float = 0.0  # by the clock of the run


@dataclass(slots=True)
class _Job:
    image: str
    registry: _Registry
    row: BundleInspection
    lease: ExitStack


def reason_of(error_code: str) -> str:
    """The reason of a failed inspection, as runs count it."""
    return _REASONS.get(error_code, error_code)


def bytes_left_today() -> int:
    """The bytes of today's budget (UTC) that no inspection has used."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    rows = BundleInspection.objects.filter(finished_at__gte=today)
    used: int = rows.aggregate(total=Sum("bytes_read"))["total"] or 0
    return max(0, settings.INSPECTION_BUDGET - used)


def next_budget_at() -> datetime:
    """When the budget of the next day begins."""
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    return tomorrow.replace(hour=0, minute=0, second=0, microsecond=0)


def inspect_images(
    images: Sequence[str],
    progress: Callable[[Summary], None] = lambda _: None,
    *,
    stop: Callable[[], str] = lambda: "",
    left_out: Sequence[str] = (),
    patience: float = inspection.LONGEST_WAIT,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Summary:
    """Inspects the images that are not stored, in this order as far as their registries allow.

    `progress` is called after each image, and every TICK seconds. No image begins once `stop`
    returns a reason; for CANCELLED the running ones end as well, for another they are finished. A
    registry that is silent, fails or refuses for too many requests SILENT_LIMIT times in a row is
    left out from then on, as are those in `left_out`. The run waits for registries up to
    `patience` seconds at a time, and ends with WAITING if all ask for more; a registry that asks
    for more than inspection.LONGEST_WAIT is left out. One image never ends the run. Raises
    SourceError for an unreadable OLMWEB_REGISTRIES_CONF.
    """
    with _Run(images, progress, left_out, clock) as run:
        while run.work_left():
            run.summary.stopped = stop() or run.over_budget()
            if run.summary.stopped:
                break
            run.fill()
            seconds = run.wait_seconds()
            if seconds > patience:
                run.summary.stopped = WAITING
                break
            run.collect(seconds, pause)
        run.drain(stop)
    return run.summary


class _Run:
    def __init__(
        self,
        images: Sequence[str],
        progress: Callable[[Summary], None],
        left_out: Sequence[str],
        clock: Callable[[], float],
    ) -> None:
        self.summary = Summary(len(images), left_out=set(left_out))
        self._progress = progress
        self._clock = clock
        self._budget = bytes_left_today()
        self._access = inspection.access(Pace(settings.REGISTRY_RATE))
        self._stored = set(BundleManifests.objects.values_list("pk", flat=True))
        self._registries: dict[str, _Registry] = {}
        self._running: dict[Future[inspection.Pulled], _Job] = {}
        self._cancelled = threading.Event()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="inspect")
        inspected = inspected_images(images)
        self.summary.reused = sum(image in inspected for image in images)
        for image in images:
            if image not in inspected:
                name = self._access.first_registry(image)
                registry = self._registries.setdefault(name, _Registry(name))
                registry.images.append(image)
        for name in left_out:
            if name in self._registries:
                self._leave_out(self._registries[name], UNREACHABLE)
        progress(self.summary)

    def __enter__(self) -> "_Run":
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the pulls of an interrupted run, and gives their leases back."""
        self._cancelled.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for job in self._running.values():
            with job.lease:
                inspection.fail_with(job.row, _stopped())

    def work_left(self) -> bool:
        return bool(self._running) or any(reg.images for reg in self._registries.values())

    def over_budget(self) -> str:
        """BUDGET when nothing of it is left for another image."""
        waiting = any(registry.images for registry in self._registries.values())
        return BUDGET if waiting and self.summary.bytes >= self._budget else ""

    def fill(self) -> None:
        """Begins with images, one of each registry in turn, as far as limits allow."""
        begun = True
        while begun:
            begun = False
            for registry in self._registries.values():
                if len(self._running) < THREADS and self._may_begin(registry):
                    self._begin(registry)
                    begun = True

    def _may_begin(self, registry: _Registry) -> bool:
        if not registry.images or registry.waits_until > self._clock():
            return False
        careful = not registry.answered or registry.failures or registry.waits
        if registry.running >= (1 if careful else settings.REGISTRY_PULLS):
            return False
        # An image under two names is pulled once.
        digest = registry.images[0].partition("@")[2]
        return not digest or all(
            job.image.partition("@")[2] != digest for job in self._running.values()
        )

    def _begin(self, registry: _Registry) -> None:
        """Hands an image to a thread. The row that an interrupted run or a killed worker left
        behind is used again."""
        image = registry.images.popleft()
        row = inspection.start(image, "") or BundleInspection.objects.get(image=image)
        with ExitStack() as lease:
            if lease.enter_context(renewed_lease(f"inspection:{row.pk}")) is None:
                self._count(IN_PROGRESS)
                return
            row.refresh_from_db()
            if row.state == BundleInspection.State.READ:  # by another worker meanwhile
                self.summary.reused += 1
                return
            inspection.begin(row)
            future = self._pool.submit(
                _pull, image, self._access, self._stored, self._cancelled.is_set
            )
            self._running[future] = _Job(image, registry, row, lease.pop_all())
            registry.running += 1

    def wait_seconds(self) -> float:
        """The seconds until a registry may be asked again, 0 while images are pulled."""
        now = self._clock()
        self.summary.waiting = {
            registry.name: registry.waits_until - now
            for registry in self._registries.values()
            if registry.images and registry.waits_until > now
        }
        return 0.0 if self._running else min(self.summary.waiting.values(), default=0.0)

    def collect(self, seconds: float, pause: Callable[[float], None]) -> None:
        """Counts the images that are pulled, or waits for a registry, for a TICK at most."""
        if self._running:
            done, _ = wait(self._running, timeout=TICK, return_when=FIRST_COMPLETED)
            for future in done:
                self._finish(future)
        elif seconds:
            pause(min(seconds, TICK))
        self._progress(self.summary)

    def drain(self, stop: Callable[[], str]) -> None:
        """Counts the images that are still pulled when the run stops."""
        while self._running:
            if CANCELLED in (self.summary.stopped, stop()):
                self.summary.stopped = CANCELLED
                self._cancelled.set()
            self.collect(0.0, time.sleep)

    def _finish(self, future: Future[inspection.Pulled]) -> None:
        job = self._running.pop(future)
        job.registry.running -= 1
        with job.lease:
            try:
                pulled = future.result()
                inspection.save(job.row, pulled)
            except SourceError as error:
                self._failed(job, error)
            except Exception:
                log.exception("inspection failed", image=job.image)
                inspection.fail(job.row)
                self._count("internal")
            else:
                self._stored.add(pulled.digest)
                self._answered(job.registry, pulled.requests, pulled.bytes_read)
                if pulled.packed is None and not pulled.requests:
                    self.summary.reused += 1
                else:
                    self.summary.inspected += 1

    def _failed(self, job: _Job, error: SourceError) -> None:
        registry, reason = job.registry, reason_of(error.code)
        self.summary.requests += error.requests
        self.summary.bytes += error.bytes_read
        inspection.fail_with(job.row, error)
        if reason == CANCELLED:
            return
        if error.retry_after:
            if error.retry_after <= inspection.LONGEST_WAIT and registry.waits < WAITS:
                self._wait(registry, job.image, error.retry_after)
                return
            self._leave_out(registry, reason)
        self._count(reason)
        if reason not in SILENT:
            self._answered(registry, 0, 0)
            return
        registry.failures += 1
        if registry.failures >= SILENT_LIMIT:
            self._leave_out(registry, UNREACHABLE)

    def _wait(self, registry: _Registry, image: str, seconds: float) -> None:
        """Puts the image and the others of its registry off. Images that were pulled at the same
        time and are refused as well are one wait of the registry."""
        registry.images.appendleft(image)
        now = self._clock()
        if registry.waits_until <= now:
            registry.waits += 1
        registry.waits_until = max(registry.waits_until, now + seconds)
        log.info("registry asks to wait", registry=registry.name, seconds=seconds)

    def _answered(self, registry: _Registry, requests: int, received: int) -> None:
        self.summary.requests += requests
        self.summary.bytes += received
        registry.answered, registry.failures, registry.waits = True, 0, 0

    def _leave_out(self, registry: _Registry, reason: str) -> None:
        self.summary.left_out.add(registry.name)
        self.summary.failed[reason] += len(registry.images)
        registry.images.clear()

    def _count(self, reason: str) -> None:
        self.summary.failed[reason] += 1


def _pull(
    image: str, access: RegistryAccess, stored: set[str], is_cancelled: Callable[[], bool]
) -> inspection.Pulled:
    def check(_done: int, _total: int) -> None:
        if is_cancelled():
            raise _stopped()

    check(0, 0)
    return inspection.pull(image, access, stored.__contains__, check)


def _stopped() -> SourceError:
    return SourceError("The inspection was stopped.", code=CANCELLED, hint="Inspect it again.")
