"""What each generation of OLM makes of a channel graph: heads, dead ends and upgrade routes.

The order of preference is the resolvers' own (`v0`, `v1`), edges and routes are `catalogs.graph`'s.
Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catalogs.graph import GraphEntry, heads, successors, v0_candidates
from catalogs.graph.routes import Route, cyclic, find_route, leading_to, next_steps
from catalogs.graph.rules import (
    MOST_EDGES,
    SKIP_RANGE,
    Table,
    TooManyEdges,
    age,
    successor_table,
    v0_fault,
    version_of,
)
from catalogs.resolve import v1
from catalogs.resolve.facts import ResolverBundle, ResolverPackage, listed
from catalogs.semver import Version, VersionRelease, read_version

V0, V1 = "v0", "v1"
SEMANTICS = (V0, V1)
SAME_VERSION = "same version"
CHANNEL = "channel"  # a name for a channel whose name does not matter


@dataclass(frozen=True, slots=True)
class Analysis:
    """A channel, or all together where `channel` is empty, by the rules of one OLM generation.
    `chosen` is the bundle of a new installation or empty; `steps` maps each name to the
    controller's next upgrade; `stranded` are entries without a route to the head (v0: any head; v1:
    the chosen one); `unreachable` those that no entry leads to; `fault` is OLM v0's message about a
    channel that it can't order, which stops all upgrades. A graph that is `too_large` has no known
    edges."""

    semantics: str
    channel: str
    entries: Sequence[GraphEntry]
    versions: Mapping[str, Version]
    heads: Sequence[str]
    chosen: str
    table: Table
    steps: Mapping[str, str]
    stranded: frozenset[str]
    unreachable: frozenset[str]
    fault: str
    too_large: bool = False

    @property
    def orphans(self) -> list[str]:
        """Entries that nothing leads to and that lead nowhere, though others are there."""
        if len(self.names) < 2:
            return []
        return sorted(name for name in self.unreachable if not self.table[name])

    @property
    def circling(self) -> list[str]:
        """Entries that replace or skip each other in a ring."""
        edges: dict[str, list[str]] = {}
        for entry in self.entries:
            for name in (entry.replaces, *entry.skips):
                if name and name != entry.name:
                    edges.setdefault(name, []).append(entry.name)
        return sorted(cyclic(edges))

    @property
    def by_range(self) -> list[tuple[str, str]]:
        """The next upgrades, as (from, to), that a skipRange allows."""
        names = self.names
        return [
            (name, after)
            for name, after in self.steps.items()
            if name in names and self.table[name].get(after) == SKIP_RANGE
        ]

    @property
    def names(self) -> set[str]:
        return {entry.name for entry in self.entries}


def analyse(facts: ResolverPackage, semantics: str, channel: str = "") -> Analysis:
    """`semantics` is V0 or V1; with V0 a channel must be named, with V1 none means all of them."""
    chosen_channels = [channel] if channel else facts.ordered_channels()
    # channels that share a history share most of their entries: each once
    entries = list(
        dict.fromkeys(entry for name in chosen_channels for entry in facts.channels.get(name, ()))
    )
    readable = ((bundle.name, read_version(bundle.version)) for bundle in facts.bundles)
    versions = {name: version for name, version in readable if version is not None}
    names = {entry.name for entry in entries}
    channel_heads = heads(entries)
    fault, too_large = "", False
    try:
        table = successor_table(entries, versions)
        if semantics == V1:
            _add_equals(table, facts, names)
    except TooManyEdges:
        table, too_large = {name: {} for name in names}, True
    if semantics == V0:
        fault = v0_fault(entries, facts.name, channel) if entries else ""
        order = [] if fault or not entries else v0_candidates(entries)
        steps = next_steps(table, order, stays=False)
        goals = channel_heads
        onward: Mapping[str, Sequence[str]] = {name: [after] for name, after in steps.items()}
        stranded = frozenset(names - leading_to(onward, goals))
    else:
        bundles = [bundle for bundle in facts.by_name().values() if bundle.name in names]
        order = [bundle.name for bundle in v1.preference(bundles)]
        steps = next_steps(table, order, stays=True)
        stranded = frozenset(names - leading_to(table, order[:1]))
    if fault or too_large:
        stranded = frozenset()
    entered = names if too_large else {successor for name in names for successor in table[name]}
    return Analysis(
        semantics=semantics,
        channel=channel,
        entries=entries,
        versions=versions,
        heads=channel_heads,
        chosen=order[0] if order else "",
        table=table,
        steps=steps,
        stranded=stranded,
        unreachable=frozenset(names - entered),
        fault=fault,
        too_large=too_large,
    )


def route_to(analysis: Analysis, start: str, goal: str) -> Route:
    """OLM v1 can be pinned to a version, v0 can't: it goes its own steps or nowhere."""
    return find_route(start, goal, analysis.table, analysis.steps, pins=analysis.semantics == V1)


