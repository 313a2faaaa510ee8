"""Reads what catalogs offer for the dependencies of a bundle."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from django.db.models import Q

from catalogs.contents.bundle_facts import ApiKind
from catalogs.models import Bundle, BundleGVK, Catalog
from catalogs.semver import Version, read_version
from catalogs.verdicts.dependencies import RequiredPackage, Requirement
from catalogs.verdicts.health_checks import GLOBAL


def beside(catalog: Catalog) -> Q:
    """The catalogs that some namespace can use together with this one."""
    if catalog.namespace in ("", *GLOBAL):
        return Q()
    return Q(namespace__in=("", catalog.namespace, *GLOBAL))


class CatalogName(NamedTuple):
    """`namespace` is empty for all but CatalogSources."""

    namespace: str
    name: str
    priority: int


@dataclass(frozen=True, slots=True)
class RequiredOffers:
    """The offers of some catalogs, as far as requirements name them."""

    versions: dict[str, list[Version]] = field(default_factory=lambda: defaultdict(list))
    providers: dict[ApiKind, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, other: "RequiredOffers") -> None:
        for package, versions in other.versions.items():
            self.versions[package] += versions
        for api, packages in other.providers.items():
            self.providers[api] |= packages


def read_offers(
    catalogs: Q, requirements: Sequence[Requirement]
) -> dict[CatalogName, RequiredOffers]:
    """The offers of the catalogs that the condition selects. One query for required packages and
    one for required APIs."""
    selected = Catalog.objects.filter(catalogs).order_by().values("pk")
    offers: dict[CatalogName, RequiredOffers] = defaultdict(RequiredOffers)
    names = {row.name for row in requirements if isinstance(row, RequiredPackage)}
    if names:
        bundles = Bundle.objects.filter(package__name__in=names, package__catalog__in=selected)
        fields = (*_catalog_fields("package__catalog"), "package__name", "version")
        for namespace, catalog, priority, package, text in bundles.order_by().values_list(*fields):
            if (version := read_version(text.removeprefix("v"))) is not None:
                own = offers[CatalogName(namespace, catalog, priority)]
                own.versions[package].append(version)
    apis = [row for row in requirements if isinstance(row, ApiKind)]
    if apis:
        provided = BundleGVK.objects.filter(
            _any_of(apis), required=False, bundle__package__catalog__in=selected
        )
        fields = (
            *_catalog_fields("bundle__package__catalog"),
            *("bundle__package__name", "group", "version", "kind"),
        )
        for namespace, catalog, priority, package, *api in (
            provided.order_by().values_list(*fields).distinct()
        ):
            own = offers[CatalogName(namespace, catalog, priority)]
            own.providers[ApiKind(*api)].add(package)
    return offers


def _catalog_fields(prefix: str) -> tuple[str, ...]:
    """The fields of a CatalogName."""
    return tuple(f"{prefix}__{name}" for name in CatalogName._fields)


def _any_of(apis: Iterable[ApiKind]) -> Q:
    wanted = Q(pk__in=())
    for api in apis:
        wanted |= Q(group=api.group, version=api.version, kind=api.kind)
    return wanted


def merged(offers: Iterable[RequiredOffers]) -> RequiredOffers:
    """Those of all catalogs together."""
    result = RequiredOffers()
    for of_catalog in offers:
        result.add(of_catalog)
    return result
