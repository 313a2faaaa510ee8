"""Channel graph: heads, opm's faults, next steps, layout; compared with the reference on data."""

import importlib.util
import json
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogs.graph import GraphEntry, Successor, heads, successors, v0_candidates
from catalogs.graph import validate as validate_channel
from catalogs.graph.layout import MAX_NODES, drawn_edges, layout
from catalogs.semver import Version, blang_range, masterminds_range, parse
from tests.conftest import SHARED

REFERENCE = SHARED / "reference" / "fbc_ref.py"
CATALOG = SHARED / "data" / "catalogs" / "community-4.20.jsonl.xz"


def chain(count):
    return [GraphEntry(f"p.v0.0.{i}", f"p.v0.0.{i - 1}" if i else "") for i in range(count)]


def known(entries):
    return {entry.name: parse(entry.name.split(".v")[1]) for entry in entries}


names = st.sampled_from(["p.v1.0.0", "p.v1.1.0", "p.v1.2.0", "p.v2.0.0", "odd", "gone.v0.1.0"])
entry = st.builds(
    GraphEntry,
    names,
    names | st.just(""),
    st.lists(names, max_size=3).map(tuple),
    st.sampled_from(["", "<2.0.0", ">=1.0.0 <1.2.0", "^1.0.0"]),
)
channel = st.lists(entry, max_size=6, unique_by=lambda each: each.name)


def test_a_head_is_an_entry_that_nothing_replaces_or_skips():
    entries = [
        GraphEntry("c", "b"),
        GraphEntry("b", "a"),
        GraphEntry("a"),
        GraphEntry("d", "a", ("b",)),
    ]

    assert heads(entries) == ["c", "d"]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([], "channel must contain at least one bundle"),
        ([GraphEntry("a", "b"), GraphEntry("b", "a")], "no channel head found in graph"),
        ([GraphEntry("b"), GraphEntry("a")], "multiple channel heads found in graph: a, b"),
        (
            [GraphEntry("h", "a"), GraphEntry("a", "b"), GraphEntry("b", "a")],
            "detected cycle in replaces chain of upgrade graph: a -> b -> a",
        ),
        (
            [
                GraphEntry("h", "a"),
                GraphEntry("a", "", ("x",)),
                GraphEntry("x", "y"),
                GraphEntry("y", "z", ("w",)),
                GraphEntry("w", "y"),
            ],
            "channel contains one or more stranded bundles: y",
        ),
    ],
)
def test_a_faulty_channel_gets_opms_message(entries, message):
    assert validate_channel(entries) == [message]


def test_a_valid_channel_may_replace_and_skip_what_it_does_not_hold():
    assert validate_channel([GraphEntry("b", "a", ("gone",)), GraphEntry("a", "older")]) == []


def test_successors_come_newest_first_with_the_rule_that_allows_them():
    entries = [
        GraphEntry("p.v1.0.0"),
        GraphEntry("p.v1.1.0", "p.v1.0.0"),
        GraphEntry("p.v1.2.0", "p.v1.1.0", ("p.v1.0.0",)),
        GraphEntry("p.v1.3.0", "p.v1.2.0", skip_range=">=1.0.0 <1.3.0"),
        GraphEntry("p.v1.4.0", "p.v1.3.0", skip_range="^1.0.0"),
    ]

    assert successors(entries, "p.v1.0.0", Version(1, 0, 0), known(entries)) == [
        Successor("p.v1.3.0", "skipRange"),
        Successor("p.v1.2.0", "skips"),
        Successor("p.v1.1.0", "replaces"),
    ]
    assert successors(entries, "p.v1.2.0", None, {}) == [Successor("p.v1.3.0", "replaces")]


def test_a_subscription_takes_the_unskipped_entry_nearest_to_the_head():
    entries = [GraphEntry("c", "b", ("b",)), GraphEntry("b", "a"), GraphEntry("a")]

    assert v0_candidates(entries) == ["c", "a"]
    assert v0_candidates(entries, ("b", None)) == ["c"]


def test_a_subscription_has_no_candidates_without_one_head():
    with pytest.raises(ValueError, match="multiple channel heads found in graph: a, b"):
        v0_candidates([GraphEntry("a"), GraphEntry("b")])


