"""Bulk changes: the same change of several operators, one action for each.

The operators are those of a cause, whose remedy says which changes are offered, or those that a
person selected. What a change does to one operator is the plan of its single action; review, batch
and scheduling are those of bulk installs.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from django.db.models import Q

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, Package
from catalogs.verdicts.rules import Verdict
from installs.actions.alternatives import by_preference
from installs.actions.bulk import CAP, BulkCandidate, Item, Key, chosen_verdicts
from installs.actions.plan import Plan, paths_of, plan_install
from installs.actions.plan_changes import plan_approve
from installs.actions.removal import RemovalRows, plan_remove
from installs.actions.retry import plan_retry
from installs.actions.warnings import InstallWarning
from installs.diagnosis.entries import by_id
from installs.diagnosis.knowledge import Finding
from installs.methods import AUTOMATIC, METHODS
from installs.models import NEEDS_ATTENTION, Action, Health, Operator
from installs.models.steps import Delete
from installs.queries.lookup import NO_NAMESPACE, get_install_plan
from installs.queries.operators import finding_of
from installs.state.observation import details_of
from olmweb.errors import BadRequest, OlmwebError
from olmweb.models import Cluster

SUBSCRIPTION = InstallMethod.SUBSCRIPTION
_DELETE = ("$ kubectl delete platformoperator {name}", "$ kubectl delete {kind} {name}")


class BulkChange(StrEnum):
    """Stored in `ActionBatch.verb`."""

    MIGRATE = "migrate"
    APPROVE = "approve"
    RETRY = "retry"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class OperatorItem:
    """One operator of a bulk change; `item` holds its plan, or why it can't be changed. The
    candidate of `item` has the name of the operator. `replaced_by` is the Subscription that its
    package has already: a migration then deletes the PlatformOperator only."""

    operator: Operator
    item: Item
    replaced_by: Operator | None = None

    @property
    def key(self) -> str:
        return key_of(self.operator)

    @property
    def possible(self) -> bool:
        return not self.item.candidate.hindrance

    @property
    def by_default(self) -> bool:
        return self.possible and not self.item.candidate.doubt


def key_of(operator: Operator) -> str:
    """Names the operator on its cluster: `PlatformOperator/-/etcd`."""
    return f"{operator.kind}/{operator.namespace or NO_NAMESPACE}/{operator.name}"


def address_of(operator: Operator) -> str:
    """Names the operator as the address of its page does: `prod/PlatformOperator/-/etcd`."""
    return f"{operator.cluster.name}/{key_of(operator)}"


def operators_of(addresses: Iterable[str]) -> list[Operator]:
    """The operators that the addresses name, by name; one query. Raises BadRequest for more than
    CAP, so that none is left out unnoticed."""
    selected = list(dict.fromkeys(addresses))
    if len(selected) > CAP:
        raise BadRequest(
            f"{len(selected)} operators are selected; at most {CAP} can be changed at once.",
            code="too-many",
            hint=f"Deselect {len(selected) - CAP} of them.",
        )
    wanted = Q()
    for address in selected:
        parts = address.split("/")
        if len(parts) == 4 and all(parts):
            cluster, kind, namespace, name = parts
            namespace = "" if namespace == NO_NAMESPACE else namespace
            wanted |= Q(cluster__name=cluster, kind=kind, namespace=namespace, name=name)
    rows = Operator.objects.filter(wanted) if wanted else Operator.objects.none()
    return list(rows.select_related("cluster").order_by("name", "pk"))


def cluster_of(operators: Sequence[Operator]) -> Cluster:
    """The one cluster of all. Raises BadRequest for no operator and for several clusters."""
    clusters = {row.cluster_id: row.cluster for row in operators}
    if not clusters:
        raise BadRequest(
            "No operator is selected.",
            code="none-selected",
            hint="Select operators in the list of installed operators.",
        )
    if len(clusters) > 1:
        names = ", ".join(sorted(cluster.name for cluster in clusters.values()))
        raise BadRequest(
            f"The selected operators are on several clusters: {names}.",
            code="several-clusters",
            hint="Filter the list by cluster, and select operators of one cluster.",
        )
    return next(iter(clusters.values()))


def changes_for(
    finding: Finding | None, kind: str, remedies: Sequence[Sequence[str]] = ()
) -> tuple[BulkChange, ...]:
    """The changes that the remedy of this cause names for operators of this kind. `remedies` are
    the templates of the remedies of its operators, where those depend on their facts."""
    if finding is None or kind not in METHODS:
        return ()
    changes = []
    if (
        kind == InstallMethod.PLATFORM_OPERATOR
        and SUBSCRIPTION in finding.instead
        and by_id()[finding.id].installs_nothing
    ):
        changes.append(BulkChange.MIGRATE)
    if any(step in _DELETE for steps in (finding.remedy_templates, *remedies) for step in steps):
        changes.append(BulkChange.REMOVE)
    if finding.retryable:
        changes.append(BulkChange.RETRY)
    return tuple(changes)


# --- candidates ---------------------------------------------------------------------------------


def candidates(
    change: BulkChange, cluster: Cluster, operators: Sequence[Operator]
) -> list[OperatorItem]:
    """The operators, each with what is known to be against the change; makes no plan.

    The number of queries does not depend on the operators, except one for each catalog.
    """
    busy = _busy(cluster, operators)
    offers = _offers(cluster, operators) if change == BulkChange.MIGRATE else {}
    subscribed = _subscribed(cluster, operators) if change == BulkChange.MIGRATE else {}
    items = []
    migrated: dict[str, str] = {}
    approved: dict[tuple[str, str], str] = {}  # InstallPlan -> the first of its operators
    for operator in operators:
        package = operator.package
        candidate = BulkCandidate(Key(cluster.name, operator.catalog, operator.name))
        why = busy.get((operator.kind, operator.namespace, operator.name), "")
        why = why or _hindrance(change, operator)
        replaced_by = None
        if not why and change == BulkChange.APPROVE:
            first = approved.setdefault(_plan_of(operator), operator.name)
            if first != operator.name:
                why = f"Its InstallPlan is approved with {first}."
        if not why and change == BulkChange.MIGRATE:
            if package and (replaced_by := subscribed.get(package)):
                pass  # there is nothing to install
            elif (offer := _offer(operator, offers.get(package, ()))) is None:
                why = f"No catalog of cluster {cluster.name} offers it as a Subscription."
            elif package in migrated:
                why = f"{migrated[package]} is of the same package."
            else:
                candidate = offer
            migrated.setdefault(package, operator.name)
        key = Key(cluster.name, candidate.key.catalog, operator.name)
        item = Item(replace(candidate, key=key, hindrance=why))
        items.append(OperatorItem(operator, item, replaced_by))
    return items


def _hindrance(change: BulkChange, operator: Operator) -> str:
    if operator.kind not in METHODS:
        return f"OLM Web does not change objects of the kind {operator.kind}."
    if change == BulkChange.MIGRATE:
        return _migration_hindrance(operator)
    waits = operator.health == Health.NEEDS_APPROVAL
    if change == BulkChange.APPROVE and not (waits and _plan_of(operator)[1]):
        return "None of its InstallPlans requires approval."
    if change == BulkChange.RETRY and (waits or operator.health not in NEEDS_ATTENTION):
        return "It did not fail."
    return ""


def possible_changes(operator: Operator) -> tuple[BulkChange, ...]:
    """The changes that nothing in the row of the operator is against; no query."""
    return tuple(change for change in BulkChange if not _hindrance(change, operator))


def _migration_hindrance(operator: Operator) -> str:
    """The conditions of a migration that the operator does not meet."""
    if operator.kind != InstallMethod.PLATFORM_OPERATOR:
        return f"It is a {operator.kind}. Only a PlatformOperator can be migrated."
    if operator.health not in NEEDS_ATTENTION:
        return "It did not fail. Only a PlatformOperator that failed can be migrated."
    finding = finding_of(operator)
    if finding is None:
        return "The cause of its failure is not known, so it may have created objects."
    unmet = []
    if SUBSCRIPTION not in finding.instead:
        unmet.append(f"The remedy of its cause ({finding.title}) does not name a Subscription.")
    if not by_id()[finding.id].installs_nothing:
        unmet.append("It may have created objects before it failed.")
    return " ".join(unmet)


def _plan_of(operator: Operator) -> tuple[str, str]:
    """(namespace, name) of its current InstallPlan, whose name may be empty."""
    details = details_of(operator)
    return str(details.get("plan_namespace") or operator.namespace), str(details.get("plan") or "")


def _busy(cluster: Cluster, operators: Iterable[Operator]) -> dict[tuple[str, str, str], str]:
    """Object -> sentence about its open action; one query."""
    names = {operator.name for operator in operators}
    rows = Action.objects.filter(cluster=cluster, state__in=Action.OPEN, name__in=names)
    return {
        (row.path, row.namespace, row.name): f"Action {row.pk}, its {row.verb}, is not finished."
        for row in rows.only("path", "namespace", "name", "verb")
    }


def _subscribed(cluster: Cluster, operators: Iterable[Operator]) -> dict[str, Operator]:
    """Package -> its Subscription; one query."""
    packages = {operator.package for operator in operators}
    rows = Operator.objects.filter(cluster=cluster, kind=SUBSCRIPTION, package__in=packages)
    fields = ("package", "kind", "namespace", "name", "health")
    return {row.package: row for row in rows.only(*fields)}


def _offers(cluster: Cluster, operators: Iterable[Operator]) -> dict[str, list[BulkCandidate]]:
    """Package -> the packages of catalogs to subscribe to, each with its verdict."""
    names = {operator.package for operator in operators if operator.package}
    rows = Package.objects.filter(catalog__cluster=cluster, name__in=names)
    rows = rows.exclude(catalog__state=Catalog.State.DISABLED).select_related("catalog__cluster")
    methods = {
        catalog: paths_of(cluster, catalog) for catalog in {package.catalog for package in rows}
    }
    packages = [package for package in rows if SUBSCRIPTION in methods[package.catalog]]
    verdicts = chosen_verdicts(packages, cluster, SUBSCRIPTION, "")
    offers: dict[str, list[BulkCandidate]] = {}
    for package in packages:
        key = Key(cluster.name, package.catalog.slug, package.name)
        offer = replace(verdicts.get(package.pk, BulkCandidate(key)), key=key, package=package)
        verdict = offer.prediction
        if verdict is not None and verdict.verdict == Verdict.NOT_INSTALLABLE:
            offer = replace(offer, doubt=verdict.sentence)
        offers.setdefault(package.name, []).append(offer)
    return offers


def _offer(operator: Operator, offers: Iterable[BulkCandidate]) -> BulkCandidate | None:
    """The first by preference that can be installed by its verdict, else the first."""
    by_package = {offer.package: offer for offer in offers if offer.package is not None}
    preferred = [by_package[package] for package in by_preference(operator, by_package)]
    installable = (offer for offer in preferred if not offer.doubt)
    return next(installable, preferred[0] if preferred else None)


# --- plans --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BulkOptions:
    """`only`: the dry run of an approval refuses an InstallPlan that carries more than the
    operator's next version. `approval` is that of the updates of new Subscriptions."""

    only: bool = False
    approval: str = AUTOMATIC


