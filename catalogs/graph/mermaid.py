"""A channel graph as Mermaid flowchart text, for a README or a ticket.

Every name is a quoted label in which Mermaid's own characters are written as codes, and ids are
generated numbers, so no name can become syntax. Edges: solid for replaces, dotted for skips and
skipRange, each labelled with its kind.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from catalogs.graph.layout import drawn_edges, time_order, with_upgrades
from catalogs.graph.rules import REPLACES, GraphEntry
from catalogs.semver import Version

# as svg.FACTS, which the classes are named after
STYLES = {
    "head": "stroke-width:3px",
    "chosen": "stroke-width:3px",
    "installed": "stroke:#3e8635,stroke-width:4px",
    "deprecated": "fill:#f8e0b0,color:#000",
    "stranded": "stroke:#c9190b,stroke-dasharray:2 2",
    "missing": "stroke-dasharray:5 5",
}
LABEL_LENGTH = 120
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SPECIAL = re.compile(r"[^\w .\-+/:@,… ]")


def mermaid(
    entries: Sequence[GraphEntry],
    versions: Mapping[str, Version],
    *,
    facts: Mapping[str, Collection[str]],
    title: str,
    by_range: Iterable[tuple[str, str]] = (),
) -> str:
    """The whole graph of one channel or several, nothing folded, the oldest entry first.

    `facts` maps keys of STYLES to names; a node's label lists its facts. A skipRange is an edge
    from the newest version that it includes, and those of `by_range`, upgrades as (from, to).
    """
    by_name = {entry.name: entry for entry in entries}
    edges = drawn_edges(entries, by_name, versions)
    order = time_order(by_name, edges, versions)
    sets = {fact: frozenset(facts.get(fact, ())) for fact in STYLES}
    sets["missing"] = frozenset(name for name in order if name not in by_name)
    ids = {name: f"n{number}" for number, name in enumerate(order)}
    lines = ["---", f'title: "{_plain(title)}"', "---", "flowchart LR"]
    for name in order:
        holds = [fact for fact in STYLES if name in sets[fact]]
        shown = "".join(f"<br>({fact})" for fact in holds)
        css = f":::{holds[0]}" if holds else ""
        lines.append(f'  {ids[name]}["{quoted(name)}{shown}"]{css}')
    for edge in with_upgrades(edges, by_range):
        arrow = "-->" if edge.kind == REPLACES else "-.->"
        lines.append(f"  {ids[edge.source]} {arrow}|{edge.kind}| {ids[edge.target]}")
    used = {fact for fact in STYLES if any(name in sets[fact] for name in order)}
    lines += [f"  classDef {fact} {STYLES[fact]}" for fact in STYLES if fact in used]
    return "\n".join(lines) + "\n"


def quoted(name: str) -> str:
    """A name for a quoted label: characters special to Mermaid or HTML are written as #code;."""
    cut = name if len(name) <= LABEL_LENGTH else name[: LABEL_LENGTH - 1] + "…"
    return _SPECIAL.sub(lambda match: f"#{ord(match[0])};", _CONTROL.sub(" ", cut))


def _plain(text: str) -> str:
    """For a YAML string in double quotes, where codes would be shown as they are."""
    return _SPECIAL.sub("", _CONTROL.sub(" ", text))
