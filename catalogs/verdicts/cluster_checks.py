"""Checks of a bundle against the objects, versions and feature gates of a cluster."""

from collections.abc import Collection, Iterable, Mapping

from catalogs.contents.bundle_facts import CRD_KIND, ApiKind, Contents
from catalogs.install_methods import InstallMethod
from catalogs.semver import Version, read_version
from catalogs.verdicts.facts import (
    ALL_NAMESPACES,
    PLATFORM_NAMESPACE,
    Answer,
    CheckContext,
    Unread,
    WatchTarget,
    counted,
    kinds_text,
    listed,
    modes_text,
    same_package,
)
from olmweb.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, SHIPPED_CLUSTER_WIDE

# Kinds of which ClusterFacts.shared has the objects.
SHARED_KINDS = frozenset(
    resource.kind for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, *SHIPPED_CLUSTER_WIDE)
)


def unserved_kinds(context: CheckContext) -> Answer:
    """Kinds of the API groups of the bundle's own CRDs count as served."""
    bundle = context.bundle
    if bundle.shipped is None:
        return Unread.FACT
    own = {name.partition(".")[2] for name, _ in bundle.crd_versions or ()}
    return _unserved(context, (item.kind for item in bundle.shipped), own)


def native_apis(context: CheckContext) -> Answer:
    return _unserved(context, context.bundle.native_apis)


def _unserved(
    context: CheckContext, kinds: Iterable[ApiKind], own_groups: Collection[str] = ()
) -> Answer:
    served = {kind: context.cluster.serves(kind, context.bundle) for kind in kinds}
    missing = [kind for kind, known in served.items() if known is False]
    missing = [kind for kind in missing if kind.group not in own_groups]
    if missing:
        return {"kinds": kinds_text(missing)}
    return Unread.KINDS if None in served.values() else None


def stored_versions(context: CheckContext) -> Answer:
    """Applies to CRDs that are written; those of the installed bundle are not written again."""
    crds, bundle = context.cluster.crds, context.bundle
    if bundle.crd_versions is None:
        return Unread.FACT
    if crds is None:
        return Unread.CRDS if bundle.crd_versions else None
    if bundle.name and any(operator.bundle == bundle.name for operator in same_package(context)):
        return None
    for name, versions in bundle.crd_versions:
        dropped = crds[name].stored - versions if name in crds else frozenset()
        if dropped:
            return {"crd": name, "versions": ", ".join(sorted(dropped))}
    return None


def _crds(bundle: Contents) -> dict[str, None]:
    """Names of the CRDs that a bundle owns or ships, in order."""
    shipped = [item.name for item in bundle.shipped or () if item.kind.kind == CRD_KIND]
    return dict.fromkeys((*bundle.owned_crds, *shipped))


def crd_of_another(context: CheckContext, kind: str) -> Answer:
    """A CRD of the bundle that is on the cluster and whose owner is not the package's object of
    `kind`. A PlatformOperator, its BundleDeployment and its release have the same name."""
    crds = context.cluster.crds
    if crds is None:
        return Unread.CRDS if _crds(context.bundle) else None
    own = {(kind, name) for name in _releases(context, kind)}
    for name in _crds(context.bundle):
        crd = crds.get(name)
        if crd is not None and (crd.owner_kind, crd.owner) not in own:
            owner = f"{crd.owner_kind} {crd.owner}" if crd.owner else "no release"
            return {"crd": name, "owner": owner}
    return None


def _releases(context: CheckContext, kind: str) -> list[str]:
    """Names of the objects of `kind` for the package; the package's own name if there is none."""
    return [operator.name for operator in same_package(context, kind)] or [context.bundle.package]


def min_kube(context: CheckContext) -> Answer:
    needed, version = context.bundle.min_kube_version, context.cluster.kube_version
    if not needed:
        return None
    if version is None:  # OpenShift's version does not imply that of Kubernetes
        return Unread.FACT if context.cluster.openshift_version else Unread.VERSION
    wanted = read_version(needed.removeprefix("v"))
    bare = Version(version.major, version.minor, version.patch)
    if wanted is None or wanted <= bare:
        return None
    return {"needed": needed, "version": str(bare)}


def max_openshift(context: CheckContext) -> Answer:
    """OpenShift blocks its upgrade if the next minor version is above the maximum."""
    allowed, version = context.bundle.max_openshift_version, context.cluster.openshift_version
    if not allowed:
        return None
    if version is None:
        return Unread.FACT
    maximum = read_version(f"{allowed}.0")
    if maximum is None or (maximum.major, maximum.minor) > (version.major, version.minor):
        return None
    return {"max": allowed}


def required_crds(context: CheckContext) -> Answer:
    """The CRDs that the CSV requires and for which the resolver adds no provider."""
    missing = []
    unknown = False
    for name, kind in context.bundle.required_crds:
        if kind in context.bundle.requires or kind in context.bundle.provides:
            continue  # provided by the resolver or the bundle itself
        if context.cluster.crds is None:
            unknown = True
        elif name not in context.cluster.crds:
            missing.append(name)
    if missing:
        return {"crds": listed(missing)}
    return Unread.CRDS if unknown else None


