"""The aggregated ClusterOperator: its members, what it blocks, where it disagrees."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from installs.diagnosis.aggregated import (
    Member,
    MemberCause,
    PlatformOperatorStatus,
    disagreement,
    explain_aggregated,
    explain_impact,
    parse_members,
    summarize_impact,
)
from installs.diagnosis.types import Condition

ONE = 'encountered the failing etcd platform operator with reason "UnpackFailed"'
OTHER = 'encountered the failing quay platform operator with reason "InstallFailed"'


def test_one_failing_operator_stands_without_brackets() -> None:
    assert parse_members(ONE) == (Member("etcd", "UnpackFailed"),)


def test_several_stand_in_brackets_in_any_order_and_come_out_sorted() -> None:
    expected = (Member("etcd", "UnpackFailed"), Member("quay", "InstallFailed"))
    assert parse_members(f"[{ONE}, {OTHER}]") == expected
    assert parse_members(f"[{OTHER}, {ONE}]") == expected


def test_the_words_of_other_releases_name_the_same_members() -> None:
    one = "platform operator unready: etcd platform operator has UnpackFailed reason"
    other = "platform operator unready: quay platform operator has InstallPending reason"
    expected = (Member("etcd", "UnpackFailed"), Member("quay", "InstallPending"))
    assert parse_members(f"[{one}, {other}]") == expected


def test_other_messages_have_no_members() -> None:
    assert parse_members("All platform operators are in a successful state") == ()
    assert parse_members("") == ()


def test_members_that_agree_with_the_operators_are_no_problem() -> None:
    assert disagreement(parse_members(ONE), {"etcd"}) == ""
    assert disagreement((), set()) == ""


def test_a_disagreement_names_both_sides_and_cuts_long_lists() -> None:
    text = disagreement(parse_members(ONE), {"quay"})
    assert "names etcd" in text
    assert "leaves out quay" in text
    many = disagreement((), {f"op-{i}" for i in range(9)})
    assert "and 4 more" in many


def test_a_failing_operator_blocks_completion_but_not_the_start_of_an_update() -> None:
    blocks, leaves = explain_impact(
        (Condition("Available", "False", "PlatformOperatorError"), Condition("Degraded", "False"))
    )
    assert blocks == (
        "It blocks the completion of a cluster installation and the completion of a running update."
    )
    assert leaves == (
        "While it is unavailable the ClusterVersion is Failing: oc adm upgrade needs "
        "--allow-upgrade-with-warnings."
    )


def test_a_sound_one_blocks_nothing_and_each_condition_blocks_its_own() -> None:
    available, degraded = Condition("Available", "True"), Condition("Degraded", "True")
    assert explain_impact((available,))[0] == "It blocks nothing."
    assert explain_impact((available, degraded))[0] == (
        "It blocks the completion of a running update."
    )
    everything = explain_impact((degraded, Condition("Upgradeable", "False")))
    assert everything[0].endswith("the start of an update to the next minor version.")
    assert everything[1] == "There is nothing that it leaves free."


def test_the_short_line_has_the_same_facts() -> None:
    available, held = Condition("Available", "True"), Condition("Upgradeable", "False")
    assert summarize_impact((available,)) == "Blocks nothing."
    assert summarize_impact((available, held)) == (
        "Completing an installation: not blocked; completing an update: not blocked; starting a "
        "minor version update: blocked."
    )
    gone = Condition("Available", "False")
    assert summarize_impact((gone,)) == (
        "Completing an installation: blocked; completing an update: blocked; starting a minor "
        "version update: not blocked. Meanwhile oc adm upgrade needs "
        "--allow-upgrade-with-warnings."
    )
    assert summarize_impact((held,)) == (
        "Completing an installation: blocked; completing an update: blocked; starting a minor "
        "version update: blocked."
    )


WRITTEN = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
FAILING = (
    Condition("Progressing", "True", "", "", "2026-11-21T12:00:00Z"),
    Condition("Degraded", "False", "", "", "2026-11-21T12:00:00Z"),
    Condition(
        "Available", "False", "PlatformOperatorError", f"[{ONE}, {OTHER}]", "2026-11-21T12:00:00Z"
    ),
)
MEMBERS = parse_members(f"[{ONE}, {OTHER}]")
ETCD = PlatformOperatorStatus(
    "etcd", installed=False, reason="UnpackFailed", cause="AllNamespaces required"
)
QUAY = PlatformOperatorStatus(
    "quay", installed=False, reason="InstallFailed", cause="AllNamespaces required"
)


def test_members_are_grouped_by_our_cause_else_by_their_reason() -> None:
    found = explain_aggregated(FAILING, (*MEMBERS, Member("odd", "SourceFailed")), (ETCD, QUAY))
    assert found.causes == (
        MemberCause("AllNamespaces required", ("etcd", "quay")),
        MemberCause("SourceFailed", ("odd",)),
    )
    blocks, leaves = explain_impact(FAILING)
    assert blocks.startswith("It blocks the completion of a cluster installation")
    assert leaves.startswith("While it is unavailable the ClusterVersion is Failing:")
    assert "Progressing=True does not say that work goes on" in found.remarks[0]


def test_a_message_that_agrees_has_no_age() -> None:
    found = explain_aggregated(
        FAILING, MEMBERS, (ETCD, QUAY, PlatformOperatorStatus("sound", installed=True))
    )
    assert (found.disagreement, found.age) == ("", "")


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (timedelta(minutes=13), "changed 13 minutes after the message was written"),
        (timedelta(hours=3), "The PlatformOperators changed 3 hours after"),
        (timedelta(minutes=-2), "The message was written 2 minutes after the PlatformOperators"),
        (timedelta(days=-2), "The message was written 2 days after"),
        (timedelta(seconds=20), ""),
    ],
)
def test_of_two_that_differ_the_newer_is_named(after: timedelta, words: str) -> None:
    changed = PlatformOperatorStatus(
        "quay", installed=False, reason="UnpackFailed", since=WRITTEN + after
    )
    found = explain_aggregated(FAILING, MEMBERS, (ETCD, changed))
    assert found.disagreement == ""  # same members, another reason
    assert (words in found.age, bool(found.age)) == (True, bool(words))
    recovered = PlatformOperatorStatus("quay", installed=True, since=WRITTEN + after)
    found = explain_aggregated(FAILING, MEMBERS, (ETCD, recovered))
    assert (words in found.age, bool(found.age)) == (True, bool(words))
    assert "names quay" in found.disagreement


def test_a_member_that_only_waits_is_told_apart() -> None:
    waiting = parse_members(
        'encountered the failing etcd platform operator with reason "InstallPending"'
    )
    silent = PlatformOperatorStatus("etcd", installed=False, since=WRITTEN + timedelta(hours=1))
    found = explain_aggregated(FAILING, waiting, (silent,))
    assert "etcd only waits" in found.remarks[1]
    assert found.age == ""  # no condition yet is what InstallPending stands for


def test_without_times_nothing_is_called_older() -> None:
    odd = Condition("Available", "False", "", "", "yesterday")
    gone = PlatformOperatorStatus("quay", installed=True, since=WRITTEN)
    for conditions in ((odd,), ()):
        assert explain_aggregated(conditions, MEMBERS, (ETCD, gone)).age == ""
    assert (
        explain_aggregated(FAILING, MEMBERS, (PlatformOperatorStatus("quay", installed=True),)).age
        == ""
    )


def test_a_sound_cluster_has_nothing_to_explain() -> None:
    sound = (Condition("Available", "True"), Condition("Progressing", "False"))
    found = explain_aggregated(sound, (), (PlatformOperatorStatus("etcd", installed=True),))
    assert (found.causes, found.remarks, found.disagreement) == ((), (), "")
    assert explain_impact(sound)[0] == "It blocks nothing."


@pytest.mark.data
def test_the_audits_message_equals_its_platform_operators(shared_data: Path) -> None:
    audit = json.loads((shared_data / "audit" / "platform-operators-4.12.json").read_text())
    members = parse_members(audit["clusteroperator"]["message"])
    failing = {
        one["name"] for one in audit["platformoperators"] if one["reason"] != "InstallSuccessful"
    }
    assert len(members) == len(failing) == 44
    assert disagreement(members, failing) == ""