def plan_items(
    change: BulkChange, chosen: Iterable[OperatorItem], options: BulkOptions
) -> list[OperatorItem]:
    """The operators, all of one cluster, with a plan each, or the reason against it. The number of
    queries of a removal does not depend on the operators."""
    chosen = list(chosen)
    rows = RemovalRows(row.operator for row in chosen)
    planned = []
    for row in chosen:
        candidate = row.item.candidate
        if candidate.hindrance:
            item = Item(candidate, problem=candidate.hindrance)
        else:
            try:
                item = Item(candidate, _plan(change, row, options, rows))
            except OlmwebError as error:
                item = Item(candidate, problem=error.message, hint=error.hint)
        planned.append(replace(row, item=item))
    return planned


def _plan(change: BulkChange, row: OperatorItem, options: BulkOptions, rows: RemovalRows) -> Plan:
    operator, package = row.operator, row.item.candidate.package
    if change == BulkChange.RETRY:
        return plan_retry(operator)
    if change == BulkChange.APPROVE:
        cluster = operator.cluster
        install_plan = get_install_plan(cluster.name, *_plan_of(operator))
        version = str(details_of(operator).get("current_csv") or "") if options.only else ""
        if options.only and not version:
            raise OlmwebError(
                f"The next version of {operator.name} is not known.",
                code="no-version",
                status=409,
                hint="Approve all of the InstallPlan.",
            )
        return plan_approve(cluster, install_plan, version)
    if change == BulkChange.REMOVE or row.replaced_by or package is None:
        return plan_remove(operator, rows)
    return plan_migration(operator, package, options.approval)


