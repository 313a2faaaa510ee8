"""The bundle that operator-controller would install for a ClusterExtension, from one catalog.

Mirrors operator-controller internal/operator-controller/resolve/catalog.go, catalogmetadata/
filter/successors.go, catalogmetadata/compare/compare.go and resolve/validation.go. Pure.
"""

from collections.abc import Collection, Sequence

from catalogs.graph.rules import edge_kind
from catalogs.resolve.facts import (
    BadQuestion,
    BundleCandidate,
    InstalledVersion,
    Resolution,
    ResolverBundle,
    ResolverPackage,
    listed,
)
from catalogs.semver import Key, Range, Version, VersionRelease, masterminds_range, version_release

RANGE_LENGTH = 64  # characters that the CRD allows (clusterextension_types.go)
STAGES = ("no-bundles", "channel", "range", "successor")


def release_of(bundle: ResolverBundle) -> VersionRelease | None:
    """Version and release; None when the version can't be read."""
    try:
        return version_release(bundle.version)
    except ValueError:
        return None


def preference(bundles: Sequence[ResolverBundle]) -> list[ResolverBundle]:
    """Best first: not deprecated, then highest version and release; what can't be read last."""

    def rank(bundle: ResolverBundle) -> tuple[bool, Key]:
        release = release_of(bundle)
        return release is not None, (release or VersionRelease(Version(0, 0, 0))).key

    ordered = sorted(bundles, key=rank, reverse=True)  # stable: equals stay in their order
    return sorted(ordered, key=lambda bundle: bundle.deprecated)


def read_range(text: str) -> Range | None:
    """None when no range is asked for. BadQuestion says what a range may look like."""
    if not text:
        return None
    if len(text) > RANGE_LENGTH:
        raise BadQuestion(
            "version",
            f"The version range has {len(text)} characters; a ClusterExtension's may have "
            f"{RANGE_LENGTH}.",
        )
    try:
        return masterminds_range(text)
    except ValueError as error:
        raise BadQuestion("version", f"{error} A ClusterExtension reads it so.") from None


def resolve(
    facts: ResolverPackage,
    channels: Collection[str],
    text: str,
    installed: InstalledVersion | None,
) -> Resolution:
    """The preferred bundle in `channels` (empty: all) and in `text` (a Masterminds range or empty).
    Named channels limit upgrade edges, too; default channel and heads mean nothing here. Raises
    BadQuestion for an unreadable range."""
    wanted = read_range(text)
    chosen_channels = sorted(set(channels))
    listed_in = facts.channels_of()
    followers = _followers(facts, chosen_channels, installed)
    accepted: list[ResolverBundle] = []
    rejected: list[BundleCandidate] = []
    for bundle in facts.bundles:
        where = tuple(listed_in.get(bundle.name, ()))
        code, reason = _rejection(
            bundle, where, chosen_channels, wanted, text, installed, followers
        )
        if code:
            rejected.append(bundle.rejected(where, code, reason))
        else:
            accepted.append(bundle)
    rejected = _newest_first(facts, rejected)
    if not accepted:
        return _nothing(facts, chosen_channels, text, installed, rejected)
    ordered = preference(accepted)
    best = ordered[0]
    where = tuple(listed_in.get(best.name, ()))
    others = [
        _behind(bundle, best, tuple(listed_in.get(bundle.name, ()))) for bundle in ordered[1:]
    ]
    channel = next((name for name in where if not chosen_channels or name in chosen_channels), "")
    if best.dependencies:
        return _refused(best, where, (*others, *rejected))
    reason = _because(best, accepted, chosen_channels, text, installed)
    first = best.chosen(where, reason)
    return Resolution(
        best.name, best.version, channel, reason, candidates=(first, *others, *rejected)
    )


def _refused(
    best: ResolverBundle, where: tuple[str, ...], others: tuple[BundleCandidate, ...]
) -> Resolution:
    """The winner is validated, and no other is tried when it fails (resolve/validation.go)."""
    kind = best.dependencies[0]
    reason = f"would be chosen, but is refused: it declares {kind}, and no other is tried"
    refused = best.rejected(where, "dependency", reason)
    return Resolution(
        blocked_by="dependency",
        reason=f"{best.name} would be chosen, but OLM v1 refuses bundles that declare a "
        f"dependency ({kind}), and it tries no other.",
        message=f'validating bundle "{best.name}": bundle "{best.name}" has a dependency '
        f'declared via property "{kind}" which is currently not supported',
        candidates=(refused, *others),
    )


