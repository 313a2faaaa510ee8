"""Upgrade routes: how an installed operator gets to a version that clears a blocker. Pure.

The steps are those of the controllers (`catalogs.resolve.analysis`): OLM v0 follows one channel and
can't be pinned, OLM v1 can, a PlatformOperator is never upgraded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from catalogs.graph import successors, v0_candidates
from catalogs.graph.routes import next_steps
from catalogs.graph.rules import v0_fault, version_of
from catalogs.install_methods import InstallMethod
from catalogs.resolve import BadQuestion, resolve, v1
from catalogs.resolve.analysis import V1, Analysis, analyse, route_to
from catalogs.semver import Version, read_version
from installs.readiness.blockers import CheckedOperator, OfferedPackage

MAX_STEPS = 60
NAMED = 6  # versions of a path that a sentence names

Clears = Callable[[str], bool]  # whether a bundle, by name, clears the blocker


@dataclass(frozen=True, slots=True)
class UpgradeRoute:
    """`target` is the version that clears the blocker, empty if no upgrade leads to one."""

    target: str
    sentences: tuple[str, ...]


def upgrade_route(
    subject: CheckedOperator, offer: OfferedPackage, clears: Clears, what: str
) -> UpgradeRoute:
    """The route to the nearest version that clears the blocker. `what` follows the version in
    sentences, as in "supports OpenShift 4.17"."""
    if subject.kind == "PlatformOperator":
        return _by_reinstall(offer, clears, what)
    if subject.kind == "ClusterServiceVersion":
        return UpgradeRoute(
            "",
            (
                f"No Subscription upgrades {subject.bundle or subject.name}: make one for package "
                f"{offer.package}, or remove it.",
            ),
        )
    if subject.kind == "ClusterExtension":
        route = _by_v1(subject, offer, clears, what)
    else:
        route = _by_v0(subject, offer, clears, what)
    return route or _without_route(subject, offer, clears, what)


def _by_v0(
    subject: CheckedOperator, offer: OfferedPackage, clears: Clears, what: str
) -> UpgradeRoute | None:
    ordered = offer.facts.ordered_channels()
    own = [name for name in subject.channels if name in ordered] or ordered[:1]
    for channel in dict.fromkeys((*own, *ordered)):
        path = v0_path(offer, channel, subject.bundle, clears)
        if not path:
            continue
        target, arrows = offer.version(path[-1]), _arrows(offer, (subject.bundle, *path))
        first = f"Channel {channel} leads to {target}, which {what}: {arrows}."
        if channel not in own:
            followed = ", ".join(subject.channels) or "its default one"
            first = (
                f"Change spec.channel of Subscription {subject.name} in {subject.namespace} from "
                f"{followed} to {channel}. OLM then goes {arrows}, which {what}."
            )
        return UpgradeRoute(target, (first, *_approvals(subject, len(path))))
    return None


def v0_path(offer: OfferedPackage, channel: str, start: str, clears: Clears) -> list[str]:
    """The bundles that OLM v0 upgrades to in this channel, up to the first that clears the blocker;
    empty if there is none."""
    entries = offer.facts.channels.get(channel, ())
    if not entries or v0_fault(entries, offer.package, channel):
        return []
    versions = versions_of(offer)
    path = [start]
    while len(path) <= MAX_STEPS:
        order = v0_candidates(entries, (path[-1], version_of(path[-1], versions)))
        following = next((name for name in order if name not in (path[-1], *path[1:])), "")
        if not following:
            return []
        path.append(following)
        if clears(following):
            return path[1:]
    return []


def _approvals(subject: CheckedOperator, steps: int) -> list[str]:
    if subject.plan:
        return [f"InstallPlan {subject.plan} requires manual approval: approve it first."]
    if subject.manual:
        plans = "its InstallPlan" if steps == 1 else f"each of the {steps} InstallPlans"
        return [f"Approval is Manual: approve {plans}."]
    return []


def _by_v1(
    subject: CheckedOperator, offer: OfferedPackage, clears: Clears, what: str
) -> UpgradeRoute | None:
    analysis = analyse(offer.facts, V1)
    steps = _with_start(analysis, subject.bundle)
    goal = _own_goal(subject.bundle, steps, clears) or _nearest(analysis, subject.bundle, clears)
    if not goal:
        return None
    path_to_goal = route_to(analysis, subject.bundle, goal)
    if not path_to_goal.reached:
        return None
    names = [subject.bundle, *(hop.target for hop in path_to_goal.hops)]
    target = offer.version(goal)
    path = _arrows(offer, names)
    object_name = f"ClusterExtension {subject.name}"
    changes = []
    if path_to_goal.pinned:
        pins = ", then ".join(offer.version(name) for name in names[1 : NAMED + 1])
        changes.append(f"spec.source.catalog.version to {pins}")
    elif subject.version_asked and not _includes(subject.version_asked, target):
        changes.append(
            f"spec.source.catalog.version, now {subject.version_asked}, to a range that includes "
            f"{target}"
        )
    listed = {
        channel
        for channel, entries in offer.facts.channels.items()
        if any(entry.name == goal for entry in entries)
    }
    if subject.channels and not listed & set(subject.channels):
        channels = " or ".join(sorted(listed)[:NAMED])
        changes.append(f"spec.source.catalog.channels to {channels}")
    if changes:
        sentence = (
            f"{target} {what}: set {' and '.join(changes)} in {object_name}. operator-controller "
            f"then upgrades it: {path}."
        )
    else:
        sentence = (
            f"{target} {what}: operator-controller upgrades {object_name} to it automatically, "
            f"{path}."
        )
    return UpgradeRoute(target, (sentence,))


def _includes(version_range: str, version: str) -> bool:
    """Whether a ClusterExtension with this range can be upgraded to the version; True for a range
    that can't be read, as its own finding says."""
    try:
        contains = v1.read_range(version_range)
    except BadQuestion:
        return True
    wanted = read_version(version)
    return contains is None or wanted is None or contains(wanted)