def plan_migration(operator: Operator, package: Package, approval: str = AUTOMATIC) -> Plan:
    """The install of the package as a Subscription with this update approval, and then the deletion
    of the PlatformOperator, which has installed nothing; with a warning if the package is of
    another catalog than the PlatformOperator. Raises OlmwebError as plan_install."""
    plan = plan_install(operator.cluster, package, "", SUBSCRIPTION, {"approval": approval})
    deletion = Delete(operator.kind, operator.namespace, operator.name, operator.uid)
    own = f"{operator.kind} {operator.name} "
    warnings = [
        warning
        for warning in plan.warnings
        if not (warning.rule == "same-package" and warning.text.startswith(own))
    ]
    if operator.catalog and package.catalog.name != operator.catalog:
        text = (
            f"{own}is from catalog {operator.catalog}, the Subscription from"
            f" {package.catalog.name}: provider, versions and images can differ."
        )
        warnings.append(InstallWarning("another-catalog", text))
    return replace(
        plan,
        steps=(*plan.steps, deletion),
        warnings=tuple(warnings),
        consequences=(*plan.consequences, f"{own}is deleted when its Subscription is created."),
    )


def hash_of(change: BulkChange, cluster: Cluster, keys: Iterable[str], options: BulkOptions) -> str:
    """A hash of the change, its operators and options."""
    content = [change, cluster.pk, sorted(keys), options.only, options.approval]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