@given(channel)
def test_every_layout_holds_each_name_once_and_only_edges_between_its_nodes(entries):
    drawn = layout(entries, {})
    shown = [name for node in drawn.nodes for name in (node.folded or (node.id,))]
    mentioned = {name for item in entries for name in (item.name, item.replaces, *item.skips)}

    assert sorted(shown) == sorted(set(shown))
    assert {item.name for item in entries} <= set(shown) <= mentioned
    ids = {node.id for node in drawn.nodes}
    assert all({edge.source, edge.target} <= ids for edge in drawn.edges)
    assert len({(node.x, node.y) for node in drawn.nodes}) == len(drawn.nodes)
    assert drawn == layout(entries, {})


@given(channel)
def test_every_rule_ends_on_any_channel(entries):
    faults = validate_channel(entries)

    assert len(faults) <= 1
    if not faults:
        assert v0_candidates(entries)[0] == heads(entries)[0]


def test_time_runs_from_left_to_right():
    entries = [
        GraphEntry("p.v1.2.0", "p.v1.1.0"),
        GraphEntry("p.v1.1.0", "p.v1.0.0"),
        GraphEntry("p.v1.0.0"),
    ]
    drawn = layout(entries, known(entries))

    assert [node.label for node in drawn.nodes] == ["1.0.0", "1.1.0", "1.2.0"]
    assert [node.lane for node in drawn.nodes] == [0, 0, 0]
    assert {(edge.source, edge.target, edge.kind) for edge in drawn.edges} == {
        ("p.v1.0.0", "p.v1.1.0", "replaces"),
        ("p.v1.1.0", "p.v1.2.0", "replaces"),
    }


def test_the_order_of_the_entries_changes_nothing():
    entries = chain(30)

    assert layout(entries, known(entries)).nodes == layout(entries[::-1], known(entries)).nodes


def test_skipped_and_absent_entries_are_marked():
    drawn = layout([GraphEntry("p.v2.0.0", "p.v1.0.0", ("p.v1.5.0",)), GraphEntry("p.v1.5.0")], {})

    assert {node.id: (node.kind, node.skipped, node.lane) for node in drawn.nodes} == {
        "p.v1.0.0": ("missing", False, 1),
        "p.v1.5.0": ("entry", True, 2),
        "p.v2.0.0": ("entry", False, 0),
    }


def test_a_skip_range_is_one_edge_from_the_newest_version_it_takes():
    entries = [
        GraphEntry("p.v1.0.0"),
        GraphEntry("p.v1.1.0"),
        GraphEntry("p.v2.0.0", skip_range="<2.0.0"),
    ]
    drawn = layout(entries, known(entries))

    assert [(edge.source, edge.target, edge.kind) for edge in drawn.edges] == [
        ("p.v1.1.0", "p.v2.0.0", "skipRange")
    ]


def test_upgrades_by_a_skip_range_are_drawn_on_one_track_and_change_no_folds():
    entries = chain(90)
    head = entries[-1].name
    by_range = [(item.name, head) for item in entries[:-1]]
    plain = layout(entries, known(entries))
    drawn = layout(entries, known(entries), by_range=by_range)

    assert [node.folded for node in drawn.nodes] == [node.folded for node in plain.nodes]
    added = [edge for edge in drawn.edges if edge.kind == "skipRange"]
    assert {edge.source for edge in added} == {node.id for node in drawn.nodes} - {
        head,
        entries[-2].name,
    }
    assert {(edge.target, edge.track) for edge in added} == {(head, 0)}


@pytest.mark.parametrize("skip_range", ["<99999.0.0", " || ".join([">0.x"] * 70)])
def test_skip_ranges_that_take_every_version_are_drawn_from_the_newest_before_them(skip_range):
    entries = [GraphEntry(f"p.v{i}.0.0", skip_range=skip_range) for i in range(3_000)]
    edges = drawn_edges(entries, {item.name: item for item in entries}, known(entries))
    assert {(edge.source, edge.target) for edge in edges} == {
        (f"p.v{i}.0.0", f"p.v{i + 1}.0.0") for i in range("||" in skip_range, 2_999)
    }


