"""Faults that a test asks for: the next requests fail, are cut, or are late.

Also the record of what was asked. Must not know what a request means.
"""

import threading
from collections import deque
from dataclasses import dataclass

from olmweb.sandbox.apiserver.errors import ApiError

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(slots=True)
class _Failure:
    status: int
    left: int
    retry_after: int | None
    path_prefix: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A scripted failure for one request."""

    error: ApiError
    retry_after: int | None


class Script:
    """Scripted behaviour of the next requests; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: list[_Failure] = []
        self._cuts: deque[int] = deque()
        self._delays: deque[float] = deque()
        self.requests: deque[tuple[str, str]] = deque(maxlen=10_000)  # (method, path with query)

    def fail_next(
        self,
        status: int,
        count: int = 1,
        retry_after: int | None = None,
        path_prefix: str = "",
    ) -> None:
        """The next `count` requests below `path_prefix` get `status`, with Retry-After seconds."""
        with self._lock:
            self._failures.append(_Failure(status, count, retry_after, path_prefix))

    def cut_next(self, size: int) -> None:
        """The next response's body ends after `size` bytes and the connection is closed."""
        with self._lock:
            self._cuts.append(size)

    def delay_next(self, seconds: float) -> None:
        """The next request is answered only after `seconds`."""
        with self._lock:
            self._delays.append(seconds)

    def failure(self, path: str) -> Refused | None:
        """The scripted failure of a request to `path`, used up by this call."""
        with self._lock:
            for planned in self._failures:
                if planned.left and path.startswith(planned.path_prefix):
                    planned.left -= 1
                    reason = _REASONS.get(planned.status, "InternalError")
                    text = f"the sandbox was told to answer {planned.status}"
                    return Refused(ApiError(planned.status, reason, text), planned.retry_after)
        return None

    def cut(self) -> int | None:
        with self._lock:
            return self._cuts.popleft() if self._cuts else None

    def delay(self) -> float:
        with self._lock:
            return self._delays.popleft() if self._delays else 0.0
