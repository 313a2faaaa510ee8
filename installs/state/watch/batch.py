"""Changes gathered for one transaction: the last state of each object, the position of each feed.

Pure: nothing here reads a clock, a queue or a database.
"""

from collections.abc import Sequence
from datetime import datetime

from installs.state.resources import Change, Position

WINDOW = 0.1  # seconds that the first change of a batch waits for others
RUSH = 20  # messages in a window, from which on another window is worth waiting for
RUSH_SECONDS = 1.0  # that changes may wait while others rush in


class Batch:
    """Fills up with what the streams of one cluster told, in the order of each stream."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, str, str, str, str], Change] = {}
        self._positions: dict[str, Position] = {}

    def __len__(self) -> int:
        return len(self._changes)

    def add(self, feed: str, change: Change | None, resource_version: str, now: datetime) -> None:
        """One event. An object's earlier state in this batch is forgotten.

        Its identity has the uid: one that is deleted and made again is two objects, and both
        changes count.
        """
        if change is not None:
            kept = change.kept
            key = (feed, *kept.key, kept.uid)
            self._changes.pop(key, None)  # to the end: the order is that of the last states
            self._changes[key] = change
        self._positions[feed] = Position(resource_version, now)

    def take(self) -> tuple[Sequence[Change], dict[str, Position]]:
        """What was gathered; the batch is empty then."""
        changes, positions = list(self._changes.values()), self._positions
        self._changes, self._positions = {}, {}
        return changes, positions


class Window:
    """How long a batch is open for more; `patience` seconds for a first change, from `now` on.

    While changes rush in it stays open: to read and to write at the same time takes longer than one
    after the other, and of an object that changes again only the last state is written.
    """

    def __init__(self, now: float, patience: float) -> None:
        self._closes = now + patience
        self._opened: float | None = None
        self._messages = 0

    def wait(self, now: float) -> float:
        """Seconds to wait for the next message; 0 when the window is closed."""
        rushing = self._messages >= RUSH
        if now >= self._closes and rushing and self._opened is not None:
            self._closes = min(now + WINDOW, self._opened + RUSH_SECONDS)
            self._messages = 0
        return max(0.0, self._closes - now)

    def came(self, now: float, *, changes: bool) -> None:
        """One message; `changes` says whether the batch has any now."""
        self._messages += 1
        if changes and self._opened is None:
            self._opened, self._closes = now, now + WINDOW
