"""Upgrade routes through a channel graph: a controller's own steps, and those that need pins.

Works on the table of successors and on the order in which a controller prefers bundles. Iterative,
whatever the graph.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from catalogs.graph.rules import Table


@dataclass(frozen=True, slots=True)
class Hop:
    """One upgrade. `pinned`: the controller takes it only with its version pinned."""

    source: str
    target: str
    kind: str
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """A route from start to goal. Without one `reached` is False, `hops` are those that the
    controller takes by itself, and `stop` is where they end."""

    start: str
    goal: str
    hops: tuple[Hop, ...]
    reached: bool

    @property
    def stop(self) -> str:
        return self.hops[-1].target if self.hops else self.start

    @property
    def pinned(self) -> bool:
        return any(hop.pinned for hop in self.hops)


OVER_NAMED = 6  # intermediate versions that a sentence names


def in_words(start: str, hops: Sequence[str], versions: Mapping[str, str]) -> str:
    """`from 1.0.0 to 1.2.0 over 1.1.0`, for the bundles on a route from `start`; `versions` are
    theirs. Empty without hops."""
    if not hops:
        return ""
    first, *over, goal = (versions.get(name) or name for name in (start, *hops))
    words = f"from {first} to {goal}"
    if not over:
        return words
    more = len(over) - OVER_NAMED
    return f"{words} over {', '.join(over[:OVER_NAMED])}" + (f" and {more} more" * (more > 0))


def upgrades_sentence(names: Sequence[str], versions: Mapping[str, str]) -> str:
    """`Upgrades from 0.6.1: 1.0.0, then 1.1.0.` for bundles of which each is upgraded to the next;
    empty without an upgrade. `versions` are theirs."""
    if len(names) < 2:
        return ""
    first, *later = (versions.get(name) or name for name in names)
    if len(later) > OVER_NAMED:
        between = later[OVER_NAMED - 1 : -1]
        later = [*later[: OVER_NAMED - 1], f"{len(between)} more up to {later[-1]}"]
    return f"Upgrades from {first}: {', then '.join(later)}."


def next_steps(table: Table, order: Sequence[str], *, stays: bool) -> dict[str, str]:
    """Installed name to the controller's next one, the first of `order` among its successors; names
    that stay are left out. `stays`: the installed bundle is a candidate itself (OLM v1), else it
    stays only when nothing follows (v0)."""
    rank = {name: position for position, name in enumerate(order)}
    steps = {}
    for name, after in table.items():
        ranked = (successor for successor in after if successor in rank)
        best = min(ranked, key=rank.__getitem__, default="")
        if best and not (stays and name in rank and rank[name] < rank[best]):
            steps[name] = best
    return steps


def leading_to(edges: Mapping[str, Iterable[str]], goals: Collection[str]) -> set[str]:
    """Every name with a route to one of the goals, the goals included."""
    before: dict[str, list[str]] = {}
    for name, after in edges.items():
        for successor in after:
            before.setdefault(successor, []).append(name)
    names = set(goals)
    waiting = list(goals)
    while waiting:
        for name in before.get(waiting.pop(), ()):
            if name not in names:
                names.add(name)
                waiting.append(name)
    return names


def cyclic(edges: Mapping[str, Iterable[str]]) -> set[str]:
    """Names on a cycle or between two cycles: the rest after removing ends again and again."""
    after = {name: set(listed) for name, listed in edges.items()}
    before: dict[str, set[str]] = {name: set() for name in after}
    for name, listed in after.items():
        for neighbour in listed:
            before.setdefault(neighbour, set()).add(name)
    left = set(before)
    ends = [name for name in left if not before[name] or not after.get(name)]
    while ends:
        name = ends.pop()
        if name not in left:
            continue
        left.discard(name)
        for neighbour in after.get(name, ()):
            before[neighbour].discard(name)
            if not before[neighbour]:
                ends.append(neighbour)
        for neighbour in before[name]:
            after[neighbour].discard(name)
            if not after[neighbour]:
                ends.append(neighbour)
    return left


def find_route(
    start: str, goal: str, table: Table, steps: Mapping[str, str], *, pins: bool
) -> Route:
    """The controller's own steps if they pass the goal; else, with `pins`, the fewest steps that
    versions can be pinned to."""
    own = _own_hops(start, goal, table, steps)
    if (own[-1].target if own else start) == goal:
        return Route(start, goal, own, reached=True)
    names = _shortest(start, goal, table) if pins else []
    if not names:
        return Route(start, goal, own, reached=False)
    hops = tuple(
        Hop(old, new, table[old][new], pinned=steps.get(old) != new) for old, new in pairwise(names)
    )
    return Route(start, goal, hops, reached=True)


def _own_hops(start: str, goal: str, table: Table, steps: Mapping[str, str]) -> tuple[Hop, ...]:
    hops: list[Hop] = []
    visited = {start}
    name = start
    while name != goal and name in steps and steps[name] not in visited:
        hops.append(Hop(name, steps[name], table[name][steps[name]]))
        name = steps[name]
        visited.add(name)
    return tuple(hops)


def _shortest(start: str, goal: str, table: Table) -> list[str]:
    """Names from start to goal, both included; empty when there is no route."""
    came: dict[str, str] = {start: ""}
    waiting = deque([start])
    while waiting:
        name = waiting.popleft()
        if name == goal:
            names = [name]
            while came[names[-1]]:
                names.append(came[names[-1]])
            return names[::-1]
        for successor in table.get(name, ()):
            if successor not in came:
                came[successor] = name
                waiting.append(successor)
    return []
