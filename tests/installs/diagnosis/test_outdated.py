"""A failed resolution that is over although OLM v0 still tells of it, and those that are not."""

import pytest

from installs.diagnosis.chains import diagnose
from installs.diagnosis.resolution import existing_csvs
from installs.diagnosis.types import Diagnosis, Observation
from tests.worlds.observations import (
    NS,
    broken,
    catalog,
    csv,
    deployment,
    finding_id,
    installed,
    plan,
)

# As OLM 0.42 writes it while etcd.v1 gives way to etcd.v2.
DURING = (
    "constraints not satisfiable: @existing/shop//etcd.v1 and @existing/shop//etcd.v2 originate "
    "from package etcd, clusterserviceversion etcd.v1 exists and is not referenced by a "
    "subscription, subscription etcd requires @existing/shop//etcd.v2, subscription etcd exists"
)
NEW = {"current_csv": "etcd.v2", "installed_csv": "etcd.v2"}
SECOND = csv(name="etcd.v2", replaces="etcd.v1")


def failed(message: str = DURING, reason: str = "ConstraintsNotSatisfiable") -> tuple[str, ...]:
    return ("ResolutionFailed", "True", reason, message)


def upgraded(
    *around: Observation, told: tuple[str, ...] | None = None, **details: str
) -> Diagnosis:
    subject = installed(told or failed(), **{**NEW, **details})
    parts = (catalog(), plan(csvs=("etcd.v2",)), deployment(), *around)
    return diagnose(subject, parts)


def notes(found: Diagnosis) -> list[str]:
    return [note.id for note in found.notes]


def test_what_the_message_takes_for_existing_is_read_from_it() -> None:
    assert existing_csvs(DURING, NS) == ("etcd.v1", "etcd.v2")
    assert existing_csvs("subscription a requires @existing/other//a.v1", NS) == ()
    assert existing_csvs("subscription a requires community/olm/stable/a.v1", NS) == ()


def test_an_upgrade_that_went_through_is_healthy_with_a_note() -> None:
    found = upgraded(SECOND)
    assert (found.health, finding_id(found), broken(found)) == ("Healthy", "", ("", ""))
    assert notes(found) == ["resolution-failed-before"]
    [note] = found.notes
    assert "etcd.v1 is gone" in note.cause
    assert note.facts["detail"] == DURING.removeprefix("constraints not satisfiable: ")


def test_while_the_old_version_goes_the_upgrade_is_not_over() -> None:
    for phase in ("Replacing", "Deleting"):
        found = upgraded(SECOND, csv(phase, name="etcd.v1"))
        assert (found.health, broken(found)) == ("Upgrading", ("", ""))


def test_an_old_version_that_stays_keeps_the_failure() -> None:
    found = upgraded(SECOND, csv(name="etcd.v1"))
    assert (found.health, finding_id(found)) == ("Degraded", "sub-existing-csv-conflict")
    assert notes(found) == []


def test_one_that_is_not_referenced_and_has_its_subscription_now_is_no_failure() -> None:
    told = (
        "constraints not satisfiable: clusterserviceversion etcd.v2 exists and is not referenced "
        "by a subscription, subscription etcd requires community/olm/stable/etcd.v2"
    )
    found = upgraded(SECOND, told=failed(told))
    assert (found.health, notes(found)) == ("Healthy", ["resolution-failed-before"])
    assert "etcd.v2 has its subscription" in found.notes[0].cause


@pytest.mark.parametrize(
    ("told", "phase", "details"),
    [
        (failed("constraints not satisfiable: no operators found in channel beta of package etcd "
                "in the catalog referenced by subscription etcd"), "Succeeded", {}),
        (failed("constraints not satisfiable: bundle etcd.v3 requires an operator with package: "
                "bar, subscription etcd requires @existing/shop//etcd.v2"), "Succeeded", {}),
        (failed(reason="ErrorPreventedResolution"), "Succeeded", {}),
        (failed(), "Succeeded", {"current_csv": "etcd.v3"}),
        (failed(), "Pending", {}),
    ],
    ids=["of the channel", "of a dependency", "tried again", "another chosen", "not running"],
)  # fmt: skip
def test_a_failure_that_may_be_of_now_is_never_taken_for_over(
    told: tuple[str, ...], phase: str, details: dict[str, str]
) -> None:
    found = upgraded(csv(phase, name="etcd.v2", replaces="etcd.v1"), told=told, **details)
    assert found.health in (("Degraded",) if phase == "Succeeded" else ("Unknown", "Installing"))
    assert "resolution-failed-before" not in notes(found)


def test_a_condition_that_is_not_true_is_worth_no_note() -> None:
    found = upgraded(
        SECOND, told=("ResolutionFailed", "False", "ConstraintsNotSatisfiable", DURING)
    )
    assert (found.health, notes(found)) == ("Healthy", [])


OTHERS = DURING.replace("etcd", "kafka")
LOOKED_FOR = {"conflicting_csvs": "kafka.v1, kafka.v2"}


def test_beside_an_upgrade_of_another_it_is_over_as_soon_as_the_old_version_is_gone() -> None:
    subject = installed(failed(OTHERS), **LOOKED_FOR)
    parts = (catalog(), plan(), csv(), deployment(), csv(name="kafka.v2", replaces="kafka.v1"))
    found = diagnose(subject, parts)
    assert (found.health, notes(found)) == ("Healthy", ["resolution-failed-before"])
    during = diagnose(subject, (*parts, csv("Replacing", name="kafka.v1")))
    assert (during.health, finding_id(during)) == ("Degraded", "other-subscription-blocks")


def test_what_was_not_looked_for_is_not_gone() -> None:
    found = diagnose(installed(failed(OTHERS)), (catalog(), plan(), csv(), deployment()))
    assert (found.health, finding_id(found)) == ("Degraded", "other-subscription-blocks")


def test_what_others_have_running_says_nothing_of_a_subscription_that_has_nothing() -> None:
    subject = installed(failed(OTHERS), current_csv="", installed_csv="", **LOOKED_FOR)
    others = (csv(name="kafka.v1"), csv(name="kafka.v2"))
    found = diagnose(subject, (catalog(), *others))
    assert (found.health, finding_id(found)) == ("Blocked", "other-subscription-blocks")
