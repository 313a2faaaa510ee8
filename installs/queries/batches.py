"""Reads behind the page of a bulk install."""

from collections import Counter
from dataclasses import dataclass

from installs.models import Action, ActionBatch

_ENDED = tuple(str(one) for one in Action.State if one not in Action.OPEN)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a batch is. `counts`: state -> actions, `waiting` of them not begun; rows in the
    order in which they are sent."""

    batch: ActionBatch
    rows: tuple[Action, ...]
    counts: dict[str, int]
    waiting: int

    @property
    def total(self) -> int:
        return len(self.rows)

    @property
    def done(self) -> int:
        return sum(self.counts.get(one, 0) for one in _ENDED)

    @property
    def open(self) -> int:
        return self.total - self.done

    @property
    def under_way(self) -> int:
        return self.open - self.waiting

    @property
    def ends(self) -> list[tuple[str, int]]:
        """(state, how many) of those that have ended, in the order of Action.State."""
        return [(one, self.counts[one]) for one in _ENDED if one in self.counts]


def progress_of(batch: ActionBatch) -> Progress:
    """One query."""
    rows = Action.objects.filter(batch=batch).order_by("id").defer("manifests", "dry_run")
    found = tuple(rows)
    return Progress(
        batch,
        found,
        dict(Counter(row.state for row in found)),
        sum(row.state == Action.State.PENDING and row.begun_at is None for row in found),
    )
