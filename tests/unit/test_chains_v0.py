"""Subscriptions and ClusterServiceVersions: health, and the link that is to blame."""

from typing import Any

import pytest

from installs.diagnosis import Observation, diagnose
from tests.unit.seen import (
    NO_MONITOR,
    NS,
    REFUSED,
    broken,
    catalog,
    csv,
    deployment,
    finding_id,
    installed,
    missing,
    plan,
    pod,
    subscription,
)

NOT_MET = "one or more requirements couldn't be found"
UNSUPPORTED = (
    "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces"
)
NO_ACCOUNT = missing("ServiceAccount", "etcd", "Service account does not exist")
NO_CRD = missing("CustomResourceDefinition", "ghosts.tiny.example", "CRD is not present")


def kinds(subject: Observation, *components: Observation) -> list[tuple[str, str]]:
    return [(link.kind, link.state) for link in diagnose(subject, components).chain]


def test_a_sound_installation_is_healthy_from_top_to_bottom() -> None:
    parts = (catalog(), plan(), csv(), deployment())
    diagnosis = diagnose(installed(), parts)
    assert (diagnosis.health, diagnosis.finding, broken(diagnosis)) == ("Healthy", None, ("", ""))
    assert kinds(installed(), *parts) == [
        ("Subscription", "ok"),
        ("CatalogSource", "ok"),
        ("InstallPlan", "ok"),
        ("ClusterServiceVersion", "ok"),
        ("Deployment", "ok"),
    ]


def test_a_new_subscription_is_being_installed() -> None:
    assert diagnose(subscription(), ()).health == "Installing"
    assert diagnose(subscription(), (catalog(),)).health == "Installing"
    resolved = subscription(current_csv="etcd.v1", plan="install-1")
    assert diagnose(resolved, (catalog(), plan("Installing"))).health == "Installing"
    assert kinds(resolved, catalog()) == [
        ("Subscription", "ok"),
        ("CatalogSource", "ok"),
        ("InstallPlan", "absent"),
        ("ClusterServiceVersion", "absent"),
    ]


def test_the_install_plan_is_the_cause_when_the_csv_misses_what_it_should_have_created() -> None:
    waiting = csv("Pending", "RequirementsNotMet", NOT_MET, requirements=[NO_ACCOUNT])
    failed = plan("Failed", ("Installed", "False", "InstallComponentFailed", NO_MONITOR))
    diagnosis = diagnose(installed(), (catalog(), failed, waiting))
    assert broken(diagnosis) == ("InstallPlan", "install-1")
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "plan-api-missing")
    assert diagnosis.message == NO_MONITOR
    assert diagnosis.finding is not None
    assert "ServiceMonitor etcd-monitor of monitoring.coreos.com/v1" in diagnosis.finding.cause
    retrying = plan("Installing", message=f"retrying execution due to error: {NO_MONITOR}")
    diagnosis = diagnose(installed(), (catalog(), retrying, waiting))
    assert broken(diagnosis) == ("InstallPlan", "install-1")
    assert finding_id(diagnosis) == "plan-api-missing"


def test_a_missing_definition_is_named_before_the_service_account() -> None:
    waiting = csv("Pending", "RequirementsNotMet", NOT_MET, requirements=[NO_ACCOUNT, NO_CRD])
    diagnosis = diagnose(installed(), (catalog(), plan(), waiting))
    assert broken(diagnosis) == ("CustomResourceDefinition", "ghosts.tiny.example")
    assert (diagnosis.health, finding_id(diagnosis)) == ("Blocked", "csv-req-crd-missing")
    assert diagnosis.finding is not None
    assert "kubectl get crd ghosts.tiny.example" in diagnosis.finding.remedy
    assert "kubectl -n shop get csv etcd.v1 -o yaml" in diagnosis.finding.remedy
    last = diagnosis.chain[-1]
    assert (last.kind, last.state, last.namespace) == ("CustomResourceDefinition", "absent", "")


def test_missing_permissions_are_named_with_their_rules() -> None:
    account = missing(
        "ServiceAccount",
        "etcd",
        "Policy rule not satisfied for service account",
        "PresentNotSatisfied",
        dependents=[
            {"kind": "PolicyRule", "status": "Satisfied", "message": "fine"},
            {"kind": "PolicyRule", "status": "NotSatisfied", "message": 'rule:{"verbs":["get"]}'},
        ],
    )
    waiting = csv("Pending", "RequirementsNotMet", NOT_MET, requirements=[account])
    diagnosis = diagnose(installed(), (catalog(), plan(), waiting))
    assert broken(diagnosis) == ("ServiceAccount", "etcd")
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "csv-req-policyrule")
    assert diagnosis.chain[-1].message.endswith('rule:{"verbs":["get"]}')
    assert "fine" not in diagnosis.chain[-1].message


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (missing("Route", "v1", "Native API does not exist"), "csv-req-native-api"),
        (missing("ClusterServiceVersion", "etcd.v1", "CSV version requirement not met: "
                 "minKubeVersion (1.30.0) > server version (1.25.4)"), "csv-req-minkubeversion"),
        (missing("CustomResourceDefinition", "a.b", "CRD version not served"),
         "csv-req-crd-not-served"),
        (missing("Widget", "x", "something new"), "csv-requirements-not-met"),
    ],
)  # fmt: skip
def test_every_kind_of_requirement_has_its_cause(
    requirement: dict[str, str], expected: str
) -> None:
    waiting = csv("Pending", "RequirementsNotMet", NOT_MET, requirements=[requirement])
    diagnosis = diagnose(installed(), (catalog(), plan(), waiting))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Blocked", expected)


