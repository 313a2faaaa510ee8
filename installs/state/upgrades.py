"""The upgrade that an operator could get, and a sentence on what holds it. Uses no database.

Rules: a Subscription follows the head of its channel (olm resolver); a ClusterExtension takes the
highest successor of what is installed, over all channels of the package, unless its spec narrows
that (operator-controller internal/operator-controller/resolve/catalog.go, catalogmetadata/filter).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catalogs.graph import successors
from catalogs.graph.routes import find_route
from catalogs.semver import Version, masterminds_range, read_version
from installs.diagnosis.resolution import RESOLUTION_FAILED, why_over
from installs.models import Component, Operator
from installs.state.catalog_offers import UpgradeOffer
from installs.state.observation import ComponentRow, observe
from olmweb.kube.conditions import find, status_of
from olmweb.kube.fields import items, text

_NAMED = 6  # intermediate versions that a sentence names
_SENTENCE = 500  # characters of a cluster's message that are quoted
SELF_CERTIFIED = "SelfCertified"
CSV = "ClusterServiceVersion"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """`version` could be installed; `held` is the reason why it is not, empty without one."""

    version: str = ""
    held: str = ""


NONE = Upgrade()


def version_of(name: str, csvs: Mapping[str, ComponentRow], offer: UpgradeOffer | None) -> str:
    """The version of a CSV by its spec, else by the catalog, else by the suffix of its name."""
    if name in csvs and (version := text(csvs[name].details, "version", limit=200)):
        return version
    if offer is not None and offer.versions.get(name):
        return offer.versions[name]
    _, is_there, rest = name.partition(".v")
    return rest[:200] if is_there and read_version(rest) is not None else ""


def of_subscription(
    row: Operator, components: Sequence[ComponentRow], offer: UpgradeOffer | None
) -> Upgrade:
    """The CSV that OLM has resolved but not installed, else a newer head of the channel."""
    csvs = {csv.name: csv for csv in components if csv.kind == CSV}
    installed, current = (text(row.details, key) for key in ("installed_csv", "current_csv"))
    if not installed:
        return NONE
    if current and current != installed:
        version = version_of(current, csvs, offer) or current[:200]
        return Upgrade(version, _held(row, components, installed, current))
    head = offer.heads.get(row.channel, "") if offer is not None else ""
    if offer is None or not head or head == installed:
        return NONE
    now, then = read_version(version_of(installed, csvs, offer)), offer.parsed.get(head)
    if now is None or then is None or then <= now:
        return NONE
    return Upgrade(offer.versions[head], _held(row, components, installed, head))


def _held(row: Operator, components: Sequence[ComponentRow], installed: str, target: str) -> str:
    named = {(component.kind, component.name): component for component in components}
    condition = named.get(("OperatorCondition", installed))
    if condition is not None and (refused := not_upgradeable(condition)) is not None:
        return _sentence(f"{installed} says that it must not be upgraded now", refused)
    csv = named.get((CSV, target))
    if csv is not None and text(csv.details, "reason") == "OperatorConditionNotUpgradeable":
        return _sentence(
            f"{installed} says that it must not be upgraded now", text(csv.details, "message")
        )
    plan = named.get(("InstallPlan", text(row.details, "plan")))
    if plan is not None and plan.phase == "RequiresApproval":
        return f"InstallPlan {plan.name} requires manual approval."
    failed = find(row.conditions, RESOLUTION_FAILED)
    if text(failed, "status") == "True":
        csvs = [observe(csv) for csv in components if csv.kind == CSV]
        if not why_over(observe(row), csvs):
            return _sentence("OLM found no way to it", text(failed, "message"))
    return ""


def not_upgradeable(condition: ComponentRow | Component) -> str | None:
    """The message of an OperatorCondition with Upgradeable=False, else None. Overrides win."""
    for conditions in (items(condition.details, "overrides"), condition.conditions):
        own = find(conditions, "Upgradeable")
        if own is not None:
            return text(own, "message") if status_of(conditions, "Upgradeable") == "False" else None
    return None


def _sentence(start: str, message: str) -> str:
    quoted = message.strip()[:_SENTENCE].rstrip(".")
    return f"{start}: {quoted}." if quoted else f"{start}."


def of_extension(row: Operator, offers: Sequence[UpgradeOffer]) -> Upgrade:
    """The newest version that the extension may be upgraded to, else the newest one that is held.

    Of several catalogs with a newer version the one with the highest priority counts. It is held
    while a catalog with a higher priority has the installed version and no newer one: the installed
    version is a candidate, too (operator-controller resolve/catalog.go, filter/successors.go).
    """
    now = read_version(row.version)
    if now is None or not row.bundle:
        return NONE
    usable = [
        offer for offer in offers if offer.cluster_catalog and row.catalog in ("", offer.catalog)
    ]
    newer = {id(offer): _newer(row, offer, now) for offer in usable}
    staying = [offer for offer in usable if not newer[id(offer)] and _offers_installed(row, offer)]
    usable = [offer for offer in usable if newer[id(offer)]]
    if not usable:
        return NONE
    top = max(offer.priority for offer in usable)
    first = max(staying, key=lambda offer: offer.priority, default=None)
    outranked = ""
    if first is not None and first.priority > top:
        outranked = (
            f"Catalog {first.catalog} has priority {first.priority} over {top}, and no newer "
            f"version than {row.version}."
        )
    best: Upgrade | None = None
    for offer in usable:
        if offer.priority != top:
            continue
        follow = _successors(row.bundle, offer, now)
        for name in newer[id(offer)]:
            upgrade = Upgrade(offer.versions[name], _reason_against(row, offer, name, follow))
            if not upgrade.held:
                return replace(upgrade, held=outranked)
            if best is None:
                best = replace(upgrade, held=_indirect(row, offer, name, follow) or upgrade.held)
    return best or NONE


def _offers_installed(row: Operator, offer: UpgradeOffer) -> bool:
    """Whether the installed bundle is a candidate of the catalog. A deprecated one is left out: the
    controller prefers the bundles of other catalogs to it."""
    listed = row.bundle in offer.parsed and row.bundle not in offer.deprecated
    return listed and not _reason_against(row, offer, row.bundle, (row.bundle,))


def _indirect(row: Operator, offer: UpgradeOffer, name: str, follow: Collection[str]) -> str:
    """The sentence for a bundle that only upgrades over other versions lead to, else empty."""
    if name in follow or text(row.details, "policy") == SELF_CERTIFIED:
        return ""
    first, last = read_version(row.version), offer.parsed[name]
    between = [
        other
        for other, version in offer.parsed.items()
        if first is not None and first < version < last
    ]
    table = {other: _successors(other, offer, offer.parsed[other]) for other in between}
    table[row.bundle] = dict.fromkeys(follow, "")
    route = find_route(row.bundle, name, table, {}, pins=True)
    if not route.reached:
        return ""
    over = [offer.versions.get(hop.target, hop.target) for hop in route.hops[:-1]]
    named = ", ".join(over[:_NAMED]) + (" and others" if len(over) > _NAMED else "")
    return (
        f"Catalog {offer.catalog} has no direct upgrade from {row.version} to "
        f"{offer.versions[name]}; upgrade over {named}."
    )


def _newer(row: Operator, offer: UpgradeOffer, now: Version) -> list[str]:
    """Names of newer bundles, highest version first, deprecated ones last."""
    newer = [name for name, version in offer.parsed.items() if now < version]
    return sorted(
        (name for name in newer if name != row.bundle),
        key=lambda name: (name not in offer.deprecated, offer.parsed[name]),
        reverse=True,
    )


def _successors(bundle: str, offer: UpgradeOffer, version: Version) -> dict[str, str]:
    """Bundles that directly follow this one, with the kind of the edge."""
    return {
        entry.name: entry.kind
        for entries in offer.entries.values()
        for entry in successors(entries, bundle, version, {})
    }


def _reason_against(row: Operator, offer: UpgradeOffer, name: str, follow: Collection[str]) -> str:
    """Why the extension is not upgraded to this bundle; empty if it may be."""
    version = offer.versions[name]
    if text(row.details, "policy") != SELF_CERTIFIED and name not in follow:
        return f"Catalog {offer.catalog} has no upgrade from {row.version} to {version}."
    requested = {channel for channel in row.channel.split(", ") if channel}
    listed = {
        channel
        for channel, entries in offer.entries.items()
        if any(entry.name == name for entry in entries)
    }
    if requested and not requested & listed:
        where = f"the channels {', '.join(sorted(listed))}" if listed else "no channel"
        return f"{version} is in {where}; the spec asks for {row.channel}."
    if row.version_asked and not _in_range(row.version_asked, offer.parsed[name]):
        return f"The spec's version range {row.version_asked} leaves out {version}."
    return ""


def _in_range(version_range: str, version: Version) -> bool:
    try:
        return masterminds_range(version_range)(version)
    except ValueError:
        return True  # the controller rejects the spec and reports that


def is_deprecated(
    row: Operator, conditions: Iterable[Mapping[str, Any]], offer: UpgradeOffer | None
) -> bool:
    """By the object's deprecation conditions if it has any, else by the catalog."""
    types = ("Deprecated", "PackageDeprecated", "ChannelDeprecated", "BundleDeprecated")
    statuses = [
        str(condition.get("status")) for condition in conditions if condition.get("type") in types
    ]
    if statuses:
        return "True" in statuses
    return offer is not None and row.bundle in offer.deprecated
