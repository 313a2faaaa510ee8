"""Plans for what is there already: upgrade, approve, remove. Makes no request."""

import copy
from dataclasses import dataclass
from typing import Any

from catalogs.install_methods import InstallMethod
from catalogs.models import Package
from catalogs.resolve import analysis, v1
from catalogs.resolve.facts import BadQuestion
from catalogs.resolve.stored import facts_of
from catalogs.verdicts.read import StoredVerdict
from installs.actions.objects import step
from installs.actions.plan import RESOURCES, Plan, served_version, verdict_on
from installs.diagnosis import Approval, approval
from installs.facts.operator_groups import watched_from
from installs.facts.stored_verdicts import target_of, verdicts_on
from installs.methods import MANUAL
from installs.models import Action, Component, CRDState, Operator
from installs.state.observation import details_of, observe
from olmweb.errors import BadRequest, OlmwebError
from olmweb.kube.resources import CLUSTER_SERVICE_VERSIONS, INSTALL_PLANS
from olmweb.models import Cluster

INSTALL_PLAN, CSV = INSTALL_PLANS.kind, CLUSTER_SERVICE_VERSIONS.kind
REMOVABLE = (
    InstallMethod.PLATFORM_OPERATOR,
    InstallMethod.CLUSTER_EXTENSION,
    InstallMethod.SUBSCRIPTION,
)
UPGRADABLE = (InstallMethod.CLUSTER_EXTENSION, InstallMethod.SUBSCRIPTION)
TARGETS_SHOWN = 30


@dataclass(frozen=True, slots=True)
class Target:
    """A version that could follow the installed one. `hops` are the bundles on the way, the last
    one included."""

    bundle: str
    version: str
    channel: str
    hops: tuple[str, ...]


def catalog_package(operator: Operator) -> Package | None:
    """The package in the catalog that the operator names, else in another of its cluster."""
    rows = Package.objects.select_related("catalog").filter(
        name=operator.package, catalog__cluster=operator.cluster_id
    )
    return (
        rows.filter(catalog__name=operator.catalog).first()
        or rows.order_by("catalog__name").first()
    )


def installed_bundle(operator: Operator) -> str:
    if operator.kind == InstallMethod.SUBSCRIPTION:
        return str(details_of(operator).get("installed_csv") or "")
    return operator.bundle


def targets_of(operator: Operator, package: Package, channel: str = "") -> list[Target]:
    """Where the operator can go from what is installed, by the rules of its OLM: the TARGETS_SHOWN
    that it would prefer, nearest last."""
    start = installed_bundle(operator)
    if operator.kind not in UPGRADABLE or not start:
        return []
    facts = facts_of(package)
    is_v0 = operator.kind == InstallMethod.SUBSCRIPTION
    channel = channel or (operator.channel if is_v0 else "")
    if is_v0 and channel not in facts.channels:
        return []
    found = analysis.analyse(facts, analysis.V0 if is_v0 else analysis.V1, channel)
    listed = facts.channels_of()
    targets: list[Target] = []
    for bundle in v1.preference(list(facts.by_name().values())):
        if len(targets) == TARGETS_SHOWN:
            break
        if bundle.name not in found.names or bundle.name == start:
            continue
        way = analysis.way_to(found, start, bundle.name)
        if not way.reached or not way.hops:
            continue
        where = channel or next(iter(listed.get(bundle.name, ())), "")
        targets.append(
            Target(bundle.name, bundle.version, where, tuple(hop.target for hop in way.hops))
        )
    return targets


def verdicts_on_targets(
    operator: Operator, package: Package, targets: list[Target]
) -> dict[str, StoredVerdict]:
    """Bundle -> stored verdict, as the operator's own path would install it."""
    way = target_of((), "")
    if operator.kind == InstallMethod.SUBSCRIPTION:
        watched = watched_from(operator.cluster, operator.namespace)
        way = target_of(watched, operator.namespace)
    names = [target.bundle for target in targets]
    return verdicts_on(operator.cluster, package, names, operator.kind, way)


