"""Catalogs of operators and actions, whose objects name a CatalogSource or ClusterCatalog.

An object knows the name of its catalog, not the row that OLM Web stores the content in: a cluster
may have a ClusterCatalog and CatalogSources of several namespaces with the same name.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

from django.db.models import Q, QuerySet

from catalogs.models import Catalog, Channel
from installs.models import Action, Operator

V1 = "ClusterExtension"


@dataclass(frozen=True, slots=True)
class NamedCatalog:
    """A catalog as an object names it; `namespace` is empty where the object has none."""

    cluster_id: int
    kind: str  # of the object
    name: str
    namespace: str = ""

    def rank(self, catalog: Catalog) -> tuple[bool, bool]:
        """The lower, the more likely a catalog of this name is meant."""
        is_v1 = catalog.source_kind == Catalog.SourceKind.CLUSTER_CATALOG
        return (is_v1 != (self.kind == V1), catalog.namespace != self.namespace)


class KnownCatalogs:
    """Stored catalogs, which are in the order of slug and id, by the names that objects use."""

    def __init__(self, catalogs: Iterable[Catalog]) -> None:
        self.by_id: dict[int, Catalog] = {}
        self._by_name: dict[tuple[int | None, str], list[Catalog]] = defaultdict(list)
        for catalog in catalogs:
            self.by_id[catalog.pk] = catalog
            self._by_name[catalog.cluster_id, catalog.name].append(catalog)

    @classmethod
    def read(cls, names: Iterable[str], ids: Iterable[int] = ()) -> Self:
        """Those with these names or ids; one query."""
        wanted = Q(name__in={*names} - {""}) | Q(pk__in={*ids})
        return cls(Catalog.objects.select_related("cluster").filter(wanted).order_by("slug", "pk"))

    def find(self, named: NamedCatalog) -> Catalog | None:
        """The catalog of the cluster that the object means; None if OLM Web has none. Of several
        with the name a ClusterExtension means the ClusterCatalog, other objects a CatalogSource,
        that of the namespace if they name one. A catalog without a cluster counts where the cluster
        has none of the name."""
        catalogs = self._by_name.get((named.cluster_id, named.name), [])
        if named.namespace:
            catalogs = [row for row in catalogs if row.namespace == named.namespace]
        local = self._by_name.get((None, named.name), [])
        return min(catalogs, key=named.rank, default=local[0] if local else None)


def catalog_of_operator(
    operator: Operator, candidates: Iterable[Catalog], beside: Callable[[], Iterable[Catalog]]
) -> Catalog | None:
    """The catalog that the operator names, as `catalogs_of_operators` finds it: of `candidates`,
    catalogs of its cluster, the one of the kind and namespace that it means, else of `beside()`,
    all that it can mean, by slug and id. No query of its own."""
    named = _of_operator(operator)
    exact = (
        row for row in candidates if row.name == named.name and named.rank(row) == (False, False)
    )
    return next(exact, None) or KnownCatalogs(beside()).find(named)


def catalogs_of_operators(operators: Iterable[Operator]) -> dict[int, Catalog | None]:
    """Id of an operator -> its catalog; one query."""
    named = {row.pk: _of_operator(row) for row in operators}
    known = KnownCatalogs.read(catalog.name for catalog in named.values())
    return {pk: known.find(catalog) for pk, catalog in named.items()}


def newest_of_channel(operator: Operator) -> str:
    """The channel whose newest version the Subscription has installed; empty for another version,
    without the catalog, and for other kinds. At most two queries."""
    if operator.kind != "Subscription" or not operator.bundle or operator.upgrade:
        return ""
    catalog = catalogs_of_operators([operator])[operator.pk]
    if catalog is None:
        return ""
    channels = Channel.objects.filter(package__catalog=catalog, package__name=operator.package)
    named = {"name": operator.channel} if operator.channel else {"is_default": True}
    channel = channels.filter(**named).first()
    return channel.name if channel and channel.head == operator.bundle else ""


def catalogs_of_actions(actions: Iterable[Action]) -> dict[int, Catalog | None]:
    """Id of an action -> the catalog that its package was chosen in, else the one that its object
    means; one query."""
    rows = list(actions)
    ids = {row.chosen_catalog_id for row in rows if row.chosen_catalog_id}
    known = KnownCatalogs.read((row.catalog for row in rows), ids)
    return {
        row.pk: known.by_id.get(row.chosen_catalog_id or 0)
        or known.find(NamedCatalog(row.cluster_id, row.path, row.catalog))
        for row in rows
    }


def _of_operator(row: Operator) -> NamedCatalog:
    return NamedCatalog(row.cluster_id, row.kind, row.catalog, row.catalog_namespace)


def with_catalogs(references: Iterable[str], operators: QuerySet[Operator]) -> Q:
    """The operators whose catalog has one of these references; an empty one asks for operators
    without a known catalog. Two queries, however many operators."""
    wanted = {*references}
    columns = ("cluster_id", "kind", "catalog", "catalog_namespace")
    rows = [NamedCatalog(*row) for row in operators.order_by().values_list(*columns).distinct()]
    known = KnownCatalogs.read(row.name for row in rows)
    condition = Q(pk__in=())
    for row in rows:
        catalog = known.find(row)
        if (str(catalog) if catalog else "") in wanted:
            values: tuple[Any, ...] = (row.cluster_id, row.kind, row.name, row.namespace)
            condition |= Q(**dict(zip(columns, values, strict=True)))
    return condition
