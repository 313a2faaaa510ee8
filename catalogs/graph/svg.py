"""Draws a channel graph's Layout as inline SVG text.

Shapes, titles and class names are here; colours and strokes belong to the style sheet. No script,
no style attribute: classes and presentation attributes only, every text escaped. The page puts the
result in a container that scrolls sideways: the SVG keeps its natural width.

Class names, all in this file:
- `olm-graph`: the svg element.
- `olm-graph-edge` with one of `olm-graph-replaces`, `olm-graph-skips` (dash it),
  `olm-graph-skipRange` (dot it), and `olm-graph-route` on the requested route (draw it thick): a
  group of `olm-graph-line` (path, no fill) and `olm-graph-arrow` (path of filled triangles), with
  all edges of these classes.
- `olm-graph-node` with one of `olm-graph-entry`, `olm-graph-missing` (named, not in the channel),
  `olm-graph-fold`, and `olm-graph-FACT` for each fact of FACTS that holds: a group or link of
  `olm-graph-box` (rect), `olm-graph-label` (text), `olm-graph-ring` (rect around an installed
  one), `olm-graph-cross` (line through a deprecated one), `olm-graph-mark` (small text that repeats
  the facts without colour).
"""

from collections.abc import Collection, Iterable, Mapping
from html import escape
from urllib.parse import urlsplit

from catalogs.graph.layout import COLUMN, LANE, NODE_HEIGHT, NODE_WIDTH, TRACK, Edge, Layout, Node
from catalogs.graph.rules import REPLACES, SKIP_RANGE, SKIPS

LABEL_LENGTH = 15  # characters that fit a box; the title holds the whole name
MARK_LENGTH = 20
TITLE_NAMES = 5  # names a fold's title lists
# fact -> what a title says; the first ones come first in the box, too
FACTS = {
    "head": "head",
    "chosen": "would be chosen",
    "installed": "installed",
    "start": "from here",
    "goal": "to here",
    "stranded": "stranded: no way to the head",
    "unreachable": "no other version leads here",
    "deprecated": "deprecated",
    "skipped": "skipped",
}
# For an SVG that stands alone; the page's own sheet has its themes
STANDALONE_STYLE = (
    ".olm-graph{font-family:sans-serif;background:#fff}"
    ".olm-graph-box{fill:#fff;stroke:#6a6e73}.olm-graph-head .olm-graph-box{stroke-width:2.5}"
    ".olm-graph-missing .olm-graph-box,.olm-graph-fold .olm-graph-box{stroke:#d2d2d2}"
    ".olm-graph-skipped .olm-graph-box{stroke-dasharray:5 3}"
    ".olm-graph-deprecated .olm-graph-box,.olm-graph-cross{stroke:#b34d00}"
    ".olm-graph-stranded .olm-graph-box{stroke:#b1380b;stroke-dasharray:2 2}"
    ".olm-graph-line{stroke:#6a6e73}.olm-graph-arrow{fill:#6a6e73}"
    ".olm-graph-skips .olm-graph-line{stroke-dasharray:5 4}"
    ".olm-graph-skipRange .olm-graph-line{stroke-dasharray:1 4;stroke-width:2;stroke-linecap:round}"
)
_SHORT = {"chosen": "chosen", "start": "from", "goal": "to", "stranded": "stranded"}
_GAP = (COLUMN - NODE_WIDTH) // 2
_AISLE = (LANE - NODE_HEIGHT) // 2
# kinds that share an aisle run beside each other
_BESIDE = {REPLACES: 0, SKIPS: 5, SKIP_RANGE: -5}


