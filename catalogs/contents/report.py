"""Summary of a bundle's objects: kinds, permissions, CRDs, webhooks, images and namespaces.

Pure; does not compare them with a cluster.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalogs.contents.bundle_facts import CRD_KIND, CSV_KIND
from catalogs.contents.objects import Manifests
from catalogs.contents.permissions import CLUSTER, Level, Permission, account_of, permissions_of
from olmweb.kube.fields import Object, dig, items, text, texts

BY_INSTALLER = "created at installation"


@dataclass(frozen=True, slots=True)
class Kinds:
    """The objects of one kind. `origin` is empty for objects among the manifests."""

    kind: str
    api_version: str
    names: tuple[str, ...]
    origin: str = ""


@dataclass(frozen=True, slots=True)
class CrdVersion:
    name: str
    served: bool
    storage: bool
    schema: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Crd:
    name: str
    kind: str
    scope: str
    versions: tuple[CrdVersion, ...]


@dataclass(frozen=True, slots=True)
class Webhook:
    """`intercepts` are texts such as "CREATE, UPDATE of kettles.tea.example.com"."""

    type: str
    name: str
    failure_policy: str
    intercepts: tuple[str, ...]
    everything: bool = False  # it intercepts every kind


@dataclass(frozen=True, slots=True)
class UsedImage:
    """`pinned`: by digest, by tag, or not at all."""

    image: str
    names: tuple[str, ...]
    pinned: str


@dataclass(frozen=True, slots=True)
class BundleReport:
    kinds: tuple[Kinds, ...] = ()
    permissions: tuple[Permission, ...] = ()
    crds: tuple[Crd, ...] = ()
    webhooks: tuple[Webhook, ...] = ()
    images: tuple[UsedImage, ...] = ()
    namespaces: tuple[str, ...] = ()

    @property
    def dangerous(self) -> int:
        return sum(
            permission.scope == CLUSTER and permission.level == Level.DANGER
            for permission in self.permissions
        )


def report(manifests: Manifests, related: Iterable[tuple[str, str]] = ()) -> BundleReport:
    """Summarizes a bundle; `related` are its related images as (name, image)."""
    csv = manifests.csv
    shipped = [manifest for manifest in manifests.objects if manifest.get("kind") != CSV_KIND]
    return BundleReport(
        kinds=(*_kinds(shipped), *_created(csv)),
        permissions=permissions_of(csv, shipped),
        crds=tuple(_crd(manifest) for manifest in shipped if manifest.get("kind") == CRD_KIND),
        webhooks=tuple(map(_webhook, items(csv, "spec", "webhookdefinitions"))),
        images=images((*related, *_images(csv))),
        namespaces=tuple(sorted(_namespaces(shipped))),
    )


def _kinds(shipped: Iterable[dict[str, Any]]) -> Iterator[Kinds]:
    names: dict[tuple[str, str], list[str]] = defaultdict(list)
    for manifest in shipped:
        named = (
            text(manifest, "metadata", "name") or text(manifest, "metadata", "generateName") or "-"
        )
        names[text(manifest, "kind"), text(manifest, "apiVersion")].append(named)
    for kind, api_version in sorted(names):
        yield Kinds(kind, api_version, tuple(sorted(names[kind, api_version])))


def _created(csv: dict[str, Any]) -> Iterator[Kinds]:
    """Objects that OLM creates from the ClusterServiceVersion (OLM, pkg/controller/install)."""
    install = dig(csv, "spec", "install", "spec")
    wide = [account_of(permission) for permission in items(install, "clusterPermissions")]
    inside = [account_of(permission) for permission in items(install, "permissions")]
    rbac = "rbac.authorization.k8s.io/v1"
    deployments = [text(deployment, "name") or "-" for deployment in items(install, "deployments")]
    made = (
        ("Deployment", "apps/v1", deployments),
        ("ServiceAccount", "v1", [*wide, *inside]),
        ("ClusterRole, ClusterRoleBinding", rbac, wide),
        ("Role, RoleBinding", rbac, inside),
    )
    for kind, api_version, names in made:
        if names:
            yield Kinds(kind, api_version, tuple(sorted(set(names))), BY_INSTALLER)


def _crd(manifest: dict[str, Any]) -> Crd:
    spec = dig(manifest, "spec")
    legacy = dig(spec, "validation", "openAPIV3Schema")
    versions = [
        CrdVersion(
            text(version, "name"),
            version.get("served") is True,
            version.get("storage") is True,
            _schema(dig(version, "schema", "openAPIV3Schema") or legacy),
        )
        for version in items(spec, "versions")
    ]
    if not versions and text(spec, "version"):  # apiextensions.k8s.io/v1beta1
        versions = [CrdVersion(text(spec, "version"), True, True, _schema(legacy))]
    return Crd(
        text(manifest, "metadata", "name"),
        text(spec, "names", "kind"),
        text(spec, "scope"),
        tuple(versions),
    )


def _schema(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _webhook(webhook: Object) -> Webhook:
    intercepts, everything = [], False
    for rule in items(webhook, "rules"):
        groups, resources = tuple(texts(rule, "apiGroups")), tuple(texts(rule, "resources"))
        everything = everything or ("*" in groups and bool({"*", "*/*"} & set(resources)))
        what = Permission("", "", groups, resources, ()).what
        intercepts.append(f"{', '.join(texts(rule, 'operations')) or '-'} of {what}")
    intercepts += [f"conversion of {name}" for name in texts(webhook, "conversionCRDs")]
    return Webhook(
        text(webhook, "type"),
        text(webhook, "generateName"),
        text(webhook, "failurePolicy") or "Fail",
        tuple(intercepts),
        everything,
    )


def _images(csv: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for related in items(csv, "spec", "relatedImages"):
        yield text(related, "name"), text(related, "image")
    for deployment in items(csv, "spec", "install", "spec", "deployments"):
        pod = dig(deployment, "spec", "template", "spec")
        for key in ("initContainers", "containers"):
            for container in items(pod, key):
                yield text(container, "name"), text(container, "image")


def images(pairs: Iterable[tuple[str, str]]) -> tuple[UsedImage, ...]:
    """Images with their names, without duplicates: unpinned first, then by tag, then by digest."""
    names: dict[str, list[str]] = defaultdict(list)
    for name, image in pairs:
        if image:
            names[image] += [name] if name else []
    result = [
        UsedImage(image, tuple(dict.fromkeys(names[image])), _pinned(image)) for image in names
    ]
    order = ("not at all", "tag", "digest")
    return tuple(sorted(result, key=lambda image: (order.index(image.pinned), image.image)))


def _pinned(image: str) -> str:
    if "@" in image:
        return "digest"
    return "tag" if ":" in image.rpartition("/")[2] else "not at all"


def _namespaces(shipped: Iterable[dict[str, Any]]) -> set[str]:
    namespaces = set()
    for manifest in shipped:
        namespaces.add(text(manifest, "metadata", "namespace"))
        if manifest.get("kind") == "Namespace":
            namespaces.add(text(manifest, "metadata", "name"))
    return namespaces - {""}
