"""Definitions, requirements, approvals, usual times, flapping, notes: the pure functions."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from installs.diagnosis.approvals import approval
from installs.diagnosis.chains import diagnose
from installs.diagnosis.evaluate import crd_problem, requirement_rows
from installs.diagnosis.knowledge import finding_for
from installs.diagnosis.notes import USUAL, flaps, stuck, usual_time
from installs.diagnosis.states import STATES, State
from installs.diagnosis.types import Condition, Observation
from tests.worlds.observations import (
    NO_MONITOR,
    NOW,
    NS,
    catalog,
    csv,
    deployment,
    installed,
    missing,
    plan,
    subscription,
)

CRD = "flowcollectors.flows.netobserv.io"
ACCEPTED = Condition("NamesAccepted", "True", "NoConflicts")


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def stamp(minutes: float) -> str:
    return ago(minutes).isoformat().replace("+00:00", "Z")


# CustomResourceDefinitions


def test_a_definition_that_serves_what_it_stores_is_sound() -> None:
    assert crd_problem(CRD, ["v1"], ["v1"], ["v1"], [ACCEPTED]) is None
    assert crd_problem(CRD, ["v1alpha1", "v1"], ["v1alpha1", "v1"], ["v1alpha1", "v1"], ()) is None
    assert crd_problem(CRD, [], [], ["v1"], ()) is None  # not read yet
    making = Condition("Established", "False", "Installing", "the initial names have been accepted")
    assert crd_problem(CRD, ["v1"], ["v1"], ["v1"], [making]) is None


def test_a_stored_version_that_is_not_served_comes_with_its_migration_in_order() -> None:
    problem = crd_problem(CRD, ["v1alpha1", "v1beta2"], ["v1beta2"], ["v1alpha1", "v1beta2"], ())
    assert problem is not None
    finding_id, facts = problem.entry.id, problem.facts
    assert finding_id == "crd-stored-version-unserved"
    assert (facts["crd"], facts["versions"], facts["keep"]) == (CRD, "v1alpha1", "v1beta2")
    finding = finding_for(finding_id, facts, {})
    assert finding is not None
    commands = [step for step in finding.remedy if step.startswith("kubectl")]
    assert commands[1:] == [
        f"kubectl get {CRD} -A -o yaml > objects.yaml",
        "kubectl replace -f objects.yaml",
        f"kubectl patch crd {CRD} --subresource=status --type=merge"
        ' -p \'{"status":{"storedVersions":["v1beta2"]}}\'',
    ]


def test_a_stored_version_that_is_not_defined_comes_first_and_several_left_are_not_guessed() -> (
    None
):
    problem = crd_problem(CRD, ["v2", "v1", "v0"], ["v2", "v1"], ["v0", "v1", "v2", "x"], ())
    assert problem is not None
    finding_id, facts = problem.entry.id, problem.facts
    assert (finding_id, facts["versions"], "keep" in facts) == (
        "crd-stored-version-undefined", "x", False,
    )  # fmt: skip
    finding = finding_for(finding_id, facts, {})
    assert finding is not None
    assert '["<keep>"]' in " ".join(finding.remedy)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (("NamesAccepted", "False", "PluralConflict", '"x" is already in use'),
         "crd-names-conflict"),
        (("Established", "False", "NotAccepted", "not all names are accepted"),
         "crd-names-conflict"),
        (("Established", "False", "Odd", "why"), "crd-not-established"),
        (("Terminating", "True", "InstanceDeletionFailed", "x"), "crd-terminating"),
        (("NonStructuralSchema", "True", "Violations", "spec.versions[0]"), "crd-non-structural"),
    ],
)  # fmt: skip
def test_what_a_definition_itself_complains_of(condition: tuple[str, ...], expected: str) -> None:
    problem = crd_problem(CRD, ["v1"], ["v1"], ["v1"], [ACCEPTED, Condition(*condition)])
    assert problem is not None
    assert (problem.entry.id, problem.facts["crd"]) == (expected, CRD)


# Requirements


def test_requirements_that_are_not_met_come_first_and_causes_before_symptoms() -> None:
    met = {"kind": "CustomResourceDefinition", "name": "a.b", "status": "Present"}
    rules = [{"status": "Satisfied", "message": "a"}, {"status": "NotSatisfied", "message": "b"}]
    account = {"kind": "ServiceAccount", "name": "z", "status": "Present", "dependents": rules}
    crd = missing("CustomResourceDefinition", "c.d", "CRD is not present")
    rows = requirement_rows({"requirements": [met, account, crd]})
    assert [(one.name, one.met) for one in rows] == [("c.d", False), ("z", False), ("a.b", True)]
    assert rows[1].rules == ("b",)
    assert requirement_rows({}) == requirement_rows({"requirements": "x"}) == ()


# Approvals


def steps(*kinds: str) -> list[dict[str, str]]:
    return [{"kind": kind, "name": f"{kind}-{i}".lower()} for i, kind in enumerate(kinds)]


def test_an_approval_lists_every_version_that_it_moves() -> None:
    waiting = plan(
        "RequiresApproval",
        csvs=("etcd.v2", "quay.v1", "helper.v3", "same.v1"),
        approved=False,
        steps=steps("CustomResourceDefinition", "ClusterRole", "ClusterRole", "ServiceAccount"),
        steps_total=4,
    )
    subscriptions = [
        installed(current_csv="etcd.v2"),
        subscription(name="quay", current_csv="quay.v1"),
        subscription(name="same", current_csv="same.v1", installed_csv="same.v1"),
    ]
    result = approval(waiting, subscriptions)
    assert result.needed
    assert [
        (change.csv, change.action, change.subscription, change.replaces)
        for change in result.changes
    ] == [
        ("etcd.v2", "upgrade", "etcd", "etcd.v1"),
        ("quay.v1", "install", "quay", ""),
        ("helper.v3", "dependency", "", ""),
        ("same.v1", "keep", "same", ""),
    ]
    assert [change.csv for change in result.others("etcd")] == ["quay.v1", "helper.v3"]
    assert result.words == "3 operators"
    changes = result.changes
    words = [replace(result, changes=(change,)).words for change in changes]
    assert words == ["upgrade to 2", "install 1", "install 3", ""]
    assert result.crds == ("customresourcedefinition-0",)
    assert result.sentence == (
        "Approving install-1 upgrades etcd.v1 to etcd.v2, installs quay.v1 and installs helper.v3 "
        "as a dependency; it writes 2 ClusterRoles and 1 CustomResourceDefinition."
    )


def test_an_approval_of_a_plan_that_is_cut_or_done_says_so() -> None:
    done = approval(plan("Complete"), ())
    assert not done.needed
    cut = approval(
        plan("RequiresApproval", approved=False, steps=steps("Role"), steps_total=900), ()
    )
    assert cut.cut
    assert cut.sentence.endswith("; it writes at least 1 Role.")
    nothing = approval(plan("RequiresApproval", csvs=(), approved=False), ())
    assert nothing.sentence == "Approving install-1 changes no version."


# Times


def test_a_step_is_stuck_when_it_lasts_longer_than_usual() -> None:
    assert not stuck("ClusterServiceVersion", "InstallWaiting", ago(4), NOW)
    assert stuck("ClusterServiceVersion", "InstallWaiting", ago(6), NOW)
    assert stuck("PlatformOperator", "Deleting", ago(6), NOW)
    assert not stuck("InstallPlan", "RequiresApproval", ago(60 * 24), NOW)
    assert not stuck("ClusterServiceVersion", "InstallWaiting", None, NOW)
    assert usual_time("Widget", "Waiting") is None


def test_only_steps_that_a_controller_writes_and_that_end_have_a_usual_time() -> None:
    ends = {
        State.PROGRESSING,
        State.RETRYING,
        State.DEGRADED,
        State.INFORMATION,
    }
    written = {
        (kind, word)
        for (kind, _, status, reason), state in STATES.items()
        if state in ends
        for word in (status, reason)
    } | {("CatalogSource", state) for state in ("CONNECTING", "TRANSIENT_FAILURE", "IDLE")}
    for (kind, step), (minutes, why) in USUAL.items():
        assert why, (kind, step)
        assert 1 <= minutes <= 60, (kind, step)
        assert kind == "*" or step == "" or (kind, step) in written, (kind, step)


@pytest.mark.parametrize(
    ("healths", "count"),
    [
        ([], 0),
        ([(30, "Healthy")], 0),
        ([(50, "Installing"), (30, "Healthy")], 0),
        ([(50, "Healthy"), (40, "Failed"), (30, "Healthy"), (20, "Degraded")], 3),
        ([(20, "Degraded"), (50, "Healthy"), (30, "Healthy"), (40, "Failed")], 3),
        ([(50, "Healthy"), (40, "Upgrading"), (30, "Healthy")], 0),
        ([(50, "Healthy"), (40, "Upgrading"), (30, "Failed")], 1),
        ([(60 * 30, "Healthy"), (60 * 26, "Failed"), (60, "Healthy")], 1),
        ([(50, "Failed"), (40, "Blocked"), (30, "NeedsApproval")], 0),
    ],
)
def test_flapping_counts_changes_between_working_and_not(
    healths: list[tuple[float, str]], count: int
) -> None:
    assert flaps([(ago(minutes), health) for minutes, health in healths], NOW) == count


# Notes


def notes(subject: Observation, *parts: Observation, now: datetime | None = NOW) -> list[str]:
    return [note.id for note in diagnose(subject, parts, now=now).notes]


def test_a_sound_installation_has_no_notes() -> None:
    assert notes(installed(), catalog(), plan(), csv(), deployment()) == []


def test_a_step_that_takes_long_is_noted_and_the_health_stays() -> None:
    def waiting(minutes: float) -> Observation:
        return csv("Installing", "InstallWaiting", last_update=stamp(minutes))

    assert notes(installed(), catalog(), plan(), waiting(4)) == []
    assert notes(installed(), catalog(), plan(), waiting(42)) == ["step-takes-long"]
    assert notes(installed(), catalog(), plan(), waiting(42), now=None) == []
    diagnosis = diagnose(installed(), (catalog(), plan(), waiting(42)), now=NOW)
    assert diagnosis.health == "Installing"
    assert diagnosis.notes[0].cause.startswith(
        "The ClusterServiceVersion etcd.v1 has been at the same step (InstallWaiting) for 42 min"
    )


def test_a_subscription_that_nobody_answers_is_noted_by_its_age() -> None:
    old = Observation("Subscription", NS, "etcd", created_at=ago(12))
    assert notes(old) == ["step-takes-long"]
    assert notes(Observation("Subscription", NS, "etcd", created_at=ago(2))) == []


def test_an_old_subscription_that_upgrades_is_not_called_slow_for_its_age() -> None:
    old = replace(installed(current_csv="etcd.v2"), created_at=ago(60 * 24 * 90))
    assert diagnose(old, (catalog(), plan(), csv()), now=NOW).health == "Upgrading"
    assert notes(old, catalog(), plan(), csv()) == []


def test_when_we_saw_a_step_begin_counts_more_than_the_clusters_time() -> None:
    """The time of a condition does not move when a failed operator starts again."""
    told = Condition("Installed", "False", "InstallPending", "Waiting", stamp(60 * 24))
    fresh = Observation("PlatformOperator", "", "etcd", (told,), since=ago(1))
    assert notes(fresh) == []
    assert notes(replace(fresh, since=ago(30))) == ["step-takes-long"]


def test_a_platform_operator_that_waits_for_long_is_noted_by_its_conditions_time() -> None:
    told = Condition("Installed", "False", "InstallPending", "Waiting", stamp(20))
    assert notes(Observation("PlatformOperator", "", "etcd", (told,))) == ["step-takes-long"]


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({}, "being-deleted"),
        ({"deleted_at": stamp(2)}, "being-deleted"),
        ({"deleted_at": stamp(30)}, "deletion-takes-long"),
        ({"deleted_at": "yesterday"}, "being-deleted"),
    ],
)
def test_a_deletion_that_waits_for_finalizers_is_noted(
    details: dict[str, Any], expected: str
) -> None:
    subject = Observation("PlatformOperator", "", "etcd", deleting=True, details=details)
    assert notes(subject) == [expected]


def test_a_deprecation_is_a_note_and_no_failure() -> None:
    told = ("ChannelDeprecated", "True", "", "olm.channel/stable: use stable-v2")
    diagnosis = diagnose(installed(told), (catalog(), plan(), csv()), now=NOW)
    assert (diagnosis.health, diagnosis.finding) == ("Healthy", None)
    assert [(note.id, note.facts["message"]) for note in diagnosis.notes] == [
        ("deprecated-entry", "use stable-v2")
    ]
    own_words = Observation(
        "ClusterExtension", "", "etcd",
        (Condition("BundleDeprecated", "True", "Deprecated", "Use v2."),
         Condition("Deprecated", "True", "Deprecated", "Use v2.")),
    )  # fmt: skip
    assert [note.facts["message"] for note in diagnose(own_words, ()).notes] == ["Use v2."]


def test_an_earlier_failure_of_the_plan_is_noted() -> None:
    failed = plan("Failed", ("Installed", "False", "InstallComponentFailed", NO_MONITOR))
    assert notes(installed(), catalog(), failed, csv()) == ["plan-failed-earlier"]


def test_an_operator_that_does_not_allow_its_upgrade_is_noted_while_it_runs() -> None:
    held = Observation(
        "OperatorCondition", NS, "etcd.v1",
        (Condition("Upgradeable", "False", "Migrating", "migration is running"),),
    )  # fmt: skip
    assert notes(installed(), catalog(), plan(), csv(), held) == ["upgrade-held"]
    overrides = [{"type": "Upgradeable", "status": "True"}]
    allowed = replace(held, details={"overrides": overrides})
    assert notes(installed(), catalog(), plan(), csv(), allowed) == []


def test_an_installation_without_a_subscription_is_noted() -> None:
    subject = Observation("ClusterServiceVersion", NS, "etcd.v1")
    assert notes(subject, csv()) == ["csv-without-subscription"]


def test_what_olm_installs_itself_misses_no_subscription() -> None:
    subject = Observation("ClusterServiceVersion", NS, "packageserver")
    assert notes(subject, csv()) == []
