"""Plans that begin again what failed, by the remedy of the failure at hand. Makes no request.

Most failures only need their controller to look again. What a controller never tries again is made
anew: a Subscription whose first InstallPlan failed, the unpacking of a bundle.
"""

import hashlib
from dataclasses import replace

from django.utils import timezone

from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle
from catalogs.resolve import BadQuestion, resolve
from catalogs.resolve.stored import facts_of
from installs.actions.change import (
    CSV,
    INSTALL_PLAN,
    catalog_package,
    installed_bundle,
    owned_manifest,
    plan_for,
    targets_of,
)
from installs.actions.objects import RETRIED
from installs.actions.plan import Plan, served_version
from installs.diagnosis.knowledge import by_id, fill_steps
from installs.models import NEEDS_ATTENTION, Action, Component, Operator
from installs.models.steps import Apply, Delete, Manifest, Step
from installs.state.observation import details_of
from olmweb.kube.resources import (
    BUNDLE_DEPLOYMENTS,
    BUNDLES,
    CONFIG_MAPS,
    JOBS,
    SUBSCRIPTIONS,
)

__all__ = ["LOOK", "plan_retry"]

LOOK = (
    "Its controller looks at it again at once instead of waiting. What was wrong with it stays "
    "wrong unless something else changed."
)
# The plan is gone, or what it installed: OLM v0 does not resolve the same version again.
_STUCK = ("plan-missing", "csv-gone")


def plan_retry(operator: Operator) -> Plan:
    """What makes this operator's controller try again, with deletions first where it needs them.

    A controller that tries again by itself, and a failure that no retry could cure, get an
    annotation with the time, so that it looks at once.
    """
    if operator.health in NEEDS_ATTENTION:
        if operator.kind == InstallMethod.SUBSCRIPTION:
            return _subscription(operator)
        if operator.kind == InstallMethod.PLATFORM_OPERATOR:
            return _platform_operator(operator)
    return _look_again(operator)


def _look_again(operator: Operator, *first: Step, sentences: tuple[str, ...] = (LOOK,)) -> Plan:
    """The object as it is, with a new annotation; `first` comes before that."""
    manifest = owned_manifest(operator)
    manifest["metadata"]["annotations"] = {RETRIED: timezone.now().isoformat(timespec="seconds")}
    return plan_for(
        operator,
        Action.Verb.RETRY,
        (*first, Apply(manifest, main=True)),
        consequences=sentences,
    )


# --- Subscriptions ------------------------------------------------------------------------------


def _subscription(operator: Operator) -> Plan:
    unpacks = _failed_unpacks(operator)
    if unpacks:
        names = ", ".join(sorted(unpacks))
        steps = [
            Delete(kind, operator.catalog_namespace, _unpack_name(image))
            for image in unpacks.values()
            for kind in (CONFIG_MAPS.kind, JOBS.kind)
        ]
        sentences = (
            f"The job that failed to unpack {names} is deleted, with the ConfigMap that it was to "
            f"fill, in the namespace of the catalog, {operator.catalog_namespace}.",
            "OLM then unpacks it anew at once instead of waiting. What was wrong with the image "
            "or its registry stays wrong unless something else changed.",
        )
        return _look_again(operator, *steps, sentences=sentences)
    plan = _part(operator, INSTALL_PLAN, str(details_of(operator).get("plan") or ""))
    if operator.finding not in _STUCK and (plan is None or plan.phase != "Failed"):
        return _look_again(operator)
    if why := _not_remade(operator, plan):
        hopeless = f"OLM does not try a plan that failed again, and {why}."
        looked = _look_again(operator, sentences=(hopeless, LOOK))
        return replace(looked, by_hand=_upgrade_by_hand(operator, plan))
    return _made_again(operator, plan)


def _made_again(operator: Operator, plan: Component | None) -> Plan:
    """The Subscription deleted and made again: nothing less makes OLM v0 resolve it anew.

    It keeps to the plan that it has, even when that has failed or is gone (catalog operator.go,
    nothingToUpdate; seen with OLM 0.42).
    """
    current = str(details_of(operator).get("current_csv") or "")
    csv = _part(operator, CSV, current)
    steps = [
        Delete(part.kind, part.namespace, part.name, part.uid)
        for part in (plan, csv)
        if part is not None
    ]
    steps.append(Delete(operator.kind, operator.namespace, operator.name, operator.uid, main=True))
    sentences = (
        "The Subscription and what its failed install left are deleted; then the Subscription is "
        "made again as it was, and OLM resolves and installs it anew.",
        "What made the InstallPlan fail makes the new one fail too unless it was put right.",
    )
    return plan_for(
        operator,
        Action.Verb.RETRY,
        (*steps, Apply(_whole(operator), main=True)),
        channel=operator.channel,
        consequences=sentences,
    )


