"""Resolution and catalogs of OLM v0: which catalog, and whose Subscription, is to blame."""

import pytest

from installs.diagnosis.chains import diagnose
from installs.diagnosis.resolution import blamed_catalog, connection_error
from installs.diagnosis.types import Observation
from tests.worlds.observations import (
    NS,
    REFUSED,
    broken,
    catalog,
    conditions,
    csv,
    deployment,
    finding_id,
    installed,
    plan,
    subscription,
)


def test_the_catalog_is_read_from_messages_of_earlier_releases_of_olm() -> None:
    message = (
        "error using catalog community (in namespace olm): failed to list bundles: "
        "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    )
    error = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    assert blamed_catalog(message) == ("olm", "community")
    assert connection_error(message) == ("olm", "community", error)


def test_a_catalog_that_says_ready_and_does_not_answer_is_the_broken_link() -> None:
    subject = subscription(
        ("CatalogSourcesUnhealthy", "False", "AllCatalogSourcesHealthy", "all are healthy"),
        ("ResolutionFailed", "True", "ErrorPreventedResolution", REFUSED),
    )
    diagnosis = diagnose(subject, (catalog("READY"),))
    assert broken(diagnosis) == ("CatalogSource", "community")
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "catalog-says-ready")
    assert diagnosis.message == REFUSED
    assert diagnosis.finding is not None
    command = "kubectl -n olm get pods -l olm.catalogSource=community"
    assert command in diagnosis.finding.remedy


def test_a_dead_catalog_degrades_what_is_installed_and_runs() -> None:
    subject = installed(("ResolutionFailed", "True", "ErrorPreventedResolution", REFUSED))
    diagnosis = diagnose(subject, (catalog("TRANSIENT_FAILURE"), plan(), csv(), deployment()))
    assert diagnosis.health == "Degraded"
    assert finding_id(diagnosis) == "sub-catalog-list-failed"
    assert broken(diagnosis) == ("CatalogSource", "community")


def test_a_catalog_of_others_that_blocks_everybody_joins_the_chain() -> None:
    told = REFUSED.replace("olm/community", "olm/broken")
    subject = subscription(("ResolutionFailed", "True", "ErrorPreventedResolution", told))
    diagnosis = diagnose(subject, (catalog(),))
    assert broken(diagnosis) == ("CatalogSource", "broken")
    assert [link.name for link in diagnosis.chain] == ["etcd", "broken", "community"]
    assert finding_id(diagnosis) == "sub-catalog-list-failed"


@pytest.mark.parametrize(
    ("message", "other"),
    [
        ("constraints not satisfiable: no operators found in package foo in the catalog referenced "
         "by subscription foo, subscription foo exists", "foo"),
        ("constraints not satisfiable: subscription foo requires @existing/shop//foo.v1, bundle "
         "foo.v1 requires an operator with package: bar, subscription foo exists", "foo"),
        ("multiple name matches for status.installedCSV of subscription shop/foo: a, b", "foo"),
        ('no channel heads (entries not replaced by another entry) found in channel "s" of package '
         '"foo"', "the one for package foo"),
    ],
)  # fmt: skip
def test_a_failure_that_names_another_subscription_is_not_this_ones_fault(
    message: str, other: str
) -> None:
    subject = subscription(("ResolutionFailed", "True", "ConstraintsNotSatisfiable", message))
    diagnosis = diagnose(subject, (catalog(),))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Blocked", "other-subscription-blocks")
    assert broken(diagnosis) == ("Subscription", "foo")
    assert diagnosis.message.startswith(
        f"another Subscription of this namespace blocks resolution: {other}"
    )
    running = installed(("ResolutionFailed", "True", "ConstraintsNotSatisfiable", message))
    assert diagnose(running, (catalog(), plan(), csv())).health == "Degraded"


def test_a_failure_that_names_this_subscription_is_its_own() -> None:
    message = (
        "constraints not satisfiable: no operators found in channel beta of package etcd in the "
        "catalog referenced by subscription etcd, subscription etcd exists"
    )
    subject = subscription(("ResolutionFailed", "True", "ConstraintsNotSatisfiable", message))
    diagnosis = diagnose(subject, (catalog(),))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "sub-no-channel")
    assert broken(diagnosis) == ("Subscription", "etcd")


def test_an_empty_catalog_is_the_broken_link() -> None:
    message = (
        "constraints not satisfiable: subscription etcd exists, no operators found from catalog "
        "community in namespace olm referenced by subscription etcd"
    )
    subject = subscription(("ResolutionFailed", "True", "ConstraintsNotSatisfiable", message))
    diagnosis = diagnose(subject, (catalog(),))
    assert broken(diagnosis) == ("CatalogSource", "community")
    assert finding_id(diagnosis) == "sub-no-operators-catalog"


