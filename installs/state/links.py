"""Links between rows: references of operators, operators that are only a CSV, owners of components.

Works incrementally: queries name the changed keys and what depends on them, never the whole
cluster. With `everything=True` all links are computed again.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from installs.models import Component, Operator, OperatorReference
from installs.state.decode import OPERATOR_KINDS, Key
from installs.state.store import LOOKUP_COLUMNS, Delta, batched, rows_of, upsert
from olmweb.bulk import insert, update
from olmweb.kube.fields import text

CSV, SUBSCRIPTION, GROUP = "ClusterServiceVersion", "Subscription", "OperatorGroup"
# Kinds that operators refer to without owning them.
SHARED = frozenset(
    ("InstallPlan", "CatalogSource", CSV, GROUP, "OperatorCondition", "ClusterCatalog")
)
MIDDLE = frozenset(("BundleDeployment", CSV))  # components that own components
ADOPTION = timedelta(seconds=10)  # in which OLM sets the CSV in the status of its Subscription
_NAMED = ("current_csv", "installed_csv")
_CONFLICTING = "conflicting_csvs"  # named by a failed resolution, also those of others
_COMPONENT_FIELDS = (
    *("kind", "namespace", "name"),
    *("owner_kind", "owner_namespace", "owner_name", "operator_id", "id"),
)


@dataclass(slots=True)
class Links:
    """The result of linking. `affected`: ids of operators to diagnose again; `new`: keys of new
    operators; `rows`: number of rows written."""

    affected: set[int] = field(default_factory=set)
    new: set[Key] = field(default_factory=set)
    rows: int = 0


@dataclass(frozen=True, slots=True)
class OwnedComponent:
    """A stored component with the owner that it names and the operator it is linked to."""

    id: int
    key: Key
    owner: Key
    operator_id: int | None


def link(
    cluster_id: int,
    operators: Delta,
    components: Delta,
    now: datetime,
    *,
    unowned: Collection[Key] = (),
    everything: bool = False,
) -> Links:
    """Updates references, CSV operators and owners. `unowned`: see `csvs_without_operator`."""
    links = Links(new=set(operators.new))
    links.affected |= {operators.ids[key] for key in operators.changed}
    csvs = _affected_csvs(cluster_id, operators, components, everything=everything) | set(unowned)
    ids = _with_changed_references(cluster_id, operators, components, everything=everything)
    _update_references(cluster_id, ids, links)
    csv_owners = _sync_csv_operators(cluster_id, csvs, components, links, now)
    _link_components(
        cluster_id, operators, components, csvs, csv_owners, links, everything=everything
    )
    _affected_by_components(cluster_id, components, links)
    left = Operator.objects.filter(cluster_id=cluster_id)
    existing: set[int] = set()
    for batch in batched(sorted(links.affected)):
        existing |= set(left.filter(id__in=batch).values_list("id", flat=True))
    links.affected = existing
    return links


# -- references ------------------------------------------------------------------------------------


def _update_references(cluster_id: int, ids: Collection[int], links: Links) -> None:
    """Makes the references of these operators match their rows."""
    fields = ("id", "kind", "namespace", "name", "catalog", "catalog_namespace", "details")
    for batch in batched(sorted(ids)):
        rows = list(Operator.objects.filter(id__in=batch).order_by().values_list(*fields))
        groups = _groups_in(cluster_id, {row[2] for row in rows if row[1] in (SUBSCRIPTION, CSV)})
        wanted = {(row[0], *key) for row in rows for key in _references_of(row, groups)}
        stored = {
            (operator, kind, namespace, name): pk
            for pk, operator, kind, namespace, name in OperatorReference.objects.filter(
                operator_id__in=batch
            ).values_list("id", "operator_id", "kind", "namespace", "name")
        }
        new, obsolete = wanted - set(stored), set(stored) - wanted
        names = ("operator_id", "kind", "namespace", "name")
        rows_to_add = [
            OperatorReference(cluster_id=cluster_id, **dict(zip(names, reference, strict=True)))
            for reference in sorted(new)
        ]
        insert(OperatorReference, rows_to_add)
        if obsolete:
            OperatorReference.objects.filter(
                id__in=[stored[reference] for reference in obsolete]
            ).delete()
        links.rows += len(new) + len(obsolete)
        links.affected |= {operator for operator, *_ in new | obsolete}


def _references_of(row: tuple[Any, ...], groups: Mapping[str, Collection[str]]) -> Iterable[Key]:
    _, kind, namespace, name, catalog, catalog_namespace, details = row
    if kind == "ClusterExtension" and catalog:
        yield "ClusterCatalog", "", catalog
    if kind == SUBSCRIPTION:
        if catalog:
            yield "CatalogSource", catalog_namespace, catalog
        if blamed := text(details, "blamed_catalog"):
            namespace_of_blamed, _, blamed_name = blamed.partition("/")
            yield "CatalogSource", namespace_of_blamed, blamed_name
        if plan := text(details, "plan"):
            yield "InstallPlan", text(details, "plan_namespace") or namespace, plan
        for csv in {text(details, field) for field in _NAMED} - {""}:
            yield CSV, namespace, csv
            yield "OperatorCondition", namespace, csv
        for csv in filter(None, text(details, _CONFLICTING).split(", ")):
            yield CSV, namespace, csv
    if kind == CSV:
        yield "OperatorCondition", namespace, name
    if kind in (SUBSCRIPTION, CSV):
        for group in groups.get(namespace, ()):
            yield GROUP, namespace, group


def _groups_in(cluster_id: int, namespaces: Collection[str]) -> dict[str, set[str]]:
    groups: dict[str, set[str]] = defaultdict(set)
    if namespaces:
        rows = Component.objects.filter(
            cluster_id=cluster_id, kind=GROUP, namespace__in=namespaces
        ).order_by()
        for namespace, name in rows.values_list("namespace", "name"):
            groups[namespace].add(name)
    return groups


# -- operators that are only a ClusterServiceVersion -----------------------------------------------


def _affected_csvs(
    cluster_id: int, operators: Delta, components: Delta, *, everything: bool
) -> set[Key]:
    """CSVs whose operator may have changed: created or deleted ones, those that changed
    Subscriptions or CSVs name or named, and those that any of these replaces."""
    rows = Component.objects.filter(cluster_id=cluster_id, kind=CSV).order_by()
    if everything:
        own = Operator.objects.filter(cluster_id=cluster_id, kind=CSV).order_by()
        names = {*rows.values_list("namespace", "name"), *own.values_list("namespace", "name")}
        return {(CSV, *csv) for csv in names}
    csvs: set[Key] = set()
    for key in operators.touched:
        if key[0] == SUBSCRIPTION and _differs(operators, key, _NAMED):
            versions = operators.details_before_and_after(key)
            csvs |= {(CSV, key[1], text(details, name)) for details in versions for name in _NAMED}
    for key in components.touched:
        if key[0] == CSV and _differs(components, key, ("replaces",)):
            versions = components.details_before_and_after(key)
            csvs |= {key, *((CSV, key[1], text(details, "replaces")) for details in versions)}
    for key, (replaced,) in rows_of(rows, csvs, "details__replaces"):
        csvs |= {(CSV, key[1], replaced)} if isinstance(replaced, str) else set()
    return {key for key in csvs if key[2]}


def _differs(delta: Delta, key: Key, names: Iterable[str]) -> bool:
    """Whether an object was created, recreated or deleted, or any of these details changed."""
    values = [
        [text(details, name) for name in names] for details in delta.details_before_and_after(key)
    ]
    return key in delta.new or len(values) < 2 or values[0] != values[1]


@dataclass(slots=True)
class CsvOwners:
    """The operators that CSVs belong to."""

    named: dict[Key, int] = field(default_factory=dict)  # id of the Subscription that names it
    own: dict[Key, int] = field(default_factory=dict)  # id of an operator row of its own
    replaced_by: dict[Key, Key] = field(default_factory=dict)

    def operator_of(self, key: Key) -> int | None:
        return self.named.get(key) or self.own.get(key)


def csvs_without_operator(cluster_id: int) -> set[Key]:
    """CSVs linked to no operator, such as those too young for an operator row of their own."""
    rows = Component.objects.filter(cluster_id=cluster_id, kind=CSV, operator=None).order_by()
    return {(CSV, *csv) for csv in rows.values_list("namespace", "name")}


def _sync_csv_operators(
    cluster_id: int, csvs: set[Key], components: Delta, links: Links, now: datetime
) -> CsvOwners:
    """Gives each CSV that no Subscription names and no CSV replaces an operator row of its own.

    Rows of other CSVs are deleted. A CSV created within ADOPTION gets no row yet, as its
    Subscription is about to name it.
    """
    csv_owners = CsvOwners(replaced_by=_replaced(cluster_id, csvs))
    related = csvs | set(csv_owners.replaced_by.values())
    csv_owners.named = _named(cluster_id, related)
    others = {key for key in components.changed if key[0] == CSV} - csvs  # same links, new content
    operator_rows = Operator.objects.filter(cluster_id=cluster_id, kind=CSV)
    stored = dict(rows_of(operator_rows, related | others, "id", "digest"))
    due = {key for key in csvs if key not in csv_owners.named and key not in csv_owners.replaced_by}
    due |= {key for key in others if key in stored}
    csv_rows = Component.objects.filter(cluster_id=cluster_id, kind=CSV)
    wanted: dict[Key, dict[str, Any]] = {}
    for key, values in rows_of(csv_rows, due, *_CSV_FIELDS):
        csv = dict(zip(_CSV_FIELDS, values, strict=True))
        age = now - (csv["created_at"] or now - ADOPTION)
        if key in stored or abs(age) >= ADOPTION:  # the cluster's clock may be ahead
            wanted[key] = csv
    changed = [
        key for key, csv in wanted.items() if key not in stored or stored[key][1] != csv["digest"]
    ]
    rows = [_operator_row(cluster_id, key, wanted[key]) for key in changed]
    upsert(Operator, rows, _OPERATOR_COLUMNS)
    obsolete = {key for key in stored if key in csvs and key not in wanted}
    if obsolete:
        Operator.objects.filter(id__in=[stored[key][0] for key in obsolete]).delete()
    csv_owners.own = {key: pk for key, (pk, _) in stored.items() if key not in obsolete}
    csv_owners.own |= {key: row.pk for key, row in zip(changed, rows, strict=True)}
    new = {key for key in changed if key not in stored}
    links.new |= new
    links.affected |= {row.pk for row in rows}
    links.rows += len(rows) + len(obsolete)
    _update_references(cluster_id, [csv_owners.own[key] for key in new], links)
    return csv_owners


_CSV_FIELDS = (
    *("uid", "resource_version", "generation", "digest", "created_at", "deleting"),
    *("details", "phase", "observed_at"),
)
_OPERATOR_COLUMNS = (
    *("uid", "resource_version", "generation", "digest", "created_at", "deleting", "conditions"),
    *("details", "observed_at", "package", "version", "bundle"),
)


def _operator_row(cluster_id: int, key: Key, csv: dict[str, Any]) -> Operator:
    phase, details = csv.pop("phase"), csv["details"]
    return Operator(
        cluster_id=cluster_id,
        kind=CSV,
        namespace=key[1],
        name=key[2],
        package=text(details, "package", limit=253),
        version=text(details, "version", limit=200),
        bundle=key[2],
        **{**csv, "details": {**details, "phase": phase}},
    )


def _with_changed_references(
    cluster_id: int, operators: Delta, components: Delta, *, everything: bool
) -> set[int]:
    """Ids of operators whose references may have changed: those that name other objects than
    before, and those in the namespace of an OperatorGroup that was created or deleted."""
    rows = Operator.objects.filter(cluster_id=cluster_id).order_by()
    if everything:
        return set(rows.values_list("id", flat=True))
    ids = {
        operators.ids[key]
        for key in operators.changed
        if _lookup_changed(operators, key, LOOKUP_COLUMNS[Operator])
        or _differs(operators, key, ("plan", "plan_namespace", _CONFLICTING, *_NAMED))
    }
    groups = {key for key in components.new | components.deleted if key[0] == GROUP}
    for batch in batched(sorted({key[1] for key in groups})):
        neighbours = rows.filter(kind__in=(SUBSCRIPTION, CSV), namespace__in=batch)
        ids |= set(neighbours.values_list("id", flat=True))
    return ids


def _lookup_changed(delta: Delta, key: Key, columns: Sequence[str]) -> bool:
    """Whether an object is new or the columns that link it to others changed."""
    now = tuple(delta.changed[key].columns.get(name, "") for name in columns)
    return key in delta.new or delta.before[key].lookup != now


def _replaced(cluster_id: int, csvs: Collection[Key]) -> dict[Key, Key]:
    """CSV -> the CSV of its namespace that replaces it, for those that are replaced."""
    successors: dict[Key, Key] = {}
    rows = Component.objects.filter(cluster_id=cluster_id, kind=CSV).order_by("name")
    for batch in batched(sorted(csvs)):
        matches = rows.filter(
            namespace__in={key[1] for key in batch}, details__replaces__in={key[2] for key in batch}
        )
        for namespace, name, old in matches.values_list("namespace", "name", "details__replaces"):
            successors[CSV, namespace, old] = (CSV, namespace, name)
    return {key: by for key, by in successors.items() if key in csvs and key != by}


def _named(cluster_id: int, csvs: Collection[Key]) -> dict[Key, int]:
    """CSV -> id of the Subscription that names it as its own; of several the first by name."""
    references = OperatorReference.objects.filter(cluster_id=cluster_id)
    references_to_csvs = [(key, pk) for key, (pk,) in rows_of(references, csvs, "operator_id")]
    names: dict[int, str] = {}
    own: set[tuple[int, str]] = set()
    for batch in batched(sorted({pk for _, pk in references_to_csvs})):
        rows = Operator.objects.filter(id__in=batch, kind=SUBSCRIPTION).order_by()
        for pk, name, details in rows.values_list("id", "name", "details"):
            names[pk] = name
            own |= {(pk, text(details, field)) for field in _NAMED}
    first: dict[Key, int] = {}
    for key, pk in references_to_csvs:
        if (pk, key[2]) in own and (key not in first or names[pk] < names[first[key]]):
            first[key] = pk
    return first


# -- owners ----------------------------------------------------------------------------------------


def _link_components(
    cluster_id: int,
    operators: Delta,
    components: Delta,
    csvs: Collection[Key],
    csv_owners: CsvOwners,
    links: Links,
    *,
    everything: bool,
) -> None:
    """Links components to operators: first those that operators own, then those that
    BundleDeployments and CSVs own, which get the operator of these."""
    rows = Component.objects.filter(cluster_id=cluster_id)
    if everything:
        base = [_owned_component(row) for row in rows.order_by().values_list(*_COMPONENT_FIELDS)]
    else:
        keys = {
            key
            for key in components.changed
            if _lookup_changed(components, key, LOOKUP_COLUMNS[Component])
        } | set(csvs)
        base = [_owned_component(row) for _, row in rows_of(rows, keys, *_COMPONENT_FIELDS)]
        base += _owned_by(cluster_id, operators.new | operators.deleted)
    upper = {component.key: component for component in base if component.owner[0] not in MIDDLE}
    operator_ids = _operators_of_upper(cluster_id, upper.values(), csv_owners)
    moved = {key for key, component in upper.items() if operator_ids[key] != component.operator_id}
    changed = {key for key in moved | components.new | components.deleted if key[0] in MIDDLE}
    lower = {component.key: component for component in base if component.owner[0] in MIDDLE}
    lower |= {component.key: component for component in _owned_by(cluster_id, changed)}
    other_owners = {component.owner for component in lower.values()} - set(operator_ids)
    of_owners = operator_ids | {
        key: pk for key, (pk,) in rows_of(rows, other_owners, "operator_id")
    }
    operator_ids |= {key: of_owners.get(component.owner) for key, component in lower.items()}
    linked = upper | lower
    moved = {key for key, component in linked.items() if operator_ids[key] != component.operator_id}
    for key in moved:
        links.affected |= {pk for pk in (operator_ids[key], linked[key].operator_id) if pk}
    update(
        Component,
        [Component(id=linked[key].id, operator_id=operator_ids[key]) for key in sorted(moved)],
        ["operator"],
    )
    links.rows += len(moved)


def _owned_component(row: Any) -> OwnedComponent:
    """From a row of _COMPONENT_FIELDS."""
    return OwnedComponent(id=row[7], key=row[:3], owner=row[3:6], operator_id=row[6])


def _owned_by(cluster_id: int, owners: Collection[Key]) -> list[OwnedComponent]:
    owned = []
    for batch in batched(sorted(owners)):
        wanted = set(batch)
        by_kind: dict[str, list[Key]] = defaultdict(list)
        for key in batch:
            by_kind[key[0]].append(key)
        is_owned = Q()
        for kind, keys in by_kind.items():
            is_owned |= Q(
                owner_kind=kind,
                owner_namespace__in={key[1] for key in keys},
                owner_name__in={key[2] for key in keys},
            )
        rows = Component.objects.filter(is_owned, cluster_id=cluster_id).order_by()
        components = (_owned_component(row) for row in rows.values_list(*_COMPONENT_FIELDS))
        owned += [component for component in components if component.owner in wanted]
    return owned


def _operators_of_upper(
    cluster_id: int, components: Iterable[OwnedComponent], csv_owners: CsvOwners
) -> dict[Key, int | None]:
    """Component -> id of its operator.

    A CSV belongs to the Subscription that names it, else to its own operator row, else to the
    operator of the CSV that replaces it. Other components belong to the owner they name.
    """
    components = list(components)
    owners = {component.owner for component in components if component.owner[0] in OPERATOR_KINDS}
    rows = Operator.objects.filter(cluster_id=cluster_id)
    ids = {key: pk for key, (pk,) in rows_of(rows, owners, "id")}
    operator_ids: dict[Key, int | None] = {}
    for component in components:
        if component.key[0] == CSV:
            successor = csv_owners.replaced_by.get(component.key)
            operator_id = csv_owners.operator_of(component.key)
            operator_ids[component.key] = operator_id or (
                csv_owners.operator_of(successor) if successor else None
            )
        else:
            operator_ids[component.key] = ids.get(component.owner)
    return operator_ids


def _affected_by_components(cluster_id: int, components: Delta, links: Links) -> None:
    """Adds the operators that touched components belonged to before, and those that refer to them.

    The operators that they belong to now are added where the link changes.
    """
    links.affected |= {row.operator_id for row in components.before.values() if row.operator_id}
    shared = {key for key in components.touched if key[0] in SHARED}
    references = OperatorReference.objects.filter(cluster_id=cluster_id)
    links.affected |= {pk for _, (pk,) in rows_of(references, shared, "operator_id")}
