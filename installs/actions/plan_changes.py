"""Plans for existing operators: upgrade and approval. Makes no request.

The fields that an upgrade applies are set by `upgrade` of the install methods (installs.methods).
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, Value, When

from catalogs.graph.routes import in_words
from catalogs.install_methods import InstallMethod
from catalogs.models import Package
from catalogs.resolve import analysis, v1
from catalogs.resolve.facts import ResolverPackage
from catalogs.resolve.stored import facts_of
from catalogs.sources.access_methods import PACKAGE_MANIFEST
from catalogs.verdicts.read import StoredVerdict
from installs.actions.objects import version_of
from installs.actions.plan import Plan, verdict_on
from installs.actions.upgrade_route import UpgradeProgress, progress_on, route_of, steps_after
from installs.diagnosis.approvals import Approval, approval, listing
from installs.diagnosis.evaluate import APPROVAL
from installs.facts.cluster_facts import watched_from
from installs.facts.evaluate import target_of, verdicts_on
from installs.methods import METHODS
from installs.methods.base import UpgradeChange, manifest_of
from installs.methods.configuration import CONFIG
from installs.models import Action, Component, Operator
from installs.models.steps import Apply, Step
from installs.queries.activity import recorded_routes
from installs.state.observation import details_of, observe
from olmweb.errors import BadRequest, OlmwebError
from olmweb.kube.resources import CLUSTER_SERVICE_VERSIONS, INSTALL_PLANS
from olmweb.models import Cluster

INSTALL_PLAN, CSV = INSTALL_PLANS.kind, CLUSTER_SERVICE_VERSIONS.kind
TARGETS_SHOWN = 30
PLAN_WAITING = "plan-waiting"  # code: an InstallPlan requires approval


@dataclass(frozen=True, slots=True)
class UpgradeTarget:
    """A version that can follow the installed one. `hops` are the bundles on the route, `bundle`
    the last of them."""

    bundle: str
    version: str
    channel: str
    hops: tuple[str, ...]


def catalog_package(operator: Operator) -> Package | None:
    """The package in the operator's catalog, else in another catalog of its cluster, one that was
    read with its upgrade graph before one without; one query."""
    rows = Package.objects.select_related("catalog").filter(
        name=operator.package, catalog__cluster=operator.cluster_id
    )
    others = Case(When(catalog__name=operator.catalog, then=Value(0)), default=Value(1))
    no_graph = Case(When(catalog__access_method=PACKAGE_MANIFEST, then=Value(1)), default=Value(0))
    return rows.order_by(others, no_graph, "catalog__name", "pk").first()


@dataclass(frozen=True, slots=True)
class CatalogOffer:
    """The package of an operator in a catalog, with the facts that upgrades are resolved from."""

    package: Package
    facts: ResolverPackage


def catalog_offer(operator: Operator) -> CatalogOffer | None:
    """Four queries, one without the package; as `catalog_package` and `facts_of`."""
    package = catalog_package(operator)
    return CatalogOffer(package, facts_of(package)) if package else None


def installed_bundle(operator: Operator) -> str:
    method = METHODS.get(operator.kind)
    return method.installed_bundle(operator) if method else operator.bundle


def progress_of(operator: Operator, route: Sequence[str] | None) -> UpgradeProgress | None:
    """How far the operator is on the route; None if it is not on its way."""
    manual = details_of(operator).get("approval") == "Manual"
    return progress_on(route, installed_bundle(operator), manual=manual)


def targets_of(
    operator: Operator, facts: ResolverPackage, channel: str = ""
) -> list[UpgradeTarget]:
    """The versions that follow the installed one by the rules of its OLM: the TARGETS_SHOWN most
    preferred ones, nearest last. No query."""
    start = installed_bundle(operator)
    method = METHODS.get(operator.kind)
    if method is None or not method.upgradable or not start:
        return []
    is_v0 = method.semantics == analysis.V0
    if is_v0:
        channel = channel or operator.channel or facts.default_channel
    if is_v0 and channel not in facts.channels:
        return []
    analysed = analysis.analyse(facts, method.semantics, channel)
    listed = facts.channels_of()
    targets: list[UpgradeTarget] = []
    for bundle in v1.preference(list(facts.by_name().values())):
        if len(targets) == TARGETS_SHOWN:
            break
        if bundle.name not in analysed.names or bundle.name == start:
            continue
        route = analysis.route_to(analysed, start, bundle.name)
        if not route.reached or not route.hops:
            continue
        where = channel or next(iter(listed.get(bundle.name, ())), "")
        targets.append(
            UpgradeTarget(
                bundle.name, bundle.version, where, tuple(hop.target for hop in route.hops)
            )
        )
    return targets


def further_channels(
    operator: Operator, facts: ResolverPackage, targets: list[UpgradeTarget]
) -> list[tuple[str, list[str]]]:
    """The channels of a Subscription that lead to versions which are not among the targets, with
    these versions, the highest first. No query."""
    method = METHODS.get(operator.kind)
    if method is None or method.semantics != analysis.V0:
        return []
    shown = {target.bundle for target in targets}
    channels = []
    for channel in sorted(facts.channels):
        offered = targets_of(operator, facts, channel)
        if versions := [target.version for target in offered if target.bundle not in shown]:
            channels.append((channel, versions))
    return channels


def path_over(operator: Operator, facts: ResolverPackage, targets: list[UpgradeTarget]) -> str:
    """The upgrade path to the first of the targets in words; empty if it is one step."""
    if not targets or len(targets[0].hops) < 2:
        return ""
    versions = {bundle.name: bundle.version for bundle in facts.bundles}
    return in_words(installed_bundle(operator), targets[0].hops, versions)


def verdicts_on_targets(
    operator: Operator, package: Package, targets: list[UpgradeTarget]
) -> dict[str, StoredVerdict]:
    """Bundle -> stored verdict for the operator's install method."""
    needs_group = METHODS[operator.kind].needs_group
    watched = watched_from(operator.cluster, operator.namespace) if needs_group else ()
    target = target_of(watched, operator.namespace)
    names = [version.bundle for version in targets]
    return verdicts_on(operator.cluster, package, names, operator.kind, target)


