"""Plans of retries, by the remedy of the failure. Makes no request.

For most failures it is enough that the controller reconciles again. Objects that a controller never
tries again are deleted: a Subscription whose first InstallPlan failed, the objects of a failed
unpacking.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.utils import timezone

from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Package
from catalogs.resolve import BadQuestion, resolve
from catalogs.resolve.stored import facts_of
from installs.actions.objects import RETRIED, version_of
from installs.actions.plan import Plan
from installs.actions.plan_changes import (
    CSV,
    INSTALL_PLAN,
    applied_config,
    catalog_package,
    installed_bundle,
    owned_manifest,
    plan_for,
    targets_of,
)
from installs.diagnosis.entries import by_id
from installs.diagnosis.remedies import fill_steps
from installs.methods import METHODS
from installs.methods.base import manifest_of
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

LOOK = (
    "Its controller reconciles it at once instead of waiting. The problem stays unless its cause "
    "was fixed."
)
_UNPACKS_DELETED = (
    "The job that failed to unpack {} is deleted, with the ConfigMap that it was to fill, in the "
    "namespace of the catalog, {}."
)
_UNPACKED_AGAIN = (
    "OLM then unpacks it again at once. A problem of the image or its registry stays unless its "
    "cause was fixed."
)
_PLAN_DELETED = (
    "The InstallPlan that failed before it had made its ClusterServiceVersion is deleted; OLM then "
    "resolves again and makes a new one, which fails, too, unless the cause of the failure was "
    "fixed."
)
# The plan or the CSV that it installed is gone: OLM v0 does not resolve the same version again.
_STUCK = ("plan-missing", "csv-gone")


def plan_retry(operator: Operator) -> Plan:
    """Makes the operator's controller try again, after deletions where it needs them.

    A healthy operator, and one whose controller tries again by itself, gets an annotation with the
    time, which makes the controller reconcile at once.
    """
    remedies = {
        InstallMethod.SUBSCRIPTION.value: _subscription,
        InstallMethod.PLATFORM_OPERATOR.value: _platform_operator,
    }
    if operator.health in NEEDS_ATTENTION and operator.kind in remedies:
        return remedies[operator.kind](operator)
    return _look_again(operator)


def _look_again(operator: Operator, *first: Step, sentences: tuple[str, ...] = (LOOK,)) -> Plan:
    """The steps `first`, then the object with a new annotation.

    OLM v0 resolves a namespace whenever one of its Subscriptions changes, also after a resolution
    that failed for unsatisfiable constraints, which it does not repeat (operator-lifecycle-manager
    0.42, pkg/controller/operators/catalog/operator.go, syncSubscriptions and
    syncResolvingNamespace). That is needed after the deletion of a ClusterServiceVersion in the
    way: no handler looks at those, and OLM notices one only by the OperatorGroup's annotation
    olm.providedAPIs. The failure is not stale if it lasts: an InstallPlan that is not complete is
    executed again and brings the deleted version back.
    """
    steps = (*first, Apply(_annotated(owned_manifest(operator)), main=True))
    return plan_for(operator, Action.Verb.RETRY, steps, consequences=sentences)


def _annotated(manifest: Manifest) -> Manifest:
    manifest["metadata"]["annotations"] = {RETRIED: timezone.now().isoformat(timespec="seconds")}
    return manifest


# --- Subscriptions ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Parts:
    """The objects of a Subscription: its InstallPlan, the CSV that it installs, and the one that it
    replaces; None for those that do not exist. `current` and `installed` are the names of CSVs."""

    current: str
    installed: str
    plan: Component | None
    csv: Component | None
    replaced: Component | None

    @property
    def is_running(self) -> bool:
        return self.csv is not None and self.csv.phase == "Succeeded"

    @property
    def plan_failed(self) -> bool:
        return self.plan is not None and self.plan.phase == "Failed"

    @property
    def is_plan_alone(self) -> bool:
        """Whether a failed plan never made its CSV, and is of no other Subscription.

        When that plan is gone, OLM v0 takes it off the Subscription and resolves again
        (InstallPlanNotFound in catalog subscription/state.go, at least since release 0.18; seen
        with OLM 0.42). It does not do so for a Subscription whose CSV it has seen.
        """
        unseen = self.csv is None and self.installed != self.current
        return self.plan_failed and unseen and not self.other_csvs

    @property
    def other_csvs(self) -> list[str]:
        """The CSVs of other Subscriptions in the plan."""
        csvs = details_of(self.plan).get("csvs") or [] if self.plan else []
        return [str(name) for name in csvs if name != self.current]


def _parts(operator: Operator) -> _Parts:
    details = details_of(operator)
    current = str(details.get("current_csv") or "")
    csv = _part(operator, CSV, current)
    replaced = str(details_of(csv).get("replaces") or "") if csv is not None else ""
    return _Parts(
        current=current,
        installed=str(details.get("installed_csv") or ""),
        plan=_part(operator, INSTALL_PLAN, str(details.get("plan") or "")),
        csv=csv,
        replaced=_part(operator, CSV, replaced),
    )


def _part(operator: Operator, kind: str, name: str) -> Component | None:
    """An object of this name in the Subscription's namespace."""
    if not name:
        return None
    return Component.objects.filter(
        cluster=operator.cluster_id, kind=kind, namespace=operator.namespace, name=name
    ).first()


