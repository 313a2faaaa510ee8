"""What the knowledge base reads of a message about a pod, whoever wrote it: a status or an Event.
Pure."""

import re
from typing import NamedTuple

from installs.diagnosis.catalog_pods import FAILING, RESTARTED, line_of_reason

# Reason of an Event -> reason in the status of a pod that means the same.
_AS_IN_STATUS = {
    "FailedScheduling": "Unschedulable",
    "Preempted": "Preempting",
    "OOMKilling": "OOMKilled",
    "InspectFailed": "ImageInspectError",
    "FailedPostStartHook": "PostStartHookError",
    "TaintManagerEviction": "DeletionByTaintManager",
}
# What the kubelet writes of a container whose configuration it can't make (kubelet_pods.go,
# kuberuntime_container.go and security_context_others.go); other words are of the runtime.
_OF_CONFIGURATION = (
    *(
        "secret ",
        "configmap ",
        "couldn't find key",
        "couldn't get configMap",
        "couldn't get secret",
    ),
    *("container has runAsNonRoot", "container's runAsUser", "failed to sync "),
    *("failed to prepare subPath", "failed to create subPath", "error SubPath", "error DevicePath"),
    *("unable to provision SubPath", "cannot find volume", "cannot find the volume"),
    *("failed to resolve recursive read-only", "recursive read-only", "invalid MountPropagation"),
    *("services have not yet been read", "failed to list services", "nil pod.spec."),
    *("pod Hostname", "pod Subdomain", "hostname for pod", "unable to find target container"),
    *("failed to get host path", "couldn't parse env file", "environment variable key"),
    *("create container log directory", 'object "', "configmaps ", "secrets ", "Get "),
    "mkdir /var/lib/kubelet/",
)
# The Events with these reasons say in their message what has failed.
_BY_MESSAGE = {
    "BackOff": (
        ("Back-off restarting failed container", "CrashLoopBackOff"),
        ("Back-off pulling image", "ImagePullBackOff"),
    ),
    "Failed": (
        ("Failed to pull image", "ErrImagePull"),
        ("Error: ErrImageNeverPull", "ErrImageNeverPull"),
        ("Error: ErrImagePull", "ErrImagePull"),
        ("Error: ImagePullBackOff", "ImagePullBackOff"),
        ("Error: ImageInspectError", "ImageInspectError"),
        ("Error: InvalidImageName", "InvalidImageName"),
        ("Error: failed to record image pull intent", "ErrImagePull"),
        ("Error: failed to check existence of an image pull intent", "ErrImagePull"),
        *((f"Error: {words}", "CreateContainerConfigError") for words in _OF_CONFIGURATION),
        ("Error: RegistryUnavailable", "RegistryUnavailable"),
        ("Error: SignatureValidationFailed", "SignatureValidationFailed"),
        ("Error: ", "CreateContainerError"),
        ("Internal PreCreateContainer hook failed: ", "PreCreateHookError"),
        ("Internal PreStartContainer hook failed: ", "PreStartHookError"),
    ),
    "InspectFailed": (("Failed to apply default image tag", "InvalidImageName"),),
}
_WORDS_OF_EVENT = re.compile(r"^(?:Error|Internal Pre\w{5,6}Container hook failed): (?=\S)")
# Only pods, and only nodes, have Events with these reasons (pkg/kubelet/events/event.go of
# Kubernetes and the Events of its scheduler).
_ONLY_OF_PODS = (
    *("Killing", "BackOff", "Unhealthy", "FailedScheduling", "FailedMount", "FailedMapVolume"),
    *("FailedAttachVolume", "FailedCreatePodSandBox", "FailedPodSandBoxStatus", "FailedKillPod"),
    *("FailedPostStartHook", "FailedPreStopHook", "ExceededGracePeriod", "InspectFailed"),
    *("ErrImageNeverPull", "FailedToRetrieveImagePullSecret", "HostIPsIPFamilyMismatch"),
    *("Preempting", "NetworkNotReady", "TaintManagerEviction"),
)
_ONLY_OF_NODES = (
    *("InvalidDiskCapacity", "FreeDiskSpaceFailed", "ImageGCFailed", "ContainerGCFailed"),
    *("InvalidImageID", "EvictionThresholdMet"),
)
# What client-go and kubectl put around the message of an Event that was sent several times.
_COMBINED = re.compile(r"^\(combined from similar events\): | \(x\d{1,9} over [\w.]{1,20}\)$")
# How the Event of what makes a pod begins, and the kind with whose name the knowledge base has it.
_REFUSED_POD = "Error creating: "
_CONTROLLED_BY = {"ReplicaSet": "Deployment"}
# States of a container that does not run. Events of one that was made, started or stopped, and of
# its node, are about no setting of a catalog.
_OF_CONTAINER = (
    *("CrashLoopBackOff", "Error", "OOMKilled", "ContainerCannotRun", "ContainerStatusUnknown"),
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError"),
    *("ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "ImageInspectError"),
    *("InvalidImageName", "RegistryUnavailable", "SignatureValidationFailed", "PostStartHookError"),
    *("PreCreateHookError", "PreStartHookError"),
)
# Only the pod of a catalog has containers of these names (reconciler.go and configmap.go of OLM),
# and only opm serve and copy-content of OLM write these words.
_CATALOG_CONTAINER = re.compile(
    r"container(?:=|: | )"
    r"(?P<container>(?:configmap-)?registry-server|extract-(?:content|utilities))\b"
)
_CATALOG_PROGRAM = re.compile(
    r"copy-content\b|/extracted-catalog/|integrity check failed: |cache requires rebuild: "
    r"|failed to (?:load or rebuild|rebuild|load) cache: "
)
_POD = re.compile(r'\bpod(?:=|: | )"?(?P<name>[\w.-]{1,253})_(?P<namespace>[\w-]{1,63})\(')
# OLM names its unpack pods after their job, whose name is a hash that Kubernetes cuts, and reports
# of them for the InstallPlan in these words (pkg/controller/bundle/bundle_unpacker.go).
_UNPACK_POD = re.compile(r"[0-9a-f]{58}[a-z0-9]{5}")
_UNPACK_JOB = re.compile(r"[0-9a-f]{63,64}-?|[0-9a-f]{58}[a-z0-9]{5}")
_REFUSED_NAME = re.compile(r'\b[Pp]ods? "(?P<name>[\w.-]{1,253})"')
_PENDING = "Unpack pod({namespace}/{name}) container({container}) is pending. Reason: {reason}, "
_UNSTARTED = (
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
    *("CreatePodSandboxError", "ImageInspectError"),
)
_CONTAINER = re.compile(r"\bcontainer(?:=|: | )\"?(?P<name>util|pull|extract)\b")


class PodMessage(NamedTuple):
    """A message as the knowledge base reads it: the object that it is about, and its line."""

    kind: str
    namespace: str
    name: str
    line: str


def read_pod_message(kind: str, namespace: str, name: str, reason: str, message: str) -> PodMessage:
    """The object that a message is about, and the line that the knowledge base reads.

    A message that only the pod of a catalog can have is about the CatalogSource, which has the
    settings of that pod; the message of an unpack pod that does not start, or of its job, is about
    the InstallPlan; an Event with a reason of pods or nodes alone is about a Pod or a Node.
    Messages of other kinds stay as they are, without the marks of an Event that was sent several
    times."""
    message = _COMBINED.sub("", message)
    if reason == "FailedCreate" and message.startswith(_REFUSED_POD):
        unpacks = kind == "Job" and _unpacks(name, message)
        # That a webhook denied the pod of a job tells it from an object of the InstallPlan.
        keeps = unpacks and "admission webhook " in message
        kind = "InstallPlan" if unpacks else _CONTROLLED_BY.get(kind, kind)
        message = message if keeps else message.removeprefix(_REFUSED_POD)
    if kind in ("Event", "Node") and reason in _ONLY_OF_NODES:
        return PodMessage("Node", "", name, f"{reason}: {message}")
    if kind == "Event" and reason in _ONLY_OF_PODS:
        kind = "Pod"
    if kind != "Pod":
        line = line_of_reason(kind, namespace, name, reason, message)
        return PodMessage(kind, namespace, name, line)
    reason, message = _as_in_status(reason, message)
    if line := _of_unpack_pod(namespace, name, reason, message):
        return PodMessage("InstallPlan", "", "", line)
    container = _CATALOG_CONTAINER.search(message)
    if reason not in _OF_CONTAINER or not (container or _CATALOG_PROGRAM.search(message)):
        # The kubelet gives some errors both as the reason and as the message.
        named = reason and " " not in reason
        return PodMessage(kind, namespace, name, f"{reason}: {message}" if named else message)
    pod = _POD.search(message)
    namespace, name = (pod["namespace"], pod["name"]) if pod else (namespace, name)
    place = f"{namespace or '?'}/{name or '?'}" + (
        f" container {container[1]}" if container else ""
    )
    line = f"{FAILING}{place}: {reason}: {message.strip()} ({RESTARTED} restarts)"
    # OLM names the pod after the CatalogSource, with a random end.
    return PodMessage("CatalogSource", namespace, name.rpartition("-")[0], line)


def _unpacks(name: str, message: str) -> bool:
    """Whether a Job unpacks a bundle. Without its name that of the refused pod decides, and without
    both the Job counts as one of OLM."""
    refused = _REFUSED_NAME.search(message)
    name = name or (refused["name"] if refused else "")
    return not name or bool(_UNPACK_JOB.fullmatch(name))


def _of_unpack_pod(namespace: str, name: str, reason: str, message: str) -> str:
    """What OLM reports of an unpack pod that does not start; empty for other pods."""
    if pod := _POD.search(message):
        namespace, name = pod["namespace"], pod["name"]
    if reason not in _UNSTARTED or not namespace or not _UNPACK_POD.fullmatch(name):
        return ""
    match = _CONTAINER.search(message)
    container = match["name"] if match else "unknown"
    words = _PENDING.format(namespace=namespace, name=name, container=container, reason=reason)
    return f"{words}Message: {message}"


def _as_in_status(reason: str, message: str) -> tuple[str, str]:
    """The reason and the message of an Event as the status of the pod has them."""
    for begin, named in _BY_MESSAGE.get(reason, ()):
        if message.startswith(begin):
            return named, _WORDS_OF_EVENT.sub("", message)
    return _AS_IN_STATUS.get(reason, reason), message
