"""The bundle that OLM v0 would install next for a Subscription, from its catalog alone.

Mirrors operator-lifecycle-manager pkg/controller/registry/resolver/resolver.go
(getSubscriptionInstallables, sortChannel). What a bundle needs of other packages is resolved
together with it on the cluster and not known here. Pure.
"""

from collections.abc import Sequence

from catalogs.graph import GraphEntry, v0_candidates
from catalogs.graph.rules import v0_fault
from catalogs.resolve.facts import (
    BadQuestion,
    BundleCandidate,
    InstalledVersion,
    Resolution,
    ResolverBundle,
    ResolverPackage,
)
from catalogs.semver import Range, blang_range, read_version


def read_range(text: str) -> Range | None:
    """None when no range is asked for. BadQuestion says what a range may look like."""
    if not text:
        return None
    try:
        return blang_range(text)
    except ValueError as error:
        raise BadQuestion(
            "version",
            f"{error} OLM v0 reads ranges such as >=1.0.0 <2.0.0, 1.2.x or 1.2.3 || >2.0.0.",
        ) from None


def resolve(
    facts: ResolverPackage, channels: Sequence[str], text: str, installed: InstalledVersion | None
) -> Resolution:
    """The first successor on the channel's replaces chain; without a channel of all, the default
    one first, then by name. `text` is a blang range: of another package's dependency, or of the
    bundles that startingCSV names. Raises BadQuestion for an unreadable range or several
    channels."""
    wanted = read_range(text)
    if len(set(channels)) > 1:
        raise BadQuestion("channel", "A Subscription follows one channel: name one, or none.")
    requested = list(dict.fromkeys(channels))
    if not facts.channels:
        message = (
            f"no operators found in package {facts.name} in the catalog referenced by "
            f"subscription {facts.name}"
        )
        reason = f"The catalog has no channel of package {facts.name}."
        return Resolution(reason=reason, blocked_by="no-bundles", message=message)
    if requested and requested[0] not in facts.channels:
        message = (
            f"no operators found in channel {requested[0]} of package {facts.name} in the catalog "
            f"referenced by subscription {facts.name}"
        )
        reason = f"Package {facts.name} has no channel {requested[0]}."
        return Resolution(reason=reason, blocked_by="channel", message=message)
    names = requested or facts.ordered_channels()
    for name in names:
        fault = v0_fault(facts.channels[name], facts.name, name)
        if fault:
            return _unordered(facts, names, name, fault, installed)
    return _first(facts, names, wanted, text, installed)


def _first(
    facts: ResolverPackage,
    names: Sequence[str],
    wanted: Range | None,
    text: str,
    installed: InstalledVersion | None,
) -> Resolution:
    bundles = facts.by_name()
    versions = {name: bundle.version for name, bundle in bundles.items()}
    best: BundleCandidate | None = None
    behind: list[BundleCandidate] = []
    rejected: list[BundleCandidate] = []
    for channel in names:
        entries = facts.channels[channel]
        now = (installed.name, installed.version) if installed else None
        order = [entry for entry in v0_candidates(entries, now) if now is None or entry != now[0]]
        for name in order:
            version = versions.get(name, "")
            readable = read_version(version)
            if wanted is not None and (readable is None or not wanted(readable)):
                outside = f"outside the range {text}"
                rejected.append(_candidate(name, version, channel, "range", outside))
            elif best is None:
                within = text if name != order[0] else ""
                reason = _because(bundles.get(name), name, channel, installed, within)
                best = BundleCandidate(name, version, (channel,), True, "", reason)
            else:
                farther = f"further from the head than {best.bundle}"
                if channel != best.channels[0]:
                    farther = f"channel {channel} comes after {best.channels[0]}"
                behind.append(_candidate(name, version, channel, "order", farther))
        rejected += _left_out(entries, channel, order, versions, installed)
    candidates = (*behind, *rejected)
    if best is not None:
        return Resolution(
            best.bundle, best.version, best.channels[0], best.reason, candidates=(best, *candidates)
        )
    return _nothing(facts, names, text, installed, candidates)


