"""Client-side rate limit: a token bucket whose clock and sleep are injected. Pure."""

import threading
import time
from collections.abc import Callable


class TokenBucket:
    """Lets `burst` requests pass at once and `rate` a second after that; shared by threads."""

    def __init__(
        self,
        rate: float = 20,
        burst: int = 40,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._tokens = float(burst)
        self._filled_at = clock()

    def take(self) -> float:
        """Takes one token, sleeping until there is one; returns the seconds waited."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
            self._filled_at = now
            self._tokens -= 1
            # Below zero the token is a reservation: the next caller waits behind this one.
            wait = max(0.0, -self._tokens / self._rate)
        if wait:
            self._sleep(wait)
        return wait