def plan_upgrade(
    operator: Operator, values: dict[str, str], offer: CatalogOffer | None = None
) -> Plan:
    """Another channel or approval of a Subscription; another version, channel or policy of a
    ClusterExtension. `offer` is that of the catalog if it is read already. Raises OlmwebError for
    other operators and invalid values."""
    method = METHODS.get(operator.kind)
    if method is None or not method.upgradable:
        raise OlmwebError(
            f"A {operator.kind} can't be upgraded: it keeps the version it was installed with.",
            code="not-upgradable",
            status=409,
        )
    problems = method.upgrade_problems(operator, values)
    if problems:
        raise BadRequest(" ".join(problems.values()), **problems)
    waiting = waiting_plan(operator)
    if waiting is not None and method.keeps(operator, values):
        raise OlmwebError(
            f"Nothing would change: InstallPlan {waiting.plan} requires approval.",
            code=PLAN_WAITING,
            status=409,
            hint=f"Approve InstallPlan {waiting.plan} in namespace {waiting.namespace}, or choose "
            "another channel.",
        )
    manifest = owned_manifest(operator)
    change = method.upgrade(manifest, operator, values)
    offer = offer or catalog_offer(operator)
    target, verdict = "", None
    route: tuple[str, ...] = ()
    sentences: list[str] = []
    if offer is not None:
        route, sentences = _route(operator, offer.facts, change)
        if route:
            target = route[-1]
            verdict = verdict_on(
                operator.cluster, offer.package, target, operator.kind, operator.namespace
            )
    if waiting is not None:
        sentences.append(f"InstallPlan {waiting.plan} still requires approval.")
    return plan_for(
        operator,
        Action.Verb.UPGRADE,
        (Apply(manifest, main=True),),
        channel=change.channel,
        version=change.version,
        target=target,
        route=route_of(route[0], route[1:]) if route else (),
        force=values.get("take") == "yes",
        consequences=tuple(sentences),
        verdict=verdict,
    )