def _not_remade(operator: Operator, plan: Component | None) -> str:
    """Why it can't be made again without losing something; empty when it can."""
    details = details_of(operator)
    current, installed = (
        str(details.get("current_csv") or ""),
        str(details.get("installed_csv") or ""),
    )
    csv = _part(operator, CSV, current)
    if csv is not None and csv.phase == "Succeeded":
        return f"{current} runs all the same, so nothing is deleted"
    replaced = str(details_of(csv).get("replaces") or "") if csv is not None else ""
    before = _part(operator, CSV, replaced)
    if before is not None or installed not in ("", current):
        there = before.name if before is not None else installed
        return f"{there} is installed, and would be in the way of a new Subscription"
    others = (
        [csv_name for csv_name in (details_of(plan).get("csvs") or []) if csv_name != current]
        if plan
        else []
    )
    if others:
        return f"the plan is also that of {', '.join(map(str, others[:3]))}"
    if details.get("config"):
        return "its spec.config is not known here, so it can't be made again as it was"
    return ""


# OLM 0.42 resolves anew for nothing less; what a person has to judge is left to one.
_UPGRADE = (
    "Put right what the InstallPlan names as its error: a new one would fail for it too.",
    "$ kubectl get installplan {plan} -n {namespace} -o yaml",
    "Save the Subscription. Leave apiVersion, kind, name, namespace, labels, annotations and spec "
    "in the file, and take spec.startingCSV out: it would begin with that version again.",
    "$ kubectl get subscription.operators.coreos.com {name} -n {namespace} -o yaml > kept.yaml",
    "Delete the Subscription, then the plan that failed.",
    "$ kubectl delete subscription.operators.coreos.com {name} -n {namespace}",
    "$ kubectl delete installplan {plan} -n {namespace}",
    "Delete the ClusterServiceVersions of both versions. Their Deployments go with them, so the "
    "operator is away until the end; its CustomResourceDefinitions and their objects stay.",
)
_BACK = (
    "Create the Subscription again. OLM installs the newest version of the channel, or waits for "
    "your approval of it.",
    "$ kubectl create -f kept.yaml",
)


def _upgrade_by_hand(operator: Operator, plan: Component | None) -> tuple[str, ...]:
    """The way out of an upgrade whose plan failed; none where that is not what happened, or where
    the plan is that of other operators as well."""
    details = details_of(operator)
    current, installed = (
        str(details.get("current_csv") or ""),
        str(details.get("installed_csv") or ""),
    )
    csv = _part(operator, CSV, current)
    replaced = str(details_of(csv).get("replaces") or "") if csv is not None else ""
    old = _part(operator, CSV, replaced) or _part(operator, CSV, installed)
    if plan is None or old is None or old.name == current:
        return ()
    shared = any(csv_name != current for csv_name in details_of(plan).get("csvs") or [])
    if shared or (csv is not None and csv.phase == "Succeeded"):
        return ()
    deleted = tuple(
        f"$ kubectl delete clusterserviceversion {{{key}}} -n {{namespace}}"
        for key, part in (("current", csv), ("old", old))
        if part is not None
    )
    values = {
        "name": operator.name,
        "namespace": operator.namespace,
        "plan": plan.name,
        "current": current,
        "old": old.name,
    }
    return fill_steps((*_UPGRADE, *deleted, *_BACK), values)


def _whole(operator: Operator) -> Manifest:
    """Everything of the Subscription's spec but its config."""
    details = details_of(operator)
    spec = {
        "name": operator.package,
        "source": operator.catalog,
        "sourceNamespace": operator.catalog_namespace,
        "channel": operator.channel,
        "startingCSV": str(details.get("starting_csv") or ""),
        "installPlanApproval": str(details.get("approval") or ""),
    }
    version = (
        served_version(operator.cluster, InstallMethod.SUBSCRIPTION) or SUBSCRIPTIONS.versions[0]
    )
    return {
        "apiVersion": f"{SUBSCRIPTIONS.group}/{version}",
        "kind": InstallMethod.SUBSCRIPTION.value,
        "metadata": {"name": operator.name, "namespace": operator.namespace},
        "spec": {key: value for key, value in spec.items() if value},
    }


