"""What a bundle would bring to a cluster: objects, permissions, CRDs, webhooks, images, namespaces.

Pure: objects in, plain facts out. What a cluster has of it already is not known here.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalogs.contents.objects import CSV_KIND, Manifests
from catalogs.contents.risks import Level, risks
from catalogs.contents.tolerant import at, objects, text, texts

CLUSTER, NAMESPACE = "cluster", "namespace"
BY_INSTALLER = "made by the installer"
_ORDER = tuple(Level)


@dataclass(frozen=True, slots=True)
class Kinds:
    """The objects of one kind. `origin` is empty for those among the manifests."""

    kind: str
    api_version: str
    names: tuple[str, ...]
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Permission:
    """One RBAC rule that is granted. `scope`: cluster or namespace; `why`: worst first."""

    scope: str
    account: str
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    level: str = Level.PLAIN
    why: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """Its resources with their groups, as kubectl writes them."""
        if self.urls:
            return ", ".join(self.urls)
        shown = []
        for group in self.groups or ("",):
            shown += [f"{each}.{group}" if group else each for each in self.resources]
        return ", ".join(shown)


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
    conversion_webhook: bool = False


@dataclass(frozen=True, slots=True)
class Webhook:
    """`intercepts` are texts such as "CREATE, UPDATE of kettles.tea.example.com"."""

    type: str
    name: str
    failure_policy: str
    intercepts: tuple[str, ...]
    everything: bool = False  # it is asked about every kind


@dataclass(frozen=True, slots=True)
class Image:
    """`pinned`: by digest, by tag, or not at all."""

    image: str
    names: tuple[str, ...]
    pinned: str


@dataclass(frozen=True, slots=True)
class Report:
    kinds: tuple[Kinds, ...] = ()
    permissions: tuple[Permission, ...] = ()
    crds: tuple[Crd, ...] = ()
    webhooks: tuple[Webhook, ...] = ()
    images: tuple[Image, ...] = ()
    namespaces: tuple[str, ...] = ()

    @property
    def dangerous(self) -> int:
        return sum(
            each.scope == CLUSTER and each.level == Level.DANGER for each in self.permissions
        )


def report(found: Manifests, related: Iterable[tuple[str, str]] = ()) -> Report:
    """All of it; `related` are the bundle's related images, (name, image)."""
    csv = found.csv
    shipped = [each for each in found.objects if each.get("kind") != CSV_KIND]
    return Report(
        kinds=(*_kinds(shipped), *_made(csv)),
        permissions=_permissions(csv, shipped),
        crds=tuple(
            _crd(each) for each in shipped if each.get("kind") == "CustomResourceDefinition"
        ),
        webhooks=tuple(map(_webhook, objects(csv, "spec", "webhookdefinitions"))),
        images=images((*related, *_images(csv))),
        namespaces=tuple(sorted(_namespaces(shipped))),
    )


def _kinds(shipped: Iterable[dict[str, Any]]) -> Iterator[Kinds]:
    names: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in shipped:
        named = text(each, "metadata", "name") or text(each, "metadata", "generateName") or "-"
        names[text(each, "kind"), text(each, "apiVersion")].append(named)
    for kind, api_version in sorted(names):
        yield Kinds(kind, api_version, tuple(sorted(names[kind, api_version])))


def _made(csv: dict[str, Any]) -> Iterator[Kinds]:
    """What OLM makes of the ClusterServiceVersion (OLM, pkg/controller/install)."""
    install = at(csv, "spec", "install", "spec")
    wide = [_account(each) for each in objects(install, "clusterPermissions")]
    inside = [_account(each) for each in objects(install, "permissions")]
    rbac = "rbac.authorization.k8s.io/v1"
    deployments = [text(each, "name") or "-" for each in objects(install, "deployments")]
    made = (
        ("Deployment", "apps/v1", deployments),
        ("ServiceAccount", "v1", [*wide, *inside]),
        ("ClusterRole, ClusterRoleBinding", rbac, wide),
        ("Role, RoleBinding", rbac, inside),
    )
    for kind, api_version, names in made:
        if names:
            yield Kinds(kind, api_version, tuple(sorted(set(names))), BY_INSTALLER)


def _account(permission: dict[str, Any]) -> str:
    return text(permission, "serviceAccountName") or "default"


def _permissions(csv: dict[str, Any], shipped: list[dict[str, Any]]) -> tuple[Permission, ...]:
    install = at(csv, "spec", "install", "spec")
    found = [
        _permission(scope, _account(each), rule)
        for scope, key in ((CLUSTER, "clusterPermissions"), (NAMESPACE, "permissions"))
        for each in objects(install, key)
        for rule in objects(each, "rules")
    ]
    found += _bound(shipped)
    found.sort(key=lambda each: (each.scope != CLUSTER, _ORDER.index(Level(each.level))))
    return tuple(dict.fromkeys(found))