def longest_path(analysis: Analysis) -> list[str]:
    """The bundle from which the controller makes the most upgrades, the newest of several, and the
    bundles that it goes to, in their order. A cycle ends a path."""
    steps = analysis.steps
    depths: dict[str, int] = {}  # number of upgrades from a name
    for start in analysis.names:
        walk: list[str] = []
        visited: dict[str, int] = {}  # position in the walk
        name = start
        while name and name not in depths and name not in visited:
            visited[name] = len(walk)
            walk.append(name)
            name = steps.get(name, "")
        if name in visited:  # each bundle of a cycle is followed by all others
            cycle = walk[visited[name] :]
            depths |= dict.fromkeys(cycle, len(cycle) - 1)
            del walk[visited[name] :]
        depth = depths.get(name, -1)
        for name in reversed(walk):
            depths[name] = depth = depth + 1
    ordered = sorted(analysis.names, key=lambda name: age(name, analysis.versions))
    name = max(reversed(ordered), key=depths.__getitem__, default="")
    path: dict[str, None] = {}
    while name and name not in path:
        path[name] = None
        name = steps.get(name, "")
    return list(path)


def upgrade_path(
    entries: Sequence[GraphEntry], bundles: Sequence[ResolverBundle]
) -> list[str] | None:
    """The longest series of upgrades that OLM v0 makes in a channel with these entries: the
    versions of its bundles, or the name of a bundle without a version. Empty without an upgrade,
    and for a channel that OLM v0 refuses; None for a graph that is too large."""
    analysis = analyse(ResolverPackage("", "", {CHANNEL: entries}, bundles), V0, CHANNEL)
    if analysis.too_large:
        return None
    names = longest_path(analysis)
    versions = {bundle.name: bundle.version for bundle in bundles}
    return [versions.get(name) or name for name in names] if len(names) > 1 else []


def explain_missing_route(analysis: Analysis, facts: ResolverPackage, route: Route) -> list[str]:
    """Sentences about a missing upgrade route: the reason first, then the remedies."""
    if analysis.fault:
        return [f"OLM v0 can't order channel {analysis.channel}: {analysis.fault}."]
    if analysis.too_large:
        return [f"It has more than {MOST_EDGES:,} upgrade edges, which are not followed here."]
    where = f"channel {analysis.channel}" if analysis.channel else "any channel"
    after = analysis.table.get(route.start, {})
    if not after and route.start not in analysis.stranded:
        return [f"{route.start} is the newest there is in {where}: nothing follows it."]
    if not after:
        reasons = [f"{route.start} is stranded: no entry of {where} replaces or skips it."]
    elif analysis.semantics == V0 and route.stop != route.start:
        reasons = [
            f"OLM v0 goes from {route.start} automatically as far as {route.stop} and passes "
            f"{route.goal} by: it always takes the first entry, counted from the channel head, "
            "that replaces or skips the installed one, and no version can be pinned."
        ]
    elif analysis.semantics == V0:
        reasons = [
            f"{route.start} is stranded: what replaces or skips it ({listed(sorted(after))}) is "
            "itself skipped or not on the chain of the head, so OLM v0 does not take it."
        ]
    else:
        reasons = [f"No chain of upgrades of {where} leads from {route.start} to {route.goal}."]
    return reasons + _remedies(analysis, facts, route)


def _remedies(analysis: Analysis, facts: ResolverPackage, route: Route) -> list[str]:
    version = version_of(route.start, analysis.versions)
    channels = []
    for name in facts.ordered_channels() if analysis.channel else ():
        after = successors(facts.channels[name], route.start, version, analysis.versions)
        if name != analysis.channel and after:
            channels.append(f"{name} (to {after[0].name})")
    remedies = [f"Another channel goes on from it: {listed(channels)}."] if channels else []
    if analysis.semantics == V1:
        remedies.append(
            "With spec.source.catalog.upgradeConstraintPolicy: SelfCertified a ClusterExtension "
            "goes to any version; whether that works is for you to test."
        )
    else:
        start = "" if route.goal == analysis.chosen else f" with startingCSV: {route.goal}"
        remedies.append(
            f"Remove it (Subscription and ClusterServiceVersion {route.start}; its custom "
            f"resources stay) and install it anew{start}."
        )
    return remedies


def _add_equals(table: Table, facts: ResolverPackage, names: set[str]) -> None:
    """OLM v1 also considers every bundle of the installed version and release. Raises
    TooManyEdges."""
    equal: dict[VersionRelease, list[str]] = {}
    for bundle in facts.by_name().values():
        release = v1.release_of(bundle)
        if release is not None and bundle.name in names:
            equal.setdefault(release, []).append(bundle.name)
    if sum(len(together) ** 2 for together in equal.values()) > MOST_EDGES:
        raise TooManyEdges
    for together in equal.values():
        for name in together if len(together) > 1 else ():
            for other in together:
                if other != name:
                    table[name].setdefault(other, SAME_VERSION)
