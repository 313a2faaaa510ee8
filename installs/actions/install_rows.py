"""The rows of a package and of a cluster that one install is planned from, each read once.

A form, its plan and its warnings use the same rows, so a page costs seven queries for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from django.db.models import BinaryField, Exists, JSONField, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Cast, JSONObject

from catalogs.install_methods import InstallMethod
from catalogs.models import (
    Bundle,
    BundleGVK,
    BundleInspection,
    Catalog,
    InspectedCRD,
    Package,
    Prediction,
)
from catalogs.resolve.facts import ResolverPackage
from catalogs.resolve.stored import BUNDLE_FIELDS, facts_from, graphs_of
from catalogs.verdicts.facts import OperatorGroupFacts, WatchTarget
from catalogs.verdicts.health_checks import CATALOG_SOURCE, CheckedCatalog
from catalogs.verdicts.read import OPTIMISTIC, StoredVerdict, over_targets, overlaid, stored_verdict
from catalogs.verdicts.rules import Verdict
from installs.actions.objects import full_name
from installs.audit.audit import checked_source
from installs.facts.cluster_facts import group_facts, namespace_of_global_group
from installs.facts.crd_schemas import read_content
from installs.facts.evaluate import verdict_for
from installs.methods import METHODS, InstallChoice
from installs.methods.base import SourceName, namespace_for
from installs.models import ClusterInventory, Component, CRDSchema, CRDState, Operator
from olmweb.kube.fields import Object, dig
from olmweb.kube.resources import CUSTOM_RESOURCE_DEFINITIONS as CRDS
from olmweb.models import Cluster

GROUP = "OperatorGroup"
_REQUIRED = "_required"  # suffix of a column by kind
# Columns of a union that some of its tables lack; PostgreSQL needs the type.
_NO_JSON = Value(None, output_field=JSONField())
_NO_CONTENT = Cast(Value(None), BinaryField())
_BUNDLE_FIELDS = (
    *BUNDLE_FIELDS,
    *("version_key", "suggested_namespace", "install_modes", "install_modes_known"),
)


class ExistingCrd(NamedTuple):
    """A CRD of the cluster that defines a kind which the package provides, or that an inspected
    image of its bundles has. `content` is None if its schema is not stored
    (installs.facts.crd_schemas)."""

    name: str
    stored: list[str]  # status.storedVersions
    owner_kind: str
    owner_namespace: str
    owner_name: str
    content: Object | None


class _Objects(NamedTuple):
    """Rows of the cluster in the order of their names."""

    components: list[Component]
    operators: list[Operator]
    crds: list[ExistingCrd]
    namespaces: set[str]


@dataclass
class InstallRows:
    """The rows of `package` and `cluster`; the defaults of an install (InstallContext) from them.

    `channel` and `version` are those of the form: their verdicts are read with those of the bundles
    that the install methods choose.
    """

    cluster: Cluster
    package: Package
    channel: str = ""
    version: str = ""

    # -- package -----------------------------------------------------------------------------------

    @cached_property
    def bundles(self) -> list[Bundle]:
        """Newest first."""
        required = BundleGVK.objects.filter(bundle=OuterRef("pk"), required=True)
        rows = self.package.bundles.annotate(requires_kind=Exists(required))
        return list(rows.only(*_BUNDLE_FIELDS))

    @cached_property
    def facts(self) -> ResolverPackage:
        graph = graphs_of([self.package])[self.package.pk]
        needing = {bundle.pk for bundle in self.bundles if getattr(bundle, "requires_kind", False)}
        return facts_from(
            self.package, graph.entries, self.bundles, needing, complete=graph.complete
        )

    def bundle(self, name: str) -> Bundle | None:
        """The bundle with this name, of several the newest."""
        return next((bundle for bundle in self.bundles if bundle.name == name), None)

    def find_bundle(self, text: str) -> Bundle | None:
        """The bundle with this name or version; a name goes before a version."""
        versions = (bundle for bundle in self.bundles if text and bundle.version == text)
        return self.bundle(text) or next(versions, None)

    # -- verdicts ----------------------------------------------------------------------------------

    @cached_property
    def _predictions(self) -> list[Prediction]:
        named = self.find_bundle(self.version)
        heads = self.package.channels.filter(name=self.channel).values("head")
        wanted = Q(chosen=True) | Q(bundle__name__in=heads, bundle__package=self.package)
        if named is not None:
            wanted |= Q(bundle=named.pk)
        return overlaid(Prediction.objects.filter(wanted, package=self.package), self.cluster.pk)

    @property
    def is_evaluated(self) -> bool:
        """Whether there are verdicts on the package for the cluster."""
        return bool(self._predictions)

    def _chosen(self, method: str) -> list[Prediction]:
        """On the bundle that the install method would choose, best target first."""
        rows = (row for row in self._predictions if row.chosen and row.path == method)
        return over_targets(rows)

    def chooses_head(self, method: InstallMethod) -> bool:
        """Whether the method, without a channel and version, installs the head of the package's
        default channel; True before the evaluation."""
        head = self.find_bundle(self.package.head_version)
        rows = self._chosen(method)
        return head is None or not rows or rows[0].bundle_id == head.pk

    def _on(self, method: InstallMethod, text: str) -> list[Prediction]:
        """On the bundle of this name or version, else on the one that the method would choose, best
        target first; empty before the evaluation."""
        bundle = self.find_bundle(text)
        if bundle is None:
            return self._chosen(method)
        of_bundle = (row for row in self._predictions if row.bundle_id == bundle.pk)
        return over_targets(row for row in of_bundle if row.path == method)

    def verdict_of(self, method: InstallMethod, text: str = "") -> Verdict:
        """The best verdict over the targets on the bundle of this name or version, else on the
        one that the method would choose; unknown before the evaluation."""
        rows = self._on(method, text)
        return Verdict(rows[0].verdict) if rows else Verdict.UNKNOWN

    def rank_of(self, method: InstallMethod, text: str = "") -> tuple[int, bool]:
        """The lower, the better the verdict of `verdict_of`; one with a warning is worse."""
        rows = self._on(method, text)
        return OPTIMISTIC.index(self.verdict_of(method, text)), bool(rows and rows[0].sentence)

    def verdict_on(self, name: str, method: str, target: WatchTarget) -> StoredVerdict | None:
        """The verdict on a bundle for the target of a Subscription's OperatorGroup; None before
        the evaluation. Evaluates it now where `verdict_for` does."""
        bundle = self.bundle(name)
        of_group = target if method == InstallMethod.SUBSCRIPTION else WatchTarget.ALL
        wanted = (bundle.pk if bundle else None, method, of_group)
        for row in self._predictions:
            if bundle is not None and (row.bundle_id, row.path, row.target) == wanted:
                return stored_verdict(row)
        return verdict_for(self.cluster, self.package, name, method, target)

    # -- cluster -----------------------------------------------------------------------------------

    @cached_property
    def _objects(self) -> _Objects:
        """The CatalogSources and OperatorGroups, the operators, the CRDs of the package, and other
        namespaces of objects, with the fields that are needed; one query."""
        names = ("kind", "namespace", "name")
        components = Component.objects.filter(
            cluster=self.cluster, kind__in=(CATALOG_SOURCE, GROUP)
        ).values_list(Value("component"), *names, "details", Value(""), _NO_CONTENT)
        state = JSONObject(version="version", finding="finding")
        operators = Operator.objects.filter(cluster=self.cluster).values_list(
            Value("operator"), *names, state, "package", _NO_CONTENT
        )
        read = _Objects([], [], [], set())
        parts = (operators.order_by(), self._crds(), self._other_namespaces())
        rows = components.order_by().union(*parts, all=True)
        for table, kind, namespace, name, value, more, content in rows:
            if table == "component":
                read.components.append(
                    Component(kind=kind, namespace=namespace, name=name, details=value)
                )
            elif table == "operator":
                read.operators.append(
                    Operator(kind=kind, namespace=namespace, name=name, package=more, **value)
                )
            elif table == "namespace":
                read.namespaces.add(namespace)
            else:
                schema = None if content is None else read_content(content)
                read.crds.append(ExistingCrd(name, value, kind, namespace, more, schema))
        read.components.sort(key=lambda row: (row.namespace, row.name))
        read.operators.sort(key=lambda row: (row.kind, row.namespace, row.name))
        read.crds.sort(key=lambda crd: crd.name)
        return read

    def _crds(self) -> QuerySet[CRDState, Any]:
        """The columns of ExistingCrd in the order of `_objects`."""
        provided = BundleGVK.objects.filter(
            required=False,
            bundle__package=self.package,
            group=OuterRef("group"),
            kind=OuterRef("served_kind"),
        )
        images = self.package.bundles.order_by().values("image")
        inspected = InspectedCRD.objects.filter(
            name=OuterRef("name"),
            manifests__in=BundleInspection.objects.filter(image__in=images)
            .order_by()
            .values("manifests"),
        )
        schemas = CRDSchema.objects.filter(cluster=self.cluster, name=OuterRef("name"))
        of_package = Q(Exists(provided)) | Q(Exists(inspected))
        rows = CRDState.objects.filter(of_package, cluster=self.cluster).order_by()
        owner = ("owner_kind", "owner_namespace", "name")
        content = Subquery(schemas.values("content")[:1])
        return rows.values_list(Value("crd"), *owner, "stored", "owner_name", content)

    def _other_namespaces(self) -> QuerySet[Component, Any]:
        """Those of all objects, on a cluster whose namespaces may not be listed."""
        listed = ClusterInventory.objects.filter(cluster=self.cluster, namespaces__isnull=False)
        rows = Component.objects.filter(~Exists(listed), cluster=self.cluster).order_by()
        columns = (Value(""), "namespace", Value(""), _NO_JSON, Value(""), _NO_CONTENT)
        return rows.values_list(Value("namespace"), *columns).distinct()

    @property
    def _components(self) -> list[Component]:
        """By namespace and name."""
        return self._objects.components

    @property
    def catalog_sources(self) -> tuple[CheckedCatalog, ...]:
        rows = (row for row in self._components if row.kind == CATALOG_SOURCE)
        return tuple(map(checked_source, rows))

    def groups_in(self, namespace: str) -> tuple[OperatorGroupFacts, ...]:
        rows = (row for row in self._components if row.kind == GROUP)
        return tuple(group_facts(row) for row in rows if row.namespace == namespace)

    @property
    def operators(self) -> list[Operator]:
        """By kind, namespace and name."""
        return self._objects.operators

    @property
    def existing_crds(self) -> list[ExistingCrd]:
        """By name."""
        return self._objects.crds

    @cached_property
    def _cluster_row(self) -> Mapping[str, Any]:
        """The facts that are in other tables, none of which needs to have a row."""
        listed = self.cluster.watches.filter(listed_at__isnull=False)
        definitions = CRDState.objects.filter(cluster=OuterRef("pk"))
        columns = {"": "details__fields", _REQUIRED: "details__required"}
        fields = {
            f"{method.value}{suffix}": Subquery(
                definitions.filter(name=full_name(method)).values(column)[:1],
                output_field=JSONField(),
            )
            for method in InstallMethod
            for suffix, column in columns.items()
        }
        rows = Cluster.objects.filter(pk=self.cluster.pk).annotate(
            groups_listed=Exists(listed.filter(kind=GROUP)),
            crds_listed=Exists(listed.filter(kind=CRDS.kind)),
            **fields,
        )
        names = ("inventory__namespaces", "inventory__gates", *fields)
        row: dict[str, Any] = rows.values("groups_listed", "crds_listed", *names).get()
        return row

    def known_fields(self, kind: str, version: str) -> frozenset[str] | None:
        """The fields of the kind in the cluster's CustomResourceDefinition; None if unknown."""
        return fields_of(self._cluster_row[kind], version)

    def required_fields(self, kind: str, version: str) -> frozenset[str] | None:
        """The fields that the specification of the kind requires; None if unknown."""
        names = dig(self._cluster_row[f"{kind}{_REQUIRED}"], version)
        return None if names is None else frozenset(map(str, names))

    @property
    def groups_listed(self) -> bool:
        """Whether the cluster's OperatorGroups were ever listed."""
        return bool(self._cluster_row["groups_listed"])

    @property
    def crds_listed(self) -> bool:
        """Whether the cluster's CustomResourceDefinitions were ever listed."""
        return bool(self._cluster_row["crds_listed"])

    @property
    def gates(self) -> dict[str, bool] | None:
        """The feature gates of operator-controller; None if unknown."""
        gates: dict[str, bool] | None = self._cluster_row["inventory__gates"]
        return gates

    @cached_property
    def namespaces(self) -> list[str]:
        """Sorted names of the namespaces of the cluster as far as rows tell."""
        of_objects = {row.namespace for row in (*self._components, *self.operators)}
        of_objects |= self._objects.namespaces
        listed = self._cluster_row["inventory__namespaces"] or ()
        return sorted((of_objects | set(listed)) - {""})

    # -- defaults of the install (InstallContext) --------------------------------------------------

    @property
    def cluster_catalog(self) -> str:
        catalog = self.package.catalog
        ours = catalog.source_kind == Catalog.SourceKind.CLUSTER_CATALOG
        return catalog.name if ours else ""

    def watches_all(self) -> bool:
        """As the package's verdict says, and before the first evaluation its install modes."""
        for best in self._chosen(InstallMethod.SUBSCRIPTION):
            return best.target == WatchTarget.ALL
        return "AllNamespaces" in self.package.install_modes

    def supports_own(self) -> bool:
        bundle = self.find_bundle(self.version) or self.bundle(self.package.head_bundle)
        return bundle is not None and bundle.supports("OwnNamespace")

    def catalog_source(self) -> SourceName:
        """The CatalogSource with the name of the catalog, in the catalog's own namespace if it has
        one."""
        catalog = self.package.catalog
        for source in self.catalog_sources:
            if source.name == catalog.name and catalog.namespace in ("", source.namespace):
                return SourceName(source.name, source.namespace)
        return SourceName()

    def suggested_namespace(self) -> str:
        head = self.bundle(self.package.head_bundle)
        return namespace_for(self.package.name, head.suggested_namespace if head else "")

    def has_namespace(self, namespace: str) -> bool:
        return namespace in self.namespaces

    def has_group(self, namespace: str) -> bool:
        return bool(self.groups_in(namespace))

    def namespace_of_global_group(self) -> str:
        return namespace_of_global_group(row for row in self._components if row.kind == GROUP)