def _subscription(operator: Operator) -> Plan:
    """Deletes what keeps OLM from trying again: the objects of a failed unpacking, which go on to
    report their failure, and a failed InstallPlan with what it left.

    Releases 0.18 to 0.24 of OLM v0 unpack for an InstallPlan and let it fail with its job; newer
    ones unpack before they make one (syncInstallPlans and syncResolvingNamespace in catalog
    operator.go).
    """
    parts = _parts(operator)
    unpacks = _failed_unpacks(operator, parts.plan)
    deletions = [
        Delete(kind, operator.catalog_namespace, _unpack_name(image))
        for image in unpacks.values()
        for kind in (CONFIG_MAPS.kind, JOBS.kind)
    ]
    names = ", ".join(sorted(unpacks))
    sentences = (_UNPACKS_DELETED.format(names, operator.catalog_namespace),) if unpacks else ()
    if operator.finding not in _STUCK and not parts.plan_failed:
        sentences = (*sentences, _UNPACKED_AGAIN) if unpacks else (LOOK,)
        return _look_again(operator, *deletions, sentences=sentences)
    if parts.plan is not None and parts.is_plan_alone:
        deletions.append(Delete(INSTALL_PLAN, operator.namespace, parts.plan.name, parts.plan.uid))
        sentences = (*sentences, _PLAN_DELETED)
        return _look_again(operator, *deletions, sentences=sentences)
    if why := _remake_hindrance(operator, parts):
        hopeless = f"OLM does not try a plan that failed again, and {why}."
        looked = _look_again(operator, *deletions, sentences=(hopeless, *sentences, LOOK))
        return replace(looked, by_hand=_upgrade_by_hand(operator, parts))
    return _remake(operator, parts, deletions, sentences)


def _remake(
    operator: Operator, parts: _Parts, unpacks: Sequence[Delete], first: tuple[str, ...]
) -> Plan:
    """Deletes the Subscription and makes it again: nothing less makes OLM v0 resolve it anew.

    `unpacks` are deleted, too, and `first` says so. While its ClusterServiceVersion exists, OLM
    keeps its plan even when that has failed or is gone (catalog operator.go, nothingToUpdate, and
    subscription/state.go, InstallPlanNotFound; seen with OLM 0.42).
    """
    steps = [*unpacks]
    steps += [
        Delete(part.kind, part.namespace, part.name, part.uid)
        for part in (parts.plan, parts.csv)
        if part is not None
    ]
    steps.append(Delete(operator.kind, operator.namespace, operator.name, operator.uid, main=True))
    sentences = (
        *first,
        "The Subscription and what its failed install left are deleted; then the Subscription is "
        "created again with the same content, and OLM resolves and installs it again.",
        "The new InstallPlan fails, too, unless the cause of the failure was fixed.",
    )
    return plan_for(
        operator,
        Action.Verb.RETRY,
        (*steps, Apply(_whole_manifest(operator), main=True)),
        channel=operator.channel,
        consequences=sentences,
    )


def _remake_hindrance(operator: Operator, parts: _Parts) -> str:
    """What would be lost if the Subscription was made again; empty for nothing."""
    if parts.is_running:
        return f"{parts.current} runs all the same, so nothing is deleted"
    if parts.replaced is not None or parts.installed not in ("", parts.current):
        there = parts.replaced.name if parts.replaced is not None else parts.installed
        return f"{there} is installed, and would be in the way of a new Subscription"
    if parts.other_csvs:
        return f"the plan is also that of {', '.join(parts.other_csvs[:3])}"
    if applied_config(operator) is None:
        return "its spec.config is not known here, so it can't be made again as it was"
    return ""


