"""Builds the inputs of verdicts from rows: the facts of a cluster and the catalog offers."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from django.db.models import Count, Q

from catalogs.contents.bundle_facts import ApiKind
from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, BundleGVK, Catalog, Package
from catalogs.semver import Version, read_version
from catalogs.verdicts.facts import (
    ClusterCrd,
    ClusterFacts,
    ClusterOffers,
    Offered,
    OperatorFacts,
    OperatorGroupFacts,
)
from installs.facts.dependency_offers import beside
from installs.models import ClusterInventory, Component, CRDState, Operator
from installs.state.catalog_offers import usable_catalogs
from installs.state.observation import details_of
from olmweb.models import Cluster

Owner = tuple[str, str, str]  # kind, namespace, name
CLUSTER_CATALOG = Catalog.SourceKind.CLUSTER_CATALOG


def cluster_facts(cluster: Cluster) -> ClusterFacts:
    """The facts of a cluster in seven queries; None for facts that were never read."""
    crds_read = cluster.watches.filter(
        kind="CustomResourceDefinition", listed_at__isnull=False
    ).exists()
    version = (
        Component.objects.filter(cluster=cluster, kind="ClusterVersion")
        .values_list("details__version", flat=True)
        .first()
    )
    operators = Operator.objects.filter(cluster=cluster).order_by("kind", "namespace", "name")
    # Without a row as after a reading in which nothing could be read.
    inventory = ClusterInventory.objects.filter(cluster=cluster).first() or ClusterInventory()
    namespaces, foreign = inventory.namespaces, inventory.foreign_apis
    return ClusterFacts(
        cluster.name,
        served=_served(cluster, inventory.kinds) if inventory.kinds else None,
        crds=_crds(cluster, inventory.instances) if crds_read else None,
        namespaces=None
        if namespaces is None
        else {name: inventory.releases.get(name, "") for name in namespaces},
        roles=inventory.roles,
        shared=inventory.shared,
        kube_version=None if version else read_version(cluster.version.removeprefix("v")),
        openshift_version=read_version(str(version or "").removeprefix("v")),
        installed=tuple(
            OperatorFacts(*values)
            for values in operators.values_list(
                *("kind", "namespace", "name", "package", "bundle", "version")
            )
        ),
        groups=groups_of(cluster),
        apis=_apis(cluster),
        foreign_apis=None if foreign is None else frozenset(foreign),
        gates=inventory.gates,
    )


def _apis(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """APIService -> (package, namespace) of its owner. Ignores replaced and deleted
    ClusterServiceVersions."""
    rows = Component.objects.filter(
        cluster=cluster, kind="ClusterServiceVersion", details__api_services__gt=0
    ).exclude(phase__in=("Replacing", "Deleting"))
    return {
        str(name): (str(details.get("package") or ""), namespace)
        for namespace, details in rows.order_by("namespace", "name").values_list(
            "namespace", "details"
        )
        for name in details.get("owned_apis") or ()
    }


def _served(cluster: Cluster, names: list[str]) -> frozenset[ApiKind]:
    """The kinds of the last discovery and of the CRDs, which are watched and thus more recent."""
    kinds = {ApiKind(*name.rsplit("/", 2)) for name in names}
    crds = CRDState.objects.filter(cluster=cluster).values_list("group", "served_kind", "served")
    kinds |= {ApiKind(group, version, kind) for group, kind, served in crds for version in served}
    return frozenset(kinds)


def _crds(cluster: Cluster, counted: Mapping[str, int]) -> dict[str, ClusterCrd]:
    fields = ("served", "stored", "owner_kind", "owner_namespace", "owner_name")
    operators = Operator.objects.filter(cluster=cluster, kind=InstallMethod.SUBSCRIPTION)
    subscribed = {
        f"{package}.{namespace}": (InstallMethod.SUBSCRIPTION, namespace, name)
        for package, namespace, name in operators.order_by("id").values_list(
            "package", "namespace", "name"
        )
    }
    rows = CRDState.objects.filter(cluster=cluster).values_list("name", *fields)
    return {
        name: ClusterCrd(
            frozenset(served),
            frozenset(stored),
            *_owner(owner, subscribed),
            objects=_about(counted.get(name)),
        )
        for name, served, stored, *owner in rows
    }


def _about(count: int | None) -> int | None:
    """The count rounded down to its first digit, so that few changes make verdicts outdated."""
    if not count:
        return count
    unit = int("1".ljust(len(str(count)), "0"))
    return count // unit * unit


def _owner(label: list[str], subscribed: Mapping[str, Owner]) -> Owner:
    """The operator that the labels of a CRD refer to through an object of OLM or rukpak.

    OLM v0 leaves its label on the CRDs of removed operators; these have no owner.
    """
    kind, namespace, name = label
    if kind == "Operator":
        return subscribed.get(name, ("", "", ""))
    kind = InstallMethod.PLATFORM_OPERATOR if kind == "BundleDeployment" else kind
    return kind, namespace, name


class CatalogContent(NamedTuple):
    """The packages, versions and APIs of a catalog as read once: for each of fifty clusters, they
    would be counted again over all its bundles."""

    bundles: Counter[str]  # by package
    versions: dict[str, list[Version]]  # of a package
    provided: Counter[tuple[ApiKind, str]]  # bundles of the package that provide the kind


# What identifies the content of a catalog.
_CONTENT = ("id", "content_hash", "derivation", "changed_at")
Contents = dict[tuple[object, ...], CatalogContent]


def market_of(
    catalog: Catalog, cluster: Cluster | None, contents: Contents | None = None
) -> ClusterOffers:
    """The offers of `catalog` and of the catalogs of `cluster` that a namespace can use together
    with it. At most six queries, two of which count all bundles of catalogs that are not in
    `contents`, where they are kept."""
    usable = Q(pk=catalog.pk)
    if cluster is not None:
        usable |= usable_catalogs(cluster.pk) & beside(catalog)
    contents = {} if contents is None else contents
    keys = list(Catalog.objects.filter(usable).order_by("id").values_list(*_CONTENT))
    _read_contents([key for key in keys if key not in contents], contents)
    versions: dict[str, list[Version]] = defaultdict(list)
    bundles: Counter[str] = Counter()
    provided: Counter[tuple[ApiKind, str]] = Counter()
    for key in keys:
        content = contents[key]
        bundles.update(content.bundles)
        provided.update(content.provided)
        for package, its_versions in content.versions.items():
            versions[package] += its_versions
    providers: dict[ApiKind, set[str]] = defaultdict(set)
    always: dict[str, set[ApiKind]] = defaultdict(set)
    for (kind, package), times in provided.items():
        providers[kind].add(package)
        if times == bundles[package]:
            always[package].add(kind)
    return ClusterOffers(
        {kind: frozenset(names) for kind, names in providers.items()},
        {name: tuple(values) for name, values in versions.items()},
        catalog.name,
        _offers(catalog, cluster) if cluster is not None else {},
        {name: frozenset(kinds) for name, kinds in always.items()},
    )


def _read_contents(keys: Iterable[tuple[Any, ...]], contents: Contents) -> None:
    """Reads the content of the catalogs with these keys. Two queries, none without keys."""
    new = {key[0]: CatalogContent(Counter(), defaultdict(list), Counter()) for key in keys}
    if not new:
        return
    contents.update((key, new[key[0]]) for key in keys)
    bundles = Bundle.objects.filter(package__catalog__in=new).order_by()
    fields = ("package__catalog_id", "package__name", "version")
    for catalog_id, package, text, times in bundles.values_list(*fields).annotate(Count("id")):
        content = new[catalog_id]
        content.bundles[package] += times
        version = read_version(text.removeprefix("v"))
        if version is not None:
            content.versions[package].append(version)
    provided = BundleGVK.objects.filter(bundle__package__catalog__in=new, required=False).order_by()
    names = ("bundle__package__catalog_id", "bundle__package__name", "group", "version", "kind")
    counted = provided.values_list(*names).annotate(Count("bundle", distinct=True))
    for catalog_id, package, group, version_name, kind, times in counted:
        new[catalog_id].provided[ApiKind(group, version_name, kind), package] = times


def _offers(catalog: Catalog, cluster: Cluster) -> dict[str, tuple[Offered, ...]]:
    """The packages of `catalog` that other available ClusterCatalogs have as well, from which a
    ClusterExtension chooses; empty unless `catalog` is a ClusterCatalog."""
    choice = Catalog.objects.filter(
        usable_catalogs(cluster.pk), source_kind=CLUSTER_CATALOG, cluster=cluster
    )
    rows = {
        row.pk: row for row in choice.exclude(availability=Catalog.UNAVAILABLE).order_by("name")
    }
    if catalog.pk not in rows or len(rows) == 1:
        return {}
    packages = Package.objects.filter(catalog__in=rows)
    offers: dict[str, dict[int, int]] = defaultdict(dict)  # name -> catalog -> package
    for pk, name, catalog_id in packages.order_by().values_list("pk", "name", "catalog"):
        offers[name][catalog_id] = pk
    bundles = Bundle.objects.filter(package__catalog__in=rows, deprecated=False).order_by()
    living = set(bundles.values_list("package", flat=True).distinct())
    return {
        name: tuple(
            Offered(row.name, row.priority, by_catalog[pk] not in living)
            for pk, row in rows.items()
            if pk in by_catalog
        )
        for name, by_catalog in offers.items()
        if len(by_catalog) > 1 and catalog.pk in by_catalog
    }


# -- OperatorGroups --------------------------------------------------------------------------------


def groups_of(cluster: Cluster) -> tuple[OperatorGroupFacts, ...]:
    """The OperatorGroups, by namespace. One query."""
    rows = Component.objects.filter(cluster=cluster, kind="OperatorGroup")
    return tuple(group_facts(row) for row in rows.order_by("namespace", "name"))


def group_facts(row: Component) -> OperatorGroupFacts:
    """The OperatorGroup of the row.

    The selected namespaces are those of the status, or of the spec while the status has none. A
    spec without target namespaces and selector selects all.
    """
    details = details_of(row)
    requested = details.get("targets") or ([] if details.get("selects") else [""])
    selects = frozenset(details.get("namespaces") or requested)
    alone = bool(details.get("own_catalogs_only"))
    return OperatorGroupFacts(row.namespace, row.name, selects, alone)


def groups_in(cluster: Cluster, namespace: str) -> list[Component]:
    """The OperatorGroups of a namespace; OLM v0 needs exactly one."""
    rows = Component.objects.filter(cluster=cluster, kind="OperatorGroup", namespace=namespace)
    return list(rows.order_by("name"))


def namespace_of_global_group(groups: Iterable[Component]) -> str:
    """The usual namespace with an OperatorGroup that selects all namespaces; else empty."""
    selecting = {row.namespace for row in groups if group_facts(row).selects == {""}}
    usual = (name for name in ("openshift-operators", "operators") if name in selecting)
    return min(usual, default="")


def watched(group: Component) -> tuple[str, ...]:
    """The namespaces that the group selects, by name; none means every namespace."""
    selects = group_facts(group).selects
    return () if selects == {""} else tuple(sorted(selects))


def watched_from(cluster: Cluster, namespace: str, wanted: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The namespaces that operators in the namespace watch: those of its group, or `wanted`."""
    groups = groups_in(cluster, namespace)
    return watched(groups[0]) if groups else wanted