def _with_start(analysis: Analysis, start: str) -> dict[str, str]:
    """The controller's steps, also from an installed bundle that the catalog no longer lists."""
    steps = dict(analysis.steps)
    if not analysis.table.get(start):
        after = successors(
            analysis.entries, start, version_of(start, analysis.versions), analysis.versions
        )
        analysis.table[start] = {successor.name: successor.kind for successor in after}
        preferred = [analysis.chosen, *(successor.name for successor in after)]
        steps |= next_steps({start: analysis.table[start]}, preferred, stays=False)
    return steps


def _own_goal(start: str, steps: dict[str, str], clears: Clears) -> str:
    visited, now = {start}, start
    while (now := steps.get(now, "")) and now not in visited:
        if clears(now):
            return now
        visited.add(now)
    return ""


def _nearest(analysis: Analysis, start: str, clears: Clears) -> str:
    """The clearing bundle that upgrades with the fewest pins lead to."""
    visited, names = {start}, [start]
    while names:
        after = dict.fromkeys(name for before in names for name in analysis.table.get(before, ()))
        names = [name for name in after if name not in visited]
        visited.update(names)
        if goal := next(filter(clears, names), ""):
            return goal
    return ""


def _by_reinstall(offer: OfferedPackage, clears: Clears, what: str) -> UpgradeRoute:
    """The route of a PlatformOperator, which is resolved only once."""
    chosen = resolve(offer.facts, InstallMethod.PLATFORM_OPERATOR).bundle
    if chosen and clears(chosen):
        return UpgradeRoute(
            offer.version(chosen),
            (
                "A PlatformOperator is never upgraded: remove it and make it again. It then takes "
                f"{offer.version(chosen)}, which {what}. Its CRDs go with it, and their custom "
                "resources.",
            ),
        )
    return UpgradeRoute(
        "",
        (
            "A PlatformOperator is never upgraded, and one made anew would take "
            f"{offer.version(chosen) if chosen else 'nothing'}, which does not clear it either: "
            "remove it, or install the package by another path.",
        ),
    )


def _without_route(
    subject: CheckedOperator, offer: OfferedPackage, clears: Clears, what: str
) -> UpgradeRoute:
    bundles = offer.facts.by_name().values()
    clearing = [
        bundle for bundle in bundles if bundle.name != subject.bundle and clears(bundle.name)
    ]
    if not clearing:
        return UpgradeRoute(
            "",
            (
                f"No version of {offer.package} in catalog {offer.catalog} {what}: look in the "
                "catalog of the next minor, ask its provider, or remove it.",
            ),
        )
    nearest = sorted(clearing, key=lambda bundle: _rank(bundle.version))[-1]
    if subject.kind == "ClusterExtension":
        how = (
            "set spec.source.catalog.upgradeConstraintPolicy to SelfCertified and version to "
            f"{nearest.version}; whether that works is for you to test."
        )
    else:
        how = (
            f"remove Subscription {subject.name} and ClusterServiceVersion {subject.bundle} (its "
            f"custom resources stay) and install it anew with startingCSV: {nearest.name}."
        )
    return UpgradeRoute("", (f"{nearest.version} {what}, but no upgrade leads to it: {how}",))


def follows(subject: CheckedOperator, offer: OfferedPackage, channels: Sequence[str]) -> list[str]:
    """The channels that contain the installed bundle or an upgrade from it."""
    versions = versions_of(offer)
    version = read_version(subject.version) or version_of(subject.bundle, versions)
    following = []
    for name in channels:
        entries = offer.facts.channels.get(name, ())
        listed = any(entry.name == subject.bundle for entry in entries)
        if listed or successors(entries, subject.bundle, version, versions):
            following.append(name)
    return following


def versions_of(offer: OfferedPackage) -> dict[str, Version]:
    """Bundle name -> version, for valid versions."""
    read = {bundle.name: read_version(bundle.version) for bundle in offer.facts.bundles}
    return {name: version for name, version in read.items() if version is not None}


def _rank(text: str) -> tuple[bool, Version]:
    """A sort key for versions; invalid ones come first."""
    version = read_version(text)
    return version is not None, version or Version(0, 0, 0)


def _arrows(offer: OfferedPackage, names: Sequence[str]) -> str:
    shown = [offer.version(name) for name in names]
    if len(shown) > NAMED:
        shown = [*shown[:3], f"{len(shown) - 5} more", *shown[-2:]]
    return " → ".join(shown)