def test_a_csv_that_waits_while_its_plan_still_creates_things_is_being_installed() -> None:
    waiting = csv("Pending", "RequirementsNotMet", NOT_MET, requirements=[NO_CRD])
    parts = (catalog(), plan("Installing"), waiting)
    diagnosis = diagnose(installed(), parts)
    assert (diagnosis.health, diagnosis.finding) == ("Installing", None)
    assert ("ClusterServiceVersion", "progressing") in kinds(installed(), *parts)


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


def test_a_plan_that_waits_for_approval_needs_approval() -> None:
    waiting = plan("RequiresApproval", approved=False)
    subject = subscription(
        ("InstallPlanPending", "True", "RequiresApproval"), current_csv="etcd.v1", plan="install-1"
    )
    diagnosis = diagnose(subject, (catalog(), waiting))
    assert (diagnosis.health, diagnosis.reason) == ("NeedsApproval", "RequiresApproval")
    assert broken(diagnosis) == ("InstallPlan", "install-1")
    assert finding_id(diagnosis) == "plan-needs-approval"
    assert "failed" not in {link.state for link in diagnosis.chain}
    assert diagnosis.finding is not None
    assert diagnosis.finding.remedy[-1] == (
        'kubectl -n shop patch installplan install-1 --type merge -p \'{"spec":{"approved":true}}\''
    )


def test_an_approval_that_olm_has_not_seen_yet_is_progress() -> None:
    subject = subscription(current_csv="etcd.v1", plan="install-1")
    diagnosis = diagnose(subject, (catalog(), plan("RequiresApproval", approved=True)))
    assert diagnosis.health == "Installing"


def test_an_upgrade_that_waits_for_approval_leaves_the_running_version_alone() -> None:
    subject = installed(current_csv="etcd.v2", plan="install-2")
    waiting = plan("RequiresApproval", name="install-2", csvs=("etcd.v2",), approved=False)
    diagnosis = diagnose(subject, (catalog(), plan(), waiting, csv(), deployment()))
    assert diagnosis.health == "NeedsApproval"
    assert broken(diagnosis) == ("InstallPlan", "install-2")
    assert "etcd.v2" in diagnosis.message


def test_an_approval_is_seen_even_when_the_plan_itself_can_not_be_read() -> None:
    subject = subscription(
        ("InstallPlanPending", "True", "RequiresApproval"), current_csv="etcd.v1", plan="install-1"
    )
    diagnosis = diagnose(subject, (catalog(),))
    assert (diagnosis.health, finding_id(diagnosis)) == ("NeedsApproval", "plan-needs-approval")


def test_a_plan_that_failed_earlier_does_not_matter_once_its_version_runs() -> None:
    failed = plan("Failed", ("Installed", "False", "InstallComponentFailed", NO_MONITOR))
    subject = installed(("InstallPlanFailed", "True", "InstallComponentFailed", NO_MONITOR))
    diagnosis = diagnose(subject, (catalog(), failed, csv(), deployment()))
    assert (diagnosis.health, diagnosis.finding, broken(diagnosis)) == ("Healthy", None, ("", ""))


def test_a_deleted_plan_does_not_matter_once_its_version_runs() -> None:
    subject = installed(("InstallPlanMissing", "True", "ReferencedInstallPlanNotFound"))
    assert diagnose(subject, (catalog(), csv(), deployment())).health == "Healthy"
    before = subscription(
        ("InstallPlanMissing", "True", "ReferencedInstallPlanNotFound"), plan="install-1"
    )
    diagnosis = diagnose(before, (catalog(),))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "plan-missing")
    assert broken(diagnosis) == ("InstallPlan", "install-1")


def test_of_two_plans_for_one_version_the_one_that_the_subscription_names_counts() -> None:
    first = plan("Failed", ("Installed", "False", "InstallComponentFailed", NO_MONITOR))
    second = plan("Complete", name="install-2", generation=2)
    waiting = csv("Pending", "RequirementsUnknown")
    named = installed(plan="install-2")
    assert diagnose(named, (catalog(), first, second, waiting)).health == "Installing"
    unnamed = installed(plan="")
    diagnosis = diagnose(unnamed, (catalog(), second, first, waiting))
    assert [link.name for link in diagnosis.chain if link.kind == "InstallPlan"] == ["install-2"]


