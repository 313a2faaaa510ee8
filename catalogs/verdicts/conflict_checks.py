"""Checks for conflicts with other catalogs, packages and objects of the cluster."""

from collections.abc import Sequence

from catalogs.contents.bundle_facts import Contents, ApiKind
from catalogs.verdicts.check_input import Answer, CheckContext, Unread, listed, same_package
from catalogs.verdicts.facts import ClusterOffers, Offered

CSV = "ClusterServiceVersion"


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
