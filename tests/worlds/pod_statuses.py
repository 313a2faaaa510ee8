"""Statuses of the pod of a catalog that does not run, as kubelet, scheduler and node controller
write them (Kubernetes 1.36), with the finding and what its texts must say."""

from typing import Any, NamedTuple

Object = dict[str, Any]
IMAGE = "quay.io/operatorhubio/catalog:latest"
NAME = "registry-server"


class PodCase(NamedTuple):
    title: str
    status: Object
    finding: str
    says: tuple[str, ...]


def pod(name: str, namespace: str, source: str, status: Object) -> Object:
    """A pod as OLM makes it for the CatalogSource `source`."""
    labels = {"olm.catalogSource": source, "olm.managed": "true"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"nodeName": "worker-1", "containers": [{"name": NAME, "image": IMAGE}]},
        "status": status,
    }


def condition(type_: str, status: str, reason: str = "", message: str = "") -> Object:
    made = {"type": type_, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return made | ({"reason": reason, "message": message} if reason else {})


SCHEDULED = condition("PodScheduled", "True")
UNREADY = condition(
    "Ready", "False", "ContainersNotReady", f"containers with unready status: [{NAME}]"
)


def container(state: Object, last: Object | None = None, restarts: int = 0, **more: Any) -> Object:
    made = {"name": NAME, "image": IMAGE, "imageID": "", "ready": False, "restartCount": restarts}
    return made | {"state": state, "lastState": last or {}} | more


def started(state: Object, last: Object | None = None, restarts: int = 0, **more: Any) -> Object:
    """The status of a pod on a node whose container is in `state`."""
    phase = "Running" if restarts or "running" in state else "Pending"
    return {
        "phase": phase,
        "conditions": [SCHEDULED, UNREADY],
        "containerStatuses": [container(state, last, restarts, **more)],
    }


def waiting(reason: str, message: str = "") -> Object:
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def terminated(reason: str, code: int, message: str = "") -> Object:
    times = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:09Z"}
    return {"terminated": {"reason": reason, "exitCode": code, "message": message, **times}}


def failed(reason: str, message: str, *containers: Object) -> Object:
    """The status of a pod that its node has given up."""
    target = condition("DisruptionTarget", "True", "TerminationByKubelet", message)
    return {
        "phase": "Failed",
        "reason": reason,
        "message": message,
        "conditions": [target, SCHEDULED, UNREADY],
        "containerStatuses": list(containers),
    }


BACK_OFF = waiting(
    "CrashLoopBackOff",
    f"back-off 5m0s restarting failed container={NAME} pod=community-x7k2p_olm(0a1b)",
)
PULL = f'failed to pull and unpack image "{IMAGE}": failed to resolve reference "{IMAGE}": '
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
EVICTED = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61236Ki. "


def crash(code: int, log: str = "", reason: str = "Error") -> Object:
    return started(BACK_OFF, terminated(reason, code, log), 14)


def init(state: Object) -> Object:
    """A pod with spec.grpcPodConfig.extractContent whose first container is in `state`."""
    status = container(state) | {"name": "extract-content"}
    return {
        "phase": "Pending",
        "conditions": [SCHEDULED, UNREADY],
        "initContainerStatuses": [status],
        "containerStatuses": [container(waiting("PodInitializing"))],
    }


CASES = (
    PodCase("OOMKilled in a crash loop", crash(137, reason="OOMKilled"), "cs-pod-memory",
            ("killed", "14 times", "grpcPodConfig", "memoryTarget")),
    PodCase("OOMKilled just now", started(terminated("OOMKilled", 137), restarts=3),
            "cs-pod-memory", ("LimitRange", "grpcPodConfig")),
    PodCase("restarted after OOMKilled", started(RUNNING, terminated("OOMKilled", 137), 3),
            "cs-pod-memory", ("3 times",)),
    PodCase("probes fail", started(RUNNING, restarts=4), "cs-pod-not-ready",
            ("probes", "50051", "4 times")),
    PodCase("stopped by its probes", crash(0, reason="Completed"), "cs-pod-crash",
            ("startup or liveness probe", "100 seconds")),
    PodCase("killed by its probes", crash(143), "cs-pod-crash", ("startup or liveness probe",)),
    PodCase("crash with a log", crash(1, "Error: open /configs/a.yaml: broken"), "cs-pod-crash",
            ("exit code 1", "open /configs/a.yaml: broken", "--previous")),
    PodCase("crash without a log", crash(2), "cs-pod-crash", ("exit code 2", "--previous")),
    PodCase("cache does not fit",
            crash(1, 'Error: cache requires rebuild: cache reports digest as "d0fe", but computed '
                  'digest is "a0bf"'), "cs-pod-crash", ("extractContent", "--cache-only")),
    PodCase("other architecture", crash(255, "exec /bin/opm: exec format error"), "cs-pod-crash",
            ("architecture", "nodeSelector")),
    PodCase("no opm in the image",
            crash(128, 'exec: "/bin/opm": stat /bin/opm: no such file or directory: unknown',
                  "StartError"), "cs-pod-crash", ("lacks the program", "extractContent")),
    PodCase("may not write", crash(1, "open /tmp/cache: permission denied"), "cs-pod-crash",
            ("securityContextConfig", "open /tmp/cache")),
    PodCase("ErrImagePull, no rights",
            started(waiting("ErrImagePull", PULL + "401 Unauthorized")), "cs-pod-image",
            ("credentials", "spec.secrets")),
    PodCase("ErrImagePull, no such image", started(waiting("ErrImagePull", PULL + "not found")),
            "cs-pod-image", ("does not have the catalog image", "spec.image")),
    PodCase("ErrImagePull, no such host",
            started(waiting("ErrImagePull", PULL + "dial tcp: lookup quay.io: no such host")),
            "cs-pod-image", ("can't resolve the name", "DNS")),
    PodCase("ErrImagePull, certificate",
            started(waiting("ErrImagePull", PULL + "tls: failed to verify certificate: x509: "
                            "certificate signed by unknown authority")),
            "cs-pod-image", ("certificate",)),
    PodCase("ImagePullBackOff",
            started(waiting("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"')),
            "cs-pod-image", ("ImagePullBackOff", "spec.image")),
    PodCase("InvalidImageName",
            started(waiting("InvalidImageName", "couldn't parse image name")), "cs-pod-image",
            ("no valid name of an image",)),
    PodCase("content can't be pulled",
            init(waiting("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"')),
            "cs-pod-image", ("spec.image",)),
    PodCase("unschedulable",
            {"phase": "Pending", "conditions": [condition(
                "PodScheduled", "False", "Unschedulable",
                "0/3 nodes are available: 3 Insufficient memory.")]},
            "cs-pod-unscheduled", ("3 Insufficient memory", "memoryTarget")),
    PodCase("refused by the node",
            failed("OutOfmemory", "Pod was rejected: Node didn't have enough resource: memory"),
            "cs-pod-unscheduled", ("enough resource: memory", "delete pod")),
    PodCase("evicted",
            failed("Evicted", EVICTED, container(terminated("ContainerStatusUnknown", 137))),
            "cs-pod-evicted", ("low on resource: memory", "memoryTarget", "delete pod")),
    PodCase("node shut down",
            failed("Terminated", "Pod was terminated in response to imminent node shutdown."),
            "cs-pod-evicted", ("was shutting down", "delete pod")),
    PodCase("drained",
            {"phase": "Running", "containerStatuses": [container(RUNNING, ready=True)],
             "conditions": [SCHEDULED, condition("Ready", "True"), condition(
                 "DisruptionTarget", "True", "DeletionByTaintManager",
                 "Taint manager: deleting due to NoExecute taint")]},
            "cs-pod-evicted", ("effect NoExecute", "get nodes")),
    PodCase("node does not report",
            {"phase": "Running", "containerStatuses": [container(RUNNING, ready=True)],
             "conditions": [SCHEDULED, condition("Ready", "False")]},
            "cs-pod-node", ("worker-1", "down or cut off")),
    PodCase("security context",
            started(waiting("CreateContainerConfigError",
                            "container has runAsNonRoot and image will run as root")),
            "cs-pod-start", ("runAsNonRoot", "securityContextConfig")),
)  # fmt: skip
