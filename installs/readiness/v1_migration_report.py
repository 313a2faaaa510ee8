"""Whether each Subscription can be migrated to a ClusterExtension, from stored rows.

Reads rows for the rules of `installs.readiness.v1_migration`; used by the page and the REST API.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Exists, OuterRef

from catalogs.contents.bundle_facts import ApiKind, Contents
from catalogs.fbc.properties import DEPENDENCIES
from catalogs.models import Bundle, BundleGVK, Catalog, Package
from catalogs.revisions.text import plain
from installs.models import Component, Operator
from installs.readiness.v1_migration import (
    ClusterCatalogOffer,
    Fate,
    InstalledSubscription,
    OperatorGroup,
    fate_of,
    migration_obstacles,
    steps,
)
from installs.state.catalog_offers import usable_catalogs
from installs.state.dependencies import requested_with
from installs.state.observation import details_of
from olmweb.kube.fields import texts
from olmweb.models import Cluster

KINDS = ("ClusterServiceVersion", "InstallPlan", "OperatorCondition", "OperatorGroup")
_BUNDLE_FIELDS = (
    *("name", "install_modes", "install_modes_known", "owned_api_services", "webhooks"),
    *("required_packages", "constraint_count"),
)
Parts = Mapping[tuple[str, str], list[Component]]  # (kind, namespace)


@dataclass(frozen=True, slots=True)
class V1Migration:
    """`fate` is a Fate; `reasons` are sentences, worst first, `codes` their rules in that order;
    `steps` are empty if a migration is impossible. `catalog` is the ClusterCatalog with the
    installed version, empty if there is none."""

    cluster: str
    namespace: str
    name: str
    package: str
    version: str
    fate: str
    reasons: tuple[str, ...]
    codes: tuple[str, ...]
    steps: tuple[str, ...]
    catalog: str


def v1_migrations(clusters: Sequence[Cluster]) -> list[V1Migration]:
    """The Subscriptions of these clusters, by cluster, namespace and name; seven queries."""
    by_id = {cluster.pk: cluster for cluster in clusters}
    rows = Operator.objects.filter(cluster__in=by_id, kind="Subscription")
    operators = sorted(  # not by the database, whose collation may differ from that of cursors
        rows.defer("conditions", "facts", "message").order_by(),
        key=lambda row: (by_id[row.cluster_id].name, row.namespace, row.name),
    )
    parts = _parts(by_id)
    sources = _sources(by_id, {operator.package for operator in operators})
    bundles = _bundles(by_id, operators)
    dependents = {pk: _dependents(parts[pk]) for pk in by_id}
    migrations = []
    for operator in operators:
        cluster = by_id[operator.cluster_id]
        installation = _installed_subscription(
            operator, cluster, parts[cluster.pk], sources.get((cluster.pk, operator.package), ()),
            bundles.get((cluster.pk, operator.bundle)), dependents[cluster.pk],
            _dependency_of(operator, operators, parts[cluster.pk]),
        )  # fmt: skip
        migrations.append(_row(cluster.name, installation))
    return migrations


def narrowed(
    migrations: Iterable[V1Migration], fates: Collection[str], q: str
) -> list[V1Migration]:
    """The migrations with one of these fates (empty: any) that contain every word of `q`."""
    words = q.casefold().split()
    return [
        migration
        for migration in migrations
        if (not fates or migration.fate in fates)
        and all(
            word
            in " ".join(
                (migration.name, migration.package, migration.namespace, *migration.reasons)
            ).casefold()
            for word in words
        )
    ]


def _row(cluster: str, installation: InstalledSubscription) -> V1Migration:
    obstacles = migration_obstacles(installation)
    fate = fate_of(obstacles)
    return V1Migration(
        cluster=cluster,
        namespace=installation.namespace,
        name=installation.name,
        package=installation.package,
        version=installation.version if installation.bundle else "",
        fate=fate.value,
        reasons=tuple(obstacle.sentence for obstacle in obstacles),
        codes=tuple(obstacle.code for obstacle in obstacles),
        steps=() if fate == Fate.NO else steps(installation),
        catalog=next((source.catalog for source in installation.sources if source.has_version), ""),
    )


def _parts(clusters: Collection[int]) -> dict[int, dict[tuple[str, str], list[Component]]]:
    components: dict[int, dict[tuple[str, str], list[Component]]] = defaultdict(
        lambda: defaultdict(list)
    )
    rows = Component.objects.filter(cluster__in=clusters, kind__in=KINDS).order_by("name")
    for row in rows.only("cluster_id", "kind", "namespace", "name", "conditions", "details"):
        components[row.cluster_id][row.kind, row.namespace].append(row)
    return components


def _sources(
    clusters: Collection[int], packages: Collection[str]
) -> dict[tuple[int, str], list[tuple[Package, set[str]]]]:
    """(cluster id, package name) -> packages of its ClusterCatalogs with their versions."""
    rows = Package.objects.filter(
        catalog__cluster__in=clusters,
        catalog__source_kind=Catalog.SourceKind.CLUSTER_CATALOG,
        catalog__revision__gt=0,
        name__in=packages,
    )
    listed = list(rows.select_related("catalog").order_by("-catalog__priority", "catalog__name"))
    versions: dict[int, set[str]] = defaultdict(set)
    of_packages = Bundle.objects.filter(package__in=listed).order_by()
    for package, version in of_packages.values_list("package_id", "version"):
        versions[package].add(version)
    sources: dict[tuple[int, str], list[tuple[Package, set[str]]]] = defaultdict(list)
    for row in listed:
        if row.catalog.cluster_id is not None:
            sources[row.catalog.cluster_id, row.name].append((row, versions[row.pk]))
    return sources


def _bundles(
    clusters: Collection[int], operators: Sequence[Operator]
) -> dict[tuple[int, str], tuple[Bundle, bool]]:
    """The installed bundles in any catalog that the cluster can use, and whether each requires
    APIs."""
    names = {operator.bundle for operator in operators if operator.bundle}
    if not names or not clusters:
        return {}
    catalogs = Catalog.objects.filter(reduce(or_, map(usable_catalogs, clusters))).order_by()
    rows = Bundle.objects.filter(name__in=names, package__catalog__in=catalogs.values("pk"))
    required = BundleGVK.objects.filter(bundle=OuterRef("pk"), required=True)
    bundles: dict[tuple[int, str], tuple[Bundle, bool]] = {}
    for row in (
        rows.annotate(needing=Exists(required))
        .select_related("package__catalog")
        .only(*_BUNDLE_FIELDS, "package__catalog__cluster_id")
    ):
        own = row.package.catalog.cluster_id
        for cluster in clusters if own is None else (own,):
            bundles[cluster, row.name] = row, row.needing
    return bundles


def _dependents(parts: Parts) -> dict[str, list[str]]:
    """Name of a CRD -> the CSVs that require it and do not own it."""
    dependents: dict[str, list[str]] = defaultdict(list)
    for (kind, _), rows in parts.items():
        for row in rows if kind == "ClusterServiceVersion" else ():
            details = details_of(row)
            for crd in set(texts(details, "required_crds")) - set(texts(details, "owned_crds")):
                dependents[crd].append(row.name)
    return dependents


def _dependency_of(operator: Operator, operators: Iterable[Operator], parts: Parts) -> list[str]:
    """The packages that an operator was installed for, if it was a dependency and its InstallPlan
    still exists."""
    name = str(details_of(operator).get("generated_by") or "")
    plan = _named(parts, "InstallPlan", operator.namespace, name) if name else None
    if plan is None:
        return []
    beside = (row for row in operators if row.cluster_id == operator.cluster_id)
    return requested_with(operator, beside, texts(details_of(plan), "csvs"))


def _installed_subscription(
    operator: Operator,
    cluster: Cluster,
    parts: Parts,
    sources: Sequence[tuple[Package, set[str]]],
    bundle: tuple[Bundle, bool] | None,
    dependents_of: Mapping[str, list[str]],
    dependency_of: Sequence[str],
) -> InstalledSubscription:
    details = details_of(operator)
    installed = str(details.get("installed_csv") or "")
    csv = _named(parts, "ClusterServiceVersion", operator.namespace, installed)
    csv_details = details_of(csv) if csv is not None else {}
    condition = _named(parts, "OperatorCondition", operator.namespace, installed)
    crds = texts(csv_details, "owned_crds")
    dependents = {name for crd in crds for name in dependents_of.get(crd, ()) if name != installed}
    return InstalledSubscription(
        namespace=operator.namespace,
        name=operator.name,
        package=operator.package,
        version=operator.version,
        bundle=installed,
        contents=_contents(operator, csv_details, bundle),
        served=cluster.kinds.get("ClusterExtension", {}).get("state") == "served",
        sources=tuple(
            ClusterCatalogOffer(
                package.catalog.name, operator.version in versions, package.head_version
            )
            for package, versions in sources
        ),
        groups=tuple(_group(row) for row in parts.get(("OperatorGroup", operator.namespace), ())),
        manual=details.get("approval") == "Manual",
        upgrading=bool(details.get("current_csv")) and details.get("current_csv") != installed,
        config=tuple(texts(details, "config")),
        conditions=_reported(condition),
        dependents=tuple(sorted(dependents)),
        generated_by=str(details.get("generated_by") or ""),
        dependency_of=tuple(dependency_of),
        crds=len(crds),
    )


def _contents(
    operator: Operator, csv_details: Mapping[str, Any], bundle: tuple[Bundle, bool] | None
) -> Contents:
    """The contents by the CSV on the cluster, completed by the catalog's row. Only the types of
    dependencies count, so empty entries represent them."""
    row, needing = bundle or (None, False)
    modes = csv_details.get("install_modes")
    types = set(texts(csv_details, "dependencies"))
    if row is not None:
        present = (bool(row.required_packages), needing, bool(row.constraint_count))
        types |= {name for name, there in zip(DEPENDENCIES, present, strict=True) if there}
    catalog_modes = frozenset(row.install_modes) if row and row.install_modes_known else None
    return Contents(
        name=operator.bundle,
        package=operator.package,
        version=operator.version,
        install_modes=frozenset(mode for mode, there in modes.items() if there)
        if isinstance(modes, dict)
        else catalog_modes,
        owned_api_services=csv_details.get("api_services", row.owned_api_services if row else None),
        webhooks=csv_details.get("webhooks", row.webhooks if row else None),
        conversion_webhooks=csv_details.get("conversion_webhooks"),
        required_packages=(("", ""),) if DEPENDENCIES[0] in types else (),
        requires=(ApiKind("", "", ""),) if DEPENDENCIES[1] in types else (),
        constraints=({},) if DEPENDENCIES[2] in types else (),
    )


def _group(row: Component) -> OperatorGroup:
    """Its status lists the selected namespaces; all of them is a list with an empty name."""
    details = details_of(row)
    namespaces = texts(details, "namespaces") or texts(details, "targets")
    return OperatorGroup(
        row.name,
        tuple(name for name in namespaces if name),
        str(details.get("service_account") or ""),
    )


def _reported(condition: Component | None) -> tuple[str, ...]:
    """The reported condition types; OLM creates an empty OperatorCondition for every CSV."""
    if condition is None:
        return ()
    conditions = [*condition.conditions, *(details_of(condition).get("spec_conditions") or ())]
    return tuple(
        sorted({str(reported.get("type")) for reported in conditions if isinstance(reported, dict)})
    )


def _named(parts: Parts, kind: str, namespace: str, name: str) -> Component | None:
    return next((row for row in parts.get((kind, namespace), ()) if row.name == name), None)


def markdown(migrations: Sequence[V1Migration]) -> Iterator[str]:
    """The report as Markdown; names are escaped."""
    yield "# From OLM v0 to OLM v1\n"
    for migration in migrations:
        name = f"{migration.cluster}: {migration.namespace}/{migration.name}"
        yield f"\n## {plain(name)} ({migration.fate})\n\n"
        for reason in migration.reasons or ("No blocker.",):
            yield f"- {plain(reason)}\n"
        for number, step in enumerate(migration.steps, 1):
            yield f"  {number}. {plain(step)}\n"
