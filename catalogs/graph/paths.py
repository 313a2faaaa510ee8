"""Ways through a channel graph: what a controller takes by itself, what it needs pins for.

Works on the table of successors and on the order in which a controller prefers bundles; knows
neither controllers nor drawings. Iterative, whatever the graph. No Django.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from catalogs.graph.rules import Table


@dataclass(frozen=True, slots=True)
class Hop:
    """One upgrade. `pinned`: the controller would go elsewhere unless its version is pinned."""

    source: str
    target: str
    kind: str
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Way:
    """From start to goal; `reached` is False when there is none, then `hops` are those that the
    controller takes by itself and `stop` is where they end."""

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


def next_steps(table: Table, order: Sequence[str], *, stays: bool) -> dict[str, str]:
    """Where the controller takes each name: the first of `order` among its successors.

    `stays`: what is installed is itself a candidate at its place in the order (OLM v1); else it
    stays only when nothing follows (v0). Names that stay are not in the answer.
    """
    rank = {name: position for position, name in enumerate(order)}
    steps = {}
    for name, after in table.items():
        best = min((each for each in after if each in rank), key=rank.__getitem__, default="")
        if best and not (stays and name in rank and rank[name] < rank[best]):
            steps[name] = best
    return steps


def reaching(edges: Mapping[str, Iterable[str]], goals: Collection[str]) -> set[str]:
    """Every name with a way to one of the goals, the goals too."""
    before: dict[str, list[str]] = {}
    for name, after in edges.items():
        for each in after:
            before.setdefault(each, []).append(name)
    found = set(goals)
    waiting = list(goals)
    while waiting:
        for name in before.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


def cyclic(edges: Mapping[str, Iterable[str]]) -> set[str]:
    """Names on a cycle, and those between two cycles: what is left when ends are taken away."""
    after = {name: set(listed) for name, listed in edges.items()}
    before: dict[str, set[str]] = {name: set() for name in after}
    for name, listed in after.items():
        for each in listed:
            before.setdefault(each, set()).add(name)
    left = set(before)
    ends = [name for name in left if not before[name] or not after.get(name)]
    while ends:
        name = ends.pop()
        if name not in left:
            continue
        left.discard(name)
        for each in after.get(name, ()):
            before[each].discard(name)
            if not before[each]:
                ends.append(each)
        for each in before[name]:
            after[each].discard(name)
            if not after[each]:
                ends.append(each)
    return left


def find_way(start: str, goal: str, table: Table, steps: Mapping[str, str], *, pins: bool) -> Way:
    """The controller's own steps if they come by the goal; else, with `pins`, the fewest steps
    that versions can be pinned to."""
    own = _own_hops(start, goal, table, steps)
    if (own[-1].target if own else start) == goal:
        return Way(start, goal, own, reached=True)
    names = _shortest(start, goal, table) if pins else []
    if not names:
        return Way(start, goal, own, reached=False)
    hops = tuple(
        Hop(old, new, table[old][new], pinned=steps.get(old) != new) for old, new in pairwise(names)
    )
    return Way(start, goal, hops, reached=True)


def _own_hops(start: str, goal: str, table: Table, steps: Mapping[str, str]) -> tuple[Hop, ...]:
    hops: list[Hop] = []
    seen = {start}
    name = start
    while name != goal and name in steps and steps[name] not in seen:
        hops.append(Hop(name, steps[name], table[name][steps[name]]))
        name = steps[name]
        seen.add(name)
    return tuple(hops)


def _shortest(start: str, goal: str, table: Table) -> list[str]:
    """Names from start to goal, both included; empty when there is no way."""
    came: dict[str, str] = {start: ""}
    waiting = deque([start])
    while waiting:
        name = waiting.popleft()
        if name == goal:
            names = [name]
            while came[names[-1]]:
                names.append(came[names[-1]])
            return names[::-1]
        for each in table.get(name, ()):
            if each not in came:
                came[each] = name
                waiting.append(each)
    return []
