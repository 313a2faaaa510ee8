"""Outlines as the database holds them: of any revision of a catalog, and of its rows today.

Knows the models and the shape of an outline; not what differs between two of them.
"""

from collections import defaultdict

from catalogs.fbc.bundle import BundleFacts
from catalogs.fbc.lint import EntryFacts
from catalogs.models import Bundle, BundleGVK, Channel, ChannelEntry, Package, RelatedImage
from catalogs.revisions.outline import (
    BundleOutline,
    Outline,
    bundle_outline,
    channel_outline,
)


def outline_of_rows(package_id: int) -> Outline:
    """The outline of what the tables hold of a package; five queries.

    For catalogs that were read before outlines were kept: it differs from what the blobs would
    give only where a text was longer than its column.
    """
    package = Package.objects.only("default_channel", "deprecated").get(pk=package_id)
    channels = list(Channel.objects.filter(package=package_id))
    bundles, deprecated_bundles = _bundles(package_id)
    entries: dict[int, list[EntryFacts]] = defaultdict(list)
    for channel_id, *entry in ChannelEntry.objects.filter(channel__package=package_id).values_list(
        "channel_id", "name", "replaces", "skips", "skip_range"
    ):
        entries[channel_id].append(EntryFacts(*entry))
    return Outline(
        default_channel=package.default_channel,
        channels={each.name: channel_outline(each.head, entries[each.pk]) for each in channels},
        bundles=bundles,
        deprecated=package.deprecated,
        deprecated_channels=sorted(each.name for each in channels if each.deprecated),
        deprecated_bundles=deprecated_bundles,
    )


def _bundles(package_id: int) -> tuple[dict[str, BundleOutline], list[str]]:
    """Bundles by name, the first of a name that is there twice; names of the deprecated ones."""
    gvks: dict[int, list[tuple[str, str, str, bool]]] = defaultdict(list)
    for bundle_id, group, version, kind, required in BundleGVK.objects.filter(
        bundle__package=package_id
    ).values_list("bundle_id", "group", "version", "kind", "required"):
        gvks[bundle_id].append((group, version, kind, required))
    images: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for bundle_id, name, image in RelatedImage.objects.filter(
        bundle__package=package_id
    ).values_list("bundle_id", "name", "image"):
        images[bundle_id].append((name, image))
    found: dict[str, BundleOutline] = {}
    deprecated = set()
    own = [name for name in BundleFacts._fields if name not in ("gvks", "images")]
    rows = Bundle.objects.filter(package=package_id).order_by("name", "ordinal")
    for row in rows.values("id", "blob_id", "deprecated", *own):
        pk, name = row["id"], row["name"]
        facts = {field: row[field] for field in own} | {"gvks": gvks[pk], "images": images[pk]}
        found.setdefault(name, bundle_outline(BundleFacts(**facts), row["blob_id"] or ""))
        if row["deprecated"]:
            deprecated.add(name)
    return found, sorted(deprecated)
