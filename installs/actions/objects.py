"""Writing the objects of an action: which kinds, how each is asked about, in what order.

Knows clusters through the client only; rows are others' concern.
"""

from collections.abc import Sequence
from typing import Any

from olmweb.kube.client import Impersonation, KubeClient
from olmweb.kube.errors import Forbidden, NotFound
from olmweb.kube.resources import (
    BUNDLE_DEPLOYMENTS,
    BUNDLES,
    CLUSTER_EXTENSIONS,
    CLUSTER_SERVICE_VERSIONS,
    CONFIG_MAPS,
    INSTALL_PLANS,
    JOBS,
    NAMESPACES,
    OPERATOR_GROUPS,
    PLATFORM_OPERATORS,
    SERVICE_ACCOUNTS,
    SUBSCRIPTIONS,
    Resource,
)

WRITTEN: dict[str, Resource] = {
    one.kind: one
    for one in (
        NAMESPACES,
        SERVICE_ACCOUNTS,
        OPERATOR_GROUPS,
        SUBSCRIPTIONS,
        INSTALL_PLANS,
        CLUSTER_SERVICE_VERSIONS,
        CLUSTER_EXTENSIONS,
        PLATFORM_OPERATORS,
        # Of a retry only:
        BUNDLE_DEPLOYMENTS,
        BUNDLES,
        CONFIG_MAPS,
        JOBS,
    )
}
RETRIED = "olmweb.operatorframework.io/retry-asked"  # annotation
# Labels and annotations that OLM or a retry put on a Subscription, or that say nothing of it.
_OF_OLM = ("operators.coreos.com/", "olm.", RETRIED, "kubectl.kubernetes.io/last-applied")


def label(manifest: dict[str, Any]) -> str:
    """What a manifest, or a step of a removal, is called: `Namespace etcd`."""
    metadata = manifest.get("metadata", manifest)
    namespace = metadata.get("namespace")
    return f"{manifest['kind']} {f'{namespace}/' if namespace else ''}{metadata['name']}"


def is_deletion(manifest: dict[str, Any]) -> bool:
    """Whether it is a step that deletes, and no object to apply."""
    return "metadata" not in manifest


def remakes(manifests: Sequence[dict[str, Any]]) -> bool:
    """Whether the object that all are for, the last of them, is deleted and made again."""
    last = manifests[-1]
    return not is_deletion(last) and any(
        label(one) == label(last) for one in manifests if is_deletion(one)
    )


def step(kind: str, namespace: str, name: str, uid: str) -> dict[str, str]:
    """A deletion as Action.manifests keeps it; without `uid` of whatever has the name."""
    return {"kind": kind, "namespace": namespace, "name": name, "uid": uid}


def remake_problem(there: dict[str, Any], manifest: dict[str, Any]) -> str:
    """Why the object can't be deleted and made again as `manifest` without losing anything.

    Empty when it can. Labels and annotations of OLM's own come back by themselves.
    """
    if there.get("spec") != manifest["spec"]:
        return "its specification is not what was shown"
    meta = there["metadata"]
    if meta.get("ownerReferences"):
        return "another object owns it"
    names = [*(meta.get("labels") or {}), *(meta.get("annotations") or {})]
    foreign = [one for one in names if not one.startswith(_OF_OLM)]
    return f"it has {foreign[0]}, which would be lost" if foreign else ""


def is_there(
    client: KubeClient,
    resource: Resource,
    version: str,
    metadata: dict[str, Any],
    who: Impersonation | None,
) -> bool:
    """Whether an object that an install needs beside it is there already.

    An OperatorGroup is whenever its namespace has any: OLM v0 allows no second one. Who may not
    look is told no; the apply that follows then decides.
    """
    namespace = metadata.get("namespace", "")
    try:
        if resource is OPERATOR_GROUPS:
            pages = client.list_pages(resource, version, namespace=namespace)
            return any(page.items for page in pages)
        client.get(resource, version, metadata["name"], namespace, as_user=who)
    except (NotFound, Forbidden):
        return False
    return True


def may_write(
    client: KubeClient, resource: Resource, namespace: str, who: Impersonation | None
) -> None:
    """Raises Forbidden, in the words of the cluster's RBAC, unless both rights are there."""
    for verb in ("create", "patch"):
        answer = client.may(verb, resource, namespace, as_user=who)
        if not answer.allowed:
            plural = f"{resource.plural}.{resource.group}".rstrip(".")
            raise Forbidden(
                f"Cluster {client.name} does not allow this: {plural} in namespace {namespace}: "
                f"{answer.reason or f'no rule allows to {verb} them'}.",
                status=403,
            )