def render(
    layout: Layout,
    *,
    links: Mapping[str, str],
    facts: Mapping[str, Collection[str]],
    title: str = "Upgrade graph",
    ident: str = "olm-graph",
    style: str = "",
) -> str:
    """The SVG element as text, safe to mark as such. `links` maps entry names (of a fold: its
    newest) to addresses; only http(s) and addresses on this site are used. `facts` maps a fact of
    FACTS to the names for which it holds. `title` is the accessible name, `ident` the prefix of
    ids, unique on a page; the first head, chosen, opened or start node has the id `IDENT-FACT`.
    `style` is our style sheet of a standalone SVG. The role is "group" with links, as children of
    an "img" can't be followed by assistive technology, else "img"."""
    nodes = {node.id: node for node in layout.nodes}
    sets = {fact: frozenset(facts.get(fact, ())) for fact in (*FACTS, "opened")}
    name = escape(ident, quote=True)
    ids: dict[str, str] = {}
    for node in reversed(layout.nodes):
        for fact in ("head", "chosen", "start", "opened"):
            if fact not in ids.values() and not sets[fact].isdisjoint(node.folded or (node.id,)):
                ids.setdefault(node.id, fact)
    drawn = _edges(nodes, layout.edges)
    drawn += [
        _node(node, links, sets, f' id="{name}-{ids[node.id]}"' if node.id in ids else "")
        for node in layout.nodes
    ]
    role = "group" if any(node.id in links for node in layout.nodes) else "img"
    sheet = f"<style>{style}</style>" if style else ""
    return (
        f'<svg class="olm-graph" role="{role}" aria-labelledby="{name}-title {name}-desc"'
        f' xmlns="http://www.w3.org/2000/svg" width="{layout.width}" height="{layout.height}"'
        f' viewBox="0 0 {layout.width} {layout.height}">{sheet}'
        f'<title id="{name}-title">{escape(_clean(title))}</title>'
        f'<desc id="{name}-desc">{escape(_describe(layout, sorted(sets["head"])))}</desc>'
        f"{''.join(drawn)}</svg>"
    )


def _describe(layout: Layout, heads: list[str]) -> str:
    noun = "version" if layout.entries == 1 else "versions"
    text = f"{layout.entries} {noun}, oldest on the left"
    if len(heads) == 1:
        return _clean(f"{text}; the head is {heads[0]}.")
    return _clean(f"{text}; there is no single head.")


def _clean(text: str) -> str:
    """Characters that XML 1.0 forbids can't be escaped, so they are replaced."""
    return "".join(
        char
        if char >= " " and not "\ud800" <= char <= "\udfff" and char not in "\x7f\ufffe\uffff"
        else "\ufffd"
        for char in text
    )


def _node(
    node: Node, links: Mapping[str, str], sets: Mapping[str, frozenset[str]], ident: str
) -> str:
    names = node.folded or (node.id,)
    holds = [fact for fact in FACTS if _holds(fact, node, names, sets)]
    classes = ["olm-graph-node", f"olm-graph-{node.kind}"]
    classes += [f"olm-graph-{fact}" for fact in holds]
    words = [_names(names)] + [FACTS[fact] for fact in holds]
    address = _address(links.get(node.id, "")) if node.kind != "missing" else ""
    if node.kind == "missing":
        words.append("not in this channel")
    if node.kind == "fold" and address:
        words.append("unfold")
    text = escape(_clean(", ".join(words)), quote=True)
    inside = f"<title>{text}</title>{_shapes(node, holds)}"
    shared = f'class="{" ".join(classes)}"{ident}'
    if not address:
        return f"<g {shared}>{inside}</g>"
    return f'<a {shared} href="{escape(address, quote=True)}" aria-label="{text}">{inside}</a>'


def _holds(
    fact: str, node: Node, names: tuple[str, ...], sets: Mapping[str, frozenset[str]]
) -> bool:
    if fact == "skipped":
        return node.skipped
    if fact in ("deprecated", "stranded", "unreachable"):
        return sets[fact].issuperset(names)
    return not sets[fact].isdisjoint(names)


def _names(names: tuple[str, ...]) -> str:
    if len(names) == 1:
        return names[0]
    more = f" and {len(names) - TITLE_NAMES} more" if len(names) > TITLE_NAMES else ""
    return f"{len(names)} versions: {', '.join(names[:TITLE_NAMES])}{more}"


def _shapes(node: Node, holds: list[str]) -> str:
    x, y = node.x, node.y
    label = _clean(node.label)
    if len(label) > LABEL_LENGTH:
        label = label[: LABEL_LENGTH - 1] + "…"
    middle = x + NODE_WIDTH // 2
    radius = NODE_HEIGHT // 2 if node.kind == "fold" else 6
    shapes = [
        f'<rect class="olm-graph-box" x="{x}" y="{y}" width="{NODE_WIDTH}"'
        f' height="{NODE_HEIGHT}" rx="{radius}"/>'
    ]
    if "installed" in holds:
        shapes.append(
            f'<rect class="olm-graph-ring" x="{x - 4}" y="{y - 4}" width="{NODE_WIDTH + 8}"'
            f' height="{NODE_HEIGHT + 8}" rx="9" fill="none"/>'
        )
    if "deprecated" in holds:
        shapes.append(
            f'<line class="olm-graph-cross" x1="{x + 4}" y1="{y + NODE_HEIGHT - 4}"'
            f' x2="{x + NODE_WIDTH - 4}" y2="{y + 4}"/>'
        )
    mark = _mark(holds)
    lift = 3 if mark else -4  # the box of a marked one holds a second line
    shapes.append(
        f'<text class="olm-graph-label" x="{middle}" y="{y + NODE_HEIGHT // 2 - lift}"'
        f' text-anchor="middle" font-size="13">{escape(label)}</text>'
    )
    if mark:
        shapes.append(
            f'<text class="olm-graph-mark" x="{middle}" y="{y + NODE_HEIGHT - 6}"'
            f' text-anchor="middle" font-size="11">{mark}</text>'
        )
    return "".join(shapes)


