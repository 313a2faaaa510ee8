"""Reads behind one operator: its components, dependencies, history and InstallPlans."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import F, Q, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Coalesce

from catalogs.install_methods import InstallMethod
from catalogs.models import Package
from installs.diagnosis.approvals import Approval, approval
from installs.models import (
    Action,
    Component,
    Event,
    Observed,
    Operator,
    OperatorReference,
    Transition,
)
from installs.queries.changes import OPERATOR_KINDS
from installs.state.decode import Key
from installs.state.history import HEALTH, OBJECT
from installs.state.observation import (
    UnreadKind,
    WatchedRow,
    details_of,
    observe,
    unread_kinds,
    watched_rows,
)
from olmweb.kube.fields import texts

TIMELINE_LIMIT = 200
# A CSV may have dozens of Deployments; the timeline shows no more of them.
SUBJECTS_LIMIT = 40
ACTIONS_LIMIT = 50


@dataclass(frozen=True, slots=True)
class Parts:
    """What an operator is made of and what it names.

    `components` belong to it or are named by it; `absent` are named and not stored; `others` are
    InstallPlans of its namespace that it does not name. `unread` are those of
    `unread_kinds` of its cluster.
    """

    components: tuple[Component, ...]
    absent: tuple[OperatorReference, ...]
    others: tuple[Component, ...]
    unread: Mapping[str, UnreadKind]

    def of_kind(self, kind: str) -> list[Component]:
        return [component for component in self.components if component.kind == kind]

    def keys(self, operator: Operator) -> list[Key]:
        """Keys of the operator and of every object in its timeline, the operator first."""
        shared = ("CatalogSource", "OperatorGroup")  # shared by the operators beside it
        own = [key_of(component) for component in self.components if component.kind not in shared]
        return [key_of(operator), *own, *map(key_of, self.absent)][:SUBJECTS_LIMIT]


def key_of(row: Observed | OperatorReference) -> Key:
    return row.kind, row.namespace, row.name


def parts_of(operator: Operator) -> Parts:
    """Its components, the objects it names, and the names without an object; two queries for an
    operator that was read with its cluster."""
    references, watches = _references_and_watches(operator)
    named = set(map(key_of, references))
    wanted = Q(operator=operator) | among(named) if named else Q(operator=operator)
    if operator.kind == "Subscription":
        wanted |= Q(kind="InstallPlan", namespace=operator.namespace)
    rows = Component.objects.filter(wanted, cluster=operator.cluster_id).order_by("kind", "name")
    own: list[Component] = []
    others: list[Component] = []
    for row in rows:
        is_own = row.operator_id == operator.pk or key_of(row) in named
        (own if is_own else others).append(row)
    there = {key_of(row) for row in own} | {key_of(operator)}
    there |= {("ClusterServiceVersion", operator.namespace, name) for name in _gone(operator)}
    return Parts(
        components=tuple(own),
        absent=tuple(reference for reference in references if key_of(reference) not in there),
        others=tuple(others),
        unread=unread_kinds(watches, reachable=operator.cluster.reachable),
    )


def _references_and_watches(
    operator: Operator,
) -> tuple[list[OperatorReference], list[WatchedRow]]:
    """The references by kind, namespace and name; one query."""
    reference = "reference"  # in the column of the state, which has no such value
    columns = ("kind", Value(reference, TextField()), "name", "namespace")
    rows = operator.references.order_by().values_list(*columns)
    references, watches = [], []
    for row in rows.union(watched_rows(operator.cluster_id), all=True):
        watch = WatchedRow._make(row)
        if watch.state == reference:
            kind, _, name, namespace = row
            references.append(OperatorReference(kind=kind, namespace=namespace, name=name))
        else:
            watches.append(watch)
    return sorted(references, key=key_of), watches


def _gone(operator: Operator) -> set[str]:
    """ClusterServiceVersions that only a failed resolution names: their absence means nothing."""
    details = details_of(operator)
    named = str(details.get("conflicting_csvs") or "").split(", ")
    return set(named) - {details.get("current_csv"), details.get("installed_csv")}


def among(keys: Iterable[Key]) -> Q:
    """Rows with one of these identities. `keys` must not be empty."""
    names: dict[tuple[str, str], list[str]] = defaultdict(list)
    for kind, namespace, name in sorted(set(keys)):
        names[kind, namespace].append(name)
    condition = Q()
    for (kind, namespace), listed in names.items():
        condition |= Q(kind=kind, namespace=namespace, name__in=listed)
    return condition


def history(cluster_id: int, keys: Sequence[Key], limit: int = TIMELINE_LIMIT) -> list[Transition]:
    """The recorded changes of these objects, newest first; one query."""
    rows = Transition.objects.filter(among(keys), cluster=cluster_id)
    return list(rows.order_by("-at", "-pk")[:limit])


def events_of(cluster_id: int, keys: Sequence[Key], limit: int = TIMELINE_LIMIT) -> list[Event]:
    """Kubernetes Events about these objects, newest first; one query."""
    rows = Event.objects.filter(among(keys), cluster=cluster_id)
    return list(rows.order_by(F("last_at").desc(nulls_last=True), "-pk")[:limit])


def subscriptions_beside(operator: Operator, namespace: str) -> list[Operator]:
    """The Subscriptions of a namespace, whose InstallPlans OLM resolves together; one query."""
    rows: QuerySet[Operator] = Operator.objects.filter(
        cluster=operator.cluster_id, kind="Subscription", namespace=namespace
    )
    return list(rows.order_by("name"))


def packages_of(operator: Operator) -> list[Package]:
    """The package in the catalogs of its cluster that its path reads, its own catalog first.

    OLM v1 reads ClusterCatalogs only, the other paths never do; where no such catalog holds it,
    all that do. One query.
    """
    if not operator.package:
        return []
    rows = Package.objects.filter(catalog__cluster=operator.cluster_id, name=operator.package)
    rows = rows.select_related("catalog", "catalog__cluster").order_by("catalog__name")
    packages = sorted(rows, key=lambda row: row.catalog.name != operator.catalog)[:10]
    v1 = operator.kind == "ClusterExtension"
    read = [row for row in packages if (row.catalog.source_kind == "ClusterCatalog") == v1]
    return read or packages


def open_action(operator: Operator) -> Action | None:
    """The unfinished action on an operator of `get_operator`; one query if there is one."""
    pk: int | None = operator.open_action_id  # type: ignore[attr-defined]
    return Action.objects.filter(pk=pk).first() if pk else None


@dataclass(frozen=True, slots=True)
class RemovedOperator:
    """An operator whose object was deleted, from its recorded changes and actions.

    `last_states` are the newest change of each condition of the deleted object; `health` is that of
    the operator, None without a recorded one; `removal` is the action that deleted it, if any.
    `transitions` and `actions` are newest first, also those of earlier objects of this name.
    """

    deletion: Transition
    health: Transition | None
    last_states: tuple[Transition, ...]
    transitions: tuple[Transition, ...]
    actions: tuple[Action, ...]
    removal: Action | None


def removed_operator(cluster: str, kind: str, namespace: str, name: str) -> RemovedOperator | None:
    """The removed operator of this identity; None if no deletion of it is recorded, or if it was
    created again since. Two queries."""
    if kind not in OPERATOR_KINDS:
        return None
    where = {"cluster__name": cluster, "namespace": namespace, "name": name}
    rows = Transition.objects.select_related("cluster").filter(**where, kind=kind)
    transitions = tuple(rows.order_by("-at", "-pk")[:TIMELINE_LIMIT])
    deletion = next((row for row in transitions if row.type == OBJECT), None)
    if deletion is None or deletion.to_status != "deleted":
        return None
    newest: dict[str, Transition] = {}
    for row in transitions:
        if row.type != OBJECT and row.uid in ("", deletion.uid):
            newest.setdefault(row.type, row)
    states = {name: row for name, row in newest.items() if row.to_status}  # not those that ended
    health = states.pop(HEALTH, None)
    acted = _actions_on(cluster, kind, namespace, name).select_related("cluster", "user")
    actions = tuple(acted.defer("stored_steps").order_by("-created_at", "-pk")[:ACTIONS_LIMIT])
    removal = next((row for row in actions if _has_deleted(row, deletion)), None)
    return RemovedOperator(deletion, health, tuple(states.values()), transitions, actions, removal)


def _actions_on(cluster: str, kind: str, namespace: str, name: str) -> QuerySet[Action]:
    """The actions on an object. Those of a Subscription are also the approvals of InstallPlans for
    its package, and the cleanup of what the package left, in its namespace."""
    here = Action.objects.filter(cluster__name=cluster, namespace=namespace)
    own = here.filter(path=kind, name=name)
    if kind != InstallMethod.SUBSCRIPTION:
        return own
    package = own.exclude(package="").order_by("-pk").values("package")[:1]
    wanted = Coalesce(Subquery(package), Value(name))
    approvals = here.filter(verb=Action.Verb.APPROVE, package=wanted)
    cleanups = here.filter(verb=Action.Verb.CLEAN_UP, path=kind, name=wanted)
    return own | approvals | cleanups


def _has_deleted(action: Action, deletion: Transition) -> bool:
    is_sent_removal = action.verb == Action.Verb.REMOVE and action.sent_at is not None
    return is_sent_removal and bool(deletion.uid) and action.object_uid == deletion.uid


@dataclass(frozen=True, slots=True)
class PendingPlan:
    """The effect of approving an InstallPlan.

    `others` are ClusterServiceVersions of other operators in the plan; `command` approves it.
    """

    approval: Approval
    others: tuple[str, ...]
    command: str


def pending_plan(operator: Operator, parts: Parts) -> PendingPlan | None:
    """The plan that waits for approval and is about this Subscription; one query when it does."""
    if operator.kind != "Subscription":
        return None
    for plan in parts.of_kind("InstallPlan"):
        if plan.phase != "RequiresApproval":
            continue
        beside = subscriptions_beside(operator, plan.namespace)
        needed = approval(observe(plan), [observe(row) for row in beside])
        if needed.needed:
            others = tuple(subscription.csv for subscription in needed.others(operator.name))
            return PendingPlan(needed, others, approve_command(plan))
    return None


def approve_command(plan: Component) -> str:
    return (
        f"kubectl -n {plan.namespace} patch installplan {plan.name} "
        '--type merge -p \'{"spec":{"approved":true}}\''
    )


@dataclass(frozen=True, slots=True)
class Repeated:
    """A ClusterServiceVersion that several InstallPlans list, the newest plan first."""

    csv: str
    plans: tuple[Component, ...]


def repeated_plans(operator: Operator, parts: Parts) -> list[Repeated]:
    """The operator's own versions that more than one InstallPlan of its namespace lists."""
    versions = {
        component.name
        for component in parts.components
        if component.kind == "ClusterServiceVersion"
    }
    versions |= {
        reference.name for reference in parts.absent if reference.kind == "ClusterServiceVersion"
    }
    plans = [*parts.of_kind("InstallPlan"), *parts.others]
    repeated = [
        Repeated(
            csv, _newest_first([plan for plan in plans if csv in texts(details_of(plan), "csvs")])
        )
        for csv in sorted(versions)
    ]
    return [row for row in repeated if len(row.plans) > 1]


def _newest_first(plans: Sequence[Component]) -> tuple[Component, ...]:
    def made(plan: Component) -> tuple[float, str]:
        return (plan.created_at.timestamp() if plan.created_at else 0.0, plan.name)

    return tuple(sorted(plans, key=made, reverse=True))