def test_an_operator_group_that_does_not_fit_is_named_with_the_modes_that_would() -> None:
    group = Observation("OperatorGroup", NS, "global", details={"namespaces": [""], "targets": []})
    failed = csv(
        "Failed",
        "UnsupportedOperatorGroup",
        UNSUPPORTED,
        install_modes={"OwnNamespace": True, "SingleNamespace": True, "AllNamespaces": False},
    )
    diagnosis = diagnose(installed(), (catalog(), plan(), failed, group))
    assert (diagnosis.health, diagnosis.message) == ("Blocked", UNSUPPORTED)
    assert broken(diagnosis) == ("ClusterServiceVersion", "etcd.v1")
    assert diagnosis.finding is not None
    assert diagnosis.finding.cause == (
        "The OperatorGroup global selects all namespaces, which needs the install mode "
        "AllNamespaces. The operator supports OwnNamespace, SingleNamespace."
    )
    assert "kubectl -n shop get operatorgroup global -o yaml" in diagnosis.finding.remedy


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        ("NoOperatorGroup", "csv in namespace with no operatorgroups", "csv-no-operatorgroup"),
        ("TooManyOperatorGroups", "csv created in namespace with multiple operatorgroups, can't "
         "pick one automatically", "csv-too-many-operatorgroups"),
        ("InterOperatorGroupOwnerConflict", "intersecting operatorgroups provide the same apis",
         "csv-api-conflict-og"),
        ("OwnerConflict", "conflicting CRD owner in namespace", "csv-owner-conflict"),
    ],
)  # fmt: skip
def test_what_a_person_has_to_settle_blocks(reason: str, message: str, expected: str) -> None:
    diagnosis = diagnose(installed(), (catalog(), plan(), csv("Failed", reason, message)))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Blocked", expected)
    assert broken(diagnosis) == ("ClusterServiceVersion", "etcd.v1")


def test_a_namespace_without_an_operator_group_stops_the_plan() -> None:
    told = ("Installed", "False", "InstallCheckFailed",
            "no operator group found that is managing this namespace")  # fmt: skip
    subject = subscription(current_csv="etcd.v1", plan="install-1")
    diagnosis = diagnose(subject, (catalog(), plan("Installing", told)))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "ip-og-missing")
    assert broken(diagnosis) == ("InstallPlan", "install-1")


def test_an_upgrade_in_progress_is_upgrading() -> None:
    subject = installed(current_csv="etcd.v2", plan="install-2")
    new_plan = plan("Installing", name="install-2", csvs=("etcd.v2",))
    assert diagnose(subject, (catalog(), new_plan, csv(), deployment())).health == "Upgrading"
    old = csv("Replacing", "BeingReplaced", "being replaced by csv: etcd.v2")
    new = csv("Installing", "InstallWaiting", name="etcd.v2", replaces="etcd.v1")
    after = installed(current_csv="etcd.v2", installed_csv="etcd.v2", plan="install-2")
    diagnosis = diagnose(after, (catalog(), plan(name="install-2", csvs=("etcd.v2",)), old, new))
    assert diagnosis.health == "Upgrading"
    assert diagnose(installed(), (catalog(), plan(), old)).health == "Upgrading"


def test_at_latest_known_says_nothing_about_a_version_that_failed() -> None:
    failed = csv("Failed", "InstallComponentFailed", "install strategy failed: forbidden")
    diagnosis = diagnose(installed(state="AtLatestKnown"), (catalog(), plan(), failed))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "csv-install-strategy-failed")
    assert broken(diagnosis) == ("ClusterServiceVersion", "etcd.v1")


def test_a_failed_upgrade_degrades_when_the_old_version_still_runs() -> None:
    old = csv("Replacing", "BeingReplaced")
    new = csv("Failed", "InstallComponentFailed", "install strategy failed: x", name="etcd.v2")
    subject = installed(current_csv="etcd.v2", installed_csv="etcd.v2")
    diagnosis = diagnose(subject, (catalog(), plan(csvs=("etcd.v2",)), old, new))
    assert diagnosis.health == "Degraded"
    assert broken(diagnosis) == ("ClusterServiceVersion", "etcd.v2")


def test_an_operator_that_does_not_allow_its_upgrade_blocks_it() -> None:
    new = csv(
        "Pending",
        "OperatorConditionNotUpgradeable",
        "operator is not upgradeable: the operator is not upgradeable: draining",
        name="etcd.v2",
    )
    subject = installed(current_csv="etcd.v2", installed_csv="etcd.v2")
    diagnosis = diagnose(subject, (catalog(), plan(csvs=("etcd.v2",)), csv("Replacing"), new))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Blocked", "csv-not-upgradeable")


