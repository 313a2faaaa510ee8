"""The checks of the rules on a bundle. A check returns None (passes), the facts of its sentence
(hits), or a value of Unread for a missing fact.
"""

from collections.abc import Callable, Mapping
from typing import Any

from catalogs.contents.bundle_facts import CRD_KIND, Contents, ApiKind
from catalogs.semver import Version, blang_range, parse
from catalogs.verdicts import bundle_checks, conflict_checks, feature_gate_checks
from catalogs.verdicts.check_input import (
    ALL_NAMESPACES,
    Answer,
    CheckContext,
    Unread,
    counted,
    kinds_text,
    listed,
    modes_text,
    same_package,
)
from catalogs.verdicts.facts import PLATFORM_NAMESPACE, WatchTarget
from olmweb.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, SHIPPED_CLUSTER_WIDE

# Target of the OperatorGroup -> the install modes that it needs, and a phrase for it.
GROUP_MODES = {
    WatchTarget.ALL: ((ALL_NAMESPACES,), "for all namespaces"),
    WatchTarget.OWN: (("OwnNamespace",), "of its own namespace"),
    WatchTarget.SINGLE: (("SingleNamespace",), "of another namespace"),
    WatchTarget.MULTI: (("MultiNamespace",), "of several namespaces"),
    WatchTarget.MIXED: (("MultiNamespace", "OwnNamespace"), "of its own and other namespaces"),
}
PLATFORM_OPERATOR = "PlatformOperator"
SUBSCRIPTION = "Subscription"
# Kinds of which ClusterFacts.shared has the objects.
SHARED_KINDS = frozenset(
    resource.kind for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, *SHIPPED_CLUSTER_WIDE)
)
# Spelled so in OLM, which means resources.
WEBHOOK_KINDS = frozenset(("*", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"))


# -- all install methods ---------------------------------------------------------------------------


def _all_namespaces(context: CheckContext) -> Answer:
    modes = context.bundle.install_modes
    if modes is None:
        return Unread.FACT
    return None if ALL_NAMESPACES in modes else {"modes": modes_text(context.bundle)}


def _api_services(context: CheckContext) -> Answer:
    return counted(context.bundle.owned_api_services, "APIService")


def _webhooks(context: CheckContext) -> Answer:
    return counted(context.bundle.webhooks, "webhook")


def _conversion_mode(context: CheckContext) -> Answer:
    if not context.bundle.conversion_webhooks or context.bundle.install_modes is None:
        return None  # without the full CSV the rule for webhooks says what is not known
    only = context.bundle.install_modes == {ALL_NAMESPACES}
    return None if only else {"modes": modes_text(context.bundle)}


def _forbidden_webhook(context: CheckContext) -> Answer:
    """A webhook may not watch everything, OLM itself, or webhooks."""
    for groups, resources in context.bundle.webhook_rules:
        if "*" in groups:
            return {"what": "all API groups"}
        if "operators.coreos.com" in groups:
            return {"what": "OLM's own API group"}
        if "admissionregistration.k8s.io" in groups and not WEBHOOK_KINDS.isdisjoint(resources):
            return {"what": "the configurations of webhooks"}
    return None


def _unserved_kinds(context: CheckContext) -> Answer:
    bundle = context.bundle
    if bundle.shipped is None:
        return Unread.FACT
    served = [(item.kind, context.cluster.serves(item.kind, bundle)) for item in bundle.shipped]
    unserved = [kind for kind, is_served in served if is_served is False and not _own(kind, bundle)]
    if unserved:
        return {"kinds": kinds_text(unserved)}
    return Unread.KINDS if any(is_served is None for _, is_served in served) else None


def _own(kind: ApiKind, bundle: Contents) -> bool:
    """Whether the kind is of an API group of the bundle's own CRDs."""
    groups = {name.partition(".")[2] for name, _ in bundle.crd_versions or ()}
    return kind.group in groups


def _stored_versions(context: CheckContext) -> Answer:
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


def _crd_of_another(context: CheckContext, own: set[tuple[str, str]]) -> Answer:
    """A CRD of the bundle that is on the cluster with an owner (kind, name) not in `own`."""
    crds = context.cluster.crds
    if crds is None:
        return Unread.CRDS if _crds(context.bundle) else None
    for name in _crds(context.bundle):
        crd = crds.get(name)
        if crd is not None and (crd.owner_kind, crd.owner) not in own:
            owner = f"{crd.owner_kind} {crd.owner}" if crd.owner else "no release"
            return {"crd": name, "owner": owner}
    return None


def _releases(context: CheckContext, kind: str) -> list[str]:
    """Names of the objects of `kind` for the package; the package's own name if there is none."""
    return [operator.name for operator in same_package(context, kind)] or [context.bundle.package]


def _min_kube(context: CheckContext) -> Answer:
    needed, version = context.bundle.min_kube_version, context.cluster.kube_version
    if not needed:
        return None
    if version is None:  # OpenShift's version does not imply that of Kubernetes
        return Unread.FACT if context.cluster.openshift_version else Unread.VERSION
    wanted = _version(needed.removeprefix("v"))
    bare = Version(version.major, version.minor, version.patch)
    if wanted is None or wanted <= bare:
        return None
    return {"needed": needed, "version": str(bare)}


def _version(text: str) -> Version | None:
    try:
        return parse(text)
    except ValueError:
        return None


def _max_openshift(context: CheckContext) -> Answer:
    """OpenShift blocks its upgrade if the next minor version is above the maximum."""
    allowed, version = context.bundle.max_openshift_version, context.cluster.openshift_version
    if not allowed:
        return None
    if version is None:
        return Unread.FACT
    maximum = _version(f"{allowed}.0")
    if maximum is None or (maximum.major, maximum.minor) > (version.major, version.minor):
        return None
    return {"max": allowed}


def _deprecated(context: CheckContext) -> Answer:
    return {} if context.bundle.deprecated else None


# -- Subscription ----------------------------------------------------------------------------------


def _prohibited(context: CheckContext) -> Answer:
    return {} if context.bundle.prohibited else None


def _required_packages(context: CheckContext) -> Answer:
    for name, wanted in context.bundle.required_packages:
        met = _offers(context, name, wanted)
        if isinstance(met, str):
            return {"package": name, "range": wanted, "fault": met}
    return None if context.market or not context.bundle.required_packages else Unread.FACT


def _offers(context: CheckContext, name: str, wanted: str) -> str | None:
    """The fault of a required package, or None."""
    try:
        within = blang_range(wanted)
    except ValueError as error:
        return f"the range can't be read ({error})"
    if context.market is None:
        return None
    versions = context.market.versions.get(name)
    if not versions:
        return "no catalog has the package"
    return None if any(within(version) for version in versions) else "no version is in the range"


def _required_apis(context: CheckContext) -> Answer:
    if context.market is None:
        return Unread.FACT if context.bundle.requires else None
    missing = [kind for kind in context.bundle.requires if not context.market.providers.get(kind)]
    return {"kinds": kinds_text(missing)} if missing else None


def _constraints(context: CheckContext) -> Answer:
    unknown = bool(context.bundle.required_labels)
    for constraint in context.bundle.constraints:
        met = _holds(context, constraint)
        if met is False:
            message = constraint.get("failureMessage") if isinstance(constraint, dict) else ""
            return {"constraint": str(message or constraint)[:200]}
        unknown = unknown or met is None
    return Unread.FACT if unknown else None


def _holds(context: CheckContext, constraint: Any) -> bool | None:
    """None if only the resolver can evaluate the constraint, or if the offers are unknown."""
    if not isinstance(constraint, dict) or context.market is None:
        return None
    if isinstance(needed := constraint.get("package"), dict):
        name, wanted = str(needed.get("packageName")), str(needed.get("versionRange"))
        return _offers(context, name, wanted) is None
    if isinstance(gvk := constraint.get("gvk"), dict):
        kind = ApiKind(*(str(gvk.get(key) or "") for key in ("group", "version", "kind")))
        return bool(context.market.providers.get(kind))
    for word, decide in (("all", _all), ("any", _any), ("not", _none)):
        if isinstance(inner := constraint.get(word), dict):
            return decide(
                [
                    _holds(context, inner_constraint)
                    for inner_constraint in inner.get("constraints") or ()
                ]
            )
    return None


def _all(answers: list[bool | None]) -> bool | None:
    return False if False in answers else None if None in answers else True


def _any(answers: list[bool | None]) -> bool | None:
    return True if True in answers else None if None in answers else False


def _none(answers: list[bool | None]) -> bool | None:
    met = _any(answers)
    return None if met is None else not met


def _group_mode(context: CheckContext) -> Answer:
    modes = context.bundle.install_modes
    if modes is None:
        return Unread.FACT
    needed, target = GROUP_MODES[context.target]
    missing = [mode for mode in needed if mode not in modes]
    if not missing:
        return None
    return {"mode": " and ".join(missing), "target": target, "modes": modes_text(context.bundle)}


def _native_apis(context: CheckContext) -> Answer:
    served = [
        (kind, context.cluster.serves(kind, context.bundle)) for kind in context.bundle.native_apis
    ]
    missing = [kind for kind, is_served in served if is_served is False]
    if missing:
        return {"kinds": kinds_text(missing)}
    return Unread.KINDS if any(is_served is None for _, is_served in served) else None


def _required_crds(context: CheckContext) -> Answer:
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


def _provided_elsewhere(context: CheckContext) -> Answer:
    """Only an installed operator of another package that watches the same namespaces counts.

    OLM overwrites CRDs without an owner and those of other installers.
    """
    crds = context.cluster.crds
    if crds is None:
        return Unread.CRDS if _crds(context.bundle) else None
    subscribed = {
        (operator.namespace, operator.name): operator.package
        for operator in context.cluster.installed
        if operator.kind == SUBSCRIPTION
    }
    for name in _crds(context.bundle):
        crd = crds.get(name)
        if crd is None or crd.owner_kind != SUBSCRIPTION:
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


# -- ClusterExtension, PlatformOperator ------------------------------------------------------------


def _dependency(context: CheckContext) -> Answer:
    bundle = context.bundle
    declared = {
        "olm.package.required": bundle.required_packages,
        "olm.gvk.required": bundle.requires,
        "olm.constraint": bundle.constraints,
    }
    types = [name for name, values in declared.items() if values]
    return {"types": ", ".join(types)} if types else None


def _needs(context: CheckContext) -> Answer:
    bundle = context.bundle
    packages = [f"{name} {wanted}" for name, wanted in bundle.required_packages]
    kinds = [kind.label for kind in bundle.requires]
    counted = [f"{len(bundle.constraints)} constraints"] if bundle.constraints else []
    needs = [*packages, *kinds, *counted]
    return {"needs": listed(needs)} if needs else None


def _extension_crds(context: CheckContext) -> Answer:
    kind = "ClusterExtension"
    return _crd_of_another(context, {(kind, name) for name in _releases(context, kind)})


def _platform_crds(context: CheckContext) -> Answer:
    """A PlatformOperator, its BundleDeployment and its release have the same name."""
    names = _releases(context, PLATFORM_OPERATOR)
    return _crd_of_another(context, {(PLATFORM_OPERATOR, name) for name in names})


def _namespace_exists(context: CheckContext) -> Answer:
    if context.cluster.namespaces is None:
        return Unread.NAMESPACES
    namespace = context.bundle.suggested_namespace or f"{context.bundle.package}-system"
    owner = _other_release(context, context.cluster.namespaces.get(namespace))
    return {"namespace": namespace, "owned": owner} if owner else None


def _role_exists(context: CheckContext) -> Answer:
    """A Role without a namespace is created in the namespace of the releases."""
    roles = context.cluster.roles
    if context.bundle.shipped is None:
        return Unread.FACT
    for item in context.bundle.shipped:
        if item.kind.kind == "Role" and item.namespace in ("", PLATFORM_NAMESPACE):
            if roles is None:
                return Unread.ROLES
            owner = _other_release(context, roles.get(item.name))
            if owner:
                return {"role": item.name, "namespace": PLATFORM_NAMESPACE, "owned": owner}
    return None


def _platform_objects(context: CheckContext) -> Answer:
    return _object_of_another(context, _platform_releases(context))


def _extension_objects(context: CheckContext) -> Answer:
    kind = "ClusterExtension"
    return _object_of_another(context, {f"{kind}/{name}" for name in _releases(context, kind)})


def _object_of_another(context: CheckContext, own: set[str]) -> Answer:
    """A shipped cluster-scoped object that exists already with another owner."""
    shared, shipped = context.cluster.shared, context.bundle.shipped
    if shipped is None:
        return Unread.FACT
    if shared is None:
        return Unread.OBJECTS if any(item.kind.kind in SHARED_KINDS for item in shipped) else None
    for item in shipped:
        owned = _of_another(shared.get(item.kind.kind, {}).get(item.name), own)
        if owned:
            return {"object": f"{item.kind.kind} {item.name}", "owned": owned}
    return None


def _platform_releases(context: CheckContext) -> set[str]:
    return {f"{PLATFORM_NAMESPACE}/{name}" for name in _releases(context, PLATFORM_OPERATOR)}


def _other_release(context: CheckContext, owner: str | None) -> str:
    return _of_another(owner, _platform_releases(context))


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


def _package_installed(context: CheckContext) -> Answer:
    others = [operator.name for operator in same_package(context, PLATFORM_OPERATOR)]
    return {"name": listed(others)} if len(others) > 1 else None


CHECKS: Mapping[str, Callable[[CheckContext], Answer]] = {
    "sub-prohibited": _prohibited,
    "sub-package-required": _required_packages,
    "sub-api-required": _required_apis,
    "sub-constraint": _constraints,
    "sub-api-twice": conflict_checks.provided_twice,
    "sub-mode-twice": bundle_checks.duplicate_modes,
    "sub-install-mode": _group_mode,
    "sub-kind-unserved": _unserved_kinds,
    "sub-stored-version": _stored_versions,
    "sub-min-kube": _min_kube,
    "sub-native-api": _native_apis,
    "sub-required-crd": _required_crds,
    "sub-webhook-name": bundle_checks.webhook_name_twice,
    "sub-crd-owned": _provided_elsewhere,
    "sub-api-service-owned": conflict_checks.api_provided_elsewhere,
    "sub-api-service-foreign": conflict_checks.foreign_api,
    "sub-conversion-mode": _conversion_mode,
    "sub-webhook-rule": _forbidden_webhook,
    "sub-orphan": conflict_checks.orphan,
    "sub-existing-objects": conflict_checks.existing_objects,
    "sub-api-several": conflict_checks.several_providers,
    "ce-ambiguous": conflict_checks.ambiguous,
    "ce-outranked": conflict_checks.outranked,
    "ce-dependency": _dependency,
    "ce-folder": bundle_checks.folders,
    "ce-install-mode": feature_gate_checks.watching,
    "ce-watch-namespace": feature_gate_checks.watch_namespace,
    "ce-api-service": _api_services,
    "ce-webhook": feature_gate_checks.webhooks,
    "ce-webhook-provider": feature_gate_checks.webhook_provider,
    "ce-bundle-fault": bundle_checks.inconsistent,
    "ce-conversion-mode": _conversion_mode,
    "ce-webhook-rule": _forbidden_webhook,
    "ce-kind-unsupported": bundle_checks.unsupported_kind,
    "ce-kind-unserved": _unserved_kinds,
    "ce-object-unnamed": bundle_checks.unnamed_object,
    "ce-stored-version": _stored_versions,
    "ce-crd-owned": _extension_crds,
    "ce-object-owned": _extension_objects,
    "ce-min-kube": _min_kube,
    "ce-native-api": _native_apis,
    "po-folder": bundle_checks.folders,
    "po-install-mode": _all_namespaces,
    "po-api-service": _api_services,
    "po-webhook": _webhooks,
    "po-object-unnamed": bundle_checks.unnamed_object,
    "po-kind-unserved": _unserved_kinds,
    "po-namespace-exists": _namespace_exists,
    "po-crd-owned": _platform_crds,
    "po-role-exists": _role_exists,
    "po-object-owned": _platform_objects,
    "po-package-installed": _package_installed,
    "po-dependency-ignored": _needs,
    "po-min-kube": _min_kube,
    "po-native-api": _native_apis,
    "api-shared": conflict_checks.api_shared,
    "max-openshift": _max_openshift,
    "deprecated": _deprecated,
}
