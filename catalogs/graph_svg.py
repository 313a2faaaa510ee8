"""Draws a channel graph's Layout as inline SVG text.

Owns shapes, titles and class names; colours and strokes belong to the style sheet. No script, no
style attribute: classes and presentation attributes only, every text escaped. The page puts the
result in a container that scrolls sideways: the SVG keeps its natural width.
Must not know: Django, versions, how the layout was made.

Class names, all in this file:
- `olm-graph`: the svg element.
- `olm-graph-edge` with one of `olm-graph-replaces`, `olm-graph-skips` (dash it),
  `olm-graph-skipRange` (dot it): a group of `olm-graph-line` (path, no fill) and
  `olm-graph-arrow` (filled triangle).
- `olm-graph-node` with one of `olm-graph-entry`, `olm-graph-missing` (named, not in the channel),
  `olm-graph-fold`, and any of `olm-graph-head`, `olm-graph-deprecated`, `olm-graph-skipped` (dash
  the box), `olm-graph-installed`: a group or link of `olm-graph-box` (rect), `olm-graph-label`
  (text), `olm-graph-ring` (rect around an installed one), `olm-graph-cross` (line through a
  deprecated one), `olm-graph-mark` (small text "head" in its box).
"""

from collections.abc import Collection, Mapping
from html import escape
from urllib.parse import urlsplit

from catalogs.graph import NODE_HEIGHT, NODE_WIDTH, Edge, Layout, Node

LABEL_LENGTH = 15  # characters that fit a box; the title holds the whole name
TITLE_NAMES = 12  # names a fold's title lists


def render(
    layout: Layout,
    *,
    links: Mapping[str, str],
    head: str,
    deprecated: Collection[str],
    installed: Collection[str],
    title: str = "Upgrade graph",
    ident: str = "olm-graph",
) -> str:
    """The SVG element as text, safe to mark as such.

    `links` maps entry names to page addresses; only http(s) and addresses on this site are used.
    `title` is the accessible name, `ident` the prefix of ids: give each graph of a page its own.
    With links the role is "group", because children of an "img" are hidden from assistive
    technology and could not be followed; without, it is "img".
    """
    nodes = {node.id: node for node in layout.nodes}
    marked = (head, frozenset(deprecated), frozenset(installed))
    drawn = [_edge(nodes[edge.source], nodes[edge.target], edge, layout) for edge in layout.edges]
    drawn += [_node(node, links, *marked) for node in layout.nodes]
    name = escape(ident, quote=True)
    role = "group" if any(node.id in links for node in layout.nodes) else "img"
    return (
        f'<svg class="olm-graph" role="{role}" aria-labelledby="{name}-title {name}-desc"'
        f' xmlns="http://www.w3.org/2000/svg" width="{layout.width}" height="{layout.height}"'
        f' viewBox="0 0 {layout.width} {layout.height}">'
        f'<title id="{name}-title">{escape(_clean(title))}</title>'
        f'<desc id="{name}-desc">{escape(_describe(layout, head))}</desc>{"".join(drawn)}</svg>'
    )


def _describe(layout: Layout, head: str) -> str:
    noun = "version" if layout.entries == 1 else "versions"
    text = f"{layout.entries} {noun}, oldest on the left"
    return _clean(f"{text}; the head is {head}." if head else f"{text}; there is no single head.")


def _clean(text: str) -> str:
    """Characters that XML 1.0 forbids can't be escaped, so they are replaced."""
    return "".join(
        char
        if char >= " " and not "\ud800" <= char <= "\udfff" and char not in "\x7f\ufffe\uffff"
        else "\ufffd"
        for char in text
    )


def _node(
    node: Node,
    links: Mapping[str, str],
    head: str,
    deprecated: frozenset[str],
    installed: frozenset[str],
) -> str:
    names = node.folded or (node.id,)
    facts = {
        "head": head in names,
        "deprecated": all(name in deprecated for name in names),
        "skipped": node.skipped,
        "installed": any(name in installed for name in names),
    }
    classes = ["olm-graph-node", f"olm-graph-{node.kind}"]
    classes += [f"olm-graph-{fact}" for fact, holds in facts.items() if holds]
    words = [_names(names)] + [fact for fact, holds in facts.items() if holds]
    if node.kind == "missing":
        words.append("not in this channel")
    text = escape(_clean(", ".join(words)), quote=True)
    inside = f"<title>{text}</title>{_shapes(node, facts)}"
    address = _address(links.get(node.id, "")) if node.kind == "entry" else ""
    shared = f'class="{" ".join(classes)}"'
    if not address:
        return f"<g {shared}>{inside}</g>"
    return f'<a {shared} href="{escape(address, quote=True)}" aria-label="{text}">{inside}</a>'


