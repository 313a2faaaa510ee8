"""Who belongs to whom: references of operators, operators that are only a CSV, components' owners.

Works from what changed: queries name the keys of the change and what hangs on them, never the
whole cluster. Run on everything (`everything=True`) it repairs links that other code had left.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from installs.models import Component, Operator, Reference
from installs.state.bulk import update
from installs.state.decode import Key, text
from installs.state.store import BATCH, PLACES, Delta, batched, rows_of, upsert

CSV, SUBSCRIPTION, GROUP = "ClusterServiceVersion", "Subscription", "OperatorGroup"
OPERATOR_KINDS = frozenset(("PlatformOperator", "ClusterExtension", SUBSCRIPTION))
# Kinds that operators refer to without owning them.
SHARED = frozenset(
    ("InstallPlan", "CatalogSource", CSV, GROUP, "OperatorCondition", "ClusterCatalog")
)
MIDDLE = frozenset(("BundleDeployment", CSV))  # components that own components
ADOPTION = timedelta(seconds=10)  # in which OLM notes in a Subscription the CSV that it made
_NAMED = ("current_csv", "installed_csv")
_CONFLICTING = "conflicting_csvs"  # of a failed resolution: its own and others'
_PART = (
    *("kind", "namespace", "name"),
    *("owner_kind", "owner_namespace", "owner_name", "operator_id", "id"),
)


@dataclass(slots=True)
class Links:
    """What linking found. `affected`: ids of operators to diagnose anew; `fresh`: keys of new ones;
    `rows`: how many rows were written."""

    affected: set[int] = field(default_factory=set)
    fresh: set[Key] = field(default_factory=set)
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """A stored component, with what its place needs."""

    id: int
    key: Key
    owner: Key
    operator_id: int | None


def link(
    cluster_id: int,
    operators: Delta,
    parts: Delta,
    now: datetime,
    *,
    waiting: Collection[Key] = (),
    everything: bool = False,
) -> Links:
    """Brings references, CSV operators and owners up to date; see the module.

    `waiting` are the CSVs that `waiting_csvs` found.
    """
    links = Links(fresh=set(operators.fresh))
    links.affected |= {operators.ids[key] for key in operators.changed}
    csvs = _csvs_in_question(cluster_id, operators, parts, everything=everything) | set(waiting)
    ids = _with_new_references(cluster_id, operators, parts, everything=everything)
    _update_references(cluster_id, ids, links)
    lone = _lone_csvs(cluster_id, csvs, parts, links, now)
    _link_parts(cluster_id, operators, parts, csvs, lone, links, everything=everything)
    _affected_by_parts(cluster_id, parts, links)
    left = Operator.objects.filter(cluster_id=cluster_id)
    found: set[int] = set()
    for batch in batched(sorted(links.affected)):
        found |= set(left.filter(id__in=batch).values_list("id", flat=True))
    links.affected = found
    return links


# -- references -----------------------------------------------------------------------------------


def _update_references(cluster_id: int, ids: Collection[int], links: Links) -> None:
    """Makes the references of these operators those that their rows ask for."""
    fields = ("id", "kind", "namespace", "name", "catalog", "catalog_namespace", "details")
    for batch in batched(sorted(ids)):
        rows = list(Operator.objects.filter(id__in=batch).order_by().values_list(*fields))
        groups = _groups_in(cluster_id, {row[2] for row in rows if row[1] in (SUBSCRIPTION, CSV)})
        wanted = {(row[0], *key) for row in rows for key in _references_of(row, groups)}
        stored = {
            (operator, kind, namespace, name): pk
            for pk, operator, kind, namespace, name in Reference.objects.filter(
                operator_id__in=batch
            ).values_list("id", "operator_id", "kind", "namespace", "name")
        }
        new, gone = wanted - set(stored), set(stored) - wanted
        Reference.objects.bulk_create(
            [
                Reference(
                    cluster_id=cluster_id,
                    operator_id=operator,
                    kind=kind,
                    namespace=namespace,
                    name=name,
                )
                for operator, kind, namespace, name in sorted(new)
            ],
            batch_size=BATCH,
        )
        if gone:
            Reference.objects.filter(id__in=[stored[one] for one in gone]).delete()
        links.rows += len(new) + len(gone)
        links.affected |= {one[0] for one in new | gone}


def _references_of(row: tuple[Any, ...], groups: Mapping[str, Collection[str]]) -> Iterable[Key]:
    _, kind, namespace, name, catalog, catalog_namespace, details = row
    if kind == "ClusterExtension" and catalog:
        yield "ClusterCatalog", "", catalog
    if kind == SUBSCRIPTION:
        if catalog:
            yield "CatalogSource", catalog_namespace, catalog
        if plan := text(details, "plan"):
            yield "InstallPlan", text(details, "plan_namespace") or namespace, plan
        for csv in {text(details, one) for one in _NAMED} - {""}:
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
    found: dict[str, set[str]] = defaultdict(set)
    if namespaces:
        rows = Component.objects.filter(
            cluster_id=cluster_id, kind=GROUP, namespace__in=namespaces
        ).order_by()
        for namespace, name in rows.values_list("namespace", "name"):
            found[namespace].add(name)
    return found


# -- operators that are only a ClusterServiceVersion ----------------------------------------------


def _csvs_in_question(
    cluster_id: int, operators: Delta, parts: Delta, *, everything: bool
) -> set[Key]:
    """CSVs that may belong to another operator now: they came or went, who names or replaces them
    did or does so no more; and those that any of these replaces."""
    rows = Component.objects.filter(cluster_id=cluster_id, kind=CSV).order_by()
    if everything:
        own = Operator.objects.filter(cluster_id=cluster_id, kind=CSV).order_by()
        names = {*rows.values_list("namespace", "name"), *own.values_list("namespace", "name")}
        return {(CSV, *one) for one in names}
    found: set[Key] = set()
    for key in operators.touched:
        if key[0] == SUBSCRIPTION and _differs(operators, key, _NAMED):
            told = operators.told(key)
            found |= {(CSV, key[1], text(one, name)) for one in told for name in _NAMED}
    for key in parts.touched:
        if key[0] == CSV and _differs(parts, key, ("replaces",)):
            found |= {key, *((CSV, key[1], text(one, "replaces")) for one in parts.told(key))}
    for key, (replaced,) in rows_of(rows, found, "details__replaces"):
        found |= {(CSV, key[1], replaced)} if isinstance(replaced, str) else set()
    return {key for key in found if key[2]}


def _differs(delta: Delta, key: Key, names: Iterable[str]) -> bool:
    """Whether an object came, went, or says something else in these details."""
    told = [[text(one, name) for name in names] for one in delta.told(key)]
    return key in delta.fresh or len(told) < 2 or told[0] != told[1]


@dataclass(slots=True)
class Lone:
    """What is known of the CSVs in question: who names them, which operator stands for them."""

    named: dict[Key, int] = field(default_factory=dict)  # id of a Subscription's row
    own: dict[Key, int] = field(default_factory=dict)  # id of the CSV's own operator row
    replaced_by: dict[Key, Key] = field(default_factory=dict)

    def operator_of(self, key: Key) -> int | None:
        return self.named.get(key) or self.own.get(key)


def waiting_csvs(cluster_id: int) -> set[Key]:
    """CSVs that belong to no operator: those whose own row is held back, and odd ones."""
    rows = Component.objects.filter(cluster_id=cluster_id, kind=CSV, operator=None).order_by()
    return {(CSV, *one) for one in rows.values_list("namespace", "name")}


def _lone_csvs(cluster_id: int, csvs: set[Key], parts: Delta, links: Links, now: datetime) -> Lone:
    """Makes an operator row of each CSV that nobody names and nobody replaces, and of no other.

    One that has just been made is held back: its Subscription may name it any moment.
    """
    lone = Lone(replaced_by=_replaced(cluster_id, csvs))
    around = csvs | set(lone.replaced_by.values())
    lone.named = _named(cluster_id, around)
    others = {key for key in parts.changed if key[0] == CSV} - csvs  # only say something new
    rows_stored = Operator.objects.filter(cluster_id=cluster_id, kind=CSV)
    stored = dict(rows_of(rows_stored, around | others, "id", "digest"))
    due = {key for key in csvs if key not in lone.named and key not in lone.replaced_by}
    due |= {key for key in others if key in stored}
    components = Component.objects.filter(cluster_id=cluster_id, kind=CSV)
    wanted = {
        key: dict(zip(_CSV_FIELDS, values, strict=True))
        for key, values in rows_of(components, due, *_CSV_FIELDS)
    }
    wanted = {
        key: one
        for key, one in wanted.items()
        if key in stored or not _young(one["created_at"], now)
    }
    changed = [k for k, one in wanted.items() if k not in stored or stored[k][1] != one["digest"]]
    rows = [_operator_row(cluster_id, key, wanted[key]) for key in changed]
    upsert(Operator, rows, _OPERATOR_COLUMNS)
    gone = {key for key in stored if key in csvs and key not in wanted}
    if gone:
        Operator.objects.filter(id__in=[stored[key][0] for key in gone]).delete()
    lone.own = {key: pk for key, (pk, _) in stored.items() if key not in gone}
    lone.own |= {key: row.pk for key, row in zip(changed, rows, strict=True)}
    new = {key for key in changed if key not in stored}
    links.fresh |= new
    links.affected |= {row.pk for row in rows}
    links.rows += len(rows) + len(gone)
    _update_references(cluster_id, [lone.own[key] for key in new], links)
    return lone


def _young(created_at: datetime | None, now: datetime) -> bool:
    """Also when the cluster's clock is a little ahead of ours."""
    return created_at is not None and -ADOPTION < now - created_at < ADOPTION


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


