"""Reads the packages of stored catalogs for many operators at once, as `PackageOffer`s.

Decides only in which catalog an operator is looked up.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from django.db.models import Q

from catalogs.graph import GraphEntry
from catalogs.models import Bundle, Catalog, Channel, ChannelEntry, Package
from catalogs.resolve.facts import ResolverBundle, ResolverPackage
from installs.models import Operator
from installs.readiness.blockers import PackageOffer
from installs.state.catalog_offers import usable_catalogs


@dataclass(slots=True)
class OperatorOffers:
    """`own`: operator id -> the package in the catalog that the operator was installed from, if any
    catalog has it. `following`: package name -> the package in the catalog of the next minor."""

    own: dict[int, PackageOffer]
    following: dict[str, PackageOffer]


def read_catalog_offers(
    operators: Collection[Operator], following: Catalog | None
) -> OperatorOffers:
    """Reads all offers with at most eight queries."""
    names = {operator.package for operator in operators if operator.package}
    if not names:
        return OperatorOffers({}, {})
    candidates = _candidates({operator.cluster_id for operator in operators}, names)
    chosen = {operator.pk: _choose(operator, candidates) for operator in operators}
    wanted = {package.pk: package for package in chosen.values() if package is not None}
    next_packages: dict[int, Package] = {}
    if following is not None:
        rows = Package.objects.filter(catalog=following, name__in=names)
        next_packages = {package.pk: package for package in rows.select_related("catalog__cluster")}
    offers = _fill({**wanted, **next_packages})
    own = {pk: offers[package.pk] for pk, package in chosen.items() if package is not None}
    return OperatorOffers(own, {package.name: offers[pk] for pk, package in next_packages.items()})


@dataclass(slots=True)
class _Candidates:
    """Packages by (cluster id, name), and the names of installed bundles by package id."""

    packages: dict[tuple[int, str], list[Package]]
    bundles: Mapping[int, set[str]]


def _candidates(clusters: Collection[int], names: Collection[str]) -> _Candidates:
    catalogs = {
        row.pk: row
        for row in Catalog.objects.filter(reduce(or_, map(usable_catalogs, sorted(clusters)), Q()))
    }
    packages: dict[tuple[int, str], list[Package]] = defaultdict(list)
    rows = Package.objects.filter(catalog__in=catalogs, name__in=names)
    listed = list(rows.select_related("catalog__cluster").order_by("catalog__name"))
    for package in listed:
        own = package.catalog.cluster_id
        for cluster in clusters if own is None else (own,):
            packages[cluster, package.name].append(package)
    bundles: dict[int, set[str]] = defaultdict(set)
    installed = Operator.objects.filter(cluster__in=clusters).exclude(bundle="").values("bundle")
    held = Bundle.objects.filter(package__in=listed, name__in=installed).order_by()
    for package_id, name in held.values_list("package_id", "name"):
        bundles[package_id].add(name)
    return _Candidates(packages, bundles)


def _choose(operator: Operator, candidates: _Candidates) -> Package | None:
    """Prefers the catalog that it names, then one with its bundle, then one of its cluster."""

    def rank(package: Package) -> tuple[bool, bool, bool, int]:
        catalog = package.catalog
        return (
            bool(operator.catalog) and catalog.name == operator.catalog,
            operator.bundle in candidates.bundles.get(package.pk, ()),
            catalog.cluster_id is not None,
            catalog.priority,
        )

    packages = candidates.packages.get((operator.cluster_id, operator.package), ())
    return max(packages, key=rank, default=None)


def _fill(packages: Mapping[int, Package]) -> dict[int, PackageOffer]:
    channels: dict[int, dict[str, list[GraphEntry]]] = {pk: {} for pk in packages}
    deprecated: dict[int, dict[str, str]] = defaultdict(dict)
    by_channel: dict[int, list[GraphEntry]] = {}
    rows = Channel.objects.filter(package__in=packages).order_by()
    fields = ("id", "package_id", "name", "deprecated", "deprecation")
    for pk, package, name, is_deprecated, message in rows.values_list(*fields):
        channels[package][name] = by_channel[pk] = []
        if is_deprecated:
            deprecated[package][name] = message
    entries = ChannelEntry.objects.filter(channel__in=by_channel).order_by("channel_id", "ordinal")
    for channel, name, replaces, skips, skip_range in entries.values_list(
        "channel_id", "name", "replaces", "skips", "skip_range"
    ):
        by_channel[channel].append(GraphEntry(name, replaces, tuple(map(str, skips)), skip_range))
    bundles = _bundles(packages)
    return {
        pk: _package_offer(package, channels[pk], deprecated[pk], bundles.get(pk, ()))
        for pk, package in packages.items()
    }


def _bundles(packages: Collection[int]) -> dict[int, list[Bundle]]:
    by_package: dict[int, list[Bundle]] = defaultdict(list)
    rows = Bundle.objects.filter(package__in=packages).order_by("pk")
    for bundle in rows.only(
        *("package_id", "name", "version", "image", "deprecated", "deprecation"),
        *("max_openshift_version", "min_kube_version"),
    ):
        by_package[bundle.package_id].append(bundle)
    return by_package


def _package_offer(
    package: Package,
    channels: Mapping[str, list[GraphEntry]],
    deprecated: Mapping[str, str],
    bundles: Iterable[Bundle],
) -> PackageOffer:
    listed = list(bundles)
    return PackageOffer(
        catalog=str(package.catalog),
        package=package.name,
        facts=ResolverPackage(
            package.name,
            package.default_channel,
            channels,
            [
                ResolverBundle(bundle.name, bundle.version, bundle.deprecated, image=bundle.image)
                for bundle in listed
            ],
        ),
        deprecated=package.deprecated,
        deprecation=package.deprecation,
        deprecated_channels=deprecated,
        deprecated_bundles={
            bundle.name: bundle.deprecation for bundle in listed if bundle.deprecated
        },
        maximum={bundle.name: bundle.max_openshift_version for bundle in listed},
        min_kube={bundle.name: bundle.min_kube_version for bundle in listed},
    )