# OLM 0.42 resolves anew for nothing less; a person has to decide on the deletions.
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


def _upgrade_by_hand(operator: Operator, parts: _Parts) -> tuple[str, ...]:
    """The remedy of an upgrade whose plan failed; empty for other failures, and if the plan belongs
    to other operators, too."""
    old = parts.replaced or _part(operator, CSV, parts.installed)
    if parts.plan is None or old is None or old.name == parts.current:
        return ()
    if parts.other_csvs or parts.is_running:
        return ()
    deleted = tuple(
        f"$ kubectl delete clusterserviceversion {{{key}}} -n {{namespace}}"
        for key, part in (("current", parts.csv), ("old", old))
        if part is not None
    )
    values = {
        "name": operator.name,
        "namespace": operator.namespace,
        "plan": parts.plan.name,
        "current": parts.current,
        "old": old.name,
    }
    return fill_steps((*_UPGRADE, *deleted, *_BACK), values)


def _whole_manifest(operator: Operator) -> Manifest:
    """The Subscription with its whole spec."""
    details = details_of(operator)
    spec = METHODS[operator.kind].least_spec(operator) | {
        "channel": operator.channel,
        "startingCSV": str(details.get("starting_csv") or ""),
        "installPlanApproval": str(details.get("approval") or ""),
        "config": applied_config(operator) or {},
    }
    return manifest_of(
        *(SUBSCRIPTIONS, operator.name, operator.namespace),
        version_of(operator.cluster, SUBSCRIPTIONS),
        spec={key: value for key, value in spec.items() if value},
    )


def _failed_unpacks(operator: Operator, plan: Component | None) -> dict[str, str]:
    """Bundle -> image of the bundles that OLM v0 gave up unpacking for the Subscription.

    OLM reports a failed unpack on every Subscription of the namespace, but its bundle only on an
    InstallPlan; without that it is the next bundle of the Subscription.
    """
    failed = any(
        row.get("type") == "BundleUnpackFailed" and row.get("status") == "True"
        for row in operator.conditions
    )
    lookups = details_of(plan).get("lookups") or [] if plan else []
    names = [
        str(row.get("identifier") or "")
        for row in lookups
        if any(
            status.get("type") == "BundleLookupFailed" and status.get("status") == "True"
            for status in row.get("conditions") or []
        )
    ]
    package = catalog_package(operator)
    if package is None:
        return {}
    if not names and failed:
        names = [_next_bundle(operator, package)]
    rows = Bundle.objects.filter(package__catalog=package.catalog_id, name__in=names)
    return dict(rows.exclude(image="").order_by("name").values_list("name", "image"))


def _next_bundle(operator: Operator, package: Package) -> str:
    """The next bundle of its channel after the installed one; empty when there is none."""
    if installed_bundle(operator):
        targets = targets_of(operator, facts_of(package))
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
    """The name of the ConfigMap and Job of a bundle in OLM v0 (bundle_unpacker.go, hash)."""
    return hashlib.sha256(image.encode()).hexdigest()[:63]


# --- PlatformOperators --------------------------------------------------------------------------


def _platform_operator(operator: Operator) -> Plan:
    """Acts on rukpak's objects, as the manager of PlatformOperators leaves retries to rukpak.

    Deletes a Bundle that failed to unpack, so that its BundleDeployment makes it again; but not one
    whose contents were rejected, as they would be again.
    """
    where = {"cluster": operator.cluster_id, "operator": operator}
    bundle = Component.objects.filter(**where, kind=BUNDLES.kind, phase="Failing").first()
    entry = by_id().get(operator.finding)
    if bundle is not None and (entry is None or entry.stage != "convert"):
        sentences = (
            f"Bundle {bundle.name}, which failed to unpack, is deleted; rukpak creates and "
            "unpacks it again.",
            "A problem of the image or its registry stays unless its cause was fixed.",
        )
        step = Delete(bundle.kind, "", bundle.name, bundle.uid)
        return _look_again(operator, step, sentences=sentences)
    deployment = Component.objects.filter(**where, kind=BUNDLE_DEPLOYMENTS.kind).first()
    if deployment is None:
        return _look_again(operator)
    version = version_of(operator.cluster, BUNDLE_DEPLOYMENTS)
    manifest = manifest_of(BUNDLE_DEPLOYMENTS, deployment.name, version=version)
    manifest["metadata"]["uid"] = deployment.uid
    return _look_again(operator, Apply(_annotated(manifest)))
