"""Checks of a bundle by itself and beside the packages that catalogs offer."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from catalogs.contents.bundle_facts import ApiKind, Contents
from catalogs.fbc.properties import DEPENDENCIES
from catalogs.semver import blang_range
from catalogs.verdicts.dependencies import (
    OLM_V0,
    Installed,
    RequiredPackage,
    installed_of,
    is_met,
    providers_of,
)
from catalogs.verdicts.facts import (
    ALL_NAMESPACES,
    Answer,
    CheckContext,
    ClusterOffers,
    Offered,
    Unread,
    WatchTarget,
    counted,
    kinds_text,
    listed,
    modes_text,
)

# What a registry+v1 bundle may contain: operator-registry pkg/lib/bundle/supported_resources.go.
SUPPORTED = frozenset(
    (
        *("ClusterServiceVersion", "CustomResourceDefinition", "Secret", "ConfigMap"),
        *("ServiceAccount", "Service", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        *("PrometheusRule", "ServiceMonitor", "PodMonitor", "PodDisruptionBudget", "PriorityClass"),
        *("VerticalPodAutoscaler", "ConsoleYAMLSample", "ConsoleQuickStart", "ConsoleCLIDownload"),
        *("ConsoleLink", "ConsolePlugin", "NetworkPolicy"),
    )
)
# Spelled so in OLM, which means resources.
WEBHOOK_KINDS = frozenset(("*", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"))
# Target of the OperatorGroup -> the install modes that it needs, and a phrase for it.
GROUP_MODES = {
    WatchTarget.ALL: ((ALL_NAMESPACES,), "for all namespaces"),
    WatchTarget.OWN: (("OwnNamespace",), "of its own namespace"),
    WatchTarget.SINGLE: (("SingleNamespace",), "of another namespace"),
    WatchTarget.MULTI: (("MultiNamespace",), "of several namespaces"),
    WatchTarget.MIXED: (("MultiNamespace", "OwnNamespace"), "of its own and other namespaces"),
}
_T = TypeVar("_T", bound=Hashable)
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*\Z")


def all_namespaces(context: CheckContext) -> Answer:
    modes = context.bundle.install_modes
    if modes is None:
        return Unread.FACT
    return None if ALL_NAMESPACES in modes else {"modes": modes_text(context.bundle)}


def group_mode(context: CheckContext) -> Answer:
    modes = context.bundle.install_modes
    if modes is None:
        return Unread.FACT
    needed, target = GROUP_MODES[context.target]
    missing = [mode for mode in needed if mode not in modes]
    if not missing:
        return None
    return {"mode": " and ".join(missing), "target": target, "modes": modes_text(context.bundle)}


def api_services(context: CheckContext) -> Answer:
    return counted(context.bundle.owned_api_services, "APIService")


def webhooks(context: CheckContext) -> Answer:
    return counted(context.bundle.webhooks, "webhook")


def conversion_mode(context: CheckContext) -> Answer:
    if not context.bundle.conversion_webhooks or context.bundle.install_modes is None:
        return None  # without the full CSV the rule for webhooks says what is not known
    only = context.bundle.install_modes == {ALL_NAMESPACES}
    return None if only else {"modes": modes_text(context.bundle)}


def forbidden_webhook(context: CheckContext) -> Answer:
    """A webhook may not watch everything, OLM itself, or webhooks."""
    for groups, resources in context.bundle.webhook_rules:
        if "*" in groups:
            return {"what": "all API groups"}
        if "operators.coreos.com" in groups:
            return {"what": "OLM's own API group"}
        if "admissionregistration.k8s.io" in groups and not WEBHOOK_KINDS.isdisjoint(resources):
            return {"what": "the configurations of webhooks"}
    return None


def prohibited(context: CheckContext) -> Answer:
    return {} if context.bundle.prohibited else None


def deprecated(context: CheckContext) -> Answer:
    return {} if context.bundle.deprecated else None


def dependency(context: CheckContext) -> Answer:
    bundle = context.bundle
    declared = (bundle.required_packages, bundle.requires, bundle.constraints)
    types = [name for name, values in zip(DEPENDENCIES, declared, strict=True) if values]
    return {"types": ", ".join(types)} if types else None


def needs(context: CheckContext) -> Answer:
    bundle = context.bundle
    packages = [f"{name} {wanted}" for name, wanted in bundle.required_packages]
    kinds = [kind.label for kind in bundle.requires]
    counted = [f"{len(bundle.constraints)} constraints"] if bundle.constraints else []
    needs = [*packages, *kinds, *counted]
    return {"needs": listed(needs)} if needs else None


def duplicate_modes(context: CheckContext) -> Answer:
    modes = context.bundle.repeated_install_modes
    return {"modes": listed(modes)} if modes else None


def webhook_name_twice(context: CheckContext) -> Answer:
    """OLM v0 counts the names of all webhooks together."""
    names = _twice(hook.name for hook in context.bundle.hooks)
    return {"names": listed(name or "none" for name in names)} if names else None


def folders(context: CheckContext) -> Answer:
    """Known only for inspected images; a catalog has the objects of a bundle without paths."""
    names = context.bundle.folders
    return {"folders": listed(names)} if names else None


def unnamed_object(context: CheckContext) -> Answer:
    """Helm looks each object up by its name; one with generateName has none."""
    if context.bundle.shipped is None:
        return Unread.FACT
    kinds = [item.kind for item in context.bundle.shipped if not item.name]
    return {"kinds": kinds_text(kinds)} if kinds else None


def unsupported_kind(context: CheckContext) -> Answer:
    if context.bundle.shipped is None:
        return Unread.FACT
    kinds = [item.kind for item in context.bundle.shipped if item.kind.kind not in SUPPORTED]
    return {"kinds": kinds_text(kinds)} if kinds else None


def inconsistent(context: CheckContext) -> Answer:
    """The first fault that operator-controller reports before it renders the bundle."""
    bundle = context.bundle
    if bundle.deployments is None or bundle.crd_versions is None:
        return Unread.FACT
    fault = next(_inconsistencies(bundle), "")
    return {"fault": fault} if fault else None


def _inconsistencies(bundle: Contents) -> Iterator[str]:
    """In the order of its validators, without those that have a rule of their own."""
    deployments = bundle.deployments or ()
    for name in _twice(deployments):
        yield f"its ClusterServiceVersion has Deployment {name} twice"
    for name in deployments:
        if not _SUBDOMAIN.match(name):
            yield f"{_quoted(name)} is no valid name of a Deployment"
    crds = [name for name, _ in bundle.crd_versions or ()]
    for name in _twice(crds):
        yield f"it has the CustomResourceDefinition {name} twice"
    for name in bundle.owned_crds:
        if name not in crds:
            yield f"it says that it owns the CustomResourceDefinition {name}, and has none"
    yield from _of_webhooks(bundle, deployments)


def _of_webhooks(bundle: Contents, deployments: tuple[str, ...]) -> Iterator[str]:
    for hook in bundle.hooks:
        if hook.deployment not in deployments:
            yield f"its webhook {hook.name} names a Deployment that it lacks: {hook.deployment}"
    for type_, name in _twice((hook.type, hook.name) for hook in bundle.hooks):
        yield f"it has two webhooks of type {type_} with the name {name}"
    for hook in bundle.hooks:
        if not _SUBDOMAIN.match(hook.name):
            yield f"{_quoted(hook.name)} is no valid name of a webhook"
    converting = [(crd, hook.name) for hook in bundle.hooks for crd in hook.crds]
    for crd in _twice(crd for crd, _ in converting):
        yield f"two conversion webhooks are for {crd}"
    for crd, name in converting:
        if crd not in bundle.owned_crds:
            yield f"its conversion webhook {name} is for {crd}, which it does not own"


def _quoted(name: str) -> str:
    return f"“{name}”"


def _twice(names: Iterable[_T]) -> list[_T]:
    return [name for name, times in Counter(names).items() if times > 1]


def required_packages(context: CheckContext) -> Answer:
    for name, wanted in context.bundle.required_packages:
        if fault := _package_fault(context, RequiredPackage(name, wanted)):
            return {"package": name, "range": wanted, "fault": fault}
    return None if context.market or not context.bundle.required_packages else Unread.FACT


def _package_fault(context: CheckContext, required: RequiredPackage) -> str:
    """The reason why no package meets it; empty if one does, or if the offers are unknown."""
    try:
        blang_range(required.range)
    except ValueError as error:
        return f"the range can't be read ({error})"
    market = context.market
    if market is None or providers_of(required, market):
        return ""
    if installed_of(required, _installed(context), market):
        return ""
    has_package = market.versions.get(required.name)
    return "no version is in the range" if has_package else "no catalog has the package"


def _installed(context: CheckContext) -> Installed:
    """The operators of OLM v0 on the cluster: a verdict is that of a namespace that has what the
    bundle requires."""
    versions: dict[str, list[str]] = {}
    for operator in context.cluster.installed:
        if operator.kind in OLM_V0 and operator.version:
            versions.setdefault(operator.package, []).append(operator.version)
    return versions


def required_apis(context: CheckContext) -> Answer:
    market = context.market
    if market is None:
        return Unread.FACT if context.bundle.requires else None
    missing = [kind for kind in context.bundle.requires if not providers_of(kind, market)]
    return {"kinds": kinds_text(missing)} if missing else None


def constraints(context: CheckContext) -> Answer:
    unknown = bool(context.bundle.required_labels)
    for constraint in context.bundle.constraints:
        market = context.market
        met = None if market is None else is_met(constraint, market, _installed(context))
        if met is False:
            message = constraint.get("failureMessage") if isinstance(constraint, dict) else ""
            return {"constraint": str(message or constraint)[:200]}
        unknown = unknown or met is None
    return Unread.FACT if unknown else None


def _best(offers: Sequence[Offered]) -> list[Offered]:
    """The candidates of a ClusterExtension without a catalog: catalogs with bundles that are not
    deprecated come first, then those with the highest priority."""
    living = [offer for offer in offers if not offer.deprecated] or list(offers)
    top = max(offer.priority for offer in living)
    return [offer for offer in living if offer.priority == top]


def ambiguous(context: CheckContext) -> Answer:
    """Several catalogs with equal precedence have the package, the evaluated one among them."""
    market = context.market
    offers = market.offers.get(context.bundle.package) if market else None
    best = _best(offers) if offers else []
    catalogs = [offer.catalog for offer in best]
    if market is None or len(best) < 2 or market.catalog not in catalogs:
        return None
    return {"catalogs": listed(catalogs), "priority": str(best[0].priority)}


def outranked(context: CheckContext) -> Answer:
    """Another catalog takes precedence over the evaluated one."""
    market = context.market
    offers = market.offers.get(context.bundle.package) if market else None
    if market is None or not offers:
        return None
    best = _best(offers)
    own = next((offer for offer in offers if offer.catalog == market.catalog), None)
    if own is None or own in best:
        return None
    if own.deprecated and not best[0].deprecated:
        why = "has versions of it that are not deprecated"
    else:
        why = f"has priority {best[0].priority} over this one's {own.priority}"
    return {"catalog": listed(offer.catalog for offer in best), "why": why}


def api_shared(context: CheckContext) -> Answer:
    """Other packages of the catalogs provide an API of the bundle."""
    if context.market is None:
        return None
    bundle, market = context.bundle, context.market
    shared = [kind for kind in bundle.provides if other_providers(bundle, market, kind)]
    if not shared:
        return None
    kind = min(shared)
    others = sorted(other_providers(bundle, market, kind))
    return {"kind": kind.label, "packages": listed(others)}


def other_providers(bundle: Contents, market: ClusterOffers, kind: ApiKind) -> frozenset[str]:
    """Other packages that provide a kind; the resolver never adds a second bundle of a package."""
    return market.providers.get(kind, frozenset()) - {bundle.package}


def several_providers(context: CheckContext) -> Answer:
    """A required API with several providers to choose from."""
    if context.market is None:
        return None
    for kind in context.bundle.requires:
        packages = other_providers(context.bundle, context.market, kind)
        if kind not in context.bundle.provides and len(packages) > 1:
            return {
                "kind": kind.label,
                "packages": listed(sorted(packages)),
            }
    return None


def provided_twice(context: CheckContext) -> Answer:
    """Two packages that must be installed together and always provide the same API.

    Considers only required packages and the only provider of a required API.
    """
    market, bundle = context.market, context.bundle
    if market is None:
        return None
    forced = {name for name, _ in bundle.required_packages}
    for kind in bundle.requires:
        packages = other_providers(bundle, market, kind)
        if kind not in bundle.provides and len(packages) == 1:
            forced |= packages
    provided = {bundle.package: bundle.provides}
    for name in sorted(forced - {bundle.package}):
        for kind in sorted(market.always.get(name, ())):
            other = next((package for package, kinds in provided.items() if kind in kinds), None)
            if other is not None:
                return {
                    "kind": kind.label,
                    "package": name,
                    "other": "it" if other == bundle.package else other,
                }
        provided[name] = market.always.get(name, frozenset())
    return None