def test_unpacking_is_progress_until_it_names_a_cause() -> None:
    quiet = subscription(("BundleUnpacking", "True", "UnpackingInProgress", ""))
    assert diagnose(quiet, (catalog(),)).health == "Installing"
    told = (
        "unpack job not completed: Unpack pod(olm/abc) container(pull) is pending. Reason: "
        'ImagePullBackOff, Message: Back-off pulling image "x"'
    )
    stuck = subscription(("BundleUnpacking", "True", "UnpackingInProgress", told))
    diagnosis = diagnose(stuck, (catalog(),))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "image-pull-backoff")
    common = "Bundle image pull failed. Common causes: Missing ICSP, auth failure, invalid image."
    stuck = subscription(("BundleUnpacking", "True", "UnpackingInProgress", common))
    assert finding_id(diagnose(stuck, (catalog(),))) == "olmv0-unpack-image-pull"


def test_a_failed_unpack_job_of_the_plan_is_the_plans() -> None:
    lookups = [
        {
            "identifier": "etcd.v1",
            "conditions": [
                {"type": "BundleLookupPending", "status": "True", "reason": "JobIncomplete"},
                {
                    "type": "BundleLookupFailed",
                    "status": "True",
                    "reason": "DeadlineExceeded",
                    "message": "Bundle unpacking failed. Reason: DeadlineExceeded, Message: Job "
                    "was active longer than specified deadline",
                },
            ],
        }
    ]
    subject = subscription(current_csv="etcd.v1", plan="install-1")
    diagnosis = diagnose(subject, (catalog(), plan("Installing", lookups=lookups)))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "olmv0-unpack-deadline")
    assert (broken(diagnosis), diagnosis.reason) == (
        ("InstallPlan", "install-1"), "DeadlineExceeded",
    )  # fmt: skip


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


def test_no_catalog_at_all_blocks() -> None:
    told = ("CatalogSourcesUnhealthy", "True", "NoCatalogSourcesFound",
            "dependency resolution requires at least one catalogsource")  # fmt: skip
    diagnosis = diagnose(subscription(told), ())
    assert (diagnosis.health, finding_id(diagnosis)) == ("Blocked", "sub-no-catalogs")


def test_a_deleted_version_is_not_installed_again_and_that_is_said() -> None:
    diagnosis = diagnose(installed(state="AtLatestKnown"), (catalog(), plan()))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "csv-gone")
    assert broken(diagnosis) == ("ClusterServiceVersion", "etcd.v1")


def test_a_csv_without_a_subscription_is_judged_by_its_own_component() -> None:
    subject = Observation("ClusterServiceVersion", NS, "etcd.v1")
    assert diagnose(subject, (csv(), deployment())).health == "Healthy"
    failed = csv("Failed", "NoOperatorGroup", "csv in namespace with no operatorgroups")
    diagnosis = diagnose(subject, (failed,))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Blocked", "csv-no-operatorgroup")
    assert [link.kind for link in diagnosis.chain] == ["ClusterServiceVersion"]
    down = deployment("False", pods=(pod("CrashLoopBackOff"),))
    diagnosis = diagnose(subject, (csv(), down))
    assert (diagnosis.health, broken(diagnosis)[0]) == ("Degraded", "Pod")


def test_a_phase_that_nobody_knows_is_unknown() -> None:
    diagnosis = diagnose(installed(), (catalog(), plan(), csv("Succeeded", "NewReason", "?")))
    assert (diagnosis.health, diagnosis.message) == ("Unknown", "?")


def test_details_of_any_shape_are_survived() -> None:
    keys = ("requirements", "csvs", "lookups", "pods", "catalog_health", "install_modes", "plan",
            "current_csv", "namespaces")  # fmt: skip
    odd: dict[str, Any] = {key: [1, None, {"conditions": 3}] for key in keys}
    parts = [
        Observation(kind, NS, "x", phase="Pending", details={**odd, "reason": "RequirementsNotMet"})
        for kind in ("CatalogSource", "InstallPlan", "ClusterServiceVersion", "OperatorGroup",
                     "Deployment")
    ]  # fmt: skip
    told = conditions_of_every_type()
    for one in told:
        diagnose(subscription(one, **odd), parts)
    diagnose(Observation("ClusterServiceVersion", NS, "x", details=odd), parts)


def conditions_of_every_type() -> list[tuple[str, str, str, str]]:
    return [
        ("CatalogSourcesUnhealthy", "True", "UnhealthyCatalogSourceFound", ""),
        ("ResolutionFailed", "True", "ConstraintsNotSatisfiable", "constraints not satisfiable"),
        ("InstallPlanFailed", "True", "InstallPlanFailed", ""),
    ]