def _with_new_references(
    cluster_id: int, operators: Delta, parts: Delta, *, everything: bool
) -> set[int]:
    """Operators whose references may differ: those that name others than before, and those beside
    an OperatorGroup that came or went."""
    rows = Operator.objects.filter(cluster_id=cluster_id).order_by()
    if everything:
        return set(rows.values_list("id", flat=True))
    ids = {
        operators.ids[key]
        for key in operators.changed
        if _moved(operators, key, PLACES[Operator])
        or _differs(operators, key, ("plan", "plan_namespace", _CONFLICTING, *_NAMED))
    }
    new = {key for key in parts.fresh | parts.deleted if key[0] == GROUP}
    for batch in batched(sorted({key[1] for key in new})):
        beside = rows.filter(kind__in=(SUBSCRIPTION, CSV), namespace__in=batch)
        ids |= set(beside.values_list("id", flat=True))
    return ids


def _moved(delta: Delta, key: Key, columns: Sequence[str]) -> bool:
    """Whether an object is new, or the columns by which others are found differ."""
    now = tuple(delta.changed[key].columns.get(name, "") for name in columns)
    return key in delta.fresh or delta.before[key].place != now


def _replaced(cluster_id: int, csvs: Collection[Key]) -> dict[Key, Key]:
    """Those of the CSVs that another one of their namespace replaces -> that one."""
    found: dict[Key, Key] = {}
    rows = Component.objects.filter(cluster_id=cluster_id, kind=CSV).order_by("name")
    for batch in batched(sorted(csvs)):
        near = rows.filter(
            namespace__in={key[1] for key in batch},
            details__replaces__in={key[2] for key in batch},
        )
        for namespace, name, old in near.values_list("namespace", "name", "details__replaces"):
            found[CSV, namespace, old] = (CSV, namespace, name)
    return {key: by for key, by in found.items() if key in csvs and key != by}


