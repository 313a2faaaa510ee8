"""Checks of a catalog or namespace, whatever the bundle.

Their results are notes on verdicts and never verdicts: a catalog that does not answer would make
all verdicts the same.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from catalogs.verdicts.facts import Answer, OperatorGroupFacts, Unread

CLUSTER_CATALOG, CATALOG_SOURCE = "ClusterCatalog", "CatalogSource"
# A CatalogSource that is read with the PackageManifest API.
PACKAGE_MANIFEST = "PackageManifest"
# The only catalog that PlatformOperators are installed from.
PLATFORM_SOURCE = ("openshift-marketplace", "redhat-operators")
# Global catalog namespaces: that of OpenShift and that of OLM's own manifests.
GLOBAL = ("openshift-marketplace", "olm")


@dataclass(frozen=True, slots=True)
class CheckedCatalog:
    """A catalog. `kind` is that of its object, or its access method without an object; `trouble` is
    the reason why it does not answer the controllers, empty if it answers."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    disabled: bool = False
    trouble: str = ""

    @property
    def qualified_name(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class HealthContext:
    """`catalog` is the checked one, `sources` are those of the cluster; `read` has the kinds of
    catalogs that were listed completely. `groups` are the OperatorGroups of `namespace` (empty if
    none is given), None if they were never read."""

    catalog: CheckedCatalog = CheckedCatalog()
    sources: tuple[CheckedCatalog, ...] = ()
    read: frozenset[str] = frozenset()
    namespace: str = ""
    groups: tuple[OperatorGroupFacts, ...] | None = None


def _has(context: HealthContext, kind: str) -> bool:
    """Whether the catalog is an object of `kind`, or the cluster has one of its name."""
    own = context.catalog
    return own.kind == kind or any(
        source.kind == kind and source.name == own.name for source in context.sources
    )


def _lacks(context: HealthContext, kind: str) -> Answer:
    if _has(context, kind):
        return None
    return {"catalog": context.catalog.name} if kind in context.read else Unread.FACT


def _one_group(context: HealthContext) -> Answer:
    groups = context.groups
    if groups is None or not context.namespace:
        return Unread.FACT
    if len(groups) == 1 and groups[0].target is not None:
        return None
    names = ", ".join(group.name for group in groups)
    if len(groups) == 1:
        has = f"the OperatorGroup {names}, which selects no namespace"
    else:
        has = f"{len(groups)} OperatorGroups ({names})" if groups else "no OperatorGroup"
    return {"namespace": context.namespace, "has": has}


def _alone(context: HealthContext) -> OperatorGroupFacts | None:
    """The only OperatorGroup of the namespace, if it excludes the global catalogs."""
    groups = context.groups or ()
    return groups[0] if len(groups) == 1 and groups[0].own_catalogs_only else None


def visible_namespaces(namespace: str, *, own_only: bool) -> tuple[str, ...]:
    """The namespaces whose catalogs the namespace can use; `own_only`: its OperatorGroup excludes
    the global ones."""
    return (namespace,) if own_only else (namespace, *GLOBAL)


def _source_down(context: HealthContext) -> Answer:
    """OLM resolves nothing unless every CatalogSource visible to the namespace answers."""
    visible = visible_namespaces(context.namespace, own_only=_alone(context) is not None)
    for source in context.sources:
        if source.kind == CATALOG_SOURCE and source.namespace in visible and source.trouble:
            where = f"namespace {context.namespace}" if context.namespace else "any namespace"
            return {"where": where, "source": source.qualified_name, "trouble": source.trouble}
    return None


def _hidden(context: HealthContext) -> Answer:
    """The Subscription would refer to a CatalogSource that the resolver ignores."""
    group = _alone(context)
    sources = _subscribable(context)
    if group is None or any(source.namespace == context.namespace for source in sources):
        return None
    if not sources:
        return None if context.catalog.kind else Unread.FACT
    return {
        "source": sources[0].qualified_name,
        "namespace": context.namespace,
        "group": group.name,
    }


def _far(context: HealthContext) -> Answer:
    """The global namespace is an argument of OLM; these two are the usual values."""
    sources = _subscribable(context)
    if not context.namespace or not sources or _alone(context):
        return None
    if any(source.namespace in (context.namespace, *GLOBAL) for source in sources):
        return None
    return {"source": sources[0].qualified_name, "namespace": context.namespace}


def _own_catalogs_only(context: HealthContext) -> Answer:
    group = _alone(context)
    return {"namespace": context.namespace, "group": group.name} if group else None


def _subscribable(context: HealthContext) -> list[CheckedCatalog]:
    """The CatalogSources that serve the catalog to a Subscription: itself, or those of its name."""
    own = context.catalog
    if own.kind in (CATALOG_SOURCE, PACKAGE_MANIFEST):
        return [own]
    return [
        source
        for source in context.sources
        if source.kind == CATALOG_SOURCE and source.name == own.name
    ]


def _own(context: HealthContext) -> Iterator[CheckedCatalog]:
    """The checked ClusterCatalog, or the one of the same name."""
    for source in context.sources:
        if source.kind == CLUSTER_CATALOG and source.name == context.catalog.name:
            yield source


def _disabled(context: HealthContext) -> Answer:
    disabled = any(source.disabled for source in _own(context))
    return {"catalog": context.catalog.name} if disabled else None


def _catalog_down(context: HealthContext) -> Answer:
    for source in _own(context):
        if source.trouble and not source.disabled:
            return {"catalog": source.name, "trouble": source.trouble}
    return None


def _neighbour_down(context: HealthContext) -> Answer:
    if not _has(context, CLUSTER_CATALOG):
        return None
    for source in context.sources:
        other = source.kind == CLUSTER_CATALOG and source.name != context.catalog.name
        if other and source.trouble and not source.disabled:
            return {"catalog": source.name, "trouble": source.trouble}
    return None


def _other_catalog(context: HealthContext) -> Answer:
    """A ClusterCatalog, file or image of the same name probably has the same content."""
    own, (namespace, name) = context.catalog, PLATFORM_SOURCE
    same = own.name == name and (own.kind != CATALOG_SOURCE or own.namespace == namespace)
    return None if same else {"catalog": own.name}


def _platform_source_down(context: HealthContext) -> Answer:
    for source in context.sources:
        if source.kind == CATALOG_SOURCE and (source.namespace, source.name) == PLATFORM_SOURCE:
            return {"trouble": f"does not answer ({source.trouble})"} if source.trouble else None
    return {"trouble": "is not there"} if CATALOG_SOURCE in context.read else Unread.FACT


HEALTH_CHECKS: Mapping[str, Callable[[HealthContext], Answer]] = {
    "sub-one-group": _one_group,
    "sub-catalog-hidden": _hidden,
    "sub-source-down": _source_down,
    "sub-catalog-far": _far,
    "sub-own-catalogs-only": _own_catalogs_only,
    "sub-other-catalog": partial(_lacks, kind=CATALOG_SOURCE),
    "ce-other-catalog": partial(_lacks, kind=CLUSTER_CATALOG),
    "ce-catalog-disabled": _disabled,
    "ce-catalog-down": _catalog_down,
    "ce-neighbour-down": _neighbour_down,
    "po-other-catalog": _other_catalog,
    "po-source-down": _platform_source_down,
}