def provided_elsewhere(context: CheckContext) -> Answer:
    """Only an installed operator of another package that watches the same namespaces counts.

    OLM overwrites CRDs without an owner and those of other installers.
    """
    crds = context.cluster.crds
    if crds is None:
        return Unread.CRDS if _crds(context.bundle) else None
    subscribed = {
        (operator.namespace, operator.name): operator.package
        for operator in context.cluster.installed
        if operator.kind == InstallMethod.SUBSCRIPTION
    }
    for name in _crds(context.bundle):
        crd = crds.get(name)
        if crd is None or crd.owner_kind != InstallMethod.SUBSCRIPTION:
            continue
        package = subscribed.get((crd.owner_namespace, crd.owner), context.bundle.package)
        if package != context.bundle.package and _selects_too(context, crd.owner_namespace):
            return {"crd": name, "owner": f"{package} in {crd.owner_namespace}"}
    return None


def _selects_too(context: CheckContext, namespace: str) -> bool:
    """Whether the OperatorGroups there may select the same namespaces as the target."""
    groups = [group for group in context.cluster.groups if group.namespace == namespace]
    everywhere = any("" in group.selects for group in groups) or not groups
    return everywhere or context.target == WatchTarget.ALL


def namespace_exists(context: CheckContext) -> Answer:
    if context.cluster.namespaces is None:
        return Unread.NAMESPACES
    namespace = context.bundle.suggested_namespace or f"{context.bundle.package}-system"
    owner = _of_another(
        context.cluster.namespaces.get(namespace), _owners(context, InstallMethod.PLATFORM_OPERATOR)
    )
    return {"namespace": namespace, "owned": owner} if owner else None


def role_exists(context: CheckContext) -> Answer:
    """A Role without a namespace is created in the namespace of the releases."""
    roles = context.cluster.roles
    if context.bundle.shipped is None:
        return Unread.FACT
    for item in context.bundle.shipped:
        if item.kind.kind == "Role" and item.namespace in ("", PLATFORM_NAMESPACE):
            if roles is None:
                return Unread.ROLES
            owner = _of_another(
                roles.get(item.name), _owners(context, InstallMethod.PLATFORM_OPERATOR)
            )
            if owner:
                return {"role": item.name, "namespace": PLATFORM_NAMESPACE, "owned": owner}
    return None


def object_of_another(context: CheckContext, kind: str) -> Answer:
    """A shipped cluster-scoped object that exists already with an owner other than the package's
    object of `kind`."""
    shared, shipped = context.cluster.shared, context.bundle.shipped
    if shipped is None:
        return Unread.FACT
    if shared is None:
        return Unread.OBJECTS if any(item.kind.kind in SHARED_KINDS for item in shipped) else None
    own = _owners(context, kind)
    for item in shipped:
        owned = _of_another(shared.get(item.kind.kind, {}).get(item.name), own)
        if owned:
            return {"object": f"{item.kind.kind} {item.name}", "owned": owned}
    return None


def _owners(context: CheckContext, kind: str) -> set[str]:
    """The package's objects of `kind` as owners: PlatformOperators by their Helm releases."""
    namespace = PLATFORM_NAMESPACE if kind == InstallMethod.PLATFORM_OPERATOR else kind
    return {f"{namespace}/{name}" for name in _releases(context, kind)}


def _of_another(owner: str | None, own: set[str]) -> str:
    """A phrase for the owner of an object that Helm would refuse; empty if it would accept."""
    if owner is None or owner in own:
        return ""
    namespace, _, name = owner.partition("/")
    if not name:
        return "no release owns it"
    if namespace == "ClusterExtension":
        return f"{namespace} {name} owns it"
    where = "" if namespace == PLATFORM_NAMESPACE else f" ({namespace})"
    return f"release {name}{where} owns it"


def package_installed(context: CheckContext) -> Answer:
    others = [operator.name for operator in same_package(context, InstallMethod.PLATFORM_OPERATOR)]
    return {"name": listed(others)} if len(others) > 1 else None


CSV = "ClusterServiceVersion"


def api_provided_elsewhere(context: CheckContext) -> Answer:
    """An APIService is cluster-wide; only a replacement of its owner takes it over."""
    for name in context.bundle.owned_apis:
        package, namespace = context.cluster.apis.get(name, ("", ""))
        if namespace and package != context.bundle.package:
            return {"name": name, "owner": f"{package or 'an operator'} in {namespace}"}
    return None


def foreign_api(context: CheckContext) -> Answer:
    """OLM never takes over an existing APIService without an owner of OLM."""
    foreign, owned = context.cluster.foreign_apis, context.bundle.owned_apis
    if not owned:
        return None
    if foreign is None:
        return Unread.API_SERVICES
    names = [name for name in owned if name in foreign]
    return {"names": listed(names)} if names else None


