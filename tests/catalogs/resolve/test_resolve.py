"""What each controller would choose, in its words, and why not another."""

import pytest

from catalogs.graph import GraphEntry
from catalogs.install_methods import InstallMethod
from catalogs.resolve import BadQuestion, read_method, resolve
from catalogs.resolve.facts import ResolverBundle, ResolverPackage
from catalogs.resolve.platform_operator import pick


def facts(*, bundles=None, channels=None, default="stable"):
    """Chain 1.0.0 <- 1.1.0 <- 1.2.0 in stable, 2.0.0-rc.1 alone in beta."""
    versions = ("1.0.0", "1.1.0", "1.2.0", "2.0.0-rc.1")
    bundles = bundles or [ResolverBundle(f"p.v{each}", each) for each in versions]
    channels = channels or {
        "stable": [
            GraphEntry("p.v1.0.0"),
            GraphEntry("p.v1.1.0", "p.v1.0.0"),
            GraphEntry("p.v1.2.0", "p.v1.1.0"),
        ],
        "beta": [GraphEntry("p.v2.0.0-rc.1", "p.v1.2.0")],
    }
    return ResolverPackage("p", default, channels, bundles)


def codes(found):
    return {each.bundle: each.code for each in found.candidates}


def test_each_path_chooses_by_its_own_rule():
    assert {path: resolve(facts(), path).bundle for path in InstallMethod} == {
        InstallMethod.PLATFORM_OPERATOR: "p.v2.0.0-rc.1",
        InstallMethod.CLUSTER_EXTENSION: "p.v2.0.0-rc.1",
        InstallMethod.SUBSCRIPTION: "p.v1.2.0",
    }


def test_an_extension_takes_the_highest_that_channel_and_range_leave():
    found = resolve(facts(), InstallMethod.CLUSTER_EXTENSION, channels=["stable"], version="<1.2.0")
    assert (found.bundle, found.channel, found.blocked_by) == ("p.v1.1.0", "stable", "")
    assert codes(found) == {
        "p.v1.1.0": "",
        "p.v1.0.0": "order",
        "p.v2.0.0-rc.1": "channel",
        "p.v1.2.0": "range",
    }
    assert found.candidates[0].chosen
    reasons = {each.bundle: each.reason for each in found.candidates}
    assert reasons["p.v2.0.0-rc.1"] == "in beta, not in stable"
    assert reasons["p.v1.2.0"] == "outside the range <1.2.0"
    assert reasons["p.v1.0.0"] == "lower version than 1.1.0"


def test_only_the_head_is_called_so():
    subscription = InstallMethod.SUBSCRIPTION
    head = resolve(facts(), subscription, channels=["stable"])
    assert head.reason.startswith("p.v1.2.0: the head of channel stable.")
    older = resolve(facts(), subscription, channels=["stable"], version="1.1.0")
    assert older.reason.startswith(
        "p.v1.1.0: the first entry, counted from the head of channel stable, that is in the range "
        "1.1.0."
    )


def test_an_extension_moves_along_edges_only():
    found = resolve(facts(), InstallMethod.CLUSTER_EXTENSION, installed="p.v1.0.0")
    assert found.bundle == "p.v1.1.0"
    assert codes(found)["p.v1.2.0"] == "successor"
    held = resolve(
        facts(), InstallMethod.CLUSTER_EXTENSION, installed="p.v1.2.0", channels=["stable"]
    )
    assert held.bundle == "p.v1.2.0"
    assert "p.v1.2.0 stays" in held.reason


def test_a_range_that_nothing_fits_has_the_controllers_words():
    found = resolve(
        facts(),
        InstallMethod.CLUSTER_EXTENSION,
        version=">=3",
        channels=["stable", "beta"],
        installed="p.v1.0.0",
    )
    assert (found.bundle, found.blocked_by) == ("", "range")
    assert found.message == (
        'error upgrading from currently installed version "1.0.0": no bundles found for package '
        '"p" matching version ">=3" in channels [beta stable]'
    )


