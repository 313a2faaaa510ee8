"""The backoff of a watch: when it is retried after it ended or failed, and from which position.

The backoff of a whole cluster is `olmweb.clusters.due`. Pure policy: times are passed as numbers;
uses neither threads nor the database.
"""

import random
from dataclasses import dataclass

from installs.state.resources import WatchedResource
from olmweb.kube.errors import Forbidden, Gone, KubeError, Unreachable
from olmweb.kube.resources import Served
from olmweb.models import ResourceWatch

FIRST_WAIT = 0.5  # seconds after a first failure; each further one doubles it
LONGEST_WAIT = 30.0
# Until somebody has granted the permission. Not at once: an API server that starts refuses every
# account until its RBAC caches are filled.
LONGEST_FORBIDDEN_WAIT = 60.0
LONGEST_RETRY_AFTER = 60.0
STEADY = 3.0  # a watch that stays open this long works
POSITION_TRIES = 3  # failures in a row after which the resource is listed again


@dataclass(slots=True)
class WatchState:
    """The watch of one resource of one cluster. Times are of time.monotonic().

    `position` is the resourceVersion to continue from, empty to begin with a list. `watches` counts
    requests that are not yet added to its row, `saved` is state and error of the row.
    """

    watched: WatchedResource
    served: Served
    position: str = ""
    state: str = ResourceWatch.State.LISTED
    error: str = ""
    running: bool = False
    opened_at: float | None = None
    retry_at: float = 0.0
    failures: int = 0
    watches: int = 0
    saved: tuple[str, str] | None = None

    def mark_started(self) -> None:
        self.running, self.opened_at = True, None

    def mark_opened(self, now: float) -> None:
        """The cluster accepted the watch. After failures it counts as working once it is steady."""
        self.opened_at = now
        self.watches += 1
        if not self.failures:
            self.mark_working()

    def mark_working(self) -> None:
        self.failures, self.state, self.error = 0, ResourceWatch.State.WATCHING, ""

    def check_steady(self, now: float) -> None:
        """Marks an open watch as working once it is steady; called periodically."""
        if self.running and self.opened_at is not None and now - self.opened_at >= STEADY:
            self.mark_working()

    def mark_ended(self, error: KubeError | None, now: float) -> None:
        """The watch ended; sets when it is retried, and from which position."""
        lasted = self.opened_at is not None and now - self.opened_at >= STEADY
        self.running, self.opened_at = False, None
        if isinstance(error, Gone) and not self.failures:
            self.position, self.retry_at = "", now  # normal after a long pause: list again
            self.failures = 1  # but not directly after a list
            return
        if error is None and lasted:
            self.failures, self.retry_at = 0, now
            return
        self.failures = 1 if lasted else self.failures + 1
        if error is not None:
            forbidden = isinstance(error, Forbidden)
            self.state = (
                ResourceWatch.State.FORBIDDEN if forbidden else ResourceWatch.State.RETRYING
            )
            self.error = error.message
            doubtful = self.failures >= POSITION_TRIES
            doubtful = doubtful and not isinstance(error, Unreachable | Forbidden)
            if isinstance(error, Gone) or doubtful:
                self.position = ""
        self.retry_at = now + self._wait(error)

    def mark_unreachable(self, error: KubeError) -> None:
        """The cluster is unreachable, which a watch that ended normally would not notice."""
        if not self.running and self.state == ResourceWatch.State.WATCHING:
            self.state, self.error = ResourceWatch.State.RETRYING, error.message

    def retry_soon(self, now: float) -> None:
        """The cluster is reachable again: retries now, spread over a moment, and as often as after
        a first failure."""
        if not self.running:
            self.failures = min(self.failures, 1)
            self.retry_at = min(self.retry_at, now + random.uniform(0, 0.3))  # noqa: S311

    def _wait(self, error: KubeError | None) -> float:
        forbidden = self.state == ResourceWatch.State.FORBIDDEN
        longest = LONGEST_FORBIDDEN_WAIT if forbidden else LONGEST_WAIT
        wait: float = min(FIRST_WAIT * 2 ** (self.failures - 1), longest)
        if error is not None and error.retry_after:
            wait = max(wait, min(error.retry_after, LONGEST_RETRY_AFTER))
        return wait * random.uniform(0.5, 1.5)  # noqa: S311  # spreads load, guards nothing