def _names(names: tuple[str, ...]) -> str:
    if len(names) == 1:
        return names[0]
    more = f" and {len(names) - TITLE_NAMES} more" if len(names) > TITLE_NAMES else ""
    return f"{len(names)} versions: {', '.join(names[:TITLE_NAMES])}{more}"


def _shapes(node: Node, facts: Mapping[str, bool]) -> str:
    x, y = node.x, node.y
    label = _clean(node.label)
    if len(label) > LABEL_LENGTH:
        label = label[: LABEL_LENGTH - 1] + "…"
    middle = x + NODE_WIDTH // 2
    shapes = [
        f'<rect class="olm-graph-box" x="{x}" y="{y}" width="{NODE_WIDTH}"'
        f' height="{NODE_HEIGHT}" rx="6"/>'
    ]
    if facts["installed"]:
        shapes.append(
            f'<rect class="olm-graph-ring" x="{x - 4}" y="{y - 4}" width="{NODE_WIDTH + 8}"'
            f' height="{NODE_HEIGHT + 8}" rx="9" fill="none"/>'
        )
    if facts["deprecated"]:
        shapes.append(
            f'<line class="olm-graph-cross" x1="{x + 4}" y1="{y + NODE_HEIGHT - 4}"'
            f' x2="{x + NODE_WIDTH - 4}" y2="{y + 4}"/>'
        )
    lift = 4 if facts["head"] else -4  # the head's box holds a second line
    shapes.append(
        f'<text class="olm-graph-label" x="{middle}" y="{y + NODE_HEIGHT // 2 - lift}"'
        f' text-anchor="middle" font-size="13">{escape(label)}</text>'
    )
    if facts["head"]:
        shapes.append(
            f'<text class="olm-graph-mark" x="{middle}" y="{y + NODE_HEIGHT - 5}"'
            ' text-anchor="middle" font-size="11">head</text>'
        )
    return "".join(shapes)


def _edge(source: Node, target: Node, edge: Edge, layout: Layout) -> str:
    """A straight line where nothing is between, else a curve over lane 0 or under lane 1."""
    right, left = source.x + NODE_WIDTH, target.x
    middle = NODE_HEIGHT // 2
    # an edge back to the left occurs in cycles only
    blocked = left < right or any(
        node.lane == source.lane and source.x < node.x < target.x for node in layout.nodes
    )
    if source.lane == target.lane and (blocked or edge.kind != "replaces"):
        away = -1 if source.lane == 0 else 1
        edge_y = source.y if away < 0 else source.y + NODE_HEIGHT
        peak = edge_y + away * 64
        start, end = source.x + NODE_WIDTH // 2, target.x + NODE_WIDTH // 2
        path = f"M{start} {edge_y}C{start} {peak} {end} {peak} {end} {edge_y + away * 6}"
        tip, base = edge_y, edge_y + away * 7
        arrow = f"{end},{tip} {end - 4},{base} {end + 4},{base}"
    elif source.lane == target.lane:
        y = source.y + middle
        path = f"M{right} {y}H{left - 6}"
        arrow = f"{left},{y} {left - 7},{y - 4} {left - 7},{y + 4}"
    else:
        # through the gap between the lanes, so that no box is crossed
        down = 1 if source.lane < target.lane else -1
        start, end = source.x + NODE_WIDTH // 2, target.x + NODE_WIDTH // 2
        leave = source.y + middle + down * middle
        tip = target.y + middle - down * middle
        bend = (leave + tip) // 2
        path = f"M{start} {leave}C{start} {bend} {end} {bend} {end} {tip - down * 6}"
        arrow = f"{end},{tip} {end - 4},{tip - down * 7} {end + 4},{tip - down * 7}"
    return (
        f'<g class="olm-graph-edge olm-graph-{edge.kind}">'
        f'<path class="olm-graph-line" d="{path}" fill="none"/>'
        f'<polygon class="olm-graph-arrow" points="{arrow}"/></g>'
    )


def _address(url: str) -> str:
    """The link if it is http(s) or a path on this site, else nothing."""
    if any(char <= " " or char == "\\" for char in url):
        return ""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    on_site = url.startswith(("/", "?", "#")) and not url.startswith("//")
    return url if on_site or (parts.scheme in ("http", "https") and parts.netloc) else ""
