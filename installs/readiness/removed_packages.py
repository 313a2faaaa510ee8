"""Packages, channels and versions that the catalog of the next minor no longer has. Pure."""

from installs.readiness.blockers import (
    CheckedOperator,
    OfferedPackage,
    UpgradeBlocker,
    Weight,
    listed,
)
from installs.readiness.upgrade_routes import follows, v0_path


def package_removed(subject: CheckedOperator, following: str) -> UpgradeBlocker:
    """`following` names the catalog of the next minor."""
    return UpgradeBlocker(
        "package-gone",
        Weight.PLAN,
        f"Catalog {following} has no package {subject.package}: after the update it keeps running "
        "and gets no upgrade.",
        ("Keep a catalog that has it, move to another package, or remove it before the update.",),
    )


def channel_or_version_removed(
    subject: CheckedOperator, now: OfferedPackage | None, following: OfferedPackage
) -> UpgradeBlocker | None:
    """The removal of its channel or of all upgrades from its version. `now`: in today's catalog."""
    channels = following.facts.ordered_channels()
    missing = [channel for channel in subject.channels if channel not in following.facts.channels]
    going_on = follows(subject, following, channels)
    if subject.channels and len(missing) == len(subject.channels):
        return _channel_removed(subject, following, missing, going_on)
    channels_now = [channel for channel in subject.channels if channel not in missing] or channels
    if not subject.bundle or any(channel in going_on for channel in channels_now):
        return None
    return _version_removed(subject, now, following, channels_now, going_on)


def _channel_removed(
    subject: CheckedOperator, following: OfferedPackage, missing: list[str], going_on: list[str]
) -> UpgradeBlocker:
    where = f"in catalog {following.catalog}"
    if going_on:
        remedy = (
            f"Change its channel to {listed(going_on)}, which {following.catalog} has and which "
        )
        remedy += (
            f"goes on from {subject.words}; after the update, or before if today's has it, too."
        )
    else:
        remaining = listed(following.facts.ordered_channels()) or "none"
        remedy = (
            f"No channel there goes on from {subject.words} (it has {remaining}): upgrade first "
            "to a version that it has, or install it anew from there."
        )
    return UpgradeBlocker(
        "channel-gone",
        Weight.PLAN,
        f"Channel {listed(missing)} of {subject.package} is gone {where}: after the update "
        "nothing is offered to it.",
        (remedy,),
    )


def _version_removed(
    subject: CheckedOperator,
    now: OfferedPackage | None,
    following: OfferedPackage,
    channels_now: list[str],
    going_on: list[str],
) -> UpgradeBlocker:
    remedies = []
    target = ""
    there = following.facts.by_name()
    if now is not None and subject.kind == "Subscription":
        for channel in dict.fromkeys((*subject.channels, *now.facts.ordered_channels())):
            path = v0_path(now, channel, subject.bundle, lambda name: name in there)
            if path:
                target = now.version(path[-1])
                remedies.append(
                    f"Upgrade to {target} in channel {channel} before the update: "
                    f"{following.catalog} has it and goes on from there."
                )
                break
    if going_on:
        remedies.append(f"Or change its channel to {listed(going_on)}, which goes on from it.")
    if not remedies:
        remedies.append(
            f"Upgrade before the update to a version that {following.catalog} has, or remove it "
            "and install it anew from there (its custom resources stay)."
        )
    return UpgradeBlocker(
        "version-gone",
        Weight.PLAN,
        f"Catalog {following.catalog} has no {subject.words} in channel {listed(channels_now)}, "
        "and nothing there replaces or skips it: after the update it is stranded.",
        tuple(remedies),
        target,
    )