def _route(
    operator: Operator, facts: ResolverPackage, change: UpgradeChange
) -> tuple[tuple[str, ...], list[str]]:
    """The bundles from the installed one to that which the upgrade ends with, and the same in
    sentences."""
    wanted = v1.read_range(change.version) if change.version else None
    bundles = {bundle.name: bundle for bundle in facts.bundles}
    for target in targets_of(operator, facts, change.channel):
        released = v1.release_of(bundles[target.bundle])
        if wanted is None or (released is not None and wanted(released.version)):
            route = (installed_bundle(operator), *target.hops)
            return route, [f"Upgrade path: {' to '.join(route)}."]
    if not (now := installed_bundle(operator)):
        return (), ["Nothing is installed yet; the change applies to the first installation."]
    return (), [f"No requested version is an upgrade of {now}; the version stays."]


def waiting_plan(operator: Operator) -> Approval | None:
    """What the InstallPlan of the Subscription that requires approval changes; at most two
    queries."""
    waiting = waiting_install_plan(operator)
    return waiting[1] if waiting else None


def waiting_install_plan(operator: Operator) -> tuple[Component, Approval] | None:
    """The InstallPlan of the Subscription that requires approval, and what it changes; at most two
    queries."""
    details = details_of(operator)
    if operator.kind != InstallMethod.SUBSCRIPTION or not details.get("plan"):
        return None
    plan = Component.objects.filter(
        cluster=operator.cluster_id,
        kind=INSTALL_PLAN,
        namespace=details.get("plan_namespace") or operator.namespace,
        name=details["plan"],
        phase=APPROVAL,
    ).first()
    approval_now = approval_of(operator.cluster, plan) if plan else None
    return (plan, approval_now) if plan and approval_now and approval_now.needed else None


def explain_reach(operator: Operator, waiting: Approval, targets: list[UpgradeTarget]) -> str:
    """Why the waiting InstallPlan does not reach the first of the targets; empty if it does."""
    planned = {
        change.csv for change in waiting.changes if change.subscription in ("", operator.name)
    }
    if not targets or targets[0].bundle in planned:
        return ""
    wanted = targets[0]
    path = " → ".join((installed_bundle(operator), *wanted.hops))
    if planned & set(wanted.hops):
        return (
            f"It does not reach {wanted.bundle} yet: the upgrade path is {path}. OLM creates the "
            "next InstallPlan when this one is completed."
        )
    return (
        f"{listing(sorted(planned)) or 'Its content'} is not on the upgrade path to "
        f"{wanted.bundle}: {path}."
    )


def plan_approve(cluster: Cluster, plan: Component, only: str = "") -> Plan:
    """Approves all of an InstallPlan; with `only`, the name of a ClusterServiceVersion, the dry run
    and the worker refuse it if the InstallPlan carries anything else.

    Raises OlmwebError if it does not wait for approval.
    """
    return plan_approval(cluster, plan, approval_of(cluster, plan), only)


def plan_approval(cluster: Cluster, plan: Component, approval_now: Approval, only: str) -> Plan:
    """As plan_approve, for an InstallPlan whose changes are read already; no query for a cluster
    whose API versions are read."""
    if not approval_now.needed:
        raise OlmwebError(
            f"InstallPlan {plan.name} needs no approval: its phase is {plan.phase or 'not set'}.",
            code="not-waiting",
            status=409,
        )
    version = version_of(cluster, INSTALL_PLANS)
    spec = {"approved": True}
    manifest = manifest_of(INSTALL_PLANS, plan.name, plan.namespace, version, spec=spec)
    carried = approval_now.carried
    return Plan(
        cluster=cluster,
        verb=Action.Verb.APPROVE,
        kind=INSTALL_PLAN,
        namespace=plan.namespace,
        name=plan.name,
        steps=(Apply(manifest, main=True),),
        package=next((item.package for item in approval_now.changes if item.package), ""),
        version=only,
        target=",".join(change.csv for change in carried)[:500],
        uid=plan.uid,
        # OLM owns `approved` until somebody approves, so the field is taken over.
        force=True,
        consequences=(approval_now.sentence,),
    )


