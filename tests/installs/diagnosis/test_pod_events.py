"""What the knowledge base reads of a message about a pod."""

import pytest

from installs.diagnosis.knowledge import classify
from installs.diagnosis.pod_events import read_pod_message

UNPACK_JOB = "0123456789abcdef" * 4
UNPACK_POD = f"{'0123456789abcdef' * 3}0123456789x7k2p"
CATALOG_POD = 'pod: "lab-catalog-7xk2p_olm(3f0e)"'


@pytest.mark.parametrize(
    ("reason", "message", "line"),
    [
        ("FailedScheduling", "0/3 nodes are available", "Unschedulable: 0/3 nodes are available"),
        ("Failed", 'Failed to pull image "x": no', 'ErrImagePull: Failed to pull image "x": no'),
        (
            "Failed",
            'Error: secret "a" not found',
            'CreateContainerConfigError: secret "a" not found',
        ),
        ("BackOff", 'Back-off pulling image "x"', 'ImagePullBackOff: Back-off pulling image "x"'),
        ("FailedMount", "no volume", "FailedMount: no volume"),
        (
            "Failed",
            "Error: couldn't parse env file",
            "CreateContainerConfigError: couldn't parse env file",
        ),
        ("Failed", "Error: InvalidImageName", "InvalidImageName: InvalidImageName"),
        (
            "Failed",
            "Error: failed to record image pull intent: no",
            "ErrImagePull: failed to record image pull intent: no",
        ),
        ("Failed", "Internal PreStartContainer hook failed: no", "PreStartHookError: no"),
        # Some errors of the kubelet are the reason as well.
        ("failed to read: no", "failed to read: no", "failed to read: no"),
        # What a container of a catalog does in order is about no setting of the catalog.
        (
            "Killing",
            "Stopping container registry-server",
            "Killing: Stopping container registry-server",
        ),
        (
            "Created",
            "Created container: extract-content",
            "Created: Created container: extract-content",
        ),
        (
            "Evicted",
            "Container registry-server was using 200Mi",
            "Evicted: Container registry-server was using 200Mi",
        ),
        # The status has no reason for a hook before the stop; that of a start is another failure.
        ("FailedPreStopHook", "it failed", "FailedPreStopHook: it failed"),
        ("", "no reason", "no reason"),
    ],
)
def test_an_event_of_a_pod_is_read_as_the_status_of_the_pod(
    reason: str, message: str, line: str
) -> None:
    assert read_pod_message("Pod", "shop", "etcd-7d9f8", reason, message).line == line


@pytest.mark.parametrize(
    ("reason", "message", "container"),
    [
        (
            "CrashLoopBackOff",
            "back-off 5m0s restarting failed container=registry-server "
            "pod=lab-catalog-7xk2p_olm(3f0e)",
            "registry-server",
        ),
        (
            "BackOff",
            "Back-off restarting failed container extract-content in pod "
            "lab-catalog-7xk2p_olm(3f0e)",
            "extract-content",
        ),
        (
            "CreateContainerConfigError",
            f"container has runAsNonRoot and image will run as root ({CATALOG_POD}, "
            "container: registry-server)",
            "registry-server",
        ),
    ],
)
def test_a_message_of_the_pod_of_a_catalog_is_about_the_catalog(
    reason: str, message: str, container: str
) -> None:
    read = read_pod_message("Pod", "", "", reason, message)

    assert (read.kind, read.namespace, read.name) == ("CatalogSource", "olm", "lab-catalog")
    assert read.line.startswith(f"catalog pod olm/lab-catalog-7xk2p container {container}: ")


def test_what_the_programs_of_a_catalog_write_is_about_the_catalog() -> None:
    words = "failed to copy /configs to /extracted-catalog/catalog: lstat /configs: no such file"
    assert read_pod_message("Pod", "", "", "Error", words).kind == "CatalogSource"
    assert read_pod_message("Pod", "", "", "Error", "no such file").kind == "Pod"


@pytest.mark.parametrize("reason", ["PreCreateHookError", "PreStartHookError"])
def test_a_container_of_a_catalog_without_cpus_is_of_its_node(reason: str) -> None:
    read = read_pod_message("Pod", "", "", reason, "container registry-server not found in state")

    assert read.kind == "CatalogSource"
    finding = classify(read.line, kind=read.kind)
    assert finding is not None
    assert finding.id == "pod-container-resources"


@pytest.mark.parametrize(
    ("reason", "message", "kind", "finding_id"),
    [
        ("BackOff", "Back-off restarting failed container", "Pod", "pod-crash-loop"),
        ("FailedKillPod", "error killing pod: no", "Pod", "pod-event-kill"),
        ("FreeDiskSpaceFailed", "Insufficient free disk space", "Node", "node-images-left"),
        ("InvalidDiskCapacity", "invalid capacity 0", "Node", "node-images-left"),
    ],
)
def test_an_event_without_its_object_is_of_the_only_kind_with_its_reason(
    reason: str, message: str, kind: str, finding_id: str
) -> None:
    read = read_pod_message("Event", "", "node-1", reason, message)

    assert read.kind == kind
    finding = classify(read.line, kind=read.kind, name=read.name)
    assert finding is not None
    assert finding.id == finding_id