def plan_upgrade(operator: Operator, asked: dict[str, str]) -> Plan:
    """Another channel or approval of a Subscription; another version, channel or policy of a
    ClusterExtension. Raises OlmwebError for what can't be asked so."""
    if operator.kind not in UPGRADABLE:
        raise OlmwebError(
            f"A {operator.kind} can't be upgraded: it keeps the version it was installed with.",
            code="not-upgradable",
            status=409,
        )
    manifest = owned_manifest(operator)
    if operator.kind == InstallMethod.SUBSCRIPTION:
        channel, version = _change_subscription(manifest, operator, asked), ""
    else:
        channel, version = _change_extension(manifest, operator, asked)
    package = catalog_package(operator)
    target, verdict = "", None
    sentences: list[str] = []
    if package is not None:
        target, sentences = _target(operator, package, channel, version)
        verdict = verdict_on(operator.cluster, package, target, operator.kind, operator.namespace)
    return plan_for(
        operator,
        Action.Verb.UPGRADE,
        (manifest,),
        channel=channel,
        version=version,
        target=target,
        force=asked.get("take") == "yes",
        consequences=tuple(sentences),
        verdict=verdict,
    )


def _change_subscription(
    manifest: dict[str, Any], operator: Operator, asked: dict[str, str]
) -> str:
    spec = manifest["spec"]
    channel = asked.get("channel", "").strip() or operator.channel
    how = asked.get("approval", "").strip() or str(details_of(operator).get("approval") or "")
    if how not in ("", "Automatic", MANUAL):
        raise BadRequest("The approval is Automatic or Manual.", approval="Automatic or Manual.")
    spec |= {"channel": channel} if channel else {}
    spec |= {"installPlanApproval": how} if how else {}
    return channel


def _change_extension(
    manifest: dict[str, Any], operator: Operator, asked: dict[str, str]
) -> tuple[str, str]:
    catalog = manifest["spec"]["source"]["catalog"]
    version = asked.get("version", "").strip() or operator.version_asked
    channel = asked.get("channel", "").strip()
    policy = asked.get("policy", "").strip()
    try:
        v1.read_range(version)
    except BadQuestion as error:
        raise BadRequest(str(error), version=str(error)) from None
    catalog |= {"version": version} if version else {}
    catalog |= {"channels": [channel]} if channel else {}
    catalog |= {"upgradeConstraintPolicy": policy} if policy else {}
    return channel, version


def _target(
    operator: Operator, package: Package, channel: str, version: str
) -> tuple[str, list[str]]:
    """The bundle that it will end with, and the way there in sentences."""
    targets = targets_of(operator, package, channel)
    wanted = v1.read_range(version) if operator.kind == InstallMethod.CLUSTER_EXTENSION else None
    facts = {one.name: one for one in facts_of(package).bundles}
    for target in targets:
        released = v1.release_of(facts[target.bundle])
        if wanted is None or (released is not None and wanted(released.version)):
            way = " to ".join((installed_bundle(operator), *target.hops))
            return target.bundle, [f"The way: {way}."]
    now = installed_bundle(operator) or "what is there"
    return "", [f"Nothing that this asks for follows {now}: it stays."]


def plan_approve(cluster: Cluster, plan: Component) -> Plan:
    """Approving all that an InstallPlan carries. Raises OlmwebError when nothing waits."""
    found = approval_of(cluster, plan)
    if not found.needed:
        raise OlmwebError(
            f"InstallPlan {plan.name} waits for nobody: its phase is {plan.phase or 'not set'}.",
            code="not-waiting",
            status=409,
        )
    version = cluster.kinds.get(INSTALL_PLAN, {}).get("version") or INSTALL_PLANS.versions[0]
    manifest = {
        "apiVersion": f"{INSTALL_PLANS.group}/{version}",
        "kind": INSTALL_PLAN,
        "metadata": {"name": plan.name, "namespace": plan.namespace},
        "spec": {"approved": True},
    }
    others = [one.csv for one in found.changes if one.action != "keep"]
    return Plan(
        cluster=cluster,
        verb=Action.Verb.APPROVE,
        path=INSTALL_PLAN,
        namespace=plan.namespace,
        name=plan.name,
        manifests=(manifest,),
        package=next((one.package for one in found.changes if one.package), ""),
        target=",".join(others)[:500],
        uid=plan.uid,
        # `approved` is OLM's own until somebody approves: approving is taking it over.
        force=True,
        consequences=(found.sentence,),
    )


def approval_of(cluster: Cluster, plan: Component) -> Approval:
    rows = Operator.objects.filter(
        cluster=cluster, kind=InstallMethod.SUBSCRIPTION, namespace=plan.namespace
    ).order_by("name")
    return approval(observe(plan), [observe(row) for row in rows])


