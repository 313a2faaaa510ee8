"""Changes gathered for one transaction: the last state of each object, the position of each feed.

Pure: nothing here reads a clock, a queue or a database.
"""

from collections.abc import Sequence
from datetime import datetime

from installs.sync.feeds import Change, Position


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
