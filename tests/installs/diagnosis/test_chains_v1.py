"""PlatformOperators, ClusterExtensions and catalogs with everything that belongs to them."""

import pytest

from installs.diagnosis.chains import diagnose
from installs.diagnosis.types import Observation
from tests.worlds.observations import broken, conditions, deployment, finding_id, pod

APPLIED = ("Installed", "True", "InstallSuccessful", "Successfully applied the etcd")
PENDING = ("Installed", "False", "InstallPending", "Waiting for the bundle to be installed")
UNPACKED = ("HasValidBundle", "True", "UnpackSuccessful", "unpacked")
SOUND = (UNPACKED, ("Installed", "True", "InstallationSucceeded", "instantiated"))
CRASHING = deployment("False", pods=(pod("CrashLoopBackOff", "back-off"),))
STARTING = deployment("False", pods=(pod("ContainerCreating"),))
PROBE = "Object Deployment.apps/v1 shop/etcd-operator: Available is not True"


def seen(kind: str, *told: tuple[str, ...], name: str = "etcd", revision: int = 0) -> Observation:
    details = {"revision": revision} if revision else {}
    return Observation(kind, "", name, conditions(*told), details=details)


def extension(*told: tuple[str, ...]) -> Observation:
    return seen("ClusterExtension", *told)


def test_a_platform_operator_that_is_applied_and_does_not_run_is_degraded() -> None:
    subject, part = seen("PlatformOperator", APPLIED), seen("BundleDeployment", *SOUND)
    assert diagnose(subject, (part, deployment())).health == "Healthy"
    diagnosis = diagnose(subject, (part, CRASHING))
    assert (diagnosis.health, diagnosis.reason) == ("Degraded", "CrashLoopBackOff")
    assert diagnosis.message == "Installed, not running: CrashLoopBackOff: back-off"
    assert (broken(diagnosis)[0], finding_id(diagnosis)) == ("Pod", "pod-crash-loop")
    assert [link.kind for link in diagnosis.chain] == [
        "PlatformOperator", "BundleDeployment", "Deployment", "Pod",
    ]  # fmt: skip


def test_pods_that_fail_during_an_installation_fail_it_and_pods_that_start_do_not() -> None:
    subject, part = seen("PlatformOperator", PENDING), seen("BundleDeployment", UNPACKED)
    failed = diagnose(subject, (part, CRASHING))
    assert (failed.health, failed.reason) == ("Failed", "InstallPending")
    assert (failed.message, finding_id(failed)) == ("back-off", "pod-crash-loop")
    assert diagnose(subject, (part, STARTING)).health == "Installing"


def test_an_error_above_the_deployments_is_the_cause() -> None:
    told = ("Installed", "False", "InstallFailed", 'namespaces "argocd" not found')
    subject, part = seen("PlatformOperator", told), seen("BundleDeployment", UNPACKED, told)
    diagnosis = diagnose(subject, (part, CRASHING))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "api-namespace-missing")
    assert broken(diagnosis) == ("BundleDeployment", "etcd")
    assert diagnosis.chain[-1].kind == "Deployment"


def test_a_rukpak_that_is_too_new_for_the_platform_operators_is_explained() -> None:
    message = (
        'BundleDeployment.core.rukpak.io "etcd" is invalid: spec.installNamespace: Required value'
    )
    diagnosis = diagnose(
        seen("PlatformOperator", ("Installed", "False", "InstallFailed", message)), ()
    )
    assert (diagnosis.health, finding_id(diagnosis)) == ("Failed", "bd-install-namespace-required")


def test_an_extension_that_is_installed_and_does_not_run_is_degraded() -> None:
    """Helm's runtime has no Available condition: it would stay green."""
    subject = extension(("Installed", "True", "Succeeded"), ("Progressing", "True", "Succeeded"))
    assert diagnose(subject, (deployment(),)).health == "Healthy"
    diagnosis = diagnose(subject, (deployment("False"),))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Degraded", "deployment-unavailable")


def test_the_pod_behind_a_failed_probe_is_the_cause() -> None:
    subject = extension(
        ("Installed", "True", "Succeeded"),
        ("Progressing", "True", "Succeeded"),
        ("Available", "False", "ProbeFailure", PROBE),
    )
    revision = seen("ClusterObjectSet", ("Available", "False", "ProbeFailure", PROBE),
                    name="etcd-1", revision=1)  # fmt: skip
    diagnosis = diagnose(subject, (revision, CRASHING))
    assert (diagnosis.health, broken(diagnosis)[0]) == ("Degraded", "Pod")
    assert finding_id(diagnosis) == "pod-crash-loop"
    without = diagnose(subject, (revision,))
    assert (broken(without)[0], finding_id(without)) == ("ClusterObjectSet", "cos-probe-failure")


