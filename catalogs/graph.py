"""The upgrade graph of one channel: heads, faults, next steps, and where to draw what.

Owns opm's rules for a channel, the edges that both generations of OLM follow, and a layout with
the oldest entry left and the newest right. Every algorithm is iterative: a chain of 10,000
entries or a cycle must cost time, never the stack.
Must not know: Django, Celery, SVG, HTML, the blobs that entries were read from.
"""

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from catalogs.semver import Version, blang_range, parse

COLUMN = 148  # from one node's left side to the next one's, in SVG user units
NODE_WIDTH, NODE_HEIGHT = 112, 36
MARGIN = 16
LANE = 84
MAX_NODES = 48  # more are folded, so that a channel of 600 entries stays readable
FOLD_RUN = 5  # shortest run worth folding
RANGE_CHECKS = 200_000  # skipRange tests one layout may spend; past it those edges are left out


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of an olm.channel blob; empty texts mean the key was absent."""

    name: str
    replaces: str = ""
    skips: tuple[str, ...] = ()
    skip_range: str = ""


@dataclass(frozen=True, slots=True)
class Successor:
    """An entry that an installed bundle can go to, and the first rule that allows it."""

    name: str
    kind: str  # replaces | skips | skipRange


@dataclass(frozen=True, slots=True)
class Edge:
    """An upgrade step between two nodes (by id), drawn from older to newer."""

    source: str
    target: str
    kind: str  # replaces | skips | skipRange


@dataclass(frozen=True, slots=True)
class Node:
    """A box: x, y is its top left corner in user units; a fold lists the names it stands for."""

    id: str  # the entry's name; of a fold: the name of its oldest entry
    kind: str  # entry | fold | missing (named by entries, not in the channel; may be several)
    label: str
    x: int
    y: int
    lane: int  # 0: the replaces chain from the head; 1: everything else
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


# -- rules ----------------------------------------------------------------------------------------


def heads(entries: Iterable[Entry]) -> list[str]:
    """Names that no entry replaces or skips, sorted; a valid channel has exactly one."""
    entries = tuple(entries)
    return sorted({entry.name for entry in entries} - _superseded(entries))


def validate(entries: Sequence[Entry]) -> list[str]:
    """opm's messages about the channel; none for a valid one. opm stops at the first: so do we."""
    if not entries:
        return ["channel must contain at least one bundle"]
    found = heads(entries)
    if not found:
        return ["no channel head found in graph"]
    if len(found) > 1:
        return [f"multiple channel heads found in graph: {', '.join(found)}"]
    by_name = {entry.name: entry for entry in entries}
    skipped = {name for entry in entries for name in entry.skips}
    chain = {found[0]: 0}  # name to position, in order
    entry: Entry | None = by_name[found[0]]
    while entry is not None and entry.replaces not in skipped:
        if entry.replaces in chain:
            loop = [*list(chain)[chain[entry.replaces] :], entry.replaces]
            return [f"detected cycle in replaces chain of upgrade graph: {' -> '.join(loop)}"]
        chain[entry.replaces] = len(chain)
        entry = by_name.get(entry.replaces)
    stranded = sorted(set(by_name) - set(chain) - skipped)
    if stranded:
        return [f"channel contains one or more stranded bundles: {', '.join(stranded)}"]
    return []


def edge_kind(entry: Entry, name: str, version: Version | None) -> str:
    """Why `entry` may follow the installed bundle `name` at `version`; "" when it may not.

    A skipRange that can't be read is ignored, as OLM does at run time.
    """
    if name and entry.replaces == name:
        return "replaces"
    if name in entry.skips:
        return "skips"
    if entry.skip_range and version is not None:
        try:
            return "skipRange" if blang_range(entry.skip_range)(version) else ""
        except ValueError:
            return ""
    return ""


