"""From conditions to health, chain and finding: the tables as data, the audit as a whole."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from installs.diagnosis.chains import assess, deprecations, diagnose
from installs.diagnosis.states import STATES, State, class_of
from installs.diagnosis.types import Condition, Observation, read_conditions

ALL_NAMESPACES = (
    "convert registry+v1 bundle to plain+v0 bundle: AllNamespace install mode must be enabled"
)
OWNED = (
    "rendered manifests contain a resource that already exists. Unable to continue with install: "
    'Namespace "openshift-operators" in namespace "" exists and cannot be imported into the '
    "current release: invalid ownership metadata; label validation error: missing key "
    '"app.kubernetes.io/managed-by": must be set to "Helm"; annotation validation error: missing '
    'key "meta.helm.sh/release-name": must be set to "web-terminal"; annotation validation error: '
    'missing key "meta.helm.sh/release-namespace": must be set to "openshift-platform-operators"'
)


def seen(kind: str, *conditions: tuple[str, ...], name: str = "etcd") -> Observation:
    """An object with conditions given as (type, status, reason, message)."""
    return Observation(kind, "", name, tuple(Condition(*one) for one in conditions))


def platform_operator(*conditions: tuple[str, ...]) -> Observation:
    return seen("PlatformOperator", *conditions)


@pytest.mark.parametrize(
    ("conditions", "health"),
    [
        ([("Installed", "True", "InstallSuccessful")], "Healthy"),
        ([("Installed", "False", "UnpackFailed", ALL_NAMESPACES)], "Failed"),
        ([("Installed", "False", "InstallFailed", OWNED)], "Failed"),
        ([("Installed", "False", "SourceFailed", "x: failed to run sourcing logic")], "Failed"),
        ([("Installed", "False", "UnpackPending", "Waiting for the bundle to be unpacked")],
         "Installing"),
        ([("Installed", "False", "InstallPending", "Waiting")], "Installing"),
        ([], "Installing"),
        ([("Installed", "False", "SomethingNew", "?")], "Unknown"),
        ([("Installed", "True", "SomethingNew", "?")], "Unknown"),
    ],
)  # fmt: skip
def test_health_of_a_platform_operator(conditions: list[tuple[str, ...]], health: str) -> None:
    assert diagnose(platform_operator(*conditions), ()).health == health


@pytest.mark.parametrize(
    ("conditions", "health"),
    [
        ([("Installed", "True", "Succeeded"), ("Progressing", "True", "Succeeded")], "Healthy"),
        ([("Progressing", "True", "Succeeded")], "Healthy"),
        ([("Installed", "False", "Absent"), ("Progressing", "True", "RollingOut")], "Installing"),
        ([("Installed", "True", "Succeeded"), ("Progressing", "True", "RollingOut")], "Upgrading"),
        ([("Installed", "False", "Failed"), ("Progressing", "True", "Retrying", "x")], "Failed"),
        ([("Installed", "True", "Succeeded"), ("Progressing", "True", "Retrying")], "Degraded"),
        ([("Installed", "False", "Failed"), ("Progressing", "False", "Blocked")], "Blocked"),
        ([("Progressing", "False", "InvalidConfiguration", "x")], "Blocked"),
        ([("Progressing", "False", "ProgressDeadlineExceeded", "x")], "Failed"),
        ([("Installed", "Unknown", "Failed", "x"), ("Progressing", "True", "Retrying")], "Failed"),
        ([("Installed", "True", "Succeeded"), ("Progressing", "True", "Succeeded"),
          ("Available", "False", "ProbeFailure", "x")], "Degraded"),
        ([("Progressing", "True", "Whatever")], "Unknown"),
    ],
)  # fmt: skip
def test_health_of_a_cluster_extension(conditions: list[tuple[str, ...]], health: str) -> None:
    assert diagnose(seen("ClusterExtension", *conditions), ()).health == health


@pytest.mark.parametrize(
    ("conditions", "health"),
    [
        ([("Progressing", "True", "Succeeded"), ("Serving", "True", "Available")], "Healthy"),
        ([("Progressing", "True", "Retrying", "x"), ("Serving", "True", "Available")], "Degraded"),
        ([("Progressing", "True", "Retrying", "x"), ("Serving", "False", "Unavailable")], "Failed"),
        ([("Progressing", "False", "Blocked", "x"), ("Serving", "False", "Unavailable")],
         "Blocked"),
        ([("Progressing", "True", "Succeeded"), ("Serving", "False", "UserSpecifiedUnavailable")],
         "Blocked"),
        ([], "Installing"),
    ],
)  # fmt: skip
def test_health_of_a_cluster_catalog(conditions: list[tuple[str, ...]], health: str) -> None:
    assert diagnose(seen("ClusterCatalog", *conditions), ()).health == health


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ([("HasValidBundle", "True", "UnpackPending")], "progressing"),
        ([("HasValidBundle", "True", "UnpackSuccessful")], "ok"),
        ([("HasValidBundle", "False", "UnpackFailed")], "failed"),
        ([("HasValidBundle", "True", "UnpackSuccessful"), ("Installed", "False", "InstallFailed")],
         "failed"),
        ([("Unpacked", "True", "UnpackSuccessful"), ("Installed", "True", "InstallationSucceeded"),
          ("Healthy", "False", "Unhealthy")], "failed"),
        ([("Unpacked", "False", "Unpacking")], "progressing"),
        ([], "waiting"),
    ],
)  # fmt: skip
def test_state_of_a_bundle_deployment_of_both_generations(
    conditions: list[tuple[str, ...]], state: str
) -> None:
    assert assess(seen("BundleDeployment", *conditions)).state == state


def test_a_status_alone_never_decides() -> None:
    assert class_of("BundleDeployment", "HasValidBundle", "True", "UnpackPending") is (
        State.PROGRESSING
    )
    assert class_of("ClusterExtension", "Progressing", "True", "Succeeded") is State.HEALTHY
    for kind, type_, status, _ in STATES:
        if (kind, type_, status, "*") not in STATES:
            assert class_of(kind, type_, status, "NeverWritten") is State.UNKNOWN


def test_a_conversion_error_breaks_at_the_bundle_that_the_others_copy_from() -> None:
    told = f"Failed to unpack the etcd-abc123 Bundle: {ALL_NAMESPACES}"
    diagnosis = diagnose(
        platform_operator(("Installed", "False", "UnpackFailed", told)),
        [
            seen("Bundle", ("Unpacked", "False", "UnpackFailed", ALL_NAMESPACES), name="etcd-abc"),
            seen("BundleDeployment", ("HasValidBundle", "False", "UnpackFailed", told)),
        ],
    )
    assert [(link.kind, link.state, link.first_broken) for link in diagnosis.chain] == [
        ("PlatformOperator", "failed", False),
        ("BundleDeployment", "failed", False),
        ("Bundle", "failed", True),
    ]
    assert diagnosis.reason == "UnpackFailed"
    assert diagnosis.message == ALL_NAMESPACES
    assert diagnosis.finding is not None
    assert diagnosis.finding.id == "allnamespaces-required"
    assert "kubectl delete platformoperator etcd" in diagnosis.finding.remedy
    assert not diagnosis.finding.retryable


def test_without_a_bundle_kind_the_chain_breaks_at_the_bundle_deployment() -> None:
    diagnosis = diagnose(
        platform_operator(("Installed", "False", "UnpackFailed", ALL_NAMESPACES)),
        [seen("BundleDeployment", ("Unpacked", "False", "UnpackFailed", ALL_NAMESPACES))],
    )
    assert [link.kind for link in diagnosis.chain if link.first_broken] == ["BundleDeployment"]
    assert len(diagnosis.chain) == 2


def test_an_ownership_conflict_breaks_at_the_bundle_deployment_under_a_sound_bundle() -> None:
    diagnosis = diagnose(
        platform_operator(("Installed", "False", "InstallFailed", OWNED)),
        [
            seen("BundleDeployment", ("HasValidBundle", "True", "UnpackSuccessful"),
                 ("Installed", "False", "InstallFailed", OWNED)),
            seen("Bundle", ("Unpacked", "True", "UnpackSuccessful"), name="etcd-abc"),
        ],
    )  # fmt: skip
    assert [link.state for link in diagnosis.chain] == ["failed", "failed", "ok"]
    assert [link.kind for link in diagnosis.chain if link.first_broken] == ["BundleDeployment"]
    assert diagnosis.finding is not None
    assert diagnosis.finding.id == "helm-ownership-conflict"
    assert diagnosis.finding.facts["object_kind"] == "Namespace"
    assert "owner" not in diagnosis.finding.facts
    assert "belongs to no release" in diagnosis.finding.cause


def test_an_image_that_can_not_be_pulled_is_seen_although_everybody_says_pending() -> None:
    diagnosis = diagnose(
        platform_operator(("Installed", "False", "InstallPending", "Waiting")),
        [
            seen("BundleDeployment", ("HasValidBundle", "True", "UnpackPending", "Waiting")),
            seen("Bundle", ("Unpacked", "False", "UnpackPending", 'Back-off pulling image "x"')),
        ],
    )
    assert diagnosis.health == "Failed"
    assert [link.kind for link in diagnosis.chain if link.first_broken] == ["Bundle"]
    assert diagnosis.finding is not None
    assert diagnosis.finding.id == "image-pull-backoff"


def test_a_platform_operator_that_waits_for_ever_for_a_newer_rukpak_is_explained() -> None:
    waiting = "Waiting for the bundle to be unpacked"
    diagnosis = diagnose(
        platform_operator(("Installed", "False", "UnpackPending", waiting)),
        [
            seen("BundleDeployment", ("Unpacked", "True", "UnpackSuccessful"),
                 ("Installed", "True", "InstallationSucceeded")),
        ],
    )  # fmt: skip
    assert diagnosis.health == "Degraded"
    assert diagnosis.finding is not None
    assert diagnosis.finding.id == "po-waiting-unpack"


def test_a_bundle_deployment_that_breaks_after_success_degrades_its_platform_operator() -> None:
    diagnosis = diagnose(
        platform_operator(("Installed", "True", "InstallSuccessful", "applied")),
        [seen("BundleDeployment", ("Installed", "False", "UpgradeFailed", OWNED))],
    )
    assert diagnosis.health == "Degraded"
    assert diagnosis.message == OWNED


def test_a_missing_bundle_deployment_is_a_link_that_is_absent() -> None:
    text = "failed to find candidate olm.bundles from the foo package: failed to run sourcing logic"
    diagnosis = diagnose(platform_operator(("Installed", "False", "SourceFailed", text)), ())
    assert [(link.kind, link.state) for link in diagnosis.chain] == [
        ("PlatformOperator", "failed"),
        ("BundleDeployment", "absent"),
    ]
    assert diagnosis.finding is not None
    assert diagnosis.finding.id == "po-package-not-found"


def test_of_two_bundles_the_one_that_changed_last_counts() -> None:
    old = Observation(
        "Bundle", "", "etcd-old",
        (Condition("Unpacked", "False", "UnpackFailed", "old", "2026-01-01T00:00:00Z"),),
    )  # fmt: skip
    new = Observation(
        "Bundle", "", "etcd-new",
        (Condition("Unpacked", "True", "UnpackSuccessful", "new", "2026-01-02T00:00:00Z"),),
    )  # fmt: skip
    deployment = seen("BundleDeployment", ("Installed", "True", "InstallationSucceeded"))
    subject = platform_operator(("Installed", "True", "InstallSuccessful"))
    assert diagnose(subject, [new, old, deployment]).health == "Healthy"
    assert diagnose(subject, [old, new, deployment]).chain[-1].name == "etcd-new"


def test_being_deleted_does_not_change_the_health() -> None:
    subject = Observation(
        "PlatformOperator", "", "etcd",
        (Condition("Installed", "True", "InstallSuccessful"),), deleting=True,
    )  # fmt: skip
    assert diagnose(subject, ()).health == "Healthy"


def test_an_unknown_text_has_no_finding_but_keeps_its_raw_message() -> None:
    subject = platform_operator(("Installed", "False", "InstallFailed", "the moon is wrong"))
    diagnosis = diagnose(subject, ())
    assert (diagnosis.health, diagnosis.finding) == ("Failed", None)
    assert diagnosis.message == "the moon is wrong"


def test_a_healthy_or_progressing_object_has_no_finding() -> None:
    waiting = "Waiting for the bundle to be unpacked"
    subject = platform_operator(("Installed", "False", "UnpackPending", waiting))
    assert diagnose(subject, ()).finding is None


def test_the_real_error_of_an_extension_is_found_in_its_other_condition() -> None:
    diagnosis = diagnose(
        seen(
            "ClusterExtension",
            ("Installed", "Unknown", "Failed", 'namespaces "shop" not found'),
            ("Progressing", "True", "Retrying", "retrying to get installed bundle"),
        ),
        (),
    )
    assert diagnosis.message == 'namespaces "shop" not found'
    assert diagnosis.finding is not None
    assert diagnosis.finding.id == "api-namespace-missing"


def test_deprecations_are_judged_by_status_and_told_once() -> None:
    conditions = (
        Condition("Deprecated", "True", "Deprecated", "Use stable-2."),
        Condition("ChannelDeprecated", "True", "Deprecated", "Use stable-2."),
        Condition("PackageDeprecated", "False", "Deprecated", ""),
        Condition("BundleDeprecated", "Unknown", "Absent", "unknown"),
    )
    assert deprecations(conditions) == ("Use stable-2.",)
    assert deprecations(()) == ()


def test_a_kind_that_is_not_covered_is_unknown() -> None:
    diagnosis = diagnose(Observation("Widget", "ns", "x", details={"message": "?"}), ())
    assert (diagnosis.health, diagnosis.message) == ("Unknown", "?")


def test_recorded_objects_are_judged_as_people_judged_them(shared_data: Path) -> None:
    def read(name: str) -> dict[str, Observation]:
        items = json.loads((shared_data / "recorded" / name).read_text())["items"]
        return {item["metadata"]["name"]: observed(item) for item in items}

    def observed(item: dict[str, Any]) -> Observation:
        conditions = read_conditions(item.get("status", {}).get("conditions", ()))
        return Observation(item["kind"], "", item["metadata"]["name"], conditions)

    deployments = read("bundledeployments.json")
    health = {
        name: diagnose(one, [deployments[name]] if name in deployments else [])
        for name, one in read("platformoperators.json").items()
    }
    assert {name: one.health for name, one in health.items()} == {
        "cat-facts-operator": "Failed",
        "infinispan": "Installing",
        "kube-green": "Healthy",
        "no-such-package": "Failed",
        "sailoperator": "Failed",
    }
    sail = health["sailoperator"].finding
    assert sail is not None
    assert sail.id == "helm-ownership-conflict"
    catalogs = read("clustercatalogs.json")
    assert {diagnose(one, ()).health for one in catalogs.values()} <= {
        "Healthy", "Degraded", "Failed", "Blocked",
    }  # fmt: skip


def test_the_published_audit_comes_out_as_26_14_and_4(shared_data: Path) -> None:
    audit = json.loads((shared_data / "audit" / "platform-operators-4.12.json").read_text())
    bundles = {one["name"].rsplit("-", 1)[0]: one for one in audit["bundles"]}
    deployments = {one["name"]: one for one in audit["bundledeployments"]}
    outcomes: Counter[tuple[str, str, str]] = Counter()
    for item in audit["platformoperators"]:
        diagnosis = _diagnose_audited(item, bundles, deployments)
        broken = [link.kind for link in diagnosis.chain if link.first_broken]
        assert len(broken) == (0 if diagnosis.health == "Healthy" else 1)
        found = diagnosis.finding.id if diagnosis.finding else ""
        outcomes[diagnosis.health, found, "".join(broken)] += 1
    assert outcomes == {
        ("Healthy", "", ""): 25,
        ("Failed", "allnamespaces-required", "Bundle"): 26,
        ("Failed", "webhookdefinitions-unsupported-rukpak", "Bundle"): 14,
        ("Failed", "helm-ownership-conflict", "BundleDeployment"): 4,
    }


def _diagnose_audited(item: Any, bundles: Any, deployments: Any) -> Any:
    name, message, components = item["name"], "", []
    if name in bundles:
        bundle = bundles[name]
        message = f"Failed to unpack the {bundle['name']} Bundle: {bundle['message']}"
        unpacked = ("Unpacked", "False", bundle["state"], bundle["message"])
        components = [
            seen("Bundle", unpacked, name=bundle["name"]),
            seen("BundleDeployment", ("HasValidBundle", "False", "UnpackFailed", message),
                 name=name),
        ]  # fmt: skip
    elif name in deployments:
        installed = deployments[name]["installed"]
        message = installed["message"]
        components = [
            seen("Bundle", ("Unpacked", "True", "UnpackSuccessful"), name=f"{name}-abc"),
            seen("BundleDeployment", ("HasValidBundle", "True", "UnpackSuccessful"),
                 ("Installed", "False", installed["reason"], message), name=name),
        ]  # fmt: skip
    status = "True" if item["reason"] == "InstallSuccessful" else "False"
    subject = seen("PlatformOperator", ("Installed", status, item["reason"], message), name=name)
    return diagnose(subject, components)
