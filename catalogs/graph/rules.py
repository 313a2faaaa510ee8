"""opm's rules for a channel and the edges that OLM follows: heads, faults, successors, v0's order.

Every algorithm is iterative: a chain of 10,000 entries or a cycle must not exhaust the stack.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from catalogs.semver import Version, blang_range, blang_spans, read_version

REPLACES, SKIPS, SKIP_RANGE = "replaces", "skips", "skipRange"
Table = dict[str, dict[str, str]]  # installed -> successor -> kind of the edge
MOST_EDGES = 500_000  # of a table; the largest of the community's catalog has 20,503


class TooManyEdges(ValueError):
    """A table would have more than MOST_EDGES: skipRanges that include everything."""


@dataclass(frozen=True, slots=True)
class GraphEntry:
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


def heads(entries: Iterable[GraphEntry]) -> list[str]:
    """Names that no entry replaces or skips, sorted; a valid channel has exactly one.

    As opm's Channel.Head (operator-registry alpha/model/model.go): a skipRange doesn't count.
    """
    entries = tuple(entries)
    superseded = {name for entry in entries for name in (entry.replaces, *entry.skips) if name}
    return sorted({entry.name for entry in entries} - superseded)


def validate(entries: Sequence[GraphEntry]) -> list[str]:
    """opm's first message about the channel; none for a valid channel."""
    if not entries:
        return ["channel must contain at least one bundle"]
    channel_heads = heads(entries)
    if not channel_heads:
        return ["no channel head found in graph"]
    if len(channel_heads) > 1:
        return [f"multiple channel heads found in graph: {', '.join(channel_heads)}"]
    by_name = {entry.name: entry for entry in entries}
    skipped = {name for entry in entries for name in entry.skips}
    chain = {channel_heads[0]: 0}  # name to position, in order
    entry: GraphEntry | None = by_name[channel_heads[0]]
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


def edge_kind(entry: GraphEntry, name: str, version: Version | None) -> str:
    """The kind of edge by which `entry` may follow the installed bundle `name` at `version`, or "".

    A skipRange that can't be read is ignored, as OLM does at run time (operator-controller
    catalogmetadata/filter/successors.go; operator-lifecycle-manager resolver/source_registry.go).
    """
    if name and entry.replaces == name:
        return REPLACES
    if name in entry.skips:
        return SKIPS
    if entry.skip_range and version is not None:
        try:
            return SKIP_RANGE if blang_range(entry.skip_range)(version) else ""
        except ValueError:
            return ""
    return ""


def successors(
    entries: Iterable[GraphEntry],
    name: str,
    version: Version | None,
    versions: Mapping[str, Version],
) -> list[Successor]:
    """Direct upgrades from the installed bundle, highest version first, unknown versions last.

    `versions` maps bundle names to versions and serves the order only. The installed bundle itself
    is never among them.
    """
    kinds = {
        entry.name: kind
        for entry in entries
        if entry.name != name and (kind := edge_kind(entry, name, version))
    }
    ordered = sorted(sorted(kinds), key=lambda name: age(name, versions), reverse=True)
    return [Successor(name, kinds[name]) for name in ordered]


def successor_table(entries: Iterable[GraphEntry], versions: Mapping[str, Version]) -> Table:
    """`successors` of every name at once, by the first rule that allows each, in no order.

    `entries` may be those of several channels: their edges add up. Includes names that entries only
    mention; nothing is its own successor. Raises TooManyEdges.
    """
    entries = tuple(entries)
    names = dict.fromkeys(
        name for entry in entries for name in (entry.name, entry.replaces, *entry.skips) if name
    )
    versioned = sorted((version.key, name) for name in names if (version := versions.get(name)))
    keys = [key for key, _ in versioned]
    table: Table = {name: {} for name in names}
    edges = 0
    for entry in entries:
        edges_of_entry = [(entry.replaces, REPLACES)] if entry.replaces else []
        edges_of_entry += [(name, SKIPS) for name in entry.skips if name]
        if entry.skip_range and keys:
            try:
                spans = blang_spans(entry.skip_range, keys)
            except ValueError:
                spans = []
            edges += sum(high - low for low, high in spans)
            if edges > MOST_EDGES:
                raise TooManyEdges
            for low, high in spans:
                edges_of_entry += [(name, SKIP_RANGE) for _, name in versioned[low:high]]
        for name, kind in edges_of_entry:
            if name != entry.name:
                table[name].setdefault(entry.name, kind)
    return table


def v0_candidates(
    entries: Sequence[GraphEntry], installed: tuple[str, Version | None] | None = None
) -> list[str]:
    """Candidates of a Subscription on this channel, best first, from the replaces chain.

    Skipped entries are left out. With `installed` (name, version) only its direct successors
    remain. Raises ValueError with opm's message unless there is exactly one head.
    """
    channel_heads = heads(entries)
    if len(channel_heads) != 1:
        raise ValueError(validate(entries)[0])
    by_name = {entry.name: entry for entry in entries}
    skipped = {name for entry in entries for name in entry.skips}
    return [
        name
        for name in chain_of(by_name, channel_heads[0])
        if name not in skipped and (installed is None or edge_kind(by_name[name], *installed))
    ]


def v0_fault(entries: Sequence[GraphEntry], package: str, channel: str) -> str:
    """OLM v0's message when it can't order the channel, else "".

    As sortChannel of operator-lifecycle-manager pkg/controller/registry/resolver/resolver.go.
    """
    where = f'in channel "{channel}" of package "{package}"'
    by_name = {entry.name: entry for entry in entries}
    skipped = {name for entry in entries for name in entry.skips}
    chains = []
    for head in heads(entries):
        chain = chain_of(by_name, head)
        if by_name[chain[-1]].replaces in by_name:
            return f'a cycle exists in the chain of replacement beginning with "{head}" {where}'
        left = [name for name in chain if name not in skipped]
        chains.append("...".join(dict.fromkeys((left[0], left[-1]))))
    if not chains:
        return f"no channel heads (entries not replaced by another entry) found {where}"
    if len(chains) == 1:
        return ""
    return (
        "a unique replacement chain within a channel is required to determine the relative order "
        f"between channel entries, but {len(chains)} replacement chains were found {where}: "
        + ", ".join(chains)
    )


def chain_of(by_name: Mapping[str, GraphEntry], head: str) -> list[str]:
    """The replaces chain from `head` down, within the channel; stops at a cycle."""
    chain: dict[str, None] = {}
    entry = by_name.get(head)
    while entry is not None and entry.name not in chain:
        chain[entry.name] = None
        entry = by_name.get(entry.replaces)
    return list(chain)


def version_of(name: str, versions: Mapping[str, Version]) -> Version | None:
    """The version in `versions`, else the one that a name such as etcd.v0.9.4 ends with."""
    return versions.get(name) or read_version(name.partition(".v")[2])


def age(name: str, versions: Mapping[str, Version]) -> tuple[int, Version, str]:
    """Sorts oldest first; names without a version come before all others."""
    version = version_of(name, versions)
    return (0, Version(0, 0, 0), name) if version is None else (1, version, name)