def _failed_unpacks(operator: Operator) -> dict[str, str]:
    """Bundle -> image of what OLM v0 gave up unpacking for the Subscription.

    OLM says on every Subscription of a namespace that an unpack failed, and of which bundle only on
    an InstallPlan; else it is the one that comes next.
    """
    failed = any(
        row.get("type") == "BundleUnpackFailed" and row.get("status") == "True"
        for row in operator.conditions
    )
    plan = _part(operator, INSTALL_PLAN, str(details_of(operator).get("plan") or ""))
    lookups = details_of(plan).get("lookups") or [] if plan else []
    names = [
        str(row.get("identifier") or "")
        for row in lookups
        if any(
            status.get("type") == "BundleLookupFailed" and status.get("status") == "True"
            for status in row.get("conditions") or []
        )
    ]
    if not names and failed:
        names = [_next_bundle(operator)]
    package = catalog_package(operator)
    if package is None:
        return {}
    rows = Bundle.objects.filter(package__catalog=package.catalog_id, name__in=names)
    return dict(rows.exclude(image="").order_by("name").values_list("name", "image"))


def _next_bundle(operator: Operator) -> str:
    """The bundle that its channel leads to from what is installed; empty when there is none."""
    package = catalog_package(operator)
    if package is None:
        return ""
    if installed_bundle(operator):
        targets = targets_of(operator, package)
        return targets[-1].hops[0] if targets else ""
    if first := str(details_of(operator).get("starting_csv") or ""):
        return first
    try:
        channels = [operator.channel] if operator.channel else []
        resolution = resolve(facts_of(package), InstallMethod.SUBSCRIPTION, channels=channels)
    except BadQuestion:
        return ""
    return resolution.bundle


def _unpack_name(image: str) -> str:
    """What OLM v0 calls the ConfigMap and the Job of a bundle (bundle_unpacker.go, hash)."""
    return hashlib.sha256(image.encode()).hexdigest()[:63]


# --- PlatformOperators --------------------------------------------------------------------------


def _platform_operator(operator: Operator) -> Plan:
    """The manager of PlatformOperators leaves retries to rukpak, so rukpak's objects are acted on.

    A Bundle that failed to unpack is deleted, so that its BundleDeployment makes it again; but not
    where the content was read and refused: that would be so every time.
    """
    where = {"cluster": operator.cluster_id, "operator": operator}
    bundle = Component.objects.filter(**where, kind=BUNDLES.kind, phase="Failing").first()
    entry = by_id().get(operator.finding)
    if bundle is not None and (entry is None or entry.stage != "convert"):
        sentences = (
            f"Bundle {bundle.name}, which failed to unpack, is deleted; rukpak makes it again at "
            "once and unpacks it anew.",
            "What was wrong with the image or its registry stays wrong unless something else "
            "changed.",
        )
        steps = (Delete(bundle.kind, "", bundle.name, bundle.uid),)
        return _look_again(operator, *steps, sentences=sentences)
    deployment = Component.objects.filter(**where, kind=BUNDLE_DEPLOYMENTS.kind).first()
    if deployment is None:
        return _look_again(operator)
    version = operator.cluster.kinds.get(deployment.kind, {}).get("version")
    marked = {
        "apiVersion": f"{BUNDLE_DEPLOYMENTS.group}/{version or BUNDLE_DEPLOYMENTS.versions[-1]}",
        "kind": deployment.kind,
        "metadata": {
            "name": deployment.name,
            "uid": deployment.uid,
            "annotations": {RETRIED: timezone.now().isoformat(timespec="seconds")},
        },
    }
    return _look_again(operator, Apply(marked))


def _part(operator: Operator, kind: str, name: str) -> Component | None:
    """An object of this name in the Subscription's own namespace."""
    if not name:
        return None
    return Component.objects.filter(
        cluster=operator.cluster_id, kind=kind, namespace=operator.namespace, name=name
    ).first()