def _followers(
    facts: ResolverPackage, channels: Sequence[str], installed: InstalledVersion | None
) -> set[str]:
    if installed is None:
        return set()
    return {
        entry.name
        for name, entries in facts.channels.items()
        if not channels or name in channels
        for entry in entries
        if edge_kind(entry, installed.name, installed.version)
    }


def _rejection(
    bundle: ResolverBundle,
    where: tuple[str, ...],
    channels: Sequence[str],
    wanted: Range | None,
    text: str,
    installed: InstalledVersion | None,
    followers: Collection[str],
) -> tuple[str, str]:
    """Code and reason why the bundle is no candidate; both empty when it is one."""
    if channels and not set(channels) & set(where):
        there = f"in {listed(where)}" if where else "in no channel"
        return "channel", f"{there}, not in {listed(channels)}"
    release = release_of(bundle)
    if wanted is not None:
        if release is None:
            return "range", "its version can't be read, so no range takes it"
        if not wanted(release.version):
            version = release.version
            plain = Version(version.major, version.minor, version.patch)
            if version.pre and wanted(plain):
                return "range", f"a pre-release: {text} names none, so it takes none"
            return "range", f"outside the range {text}"
    if installed is not None and bundle.name not in followers:
        now = version_release(installed.text) if installed.version else None
        if now is None or release != now:
            within = f" in {listed(channels)}" if channels else ""
            return (
                "successor",
                f"no upgrade edge{within}: it neither replaces nor skips {installed.name}, "
                "nor does its skipRange",
            )
    return "", ""


def _behind(
    bundle: ResolverBundle, best: ResolverBundle, where: tuple[str, ...]
) -> BundleCandidate:
    mine, its = release_of(bundle), release_of(best)
    if bundle.deprecated and not best.deprecated:
        code, reason = "deprecated", "deprecated: taken only when nothing else is left"
    elif mine is None:
        code, reason = "version", "its version can't be read, so it comes last"
    elif mine == its:
        code, reason = "order", f"same version and release as {best.name}, which comes first"
    else:
        code, reason = "order", f"lower version than {best.version}"
    return bundle.rejected(where, code, reason)


def _because(
    best: ResolverBundle,
    accepted: Sequence[ResolverBundle],
    channels: Sequence[str],
    text: str,
    installed: InstalledVersion | None,
) -> str:
    within = f" in {listed(channels)}" if channels else " over all channels"
    in_range = f" in the range {text}" if text else ""
    kind = "the highest version that is not deprecated"
    if best.deprecated:
        kind = "the highest version (all that are left are deprecated)"
    if installed is None:
        return f"{best.name}: {kind}{in_range}{within}."
    if best.name == installed.name:
        return f"{best.name} stays: no higher version{in_range} follows it{within}."
    if len(accepted) == 1:
        return f"{best.name}: the only one that may follow {installed.name}{in_range}{within}."
    return f"{best.name}: {kind} among those that may follow {installed.name}{in_range}{within}."


def _nothing(
    facts: ResolverPackage,
    channels: Sequence[str],
    text: str,
    installed: InstalledVersion | None,
    rejected: Sequence[BundleCandidate],
) -> Resolution:
    """The error of catalog.go's resolutionError, and the filter that left nothing."""
    message = (
        f'error upgrading from currently installed version "{installed.text}": '
        if installed
        else ""
    )
    message += f'no bundles found for package "{facts.name}"'
    if text:
        message += f' matching version "{text}"'
    if channels:
        message += f" in channels [{' '.join(channels)}]"
    stage = max((STAGES.index(candidate.code) for candidate in rejected), default=0)
    reason = {
        "no-bundles": f"The catalog has no bundle of package {facts.name}.",
        "channel": f"No bundle of {facts.name} is in {listed(channels)}.",
        "range": f"No version{_of(channels)} is in the range {text}.",
        "successor": f"Nothing{_of(channels)} may follow {installed.name if installed else ''}"
        + (f" within {text}." if text else "."),
    }[STAGES[stage]]
    return Resolution(
        reason=reason, blocked_by=STAGES[stage], message=message, candidates=tuple(rejected)
    )


def _of(channels: Sequence[str]) -> str:
    return f" of {listed(channels)}" if channels else ""


def _newest_first(
    facts: ResolverPackage, rejected: Sequence[BundleCandidate]
) -> list[BundleCandidate]:
    rank = {bundle.name: i for i, bundle in enumerate(preference(facts.bundles))}
    return sorted(rejected, key=lambda candidate: rank[candidate.bundle])
