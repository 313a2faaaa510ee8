"""Ways through a graph, and what each generation of OLM makes of one."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogs.graph import GraphEntry, successors
from catalogs.graph.routes import cyclic, find_route, leading_to, next_steps
from catalogs.graph.rules import successor_table
from catalogs.install_methods import InstallMethod
from catalogs.resolve import resolve
from catalogs.resolve.analysis import V0, V1, analyse, explain_missing_route, longest_path, route_to
from catalogs.resolve.facts import ResolverBundle, ResolverPackage
from catalogs.semver import parse

VERSIONS = ("1.0.0", "1.0.1", "1.0.2", "1.1.0", "1.1.1", "1.2.0", "2.0.0")
CHANNEL = [
    GraphEntry("p.v1.0.0"),
    GraphEntry("p.v1.0.1"),
    GraphEntry("p.v1.0.2", "p.v1.0.1"),
    GraphEntry("p.v1.1.0", "p.v1.0.0"),
    GraphEntry("p.v1.1.1", "p.v1.0.0", ("p.v1.1.0", "p.v1.0.2")),
    GraphEntry("p.v1.2.0", "p.v1.1.1", (), ">=1.1.0 <1.2.0"),
    GraphEntry("p.v2.0.0", "p.v1.2.0"),
]


def facts(channels=None, versions=VERSIONS, deprecated=()):
    bundles = [ResolverBundle(f"p.v{item}", item, item in deprecated) for item in versions]
    return ResolverPackage("p", "stable", channels or {"stable": CHANNEL}, bundles)


def told(way):
    return [(hop.source[3:], hop.target[3:], hop.kind, hop.pinned) for hop in way.hops]


def test_each_generation_takes_its_own_steps():
    v0 = route_to(analyse(facts(), V0, "stable"), "p.v1.0.0", "p.v2.0.0")
    assert told(v0) == [
        ("1.0.0", "1.1.1", "replaces", False),
        ("1.1.1", "1.2.0", "replaces", False),
        ("1.2.0", "2.0.0", "replaces", False),
    ]
    assert v0.reached
    v1 = route_to(analyse(facts(), V1), "p.v1.1.0", "p.v2.0.0")
    assert told(v1) == [
        ("1.1.0", "1.2.0", "skipRange", False),
        ("1.2.0", "2.0.0", "replaces", False),
    ]


def test_a_version_between_needs_a_pin_which_only_v1_has():
    pinned = route_to(analyse(facts(), V1), "p.v1.0.0", "p.v1.1.0")
    assert told(pinned) == [("1.0.0", "1.1.0", "replaces", True)]
    assert pinned.pinned
    analysis = analyse(facts(), V0, "stable")
    passed = route_to(analysis, "p.v1.0.0", "p.v1.1.0")
    assert not passed.reached
    reason, way_out = explain_missing_route(analysis, facts(), passed)
    assert reason == (
        "OLM v0 goes from p.v1.0.0 automatically as far as p.v2.0.0 and passes p.v1.1.0 by: it "
        "always takes the first entry, counted from the channel head, that replaces or skips the "
        "installed one, and no version can be pinned."
    )
    assert "startingCSV: p.v1.1.0" in way_out


def test_a_stranded_version_says_why_and_what_helps():
    channels = {"stable": CHANNEL, "bridge": [GraphEntry("p.v1.2.0", "p.v1.0.1")]}
    of = facts(channels)
    analysis = analyse(of, V0, "stable")
    assert analysis.stranded == {"p.v1.0.1"}
    assert analysis.unreachable == {"p.v1.0.0", "p.v1.0.1"}
    sentences = explain_missing_route(analysis, of, route_to(analysis, "p.v1.0.1", "p.v2.0.0"))
    assert "what replaces or skips it (p.v1.0.2) is itself skipped" in sentences[0]
    assert "Another channel goes on from it: bridge (to p.v1.2.0)." in sentences
    assert any("Remove it (Subscription and ClusterServiceVersion p.v1.0.1" in s for s in sentences)
    assert analyse(of, V1).stranded == frozenset()


def test_a_version_without_any_edge_is_stranded_for_v1_unless_it_is_chosen():
    of = facts({"stable": [GraphEntry("p.v1.0.0"), GraphEntry("p.v2.0.0")]})
    analysis = analyse(of, V1)
    assert analysis.orphans == ["p.v1.0.0", "p.v2.0.0"]
    assert analysis.stranded == {"p.v1.0.0"}
    reason, way_out = explain_missing_route(
        analysis, of, route_to(analysis, "p.v1.0.0", "p.v2.0.0")
    )
    assert reason == "p.v1.0.0 is stranded: no entry of any channel replaces or skips it."
    assert "SelfCertified" in way_out


def test_what_follows_may_be_skipped_itself_and_then_v0_does_not_go_there():
    channel = [
        GraphEntry("p.v1.0.0"),
        GraphEntry("p.v1.1.0", "p.v1.0.0"),
        GraphEntry("p.v1.2.0", "", ("p.v1.1.0",)),
    ]
    of = facts({"stable": channel})
    analysis = analyse(of, V0, "stable")
    assert analysis.stranded == {"p.v1.0.0"}
    reason = explain_missing_route(analysis, of, route_to(analysis, "p.v1.0.0", "p.v1.2.0"))[0]
    assert "itself skipped" in reason
    assert not analyse(of, V1).stranded


def test_a_head_is_not_stranded_and_says_that_it_is_the_newest():
    analysis = analyse(facts(), V1)
    assert explain_missing_route(analysis, facts(), route_to(analysis, "p.v2.0.0", "p.v1.0.0")) == [
        "p.v2.0.0 is the newest there is in any channel: nothing follows it."
    ]


def test_v0_moves_nothing_in_a_channel_without_order_and_v1_does():
    channel = [GraphEntry("p.v1.0.0"), GraphEntry("p.v1.1.0", "p.v1.0.0"), GraphEntry("p.v2.0.0")]
    of = facts({"stable": channel})
    analysis = analyse(of, V0, "stable")
    assert analysis.heads == ["p.v1.1.0", "p.v2.0.0"]
    assert (analysis.chosen, analysis.steps, analysis.stranded) == ("", {}, frozenset())
    assert "2 replacement chains were found" in analysis.fault
    route = route_to(analysis, "p.v1.0.0", "p.v1.1.0")
    assert "can't order channel stable" in explain_missing_route(analysis, of, route)[0]
    assert analyse(of, V1).steps == {"p.v1.0.0": "p.v1.1.0"}
    assert analyse(of, V1).stranded == {"p.v1.0.0", "p.v1.1.0"}


def test_v1_stays_rather_than_go_to_a_deprecated_version():
    of = facts(deprecated=("2.0.0",))
    analysis = analyse(of, V1)
    assert analysis.chosen == "p.v1.2.0"
    assert "p.v1.2.0" not in analysis.steps


def test_v1_takes_bundles_of_the_same_version_and_release_for_candidates():
    bundles = [
        ResolverBundle("a", "1.0.0+1"),
        ResolverBundle("b", "1.0.0+1"),
        ResolverBundle("c", "1.0.0"),
    ]
    channels = {"stable": [GraphEntry(item.name) for item in bundles]}
    of = ResolverPackage("p", "stable", channels, bundles)
    assert analyse(of, V1).table["b"] == {"a": "same version"}
    assert resolve(of, InstallMethod.CLUSTER_EXTENSION, installed="b").bundle == "a"


@pytest.mark.parametrize(
    ("skip_range", "build"),
    [(">=0.0.0", lambda i: f"1.0.{i}"), ("", lambda i: "1.0.0")],
    ids=["skipRange", "one version"],
)
def test_edges_beyond_counting_are_not_followed_and_that_is_said(skip_range, build):
    bundles = [ResolverBundle(f"p{i}", build(i)) for i in range(1_000)]
    channels = {"stable": [GraphEntry(item.name, skip_range=skip_range) for item in bundles]}
    of = ResolverPackage("p", "stable", channels, bundles)
    analysis = analyse(of, V1)
    assert analysis.too_large
    assert not any(analysis.table.values())
    assert not analysis.steps
    assert not analysis.stranded
    assert not analysis.unreachable
    (message,) = explain_missing_route(analysis, of, route_to(analysis, "p1", "p2"))
    assert message == "It has more than 500,000 upgrade edges, which are not followed here."
    assert len(analyse(of, V0, "stable").names) == 1_000


def test_a_ring_is_named_and_ways_end():
    ring = [GraphEntry("a", "c"), GraphEntry("b", "a"), GraphEntry("c", "b"), GraphEntry("d", "c")]
    of = facts({"stable": ring})
    analysis = analyse(of, V1)
    assert analysis.circling == ["a", "b", "c"]
    assert not route_to(analysis, "d", "a").reached


names = st.sampled_from(["p.v1.0.0", "p.v1.1.0", "p.v1.2.0", "p.v2.0.0", "p.v3.0.0-rc.1", "odd"])
entry = st.builds(
    GraphEntry,
    names,
    names | st.just("gone"),
    st.lists(names, max_size=3).map(tuple),
    st.sampled_from(["", "<2.0.0", ">=1.0.0 <1.2.0 || 2.0.0", "!=1.1.0", "^1.0.0"]),
)
channel = st.lists(entry, min_size=1, max_size=6, unique_by=lambda each: each.name)


@given(channel)
def test_the_table_of_successors_is_what_is_asked_for_one_by_one(entries):
    names = {name: parse(name[3:]) for name in (e.name for e in entries) if name.startswith("p.v")}
    table = successor_table(entries, names)
    for item in entries:
        result = successors(entries, item.name, names.get(item.name), names)
        assert table[item.name] == {step.name: step.kind for step in result}


@given(channel)
@pytest.mark.parametrize(
    ("semantics", "path"), [(V0, InstallMethod.SUBSCRIPTION), (V1, InstallMethod.CLUSTER_EXTENSION)]
)
def test_every_step_is_the_one_that_the_resolver_takes(semantics, path, entries):
    bundles = [
        ResolverBundle(item.name, item.name[3:], item.name == "p.v1.1.0")
        for item in entries
        if item.name.startswith("p.v")
    ]
    of = ResolverPackage("p", "stable", {"stable": entries}, bundles)
    analysis = analyse(of, semantics, "stable")
    for bundle in bundles:
        if semantics == V0 and "odd" in {item.name for item in entries}:
            continue  # an entry without a bundle: nothing a registry would list
        result = resolve(of, path, channels=["stable"], installed=bundle.name)
        expected = analysis.steps.get(bundle.name, "")
        assert (result.bundle if result.bundle != bundle.name else "") == expected


@given(channel, names, names)
def test_a_way_is_made_of_edges_and_ends_at_its_goal(entries, start, goal):
    table = successor_table(entries, {})
    if start not in table or goal not in table:
        return
    order = sorted(table)
    steps = next_steps(table, order, stays=False)
    route = find_route(start, goal, table, steps, pins=True)
    stops = [route.start, *(hop.target for hop in route.hops)]
    assert all(new in table[old] for old, new in pairwise(stops))
    assert route.reached == (start in leading_to(table, [goal]))
    if route.reached:
        assert stops[-1] == goal
    assert len(set(stops)) == len(stops)


@given(channel)
def test_what_is_on_a_ring_can_reach_itself(entries):
    table = successor_table(entries, {})
    result = cyclic(table)
    for name, after in table.items():
        on_ring = any(name in leading_to(table, [name]) and item in leading_to(table, [name])
                      for item in after)  # fmt: skip
        if on_ring:
            assert name in result


@given(channel)
def test_the_longest_path_has_the_most_steps_that_the_resolver_takes(entries):
    analysis = analyse(facts({"stable": entries}), V0, "stable")
    path = longest_path(analysis)
    assert all(analysis.steps[old] == new for old, new in pairwise(path))
    assert path[0] in analysis.names
    assert analysis.steps.get(path[-1], path[0]) in path
    walks = []
    for start in analysis.names:
        walk, name = {start}, start
        while (name := analysis.steps.get(name, "")) and name not in walk:
            walk.add(name)
        walks.append(walk)
    assert len(path) == max(map(len, walks))


def test_a_cycle_that_a_skip_range_makes_ends_the_longest_path():
    ranged = [
        GraphEntry(f"p.v1.{minor}.0", f"p.v1.{minor - 1}.0" if minor else "", (), "<1.9.0")
        for minor in range(4)
    ]
    versions = [f"1.{minor}.0" for minor in range(4)]
    analysis = analyse(facts({"stable": ranged}, versions), V0, "stable")
    # Every version goes to the head, which goes back to the version before it.
    assert longest_path(analysis) == ["p.v1.1.0", "p.v1.3.0", "p.v1.2.0"]


def test_the_longest_path_begins_at_the_newest_of_several_and_is_quick():
    assert longest_path(analyse(facts(), V0, "stable")) == [
        f"p.v{version}" for version in ("1.0.2", "1.1.1", "1.2.0", "2.0.0")
    ]
    chain = [GraphEntry(f"p{i}", f"p{i - 1}") for i in range(5000)]
    assert len(longest_path(analyse(facts({"stable": chain}), V0, "stable"))) == 5000


def test_thousands_of_entries_in_a_row_or_ring_cost_time_and_no_stack():
    chain = [GraphEntry(f"p{i}", f"p{i - 1}" if i else "p4999") for i in range(5000)]
    table = successor_table(chain, {})
    assert len(cyclic(table)) == 5000
    assert len(leading_to(table, ["p0"])) == 5000
    route = find_route(
        "p0", "p4998", table, next_steps(table, sorted(table), stays=False), pins=False
    )
    assert len(route.hops) == 4998