def existing_objects(context: CheckContext) -> Answer:
    """CRDs whose objects OLM v0 validates against the bundle's schema before it writes them, in
    each version that both the cluster and the bundle serve. OLM only warns for CRDs that a webhook
    converts. Considers all owned CRDs if the objects of the bundle are unknown, and none for the
    installed bundle, whose CRDs are not written again."""
    bundle, crds = context.bundle, context.cluster.crds
    if crds is None:
        return Unread.FACT
    if bundle.name and any(offer.bundle == bundle.name for offer in same_package(context)):
        return None
    strict = bundle.crds_strict
    names = [
        name
        for name, served in strict or ()
        if name in crds and not served.isdisjoint(crds[name].served)
    ]
    at_risk = names if strict is not None else [name for name in bundle.owned_crds if name in crds]
    if any(crds[name].objects for name in at_risk):
        counted = [f"{crds[name].objects} of {name}" for name in at_risk if crds[name].objects]
        return {"counted": listed(counted)}
    return Unread.FACT if any(crds[name].objects is None for name in at_risk) else None


def orphan(context: CheckContext) -> Answer:
    """A ClusterServiceVersion of the package without a Subscription."""
    csvs = same_package(context, CSV)
    if not csvs:
        return None
    return {"csv": csvs[0].name, "namespace": csvs[0].namespace}


ONE_NAMESPACE = "SingleOwnNamespaceInstallSupport"
CERT_MANAGER = "WebhookProviderCertManager"
SERVICE_CA = "WebhookProviderOpenshiftServiceCA"
CERTIFICATE = ApiKind("cert-manager.io", "v1", "Certificate")


def watching(context: CheckContext) -> Answer:
    """Support for all namespaces, or for one namespace if the feature gate for it is on."""
    modes = context.bundle.install_modes
    if modes is None:
        return Unread.FACT
    if ALL_NAMESPACES in modes:
        return None
    which = _which_namespace(context.bundle)
    gate = _gates(context).get(ONE_NAMESPACE)
    if which and gate:
        return None  # the next rule says what it takes
    otherwise = "No feature gate changes that."
    if which:
        when = "It would take it if it ran" if gate is False else "It takes it only when it runs"
        off = ", which is off here," if gate is False else ","
        otherwise = (
            f"{when} with the feature gate {ONE_NAMESPACE}{off} "
            f"and with {which} in spec.config.inline.watchNamespace."
        )
    return {"modes": modes_text(context.bundle), "otherwise": otherwise}


def watch_namespace(context: CheckContext) -> Answer:
    """A bundle that is accepted only with a watch namespace."""
    modes = context.bundle.install_modes
    if modes is None or ALL_NAMESPACES in modes or not _gates(context).get(ONE_NAMESPACE):
        return None
    which = _which_namespace(context.bundle)
    return {"modes": modes_text(context.bundle), "which": which} if which else None


def gated_webhooks(context: CheckContext) -> Answer:
    """Webhooks if it is unknown whether they are accepted, and unknown webhooks."""
    answer = counted(context.bundle.webhooks, "webhook")
    if answer is Unread.FACT or _no_webhooks(context) is None:
        return answer
    return None  # it takes them, or the next rule says why not


def webhook_provider(context: CheckContext) -> Answer:
    """Webhooks without a certificate provider."""
    answer, why = counted(context.bundle.webhooks, "webhook"), _no_webhooks(context)
    if not isinstance(answer, Mapping) or not why:
        return None
    return {**answer, "why": why}


def _gates(context: CheckContext) -> dict[str, bool]:
    return dict(context.cluster.gates or {})


def _which_namespace(bundle: Contents) -> str:
    """A phrase for the namespace that it may watch (isWatchNamespaceConfigRequired and
    selectNamespaceFormat of internal/operator-controller/rukpak/bundle/registryv1.go); empty for
    no single namespace."""
    modes = bundle.install_modes or frozenset()
    own, single = "OwnNamespace" in modes, "SingleNamespace" in modes
    if own and single:
        return "one namespace"
    if own:
        return "the namespace of the ClusterExtension"
    return "another namespace than its own" if single else ""


def _no_webhooks(context: CheckContext) -> str | None:
    """The reason for refusing webhooks, empty if they are accepted, None if unknown. Mirrors
    getCertificateProvider of cmd/operator-controller/main.go: cert-manager's comes first."""
    gates = _gates(context)
    manager, service = gates.get(CERT_MANAGER), gates.get(SERVICE_CA)
    if manager:
        served = context.cluster.serves(CERTIFICATE, context.bundle)
        if served is False:
            return (
                f"the certificates would be cert-manager's, and {CERTIFICATE.label} is not served"
            )
        return "" if served else None
    if manager is None or service is None:
        return None
    return "" if service else f"the feature gates {CERT_MANAGER} and {SERVICE_CA} are off"
