"""What the catalogs that a cluster can use offer of some packages, read for many at once."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from django.db.models import Q

from catalogs.graph import Entry
from catalogs.models import Bundle, Catalog, Channel, ChannelEntry, Package
from catalogs.semver import Version, parse
from catalogs.sources.access_methods import PACKAGE_MANIFEST


@dataclass(slots=True)
class Offer:
    """One package in one catalog. `cluster_catalog`: a ClusterCatalog of the cluster itself."""

    catalog: str
    priority: int
    cluster_catalog: bool
    entries: dict[str, list[Entry]] = field(default_factory=dict)  # by channel
    heads: dict[str, str] = field(default_factory=dict)  # channel -> bundle
    versions: dict[str, str] = field(default_factory=dict)  # bundle -> version as written
    parsed: dict[str, Version] = field(default_factory=dict)  # bundle -> version, where it is one
    deprecated: set[str] = field(default_factory=set)  # bundles


def usable(cluster_id: int) -> Q:
    """Catalogs of the cluster, and those of no cluster, that have content.

    Not those of the PackageManifest API, which tells no upgrade graph.
    """
    own = Q(cluster_id=cluster_id, revision__gt=0) | Q(cluster=None, revision__gt=0)
    return own & ~Q(way=PACKAGE_MANIFEST)


def read_version(text: str) -> Version | None:
    """None for what is no version: content is as its author wrote it."""
    try:
        return parse(text)
    except ValueError:
        return None


def offers_of(cluster_id: int, names: Collection[str]) -> dict[str, list[Offer]]:
    """Package name -> its offers, the cluster's own catalogs first."""
    catalogs = {row.pk: row for row in Catalog.objects.filter(usable(cluster_id)).order_by()}
    if not catalogs or not names:
        return {}
    packages = Package.objects.filter(catalog_id__in=catalogs, name__in=names).order_by()
    offers: dict[int, Offer] = {}
    found: dict[str, list[Offer]] = defaultdict(list)
    for pk, name, catalog_id in packages.values_list("id", "name", "catalog_id"):
        catalog = catalogs[catalog_id]
        is_own = catalog.source_kind == Catalog.SourceKind.CLUSTER_CATALOG
        offers[pk] = Offer(catalog.name, catalog.priority, is_own)
        found[name].append(offers[pk])
    _fill(offers)
    for listed in found.values():
        listed.sort(key=lambda one: (not one.cluster_catalog, -one.priority, one.catalog))
    return found


def _fill(offers: dict[int, Offer]) -> None:
    channels: dict[int, tuple[int, str]] = {}
    rows = Channel.objects.filter(package_id__in=offers).order_by()
    for pk, package, name, head in rows.values_list("id", "package_id", "name", "head"):
        channels[pk] = (package, name)
        offers[package].entries[name] = []
        offers[package].heads[name] = head
    entries = ChannelEntry.objects.filter(channel__package_id__in=offers).order_by(
        "channel_id", "ordinal"
    )
    fields = ("channel_id", "name", "replaces", "skips", "skip_range")
    for channel, name, replaces, skips, skip_range in entries.values_list(*fields):
        package, channel_name = channels[channel]
        entry = Entry(name, replaces, tuple(str(one) for one in skips), skip_range)
        offers[package].entries[channel_name].append(entry)
    bundles = Bundle.objects.filter(package_id__in=offers).order_by("ordinal")
    for package, name, version, gone in bundles.values_list(
        "package_id", "name", "version", "deprecated"
    ):
        offer = offers[package]
        offer.versions[name] = version
        parsed = read_version(version)
        if parsed is not None:
            offer.parsed[name] = parsed
        if gone:
            offer.deprecated.add(name)


def bundles_by_image(
    cluster_id: int, packages: Collection[str], images: Collection[str]
) -> dict[str, tuple[str, str, bool]]:
    """Image -> (bundle, version, deprecated), of the cluster's catalogs before any other."""
    if not packages or not images:
        return {}
    catalogs = Catalog.objects.filter(usable(cluster_id)).order_by().values("id")
    rows = Bundle.objects.filter(
        package__name__in=packages, image__in=images, package__catalog_id__in=catalogs
    ).values_list("image", "name", "version", "deprecated", "package__catalog__cluster_id")
    ordered = sorted(rows, key=lambda row: (row[4] == cluster_id, row[1]))
    return {image: (name, version, gone) for image, name, version, gone, _ in ordered}