@pytest.mark.parametrize(
    ("kind", "reason", "message", "line"),
    [
        (
            *("Pod", "FailedScheduling"),
            "(combined from similar events): 0/3 nodes are available",
            "Unschedulable: 0/3 nodes are available",
        ),
        (
            *("ReplicaSet", "FailedCreate"),
            "(combined from similar events): Error creating: pods is forbidden",
            "pods is forbidden",
        ),
        (
            *("Pod", "Killing"),
            "Stopping container manager (x12 over 3h4m)",
            "Killing: Stopping container manager",
        ),
    ],
)
def test_marks_of_a_repeated_event_are_no_part_of_its_message(
    kind: str, reason: str, message: str, line: str
) -> None:
    assert read_pod_message(kind, "", "", reason, message).line == line


def test_messages_of_other_kinds_stay_as_they_are() -> None:
    read = read_pod_message("Subscription", "shop", "etcd", "Failed", "Error: secret gone")
    assert read == ("Subscription", "shop", "etcd", "Error: secret gone")


def test_an_event_of_a_pod_that_was_refused_is_read_without_its_first_words() -> None:
    refused = "Error creating: pods is forbidden"
    read = read_pod_message("ReplicaSet", "shop", "etcd", "FailedCreate", refused)
    assert read == ("Deployment", "shop", "etcd", "pods is forbidden")
    read = read_pod_message("Job", "olm", UNPACK_JOB, "FailedCreate", refused)
    assert read == ("InstallPlan", "olm", UNPACK_JOB, "pods is forbidden")


def test_a_webhook_that_denies_the_pod_of_a_job_is_not_taken_for_one_of_the_plan() -> None:
    denied = 'Error creating: admission webhook "w.x.io" denied the request: no'
    for name in (UNPACK_JOB, UNPACK_JOB[:63], UNPACK_POD, ""):
        read = read_pod_message("Job", "olm", name, "FailedCreate", denied)
        assert (read.kind, read.line) == ("InstallPlan", denied)
    read = read_pod_message("ReplicaSet", "shop", "etcd", "FailedCreate", denied)
    assert (read.kind, read.line) == ("Deployment", denied.removeprefix("Error creating: "))


def test_a_webhook_that_denies_the_pod_of_another_job_denies_nothing_of_olm() -> None:
    denied = 'Error creating: admission webhook "w.x.io" denied the request: no'
    read = read_pod_message("Job", "shop", "loki-migrate-28912345", "FailedCreate", denied)
    assert (read.kind, read.line) == ("Job", denied.removeprefix("Error creating: "))
    finding = classify(read.line, kind=read.kind)
    assert finding is not None
    assert "OLM unpacks" not in finding.cause


@pytest.mark.parametrize(("pod", "kind"), [(UNPACK_POD, "InstallPlan"), ("migrate-x7k2p", "Job")])
def test_the_refused_pod_tells_whose_job_it_is_where_the_job_has_no_name(
    pod: str, kind: str
) -> None:
    refused = f'Error creating: pods "{pod}" is forbidden: exceeded quota: compute'
    assert read_pod_message("Job", "olm", "", "FailedCreate", refused).kind == kind


def test_pod_security_that_refuses_the_pod_of_another_job_is_none_of_a_catalog() -> None:
    refused = 'Error creating: pods "a" is forbidden: violates PodSecurity "restricted:latest": no'
    read = read_pod_message("Job", "shop", "loki-migrate-28912345", "FailedCreate", refused)
    finding = classify(read.line, kind=read.kind)
    assert finding is not None
    assert finding.id == "api-podsecurity"


@pytest.mark.parametrize(
    ("named", "message", "container"),
    [
        (True, 'Error: secret "pull" not found', "unknown"),
        (
            False,
            "Error: container has runAsNonRoot and image will run as root "
            f'(pod: "{UNPACK_POD}_olm(3b1c)", container: pull)',
            "pull",
        ),
    ],
)
def test_a_message_of_an_unpack_pod_is_about_the_plan(
    named: bool, message: str, container: str
) -> None:
    place = ("olm", UNPACK_POD) if named else ("", "")
    read = read_pod_message("Pod", *place, "Failed", message)
    words = f"Unpack pod(olm/{UNPACK_POD}) container({container}) is pending. Reason: Create"
    assert (read.kind, read.line[: len(words)]) == ("InstallPlan", words)
    finding = classify(read.line, kind=read.kind)
    assert finding is not None
    assert finding.id == "olmv0-unpack-config"


def test_a_pod_with_another_name_is_no_unpack_pod() -> None:
    read = read_pod_message("Pod", "shop", "etcd-7d9f8", "Failed", 'Error: secret "a" not found')
    assert read.kind == "Pod"


def test_an_event_that_only_a_pod_has_is_read_as_one_of_a_pod() -> None:
    message = 'Init container is in "unknown" state, try killing it before restart'
    read = read_pod_message("Event", "", "", "Killing", message)
    assert read == ("Pod", "", "", f"Killing: {message}")
    finding = classify(read.line, kind=read.kind)
    assert finding is not None
    assert finding.id == "pod-event-restart"
    message = "0/3 nodes are available: 3 Insufficient cpu."
    read = read_pod_message("Event", "", "", "FailedScheduling", message)
    assert read == ("Pod", "", "", f"Unschedulable: {message}")
    assert read_pod_message("Event", "", "", "ResolutionFailed", "no head").kind == "Event"
