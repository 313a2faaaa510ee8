"""Spaces the requests to registries out, for all threads that share a Pace."""

import threading
import time
from collections.abc import Callable


class Pace:
    """At most `rate` requests a second to each registry, and none while it asks to wait.

    A burst after a pause is spaced out as well. `clock` is in seconds; `pause` sleeps so many.
    """

    def __init__(
        self,
        rate: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval = 1 / rate
        self._clock = clock
        self._pause = pause
        self._lock = threading.Lock()
        self._next: dict[str, float] = {}  # by registry: when its next request may be sent

    def wait(self, registry: str) -> None:
        """Returns when a request to the registry may be sent."""
        with self._lock:
            now = self._clock()
            at = max(now, self._next.get(registry, now))
            self._next[registry] = at + self._interval
        if at > now:
            self._pause(at - now)

    def hold(self, registry: str, seconds: float) -> None:
        """Holds further requests to the registry back for `seconds`."""
        with self._lock:
            self._next[registry] = max(self._next.get(registry, 0.0), self._clock() + seconds)
