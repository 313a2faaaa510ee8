"""Checks of a place, whatever the bundle: the catalog that it would come from, where it would go.

Such a rule is never a bundle's verdict: one catalog that does not answer would make all of them
alike. What it says stands beside them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from catalogs.verdicts.check_input import Answer, Unread
from catalogs.verdicts.facts import Group

CLUSTER_CATALOG, CATALOG_SOURCE = "ClusterCatalog", "CatalogSource"
# A CatalogSource that is read by the PackageManifest API.
PACKAGE_MANIFEST = "PackageManifest"
# The only catalog that PlatformOperators are installed from.
PLATFORM_SOURCE = ("openshift-marketplace", "redhat-operators")
# Whose CatalogSources every namespace sees: OpenShift's, and that of OLM's own manifests.
GLOBAL = ("openshift-marketplace", "olm")


@dataclass(frozen=True, slots=True)
class Source:
    """A catalog. `kind` is that of its object, or how it is read where it has none; `trouble` says
    why it does not answer the controllers, empty while it does."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    disabled: bool = False
    trouble: str = ""

    @property
    def place(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Site:
    """`catalog` is the one that is judged, `sources` are those of the cluster; `read` has the kinds
    of which all are known: none where there is no cluster, or where they may not be listed.

    `groups` are the OperatorGroups of `namespace`, which is empty where none is named; None when
    they were never read.
    """

    catalog: Source = Source()
    sources: tuple[Source, ...] = ()
    read: frozenset[str] = frozenset()
    namespace: str = ""
    groups: tuple[Group, ...] | None = None


def _has(site: Site, kind: str) -> bool:
    """Whether the catalog is such an object of the cluster, or has one as its twin."""
    own = site.catalog
    return own.kind == kind or any(
        each.kind == kind and each.name == own.name for each in site.sources
    )


def _lacks(site: Site, kind: str) -> Answer:
    if _has(site, kind):
        return None
    return {"catalog": site.catalog.name} if kind in site.read else Unread.FACT


def _one_group(site: Site) -> Answer:
    groups = site.groups
    if groups is None or not site.namespace:
        return Unread.FACT
    if len(groups) == 1 and groups[0].target is not None:
        return None
    names = ", ".join(each.name for each in groups)
    if len(groups) == 1:
        has = f"the OperatorGroup {names}, which selects no namespace"
    else:
        has = f"{len(groups)} OperatorGroups ({names})" if groups else "no OperatorGroup"
    return {"namespace": site.namespace, "has": has}


def _alone(site: Site) -> Group | None:
    """The namespace's only OperatorGroup, when it keeps the global catalogs out."""
    groups = site.groups or ()
    return groups[0] if len(groups) == 1 and groups[0].own_catalogs_only else None


def _source_down(site: Site) -> Answer:
    """OLM resolves nothing unless every CatalogSource that the namespace sees answers."""
    seen = (site.namespace,) if _alone(site) else (site.namespace, *GLOBAL)
    for each in site.sources:
        if each.kind == CATALOG_SOURCE and each.namespace in seen and each.trouble:
            where = f"namespace {site.namespace}" if site.namespace else "any namespace"
            return {"where": where, "source": each.place, "trouble": each.trouble}
    return None


def _hidden(site: Site) -> Answer:
    """The Subscription would name a CatalogSource that is not looked at."""
    group = _alone(site)
    sources = _subscribable(site)
    if group is None or any(each.namespace == site.namespace for each in sources):
        return None
    if not sources:
        return None if site.catalog.kind else Unread.FACT
    return {"source": sources[0].place, "namespace": site.namespace, "group": group.name}


def _far(site: Site) -> Answer:
    """Which namespace is global is an argument of OLM's; these two are what it mostly is."""
    sources = _subscribable(site)
    if not site.namespace or not sources or _alone(site):
        return None
    if any(each.namespace in (site.namespace, *GLOBAL) for each in sources):
        return None
    return {"source": sources[0].place, "namespace": site.namespace}


def _own_catalogs_only(site: Site) -> Answer:
    group = _alone(site)
    return {"namespace": site.namespace, "group": group.name} if group else None


def _subscribable(site: Site) -> list[Source]:
    """The CatalogSources by which a Subscription would have the catalog: itself, or its twins."""
    own = site.catalog
    if own.kind in (CATALOG_SOURCE, PACKAGE_MANIFEST):
        return [own]
    return [one for one in site.sources if one.kind == CATALOG_SOURCE and one.name == own.name]


def _no_catalog_source(site: Site) -> Answer:
    return _lacks(site, CATALOG_SOURCE)


def _no_cluster_catalog(site: Site) -> Answer:
    return _lacks(site, CLUSTER_CATALOG)


def _own(site: Site) -> Iterator[Source]:
    """The ClusterCatalog that is judged, or its twin."""
    for each in site.sources:
        if each.kind == CLUSTER_CATALOG and each.name == site.catalog.name:
            yield each


def _disabled(site: Site) -> Answer:
    return {"catalog": site.catalog.name} if any(each.disabled for each in _own(site)) else None


def _catalog_down(site: Site) -> Answer:
    for each in _own(site):
        if each.trouble and not each.disabled:
            return {"catalog": each.name, "trouble": each.trouble}
    return None


def _neighbour_down(site: Site) -> Answer:
    if not _has(site, CLUSTER_CATALOG):
        return None
    for each in site.sources:
        other = each.kind == CLUSTER_CATALOG and each.name != site.catalog.name
        if other and each.trouble and not each.disabled:
            return {"catalog": each.name, "trouble": each.trouble}
    return None


def _other_catalog(site: Site) -> Answer:
    """A ClusterCatalog, a file or an image of the name may well have the same content."""
    own, (namespace, name) = site.catalog, PLATFORM_SOURCE
    same = own.name == name and (own.kind != CATALOG_SOURCE or own.namespace == namespace)
    return None if same else {"catalog": own.name}


def _platform_source_down(site: Site) -> Answer:
    for each in site.sources:
        if each.kind == CATALOG_SOURCE and (each.namespace, each.name) == PLATFORM_SOURCE:
            return {"trouble": f"does not answer ({each.trouble})"} if each.trouble else None
    return {"trouble": "is not there"} if CATALOG_SOURCE in site.read else Unread.FACT


SITE_CHECKS: Mapping[str, Callable[[Site], Answer]] = {
    "sub-one-group": _one_group,
    "sub-catalog-hidden": _hidden,
    "sub-source-down": _source_down,
    "sub-catalog-far": _far,
    "sub-own-catalogs-only": _own_catalogs_only,
    "sub-other-catalog": _no_catalog_source,
    "ce-other-catalog": _no_cluster_catalog,
    "ce-catalog-disabled": _disabled,
    "ce-catalog-down": _catalog_down,
    "ce-neighbour-down": _neighbour_down,
    "po-other-catalog": _other_catalog,
    "po-source-down": _platform_source_down,
}
