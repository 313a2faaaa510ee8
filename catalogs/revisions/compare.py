"""The differences between two contents of a package, as the changes that matter to a person.

Pure: two outlines in, changes out, of revisions of one catalog or of two catalogs.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from catalogs import semver
from catalogs.revisions.outline import BundleOutline, ChannelOutline, Outline


class ChangeKind(StrEnum):
    """The values of CatalogChange.Kind (a test compares them) and those of two catalogs alone, with
    the fields of their changes."""

    PACKAGE_ADDED = "package added"  # after: the default channel's head
    PACKAGE_REMOVED = "package removed"  # before: the default channel's head
    BUNDLE_ADDED = "bundle added"  # subject: bundle; after: version
    BUNDLE_REMOVED = "bundle removed"  # subject: bundle; before: version
    BUNDLE_PRUNED = "bundle pruned"  # the same, below the oldest version that is left
    BUNDLE_CHANGED = "bundle changed"  # subject: bundle; before, after: the facts that differ, if
    # they are still stored
    DISPLAY_NAME_CHANGED = "display name changed"  # subject: bundle; before, after: display name;
    # of the current revisions of two catalogs alone
    IMAGES_CHANGED = "images changed"  # subject: bundle; before, after: its own image if it differs
    CHANNEL_ADDED = "channel added"  # subject: channel; after: head
    CHANNEL_REMOVED = "channel removed"  # subject: channel; before: head
    CHANNEL_CHANGED = "channel changed"  # subject: channel; before: bundle that left it; after:
    # bundle that joined it; neither: the same bundles replace or skip other ones
    HEAD_MOVED = "channel head moved"  # subject: channel; before, after: bundle
    DEFAULT_CHANNEL_CHANGED = "default channel changed"  # before, after: channel
    DEPRECATED = "deprecated"  # subject: channel or bundle; after: package, channel or bundle
    UNDEPRECATED = "no longer deprecated"  # subject as above; before: package, channel or bundle


class PackageChange(NamedTuple):
    kind: str
    package: str
    subject: str = ""
    before: str = ""
    after: str = ""


class Sides(NamedTuple):
    """The names of two catalogs that are compared. Nothing moves or is removed between them: texts
    say in which one something is. An operator that is installed from the first is affected only if
    it moves to the second."""

    before: str
    after: str


def compare(
    package: str,
    before: Outline | None,
    after: Outline | None,
    *,
    by_blob: bool,
    partial: bool = False,
) -> list[PackageChange]:
    """Differences between two contents of one package, in a stable order; None is no package.

    `by_blob`: a bundle whose bytes differ has changed, as within one catalog. Two catalogs may
    write the same bundle differently: between them only the facts about installing count.
    `partial`: one of the catalogs was read without images, requirements and upgrade edges, so these
    are not known to differ.
    """
    if before is None or after is None:
        if before is not None:
            return [PackageChange(ChangeKind.PACKAGE_REMOVED, package, before=before.head)]
        return [PackageChange(ChangeKind.PACKAGE_ADDED, package, after=after.head)] if after else []
    return [
        *_added_bundles(package, before, after),
        *_removed_bundles(package, before, after),
        *_channels(package, before, after, edges=not partial),
        *_default_channel(package, before, after),
        *_deprecations(package, before, after),
        *(() if partial else _changed_bundles(package, before, after, by_blob=by_blob)),
    ]


def _removed_bundles(package: str, before: Outline, after: Outline) -> Iterator[PackageChange]:
    """Bundles older than every remaining version are pruned, as catalogs do regularly."""
    oldest = min((semver.sort_key(bundle.version) for bundle in after.bundles.values()), default="")
    for name, bundle in _sorted(before.bundles, without=after.bundles):
        pruned = semver.sort_key(bundle.version) < oldest
        kind = ChangeKind.BUNDLE_PRUNED if pruned else ChangeKind.BUNDLE_REMOVED
        yield PackageChange(kind, package, name, before=bundle.version)


def _added_bundles(package: str, before: Outline, after: Outline) -> Iterator[PackageChange]:
    for name, bundle in _sorted(after.bundles, without=before.bundles):
        yield PackageChange(ChangeKind.BUNDLE_ADDED, package, name, after=bundle.version)


def _sorted(
    bundles: dict[str, BundleOutline], without: dict[str, BundleOutline]
) -> list[tuple[str, BundleOutline]]:
    """The bundles whose names are not in `without`, oldest version first."""
    others = ((name, bundle) for name, bundle in bundles.items() if name not in without)
    return sorted(others, key=lambda pair: (semver.sort_key(pair[1].version), pair[0]))


def _changed_bundles(
    package: str, before: Outline, after: Outline, *, by_blob: bool
) -> Iterator[PackageChange]:
    for name in sorted(before.bundles.keys() & after.bundles.keys()):
        old, new = before.bundles[name], after.bundles[name]
        if old.blob == new.blob:
            continue
        images = (old.image, old.images) != (new.image, new.images)
        if images:
            own = (old.image, new.image) if old.image != new.image else ("", "")
            yield PackageChange(ChangeKind.IMAGES_CHANGED, package, name, *own)
        rewritten = by_blob and old.whole == new.whole and not images
        if not by_blob and old.differs_by_name_only(new):
            yield PackageChange(ChangeKind.DISPLAY_NAME_CHANGED, package, name)
        elif old.facts != new.facts or rewritten:
            yield PackageChange(ChangeKind.BUNDLE_CHANGED, package, name)


def _channels(
    package: str, before: Outline, after: Outline, *, edges: bool
) -> Iterator[PackageChange]:
    common = before.bundles.keys() & after.bundles.keys()
    for name in sorted(before.channels.keys() | after.channels.keys()):
        old, new = before.channels.get(name), after.channels.get(name)
        if old is None:
            yield PackageChange(
                ChangeKind.CHANNEL_ADDED, package, name, after=new.head if new else ""
            )
        elif new is None:
            yield PackageChange(ChangeKind.CHANNEL_REMOVED, package, name, before=old.head)
        elif old != new:
            if old.head != new.head:
                yield PackageChange(ChangeKind.HEAD_MOVED, package, name, old.head, new.head)
            yield from _entries(package, name, old, new, common, edges=edges)


def _entries(
    package: str,
    channel: str,
    old: ChannelOutline,
    new: ChannelOutline,
    common: set[str],
    *,
    edges: bool,
) -> Iterator[PackageChange]:
    """Bundles that both contents have, and whose place in the channel differs."""
    left, joined = set(old.entries) - set(new.entries), set(new.entries) - set(old.entries)
    for bundle in sorted(left & common):
        yield PackageChange(ChangeKind.CHANNEL_CHANGED, package, channel, before=bundle)
    for bundle in sorted(joined & common):
        yield PackageChange(ChangeKind.CHANNEL_CHANGED, package, channel, after=bundle)
    if edges and not left and not joined and old.edges != new.edges and old.head == new.head:
        yield PackageChange(ChangeKind.CHANNEL_CHANGED, package, channel)


def _default_channel(package: str, before: Outline, after: Outline) -> Iterator[PackageChange]:
    old, new = before.default_channel, after.default_channel
    if old != new:
        yield PackageChange(ChangeKind.DEFAULT_CHANNEL_CHANGED, package, before=old, after=new)


def _deprecations(package: str, before: Outline, after: Outline) -> Iterator[PackageChange]:
    """Only of packages, channels and bundles that remain: others are changes of their own."""
    old, new = _deprecated(before), _deprecated(after)
    for what, name in sorted(new - old):
        yield PackageChange(ChangeKind.DEPRECATED, package, name, after=what)
    remaining = {("package", "")}
    remaining |= {("channel", name) for name in after.channels}
    remaining |= {("bundle", name) for name in after.bundles}
    for what, name in sorted((old - new) & remaining):
        yield PackageChange(ChangeKind.UNDEPRECATED, package, name, before=what)


def _deprecated(outline: Outline) -> set[tuple[str, str]]:
    names = {("channel", name) for name in outline.deprecated_channels}
    names |= {("bundle", name) for name in outline.deprecated_bundles}
    return names | {("package", "")} if outline.deprecated else names