def _named(cluster_id: int, csvs: Collection[Key]) -> dict[Key, int]:
    """Those of the CSVs that a Subscription names as its own -> its id; of several the first by
    name."""
    references = Reference.objects.filter(cluster_id=cluster_id)
    found = [(key, pk) for key, (pk,) in rows_of(references, csvs, "operator_id")]
    names: dict[int, str] = {}
    own: set[tuple[int, str]] = set()
    for batch in batched(sorted({pk for _, pk in found})):
        rows = Operator.objects.filter(id__in=batch, kind=SUBSCRIPTION).order_by()
        for pk, name, details in rows.values_list("id", "name", "details"):
            names[pk] = name
            own |= {(pk, text(details, one)) for one in _NAMED}
    first: dict[Key, int] = {}
    for key, pk in found:
        if (pk, key[2]) in own and (key not in first or names[pk] < names[first[key]]):
            first[key] = pk
    return first


# -- owners ---------------------------------------------------------------------------------------


def _link_parts(
    cluster_id: int,
    operators: Delta,
    parts: Delta,
    csvs: Collection[Key],
    lone: Lone,
    links: Links,
    *,
    everything: bool,
) -> None:
    """Points each component at its operator: first those that operators own, then what hangs on
    BundleDeployments and CSVs, which has the operator of these."""
    rows = Component.objects.filter(cluster_id=cluster_id)
    if everything:
        base = [_part(*row) for row in rows.order_by().values_list(*_PART)]
    else:
        new = {key for key in parts.changed if _moved(parts, key, PLACES[Component])}
        base = [_part(*values) for _, values in rows_of(rows, new | set(csvs), *_PART)]
        base += _owned_by(cluster_id, operators.fresh | operators.deleted)
    upper = {part.key: part for part in base if part.owner[0] not in MIDDLE}
    placed = _place_upper(cluster_id, upper.values(), lone)
    moved = {key for key, part in upper.items() if placed[key] != part.operator_id}
    turned = {key for key in moved | parts.fresh | parts.deleted if key[0] in MIDDLE}
    lower = {part.key: part for part in base if part.owner[0] in MIDDLE}
    lower |= {part.key: part for part in _owned_by(cluster_id, turned)}
    above = {part.owner for part in lower.values()} - set(placed)
    owners = placed | {key: pk for key, (pk,) in rows_of(rows, above, "operator_id")}
    placed |= {key: owners.get(part.owner) for key, part in lower.items()}
    todo = upper | lower
    moved = {key for key, part in todo.items() if placed[key] != part.operator_id}
    for key in moved:
        links.affected |= {one for one in (placed[key], todo[key].operator_id) if one}
    update(
        Component,
        [Component(id=todo[key].id, operator_id=placed[key]) for key in sorted(moved)],
        ["operator"],
    )
    links.rows += len(moved)