def successors(
    entries: Iterable[Entry],
    name: str,
    version: Version | None,
    versions: Mapping[str, Version],
) -> list[Successor]:
    """Direct upgrades from the installed bundle, highest version first, unknown versions last.

    `versions` maps bundle names to versions and serves the order only. The installed bundle itself
    is never among them.
    """
    found = {
        entry.name: kind
        for entry in entries
        if entry.name != name and (kind := edge_kind(entry, name, version))
    }
    ordered = sorted(sorted(found), key=lambda each: _age(each, versions), reverse=True)
    return [Successor(each, found[each]) for each in ordered]


def v0_candidates(
    entries: Sequence[Entry], installed: tuple[str, Version | None] | None = None
) -> list[str]:
    """What a Subscription on this channel would take, best first, from the replaces chain.

    Skipped entries are left out. With `installed` (name, version) only its direct successors stay;
    without, any. ValueError with opm's sentence when there isn't exactly one head.
    """
    found = heads(entries)
    if len(found) != 1:
        raise ValueError(validate(entries)[0])
    by_name = {entry.name: entry for entry in entries}
    skipped = {name for entry in entries for name in entry.skips}
    chain = _chain(by_name, found[0])
    return [
        name
        for name in chain
        if name not in skipped and (installed is None or edge_kind(by_name[name], *installed))
    ]


def _superseded(entries: Iterable[Entry]) -> set[str]:
    names = {name for entry in entries for name in (entry.replaces, *entry.skips)}
    names.discard("")
    return names


def _chain(by_name: Mapping[str, Entry], head: str) -> list[str]:
    """The replaces chain from `head` down, as far as the channel holds it; stops at a cycle."""
    chain: dict[str, None] = {}
    entry = by_name.get(head)
    while entry is not None and entry.name not in chain:
        chain[entry.name] = None
        entry = by_name.get(entry.replaces)
    return list(chain)


# -- layout ---------------------------------------------------------------------------------------


def layout(
    entries: Sequence[Entry],
    versions: Mapping[str, Version],
    *,
    keep: Collection[str] = frozenset(),
) -> Layout:
    """Place a channel's entries on a time line, one node a column, the newest right.

    Lane 0 is the replaces chain from the head, lane 1 holds the rest. `keep` names entries that
    must stay visible (the installed ones); long plain runs of the others become fold nodes, at
    most about 48 nodes in all. Same input, same layout. A skipRange gives one edge, from the
    newest version it takes: all of them would hide the drawing.
    """
    by_name = {entry.name: entry for entry in entries}
    edges = _drawn_edges(by_name, versions)
    order = _time_order(by_name, edges, versions)
    start = max(heads(entries) or order[-1:], key=lambda name: _age(name, versions), default="")
    chain = set(_chain(by_name, start))
    kept = {*keep, start, *order[:1], *order[-4:]}
    lane = {name: 2 if name not in by_name else 1 if name not in chain else 0 for name in order}
    groups = _fold(order, edges, lane, kept)
    node_of = {name: group[0] for group in groups for name in group}
    drawn = dict.fromkeys(
        Edge(node_of[edge.source], node_of[edge.target], edge.kind)
        for edge in edges
        if node_of[edge.source] != node_of[edge.target]
    )
    skipped = {name for entry in entries for name in entry.skips}
    lanes = {group[0]: 0 if group[0] in chain else 1 for group in groups}
    arc = MARGIN + (64 if drawn else 0)  # room for the curves above lane 0 and below lane 1
    nodes = tuple(
        _node(group, column, arc, lanes[group[0]], by_name, versions, skipped)
        for column, group in enumerate(groups)
    )
    below = LANE + arc - MARGIN if 1 in lanes.values() else 0
    return Layout(
        nodes=nodes,
        edges=tuple(drawn),
        width=2 * MARGIN + max(0, len(nodes) - 1) * COLUMN + NODE_WIDTH,
        height=arc + NODE_HEIGHT + below + MARGIN,
        entries=len(by_name),
    )