def plan_remove(operator: Operator) -> Plan:
    """Deletes this very object; of a Subscription first itself, then what it installed.

    In that order, because a Subscription whose ClusterServiceVersion goes first installs it again.
    """
    if operator.kind not in REMOVABLE:
        raise OlmwebError(
            f"OLM Web does not remove objects of the kind {operator.kind}.",
            code="not-removable",
            status=409,
        )
    steps = [step(operator.kind, operator.namespace, operator.name, operator.uid)]
    csv = str(details_of(operator).get("installed_csv") or "")
    if operator.kind == InstallMethod.SUBSCRIPTION and csv:
        row = Component.objects.filter(
            cluster=operator.cluster_id, kind=CSV, namespace=operator.namespace, name=csv
        ).first()
        steps.append(step(CSV, operator.namespace, csv, row.uid if row else ""))
    return plan_for(
        operator,
        Action.Verb.REMOVE,
        tuple(steps),
        consequences=removal_consequences(operator),
    )


def removal_consequences(operator: Operator) -> tuple[str, ...]:
    """What goes with a removal and what stays, in sentences."""
    crds = owned_crds(operator)
    counted = f"{len(crds)} CustomResourceDefinition{'s' if len(crds) != 1 else ''}"
    names = ", ".join(one.name for one in crds[:5]) + (" and more" if len(crds) > 5 else "")
    listed = f" ({names})" if names else ""
    if operator.kind == InstallMethod.SUBSCRIPTION and not installed_bundle(operator):
        return (
            f"Subscription {operator.name} is deleted. It has installed nothing so far; its "
            "OperatorGroup and namespace stay.",
        )
    if operator.kind == InstallMethod.SUBSCRIPTION:
        return (
            f"Subscription {operator.name} and the ClusterServiceVersion that it installed are "
            "deleted, and with that its Deployments, roles and webhooks.",
            f"Its {counted}{listed} and every object of these kinds stay; so do the OperatorGroup, "
            "the namespace, and operators that came along as dependencies.",
        )
    return (
        f"{operator.kind} {operator.name} and every object that it installed are deleted.",
        f"Its {counted if crds else 'CustomResourceDefinitions'}{listed} go too, and with them "
        "every object of these kinds in every namespace.",
    )


def owned_crds(operator: Operator) -> list[CRDState]:
    """The definitions that are known to belong to the operator."""
    owners: dict[str, tuple[str, str]] = {
        InstallMethod.PLATFORM_OPERATOR: ("BundleDeployment", operator.name),
        InstallMethod.CLUSTER_EXTENSION: (InstallMethod.CLUSTER_EXTENSION, operator.name),
        InstallMethod.SUBSCRIPTION: ("Operator", f"{operator.package}.{operator.namespace}"),
    }
    kind, name = owners.get(operator.kind, ("", ""))
    rows = CRDState.objects.filter(cluster=operator.cluster_id, owner_kind=kind, owner_name=name)
    return list(rows.order_by("name"))


def owned_manifest(operator: Operator) -> dict[str, Any]:
    """What OLM Web applied of this object last, else the least that its kind asks for.

    Server-side apply takes away what an apply leaves out, so nothing that is ours may be missing.
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
        return copy.deepcopy(dict(ours.manifests[-1]))
    version = served_version(operator.cluster, operator.kind)
    resource = RESOURCES[operator.kind]
    metadata = {"name": operator.name}
    metadata |= {"namespace": operator.namespace} if operator.namespace else {}
    return {
        "apiVersion": f"{resource.group}/{version or resource.versions[0]}",
        "kind": operator.kind,
        "metadata": metadata,
        "spec": _least(operator),
    }


def _least(operator: Operator) -> dict[str, Any]:
    if operator.kind == InstallMethod.SUBSCRIPTION:
        return {
            "name": operator.package,
            "source": operator.catalog,
            "sourceNamespace": operator.catalog_namespace,
        }
    if operator.kind == InstallMethod.PLATFORM_OPERATOR:
        return {"package": {"name": operator.package}}
    return {
        "namespace": str(details_of(operator).get("namespace") or ""),
        "source": {"sourceType": "Catalog", "catalog": {"packageName": operator.package}},
    }


def plan_for(
    operator: Operator, verb: Action.Verb, manifests: tuple[dict[str, Any], ...], **more: Any
) -> Plan:
    return Plan(
        cluster=operator.cluster,
        verb=verb,
        path=operator.kind,
        namespace=operator.namespace,
        name=operator.name,
        manifests=manifests,
        package=operator.package,
        catalog=operator.catalog,
        uid=operator.uid,
        **more,
    )
