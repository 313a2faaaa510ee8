"""Helm as rukpak and operator-controller use it: the objects of a release and their ownership.

An object belongs to the release that its label and its two annotations name, as in Helm.
"""

from collections.abc import Iterable, Mapping

from olmweb.sandbox.apiserver.kinds import Object, crd_status
from olmweb.sandbox.apiserver.store import (
    Key,
    Store,
    copied,
    key_of,
    owner_reference,
    timestamp,
    uid_of,
)
from olmweb.sandbox.controllers.bundles import BundleContent
from olmweb.sandbox.controllers.workloads import namespace

SYSTEM_NAMESPACE = "openshift-platform-operators"
_MANAGED_BY = "app.kubernetes.io/managed-by"
_NAME = "meta.helm.sh/release-name"
_NAMESPACE = "meta.helm.sh/release-namespace"
_KINDS = ("Namespace", "CustomResourceDefinition", "Role")


def owners(store: Store) -> dict[Key, str]:
    """The release that owns each object of the cluster; "" for none."""
    releases: dict[Key, str] = {}
    for kind in _KINDS:
        for item in store.items(kind)[0]:
            metadata = item["metadata"]
            is_managed = metadata.get("labels", {}).get(_MANAGED_BY) == "Helm"
            release = metadata.get("annotations", {}).get(_NAME, "") if is_managed else ""
            releases[key_of(item)] = release
    return releases


def ownership_error(release: str, keys: Iterable[Key], owners: Mapping[Key, str]) -> str:
    """Helm's error for the first of the objects that exists outside of `release`, or ""."""
    for key in keys:
        if owners.get(key, release) == release:
            continue
        kind, namespace, name = key
        return (
            "rendered manifests contain a resource that already exists. Unable to continue with "
            f'install: {kind} "{name}" in namespace "{namespace}" exists and cannot be imported '
            "into the current release: invalid ownership metadata; "
            + _metadata_error(release, owners[key])
        )
    return ""


def _metadata_error(release: str, owner: str) -> str:
    key = f'key "{_NAME}"'
    if owner:
        return (
            f'annotation validation error: {key} must equal "{release}": current value is "{owner}"'
        )
    return (
        f'label validation error: missing key "{_MANAGED_BY}": must be set to '
        f'"Helm"; annotation validation error: missing {key}: must be set to "{release}"; '
        f'annotation validation error: missing key "{_NAMESPACE}": must be set '
        f'to "{SYSTEM_NAMESPACE}"'
    )


def install(store: Store, deployment: Object, bundle: BundleContent) -> None:
    """Writes the objects of a bundle's release, owned by its BundleDeployment."""
    name = deployment["metadata"]["name"]
    now = timestamp(store.now())
    for made in objects(bundle):
        if made["kind"] == "CustomResourceDefinition":
            versions = [entry["name"] for entry in made["spec"]["versions"] if entry["storage"]]
            made["status"] = crd_status(made["spec"]["names"], versions, now)
        metadata = made["metadata"]
        metadata["uid"] = uid_of(*key_of(made))
        metadata["ownerReferences"] = [owner_reference(deployment, controller=True)]
        metadata["labels"] = metadata.get("labels", {}) | {
            _MANAGED_BY: "Helm",
            "core.rukpak.io/owner-kind": "BundleDeployment",
            "core.rukpak.io/owner-name": name,
        }
        metadata["annotations"] = {_NAME: name, _NAMESPACE: SYSTEM_NAMESPACE}
        store.put(made)


def objects(bundle: BundleContent) -> list[Object]:
    """The objects of a release in Helm's order: namespaces, CRDs, roles."""
    made = [namespace(bundle.namespace)]
    for manifest in bundle.manifests:
        item = copied(dict(manifest))
        if item["kind"] == "CustomResourceDefinition":
            made.append(item)
        elif item["kind"] == "Role":
            # A Role without a namespace is created where Helm stores the release.
            item["metadata"]["namespace"] = SYSTEM_NAMESPACE
            made.append(item)
    return made