def _permission(scope: str, account: str, rule: dict[str, Any]) -> Permission:
    groups, resources = texts(rule, "apiGroups"), texts(rule, "resources")
    verbs, names = texts(rule, "verbs"), texts(rule, "resourceNames")
    level, why = risks(groups, resources, verbs, named=bool(names))
    if scope == NAMESPACE and level == Level.DANGER:
        level = Level.CAUTION
    urls = texts(rule, "nonResourceURLs")
    return Permission(scope, account, groups, resources, verbs, names, urls, level, why)


def _bound(shipped: list[dict[str, Any]]) -> Iterator[Permission]:
    """What the bundle's own bindings grant."""
    roles = {
        (text(each, "kind"), text(each, "metadata", "name")): each
        for each in shipped
        if each.get("kind") in ("ClusterRole", "Role")
    }
    for each in shipped:
        if each.get("kind") not in ("ClusterRoleBinding", "RoleBinding"):
            continue
        scope = CLUSTER if each["kind"] == "ClusterRoleBinding" else NAMESPACE
        whom = ", ".join(text(one, "name") for one in objects(each, "subjects")) or "nobody"
        kind, name = text(each, "roleRef", "kind"), text(each, "roleRef", "name")
        role = roles.get((kind, name))
        if role is not None:
            for rule in objects(role, "rules"):
                yield _permission(scope, whom, rule)
            continue
        admin = name == "cluster-admin" and scope == CLUSTER
        says = (
            "It is bound to cluster-admin: it may do everything."
            if admin
            else f"It is bound to {kind} {name}, which the bundle does not ship."
        )
        level = Level.DANGER if admin else Level.CAUTION
        yield Permission(scope, whom, (), (f"{kind}/{name}",), (), level=level, why=(says,))


def _crd(manifest: dict[str, Any]) -> Crd:
    spec = at(manifest, "spec")
    legacy = at(spec, "validation", "openAPIV3Schema")
    versions = [
        CrdVersion(
            text(each, "name"),
            each.get("served") is True,
            each.get("storage") is True,
            _schema(at(each, "schema", "openAPIV3Schema") or legacy),
        )
        for each in objects(spec, "versions")
    ]
    if not versions and text(spec, "version"):  # apiextensions.k8s.io/v1beta1
        versions = [CrdVersion(text(spec, "version"), True, True, _schema(legacy))]
    return Crd(
        text(manifest, "metadata", "name"),
        text(spec, "names", "kind"),
        text(spec, "scope"),
        tuple(versions),
        text(spec, "conversion", "strategy") == "Webhook",
    )


def _schema(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _webhook(found: dict[str, Any]) -> Webhook:
    told, everything = [], False
    for rule in objects(found, "rules"):
        groups, resources = texts(rule, "apiGroups"), texts(rule, "resources")
        everything = everything or ("*" in groups and bool({"*", "*/*"} & set(resources)))
        what = Permission("", "", groups, resources, ()).what
        told.append(f"{', '.join(texts(rule, 'operations')) or '-'} of {what}")
    told += [f"conversion of {name}" for name in texts(found, "conversionCRDs")]
    return Webhook(
        text(found, "type"),
        text(found, "generateName"),
        text(found, "failurePolicy") or "Fail",
        tuple(told),
        everything,
    )


def _images(csv: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for each in objects(csv, "spec", "relatedImages"):
        yield text(each, "name"), text(each, "image")
    for deployment in objects(csv, "spec", "install", "spec", "deployments"):
        pod = at(deployment, "spec", "template", "spec")
        for key in ("initContainers", "containers"):
            for each in objects(pod, key):
                yield text(each, "name"), text(each, "image")


def images(pairs: Iterable[tuple[str, str]]) -> tuple[Image, ...]:
    """Each image once with all its names: by tag first, since those may change."""
    names: dict[str, list[str]] = defaultdict(list)
    for name, image in pairs:
        if image:
            names[image] += [name] if name else []
    found = [Image(image, tuple(dict.fromkeys(names[image])), _pinned(image)) for image in names]
    order = ("not at all", "tag", "digest")
    return tuple(sorted(found, key=lambda each: (order.index(each.pinned), each.image)))


def _pinned(image: str) -> str:
    if "@" in image:
        return "digest"
    return "tag" if ":" in image.rpartition("/")[2] else "not at all"


def _namespaces(shipped: Iterable[dict[str, Any]]) -> set[str]:
    found = set()
    for each in shipped:
        found.add(text(each, "metadata", "namespace"))
        if each.get("kind") == "Namespace":
            found.add(text(each, "metadata", "name"))
    return found - {""}