def test_a_pre_release_needs_a_range_that_names_one():
    found = resolve(facts(), InstallMethod.CLUSTER_EXTENSION, version=">=1.2.0")
    assert found.bundle == "p.v1.2.0"
    reasons = {each.bundle: each.reason for each in found.candidates}
    assert "a pre-release: >=1.2.0 names none" in reasons["p.v2.0.0-rc.1"]
    assert (
        resolve(facts(), InstallMethod.CLUSTER_EXTENSION, version=">=1.2.0-0").bundle
        == "p.v2.0.0-rc.1"
    )


def test_deprecated_bundles_come_last_and_dependencies_end_it():
    bundles = [
        ResolverBundle("p.v1.0.0", "1.0.0"),
        ResolverBundle("p.v1.1.0", "1.1.0", deprecated=True),
        ResolverBundle("p.v1.2.0", "1.2.0", True, ("olm.gvk.required", "olm.constraint")),
    ]
    found = resolve(facts(bundles=bundles), InstallMethod.CLUSTER_EXTENSION)
    assert found.bundle == "p.v1.0.0"
    assert codes(found)["p.v1.2.0"] == "deprecated"
    refused = resolve(facts(bundles=bundles), InstallMethod.CLUSTER_EXTENSION, version=">1.1.0")
    assert (refused.bundle, refused.blocked_by) == ("", "dependency")
    assert refused.message == (
        'validating bundle "p.v1.2.0": bundle "p.v1.2.0" has a dependency declared via property '
        '"olm.gvk.required" which is currently not supported'
    )


def test_build_metadata_is_a_release_for_an_extension_and_nothing_for_the_others():
    bundles = [ResolverBundle(f"p.v1.0.0-{each}", f"1.0.0+{each}") for each in ("2", "10", "1")]
    channels = {"stable": [GraphEntry(each.name) for each in bundles]}
    of = facts(bundles=bundles, channels=channels)
    assert resolve(of, InstallMethod.CLUSTER_EXTENSION).bundle == "p.v1.0.0-10"
    found = resolve(of, InstallMethod.PLATFORM_OPERATOR)
    assert found.bundle == "p.v1.0.0-1"  # the first in the registry's order
    assert "same version as" in found.candidates[1].reason


def test_a_subscription_takes_the_next_step_nearest_to_the_head():
    channel = [
        GraphEntry("p.v1.0.0"),
        GraphEntry("p.v1.1.0", "p.v1.0.0"),
        GraphEntry("p.v1.2.0", "p.v1.1.0", ("p.v1.1.5",), ">=1.0.0 <1.1.0"),
        GraphEntry("p.v1.1.5", "p.v1.0.0"),
    ]
    versions = ("1.0.0", "1.1.0", "1.1.5", "1.2.0")
    bundles = [ResolverBundle(f"p.v{each}", each) for each in versions]
    of = facts(bundles=bundles, channels={"stable": channel})
    found = resolve(of, InstallMethod.SUBSCRIPTION, installed="p.v1.0.0")
    assert found.bundle == "p.v1.2.0"
    first = "the first entry, counted from the head of channel stable, that replaces or skips"
    assert found.reason == f"p.v1.2.0: {first} p.v1.0.0."
    assert codes(found) == {
        "p.v1.2.0": "",
        "p.v1.1.0": "order",
        "p.v1.0.0": "successor",
        "p.v1.1.5": "skipped",
    }
    assert "skipped by p.v1.2.0" in {each.reason for each in found.candidates}
    stays = resolve(of, InstallMethod.SUBSCRIPTION, installed="p.v1.2.0")
    assert (stays.bundle, stays.blocked_by) == ("p.v1.2.0", "")
    narrow = resolve(of, InstallMethod.SUBSCRIPTION, installed="p.v1.0.0", version="<1.2.0")
    assert narrow.reason == f"p.v1.1.0: {first} p.v1.0.0 and is in the range <1.2.0."


def test_a_stranded_subscription_says_so():
    channels = {"stable": [GraphEntry("p.v1.2.0")], "old": [GraphEntry("p.v1.0.0")]}
    found = resolve(facts(channels=channels), InstallMethod.SUBSCRIPTION, channels=["stable"],
                    installed="p.v1.0.0")  # fmt: skip
    assert (found.bundle, found.blocked_by) == ("", "successor")
    assert "stranded" in found.reason


