"""A file whose time says that the main loop of a worker or beat goes on; for one in a container.

A ping through the broker would fail while Redis is away, and a restart would not help.
"""

import tempfile
import time
from pathlib import Path

FILE = Path(tempfile.gettempdir(), "olmweb-heartbeat")
INTERVAL = 2.0  # seconds
_touched_at = 0.0


def touch() -> None:
    """Sets the time of the file, at most every INTERVAL seconds."""
    global _touched_at
    now = time.monotonic()
    if now - _touched_at >= INTERVAL:
        _touched_at = now
        FILE.touch(mode=0o600)


def age() -> float:
    """Seconds since the last heartbeat; infinite when there was none."""
    try:
        return max(0.0, time.time() - FILE.stat().st_mtime)
    except FileNotFoundError:
        return float("inf")