def _mark(holds: list[str]) -> str:
    """As many facts as a box has room for; what lines, crosses and dashes say comes last."""
    mark = ""
    for fact in holds:
        word = _SHORT.get(fact, fact)
        longer = f"{mark} · {word}" if mark else word
        if fact != "unreachable" and len(longer) <= MARK_LENGTH:
            mark = longer
    return mark


def _edges(nodes: Mapping[str, Node], edges: Iterable[Edge]) -> list[str]:
    """A group for each kind of edge, on the route and off it: many edges are a short text then.
    Edges of one skipRange from one lane join the longest of them."""
    groups: dict[str, list[tuple[str, str]]] = {}
    longest: set[tuple[str, int]] = set()  # target, lane of the source
    for edge in sorted(edges, key=lambda edge: nodes[edge.source].x):
        classes = f"olm-graph-{edge.kind}{' olm-graph-route' if edge.route else ''}"
        source, target = nodes[edge.source], nodes[edge.target]
        key = (edge.target, source.lane)
        ranged = edge.kind == SKIP_RANGE and not edge.route and source.x < target.x
        drawn = _edge(source, target, edge, joins=ranged and key in longest)
        if ranged:
            longest.add(key)
        groups.setdefault(classes, []).append(drawn)
    return [
        f'<g class="olm-graph-edge {classes}">'
        f'<path class="olm-graph-line" d="{"".join(line for line, _ in drawn)}" fill="none"/>'
        f'<path class="olm-graph-arrow" d="{"".join(arrow for _, arrow in drawn)}"/></g>'
        for classes, drawn in groups.items()
    ]


def _edge(source: Node, target: Node, edge: Edge, *, joins: bool) -> tuple[str, str]:
    """The paths of its line and of its arrow: straight to a neighbour, over lane 0 on the edge's
    track, else through the aisles. One that joins another ends on it, without an arrow."""
    middle = NODE_HEIGHT // 2
    right, left = source.x + NODE_WIDTH, target.x
    neighbours = target.x - source.x == COLUMN
    if source.lane == target.lane == 0 and not (neighbours and edge.kind == REPLACES):
        start = source.x + NODE_WIDTH // 2 + 6
        end = target.x + NODE_WIDTH // 2 - 6
        height = TRACK * (edge.track + 1)
        points = [(start, source.y), (start, source.y - height), (end, source.y - height)]
        if joins:
            return _rounded(points[:2]), ""
        tip, down = (end, target.y), True
    elif source.lane == target.lane and neighbours:
        points, tip, down = [(right, source.y + middle)], (left, target.y + middle), False
    else:
        beside = _BESIDE[edge.kind]
        out, into = right + _GAP + beside, left - _GAP + beside
        points = [(right, source.y + middle), (out, source.y + middle)]
        if out != into:
            lower = max(source.y, target.y)
            aisle = lower - _AISLE + beside
            if joins:
                return _rounded([*points, (out, aisle)]), ""
            points += [(out, aisle), (into, aisle)]
        points.append((into, target.y + middle))
        tip, down = (left, target.y + middle), False
    x, y = tip
    points.append((x, y - 6) if down else (x - 6, y))
    arrow = f"M{x} {y}l-4-7h8z" if down else f"M{x} {y}l-7-4v8z"
    return _rounded(points), arrow


def _rounded(points: list[tuple[int, int]]) -> str:
    """A path of straight pieces along the axes with small round corners."""
    x, y = points[0]
    path = [f"M{x} {y}"]
    for position in range(1, len(points) - 1):
        (ax, ay), (bx, by), (cx, cy) = points[position - 1 : position + 2]
        first = min(5, (abs(bx - ax) + abs(by - ay)) // 2)
        second = min(5, (abs(cx - bx) + abs(cy - by)) // 2)
        enter = (bx - _sign(bx - ax) * first, by - _sign(by - ay) * first)
        leave = (bx + _sign(cx - bx) * second, by + _sign(cy - by) * second)
        path.append(f"L{enter[0]} {enter[1]}Q{bx} {by} {leave[0]} {leave[1]}")
    x, y = points[-1]
    return "".join(path) + f"L{x} {y}"


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


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