@pytest.mark.parametrize(
    ("channel", "message"),
    [
        (
            [GraphEntry("a", "b"), GraphEntry("b", "a")],
            "no channel heads (entries not replaced by another entry) found in channel "
            '"stable" of package "p"',
        ),
        (
            [GraphEntry("c", "b"), GraphEntry("b"), GraphEntry("d")],
            "a unique replacement chain within a channel is required to determine the relative "
            "order between channel entries, but 2 replacement chains were found in channel "
            '"stable" of package "p": c...b, d',
        ),
        (
            [GraphEntry("h", "a"), GraphEntry("a", "b"), GraphEntry("b", "a")],
            'a cycle exists in the chain of replacement beginning with "h" in channel "stable" of '
            'package "p"',
        ),
    ],
)
def test_a_channel_without_order_stops_a_subscription(channel, message):
    found = resolve(facts(channels={"stable": channel}), InstallMethod.SUBSCRIPTION)
    assert (found.bundle, found.blocked_by, found.message) == ("", "channel-graph", message)
    assert "startingCSV" in found.reason


def test_a_platform_operator_is_sourced_once():
    found = resolve(facts(), InstallMethod.PLATFORM_OPERATOR, installed="p.v1.0.0")
    assert found.bundle == "p.v1.0.0"
    assert "never upgraded. One made anew would take p.v2.0.0-rc.1." in found.reason


def test_a_platform_operator_ignores_what_it_can_not_ask_for():
    found = resolve(facts(), InstallMethod.PLATFORM_OPERATOR, version="<1.0.0")
    assert found.bundle == "p.v2.0.0-rc.1"
    assert "a PlatformOperator can't ask for a version" in found.reason
    other = resolve(facts(), InstallMethod.PLATFORM_OPERATOR, channels=["stable"])
    assert "a PlatformOperator can't ask for a channel" in other.reason


def test_a_first_bundle_without_a_version_is_never_replaced():
    unread, sound = ResolverBundle("a", "one"), ResolverBundle("b", "2.0.0")
    assert pick([unread, sound]) == unread
    assert pick([sound, unread]) == sound


@pytest.mark.parametrize("path", InstallMethod)
def test_a_package_without_bundles_is_answered(path):
    empty = ResolverPackage("p", "", {}, [])
    found = resolve(empty, path)
    assert (found.bundle, found.blocked_by) == ("", "no-bundles")
    assert found.message


@pytest.mark.parametrize(
    ("path", "asked", "field"),
    [
        (InstallMethod.CLUSTER_EXTENSION, {"version": "newest"}, "version"),
        (InstallMethod.CLUSTER_EXTENSION, {"version": ">=1.0.0 " * 10}, "version"),
        (InstallMethod.SUBSCRIPTION, {"version": "^1.0.0"}, "version"),
        (InstallMethod.PLATFORM_OPERATOR, {"version": "~1"}, "version"),
        (InstallMethod.SUBSCRIPTION, {"channels": ["a", "b"]}, "channel"),
        (InstallMethod.SUBSCRIPTION, {"installed": "nothing"}, "installed"),
    ],
)
def test_what_can_not_be_read_is_named(path, asked, field):
    with pytest.raises(BadQuestion) as raised:
        resolve(facts(), path, **asked)
    assert raised.value.field == field


def test_a_bundle_that_the_catalog_no_longer_has_is_read_by_its_name():
    channel = {"stable": [GraphEntry("p.v1.2.0", skip_range=">=1.0.0 <1.2.0")]}
    of = facts(channels=channel)
    assert resolve(of, InstallMethod.SUBSCRIPTION, installed="p.v1.0.7").bundle == "p.v1.2.0"
    assert resolve(of, InstallMethod.CLUSTER_EXTENSION, installed="p.v1.0.7").bundle == "p.v1.2.0"


def test_an_install_method_is_read_in_any_case():
    spellings = ("Subscription", "subscription", " SUBSCRIPTION ")
    assert {read_method(text) for text in spellings} == {InstallMethod.SUBSCRIPTION}
    with pytest.raises(
        BadQuestion, match='"helm" is no install method: use PlatformOperator, '
    ) as raised:
        read_method("helm")
    assert raised.value.field == "path"
