"""What OLM v0 installs beside a bundle: packages that provide its declared dependencies.

Mirrors the order in which the resolver searches the catalogs that a namespace can use: the catalog
of the bundle, then by priority, the namespace's own before the global ones, by name
(operator-lifecycle-manager pkg/controller/registry/resolver/cache/cache.go, sortableSnapshots).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Q

from catalogs.contents.bundle_facts import ApiKind
from catalogs.models import Bundle, BundleGVK
from catalogs.semver import blang_range, read_version
from catalogs.verdicts.health_checks import GLOBAL
from installs.actions.install_rows import InstallRows
from installs.methods import METHODS, InstallChoice

PACKAGES_NAMED = 3  # providers of one requirement


@dataclass(frozen=True, slots=True)
class Dependency:
    """A requirement of a bundle and the packages that meet it: those of operators in the namespace
    if `installed`, else of `catalog`, the first that offers some, with `more` that are not named.
    Without packages, no catalog of the namespace offers any. `outdated`: the installed version of a
    required package that is not in the range."""

    requirement: str
    packages: tuple[str, ...] = ()
    catalog: str = ""
    more: int = 0
    installed: bool = False
    outdated: str = ""


class _Offer(NamedTuple):
    catalog: str
    catalog_namespace: str  # empty for a ClusterCatalog
    priority: int
    package: str
    version: str
    api: ApiKind | None = None


def dependencies_of(choice: InstallChoice, rows: InstallRows, name: str) -> list[Dependency]:
    """The packages and APIs that a Subscription's bundle `name` requires. At most three queries,
    none for a bundle without dependencies."""
    bundle = rows.bundle(name)
    if bundle is None or not METHODS[choice.method].needs_group:
        return []
    required = {row["name"]: row["range"] for row in bundle.required_packages}
    installed = {
        row.package: row.version for row in rows.operators if row.namespace == choice.namespace
    }
    dependencies = []
    missing = required.keys() - installed.keys()
    offers = _offered_packages(rows, missing) if missing else []
    for package, text in required.items():
        requirement = f"Package {package} {text}".strip()
        if package in installed:
            version = installed[package]
            outdated = "" if not version or _in_range(version, text) else version
            dependency = Dependency(requirement, (package,), installed=True, outdated=outdated)
        else:
            matching = [row for row in offers if row.package == package]
            matching = [row for row in matching if _in_range(row.version, text)]
            dependency = _offered(requirement, matching, choice, rows)
        dependencies.append(dependency)
    apis = _required_apis(bundle) if getattr(bundle, "requires_kind", False) else []
    offers = _offered_apis(rows, apis) if apis else []
    for api in apis:
        requirement = f"API {api.label}"
        matching = [offer for offer in offers if offer.api == api]
        if here := sorted({offer.package for offer in matching} & installed.keys()):
            dependencies.append(Dependency(requirement, tuple(here), installed=True))
        else:
            dependencies.append(_offered(requirement, matching, choice, rows))
    return dependencies


def _required_apis(bundle: Bundle) -> list[ApiKind]:
    rows = BundleGVK.objects.filter(bundle=bundle, required=True)
    fields = ("group", "kind", "version")
    return [
        ApiKind(group, version, kind)
        for group, kind, version in rows.order_by(*fields).values_list(*fields)
    ]


def _offered_packages(rows: InstallRows, names: Iterable[str]) -> list[_Offer]:
    bundles = Bundle.objects.filter(
        package__catalog__cluster=rows.cluster, package__name__in=names
    ).order_by()
    fields = (f"package__catalog__{name}" for name in ("name", "namespace", "priority"))
    return [_Offer(*values) for values in bundles.values_list(*fields, "package__name", "version")]


def _offered_apis(rows: InstallRows, apis: Iterable[ApiKind]) -> list[_Offer]:
    wanted = Q()
    for api in apis:
        wanted |= Q(group=api.group, version=api.version, kind=api.kind)
    provided = BundleGVK.objects.filter(
        wanted, required=False, bundle__package__catalog__cluster=rows.cluster
    ).order_by()
    fields = (f"bundle__package__catalog__{name}" for name in ("name", "namespace", "priority"))
    values = provided.values_list(
        *fields, "bundle__package__name", "group", "version", "kind"
    ).distinct()
    return [
        _Offer(catalog, namespace, priority, package, "", ApiKind(group, version, kind))
        for catalog, namespace, priority, package, group, version, kind in values
    ]


def _in_range(version: str, text: str) -> bool:
    """Whether the version is in the range; False for an unreadable one."""
    try:
        within = blang_range(text)
    except ValueError:
        return False
    read = read_version(version.removeprefix("v"))
    return read is not None and bool(within(read))


def _offered(
    requirement: str, offers: Iterable[_Offer], choice: InstallChoice, rows: InstallRows
) -> Dependency:
    groups = rows.groups_in(choice.namespace)
    excludes_global = len(groups) == 1 and groups[0].own_catalogs_only
    visible = (choice.namespace,) if excludes_global else (choice.namespace, *GLOBAL)
    sources = [source for source in rows.catalog_sources if source.namespace in visible]
    by_catalog: dict[tuple[bool, int, bool, str, str], set[str]] = {}
    for offer in offers:
        for source in sources:
            same = offer.catalog_namespace in ("", source.namespace)
            if same and source.name == offer.catalog:
                own = (source.namespace, source.name) == (choice.catalog_namespace, choice.catalog)
                other = source.namespace != choice.namespace
                key = (not own, -offer.priority, other, source.name, source.qualified_name)
                by_catalog.setdefault(key, set()).add(offer.package)
    if not by_catalog:
        return Dependency(requirement)
    first = min(by_catalog)
    packages = sorted(by_catalog[first])
    named = tuple(packages[:PACKAGES_NAMED])
    return Dependency(requirement, named, first[-1], more=len(packages) - len(named))
