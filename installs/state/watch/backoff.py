"""Where one feed stands, and when it is asked again after an end or a failure.

Pure policy: gets the time as numbers, knows neither threads nor the database.
"""

import random
from dataclasses import dataclass

from installs.state.resources import Feed
from olmweb.kube.errors import Forbidden, Gone, KubeError, Unreachable
from olmweb.kube.resources import Served
from olmweb.models import Stream as Row

FIRST_WAIT = 0.5  # seconds after a first failure; each further one doubles it
LONGEST_WAIT = 30.0
FORBIDDEN_WAIT = 60.0  # somebody has to grant the right first
STEADY = 3.0  # a watch that has been open this long works
POSITION_TRIES = 3  # failures in a row after which the position itself is doubted


@dataclass(slots=True)
class Course:
    """One feed of one cluster. Times are of time.monotonic().

    `position` is the resourceVersion to go on from, empty to begin with a list. `watches` counts
    the requests that its row does not tell yet.
    """

    feed: Feed
    served: Served
    position: str = ""
    state: str = Row.State.LISTED
    error: str = ""
    running: bool = False
    opened_at: float | None = None
    retry_at: float = 0.0
    failures: int = 0
    watches: int = 0

    def starts(self) -> None:
        self.running, self.opened_at = True, None

    def opened(self, now: float) -> None:
        """The cluster accepted the watch. After failures it has to prove itself first."""
        self.opened_at = now
        self.watches += 1
        if not self.failures:
            self.works()

    def works(self) -> None:
        self.failures, self.state, self.error = 0, Row.State.WATCHING, ""

    def settles(self, now: float) -> None:
        """Called now and then: an open watch that has lasted works."""
        if self.running and self.opened_at is not None and now - self.opened_at >= STEADY:
            self.works()

    def ended(self, error: KubeError | None, now: float) -> None:
        """The stream is over; sets when to start the next one, and from where."""
        lasted = self.opened_at is not None and now - self.opened_at >= STEADY
        self.running, self.opened_at = False, None
        if isinstance(error, Gone) and not self.failures:
            self.position, self.retry_at = "", now  # normal after a long pause: list it
            self.failures = 1  # a list that is too old at once is not
            return
        if error is None and lasted:
            self.failures, self.retry_at = 0, now
            return
        self.failures = 1 if lasted else self.failures + 1
        if error is not None:
            forbidden = isinstance(error, Forbidden)
            self.state = Row.State.FORBIDDEN if forbidden else Row.State.RETRYING
            self.error = error.message
            doubtful = self.failures >= POSITION_TRIES and not isinstance(error, Unreachable)
            if isinstance(error, Gone) or doubtful:
                self.position = ""
        self.retry_at = now + self._wait(error)

    def misses(self, error: KubeError) -> None:
        """The cluster is away: a watch that ended in good order does not begin again either."""
        if not self.running and self.state == Row.State.WATCHING:
            self.state, self.error = Row.State.RETRYING, error.message

    def hurry(self, now: float) -> None:
        """The cluster can be reached again: no need to wait longer, but not all at once."""
        if not self.running:
            self.retry_at = min(self.retry_at, now + random.uniform(0, 0.3))  # noqa: S311

    def _wait(self, error: KubeError | None) -> float:
        wait: float = min(FIRST_WAIT * 2 ** (self.failures - 1), LONGEST_WAIT)
        if self.state == Row.State.FORBIDDEN:
            wait = FORBIDDEN_WAIT
        if error is not None and error.retry_after:
            wait = max(wait, min(error.retry_after, FORBIDDEN_WAIT))
        return wait * random.uniform(0.5, 1.5)  # noqa: S311  # spreads load, guards nothing
