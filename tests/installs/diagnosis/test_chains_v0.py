"""Subscriptions and ClusterServiceVersions: health, and the link that is to blame."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from installs.diagnosis.chains import diagnose
from installs.diagnosis.types import Condition, Observation
from tests.worlds.observations import (
    NO_MONITOR,
    NS,
    broken,
    catalog,
    conditions,
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


def test_an_object_whose_kind_could_not_be_read_is_not_called_absent() -> None:
    def unread(*kinds: str) -> Any:
        return lambda: frozenset(kinds)

    new = subscription(current_csv="etcd.v1", plan="install-1")
    links = diagnose(new, (catalog(),), unread=unread("InstallPlan")).chain
    assert [link.state for link in links] == ["ok", "ok", "unknown", "absent"]
    parts = catalog(), plan()
    assert finding_id(diagnose(installed(), parts)) == "csv-gone"
    diagnosis = diagnose(installed(), parts, unread=unread("ClusterServiceVersion"))
    assert (diagnosis.health, diagnosis.finding, broken(diagnosis)) == ("Unknown", None, ("", ""))
    assert diagnosis.message == (
        "the state of clusterserviceversion etcd.v1 is not known: its kind could not be read"
    )
    assert diagnosis.chain[-1].state == "unknown"
    seen_by_olm = ("CatalogSourcesUnhealthy", "False", "AllCatalogSourcesHealthy", "all healthy")
    silent = subscription(seen_by_olm), (catalog(),)
    assert diagnose(*silent).health == "Blocked"
    assert diagnose(*silent, unread=unread("OperatorGroup")).health == "Installing"
    platform = Observation("PlatformOperator", "", "etcd")
    assert diagnose(platform, ()).chain[-1].state == "absent"
    assert diagnose(platform, (), unread=unread("BundleDeployment")).chain[-1].state == "unknown"


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
    owned = "{.spec.customresourcedefinitions.owned[*].name}"
    assert f"kubectl -n shop get csv etcd.v1 -o jsonpath='{owned}'" in diagnosis.finding.remedy
    assert any(
        "find the operator that provides ghosts.tiny.example" in s for s in diagnosis.finding.remedy
    )
    last = diagnosis.chain[-1]
    assert (last.kind, last.state, last.namespace) == ("CustomResourceDefinition", "absent", "")


def test_a_missing_definition_is_named_before_a_new_one_that_is_not_established_yet() -> None:
    new = missing(
        "CustomResourceDefinition",
        "anchors.tiny.example",
        "CRD is present but the Established condition is False (not available)",
        "PresentNotAvailable",
    )
    waiting = csv("Pending", "RequirementsNotMet", NOT_MET, requirements=[new, NO_CRD])
    diagnosis = diagnose(installed(), (catalog(), plan(), waiting))
    assert broken(diagnosis) == ("CustomResourceDefinition", "ghosts.tiny.example")
    assert finding_id(diagnosis) == "csv-req-crd-missing"


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


def test_an_approval_for_the_next_version_does_not_hide_what_is_wrong_with_this_one() -> None:
    subject = installed(current_csv="etcd.v2", plan="install-2")
    waiting = plan("RequiresApproval", name="install-2", csvs=("etcd.v2",), approved=False)
    pending = csv("Pending", "RequirementsNotMet", NOT_MET, requirements=[NO_CRD])
    diagnosis = diagnose(subject, (catalog(), waiting, pending))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Blocked", "csv-req-crd-missing")


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


def group(*told: tuple[str, ...], name: str = "group") -> Observation:
    return Observation("OperatorGroup", NS, name, conditions(*told))


def test_a_subscription_that_waits_in_silence_for_an_operator_group_is_explained() -> None:
    """OLM writes no condition about it: only that the catalogs are well."""
    seen_by_olm = ("CatalogSourcesUnhealthy", "False", "AllCatalogSourcesHealthy", "all healthy")
    diagnosis = diagnose(subscription(seen_by_olm), (catalog(),))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Blocked", "sub-og-count")
    assert diagnosis.reason == "NoOperatorGroup"
    assert broken(diagnosis) == ("Subscription", "etcd")
    assert diagnose(subscription(seen_by_olm), (catalog(), group())).health == "Installing"
    assert diagnose(subscription(), (catalog(),)).health == "Installing"  # OLM has yet to look


def test_two_operator_groups_are_named_although_the_subscription_says_nothing() -> None:
    seen_by_olm = ("CatalogSourcesUnhealthy", "False", "AllCatalogSourcesHealthy", "all healthy")
    told = ("MultipleOperatorGroup", "True", "MultipleOperatorGroupsFound",
            "Multiple OperatorGroup found in the same namespace")  # fmt: skip
    groups = (group(told), group(told, name="second"))
    diagnosis = diagnose(subscription(seen_by_olm), (catalog(), *groups))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Blocked", "og-multiple")
    assert broken(diagnosis) == ("OperatorGroup", "group")
    quiet = diagnose(subscription(seen_by_olm), (catalog(), group(), group(name="second")))
    assert (quiet.health, finding_id(quiet)) == ("Blocked", "sub-og-count")


def test_a_service_account_that_the_operator_group_lacks_blocks() -> None:
    told = ("OperatorGroupServiceAccount", "True", "ServiceAccountNotFound",
            "ServiceAccount sa1 not found")  # fmt: skip
    diagnosis = diagnose(subscription(), (catalog(), group(told)))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Blocked", "og-sa-notfound")


def test_an_upgrade_in_progress_is_upgrading() -> None:
    subject = installed(current_csv="etcd.v2", plan="install-2")
    new_plan = plan("Installing", name="install-2", csvs=("etcd.v2",))
    begun = diagnose(subject, (catalog(), new_plan, csv(), deployment()))
    assert (begun.health, begun.reason) == ("Upgrading", "Installing"), "of the InstallPlan"
    resolved = diagnose(subject, (catalog(), plan("Complete"), csv(), deployment()))
    assert (resolved.health, resolved.reason, resolved.message) == ("Upgrading", "", ""), (
        "InstallSucceeded is about the old version"
    )
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


def test_an_image_that_the_unpack_job_can_not_pull_is_seen_in_the_plan() -> None:
    pending = {"type": "BundleLookupPending", "status": "True", "reason": "JobIncomplete"}
    pulling = pending | {
        "message": "unpack job not completed: Unpack pod(olm/abc) container(pull) is pending. "
        'Reason: ErrImagePull, Message: "x"'
    }
    subject = subscription(current_csv="etcd.v1", plan="install-1")
    quiet = plan("Installing", lookups=[{"conditions": [pending]}])
    assert diagnose(subject, (catalog(), quiet)).health == "Installing"
    stuck = plan("Installing", lookups=[{"conditions": [pending, pulling]}])
    diagnosis = diagnose(subject, (catalog(), stuck))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "olmv0-unpack-image-node")


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


def test_a_deleted_version_is_not_installed_again_and_that_is_said() -> None:
    diagnosis = diagnose(installed(state="AtLatestKnown"), (catalog(), plan()))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "csv-gone")
    assert broken(diagnosis) == ("ClusterServiceVersion", "etcd.v1")
    on_its_way = subscription(current_csv="etcd.v1", plan="install-1")
    assert diagnose(on_its_way, (catalog(), plan())).health == "Installing"


def test_a_version_whose_csv_was_not_seen_yet_is_not_reported_as_deleted() -> None:
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    done = Condition("Installed", "True", "", "", last_transition_time="2026-05-01T11:59:55Z")
    components = (catalog(), replace(plan(), conditions=(done,)))
    subject = installed(state="AtLatestKnown")
    assert diagnose(subject, components, now=now).health == "Installing"
    later = now + timedelta(seconds=6)
    assert finding_id(diagnose(subject, components, now=later)) == "csv-gone"


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
