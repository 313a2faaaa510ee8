"""Helm as rukpak uses it: a release's objects in the store, and to whom what is there belongs.

Ownership is read off the objects themselves, as Helm does: its label and its two annotations. Must
not know how a bundle becomes a release.
"""

from olmweb.sandbox.apiserver import definitions
from olmweb.sandbox.apiserver.store import Object, Store, copied, timestamp, uid_of
from olmweb.sandbox.controllers.rules import SYSTEM_NAMESPACE, Owned, Release

_MANAGED_BY = "app.kubernetes.io/managed-by"
_NAME = "meta.helm.sh/release-name"
_KINDS = ("Namespace", "CustomResourceDefinition", "Role")


def existing(store: Store) -> dict[Owned, str]:
    """Objects of the cluster and the release that owns each; "" when none does."""
    found: dict[Owned, str] = {}
    for kind in _KINDS:
        for item in store.items(kind)[0]:
            meta = item["metadata"]
            managed = meta.get("labels", {}).get(_MANAGED_BY) == "Helm"
            owner = meta.get("annotations", {}).get(_NAME, "") if managed else ""
            found[kind, meta.get("namespace", ""), meta["name"]] = owner
    return found


def install(store: Store, deployment: Object, release: Release) -> None:
    """Writes the release's objects; they go again with the BundleDeployment that owns them."""
    name = deployment["metadata"]["name"]
    owner = {
        "apiVersion": deployment["apiVersion"],
        "kind": deployment["kind"],
        "name": name,
        "uid": deployment["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    for made in _objects(release, timestamp(store.now())):
        meta = made["metadata"]
        meta["uid"] = uid_of(made["kind"], meta.get("namespace", ""), meta["name"])
        meta["ownerReferences"] = [owner]
        meta["labels"] = meta.get("labels", {}) | {
            _MANAGED_BY: "Helm",
            "core.rukpak.io/owner-kind": "BundleDeployment",
            "core.rukpak.io/owner-name": name,
        }
        meta["annotations"] = {_NAME: name, "meta.helm.sh/release-namespace": SYSTEM_NAMESPACE}
        store.put(made)


def _objects(release: Release, now: str) -> list[Object]:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": release.namespace,
            "labels": {"kubernetes.io/metadata.name": release.namespace},
        },
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
    found: list[Object] = [namespace]
    for manifest in release.manifests:
        made = copied(dict(manifest))
        if made["kind"] == "CustomResourceDefinition":
            stored = [one["name"] for one in made["spec"]["versions"] if one["storage"]]
            made["status"] = definitions.accepted(made["spec"]["names"], stored, now)
            found.append(made)
        elif made["kind"] == "Role":
            made["metadata"]["namespace"] = SYSTEM_NAMESPACE
            found.append(made)
    return found
