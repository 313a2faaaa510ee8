"""The drawing of a channel: well-formed, inert, escaped, and it says in words what it shows."""

from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogs.graph import GraphEntry
from catalogs.graph.layout import layout
from catalogs.graph.svg import render

NS = "{http://www.w3.org/2000/svg}"
ENTRIES = [
    GraphEntry("p.v1.2.0", "p.v1.1.0", ("p.v1.1.5",)),
    GraphEntry("p.v1.1.5"),
    GraphEntry("p.v1.1.0", "p.v1.0.0"),
]


def draw(entries=ENTRIES, **kwargs):
    drawing: dict[str, Any] = {"links": {}}
    drawing |= {name: kwargs.pop(name) for name in ("links", "title", "ident") if name in kwargs}
    facts = {"head": {"p.v1.2.0"}} | kwargs
    return render(layout(entries, {}), facts=facts, **drawing)


def classes(svg):
    tree = ElementTree.fromstring(svg)  # noqa: S314 - our own output
    return {
        element.findtext(f"{NS}title", "").split(",")[0]: set(element.get("class", "").split())
        for element in tree.iter()
        if "olm-graph-node" in (element.get("class") or "").split()
    }


def test_each_fact_of_an_entry_is_a_class():
    result = classes(draw(deprecated={"p.v1.1.0"}, installed={"p.v1.1.0"}))

    assert "olm-graph-head" in result["p.v1.2.0"]
    assert "olm-graph-skipped" in result["p.v1.1.5"]
    assert {"olm-graph-deprecated", "olm-graph-installed"} <= result["p.v1.1.0"]
    assert "olm-graph-missing" in result["p.v1.0.0"]
    assert "olm-graph-deprecated" not in result["p.v1.2.0"]


def test_each_kind_of_edge_is_a_class():
    svg = draw([*ENTRIES, GraphEntry("p.v2.0.0", "p.v1.2.0", skip_range="<1.1.7")])

    for kind in ("replaces", "skips", "skipRange"):
        assert f'class="olm-graph-edge olm-graph-{kind}"' in svg


def test_a_drawing_without_links_is_an_image_with_title_and_description():
    svg = draw()

    assert 'role="img" aria-labelledby="olm-graph-title olm-graph-desc"' in svg
    assert "<desc" in svg
    assert "3 versions, oldest on the left; the head is p.v1.2.0." in svg


def test_links_can_be_followed_by_assistive_technology():
    svg = draw(links={"p.v1.2.0": "/b?x=1&y=2"}, ident="stable")

    assert 'role="group"' in svg
    assert 'href="/b?x=1&amp;y=2" aria-label="p.v1.2.0, head"' in svg
    assert 'id="stable-title"' in svg


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        " javascript:alert(1)",
        "java\tscript:alert(1)",
        "data:text/html,x",
        "//evil.example",
        "/\\evil.example",
        "vbscript:x",
        "http://[",
    ],
)
def test_an_address_that_is_no_page_is_no_link(url):
    assert "href" not in draw(links={"p.v1.2.0": url})


def test_a_channel_without_a_single_head_says_so():
    assert "there is no single head" in draw(head="")


@given(
    st.text(min_size=1, max_size=20),
    st.sampled_from(["<script>alert(1)</script>", '"><a onload=x', "]]>", "\x00\ud800", "&lt;"]),
)
def test_hostile_names_are_text_and_nothing_else(text, attack):
    name = text + attack
    svg = draw([GraphEntry(name, attack)], links={name: f"/{text}"}, head=name, title=name)
    tree = ElementTree.fromstring(svg)  # noqa: S314 - our own output

    allowed = {"svg", "title", "desc", "g", "a", "rect", "text", "line", "path", "polygon"}
    for element in tree.iter():
        assert element.tag.removeprefix(NS) in allowed
        assert not any(key == "style" or key.startswith("on") for key in element.attrib)


def test_one_entry_and_no_entry_draw_too():
    assert "1 version, " in draw([GraphEntry("p.v1.2.0")])
    assert "<svg" in draw([], head="")


def test_a_fold_lists_its_first_names_and_counts_the_rest():
    entries = [GraphEntry(f"p.v0.0.{i}", f"p.v0.0.{i - 1}" if i else "") for i in range(40)]
    svg = draw(entries, head="p.v0.0.39", installed={"p.v0.0.20"})

    assert "… 35 versions" in svg
    assert "and 30 more, installed" in svg


def test_a_box_says_its_facts_in_words():
    svg = draw(chosen={"p.v1.2.0"}, stranded={"p.v1.1.5"}, installed={"p.v1.1.0"})

    for words in (">head · chosen<", ">stranded · skipped<", ">installed<"):
        assert words in svg
    assert "p.v1.1.5, stranded: no way to the head, skipped" in svg


def test_the_first_node_of_a_kind_can_be_jumped_to():
    svg = draw(links={"p.v1.2.0": "/x"}, start={"p.v1.0.0"})

    assert svg.count('id="olm-graph-head"') == 1
    assert svg.count('id="olm-graph-start"') == 1


def test_the_way_asked_for_is_marked_even_where_no_edge_is_drawn():
    entries = [GraphEntry(f"p.v0.0.{i}", f"p.v0.0.{i - 1}" if i else "") for i in range(40)]
    route = [("p.v0.0.3", "p.v0.0.30", "skipRange"), ("p.v0.0.30", "p.v0.0.31", "replaces")]
    drawn = layout(entries, {}, route=route)

    assert sorted((e.source, e.target) for e in drawn.edges if e.route) == [
        ("p.v0.0.3", "p.v0.0.30"),
        ("p.v0.0.30", "p.v0.0.31"),
    ]
    svg = render(drawn, links={}, facts={})
    assert svg.count("olm-graph-route") == 2


def test_a_fold_is_a_link_that_opens_it():
    entries = [GraphEntry(f"p.v0.0.{i}", f"p.v0.0.{i - 1}" if i else "") for i in range(90)]
    closed = layout(entries, {})
    fold = next(node for node in closed.nodes if node.folded)
    assert (fold.id, len(fold.folded)) == ("p.v0.0.85", 85)
    svg = render(closed, links={fold.id: "?open=p.v0.0.85"}, facts={})
    assert 'href="?open=p.v0.0.85"' in svg
    assert ", unfold" in svg

    opened = layout(entries, {}, opened=[fold.id, "gone"])
    rest = [node for node in opened.nodes if node.folded]
    assert [len(node.folded) for node in rest] == [45]
    assert "p.v0.0.85" in {node.id for node in opened.nodes if not node.folded}
    assert 'id="olm-graph-opened"' in render(opened, links={}, facts={"opened": {fold.id}})


def test_entries_beside_the_chain_are_stacked_below_it():
    entries = [
        GraphEntry("p.v2.0.0", "p.v1.0.0", tuple(f"p.v1.0.{i}" for i in range(1, 7))),
        *(GraphEntry(f"p.v1.0.{i}") for i in range(7)),
    ]
    places = {node.id: (node.x, node.y) for node in layout(entries, {}).nodes}

    assert places["p.v1.0.0"][1] == places["p.v2.0.0"][1]  # the chain is one line
    assert len({x for x, _ in places.values()}) == 3  # and not one column for each
    assert len(set(places.values())) == len(entries)


def test_a_drawing_that_stands_alone_brings_its_style():
    svg = render(layout(ENTRIES, {}), links={}, facts={}, style=".olm-graph{fill:none}")

    assert "<style>.olm-graph{fill:none}</style>" in svg
    ElementTree.fromstring(svg)  # noqa: S314 - our own output