def approval_of(cluster: Cluster, plan: Component) -> Approval:
    rows = Operator.objects.filter(
        cluster=cluster, kind=InstallMethod.SUBSCRIPTION, namespace=plan.namespace
    ).order_by("name")
    return approval(observe(plan), [observe(row) for row in rows])


def route_of_approval(plan: Plan) -> tuple[str, ...]:
    """The route that the approval of an InstallPlan begins or continues; empty if the InstallPlan
    is about several Subscriptions. At most six queries."""
    bundles = plan.target.split(",")
    rows = Operator.objects.select_related("cluster").filter(
        cluster=plan.cluster, kind=InstallMethod.SUBSCRIPTION, namespace=plan.namespace
    )
    operators = [row for row in rows if details_of(row).get("current_csv") in bundles]
    if len(operators) != 1:
        return ()
    operator = operators[0]
    installed, following = installed_bundle(operator), str(details_of(operator)["current_csv"])
    actions = Action.objects.filter(
        cluster=plan.cluster, namespace=operator.namespace, package=operator.package
    )
    recorded = recorded_routes(actions).values_list("route", flat=True).first()
    progress = progress_on(recorded, installed)
    if progress and progress.route[progress.done + 1] == following:
        return progress.route
    before = progress.route[: progress.done + 1] if progress else (installed,)
    later: tuple[str, ...] = ()
    if offer := catalog_offer(operator):
        later = steps_after(offer.facts, operator.channel, following)
    return route_of(before[0], (*before[1:], following, *later))


def owned_manifest(operator: Operator) -> dict[str, Any]:
    """The manifest that OLM Web applied to this object last, else a minimal one.

    Server-side apply removes owned fields that an apply leaves out, so none may be missing.
    """
    ours = (
        Action.objects.filter(
            cluster=operator.cluster_id,
            path=operator.kind,
            namespace=operator.namespace,
            name=operator.name,
            object_uid=operator.uid,
            sent_at__isnull=False,
        )
        .exclude(verb=Action.Verb.REMOVE)
        .exclude(state=Action.State.REFUSED)
        .first()
    )
    if ours is not None and operator.uid:
        return copy.deepcopy(ours.main.manifest)
    method = METHODS[operator.kind]
    version = version_of(operator.cluster, method.resource)
    return manifest_of(
        *(method.resource, operator.name, operator.namespace, version),
        spec=method.least_spec(operator),
    )


def applied_config(operator: Operator) -> dict[str, Any] | None:
    """The operator's `spec.config` as far as rows tell: that of the last apply, if the object still
    has its fields; None if only the cluster knows it. At most one query."""
    details = details_of(operator)
    fields = sorted(details.get("config") or [])
    if not fields and not details.get("config_type"):
        return {}
    applied: dict[str, Any] = owned_manifest(operator)["spec"].get(CONFIG) or {}
    same = fields == sorted(applied)[:20] if fields else bool(applied)
    return applied if same else None


def plan_for(operator: Operator, verb: Action.Verb, steps: tuple[Step, ...], **more: Any) -> Plan:
    return Plan(
        cluster=operator.cluster,
        verb=verb,
        kind=operator.kind,
        namespace=operator.namespace,
        name=operator.name,
        steps=steps,
        package=operator.package,
        catalog=operator.catalog,
        uid=operator.uid,
        **more,
    )
