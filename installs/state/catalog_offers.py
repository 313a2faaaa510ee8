"""Packages as offered by the catalogs that a cluster can use, read for many operators at once."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from django.db.models import Q

from catalogs.graph import GraphEntry
from catalogs.models import Bundle, Catalog, Channel, ChannelEntry, Package
from catalogs.semver import Version, read_version
from catalogs.sources.access_methods import PACKAGE_MANIFEST


@dataclass(slots=True)
class UpgradeOffer:
    """A package in a catalog. `cluster_catalog`: it is a ClusterCatalog of the cluster itself."""

    catalog: str
    priority: int
    cluster_catalog: bool
    entries: dict[str, list[GraphEntry]] = field(default_factory=dict)  # by channel
    heads: dict[str, str] = field(default_factory=dict)  # channel -> bundle
    versions: dict[str, str] = field(default_factory=dict)  # bundle -> version as written
    parsed: dict[str, Version] = field(default_factory=dict)  # bundle -> version, if valid
    deprecated: set[str] = field(default_factory=set)  # bundles


class ImageBundle(NamedTuple):
    """A bundle that was found by its image."""

    name: str
    version: str
    deprecated: bool


def usable_catalogs(cluster_id: int) -> Q:
    """Catalogs with content, of the cluster or of no cluster.

    Excludes the PackageManifest API, which has no upgrade graph.
    """
    own = Q(cluster_id=cluster_id, revision__gt=0) | Q(cluster=None, revision__gt=0)
    return own & ~Q(access_method=PACKAGE_MANIFEST)


def is_usable(catalog: Catalog, cluster_id: int) -> bool:
    """Whether a catalog that was read is one of `usable_catalogs`."""
    reachable = catalog.cluster_id in (None, cluster_id) and catalog.revision > 0
    return reachable and catalog.access_method != PACKAGE_MANIFEST


def offers_of(cluster_id: int, names: Collection[str]) -> dict[str, list[UpgradeOffer]]:
    """Package name -> its offers, ClusterCatalogs of the cluster first."""
    catalogs = {
        row.pk: row for row in Catalog.objects.filter(usable_catalogs(cluster_id)).order_by()
    }
    if not catalogs or not names:
        return {}
    packages = Package.objects.filter(catalog_id__in=catalogs, name__in=names).order_by()
    offers: dict[int, UpgradeOffer] = {}
    by_package: dict[str, list[UpgradeOffer]] = defaultdict(list)
    for pk, name, catalog_id in packages.values_list("id", "name", "catalog_id"):
        catalog = catalogs[catalog_id]
        is_own = catalog.source_kind == Catalog.SourceKind.CLUSTER_CATALOG
        offers[pk] = UpgradeOffer(catalog.name, catalog.priority, is_own)
        by_package[name].append(offers[pk])
    _fill(offers)
    for listed in by_package.values():
        listed.sort(key=lambda offer: (not offer.cluster_catalog, -offer.priority, offer.catalog))
    return by_package


def _fill(offers: dict[int, UpgradeOffer]) -> None:
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
        entry = GraphEntry(name, replaces, tuple(str(bundle) for bundle in skips), skip_range)
        offers[package].entries[channel_name].append(entry)
    bundles = Bundle.objects.filter(package_id__in=offers).order_by("ordinal")
    for package, name, version, deprecated in bundles.values_list(
        "package_id", "name", "version", "deprecated"
    ):
        offer = offers[package]
        offer.versions[name] = version
        parsed = read_version(version)
        if parsed is not None:
            offer.parsed[name] = parsed
        if deprecated:
            offer.deprecated.add(name)


def bundles_by_image(
    cluster_id: int, packages: Collection[str], images: Collection[str]
) -> dict[str, ImageBundle]:
    """Image -> bundle; those of the cluster's own catalogs win."""
    if not packages or not images:
        return {}
    catalogs = Catalog.objects.filter(usable_catalogs(cluster_id)).order_by().values("id")
    rows = Bundle.objects.filter(
        package__name__in=packages, image__in=images, package__catalog_id__in=catalogs
    ).values_list("image", "name", "version", "deprecated", "package__catalog__cluster_id")
    ordered = sorted(rows, key=lambda row: (row[4] == cluster_id, row[1]))
    return {
        image: ImageBundle(name, version, deprecated)
        for image, name, version, deprecated, _ in ordered
    }
