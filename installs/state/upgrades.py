"""Which newer version an operator could have, and in a sentence why it does not get it. Pure.

Rules: a Subscription follows the head of its channel (olm resolver); a ClusterExtension takes the
highest successor of what is installed, over all channels of the package, unless its spec narrows
that (operator-controller internal/operator-controller/resolve/catalog.go, catalogmetadata/filter).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalogs.graph import successors
from catalogs.semver import Version, masterminds_range
from installs.diagnosis.outdated import RESOLUTION_FAILED, over
from installs.models import Component, Operator
from installs.state.decode import text
from installs.state.observation import Part, observe
from installs.state.offers import Offer, read_version
from olmweb.kube.conditions import find, status_of
from olmweb.kube.conditions import text as said

_SENTENCE = 500  # characters of a cluster's message that are quoted
SELF_CERTIFIED = "SelfCertified"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """`version` could be installed; `held` says why it is not, empty when nothing holds it."""

    version: str = ""
    held: str = ""


NONE = Upgrade()


def offer_of_subscription(row: Operator, offers: Iterable[Offer]) -> Offer | None:
    """The offer of a catalog with the name of the Subscription's CatalogSource."""
    return next((one for one in offers if one.catalog == row.catalog), None)


def version_of(name: str, csvs: Mapping[str, Part], offer: Offer | None) -> str:
    """The version of a CSV: its own word, else the catalog's, else what its name ends in."""
    if name in csvs and (told := text(csvs[name].details, "version", limit=200)):
        return told
    if offer is not None and offer.versions.get(name):
        return offer.versions[name]
    _, is_there, rest = name.partition(".v")
    return rest[:200] if is_there and read_version(rest) is not None else ""


def of_subscription(row: Operator, parts: Sequence[Part], offer: Offer | None) -> Upgrade:
    """The CSV that OLM has chosen but not installed, else a newer head of the channel."""
    csvs = {one.name: one for one in parts if one.kind == "ClusterServiceVersion"}
    installed, current = (text(row.details, key) for key in ("installed_csv", "current_csv"))
    if not installed:
        return NONE
    if current and current != installed:
        version = version_of(current, csvs, offer) or current[:200]
        return Upgrade(version, _held(row, parts, installed, current))
    head = offer.heads.get(row.channel, "") if offer is not None else ""
    if offer is None or not head or head == installed:
        return NONE
    now, then = read_version(version_of(installed, csvs, offer)), offer.parsed.get(head)
    if now is None or then is None or then <= now:
        return NONE
    return Upgrade(offer.versions[head], _held(row, parts, installed, head))


def _held(row: Operator, parts: Sequence[Part], installed: str, target: str) -> str:
    named = {(one.kind, one.name): one for one in parts}
    condition = named.get(("OperatorCondition", installed))
    if condition is not None and (refused := not_upgradeable(condition)) is not None:
        return _sentence(f"{installed} says that it must not be upgraded now", refused)
    csv = named.get(("ClusterServiceVersion", target))
    if csv is not None and text(csv.details, "reason") == "OperatorConditionNotUpgradeable":
        return _sentence(
            f"{installed} says that it must not be upgraded now", text(csv.details, "message")
        )
    plan = named.get(("InstallPlan", text(row.details, "plan")))
    if plan is not None and plan.phase == "RequiresApproval":
        return f"InstallPlan {plan.name} waits for approval."
    failed = find(row.conditions, RESOLUTION_FAILED)
    if said(failed, "status") == "True":
        csvs = [observe(one) for one in parts if one.kind == "ClusterServiceVersion"]
        if not over(observe(row), csvs):
            return _sentence("OLM found no way to it", said(failed, "message"))
    return ""


def not_upgradeable(condition: Part | Component) -> str | None:
    """What an OperatorCondition says against an upgrade; an override of a person comes first."""
    overrides = condition.details.get("overrides")
    listed = overrides if isinstance(overrides, list) else []
    for conditions in (listed, condition.conditions):
        found = find(conditions, "Upgradeable")
        if found is not None:
            return (
                said(found, "message") if status_of(conditions, "Upgradeable") == "False" else None
            )
    return None


def _sentence(start: str, message: str) -> str:
    quoted = message.strip()[:_SENTENCE].rstrip(".")
    return f"{start}: {quoted}." if quoted else f"{start}."


def of_extension(row: Operator, offers: Sequence[Offer]) -> Upgrade:
    """The newest version in the catalogs that the extension may use, best one it may go to first.

    Of several catalogs that have a newer version the one of the highest priority counts.
    """
    now = read_version(row.version)
    if now is None or not row.bundle:
        return NONE
    usable = [one for one in offers if one.cluster_catalog and row.catalog in ("", one.catalog)]
    newer = {id(one): _newer(row, one, now) for one in usable}
    usable = [one for one in usable if newer[id(one)]]
    if not usable:
        return NONE
    top = max(one.priority for one in usable)
    best: Upgrade | None = None
    for offer in usable:
        if offer.priority != top:
            continue
        follow = _successors(row, offer, now)
        for name in newer[id(offer)]:
            found = Upgrade(offer.versions[name], _obstacle(row, offer, name, follow))
            if not found.held:
                return found
            best = best or found
    return best or NONE


def _newer(row: Operator, offer: Offer, now: Version) -> list[str]:
    """Newer bundles: those that are not deprecated before the others, the highest first."""
    found = [name for name, version in offer.parsed.items() if now < version]
    return sorted(
        (name for name in found if name != row.bundle),
        key=lambda name: (name not in offer.deprecated, offer.parsed[name]),
        reverse=True,
    )


def _successors(row: Operator, offer: Offer, now: Version) -> set[str]:
    return {
        one.name
        for entries in offer.entries.values()
        for one in successors(entries, row.bundle, now, {})
    }


def _obstacle(row: Operator, offer: Offer, name: str, follow: Collection[str]) -> str:
    """Why the extension does not go to this bundle; empty when it may."""
    version = offer.versions[name]
    if text(row.details, "policy") != SELF_CERTIFIED and name not in follow:
        return f"Catalog {offer.catalog} has no upgrade from {row.version} to {version}."
    asked = {one for one in row.channel.split(", ") if one}
    listed = {
        channel
        for channel, entries in offer.entries.items()
        if any(entry.name == name for entry in entries)
    }
    if asked and not asked & listed:
        where = f"the channels {', '.join(sorted(listed))}" if listed else "no channel"
        return f"{version} is in {where}; the spec asks for {row.channel}."
    if row.version_asked and not _in_range(row.version_asked, offer.parsed[name]):
        return f"The spec's version range {row.version_asked} leaves out {version}."
    return ""


def _in_range(asked: str, version: Version) -> bool:
    try:
        return masterminds_range(asked)(version)
    except ValueError:
        return True  # the controller refuses the spec and says so


def is_deprecated(row: Operator, told: Iterable[Mapping[str, Any]], offer: Offer | None) -> bool:
    """By the object's conditions when it has any on deprecation, else by the catalog's word."""
    types = ("Deprecated", "PackageDeprecated", "ChannelDeprecated", "BundleDeprecated")
    found = [str(one.get("status")) for one in told if one.get("type") in types]
    if found:
        return "True" in found
    return offer is not None and row.bundle in offer.deprecated
