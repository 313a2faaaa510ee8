"""Mermaid text: one node a name, every edge, and no name that becomes syntax."""

import re

from hypothesis import given
from hypothesis import strategies as st

from catalogs.graph import GraphEntry
from catalogs.graph.mermaid import mermaid, quoted
from catalogs.semver import parse

NODE = re.compile(r'  n\d+\["[^"\[\]<>{}|`]*(?:<br>\(\w+\))*"\](?::::\w+)?')
EDGE = re.compile(r"  n\d+ (?:-->\|replaces\||-\.->\|(?:skips|skipRange)\|) n\d+")
CLASS = re.compile(r"  classDef \w+ [a-z0-9#:,. -]+")


def test_names_edges_and_facts_are_written():
    entries = [
        GraphEntry("p.v1.0.0"),
        GraphEntry("p.v1.1.0", "p.v1.0.0"),
        GraphEntry("p.v1.2.0", "p.v1.1.0", ("p.v0.9.0",), "<1.2.0"),
        GraphEntry("p.v2.0.0", skip_range="<1.1.0"),
    ]
    versions = {item.name: parse(item.name[3:]) for item in entries}
    text = mermaid(
        entries,
        versions,
        facts={"head": {"p.v1.2.0"}, "deprecated": {"p.v1.0.0"}},
        title='Upgrade graph of "p"',
    )
    assert text == (
        "---\n"
        'title: "Upgrade graph of p"\n'
        "---\n"
        "flowchart LR\n"
        '  n0["p.v0.9.0<br>(missing)"]:::missing\n'
        '  n1["p.v1.0.0<br>(deprecated)"]:::deprecated\n'
        '  n2["p.v1.1.0"]\n'
        '  n3["p.v1.2.0<br>(head)"]:::head\n'
        '  n4["p.v2.0.0"]\n'
        "  n1 -->|replaces| n2\n"
        "  n2 -->|replaces| n3\n"
        "  n0 -.->|skips| n3\n"
        "  n1 -.->|skipRange| n4\n"
        "  classDef head stroke-width:3px\n"
        "  classDef deprecated fill:#f8e0b0,color:#000\n"
        "  classDef missing stroke-dasharray:5 5\n"
    )


def test_what_mermaid_or_html_would_read_is_a_code():
    assert quoted('a"b<c>#[d]|`&;') == "a#34;b#60;c#62;#35;#91;d#93;#124;#96;#38;#59;"
    assert quoted("end\nclick n0 call x()") == "end click n0 call x#40;#41;"


@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=5, unique=True))
def test_every_line_is_one_of_ours_whatever_the_names(names):
    entries = [GraphEntry(new, old) for new, old in zip(names, ["", *names], strict=False)]
    text = mermaid(entries, {}, facts={"head": set(names)}, title="".join(names))
    head, _, body = text.partition("flowchart LR\n")
    assert len(head.splitlines()) == 3
    for line in body.splitlines():
        assert NODE.fullmatch(line) or EDGE.fullmatch(line) or CLASS.fullmatch(line), line
