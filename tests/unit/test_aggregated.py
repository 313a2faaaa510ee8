"""The aggregated ClusterOperator: its members, what it blocks, where it disagrees."""

import json
from pathlib import Path

from installs.aggregated import Member, disagreement, explain_impact, parse_members
from installs.diagnosis import Condition

ONE = 'encountered the failing etcd platform operator with reason "UnpackFailed"'
OTHER = 'encountered the failing quay platform operator with reason "InstallFailed"'


def test_one_failing_operator_stands_without_brackets() -> None:
    assert parse_members(ONE) == (Member("etcd", "UnpackFailed"),)


def test_several_stand_in_brackets_in_any_order_and_come_out_sorted() -> None:
    expected = (Member("etcd", "UnpackFailed"), Member("quay", "InstallFailed"))
    assert parse_members(f"[{ONE}, {OTHER}]") == expected
    assert parse_members(f"[{OTHER}, {ONE}]") == expected


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
    assert leaves == "It does not block the start of an update to the next minor version."


def test_a_sound_one_blocks_nothing_and_each_condition_blocks_its_own() -> None:
    available, degraded = Condition("Available", "True"), Condition("Degraded", "True")
    assert explain_impact((available,))[0] == "It blocks nothing."
    assert explain_impact((available, degraded))[0] == (
        "It blocks the completion of a running update."
    )
    everything = explain_impact((degraded, Condition("Upgradeable", "False")))
    assert everything[0].endswith("the start of an update to the next minor version.")
    assert everything[1] == "There is nothing that it leaves free."


def test_the_audits_message_equals_its_platform_operators(shared_data: Path) -> None:
    audit = json.loads((shared_data / "audit" / "platform-operators-4.12.json").read_text())
    members = parse_members(audit["clusteroperator"]["message"])
    failing = {
        one["name"] for one in audit["platformoperators"] if one["reason"] != "InstallSuccessful"
    }
    assert len(members) == len(failing) == 44
    assert disagreement(members, failing) == ""