@pytest.mark.parametrize(
    ("installed", "health"),
    [
        (("Installed", "False", "Absent"), "Failed"),
        (("Installed", "True", "Succeeded"), "Degraded"),
    ],
)
def test_pods_that_fail_while_a_revision_rolls_out(installed: tuple[str, ...], health: str) -> None:
    subject = extension(installed, ("Progressing", "True", "RollingOut", "is rolling out"))
    assert diagnose(subject, (CRASHING,)).health == health
    assert diagnose(subject, (STARTING,)).health in ("Installing", "Upgrading")


def test_pods_are_not_blamed_for_an_error_of_resolution() -> None:
    message = 'no bundles found for package "etcd" matching version "9.9.9"'
    subject = extension(
        ("Installed", "True", "Succeeded"), ("Progressing", "True", "Retrying", message)
    )
    diagnosis = diagnose(subject, (CRASHING,))
    assert (diagnosis.health, finding_id(diagnosis)) == ("Degraded", "ce-no-bundles")
    assert broken(diagnosis) == ("ClusterExtension", "etcd")


def test_the_catalog_that_an_extension_can_not_use_is_the_broken_link() -> None:
    message = (
        'error walking catalogs: error getting package "etcd" from catalog "c": '
        'catalog "c" is not being served'
    )
    subject = extension(("Progressing", "True", "Retrying", message))
    served = seen("ClusterCatalog", ("Serving", "True", "Available"), name="d")
    down = seen("ClusterCatalog", ("Serving", "False", "Unavailable"), name="c")
    diagnosis = diagnose(subject, (served, down))
    assert (broken(diagnosis), finding_id(diagnosis)) == (
        ("ClusterCatalog", "c"), "ce-catalog-not-serving",
    )  # fmt: skip
    assert [link.state for link in diagnosis.chain] == ["failed", "failed", "ok"]
    gone = diagnose(subject, (served,))
    assert broken(gone) == ("ClusterCatalog", "c")
    assert [link.state for link in gone.chain if link.first_broken] == ["absent"]


IN_CATALOG = 'error walking catalogs: error getting package "etcd" from catalog "c": '
REQUEST = (
    'error retrieving cache for catalog "c": error performing request: Get '
    '"https://catalogd-service.olmv1-system.svc/catalogs/c/api/v1/all": dial tcp 10.96.3.4:443: '
)
OOM = {
    "name": "catalogd-x2",
    "container": "manager",
    "reason": "CrashLoopBackOff",
    "message": "back-off; it ended with OOMKilled, exit code 137",
    "restarts": 7,
}
CATALOGD = {"namespace": "olmv1-system", "replicas": 1, "available": 0, "pods_total": 1}


def failing(message: str) -> Observation:
    return extension(("Progressing", "True", "Retrying", message))


@pytest.mark.parametrize(
    "message",
    [
        IN_CATALOG + 'catalog "c" is not being served',
        IN_CATALOG + 'cache for catalog "c" not found',
        IN_CATALOG + REQUEST + "connect: connection refused",
        "error fetching catalog contents: unexpected EOF",
        "error: received unexpected response status code 503",
    ],
)
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"pods": [OOM]}, "cc-catalogd-memory"),
        ({"pods": [OOM | {"reason": "ImagePullBackOff", "message": "x"}]}, "cc-catalogd-pod"),
        ({"pods": [OOM | {"reason": "NotReady", "message": ""}]}, "cc-catalogd-pod"),
        ({"replicas": 0}, "cc-catalogd-absent"),
        ({"pods_total": 0}, "cc-catalogd-absent"),
    ],
)
def test_an_extension_without_content_of_a_catalog_names_what_is_wrong_with_catalogd(
    message: str, more: dict[str, object], expected: str
) -> None:
    diagnosis = diagnose(failing(message), (), catalogd=lambda: CATALOGD | more)
    assert finding_id(diagnosis) == expected
    assert broken(diagnosis) == ("Deployment", "catalogd-controller-manager")
    assert diagnosis.message == message, "the cluster's own words stay"
    available = diagnose(failing(message), (), catalogd=lambda: CATALOGD | {"available": 1})
    assert finding_id(available) != expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('no bundles found for package "etcd"', "ce-no-bundles"),
        (IN_CATALOG + REQUEST.replace("dial tcp 10.96.3.4:443: ", "x509: expired"),
         "ce-catalogd-certificate"),
    ],
)  # fmt: skip
def test_catalogd_is_not_blamed_for_other_errors(message: str, expected: str) -> None:
    diagnosis = diagnose(failing(message), (), catalogd=lambda: CATALOGD | {"pods": [OOM]})
    assert finding_id(diagnosis) == expected