def _node(
    group: Sequence[str],
    column: int,
    top: int,
    lane: int,
    by_name: Mapping[str, Entry],
    versions: Mapping[str, Version],
    skipped: set[str],
) -> Node:
    first = group[0]
    present = any(name in by_name for name in group)
    if len(group) > 1:
        kind = "fold" if present else "missing"
        label = f"… {len(group)} versions" if present else f"… {len(group)} absent"
    else:
        kind = "entry" if present else "missing"
        version = _version(first, versions)
        label = first if version is None else str(version)
    return Node(
        id=first,
        kind=kind,
        label=label,
        x=MARGIN + column * COLUMN,
        y=top + lane * LANE,
        lane=lane,
        skipped=all(name in skipped for name in group),
        folded=tuple(group) if len(group) > 1 else (),
    )


def _version(name: str, versions: Mapping[str, Version]) -> Version | None:
    """The known version, else the one that a name such as etcd.v0.9.4 ends with."""
    known = versions.get(name)
    if known is not None:
        return known
    try:
        return parse(name.split(".v", 1)[1])
    except (IndexError, ValueError):
        return None


def _age(name: str, versions: Mapping[str, Version]) -> tuple[int, Version, str]:
    """Sorts oldest first; names without a version come before all others."""
    version = _version(name, versions)
    return (0, Version(0, 0, 0), name) if version is None else (1, version, name)


def _drawn_edges(by_name: Mapping[str, Entry], versions: Mapping[str, Version]) -> list[Edge]:
    edges: dict[tuple[str, str], Edge] = {}
    for entry in by_name.values():
        older = [("replaces", entry.replaces)] if entry.replaces else []
        for kind, source in older + [("skips", name) for name in entry.skips if name]:
            if source != entry.name:
                edges.setdefault((source, entry.name), Edge(source, entry.name, kind))
    newest_first = sorted(
        ((version, name) for name in by_name if (version := _version(name, versions))), reverse=True
    )
    checks = 0
    for entry in by_name.values():
        if not entry.skip_range or checks > RANGE_CHECKS:
            continue
        own = _version(entry.name, versions)
        for version, name in newest_first:
            if own is None or version >= own:
                continue
            checks += 1
            if edge_kind(Entry("", skip_range=entry.skip_range), name, version):
                edges.setdefault((name, entry.name), Edge(name, entry.name, "skipRange"))
                break
    return list(edges.values())


def _time_order(
    by_name: Mapping[str, Entry], edges: Sequence[Edge], versions: Mapping[str, Version]
) -> list[str]:
    """Every name once: an edge's source before its target, else by version.

    In a cycle nothing is first: the lowest version of those left is taken, which opens it.
    """
    after: dict[str, list[str]] = {name: [] for name in by_name}
    waiting: Counter[str] = Counter()
    for edge in edges:
        after.setdefault(edge.source, []).append(edge.target)
        waiting[edge.target] += 1
    ages = {name: _age(name, versions) for name in after}
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
    order: Sequence[str], edges: Sequence[Edge], lanes: Mapping[str, int], kept: set[str]
) -> list[list[str]]:
    """Group the time order into nodes: plain runs first, then whatever is old if too many stay."""
    leaves = Counter(edge.source for edge in edges)
    enters = Counter(edge.target for edge in edges)
    plain = {name for name in order if name not in kept and leaves[name] <= 1 and enters[name] <= 1}
    groups = _runs(order, plain, lanes) if len(order) > 2 * FOLD_RUN else [[n] for n in order]
    if len(groups) <= MAX_NODES:
        return groups
    recent = set(order[-MAX_NODES // 2 :])
    return _runs(order, {name for name in order if name not in kept and name not in recent}, {})


def _runs(order: Sequence[str], foldable: set[str], lanes: Mapping[str, int]) -> list[list[str]]:
    """Maximal runs of foldable neighbours that `lanes` doesn't tell apart; short ones stay."""
    runs: list[list[str]] = []
    last: tuple[bool, int] | None = None
    for name in order:
        mark = (name in foldable, lanes.get(name, 0))
        if mark[0] and mark == last:
            runs[-1].append(name)
        else:
            runs.append([name])
        last = mark
    groups: list[list[str]] = []
    for run in runs:
        groups.extend([run] if len(run) >= FOLD_RUN else [[name] for name in run])
    return groups
