"""What a sync changed, told as the differences a person cares about.

Knows the outline of a package before and after; not how either was read or is written.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from catalogs.models import Bundle, CatalogChange, Channel, Package

Kind = CatalogChange.Kind


@dataclass(slots=True)
class Outline:
    """A package as far as changes are told: heads by channel, bundle names, what is deprecated."""

    default_channel: str = ""
    heads: dict[str, str] = field(default_factory=dict)
    bundles: set[str] = field(default_factory=set)
    deprecated: set[str] = field(default_factory=set)  # "" for the package itself


class Change(NamedTuple):
    kind: str
    package: str
    subject: str = ""
    before: str = ""
    after: str = ""


def stored_outline(package_id: int) -> Outline:
    """The outline of what the database holds; call before the rows are replaced."""
    outline = Outline()
    for default, deprecated in Package.objects.filter(id=package_id).values_list(
        "default_channel", "deprecated"
    ):
        outline.default_channel = default
        if deprecated:
            outline.deprecated.add("")
    channels = Channel.objects.filter(package=package_id).order_by()
    for name, head, deprecated in channels.values_list("name", "head", "deprecated"):
        outline.heads[name] = head
        if deprecated:
            outline.deprecated.add(name)
    bundles = Bundle.objects.filter(package=package_id).order_by()
    for name, deprecated in bundles.values_list("name", "deprecated"):
        outline.bundles.add(name)
        if deprecated:
            outline.deprecated.add(name)
    return outline


def compare(package: str, before: Outline, after: Outline) -> list[Change]:
    """Differences between two contents of one package, in a stable order."""
    found = [
        Change(Kind.BUNDLE_ADDED, package, name) for name in sorted(after.bundles - before.bundles)
    ]
    found += [
        Change(Kind.BUNDLE_REMOVED, package, name)
        for name in sorted(before.bundles - after.bundles)
    ]
    for channel in sorted(before.heads.keys() | after.heads.keys()):
        old, new = before.heads.get(channel, ""), after.heads.get(channel, "")
        if old != new:
            found.append(Change(Kind.HEAD_MOVED, package, channel, old, new))
    if before.default_channel != after.default_channel:
        found.append(
            Change(
                Kind.DEFAULT_CHANNEL_CHANGED,
                package,
                before=before.default_channel,
                after=after.default_channel,
            )
        )
    found += [
        Change(Kind.DEPRECATED, package, name)
        for name in sorted(after.deprecated - before.deprecated)
    ]
    return found