def _part(
    kind: str,
    namespace: str,
    name: str,
    owner_kind: str,
    owner_namespace: str,
    owner_name: str,
    operator_id: int | None,
    pk: int,
) -> Part:
    owner = (owner_kind, owner_namespace, owner_name)
    return Part(pk, (kind, namespace, name), owner, operator_id)


def _owned_by(cluster_id: int, owners: Collection[Key]) -> list[Part]:
    found = []
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
        parts = (_part(*row) for row in rows.values_list(*_PART))
        found += [part for part in parts if part.owner in wanted]
    return found


def _place_upper(cluster_id: int, parts: Iterable[Part], lone: Lone) -> dict[Key, int | None]:
    """A CSV belongs to the Subscription that names it, else to itself; one that is neither is
    being replaced, and belongs to whom its successor belongs to. Others have the owner they name.
    """
    parts = list(parts)
    owners = {part.owner for part in parts if part.owner[0] in OPERATOR_KINDS}
    rows = Operator.objects.filter(cluster_id=cluster_id)
    ids = {key: pk for key, (pk,) in rows_of(rows, owners, "id")}
    placed: dict[Key, int | None] = {}
    for part in parts:
        if part.key[0] == CSV:
            successor = lone.replaced_by.get(part.key)
            found = lone.operator_of(part.key)
            placed[part.key] = found or (lone.operator_of(successor) if successor else None)
        else:
            placed[part.key] = ids.get(part.owner)
    return placed


def _affected_by_parts(cluster_id: int, parts: Delta, links: Links) -> None:
    """Adds the operators that changed or deleted components belonged to before (where they belong
    to now is known already when that is elsewhere), and those that refer to them."""
    links.affected |= {one.operator_id for one in parts.before.values() if one.operator_id}
    shared = {key for key in parts.touched if key[0] in SHARED}
    references = Reference.objects.filter(cluster_id=cluster_id)
    links.affected |= {pk for _, (pk,) in rows_of(references, shared, "operator_id")}
