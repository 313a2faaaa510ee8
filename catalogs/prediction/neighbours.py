"""Checks of what else there is: other catalogs with the package, other packages with its API."""

from collections.abc import Sequence

from catalogs.prediction.asked import Answer, Asked, listed, same_package
from catalogs.prediction.surroundings import Offered

CSV = "ClusterServiceVersion"


def _best(offers: Sequence[Offered]) -> list[Offered]:
    """What a ClusterExtension that names no catalog is left with: a catalog of which all bundles
    are deprecated gives way to any other, then the priority counts."""
    living = [each for each in offers if not each.deprecated] or list(offers)
    top = max(each.priority for each in living)
    return [each for each in living if each.priority == top]


def ambiguous(asked: Asked) -> Answer:
    """Several catalogs have it, none comes first, and the one that is judged is among them."""
    market = asked.market
    offers = market.offers.get(asked.bundle.package) if market else None
    best = _best(offers) if offers else []
    catalogs = [each.catalog for each in best]
    if market is None or len(best) < 2 or market.catalog not in catalogs:
        return None
    return {"catalogs": listed(catalogs), "priority": str(best[0].priority)}


def outranked(asked: Asked) -> Answer:
    """Another catalog comes before the one that is judged."""
    market = asked.market
    offers = market.offers.get(asked.bundle.package) if market else None
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


def api_shared(asked: Asked) -> Answer:
    """Other packages of the catalogs provide an API of the bundle."""
    if asked.market is None:
        return None
    own, providers = asked.bundle.package, asked.market.providers
    shared = [kind for kind in asked.bundle.provides if providers.get(kind, frozenset()) - {own}]
    if not shared:
        return None
    kind = min(shared)
    others = sorted(providers[kind] - {own})
    return {"kind": f"{kind.kind} ({kind.api_version})", "packages": listed(others)}


def orphan(asked: Asked) -> Answer:
    """A ClusterServiceVersion of the package that no Subscription stands for."""
    found = same_package(asked, CSV)
    if not found:
        return None
    return {"csv": found[0].name, "namespace": found[0].namespace}
