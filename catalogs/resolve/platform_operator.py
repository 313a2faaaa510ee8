"""The bundle that the platform-operators manager would source for a PlatformOperator.

Mirrors platform-operators internal/sourcer/registry_sourcer.go and filter.go: every bundle of the
package that the registry lists, highest version first come first served. Pure.
"""

from collections.abc import Sequence

from catalogs.resolve.facts import (
    BundleCandidate,
    InstalledVersion,
    Resolution,
    ResolverBundle,
    ResolverPackage,
)
from catalogs.resolve.v0 import read_range
from catalogs.semver import Version, read_version


def pick(listed: Sequence[ResolverBundle]) -> ResolverBundle | None:
    """The first with the highest version. A first one without a readable version is never replaced;
    build metadata is ignored."""
    best: ResolverBundle | None = None
    for bundle in listed:
        if best is None:
            best = bundle
            continue
        mine, its = read_version(bundle.version), read_version(best.version)
        if mine is not None and its is not None and mine > its:
            best = bundle
    return best


def listing(facts: ResolverPackage) -> list[tuple[str, ResolverBundle]]:
    """(channel, bundle) as a registry lists them: each bundle once in each channel that has it."""
    bundles = facts.by_name()
    return [
        (channel, bundles[name])
        for channel in sorted(facts.channels)
        for name in sorted({entry.name for entry in facts.channels[channel]})
        if name in bundles
    ]


def resolve(
    facts: ResolverPackage, channels: Sequence[str], text: str, installed: InstalledVersion | None
) -> Resolution:
    """What would be chosen. Channels, a version range (blang) and edges play no part; a range
    that can't be read still raises BadQuestion, and the reason says when the pick is outside."""
    wanted = read_range(text)
    listed = [bundle for _, bundle in listing(facts)]
    best = pick(listed)
    if best is None:
        return Resolution(
            reason=f"No channel of package {facts.name} lists a bundle.",
            blocked_by="no-bundles",
            message=f"failed to find candidate olm.bundles from the {facts.name} package",
        )
    where = facts.channels_of()
    if installed is not None:
        return _sourced(facts, installed, best, where)
    reason = (
        f"{best.name}: the highest version of all channels; "
        "channel heads and upgrade edges are ignored."
    )
    version = read_version(best.version)
    if version is None:
        reason = f"{best.name}: it is listed first, and its version can't be read."
    elif wanted is not None and not wanted(version):
        reason += f" It is outside the range {text}: a PlatformOperator can't ask for a version."
    elif channels and not set(channels) & set(where[best.name]):
        reason += (
            f" It is not in {', '.join(channels)}: a PlatformOperator can't ask for a channel."
        )
    candidates = [best.chosen(where[best.name], reason)]
    others = {bundle.name: bundle for bundle in listed if bundle.name != best.name}
    for bundle in sorted(others.values(), key=_rank, reverse=True):
        if read_version(bundle.version) is None:
            code, why = "version", "its version can't be read"
        elif version is None:
            code, why = "order", f"{best.name} is listed first and is never replaced"
        elif read_version(bundle.version) == version:
            code, why = "order", f"same version as {best.name}, which is listed before it"
        else:
            code, why = "order", f"lower version than {best.version}"
        candidates.append(bundle.rejected(where[bundle.name], code, why))
    channel = where[best.name][0]
    return Resolution(best.name, best.version, channel, reason, candidates=tuple(candidates))


def _sourced(
    facts: ResolverPackage,
    installed: InstalledVersion,
    best: ResolverBundle,
    where: dict[str, list[str]],
) -> Resolution:
    """Once its BundleDeployment exists, a PlatformOperator is not sourced again."""
    reason = f"{installed.name} stays: a PlatformOperator is sourced once and never upgraded."
    if best.name != installed.name:
        reason += f" One made anew would take {best.name}."
    names = where.get(installed.name, [])
    candidates = [BundleCandidate(installed.name, installed.text, tuple(names), True, "", reason)]
    for bundle in sorted(facts.by_name().values(), key=_rank, reverse=True):
        if bundle.name != installed.name and bundle.name in where:
            why = "a PlatformOperator is never upgraded"
            candidates.append(bundle.rejected(where[bundle.name], "successor", why))
    channel = names[0] if names else ""
    return Resolution(installed.name, installed.text, channel, reason, candidates=tuple(candidates))


def _rank(bundle: ResolverBundle) -> tuple[bool, Version, str]:
    version = read_version(bundle.version)
    return version is not None, version or Version(0, 0, 0), bundle.name