def _left_out(
    entries: Sequence[GraphEntry],
    channel: str,
    order: Sequence[str],
    versions: dict[str, str],
    installed: InstalledVersion | None,
) -> list[BundleCandidate]:
    """Entries of the channel that are no candidates, the newest of the chain first."""
    chain = v0_candidates(entries)
    skipped = {name: entry.name for entry in entries for name in entry.skips}
    rejected = []
    for name in dict.fromkeys((*chain, *sorted((entry.name for entry in entries), reverse=True))):
        if name in order:
            continue
        if installed is not None and name == installed.name:
            code, reason = "successor", "installed already"
        elif name in skipped:
            code, reason = "skipped", f"skipped by {skipped[name]}"
        elif name not in chain:
            code, reason = "chain", "not on the chain of replacement from the head"
        else:
            code = "successor"
            reason = f"it neither replaces nor skips {installed.name if installed else ''}, nor "
            reason += "does its skipRange"
        version = versions.get(name, "")
        rejected.append(_candidate(name, version, channel, code, reason))
    return rejected


def _unordered(
    facts: ResolverPackage,
    names: Sequence[str],
    faulty: str,
    fault: str,
    installed: InstalledVersion | None,
) -> Resolution:
    """The channel has no order: nothing is taken of it, nor of any channel asked together."""
    versions = {bundle.name: bundle.version for bundle in facts.bundles}
    rejected = [
        _candidate(
            entry.name,
            versions.get(entry.name, ""),
            name,
            "chain",
            f"channel {faulty} can't be ordered",
        )
        for name in names
        for entry in facts.channels[name]
    ]
    start = (
        ""
        if installed
        else " A Subscription whose startingCSV names a bundle would install that one."
    )
    return Resolution(
        reason=f"OLM v0 can't order channel {faulty}, so it takes nothing from it.{start}",
        blocked_by="channel-graph",
        message=fault,
        candidates=tuple(rejected),
    )


def _nothing(
    facts: ResolverPackage,
    names: Sequence[str],
    text: str,
    installed: InstalledVersion | None,
    candidates: Sequence[BundleCandidate],
) -> Resolution:
    where = f"channel {names[0]}" if len(names) == 1 else "any channel"
    if any(candidate.code == "range" for candidate in candidates):
        follow = f" that may follow {installed.name}" if installed else ""
        reason = f"No entry of {where}{follow} is in the range {text}."
        return Resolution(reason=reason, blocked_by="range", candidates=candidates)
    if installed is not None and any(
        installed.name == v0_candidates(facts.channels[name])[0] for name in names
    ):
        reason = f"{installed.name} stays: it is the head of {where}."
        return Resolution(
            installed.name,
            installed.text,
            names[0],
            reason,
            candidates=_stay(candidates, installed),
        )
    now = installed.name if installed else ""
    reason = f"{now} stays, but is stranded: no entry of {where} replaces or skips it."
    return Resolution(reason=reason, blocked_by="successor", candidates=candidates)


def _stay(
    candidates: Sequence[BundleCandidate], installed: InstalledVersion
) -> tuple[BundleCandidate, ...]:
    reason = "installed, and nothing follows it"
    return tuple(
        BundleCandidate(candidate.bundle, candidate.version, candidate.channels, True, "", reason)
        if candidate.bundle == installed.name
        else candidate
        for candidate in sorted(
            candidates, key=lambda candidate: candidate.bundle != installed.name
        )
    )


def _because(
    bundle: ResolverBundle | None,
    name: str,
    channel: str,
    installed: InstalledVersion | None,
    within: str,
) -> str:
    """`within` is the range that left out entries nearer to the head, or empty."""
    first = f"{name}: the first entry, counted from the head of channel {channel}, that"
    if installed is not None:
        also = f" and is in the range {within}" if within else ""
        reason = f"{first} replaces or skips {installed.name}{also}."
    elif within:
        reason = f"{first} is in the range {within}."
    else:
        reason = f"{name}: the head of channel {channel}."
    if bundle is not None and bundle.dependencies:
        reason += f" Its dependencies must be resolved with it: {', '.join(bundle.dependencies)}."
    return reason


def _candidate(name: str, version: str, channel: str, code: str, reason: str) -> BundleCandidate:
    return BundleCandidate(name, version, (channel,), False, code, reason)