def test_an_extension_names_what_holds_up_its_catalog() -> None:
    pull = "source catalog content: error creating image source: pinging container registry q.io: "
    pull += 'Get "https://q.io/v2/": dial tcp: lookup q.io on 10.96.0.10:53: i/o timeout'
    down = seen(
        "ClusterCatalog",
        ("Serving", "False", "Unavailable"),
        ("Progressing", "True", "Retrying", pull),
        name="c",
    )
    diagnosis = diagnose(failing(IN_CATALOG + 'catalog "c" is not being served'), (down,))
    assert finding_id(diagnosis) == finding_id(diagnose(down, ())) != ""
    assert diagnosis.finding is not None
    assert diagnosis.finding.facts["kind"] == "ClusterCatalog"
    assert broken(diagnosis) == ("ClusterCatalog", "c")


def test_a_sound_extension_shows_its_catalog_and_blames_nobody() -> None:
    subject = extension(("Installed", "True", "Succeeded"), ("Progressing", "True", "Succeeded"))
    down = seen("ClusterCatalog", ("Serving", "False", "Unavailable"), name="c")
    diagnosis = diagnose(subject, (down,))
    assert (diagnosis.health, broken(diagnosis)) == ("Healthy", ("", ""))
    assert [link.kind for link in diagnosis.chain] == ["ClusterExtension", "ClusterCatalog"]


def test_of_several_revisions_the_highest_counts() -> None:
    subject = extension(("Installed", "True", "Succeeded"), ("Progressing", "True", "RollingOut"))
    revisions = [
        seen("ClusterObjectSet", ("Progressing", "True", "RollingOut"), name="etcd-9", revision=9),
        seen("ClusterObjectSet", ("Progressing", "True", "RollingOut"), name="etcd-10",
             revision=10),
    ]  # fmt: skip
    for order in (revisions, revisions[::-1]):
        assert diagnose(subject, order).chain[-1].name == "etcd-10"


def test_an_extension_of_an_older_release_is_judged_by_status() -> None:
    """Up to v1.5 what is not deprecated has the reason Deprecated, and Absent was not written."""
    subject = extension(
        ("Installed", "True", "Succeeded"),
        ("Progressing", "True", "Succeeded"),
        ("Deprecated", "False", "Deprecated", ""),
        ("PackageDeprecated", "False", "Deprecated", ""),
    )
    diagnosis = diagnose(subject, ())
    assert (diagnosis.health, diagnosis.notes) == ("Healthy", ())
    first = extension(("Installed", "False", "Failed"), ("Progressing", "True", "Retrying", "x"))
    assert diagnose(first, ()).health == "Failed"


def test_what_is_deprecated_is_told_once() -> None:
    """Deprecated joins the words of the others; without it each of them is told."""
    parts = (
        ("PackageDeprecated", "True", "Deprecated", "use amq-streams"),
        ("ChannelDeprecated", "True", "Deprecated", "switch to stable"),
    )
    whole = "use amq-streams\nswitch to stable"
    sound = (("Installed", "True", "Succeeded"), ("Progressing", "True", "Succeeded"))
    for told, expected in (
        ((*parts, ("Deprecated", "True", "Deprecated", whole)), [whole]),
        (parts, ["use amq-streams", "switch to stable"]),
        (
            (*parts[:1], ("Deprecated", "True", "Deprecated", "use amq-streams")),
            ["use amq-streams"],
        ),
    ):
        notes = diagnose(extension(*sound, *told), ()).notes
        assert [note.facts["message"] for note in notes] == expected


@pytest.mark.parametrize(
    ("details", "health", "finding"),
    [
        ({"state": "READY"}, "Healthy", ""),
        ({}, "Installing", ""),
        ({"state": "TRANSIENT_FAILURE"}, "Degraded", "cs-not-connected"),
        ({"state": "CONNECTING"}, "Installing", ""),
        ({"state": "CONNECTING", "overdue": True}, "Degraded", "cs-not-connected"),
        ({"overdue": True}, "Failed", "cs-no-state"),
        ({"reason": "SpecInvalidError", "message": "image and address unset: at least one must be "
          "set for sourcetype: grpc"}, "Blocked", "cs-spec-invalid"),
        ({"reason": "ConfigMapError", "message": "failed to get catalog config map cm: not found"},
         "Failed", "cs-configmap"),
        ({"state": "READY", "reason": "InvalidIntervalError", "message": "empty polling interval"},
         "Healthy", ""),
    ],
)  # fmt: skip
def test_health_of_a_catalog_source(details: dict[str, str], health: str, finding: str) -> None:
    diagnosis = diagnose(Observation("CatalogSource", "olm", "c", details=details), ())
    assert (diagnosis.health, finding_id(diagnosis)) == (health, finding)


def test_a_catalog_without_a_message_is_explained_by_its_reason() -> None:
    down = seen("ClusterCatalog", ("Serving", "False", "Unavailable"))
    assert finding_id(diagnose(down, ())) == "catalog-unavailable"
    off = seen("ClusterCatalog", ("Progressing", "True", "Succeeded"),
               ("Serving", "False", "UserSpecifiedUnavailable"))  # fmt: skip
    diagnosis = diagnose(off, ())
    assert (diagnosis.health, finding_id(diagnosis)) == ("Blocked", "catalog-switched-off")