# Of a package: what the newest bundle of its default channel suggests.
SUGGESTED_NAMESPACE = Subquery(
    Bundle.objects.filter(package=OuterRef("pk"), name=OuterRef("head_bundle")).values(
        "suggested_namespace"
    )[:1]
)


@dataclass(frozen=True, slots=True)
class _NamespaceContext:
    """What decides the namespace of a package in a list (InstallContext)."""

    package: Package
    target: WatchTarget | None  # of the best verdict; None before the first evaluation
    global_namespace: str
    cluster_catalog = ""

    def watches_all(self) -> bool:
        if self.target is not None:
            return self.target == WatchTarget.ALL
        return "AllNamespaces" in self.package.install_modes

    def supports_own(self) -> bool:
        return False  # nothing in a list has a namespace of its own

    def catalog_source(self) -> SourceName:
        return SourceName()

    def suggested_namespace(self) -> str:
        suggested: str | None = self.package.suggested_namespace  # type: ignore[attr-defined]
        return namespace_for(self.package.name, suggested or "")

    def has_namespace(self, namespace: str) -> bool:
        return True

    def has_group(self, namespace: str) -> bool:
        return True

    def namespace_of_global_group(self) -> str:
        return self.global_namespace


def default_namespaces(
    packages: Mapping[Package, WatchTarget | None],
    cluster: Cluster,
    method: str,
    values: Mapping[str, str],
) -> dict[Package, str]:
    """The namespace of an install of each package, annotated with SUGGESTED_NAMESPACE, with these
    values of the form; empty for a method without namespaces. `packages` have the target of their
    best verdict. One query for Subscriptions, else none."""
    rules = METHODS[InstallMethod(method)]
    if not rules.needs_namespace:
        return {}
    usual = ""
    if rules.needs_group:
        groups = Component.objects.filter(cluster=cluster, kind=GROUP)
        usual = namespace_of_global_group(groups.only("kind", "namespace", "name", "details"))
    return {
        package: rules.with_defaults(
            InstallChoice(
                method=rules.kind, package=package.name, name=package.name, api_version=""
            ),
            values,
            _NamespaceContext(package, target, usual),
        ).namespace
        for package, target in packages.items()
    }


def fields_of(fields: Any, version: str) -> frozenset[str] | None:
    """The fields of this version in the stored details of a CustomResourceDefinition."""
    names = fields.get(version) if isinstance(fields, dict) else None
    return frozenset(map(str, names)) if names else None
