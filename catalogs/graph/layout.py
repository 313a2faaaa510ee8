"""Layout of a channel graph: columns from old to new, lanes, folds.

Lane 0 is the replaces chain from the newest head; entries beside it (skipped, stranded, of another
chain) are stacked in the lanes below. The layout is deterministic and the algorithms are iterative.
"""

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from catalogs.graph.rules import (
    REPLACES,
    SKIP_RANGE,
    SKIPS,
    GraphEntry,
    age,
    chain_of,
    heads,
    version_of,
)
from catalogs.semver import Version, blang_spans

COLUMN = 152  # from one node's left side to the next one's, in SVG user units
NODE_WIDTH, NODE_HEIGHT = 112, 36
MARGIN = 20
LANE = 64
LANES = 5  # lane 0 and those that a column stacks below it
TRACK = 12  # between two curves over lane 0
TRACKS = 5
MAX_NODES = 48  # more are folded, so that a channel of 600 entries stays readable
FOLD_RUN = 5  # shortest run worth folding
OPENED = 40  # entries of a fold that come into sight at once


@dataclass(frozen=True, slots=True)
class Edge:
    """An upgrade step between two nodes (by id), drawn from older to newer.

    `track` numbers the curves over lane 0 from the lowest, those of one skipRange share theirs;
    `route`: part of the requested route.
    """

    source: str
    target: str
    kind: str  # replaces | skips | skipRange
    route: bool = False
    track: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """A box: x, y is its top left corner in user units; a fold lists the names it stands for."""

    id: str  # the entry's name; of a fold: the name of its newest entry, which opens it
    kind: str  # entry | fold | missing (named by entries, not in the channel; may be several)
    label: str
    x: int
    y: int
    lane: int  # 0: the replaces chain from the head
    skipped: bool = False
    folded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """What to draw, oldest node first; width and height in user units; entries of the channel."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    width: int
    height: int
    entries: int


def layout(
    entries: Sequence[GraphEntry],
    versions: Mapping[str, Version],
    *,
    keep: Collection[str] = frozenset(),
    opened: Collection[str] = frozenset(),
    route: Iterable[tuple[str, str, str]] = (),
    by_range: Iterable[tuple[str, str]] = (),
    start: str = "",
) -> Layout:
    """Places the entries of one channel, or of several together (then names may repeat). `keep`
    names entries that stay visible; long plain runs of the others become folds, at most about 48
    nodes in all. `opened` names folds, of which the 40 newest entries are unfolded. `route` is an
    upgrade route as (from, to, kind), which stays visible and is marked. `by_range` are upgrades by
    a skipRange as (from, to), of entries; they fold nothing and unfold nothing. `start` is the
    newest entry of lane 0, by default the newest head. A skipRange has an edge from the newest
    version that it includes, and those of `by_range`."""
    by_name: dict[str, GraphEntry] = {}
    for entry in entries:
        by_name.setdefault(entry.name, entry)
    steps = list(route)
    edges = drawn_edges(entries, by_name, versions, steps)
    order = time_order(by_name, edges, versions)
    start = start or max(
        heads(entries) or order[-1:], key=lambda name: age(name, versions), default=""
    )
    chain = set(chain_of(by_name, start))
    visible = {*keep, start, *order[:1], *order[-4:]}
    visible.update(name for step in steps for name in step[:2])
    for name in opened:
        if name in by_name:
            last = order.index(name) + 1
            visible.update(order[max(0, last - OPENED) : last])
    lane = {name: 2 if name not in by_name else 1 if name not in chain else 0 for name in order}
    groups = _fold(order, edges, lane, visible)
    drawn = _edges_of(groups, with_upgrades(edges, by_range))
    skipped = {name for entry in entries for name in entry.skips}
    main = {group[-1] for group in groups if any(name in chain for name in group)}
    places = _places([group[-1] for group in groups], drawn, main)
    drawn = _tracks(drawn, places)
    # room for the curves above lane 0
    over = [edge.track for edge in drawn if _curved(edge, places)]
    top = MARGIN + (TRACK * (max(over) + 2) if over else 0)
    nodes = tuple(
        _node(group, places[group[-1]], top, by_name, versions, skipped) for group in groups
    )
    lanes = max((node.lane for node in nodes), default=0)
    columns = max((column for column, _ in places.values()), default=0)
    return Layout(
        nodes=nodes,
        edges=tuple(drawn),
        width=2 * MARGIN + columns * COLUMN + NODE_WIDTH,
        height=top + lanes * LANE + NODE_HEIGHT + MARGIN,
        entries=len(by_name),
    )


def _node(
    group: Sequence[str],
    place: tuple[int, int],
    top: int,
    by_name: Mapping[str, GraphEntry],
    versions: Mapping[str, Version],
    skipped: set[str],
) -> Node:
    newest = group[-1]
    present = any(name in by_name for name in group)
    if len(group) > 1:
        kind = "fold" if present else "missing"
        label = f"… {len(group)} versions" if present else f"… {len(group)} absent"
    else:
        kind = "entry" if present else "missing"
        version = version_of(newest, versions)
        label = newest if version is None else str(version)
    column, lane = place
    return Node(
        id=newest,
        kind=kind,
        label=label,
        x=MARGIN + column * COLUMN,
        y=top + lane * LANE,
        lane=lane,
        skipped=all(name in skipped for name in group),
        folded=tuple(group) if len(group) > 1 else (),
    )


def drawn_edges(
    entries: Iterable[GraphEntry],
    by_name: Mapping[str, GraphEntry],
    versions: Mapping[str, Version],
    route: Sequence[tuple[str, str, str]] = (),
) -> list[Edge]:
    """One edge from each name to each that replaces or skips it, and one for a skipRange: from
    the newest version that it takes. Those of `route` come with them, marked."""
    edges: dict[tuple[str, str], Edge] = {}
    for entry in entries:
        older = [(REPLACES, entry.replaces)] if entry.replaces else []
        for kind, source in older + [(SKIPS, name) for name in entry.skips if name]:
            if source != entry.name:
                edges.setdefault((source, entry.name), Edge(source, entry.name, kind))
    versioned = sorted(
        (version.key, name) for name in by_name if (version := version_of(name, versions))
    )
    keys = [key for key, _ in versioned]
    for entry in entries:
        own = version_of(entry.name, versions)
        if not entry.skip_range or own is None:
            continue
        try:
            spans = blang_spans(entry.skip_range, keys)
        except ValueError:
            continue
        end = bisect_left(keys, own.key)
        newest = max((min(high, end) for low, high in spans if low < end), default=0)
        if newest:
            source = versioned[newest - 1][1]
            edges.setdefault((source, entry.name), Edge(source, entry.name, SKIP_RANGE))
    for source, target, kind in route:
        edges[source, target] = Edge(source, target, kind, route=True)
    return list(edges.values())


def with_upgrades(edges: Sequence[Edge], by_range: Iterable[tuple[str, str]]) -> list[Edge]:
    """The edges and those upgrades by a skipRange, as (from, to), that no edge shows yet."""
    shown = {(edge.source, edge.target) for edge in edges}
    upgrades = [Edge(*ends, SKIP_RANGE) for ends in by_range if ends not in shown]
    return [*edges, *upgrades]


def _edges_of(groups: Sequence[Sequence[str]], edges: Iterable[Edge]) -> list[Edge]:
    """Edges between nodes; where folding makes several of one kind, the one of the route stays."""
    node_of = {name: group[-1] for group in groups for name in group}
    drawn: dict[tuple[str, str, str], Edge] = {}
    for edge in edges:
        source, target = node_of[edge.source], node_of[edge.target]
        key = (source, target, edge.kind)
        if source != target and (edge.route or key not in drawn):
            drawn[key] = Edge(source, target, edge.kind, edge.route)
    return list(drawn.values())


def _places(
    order: Sequence[str], edges: Iterable[Edge], main: Collection[str]
) -> dict[str, tuple[int, int]]:
    """Node to (column, lane): right of whatever leads to it, where that is placed already."""
    before: dict[str, list[str]] = {}
    for edge in edges:
        before.setdefault(edge.target, []).append(edge.source)
    places: dict[str, tuple[int, int]] = {}
    used: Counter[int] = Counter()  # lanes of a column that are in use below lane 0
    last, front = -1, 0
    for name in order:
        after = [places[source][0] + 1 for source in before.get(name, ()) if source in places]
        if name in main:
            column = last = max([*after, last + 1, front])
            places[name] = (column, 0)
        else:
            column = max([*after, last, 0])
            while used[column] >= LANES - 1:
                column += 1
            used[column] += 1
            places[name] = (column, used[column])
        front = max(front, column)
    return places


def _curved(edge: Edge, places: Mapping[str, tuple[int, int]]) -> bool:
    """Whether the edge goes over lane 0: between two of its nodes that are not neighbours."""
    (left, from_lane), (right, to_lane) = places[edge.source], places[edge.target]
    return from_lane == to_lane == 0 and (right != left + 1 or edge.kind != REPLACES)


def _tracks(edges: Sequence[Edge], places: Mapping[str, tuple[int, int]]) -> list[Edge]:
    """Curves over lane 0 each on the lowest free track, short ones first; the last is shared. The
    curves of one skipRange are on one track."""
    bundles: dict[tuple[str, str, str], list[Edge]] = {}
    for edge in edges:
        if _curved(edge, places):
            merged = edge.kind == SKIP_RANGE and not edge.route
            source = "" if merged else edge.source
            bundles.setdefault((source, edge.target, edge.kind), []).append(edge)
    columns = {
        key: sorted(places[name][0] for edge in bundle for name in (edge.source, edge.target))
        for key, bundle in bundles.items()
    }
    used: list[list[tuple[int, int]]] = [[] for _ in range(TRACKS)]
    tracks: dict[Edge, int] = {}
    for key in sorted(bundles, key=lambda key: (columns[key][-1] - columns[key][0], columns[key])):
        left, right = columns[key][0], columns[key][-1]
        for track in range(TRACKS):
            if track == TRACKS - 1 or all(right <= a or b <= left for a, b in used[track]):
                used[track].append((left, right))
                tracks |= dict.fromkeys(bundles[key], track)
                break
    return [replace(edge, track=tracks[edge]) if edge in tracks else edge for edge in edges]


def time_order(
    by_name: Mapping[str, GraphEntry], edges: Sequence[Edge], versions: Mapping[str, Version]
) -> list[str]:
    """Every name once: an edge's source before its target, else by version.

    In a cycle nothing is first: the lowest version of those left is taken, which opens it.
    """
    after: dict[str, list[str]] = {name: [] for name in by_name}
    waiting: Counter[str] = Counter()
    for edge in edges:
        after.setdefault(edge.source, []).append(edge.target)
        after.setdefault(edge.target, [])
        waiting[edge.target] += 1
    ages = {name: age(name, versions) for name in after}
    rest = sorted(after, key=ages.__getitem__)
    ready = [ages[name] for name in rest if not waiting[name]]
    order: dict[str, None] = {}
    position = 0
    while len(order) < len(after):
        if ready:
            name = heapq.heappop(ready)[2]
        else:
            while rest[position] in order:
                position += 1
            name = rest[position]
        if name in order:
            continue
        order[name] = None
        for target in after[name]:
            waiting[target] -= 1
            if waiting[target] == 0 and target not in order:
                heapq.heappush(ready, ages[target])
    return list(order)


def _fold(
    order: Sequence[str], edges: Sequence[Edge], lanes: Mapping[str, int], visible: set[str]
) -> list[list[str]]:
    """Group the time order into nodes: plain runs first, then whatever is old if too many stay."""
    leaves = Counter(edge.source for edge in edges)
    enters = Counter(edge.target for edge in edges)
    plain = {
        name for name in order if name not in visible and leaves[name] <= 1 and enters[name] <= 1
    }
    groups = _runs(order, plain, lanes) if len(order) > 2 * FOLD_RUN else [[n] for n in order]
    if len(groups) <= MAX_NODES:
        return groups
    recent = set(order[-MAX_NODES // 2 :])
    return _runs(order, {name for name in order if name not in visible and name not in recent}, {})


def _runs(order: Sequence[str], foldable: set[str], lanes: Mapping[str, int]) -> list[list[str]]:
    """Maximal runs of foldable neighbours that `lanes` doesn't tell apart; short ones stay."""
    groups: list[list[str]] = []
    marks = groupby(order, key=lambda name: (name in foldable, lanes.get(name, 0)))
    for (folds, _), names in marks:
        run = list(names)
        groups.extend([run] if folds and len(run) >= FOLD_RUN else [[name] for name in run])
    return groups