def test_a_broken_version_range_of_some_dependency_is_told() -> None:
    told = ("ResolutionFailed", "True", "ErrorPreventedResolution",
            "Last element in range is '||'")  # fmt: skip
    diagnosis = diagnose(subscription(told), (catalog(),))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "sub-version-range")


def test_a_missing_catalog_is_named_and_shown_as_absent() -> None:
    told = ("CatalogSourcesUnhealthy", "True", "UnhealthyCatalogSourceFound",
            "targeted catalogsource olm/community missing")  # fmt: skip
    diagnosis = diagnose(subscription(told), ())
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "sub-catalog-unhealthy")
    assert broken(diagnosis) == ("CatalogSource", "community")
    assert diagnosis.chain[1].state == "absent"
    degraded = diagnose(installed(told), (plan(), csv(), deployment()))
    assert (degraded.health, broken(degraded)) == ("Degraded", ("CatalogSource", "community"))


def test_an_unhealthy_catalog_of_others_is_the_one_that_is_named() -> None:
    told = ("CatalogSourcesUnhealthy", "True", "CatalogSourcesUpdated", "all are healthy")
    health = [{"namespace": "olm", "name": "community", "healthy": True},
              {"namespace": "olm", "name": "other", "healthy": False}]  # fmt: skip
    diagnosis = diagnose(installed(told, catalog_health=health), (catalog(), plan(), csv()))
    assert (diagnosis.health, broken(diagnosis)) == ("Degraded", ("CatalogSource", "other"))


def test_its_own_catalog_comes_before_others_that_are_unhealthy_too() -> None:
    told = ("CatalogSourcesUnhealthy", "True", "UnhealthyCatalogSourceFound",
            "targeted catalogsource olm/community unhealthy")  # fmt: skip
    health = [{"namespace": "olm", "name": "other", "healthy": False},
              {"namespace": "olm", "name": "community", "healthy": False}]  # fmt: skip
    message = (
        "couldn't ensure registry server - pods is forbidden: exceeded quota: q, "
        "requested: pods=1, used: pods=1, limited: pods=1"
    )
    down = catalog("", reason="RegistryServerError", message=message)
    diagnosis = diagnose(subscription(told, catalog_health=health), (down,))
    assert (broken(diagnosis), finding_id(diagnosis)) == (
        ("CatalogSource", "community"), "api-quota",
    )  # fmt: skip
    quiet = diagnose(subscription(told, catalog_health=health), (catalog(),))
    assert finding_id(quiet) == "sub-catalog-unhealthy"


def test_a_subscription_of_unknown_source_keeps_its_own_words() -> None:
    told = ("CatalogSourcesUnhealthy", "True", "UnhealthyCatalogSourceFound", "unhealthy")
    nameless = Observation("Subscription", NS, "etcd", conditions(told))
    assert broken(diagnose(nameless, ())) == ("Subscription", "etcd")
    alone = diagnose(nameless, (catalog(),))
    assert broken(alone) == ("CatalogSource", "community")


def test_no_catalog_at_all_blocks() -> None:
    told = ("CatalogSourcesUnhealthy", "True", "NoCatalogSourcesFound",
            "dependency resolution requires at least one catalogsource")  # fmt: skip
    diagnosis = diagnose(subscription(told), ())
    assert (diagnosis.health, finding_id(diagnosis)) == ("Blocked", "sub-no-catalogs")


@pytest.mark.parametrize(
    ("details", "health", "finding"),
    [
        ({"state": "TRANSIENT_FAILURE"}, "Failed", "cs-not-connected"),
        ({"state": "", "reason": "SpecInvalidError", "message": "image and address unset: at least "
          "one must be set for sourcetype: grpc"}, "Blocked", "cs-spec-invalid"),
        ({"state": "CONNECTING"}, "Installing", ""),
        ({"state": "CONNECTING", "overdue": True}, "Failed", "cs-not-connected"),
        ({"state": ""}, "Installing", ""),
        ({"state": "", "overdue": True}, "Failed", "cs-no-state"),
    ],
)  # fmt: skip
def test_a_catalog_that_says_what_is_wrong_explains_a_subscription_that_waits(
    details: dict[str, str], health: str, finding: str
) -> None:
    diagnosis = diagnose(subscription(), (catalog(**details),))
    assert (diagnosis.health, finding_id(diagnosis)) == (health, finding)
    if finding:
        assert broken(diagnosis) == ("CatalogSource", "community")
        assert diagnosis.finding is not None
        assert diagnosis.finding.facts["name"] == "community"