def test_a_long_plain_run_is_one_node_around_what_must_stay_visible():
    entries = chain(42)
    drawn = layout(entries, known(entries), keep={"p.v0.0.20"})

    assert [node.label for node in drawn.nodes] == [
        "0.0.0",
        "… 19 versions",
        "0.0.20",
        "… 17 versions",
        "0.0.38",
        "0.0.39",
        "0.0.40",
        "0.0.41",
    ]


def test_six_hundred_entries_that_skip_each_other_stay_a_readable_drawing():
    entries = [
        GraphEntry(
            f"p.v0.0.{i}", f"p.v0.0.{i - 1}", tuple(f"p.v0.0.{j}" for j in range(i - 9, i - 1))
        )
        for i in range(10, 610)
    ]
    drawn = layout(entries, known(entries))

    assert 1 < len(drawn.nodes) <= MAX_NODES
    assert sum(len(node.folded) or 1 for node in drawn.nodes) >= 600


def test_absent_names_are_not_counted_as_versions_of_the_channel():
    skips = tuple(f"p.v1.0.{i}" for i in range(20))
    drawn = layout([GraphEntry("p.v2.0.0", "", skips)], {})

    assert drawn.entries == 1
    assert [(node.kind, node.label) for node in drawn.nodes][:2] == [
        ("missing", "1.0.0"),
        ("missing", "… 16 absent"),
    ]


def test_an_empty_channel_has_an_empty_layout():
    assert layout([], {}).nodes == ()


@pytest.mark.parametrize("cyclic", [False, True])
def test_ten_thousand_entries_in_a_row_or_a_ring_are_no_problem(cyclic):
    entries = chain(10_000)
    if cyclic:
        entries[0] = GraphEntry("p.v0.0.0", "p.v0.0.9999")
    else:
        assert len(v0_candidates(entries)) == 10_000

    assert len(layout(entries, {}).nodes) < 20
    assert validate_channel(entries) == (["no channel head found in graph"] if cyclic else [])


def test_a_ring_below_the_head_is_named_whole():
    entries = [*chain(3000), GraphEntry("p.v9.0.0", "p.v0.0.2999")]
    entries[0] = GraphEntry("p.v0.0.0", "p.v0.0.2999")

    assert validate_channel(entries)[0].count(" -> ") == 3000


def reference_module():
    spec = importlib.util.spec_from_file_location("fbc_reference", REFERENCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.data
@pytest.mark.skipif(
    not (REFERENCE.exists() and CATALOG.exists()), reason="the real catalogs are not beside us"
)
def test_rules_agree_with_the_reference_on_every_real_channel():
    reference = reference_module()
    channels, versions = [], {}
    with lzma.open(CATALOG) as lines:
        for line in lines:
            blob = json.loads(line)
            if blob["schema"] == "olm.channel":
                channels.append(blob)
            elif blob["schema"] == "olm.bundle":
                values = [p["value"] for p in blob["properties"] if p["type"] == "olm.package"]
                versions[blob["name"]] = parse(values[0]["version"])
    assert len(channels) > 80
    for blob in channels:
        raw = blob["entries"]
        entries = [
            GraphEntry(
                item["name"],
                item.get("replaces") or "",
                tuple(item.get("skips") or ()),
                item.get("skipRange") or "",
            )
            for item in raw
        ]
        assert [reference.validate_channel(raw)] == heads(entries)
        assert validate_channel(entries) == []
        for item in entries:
            version = versions[item.name]
            old = reference.parse(str(version))
            expected = {
                other["name"]
                for other in raw
                if other["name"] != item.name and reference.is_successor(other, item.name, old)
            }
            result = {step.name for step in successors(entries, item.name, version, versions)}
            assert result == expected
            assert v0_candidates(entries, (item.name, version)) == reference.v0_candidates(
                raw, (item.name, str(version))
            )
            if item.skip_range:
                ours, theirs = blang_range(item.skip_range), reference.blang_range(item.skip_range)
                assert all(
                    ours(versions[other.name]) == theirs(reference.parse(str(versions[other.name])))
                    for other in entries
                )
            assert masterminds_range(str(version))(version)
