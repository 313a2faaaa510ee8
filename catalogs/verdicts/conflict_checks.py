"""Checks of what else there is: catalogs with the package, packages and objects with its API."""

from collections.abc import Sequence

from catalogs.contents.bundle_facts import Contents, Kind
from catalogs.verdicts.check_input import Answer, CheckContext, Unread, listed, same_package
from catalogs.verdicts.facts import CatalogOffers, Offered

CSV = "ClusterServiceVersion"


def _best(offers: Sequence[Offered]) -> list[Offered]:
    """What a ClusterExtension that names no catalog is left with: a catalog of which all bundles
    are deprecated gives way to any other, then the priority counts."""
    living = [each for each in offers if not each.deprecated] or list(offers)
    top = max(each.priority for each in living)
    return [each for each in living if each.priority == top]


def ambiguous(context: CheckContext) -> Answer:
    """Several catalogs have it, none comes first, and the one that is judged is among them."""
    market = context.market
    offers = market.offers.get(context.bundle.package) if market else None
    best = _best(offers) if offers else []
    catalogs = [each.catalog for each in best]
    if market is None or len(best) < 2 or market.catalog not in catalogs:
        return None
    return {"catalogs": listed(catalogs), "priority": str(best[0].priority)}


def outranked(context: CheckContext) -> Answer:
    """Another catalog comes before the one that is judged."""
    market = context.market
    offers = market.offers.get(context.bundle.package) if market else None
    if market is None or not offers:
        return None
    best = _best(offers)
    own = next((each for each in offers if each.catalog == market.catalog), None)
    if own is None or own in best:
        return None
    if own.deprecated and not best[0].deprecated:
        why = "has versions of it that are not deprecated"
    else:
        why = f"has priority {best[0].priority} over this one's {own.priority}"
    return {"catalog": listed(each.catalog for each in best), "why": why}


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


def other_providers(bundle: Contents, market: CatalogOffers, kind: Kind) -> frozenset[str]:
    """Packages that may come along for a kind; a second bundle of its own package never does."""
    return market.providers.get(kind, frozenset()) - {bundle.package}


def several_providers(context: CheckContext) -> Answer:
    """A required API that the resolver would have to choose a provider of."""
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
    """Two packages that must come together, and one API that each of them always provides.

    Only what surely comes along counts: required packages, and the only provider of a required API.
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
            other = next((one for one, kinds in provided.items() if kind in kinds), None)
            if other is not None:
                return {
                    "kind": kind.label,
                    "package": name,
                    "other": "it" if other == bundle.package else other,
                }
        provided[name] = market.always.get(name, frozenset())
    return None


def api_provided_elsewhere(context: CheckContext) -> Answer:
    """An APIService is one for the whole cluster; only what replaces its owner takes it over."""
    for name in context.bundle.owned_apis:
        package, namespace = context.cluster.apis.get(name, ("", ""))
        if namespace and package != context.bundle.package:
            return {"name": name, "owner": f"{package or 'an operator'} in {namespace}"}
    return None


def foreign_api(context: CheckContext) -> Answer:
    """One that is there and carries no owner of OLM's is never taken over."""
    foreign, owned = context.cluster.foreign_apis, context.bundle.owned_apis
    if not owned:
        return None
    if foreign is None:
        return Unread.API_SERVICES
    found = [name for name in owned if name in foreign]
    return {"names": listed(found)} if found else None


def existing_objects(context: CheckContext) -> Answer:
    """CRDs whose objects OLM v0 validates against the bundle's schema before it writes them: in
    each version that the cluster and the bundle both serve. It only warns of those that a webhook
    converts. Of a bundle whose objects are not known all that it owns may be among them; nobody
    writes those of the installed bundle again."""
    bundle, crds = context.bundle, context.cluster.crds
    if crds is None:
        return Unread.FACT
    if bundle.name and any(each.bundle == bundle.name for each in same_package(context)):
        return None
    strict = bundle.crds_strict
    names = [
        name
        for name, served in strict or ()
        if name in crds and not served.isdisjoint(crds[name].served)
    ]
    found = names if strict is not None else [name for name in bundle.owned_crds if name in crds]
    if any(crds[name].objects for name in found):
        counted = [f"{crds[name].objects} of {name}" for name in found if crds[name].objects]
        return {"counted": listed(counted)}
    return Unread.FACT if any(crds[name].objects is None for name in found) else None


def orphan(context: CheckContext) -> Answer:
    """A ClusterServiceVersion of the package that no Subscription stands for."""
    found = same_package(context, CSV)
    if not found:
        return None
    return {"csv": found[0].name, "namespace": found[0].namespace}
